"""Compare int8blas's LSTM and GRU with the layers of every installed library.

    python benchmarks/bench_rnn.py --quick
    python benchmarks/bench_rnn.py --threads 1,all --json rnn.json      # about 10 minutes
    python benchmarks/bench_rnn.py --kind dynamic --shape "lstm 50x16x512x512 l2"

A static layer has uint8 source, states and result, as in oneDNN. A dynamic layer has float32 source and result:
int8blas then still has 8-bit states; other libraries quantize source and states by a scale that they find in each step.
The dynamic layers are also compared with float32 layers. Weights are int8, packed beforehand, with a scale for each
gate and unit. Only oneDNN has a static GRU, but not with linear before reset (lbr_gru), the only form that torch has.
All contestants of a shape take turns in one run, with int8blas's bare products of the same shape and the compute peak
among them, and each result is checked before it is timed: static layers to one step of the result.
"""

from __future__ import annotations

import argparse

import contest

import layers
import peers
import recurrent
from peers import ours_recurrent
from recurrent import KINDS, RecurrentOperands
from results import ShapeRow


def parse_arguments() -> argparse.Namespace:
    parser = layers.make_parser(__doc__, "six shapes, half a minute", peers.RECURRENT, recurrent.NOTATION)
    parser.add_argument("--kind", choices=(*KINDS, "all"), default="all", help="only this kind (default: %(default)s)")
    options = contest.parse(parser, recurrent.parse)
    options.kinds = KINDS if options.kind == "all" else (options.kind,)
    return options


def main() -> None:
    options = parse_arguments()
    chosen = {kind: recurrent.problems(kind, options.quick, options.shape) for kind in options.kinds}
    contestants = ours_recurrent.contestants()
    results = layers.run(options, peers.RECURRENT, contestants, chosen, RecurrentOperands, ShapeRow)
    layers.finish(options, *results)


if __name__ == "__main__":
    main()
