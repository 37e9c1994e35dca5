"""Compare searches of packed bits by int8blas.Index with faiss.IndexBinaryFlat, and all distances with NumPy.

    pip install faiss-cpu && python benchmarks/bench_hamming.py [--rows 1000000] [--threads 1]

Bits are random. Times are the shortest of interleaved calls, in ms.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import int8blas
import numpy as np

SIZES, QUERIES, NEAREST, ALL = (8, 32, 48, 128, 256), (1, 16, 256), 10, 1000


def shortest(functions: dict[str, Callable[[], Any]], repeats: int) -> dict[str, float]:
    """Return the shortest time of each function, in ms."""
    times = dict.fromkeys(functions, np.inf)
    for _ in range(repeats):
        for name, function in functions.items():
            begun = time.perf_counter()
            function()
            times[name] = min(times[name], 1e3 * (time.perf_counter() - begun))
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure searches of packed bits.")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--isa", default=int8blas.available_isas()[0])
    options = parser.parse_args()
    int8blas.num_threads(options.threads)
    int8blas.use_isa(options.isa)
    try:
        import faiss

        faiss.omp_set_num_threads(options.threads)
    except ImportError:
        faiss = None
    rng = np.random.default_rng(0)
    for size in SIZES:
        x = rng.integers(0, 256, (options.rows, size), np.uint8)
        index = int8blas.Index(size, "hamming")
        index.add(x)
        if faiss:
            flat = faiss.IndexBinaryFlat(8 * size)
            flat.add(x)
        for count in QUERIES:
            q = rng.integers(0, 256, (count, size), np.uint8)
            cases: dict[str, Callable[[], Any]] = {"int8blas": lambda q=q, index=index: index.search(q, NEAREST)}
            if faiss:
                cases["faiss"] = lambda q=q, flat=flat: flat.search(q, NEAREST)
                assert np.array_equal(flat.search(q, NEAREST)[0], index.search(q, NEAREST)[0])
            found = shortest(cases, options.repeats)
            print(f"{size} bytes, {count} queries:", *(f"{name} {best:.2f} ms" for name, best in found.items()))
        some, others = x[:ALL], x[-ALL:]
        found = shortest(
            {
                "int8blas": lambda a=some, b=others: int8blas.hamming(a, b),
                "NumPy": lambda a=some, b=others: np.bitwise_count(a[:, np.newaxis] ^ b).sum(axis=2, dtype=np.int32),
            },
            options.repeats,
        )
        print(f"{size} bytes, all of {ALL} x {ALL}:", *(f"{name} {best:.2f} ms" for name, best in found.items()))


if __name__ == "__main__":
    main()
