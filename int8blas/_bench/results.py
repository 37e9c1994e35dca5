"""Compute ratios and percentages from times: a `Row` for each problem, and a `ClassMeans` for each class of shapes."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from int8blas._bench.peers.blas_f32 import SCIPY
from int8blas._bench.peers.ours import CERTIFIED, PACKED, PLAIN, SATURATING
from int8blas._bench.shapes import Problem
from int8blas._bench.timing import Timing


def geometric_mean(values: Iterable[float]) -> float:
    logs = [math.log(value) for value in values]
    return math.exp(math.fsum(logs) / len(logs))


@dataclass
class Entry:
    """One contestant on one problem."""

    name: str
    kind: str  # the kind of its `Peer`
    ours: bool
    comparable: bool
    timing: Timing | None = None  # None if the contestant could not run
    fault: str = ""  # the error of the result, or the reason why the contestant did not run

    @property
    def counts(self) -> bool:
        """Whether the contestant may be the best peer, because it computes in int8 and has the right result."""
        return self.timing is not None and not self.fault and not self.ours and self.comparable and self.kind != "f32"


@dataclass
class Row(ABC):
    """All contestants on one problem."""

    problem: Any  # a dataclass with cls and operations
    threads: int
    entries: dict[str, Entry]
    peak_gops: float | None = None  # compute peak
    statistic: str = field(default="best", repr=False, kw_only=True)  # "best" (the minimum) or "median"

    def seconds(self, name: str | None) -> float | None:
        entry = self.entries.get(name) if name is not None else None
        return getattr(entry.timing, self.statistic) if entry is not None and entry.timing is not None else None

    def gops(self, name: str) -> float | None:
        seconds = self.seconds(name)
        return self.problem.operations / seconds / 1e9 if seconds else None

    def ratio(self, name: str, other: str | None) -> float | None:
        """Return the speed of `name` divided by the speed of `other`."""
        mine, theirs = self.seconds(name), self.seconds(other)
        return theirs / mine if mine and theirs else None

    def peak_share(self, name: str) -> float | None:
        """Return the fraction of the compute peak."""
        gops = self.gops(name)
        return gops / self.peak_gops if gops and self.peak_gops else None

    def fastest(self, eligible: Callable[[Entry], bool]) -> str | None:
        names = [entry.name for entry in self.entries.values() if entry.timing is not None and eligible(entry)]
        return min(names, key=lambda name: self.seconds(name) or math.inf, default=None)

    @property
    @abstractmethod
    def best_peers(self) -> dict[str, str | None]:
        """For each way in which int8blas computes the problem, return the fastest peer that computes the problem in
        this way."""

    @property
    @abstractmethod
    def ratios(self) -> dict[str, float | None]:
        """The speed ratios of the tables."""

    def as_json(self) -> dict[str, object]:
        sizes = asdict(self.problem)
        return {
            "class": sizes.pop("cls"),
            **sizes,
            "threads": self.threads,
            "peak_gops": self.peak_gops,
            "best_peer": self.best_peers,
            "ratio": self.ratios,
            "contestants": {
                entry.name: {
                    "kind": entry.kind,
                    "comparable": entry.comparable,
                    "fault": entry.fault,
                    **(
                        {
                            "best_s": entry.timing.best,
                            "median_s": entry.timing.median,
                            "samples": len(entry.timing.seconds),
                            "calls_per_sample": entry.timing.inner,
                            "gops": self.gops(entry.name),
                        }
                        if entry.timing is not None
                        else {}
                    ),
                }
                for entry in self.entries.values()
            },
        }


@dataclass
class GemmRow(Row):
    """Integer products with an int32 result, and the peaks of the machine."""

    problem: Problem
    read_gbs: float | None = None  # streaming read of a buffer of the size of A and B

    @property
    def best_peers(self) -> dict[str, str | None]:
        """The fastest peer for a plain B and for a packed B of int8blas. The packed B is compared with all peers."""
        kinds = {"plain": ("plain",), "packed": ("plain", "packed")}

        def fastest(allowed: tuple[str, ...]) -> str | None:
            return self.fastest(lambda entry: entry.counts and entry.kind in allowed)

        return {name: fastest(allowed) for name, allowed in kinds.items()}

    @property
    def ratios(self) -> dict[str, float | None]:
        """Return the speed ratios of the tables. The last two ratios exist if an ISA is forced."""
        best = self.best_peers
        ratios = {
            "plain / best peer": self.ratio(PLAIN, best["plain"]),
            "packed / best peer": self.ratio(PACKED, best["packed"]),
            "packed / SciPy": self.ratio(PACKED, SCIPY),
        }
        if SATURATING in self.entries:
            ratios["any B / satur."] = self.ratio(PACKED, SATURATING)
            ratios["certif. / satur."] = self.ratio(CERTIFIED, SATURATING)
        return ratios

    @property
    def reading_bound(self) -> bool:
        """Return whether reading A and B takes longer, at the machine's limits, than multiplying them."""
        if not self.read_gbs or not self.peak_gops:
            return False
        return self.problem.operand_bytes / self.read_gbs > self.problem.operations / self.peak_gops

    def speed_over(self, name: str) -> float | None:
        """Return int8blas's speed divided by the speed of a correct contestant. int8blas gets a packed B if the
        contestant gets a packed B."""
        entry = self.entries[name]
        return None if entry.fault else self.ratio(PACKED if entry.kind == "packed" else PLAIN, name)

    def read_share(self, name: str) -> float | None:
        """Return the fraction of the streaming-read bandwidth that int8blas reaches if it reads A and B once."""
        seconds = self.seconds(name)
        return self.problem.operand_bytes / seconds / 1e9 / self.read_gbs if seconds and self.read_gbs else None

    def as_json(self) -> dict[str, object]:
        return super().as_json() | {"read_gbs": self.read_gbs}


@dataclass(frozen=True)
class ClassMeans:
    """Geometric means over the shapes of a class, by the names of contestants. Contestants without values are omitted.

    The shares and `gops` are means for int8blas. `read_share` is the mean over the shapes whose limit is reading A and
    B.
    """

    cls: str
    shapes: list[str]
    gops: dict[str, float]
    peak_share: dict[str, float]
    read_share: dict[str, float]
    speed_over: dict[str, float]


def _means(values: Iterable[tuple[str, float | None]]) -> dict[str, float]:
    """Return for each name the mean of the values that are not None."""
    found: dict[str, list[float]] = {}
    for name, value in values:
        if value is not None:
            found.setdefault(name, []).append(value)
    return {name: geometric_mean(numbers) for name, numbers in found.items()}


def class_means(rows: Sequence[GemmRow]) -> list[ClassMeans]:
    """Return the means per class, in the order of the rows."""
    found = []
    for cls in dict.fromkeys(row.problem.cls for row in rows):
        members = [row for row in rows if row.problem.cls == cls]
        ours = [(row, name) for row in members for name, entry in row.entries.items() if entry.ours]
        others = [(row, name) for row in members for name, entry in row.entries.items() if not entry.ours]
        found.append(
            ClassMeans(
                cls,
                [str(row.problem) for row in members],
                _means((name, row.gops(name)) for row, name in ours),
                _means((name, row.peak_share(name)) for row, name in ours),
                _means((name, row.read_share(name)) for row, name in ours if row.reading_bound),
                _means((name, row.speed_over(name)) for row, name in others),
            )
        )
    return found
