"""Appendices A and B of Intel's article on 8-bit inference, in real arithmetic.

Q is a quantization factor: x_int8 = rne(Q x). Unless a test says otherwise, factors are powers of two and sums are
small: float32 then computes without rounding, and results equal the results of exact arithmetic.
"""

import numpy as np
import pytest

import int8blas
from int8blas import Attributes, ReLU, Sum

SHAPES = ((1, 7, 6, 3, 5, 3), (2, 5, 9, 4, 16, 1), (1, 6, 6, 16, 17, 3), (3, 4, 5, 1, 7, 2))  # n, h, w, c, o, kernel

every_shape = pytest.mark.parametrize("shape", SHAPES, ids=str)


def convolution(src, weights):
    """sum over c, i, j of src[n, y + i, x + j, c] * weights[o, c, i, j], with stride 1 and no padding, in float64."""
    windows = np.lib.stride_tricks.sliding_window_view(src.astype(float), weights.shape[2:], (1, 2))
    return np.einsum("nyxcij,ocij->nyxo", windows, weights)


def padded(src, before, after, value):
    return np.pad(src, ((0, 0), (before, after), (before, after), (0, 0)), constant_values=value)


def random_layer(rng, shape, dtype):
    """(source, weights, bias) of small numbers; the bias has multiples of 1/16."""
    n, h, w, channels, outputs, kernel = shape
    info = np.iinfo(dtype)
    src = rng.integers(info.min, info.max + 1, (n, h, w, channels), dtype)
    weights = rng.integers(-7, 8, (outputs, channels, kernel, kernel), np.int8)
    return src, weights, (rng.integers(-4000, 4000, outputs) / 16).astype(np.float32)


# --- Appendix A: a source with negative values, shifted by K ---------------------------------------------------------


# a_u8 = a_s8 + K 1, with K = 128, padded with K
# b' = b - K / Q_a * sum over c, i, j of W[o, c, i, j]
@every_shape
@pytest.mark.parametrize("padding", [0, 1])
def test_a_shifted_source_with_the_shifted_bias_is_the_convolution(shape, padding, rng, isa):
    src, weights, bias = random_layer(rng, shape, np.int8)
    scales = {"src": 1 / 32, "weights": np.exp2(rng.integers(-6, -2, len(weights))).astype(np.float32)}
    real_weights = weights * scales["weights"].reshape(-1, 1, 1, 1)
    shifted = int8blas.shifted_bias(bias, real_weights, 128 * scales["src"])
    layer = int8blas.Convolution(weights, shifted, src_dtype=np.uint8, dst_dtype=np.float32, scales=scales)
    result = layer(padded((src.astype(np.int16) + 128).astype(np.uint8), padding, padding, 128))
    expected = convolution(padded(src, padding, padding, 0) * scales["src"], real_weights) + bias
    np.testing.assert_array_equal(result, expected)
    unshifted = int8blas.Convolution(
        weights, bias, padding=padding, src_dtype=np.int8, dst_dtype=np.float32, scales=scales
    )
    np.testing.assert_array_equal(unshifted(src), expected)


# b'_s32 = rne(Q_a Q_w b')
@every_shape
def test_the_shifted_bias_may_be_quantized(shape, rng, isa):
    src, weights, bias = random_layer(rng, shape, np.int8)
    q_a, q_w = 16.0, 8.0
    shifted = int8blas.quantize_bias(int8blas.shifted_bias(bias, weights / q_w, 128 / q_a), q_a, q_w)
    scales = {"src": 1 / q_a, "weights": 1 / q_w}
    layer = int8blas.Convolution(weights, shifted, src_dtype=np.uint8, dst_dtype=np.float32, scales=scales)
    result = layer((src.astype(np.int16) + 128).astype(np.uint8))
    np.testing.assert_array_equal(result, convolution(src / q_a, weights / q_w) + bias)


