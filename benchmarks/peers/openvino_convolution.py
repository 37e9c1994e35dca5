"""OpenVINO's convolutions with constant int8 weights and their scales, compiled to one node.

FakeQuantize nodes surround the layer, as OpenVINO's quantization tools write them; the compiler turns them into a uint8
source and result. Both are NHWC. The model is NCHW but computed in NHWC, so that its transpositions move no data.
"""

from __future__ import annotations

from types import ModuleType

import numpy as np
from int8blas._bench.peers.base import Peer, Prepared

from convolutions import SRC_SCALE, ConvolutionOperands, ConvolutionProblem
from peers.openvino_matmul import Runtime


class Convolution(Peer):
    """A compiled model of one layer; the input is shared memory and the output stays in the request."""

    name, kind, library = "OpenVINO", "convolution", "OpenVINO"

    def __init__(self) -> None:
        self._runtime = Runtime()
        self.version = self._runtime.version

    def supports(self, problem: ConvolutionProblem) -> bool:
        return True

    def prepare(self, operands: ConvolutionOperands, threads: int) -> Prepared:
        model = _model(self._runtime.ops, operands)
        run, request = self._runtime.bind(*model, operands.src, threads, {})
        return Prepared(run, lambda: operands.check(request.get_output_tensor().data), keep=operands)


def _model(ops: ModuleType, operands: ConvolutionOperands) -> tuple[object, object]:
    p = operands.problem

    def bounds(scale: float) -> list[object]:
        """Return the real values of 0 and 255."""
        return [ops.constant(np.float32(value * scale)) for value in (0, 255)]

    def transpose(node: object, *axes: int) -> object:
        return ops.transpose(node, ops.constant(np.array(axes)))

    source = ops.parameter(list(operands.src.shape), np.uint8)
    src = ops.multiply(ops.convert(transpose(source, 0, 3, 1, 2), "f32"), ops.constant(SRC_SCALE))
    src = ops.fake_quantize(src, *bounds(SRC_SCALE), *bounds(SRC_SCALE), 256)
    weights, scales = operands.weights, operands.weight_scales[:, None, None, None]
    convolution = ops.convolution
    if p.groups > 1:
        weights, scales = (array.reshape(p.groups, -1, *array.shape[1:]) for array in (weights, scales))
        convolution = ops.group_convolution
    weights = ops.multiply(ops.convert(ops.constant(weights), "f32"), ops.constant(scales))
    padding = list(p.padding)
    sums = convolution(src, weights, [p.stride] * 2, padding, padding, [p.dilation] * 2)
    activated = ops.relu(ops.add(sums, ops.constant(operands.bias[None, :, None, None])))
    dst = ops.fake_quantize(activated, *bounds(operands.dst_scale), *bounds(1), 256)
    return source, transpose(ops.convert(dst, "u8"), 0, 2, 3, 1)


def peers() -> list[Peer]:
    return [Convolution()]
