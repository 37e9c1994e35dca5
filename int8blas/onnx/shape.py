"""Operators that move or select elements, or return shapes."""

from __future__ import annotations

import contextlib
import functools
import itertools
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from int8blas.core.results import KnownView, Viewing
from int8blas.elementwise.functions import look_up
from int8blas.elementwise.top import top_k as find_top
from int8blas.onnx.graph import Array
from int8blas.onnx.limits import allowed
from int8blas.onnx.table import DOMAIN, INFERENCE, SAME_TYPE, Call, Operator, Site, Traits, by_layout
from int8blas.onnx.types import cached, wide

Ints = Array | Sequence[int] | int | None


def ints(values: Ints) -> tuple[int, ...]:
    """Return an input or attribute as a tuple of integers."""
    if isinstance(values, np.ndarray) and values.dtype.kind in "iu":
        return tuple(values.tolist() if values.ndim == 1 else values.reshape(-1).tolist())
    if isinstance(values, (list, tuple)):
        return tuple(map(int, values))
    return tuple(int(value) for value in np.ravel(np.asarray(() if values is None else values)))


def shape(x: Array, *, start: int = 0, end: int | None = None) -> Array:
    return np.array(x.shape[start:end], np.int64)


def size(x: Array) -> Array:
    return np.array(x.size, np.int64)


def reshape(x: Array, shape: Ints = None, *, allowzero: int = 0) -> Array:
    sizes = ints(shape)
    if 0 in sizes and not allowzero:
        if any(size == 0 and i >= x.ndim for i, size in enumerate(sizes)):
            raise ValueError(f"shape must have zeros for dimensions of data only, got {sizes} for shape {x.shape}")
        sizes = tuple(x.shape[i] if size == 0 else size for i, size in enumerate(sizes))
    return x.reshape(sizes)


def flatten(x: Array, *, axis: int = 1) -> Array:
    axis = axis + x.ndim if axis < 0 else axis
    return x.reshape(math.prod(x.shape[:axis]), math.prod(x.shape[axis:]))


def transpose(x: Array, *, perm: Sequence[int] | None = None) -> Array:
    return x.transpose(perm)


def squeeze(x: Array, axes: Ints = None) -> Array:
    return np.squeeze(x, None if axes is None else ints(axes))


def unsqueeze(x: Array, axes: Ints) -> Array:
    places = ints(axes)
    ndim = x.ndim + len(places)
    ones = {place + ndim if place < 0 else place for place in places}
    if len(ones) < len(places) or not ones <= {*range(ndim)}:
        raise ValueError(f"axes must be different dimensions of {ndim}, got {places}")
    sizes = iter(x.shape)
    return x.reshape([1 if i in ones else next(sizes) for i in range(ndim)])


def concat(*arrays: Array, axis: int) -> Array:
    return joined(arrays, axis)


