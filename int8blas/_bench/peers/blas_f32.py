"""float32 matrix products: scipy.linalg.blas.sgemm and numpy.matmul.

Both functions compute on float32 copies of the operands, in the memory order that the function takes without another
copy. The results may have a relative error of K float32 rounding errors.
"""

from __future__ import annotations

import contextlib
import importlib
from functools import partial
from typing import Any

import numpy as np

from int8blas._bench.peers.base import Peer, Prepared, UnavailableError
from int8blas._bench.shapes import Operands

SCIPY = "SciPy sgemm"


def _version(module: Any) -> str:
    """Return a module's version, and the version of its BLAS."""
    blas = module.show_config(mode="dicts")["Build Dependencies"]["blas"]
    return f"{module.__version__} with {blas['name']} {blas['version']}"


def _check(operands: Operands, result: np.ndarray) -> str:
    magnitude = 2.0**16 * operands.problem.k
    error = float(np.max(np.abs(result - operands.exact)))
    limit = operands.problem.k * np.finfo(np.float32).eps * magnitude
    return "" if error <= limit else f"an error of {error} is too large for float32"


class SciPy(Peer):
    """sgemm on Fortran-ordered operands. sgemm gets C with overwrite_c, like int8blas."""

    name, kind, library = SCIPY, "f32", "SciPy"

    def __init__(self, reuse_c: bool) -> None:
        try:
            scipy = importlib.import_module("scipy")
            self.sgemm = importlib.import_module("scipy.linalg.blas").sgemm
        except ImportError:
            raise UnavailableError("the package scipy is not installed") from None
        self.version, self._reuse_c = _version(scipy), reuse_c

    def supports(self, problem: Any) -> bool:
        return True

    def prepare(self, operands: Operands, threads: int) -> Prepared:
        a, b = (np.asfortranarray(x.astype(np.float32)) for x in (operands.a, operands.b))
        run = partial(self.sgemm, 1.0, a, b)
        if self._reuse_c:
            c = np.zeros((operands.problem.m, operands.problem.n), np.float32, order="F")
            run = partial(self.sgemm, 1.0, a, b, c=c, overwrite_c=1)
        return Prepared(run, lambda: _check(operands, run()))


class NumPy(Peer):
    """numpy.matmul on C-ordered operands. matmul gets C as out=, like int8blas."""

    name, kind, library, version = "NumPy f32", "f32", "NumPy", _version(np)

    def __init__(self, reuse_c: bool) -> None:
        self._reuse_c = reuse_c

    def supports(self, problem: Any) -> bool:
        return True

    def prepare(self, operands: Operands, threads: int) -> Prepared:
        a, b = operands.a.astype(np.float32), operands.b.astype(np.float32)
        run = partial(np.matmul, a, b)
        if self._reuse_c:
            run = partial(np.matmul, a, b, out=np.empty((operands.problem.m, operands.problem.n), np.float32))
        return Prepared(run, lambda: _check(operands, run()))


def peers(reuse_c: bool) -> list[Peer]:
    found: list[Peer] = [NumPy(reuse_c)]
    with contextlib.suppress(UnavailableError):
        found.insert(0, SciPy(reuse_c))
    return found
