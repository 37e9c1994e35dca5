"""oneDNN's matmul and inner-product primitives with scales, ReLU and uint8 output."""

from __future__ import annotations

import ctypes
from functools import partial

import numpy as np
from int8blas._bench.peers.base import Peer, Prepared

from linear import DST_ZERO_POINT, SRC_SCALE, SRC_ZERO_POINT, LinearOperands
from peers.base import LayerPeer
from peers.onednn import Plan, ProductStruct, load_shim


class Primitive(LayerPeer):
    """One primitive with the weights in the layout that it chooses; its attributes hold the whole epilogue.

    The inner product has no zero points: the bias includes the source's zero point, as the weights are known
    beforehand.
    """

    kind, library = "static", "oneDNN"

    def __init__(self, shim: ctypes.CDLL, version: str, operation: str) -> None:
        self.name, self.version = f"oneDNN {operation}", version
        self._shim, self._inner_product = shim, operation == "inner product"

    def prepare(self, operands: LinearOperands, threads: int) -> Prepared:
        assert DST_ZERO_POINT == 0  # the shim sets none
        p = operands.problem
        dst = np.empty((p.m, p.n), np.uint8)
        sizes = {"inner_product": self._inner_product, "packed": True, "outputs_first": True}
        arrays = {
            "src": operands.src_u8,
            "weights": operands.weights,
            "dst": dst,
            "bias": operands.bias,
            "src_scale": np.array([SRC_SCALE]),
            "weight_scales": operands.weight_scales,
            "dst_scale": np.array([operands.dst_scale]),
        }
        if self._inner_product:
            sums = operands.weights.sum(axis=1, dtype=np.int64)
            arrays["bias"] = (operands.bias - SRC_ZERO_POINT * sums * operands.scales).astype(np.float32)
        else:
            arrays["src_zero_point"] = np.array([SRC_ZERO_POINT], np.int32)
        plan = Plan(self._shim, ProductStruct, {**sizes, "m": p.m, "n": p.n, "k": p.k}, arrays)
        return Prepared(partial(self._shim.onednn_run, plan.pointer), lambda: operands.check_static(dst), keep=plan)


def peers() -> list[Peer]:
    shim, version = load_shim()
    return [Primitive(shim, version, operation) for operation in ("inner product", "matmul")]
