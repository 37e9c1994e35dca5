"""LiteRT's convolutions with scales per output channel, which XNNPACK computes."""

from __future__ import annotations

import numpy as np
from int8blas._bench.peers.base import Peer, Prepared

from convolutions import SRC_SCALE, ConvolutionOperands, ConvolutionProblem
from peers.litert import Runtime, Tensor, less_128


class Convolution(Peer):
    """An interpreter of one layer, CONV_2D or DEPTHWISE_CONV_2D, with int32 bias and ReLU.

    Source and result are int8: uint8 values minus 128, with zero points that are 128 smaller. With a stride, "SAME"
    padding may have one zero more at the end than at the beginning, but the problem's padding has it at the beginning:
    such images, their weights and results are reversed.
    """

    name, kind, library = "LiteRT", "convolution", "LiteRT"

    def __init__(self, runtime: Runtime) -> None:
        self._runtime, self.version = runtime, runtime.version

    def supports(self, problem: ConvolutionProblem) -> bool:
        return True

    def prepare(self, operands: ConvolutionOperands, threads: int) -> Prepared:
        p = operands.problem
        sizes = zip((p.h, p.w), (p.oh, p.ow), p.extent, p.padding, strict=True)
        order = (slice(None), *(slice(None, None, _step(*size, p.stride)) for size in sizes))
        src = np.ascontiguousarray(operands.src[order])
        weights, axis = operands.weights.transpose(0, 2, 3, 1)[order], 0
        if p.depthwise:
            weights, axis = weights.transpose(3, 1, 2, 0), 3
        tensors = (
            Tensor(src.shape, np.int8, [SRC_SCALE], -128),
            Tensor(weights.shape, np.int8, operands.weight_scales, 0, weights, axis),
            Tensor((p.oc,), np.int32, operands.scales, 0, operands.bias_s32),
            Tensor(operands.shape, np.int8, [operands.dst_scale], -128),
        )
        layer = self._runtime.bind(
            "DEPTHWISE_CONV_2D" if p.depthwise else "CONV_2D",
            less_128(src),
            tensors,
            threads,
            relu=True,
            padding=0,  # "SAME"
            strideH=p.stride,
            strideW=p.stride,
            dilationHFactor=p.dilation,
            dilationWFactor=p.dilation,
            **({"depthMultiplier": 1} if p.depthwise else {}),
        )

        def check() -> str:
            result = layer.result().view(np.uint8) ^ np.uint8(128)
            return operands.check(result[order])

        return Prepared(layer.invoke, check)


def _step(size: int, result: int, extent: int, padding: int, stride: int) -> int:
    """Return 1 if "SAME" gives this padding, -1 if it gives the reversed padding."""
    zeros = max((result - 1) * stride + extent - size, 0)
    if result != -(-size // stride) or padding not in (zeros // 2, zeros - zeros // 2):
        raise ValueError('"SAME" padding would be another')
    return 1 if padding == zeros // 2 else -1


def peers() -> list[Peer]:
    return [Convolution(Runtime())]
