"""Shared by the tests of quantization: the functions with their oracles, values and parameters."""

import numpy as np
import pytest
import reference_quantization as reference

import int8blas

DTYPES = (np.uint8, np.int8, np.int32)
SCHEMES = ("float", "doubling", "single", "onnx")


def ends(dtype):
    info = np.iinfo(dtype)
    return int(info.min), int(info.max)


def zero_points(dtype):
    low, high = ends(dtype)
    return (0, low, high, 3)


# Zero points beyond the range of bytes, and next to the zero points whose differences from bytes exceed int32.
WIDE = (-(2**31), -(2**31) + 128, -(2**31) + 255, -(2**31) + 256, -(2**24) - 1, -1000, 256, 300, 2**24 + 1,
        2**31 - 257, 2**31 - 256, 2**31 - 128, 2**31 - 1)  # fmt: skip


def random_integers(rng, dtype, shape):
    """Integers of all magnitudes, with both ends of the range."""
    low, high = ends(dtype)
    x = rng.integers(low, high, shape, np.int64, endpoint=True) >> rng.integers(0, np.iinfo(dtype).bits, shape)
    x = np.where(rng.random(shape) < 0.05, low, x)
    return np.where(rng.random(shape) < 0.05, high, x).astype(dtype)


def random_floats(rng, shape):
    """Floats of all magnitudes, with NaN, infinities and other special values."""
    x = rng.standard_normal(shape) * 10.0 ** rng.integers(-3, 6, shape)
    special = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-45, -1e-45, 3.4e38, -3.4e38, 0.5, -0.5]
    return np.where(rng.random(shape) < 0.1, rng.choice(special, shape), x).astype(np.float32)


def parameters(rng, dtype, shape):
    """Scales of float32 and zero points, in arrays of this shape."""
    low, high = ends(dtype)
    return (10.0 ** rng.uniform(-3, 3, shape)).astype(np.float32), rng.integers(low, high, shape, dtype, endpoint=True)


# Name -> (int8blas's function, its oracle, x); `dtype` is the type of the integers; where it belongs to the result, x
# has a fixed type.
def call(name, rng, dtype, shape):
    """The function with its dtype bound, its oracle, and an x."""
    if name == "quantize":
        x, options = random_floats(rng, shape), {"dtype": dtype}
    elif name == "quantize onnx":
        x, options = random_floats(rng, shape), {"dtype": dtype, "scheme": "onnx"}
    elif name == "dequantize":
        x, options = random_integers(rng, dtype, shape), {}
    else:
        x, options = random_integers(rng, np.int32, shape), {"dtype": dtype, "scheme": name}
    function = "requantize" if name in SCHEMES else name.removesuffix(" onnx")

    def ours(*arguments, **keywords):
        return getattr(int8blas, function)(*arguments, **options, **keywords)

    def oracle(x, scale, zero_point=0, axis=None):
        scale, zero_point = (reference.along(value, axis, x.ndim) for value in (scale, zero_point))
        return getattr(reference, function)(x, scale, zero_point, **options)

    return ours, oracle, x


FUNCTIONS = ("quantize", "quantize onnx", "dequantize", *SCHEMES)
every_function = pytest.mark.parametrize("name", FUNCTIONS)
every_type = pytest.mark.parametrize("dtype", DTYPES)


def shape_of(x, axis):
    axes = () if axis is None else axis if isinstance(axis, tuple) else (axis,)
    return tuple(x.shape[one] for one in axes)
