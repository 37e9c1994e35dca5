"""Resize one dimension after another: each output position is a weighted sum of some input positions."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from int8blas.onnx.graph import Array
from int8blas.onnx.limits import allowed
from int8blas.onnx.shape import Ints, ints
from int8blas.onnx.table import Operator, Traits

Factors = Array | Sequence[float] | None
Mode = Literal["nearest", "linear", "cubic"]
Coordinates = Literal[
    "half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "tf_half_pixel_for_nn", "align_corners", "asymmetric",
    "tf_crop_and_resize",
]  # fmt: skip
Nearest = Literal["round_prefer_floor", "round_prefer_ceil", "floor", "ceil", "simple"]
# A coordinate at most this distance from the middle between two positions counts as the middle, because float32
# coordinates have rounding errors. onnxruntime 1.32.0 has the same limit.
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
    """Return the input coordinate of each output position. For the mode "nearest", use onnxruntime's arithmetic: if two
    elements are equally near, the coordinate's last bit decides between them."""
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
    """Return the weight of a position at a distance."""
    d = np.abs(distance)
    if way.mode == "linear":
        return np.maximum(1 - d, 0)
    a = way.cubic
    near = ((a + 2) * d - (a + 3)) * d * d + 1
    far = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
    return np.where(d <= 1, near, np.where(d < 2, far, 0))


def taps(where: Array, size: int, scale: float, way: Way) -> tuple[Array, Array]:
    """Return positions and weights, of shape (outputs, taps) each. Positions outside are clipped to the edge or have
    weight 0."""
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
    size: int, count: int, scale: float, region: tuple[float, float], way: Way
) -> list[tuple[Array, Array]]:  # fmt: skip
    """Return the input position and the weight of each output position, for each tap. "nearest" has one tap."""
    where = coordinates(size, count, scale, region, way).astype(np.float64)
    if way.mode == "nearest":
        return [(np.clip(nearest_index(where, way.nearest), 0, size - 1), np.ones(count))]
    index, weights = taps(where, size, scale, way)
    return [(np.ascontiguousarray(index[:, tap]), weights[:, tap]) for tap in range(index.shape[1])]


# Most calls have the same sizes as the previous call.
sources = functools.lru_cache(64)(find_sources)


def along(x: Array, axis: int, count: int, scale: float, region: tuple[float, float], way: Way) -> Array:
    """Resize one dimension."""
    size = x.shape[axis]
    if scale == 1 and count == size and way.coordinates != "tf_crop_and_resize":
        return x
    every = sources(size, count, scale, region, way)
    if way.mode == "nearest":
        return np.take(x, every[0][0], axis)
    shape = [-1 if i == axis else 1 for i in range(x.ndim)]
    kind = x.dtype if x.dtype == np.float64 else np.float32
    y: Any = None
    for index, weights in every:
        part = np.take(x, index, axis).astype(kind, copy=False)
        part *= weights.astype(kind).reshape(shape)
        y = part if y is None else np.add(y, part, out=y)
    return np.asarray(y)


class Choice(NamedTuple):
    """The choice of elements by a Resize: the order of dimensions in memory, the inverse order, and the chosen
    positions along the dimensions in memory."""

    order: list[int]
    back: list[int]
    indices: list[tuple[int, Array]]


def find_choice(
    shape: tuple[int, ...], strides: tuple[int, ...], turns: tuple[tuple[int, int, float], ...], way: Way
) -> Choice:
    """Return the choice of the nearest elements of an array. Each of `turns` has an axis, the size of the result along
    the axis, and a scale. The axis with the shortest stride comes first, because the array then still has few
    elements."""
    order = sorted(range(len(shape)), key=lambda axis: -strides[axis])
    back = [order.index(axis) for axis in range(len(shape))]
    indices = [
        (back[axis], find_sources(shape[axis], count, scale, (0.0, 1.0), way)[0][0])
        for axis, count, scale in sorted(turns, key=lambda turn: -back[turn[0]])
        if scale != 1 or count != shape[axis]
    ]
    return Choice(order, back, indices)


choice_of = functools.lru_cache(64)(find_choice)


