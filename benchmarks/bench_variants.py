"""Measure what memory orders, signs, zero points and the like cost: the same products in every form, in turns.

    python benchmarks/bench_variants.py
    python benchmarks/bench_variants.py --shape 128x768x3072 --threads 2

The first column is the time of uint8 times int8 with all matrices in C order, and the others are that time divided by
their own.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial

import int8blas
import numpy as np
from int8blas._bench import environment
from int8blas._bench.timing import Plan, measure

from contest import product_sizes

SHAPES = (
    (4, 4, 4), (16, 16, 16), (64, 64, 64), (128, 128, 128), (256, 256, 256), (1024, 1024, 1024),
    (1, 1024, 1024), (4, 1024, 1024), (16, 1024, 1024), (1024, 1, 1024), (1024, 16, 1024),
    (128, 768, 3072), (1000, 64, 27), (2048, 2048, 3),
)  # fmt: skip
# Of A, B and C: C order, Fortran order, or every other element of rows that are twice as long.
ORDERS = {"A.T": "FCC", "B.T": "CFC", "C.T": "CCF", "all.T": "FFF", "A[:, ::2]": "SCC", "B[:, ::2]": "CSC", "C[:, ::2]": "CCS"}
SIGNS = ("s8s8", "s8u8", "u8u8")


def place(array: np.ndarray, order: str) -> np.ndarray:
    """The array in another memory order."""
    return np.repeat(array, 2, axis=1)[:, ::2] if order == "S" else np.array(array, order=order)


def calls_of(shape: tuple[int, ...]) -> dict[str, Callable[[], object]]:
    """Every form of a product."""
    m, n, k = shape
    rng = np.random.default_rng(0)
    values = {
        "u": (rng.integers(0, 256, (m, k), np.uint8), rng.integers(0, 256, (k, n), np.uint8)),
        "s": (rng.integers(-127, 128, (m, k), np.int8), rng.integers(-127, 128, (k, n), np.int8)),
    }

    def call(signs: str = "u8s8", orders: str = "CCC", alpha: float = 1, beta: float = 0, **keywords: object):
        a, b = values[signs[0]][0], values[signs[2]][1]
        gemm = getattr(int8blas, f"gemm_{signs}s32")
        c = np.zeros((m, n), np.int32)
        return partial(gemm, alpha, *map(place, (a, b), orders), beta, place(c, orders[2]), 0, 0, True, **keywords)

    return {
        "u8s8": call(),
        **{name: call(orders=orders) for name, orders in ORDERS.items()},
        **{signs: call(signs) for signs in SIGNS},
        "ao, bo": call(ao=3, bo=-5),
        "ao[m], bo[n]": call(ao=rng.integers(0, 256, m), bo=rng.integers(-128, 128, n)),
        "co[n]": call(offsetc="R", co=rng.integers(-1000, 1000, n)),
        "beta = 1": call(beta=1),
        "alpha = 0.5": call(alpha=0.5),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", action="append", type=product_sizes, metavar="MxNxK", help="only this shape (repeat)")
    parser.add_argument("--threads", type=int, default=1, help="(default: %(default)s)")
    parser.add_argument("--isa", choices=int8blas.available_isas(), default=int8blas.available_isas()[0])
    parser.add_argument("--budget", type=float, default=2.0, help="seconds per shape (default: %(default)s)")
    options = parser.parse_args()
    plan = Plan(rounds=30, budget=options.budget, min_sample=2e-4, settle=0.0)
    for key, value in environment.describe().items():
        print(f"{key}: {value}")
    print(f"isa: {options.isa}, threads: {options.threads}\n")
    with int8blas.num_threads(options.threads), int8blas.use_isa(options.isa):
        for i, shape in enumerate(options.shape or SHAPES):
            times = {name: timing.best for name, timing in measure(calls_of(shape), plan).items()}
            first = times.pop("u8s8")
            if i == 0:
                print(f"| M x N x K | us | {' | '.join(times)} |\n|{'---|' * (2 + len(times))}")
            ratios = " | ".join(f"{first / time:.2f}" for time in times.values())
            print(f"| {' x '.join(map(str, shape))} | {first * 1e6:.4g} | {ratios} |", flush=True)


if __name__ == "__main__":
    main()
