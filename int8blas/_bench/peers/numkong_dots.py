"""NumKong's dots_packed: inner products of rows with packed rows, of two int8 or two uint8 matrices.

dots_packed has no threads, so runs on several threads measure dots_packed on one thread.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from int8blas._bench.peers.base import Peer, Prepared, compare, import_peer
from int8blas._bench.shapes import Operands

# For each ISA of int8blas, NumKong's kernels with instructions that the ISA lacks.
BEYOND = {
    "avx2": ("alder", "sierra", "skylake", "icelake", "genoa", "turin", "sapphire", "sapphireamx", "graniteamx"),
    "avx512bw": ("alder", "sierra", "icelake", "genoa", "turin", "sapphire", "sapphireamx", "graniteamx"),
}


class Dots(Peer):
    """dots_packed with out=, so that no result is allocated. The function multiplies by rows, so B is packed from its
    transpose."""

    name, kind, library = "NumKong packed", "packed", "NumKong"

    def __init__(self) -> None:
        self._numkong, self.version = import_peer("numkong", "numkong")

    def limit_isa(self, isa: str) -> None:
        """Disable the kernels with instructions that int8blas's ISA of this name lacks. Call this method before
        `prepare`."""
        for name in BEYOND.get(isa, ()):
            self._numkong.disable_capability(name)

    def supports(self, problem: Any) -> bool:
        return problem.signs in ("s8s8", "u8u8")

    def prepare(self, operands: Operands, threads: int) -> Prepared:
        p = operands.problem
        packed = self._numkong.dots_pack(np.ascontiguousarray(operands.b.T))
        c = self._numkong.zeros((p.m, p.n), dtype="int32" if p.signs == "s8s8" else "uint32")
        run = partial(self._numkong.dots_packed, operands.a, packed, out=c)
        return Prepared(run, lambda: compare(operands, np.asarray(c)), keep=operands)


def peers(reuse_c: bool) -> list[Peer]:
    return [Dots()]
