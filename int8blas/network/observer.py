"""The base classes of observers: checks, division into channels, histograms, parameters of a range."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from int8blas.core.arrays import widened
from int8blas.core.parameters import QuantizationParameters, int8_dtype, integer, scale_of_range
from int8blas.core.words import dtype_error, shown
from int8blas.network.histogram import Histogram

Float32s = npt.NDArray[np.float32]
Ranges = tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]


class Observer(ABC):
    """The base class of observers, which find a range for each channel. Subclasses define the range."""

    def __init__(self, *, dtype: Any = np.int8, symmetric: bool = True, axis: int | None = None) -> None:
        if not isinstance(symmetric, (bool, np.bool_)):
            raise TypeError(f"symmetric must be a bool, got {type(symmetric).__name__}")
        self.dtype = int8_dtype(dtype, "dtype")
        self.symmetric = bool(symmetric)
        self.axis = None if axis is None else integer(axis, "axis")
        self._channels: int | None = None

    def __repr__(self) -> str:
        return f"{type(self).__name__}(dtype={self.dtype}, symmetric={self.symmetric}, axis={self.axis})"

    def observe(self, x: npt.ArrayLike) -> Self:
        """Observe a batch of values.

        Parameters
        ----------
        x : array_like of bfloat16, float16, float32 or float64
            Finite values of any shape. With `axis`, `x` must have the channels of earlier batches along this dimension.

        Returns
        -------
        self

        Raises
        ------
        TypeError, ValueError
            If `x` is not as described above. The error does not change the observer.
        """
        array = widened(x, "x")
        if array.dtype.kind != "f" or array.dtype.itemsize > 8:
            raise dtype_error(array, "x", ("float32", "float64", "float16", "bfloat16"))
        with np.errstate(over="ignore", under="ignore"):
            # Copy the values: another thread could write to the argument between the check and the counting.
            values = array.astype(np.float32)
        if self.axis is None:
            channels = values.reshape(1, -1)
        elif not -values.ndim <= self.axis < values.ndim:
            raise ValueError(f"x must have the dimension {self.axis} that axis names, got shape {values.shape}")
        else:
            values = np.moveaxis(values, self.axis, 0)
            channels = values.reshape(values.shape[0], values.size // max(values.shape[0], 1))
        if channels.size == 0:
            return self
        if self._channels not in (None, len(channels)):
            raise ValueError(f"x must have {self._channels} channels along axis {self.axis}, as earlier batches had, "
                             f"got {len(channels)}")  # fmt: skip
        if not np.isfinite(channels).all():
            nans = int(np.isnan(channels).sum())
            infinite = int(np.isinf(channels).sum())
            raise ValueError(f"x must be finite in float32, got {nans} NaN and {infinite} infinite of {channels.size} "
                             f"values")  # fmt: skip
        first = self._channels is None
        self._channels = len(channels)
        self._update(channels, first)
        return self

    def parameters(self) -> QuantizationParameters:
        """Return the scale and the zero point for the values observed so far.

        Returns
        -------
        QuantizationParameters
            The parameters, with `axis` arrays of C scales and C zero points. More batches may be observed later.

        Raises
        ------
        ValueError
            If no value has been observed.
        """
        if self._channels is None:
            raise ValueError("observe must have been called with at least one value before parameters")
        scale, zero_point = scale_of_range(*self._ranges(), self.dtype, self.symmetric)
        if self.axis is None:
            return QuantizationParameters(scale[0], zero_point[0], self.dtype)
        return QuantizationParameters(scale, zero_point, self.dtype, self.axis)

    @abstractmethod
    def _update(self, channels: Float32s, first: bool) -> None:
        """Add finite values of shape (C, n), n > 0. `first` is true for the first batch."""

    @abstractmethod
    def _ranges(self) -> Ranges:
        """Return (low, high), each of shape (C,)."""


class HistogramObserver(Observer):
    """Keep a histogram for each channel, and find a range in each histogram."""

    def __init__(
        self, *, bins: int = 2048, dtype: Any = np.int8, symmetric: bool = True, axis: int | None = None
    ) -> None:
        super().__init__(dtype=dtype, symmetric=symmetric, axis=axis)
        self.bins = integer(bins, "bins")
        if self.bins < 2 or self.bins & (self.bins - 1):
            raise ValueError(f"bins must be a power of two and at least 2, got {shown(bins)}")
        self._histograms: list[Histogram] = []

    def _update(self, channels: Float32s, first: bool) -> None:
        if first:
            self._histograms = [Histogram(self.bins) for _ in channels]
        for histogram, values in zip(self._histograms, channels, strict=True):
            histogram.add(values)

    def _ranges(self) -> Ranges:
        ranges = np.array([self._range(h) if h.largest > 0 else (0.0, 0.0) for h in self._histograms])
        return ranges[:, 0], ranges[:, 1]

    @abstractmethod
    def _range(self, histogram: Histogram) -> tuple[float, float]:
        """Return (low, high) for a histogram of values that are not all 0."""
