"""Embed a data set larger than memory, block by block, on the workers of a Dask cluster.

    python examples/dask_embedding.py            # needs Dask and scikit-learn: pip install int8blas[cluster,examples]
    python examples/dask_embedding.py --quick    # a data set that is not larger than memory

The images are scikit-learn's digits (8 x 8 pixels), enlarged, at random positions in 64 x 64 pixels with noise. The
worker that needs a block of images creates it, with the number of the block as the seed, so that there is only one
block per worker in memory. An int8 network of three convolutions and an inner product computes a vector of 64 values
for each image. Its weights are random, with a fixed seed: the example shows how to distribute the work; the vectors
themselves have no use. The layers are sent to each worker once, as pickles with out-of-band buffers, not with every
task.

The cluster is on this machine: two processes with one thread each, under a limit of memory that is smaller than the
data set and that Dask enforces. Then one process with two threads repeats the computation, and must give the same bits.
"""

from __future__ import annotations

import argparse
import pickle
import resource
import sys
import time

import dask.array as da
import numpy as np
from dask.distributed import Client, LocalCluster, progress
from dask.utils import format_bytes, parse_bytes
from sklearn.datasets import load_digits

import int8blas

SIZE, ENLARGED, WIDTH, WORKERS = 64, 6, 64, 2
Layers = list[int8blas.Convolution | int8blas.InnerProduct]


def make_network() -> Layers:
    """Return a network that turns uint8 images (n, 64, 64, 1) into int8 vectors (n, 64)."""
    rng = np.random.default_rng(0)
    relu = int8blas.Attributes(post_ops=[int8blas.ReLU()])
    layers: Layers = []
    for inputs, outputs in ((1, 32), (32, 64), (64, 128)):
        weights = rng.normal(0, (2 / (9 * inputs)) ** 0.5, (outputs, inputs, 3, 3)).astype(np.float32)
        scales = {"src": 1 / 64, "weights": "per_channel", "dst": 1 / 64}
        layers.append(int8blas.Convolution(weights, strides=2, padding=1, src_dtype=np.uint8, dst_dtype=np.uint8,
                                           scales=scales, attributes=relu))  # fmt: skip
    weights = rng.normal(0, 1 / 90, (WIDTH, 128, 8, 8)).astype(np.float32)
    layers.append(int8blas.InnerProduct(weights.transpose(0, 2, 3, 1), src_dtype=np.uint8, dst_dtype=np.int8,
                                        scales={"src": 1 / 64, "weights": "per_channel", "dst": 1 / 32}))  # fmt: skip
    return layers


def make_images(digits: np.ndarray, block: int, count: int) -> np.ndarray:
    """One block of the data set, uint8 (count, 64, 64, 1): enlarged digits at random positions, with noise."""
    rng = np.random.default_rng(block)
    images = rng.integers(0, 32, (count, SIZE, SIZE), np.uint8)
    first = rng.integers(0, SIZE - 8 * ENLARGED + 1, (2, count, 1))
    rows, columns = np.clip((np.arange(SIZE) - first) // ENLARGED, -1, 8) + 1  # in a digit framed by zeros
    framed = np.pad(digits, ((0, 0), (1, 1), (1, 1)))[rng.integers(0, len(digits), count)]
    framed *= rng.integers(6, 14, (count, 1, 1), np.uint8)  # 16 * 13 + 31 is at most 255
    images += framed[np.arange(count)[:, None, None], rows[:, :, None], columns[:, None, :]]
    return images[..., np.newaxis]


def embed(counts: np.ndarray, layers: Layers, digits: np.ndarray, block_info: dict | None = None) -> np.ndarray:
    """Return a block of the result; the mapped array only has the number of images in each block."""
    block = block_info[0]["chunk-location"][0] if block_info else 0
    x = make_images(digits, block, len(counts))
    for layer in layers:
        x = layer(x)
    return x


def peak_memory() -> int:
    """The largest resident size of this process so far, in bytes."""
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def on_a_cluster(layers: Layers, digits: np.ndarray, images: int, block: int, limit: int) -> tuple[np.ndarray, float]:
    """Return the vectors and the time; the memory limit is for all workers together."""
    with (
        LocalCluster(
            WORKERS, threads_per_worker=1, memory_limit=limit // WORKERS, dashboard_address=":0", host="127.0.0.1"
        ) as cluster,
        Client(cluster) as client,
    ):
        start = time.perf_counter()
        shipped = client.scatter([layers, digits], broadcast=True)
        counts = da.zeros((images, 1), chunks=(block, 1), dtype=np.uint8)
        vectors = counts.map_blocks(embed, *shipped, dtype=np.int8, chunks=(counts.chunks[0], (WIDTH,)))
        future = client.compute(vectors)
        progress(future, notebook=False)
        result = future.result()
        seconds = time.perf_counter() - start
        peaks = client.run(peak_memory).values()
        print(f"\npeak memory of the workers: {' and '.join(map(format_bytes, peaks))}, of {format_bytes(limit)}")
    return result, seconds


def in_one_process(layers: Layers, digits: np.ndarray, images: int, block: int) -> tuple[np.ndarray, float]:
    """Return the same, computed with two threads in this process."""
    start = time.perf_counter()
    result = np.empty((images, WIDTH), np.int8)
    with int8blas.num_threads(WORKERS):
        for number, first in enumerate(range(0, images, block)):
            part = result[first : first + block]
            part[...] = embed(part, layers, digits, [{"chunk-location": (number,)}])
    return result, time.perf_counter() - start


def main() -> int:
    parser = argparse.ArgumentParser(description="Embed a data set larger than memory with int8blas and Dask.")
    parser.add_argument("--images", type=int, default=150_000)
    parser.add_argument("--block", type=int, default=500, help="images in a block")
    parser.add_argument("--memory-limit", default="500 MiB", help="of all workers together")
    parser.add_argument("--quick", action="store_true", help="5000 images, which are not larger than memory")
    arguments = parser.parse_args()
    images = 5_000 if arguments.quick else arguments.images
    limit = parse_bytes(arguments.memory_limit)

    digits, layers = load_digits().images.astype(np.uint8), make_network()
    buffers: list[pickle.PickleBuffer] = []
    stream = pickle.dumps(layers, protocol=5, buffer_callback=buffers.append)
    weights = sum(buffer.raw().nbytes for buffer in buffers)
    print(f"{images} images, {format_bytes(images * SIZE**2)}; memory limit of {WORKERS} workers {format_bytes(limit)}")
    print(f"layers: {len(stream)} bytes, and {weights} in {len(buffers)} buffers")

    vectors, seconds = on_a_cluster(layers, digits, images, arguments.block, limit)
    expected, alone = in_one_process(layers, digits, images, arguments.block)
    same = vectors.dtype == expected.dtype and np.array_equal(vectors, expected)
    print(f"{WORKERS} workers: {seconds:.1f} s, {images / seconds:.0f} images/s")
    print(f"one process, {WORKERS} threads: {alone:.1f} s, {images / alone:.0f} images/s")
    print(f"same bits: {same}; {len(np.unique(vectors[:1000], axis=0))} of the first 1000 vectors are different")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
