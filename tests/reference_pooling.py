"""Oracles of pooling: every window gathered from the image in (n, c, *spatial) order, in NumPy int64 and float32."""

import numpy as np
from sharing import shared


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


def same(sizes, kernel, strides, dilation, lower):
    """Padding with which there are ceil(size / stride) windows, an odd one behind, or before."""
    padding = []
    for size, k, s, d in zip(sizes, kernel, strides, dilation, strict=True):
        total = max((int(np.ceil(size / s)) - 1) * s + d * (k - 1) + 1 - size, 0)
        padding.append((total - total // 2, total // 2) if lower else (total // 2, total - total // 2))
    return padding


# out = ceil((size + before + after - span) / stride) + 1, less one if the last one begins at size + before or later
def overhang(sizes, kernel, strides, padding, dilation):
    """What the windows of ceil_mode reach behind the padding, in each dimension."""
    more = []
    for size, k, s, d, (before, after) in zip(sizes, kernel, strides, dilation, padding, strict=True):
        span = d * (k - 1) + 1
        out = int(np.ceil((size + before + after - span) / s)) + 1
        out -= (out - 1) * s >= size + before
        more.append(max((out - 1) * s + span - size - before - after, 0))
    return more


def windows(x, kernel, strides, padding, dilation, fill, behind=None, more=None):
    """(n, c, *out, *kernel), `fill` for padding; and for as many elements behind it as `more` says, `behind`."""
    spatial = tuple(range(2, x.ndim))
    x = np.pad(x, [(0, 0), (0, 0), *pairs(padding, len(spatial))], constant_values=fill)
    if more is not None:
        x = np.pad(x, [(0, 0), (0, 0), *((0, one) for one in more)], constant_values=behind)
    spans = [d * (k - 1) + 1 for k, d in zip(kernel, dilation, strict=True)]
    seen = np.lib.stride_tricks.sliding_window_view(x, spans, spatial)
    return seen[:, :, *(slice(None, None, s) for s in strides), *(slice(None, None, d) for d in dilation)]


def geometry(x, kernel, strides, padding, dilation, ceil_mode):
    """Kernel, strides, padding and dilation of each dimension, and what windows reach behind the padding."""
    spatial, sizes = x.ndim - 2, x.shape[2:]
    kernel, dilation = each(kernel, spatial), each(dilation, spatial)
    strides = kernel if strides is None else each(strides, spatial)
    if isinstance(padding, str):
        padding = same(sizes, kernel, strides, dilation, padding == "same_lower") if padding != "valid" else 0
    padding = pairs(padding, spatial)
    more = overhang(sizes, kernel, strides, padding, dilation) if ceil_mode else (0,) * spatial
    return kernel, strides, padding, dilation, more


@shared
def max_pool(src, kernel, *, strides=None, padding=0, dilation=1, ceil_mode=False, layout=None):
    """dst = max of the window"""
    x, least = channels_first(src, layout), np.iinfo(src.dtype).min
    kernel, strides, padding, dilation, more = geometry(x, kernel, strides, padding, dilation, ceil_mode)
    seen = windows(x, kernel, strides, padding, dilation, least, least, more)
    return as_laid_out(seen.max(axis=tuple(range(-len(kernel), 0))), layout)


@shared
def avg_pool(src, kernel, *, strides=None, padding=0, include_padding=False, zero_point=0, ceil_mode=False, layout=None,
             dst_dtype=None):  # fmt: skip
    """dst = rne(f32(sum of the window) / f32(count)), or the quotient"""
    x = channels_first(src, layout).astype(np.int64)
    kernel, strides, padding, one, more = geometry(x, kernel, strides, padding, 1, ceil_mode)
    dtype = np.dtype(src.dtype if dst_dtype is None else dst_dtype)
    axes = tuple(range(-len(kernel), 0))
    fill = zero_point if include_padding else 0
    total = windows(x, kernel, strides, padding, one, fill, 0, more).sum(axis=axes, dtype=np.int64)
    inside = np.ones((1, 1, *x.shape[2:]), np.int8)
    count = windows(inside, kernel, strides, padding, one, int(include_padding), 0, more).sum(axis=axes)
    quotient = total.astype(np.float32) / np.asarray(count).astype(np.float32)
    assert quotient.dtype == np.float32
    return as_laid_out((quotient if dtype == np.float32 else np.rint(quotient)).astype(dtype), layout)


def spatial_shape(src, layout):
    return channels_first(src, layout).shape[2:]


def global_max_pool(src, *, layout=None):
    return max_pool(src, spatial_shape(src, layout), layout=layout)


def global_avg_pool(src, *, layout=None, dst_dtype=None):
    return avg_pool(src, spatial_shape(src, layout), layout=layout, dst_dtype=dst_dtype)
