"""Oracles of the quantized primitives: the documented formulas in NumPy float32, one operation after the other.

Sums are exact (int64); everything after them is float32, each operation rounded once, in the order written. Scales and
zero points are mappings of "src", "weights" and "dst" to one value or a vector, which is for rows in the case of src,
else for columns.
"""

import numpy as np
import reference
from sharing import shared

TINY = np.finfo(np.float32).tiny
ONE = np.float32(1)


def quiet(function):
    """Run a function without warnings, because infinities and NaN are part of the formulas."""

    def call(*arguments, **keywords):
        with np.errstate(all="ignore"):
            return function(*arguments, **keywords)

    return call


def rows(values):
    """One value, or one for each row, as a float32 column that broadcasts."""
    return np.asarray(values, np.float32).reshape(-1, 1)


def columns(values):
    """One value, or one for each column, as a float32 row that broadcasts."""
    return np.asarray(values, np.float32).reshape(1, -1)


# sat(rne(y)), half to even
def to_integer(y, dtype):
    """float32 without NaN to an integer type."""
    info = np.iinfo(dtype)
    return np.clip(np.rint(y.astype(np.float64)), info.min, info.max).astype(dtype)


# f(x) for the functions that are exact, or round once per operation
ELTWISE = {
    "relu": lambda x, alpha, beta: np.where(x < 0, alpha * x if alpha else np.float32(0), x),
    "hardswish": lambda x, alpha, beta: hardswish(x, clip(alpha * x + beta, np.float32(0), ONE)),
    "clip": lambda x, alpha, beta: clip(x, alpha, beta),
    "abs": lambda x, alpha, beta: np.abs(x),
    "square": lambda x, alpha, beta: x * x,
    "sqrt": lambda x, alpha, beta: np.sqrt(x),
    "linear": lambda x, alpha, beta: alpha * x + beta,
    "round": lambda x, alpha, beta: np.rint(x),
    "hardsigmoid": lambda x, alpha, beta: clip(alpha * x + beta, np.float32(0), ONE),
    "clip_v2": lambda x, alpha, beta: np.where(x <= alpha, alpha, np.where(x >= beta, beta, x)),
}

# NaN, of y or of the operand, is neither less nor greater than anything
BINARY = {
    "add": lambda y, z: y + z,
    "sub": lambda y, z: y - z,
    "mul": lambda y, z: y * z,
    "div": lambda y, z: y / z,
    "min": lambda y, z: np.where(z < y, z, y),
    "max": lambda y, z: np.where(z > y, z, y),
    "ge": lambda y, z: (y >= z).astype(np.float32),
    "gt": lambda y, z: (y > z).astype(np.float32),
    "le": lambda y, z: (y <= z).astype(np.float32),
    "lt": lambda y, z: (y < z).astype(np.float32),
    "eq": lambda y, z: (y == z).astype(np.float32),
    "ne": lambda y, z: (y != z).astype(np.float32),
}


def hardswish(x, factor):
    """x * factor, but always 0 where the factor is 0, also for infinite x."""
    return np.where(factor == 0, np.copysign(np.float32(0), x), x * factor)


def clip(x, low, high):
    """low for x < low, high for x > high, otherwise x, which may be NaN."""
    return np.where(x < low, low, np.where(x > high, high, x))


# Sum:      y = y + scale * (f32(old) - zero_point)            old read as its own type, or as `dtype`
# Eltwise:  y = scale * f(y)
# Binary:   y = y op operand
# PReLU:    y = y if y >= 0 else operand * y
@quiet
def post_ops(y, ops, operands=(), old=None):
    """All post-ops in order; `operands` are for Binary and PReLU without their own operand."""
    operands = list(operands)
    for op in ops:
        match type(op).__name__:
            case "Sum":
                before = old if op.dtype is None else np.ascontiguousarray(old).view(op.dtype)
                y = y + np.float32(op.scale) * (before.astype(np.float32) - np.float32(op.zero_point))
            case "Eltwise":
                y = np.float32(op.scale) * ELTWISE[op.algorithm](y, np.float32(op.alpha), np.float32(op.beta))
            case name:
                operand = np.asarray(op.operand if op.operand is not None else operands.pop(0), np.float32)
                y = np.where(y < 0, operand * y, y) if name == "PReLU" else BINARY[op.algorithm](y, operand)
    assert y.dtype == np.float32
    return y


