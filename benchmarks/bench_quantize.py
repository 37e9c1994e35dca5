"""Compare quantize, dequantize and requantize with a plain copy of the same number of bytes, and with NumPy's
expressions.

    python benchmarks/bench_quantize.py
    python benchmarks/bench_quantize.py --threads 2 --isa avx2

All take turns in one run. A ratio of 1 is the speed of numpy.copyto on one thread. The copy moves as many bytes as the
function: half of them are read, and half are written.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import int8blas
import numpy as np

import bandwidth
from bandwidth import Calls

SIZES = (1 << 10, 1 << 14, 1 << 17, 1 << 20, 1 << 24)  # elements: from the L1 cache to memory
CHANNELS = 64
SCALE, ZERO_POINT = 0.37, 3


def numpy_quantize(x: np.ndarray) -> np.ndarray:
    return np.clip(np.rint(x / np.float32(SCALE) + np.float32(ZERO_POINT)), -128, 127).astype(np.int8)


def numpy_dequantize(x: np.ndarray) -> np.ndarray:
    return np.float32(SCALE) * (x.astype(np.int32) - ZERO_POINT).astype(np.float32)


def contestants(size: int, threads: int) -> tuple[Calls, int]:
    """Return calls on arrays of `size` elements, which read and write 5 bytes for each element."""
    rng = np.random.default_rng(0)
    x = (rng.standard_normal(size) * 20).astype(np.float32)
    q, real = numpy_quantize(x), np.empty(size, np.float32)
    sums = rng.integers(-(10**6), 10**6, size, np.int32)
    result = np.empty(size, np.int8)
    channels = rng.uniform(0.1, 1, CHANNELS).astype(np.float32)
    rows, row_result = x.reshape(-1, CHANNELS), result.reshape(-1, CHANNELS)

    def requantize(scheme: str) -> Callable[[], object]:
        return lambda: int8blas.requantize(sums, 1e-4, ZERO_POINT, out=result, scheme=scheme)

    return {
        "quantize": lambda: int8blas.quantize(x, SCALE, ZERO_POINT, out=result),
        "quantize, channels": lambda: int8blas.quantize(rows, channels, out=row_result, axis=1),
        "dequantize": lambda: int8blas.dequantize(q, SCALE, ZERO_POINT, out=real),
        "requantize, float": requantize("float"),
        "requantize, doubling": requantize("doubling"),
        "requantize, single": requantize("single"),
        "NumPy quantize": lambda: numpy_quantize(x),
        "NumPy dequantize": lambda: numpy_dequantize(q),
    }, 5 * size


if __name__ == "__main__":
    bandwidth.run(__doc__, [(f"{size} elements", partial(contestants, size)) for size in SIZES], budget=4.0)
