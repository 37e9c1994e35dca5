"""Oracles of ONNX's quantization and windows, written from the text of its specification, in NumPy."""

import numpy as np


def over(values, ndim, axis):
    """One number, or a vector that lies along an axis, in a shape that broadcasts."""
    return values if values.size == 1 else values.reshape([-1 if i == axis % ndim else 1 for i in range(ndim)])


def dequantized(x, scale, zero, axis=1):
    """f32(x - zero) * scale"""
    scale, zero = over(scale, x.ndim, axis), over(zero, x.ndim, axis)
    with np.errstate(all="ignore"):
        return ((x.astype(np.int64) - zero).astype(np.float32) * scale).astype(np.float32)


def quantized(x, scale, zero, axis=1):
    """sat(rne(x / scale) + zero), where NaN becomes the zero point"""
    limits = np.iinfo(zero.dtype)
    scale, zero = over(scale, x.ndim, axis), over(zero, x.ndim, axis)
    with np.errstate(all="ignore"):
        rounded = np.nan_to_num(np.rint((x / scale).astype(np.float32)).astype(np.float64))
    return np.clip(rounded + zero, limits.min, limits.max).astype(zero.dtype)


def positions(size, kernel, stride, dilation, pads, auto_pad, ceil_mode):
    """Return the positions in the image of each window's elements along one dimension, and the padding (before, after).

    With pads, the sum of both sides being pad::

        out = floor or ceil((size + pad - span) / stride) + 1, less a window that would start after the image

    With auto_pad, which ceil_mode does not change::

        VALID    out = ceil((size - span + 1) / stride)
        SAME     out = ceil(size / stride), pad = (out - 1) * stride + span - size
    """
    span = dilation * (kernel - 1) + 1
    before, after = pads
    if auto_pad == "VALID":
        out, before, after = -(-(size - span + 1) // stride), 0, 0
    elif auto_pad != "NOTSET":
        out = -(-size // stride)
        pad = max((out - 1) * stride + span - size, 0)
        before = pad // 2 if auto_pad == "SAME_UPPER" else pad - pad // 2
        after = pad - before
    else:
        room = size + before + after - span
        out = (-(-room // stride) if ceil_mode else room // stride) + 1
        out -= ceil_mode and (out - 1) * stride >= size + before
    places = np.arange(out)[:, None] * stride + np.arange(kernel) * dilation - before
    return places, (before, after)


def windows(x, kernel_shape, strides=None, dilations=None, pads=None, auto_pad="NOTSET", ceil_mode=0):
    """Return three arrays (n, c, *out, *kernel): the elements of all windows, whether each element lies in the image,
    and whether each lies in the image or its padding."""
    n = len(kernel_shape)
    strides, dilations, pads = strides or [1] * n, dilations or [1] * n, pads or [0] * 2 * n
    inside = declared = np.ones((), bool)
    for d, size in enumerate(x.shape[2:][:n]):
        sides = pads[d], pads[d + n]
        places, (before, after) = positions(size, kernel_shape[d], strides[d], dilations[d], sides, auto_pad, ceil_mode)
        x = np.moveaxis(np.take(x, places.clip(0, size - 1), 2 + d), 3 + d, -1)
        shape = [1] * d + [places.shape[0]] + [1] * (n - 1) + [places.shape[1]] + [1] * (n - 1 - d)
        inside = inside & ((places >= 0) & (places < size)).reshape(shape)
        declared = declared & ((places >= -before) & (places < size + after)).reshape(shape)
    return x, inside, declared


def max_pool(x, **attributes):
    elements, inside, _ = windows(x, **attributes)
    lowest = -np.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).min
    return np.where(inside, elements, x.dtype.type(lowest)).max(tuple(range(-(x.ndim - 2), 0)))


def average_pool(x, count_include_pad=0, **attributes):
    """Average pooling in float64, rounded once. A window without elements gives 0."""
    elements, inside, declared = windows(x, **attributes)
    axes = tuple(range(-(x.ndim - 2), 0))
    count = (declared if count_include_pad else inside).sum(axes)
    return (np.where(inside, elements.astype(np.float64), 0).sum(axes) / np.maximum(count, 1)).astype(np.float32)


def convolution_sums(x, w, group=1, **attributes):
    """The sums of a convolution, in int64."""
    elements, inside, _ = windows(x.astype(np.int64), kernel_shape=w.shape[2:], **attributes)
    n = x.ndim - 2
    elements = np.where(inside, elements, 0).reshape(len(x), group, -1, *elements.shape[2:])
    filters = w.astype(np.int64).reshape(group, -1, w.shape[1], *(1,) * n, *w.shape[2:])
    sums = (elements[:, :, None] * filters).sum((3, *range(-n, 0)))
    return sums.reshape(len(x), len(w), *sums.shape[3:])
