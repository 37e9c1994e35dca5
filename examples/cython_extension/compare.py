"""Compare the time of the compiled loop over groups of rows with the same loop in Python: python compare.py."""

import itertools
import statistics
import sys
import time

import numpy as np
from grouped import grouped_product

import int8blas

groups, k, n, repeats = (20, 32, 16, 3) if "--quick" in sys.argv else (1000, 32, 16, 50)
rng = np.random.default_rng(0)
starts = np.cumsum(np.append(0, rng.integers(0, 16, groups)))
a = rng.integers(0, 256, (starts[-1], k), np.uint8)
b = rng.integers(-128, 128, (groups, k, n), np.int8)


def in_python(c):
    """Make a call for each group."""
    for g, (s, e) in enumerate(itertools.pairwise(starts)):
        int8blas.gemm_u8s8s32(1, a[s:e], b[g], c=c[s:e], overwrite_c=True)


def in_cython(c):
    """Make one call."""
    grouped_product(a, starts, b, c)


results = {loop: np.empty((len(a), n), np.int32) for loop in (in_python, in_cython)}
times = {loop: [] for loop in results}
for _ in range(repeats):
    for loop, c in results.items():
        start = time.perf_counter()
        loop(c)
        times[loop].append(time.perf_counter() - start)
assert np.array_equal(*results.values())
medians = [1e6 * statistics.median(seconds) for seconds in times.values()]
print(f"{groups} groups: {medians[0]:.0f} us in Python, {medians[1]:.0f} us in Cython, the same results")
