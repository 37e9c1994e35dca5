"""Oracles of pooling: every window gathered from the image in (n, c, *spatial) order, in NumPy int64 and float32."""

import numpy as np


def pairs(padding, spatial):
    """(before, after) of each spatial dimension, from one number, or a number or a pair for each."""
    each = padding if isinstance(padding, (tuple, list)) else (padding,) * spatial
    return [entry if isinstance(entry, (tuple, list)) else (entry, entry) for entry in each]


def each(value, spatial):
    return tuple(value) if isinstance(value, (tuple, list)) else (value,) * spatial


def channels_first(x, layout):
    return np.moveaxis(x, -1, 1) if layout is None or layout.endswith("c") else x


def as_laid_out(x, layout):
    return np.moveaxis(x, 1, -1) if layout is None or layout.endswith("c") else x


def windows(x, kernel, strides, padding, dilation, fill):
    """(n, c, *out, *kernel), `fill` for padding."""
    spatial = tuple(range(2, x.ndim))
    x = np.pad(x, [(0, 0), (0, 0), *pairs(padding, len(spatial))], constant_values=fill)
    spans = [d * (k - 1) + 1 for k, d in zip(kernel, dilation, strict=True)]
    seen = np.lib.stride_tricks.sliding_window_view(x, spans, spatial)
    return seen[:, :, *(slice(None, None, s) for s in strides), *(slice(None, None, d) for d in dilation)]


def max_pool(src, kernel, *, strides=None, padding=0, dilation=1, layout=None):
    """dst = max of the window"""
    x, spatial = channels_first(src, layout), src.ndim - 2
    kernel = each(kernel, spatial)
    strides = kernel if strides is None else each(strides, spatial)
    seen = windows(x, kernel, strides, padding, each(dilation, spatial), np.iinfo(src.dtype).min)
    return as_laid_out(seen.max(axis=tuple(range(-spatial, 0))), layout)


def avg_pool(src, kernel, *, strides=None, padding=0, include_padding=False, layout=None, dst_dtype=None):
    """dst = rne(f32(sum of the window) / f32(count)), or the quotient"""
    x, spatial = channels_first(src, layout), src.ndim - 2
    kernel = each(kernel, spatial)
    strides = kernel if strides is None else each(strides, spatial)
    dtype = np.dtype(src.dtype if dst_dtype is None else dst_dtype)
    one, axes = (1,) * spatial, tuple(range(-spatial, 0))
    total = windows(x, kernel, strides, padding, one, 0).sum(axis=axes, dtype=np.int64)
    inside = np.ones((1, 1, *x.shape[2:]), np.int8)
    count = np.prod(kernel) if include_padding else windows(inside, kernel, strides, padding, one, 0).sum(axis=axes)
    quotient = total.astype(np.float32) / np.asarray(count).astype(np.float32)
    assert quotient.dtype == np.float32
    return as_laid_out((quotient if dtype == np.float32 else np.rint(quotient)).astype(dtype), layout)


def spatial_shape(src, layout):
    return channels_first(src, layout).shape[2:]


def global_max_pool(src, *, layout=None):
    return max_pool(src, spatial_shape(src, layout), layout=layout)


def global_avg_pool(src, *, layout=None, dst_dtype=None):
    return avg_pool(src, spatial_shape(src, layout), layout=layout, dst_dtype=dst_dtype)
