"""The contestants of int8blas, which call its public functions."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

import int8blas
from int8blas._bench.peers.base import Peer, Prepared, compare
from int8blas._bench.shapes import Operands

LIBRARY = "int8blas"


class Int8blas(Peer):
    """gemm_XXs32(1.0, a, b) with a plain or packed b.

    With `reuse_c` all calls write to one C (c= and overwrite_c=True), like the C interfaces of peers. Without `reuse_c`
    each call creates a new C. `numerics` is the mode of the products. With `certified` the values of B are so small
    that the fast path of ISAs without VNNI is exact.
    """

    library, version = LIBRARY, int8blas.__version__

    def __init__(self, name: str, kind: str, *, reuse_c: bool = True, numerics: str = "exact", certified: bool = False):
        self.name, self.kind = name, kind
        self._reuse_c, self._numerics, self._certified = reuse_c, numerics, certified

    def supports(self, problem: Any) -> bool:
        return self._numerics == "exact" or problem.signs.endswith("s8")

    def prepare(self, operands: Operands, threads: int) -> Prepared:
        if self._certified:
            operands = Operands(operands.problem, certified=True)
        b = int8blas.pack_b(operands.b) if self.kind == "packed" else operands.b
        gemm = getattr(int8blas, f"gemm_{operands.problem.signs}s32")
        options: dict[str, object] = {} if self._numerics == "exact" else {"numerics": self._numerics}
        if self._reuse_c:
            c = np.empty((operands.problem.m, operands.problem.n), np.int32)
            options.update(c=c, overwrite_c=True)
        run = partial(gemm, 1.0, operands.a, b, **options)
        return Prepared(run, lambda: self._check(operands, run()))

    def _check(self, operands: Operands, result: np.ndarray) -> str:
        if self._numerics == "exact":
            return compare(operands, result)
        rows, columns = (np.unique(np.linspace(0, size - 1, 32, dtype=int)) for size in result.shape)
        expected = operands.saturating(rows, columns)
        wrong = int(np.count_nonzero(result[np.ix_(rows, columns)] != expected))
        return f"{wrong} of {expected.size} sampled elements are wrong" if wrong else ""


PLAIN, PACKED = "int8blas", "int8blas packed"
CERTIFIED, SATURATING = "int8blas packed certif.", "int8blas packed satur."


def contestants(c: str, isa: str | None) -> list[Peer]:
    """Return contestants of int8blas with plain and packed B. Add contestants with a new C if `c` asks for it, and
    contestants with other numerics if `isa` is forced."""
    found: list[Peer] = [Int8blas(PLAIN, "plain", reuse_c=c != "new"), Int8blas(PACKED, "packed", reuse_c=c != "new")]
    if c == "both":
        found += [Int8blas(f"{peer.name} new C", peer.kind, reuse_c=False) for peer in found]
    if isa is not None:
        found += [
            Int8blas(CERTIFIED, "packed", reuse_c=c != "new", certified=True),
            Int8blas(SATURATING, "packed", reuse_c=c != "new", numerics="saturating"),
        ]
    return found
