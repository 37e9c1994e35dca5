"""Calibration: scales and zero points from the observed values of a tensor.

An observer sees float arrays, batch after batch, and then computes the parameters of the quantization
``x_f32 = scale * (x_int8 - zero_point)``::

    MinMaxObserver            the range from the smallest to the largest value
    MovingAverageObserver     a moving average of the batches' ranges
    PercentileObserver        a range that clips a given share of the values
    EntropyObserver           the range with the smallest Kullback-Leibler divergence
    LeastSquaresObserver      the range with the smallest mean squared error

An observer finds a range [low, high] for the tensor, or for each channel. This table shows the parameters of a range,
with R = max(``|low|``, ``|high|``):

=========================  ==================  =====================================================================
`symmetric`                scale               zero point
=========================  ==================  =====================================================================
True, int8                 R / 127             0
True, uint8, low >= 0      R / 255             0
True, uint8, low < 0       R / 127             128
False                      (high - low) / 255  rne(qmin - low / scale), clipped to [qmin, qmax]; low and high are
                                               extended to contain 0 first, so that 0.0 is exact
=========================  ==================  =====================================================================

qmin and qmax are the ends of the dtype's range. Scales are computed in double precision and rounded to float32 once.
Zero points follow from the rounded scale. A tensor or channel of zeros has scale 1. A scale is at least the smallest
normal float32, 2**-126, so that its reciprocal is finite.

All observers accept bfloat16, float16, float32 and float64 arrays, and round them to float32, the type that
quantization takes. NaN and infinite values raise a ValueError, because a calibration that ignores them would hide
faulty data. Neither a ValueError nor an empty batch changes the observer. An observer stores its range and, if the
method needs it, a histogram of fixed size, but no values. The parameters have the same bits for any order of the values
and any division into batches, except for MovingAverageObserver.

The formulas for scales are the reciprocals of Q_a = 255 / R and Q_w = 127 / R in oneDNN's guide "Int8 inference". The
formula for zero points comes from ONNX's operator DynamicQuantizeLinear.
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

    No value is clipped. The observer suits weights, and activations without outliers.

    Parameters
    ----------
    dtype : int8 or uint8, optional
        The type of quantized values.
    symmetric : bool, optional
        Whether the zero point is fixed: 0, or 128 for uint8 with negative values (see the table of
        :mod:`int8blas.calibration`).
    axis : int, optional
        The dimension of channels. With an axis, each channel has its own parameters; None gives the tensor one range.

    Raises
    ------
    TypeError
        If an argument is not as described above.

    Notes
    -----
    The parameters do not depend on the order of values and batches. The range follows oneDNN's guide "Int8 inference",
    R = max(abs(T)).

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
    """A moving average of the batches' ranges.

    ``low = momentum * low + (1 - momentum) * min(batch)``. `high` is the moving average of the maximum. After the first
    batch, `low` and `high` are the minimum and the maximum of the batch.

    Parameters
    ----------
    momentum : float, optional
        The weight of the previous range, 0 <= momentum < 1.
    dtype, symmetric, axis
        As for :class:`MinMaxObserver`.

    Raises
    ------
    TypeError, ValueError
        If an argument is not as described above.

    Notes
    -----
    This is the only observer whose result depends on the order of the batches. The order of values in a batch does not
    matter. The observer computes in double precision.

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

    If symmetric, `high` is the smallest v such that at least `percentile` % of all ``|x|`` are at most v. `low` is -v,
    or 0 if no value is negative. If not symmetric, each end clips half of the remaining values: with ``p = percentile +
    (100 - percentile) / 2``, at least p % of all x are at most `high`, and at least p % of all x are at least `low`.

    Parameters
    ----------
    percentile : float, optional
        The percentage, more than 0 and at most 100. 100 gives the range of :class:`MinMaxObserver`.
    bins : int, optional
        The number of bins of the histogram on each side of 0, a power of two. Each channel takes 16 * bins bytes.
    dtype, symmetric, axis
        As for :class:`MinMaxObserver`.

    Raises
    ------
    TypeError, ValueError
        If an argument is not as described above.

    Notes
    -----
    An end is rounded away from 0 to the edge of its bin, but not beyond the extreme values. A bin is 1 / bins of the
    smallest power of two above the largest ``|x|``. The parameters do not depend on the order of values and batches.

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
        # Use the decimal number of the caller: 99.9 % of 1000 values are 999, but in doubles slightly more.
        share = Fraction(repr(self.percentile)) / 100
        if self.symmetric:
            high = min(_upper_edge(histogram.magnitudes(), share) * histogram.width, histogram.largest)
            return -high if histogram.low < 0 else 0.0, high
        share += (1 - share) / 2
        high = (_upper_edge(histogram.counts, share) - histogram.bins) * histogram.width
        low = -(_upper_edge(histogram.counts[::-1], share) - histogram.bins) * histogram.width
        return max(low, histogram.low), min(high, histogram.high)


