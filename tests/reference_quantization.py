"""Oracles of the element-wise functions: NumPy float32 where the formula says so, Python integers for the rest.

Here parameters broadcast against x; `along` gives the parameters of some dimensions a shape that broadcasts.
"""

import functools
import math
from fractions import Fraction

import numpy as np
from sharing import shared


def along(values, axis, ndim):
    """Values for the dimensions `axis` of an array, in a shape that broadcasts against the array."""
    values = np.asarray(values)
    if values.ndim == 0 or axis is None:
        return values
    axes = [one % ndim for one in (axis if isinstance(axis, tuple) else (axis,))]
    assert values.ndim == len(axes)
    shape = [1] * ndim
    for one in axes:
        shape[one] = values.shape[axes.index(one)]
    return values.transpose(sorted(range(len(axes)), key=lambda i: axes[i])).reshape(shape)


# sat(rne(y)); NaN becomes `nan`
def round_and_saturate(y, dtype, nan):
    """float32 values rounded half to even and saturated, through float64, which represents every result."""
    assert y.dtype == np.float32
    info = np.iinfo(dtype)
    y = np.where(np.isnan(y), np.broadcast_to(nan, y.shape), y.astype(np.float64))
    return np.clip(np.rint(y), info.min, info.max).astype(dtype)


# sat(rne(y) + zero_point); NaN becomes the zero point
def round_and_shift(y, dtype, zero_point):
    """float32 values rounded half to even, plus integers, exactly."""
    assert y.dtype == np.float32
    info = np.iinfo(dtype)
    whole = np.clip(np.rint(np.nan_to_num(y.astype(np.float64), nan=0.0)), -(2.0**40), 2.0**40).astype(np.int64)
    return np.clip(whole + zero_point, info.min, info.max).astype(dtype)


# q = sat(rne(f32(f32(x / scale) + f32(zero_point))))
# q = sat(rne(f32(x / scale)) + zero_point)                    "onnx"
def quantize(x, scale, zero_point=0, dtype=np.int8, scheme="float"):
    """`dtype` values from float32 ones."""
    scale, zero_point = np.asarray(scale).astype(np.float32), np.asarray(zero_point)
    with np.errstate(all="ignore"):
        y = (np.asarray(x).astype(np.float32) / scale).astype(np.float32)
        if scheme == "onnx":
            return round_and_shift(y, dtype, zero_point.astype(np.int64))
        y = y + zero_point.astype(np.float32)
    return round_and_saturate(y, dtype, zero_point)


# x = f32(scale * f32(q - zero_point)), the difference in Python's integers
def dequantize(x, scale, zero_point=0):
    """float32 values from integer ones."""
    difference = np.asarray(x).astype(np.int64) - np.asarray(zero_point).astype(np.int64)
    with np.errstate(over="ignore"):
        return (np.asarray(scale).astype(np.float32) * difference.astype(np.float32)).astype(np.float32)


# q = sat(rne(f32(f32(x) * scale)) + zero_point)
def requantize_onnx(x, scale, zero_point=0, dtype=np.int8):
    """The scheme "onnx"."""
    with np.errstate(all="ignore"):
        y = (np.asarray(x).astype(np.float32) * np.asarray(scale).astype(np.float32)).astype(np.float32)
    return round_and_shift(y, dtype, np.asarray(zero_point).astype(np.int64))


# q = sat(rne(f32(f32(f32(x) * scale) + f32(zero_point))))
def requantize_float(x, scale, zero_point=0, dtype=np.int8):
    """The scheme "float"."""
    with np.errstate(all="ignore"):
        y = (np.asarray(x).astype(np.float32) * np.asarray(scale).astype(np.float32)).astype(np.float32)
        y = y + np.asarray(zero_point).astype(np.float32)
    return round_and_saturate(y, dtype, 0)


RANGES = {np.uint8: (0, 255), np.int8: (-128, 127), np.int32: (-(2**31), 2**31 - 1)}


def clamp(value, dtype):
    """A Python integer, saturated to a type."""
    low, high = RANGES[dtype]
    return min(max(value, low), high)


# scale = m * 2**(e - 31), m an integer in [2**30, 2**31)
@functools.cache
def quantized_multiplier(scale):
    """Multiplier and exponent of a scale, a Python float, from its exact value."""
    exponent = 0
    value = Fraction(scale)
    while value >= 1:
        value, exponent = value / 2, exponent + 1
    while value < Fraction(1, 2):
        value, exponent = value * 2, exponent - 1
    multiplier = math.floor(value * 2**31 + Fraction(1, 2))
    if multiplier == 2**31:
        multiplier, exponent = 2**30, exponent + 1
    return (multiplier, exponent) if exponent >= -31 else (0, 0)


def truncated_division(a, b):
    """a / b rounded towards zero, as in C."""
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


# gemmlowp: high = (a * b + nudge) / 2**31 towards zero, nudge = 2**30 or 1 - 2**30, by the sign of the product
def saturating_rounding_doubling_high_mul(a, b):
    """The upper half of twice the product, rounded."""
    if a == b == -(2**31):
        return 2**31 - 1
    nudge = 2**30 if a * b >= 0 else 1 - 2**30
    return truncated_division(a * b + nudge, 2**31)


# gemmlowp: x / 2**exponent, to nearest, ties away from zero
def rounding_divide_by_power_of_two(x, exponent):
    """The quotient of a Python integer."""
    magnitude = (2 * abs(x) + 2**exponent) // 2 ** (exponent + 1)
    return magnitude if x >= 0 else -magnitude


def doubling(x, scale, zero_point, dtype):
    """The scheme "doubling" for one element, in Python numbers."""
    multiplier, exponent = quantized_multiplier(scale)
    shifted = clamp(x * 2 ** max(exponent, 0), np.int32)
    high = saturating_rounding_doubling_high_mul(shifted, multiplier)
    return clamp(rounding_divide_by_power_of_two(high, max(-exponent, 0)) + zero_point, dtype)


def single(x, scale, zero_point, dtype):
    """The scheme "single" for one element, in Python numbers."""
    multiplier, exponent = quantized_multiplier(scale)
    right = 31 - exponent
    # floor(product / 2**right + 1/2) = floor((2 * product + 2**right) / 2**(right + 1))
    y = (2 * x * multiplier + 2**right) // 2 ** (right + 1) if right >= 0 else x * multiplier * 2**-right
    return clamp(clamp(y, np.int32) + zero_point, dtype)


@shared
def requantize(x, scale, zero_point=0, dtype=np.int8, scheme="float"):
    """requantize by any scheme."""
    if scheme == "float":
        return requantize_float(x, scale, zero_point, dtype)
    if scheme == "onnx":
        return requantize_onnx(x, scale, zero_point, dtype)
    element = {"doubling": doubling, "single": single}[scheme]
    x, scale, zero_point = np.broadcast_arrays(x, np.asarray(scale, np.float64), zero_point)
    values = zip(x.flat, scale.flat, zero_point.flat, strict=True)
    return np.array([element(int(a), float(b), int(c), dtype) for a, b, c in values], dtype).reshape(x.shape)
