"""Oracles of pooling: windows of the image in (n, c, *spatial) order, in NumPy int64 and float32."""

import functools

import numpy as np
import reference_elementwise
import reference_quantized
from reference_convolution import padded
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
    """Padding for ceil(size / stride) windows; an odd element comes after, or, if `lower`, before."""
    padding = []
    for size, k, s, d in zip(sizes, kernel, strides, dilation, strict=True):
        total = max((int(np.ceil(size / s)) - 1) * s + d * (k - 1) + 1 - size, 0)
        padding.append((total - total // 2, total // 2) if lower else (total // 2, total - total // 2))
    return padding


# out = ceil((size + before + after - span) / stride) + 1, less one if the last one begins at size + before or later
def overhang(sizes, kernel, strides, padding, dilation):
    """By how many elements windows of ceil_mode extend beyond the padding, in each dimension."""
    more = []
    for size, k, s, d, (before, after) in zip(sizes, kernel, strides, dilation, padding, strict=True):
        span = d * (k - 1) + 1
        out = int(np.ceil((size + before + after - span) / s)) + 1
        out -= (out - 1) * s >= size + before
        more.append(max((out - 1) * s + span - size - before - after, 0))
    return more


def windows(size, kernel, stride, dilation):
    """The number of windows in a dimension with its padding."""
    return (size - dilation * (kernel - 1) - 1) // stride + 1


# reduce(x[o stride + k dilation] for all k), where `reduce` can go over one axis after the other
def reduced(reduce, x, kernel, strides, padding, dilation, fill, behind, more):
    """(n, c, *out), with `fill` for padding, and `behind` for the `more` elements after it."""
    x = padded(padded(x, [(0, 0), (0, 0), *padding], fill), [(0, 0), (0, 0), *((0, one) for one in more)], behind)
    for axis, (k, s, d) in enumerate(zip(kernel, strides, dilation, strict=True), 2):
        x = np.moveaxis(x, axis, 0)
        count = windows(len(x), k, s, d)
        x = np.moveaxis(reduce([x[i * d : i * d + (count - 1) * s + 1 : s] for i in range(k)]), 0, axis)
    return x


def geometry(x, kernel, strides, padding, dilation, ceil_mode):
    """Kernel, strides, padding and dilation of each dimension, and by how many elements windows extend beyond the
    padding."""
    spatial, sizes = x.ndim - 2, x.shape[2:]
    kernel, dilation = each(kernel, spatial), each(dilation, spatial)
    strides = kernel if strides is None else each(strides, spatial)
    if isinstance(padding, str):
        padding = same(sizes, kernel, strides, dilation, padding == "same_lower") if padding != "valid" else 0
    padding = pairs(padding, spatial)
    more = overhang(sizes, kernel, strides, padding, dilation) if ceil_mode else (0,) * spatial
    return kernel, strides, padding, dilation, more


def dst_shape(src, kernel, *, strides=None, padding=0, ceil_mode=False, layout=None):
    """The shape of the result."""
    x = channels_first(src, layout)
    kernel, strides, padding, _, more = geometry(x, kernel, strides, padding, 1, ceil_mode)
    reached = [size + sum(pad) + one for size, pad, one in zip(x.shape[2:], padding, more, strict=True)]
    sizes = tuple(windows(size, k, s, 1) for size, k, s in zip(reached, kernel, strides, strict=True))
    return x.shape[:2] + sizes if x is src else (len(x), *sizes, x.shape[1])


def largest(parts):
    return functools.reduce(np.maximum, parts)


@shared
def max_pool(src, kernel, *, strides=None, padding=0, dilation=1, ceil_mode=False, layout=None):
    """dst = maximum of the window"""
    x, least = channels_first(src, layout), np.iinfo(src.dtype).min
    kernel, strides, padding, dilation, more = geometry(x, kernel, strides, padding, dilation, ceil_mode)
    return as_laid_out(reduced(largest, x, kernel, strides, padding, dilation, least, least, more), layout)


@shared
def avg_pool(src, kernel, *, strides=None, padding=0, include_padding=False, zero_point=0, ceil_mode=False, layout=None,
             dst_dtype=None):  # fmt: skip
    """dst = rne(f32(sum of the window) / f32(count)), or the quotient"""
    x = channels_first(src, layout).astype(np.int64)
    kernel, strides, padding, one, more = geometry(x, kernel, strides, padding, 1, ceil_mode)
    dtype = np.dtype(src.dtype if dst_dtype is None else dst_dtype)
    fill = zero_point if include_padding else 0
    total = reduced(sum, x, kernel, strides, padding, one, fill, 0, more)
    inside = np.ones((1, 1, *x.shape[2:]), np.int64)
    count = reduced(sum, inside, kernel, strides, padding, one, int(include_padding), 0, more)
    quotient = total.astype(np.float32) / count.astype(np.float32)
    assert quotient.dtype == np.float32
    return as_laid_out((quotient if dtype == np.float32 else np.rint(quotient)).astype(dtype), layout)


# y = post_ops(scale * (pooled - zero_point)) for the largest, or the mean, of a window; a negative scale makes the
# smallest element the largest number
def with_attributes(
    name, src, kernel, *, scales=None, zero_points=None, post_ops=(), dst_dtype=None, old=None, **options
):
    """Max or average pooling with scales, zero points and post-ops."""
    scales, zero_points = scales or {}, zero_points or {}
    zero = zero_points.get("src", options.pop("zero_point", 0))
    if name == "avg_pool":
        pooled = avg_pool(src, kernel, zero_point=zero, dst_dtype=np.float32, **options)
    elif scales.get("src", 1) > 0:
        pooled = max_pool(src, kernel, **options)
    else:
        pooled = np.invert(max_pool(np.invert(src), kernel, **options))
    y = reference_elementwise.real(pooled, scales.get("src", 1), zero)
    y = reference_quantized.post_ops(y, post_ops, old=old)
    dtype = src.dtype if dst_dtype is None else dst_dtype
    return reference_elementwise.destination(y, dtype, scales.get("dst", 1), zero_points.get("dst", 0))


def spatial_shape(src, layout):
    return channels_first(src, layout).shape[2:]


def global_max_pool(src, *, layout=None):
    return max_pool(src, spatial_shape(src, layout), layout=layout)


def global_avg_pool(src, *, layout=None, dst_dtype=None):
    return avg_pool(src, spatial_shape(src, layout), layout=layout, dst_dtype=dst_dtype)
