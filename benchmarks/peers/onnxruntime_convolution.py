"""ONNX Runtime's QLinearConv: ONNX's operator on NCHW, and the operator of com.microsoft on NHWC."""

from __future__ import annotations

import numpy as np
from int8blas._bench.peers.base import Peer, Prepared
from int8blas._bench.peers.onnxruntime_matmul import MICROSOFT, Runtime

from convolutions import SRC_SCALE, ConvolutionOperands, ConvolutionProblem


class Convolution(Peer):
    """A session of one node with constant weights; its saturation at the output's zero point is the ReLU."""

    kind, library = "convolution", "onnxruntime"

    def __init__(self, runtime: Runtime, layout: str) -> None:
        self.name, self._nchw = f"ORT {layout}", layout == "NCHW"
        self._runtime, self.version = runtime, runtime.version

    def supports(self, problem: ConvolutionProblem) -> bool:
        return True

    def prepare(self, operands: ConvolutionOperands, threads: int) -> Prepared:
        p = operands.problem
        src, dst = operands.src, np.empty(operands.shape, np.uint8)
        if self._nchw:
            src, dst = (np.ascontiguousarray(array.transpose(0, 3, 1, 2)) for array in (src, dst))
        constants = {
            "src_scale": SRC_SCALE,
            "src_zero_point": np.uint8(0),
            "weights": operands.weights,
            "weight_scales": operands.weight_scales,
            "weight_zero_points": np.zeros(p.oc, np.int8),
            "dst_scale": operands.dst_scale,
            "dst_zero_point": np.uint8(0),
            "bias": operands.bias_s32,
        }
        geometry = {
            "strides": [p.stride] * 2,
            "pads": [*p.padding, *p.padding],
            "dilations": [p.dilation] * 2,
            "group": p.groups,
        }
        if not self._nchw:
            geometry["channels_last"] = 1
        run, keep = self._runtime.bind(
            "QLinearConv",
            ["src", *constants],
            {"src": src},
            constants,
            dst,
            threads,
            "" if self._nchw else MICROSOFT,
            **geometry,
        )
        return Prepared(run, lambda: operands.check(dst.transpose(0, 2, 3, 1) if self._nchw else dst), keep=keep)


def peers() -> list[Peer]:
    runtime = Runtime()
    return [Convolution(runtime, "NCHW"), Convolution(runtime, "NHWC")]
