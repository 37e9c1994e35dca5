"""Calibration: scales and zero points from the values that a tensor has been seen to have.

An observer is shown batches of float arrays, one after another, and then gives the parameters of the quantization
``x_f32 = scale * (x_int8 - zero_point)``::

    MinMaxObserver            the range from the smallest to the largest value
    MovingAverageObserver     a range that follows the batches
    PercentileObserver        the range that leaves out a share of the values as outliers
    EntropyObserver           the range with the smallest Kullback-Leibler divergence
    LeastSquaresObserver      the range with the smallest mean squared error

An observer finds a range [low, high], for the tensor or for each channel, and the parameters follow from it. With
R = max(``|low|``, ``|high|``):

=========================  ==================  =====================================================================
`symmetric`                scale               zero point
=========================  ==================  =====================================================================
True, int8                 R / 127             0
True, uint8, low >= 0      R / 255             0
True, uint8, low < 0       R / 127             128
False                      (high - low) / 255  rne(qmin - low / scale), clipped to [qmin, qmax]; low and high are
                                               extended to contain 0 first, so that 0.0 is exact
=========================  ==================  =====================================================================

qmin and qmax are the ends of the dtype's range. Scales are computed in double precision and rounded to float32 once;
zero points are those of the rounded scale. A tensor or channel of zeros alone has the scale 1; a scale is never below
the smallest normal float32, 2**-126, so that its reciprocal is finite.

All observers treat input alike. bfloat16, float16, float32 and float64 arrays are taken, and rounded to float32 first,
the type that quantization works in. NaN and infinite values are refused with a ValueError, because a calibration that
silently leaves them out would hide what is wrong with the data; the refused batch leaves the observer as it was. An
empty batch changes nothing. No values are stored: an observer keeps its range and, where it needs one, a histogram of
fixed size. All but MovingAverageObserver give the same parameters, bit for bit, whatever the order of the values and
however they are divided into batches.

The formulas are those of oneDNN's guide "Int8 inference" (Q_a = 255 / R, Q_w = 127 / R, of which the scales here are
the reciprocals) and, for zero points, of ONNX's operator DynamicQuantizeLinear.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from int8blas.core.parameters import QuantizationParameters, load_parameters, real, save_parameters
from int8blas.network.histogram import Histogram
from int8blas.network.observer import Float32s, HistogramObserver, Observer, Ranges

__all__ = [
    "EntropyObserver",
    "LeastSquaresObserver",
    "MinMaxObserver",
    "MovingAverageObserver",
    "PercentileObserver",
    "QuantizationParameters",
    "load_parameters",
    "save_parameters",
]


class MinMaxObserver(Observer):
    """The range from the smallest to the largest of all values.

    ``low = min(x)``, ``high = max(x)``

    Nothing is clipped. Right for weights, and for activations without outliers.

    Parameters
    ----------
    dtype : int8 or uint8, optional
        The type to quantize to.
    symmetric : bool, optional
        Whether zero points are fixed (0, or 128 for uint8 where values are negative), as in the table of
        :mod:`int8blas.calibration`.
    axis : int, optional
        The dimension that channels lie along, which then have parameters of their own; None for the whole tensor.

    Raises
    ------
    TypeError
        If an argument is not as above.

    Notes
    -----
    The parameters do not depend on the order of values and batches. The range is that of oneDNN's guide "Int8
    inference", R = max(abs(T)).

    Examples
    --------
    The guide's activations and weights:

    >>> import numpy as np
    >>> from int8blas.calibration import MinMaxObserver
    >>> activations = MinMaxObserver(dtype=np.uint8).observe(np.float32([15, 14])).observe(np.float32([15, 8, 11]))
    >>> activations.parameters() == MinMaxObserver(dtype=np.uint8).observe([15.0, 8.0]).parameters()
    True
    >>> round(1 / float(activations.parameters().scale), 2)
    17.0
    >>> round(1 / float(MinMaxObserver().observe([-5.1, 6.8, -1.2, 9.8]).parameters().scale), 2)
    12.96

    Scales per output channel, and a zero point:

    >>> MinMaxObserver(axis=0).observe([[127.0, -1.0], [0.0, -63.5]]).parameters().scale
    array([1. , 0.5], dtype=float32)
    >>> MinMaxObserver(dtype=np.uint8, symmetric=False).observe([-55.0, 200.0]).parameters().zero_point
    55
    """

    _low: Float32s
    _high: Float32s

    def _update(self, channels: Float32s, first: bool) -> None:
        low, high = channels.min(1), channels.max(1)
        self._low = low if first else np.minimum(self._low, low)
        self._high = high if first else np.maximum(self._high, high)

    def _ranges(self) -> Ranges:
        return self._low.astype(np.float64), self._high.astype(np.float64)


class MovingAverageObserver(Observer):
    """A range that follows the ranges of the batches.

    ``low = momentum * low + (1 - momentum) * min(batch)``, and `high` likewise with the maximum; the first batch sets
    both.

    Parameters
    ----------
    momentum : float, optional
        How much of the range a batch leaves as it was, 0 <= momentum < 1.
    dtype, symmetric, axis
        As for :class:`MinMaxObserver`.

    Raises
    ------
    TypeError, ValueError
        If an argument is not as above.

    Notes
    -----
    The one observer whose result depends on the order of the batches (not on the order of values in a batch). Computed
    in double precision.

    Examples
    --------
    >>> from int8blas.calibration import MovingAverageObserver
    >>> observer = MovingAverageObserver(momentum=0.5).observe([-127.0]).observe([381.0, -127.0])
    >>> observer.parameters().scale  # high is halfway from -127 to 381
    np.float32(1.0)
    """

    def __init__(
        self, momentum: float = 0.9, *, dtype: Any = np.int8, symmetric: bool = True, axis: int | None = None
    ) -> None:
        super().__init__(dtype=dtype, symmetric=symmetric, axis=axis)
        self._ends = np.empty((2, 0))
        self.momentum = real(momentum, "momentum")
        if not 0 <= self.momentum < 1:
            raise ValueError(f"momentum must be at least 0 and below 1, got {momentum}")

    def _update(self, channels: Float32s, first: bool) -> None:
        ends = np.stack([channels.min(1), channels.max(1)]).astype(np.float64)
        self._ends = ends if first else self.momentum * self._ends + (1 - self.momentum) * ends

    def _ranges(self) -> Ranges:
        return self._ends[0], self._ends[1]


class PercentileObserver(HistogramObserver):
    """The range that contains a given percentage of the values.

    Symmetric: ``high = v``, the smallest value such that at least `percentile` % of all ``|x|`` are at most v, and
    ``low = -v``, or 0 if no value is negative. Otherwise each end leaves out half of the rest: at least
    ``percentile + (100 - percentile) / 2`` % of all x are at most `high`, and as many at least `low`.

    Parameters
    ----------
    percentile : float, optional
        0 < percentile <= 100. 100 is the range of :class:`MinMaxObserver`.
    bins : int, optional
        Bins of the histogram on each side of 0, a power of two: 16 * bins bytes for each channel.
    dtype, symmetric, axis
        As for :class:`MinMaxObserver`.

    Raises
    ------
    TypeError, ValueError
        If an argument is not as above.

    Notes
    -----
    An end is rounded away from 0 to the edge of its bin, but not beyond the values. A bin is 1 / bins of the smallest
    power of two above the largest ``|x|``. The parameters do not depend on the order of values and batches.

    Examples
    --------
    >>> import numpy as np
    >>> from int8blas.calibration import PercentileObserver
    >>> x = np.append(np.linspace(-1, 1, 9999), 1000.0)
    >>> PercentileObserver(99.9).observe(x).parameters().scale * 127  # a bin is 0.5 here
    np.float32(1.0)
    """

    def __init__(
        self,
        percentile: float = 99.99,
        *,
        bins: int = 2048,
        dtype: Any = np.int8,
        symmetric: bool = True,
        axis: int | None = None,
    ) -> None:
        super().__init__(bins=bins, dtype=dtype, symmetric=symmetric, axis=axis)
        self.percentile = real(percentile, "percentile")
        if not 0 < self.percentile <= 100:
            raise ValueError(f"percentile must be above 0 and at most 100, got {percentile}")

    def _range(self, histogram: Histogram) -> tuple[float, float]:
        # The decimal number that the user wrote: 99.9 % of 1000 values are 999, which doubles would round up to 1000.
        share = Fraction(repr(self.percentile)) / 100
        if self.symmetric:
            high = min(_upper_edge(histogram.magnitudes(), share) * histogram.width, histogram.largest)
            return -high if histogram.low < 0 else 0.0, high
        share += (1 - share) / 2
        high = (_upper_edge(histogram.counts, share) - histogram.bins) * histogram.width
        low = -(_upper_edge(histogram.counts[::-1], share) - histogram.bins) * histogram.width
        return max(low, histogram.low), min(high, histogram.high)


class EntropyObserver(HistogramObserver):
    """The range that loses least information: the smallest Kullback-Leibler divergence over a histogram.

    For each threshold T = i * width, i = 1, 2, ..., bins up to the largest ``|x|``, the values are clipped to [-T, T]
    (or to [0, T] if none is negative; without `symmetric` to the part of it that the values and 0 reach), and
    ``sum(p * log(p / q))`` compares

    - p, the histogram of the clipped values (of their magnitudes if symmetric), with
    - q, the histogram of those values that are not clipped, quantized: divided into 128 equal levels (256 without
      `symmetric`, and for uint8 if no value is negative), each level's count shared evenly among those of its bins in
      which p is not 0; p / 10000 where a level has only clipped values, since the sum has no value for q = 0.

    The T with the smallest divergence is taken, the largest of several. A T with fewer bins than levels is not
    considered, except the last. Zeros do not count: they are exact in every range, and the many that a ReLU leaves
    would outweigh all else.

    Parameters
    ----------
    bins : int, optional
        Bins of the histogram on each side of 0, a power of two: 16 * bins bytes for each channel.
    dtype, symmetric, axis
        As for :class:`MinMaxObserver`.

    Raises
    ------
    TypeError, ValueError
        If an argument is not as above.

    Notes
    -----
    The method is that of Szymon Migacz, "8-bit Inference with TensorRT" (2017), here also for ranges that are not
    symmetric. It wants many values, thousands at least; ``parameters()`` takes about a tenth of a second for each
    channel. The parameters do not depend on the order of values and batches.

    Examples
    --------
    >>> import numpy as np
    >>> from int8blas.calibration import EntropyObserver
    >>> x = np.random.default_rng(0).normal(size=100_000)
    >>> x[0] = 50.0
    >>> scale = EntropyObserver().observe(x).parameters().scale
    >>> bool(3 < scale * 127 < 6)
    True
    """

    def _range(self, histogram: Histogram) -> tuple[float, float]:
        i, low, high = histogram.candidates(self.symmetric)
        best = _last_smallest(histogram.divergences(i, self.dtype, self.symmetric))
        return float(low[best]), float(high[best])


class LeastSquaresObserver(HistogramObserver):
    """The range with the smallest mean squared quantization error.

    ``mean((x - scale * (q - zero_point))**2)`` with ``q = sat(rne(x / scale + zero_point))``

    is computed for the thresholds T = i * width, i = 1, 2, ..., up to the largest ``|x|``, each with the scale and the
    zero point of the range [-T, T] (or [0, T] if no value is negative; without `symmetric` the part of it that the
    values and 0 reach). The T with the smallest error is taken, the largest of several.

    Parameters
    ----------
    bins : int, optional
        Bins of the histogram on each side of 0, a power of two: 16 * bins bytes for each channel. A bin's values count
        as its middle, zeros as 0.
    dtype, symmetric, axis
        As for :class:`MinMaxObserver`.

    Raises
    ------
    TypeError, ValueError
        If an argument is not as above.

    Notes
    -----
    Without `symmetric` both ends share the threshold T; they are not searched separately. The parameters do not depend
    on the order of values and batches.

    Examples
    --------
    >>> import numpy as np
    >>> from int8blas.calibration import LeastSquaresObserver
    >>> x = np.random.default_rng(0).normal(size=100_000)
    >>> scale = LeastSquaresObserver().observe(x).parameters().scale
    >>> bool(scale * 127 < 0.95 * np.abs(x).max())  # a few values are clipped, and the others are finer
    True
    """

    def _range(self, histogram: Histogram) -> tuple[float, float]:
        _, low, high = histogram.candidates(self.symmetric)
        best = _last_smallest(histogram.squared_errors(low, high, self.dtype, self.symmetric))
        return float(low[best]), float(high[best])


def _upper_edge(counts: npt.NDArray[np.int64], share: Fraction) -> int:
    """The number of bins from the first on that hold at least this share of the counts."""
    cumulative = np.cumsum(counts)
    rank = -int(-share * int(cumulative[-1]) // 1)  # rounded up
    return int(np.searchsorted(cumulative, rank)) + 1


def _last_smallest(values: npt.NDArray[np.float64]) -> int:
    """The index of the smallest value, the last one of equal ones."""
    return len(values) - 1 - int(np.argmin(values[::-1]))
