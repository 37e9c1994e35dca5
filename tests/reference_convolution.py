"""Oracles of im2col, convolution and deconvolution: the documented sums in NumPy int64, one kernel tap after the other.

Strides, padding and dilation are one value or one for each spatial dimension, padding also (before, after). Internally,
channels are the last dimension, and weights have the shape (g, oc / g, ic / g, *kernel). The epilogue after the sums is
in `reference_quantized`.
"""

import math

import numpy as np
import reference
from reference_quantized import destination, integers, is_integral, post_ops, real_sum
from sharing import shared


def per_dimension(value, spatial):
    """Return a tuple with a value for each spatial dimension, from such a sequence or from one value for all."""
    return (value,) * spatial if isinstance(value, int) else tuple(value)


def before_and_after(padding, spatial):
    """(before, after) of each spatial dimension."""
    return [(one, one) if isinstance(one, int) else tuple(one) for one in per_dimension(padding, spatial)]


def channels_last(x, layout):
    """Return an array that has the given layout, with its channels moved last."""
    return np.moveaxis(x, 1, -1) if layout and layout.startswith("nc") else x


def in_layout(x, layout):
    """Return an array whose channels are last, in the given layout."""
    return np.moveaxis(x, -1, 1) if layout and layout.startswith("nc") else x


