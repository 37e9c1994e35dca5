"""Numbers from times: one `Row` per problem, with its ratios and percentages."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field

from convolutions import RESNET50, ConvolutionProblem
from peers.blas_f32 import SCIPY
from peers.ours import CERTIFIED, PACKED, PLAIN, SATURATING
from peers.ours_linear import BARE, FUSED
from recurrent import RecurrentProblem
from shapes import Problem, Product
from timing import Timing


@dataclass
class Entry:
    """One contestant on one problem."""

    name: str
    kind: str  # as of its `Peer`
    ours: bool
    comparable: bool
    timing: Timing | None = None  # None: it could not run
    fault: str = ""  # what is wrong with its result, or why it did not run

    @property
    def counts(self) -> bool:
        """Whether it may be the best peer: it computes in int8, and rightly."""
        return self.timing is not None and not self.fault and not self.ours and self.comparable and self.kind != "f32"


@dataclass
class Row(ABC):
    """All contestants on one problem."""

    problem: Product | ConvolutionProblem | RecurrentProblem
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
        """How many times as fast as `other` `name` is."""
        mine, theirs = self.seconds(name), self.seconds(other)
        return theirs / mine if mine and theirs else None

    def peak_share(self, name: str) -> float | None:
        """Fraction of the compute peak."""
        gops = self.gops(name)
        return gops / self.peak_gops if gops and self.peak_gops else None

    def fastest(self, eligible: Callable[[Entry], bool]) -> str | None:
        names = [entry.name for entry in self.entries.values() if entry.timing is not None and eligible(entry)]
        return min(names, key=lambda name: self.seconds(name) or math.inf, default=None)

    @property
    @abstractmethod
    def best_peers(self) -> dict[str, str | None]:
        """For each way of int8blas's to compute the problem the fastest peer that computes the same."""

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

    read_gbs: float | None = None  # streaming read of as many bytes as A and B have

    @property
    def best_peers(self) -> dict[str, str | None]:
        """Packed B competes with all peers."""
        kinds = {"plain": ("plain",), "packed": ("plain", "packed")}
        return {
            name: self.fastest(lambda entry, k=kind: entry.counts and entry.kind in k) for name, kind in kinds.items()
        }

    @property
    def ratios(self) -> dict[str, float | None]:
        """The last two where an ISA is forced."""
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

    def read_share(self, name: str) -> float | None:
        """Fraction of the streaming-read bandwidth, if A and B are read once."""
        seconds = self.seconds(name)
        return self.problem.operand_bytes / seconds / 1e9 / self.read_gbs if seconds and self.read_gbs else None

    def as_json(self) -> dict[str, object]:
        return super().as_json() | {"read_gbs": self.read_gbs}


@dataclass
class LayerRow(Row):
    """Quantized layers, and the bare integer product that is part of each."""

    @property
    def best_peers(self) -> dict[str, str | None]:
        return {"fused": self.fastest(lambda entry: entry.counts)}

    @property
    def ratios(self) -> dict[str, float | None]:
        """The last one where float32 layers take part."""
        ratios = {
            "fused / best peer": self.ratio(FUSED, self.best_peers["fused"]),
            "fused / s32 gemm": self.ratio(FUSED, BARE),
        }
        if any(entry.kind == "f32" for entry in self.entries.values()):
            ratios["fused / best f32"] = self.ratio(FUSED, self.fastest(lambda entry: entry.kind == "f32"))
        return ratios


@dataclass
class ShapeRow(LayerRow):
    """Layers whose shapes are more than three numbers."""

    def as_json(self) -> dict[str, object]:
        return super().as_json() | {"shape": str(self.problem)}


@dataclass
class ConvolutionRow(ShapeRow):
    """Convolutions, of which some occur in a network."""

    def as_json(self) -> dict[str, object]:
        return super().as_json() | {"occurrences": self.problem.occurrences}


@dataclass(frozen=True)
class Summary:
    """One ratio over the shapes of a class."""

    cls: str
    ratio: str
    mean: float
    worst: float
    worst_shape: str


def geometric_mean(values: Iterable[float]) -> float:
    logs = [math.log(value) for value in values]
    return math.exp(math.fsum(logs) / len(logs))


BEST_PEERS = "best peer of each layer"


def network_seconds(rows: Sequence[ConvolutionRow]) -> dict[str, float]:
    """The time of each contestant, and of the best peers, for all convolutions of ResNet-50.

    Nothing if some were not measured; without contestants that cannot do them all.
    """
    layers = [row for row in rows if row.problem.occurrences]
    if len(layers) < sum(map(len, RESNET50.values())):
        return {}

    def total(names: Sequence[str]) -> float:
        return math.fsum(row.problem.occurrences * row.seconds(name) for row, name in zip(layers, names, strict=True))

    right = [{name for name, entry in row.entries.items() if not entry.fault} for row in layers]
    found = {name: total([name] * len(layers)) for name in layers[0].entries if all(name in names for names in right)}
    best = [row.best_peers["fused"] for row in layers]
    return found | {BEST_PEERS: total(best)} if all(best) else found


def compare_signs(base: list[GemmRow], other: list[GemmRow]) -> dict[str, dict[Problem, float]]:
    """The speed of int8blas on rows of one sign pair over that on the same shapes of another."""
    speeds = {(row.problem.cls, str(row.problem)): row for row in base}
    pairs = [(row, speeds[row.problem.cls, str(row.problem)]) for row in other]
    found: dict[str, dict[Problem, float]] = {}
    for name in (PLAIN, PACKED):
        for row, reference in pairs:
            mine, theirs = row.seconds(name), reference.seconds(name)
            if mine and theirs:
                found.setdefault(name, {})[row.problem] = theirs / mine
    return found


def summarize(rows: Sequence[Row]) -> list[Summary]:
    """Per class, in the order of the rows, and for "all": geometric mean and worst shape of every ratio."""
    summaries = []
    for cls in [*dict.fromkeys(row.problem.cls for row in rows), "all"]:
        members = [row for row in rows if cls in ("all", row.problem.cls)]
        for ratio in dict.fromkeys(name for row in members for name in row.ratios):
            values = [(value, row) for row in members if (value := row.ratios.get(ratio)) is not None]
            if values:
                worst, row = min(values, key=lambda pair: pair[0])
                mean = geometric_mean(value for value, _ in values)
                summaries.append(Summary(cls, ratio, mean, worst, str(row.problem)))
    return summaries
