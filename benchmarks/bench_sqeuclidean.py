"""Compare squared distances of rows with the bare product of the same operands.

    python benchmarks/bench_sqeuclidean.py
    python benchmarks/bench_sqeuclidean.py --threads 2 --isa avx2 --shape 4x1000x384

All contestants take turns in one run, on int8 rows x (M x K) and y (N x K), with plain and packed y. All calls reuse C.
A line has the times of the products, and the time of the distances divided by them.
"""

from __future__ import annotations

import int8blas
import numpy as np
from int8blas._bench.timing import Plan, measure

from held import held_to, options_of

SHAPES = ((1, 1000, 384), (4, 1000, 384), (16, 1000, 384), (1, 100_000, 384), (4, 100_000, 384), (16, 100_000, 384),
          (1, 20_000, 32), (4, 20_000, 32), (16, 20_000, 32), (256, 256, 32), (1024, 1024, 8), (1024, 1024, 32),
          (4096, 4096, 32), (1024, 1024, 384))  # fmt: skip


def main() -> None:
    options = options_of(__doc__, "MxNxK", 1.0)
    plan = Plan(rounds=30, budget=options.budget, min_sample=5e-4, settle=0.0)
    rng = np.random.default_rng(0)
    with held_to(options.threads, options.isa):
        print()
        print("| M x N x K | product, plain y, us | packed y, us | distances, plain y, times | packed y, times |")
        print("|---|---|---|---|---|")
        for m, n, k in options.shapes or SHAPES:
            x, y = (rng.integers(-128, 128, (rows, k), np.int8) for rows in (m, n))
            packed, c = int8blas.pack_b(y, trans_b=True), np.empty((m, n), np.int32)
            calls = {
                "plain": lambda x=x, y=y, c=c: int8blas.matmul(x, y.T, out=c),
                "packed": lambda x=x, y=packed, c=c: int8blas.matmul(x, y, out=c),
                "plain distances": lambda x=x, y=y, c=c: int8blas.sqeuclidean(x, y, out=c),
                "packed distances": lambda x=x, y=packed, c=c: int8blas.sqeuclidean(x, y, out=c),
            }
            best = {name: timing.best * 1e6 for name, timing in measure(calls, plan).items()}
            ratios = " | ".join(f"{best[f'{form} distances'] / best[form]:.2f}" for form in ("plain", "packed"))
            print(f"| {m} x {n} x {k} | {best['plain']:.4g} | {best['packed']:.4g} | {ratios} |", flush=True)


if __name__ == "__main__":
    main()
