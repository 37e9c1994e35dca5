"""Resize one dimension after another: each output position is a weighted sum of some input positions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from int8blas.elementwise.pool import add_weighted
from int8blas.elementwise.quantization import quantize
from int8blas.onnx.graph import Array
from int8blas.onnx.limits import allowed
from int8blas.onnx.shape import Ints
from int8blas.onnx.table import Call, Operator, Traits, by_layout
from int8blas.onnx.types import BYTES, SINGLE

Factors = Array | Sequence[float] | None
Mode = Literal["nearest", "linear", "cubic"]
Coordinates = Literal[
    "half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "tf_half_pixel_for_nn", "align_corners", "asymmetric",
    "tf_crop_and_resize",
]  # fmt: skip
Nearest = Literal["round_prefer_floor", "round_prefer_ceil", "floor", "ceil", "simple"]
# A coordinate at most HALFWAY from the middle between two positions counts as the middle, because float32 coordinates
# have rounding errors. onnxruntime 1.32.0 has the same limit.
HALFWAY = 1e-6


class Way(NamedTuple):
    """The attributes of Resize."""

    mode: str = "nearest"
    coordinates: str = "half_pixel"
    nearest: str = "round_prefer_floor"
    cubic: float = -0.75
    exclude_outside: bool = False
    antialias: bool = False
    extrapolation: float = 0.0


def coordinates(size: int, count: int, scale: Any, region: tuple[float, float], way: Way) -> Array:
    """Return the input coordinate of each output position. For the mode "nearest", use onnxruntime's arithmetic,
    because the last bit of a coordinate decides between two equally near elements."""
    nearest, kind = way.mode == "nearest", way.coordinates
    number: Any = np.float32 if nearest else np.float64
    at, scale = np.arange(count, dtype=number), number(scale)
    half = (at + number(0.5)) / scale
    if kind == "half_pixel" or (kind == "pytorch_half_pixel" and count > 1):
        return np.asarray(half - number(0.5))
    if kind == "pytorch_half_pixel":
        return np.zeros(count)
    if kind == "half_pixel_symmetric":
        offset = number(size / 2) * (1 - number(count) / (scale * number(size)))
        return np.asarray(offset + (at + 0.5).astype(np.float64) / scale - 0.5, number)
    if kind == "tf_half_pixel_for_nn":
        return np.asarray(half)
    if kind == "align_corners":
        # ONNX's tests of linear and cubic functions use the length scale * size, which may be no integer.
        last = (count if nearest else scale * size) - 1
        return np.asarray(at * number(size - 1) / number(last)) if last else np.zeros(count)
    if kind == "asymmetric":
        return np.asarray(at / scale)
    begin, end = region
    if count == 1:
        return np.array([(begin + end) * (size - 1) / 2])
    return begin * (size - 1) + at * (end - begin) * (size - 1) / (count - 1)


def nearest_index(where: Array, kind: str) -> Array:
    """Return the nearest input position of each coordinate."""
    half = 0.5 + HALFWAY
    rounds: dict[str, Any] = {
        "round_prefer_floor": lambda x: np.ceil(x - half), "round_prefer_ceil": lambda x: np.floor(x + half),
        "floor": np.floor, "ceil": np.ceil, "simple": np.trunc,
    }  # fmt: skip
    return np.asarray(rounds[kind](where)).astype(np.int64)


def kernel(distance: Array, way: Way) -> Array:
    """Return the weight of an input position at a distance from the coordinate."""
    d = np.abs(distance)
    if way.mode == "linear":
        return np.maximum(1 - d, 0)
    a = way.cubic
    near = ((a + 2) * d - (a + 3)) * d * d + 1
    far = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
    return np.where(d <= 1, near, np.where(d < 2, far, 0))


def taps(where: Array, size: int, scale: float, way: Way) -> tuple[Array, Array]:
    """Return positions and weights, as two arrays of shape (outputs, taps). Positions outside of the input are clipped
    to its edge or have weight 0."""
    shrink = min(scale, 1.0) if way.antialias else 1.0
    reach = (1 if way.mode == "linear" else 2) / shrink
    first = np.floor(where) - math.ceil(reach) + 1
    index = first[:, None] + np.arange(2 * math.ceil(reach))
    weights = kernel((index - where[:, None]) * shrink, way)
    if way.antialias or way.exclude_outside:
        if way.exclude_outside:
            weights = np.where((index < 0) | (index >= size), 0, weights)
        weights = weights / weights.sum(1, keepdims=True)
    return np.clip(index, 0, size - 1).astype(np.int64), weights


def find_sources(
    size: int, count: int, scale: float, region: tuple[float, float], way: Way, dtype: np.dtype[Any]
) -> tuple[Array, Array]:  # fmt: skip
    """Return the input positions and the weights of each output position, as two arrays of shape (taps, outputs)."""
    where = coordinates(size, count, scale, region, way).astype(np.float64)
    if way.mode == "nearest":
        return np.clip(nearest_index(where, way.nearest), 0, size - 1)[None], np.ones((1, count), dtype)
    index, weights = taps(where, size, scale, way)
    return np.ascontiguousarray(index.T), np.ascontiguousarray(weights.T, dtype)


def sizes_from(
    shape: tuple[int, ...], scales: tuple[float, ...], sizes: tuple[int, ...], axes: Sequence[int], policy: str
) -> tuple[list[int], list[float]]:
    """Return sizes and scales of the resized dimensions."""
    if scales:
        return [math.floor(shape[axis] * factor) for axis, factor in zip(axes, scales, strict=True)], [*scales]
    factors = [count / shape[axis] for axis, count in zip(axes, sizes, strict=True)]
    if policy != "stretch":
        factor = min(factors) if policy == "not_larger" else max(factors)
        return [math.floor(shape[axis] * factor + 0.5) for axis in axes], [factor] * len(axes)
    return [*sizes], factors


def find_steps(
    shape: tuple[int, ...], strides: tuple[int, ...], kind: np.dtype[Any], roi: tuple[float, ...],
    scales: tuple[float, ...], sizes: tuple[int, ...], axes: tuple[int, ...], policy: str, way: Way,
) -> tuple[list[int], list[int], list[int], list[tuple[int, Array, Array]], list[Array]]:  # fmt: skip
    """Return the shape of the result, the order of dimensions in memory, the order back, and two lists. The first list
    has the resized axes, counted in memory, each with the input positions and weights of the outputs along the axis.
    The second list says which outputs lie outside the input along an axis."""
    ndim, crop, n = len(shape), way.coordinates == "tf_crop_and_resize", len(axes)
    over = [range(ndim)[axis] for axis in axes]
    counts, factors = sizes_from(shape, scales, sizes, over, policy)
    order = sorted(range(ndim), key=lambda axis: -strides[axis])
    back = [order.index(axis) for axis in range(ndim)]
    turns = list(zip(over, counts, factors, range(n), strict=True))
    if way.mode == "nearest":  # begin with the axis of the shortest stride, while there are few elements
        turns.sort(key=lambda turn: strides[turn[0]])
    result, along, outside = [*shape], [], []
    for axis, count, factor, i in turns:
        size, region = shape[axis], (roi[i], roi[n + i]) if crop and roi else (0.0, 1.0)
        result[axis] = count
        if crop or (count, factor) != (size, 1):
            along.append((back[axis], *find_sources(size, count, factor, region, way, kind)))
        if crop:
            where = coordinates(size, count, count / size, region, way)
            out = (where < 0) | (where > size - 1)
            outside.append(out.reshape([-1 if i == axis else 1 for i in range(ndim)]))
    return result, order, back, along, outside


def numbers(values: Any) -> tuple[Any, ...]:
    """Return numbers as a tuple, empty for None."""
    return () if values is None else tuple(np.asarray(values).ravel().tolist())


def resizing(
    x: Array, roi: Array | None = None, scales: Factors = None, sizes: Ints = None, *, antialias: int = 0,
    axes: Sequence[int] | None = None, coordinate_transformation_mode: Coordinates = "half_pixel",
    cubic_coeff_a: float = -0.75, exclude_outside: int = 0, extrapolation_value: float = 0.0,
    keep_aspect_ratio_policy: Literal["stretch", "not_larger", "not_smaller"] = "stretch", mode: Mode = "nearest",
    nearest_mode: Nearest = "round_prefer_floor",
) -> Call:  # fmt: skip
    way = Way(mode, coordinate_transformation_mode, nearest_mode, cubic_coeff_a, bool(exclude_outside),
              bool(antialias), extrapolation_value)  # fmt: skip
    kind = x.dtype if x.dtype == np.float64 else SINGLE
    shape, order, back, along, outside = find_steps(
        x.shape, x.strides, kind, numbers(roi), numbers(scales), numbers(sizes),
        tuple(range(x.ndim) if axes is None else axes), keep_aspect_ratio_policy, way,
    )  # fmt: skip
    allowed(shape, x.dtype)

    def call(x: Array, *_: Array | None) -> Array:
        y = x.transpose(order)
        for axis, index, weights in along:
            if mode == "nearest":
                y = y.take(index[0], axis, mode="clip")  # no index is outside; the check would take longer
            else:
                y = add_weighted(y.astype(kind, copy=False), axis, index, weights)
        y = y.transpose(back)
        for out in outside:
            y = np.where(out, y.dtype.type(extrapolation_value), y)
        if x.dtype in BYTES and y.dtype == SINGLE:
            return np.asarray(quantize(y, 1.0, 0, x.dtype))
        if x.dtype.kind in "iu" and y.dtype.kind == "f":
            limits = np.iinfo(x.dtype)
            y = np.clip(np.rint(y), limits.min, limits.max)
        return y.astype(x.dtype, copy=False)

    return call


@by_layout(1, rounds=False)
def resize_of_version_10(x: Array, scales: Factors, *, mode: Mode = "nearest") -> Call:
    return resizing(x, None, scales, mode=mode, coordinate_transformation_mode="asymmetric", nearest_mode="floor")


def is_nearest(mode: str = "nearest", coordinate_transformation_mode: str = "", **_: Any) -> bool:
    """Return whether a Resize chooses elements."""
    return mode == "nearest" and coordinate_transformation_mode != "tf_crop_and_resize"


SIZED = Traits(typed_by=0, sized_by=(1, 2, 3), chooses=is_nearest)
OPERATORS = [
    Operator("Upsample", resize_of_version_10, 7, 9, prepared=True, traits=SIZED),
    Operator("Resize", resize_of_version_10, 10, 10, prepared=True, traits=SIZED),
    Operator("Resize", by_layout(3, rounds=False)(resizing), 11, prepared=True, traits=SIZED),
]
