"""Search among vectors in shards on the workers of a Dask cluster.

    python examples/dask_search.py               # needs Dask: pip install int8blas[cluster]
    python examples/dask_search.py --quick       # a tenth of the vectors

Each shard is a file of packed int8 vectors. A worker maps its shards, which may be larger than its memory, and searches
them together with `int8blas.nearest`; it only returns the k best vectors for each query. The results of all workers are
merged by score, then by number, so the final result is the result of a search in one process.

The cluster is on this machine: two processes with one thread each. Vectors are random, in clusters, from a fixed seed.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from dask.distributed import Client, LocalCluster, wait

import int8blas

CHANNELS, SHARDS, QUERIES, NEAREST, WORKERS = 384, 8, 64, 10, 2
Found = tuple[np.ndarray, np.ndarray]  # numbers and scores, best first


def make_vectors(seed: int, count: int) -> np.ndarray:
    """int8 vectors (count, CHANNELS) around a hundred centres."""
    centres = np.random.default_rng(0).integers(-80, 81, (100, CHANNELS), np.int8)
    rng = np.random.default_rng(seed)
    return centres[rng.integers(100, size=count)] + rng.integers(-40, 41, (count, CHANNELS), np.int8)


def write_shards(folder: Path, vectors: int) -> list[tuple[Path, int]]:
    """A file for each shard, with the number of its first vector. Their sizes differ."""
    ends = np.linspace(0, 1, SHARDS + 1) ** 1.2 * vectors
    shards = []
    for number, (start, end) in enumerate(zip(ends[:-1].astype(int), ends[1:].astype(int), strict=True)):
        path = folder / f"shard{number}.i8"
        int8blas.pack_b(make_vectors(number + 1, end - start), trans_b=True).save(path)
        shards.append((path, int(start)))
    return shards


def load_shards(shards: list[tuple[Path, int]]) -> list[int8blas.PackedB]:
    """Map files into the memory of the calling process."""
    return [int8blas.PackedB.load(path) for path, _ in shards]


def search(queries: np.ndarray, base: list[int8blas.PackedB], first: int) -> Found:
    """Find the nearest vectors in consecutive shards of one worker; return their numbers among all vectors, and
    scores."""
    numbers, scores = int8blas.nearest(queries, base, NEAREST)
    return numbers + first, scores


def merge(parts: list[Found]) -> Found:
    """Merge the nearest vectors of several parts."""
    numbers, scores = (np.concatenate(arrays, axis=1) for arrays in zip(*parts, strict=True))
    order = np.lexsort((numbers, -scores))[:, :NEAREST]
    return np.take_along_axis(numbers, order, axis=1), np.take_along_axis(scores, order, axis=1)


def on_a_cluster(queries: np.ndarray, shards: list[tuple[Path, int]]) -> tuple[Found, float]:
    """Return the result of the workers, each with half of the shards, and the time, without that for mapping."""
    halves = [shards[: SHARDS // 2], shards[SHARDS // 2 :]]
    with (
        LocalCluster(WORKERS, threads_per_worker=1, dashboard_address=":0", host="127.0.0.1") as cluster,
        Client(cluster) as client,
    ):
        workers = list(client.scheduler_info()["workers"])
        # The results of these futures stay on the worker that created them.
        bases = [client.submit(load_shards, half, workers=[w]) for half, w in zip(halves, workers, strict=True)]
        wait(bases)
        start = time.perf_counter()
        parts = [client.submit(search, queries, base, half[0][1]) for base, half in zip(bases, halves, strict=True)]
        found = merge(client.gather(parts))
        return found, time.perf_counter() - start


def main() -> int:
    parser = argparse.ArgumentParser(description="Search in shards on a Dask cluster with int8blas.")
    parser.add_argument("--vectors", type=int, default=1_000_000)
    parser.add_argument("--quick", action="store_true", help="100 000 vectors")
    options = parser.parse_args()
    vectors = 100_000 if options.quick else options.vectors
    queries = make_vectors(SHARDS + 1, QUERIES)
    with tempfile.TemporaryDirectory() as folder:
        shards = write_shards(Path(folder), vectors)
        size = sum(path.stat().st_size for path, _ in shards)
        print(f"{vectors:,} vectors in {SHARDS} shards of {size / 2**20:.0f} MiB; {QUERIES} queries")
        (numbers, scores), seconds = on_a_cluster(queries, shards)
        with int8blas.num_threads(WORKERS):
            base = load_shards(shards)
            start = time.perf_counter()
            expected = search(queries, base, 0)
            alone = time.perf_counter() - start
    same = np.array_equal(numbers, expected[0]) and np.array_equal(scores, expected[1])
    print(f"{WORKERS} workers: {1e3 * seconds:.0f} ms; one process, {WORKERS} threads: {1e3 * alone:.0f} ms")
    print(f"same result: {same}")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
