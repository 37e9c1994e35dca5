"""The figure of the ratio to the best peer per shape."""

from __future__ import annotations

from int8blas._bench.results import Row


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
