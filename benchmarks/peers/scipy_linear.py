"""scipy.linalg.blas.sgemm as a float32 layer."""

from __future__ import annotations

from functools import partial

import numpy as np
from int8blas._bench.peers.base import Peer, Prepared
from int8blas._bench.peers.blas_f32 import SCIPY, SciPy

from linear import LinearOperands
from peers.base import LayerPeer


class Linear(LayerPeer):
    """The product only, transposed so that no operand is copied: dst.T = weights @ src.T."""

    name, kind, library = SCIPY, "f32", "SciPy"

    def __init__(self) -> None:
        blas = SciPy(reuse_c=True)
        self.version, self._sgemm = blas.version, blas.sgemm

    def prepare(self, operands: LinearOperands, threads: int) -> Prepared:
        p = operands.problem
        weights = operands.weights * operands.weight_scales[:, None]
        dst = np.empty((p.m, p.n), np.float32)
        run = partial(self._sgemm, 1.0, weights.T, operands.src_f32.T, c=dst.T, trans_a=True, overwrite_c=1)
        return Prepared(run, lambda: operands.check_dynamic(dst + operands.bias, quantized=False))


def peers() -> list[Peer]:
    return [Linear()]
