"""Tables for the terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping, Sequence

from int8blas._bench.peers.ours import PACKED, PLAIN
from int8blas._bench.report import WIDTH, number, percent, print_columns, print_faults
from int8blas._bench.results import GemmRow, Row, geometric_mean
from int8blas._bench.shapes import Problem

from peers.ours_linear import FUSED
from results import Summary

# Columns of a GEMM's table. "of read" is the time to read A and B once, at the streaming-read speed of a buffer of
# their size ("read"), over the time of the product.
PEAK_SHARES: dict[str, Callable[[GemmRow], str]] = {
    "packed\nof peak": lambda row: percent(row.peak_share(PACKED)),
    "packed\nof read": lambda row: percent(row.read_share(PACKED)),
    "plain\nof read": lambda row: percent(row.read_share(PLAIN)),
    "read\nGB/s": lambda row: number(row.read_gbs),
}

FUSED_SHARE: dict[str, Callable[[Row], str]] = {"int8blas\nof peak": lambda row: percent(row.peak_share(FUSED))}


def print_rows(rows: Sequence[Row], title: str, extra: Mapping[str, Callable[..., str]]) -> None:
    """Print GOPS of every contestant, the ratios and the `extra` columns (heading: cell of a row); then the wrong
    results."""
    names = list(dict.fromkeys(name for row in rows for name in row.entries))
    head = [[rows[0].problem.sizes], *(textwrap.wrap(name, WIDTH) for name in names)]
    ratios = list(dict.fromkeys(name for row in rows for name in row.ratios))
    head += [textwrap.wrap(name, WIDTH) for name in ratios]
    head += [heading.split("\n") for heading in extra]

    def cells(row: Row) -> list[str]:
        gops = []
        for name in names:
            entry = row.entries.get(name)
            mark = "!" if entry is not None and entry.fault and entry.timing is not None else ""
            gops.append(number(row.gops(name)) + mark)
        found = row.ratios
        return [
            str(row.problem),
            *gops,
            *(number(found.get(name)) for name in ratios),
            *(cell(row) for cell in extra.values()),
        ]

    print(f"\n{title} (GOPS = {rows[0].problem.formula} / time)")
    lengths = [max(len(word) for word in words) for words in head[1:]]
    print_columns(head, map(cells, rows), [max(len(str(row.problem)) for row in rows), *(max(5, n) for n in lengths)])
    peaks = [row.peak_gops for row in rows if row.peak_gops]
    if peaks:
        print(f"compute peak {number(min(peaks))} to {number(max(peaks))} GOPS over the rows")
    print_faults(rows)


def print_summary(summaries: list[Summary], title: str) -> None:
    """Print one line per class: geometric mean, worst ratio and its shape, for every ratio."""
    ratios = list(dict.fromkeys(summary.ratio for summary in summaries))
    cells = {(s.cls, s.ratio): [number(s.mean), number(s.worst), s.worst_shape] for s in summaries}
    classes = list(dict.fromkeys(summary.cls for summary in summaries))
    body = [[cls, *(cell for ratio in ratios for cell in cells.get((cls, ratio), ["-", "-", ""]))] for cls in classes]
    head = [["", "class"]]
    for ratio in ratios:
        head += [["", "mean"], ["", "worst"], [ratio, "at"]]
    shapes = [max(len(line[index]) for line in body) for index in range(3, 3 * len(ratios) + 1, 3)]
    widths = [
        width for ratio, shape in zip(ratios, shapes, strict=True) for width in (6, 6, max(len(ratio), shape) + 1)
    ]
    print(f"\n{title}: int8blas's speed over others', geometric means and worst shapes")
    print_columns(head, body, [max(8, *map(len, classes)), *widths])


def print_signs(ratios: Mapping[str, Mapping[Problem, float]], title: str) -> None:
    for name, values in ratios.items():
        worst = min(values, key=lambda problem: values[problem])
        mean = geometric_mean(values.values())
        print(f"{title}, {name}: geometric mean {number(mean)}, worst {number(values[worst])} at {worst}")


def print_network(seconds: Mapping[str, float], title: str) -> None:
    """Print the contestants, fastest first."""
    if seconds:
        print(f"\n{title}: milliseconds for all convolutions of ResNet-50")
    for name in sorted(seconds, key=lambda name: seconds[name]):
        print(f"{name:24} {number(1e3 * seconds[name]):>6}")
