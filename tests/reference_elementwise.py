"""Oracles of the element-wise primitives: the documented formulas in NumPy float32, one operation after the other."""

import numpy as np
import reference_quantized
from reference_quantized import ONE, quiet
from sharing import shared


# y = scale * (f32(x) - f32(zero_point))
@quiet
def real(x, scale=1, zero_point=0):
    """An array in real units."""
    return np.float32(scale) * (np.asarray(x).astype(np.float32) - np.float32(zero_point))


# sat(rne(y * (1 / scale) + zero_point)), the zero point for NaN        integers
# y * (1 / scale), rounded to the type                                   float32, float16
@quiet
def destination(y, dtype, scale=1, zero_point=0):
    """Real numbers converted to the type of the destination."""
    y = y * (ONE / np.float32(scale))
    assert y.dtype == np.float32
    if np.dtype(dtype).kind == "f":
        return y.astype(dtype)
    y = np.where(np.isnan(y), np.float32(0), y) + np.float32(zero_point)
    return reference_quantized.to_integer(y, dtype)


def values(scales, zero_points, name):
    return (scales or {}).get(name, 1), (zero_points or {}).get(name, 0)


@shared
def eltwise(src, ops, *, scales=None, zero_points=None, dst_dtype=None, old=None):
    """Functions of one tensor; `old` has the old values, which a Sum adds."""
    y = reference_quantized.post_ops(real(src, *values(scales, zero_points, "src")), ops, old=old)
    return destination(y, src.dtype if dst_dtype is None else dst_dtype, *values(scales, zero_points, "dst"))


@shared
@quiet
def binary(op, src0, src1, *, scales=None, zero_points=None, post_ops=(), dst_dtype=None, old=None):
    """The operation on two tensors that broadcast."""
    y0, y1 = (real(src, *values(scales, zero_points, name)) for name, src in (("src0", src0), ("src1", src1)))
    y = reference_quantized.post_ops(reference_quantized.BINARY[op](y0, y1), post_ops, old=old)
    return destination(y, src0.dtype if dst_dtype is None else dst_dtype, *values(scales, zero_points, "dst"))


@shared
@quiet
def sum(srcs, *, scales=None, zero_points=None, post_ops=(), dst_scale=1, dst_zero_point=0, dst_dtype=None, old=None):
    """The sum of tensors of one shape, added from the first to the last."""
    scales, zero_points = scales or [1] * len(srcs), zero_points or [0] * len(srcs)
    terms = [real(*source) for source in zip(srcs, scales, zero_points, strict=True)]
    y = terms[0]
    for term in terms[1:]:
        y = y + term
    y = reference_quantized.post_ops(y, post_ops, old=old)
    return destination(y, srcs[0].dtype if dst_dtype is None else dst_dtype, dst_scale, dst_zero_point)


@shared
def concat(srcs, axis, *, scales=None, zero_points=None, post_ops=(), dst_scale=1, dst_zero_point=0, dst_dtype=None,
           old=None):  # fmt: skip
    """The concatenation of tensors. Without post-ops, tensors with the destination's type and scale are copied."""
    dtype = np.dtype(srcs[0].dtype if dst_dtype is None else dst_dtype)
    scales, zero_points = scales or [1] * len(srcs), zero_points or [0] * len(srcs)
    if post_ops:
        y = np.concatenate([real(*source) for source in zip(srcs, scales, zero_points, strict=True)], axis)
        return destination(reference_quantized.post_ops(y, post_ops, old=old), dtype, dst_scale, dst_zero_point)
    parts = []
    for src, scale, zero_point in zip(srcs, scales, zero_points, strict=True):
        like = src.dtype == dtype and np.float32(scale) == np.float32(dst_scale) and zero_point == dst_zero_point
        y = real(src, scale, zero_point)
        parts.append(src if like else destination(y, dtype, dst_scale, dst_zero_point))
    return np.concatenate(parts, axis)
