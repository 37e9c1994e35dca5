"""The results of compare_builds.py: ratios of shapes and classes, shapes to measure again, and slower ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from int8blas._bench.results import geometric_mean

if TYPE_CHECKING:
    from build_cases import Case


@dataclass
class Result:
    """One shape, measured once or several times."""

    case: Case
    seconds: list[dict[str, float]] = field(default_factory=list)  # "old" and "new", for each measurement
    fault: str = ""  # the reason why the shape was not timed, or how the results differ

    @property
    def ratios(self) -> list[float]:
        """Return the ratio of each measurement."""
        return [times["old"] / times["new"] for times in self.seconds]

    def best(self, build: str) -> float:
        return min(times[build] for times in self.seconds)

    @property
    def ratio(self) -> float:
        """Return the ratio of the shortest times of all measurements."""
        return self.best("old") / self.best("new")


@dataclass(frozen=True)
class ClassRatio:
    """The shapes of a class."""

    cls: str
    mean: float
    worst: Result
    shapes: int


def class_ratios(results: Sequence[Result]) -> list[ClassRatio]:
    """Return the ratios of the measured shapes, in the order of the results."""
    found = []
    measured = [result for result in results if result.seconds]
    for cls in dict.fromkeys(result.case.cls for result in measured):
        members = [result for result in measured if result.case.cls == cls]
        mean = geometric_mean(result.ratio for result in members)
        found.append(ClassRatio(cls, mean, min(members, key=lambda result: result.ratio), len(members)))
    return found


def to_repeat(results: Sequence[Result], class_bound: float, shape_bound: float) -> list[Result]:
    """Return the shapes to measure again: shapes below their bound, and all shapes of a class below its bound."""
    low = {entry.cls for entry in class_ratios(results) if entry.mean < class_bound}
    return [result for result in results if result.seconds and (result.case.cls in low or result.ratio < shape_bound)]


def slower(results: Sequence[Result], class_bound: float, shape_bound: float) -> tuple[list[ClassRatio], list[Result]]:
    """Return the classes below their bound, and the shapes that were below their bound in each of several
    measurements."""
    classes = [entry for entry in class_ratios(results) if entry.mean < class_bound]
    shapes = [result for result in results if len(result.ratios) > 1 and max(result.ratios) < shape_bound]
    return classes, shapes
