"""onnxruntime's functions of bytes, correctly rounded. ONNX does not define these operators. Here their result is the
real value of their formula, rounded once, to even in a tie::

    QLinearAdd              (a_scale * (a - a_zero) + b_scale * (b - b_zero)) / y_scale
    QLinearMul              a_scale * (a - a_zero) * b_scale * (b - b_zero) / y_scale
    QLinearConcat           scale * (x - zero) / y_scale, of each part
    QLinearLeakyRelu        the same, times alpha below zero
    QLinearSigmoid          1 / (1 + exp(-scale * (x - zero))) / y_scale
    means                   scale * (sum - count * zero) / (count * y_scale)

    y = sat(rne(value) + y_zero)

A function of one byte is a table. For two bytes, and for sums, the kernels compute in float32, with scales that give
the exact result everywhere. Scales are tried until some do. All 65,536 pairs of bytes are compared. A function of a sum
is monotone, so it is compared on both sides of each place where its result changes. If all scales are divided by one
number, the value is the same, but the roundings are others; the same holds for scales one unit in the last place away.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from int8blas.elementwise.functions import binary
from int8blas.elementwise.quantization import requantize
from int8blas.onnx.graph import Array
from int8blas.onnx.types import BYTES

# Scales that are tried are up to so many units in the last place from the rounded ones, the nearest first.
UNITS = sorted(range(-4, 5), key=abs)
PAIRS = sorted(itertools.product(UNITS, UNITS), key=lambda pair: abs(pair[0]) + abs(pair[1]))
# The mean of so many bytes is right in float64: sums times a scale have 18 + 9 + 24 bits, and a quotient that is no tie
# differs from one by 2**-51 of itself or more.
LARGEST_COUNT = 1 << 18
# Digits of a sigmoid: no argument but 0, where it is exact, is as near to a tie.
DIGITS = 60
# A sigmoid of an argument beyond this is 0 or 1 to so many digits.
LARGEST = 1000
# Values of float64 that are results of 8 bits are right to less than this.
FAR_FROM_TIE = 1e-9
# Integers of which the results of int64 are right.
LARGEST_INTEGER = 1 << 62
# The bytes of each type, by their values.
RESULTS = {dtype: np.arange(np.iinfo(dtype).min, np.iinfo(dtype).max + 1).astype(dtype) for dtype in BYTES}
# Up to so many sums are faster found among steps than computed in float64.
FEW = 128
Pair = Callable[[Array, Array], Array]


def takes(*numbers: Array | None) -> bool:
    """Whether scales and zero points, in turn, are numbers that the formulas are defined for; the last pair is that of
    the result, whose scale is not 0. A zero point may be left out."""
    scales, zeros = numbers[::2], numbers[1::2]
    known = all(scale is not None and scale.size == 1 and np.isfinite(scale).all() for scale in scales)
    integers = all(zero is None or (zero.size == 1 and zero.dtype in BYTES) for zero in zeros)
    return known and integers and bool(scales[-1])


def number(value: Array | None) -> Any:
    """The value of an array of one element, 0 for none."""
    return 0 if value is None else value.item()


def bytes_of(dtype: np.dtype[Any]) -> Array:
    """All bytes of a type, in the order of their bits."""
    return np.arange(256, dtype=np.uint8).view(dtype)


def stored(value: Fraction | Decimal, zero: int, dtype: np.dtype[Any]) -> int:
    """sat(rne(value) + zero)."""
    limits = np.iinfo(dtype)
    return min(max(round(value) + zero, int(limits.min)), int(limits.max))


def rounded_floats(values: Array, zero: int, dtype: np.dtype[Any]) -> Array:
    """The same of an array of float64."""
    limits = np.iinfo(dtype)
    return np.asarray(np.clip(np.rint(values) + zero, limits.min, limits.max)).astype(dtype)


def steps_of(ratio: Fraction, zero: int, dtype: np.dtype[Any]) -> list[int]:
    """The smallest integers n for which sat(rne(n * ratio) + zero) is larger than its lowest value, by 1, 2, and so on
    to 255; `ratio` is positive."""
    limits = np.iinfo(dtype)
    steps = []
    for result in range(int(limits.min) - zero + 1, int(limits.max) - zero + 1):
        bound = Fraction(2 * result - 1, 2) / ratio
        tie = bound.denominator == 1 and result % 2
        steps.append(-(-bound.numerator // bound.denominator) + (1 if tie else 0))
    return steps


def rounded(n: Array, ratio: Fraction, zero: int, dtype: np.dtype[Any]) -> Array:
    """sat(rne(n * ratio) + zero), of integers of int64, or of any size in an array of objects."""
    if ratio == 0:
        return np.full(n.shape, zero, dtype)
    n, ratio = (-n, -ratio) if ratio < 0 else (n, ratio)
    steps = steps_of(ratio, zero, dtype)
    if n.dtype == object:
        edges: Array = np.array(steps, object)
    else:
        edges = np.clip(np.array(steps, object), -LARGEST_INTEGER, LARGEST_INTEGER).astype(np.int64)
    return np.asarray(RESULTS[dtype][np.searchsorted(edges, n, "right")])


# ---------------------------------------------------------------------------------------------- of one byte ------


@functools.lru_cache(256)
def scaled_table(
    dtype: np.dtype[Any], scale: float, zero: int, y_scale: float, y_zero: int, y_dtype: np.dtype[Any],
    alpha: float = 1.0,
) -> Array:  # fmt: skip
    """The results for all bytes of QLinearConcat, or of QLinearLeakyRelu with its `alpha`."""
    above = Fraction(scale) / Fraction(y_scale)
    # The scale may be negative: what is below zero is the real number.
    below = above * Fraction(alpha)
    values = [int(x) - zero for x in bytes_of(dtype)]
    chosen = [value * (above if value * scale >= 0 else below) for value in values]
    return np.array([stored(value, y_zero, y_dtype) for value in chosen], y_dtype)


@functools.lru_cache(256)
def sigmoid_table(
    dtype: np.dtype[Any], scale: float, zero: int, y_scale: float, y_zero: int, y_dtype: np.dtype[Any]
) -> Array:  # fmt: skip
    """The results of QLinearSigmoid for all bytes: in float64, and in decimal numbers near a tie."""
    integers = bytes_of(dtype).astype(np.int64) - zero
    with np.errstate(all="ignore"):
        values = 1 / (1 + np.exp(-(scale * integers))) / y_scale
        results = rounded_floats(values, y_zero, y_dtype)
        near_tie = np.abs(values - np.floor(values) - 0.5) < FAR_FROM_TIE
    with localcontext() as context:
        context.prec = DIGITS
        for i in np.flatnonzero(near_tie):
            argument = max(min(Decimal(scale) * int(integers[i]), Decimal(LARGEST)), Decimal(-LARGEST))
            results[i] = stored(1 / (1 + (-argument).exp()) / Decimal(y_scale), y_zero, y_dtype)
    return results


# --------------------------------------------------------------------------------------------- of two bytes ------


def values_of_pairs(
    name: str, a: Array, a_scale: float, b: Array, b_scale: float, y_scale: float
) -> tuple[Array, Fraction]:
    """Integers and a ratio whose products are the real values of a sum or product of integers a and b."""
    first, second, last = map(Fraction, (a_scale, b_scale, y_scale))
    if name == "mul":
        return a * b, first * second / last
    unit = Fraction(1, max(first.denominator, second.denominator))  # of powers of 2
    times = int(first / unit), int(second / unit)
    if max(map(abs, times)) > LARGEST_INTEGER >> 10:
        a, b = a.astype(object), b.astype(object)
    return a * times[0] + b * times[1], unit / last


@functools.lru_cache(64)
def pair_function(
    name: Any, a_dtype: np.dtype[Any], a_scale: float, a_zero: int, b_dtype: np.dtype[Any], b_scale: float,
    b_zero: int, y_scale: float, y_zero: int, y_dtype: np.dtype[Any],
) -> Pair:  # fmt: skip
    """QLinearAdd or QLinearMul ("add", "mul") of two tensors of these types."""
    a, b = bytes_of(a_dtype)[:, None], bytes_of(b_dtype)[None]
    n, ratio = values_of_pairs(
        name, a.astype(np.int64) - a_zero, a_scale, b.astype(np.int64) - b_zero, b_scale, y_scale
    )
    table = rounded(n, ratio, y_zero, y_dtype)
    zeros = {"src0": a_zero, "src1": b_zero, "dst": y_zero}
    for scales in scales_of_pairs(name, a_scale, b_scale, y_scale):
        given = dict(zip(("src0", "src1", "dst"), scales, strict=True))
        kernel: Pair = functools.partial(
            binary, name, scales=given, zero_points=zeros, dst_dtype=y_dtype, scheme="onnx"
        )  # fmt: skip
        if np.array_equal(kernel(a, b), table):
            return kernel
    return lambda a, b: np.asarray(table[a.view(np.uint8), b.view(np.uint8)])


def scales_of_pairs(name: str, a: float, b: float, y: float) -> Iterator[tuple[np.float32, np.float32, np.float32]]:
    """Scales of both sources and of the result with which float32 may give the exact results."""
    with np.errstate(all="ignore"):
        first, second, last = (np.float64(scale) for scale in (a, b, y))
        if name == "add":
            forms = [(first / last, second / last, 1.0), (first / second, 1.0, last / second),
                     (1.0, second / first, last / first)]  # fmt: skip
        else:
            forms = [(first * second / last, 1.0, 1.0), (1.0, 1.0, last / first / second), (first / last, second, 1.0),
                     (first, second / last, 1.0)]  # fmt: skip
        tried = itertools.chain([(a, b, y)], (moved(form, pair) for pair in PAIRS for form in forms))
        for scales in tried:
            values = np.array(scales, np.float32)
            if (np.isfinite(values) & (values > np.finfo(np.float32).smallest_normal)).all():
                yield values[0], values[1], values[2]


def moved(form: tuple[float, float, float], pair: tuple[int, int]) -> tuple[float, float, float]:
    """Three numbers in float32, of which those that are not 1 are some units in the last place away."""
    units = iter(pair)
    a, b, y = (value if value == 1 else near(value, next(units)) for value in form)
    return a, b, y


def near(value: float, units: int) -> float:
    """A positive number in float32, some units in the last place away."""
    return float((np.array(value, np.float32).view(np.int32) + np.int32(units)).view(np.float32))


# --------------------------------------------------------------------------------------------------- of sums ------


class Sums(NamedTuple):
    """How a mean of bytes is rounded: the factor with which sat(rne(f32(sum) * factor) + zero) is right for every sum,
    or None if none was found; and the sums, in order, at which the result becomes larger."""

    factor: np.float32 | None
    steps: Array


@functools.lru_cache(256)
def rounding_of_sums(ratio: tuple[float, int, float], y_zero: int, y_dtype: np.dtype[Any]) -> Sums:
    """For sums of int32 less their zero points, which are multiplied by scale / (count * y_scale), positive numbers."""
    scale, count, y_scale = ratio
    exact = Fraction(scale) / (count * Fraction(y_scale))
    limits = np.iinfo(np.int32)
    steps = np.clip(np.array(steps_of(exact, y_zero, y_dtype), object), limits.min + 1, limits.max).astype(np.int32)
    sums = np.concatenate([steps, steps - 1])
    wanted = rounded(sums.astype(np.int64), exact, y_zero, y_dtype)
    for units in UNITS:
        factor = np.float32(near(float(exact), units))
        usable = np.isfinite(factor) and factor > 0
        if usable and np.array_equal(requantize(sums, factor, y_zero, y_dtype, scheme="onnx"), wanted):
            return Sums(factor, steps)
    return Sums(None, steps)


def means(sums: Array, scale: float, count: int, y_scale: float, y_zero: int, y_dtype: np.dtype[Any]) -> Array:
    """The means of `count` bytes, whose sums, less their zero points, are of int32 or int64."""
    if sums.dtype != np.int32 or scale * y_scale <= 0:
        return rounded(sums.astype(np.int64), Fraction(scale) / (count * Fraction(y_scale)), y_zero, y_dtype)
    factor, steps = rounding_of_sums((scale, count, y_scale), y_zero, y_dtype)
    if factor is not None:
        return np.asarray(requantize(sums, factor, y_zero, y_dtype, scheme="onnx"))
    if sums.size > FEW and count <= LARGEST_COUNT:
        return rounded_floats(sums * scale / (count * y_scale), y_zero, y_dtype)
    return np.asarray(RESULTS[y_dtype][np.searchsorted(steps, sums, "right")])
