"""LiteRT's fully connected layer with scales per output, which XNNPACK computes."""

from __future__ import annotations

import numpy as np
from int8blas._bench.peers.base import Peer, Prepared

from linear import DST_ZERO_POINT, SRC_SCALE, SRC_ZERO_POINT, LinearOperands
from peers.base import LayerPeer
from peers.litert import Runtime, Tensor, less_128


class Linear(LayerPeer):
    """An interpreter of one layer.

    Static: int8 source and result, uint8 values minus 128, with zero points that are 128 smaller; int32 bias; ReLU in
    the layer. Dynamic: float32 source, quantized per row, int8 weights and float32 bias and result.
    """

    name, library = "LiteRT", "LiteRT"

    def __init__(self, runtime: Runtime, kind: str) -> None:
        self._runtime, self.version, self.kind = runtime, runtime.version, kind

    def prepare(self, operands: LinearOperands, threads: int) -> Prepared:
        p = operands.problem
        source, target = (p.m, p.k), (p.m, p.n)
        weights = Tensor((p.n, p.k), np.int8, operands.weight_scales, 0, operands.weights)
        if self.kind == "dynamic":
            bias = Tensor((p.n,), np.float32, data=operands.bias)
            tensors = (Tensor(source, np.float32), weights, bias, Tensor(target, np.float32))
            layer = self._runtime.bind("FULLY_CONNECTED", operands.src_f32, tensors, threads)
            return Prepared(layer.invoke, lambda: operands.check_dynamic(layer.result()))
        bias = Tensor((p.n,), np.int32, operands.scales, 0, operands.bias_s32)
        src = Tensor(source, np.int8, [SRC_SCALE], SRC_ZERO_POINT - 128)
        dst = Tensor(target, np.int8, [operands.dst_scale], DST_ZERO_POINT - 128)
        layer = self._runtime.bind(
            "FULLY_CONNECTED", less_128(operands.src_u8), (src, weights, bias, dst), threads, relu=True
        )
        return Prepared(layer.invoke, lambda: operands.check_static(layer.result().view(np.uint8) ^ np.uint8(128)))


def peers() -> list[Peer]:
    runtime = Runtime()
    return [Linear(runtime, "static"), Linear(runtime, "dynamic")]
