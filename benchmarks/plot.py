"""The figures: a roofline, and the ratio to the best peer per shape."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from peers.ours import PACKED, PLAIN
from results import GemmRow, Row


def save(groups: list[tuple[str, list[Row]]], path: Path, kinds: Sequence[Callable[..., None]]) -> str:
    """Draw a line of axes of these kinds per group of rows; returns an empty string, or why there is no figure."""
    try:
        import matplotlib
    except ImportError:
        return "no plot: the package matplotlib is not installed"
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    size = (16, 5 * len(groups))
    figure, axes = plt.subplots(len(groups), len(kinds), figsize=size, squeeze=False, layout="constrained")
    for (title, rows), line in zip(groups, axes, strict=True):
        for draw, axis in zip(kinds, line, strict=True):
            draw(axis, rows, title)
    figure.savefig(path, dpi=120)
    return ""


def roofline(axis, rows: list[GemmRow], title: str) -> None:
    """GOPS over operations per byte of A, B and C; each problem's own limits as short lines."""
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


def ratios(axis, rows: list[Row], title: str) -> None:
    """Bars of the ratios to the best peer, shapes in the order of their classes."""
    kinds = list(rows[0].best_peers)
    for place, kind in enumerate(kinds):
        offset = 0.4 * (place - (len(kinds) - 1) / 2)
        values = [row.ratios[f"{kind} / best peer"] or 0 for row in rows]
        axis.bar([index + offset for index in range(len(rows))], values, width=0.4, label=kind)
    axis.axhline(1, color="black", linewidth=0.8)
    labels = [f"{row.problem.cls} {row.problem}" for row in rows]
    axis.set_xticks(range(len(rows)), labels, rotation=60, ha="right", fontsize=7)
    axis.set(ylabel="int8blas / best peer")
    axis.set_title(f"{title}: ratio to the best peer")
    axis.legend(loc="lower right")
