"""onnxruntime's quantized operators, correctly rounded. ONNX does not define onnxruntime's operators. In int8blas, the
result of an operator is the real value of its formula, rounded once, with ties to even::

    QLinearAdd              (a_scale * (a - a_zero) + b_scale * (b - b_zero)) / y_scale
    QLinearMul              a_scale * (a - a_zero) * b_scale * (b - b_zero) / y_scale
    QLinearConcat           scale * (x - zero) / y_scale, for each part
    QLinearLeakyRelu        scale * (x - zero) / y_scale, times alpha below zero
    QLinearSigmoid          1 / (1 + exp(-scale * (x - zero))) / y_scale
    means                   scale * (sum - count * zero) / (count * y_scale)

    y = sat(rne(value) + y_zero)

An operator on one int8 tensor is a table. For two tensors, and for sums, the kernels compute in float32 with scales
that give the exact result for all values. A search finds such scales. The search divides all scales by one number,
which keeps the real value but changes the rounding errors. The search also changes a scale by units in the last place,
which may correct wrong roundings. For two tensors, the search compares all pairs of bytes whose result is near a tie.
An operator on a sum is monotone, so the search compares the sums on both sides of each step of the result.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any

import numpy as np

from int8blas.elementwise.functions import PreparedBinary
from int8blas.elementwise.quantization import requantize
from int8blas.onnx.graph import Array
from int8blas.onnx.types import BYTES, cached
from int8blas.stage.attributes import Eltwise

# The search changes rounded scales by up to 4 units in the last place, and tries the nearest scales first.
UNITS = sorted(range(-4, 5), key=abs)
PAIRS = sorted(itertools.product(UNITS, UNITS), key=lambda pair: abs(pair[0]) + abs(pair[1]))
# With scales from SMALLEST_SCALE to LARGEST_SCALE, no number of a kernel is subnormal or infinite.
SMALLEST_SCALE, LARGEST_SCALE = 2.0**-60, 2.0**50
# A bound of the error of a computation in float32, in units in the last place of its largest values. The bound allows
# for a dozen roundings, and for the changes of scales in the search.
ERROR = 32
# The number of decimal digits with which a sigmoid is computed. 60 digits separate every sigmoid from a tie, except at
# 0, where the sigmoid is exact.
DIGITS = 60
# For arguments larger in magnitude than LARGEST, a sigmoid is 0 or 1 to DIGITS digits.
LARGEST = 1000
# A bound of the error of a float64 value that rounds to 8 bits.
FAR_FROM_TIE = 1e-9
# Results up to LARGEST_INTEGER do not overflow int64.
LARGEST_INTEGER = 1 << 62
# The maximum number of integers that are rounded one by one, in 8 us each. For more than FEW integers, the steps of all
# results are computed, in 470 us.
FEW = 50
# All bytes of each type, by their values.
RESULTS = {dtype: np.arange(np.iinfo(dtype).min, np.iinfo(dtype).max + 1).astype(dtype) for dtype in BYTES}
# The number of pairs that the search for scales compares first.
SAMPLE = 256
Pair = Callable[[Array, Array], Array]
Rounding = Callable[[Array], Array]


def takes(*numbers: Array | None) -> bool:
    """Return whether the formulas are defined for the numbers: scale and zero point of each operand, then scale and
    zero point of the result. The scale of the result must not be 0. A zero point may be None."""
    scales, zeros = numbers[::2], numbers[1::2]
    known = all(scale is not None and scale.size == 1 and np.isfinite(scale).all() for scale in scales)
    integers = all(zero is None or (zero.size == 1 and zero.dtype in BYTES) for zero in zeros)
    return known and integers and bool(scales[-1])


def number(value: Array | None) -> Any:
    """Return the value of an array of one element. For None, return 0."""
    return 0 if value is None else value.item()


def bytes_of(dtype: np.dtype[Any]) -> Array:
    """Return all bytes of a type, in the order of their bits."""
    return np.arange(256, dtype=np.uint8).view(dtype)


def stored(value: Fraction | Decimal, zero: int, dtype: np.dtype[Any]) -> int:
    """Return sat(rne(value) + zero)."""
    limits = np.iinfo(dtype)
    return min(max(round(value) + zero, int(limits.min)), int(limits.max))


def rounded_floats(values: Array, zero: int, dtype: np.dtype[Any]) -> Array:
    """Return sat(rne(values) + zero) of a float64 array."""
    limits = np.iinfo(dtype)
    return np.asarray(np.clip(np.rint(values) + zero, limits.min, limits.max)).astype(dtype)


def steps_of(ratio: Fraction, zero: int, dtype: np.dtype[Any]) -> list[int]:
    """Return the steps of sat(rne(n * ratio) + zero): for each result above the lowest, the smallest integer n that
    reaches it. `ratio` is positive."""
    limits = np.iinfo(dtype)
    numerator, denominator = 2 * ratio.numerator, ratio.denominator  # integers: Fractions take ten times as long
    results = range(int(limits.min) - zero + 1, int(limits.max) - zero + 1)
    # A tie has no remainder, and rounds to an even result.
    return [((2 * result - 1) * denominator + numerator - 1 + result % 2) // numerator for result in results]


def rounded(n: Array, ratio: Fraction, zero: int, dtype: np.dtype[Any]) -> Array:
    """Return sat(rne(n * ratio) + zero) of int64, or of integers of any size in an array of objects."""
    if n.size <= FEW:
        return np.array([stored(value * ratio, zero, dtype) for value in n.ravel().tolist()], dtype).reshape(n.shape)
    if ratio == 0:
        return np.full(n.shape, zero, dtype)
    n, ratio = (-n, -ratio) if ratio < 0 else (n, ratio)
    steps = steps_of(ratio, zero, dtype)
    if n.dtype == object:
        edges: Array = np.array(steps, object)
    else:
        edges = np.clip(np.array(steps, object), -LARGEST_INTEGER, LARGEST_INTEGER).astype(np.int64)
    return np.asarray(RESULTS[dtype][np.searchsorted(edges, n, "right")])


# One tensor


@cached
def scaled_table(
    dtype: np.dtype[Any], scale: float, zero: int, y_scale: float, y_zero: int, y_dtype: np.dtype[Any],
    alpha: float = 1.0,
) -> Array:  # fmt: skip
    """Return the results of QLinearConcat for all bytes, or with `alpha` the results of QLinearLeakyRelu."""
    above = Fraction(scale) / Fraction(y_scale)
    # LeakyRelu multiplies negative real numbers by alpha. A real number is value * scale, and scale may be negative.
    below = above * Fraction(alpha)
    values = bytes_of(dtype).astype(np.int64) - zero
    tables = [rounded(values, ratio, y_zero, y_dtype) for ratio in dict.fromkeys([above, below])]
    return np.where(values * scale >= 0, tables[0], tables[-1])


@cached
def sigmoid_table(
    dtype: np.dtype[Any], scale: float, zero: int, y_scale: float, y_zero: int, y_dtype: np.dtype[Any]
) -> Array:  # fmt: skip
    """Return the results of QLinearSigmoid for all bytes. Compute in float64, and near a tie in decimal numbers."""
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


# --------------------------------------------------------------------------------------------- two tensors ------


def values_of_pairs(name: str, a: Array, b: Array, scales: tuple[float, float, float]) -> tuple[Array, Fraction]:
    """Return integers and a ratio: integer * ratio is the real sum or product that a and b stand for, in units of the
    result's scale."""
    first, second, last = map(Fraction, scales)
    if name == "mul":
        return a * b, first * second / last
    unit = Fraction(1, max(first.denominator, second.denominator))  # a power of 2
    times = int(first / unit), int(second / unit)
    if max(map(abs, times)) > LARGEST_INTEGER >> 10:
        a, b = a.astype(object), b.astype(object)
    return a * times[0] + b * times[1], unit / last


