"""Softmax, and normalization of rows or channels to a mean and a variance."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from int8blas.elementwise import normalization as rows
from int8blas.elementwise.pool import reduce_windows
from int8blas.onnx.elementwise import in_order
from int8blas.onnx.graph import Array
from int8blas.onnx.reduction import average
from int8blas.onnx.shape import flatten
from int8blas.onnx.table import DOMAIN, INFERENCE, SAME_TYPE, Call, Operator, Site, by_layout
from int8blas.onnx.types import SINGLE, is_short, wide
from int8blas.onnx.windows import order_of
from int8blas.stage.attributes import Binary


def either_softmax(x: Array, *, log: bool, axis: int = -1) -> Array:
    """Compute Softmax or LogSoftmax."""
    if x.dtype != np.float64:
        return np.asarray(rows.softmax(x, axis, log=log), x.dtype)
    e = x - np.max(x, axis, keepdims=True)
    if log:
        return np.asarray(e - np.log(np.sum(np.exp(e), axis, keepdims=True)))
    e = np.exp(e)
    return np.asarray(e / np.sum(e, axis, keepdims=True))


softmax, log_softmax = (functools.partial(either_softmax, log=log) for log in (False, True))


def hardmax(x: Array, *, axis: int = -1) -> Array:
    result = np.zeros_like(x)
    if not x.size:
        return result
    np.put_along_axis(result, np.expand_dims(np.argmax(x, axis), axis), 1, axis)
    return result


def before_13(function: Callable[..., Array]) -> Callable[..., Array]:
    """Return an operator of versions before 13, in which all dimensions from `axis` on count as one dimension."""

    def operator(x: Array, *, axis: int = 1) -> Array:
        return function(flatten(x, axis=axis)).reshape(x.shape)

    return operator


softmax_of_rows = before_13(softmax)


def layer_normalization(
    x: Array, scale: Array, bias: Array | None = None, *, axis: int = -1, epsilon: float = 1e-5, stash_type: int = 1,
    outputs: int,
) -> Any:  # fmt: skip
    plain = axis == -1 and outputs == 1 and x.dtype == np.float32
    if plain and x.shape[-1:] == scale.shape and (bias is None or bias.shape == scale.shape):
        return rows.layer_norm(x, scale, bias, epsilon=epsilon)
    axis = axis + x.ndim if axis < 0 else axis
    width = math.prod(x.shape[axis:])
    flat = (x.astype(np.float32) if is_short(x) else x).reshape(math.prod(x.shape[:axis]), width)
    if outputs == 1 and flat.dtype == np.float32 and scale.size == width and (bias is None or bias.size == width):
        shift = None if bias is None else bias.reshape(width)
        return np.asarray(rows.layer_norm(flat, scale.reshape(width), shift, epsilon=epsilon), x.dtype).reshape(x.shape)
    mean = average(flat, 1)
    centered = flat - mean
    inverse = 1 / np.sqrt(average(centered * centered, 1) + flat.dtype.type(epsilon))
    y = (centered * inverse).reshape(x.shape) * scale
    y = np.asarray(y if bias is None else y + bias, x.dtype)
    lead = (*x.shape[:axis], *[1] * (x.ndim - axis))
    return (y, mean.reshape(lead), inverse.reshape(lead))[:outputs]


def residual_normalization(
    x: Array, y: Array, scale: Array, bias: Array | None = None, *, epsilon: float = 1e-5
) -> Array:
    """Apply LayerNormalization over the last axis to a sum."""
    plain = x.dtype == SINGLE == y.dtype and x.shape[-1:] == scale.shape
    if plain and (bias is None or bias.shape == scale.shape):
        return rows.layer_norm_of_sum(x, y, scale, bias, epsilon=epsilon)
    result: Array = layer_normalization(np.add(x, y), scale, bias, epsilon=epsilon, outputs=1)
    return result


@wide
def rms_normalization(x: Array, scale: Array, *, axis: int = -1, epsilon: float = 1e-5, stash_type: int = 1) -> Array:
    if x.dtype == SINGLE == scale.dtype and axis in (-1, x.ndim - 1) and x.shape[-1:] == scale.shape:
        return rows.rms_norm(x, scale, epsilon=epsilon)
    axis = axis + x.ndim if axis < 0 else axis
    square = average(x * x, tuple(range(axis, x.ndim)))
    return np.asarray(x / np.sqrt(square + x.dtype.type(epsilon)) * scale, x.dtype)


def simplified_layer_norm(
    x: Array, scale: Array, *, axis: int = -1, epsilon: float = 1e-5, stash_type: int = 1, outputs: int
) -> Any:
    """Divide by the root of the mean of squares. The second result is the factor of each row."""
    if outputs == 1 and axis == -1 and x.dtype == SINGLE == scale.dtype and x.shape[-1:] == scale.shape:
        return rows.rms_norm(x, scale, epsilon=epsilon)
    y = rms_normalization(x, scale, axis=axis, epsilon=epsilon, stash_type=stash_type)
    return y if outputs == 1 else (y, inverse_root(x, axis, epsilon))


def inverse_root(x: Array, axis: int, epsilon: float) -> Array:
    """Return the factors of simplified_layer_norm, in float32 or float64."""
    wider = x.astype(np.promote_types(np.float32, x.dtype), copy=False)
    axes = tuple(range(axis % x.ndim, x.ndim))
    return np.asarray(1 / np.sqrt(np.mean(wider * wider, axes, keepdims=True) + wider.dtype.type(epsilon)))


def of_channels(values: Array, ndim: int) -> Array:
    """Reshape one number for each channel so that it broadcasts along the second dimension."""
    return values.reshape(-1, *[1] * (ndim - 2))


def affine(scale: Array, bias: Array, mean: Array, variance: Array, epsilon: float) -> tuple[Array, Array]:
    """Return the factor and the summand of each channel that normalize by a mean and a variance."""
    factor = scale / np.sqrt(variance + scale.dtype.type(epsilon))
    return factor, bias - mean * factor


@by_layout(4)
def normalizing(x: Array, scale: Array, bias: Array, mean: Array, variance: Array, *, epsilon: float) -> Call:
    times = times_and_plus(x, *(values.astype(x.dtype) for values in affine(scale, bias, mean, variance, epsilon)))
    return lambda x, *_: times(x)


def times_and_plus(x: Array, scale: Array, bias: Array) -> Call:
    """Return the function that multiplies and adds one number for each channel, for arrays in x's order of memory.
    The function may also take an array that it may reuse for the result."""
    factor, shift = of_channels(scale, x.ndim), of_channels(bias, x.ndim)
    if x.dtype == SINGLE:
        return in_order(x, Binary(factor, "mul"), Binary(shift, "add"))
    return lambda x, _=None: x * factor + shift


def batch_normalization(
    site: Site, *, epsilon: float = 1e-5, momentum: float = 0.9, spatial: int = 1, training_mode: int = 0
) -> Call:
    """Normalize by the given mean and variance. In training, from version 14 on, use the batch's mean and variance."""
    outputs = len(site.node.outputs)
    if not spatial:
        raise ValueError("BatchNormalization must normalize channels, got spatial = 0, one mean for each element")
    if not training_mode and any(site.node.outputs[1:]):
        raise ValueError(f"BatchNormalization must have one output, got {outputs}, as in training: {INFERENCE}")

    def train(x: Array, scale: Array, bias: Array, mean: Array, variance: Array) -> Any:
        axes = (0, *range(2, x.ndim))
        now, spread = np.mean(x, axes), np.var(x, axes)
        y = (x - of_channels(now, x.ndim)) / np.sqrt(of_channels(spread, x.ndim) + epsilon)
        y = (y * of_channels(scale, x.ndim) + of_channels(bias, x.ndim)).astype(x.dtype)
        means = (mean * momentum + now * (1 - momentum), variance * momentum + spread * (1 - momentum))
        return (y, *(value.astype(mean.dtype) for value in means))[:outputs]

    return wide(train) if training_mode else normalizing(site, epsilon=epsilon)


