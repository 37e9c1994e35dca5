"""Oracles of softmax and layer normalization: the documented formulas in NumPy float32, an operation at a time."""

import numpy as np
from reference_quantized import destination, quiet

f32 = np.float32


def bits_of(x):
    return x.view(np.uint32)


def float_of(bits):
    return bits.astype(np.uint32).view(np.float32)


def polynomial(x, coefficients):
    """By Horner's rule, the first coefficient that of the highest power."""
    p = np.full_like(x, coefficients[0])
    for coefficient in coefficients[1:]:
        p = p * x + f32(coefficient)
    return p


# x = n ln 2 + r, e**x = 2**n e**r, with 2**n in two factors
def exp(x):
    x = np.where(x > f32(89), f32(89), x)
    x = np.where(x < f32(-105), f32(-105), x)
    magic = f32(12582912)
    shifted = x * f32(1.44269504088896341) + magic
    n = shifted - magic
    r = x - n * f32(0.693359375) + n * f32(2.12194440e-4)
    p = polynomial(r, (1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1,
                       5.0000001201e-1))  # fmt: skip
    p = p * (r * r) + r + f32(1)
    exponent = bits_of(shifted) - bits_of(magic) + np.uint32(512)
    half = exponent >> 1
    factors = [float_of((part - np.uint32(256 - 127)) << 23) for part in (half, exponent - half)]
    return p * factors[0] * factors[1]


# x = 2**n (1 + f), log(x) = n ln 2 + log(1 + f), 1 + f from sqrt(1/2) to sqrt(2)
def log(x):
    fraction, n = np.frexp(x)
    low = fraction < f32(0.70710677)
    fraction, n = np.where(low, 2 * fraction, fraction), (n - low).astype(np.float32)
    f = fraction - f32(1)
    z = f * f
    p = polynomial(f, (7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1,
                       -1.6668057665e-1, 2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1))  # fmt: skip
    p = p * f * z - n * f32(2.12194440e-4) - f32(0.5) * z
    return f + p + n * f32(0.693359375)


# partial sum j of elements j, j + 64, ..., in order; then the second half added to the first until one is left
def row_sums(x):
    """Sums along the last axis, kept as a dimension."""
    padded = np.zeros((*x.shape[:-1], -(-x.shape[-1] // 64) * 64), np.float32)
    padded[..., : x.shape[-1]] = x
    sums = np.zeros((*x.shape[:-1], 64), np.float32)
    for start in range(0, padded.shape[-1], 64):
        sums = sums + padded[..., start : start + 64]
    while sums.shape[-1] > 1:
        half = sums.shape[-1] // 2
        sums = sums[..., :half] + sums[..., half:]
    return sums


def stored(y, dst_dtype, scales, zero_points):
    """y of any shape as it is stored."""
    flat = destination(y.reshape(1, -1), dst_dtype, (scales or {}).get("dst"), (zero_points or {}).get("dst"))
    return flat.reshape(y.shape)


# t = f32(x - max(x)) * scale, the difference exact for integers
# e = exp(t), 0 for t < -86; y = e * (1 / sum(e)), or t - log(sum(e))
@quiet
def softmax(src, axis=-1, *, scales=None, zero_points=None, log=False, dst_dtype=np.float32):
    x = np.moveaxis(src, axis, -1)
    scale = f32((scales or {}).get("src", 1))
    x = x.astype(np.int64) if x.dtype.kind in "iu" else x.astype(np.float32)
    t = (x - x.max(axis=-1, keepdims=True)).astype(np.float32) * scale
    e = np.where(t < f32(-86), f32(0), exp(t))
    total = row_sums(e)
    y = t - globals()["log"](total) if log else e * (f32(1) / total)
    assert y.dtype == np.float32
    return np.moveaxis(stored(y, dst_dtype, scales, zero_points), -1, axis)


# d = x - sum(x) / n
# y = d * (scale / sqrt(scale * scale * (sum(d * d) / n) + epsilon)) * gamma + beta
@quiet
def layer_norm(src, gamma=None, beta=None, *, epsilon=1e-5, scales=None, zero_points=None, dst_dtype=np.float32):
    x, n, scale = src.astype(np.float32), f32(src.shape[-1]), f32((scales or {}).get("src", 1))
    d = x - row_sums(x) / n
    variance = row_sums(d * d) / n
    y = d * (scale / np.sqrt(scale * scale * variance + f32(epsilon)))
    y = y if gamma is None else y * gamma
    y = y if beta is None else y + beta
    assert y.dtype == np.float32
    return stored(y, dst_dtype, scales, zero_points)