def grouped(weights, groups, spatial):
    """Weights (oc, ic / g, *kernel) or (g, oc / g, ic / g, *kernel) in the second of these shapes, in int64."""
    oc = math.prod(weights.shape[: -1 - spatial])
    return weights.astype(np.int64).reshape(groups, oc // groups, *weights.shape[-1 - spatial :])


def steps(tap, strides, dilation, count):
    """Slices of `count` elements, k dilation + i stride in each dimension."""
    return [
        slice(k * d, k * d + (size - 1) * s + 1, s) for k, s, d, size in zip(tap, strides, dilation, count, strict=True)
    ]


# convolution:    before + after = max((ceil(in / stride) - 1) stride + dilation (k - 1) + 1 - in, 0)
# deconvolution:  before + after = dilation (k - 1) + 1 + output_padding - stride
def named_padding(name, sizes, kernel, strides, dilation, output_padding=None):
    """(before, after) of each spatial dimension for "same", which puts an odd element after, or "same_lower"."""
    spatial = len(kernel)
    strides, dilation, extra = (per_dimension(value, spatial) for value in (strides, dilation, output_padding or 0))
    pads = []
    for size, k, s, d, more in zip(sizes, kernel, strides, dilation, extra, strict=True):
        total = d * (k - 1) + 1 + more - s
        if output_padding is None:
            total = max((int(np.ceil(size / s)) - 1) * s + d * (k - 1) + 1 - size, 0)
        pads.append((total - total // 2, total // 2) if name == "same_lower" else (total // 2, total - total // 2))
    return pads


# convolution:    out = (in + before + after - (dilation (k - 1) + 1)) // stride + 1
# deconvolution:  out = (in - 1) stride - before - after + dilation (k - 1) + 1 + output_padding
def out_sizes(sizes, kernel, strides, padding, dilation, output_padding=None):
    """The spatial sizes of the destination for the given sizes of the source."""
    spatial = len(kernel)
    strides, dilation, extra = (per_dimension(value, spatial) for value in (strides, dilation, output_padding or 0))
    pads = [before + after for before, after in before_and_after(padding, spatial)]
    if output_padding is None:
        dimensions = zip(sizes, kernel, strides, pads, dilation, strict=True)
        return tuple((size + pad - (d * (k - 1) + 1)) // s + 1 for size, k, s, pad, d in dimensions)
    dimensions = zip(sizes, kernel, strides, pads, dilation, extra, strict=True)
    return tuple((size - 1) * s - pad + d * (k - 1) + 1 + more for size, k, s, pad, d, more in dimensions)


def padded(x, pads, value):
    """An array with (before, after) elements of a value around it, in each dimension."""
    if not any(map(any, pads)):
        return x
    result = np.full([b + size + a for size, (b, a) in zip(x.shape, pads, strict=True)], value, x.dtype)
    result[*(slice(before, before + size) for size, (before, _) in zip(x.shape, pads, strict=True))] = x
    return result


# windows[n, o, k, c] = x[n, o stride + k dilation - before, c], or the padding value where that is outside
def windows(x, kernel, strides, padding, dilation, padding_value):
    """The pixel under each tap of the kernel, for a source with its channels last: (n, *out, taps, c)."""
    spatial = x.ndim - 2
    out = out_sizes(x.shape[1:-1], kernel, strides, padding, dilation)
    strides, dilation = per_dimension(strides, spatial), per_dimension(dilation, spatial)
    x = padded(x, [(0, 0), *before_and_after(padding, spatial), (0, 0)], padding_value)
    seen = [x[:, *steps(tap, strides, dilation, out)] for tap in np.ndindex(*kernel)]
    return np.stack(seen, axis=-2)


def rows_of_groups(seen, groups):
    """Windows as the rows of a matrix for each group, (groups, n * out, taps * c / groups)."""
    *leading, taps, c = seen.shape
    rows = np.moveaxis(seen.reshape(math.prod(leading), taps, groups, c // groups), 2, 0)
    return rows.reshape(*rows.shape[:2], taps * (c // groups))


def im2col(src, kernel, *, strides=1, padding=0, dilation=1, groups=1, layout=None, padding_value=0):
    """The rows that a convolution multiplies by its weights, separately for each group if there are several."""
    rows = rows_of_groups(
        windows(channels_last(src, layout), kernel, strides, padding, dilation, padding_value), groups
    )
    return rows if groups > 1 else rows[0]


def products_of_groups(product, rows, matrices, zero_point):
    """Windows (groups, rows, k) times weights (groups, oc / groups, k), int64 (rows, oc)."""
    if product is reference.exact_product:
        acc = product(rows, matrices, zero_point, trans_b=True)
    else:
        pairs = zip(rows, matrices, strict=True)
        acc = np.stack([product(one, matrix, zero_point, trans_b=True) for one, matrix in pairs])
    return acc.swapaxes(0, 1).reshape(rows.shape[1], matrices.shape[0] * matrices.shape[1])


# acc[n, o, oc] = sum over k, ic of (x[n, o stride + k dilation - before, ic] - zp_src) w[oc, ic, k]
def convolution_sums(x, w, zero_point, strides, padding, dilation, product=reference.exact_product):
    """int64 (n, *out, oc); the padding is the zero point, and k has the order (*kernel, ic) in each group."""
    seen = windows(x, w.shape[3:], strides, padding, dilation, zero_point)
    matrices = np.moveaxis(w, 2, -1).reshape(*w.shape[:2], math.prod(w.shape[2:]))
    acc = products_of_groups(product, rows_of_groups(seen, len(w)), matrices, zero_point)
    return acc.reshape(*seen.shape[:-2], w.shape[0] * w.shape[1])


# acc[n, o, oc] = sum over i, k with i stride + k dilation - before = o, and over ic,
#                 of (x[n, i, ic] - zp_src) w[oc, ic, k]
def deconvolution_sums(x, w, zero_point, strides, padding, dilation, output_padding):
    """int64 (n, *out, oc): every source element is added to all outputs it contributes to, and the padding is cut
    off."""
    spatial, kernel = x.ndim - 2, w.shape[3:]
    out = out_sizes(x.shape[1:-1], kernel, strides, padding, dilation, output_padding)
    strides, dilation = per_dimension(strides, spatial), per_dimension(dilation, spatial)
    pads = before_and_after(padding, spatial)
    reached = [before + size + after for size, (before, after) in zip(out, pads, strict=True)]
    groups, oc, ic = w.shape[:3]
    pixels = x.reshape(math.prod(x.shape[:-1]), groups, ic).swapaxes(0, 1)
    taps = np.moveaxis(w, 2, -1).reshape(groups, oc * math.prod(kernel), ic)
    contributions = products_of_groups(reference.exact_product, pixels, taps, zero_point)
    contributions = contributions.reshape(*x.shape[:-1], groups * oc, *kernel)
    acc = np.zeros((x.shape[0], *reached, groups * oc), np.int64)
    for tap in np.ndindex(*kernel):
        acc[:, *steps(tap, strides, dilation, x.shape[1:-1])] += contributions[..., *tap]
    inside = [slice(before, before + size) for size, (before, _) in zip(out, pads, strict=True)]
    return acc[:, *inside]


# out[first + j stride] uses each k for which i = (first + before - k dilation) / stride is an integer, with x[i + j]
def phase_sums(x, w, zero_point, strides, padding, dilation, output_padding, product):
    """Return the sums of a deconvolution, int64 (n, *out, oc), added in the order that saturating sums need: the
    elements of the kernel from the last to the first, and all ic for each of them."""
    spatial, (groups, oc) = x.ndim - 2, w.shape[:2]
    out = out_sizes(x.shape[1:-1], w.shape[3:], strides, padding, dilation, output_padding)
    strides, dilation = per_dimension(strides, spatial), per_dimension(dilation, spatial)
    before = [one for one, _ in before_and_after(padding, spatial)]
    margin = max(out) + max(w.shape[3:]) * max(dilation)
    x = padded(x, [(0, 0), *[(margin, margin)] * spatial, (0, 0)], zero_point)
    acc = np.zeros((x.shape[0], *out, groups * oc), np.int64)
    for first in np.ndindex(*strides):
        where = [slice(f, None, s) for f, s in zip(first, strides, strict=True)]
        count = acc[:, *where].shape[1:-1]
        seen, matrices = [], []
        for k in reversed(list(np.ndindex(*w.shape[3:]))):
            i = [f + b - t * d for f, b, t, d in zip(first, before, k, dilation, strict=True)]
            if not any(at % s for at, s in zip(i, strides, strict=True)):
                starts = [margin + at // s for at, s in zip(i, strides, strict=True)]
                seen.append(x[:, *(slice(at, at + size) for at, size in zip(starts, count, strict=True))])
                matrices.append(w[..., *k])
        if seen and min(count) > 0:
            rows = rows_of_groups(np.stack(seen, axis=-2), groups)
            phase = products_of_groups(product, rows, np.concatenate(matrices, axis=-1), zero_point)
            acc[:, *where] = phase.reshape(x.shape[0], *count, groups * oc)
    return acc


# w' = rne(w / 2)
def halved(w):
    """Weights with which every sum of two products fits s16: 2 * 255 * 64 < 2**15."""
    return np.rint(w / 2).astype(np.int64)


# exact:           acc = sums(x, w - zp_weights)
# saturating, s8:  acc = 2 sums(x, w')
# saturating, u8:  acc = sums(x, w); each sum of two products saturates
# y = post_ops(real_sum(acc))
# dst = destination(y)
@shared
def convolution(
    src,
    weights,
    bias=None,
    *,
    dst_dtype,
    strides=1,
    padding=0,
    dilation=1,
    output_padding=None,
    groups=1,
    layout=None,
    scales=None,
    zero_points=None,
    ops=(),
    output_scales=None,
    operands=(),
    old=None,
    numerics="exact",
):
    """The destination of a convolution, or, with an `output_padding`, of a deconvolution."""
    scales, zero_points = scales or {}, zero_points or {}
    x = channels_last(src, layout)
    w = grouped(weights, groups, x.ndim - 2)
    zeros = np.asarray(zero_points.get("weights", 0), np.int64)
    w = w - (zeros.reshape(*w.shape[:2], *(1,) * (w.ndim - 2)) if zeros.ndim else zeros)
    factor, product = 1, reference.exact_product
    if numerics == "saturating" and src.dtype == np.int8:
        factor, w = 2, halved(w)
    elif numerics == "saturating":
        product = reference.saturating_product
    zero = int(zero_points.get("src", 0))
    if zero and not np.iinfo(src.dtype).min <= zero <= np.iinfo(src.dtype).max:
        x = x.astype(np.int64)
    arguments = (x, w, zero, strides, padding, dilation)
    if output_padding is None:
        acc = convolution_sums(*arguments, product)
    elif product is reference.exact_product:
        acc = deconvolution_sums(*arguments, output_padding)
    else:
        acc = phase_sums(*arguments, output_padding, product)
    if is_integral(bias, dst_dtype, scales, ops, output_scales):
        return in_layout(integers(factor * acc, bias, zero_points.get("dst", 0)), layout)
    y = in_layout(real_sum(factor * acc, bias, scales, output_scales), layout)
    y = channels_last(post_ops(y, ops, operands, old), layout)
    return in_layout(destination(y, dst_dtype, scales.get("dst"), zero_points.get("dst")), layout)
