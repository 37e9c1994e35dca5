"""Histograms of bounded size, and searches for ranges in them. The order of the counted values does not matter."""

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from int8blas.core.parameters import scale_of_range

Floats = npt.NDArray[np.float64]

# Every nonzero float32 is at least 2 ** (SMALLEST_EXPONENT - 1).
SMALLEST_EXPONENT = -148

# The ratio q / p for a level that has only clipped values, so that the penalty of a distant outlier is finite.
EMPTY = 1e-4

# The number of values that are counted at a time, which bounds temporary memory.
STRETCH = 1 << 16


class Histogram:
    """Counts of float32 values in 2 * bins bins of equal width from -2**exponent to 2**exponent.

    Bin j of -bins <= j < bins counts j * width <= x < (j + 1) * width and is ``counts[bins + j]``. 2**exponent is the
    smallest power of two above every |x|. A value beyond the range merges neighbouring bins. The width is also a power
    of two, so merging is exact: floor(x / 2w) = floor(floor(x / w) / 2). The counts do not depend on the order of the
    values.
    """

    def __init__(self, bins: int) -> None:
        self.bins = bins
        self.exponent = SMALLEST_EXPONENT
        self.counts = np.zeros(2 * bins, np.int64)
        self.zeros = 0
        self.low = math.inf
        self.high = -math.inf

    @property
    def width(self) -> float:
        """Return the width of a bin."""
        return math.ldexp(1.0, self.exponent) / self.bins

    @property
    def largest(self) -> float:
        """Return the largest |x|."""
        return max(-self.low, self.high)

    def add(self, values: npt.NDArray[np.float32]) -> None:
        """Count finite values, at least one."""
        self.low = min(self.low, float(values.min()))
        self.high = max(self.high, float(values.max()))
        if self.largest > 0:
            self._grow(math.frexp(self.largest)[1])
        self.zeros += values.size - int(np.count_nonzero(values))
        for start in range(0, values.size, STRETCH):
            # Compute in double precision, because scaling a float32 could underflow.
            scaled = values[start : start + STRETCH].astype(np.float64) / self.width
            index = np.floor(scaled).astype(np.intp) + self.bins
            self.counts += np.bincount(index, minlength=2 * self.bins)

    def _grow(self, exponent: int) -> None:
        """Merge bins until the range reaches 2**exponent."""
        if exponent > self.exponent:
            index = np.arange(-self.bins, self.bins) >> min(exponent - self.exponent, 63)
            merged = np.zeros_like(self.counts)
            np.add.at(merged, index + self.bins, self.counts)
            self.counts, self.exponent = merged, exponent

    def magnitudes(self) -> npt.NDArray[np.int64]:
        """Return the histogram of |x|, in which bin j counts j * width <= |x| <= (j + 1) * width."""
        folded: npt.NDArray[np.int64] = self.counts[self.bins :] + self.counts[self.bins - 1 :: -1]
        return folded

    def candidates(self, symmetric: bool) -> tuple[npt.NDArray[np.int64], Floats, Floats]:
        """Return the candidate ranges of a search as (i, low, high), with |x| limited to T = i * width, i = 1, 2, ...

        The largest T is the largest |x|. A range is [-T, T], or [0, T] if no value is negative. If not symmetric, a
        range is the part of [-T, T] that 0 and the values span.
        """
        count = int(np.flatnonzero(self.magnitudes())[-1]) + 1
        i = np.arange(1, count + 1)
        thresholds = np.minimum(i * self.width, self.largest)
        low, high = min(self.low, 0.0), max(self.high, 0.0)
        if symmetric:
            return i, -thresholds if low < 0 else np.zeros(count), thresholds
        return i, np.maximum(low, -thresholds), np.minimum(high, thresholds)

    def squared_errors(self, low: Floats, high: Floats, dtype: np.dtype[Any], symmetric: bool) -> Floats:
        """Return for each range the sum over all values of (x - scale * (q - zp))**2, q = sat(rne(x / scale + zp)).

        The middle of a bin stands for its values, except for zeros, which are exact in every range.
        """
        weights = self.counts.copy()
        weights[self.bins] -= self.zeros
        used = np.flatnonzero(weights)
        weights = weights[used]
        middles = (used - self.bins + 0.5) * self.width
        info = np.iinfo(dtype)
        errors = np.empty(low.size)
        scales, zero_points = scale_of_range(low, high, dtype, symmetric)
        for i, (scale, zero_point) in enumerate(zip(scales.astype(np.float64), zero_points, strict=True)):
            q = np.clip(np.rint(middles / scale + zero_point), info.min, info.max)
            errors[i] = np.sum(weights * (middles - scale * (q - zero_point)) ** 2)
        return errors

    def divergences(self, i: npt.NDArray[np.int64], dtype: np.dtype[Any], symmetric: bool) -> Floats:
        """For each i of :meth:`candidates`, return the divergence between the values and their quantization.

        Zeros do not count, because they are exact in every range. A range with fewer bins than levels has the
        divergence inf, unless it is the last range.
        """
        if symmetric:
            counts, left = self.magnitudes(), 0
            levels = 256 if dtype == np.uint8 and self.low >= 0 else 128
            before = after = i[-1]
        else:
            counts, left, levels = self.counts.copy(), self.bins, 256
            before = -int(np.floor(min(self.low, 0.0) / self.width))
            after = int(np.floor(max(self.high, 0.0) / self.width)) + 1
        counts[left] -= self.zeros
        found = np.full(i.size, np.inf)
        for index, limit in enumerate(i):
            start = left - min(limit, before, left)
            stop = left + min(limit, after)
            if stop - start >= levels or index == i.size - 1:
                found[index] = divergence(counts, start, stop, levels)
        return found


def divergence(counts: npt.NDArray[np.int64], start: int, stop: int, levels: int) -> float:
    """Return the Kullback-Leibler divergence sum p log(p / q) of clipped values from their quantization.

    p has the counts of bins start..stop. The first bin and the last bin of p also have the counts of all bins outside.
    The counts of q are only from bins start..stop, in `levels` equal stretches of bins. The occupied bins (p > 0) of a
    stretch share the count of the stretch evenly. In a stretch without counts, q is p * EMPTY, because the sum is
    undefined for q = 0. Both p and q are normalized.
    """
    inside = counts[start:stop].astype(np.float64)
    p = inside.copy()
    p[0] += counts[:start].sum()
    p[-1] += counts[stop:].sum()
    level = np.arange(p.size) * levels // p.size
    occupied = p > 0
    mass = np.bincount(level, inside, levels)
    share = mass / np.maximum(np.bincount(level, occupied, levels), 1)
    p, q = p[occupied], share[level[occupied]]
    q = np.where(q > 0, q, p * EMPTY)
    p /= p.sum()
    q /= q.sum()
    return float(np.sum(p * np.log(p / q)))