class EntropyObserver(HistogramObserver):
    """The range that loses the least information, by the Kullback-Leibler divergence over a histogram.

    The thresholds are T = i * width, i = 1, 2, ..., bins, up to the largest ``|x|``. A threshold clips the values to
    [-T, T], or to [0, T] if no value is negative. Without `symmetric`, a threshold clips the values to the part of [-T,
    T] that 0 and the values span. The divergence ``sum(p * log(p / q))`` compares

    - p, the histogram of the clipped values (of their magnitudes if symmetric), with
    - q, the histogram of the values inside the range, after quantization. q has 128 equal levels (256 without
      `symmetric`, and for uint8 if no value is negative). In each level, the bins with p > 0 share the count of the
      level evenly. If a level has only clipped values, q is p / 10000, because the sum is undefined for q = 0.

    The result is the largest T with the smallest divergence. A T with fewer bins than levels is skipped, except the
    last T. Zeros do not count, because they are exact in every range, and because the many zeros that a ReLU produces
    would outweigh all other values.

    Parameters
    ----------
    bins : int, optional
        The number of bins of the histogram on each side of 0, a power of two. Each channel takes 16 * bins bytes.
    dtype, symmetric, axis
        As for :class:`MinMaxObserver`.

    Raises
    ------
    TypeError, ValueError
        If an argument is not as described above.

    Notes
    -----
    The method is from Szymon Migacz, "8-bit Inference with TensorRT" (2017), extended to ranges that are not symmetric.
    The method needs many values, at least thousands. ``parameters()`` takes about a tenth of a second for each channel.
    The parameters do not depend on the order of values and batches.

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

    The observer computes the mean squared error for the thresholds T = i * width, i = 1, 2, ..., up to the largest
    ``|x|``. Each threshold has the scale and the zero point of the range [-T, T], or [0, T] if no value is negative.
    Without `symmetric`, the range is the part of [-T, T] that 0 and the values span. The result is the largest T with
    the smallest error.

    Parameters
    ----------
    bins : int, optional
        The number of bins of the histogram on each side of 0, a power of two. Each channel takes 16 * bins bytes. The
        middle of a bin stands for its values, but zeros count as 0.
    dtype, symmetric, axis
        As for :class:`MinMaxObserver`.

    Raises
    ------
    TypeError, ValueError
        If an argument is not as described above.

    Notes
    -----
    Without `symmetric`, both ends share the threshold T. The parameters do not depend on the order of values and
    batches.

    Examples
    --------
    >>> import numpy as np
    >>> from int8blas.calibration import LeastSquaresObserver
    >>> x = np.random.default_rng(0).normal(size=100_000)
    >>> scale = LeastSquaresObserver().observe(x).parameters().scale
    >>> bool(scale * 127 < 0.95 * np.abs(x).max())  # a few values are clipped, the rest are finer
    True
    """

    def _range(self, histogram: Histogram) -> tuple[float, float]:
        _, low, high = histogram.candidates(self.symmetric)
        best = _last_smallest(histogram.squared_errors(low, high, self.dtype, self.symmetric))
        return float(low[best]), float(high[best])


def _upper_edge(counts: npt.NDArray[np.int64], share: Fraction) -> int:
    """Return the smallest number of leading bins that have at least a given share of the counts."""
    cumulative = np.cumsum(counts)
    rank = -int(-share * int(cumulative[-1]) // 1)  # rounded up
    return int(np.searchsorted(cumulative, rank)) + 1


def _last_smallest(values: npt.NDArray[np.float64]) -> int:
    """Return the index of the smallest value. If several values are equally small, return the last index."""
    return len(values) - 1 - int(np.argmin(values[::-1]))
