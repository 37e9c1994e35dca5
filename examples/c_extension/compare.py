"""Compare the time of the search in C with NumPy, which first computes all scores: python compare.py."""

import statistics
import sys
import time

import numpy as np
from nearest import nearest

import int8blas

queries, vectors, k, repeats = (100, 300, 40, 3) if "--quick" in sys.argv else (1000, 20000, 128, 10)
rng = np.random.default_rng(0)
asked, base = (rng.integers(-128, 128, (count, k), np.int8) for count in (queries, vectors))


def in_numpy(numbers, best):
    """Compute all scores, then their argmax."""
    scores = int8blas.matmul(asked, base.T)
    np.argmax(scores, axis=1, out=numbers)
    best[:] = scores[np.arange(queries), numbers]


def in_c(numbers, best):
    """Make one call, which keeps the scores of only 64 queries in memory."""
    nearest(asked, base, numbers, best)


results = {search: (np.empty(queries, np.int64), np.empty(queries, np.int32)) for search in (in_numpy, in_c)}
times = {search: [] for search in results}
for _ in range(repeats):
    for search, found in results.items():
        start = time.perf_counter()
        search(*found)
        times[search].append(time.perf_counter() - start)
assert all(map(np.array_equal, *results.values()))
medians = [1e3 * statistics.median(seconds) for seconds in times.values()]
print(f"{queries} queries, {vectors} vectors: {medians[0]:.1f} ms in NumPy, {medians[1]:.1f} ms in C, the same results")
