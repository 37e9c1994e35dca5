"""The tables on the terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence

from peers.ours import PACKED, PLAIN
from peers.ours_linear import FUSED
from results import GemmRow, Row, Summary, geometric_mean
from shapes import Problem

WIDTH = 8  # of a contestant's column


def number(value: float | None) -> str:
    """Three significant digits; a dash for nothing."""
    if value is None:
        return "-"
    return f"{value:.0f}" if value >= 99.95 else f"{value:.1f}" if value >= 9.995 else f"{value:.2f}"


def percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.0f}%"


def _print_columns(head: list[list[str]], body: Iterable[list[str]], widths: list[int]) -> None:
    lines = []
    for line in range(max(map(len, head))):
        lines.append([words[line] if line < len(words) else "" for words in head])
    for cells in [*lines, *body]:
        print(" ".join([cells[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(cells[1:], widths[1:], strict=True))]))


def print_header(environment: Mapping[str, object], versions: Mapping[str, str], missing: Mapping[str, str]) -> None:
    caches = ", ".join(f"{level} {size}" for level, size in dict(environment["caches"]).items())  # type: ignore[call-overload]
    print(f"{environment['cpu']}, {environment['cpus']} CPUs ({caches}), {environment['system']}")
    print(f"Python {environment['python']}, " + ", ".join(f"{name} {version}" for name, version in versions.items()))
    for name, reason in missing.items():
        print(f"not measured: {name}: {reason}")


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
    """GOPS of every contestant, the ratios and the `extra` columns (heading: cell of a row); then what was wrong."""
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
    _print_columns(head, map(cells, rows), [max(len(str(row.problem)) for row in rows), *(max(5, n) for n in lengths)])
    peaks = [row.peak_gops for row in rows if row.peak_gops]
    if peaks:
        print(f"compute peak {number(min(peaks))} to {number(max(peaks))} GOPS over the rows")
    for name in names:
        faults = [(row, row.entries[name].fault) for row in rows if name in row.entries and row.entries[name].fault]
        if faults:
            more = f", and on {len(faults) - 1} more" if len(faults) > 1 else ""
            print(f"! {name}: {faults[0][1]}, on {faults[0][0].problem}{more}")


def print_summary(summaries: list[Summary], title: str) -> None:
    """One line per class: geometric mean, worst ratio and its shape, for every ratio."""
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
    _print_columns(head, body, [max(8, *map(len, classes)), *widths])


def print_signs(ratios: Mapping[str, Mapping[Problem, float]], title: str) -> None:
    for name, values in ratios.items():
        worst = min(values, key=lambda problem: values[problem])
        mean = geometric_mean(values.values())
        print(f"{title}, {name}: geometric mean {number(mean)}, worst {number(values[worst])} at {worst}")


def print_network(seconds: Mapping[str, float], title: str) -> None:
    """The contestants, fastest first."""
    if seconds:
        print(f"\n{title}: milliseconds for all convolutions of ResNet-50")
    for name in sorted(seconds, key=lambda name: seconds[name]):
        print(f"{name:24} {number(1e3 * seconds[name]):>6}")
