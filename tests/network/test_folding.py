"""Test that folded batch normalization and the bias of a shifted source equal the formulas that define them."""

from fractions import Fraction
from math import prod

import numpy as np
import pytest
from scipy import signal

import int8blas

SHAPES = ((5, 3), (4, 3, 3), (6, 2, 3, 2), (3, 2, 2, 1, 2), (1, 1), (7, 130))

every_shape = pytest.mark.parametrize("shape", SHAPES, ids=str)


def normal(rng, *shape):
    return rng.normal(0, 1, shape).astype(np.float32)


def statistics(rng, channels):
    """gamma, beta, mean and variance."""
    return normal(rng, channels), normal(rng, channels), normal(rng, channels), np.abs(normal(rng, channels))


def per_channel(values, ndim):
    return np.asarray(values).reshape(-1, *(1 for _ in range(ndim - 1)))


def assert_nearest(result, expected):
    """Check that float32 values are the nearest ones to real numbers; for a number halfway, either neighbour is
    right."""
    assert result.dtype == np.float32
    assert result.shape == expected.shape
    np.testing.assert_array_max_ulp(result, expected.astype(np.float32), 1)
    assert np.count_nonzero(result != expected.astype(np.float32)) <= 1 + result.size // 1000


# --- fold_batch_norm -------------------------------------------------------------------------------------------------


# W' = W gamma / sqrt(variance + epsilon)
# b' = (b - mean) gamma / sqrt(variance + epsilon) + beta
@every_shape
@pytest.mark.parametrize("epsilon", [1e-5, 1e-3, 0.5])
def test_fold_batch_norm_is_the_formula(shape, epsilon, rng):
    weights, bias = normal(rng, *shape), normal(rng, shape[0])
    gamma, beta, mean, variance = statistics(rng, shape[0])
    factor = gamma.astype(np.longdouble) / np.sqrt(variance.astype(np.longdouble) + epsilon)
    folded, folded_bias = int8blas.fold_batch_norm(weights, bias, gamma, beta, mean, variance, epsilon)
    assert_nearest(folded, weights * per_channel(factor, len(shape)))
    assert_nearest(folded_bias, (bias.astype(np.longdouble) - mean) * factor + beta)
    again = int8blas.fold_batch_norm(weights, bias, gamma, beta, mean, variance, epsilon=epsilon)
    np.testing.assert_array_equal(again[0], folded)
    np.testing.assert_array_equal(again[1], folded_bias)


def test_epsilon_and_bias_have_defaults(rng):
    weights, values = normal(rng, 4, 3), statistics(rng, 4)
    folded, bias = int8blas.fold_batch_norm(weights, None, *values)
    expected, expected_bias = int8blas.fold_batch_norm(weights, np.zeros(4, np.float32), *values, epsilon=1e-5)
    np.testing.assert_array_equal(folded, expected)
    np.testing.assert_array_equal(bias, expected_bias)


def test_a_folded_convolution_is_the_convolution_and_the_normalization(rng):
    x, weights, bias = normal(rng, 6, 7, 3), normal(rng, 4, 3, 3, 3), normal(rng, 4)
    gamma, beta, mean, variance = statistics(rng, 4)

    def convolution(w, b):
        planes = [sum(signal.correlate(x[..., c], one[c], "valid") for c in range(3)) for one in w.astype(float)]
        return np.stack(planes, axis=-1) + b

    expected = gamma * (convolution(weights, bias) - mean) / np.sqrt(variance.astype(float) + 1e-5) + beta
    folded = int8blas.fold_batch_norm(weights, bias, gamma, beta, mean, variance)
    np.testing.assert_allclose(convolution(*folded), expected, rtol=1e-5, atol=1e-4)


def test_arguments_of_folding_stay_as_they_are(rng):
    arguments = [normal(rng, 4, 3, 2), normal(rng, 4), *statistics(rng, 4)]
    before = [argument.copy() for argument in arguments]
    for result in int8blas.fold_batch_norm(*arguments):
        assert not any(np.shares_memory(result, argument) for argument in arguments)
    for argument, values in zip(arguments, before, strict=True):
        np.testing.assert_array_equal(argument, values)