def reals_of_pairs(name: str, a: Array, b: Array, scales: tuple[float, float, float]) -> tuple[Array, Array]:
    """Compute sums or products of integers in float64. Return two arrays: the values, and whether each value is so near
    a tie that the real value may round to another integer."""
    a_scale, b_scale, y_scale = scales
    with np.errstate(all="ignore"):
        if name == "mul":
            a = a * (a_scale * b_scale / y_scale)
            values, largest = a * b, np.abs(a).max(initial=0) * np.abs(b).max(initial=0)
        else:
            a, b = a * (a_scale / y_scale), b * (b_scale / y_scale)
            values, largest = a + b, np.abs(a).max(initial=0) + np.abs(b).max(initial=0)
        distances = np.abs(values - np.rint(values))
        return values, ~(distances < 0.5 - ERROR * np.finfo(np.float64).eps * (largest + 256))  # a NaN is near, too


def kernel_of(
    name: Any, dtypes: Any, scales: Sequence[Any], zeros: Sequence[int], ops: Sequence[Eltwise] = ()
) -> PreparedBinary:
    """Return the kernel for tensors with these types, scales and zero points: of both sources, and of the result."""
    scales_of, zeros_of = (dict(zip(("src0", "src1", "dst"), values, strict=True)) for values in (scales, zeros))
    given: Any = {"scales": scales_of, "zero_points": zeros_of, "dst_dtype": dtypes[2], "post_ops": ops}
    return PreparedBinary(name, dtypes[:2], scheme="onnx", **given)


