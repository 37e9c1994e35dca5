"""Measure quantize, dequantize and requantize beside a plain copy of as many bytes, and NumPy's own expressions.

    python benchmarks/bench_quantize.py
    python benchmarks/bench_quantize.py --threads 2 --isa avx2

All take turns in one run. A ratio of 1 is the speed of the copy: the same number of bytes read and written in all, one
half each, on one thread, by numpy.copyto.
"""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Callable

import int8blas
import numpy as np

import environment
from timing import Plan, measure

SIZES = (1 << 10, 1 << 14, 1 << 17, 1 << 20, 1 << 24)  # elements: from the L1 cache to memory
CHANNELS = 64
SCALE, ZERO_POINT = 0.37, 3


def numpy_quantize(x: np.ndarray) -> np.ndarray:
    return np.clip(np.rint(x / np.float32(SCALE) + np.float32(ZERO_POINT)), -128, 127).astype(np.int8)


def numpy_dequantize(x: np.ndarray) -> np.ndarray:
    return np.float32(SCALE) * (x.astype(np.int32) - ZERO_POINT).astype(np.float32)


def contestants(size: int) -> dict[str, Callable[[], object]]:
    """Calls on arrays of `size` elements, 5 bytes read and written for each."""
    rng = np.random.default_rng(0)
    x = (rng.standard_normal(size) * 20).astype(np.float32)
    q, real = numpy_quantize(x), np.empty(size, np.float32)
    sums = rng.integers(-(10**6), 10**6, size, np.int32)
    result = np.empty(size, np.int8)
    source = np.ones(5 * size // 2, np.uint8)
    copy = np.empty_like(source)
    channels = rng.uniform(0.1, 1, CHANNELS).astype(np.float32)
    rows, row_result = x.reshape(-1, CHANNELS), result.reshape(-1, CHANNELS)

    def requantize(scheme: str) -> Callable[[], object]:
        return lambda: int8blas.requantize(sums, 1e-4, ZERO_POINT, out=result, scheme=scheme)

    return {
        "copy": lambda: np.copyto(copy, source),
        "quantize": lambda: int8blas.quantize(x, SCALE, ZERO_POINT, out=result),
        "quantize, channels": lambda: int8blas.quantize(rows, channels, out=row_result, axis=1),
        "dequantize": lambda: int8blas.dequantize(q, SCALE, ZERO_POINT, out=real),
        "requantize, float": requantize("float"),
        "requantize, doubling": requantize("doubling"),
        "requantize, single": requantize("single"),
        "NumPy quantize": lambda: numpy_quantize(x),
        "NumPy dequantize": lambda: numpy_dequantize(q),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=1, help="of int8blas (default: %(default)s)")
    parser.add_argument("--isa", help="hold int8blas to this ISA")
    parser.add_argument("--budget", type=float, default=4.0, help="seconds per size (default: %(default)s)")
    options = parser.parse_args()
    plan = Plan(rounds=30, budget=options.budget, min_sample=2e-4, settle=5e-3 if options.threads > 1 else 0.0)
    with contextlib.ExitStack() as stack:
        stack.enter_context(int8blas.num_threads(options.threads))
        if options.isa is not None:
            stack.enter_context(int8blas.use_isa(options.isa))
        for key, value in environment.describe().items():
            print(f"{key}: {value}")
        print(f"isa: {options.isa or int8blas.available_isas()[0]}, threads: {options.threads}")
        for size in SIZES:
            timings = measure(contestants(size), plan)
            copied = timings["copy"].best
            print(f"\n{size} elements")
            for name, timing in timings.items():
                rate = 5 * size / timing.best / 1e9
                print(f"  {name:22}{timing.best * 1e6:10.1f} us {rate:7.1f} GB/s  ratio {copied / timing.best:5.2f}")


if __name__ == "__main__":
    main()
