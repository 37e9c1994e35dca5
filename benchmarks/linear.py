"""The problems of the linear-layer benchmark: shapes, and the operands of one layer with the expected results.

static:  dst_u8 = requantize(ReLU((src_u8 - zero point) @ weights_s8.T * scales + bias)),   all scales known beforehand
dynamic: dst_f32 = quantize(src_f32) @ weights_s8.T * scales + bias,   the source's scales found in each call
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from int8blas._bench.shapes import Product

from weights import draw_weights

KINDS = ("static", "dynamic")

# (N, K) of the layers of BERT, and of a larger layer; M for one token, a few tokens, sequences.
LAYERS = [(768, 768), (3072, 768), (768, 3072), (4096, 1024)]
BERT = [(m, n, k) for m in (1, 16, 128, 384) for n, k in LAYERS]
SHAPES: dict[str, list[tuple[int, int, int]]] = {
    "static": BERT,
    "dynamic": sorted([*BERT, (128, 128, 128), (1024, 1024, 1024), (1, 1024, 1024), (1, 4096, 4096), (16, 4096, 4096)]),
}
QUICK = [(1, 768, 768), (16, 3072, 768), (128, 768, 3072), (384, 768, 768)]

SRC_SCALE, SRC_ZERO_POINT = np.float32(0.02), 113
DST_ZERO_POINT = 0  # as in every calibration of a ReLU's output to uint8

# Bounds of the error, relative to the norm of the result. For normally distributed values, 8 bits for the range of a
# row or of all rows give 0.6 to 0.9 %, 7 bits (torch with its default reduce_range) twice as much. float32 arithmetic
# would give less than the lower bound.
DYNAMIC_ERRORS = (1e-4, 0.02)


@dataclass(frozen=True)
class LinearProblem(Product):
    """A linear layer of K inputs and N outputs on M rows; classes are sets of shapes with the same M."""

    kind: str


def problems(kind: str, quick: bool, given: list[tuple[int, int, int]]) -> list[LinearProblem]:
    shapes = given or (QUICK if quick else SHAPES[kind])
    return [LinearProblem(f"M = {m}", m, n, k, kind) for m, n, k in shapes]


class LinearOperands:
    """C-ordered operands; weights are (outputs, inputs) = (N, K)."""

    def __init__(self, problem: LinearProblem, weights: str) -> None:
        self.problem = p = problem
        rng = np.random.default_rng(zlib.crc32(repr(p).encode()))
        self.src_u8 = rng.integers(0, 255, (p.m, p.k), np.uint8, endpoint=True)
        self.weights = draw_weights(rng, (p.n, p.k), weights)
        self.weight_scales = rng.uniform(0.5e-3, 2e-3, p.n).astype(np.float32)
        if p.kind == "dynamic":
            self.src_f32 = rng.standard_normal((p.m, p.k), np.float32)
        self.bias = (np.sqrt(p.k) * 0.05 * rng.standard_normal(p.n)).astype(np.float32)

    @property
    def scales(self) -> np.ndarray:
        """Return the scale of the int32 sums of the static layer."""
        return SRC_SCALE * self.weight_scales

    @property
    def bias_s32(self) -> np.ndarray:
        """Return the static layer's bias in the scale of the sums, for libraries with an integer bias."""
        return np.rint(self.bias / self.scales).astype(np.int32)

    @cached_property
    def _activated(self) -> np.ndarray:
        """Return the static layer's float32 result after ReLU, in the arithmetic of int8blas."""
        # float64 holds the sums exactly: |sum| <= 2**15 * K < 2**53.
        sums = (self.src_u8.astype(np.float64) - SRC_ZERO_POINT) @ self.weights.T.astype(np.float64)
        return np.maximum(sums.astype(np.float32) * self.scales + self.bias, np.float32(0))

    @cached_property
    def dst_scale(self) -> np.float32:
        """Return a scale a little too small for the largest results, which saturate."""
        return np.float32(0.9 * self._activated.max() / 255)

    @cached_property
    def expected_u8(self) -> np.ndarray:
        """Return the static layer's result, with the bits of int8blas."""
        quotients = self._activated * (np.float32(1) / self.dst_scale) + np.float32(DST_ZERO_POINT)
        return np.clip(np.rint(quotients), 0, 255).astype(np.uint8)

    @cached_property
    def expected_f32(self) -> np.ndarray:
        """Return the dynamic layer's result without the error of quantizing the source."""
        weights = self.weights * self.weight_scales[:, None].astype(np.float64)
        return self.src_f32.astype(np.float64) @ weights.T + self.bias

    def check_static(self, result: np.ndarray, tolerance: int = 1) -> str:
        """Describe the error of a uint8 result, or return "". A library that rounds an earlier value may differ by one
        step."""
        error = int(np.abs(result.astype(np.int16) - self.expected_u8).max())
        return "" if error <= tolerance else f"an error of {error} steps of the output"

    def check_dynamic(self, result: np.ndarray, quantized: bool = True) -> str:
        """Describe the error of a float32 result of a quantized or a float32 product, or return ""."""
        error = float(np.linalg.norm(result - self.expected_f32) / np.linalg.norm(self.expected_f32))
        least, most = DYNAMIC_ERRORS if quantized else (0, DYNAMIC_ERRORS[0])
        if error < least:
            return f"computed in floating point: an error of {error:.1e} is too small for 8 bits"
        return "" if error <= most else f"a relative error of {error:.1e}"
