"""Weights of the benchmarks' layers, int8 from -127 as some libraries require."""

import argparse

import numpy as np

KINDS = ("even", "normal")


def add_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--weights", choices=KINDS, default=KINDS[0],
        help="evenly distributed, the worst case without VNNI, or normally, with 127 the largest magnitude of an "
        "output channel, which is near trained ones (default: %(default)s)",
    )  # fmt: skip


def draw_weights(rng: np.random.Generator, shape: tuple[int, ...], kind: str) -> np.ndarray:
    """Weights of this shape; the first dimension is the output channels."""
    if kind == "even":
        return rng.integers(-127, 127, shape, np.int8, endpoint=True)
    weights = rng.standard_normal(shape, np.float32)
    largest = np.abs(weights).max(axis=tuple(range(1, len(shape))), keepdims=True)
    return np.rint(weights * (127 / largest)).astype(np.int8)
