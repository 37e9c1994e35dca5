"""Compare Gram matrices by syrk and `matmul(x.T, x)` with the full product, and with NumPy's float32 `x.T @ x`, which
is a syrk too.

    python benchmarks/bench_syrk.py
    python benchmarks/bench_syrk.py --threads 2 --isa avx2 --shape 400x20000

All contestants take turns in one run, on uint8 matrices of N columns and K rows (as in `x.T @ x`) or their transposes.
The full product multiplies x by a copy of x. All calls reuse C. A line has the time of the full product, and three
ratios: the full product's time divided by syrk's and by matmul's, and float32's time divided by syrk's. Results are
compared first.
"""

from __future__ import annotations

from collections.abc import Callable

import int8blas
import numpy as np
from int8blas._bench.timing import Plan, measure

from held import held_to, options_of

Calls = dict[str, Callable[[], object]]

# N, the rows of C, and K.
SHAPES = ((128, 128), (256, 256), (512, 512), (1024, 1024), (2048, 512), (512, 4096), (400, 20_000), (64, 20_000))


def contestants(n: int, k: int, columns: bool) -> Calls:
    """Return the calls, whose results are equal except for the half that syrk does not compute."""
    x = np.random.default_rng(0).integers(0, 256, (k, n) if columns else (n, k), np.uint8)
    left, right = (x.T, x) if columns else (x, x.T)
    copy = np.array(left, order="K")
    floats = x.astype(np.float32)
    left_f32, right_f32 = (floats.T, floats) if columns else (floats, floats.T)
    full, gram, triangle = (np.zeros((n, n), np.int32) for _ in range(3))
    c_f32 = np.empty((n, n), np.float32)
    calls: Calls = {
        "full": lambda: int8blas.matmul(copy, right, out=full),
        "matmul": lambda: int8blas.matmul(left, right, out=gram),
        "syrk": lambda: int8blas.syrk_u8s32(1, x, 0, triangle, columns, False, True),
        "float32": lambda: np.matmul(left_f32, right_f32, out=c_f32),
    }
    for call in calls.values():
        call()
    if not (np.array_equal(gram, full) and np.array_equal(triangle, np.triu(full))):
        raise AssertionError(f"{n} x {n} x {k}: results differ")
    return calls


def main() -> None:
    options = options_of(__doc__, "NxK", 2.0)
    # Workers that wake up share a core for some milliseconds. A pause before each sample lets the workers of the other
    # library fall asleep, and long samples make the time in which int8blas's workers wake up negligible.
    sample, settle = (2e-2, 3e-2) if options.threads > 1 else (5e-4, 0.0)
    plan = Plan(rounds=30, budget=options.budget, min_sample=sample, settle=settle)
    with held_to(options.threads, options.isa):
        print()
        print("| product, N x N x K | full, us | matmul, times full | syrk, times full | syrk, times float32 |")
        print("|---|---|---|---|---|")
        for n, k in options.shapes or SHAPES:
            for columns in (True, False):
                timings = {name: timing.best for name, timing in measure(contestants(n, k, columns), plan).items()}
                full, syrk = timings["full"], timings["syrk"]
                print(f"| `{'x.T @ x' if columns else 'x @ x.T'}`, {n} x {n} x {k} | {full * 1e6:.1f} "
                      f"| {full / timings['matmul']:.2f} | {full / syrk:.2f} | {timings['float32'] / syrk:.2f} |",
                      flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
