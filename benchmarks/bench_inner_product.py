"""Compare int8blas's quantized linear layers with the layers of every installed library.

    python benchmarks/bench_inner_product.py --quick
    python benchmarks/bench_inner_product.py --threads 1,all --json linear.json      # about 6 minutes
    python benchmarks/bench_inner_product.py --kind dynamic --shape 128x3072x768

A static layer is uint8 source x int8 weights + bias, ReLU, uint8 result, with all scales known beforehand; a dynamic
layer quantizes its float32 source in each call and returns float32. Weights are packed beforehand and have a scale for
each output. All contestants of a shape take turns in one run, with int8blas's bare product of the same shape and the
compute peak among them, and each result is checked before it is timed: int8blas's static layers bit by bit, all others
to one step of the result.
"""

from __future__ import annotations

import argparse
from functools import partial

import contest

import layers
import peers
import weights
from linear import KINDS, LinearOperands, problems
from peers import ours_linear


def parse_arguments() -> argparse.Namespace:
    parser = layers.make_parser(__doc__, "four shapes, half a minute", peers.LINEAR)
    parser.add_argument("--kind", choices=(*KINDS, "all"), default="all", help="only this kind (default: %(default)s)")
    weights.add_option(parser)
    options = contest.parse(parser)
    options.kinds = KINDS if options.kind == "all" else (options.kind,)
    return options


def main() -> None:
    options = parse_arguments()
    chosen = {kind: problems(kind, options.quick, options.shape) for kind in options.kinds}
    operands = partial(LinearOperands, weights=options.weights)
    about, groups = layers.run(options, peers.LINEAR, ours_linear.contestants(), chosen, operands)
    layers.finish(options, {**about, "weights": options.weights}, groups)


if __name__ == "__main__":
    main()
