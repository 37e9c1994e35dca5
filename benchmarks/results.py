"""The rows of layers, and summaries of rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from int8blas._bench.peers.ours import PACKED, PLAIN
from int8blas._bench.results import GemmRow, Row, geometric_mean
from int8blas._bench.shapes import Problem

from convolutions import RESNET50
from peers.ours_linear import BARE, FUSED


@dataclass
class LayerRow(Row):
    """Quantized layers, and the bare integer product that is part of each."""

    @property
    def best_peers(self) -> dict[str, str | None]:
        return {"fused": self.fastest(lambda entry: entry.counts)}

    @property
    def ratios(self) -> dict[str, float | None]:
        """The ratios; the last one is None unless float32 layers take part."""
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
    """A row for a convolution, with the number of times that it occurs in a network."""

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


BEST_PEERS = "best peer of each layer"


def network_seconds(rows: Sequence[ConvolutionRow]) -> dict[str, float]:
    """The time of each contestant, and of the fastest peer in each case, for all convolutions of ResNet-50.

    The result is empty if some convolutions were not measured. It omits contestants that cannot compute all
    convolutions.
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
    """The ratio of int8blas's speed for one sign pair to that for another, on the same shapes."""
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
