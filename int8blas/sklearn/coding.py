"""Represent samples as bytes, and matrices of floats as two matrices of bytes.

uint8 and int8 samples are not quantized. uint8 becomes int8 by subtracting 128, which keeps distances and covariances.
Samples of other dtypes are floats that are quantized to int8, with the middle of each feature's range as 0.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from int8blas.gemm.matmul import matmul
from int8blas.gemm.packing import pack_b

Floats = npt.NDArray[np.float64]
Int8 = npt.NDArray[np.int8]

# The number of samples that are converted or multiplied at a time: 1 MiB of float64 with 128 features.
BLOCK = 1024
BYTES = (np.dtype(np.int8), np.dtype(np.uint8))


def is_bytes(x: npt.NDArray[Any]) -> bool:
    return x.dtype in BYTES


class Coding:
    """The conversion of samples to int8, ``x = middle + step * bytes``, with a step for each feature or one step for
    all.

    The first samples determine `middle` and `step`. Later samples out of the range of the first samples saturate.
    """

    def __init__(self, x: npt.NDArray[Any], one_step: bool) -> None:
        self.dtype = x.dtype if is_bytes(x) else None
        if self.dtype is not None:
            self.middle = np.full(x.shape[1], 128.0 if self.dtype == np.uint8 else 0.0)
            self.step = np.ones(x.shape[1])
            return
        low, high = x.min(axis=0).astype(np.float64), x.max(axis=0).astype(np.float64)
        self.middle = low / 2 + high / 2
        step = (high / 2 - low / 2) / 127
        if one_step:
            step[:] = step.max()
        self.step = np.where(step > 0, step, 1.0)

    def __call__(self, x: npt.NDArray[Any]) -> Int8:
        if self.dtype is not None:
            return self._same(x)
        rows = np.empty(x.shape, np.int8)
        for start in range(0, len(x), BLOCK):
            some = slice(start, start + BLOCK)
            rows[some] = np.clip(np.rint((x[some] - self.middle) / self.step), -127, 127)
        return rows

    def _same(self, x: npt.NDArray[Any]) -> Int8:
        """Return samples as int8, if their dtype or their values fit the dtype of the first samples."""
        if x.dtype != self.dtype:
            info = np.iinfo(self.dtype)
            if not ((x >= info.min) & (x <= info.max) & (x == np.rint(x))).all():
                raise ValueError(f"X must have values of {self.dtype}, as it had in fit, got others of {x.dtype}")
            x = x.astype(self.dtype)
        return x.view(np.int8) ^ np.int8(-128) if self.dtype == np.uint8 else x.view(np.int8)

    def floats(self, rows: npt.NDArray[Any]) -> Floats:
        """Return the floats that bytes, or means of bytes, stand for."""
        return rows * self.step + self.middle


class Words:
    """Vectors of floats in 16 bits, ``step * (256 * high + low)``. The product of 16-bit vectors with int8 is two
    products of bytes.

    Each vector has one step. If `steps` is None, the largest element of a vector is 127 * 256 steps. `held` has the
    vectors after rounding to 16 bits.
    """

    def __init__(self, vectors: Floats, steps: Floats | None = None) -> None:
        if steps is None:
            largest: Floats = np.abs(vectors).max(axis=1, initial=0)
            steps = np.asarray(np.where(largest > 0, largest, 1.0) / (127 * 256), np.float64)
        words = np.rint(vectors / steps[:, np.newaxis]).astype(np.int32)
        high = (words + 128) >> 8
        self.steps, self.held = steps, words * steps[:, np.newaxis]
        self.packed = pack_b(np.concatenate([high, words - (high << 8)]).astype(np.int8), trans_b=True)

    def products(self, rows: Int8) -> Floats:
        """Return inner products of rows with each vector."""
        both, count = matmul(rows, self.packed), len(self.steps)
        products: Floats = np.multiply(both[:, :count], 256, dtype=np.float64)
        products += both[:, count:]
        products *= self.steps
        return products


def blocks(count: int) -> list[slice]:
    return [slice(start, start + BLOCK) for start in range(0, count, BLOCK)]
