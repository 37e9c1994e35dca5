"""Compare int8blas's quantized convolutions with the convolutions of every installed library.

    python benchmarks/bench_convolution.py --quick
    python benchmarks/bench_convolution.py --threads 1,all --json convolution.json --plot convolution.png
    python benchmarks/bench_convolution.py --class 3x3 --class depthwise --batch 8
    python benchmarks/bench_convolution.py --shape "56x56x64 3x3/2 128"

A layer is uint8 source x int8 weights + bias, ReLU, uint8 result. All scales are known beforehand, with one for each
output channel of the weights, and all zero points are 0. Images are NHWC if a library supports it. All contestants of a
shape take turns in one run, with int8blas's bare product of the same sizes and the compute peak among them. Each result
is checked before it is timed: int8blas's result bit by bit, the result of another library to one step.
"""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path

import contest

from int8blas._bench import plot as plotting

import convolutions
import layers
import peers
import plot
import report
import weights
from convolutions import ConvolutionOperands
from peers import ours_convolution
from results import ConvolutionRow, network_seconds


def batches(text: str) -> list[int]:
    """Return the batch sizes in a list with commas."""
    numbers = [int(word) for word in text.split(",")]
    if min(numbers) < 1:
        raise ValueError
    return numbers


def parse_arguments() -> argparse.Namespace:
    parser = layers.make_parser(__doc__, "eight shapes, half a minute", peers.CONVOLUTION, convolutions.NOTATION)
    add = parser.add_argument
    classes = convolutions.CLASSES
    add("--class", dest="classes", action="append", choices=classes, default=[], help="only this class (repeat)")
    add("--batch", type=batches, default="1", help="numbers of images (default: %(default)s)")
    add("--plot", type=Path, metavar="FILE", help="write a figure (needs matplotlib)")
    weights.add_option(parser)
    return contest.parse(parser, convolutions.parse)


def main() -> None:
    options = parse_arguments()
    chosen = {
        f"batch {batch}": convolutions.problems(options.classes, options.quick, options.shape, batch)
        for batch in options.batch
    }
    contestants = ours_convolution.contestants()
    operands = partial(ConvolutionOperands, weights=options.weights)
    about, groups = layers.run(options, peers.CONVOLUTION, contestants, chosen, operands, ConvolutionRow)
    networks = {title: network_seconds(rows) for title, rows in groups.items()}
    for title, seconds in networks.items():
        report.print_network(seconds, title)
    if options.plot:
        plotting.save(list(groups.items()), options.plot, [plot.ratios])
    layers.finish(options, {**about, "weights": options.weights, "network_s": networks}, groups)


if __name__ == "__main__":
    main()
