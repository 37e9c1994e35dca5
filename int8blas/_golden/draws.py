"""Operands of problems, computed with integer arithmetic that is equal in every version of NumPy."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Shape = int | Sequence[int]
# SplitMix64: the step of its counter, and the factors and shifts that mix a counter to a word.
STEP = 0x9E3779B97F4A7C15
MIX = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB))
WORD = 1 << 64


class Draws:
    """Random numbers that the name of a problem determines.

    Examples
    --------
    >>> from int8blas._golden.draws import Draws
    >>> Draws("a name").integers((2, 3), "int8")
    array([[  -5, -124,  -96],
           [  88, -120,  -16]], dtype=int8)
    """

    def __init__(self, name: str) -> None:
        self._counter = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "little")

    def words(self, count: int) -> npt.NDArray[np.uint64]:
        """Return the next words of 64 bits, by SplitMix64."""
        steps = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(STEP)
        x = steps + np.uint64(self._counter)
        self._counter = (self._counter + count * STEP) % WORD
        for shift, factor in MIX:
            x = (x ^ (x >> np.uint64(shift))) * np.uint64(factor)
        return x ^ (x >> np.uint64(31))

    def integers(self, shape: Shape, dtype: npt.DTypeLike, low: int | None = None, high: int | None = None) -> Array:
        """Return integers from `low` to `high`, both included; by default, from the whole range of the type."""
        info = np.iinfo(np.dtype(dtype))
        low, high = info.min if low is None else low, info.max if high is None else high
        sizes = (shape,) if isinstance(shape, int) else tuple(shape)
        # Scale the upper 32 bits of a word to the range. The product has less than 64 bits.
        upper = self.words(math.prod(sizes)) >> np.uint64(32)
        offsets = (upper * np.uint64(high - low + 1)) >> np.uint64(32)
        return (offsets.astype(np.int64) + low).astype(dtype).reshape(sizes)

    def integer(self, low: int, high: int) -> int:
        """Return one integer from `low` to `high`, both included."""
        return int(self.integers(1, np.int64, low, high)[0])

    def reals(self, shape: Shape, dtype: npt.DTypeLike = np.float32, exponents: tuple[int, int] = (-12, -6)) -> Array:
        """Return integers of 10 bits and a sign, times powers of two: exact in float16, float32 and float64."""
        values = self.integers(shape, np.int32, -1023, 1023)
        return np.ldexp(values.astype(np.float64), self.integers(shape, np.int32, *exponents)).astype(dtype)

    def scales(self, shape: Shape, exponent: int = -7) -> npt.NDArray[np.float32]:
        """Return float32 numbers that use all digits of the type, from 2**exponent to 2**(exponent + 1)."""
        return np.ldexp(self.integers(shape, np.int64, 1 << 23, (1 << 24) - 1).astype(np.float32), exponent - 23)

    def scale(self, exponent: int = -7) -> np.float32:
        """Return one number of `scales`, as a float32."""
        return np.float32(self.scales(1, exponent)[0])

    def values(self, shape: Shape, dtype: npt.DTypeLike) -> Array:
        """Return integers of the whole range of a type, or real numbers for a float type."""
        return self.reals(shape, dtype) if np.dtype(dtype).kind == "f" else self.integers(shape, dtype)