# dst = sat(rne(y * (1 / scale) + zero_point)), the zero point for NaN        integers
# dst = y * (1 / scale), rounded to the type                                   float32, float16
@quiet
def destination(y, dtype, scale=None, zero_point=None):
    """y converted to the type of the destination."""
    if scale is not None:
        y = y * (ONE / columns(scale))
    if np.dtype(dtype).kind == "f":
        return y.astype(dtype)
    y = np.where(np.isnan(y), np.float32(0), y)
    return to_integer(y if zero_point is None else y + columns(zero_point), dtype)


# y = f32(acc + bias_s32) * (scale_src * scale_weights) + bias_f32
#     (f32(acc + bias_s32) + bias_f32) * (scale_src * output_scale)
@quiet
def real_sum(acc, bias, scales, output_scales=None):
    """Sums (..., oc) in real units; `output_scales` is one value, or one for each column."""
    integer_bias = bias is not None and bias.dtype == np.int32
    y = (acc + bias.astype(np.int64) if integer_bias else acc).astype(np.float32)
    real_bias = bias is not None and not integer_bias
    if output_scales is not None:
        return (y + columns(bias) if real_bias else y) * (rows(scales.get("src", 1)) * columns(output_scales))
    y = y * (rows(scales.get("src", 1)) * columns(scales.get("weights", 1)))
    return y + columns(bias) if real_bias else y


def is_integral(bias, dst_dtype, scales, ops, output_scales):
    """Whether the formula of a layer has only integers, so that its result is exact."""
    real = scales or ops or output_scales is not None or (bias is not None and bias.dtype != np.int32)
    return dst_dtype == np.int32 and not real


# dst = sat(acc + bias_s32 + zero_point), in integers
def integers(acc, bias, zero_point):
    """Sums (..., oc) converted to the destination if the formula has only integers."""
    total = acc + np.asarray(zero_point, np.int64) + (0 if bias is None else bias.astype(np.int64))
    return np.clip(total, -(2**31), 2**31 - 1).astype(np.int32)


# acc = (src - zp_src) @ (weights - zp_weights).T y = post_ops(real_sum(acc)) dst = destination(y), or integers(acc) if
# is_integral
@shared
def inner_product(
    src,
    weights,
    bias=None,
    *,
    dst_dtype,
    scales=None,
    zero_points=None,
    ops=(),
    output_scales=None,
    operands=(),
    old=None,
    numerics="exact",
):
    """The destination of src (rows, ic) and weights (oc, ic)."""
    scales, zero_points = scales or {}, zero_points or {}
    product = {"exact": reference.exact_product, "saturating": reference.saturating_product}[numerics]
    acc = product(src, weights, zero_points.get("src", 0), zero_points.get("weights", 0), trans_b=True)
    if is_integral(bias, dst_dtype, scales, ops, output_scales):
        return integers(acc, bias, zero_points.get("dst", 0))
    y = post_ops(real_sum(acc, bias, scales, output_scales), ops, operands, old)
    return destination(y, dst_dtype, scales.get("dst"), zero_points.get("dst"))


