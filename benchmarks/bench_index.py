"""Compare searches of int8blas.Index, with and without a filter, with bare nearest and, if they are installed, faiss
and usearch.

    python benchmarks/bench_index.py [--vectors 1000000] [--threads 1]

Times are medians of interleaved calls, in ms, of searches for the ten largest cosines among random vectors of 384
elements, whose values do not change the times. "filter" keeps a tenth of the vectors, at random.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from typing import Any

import int8blas
import numpy as np

DIM, NEAREST = 384, 10


def medians(functions: dict[str, Callable[[], Any]], repeats: int) -> dict[str, float]:
    """Return the median time of each function in ms. The functions take turns."""
    times: dict[str, list[float]] = {name: [] for name in functions}
    for _ in range(repeats):
        for name, function in functions.items():
            start = time.perf_counter()
            function()
            times[name].append(time.perf_counter() - start)
    return {name: 1e3 * float(np.median(some)) for name, some in times.items()}


def peers(x: np.ndarray, threads: int) -> dict[str, Callable[[np.ndarray], Any]]:
    """Return the exact searches of installed libraries, on int8blas's int8 vectors."""
    found: dict[str, Callable[[np.ndarray], Any]] = {}
    try:
        import faiss
    except ImportError:
        pass
    else:
        faiss.omp_set_num_threads(threads)
        index = faiss.IndexScalarQuantizer(DIM, faiss.ScalarQuantizer.QT_8bit_direct_signed, faiss.METRIC_INNER_PRODUCT)
        for start in range(0, len(x), 1 << 16):
            index.add(x[start : start + (1 << 16)].astype(np.float32))
        found["faiss"] = lambda q: index.search(q.astype(np.float32), NEAREST)
    try:
        from usearch.index import MetricKind, search
    except ImportError:
        pass
    else:
        found["usearch"] = lambda q: search(x, q, NEAREST, MetricKind.Cos, exact=True, threads=threads)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure int8blas.Index.")
    parser.add_argument("--vectors", type=int, default=1_000_000)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    int8blas.num_threads(options.threads)
    rng = np.random.default_rng(0)
    x = rng.integers(-127, 128, (options.vectors, DIM), np.int8)
    packed, index = int8blas.pack_b(x, trans_b=True), int8blas.Index(DIM)
    start = time.perf_counter()
    index.add(x)
    print(f"add {1e3 * (time.perf_counter() - start):.0f} ms")
    mask = rng.random(len(x)) < 0.1
    others = peers(x, options.threads)
    for count in (1, 16, 64, 256):
        q = rng.integers(-127, 128, (count, DIM), np.int8)
        functions: dict[str, Callable[[], Any]] = {
            "nearest": lambda q=q: int8blas.nearest(q, packed, NEAREST, metric="cosine"),
            "Index": lambda q=q: index.search(q, NEAREST),
            "filter": lambda q=q: index.search(q, NEAREST, include=mask),
        } | {name: (lambda search=search, q=q: search(q)) for name, search in others.items()}
        print(count, *(f"{name} {ms:.1f}" for name, ms in medians(functions, options.repeats).items()), sep="  ")
    with tempfile.TemporaryDirectory() as folder:
        for what, function in {
            "save": lambda: index.save(folder),
            "save again": lambda: index.save(folder),
            "load": lambda: int8blas.Index.load(folder),
            "load and search": lambda: int8blas.Index.load(folder).search(q[:1], NEAREST),
            "load and verify": lambda: int8blas.Index.load(folder, verify=True),
        }.items():
            print(f"{what} {medians({what: function}, 1)[what]:.1f} ms")


if __name__ == "__main__":
    main()
