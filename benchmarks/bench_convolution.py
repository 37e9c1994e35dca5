"""Measure int8blas's quantized convolutions beside those of every library that is installed.

    python benchmarks/bench_convolution.py --quick
    python benchmarks/bench_convolution.py --threads 1,all --json convolution.json --plot convolution.png
    python benchmarks/bench_convolution.py --class 3x3 --class depthwise --batch 8
    python benchmarks/bench_convolution.py --shape "56x56x64 3x3/2 128"

A layer is uint8 source x int8 weights + bias, ReLU, uint8 result, with all scales known before, one of the weights' for
each output channel, and zero points of 0; images are NHWC where a library has it. All contestants of a shape take turns
in one run, with int8blas's bare product of the same sizes and the compute peak among them, and each result is checked
before it is timed: int8blas's bit by bit, others' to one step of the result.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import contest
import convolutions
import environment
import native
import peers
import plot
import report
from convolutions import ConvolutionOperands
from peak import Peak
from peers import ours, ours_convolution
from peers.base import Peer
from results import ConvolutionRow, network_seconds, summarize


def batches(text: str) -> list[int]:
    """The numbers of images in a list with commas."""
    numbers = [int(word) for word in text.split(",")]
    if min(numbers) < 1:
        raise ValueError
    return numbers


def parse_arguments() -> argparse.Namespace:
    parser = contest.make_parser(__doc__, "eight shapes, half a minute", peers.CONVOLUTION, convolutions.NOTATION)
    add = parser.add_argument
    classes = convolutions.CLASSES
    add("--class", dest="classes", action="append", choices=classes, default=[], help="only this class (repeat)")
    add("--batch", type=batches, default="1", help="numbers of images (default: %(default)s)")
    add("--isa", help="hold int8blas, oneDNN, torch's and OpenVINO's as well, and the peak to this ISA")
    add("--plot", type=Path, metavar="FILE", help="write a figure (needs matplotlib)")
    return contest.parse(parser, convolutions.parse)


def measure_all(contestants: list[Peer], batch: int, threads: int, options: argparse.Namespace) -> list[ConvolutionRow]:
    """All shapes on one number of images and of threads."""
    plan = contest.plan(options, threads, 1)
    rows = []
    chosen = convolutions.problems(options.classes, options.quick, options.shape, batch)
    try:
        peak = Peak(threads, options.isa)
        peaks = {"compute": call} if (call := peak.compute()) else {}
    except native.BuildError as error:
        print(f"no peak: {error}")
        peaks = {}
    with contest.use_threads(threads, contestants):
        for index, problem in enumerate(chosen):
            contest.show_progress(index, len(chosen), f"{problem.cls} {problem}")
            (entries,), timings = contest.take_turns([ConvolutionOperands(problem)], contestants, threads, plan, peaks)
            row = ConvolutionRow(problem, threads, entries, statistic=options.statistic)
            if "compute" in timings:
                row.peak_gops = peak.compute_operations / timings["compute"].best / 1e9
            rows.append(row)
    return rows


def main() -> None:
    options = parse_arguments()
    start = time.perf_counter()
    groups: dict[str, list[ConvolutionRow]] = {}
    with contest.use_isa(options.isa) as isa:
        found, missing = peers.load(peers.CONVOLUTION, options.skip)
        contestants = ours_convolution.contestants() + found
        about = environment.describe()
        versions = {f"int8blas ({isa})": ours.int8blas.__version__} | {peer.library: peer.version for peer in found}
        report.print_header(about, versions, missing)
        for threads in options.threads:
            for batch in options.batch:
                title = f"batch {batch}, {threads} thread{'s' * (threads > 1)}"
                groups[title] = measure_all(contestants, batch, threads, options)
                report.print_rows(groups[title], title, report.FUSED_SHARE)
                report.print_summary(summarize(groups[title]), title)
                report.print_network(network_seconds(groups[title]), title)

    if options.json:
        networks = {title: network_seconds(rows) for title, rows in groups.items()}
        about = {"environment": about, "versions": versions, "missing": missing, "isa": isa, "network_s": networks}
        contest.save(options.json, {**about, "statistic": options.statistic}, groups)
    if options.plot and (message := plot.save(list(groups.items()), options.plot, [plot.ratios])):
        print(message)
    print(f"\n{time.perf_counter() - start:.0f} seconds")
    contest.exit_if_wrong(groups)


if __name__ == "__main__":
    main()
