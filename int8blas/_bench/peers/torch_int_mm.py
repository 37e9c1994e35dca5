"""PyTorch's torch._int_mm."""

from __future__ import annotations

from functools import partial
from typing import Any

from int8blas._bench.peers.base import Peer, Prepared, compare, import_peer
from int8blas._bench.shapes import Operands


class IntMM(Peer):
    """The product of int8 matrices, with out=, so that no result tensor is allocated."""

    name, kind, library = "torch int_mm", "plain", "torch"

    def __init__(self) -> None:
        self._torch, self.version = import_peer("torch", "torch")

    def set_threads(self, threads: int) -> None:
        self._torch.set_num_threads(threads)

    def supports(self, problem: Any) -> bool:
        return problem.signs in ("u8s8", "s8s8")

    def prepare(self, operands: Operands, threads: int) -> Prepared:
        p = operands.problem
        a, b = self._torch.from_numpy(operands.a), self._torch.from_numpy(operands.b)
        c = self._torch.empty((p.m, p.n), dtype=self._torch.int32)
        return Prepared(partial(self._torch._int_mm, a, b, out=c), lambda: compare(operands, c.numpy()))


def peers(reuse_c: bool) -> list[Peer]:
    return [IntMM()]
