"""Measure int8blas's GEMM beside float32 BLAS and every int8 library that is installed.

    python benchmarks/bench_gemm.py --quick
    python benchmarks/bench_gemm.py --threads 1,all --json gemm.json --plot gemm.png      # about 15 minutes
    python benchmarks/bench_gemm.py --class square --isa avx2

All contestants of a shape take turns in one run, each result is checked before it is timed, and the peaks of compute
and of streaming read are measured among them. A library that is not installed costs one line.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
import time
from pathlib import Path

# Idle workers of one library must not spin on the CPUs that the next one is measured on (read when OpenBLAS loads).
os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "20")

import environment
import native
import peers
import plot
import report
import shapes
from peak import Peak
from peers import ours
from peers.base import Peer, Prepared
from results import Entry, Row, compare_signs, summarize
from shapes import Operands, Problem
from timing import Plan, measure

try:
    from threadpoolctl import threadpool_limits
except ImportError:
    raise SystemExit("the benchmark sets threads with threadpoolctl; install it: pip install threadpoolctl") from None

MIN_SAMPLE = 5e-4  # seconds; shorter calls are repeated within a sample
SETTLE = 5e-3  # seconds between contestants when workers of the last one may still spin


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--quick", action="store_true", help="eight shapes, about a minute")
    add("--class", dest="classes", action="append", choices=shapes.CLASSES, default=[], help="only this class (repeat)")
    add("--shape", action="append", default=[], metavar="MxNxK", help="only this shape (repeat)")
    add("--signs", default="u8s8,s8s8", help="sign pairs, of u8s8, s8s8, s8u8, u8u8 (default: %(default)s)")
    add("--threads", default="1", help="thread counts; all: every usable CPU (default: %(default)s)")
    add("--isa", help="hold int8blas, oneDNN and the peak to this ISA, and compare int8blas's numerics")
    add("--c", choices=("reuse", "new", "both"), default="reuse", help="give C, as C interfaces do; make it; or both")
    add("--repeat", type=int, default=40, help="samples per contestant and shape, at most (default: %(default)s)")
    add("--budget", type=float, help="seconds per shape and sign pair, about (default: 5; quick: 2)")
    add("--median", action="store_true", help="report medians instead of minima")
    add("--skip", default="", help=f"peers to leave out, of {','.join(peers.MODULES)}")
    add("--json", type=Path, metavar="FILE", help="write all numbers")
    add("--plot", type=Path, metavar="FILE", help="write figures (needs matplotlib)")
    options = parser.parse_args()
    options.signs = options.signs.split(",")
    if unknown := set(options.signs) - set(shapes.SIGNS):
        parser.error(f"unknown signs: {', '.join(sorted(unknown))}")
    try:
        cpus = environment.usable_cpus()
        options.threads = [cpus if word == "all" else int(word) for word in options.threads.split(",")]
        options.shape = [tuple(map(int, text.lower().split("x"))) for text in options.shape]
    except ValueError as error:
        parser.error(str(error))
    if any(len(shape) != 3 or min(shape) < 1 for shape in options.shape) or min(options.threads) < 1:
        parser.error("a shape is MxNxK, and sizes and thread counts are at least 1")
    return options


def prepare(problem: Problem, contestants: list[Peer], threads: int) -> tuple[dict[str, Entry], dict[str, Prepared]]:
    """Bind the operands to every contestant, run it once, and check what it gives."""
    operands = Operands(problem)
    entries, prepared = {}, {}
    for peer in contestants:
        if not peer.supports(problem):
            continue
        entry = Entry(peer.name, peer.kind, isinstance(peer, ours.Int8blas), peer.comparable)
        entries[peer.name] = entry
        try:
            ready = peer.prepare(operands, threads)
            ready.run()
            entry.fault = ready.check()
            prepared[peer.name] = ready
        except Exception as error:  # a peer that refuses a shape is reported, and the others are measured
            entry.fault = f"did not run: {type(error).__name__}: {(str(error).splitlines() or [''])[0]}"
    return entries, prepared


def measure_shape(
    problems: list[Problem], contestants: list[Peer], peak: Peak | None, threads: int, plan: Plan
) -> list[Row]:
    """Measure the sign pairs of one shape, and the peaks, in one interleaved run."""
    setups = [prepare(problem, contestants, threads) for problem in problems]
    calls = {
        (p.signs, name): ready.run
        for p, (_, bound) in zip(problems, setups, strict=True)
        for name, ready in bound.items()
    }
    reads, read_bytes = {}, 0
    if peak is not None:
        read_bytes, reads = peak.read(problems[0].operand_bytes)
        calls |= {("peak", name): call for name, call in reads.items()}
        if (compute := peak.compute()) is not None:
            calls["peak", "compute"] = compute
    timings = measure(calls, plan)

    rows = []
    for problem, (entries, prepared) in zip(problems, setups, strict=True):
        for name in prepared:
            entries[name].timing = timings[problem.signs, name]
        row = Row(problem, threads, entries)
        if peak is not None:
            row.read_gbs = max(read_bytes / timings["peak", name].best for name in reads) / 1e9
            if ("peak", "compute") in timings:
                row.peak_gops = peak.compute_operations / timings["peak", "compute"].best / 1e9
        rows.append(row)
    return rows


def measure_all(contestants: list[Peer], threads: int, options: argparse.Namespace) -> dict[str, list[Row]]:
    """All shapes on one number of threads: the rows of each sign pair."""
    plan = Plan(
        rounds=options.repeat,
        budget=(options.budget or (2.0 if options.quick else 5.0)) * len(options.signs),
        min_sample=MIN_SAMPLE,
        settle=SETTLE if threads > 1 else 0.0,
    )
    chosen = [("given", shape) for shape in options.shape] or shapes.select(options.classes, options.quick)
    rows: dict[str, list[Row]] = {signs: [] for signs in options.signs}
    with threadpool_limits(threads), ours.int8blas.num_threads(threads):
        for peer in contestants:
            peer.set_threads(threads)
        try:
            peak = Peak(threads, options.isa)
        except native.BuildError as error:
            print(f"no peaks: {error}")
            peak = None
        for index, (cls, shape) in enumerate(chosen):
            if sys.stderr.isatty():
                print(f"{index + 1}/{len(chosen)} {cls} {'x'.join(map(str, shape))} \r", end="", file=sys.stderr)
            problems = [Problem(cls, *shape, signs) for signs in options.signs]
            for row in measure_shape(problems, contestants, peak, threads, plan):
                row.statistic = "median" if options.median else "best"
                rows[row.problem.signs].append(row)
    return rows


def main() -> None:
    options = parse_arguments()
    start = time.perf_counter()
    groups: dict[str, list[Row]] = {}
    with contextlib.ExitStack() as stack:
        if options.isa is not None:
            peers.limit_isa(options.isa)
            try:
                stack.enter_context(ours.int8blas.use_isa(options.isa))
            except (ValueError, RuntimeError) as error:
                raise SystemExit(f"--isa {options.isa}: {error}") from None
        found, missing = peers.load(set(options.skip.split(",")), options.c != "new")
        contestants = ours.contestants(options.c, options.isa) + found
        about = environment.describe()
        isa = options.isa or ours.int8blas.available_isas()[0]
        versions = {f"int8blas ({isa})": ours.int8blas.__version__} | {peer.library: peer.version for peer in found}
        report.print_header(about, versions, missing)
        for threads in options.threads:
            rows = measure_all(contestants, threads, options)
            suffix = f"{threads} thread{'s' * (threads > 1)}"
            for signs in options.signs:
                groups[f"{signs}, {suffix}"] = rows[signs]
                report.print_rows(rows[signs], f"{signs}, {suffix}")
            for signs in options.signs:
                report.print_summary(summarize(rows[signs]), f"{signs}, {suffix}")
            base = options.signs[0]
            for signs in options.signs[1:]:
                report.print_signs(compare_signs(rows[base], rows[signs]), f"{signs} over {base}, {suffix}")

    if options.json:
        content = {
            "environment": about,
            "versions": versions,
            "missing": missing,
            "isa": isa,
            "c": options.c,
            "statistic": "median" if options.median else "best",
            "rows": [row.as_json() for rows in groups.values() for row in rows],
            "summary": {title: [vars(line) for line in summarize(rows)] for title, rows in groups.items()},
        }
        options.json.write_text(json.dumps(content, indent=1) + "\n")
    if options.plot and (message := plot.save(list(groups.items()), options.plot)):
        print(message)
    print(f"\n{time.perf_counter() - start:.0f} seconds")
    if any(entry.ours and entry.fault for rows in groups.values() for row in rows for entry in row.entries.values()):
        raise SystemExit("int8blas failed or gave a wrong result, see above")


if __name__ == "__main__":
    main()