def standardized(x: Array, epsilon: float) -> Array:
    """Normalize rows to the mean 0 and the variance 1."""
    if x.dtype == SINGLE:
        return rows.layer_norm(x, epsilon=epsilon)
    centered = x - average(x, -1)
    return np.asarray(centered / np.sqrt(average(centered * centered, -1) + epsilon))


@by_layout(2)
def of_groups(
    x: Array, scale: Array, bias: Array, *, num_groups: int | None = None, epsilon: float = 1e-5, stash_type: int = 1
) -> Call:
    """Normalize each group of channels of each image, by default each channel. If each channel is a group, channels
    last in memory stay last."""
    groups = x.shape[1] if num_groups is None else num_groups
    to, back = order_of(x) if groups == x.shape[1] else (range(x.ndim),) * 2
    times, size = times_and_plus(x, scale, bias), math.prod(x.shape[1:]) // max(groups, 1)

    def call(x: Array, *_: Array) -> Array:
        image = x.transpose(to)
        if to[1] == 1:
            y = standardized(image.reshape(len(x), groups, size), epsilon)
        else:
            y = standardized(image.reshape(len(x), -1, groups).swapaxes(1, 2), epsilon).swapaxes(1, 2)
        y = y.reshape(image.shape).transpose(back)
        return np.asarray(times(y, y))

    return call