WRONG = [
    ("weights", np.ones((4, 3), complex), TypeError), ("weights", "w", TypeError), ("weights", None, TypeError),
    ("weights", np.float32(1), ValueError), ("weights", np.full((4, 3), np.nan, np.float32), ValueError),
    *((name, np.ones(shape, np.float32), ValueError)
      for name in ("bias", "gamma", "beta", "mean", "variance") for shape in ((), (3,), (1, 4), (4, 1))),
    *((name, value, TypeError) for name in ("bias", "gamma", "beta", "mean", "variance") for value in ("1", 1j)),
    *((name, None, TypeError) for name in ("gamma", "beta", "mean", "variance")),
    *((name, np.array([1, np.inf, 1, 1], np.float32), ValueError)
      for name in ("bias", "gamma", "beta", "mean", "variance")),
    ("variance", np.array([1, -1, 1, 1], np.float32), ValueError),
    ("epsilon", -1e-5, ValueError), ("epsilon", np.nan, ValueError), ("epsilon", "1", TypeError),
    ("epsilon", None, TypeError),
]  # fmt: skip


@pytest.mark.parametrize(("name", "value", "error"), WRONG)
def test_a_wrong_argument_of_folding_is_named(name, value, error):
    ones = np.ones(4, np.float32)
    good = {
        "weights": np.ones((4, 3), np.float32),
        **dict.fromkeys(("bias", "gamma", "beta", "mean", "variance"), ones),
    }
    with pytest.raises(error, match=rf"^{name}\b.* must "):
        int8blas.fold_batch_norm(**good | {name: value})


# --- shifted_bias ----------------------------------------------------------------------------------------------------


# b'[o] = b[o] - shift * sum of W[o]
@every_shape
@pytest.mark.parametrize("shift", [128, 0, -5, 0.5])
def test_shifted_bias_is_the_formula(shape, shift, rng):
    weights, bias = normal(rng, *shape), normal(rng, shape[0])
    result = int8blas.shifted_bias(bias, weights, shift)
    exact = [
        Fraction(float(b)) - Fraction(shift) * sum(map(Fraction, w.ravel().tolist()))
        for b, w in zip(bias, weights.reshape(shape[0], prod(shape[1:])), strict=True)
    ]
    np.testing.assert_allclose(result, [float(value) for value in exact], rtol=1e-6, atol=1e-6)
    assert result.dtype == np.float32


def test_a_shifted_source_with_the_shifted_bias_gives_the_same_sums(rng):
    """Appendix A of the article: shift X by 128 to u8; with b', the u8 convolution equals the s8 convolution."""
    src = rng.integers(-128, 128, (1, 6, 7, 3), np.int8)
    weights = rng.integers(-128, 128, (4, 3, 3, 3), np.int8)
    bias = rng.integers(-1000, 1000, 4).astype(np.float32)
    shifted = int8blas.shifted_bias(bias, weights.astype(np.float32), 128)
    unsigned = (src.astype(np.int16) + 128).astype(np.uint8)
    types = {"dst_dtype": np.float32}
    expected = int8blas.Convolution(weights, bias, src_dtype=np.int8, **types)(src)
    np.testing.assert_array_equal(
        int8blas.Convolution(weights, shifted, src_dtype=np.uint8, **types)(unsigned), expected
    )


@pytest.mark.parametrize(("name", "value", "error"), [
    ("weights", "w", TypeError), ("weights", np.float32(1), ValueError),
    ("bias", np.ones(3, np.float32), ValueError), ("bias", np.ones((1, 4), np.float32), ValueError),
    ("bias", "b", TypeError), ("shift", "1", TypeError), ("shift", None, TypeError), ("shift", np.nan, ValueError),
])  # fmt: skip
def test_a_wrong_argument_of_shifting_is_named(name, value, error):
    good = {"bias": np.ones(4, np.float32), "weights": np.ones((4, 3), np.float32), "shift": 128}
    with pytest.raises(error, match=rf"^{name}\b.* must "):
        int8blas.shifted_bias(**good | {name: value})
