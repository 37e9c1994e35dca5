"""Draw the figures: a roofline, and the speed of int8blas relative to each contestant, by class of shapes."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from int8blas._bench.peers.ours import PACKED, PLAIN
from int8blas._bench.results import GemmRow, class_means


def obstacle(path: Path) -> str:
    """Return the reason why no figure can be written to the file, in one line, or an empty string."""
    try:
        bases = importlib.import_module("matplotlib.backend_bases")
    except ImportError:
        return "the package matplotlib is not installed; pip install 'int8blas[bench]'"
    known = bases.FigureCanvasBase.get_supported_filetypes()
    suffix = path.suffix.removeprefix(".")
    return "" if suffix in known else f"the file name must end in one of {', '.join(sorted(known))}, got {path.name!r}"


def save(groups: Sequence[tuple[str, list[Any]]], path: Path, kinds: Sequence[Callable[..., None]]) -> None:
    """Draw a row of axes of the given kinds for each group of rows. The function needs matplotlib."""
    importlib.import_module("matplotlib").use("Agg")
    plt = importlib.import_module("matplotlib.pyplot")
    size = (16, 5 * len(groups))
    figure, axes = plt.subplots(len(groups), len(kinds), figsize=size, squeeze=False, layout="constrained")
    for (title, rows), line in zip(groups, axes, strict=True):
        for draw, axis in zip(kinds, line, strict=True):
            draw(axis, rows, title)
    figure.savefig(path, dpi=120)


def roofline(axis: Any, rows: list[GemmRow], title: str) -> None:
    """Draw a roofline: GOPS against operations per byte of A, B and C. Short lines show the limits of each problem."""
    series = {PLAIN: "o", PACKED: "s", "best peer": "x"}
    for label, marker in series.items():
        points = []
        for row in rows:
            gops = row.gops(row.best_peers["packed"] or "") if label == "best peer" else row.gops(label)
            if gops:
                points.append((row.problem.operations / row.problem.total_bytes, gops))
        axis.scatter(*zip(*points, strict=True), marker=marker, label=label) if points else None
    for row in rows:
        if row.peak_gops and row.read_gbs:
            intensity = row.problem.operations / row.problem.total_bytes
            reading = row.read_gbs * row.problem.operations / row.problem.operand_bytes
            axis.plot([intensity / 1.15, intensity * 1.15], [min(row.peak_gops, reading)] * 2, color="grey", zorder=0)
    axis.set(xscale="log", yscale="log", xlabel="operations per byte of A, B and C", ylabel="GOPS")
    axis.set_title(f"{title}: roofline (grey: the lower of compute peak and reading A and B)")
    axis.legend()


def speeds(axis: Any, rows: list[GemmRow], title: str) -> None:
    """Draw bars of the speed relative to each other contestant, by class."""
    means = class_means(rows)
    others = list(dict.fromkeys(name for mean in means for name in mean.speed_over))
    width = 0.8 / max(len(others), 1)
    for place, name in enumerate(others):
        positions = [index + width * (place - (len(others) - 1) / 2) for index in range(len(means))]
        axis.bar(positions, [mean.speed_over.get(name, 0) for mean in means], width=width, label=name)
    axis.axhline(1, color="black", linewidth=0.8)
    axis.set_xticks(range(len(means)), [mean.cls for mean in means])
    axis.set(yscale="log", ylabel="times as fast")
    axis.set_title(f"{title}: int8blas's speed over others', by class of shapes")
    axis.legend()