@cached
def order_in_memory(strides: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """Return the permutation that sorts dimensions by falling strides, and its inverse, or None if they are sorted."""
    to = tuple(sorted(range(len(strides)), key=lambda d: -abs(strides[d])))
    return None if to == tuple(range(len(to))) else (to, tuple(map(to.index, range(len(to)))))


def joined(parts: Sequence[Array], axis: int, tables: Sequence[Array | None] = ()) -> Array:
    """Concatenate parts in the memory order of the first part. First look up the bytes of parts with a table."""
    first = parts[0]
    order = None if first.flags.c_contiguous else order_in_memory(first.strides)
    if any(table is not None for table in tables):
        parts = [x if table is None else look_up(x, table) for x, table in zip(parts, tables, strict=True)]
        order = order or (tuple(range(first.ndim)),) * 2
    if order is None:
        return np.concatenate(parts, axis)
    to, back = order
    with contextlib.suppress(ValueError):  # raised below, in the file's dimensions
        return np.concatenate([part.transpose(to) for part in parts], back[axis]).transpose(back)
    raise ValueError(f"inputs must have equal shapes except in dimension {axis}, got {[x.shape for x in parts]}")


@by_layout(1, rounds=False)
def split(x: Array, split: Ints = None, *, axis: int = 0, num_outputs: int | None = None, outputs: int) -> Call:
    length = x.shape[axis]
    if num_outputs not in (None, outputs):
        raise ValueError(f"num_outputs must be {outputs}, the number of outputs, got {num_outputs}")
    if split is None:
        part = -(-length // outputs) if num_outputs else length // outputs
        begins = [min(part * i, length) for i in range(outputs)]
    else:
        sizes = ints(split)
        if sum(sizes) != length or min(sizes, default=0) < 0:
            raise ValueError(f"split must have sizes of sum {length}, got {sizes}")
        begins = list(itertools.accumulate(sizes[:-1], initial=0))
    lead = (slice(None),) * (axis + x.ndim if axis < 0 else axis)
    places = [(*lead, slice(begin, end)) for begin, end in itertools.pairwise([*begins, length])]
    return lambda x, *_: tuple([x[place] for place in places])


def slices(x: Array, starts: Ints, ends: Ints, axes: Ints = None, steps: Ints = None) -> Array:
    first, last = ints(starts), ints(ends)
    over = range(len(first)) if axes is None else ints(axes)
    by = (1,) * len(first) if steps is None else ints(steps)
    index = [slice(None)] * x.ndim
    for axis, begin, end, step in zip(over, first, last, by, strict=True):
        length = x.shape[axis]
        if step < 0:
            stop: int | None = max(end + length if end < 0 else end, -1)
            stop = None if stop == -1 else stop
            begin = min(begin + length if begin < 0 else begin, length - 1)
            index[axis] = slice(begin, stop, step) if begin >= 0 else slice(0, 0)
        else:
            index[axis] = slice(begin, end, step)
    return x[tuple(index)]


def expand(x: Array, shape: Ints) -> Array:
    """Broadcast x to a shape. A size of 1 in `shape` keeps the size of x."""
    wanted = ints(shape)
    ndim = max(x.ndim, len(wanted))
    pairs = zip((1,) * (ndim - x.ndim) + x.shape, (1,) * (ndim - len(wanted)) + wanted, strict=True)
    return np.broadcast_to(x, allowed([size if new == 1 else new for size, new in pairs], x.dtype))


def tile(x: Array, repeats: Ints) -> Array:
    times = ints(repeats)
    shape = allowed([size * count for size, count in zip(x.shape, times, strict=True)], x.dtype)
    y = np.empty([size for pair in zip(times, x.shape, strict=True) for size in pair], x.dtype)
    y[...] = x.reshape([size for each in x.shape for size in (1, each)])
    return y.reshape(shape)


@by_layout(3, rounds=False)
def pad(
    x: Array, pads: Ints = None, value: Array | float | None = None, axes: Ints = None, *,
    mode: Literal["constant", "edge", "reflect", "wrap"] = "constant",
) -> Call:  # fmt: skip
    cut, every, shape, inside = lay_out_padding(x.shape, ints(pads), None if axes is None else ints(axes))
    allowed(shape, x.dtype)
    number = x.dtype.type(0) if value is None else value.item() if isinstance(value, np.ndarray) else value
    sides = [] if mode == "constant" else copied_sides([size.stop - size.start for size in inside], every, mode)

    def call(x: Array, *_: Array | None) -> Array:
        y = np.empty_like(x, shape=shape)  # in x's order of memory
        if mode == "constant":
            y.fill(number)
        y[inside] = x if cut is None else x[cut]
        for target, index, axis in sides:
            y[target] = y.take(index, axis)
        return y

    return call


def copied_sides(sizes: Sequence[int], every: Sequence[tuple[int, int]], mode: Any) -> list[tuple[Any, Array, int]]:
    """Return a tuple for each side to pad, in the order of padding: an index that selects the padding, the positions to
    copy along the axis, and the axis."""
    sides = []
    for axis, (size, (before, after)) in enumerate(zip(sizes, every, strict=True)):
        index = before + np.pad(np.arange(size), (before, after), mode=mode) if before or after else np.arange(size)
        for side in (slice(before), slice(before + size, before + size + after)):
            if side.stop > (side.start or 0):
                sides.append(((slice(None),) * axis + (side,), index[side], axis))
    return sides


def is_copying(mode: str = "constant", **_: Any) -> bool:
    """Return whether padding consists of copies of elements."""
    return mode != "constant"


def lay_out_padding(
    sizes: tuple[int, ...], widths: tuple[int, ...], axes: tuple[int, ...] | None
) -> tuple[tuple[slice, ...] | None, Sequence[tuple[int, int]], tuple[int, ...], tuple[slice, ...]]:
    """Return the steps of a Pad: the part of the array that negative padding keeps (None for the whole array), the
    positive padding of each dimension, the shape of the result, and the position of the part in the result."""
    every, half, cut = [(0, 0)] * len(sizes), len(widths) // 2, None
    for axis, before, after in zip(range(half) if axes is None else axes, widths[:half], widths[half:], strict=True):
        every[axis] = before, after
    if widths and min(widths) < 0:
        cut = tuple(slice(max(0, -b), size - max(0, -a)) for (b, a), size in zip(every, sizes, strict=True))
        sizes = tuple(len(range(*part.indices(size))) for part, size in zip(cut, sizes, strict=True))
        every = [(max(before, 0), max(after, 0)) for before, after in every]
    shape = tuple(size + before + after for size, (before, after) in zip(sizes, every, strict=True))
    inside = tuple(slice(before, before + size) for (before, _), size in zip(every, sizes, strict=True))
    return cut, every, shape, inside


def gather(x: Array, indices: Array, *, axis: int = 0) -> Array:
    if indices.ndim == 0:  # copy: later operators are faster on contiguous memory
        return x[(slice(None),) * (axis + x.ndim if axis < 0 else axis) + (int(indices),)].copy()
    return x.take(indices, axis)


def gather_elements(x: Array, indices: Array, *, axis: int = 0) -> Array:
    return x.reshape(-1).take(element_index(x, indices, axis))


def element_index(x: Array, indices: Array, axis: int) -> Array:
    """Return an index in the flat x for each element of `indices`. The index along `axis` is the element's value, and
    the indices along other axes are the element's position."""
    places: list[Array] = list(np.ogrid[tuple(slice(size) for size in indices.shape)])
    places[axis] = indices
    return flat_index(places, x.shape)


def flat_index(index: Sequence[Array], sizes: Sequence[int]) -> Array:
    """Return flat indices in C order from an index for each dimension. Negative indices count from the end."""
    flat: Array = np.zeros((), np.intp)
    for places, size in zip(index, sizes, strict=True):
        low, high = np.min(places, initial=0), np.max(places, initial=-1)
        if low < -size or high >= size:
            raise IndexError(f"indices must be from {-size} to {size - 1}, got {low if low < -size else high}")
        flat = flat * size + (np.where(places < 0, places + size, places) if low < 0 else places)
    return flat


def gather_nd(x: Array, indices: Array, *, batch_dims: int = 0) -> Array:
    lead = np.ogrid[tuple(slice(size) for size in x.shape[:batch_dims])] if batch_dims else []
    extra = indices.ndim - 1 - batch_dims
    lead = [index.reshape(index.shape + (1,) * extra) for index in lead]
    return np.asarray(x[(*lead, *np.moveaxis(indices, -1, 0))])


Reduction = Literal["none", "add", "mul", "max", "min"]
REDUCE = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}


@wide
def scatter(x: Array, updates: Array, *, rows: Array, reduction: str) -> Array:
    """Write updates to rows of a copy, or combine them with these rows. `rows` has the indices of rows in the flat x,
    and the leading dimensions of the updates."""
    result = x.copy()
    size = math.prod(updates.shape[rows.ndim :])
    if updates.size == 0:
        return result
    if reduction == "none":
        result.reshape(-1, size)[rows.reshape(-1)] = updates.reshape(-1, size)
    else:  # NumPy is 15x faster with one index for each element
        elements = (rows.reshape(-1, 1) * size + np.arange(size)).reshape(-1)
        REDUCE[reduction].at(result.reshape(-1), elements, updates.reshape(-1))
    return result


def scatter_elements(
    x: Array, indices: Array, updates: Array, *, axis: int = 0, reduction: Reduction = "none"
) -> Array:
    rows = np.broadcast_to(element_index(x, indices, axis), indices.shape)
    return scatter(x, np.broadcast_to(updates, indices.shape), rows=rows, reduction=reduction)


@by_layout(1, rounds=False)
def scatter_nd(x: Array, indices: Array, *, reduction: Reduction = "none") -> Call:
    depth = indices.shape[-1]
    rows = np.broadcast_to(flat_index([*np.moveaxis(indices, -1, 0)], x.shape[:depth]), indices.shape[:-1])
    shape, box = rows.shape + x.shape[depth:], box_of(indices) if reduction == "none" else None

    def call(x: Array, _: Array, updates: Array) -> Array:
        updates = updates if updates.shape == shape else np.broadcast_to(updates, shape)
        if box is None:
            return np.asarray(scatter(x, updates, rows=rows, reduction=reduction))
        result = x.copy()
        result[box] = updates
        return result

    return call


def box_of(indices: Array) -> tuple[slice, ...] | None:
    """Return the slices of a box if ScatterND's indices are the places of the box in C order, as exporters write an
    assignment to slices. Otherwise return None."""
    sizes, first = indices.shape[:-1], indices.reshape(-1, indices.shape[-1])[:1]
    is_inside = len(sizes) == first.size and (first >= 0).all()
    if not is_inside or not np.array_equal(indices, np.moveaxis(np.indices(sizes), 0, -1) + first):
        return None
    return tuple(slice(start, start + size) for start, size in zip(first[0].tolist(), sizes, strict=True))


def compress(x: Array, condition: Array, *, axis: int | None = None) -> Array:
    return np.compress(condition, x, axis)


def trilu(x: Array, k: Array | None = None, *, upper: int = 1) -> Array:
    diagonal = 0 if k is None else int(k.item())
    lower = np.tri(x.shape[-2], x.shape[-1], diagonal - upper, bool)
    y = x.copy()
    np.copyto(y, x.dtype.type(0), where=lower if upper else ~lower)
    return y


def depth_to_space(x: Array, *, blocksize: int, mode: Literal["DCR", "CRD"] = "DCR") -> Array:
    n, c, h, w = x.shape
    b, deep = blocksize, c // blocksize**2
    if mode == "DCR":
        parts = x.reshape(n, b, b, deep, h, w).transpose(0, 3, 4, 1, 5, 2)
    else:
        parts = x.reshape(n, deep, b, b, h, w).transpose(0, 1, 4, 2, 5, 3)
    return parts.reshape(n, deep, h * b, w * b)


def space_to_depth(x: Array, *, blocksize: int, mode: Literal["DCR", "CRD"] = "DCR") -> Array:
    n, c, h, w = x.shape
    b = blocksize
    order = (0, 3, 5, 1, 2, 4) if mode == "DCR" else (0, 1, 3, 5, 2, 4)
    parts = x.reshape(n, c, h // b, b, w // b, b).transpose(order)
    return parts.reshape(n, c * b * b, h // b, w // b)


def one_hot(indices: Array, depth: Array, values: Array, *, axis: int = -1) -> Array:
    count = int(np.asarray(depth).item())
    sizes = list(indices.shape)
    axis = axis + len(sizes) + 1 if axis < 0 else axis
    allowed([*sizes, count], values.dtype)
    indices = indices.astype(np.int64, copy=False)
    places = np.expand_dims(np.where(indices < 0, indices + count, indices), axis)
    grid = np.arange(count).reshape([-1 if i == axis else 1 for i in range(len(sizes) + 1)])
    return np.asarray(values.take((places == grid).view(np.int8)))


def reverse_sequence(x: Array, lengths: Array, *, batch_axis: int = 1, time_axis: int = 0) -> Array:
    result = x.copy()
    source, target = (np.moveaxis(each, (batch_axis, time_axis), (0, 1)) for each in (x, result))
    for i, length in enumerate(lengths.tolist()):
        target[i, :length] = source[i, :length][::-1]
    return result


# To select more than FEW elements, and more than 1 / SORTED of a row, NumPy's sort is faster than a heap.
FEW, SORTED = 16, 8


def top_k(x: Array, k: Array | int, *, axis: int = -1, largest: int = 1, sorted: int = 1) -> tuple[Array, Array]:
    """Return the largest or smallest elements. Equal elements keep the order of their indices."""
    count = int(np.asarray(k).item())
    if not 0 <= count <= x.shape[axis]:
        raise ValueError(f"k must be from 0 to {x.shape[axis]}, got {count}")
    rows = np.ascontiguousarray(x.swapaxes(axis, -1))
    keys = rows ^ np.uint64(1 << 63) if x.dtype == np.uint64 else rows  # keys keep their order as int64
    kind = np.dtype(np.int64) if x.dtype.kind in "iu" else np.promote_types(x.dtype, np.float32)
    keys = keys.astype(kind, copy=False)
    if FEW < count > rows.shape[-1] // SORTED:
        order = np.argsort(keys[..., ::-1] if largest else keys, -1, kind="stable")
        order = (rows.shape[-1] - 1 - order[..., ::-1] if largest else order)[..., :count].swapaxes(axis, -1)
        return np.take_along_axis(x, order, axis), order
    found, index = find_top(rows, keys, count, bool(largest))
    return found.swapaxes(axis, -1), index.swapaxes(axis, -1)


def non_zero(x: Array) -> Array:
    return np.stack(np.nonzero(x)) if x.ndim else np.empty((0, np.count_nonzero(x)), np.int64)


def unique(x: Array, *, axis: int | None = None, sorted: int = 1) -> tuple[Array, ...]:
    found, first, inverse, counts = np.unique(x if axis is not None else x.reshape(-1), True, True, True, axis or 0)
    if not sorted:
        order = np.argsort(first)
        inverse, found = np.argsort(order)[inverse], np.take(found, order, axis or 0)
        first, counts = first[order], counts[order]
    return found, first, inverse.reshape(-1), counts


def identity(x: Any) -> Any:
    return x


def check_inference(training_mode: Array | None) -> None:
    if training_mode is not None and training_mode.item():
        raise ValueError(f"training_mode must be false, got true: {INFERENCE}")


def dropout(site: Site, *, seed: int = 0, ratio: float | None = None) -> Call:
    """Return the identity. Check a constant training mode at load."""
    check_inference(site.constants.get(2))
    outputs = len(site.node.outputs)

    def call(x: Array, ratio: Array | None = None, training_mode: Array | None = None) -> Any:
        check_inference(training_mode)
        return (x, np.ones(x.shape, bool)) if outputs > 1 else x

    return call


class View(Viewing):
    """A view's call. `moves` has functions, each with the number of inputs that it takes in addition to the array. If
    the last function only changes the shape (`reshapes`), but copies, calls remember the view before the copy."""

    def __init__(self, moves: Sequence[tuple[Call, int]], reshapes: bool) -> None:
        self.moves, self.reshapes = moves, reshapes

    def find(self, x: Array, values: tuple[Any, ...]) -> Array:
        y, before, at = x, x, 0
        for function, count in self.moves:
            y, before = np.asarray(function(y, *values[at : at + count])), y  # one element of a vector is no array
            at += count
        found = KnownView(x, y, values)
        if self.reshapes and found(x, values) is None:
            found = KnownView(x, before, values)
        self.remember(found, y.shape)
        return y


def view(site: Site, *, moves: Any, reshapes: bool) -> Call:
    bound = [(one_index if move.kind == "Gather" else VIEWS[move.kind], move) for move in moves]
    functions = [(functools.partial(function, **move.attributes), len(move.inputs) - 1) for function, move in bound]
    return View(functions, reshapes)


def one_index(x: Array, index: Array, *, axis: int = 0) -> Array:
    """Take one index. Copy the result only if the elements of no dimension are contiguous."""
    y = x[(slice(None),) * (axis + x.ndim if axis < 0 else axis) + (int(index),)]
    return y if y.itemsize in y.strides else y.copy()


# The largest number of inputs of a view.
MOST_INPUTS = 32


def moving(*sized_by: int, view: bool = False, reshapes: bool = False) -> Traits:
    """Return the traits of an operator that moves or selects elements of its first input."""
    return Traits(typed_by=0, moves=True, view=view or reshapes, reshapes=reshapes, sized_by=sized_by)


OF_SHAPE = Traits(of_shape=True, sized_by=())

OPERATORS = [
    Operator("Shape", shape, 1, traits=OF_SHAPE),
    Operator("Size", size, 1, traits=OF_SHAPE),
    Operator("Reshape", reshape, 5, traits=moving(1, reshapes=True)),
    Operator("Flatten", flatten, 1, traits=moving(reshapes=True)),
    Operator("Transpose", transpose, 1, traits=moving(view=True)),
    Operator("Squeeze", squeeze, 1, traits=moving(1, reshapes=True)),
    Operator("Unsqueeze", unsqueeze, 1, traits=moving(1, reshapes=True)),
    Operator("Expand", expand, 8, traits=moving(1, view=True)),
    Operator("Slice", slices, 1, traits=moving(1, 2, 3, 4, view=True)),
    Operator("Gather", gather, 1, traits=moving(view=True)),  # a view if it has one index
    Operator("Tile", tile, 6, traits=moving(1)),
    Operator("GatherElements", gather_elements, 11, traits=moving()),
    Operator("GatherND", gather_nd, 11, traits=moving()),
    Operator("DepthToSpace", depth_to_space, 1, traits=moving()),
    Operator("SpaceToDepth", space_to_depth, 1, traits=moving()),
    Operator("ReverseSequence", reverse_sequence, 10, traits=moving()),
    Operator("Compress", compress, 9, traits=Traits(typed_by=0, moves=True)),
    Operator("Identity", identity, 1, traits=replace(moving(), elementwise=True, post_op=lambda: [])),
    Operator("Concat", concat, 4, traits=SAME_TYPE),
    Operator("Split", split, 2, prepared=True, traits=Traits(typed_by=0, sized_by=(1,), chooses=lambda **_: True)),
    Operator("Pad", pad, 2, prepared=True, traits=Traits(typed_by=0, sized_by=(1, 3), filled_by=2, chooses=is_copying)),
    Operator("Trilu", trilu, 14, traits=SAME_TYPE),
    Operator("Scatter", scatter_elements, 9, 10, traits=SAME_TYPE),
    Operator("ScatterElements", scatter_elements, 11, traits=SAME_TYPE),
    Operator("ScatterND", scatter_nd, 11, prepared=True, traits=SAME_TYPE),
    Operator("OneHot", one_hot, 9, traits=Traits(typed_by=2, sized_by=(1,))),
    Operator("TopK", top_k, 1, traits=Traits(typed_by=0, typed_results=1, sized_by=(1,))),
    Operator("NonZero", non_zero, 9),
    Operator("Unique", unique, 11),
    Operator("Dropout", dropout, 7, prepared=True, pure=False,
             traits=Traits(typed_by=0, typed_results=1, sized_by=())),
    Operator("View", view, domain=DOMAIN, prepared=True,
             traits=Traits(typed_by=0, sized_by=range(1, MOST_INPUTS + 1))),
]  # fmt: skip
# The functions of operators that do not copy elements.
VIEWS = {row.name: row.function for row in OPERATORS if row.traits.view}
