"""Compare int8blas.nearest with faiss, usearch and NumKong: exact searches of 8-bit vectors by inner product.

    pip install faiss-cpu usearch numkong threadpoolctl
    python benchmarks/bench_nearest.py --threads 1,2                # 10**6 x 384, about five minutes
    python benchmarks/bench_nearest.py --rows 100000 --queries 1,64

All contestants take turns in one run, and medians of `--repeat` calls are printed, in milliseconds. `product` is the
part that every search needs: int8blas's product with blocks of the packed base, to a small buffer. NumKong has no
search, so its times are only products with packed blocks to a small buffer. `read` is the time to read the base once,
as fast as int8blas's kernels can. Before timing, each library's indices are compared with int8blas's.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from typing import Any

os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import int8blas
import numpy as np
from int8blas._bench import environment
from int8blas._bench.peak import Peak
from threadpoolctl import threadpool_limits

BLOCK = 8192  # rows of a block of the products
Call = Callable[[], Any]


def blocks(base: np.ndarray) -> list[np.ndarray]:
    return [base[start : start + BLOCK] for start in range(0, len(base), BLOCK)]


def ours(base: np.ndarray, k: int) -> dict[str, Callable[[np.ndarray], Any]]:
    packed = int8blas.pack_b(base, trans_b=True)
    parts = [int8blas.pack_b(block, trans_b=True) for block in blocks(base)]

    def product(queries: np.ndarray) -> None:
        memory = np.empty((len(queries), BLOCK), np.int32)
        for part in parts:
            int8blas.matmul(queries, part, out=memory[:, : part.shape[1]])

    searches: dict[str, Callable[[np.ndarray], Any]] = {"product": product}
    for metric in ("inner", "sqeuclidean", "cosine"):
        searches[metric] = lambda queries, metric=metric: int8blas.nearest(queries, packed, k, metric=metric)[0]
    searches["unpacked"] = lambda queries: int8blas.nearest(queries, base, k)[0]
    return searches


def faiss_search(base: np.ndarray, k: int) -> Callable[[np.ndarray], Any]:
    import faiss

    index = faiss.IndexScalarQuantizer(
        base.shape[1], faiss.ScalarQuantizer.QT_8bit_direct_signed, faiss.METRIC_INNER_PRODUCT
    )
    for block in blocks(base):
        index.add(block.astype(np.float32))
    return lambda queries: index.search(queries.astype(np.float32), k)[1]


def usearch_search(base: np.ndarray, k: int) -> Callable[[np.ndarray], Any]:
    from usearch.index import MetricKind, search

    def run(queries: np.ndarray) -> np.ndarray:
        threads = int8blas.num_threads()
        return search(base, queries, k, MetricKind.IP, exact=True, threads=threads).keys.reshape(len(queries), -1)

    return run


def numkong_products(base: np.ndarray, k: int) -> Callable[[np.ndarray], Any]:
    import numkong

    parts = [(numkong.dots_pack(block), len(block)) for block in blocks(base)]

    def run(queries: np.ndarray) -> None:
        outs = {count: numkong.zeros((len(queries), count), dtype="int32") for _, count in parts}
        for part, count in parts:
            numkong.dots_packed(queries, part, out=outs[count])

    return run


PEERS = {"faiss": ("faiss-cpu", faiss_search), "usearch": ("usearch", usearch_search),
         "NumKong": ("numkong", numkong_products)}  # fmt: skip


def medians(calls: dict[str, Call], repeat: int) -> dict[str, float]:
    """Return the milliseconds of each call. The calls take turns."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(repeat):
        for name, call in calls.items():
            start = time.perf_counter()
            call()
            times[name].append(1e3 * (time.perf_counter() - start))
    return {name: float(np.median(values)) for name, values in times.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--channels", type=int, default=384)
    parser.add_argument("--queries", default="1,16,64,256", help="at a time (default: %(default)s)")
    parser.add_argument("--threads", default="1")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("-k", type=int, default=10)
    parser.add_argument("--skip", default="", help="peers and ways to leave out")
    options = parser.parse_args()
    skip = options.skip.split(",")
    rng = np.random.default_rng(0)
    base = rng.integers(-127, 128, (options.rows, options.channels), np.int8)
    searches = ours(base, options.k)
    versions = [f"int8blas {int8blas.__version__}"]
    for name, (package, make) in PEERS.items():
        if name not in skip:
            try:
                searches[name] = make(base, options.k)
                versions.append(f"{name} {version(package)}")
            except ImportError:
                print(f"{name} is not installed")
    searches = {name: search for name, search in searches.items() if name not in skip}
    about = environment.describe()
    print(f"{options.rows:,} x {options.channels}, k = {options.k}, ms; {about['cpu']}; {', '.join(versions)}")
    for threads in map(int, options.threads.split(",")):
        with threadpool_limits(threads), int8blas.num_threads(threads):
            read_bytes, reads = Peak(threads).read(base.nbytes)
            print(f"\n{'threads':>7} {'queries':>7} {'read':>8}" + "".join(f"{name:>13}" for name in searches))
            for count in map(int, options.queries.split(",")):
                queries = rng.integers(-127, 128, (count, options.channels), np.int8)
                expected = int8blas.nearest(queries, base, options.k)[0]
                for name in {"faiss", "usearch", "inner"} & searches.keys():
                    found = np.mean(np.asarray(searches[name](queries)) == expected)
                    if found < 0.99:  # libraries choose different rows if scores are equal
                        print(f"{name} finds {found:.3f} of what int8blas finds")
                calls = {name: partial(search, queries) for name, search in searches.items()}
                found_times = medians(calls | reads, options.repeat)
                read = min(found_times[name] for name in reads) * base.nbytes / read_bytes
                print(f"{threads:>7} {count:>7} {read:>8.1f}", end="")
                print("".join(f"{found_times[name]:>13.1f}" for name in searches), flush=True)


if __name__ == "__main__":
    main()