# x = pixels - K 1, where K is their mean
@every_shape
def test_pixels_as_they_are_stand_for_pixels_less_their_mean(shape, rng, isa):
    pixels, weights, bias = random_layer(rng, shape, np.uint8)
    mean = float(pixels.mean().round(2))
    layer = int8blas.Convolution(
        weights, int8blas.shifted_bias(bias, weights, mean), src_dtype=np.uint8, dst_dtype=np.float32
    )
    np.testing.assert_allclose(layer(pixels), convolution(pixels - mean, weights) + bias, rtol=1e-6, atol=0.01)


# --- Appendix B: fused quantization with a skip connection -----------------------------------------------------------


# x_s32 = W_s8 a_u8 + b_s32, x = x_s32 / (Q_a Q_w)
# a_u8 = sat(rne(ReLU(Q_next / Q_skip * skip_int8 + Q_next / (Q_a Q_w) * x_s32)))
@every_shape
@pytest.mark.parametrize(
    "skip_dtype", [np.uint8, np.int8], ids=["res2c: the block's source", "res2b: a branch before its ReLU"]
)
def test_a_skip_connection_is_a_sum_post_op(shape, skip_dtype, rng, isa):
    src, weights, bias = random_layer(rng, shape, np.uint8)
    q_a, q_w, q_skip, q_next = 32.0, 16.0, 8.0, 2.0
    x = convolution(src / q_a, weights / q_w) + bias
    info = np.iinfo(skip_dtype)
    skip = rng.integers(max(info.min, -127), info.max + 1, x.shape, skip_dtype)
    expected = np.clip(np.rint(np.maximum(q_next / q_skip * skip + q_next * x, 0)), 0, 255)
    assert 0 < np.count_nonzero(expected) < expected.size

    layer = int8blas.Convolution(
        weights,
        int8blas.quantize_bias(bias, q_a, q_w),
        src_dtype=np.uint8,
        dst_dtype=np.uint8,
        scales={"src": 1 / q_a, "weights": 1 / q_w, "dst": 1 / q_next},
        attributes=Attributes(post_ops=[Sum(1 / q_skip, dtype=skip_dtype), ReLU()]),
    )
    out = skip.view(np.uint8)  # the sum is written over the skip connection's values
    assert layer(src, out=out) is out
    np.testing.assert_array_equal(out, expected)


# With other factors, float32 rounds: the result differs from the value of the formula by one at most.
@every_shape
def test_a_skip_connection_with_any_factors(shape, rng, isa):
    src, weights, bias = random_layer(rng, shape, np.uint8)
    src_scale, dst_scale, skip_scale, skip_zero = 0.0371, 0.9, 0.23, 119
    scales = rng.uniform(0.01, 0.1, len(weights)).astype(np.float32)
    skip = rng.integers(0, 256, convolution(src, weights).shape, np.uint8)
    x = convolution(src, weights) * src_scale * scales + bias
    expected = np.clip(np.maximum(skip_scale * (skip - float(skip_zero)) + x, 0) / dst_scale, 0, 255)

    layer = int8blas.Convolution(
        weights,
        bias,
        src_dtype=np.uint8,
        dst_dtype=np.uint8,
        scales={"src": src_scale, "weights": scales, "dst": dst_scale},
        attributes=Attributes(post_ops=[Sum(skip_scale, skip_zero), ReLU()]),
    )
    assert np.abs(layer(src, out=skip) - expected).max() <= 0.5 + 1e-3


# Q ReLU(x) = ReLU(Q x) for Q > 0: the factor of the next layer may be applied before the ReLU or after it.
@every_shape
def test_a_positive_factor_goes_through_relu(shape, rng, isa):
    src, weights, bias = random_layer(rng, shape, np.uint8)
    attributes = Attributes(post_ops=[ReLU()])
    before, after = (
        int8blas.Convolution(weights, b, src_dtype=np.uint8, dst_dtype=np.uint8, attributes=attributes, scales=scales)
        for b, scales in ((bias / 64, {"src": 1 / 64}), (bias, {"dst": 64}))
    )
    expected = np.clip(np.rint(np.maximum(convolution(src, weights) + bias, 0) / 64), 0, 255)
    np.testing.assert_array_equal(before(src), expected)
    np.testing.assert_array_equal(after(src), expected)
