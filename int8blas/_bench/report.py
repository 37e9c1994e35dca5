"""Print the tables on the terminal."""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence

from int8blas._bench.peers.ours import PACKED, PLAIN
from int8blas._bench.results import ClassMeans, GemmRow, Row

WIDTH = 8  # characters of a contestant's column
NO_TERMINAL = 80  # columns of a file or a pipe
INDENT = 15  # spaces before the text of a note


def columns() -> int:
    """Return the columns of the terminal, or NO_TERMINAL for a file or a pipe."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else NO_TERMINAL


def print_items(start: str, items: Iterable[str], separator: str = ", ", indent: int = 2) -> None:
    """Write items after a start, in lines that break only between two items."""
    line, width, first = start, columns() - len(separator.rstrip()), True
    for item in items:
        part = item if first else separator + item
        if len(line) + len(part) > width and line.strip() and not first:
            print(line + separator.rstrip())
            line, part = " " * indent, item
        line, first = line + part, False
    print(line)


def print_text(text: str, start: str = "") -> None:
    """Write a sentence in full lines. Lines after the first line are indented by the length of `start`."""
    indent = " " * len(start)
    print(textwrap.fill(text, columns(), initial_indent=start, subsequent_indent=indent or "  "))


def _blocks(widths: Sequence[int]) -> Iterator[list[int]]:
    """Split the columns of a table into groups that fit the terminal, each with the first column."""
    block, room = [0], columns() - widths[0]
    for column, width in enumerate(widths[1:], 1):
        if len(block) > 1 and room < width + 1:
            yield block
            block, room = [0], columns() - widths[0]
        block.append(column)
        room -= width + 1
    yield block


def number(value: float | None) -> str:
    """Format three significant digits, or a dash for None."""
    if value is None:
        return "-"
    return f"{value:.0f}" if value >= 99.95 else f"{value:.1f}" if value >= 9.995 else f"{value:.2f}"


def percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.0f}%"


def print_columns(head: list[list[str]], body: Iterable[list[str]], widths: list[int]) -> None:
    lines = []
    for line in range(max(map(len, head))):
        lines.append([words[line] if line < len(words) else "" for words in head])
    for cells in [*lines, *body]:
        print(" ".join([cells[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(cells[1:], widths[1:], strict=True))]))


def print_header(environment: Mapping[str, object], versions: Mapping[str, str], missing: Mapping[str, str]) -> None:
    caches = ", ".join(f"{level} {size}" for level, size in dict(environment["caches"]).items())  # type: ignore[call-overload]
    print_text(f"{environment['cpu']}, {environment['cpus']} CPUs ({caches}), {environment['system']}")
    print_items(f"Python {environment['python']}, ", [f"{name} {version}" for name, version in versions.items()])
    for name, reason in missing.items():
        print_text(f"not measured: {name}: {reason}")


def print_faults(rows: Sequence[Row]) -> None:
    """Report the failures, a line for each contestant."""
    for name in dict.fromkeys(name for row in rows for name in row.entries):
        faults = [(row, row.entries[name].fault) for row in rows if name in row.entries and row.entries[name].fault]
        if faults:
            more = f", and on {len(faults) - 1} more" if len(faults) > 1 else ""
            print_text(f"! {name}: {faults[0][1]}, on {faults[0][0].problem}{more}")


def _extent(values: Iterable[float | None]) -> str:
    """Format the smallest and the largest of the values that are not None."""
    known = [value for value in values if value is not None]
    ends = dict.fromkeys(map(number, (min(known), max(known)))) if known else ["none"]
    return " to ".join(ends)


def print_classes(means: Sequence[ClassMeans], rows: Sequence[GemmRow]) -> None:
    """Print a line per class of shapes, and the meaning of its columns."""
    others = list(dict.fromkeys(name for mean in means for name in mean.speed_over))
    head = [["", "", "class"]]
    body = [[mean.cls] for mean in means]
    for word, ours in (("plain", PLAIN), ("packed", PACKED)):
        head += [[word, "", "GOPS"], [word, "of", "peak"], [word, "of", "read"]]
        for cells, mean in zip(body, means, strict=True):
            cells += [number(mean.gops[ours]), percent(mean.peak_share.get(ours)), percent(mean.read_share.get(ours))]
    for other in others:
        words = ["times", *textwrap.wrap(other, WIDTH)]
        head.append([""] * (3 - len(words)) + words)
        for cells, mean in zip(body, means, strict=True):
            cells.append(number(mean.speed_over.get(other)))
    lines = max(map(len, head))
    head = [[""] * (lines - len(words)) + words for words in head]
    print()
    widths = [8, *(max(6, *map(len, words)) for words in head[1:])]
    for block in _blocks(widths):
        print_columns(
            [head[i] for i in block], [[cells[i] for i in block] for cells in body], [widths[i] for i in block]
        )
        print()
    for mean in means:
        print_items(f"{mean.cls:8} ", mean.shapes, " ", 9)
    print()
    for name, text in (
        ("plain, packed", "B as it is, or packed beforehand; uint8 x int8 in int32, M x N x K"),
        ("GOPS", "2 M N K / the shortest time"),
        (
            "of peak",
            f"of the multiply-adds on registers alone: {_extent(row.peak_gops for row in rows)} GOPS over the run",
        ),
        (
            "of read",
            f"of the bandwidth of reading A and B, {_extent(row.read_gbs for row in rows)} GB/s by their size; where "
            "that takes longer than the multiply-adds",
        ),
        ("times X", "speed over X's: of packed B over X with a packed B, of plain B over all others"),
    ):
        print_text(text, name.ljust(INDENT))
    print_faults(rows)
