"""quantize, dequantize, requantize and the quantization factors: bit for bit equal to their formulas."""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
import reference_quantization as reference
from arrays import assert_same
from elementwise import (
    DTYPES,
    SCHEMES,
    WIDE,
    call,
    ends,
    every_type,
    parameters,
    random_floats,
    random_integers,
    shape_of,
    zero_points,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import int8blas

# Around the 16 elements of a chunk, and around the pieces that work is cut into.
LENGTHS = (0, 1, 2, 7, 15, 16, 17, 31, 32, 33, 47, 100, 255, 256, 257, 1023, 1025, 16383, 16385, 33000)
FEW_LENGTHS = (1, 15, 16, 33, 100)
SCALES = (
    1e-40, 1e-12, 2.0**-33, 2.0**-32, 2.0**-31, 2.0**-24, 0.003, 0.1, 0.25, 0.5, 0.5000001, 0.7, 1 - 2.0**-33, 1.0,
    1.0000001, 1.5, 2.0, 3.0, 100.0, 65536.0, 2.0**29, 2.0**30, 2.0**31 - 1, 2.0**31, 2.0**32, 1e20, 1e38,
)  # fmt: skip


# --- values ----------------------------------------------------------------------------------------------------------


@every_type
@pytest.mark.parametrize("name", ["quantize", "quantize onnx", "dequantize", "float", "onnx"])
def test_every_length(isa, name, dtype, rng):
    for n in LENGTHS:
        ours, oracle, x = call(name, rng, dtype, n)
        assert_same(ours(x, 0.37, 5), oracle(x, 0.37, 5), n=n)
        scale, zero_point = parameters(rng, dtype, n)
        expected = oracle(x, scale, zero_point)
        assert_same(ours(x, scale, zero_point, axis=0), expected, n=n)


@every_type
@pytest.mark.parametrize("scheme", SCHEMES[1:])
def test_every_length_of_integer_schemes(isa, scheme, dtype, rng):
    for n in FEW_LENGTHS:
        ours, oracle, x = call(scheme, rng, dtype, n)
        assert_same(ours(x, 0.37, 5), oracle(x, 0.37, 5), n=n)
        scale, zero_point = parameters(rng, dtype, n)
        assert_same(ours(x, scale, zero_point, axis=0), oracle(x, scale, zero_point), n=n)


@every_type
def test_quantize_all_magnitudes_and_zero_points(isa, dtype, rng):
    x = random_floats(rng, 500)
    for scale, zero_point in product((1e-45, 1e-38, 1e-3, 0.1, 1.0, 3.0, 3.4e38), zero_points(dtype)):
        expected = reference.quantize(x, scale, zero_point, dtype)
        assert_same(int8blas.quantize(x, scale, zero_point, dtype), expected, scale=scale, zero_point=zero_point)


@every_type
def test_quantize_ties_go_to_even_and_ends_saturate(isa, dtype):
    low, high = ends(dtype)
    steps = np.arange(-40, 41) / 4
    middle, bottom, top = (np.float32(0) + steps, np.float32(low) + steps, np.float32(high) + steps)
    x = np.concatenate([middle, bottom, top]).astype(np.float32)
    exact = [min(max(round(Fraction(float(value))), low), high) for value in x]  # Python rounds half to even
    for scale in (1.0, 0.5, 4.0):
        assert_same(int8blas.quantize(x * np.float32(scale), scale, dtype=dtype), np.array(exact, dtype), scale=scale)


def test_quantize_divides(isa):
    # Near ties, a product with the reciprocal rounds to the other side.
    scale = np.float32(0.7)
    x = np.arange(0.5, 20000, dtype=np.float32) * scale
    divided, multiplied = np.rint(x / scale), np.rint(x * (np.float32(1) / scale))
    assert (divided != multiplied).any()
    assert_same(int8blas.quantize(x, scale, dtype=np.int32), divided.astype(np.int32))


@pytest.mark.parametrize("scheme", ["float", "onnx"])
@pytest.mark.parametrize("scale", [1.0, 1.41421354, 2 - 2.0**-23, 2.0**-60, 2.0**60, 2.0**-61, 2.0**61, 1e-45, 3e38])
def test_bytes_next_to_ties(isa, scheme, scale):
    scale = np.float32(scale)
    with np.errstate(over="ignore"):
        ties = (np.arange(-200, 200) + 0.5).astype(np.float32) * scale
    x = np.concatenate([np.nextafter(ties, np.float32(end)) for end in (-np.inf, np.inf)] + [ties]).astype(np.float32)
    special = np.full(64, scale)
    special[5:11] = np.nan, np.inf, -np.inf, 3e38, -3e38, 1e-45
    x = np.concatenate([x, special, x])
    scales = np.where(np.arange(x.size) % 7, scale, np.float32(1.1)).astype(np.float32)
    rows = np.tile(x, (6, 1))
    for zero_point, dtype in product((0, 1, 100), (np.uint8, np.int8)):
        expected = reference.quantize(x, scale, zero_point, dtype, scheme)
        assert_same(int8blas.quantize(x, scale, zero_point, dtype, scheme=scheme), expected, zero_point=zero_point)
        zero_points = zero_point + np.arange(x.size) % 17
        expected = reference.quantize(rows, scales, zero_points, dtype, scheme)
        result = int8blas.quantize(rows, scales, zero_points, dtype, axis=1, scheme=scheme)
        assert_same(result, expected, zero_point=zero_point)


@pytest.mark.parametrize("scale", [2 - 2.0**-23, 2 - 2.0**-22, 1 + 2.0**-23, 1.2345678, 1.9999481])
def test_every_significand(isa, scale):
    """A wrong last bit of a quotient near 2**24 would change the byte, because the zero point leaves a small sum."""
    low = np.arange(2**23, 2**24, dtype=np.float32)  # one binade of x
    scale = np.float32(scale)
    quotients = (low / scale).astype(np.int64)
    for zero_point in (-9_000_000, -(2**23) - 64):
        near = low[abs(quotients + zero_point) < 1000]
        expected = reference.quantize(near, scale, zero_point, np.int8)
        assert_same(int8blas.quantize(near, scale, zero_point), expected, zero_point=zero_point)


@every_type
def test_quantize_special_values(isa, dtype):
    low, high = ends(dtype)
    x = np.array([np.nan, np.inf, -np.inf, -np.nan, 3.4e38, -3.4e38, 1e-45, -1e-45, 0.0, -0.0] * 5, np.float32)
    for zero_point in zero_points(dtype):
        near = [int(reference.quantize(np.float32(0), 1, zero_point, dtype))] * 4
        expected = np.array([zero_point, high, low, zero_point, high, low, *near] * 5, dtype)
        assert_same(int8blas.quantize(x, 0.01, zero_point, dtype), expected, zero_point=zero_point)


@every_type
@pytest.mark.parametrize("name", ["quantize", "dequantize", "float"])
def test_zero_points_beyond_the_type(isa, name, dtype, rng):
    for far in WIDE:
        ours, oracle, x = call(name, rng, dtype, 70)
        assert_same(ours(x, 0.37, far), oracle(x, 0.37, far), far=far)
        scale, zero_point = parameters(rng, dtype, 70)
        zero_point = np.where(rng.random(70) < 0.5, zero_point.astype(np.int64), far)
        assert_same(ours(x, scale, zero_point, axis=0), oracle(x, scale, zero_point), far=far)
        whole = np.full(70, far)
        assert_same(ours(x, scale, whole, axis=0), oracle(x, scale, whole), far=far)


@pytest.mark.parametrize("value", [2.0**31, 2.0**31 - 128, -(2.0**31), -(2.0**31) - 256, 2.0**24 + 2])
def test_quantize_at_the_ends_of_int32(isa, value):
    expected = np.full(20, min(max(int(value), -(2**31)), 2**31 - 1), np.int32)
    assert_same(int8blas.quantize(np.full(20, value, np.float32), 1, dtype=np.int32), expected)


def test_quantize_float16(isa, rng):
    with np.errstate(over="ignore"):
        x = random_floats(rng, (7, 40)).astype(np.float16)
    assert_same(int8blas.quantize(x.T, 0.3), reference.quantize(x.T.astype(np.float32), 0.3))


@every_type
def test_dequantize_every_byte_and_the_ends(isa, dtype):
    low, high = ends(dtype)
    near = range(max(low, -300), min(high, 300) + 1)
    x = np.array([*near, low, low + 1, high - 1, high, min(high, 2**24 + 1)], dtype)
    for scale, zero_point in product((1e-45, 1e-38, 0.1, 1.0, 3e38), zero_points(dtype)):
        expected = reference.dequantize(x, scale, zero_point)
        assert_same(int8blas.dequantize(x, scale, zero_point), expected, scale=scale, zero_point=zero_point)


def test_dequantize_rounds_the_difference_once(isa):
    # The difference has 33 bits; rounding x or the zero point first gives other values.
    x = np.array([2**31 - 1, 2**24 + 1, -(2**31), 2**30 + 65] * 8, np.int32)
    zero_point = -(2**30) - 63
    exact = np.array([float(np.float32(int(value) - zero_point)) for value in x], np.float32)
    assert (exact != x.astype(np.float32) - np.float32(zero_point)).any()
    assert_same(int8blas.dequantize(x, 1, zero_point), exact)


@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
def test_what_is_dequantized_quantizes_to_itself(isa, dtype):
    low, high = ends(dtype)
    x = np.arange(low, high + 1).astype(dtype)
    for scale, zero_point in product((0.003, 0.1, 1.0, 7.7), zero_points(dtype)):
        back = int8blas.quantize(int8blas.dequantize(x, scale, zero_point), scale, zero_point, dtype)
        assert_same(back, x, scale=scale, zero_point=zero_point)


@every_type
@pytest.mark.parametrize("scheme", SCHEMES)
def test_requantize_by_every_scale(isa, scheme, dtype, rng):
    x = random_integers(rng, np.int32, 60)
    x[:9] = [0, 1, -1, 2, -2, 2**31 - 1, -(2**31), 2**30, -(2**30)]
    for scale in SCALES:
        for zero_point in zero_points(dtype)[1:3]:
            expected = reference.requantize(x, scale, zero_point, dtype, scheme)
            result = int8blas.requantize(x, scale, zero_point, dtype, scheme=scheme)
            assert_same(result, expected, scale=scale, zero_point=zero_point)


@pytest.mark.parametrize("scheme", SCHEMES[1:])
def test_requantize_by_every_shift(isa, scheme, rng):
    x = random_integers(rng, np.int32, 16)
    exponents = np.arange(-36, 40)
    for mantissa in (0.5, 0.75, 1 - 2.0**-31, 1 - 2.0**-40, float(rng.uniform(0.5, 1))):
        scale = mantissa * 2.0**exponents
        expected = reference.requantize(x[:, None], scale, 0, np.int32, scheme)
        result = int8blas.requantize(np.repeat(x[:, None], scale.size, 1), scale, 0, np.int32, axis=1, scheme=scheme)
        assert_same(result, expected, mantissa=mantissa)


@pytest.mark.parametrize(
    ("scheme", "expected"),
    [
        ("float", [-2, -2, 0, 0, 0, 2, 2]),  # to even
        ("doubling", [-3, -2, -1, 0, 1, 2, 3]),  # away from zero
        ("single", [-2, -1, 0, 0, 1, 2, 3]),  # upwards
        ("onnx", [-2, -2, 0, 0, 0, 2, 2]),  # to even
    ],
)
def test_ties_of_requantization(isa, scheme, expected):
    x = np.array([-10, -6, -2, 0, 2, 6, 10], np.int32)  # times 1/4: -2.5, -1.5, -0.5, ...
    assert int8blas.requantize(x, 0.25, scheme=scheme).tolist() == expected


@every_type
def test_onnx_rounds_before_it_adds_the_zero_point(isa, dtype):
    x = np.array([0.5, 1.5, 2.5, 3.5, np.nextafter(np.float32(0.5), np.float32(0))] * 7, np.float32)
    for zero_point in (1, 2, 101):
        wanted = np.array([0, 2, 2, 4, 0] * 7) + zero_point
        assert int8blas.quantize(x, 1, zero_point, dtype, scheme="onnx").tolist() == wanted.tolist()
        sums = np.array([1, 3, 5, 7, 0] * 7, np.int32)
        assert int8blas.requantize(sums, 0.5, zero_point, dtype, scheme="onnx").tolist() == wanted.tolist()
    assert int8blas.quantize(x, 1, 1, dtype).tolist() != (np.array([0, 2, 2, 4, 0] * 7) + 1).tolist()


def test_onnx_saturates_int32_once(isa):
    """Quotients beyond int32 return to its range by a zero point of the other sign."""
    x = np.array([2**31, 2**31 + 256, 3e9, 2**32 - 256, 2**32, 2**32 + 512, 1e30, np.inf, 0.5, 1.5], np.float32)
    x = np.concatenate([x, -x, [np.nan]]).astype(np.float32)
    sums = np.array([2**31 - 1, 2**30, 715_827_883, -(2**31), -(2**30), 3, 0], np.int32)
    for zero_point in (-(2**31), -(10**9), -1, 0, 1, 10**9, 2**31 - 1):
        expected = reference.quantize(x, 1, zero_point, np.int32, "onnx")
        assert_same(int8blas.quantize(x, 1, zero_point, np.int32, scheme="onnx"), expected, zero_point=zero_point)
        result = int8blas.requantize(sums, 3, zero_point, np.int32, scheme="onnx")
        assert_same(result, reference.requantize(sums, 3, zero_point, np.int32, "onnx"), zero_point=zero_point)
    assert int8blas.quantize(np.float32(3e9), 1, -(10**9), np.int32, scheme="onnx") == 2 * 10**9


def test_doubling_rounds_twice_and_single_once(isa):
    # 0.6 * 2**-20 * x is just below a half: the first rounding gives exactly a half, the second one 1.
    x, scale = np.array([873813], np.int32), 0.6 * 2.0**-20
    assert 0 < Fraction(1, 2) - Fraction(scale) * 873813 < Fraction(1, 2**20)
    assert int8blas.requantize(x, scale, scheme="doubling").tolist() == [1]
    assert int8blas.requantize(x, scale, scheme="single").tolist() == [0]


def test_doubling_saturates_before_it_multiplies(isa):
    x = np.array([2**30, -(2**30), 2**31 - 1, -(2**31)], np.int32)
    top = 5 * 2**28 - 1  # 2**31 - 1 times 5/8, the multiplier of 2.5, rounded
    assert int8blas.requantize(x, 2.5, 0, np.int32, scheme="doubling").tolist() == [top, -5 * 2**28] * 2
    assert int8blas.requantize(x, 2.5, 0, np.int32, scheme="single").tolist() == [2**31 - 1, -(2**31)] * 2


@settings(max_examples=60)
@given(
    st.sampled_from(SCHEMES),
    st.sampled_from(DTYPES),
    hnp.arrays(np.int32, st.integers(1, 40)),
    st.floats(1e-37, 1e37),
    st.integers(0, 127),
)
def test_requantize_anything(scheme, dtype, x, scale, zero_point):
    expected = reference.requantize(x, scale, zero_point, dtype, scheme)
    for isa in int8blas.available_isas():
        with int8blas.use_isa(isa):
            assert_same(int8blas.requantize(x, scale, zero_point, dtype, scheme=scheme), expected, isa=isa)


@settings(max_examples=60)
@given(
    st.sampled_from(DTYPES),
    hnp.arrays(np.float32, st.integers(1, 40), elements=st.floats(width=32)),
    st.floats(2.0**-149, 2.0**127, width=32),
    st.integers(0, 127),
)
def test_quantize_anything(dtype, x, scale, zero_point):
    expected = reference.quantize(x, scale, zero_point, dtype)
    for isa in int8blas.available_isas():
        with int8blas.use_isa(isa):
            assert_same(int8blas.quantize(x, scale, zero_point, dtype), expected, isa=isa)


@given(st.floats(1e-300, 1e300))
def test_quantized_multiplier(scale):
    multiplier, exponent = int8blas.quantized_multiplier(scale)
    assert (multiplier, exponent) == reference.quantized_multiplier(scale)
    assert multiplier == 0 or 2**30 <= multiplier < 2**31


def test_quantized_multiplier_that_rounds_up_to_the_next_power(isa):
    assert int8blas.quantized_multiplier(1 - 2.0**-40) == (2**30, 1)
    assert int8blas.quantized_multiplier(2.0**-32) == (2**30, -31)
    assert int8blas.quantized_multiplier(2.0**-32 * (1 - 2.0**-40)) == (2**30, -31)
    assert int8blas.quantized_multiplier(2.0**-32 * (1 - 2.0**-20)) == (0, 0)


# --- factors ---------------------------------------------------------------------------------------------------------


def test_the_example_of_the_guide_int8_inference():
    activations, weights = np.array([15, 14, 15, 8, 11], np.float32), np.array([-5.1, 6.8, -1.2, 9.8], np.float32)
    q_a, q_w = int8blas.activation_factor(activations), int8blas.weights_factor(weights)
    assert q_a == 17
    assert round(q_w, 2) == 12.96
    assert int8blas.quantize(activations, 1 / q_a, dtype=np.uint8).tolist() == [255, 238, 255, 136, 187]
    # The guide prints -15, 528 and -1145, which are truncated; its formulas round to nearest.
    assert int8blas.quantize(weights, 1 / q_w).tolist() == [-66, 88, -16, 127]
    assert int8blas.quantize_bias(np.array([2.4, -5.2, -8]), q_a, q_w).tolist() == [529, -1146, -1762]


def test_weights_use_the_range_of_127(isa, rng):
    for _ in range(200):
        w = (rng.standard_normal(50) * 10.0 ** rng.integers(-6, 6)).astype(np.float32)
        q = int8blas.quantize(w, 1 / int8blas.weights_factor(w))
        assert np.abs(q.astype(int)).max() == 127


@pytest.mark.parametrize("axis", [None, 0, -1, (0, 1), (1, 0), (2, 0), (0, 1, 2)])
def test_weights_factor_of_dimensions(axis, rng):
    w = rng.standard_normal((3, 4, 5)).astype(np.float32)
    w[0] = 0
    result = int8blas.weights_factor(w, axis=axis)
    assert np.shape(result) == shape_of(w, axis)
    axes = [] if axis is None else [one % 3 for one in (axis if isinstance(axis, tuple) else (axis,))]
    for index in np.ndindex(np.shape(result)):
        part = w[tuple(index[axes.index(i)] if i in axes else slice(None) for i in range(3))]
        largest = float(np.abs(part).max())
        assert np.asarray(result)[index] == (127 / largest if largest else 1)


def test_factors_of_zeros_are_one():
    assert int8blas.activation_factor(np.zeros(3)) == 1
    assert int8blas.weights_factor(np.zeros(3)) == 1


def test_bias_rounds_half_to_even_and_saturates():
    bias = [0.5, 1.5, 2.5, -0.5, -1.5, 2147483646.5, 2147483647.5, 1e300, -2147483648.5, -2147483649, -1e300]
    low, high = -(2**31), 2**31 - 1
    expected = np.array([0, 2, 2, 0, -2, high - 1, high, high, low, low, low], np.int32)
    assert_same(int8blas.quantize_bias(bias, 1, 1), expected)
    assert_same(int8blas.quantize_bias([1.0, 2.0], 3, [10, 20]), np.array([30, 120], np.int32))
    assert int8blas.quantize_bias(2.5, 1.0, 1.0) == 2


@pytest.mark.parametrize("shape", [(5000, 8), (3, 700, 7), (2, 9000, 1), (20_000, 3), (1, 4097, 1)])
def test_values_of_many_short_runs(isa, shape, rng):
    """Parameters that are constant along runs of a few elements. There are too many parameters for a buffer with one
    value for each element."""
    axis = len(shape) - 2
    x = (rng.standard_normal(shape) * 50).astype(np.float32)
    scales = rng.uniform(0.1, 2, shape[axis]).astype(np.float32)
    zeros = rng.integers(-20, 20, shape[axis]).astype(np.int32)
    spread = [np.broadcast_to(values[:, None], shape).ravel().copy() for values in (scales, zeros)]
    for source in (x, x.astype(np.float16)):
        for zero, written in ((3, 3), (zeros, spread[1])):
            expected = int8blas.quantize(source.ravel(), spread[0], written, axis=0).reshape(shape)
            np.testing.assert_array_equal(int8blas.quantize(source, scales, zero, axis=axis), expected)
    for zero, written in ((3, 3), (zeros, spread[1])):
        q = int8blas.quantize(x, scales, zero, axis=axis)
        expected = int8blas.dequantize(q.ravel(), spread[0], written, axis=0).reshape(shape)
        np.testing.assert_array_equal(int8blas.dequantize(q, scales, zero, axis=axis), expected)
