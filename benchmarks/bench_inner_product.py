"""Measure int8blas's quantized linear layers beside those of every library that is installed.

    python benchmarks/bench_inner_product.py --quick
    python benchmarks/bench_inner_product.py --threads 1,all --json linear.json      # about 6 minutes
    python benchmarks/bench_inner_product.py --kind dynamic --shape 128x3072x768

A static layer is uint8 source x int8 weights + bias, ReLU, uint8 result, with all scales known before; a dynamic one
quantizes its float32 source in each call and gives float32. Weights are packed beforehand and have a scale for each
output. All contestants of a shape take turns in one run, with int8blas's bare product of the same shape among them, and
each result is checked before it is timed: int8blas's static ones bit by bit, others to one step of the result.
"""

from __future__ import annotations

import argparse
import time

import contest
import environment
import peers
import report
from linear import KINDS, LinearOperands, problems
from peers import ours, ours_linear
from peers.base import Peer
from results import LayerRow, summarize


def parse_arguments() -> argparse.Namespace:
    parser = contest.make_parser(__doc__, "four shapes, half a minute", peers.LINEAR)
    parser.add_argument("--kind", choices=(*KINDS, "all"), default="all", help="only this kind (default: %(default)s)")
    parser.add_argument("--isa", help="hold int8blas and oneDNN, torch's and OpenVINO's as well, to this ISA")
    options = contest.parse(parser)
    options.kinds = KINDS if options.kind == "all" else (options.kind,)
    return options


def measure_all(contestants: list[Peer], kind: str, threads: int, options: argparse.Namespace) -> list[LayerRow]:
    """All shapes of one kind on one number of threads."""
    plan = contest.plan(options, threads, 1)
    rows = []
    chosen = problems(kind, options.quick, options.shape)
    with contest.use_threads(threads, contestants):
        for index, problem in enumerate(chosen):
            contest.show_progress(index, len(chosen), f"{kind} {problem}")
            (entries,), _ = contest.take_turns([LinearOperands(problem)], contestants, threads, plan, {})
            rows.append(LayerRow(problem, threads, entries, statistic=options.statistic))
    return rows


def main() -> None:
    options = parse_arguments()
    start = time.perf_counter()
    groups: dict[str, list[LayerRow]] = {}
    with contest.use_isa(options.isa) as isa:
        found, missing = peers.load(peers.LINEAR, options.skip)
        contestants = ours_linear.contestants() + found
        about = environment.describe()
        versions = {f"int8blas ({isa})": ours.int8blas.__version__} | {peer.library: peer.version for peer in found}
        report.print_header(about, versions, missing)
        for threads in options.threads:
            for kind in options.kinds:
                title = f"{kind}, {threads} thread{'s' * (threads > 1)}"
                groups[title] = measure_all(contestants, kind, threads, options)
                report.print_rows(groups[title], title, {})
                report.print_summary(summarize(groups[title]), title)

    if options.json:
        about = {"environment": about, "versions": versions, "missing": missing, "isa": isa}
        contest.save(options.json, {**about, "statistic": options.statistic}, groups)
    print(f"\n{time.perf_counter() - start:.0f} seconds")
    contest.exit_if_wrong(groups)


if __name__ == "__main__":
    main()
