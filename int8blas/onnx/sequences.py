"""Sequences, which are lists of tensors, and optional values, which may be None."""

from __future__ import annotations

from typing import Any

import numpy as np

from int8blas.onnx.graph import Array
from int8blas.onnx.shape import identity, ints
from int8blas.onnx.table import Call, Operator

List = list[Array]


def position(index: Array | None, default: int) -> int:
    return default if index is None else int(index.item())


def construct(*arrays: Array) -> List:
    return list(arrays)


def empty(*, dtype: int = 1) -> List:
    return []


def at(values: List, index: Array) -> Array:
    return values[position(index, 0)]


def insert(values: List, array: Array, index: Array | None = None) -> List:
    result = list(values)
    result.insert(position(index, len(values)), array)
    return result


def erase(values: List, index: Array | None = None) -> List:
    result = list(values)
    del result[position(index, -1)]
    return result


def length(values: List) -> Array:
    return np.array(len(values), np.int64)


def concat(values: List, *, axis: int, new_axis: int = 0) -> Array:
    return np.stack(values, axis) if new_axis else np.concatenate(values, axis)


def split(x: Array, split: Array | None = None, *, axis: int = 0, keepdims: int = 1) -> List:
    count = x.shape[axis]
    if split is None:
        parts = np.split(x, count, axis) if count else []
        return parts if keepdims else [np.squeeze(part, axis) for part in parts]
    sizes = ints(split)
    if split.ndim == 0:
        return np.split(x, range(sizes[0], count, sizes[0]), axis)
    return np.split(x, np.cumsum(sizes)[:-1], axis)


def has_element(value: Any = None) -> Array:
    return np.array(value is not None)


def optional(value: Any = None, *, type: Any = None) -> Any:
    return value


FUNCTIONS: list[tuple[str, Call, int]] = [
    ("SequenceConstruct", construct, 11), ("SequenceAt", at, 11), ("SequenceInsert", insert, 11),
    ("SequenceErase", erase, 11), ("SequenceLength", length, 11), ("ConcatFromSequence", concat, 11),
    ("SplitToSequence", split, 11), ("Optional", optional, 15), ("OptionalHasElement", has_element, 15),
    ("OptionalGetElement", identity, 15),
]  # fmt: skip
OPERATORS = [Operator(name, function, since) for name, function, since in FUNCTIONS]
OPERATORS += [Operator("SequenceEmpty", empty, 11, pure=False)]
