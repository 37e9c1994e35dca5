"""Oracles of pooling: every window gathered from the image in (n, c, *spatial) order, in NumPy int64 and float32."""

from itertools import product

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


def windows(src, kernel, strides, padding, dilation):
    """The elements of each window that are not padding, (n, c, elements), with the window's place in the result."""
    spatial, sizes = src.ndim - 2, src.shape[2:]
    padding = pairs(padding, spatial)
    counts = [
        (size + sum(pads) - step * (k - 1) - 1) // stride + 1
        for size, pads, step, k, stride in zip(sizes, padding, dilation, kernel, strides, strict=True)
    ]
    for place in product(*map(range, counts)):
        chosen = src
        for axis in range(spatial):
            start = place[axis] * strides[axis] - padding[axis][0]
            inside = [start + dilation[axis] * i for i in range(kernel[axis])]
            inside = [position for position in inside if 0 <= position < sizes[axis]]
            chosen = np.take(chosen, inside, axis=axis + 2)
        yield place, chosen.reshape(*src.shape[:2], -1), counts


def max_pool(src, kernel, *, strides=None, padding=0, dilation=1, layout=None):
    """dst = max of the window"""
    x, spatial = channels_first(src, layout), src.ndim - 2
    kernel = each(kernel, spatial)
    strides = kernel if strides is None else each(strides, spatial)
    dst = None
    for place, window, counts in windows(x, kernel, strides, padding, each(dilation, spatial)):
        dst = np.empty((*x.shape[:2], *counts), src.dtype) if dst is None else dst
        dst[(slice(None), slice(None), *place)] = window.max(axis=2)
    return as_laid_out(dst, layout)


def avg_pool(src, kernel, *, strides=None, padding=0, include_padding=False, layout=None, dst_dtype=None):
    """dst = rne(f32(sum of the window) / f32(count)), or the quotient"""
    x, spatial = channels_first(src, layout), src.ndim - 2
    kernel = each(kernel, spatial)
    strides = kernel if strides is None else each(strides, spatial)
    dtype = np.dtype(src.dtype if dst_dtype is None else dst_dtype)
    dst = None
    for place, window, counts in windows(x, kernel, strides, padding, (1,) * spatial):
        dst = np.empty((*x.shape[:2], *counts), dtype) if dst is None else dst
        count = np.prod(kernel) if include_padding else window.shape[2]
        quotient = window.sum(axis=2, dtype=np.int64).astype(np.float32) / np.float32(count)
        assert quotient.dtype == np.float32
        dst[(slice(None), slice(None), *place)] = quotient if dtype == np.float32 else np.rint(quotient)
    return as_laid_out(dst, layout)


def spatial_shape(src, layout):
    return channels_first(src, layout).shape[2:]


def global_max_pool(src, *, layout=None):
    return max_pool(src, spatial_shape(src, layout), layout=layout)


def global_avg_pool(src, *, layout=None, dst_dtype=None):
    return avg_pool(src, spatial_shape(src, layout), layout=layout, dst_dtype=dst_dtype)