@wide
def lp_normalization(x: Array, *, axis: int = -1, p: int = 2) -> Array:
    norm = np.sum(np.abs(x), axis, keepdims=True) if p == 1 else np.sqrt(np.sum(x * x, axis, keepdims=True))
    return np.asarray(np.where(norm == 0, 0, x / norm), x.dtype)


@wide
def mean_variance_normalization(x: Array, *, axes: Any = (0, 2, 3)) -> Array:
    centered = x - average(x, tuple(axes))
    deviation = np.sqrt(average(centered * centered, tuple(axes)))
    return np.asarray(centered / (deviation + x.dtype.type(1e-9)), x.dtype)


@wide
def lrn(x: Array, *, size: int, alpha: float = 1e-4, beta: float = 0.75, bias: float = 1.0) -> Array:
    to, back = order_of(x)
    squares = np.ascontiguousarray((x * x).transpose(to))
    total = reduce_windows(squares, back[1], (size, 1, 1, (size - 1) // 2), x.shape[1], False).transpose(back)
    return np.asarray(x / (bias + alpha / size * total) ** beta, x.dtype)


# Only the first result has the type of the input. Further results are statistics, which may have another type.
FIRST = replace(SAME_TYPE, typed_results=1)
OPERATORS = [
    Operator("ResidualNormalization", residual_normalization, domain=DOMAIN, traits=SAME_TYPE),
    Operator("Softmax", softmax_of_rows, 1, 12, traits=SAME_TYPE),
    Operator("Softmax", softmax, 13, traits=SAME_TYPE),
    Operator("LogSoftmax", before_13(log_softmax), 1, 12, traits=SAME_TYPE),
    Operator("LogSoftmax", log_softmax, 13, traits=SAME_TYPE),
    Operator("Hardmax", before_13(hardmax), 1, 12, traits=SAME_TYPE),
    Operator("Hardmax", hardmax, 13, traits=SAME_TYPE),
    # onnxruntime has LayerNormalization in ONNX's domain from version 1 on, ONNX from version 17 on.
    Operator("LayerNormalization", layer_normalization, 1, traits=FIRST),
    Operator("SimplifiedLayerNormalization", simplified_layer_norm, 1, traits=FIRST),
    Operator("RMSNormalization", rms_normalization, 23, traits=SAME_TYPE),
    Operator("BatchNormalization", batch_normalization, 7, prepared=True, traits=FIRST),
    Operator("InstanceNormalization", of_groups, 6, prepared=True, traits=SAME_TYPE),
    Operator("GroupNormalization", of_groups, 21, prepared=True, traits=SAME_TYPE),
    Operator("LpNormalization", lp_normalization, 1, traits=SAME_TYPE),
    Operator("MeanVarianceNormalization", mean_variance_normalization, 9, traits=SAME_TYPE),
    Operator("LRN", lrn, 1, traits=SAME_TYPE),
]
