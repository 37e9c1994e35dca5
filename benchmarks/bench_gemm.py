"""Measure int8blas's GEMM beside float32 BLAS and every int8 library that is installed.

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
import environment
import native
import peers
import plot
import report
import shapes
from peak import Peak
from peers import ours
from peers.base import Peer
from results import GemmRow, compare_signs, summarize
from shapes import Operands, Problem
from timing import Plan


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
    problems: list[Problem], contestants: list[Peer], peak: Peak | None, threads: int, plan: Plan
) -> list[GemmRow]:
    """Measure the sign pairs of one shape, and the peaks, in one interleaved run."""
    reads, read_bytes, peaks = {}, 0, {}
    if peak is not None:
        read_bytes, reads = peak.read(problems[0].operand_bytes)
        peaks = dict(reads)
        if (compute := peak.compute()) is not None:
            peaks["compute"] = compute
    found, timings = contest.take_turns([Operands(p) for p in problems], contestants, threads, plan, peaks)
    rows = []
    for problem, entries in zip(problems, found, strict=True):
        row = GemmRow(problem, threads, entries)
        if peak is not None:
            row.read_gbs = max(read_bytes / timings[name].best for name in reads) / 1e9
            if "compute" in timings:
                row.peak_gops = peak.compute_operations / timings["compute"].best / 1e9
        rows.append(row)
    return rows


def measure_all(contestants: list[Peer], threads: int, options: argparse.Namespace) -> dict[str, list[GemmRow]]:
    """All shapes on one number of threads: the rows of each sign pair."""
    plan = contest.plan(options, threads, len(options.signs))
    chosen = [("given", shape) for shape in options.shape] or shapes.select(options.classes, options.quick)
    rows: dict[str, list[GemmRow]] = {signs: [] for signs in options.signs}
    with contest.use_threads(threads, contestants):
        try:
            peak = Peak(threads, options.isa)
        except native.BuildError as error:
            print(f"no peaks: {error}")
            peak = None
        for index, (cls, shape) in enumerate(chosen):
            problems = [Problem(cls, *shape, signs) for signs in options.signs]
            contest.show_progress(index, len(chosen), f"{cls} {problems[0]}")
            for row in measure_shape(problems, contestants, peak, threads, plan):
                row.statistic = options.statistic
                rows[row.problem.signs].append(row)
    return rows


def main() -> None:
    options = parse_arguments()
    start = time.perf_counter()
    groups: dict[str, list[GemmRow]] = {}
    with contest.use_isa(options.isa) as isa:
        found, missing = peers.load(peers.GEMM, options.skip, options.c != "new")
        contestants = ours.contestants(options.c, options.isa) + found
        about = environment.describe()
        versions = {f"int8blas ({isa})": ours.int8blas.__version__} | {peer.library: peer.version for peer in found}
        report.print_header(about, versions, missing)
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
    if options.plot and (message := plot.save(list(groups.items()), options.plot, [plot.roofline, plot.ratios])):
        print(message)
    print(f"\n{time.perf_counter() - start:.0f} seconds")
    contest.exit_if_wrong(groups)


if __name__ == "__main__":
    main()
