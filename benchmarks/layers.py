"""The course of a benchmark of quantized layers: its options, one measured run with its tables, its JSON."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import contest

from int8blas._bench import environment
from int8blas._bench.contest import prepare, take_turns
from int8blas._bench.peak import Peak
from int8blas._bench.peers import load, ours
from int8blas._bench.peers.base import Peer
from int8blas._bench.progress import Progress
from int8blas._bench.report import print_header

import report
from results import LayerRow, summarize


def make_parser(description: str, quick: str, modules: Iterable[str], shape: str = "MxNxK") -> argparse.ArgumentParser:
    """Return a parser with the options of `contest.make_parser`, and an ISA."""
    parser = contest.make_parser(description, quick, modules, shape)
    parser.add_argument("--isa", help="hold int8blas, oneDNN, torch's and OpenVINO's as well, and the peak to this ISA")
    return parser


def measure_all(
    contestants: Iterable[Peer],
    problems: Sequence[Any],
    operands: Callable[[Any], Any],
    row: type[LayerRow],
    threads: int,
    options: argparse.Namespace,
) -> list[LayerRow]:
    """Measure all problems on one number of threads."""
    plan = contest.plan(options, threads, 1)
    rows = []
    peak, bar = Peak(threads), Progress()
    with contest.use_threads(threads, contestants):
        for index, problem in enumerate(problems):
            bar.show(index / len(problems), str(problem))
            setup = prepare(operands(problem), contestants, threads)
            timings = take_turns([setup], plan, peak.compute())
            rows.append(row(problem, threads, setup[0], statistic=options.statistic))
            if "compute" in timings:
                rows[-1].peak_gops = peak.compute_operations / timings["compute"].best / 1e9
    bar.clear()
    return rows


def run(
    options: argparse.Namespace,
    modules: Iterable[str],
    contestants: Sequence[Peer],
    problems: Mapping[str, Sequence[Any]],
    operands: Callable[[Any], Any],
    row: type[LayerRow] = LayerRow,
) -> tuple[dict[str, object], dict[str, list[LayerRow]]]:
    """Measure int8blas's contestants and the peers of the modules on groups of problems, and print the tables.

    `operands` creates the operands of a problem. Return the environment, and the rows by the titles of the groups.
    """
    start = time.perf_counter()
    groups: dict[str, list[LayerRow]] = {}
    with contest.use_isa(options.isa) as isa:
        found, missing = load(modules, options.skip)
        about = environment.describe()
        versions = {f"int8blas ({isa})": ours.int8blas.__version__} | {peer.library: peer.version for peer in found}
        print_header(about, versions, missing)
        for threads in options.threads:
            for name, chosen in problems.items():
                title = f"{name}, {threads} thread{'s' * (threads > 1)}"
                rows = measure_all([*contestants, *found], chosen, operands, row, threads, options)
                report.print_rows(rows, title, report.FUSED_SHARE)
                report.print_summary(summarize(rows), title)
                groups[title] = rows
    print(f"\n{time.perf_counter() - start:.0f} seconds")
    return {"environment": about, "versions": versions, "missing": missing, "isa": isa}, groups


def finish(options: argparse.Namespace, about: Mapping[str, object], groups: Mapping[str, list[LayerRow]]) -> None:
    """Write the requested JSON; end with an error if int8blas failed anywhere."""
    if options.json:
        contest.save(options.json, {**about, "statistic": options.statistic}, groups)
    contest.exit_if_wrong(groups)
