"""Operands that broadcast to a result: scales, zero points, biases and summands. A layer takes one value, or one value
for each index of an axis. All patterns and products decide by this module whether a layer can take an operand.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from int8blas.onnx.graph import Array


def as_operand(values: Array, ndim: int, axis: int, size: int) -> Array | None:
    """Return an operand, which is broadcast to the result, in the form that a layer needs: a scalar, or a vector along
    an axis of the result. The axis, from 0 on, has this size, and the result without the operand has at least `ndim`
    dimensions. Return None if the operand has several values along another axis, or would make the result larger."""
    if values.ndim > ndim:
        return None
    if values.size == 1:
        return values.reshape(())
    shape = (1,) * (ndim - values.ndim) + values.shape
    return values.reshape(-1) if values.size == size == shape[axis] else None


def vector(values: Array | None, ndim: int, axis: int, size: int) -> Array | None:
    """Return an operand with one value for each index of an axis as a vector, or None. See :func:`as_operand`."""
    found = None if values is None else as_operand(values, ndim, axis, size)
    return found.reshape(-1) if found is not None and found.size == size else None


def of_rows(values: Array) -> Array:
    """Return values for the rows of a matrix in a shape that broadcasts. A vector has one value for each row."""
    return values.reshape(-1, 1) if values.ndim == 1 and values.size != 1 else values


def of_columns(values: Array, a: Array) -> Array:
    """Return values for the columns of a product. If A is a vector, drop the axis of rows, which the product lacks."""
    return values[..., 0, :] if a.ndim == 1 and values.ndim > 1 else values


def fits(shape: Sequence[int], result: Sequence[int]) -> bool:
    """Return whether an operand broadcasts to a result without changing the result's shape."""
    pairs = zip(reversed(shape), reversed(result), strict=False)
    return len(shape) <= len(result) and all(size in (1, wanted) for size, wanted in pairs)


def combined(function: Callable[..., Any], y: Array, values: Array) -> Array:
    """Apply a binary function, in place on the first array unless the result is larger."""
    result: Array = function(y, values, out=y if fits(values.shape, y.shape) else None)
    return result
