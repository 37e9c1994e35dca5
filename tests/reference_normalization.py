"""Oracles of softmax and layer normalization: the documented formulas in NumPy float32, one operation at a time."""

import numpy as np
import reference_functions
import reference_quantized
from reference_quantized import destination, quiet
from sharing import shared

f32 = np.float32


# partial sum j of elements j, j + 64, ..., in order; then the second half added to the first until one is left
def row_sums(x):
    """Return sums along the last axis; the result keeps this axis, with size 1."""
    padded = np.zeros((*x.shape[:-1], -(-x.shape[-1] // 64) * 64), np.float32)
    padded[..., : x.shape[-1]] = x
    sums = np.zeros((*x.shape[:-1], 64), np.float32)
    for start in range(0, padded.shape[-1], 64):
        sums = sums + padded[..., start : start + 64]
    while sums.shape[-1] > 1:
        half = sums.shape[-1] // 2
        sums = sums[..., :half] + sums[..., half:]
    return sums


def stored(y, dst_dtype, scales, zero_points, post_ops=(), old=None):
    """y of any shape after post-ops, converted to the type of the destination."""
    y = reference_quantized.post_ops(y, post_ops, old=old)
    flat = destination(y.reshape(1, -1), dst_dtype, (scales or {}).get("dst"), (zero_points or {}).get("dst"))
    return flat.reshape(y.shape)


# t = f32(x - max(x)) * scale, the difference exact for integers
# e = exp(t); y = e * (1 / sum(e)), or t - log(sum(e))
@shared
@quiet
def softmax(src, axis=-1, *, scales=None, zero_points=None, post_ops=(), log=False, dst_dtype=np.float32, old=None):
    x = np.moveaxis(src, axis, -1)
    scale = f32((scales or {}).get("src", 1))
    x = x.astype(np.int64) if x.dtype.kind in "iu" else x.astype(np.float32)
    if scale < 0:
        x, scale = -x, -scale
    t = (x - x.max(axis=-1, keepdims=True)).astype(np.float32) * scale
    e = reference_functions.exp(t)
    total = row_sums(e)
    y = t - reference_functions.log(total) if log else e * (f32(1) / total)
    assert y.dtype == np.float32
    return stored(np.moveaxis(y, -1, axis), dst_dtype, scales, zero_points, post_ops, old)


# d = x - sum(x) / n
# y = d * (scale / sqrt(scale * scale * (sum(d * d) / n) + epsilon)) * gamma + beta
@shared
@quiet
def layer_norm(src, gamma=None, beta=None, *, epsilon=1e-5, scales=None, zero_points=None, post_ops=(),
               dst_dtype=np.float32, old=None):  # fmt: skip
    x, n, scale = src.astype(np.float32), f32(src.shape[-1]), f32((scales or {}).get("src", 1))
    if src.dtype == np.int32 and src.size:  # rows with values beyond 2**24, where float32 is not exact
        beyond = (src.astype(np.float64) ** 2).max(axis=-1, keepdims=True) > 2.0**48
        x = np.where(beyond, (src.astype(np.float64) - src[..., :1]).astype(np.float32), x)
    mean = row_sums(x) / n
    d = x - mean
    variance = row_sums(d * d) / n
    factor = scale / np.sqrt(scale * scale * variance + f32(epsilon))
    ordinary = is_ordinary(mean, variance, scale, f32(epsilon))
    careful_d, careful_factor = scaled(x, n, scale, f32(epsilon))
    y = np.where(ordinary, d, careful_d) * np.where(ordinary, factor, careful_factor)
    y = y if gamma is None else y * gamma
    y = y if beta is None else y + beta
    assert y.dtype == np.float32
    return stored(y, dst_dtype, scales, zero_points, post_ops, old)


# y = x * (1 / sqrt(sum(x * x) / n + epsilon)) * gamma
@shared
@quiet
def rms_norm(x, gamma, epsilon):
    factor = f32(1) / np.sqrt(row_sums(x * x) / f32(x.shape[-1]) + f32(epsilon))
    return x * factor * gamma


def is_ordinary(mean, variance, scale, epsilon):
    """Rows without overflow, where neither subnormal numbers nor the rounding error of the mean matter."""
    squares = scale * scale * variance
    finite = squares + epsilon <= np.finfo(np.float32).max
    tiny = (epsilon < f32(2.0**-60)) & ((variance < f32(2.0**-100)) | (squares < f32(2.0**-100)))
    centered = (variance == 0) | (mean * mean * f32(2.0**-12) <= variance)
    return finite & (f32(2.0**-50) <= abs(scale)) & (abs(scale) <= f32(2.0**30)) & ~tiny & centered


# x = x * 2**-k, with the largest in [1, 2);  d = x - sum(x) / n;  d = d - sum(d) / n
# factor = f32(s / sqrt(s * s * (sum(d * d) / n) + epsilon)) in float64, s = scale * 2**k
def scaled(x, n, scale, epsilon):
    """d and factor of rows of any magnitude."""
    largest = np.abs(x).max(axis=-1, keepdims=True)
    exponents = np.clip((largest.view(np.int32) >> 23) - 127, -126, 126)
    x = x * np.ldexp(f32(1), -exponents)
    d = x - row_sums(x) / n
    d = d - row_sums(d) / n
    s = scale.astype(np.float64) * np.ldexp(1.0, exponents)
    factor = s / np.sqrt(s * s * (row_sums(d * d) / n).astype(np.float64) + epsilon.astype(np.float64))
    return d, np.where((factor > 2.0**127) & (epsilon > 0), 2.0**127, factor).astype(np.float32)
