"""Compare int8blas's GEMM with float32 BLAS and every installed int8 library.

    python benchmarks/bench_gemm.py --quick
    python benchmarks/bench_gemm.py --threads 1,all --json gemm.json --plot gemm.png      # about 15 minutes
    python benchmarks/bench_gemm.py --class square --isa avx2

All contestants of a shape take turns in one run, each result is checked before it is timed, and the peaks of compute
and of streaming read are measured among them. A library that is not installed costs one line.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import contest

from int8blas._bench import environment, shapes
from int8blas._bench import plot as plotting
from int8blas._bench.contest import prepare, take_turns
from int8blas._bench.peak import Peak
from int8blas._bench.peers import load, ours
from int8blas._bench.peers.base import Peer
from int8blas._bench.progress import Progress
from int8blas._bench.report import print_header
from int8blas._bench.results import GemmRow
from int8blas._bench.shapes import Operands, Problem
from int8blas._bench.timing import Plan

import peers
import plot
import report
from results import compare_signs, summarize


def parse_arguments() -> argparse.Namespace:
    parser = contest.make_parser(__doc__, "eight shapes, about a minute", peers.GEMM)
    add = parser.add_argument
    add("--class", dest="classes", action="append", choices=shapes.CLASSES, default=[], help="only this class (repeat)")
    add("--signs", default="u8s8,s8s8", help="sign pairs, of u8s8, s8s8, s8u8, u8u8 (default: %(default)s)")
    add("--isa", help="hold int8blas, oneDNN and the peak to this ISA, and compare int8blas's numerics")
    add("--c", choices=("reuse", "new", "both"), default="reuse", help="give C, as C interfaces do; make it; or both")
    add("--plot", type=Path, metavar="FILE", help="write figures (needs matplotlib)")
    options = contest.parse(parser)
    options.signs = options.signs.split(",")
    if unknown := set(options.signs) - set(shapes.SIGNS):
        parser.error(f"unknown signs: {', '.join(sorted(unknown))}")
    return options


def measure_shape(
    problems: list[Problem], contestants: list[Peer], peak: Peak, threads: int, plan: Plan
) -> list[GemmRow]:
    """Measure the sign pairs of one shape, and the peaks, in one interleaved run."""
    setups = [prepare(Operands(problem), contestants, threads) for problem in problems]
    size = problems[0].operand_bytes
    peak_gops, read_gbs = peak.beside(size, lambda calls: take_turns(setups, plan, calls))
    return [
        GemmRow(problem, threads, entries, peak_gops, read_gbs)
        for problem, (entries, _) in zip(problems, setups, strict=True)
    ]


def measure_all(contestants: list[Peer], threads: int, options: argparse.Namespace) -> dict[str, list[GemmRow]]:
    """Measure all shapes on one number of threads, and return the rows of each sign pair."""
    plan = contest.plan(options, threads, len(options.signs))
    chosen = [("given", shape) for shape in options.shape] or shapes.select(options.classes, options.quick)
    rows: dict[str, list[GemmRow]] = {signs: [] for signs in options.signs}
    with contest.use_threads(threads, contestants):
        peak, bar = Peak(threads), Progress()
        for index, (cls, shape) in enumerate(chosen):
            problems = [Problem(cls, *shape, signs) for signs in options.signs]
            bar.show(index / len(chosen), f"{cls} {problems[0]}")
            for row in measure_shape(problems, contestants, peak, threads, plan):
                row.statistic = options.statistic
                rows[row.problem.signs].append(row)
        bar.clear()
    return rows


def main() -> None:
    options = parse_arguments()
    start = time.perf_counter()
    groups: dict[str, list[GemmRow]] = {}
    with contest.use_isa(options.isa) as isa:
        found, missing = load(peers.GEMM, options.skip, options.c != "new")
        contestants = ours.contestants(options.c, options.isa) + found
        about = environment.describe()
        versions = {f"int8blas ({isa})": ours.int8blas.__version__} | {peer.library: peer.version for peer in found}
        print_header(about, versions, missing)
        for threads in options.threads:
            rows = measure_all(contestants, threads, options)
            suffix = f"{threads} thread{'s' * (threads > 1)}"
            for signs in options.signs:
                groups[f"{signs}, {suffix}"] = rows[signs]
                report.print_rows(rows[signs], f"{signs}, {suffix}", report.PEAK_SHARES)
            for signs in options.signs:
                report.print_summary(summarize(rows[signs]), f"{signs}, {suffix}")
            base = options.signs[0]
            for signs in options.signs[1:]:
                report.print_signs(compare_signs(rows[base], rows[signs]), f"{signs} over {base}, {suffix}")

    if options.json:
        about = {"environment": about, "versions": versions, "missing": missing, "isa": isa, "c": options.c}
        contest.save(options.json, {**about, "statistic": options.statistic}, groups)
    if options.plot:
        plotting.save(list(groups.items()), options.plot, [plotting.roofline, plot.ratios])
    print(f"\n{time.perf_counter() - start:.0f} seconds")
    contest.exit_if_wrong(groups)


if __name__ == "__main__":
    main()