class Pairs:
    """QLinearAdd ("add") or QLinearMul ("mul") for given dtypes, scales and zero points of both tensors and the result.
    `known` has the distinct bytes of constant tensors, and b"" for other tensors. `run` first computes in float64,
    which suffices for a lookup table. After `choose`, `run` is a kernel."""

    def __init__(
        self, name: Any, dtypes: Any, scales: tuple[float, float, float], zeros: Sequence[int], known: Sequence[bytes]
    ) -> None:  # fmt: skip
        self.name, self.dtypes, self.scales, self.zeros, self.known = name, dtypes, scales, zeros, known
        self.run: Pair = self.exactly

    def exactly(self, a: Array, b: Array) -> Array:
        """Compute in float64, and in integers near ties."""
        a, b = (x.astype(np.int64) - zero for x, zero in zip((a, b), self.zeros, strict=False))
        zero, dtype = self.zeros[2], self.dtypes[2]
        values, near = reals_of_pairs(self.name, a, b, self.scales)
        results = rounded_floats(values, zero, dtype)
        if near.any():
            a, b = (x[near] for x in np.broadcast_arrays(a, b))
            results[near] = rounded(*values_of_pairs(self.name, a, b, self.scales), zero, dtype)
        return results

    def kernel(self, each: Sequence[np.float32], shift: float = 0) -> Pair:
        """Return the kernel with these scales. The kernel adds `shift` steps of the result before it rounds."""
        ops = [Eltwise("linear", 1.0, shift * float(each[2]))] if shift else ()
        return kernel_of(self.name, self.dtypes, each, self.zeros, ops)

    def choose(self) -> None:
        """Find a kernel that gives the exact results of all pairs of bytes, or compute a table of these results."""
        if self.run != self.exactly:
            return
        both = [np.frombuffer(known, dtype) if known else bytes_of(dtype)
                for known, dtype in zip(self.known, self.dtypes, strict=False)]  # fmt: skip
        kernels = scales_of_pairs(self.name, self.scales)
        first = next(kernels, None)
        if first is not None:
            # If the kernels with results shifted by -error and error agree on a pair, all kernels are right for this
            # pair. A product near a tie is at most 256 steps of the result, but the terms of a sum may be larger.
            largest = [255 * scale / self.scales[2] for scale in self.scales[:2]] if self.name == "add" else [256]
            error = ERROR * float(np.finfo(np.float32).eps) * (256 + sum(largest))
            low, high = (self.kernel(first, shift)(both[0][:, None], both[1]) for shift in (-error, error))
            rows, columns = np.divmod(np.flatnonzero(low != high), both[1].size)  # many times faster than np.nonzero
            sources = both[0][rows], both[1][columns]
            results = self.exactly(*sources)
            sample = slice(None, None, max(1, results.size // SAMPLE))  # most wrong scales already fail for a sample
            for each in itertools.chain([first], kernels):
                kernel = self.kernel(each)
                if all(np.array_equal(kernel(*[x[i] for x in sources]), results[i]) for i in (sample, slice(None))):
                    self.run = kernel
                    return
        table = np.zeros((256, 256), self.dtypes[2])
        at = [x.view(np.uint8) for x in np.broadcast_arrays(both[0][:, None], both[1])]
        table[*at] = self.exactly(both[0][:, None], both[1])
        self.run = lambda a, b: np.asarray(table[a.view(np.uint8), b.view(np.uint8)])


pairs_of = functools.lru_cache(512)(Pairs)


def scales_of_pairs(name: str, given: tuple[float, float, float]) -> Iterator[tuple[np.float32, ...]]:
    """Yield scales of both sources and of the result with which float32 arithmetic may give the exact results."""
    with np.errstate(all="ignore"):
        first, second, last = map(np.float64, given)
        if name == "add":
            forms = [(first / last, second / last, 1.0), (first / second, 1.0, last / second),
                     (1.0, second / first, last / first)]  # fmt: skip
        else:
            forms = [(first * second / last, 1.0, 1.0), (1.0, 1.0, last / first / second), (first / last, second, 1.0),
                     (first, second / last, 1.0)]  # fmt: skip
        tried = itertools.chain([given], (perturbed(form, pair) for pair in PAIRS for form in forms))
        for scales in tried:
            values = np.array(scales, np.float32)
            if ((values >= SMALLEST_SCALE) & (values <= LARGEST_SCALE)).all():
                yield tuple(values)


def perturbed(form: tuple[float, float, float], pair: tuple[int, int]) -> tuple[float, float, float]:
    """Round three numbers to float32, and change the two that are not 1 by `pair` units in the last place."""
    units = iter(pair)
    a, b, y = (value if value == 1 else near(value, next(units)) for value in form)
    return a, b, y


@cached
def near(value: float, units: int) -> float:
    """Round a positive number to float32, and change it by some units in the last place."""
    return float((np.array(value, np.float32).view(np.int32) + np.int32(units)).view(np.float32))


# --------------------------------------------------------------------------------------------------- sums ------


@cached
def rounding_of_sums(ratio: tuple[float, int, float], y_zero: int, y_dtype: np.dtype[Any]) -> Rounding:
    """Return the function that rounds int32 sums times scale / (count * y_scale). The function is sat(rne(f32(sum) *
    factor) + zero) if a factor gives the right result for every sum. Otherwise the function searches among the steps.
    Both scales are positive."""
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
            return lambda x: requantize(x, factor, y_zero, y_dtype, scheme="onnx")
    return lambda x: RESULTS[y_dtype][np.searchsorted(steps, x, "right")]


def means(sums: Array, scale: float, count: int, y_scale: float, y_zero: int, y_dtype: np.dtype[Any]) -> Array:
    """Return the means of `count` bytes from their int32 or int64 sums, without the sums of the zero points."""
    if sums.dtype != np.int32 or scale * y_scale <= 0:
        return rounded(sums.astype(np.int64), Fraction(scale) / (count * Fraction(y_scale)), y_zero, y_dtype)
    return rounding_of_sums((scale, count, y_scale), y_zero, y_dtype)(sums)
