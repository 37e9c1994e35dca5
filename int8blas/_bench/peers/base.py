"""The classes of contestants."""

from __future__ import annotations

import importlib
import importlib.metadata
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from int8blas._bench.shapes import Operands


class UnavailableError(RuntimeError):
    """The peer is not installed or cannot be used. The message has one line."""


@dataclass
class Prepared:
    """One problem, ready to run any number of times."""

    run: Callable[[], object]
    check: Callable[[], str]  # after a run, returns an empty string, or the error of the result
    keep: Any = None  # objects whose memory `run` uses through bare pointers


class Peer(ABC):
    """A way to compute the product of two matrices, or a layer.

    `name` is unique, and heads a column, so its words have at most 8 letters where possible. `kind` is "plain" for a
    peer that gets a plain B in each call, "packed" for a peer that may pack B once in `prepare`, or "f32" for a peer
    that works on float32 copies. A layer has the kind of its problem. `library` and `version` describe the library that
    the peer calls. `comparable` is False if the peer computes less than the benchmark asks for, such as a GEMM with an
    int8 result. A peer that is not comparable is never the best peer.
    """

    name: str
    kind: str
    library: str
    version: str
    comparable: bool = True

    def set_threads(self, threads: int) -> None:  # noqa: B027 - most peers are reached by threadpoolctl
        """Use `threads` threads from now on; called before `prepare`."""

    @abstractmethod
    def supports(self, problem: Any) -> bool:
        """Return whether the peer can compute this problem."""

    @abstractmethod
    def prepare(self, operands: Any, threads: int) -> Prepared:
        """Convert, pack and bind the operands of a problem. The benchmark does not time this method."""


def compare(operands: Operands, result: np.ndarray) -> str:
    """Describe how `result` differs from the exact product (or its float32 value, by the result's dtype)."""
    wrong = int(np.count_nonzero(result != operands.exact.astype(result.dtype)))
    if not wrong:
        return ""
    answer = f"{wrong} of {result.size} elements are wrong"
    if operands.b.dtype == np.int8:
        rows, columns = (np.unique(np.linspace(0, size - 1, 16, dtype=int)) for size in result.shape)
        if np.array_equal(result[np.ix_(rows, columns)], operands.saturating(rows, columns)):
            answer += " (sums of two products saturate to int16)"
    return answer


def import_peer(module: str, distribution: str) -> tuple[ModuleType, str]:
    """Return a module and the version of its distribution."""
    try:
        return importlib.import_module(module), importlib.metadata.version(distribution)
    except (ImportError, importlib.metadata.PackageNotFoundError):
        raise UnavailableError(f"the package {distribution} is not installed") from None


def find_library(distribution: str, prefix: str) -> Path:
    """Return the shared library of an installed distribution whose file name starts with `prefix`."""
    try:
        files = importlib.metadata.files(distribution) or []
    except importlib.metadata.PackageNotFoundError:
        raise UnavailableError(f"the package {distribution} is not installed") from None
    paths = sorted(Path(str(file.locate())).resolve() for file in files if file.name.startswith(prefix))
    if not paths:
        raise UnavailableError(f"the package {distribution} has no {prefix}*")
    return paths[0]
