"""int8blas's convolutions, called as a user calls them, and the bare product of the same sizes."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from int8blas._bench.peers.base import Peer, Prepared
from int8blas._bench.peers.ours import LIBRARY, int8blas

from convolutions import SRC_SCALE, ConvolutionOperands, ConvolutionProblem
from peers.ours_linear import BARE, FUSED


def convolution(api: Any, operands: ConvolutionOperands) -> Any:
    """Return the layer; `api` is int8blas, or stands for it (see calls.py)."""
    p = operands.problem
    return api.Convolution(
        operands.weights,
        operands.bias,
        strides=p.stride,
        padding=[(zeros, zeros) for zeros in p.padding],
        dilation=p.dilation,
        groups=p.groups,
        layout="nhwc",
        src_dtype=np.uint8,
        dst_dtype=np.uint8,
        attributes=api.Attributes(post_ops=[api.ReLU()]),
        scales={"src": SRC_SCALE, "weights": operands.weight_scales, "dst": operands.dst_scale},
        zero_points={"src": 0, "dst": 0},
    )


class Convolution(Peer):
    """A Convolution, created once, with its weights packed; each call fills a given dst."""

    name, kind, library, version = FUSED, "convolution", LIBRARY, int8blas.__version__

    def supports(self, problem: ConvolutionProblem) -> bool:
        return True

    def prepare(self, operands: ConvolutionOperands, threads: int) -> Prepared:
        dst = np.empty(operands.shape, np.uint8)
        run = partial(convolution(int8blas, operands), operands.src, out=dst)
        return Prepared(run, lambda: operands.check(dst, tolerance=0))


class Product(Peer):
    """The int32 product of packed weights with an existing im2col matrix, as a baseline for the layer.

    The matrix holds arbitrary bytes, as only the time matters; bench_gemm.py checks the product.
    """

    name, kind, library, version, comparable = BARE, "s32", LIBRARY, int8blas.__version__, False

    def supports(self, problem: ConvolutionProblem) -> bool:
        return problem.groups == 1

    def prepare(self, operands: ConvolutionOperands, threads: int) -> Prepared:
        p = operands.problem
        columns = np.resize(operands.src, (p.batch * p.oh * p.ow, p.k))
        packed = int8blas.pack_b(operands.weights.reshape(p.oc, p.k), trans_b=True)
        c = np.empty((len(columns), p.oc), np.int32)
        return Prepared(partial(int8blas.gemm_u8s8s32, 1, columns, packed, 0, c, overwrite_c=True), lambda: "")


def contestants() -> list[Peer]:
    return [Convolution(), Product()]
