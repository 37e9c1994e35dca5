"""Oracles of softmax and layer normalization: the documented formulas in NumPy float32, an operation at a time."""

import numpy as np
import reference_functions
from reference_quantized import destination, quiet

f32 = np.float32


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
# e = exp(t); y = e * (1 / sum(e)), or t - log(sum(e))
@quiet
def softmax(src, axis=-1, *, scales=None, zero_points=None, log=False, dst_dtype=np.float32):
    x = np.moveaxis(src, axis, -1)
    scale = f32((scales or {}).get("src", 1))
    x = x.astype(np.int64) if x.dtype.kind in "iu" else x.astype(np.float32)
    t = (x - x.max(axis=-1, keepdims=True)).astype(np.float32) * scale
    e = reference_functions.exp(t)
    total = row_sums(e)
    y = t - reference_functions.log(total) if log else e * (f32(1) / total)
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
