"""int8blas's linear layers, called as a user calls them, and the bare product."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from int8blas._bench.peers.base import Peer, Prepared
from int8blas._bench.peers.ours import LIBRARY, int8blas

from linear import DST_ZERO_POINT, SRC_SCALE, SRC_ZERO_POINT, LinearOperands, LinearProblem
from peers.base import LayerPeer

FUSED, BARE = "int8blas", "int8blas s32 gemm"


def inner_product(api: Any, operands: LinearOperands) -> Any:
    """Return the layer of a problem's kind; `api` is int8blas, or stands for it (see calls.py)."""
    if operands.problem.kind == "dynamic":
        return api.InnerProduct(
            operands.weights,
            operands.bias,
            src_dtype=np.float32,
            dst_dtype=np.float32,
            dynamic="per_row",
            scales={"weights": operands.weight_scales},
        )
    return api.InnerProduct(
        operands.weights,
        operands.bias,
        src_dtype=np.uint8,
        dst_dtype=np.uint8,
        attributes=api.Attributes(post_ops=[api.ReLU()]),
        scales={"src": SRC_SCALE, "weights": operands.weight_scales, "dst": operands.dst_scale},
        zero_points={"src": SRC_ZERO_POINT, "dst": DST_ZERO_POINT},
    )


class InnerProduct(LayerPeer):
    """An InnerProduct, created once, with its weights packed; each call fills a given dst."""

    name, library, version = FUSED, LIBRARY, int8blas.__version__

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def prepare(self, operands: LinearOperands, threads: int) -> Prepared:
        shape = operands.problem.m, operands.problem.n
        layer = inner_product(int8blas, operands)
        if self.kind == "dynamic":
            dst = np.empty(shape, np.float32)
            return Prepared(partial(layer, operands.src_f32, out=dst), lambda: operands.check_dynamic(dst))
        dst = np.empty(shape, np.uint8)
        run = partial(layer, operands.src_u8, out=dst)
        return Prepared(run, lambda: operands.check_static(dst, tolerance=0))


class BareGemm(Peer):
    """The integer product of a layer with packed weights, as a baseline for the fused layer."""

    name, kind, library, version, comparable = BARE, "s32", LIBRARY, int8blas.__version__, False

    def supports(self, problem: LinearProblem) -> bool:
        return True

    def prepare(self, operands: LinearOperands, threads: int) -> Prepared:
        packed = int8blas.pack_b(operands.weights, trans_b=True)
        c = np.empty((operands.problem.m, operands.problem.n), np.int32)
        run = partial(int8blas.gemm_u8s8s32, 1, operands.src_u8, packed, 0, c, overwrite_c=True)
        return Prepared(run, lambda: "")  # bench_gemm.py checks it


def contestants() -> list[Peer]:
    return [InnerProduct("static"), InnerProduct("dynamic"), BareGemm()]
