"""Compare the sentence encoder of examples/ with the network in torch and onnxruntime, in float32 and int8.

    python benchmarks/bench_encoder.py                    # --threads 1,2; --seconds 5 for each line of a table

A BERT with 6 layers (all-MiniLM-L6-v2, see examples/sentence_encoder.py) reads one sentence, and the 40 of the example.
int8blas takes the tokens of all sentences as the rows of one matrix. torch and onnxruntime take a matrix of sentences,
padded to one length, sorted by length, 1, 8 or 40 at a time; the fastest batch size counts. Their int8 networks come
from their own quantize_dynamic. Each result is compared with the example's float32 network by the cosine of the
embeddings. All contestants of a table take turns in one run.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import contest

import int8blas
import numpy as np
from int8blas._bench import environment
from int8blas._bench.peers import load
from int8blas._bench.report import print_header
from int8blas._bench.timing import Plan, measure
from threadpoolctl import threadpool_limits

import peers

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))

from int8_encoder import quantize_encoder
from sentence_encoder import CALIBRATION, HEADS, LAYERS, PAIRS, FloatEncoder, load_model, tokenize

BATCHES = (1, 8, 40)
ONE = (12, 46)  # about how many tokens the single sentences have
MIN_SAMPLE = 0.02  # seconds; long enough that weights are in the caches that they stay in
CLOSE = 0.9  # the least cosine of a contestant that computes this network


def padded(run: Callable[..., np.ndarray], sentences: Sequence[Sequence[int]], size: int) -> Callable[[], np.ndarray]:
    """Return a call that computes the embeddings of sentences by a peer, `size` sentences at a time."""
    order = sorted(range(len(sentences)), key=lambda index: len(sentences[index]))
    batches = []
    for start in range(0, len(order), size):
        chosen = order[start : start + size]
        tokens = np.zeros((len(chosen), max(len(sentences[index]) for index in chosen)), np.int32)
        mask = np.zeros_like(tokens)
        for row, index in enumerate(chosen):
            tokens[row, : len(sentences[index])] = sentences[index]
            mask[row, : len(sentences[index])] = 1
        batches.append((chosen, tokens, mask))

    def call() -> np.ndarray:
        results = [run(tokens, mask) for _, tokens, mask in batches]
        embeddings = np.empty((len(sentences), results[0].shape[1]), np.float32)
        for (chosen, _, _), result in zip(batches, results, strict=True):
            embeddings[chosen] = result
        return embeddings

    return call


def compare(
    ours: Callable[..., np.ndarray],
    found: dict[str, Callable[..., np.ndarray]],
    sentences: Sequence[Sequence[int]],
    expected: np.ndarray,
    seconds: float,
) -> None:
    """Measure all contestants on some sentences, and print a table; the fastest way to call each peer counts."""
    sizes = [size for size in BATCHES if size <= len(sentences)]
    calls = {("int8blas", len(sentences)): partial(ours, sentences)}
    calls |= {(name, size): padded(run, sentences, size) for name, run in found.items() for size in sizes}
    cosines = {key: np.sum(call() * expected, axis=1) for key, call in calls.items()}
    labels = {f"{name} {size}": (name, size) for name, size in calls}
    plan = Plan(rounds=200, budget=seconds * len(calls), min_sample=MIN_SAMPLE, settle=contest.SETTLE)
    timings = measure({label: calls[key] for label, key in labels.items()}, plan)
    best: dict[str, tuple[float, int]] = {}
    for label, (name, size) in labels.items():
        best[name] = min(best.get(name, (np.inf, 0)), (timings[label].best, size))

    tokens = [len(sentence) for sentence in sentences]
    many = f"{len(tokens)} sentences, {sum(tokens)} tokens" if len(tokens) > 1 else f"a sentence of {tokens[0]} tokens"
    print(f"\n{many:<32}      ms  of int8blas  at a time  cosine: average, worst")
    for name, (time, size) in best.items():
        cosine = cosines[name, size]
        wrong = "  WRONG" if cosine.min() < CLOSE else ""
        print(f"{name:<32} {1e3 * time:7.2f}  {time / best['int8blas'][0]:11.2f}  {size:9}", end="")
        print(f"          {cosine.mean():.4f}, {cosine.min():.4f}{wrong}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", default="1", help="thread counts, such as 1,2 (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=2, help="for each contestant (default: %(default)s)")
    options = parser.parse_args()

    tensors, folder = load_model()
    float_encoder = FloatEncoder(tensors, LAYERS, HEADS)
    encoder = quantize_encoder(tensors, HEADS, float_encoder, [tokenize(folder, CALIBRATION)])
    sentences = tokenize(folder, [sentence for pair in PAIRS for sentence in pair])
    expected = float_encoder(sentences)
    lengths = np.array([len(sentence) for sentence in sentences])
    chosen = [[int(np.abs(lengths - length).argmin())] for length in ONE] + [list(range(len(sentences)))]

    for threads in map(int, options.threads.split(",")):
        found, missing = load(peers.ENCODER, set(), tensors, LAYERS, HEADS, threads)
        versions = {"int8blas": int8blas.__version__} | {peer.library: peer.version for peer in found}
        print_header(environment.describe(), versions, missing)
        print(f"threads: {threads}")
        with threadpool_limits(threads), int8blas.num_threads(threads):
            for indices in chosen:
                compare(
                    encoder,
                    {peer.name: peer.run for peer in found},
                    [sentences[index] for index in indices],
                    expected[indices],
                    options.seconds,
                )


if __name__ == "__main__":
    main()