def outside(x: Array, y: Array, axes: Sequence[int], regions: Any, way: Way) -> Array:
    """Replace positions outside the input by a number."""
    for axis in axes:
        size, count = x.shape[axis], y.shape[axis]
        where = coordinates(size, count, count / size, regions[axis], way)
        out = (where < 0) | (where > size - 1)
        y = np.where(out.reshape([-1 if i == axis else 1 for i in range(x.ndim)]), y.dtype.type(way.extrapolation), y)
    return y


def sizes_from(
    x: Array, scales: Factors, sizes: Ints, axes: Sequence[int], policy: str
) -> tuple[list[int], list[float]]:
    """Return sizes and scales of the resized dimensions."""
    if scales is not None and len(scales):
        factors = [float(scale) for scale in scales]
        return [math.floor(x.shape[axis] * factor) for axis, factor in zip(axes, factors, strict=True)], factors
    counts = list(ints(sizes))
    factors = [count / x.shape[axis] for axis, count in zip(axes, counts, strict=True)]
    if policy != "stretch":
        factor = min(factors) if policy == "not_larger" else max(factors)
        return [math.floor(x.shape[axis] * factor + 0.5) for axis in axes], [factor] * len(axes)
    return counts, factors


def resize(
    x: Array, roi: Array | None = None, scales: Factors = None, sizes: Ints = None, *, antialias: int = 0,
    axes: Sequence[int] | None = None, coordinate_transformation_mode: Coordinates = "half_pixel",
    cubic_coeff_a: float = -0.75, exclude_outside: int = 0, extrapolation_value: float = 0.0,
    keep_aspect_ratio_policy: Literal["stretch", "not_larger", "not_smaller"] = "stretch", mode: Mode = "nearest",
    nearest_mode: Nearest = "round_prefer_floor",
) -> Array:  # fmt: skip
    over = [axis + x.ndim if axis < 0 else axis for axis in axes] if axes is not None else list(range(x.ndim))
    counts, factors = sizes_from(x, scales, sizes, over, keep_aspect_ratio_policy)
    shape = list(x.shape)
    for axis, count in zip(over, counts, strict=True):
        shape[axis] = count
    allowed(shape, x.dtype)
    way = Way(mode, coordinate_transformation_mode, nearest_mode, cubic_coeff_a, bool(exclude_outside),
              bool(antialias), extrapolation_value)  # fmt: skip
    if is_nearest(mode, coordinate_transformation_mode):
        choice = choice_of(x.shape, x.strides, tuple(zip(over, counts, factors, strict=True)), way)
        y = x.transpose(choice.order)
        for axis, index in choice.indices:
            y = np.take(y, index, axis)
        return y.transpose(choice.back)
    crop = way.coordinates == "tf_crop_and_resize"
    n = len(over)
    regions = {axis: (float(roi[i]), float(roi[n + i])) if crop and roi is not None else (0.0, 1.0)
               for i, axis in enumerate(over)}  # fmt: skip
    y = x
    for axis, count, factor in zip(over, counts, factors, strict=True):
        y = along(y, axis, count, factor, regions[axis], way)
    y = outside(x, y, over, regions, way) if crop else y
    if x.dtype.kind in "iu" and y.dtype.kind == "f":
        limits = np.iinfo(x.dtype)
        y = np.clip(np.rint(y), limits.min, limits.max)
    return y.astype(x.dtype, copy=False)


def resize_of_version_10(x: Array, scales: Factors, *, mode: Mode = "nearest") -> Array:
    return resize(x, None, scales, mode=mode, coordinate_transformation_mode="asymmetric", nearest_mode="floor")


def is_nearest(mode: str = "nearest", coordinate_transformation_mode: str = "", **_: Any) -> bool:
    """Return whether a Resize chooses elements."""
    return mode == "nearest" and coordinate_transformation_mode != "tf_crop_and_resize"


SIZED = Traits(typed_by=0, sized_by=(1, 2, 3), chooses=is_nearest)
OPERATORS = [
    Operator("Upsample", resize_of_version_10, 7, 9, traits=SIZED),
    Operator("Resize", resize_of_version_10, 10, 10, traits=SIZED),
    Operator("Resize", resize, 11, traits=SIZED),
]
