"""Operators that sample images at real positions, and NonMaxSuppression."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any, Literal

import numpy as np

from int8blas.elementwise.pool import add_weighted
from int8blas.onnx.graph import Array
from int8blas.onnx.limits import allowed
from int8blas.onnx.reduction import lowest
from int8blas.onnx.resize import Way, kernel
from int8blas.onnx.table import HEAVY, Operator, Traits, passes_to
from int8blas.onnx.types import wide


def reflected(at: Array, size: int, align_corners: bool) -> Array:
    """Reflect positions at the centers of the first and the last element, or at their outer borders."""
    period = max(2 * (size - 1), 1) if align_corners else 2 * size
    at = at % period
    return np.minimum(at, period - at if align_corners else period - 1 - at) % size


def grid_sample(
    x: Array, grid: Array, *, align_corners: int = 0,
    mode: Literal["linear", "nearest", "cubic", "bilinear", "bicubic"] = "linear",
    padding_mode: Literal["zeros", "border", "reflection"] = "zeros",
) -> Array:  # fmt: skip
    """Sample images (n, c, *sizes) at positions (n, *outputs, dimensions). The coordinates of a position are from -1 to
    1. The coordinate of the last dimension comes first. Positions outside of the image also have weights."""
    kind = mode.removeprefix("bi")
    sizes, dtype = x.shape[2:], x.dtype if x.dtype.char in "fd" else np.dtype(np.float64)
    if grid.shape[:1] != x.shape[:1] or grid.ndim != x.ndim or grid.shape[-1] != len(sizes):
        raise ValueError(f"grid must be ({x.shape[0]}, ..., {len(sizes)}) of {x.ndim} dimensions, got {grid.shape}")
    offsets = {"nearest": range(1), "linear": range(2), "cubic": range(-1, 3)}[kind]
    parts: list[list[tuple[Array, Array]]] = []  # for each dimension, each tap's positions and weights
    for d, size in enumerate(sizes):
        where = (grid[..., len(sizes) - 1 - d] + 1) / 2
        where = where * (size - 1) if align_corners else where * size - where.dtype.type(0.5)
        first = np.rint(where) if kind == "nearest" else np.floor(where)
        taps = []
        for offset in offsets:
            at = first + offset
            weight = np.ones_like(where) if kind == "nearest" else kernel(at - where, Way(kind))
            index = at.astype(np.int64)
            if padding_mode == "reflection":
                index = reflected(index, size, bool(align_corners)) if size else index
            elif padding_mode == "zeros":
                weight = np.where((index >= 0) & (index < size), weight, 0)
            taps.append((np.clip(index, 0, max(size - 1, 0)), weight.astype(dtype)))
        parts.append(taps)
    shape = *x.shape[:2], *grid.shape[1:-1]
    if not x.size or not math.prod(allowed(shape, dtype)):
        return np.zeros(shape, x.dtype)
    pairs = [zip(*chosen, strict=True) for chosen in itertools.product(*parts)]
    samples = [(np.ravel_multi_index(index, sizes), math.prod(weights)) for index, weights in pairs]
    index, weights = (np.stack(each, 1).reshape(len(x), len(samples), -1) for each in zip(*samples, strict=True))
    pixels = x.astype(dtype, copy=False).reshape(*x.shape[:2], -1)
    y = np.stack([add_weighted(image, 1, *each) for image, *each in zip(pixels, index, weights, strict=True)])
    return (y + dtype.type(0)).reshape(shape).astype(x.dtype, copy=False)  # return 0, not -0, outside of an image


def non_max_suppression(
    boxes: Array, scores: Array, most: Array | None = None, overlap: Array | None = None, least: Array | None = None, *,
    center_point_box: int = 0,
) -> Array:  # fmt: skip
    """Return (batch, class, box) of the selected boxes, the best first. No selected box overlaps a better box of its
    class by more than `overlap`. Boxes with equal scores keep their order."""
    count = 0 if most is None else max(int(most.item()), 0)
    limit = 0.0 if overlap is None else overlap.item()
    ends = np.stack([boxes[..., :2] - boxes[..., 2:] / 2, boxes[..., :2] + boxes[..., 2:] / 2])
    low, high = ends if center_point_box else (np.minimum(boxes[..., :2], boxes[..., 2:]),
                                               np.maximum(boxes[..., :2], boxes[..., 2:]))  # fmt: skip
    area = (high - low).prod(-1)
    found: list[tuple[int, int, int]] = []
    for n, c in itertools.product(*map(range, scores.shape[:2])) if count else ():
        order = np.argsort(-scores[n, c], kind="stable")
        left = order if least is None else order[scores[n, c][order] > least.item()]
        for _ in range(count):
            if not left.size:
                break
            best, left = left[0], left[1:]
            found.append((n, c, int(best)))
            both = np.minimum(high[n, best], high[n, left]) - np.maximum(low[n, best], low[n, left])
            shared = np.maximum(both, 0).prod(-1)
            union = area[n, best] + area[n, left] - shared
            left = left[~((shared > 0) & (shared / union > limit))]
    return np.array(found, np.int64).reshape(-1, 3)


def bilinear_taps(at: Array, size: int) -> Iterator[tuple[Array, Array]]:
    """Yield the two positions around each coordinate, and their weights. Weights are 0 if the coordinate is more than
    one element outside of the image."""
    inside = (at >= -1) & (at <= size)
    at = np.clip(at, 0, size - 1)
    first = at.astype(np.int64)
    rest = (at - first).astype(at.dtype)
    yield first, np.where(inside, 1 - rest, 0)
    yield np.minimum(first + 1, size - 1), np.where(inside, rest, 0)


@wide
def roi_align(
    x: Array, rois: Array, batch: Array, *,
    coordinate_transformation_mode: Literal["half_pixel", "output_half_pixel"] = "half_pixel",
    mode: Literal["avg", "max"] = "avg",
    output_height: int = 1, output_width: int = 1, sampling_ratio: int = 0, spatial_scale: float = 1.0,
) -> Array:  # fmt: skip
    """Return the mean, or the largest weighted element, of samples in each bin of each region."""
    half, counts = coordinate_transformation_mode == "half_pixel", (output_height, output_width)
    y = np.zeros(allowed((len(rois), x.shape[1], *counts), x.dtype), x.dtype)
    for i, (roi, n) in enumerate(zip(rois.astype(x.dtype), batch.tolist(), strict=True)):
        ends = roi * x.dtype.type(spatial_scale) - x.dtype.type(0.5 if half else 0)
        taps, samples = [], []
        for first, last, count, size in zip(ends[1::-1], ends[:1:-1], counts, x.shape[2:], strict=True):
            length = last - first if half else max(last - first, x.dtype.type(1))
            bin_size = length / x.dtype.type(count)
            each = sampling_ratio or max(math.ceil(bin_size), 0)
            at = np.arange(count)[:, None] + (np.arange(each) + 0.5) / max(each, 1)
            taps.append([*bilinear_taps((first + at.reshape(-1) * bin_size).astype(x.dtype), size)])
            samples.append(each)
        if not all(samples) or not x.size:
            continue
        shape = (x.shape[1], output_height, samples[0], output_width, samples[1])
        parts = [(x[n][:, rows[:, None], columns] * (a[:, None] * b)).reshape(shape)
                 for (rows, a), (columns, b) in itertools.product(*taps)]  # fmt: skip
        if mode == "max":
            y[i] = np.max(parts, (0, 3, 5))
        else:
            y[i] = sum(parts).sum((2, 4)) / x.dtype.type(math.prod(samples))
    return y


@passes_to(roi_align)
def roi_align_of_version_10(x: Array, rois: Array, batch: Array, **attributes: Any) -> Array:
    y: Array = roi_align(x, rois, batch, coordinate_transformation_mode="output_half_pixel", **attributes)
    return y


def max_roi_pool(x: Array, rois: Array, *, pooled_shape: Sequence[int], spatial_scale: float = 1.0) -> Array:
    """Return the maximum of each bin of each region (batch, left, top, right, bottom), and 0 for an empty bin."""
    y = np.full(allowed((len(rois), x.shape[1], *pooled_shape), x.dtype), lowest(x.dtype), x.dtype)
    for i, roi in enumerate(rois):
        ends = np.floor(roi[1:] * x.dtype.type(spatial_scale) + x.dtype.type(0.5)).astype(np.int64)
        parts = []
        for first, last, count, size in zip(ends[1::-1], ends[:1:-1], pooled_shape, x.shape[2:], strict=True):
            bins = np.arange(count + 1) * (x.dtype.type(max(last - first + 1, 1)) / x.dtype.type(count))
            begin, end = np.floor(bins[:-1]).astype(int) + first, np.ceil(bins[1:]).astype(int) + first
            parts.append([slice(*np.clip(pair, 0, size)) for pair in zip(begin, end, strict=True)])
        for (h, rows), (w, columns) in itertools.product(*map(enumerate, parts)):
            y[i, :, h, w] = np.max(x[int(roi[0]), :, rows, columns], (1, 2), initial=lowest(x.dtype))
    return np.where(y == lowest(x.dtype), x.dtype.type(0), y)


OPERATORS = [
    Operator("GridSample", wide(grid_sample), 16, traits=HEAVY),
    Operator("NonMaxSuppression", non_max_suppression, 10, traits=Traits(heavy=True)),
    Operator("RoiAlign", roi_align_of_version_10, 10, 15, traits=HEAVY),
    Operator("RoiAlign", roi_align, 16, traits=HEAVY),
    Operator("MaxRoiPool", wide(max_roi_pool), 1, traits=HEAVY),
]