# acc[g] = (src[:, g] - zp_src[:, g]) @ (weights[:, g] - zp_weights[g]).T, g the k of one group
# y = f32(acc[0]) * (scale_src[:, 0] * scale_weights[0]); y = y + the same of acc[g], one by one
# y = post_ops(y + bias); dst = destination(y)
@shared
@quiet
def inner_product_by_groups(
    src,
    weights,
    bias=None,
    *,
    dst_dtype,
    scales,
    zero_points=None,
    ops=(),
    operands=(),
    old=None,
    numerics="exact",
):
    """The destination of src (rows, ic) and weights (oc, ic). Scales and zero points of the weights have shape (groups,
    oc); scales and zero points of src may have shape (rows, groups)."""
    zero_points = zero_points or {}
    product = {"exact": reference.exact_product, "saturating": reference.saturating_product}[numerics]
    size = weights.shape[1] // len(scales["weights"])
    y = None
    for group, scale in enumerate(scales["weights"]):
        k = slice(group * size, (group + 1) * size)
        zeros, of_src, src_scale = (
            np.asarray(values)
            for values in (zero_points.get("weights", 0), zero_points.get("src", 0), scales.get("src", 1))
        )
        zeros = zeros[group] if zeros.ndim == 2 else zeros
        of_src, src_scale = (values[:, group] if values.ndim == 2 else values for values in (of_src, src_scale))
        acc = product(src[:, k], weights[:, k], of_src, zeros, trans_b=True)
        term = real_sum(acc, None, {"src": src_scale, "weights": scale})
        y = term if y is None else y + term
    if bias is not None:
        y = y + columns(bias)
    return destination(post_ops(y, ops, operands, old), dst_dtype, scales.get("dst"), zero_points.get("dst"))


# range (low, high), extended to contain 0
# s8:  scale = max(|low|, |high|) / 127       zero = 0
# u8:  scale = high / 255 - low / 255         zero = min(rne(-low * (1 / scale)), 255)
# q = sat(rne(x * (1 / scale) + zero)); a scale is at least the smallest normal float32
# scale = NaN, zero = 0, unless the whole range is finite; q does not matter then
@quiet
def quantize_dynamically(x, dtype, per_row):
    """A source (rows, ic) in 8 bits, its scales and its zero points: one value each, or one per row."""
    x = x.astype(np.float32)
    axis = 1 if per_row else None
    finite = np.isfinite(x).all(axis=axis)
    low = np.where(finite, x.min(axis=axis, initial=np.float32(0)), np.float32(np.nan))
    high = np.where(finite, x.max(axis=axis, initial=np.float32(0)), np.float32(np.nan))
    if dtype == np.int8:
        scale = np.maximum(np.maximum(-low, high) / np.float32(127), TINY)
        zero = np.zeros_like(scale)
    else:
        scale = np.maximum(high / np.float32(255) - low / np.float32(255), TINY)
        zero = np.where(finite, np.minimum(np.rint(-low * (ONE / scale)), np.float32(255)), np.float32(0))
    y = x * (ONE / rows(scale))
    y = np.where(np.isnan(y), np.float32(0), y) + rows(zero)
    return to_integer(y, dtype), scale, zero.astype(np.int64)


# scale = max|w| / 127 of each channel and group of k, (groups, oc); w = rne(w / scale), within [-127, 127]
def quantize_weights_by_groups(weights, group, scale=None):
    """float32 weights (oc, ic) as int8, and their scales, computed unless they are given."""
    parts = weights.reshape(len(weights), -1, group)
    if scale is None:
        largest = np.abs(parts).max(axis=2).T
        scale = np.where(largest == 0, ONE, np.maximum(largest / np.float32(127), TINY))
    quantized = np.clip(np.rint(parts / scale.T[:, :, np.newaxis]), -127, 127).astype(np.int8)
    return quantized.reshape(weights.shape), scale


# scale = max|w| / 127 of each channel, or of all; w = rne(w / scale), within [-127, 127]
def quantize_weights(weights, scale):
    """float32 weights (oc, ic) as int8, and their scales; `scale` is "per_channel", "per_tensor" or values."""
    if isinstance(scale, str):
        largest = np.abs(weights).max(axis=1 if scale == "per_channel" else None, initial=0)
        scale = np.maximum(largest / np.float32(127), TINY)
    scale = np.asarray(scale, np.float32)
    return np.clip(np.rint(weights / rows(scale)), -127, 127).astype(np.int8), scale
