"""ONNX Runtime's quantized layers of the operator set com.microsoft."""

from __future__ import annotations

import numpy as np
from int8blas._bench.peers.base import Peer, Prepared
from int8blas._bench.peers.onnxruntime_matmul import MICROSOFT, Runtime

from linear import DST_ZERO_POINT, SRC_SCALE, SRC_ZERO_POINT, LinearOperands
from peers.base import LayerPeer


class Linear(LayerPeer):
    """A session of one node with constant weights, which it packs.

    Static: QGemm, with the bias in int32; its saturation at the output's zero point is the ReLU. Dynamic:
    DynamicQuantizeMatMul, which quantizes the source per tensor.
    """

    name, library = "ORT", "onnxruntime"

    def __init__(self, runtime: Runtime, kind: str) -> None:
        self._runtime, self.version, self.kind = runtime, runtime.version, kind

    def prepare(self, operands: LinearOperands, threads: int) -> Prepared:
        p = operands.problem
        weights = {
            "weights": np.ascontiguousarray(operands.weights.T),
            "weight_scales": operands.weight_scales,
            "weight_zero_points": np.zeros(p.n, np.int8),
        }
        if self.kind == "dynamic":
            dst = np.empty((p.m, p.n), np.float32)
            constants = {**weights, "bias": operands.bias}
            inputs = ["src", *constants]
            src, operator, check = operands.src_f32, "DynamicQuantizeMatMul", operands.check_dynamic
        else:
            assert DST_ZERO_POINT == 0  # without it a Relu would have to follow
            dst = np.empty((p.m, p.n), np.uint8)
            source = {"src_scale": SRC_SCALE, "src_zero_point": np.uint8(SRC_ZERO_POINT)}
            target = {"dst_scale": operands.dst_scale, "dst_zero_point": np.uint8(DST_ZERO_POINT)}
            constants = {**source, **weights, "bias": operands.bias_s32, **target}
            inputs = ["src", *constants]
            src, operator, check = operands.src_u8, "QGemm", operands.check_static
        run, keep = self._runtime.bind(operator, inputs, {"src": src}, constants, dst, threads, MICROSOFT)
        return Prepared(run, lambda: check(dst), keep=keep)


def peers() -> list[Peer]:
    runtime = Runtime()
    return [Linear(runtime, "static"), Linear(runtime, "dynamic")]
