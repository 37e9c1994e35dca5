"""oneDNN's convolution primitive with scales, ReLU and uint8 output."""

from __future__ import annotations

import ctypes
from functools import partial

import numpy as np
from int8blas._bench.peers.base import Peer, Prepared

from convolutions import SRC_SCALE, ConvolutionOperands, ConvolutionProblem
from peers.onednn import ConvolutionStruct, Plan, load_shim


class Convolution(Peer):
    """The primitive on NHWC, with the weights in the layout that it chooses; its attributes hold the epilogue."""

    name, kind, library = "oneDNN", "convolution", "oneDNN"

    def __init__(self, shim: ctypes.CDLL, version: str) -> None:
        self._shim, self.version = shim, version

    def supports(self, problem: ConvolutionProblem) -> bool:
        return True

    def prepare(self, operands: ConvolutionOperands, threads: int) -> Prepared:
        p = operands.problem
        names = ("batch", "h", "w", "ic", "kh", "kw", "oc", "oh", "ow", "stride", "dilation", "groups")
        sizes = {name: getattr(p, name) for name in names}
        (sizes["top"], sizes["left"]), dst = p.padding, np.empty(operands.shape, np.uint8)
        arrays = {
            "src": operands.src,
            "weights": operands.weights,
            "dst": dst,
            "bias": operands.bias,
            "src_scale": np.array([SRC_SCALE]),
            "weight_scales": operands.weight_scales,
            "dst_scale": np.array([operands.dst_scale]),
        }
        plan = Plan(self._shim, ConvolutionStruct, sizes, arrays)
        return Prepared(partial(self._shim.onednn_run, plan.pointer), lambda: operands.check(dst), keep=plan)


def peers() -> list[Peer]:
    shim, version = load_shim()
    return [Convolution(shim, version)]
