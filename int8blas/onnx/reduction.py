"""Operators that reduce several numbers to one."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from int8blas.layers.real_product import real_matmul
from int8blas.onnx.graph import Array
from int8blas.onnx.shape import Ints, ints
from int8blas.onnx.table import SAME_TYPE, SHAPED, Call, Operator, Traits, by_layout
from int8blas.onnx.types import wide

Reduce = Callable[[Array, Any, bool], Any]
# The method `reduce` of a ufunc takes a microsecond less than numpy.sum and numpy.prod.
add: Any = np.add.reduce
multiply: Any = np.multiply.reduce
# The maximum length of the innermost axis for which copying and reducing is faster than reducing in place.
SHORT = 16
# float32 represents all integers up to 1 << 24.
EXACT = 1 << 24


def reduction(prepare: Callable[[Array, Any, bool], Reduce], rounds: bool) -> Callable[..., Call]:
    """Return an operator. `prepare` takes an array, the axes to reduce, and whether to keep these axes. `prepare`
    returns a function of the same three arguments, for arrays with the layout of the given array."""

    @by_layout(1, rounds=rounds)
    def operator(x: Array, axes: Ints = None, *, keepdims: int = 1, noop_with_empty_axes: int = 0) -> Call:
        over = ints(axes)
        if not over and noop_with_empty_axes:
            function = prepare(x[None], (0,), False)
            return lambda x, *_: np.asarray(function(x[None], (0,), False), x.dtype)
        along, keep = over or None, bool(keepdims)
        function = prepare(x, along, keep)
        return lambda x, *_: np.asarray(function(x, along, keep), x.dtype)

    return operator


def mean(x: Array, axis: Any, keep: bool) -> Reduce:
    """Return the function that computes means of arrays with x's layout."""
    if x.dtype == np.float32 and axis is not None and len(axis) == 1 and x.size and -x.ndim <= axis[0] < x.ndim:
        at, last = axis[0] % x.ndim, x.ndim - 1
        if at == last or x.strides[at] == x.itemsize:
            # A product with the transposed rows is several times faster than NumPy's sum of rows.
            count = x.shape[at]
            order, shape = (*range(at), *range(at + 1, x.ndim), at), (*x.shape[:at], *(1,) * keep, *x.shape[at + 1 :])
            shares = np.full((1, count), np.float32(1) / np.float32(count))
            return lambda x, *_: real_matmul(shares, x.transpose(order).reshape(-1, count).T).reshape(shape)
    return average


def average(x: Array, axis: Any, keep: bool = True) -> Array:
    """Return numpy.mean, and NaN without a warning for an empty mean."""
    if x.size and x.dtype.char in "fd":  # as numpy.mean computes, in a third of the time
        sums = add(x, axis, keepdims=keep)
        count = x.size // sums.size
        return np.asarray(sums / (x.dtype.type(count) if count < EXACT else np.intp(count)), x.dtype)
    if x.size:
        return np.asarray(np.mean(x, axis, keepdims=keep))
    return np.full(add(x, axis, keepdims=keep).shape, np.nan, x.dtype if x.dtype.kind == "f" else np.float64)


def log_sum_exp(x: Array, axis: Any, keep: bool) -> Any:
    top = np.max(x, axis, keepdims=True, initial=-np.inf)
    top = np.where(np.isfinite(top), top, 0)
    result = np.log(np.sum(np.exp(x - top), axis, keepdims=True)) + top
    return result if keep else np.squeeze(result, axis)


def chosen(function: np.ufunc, x: Array, axis: Any, keep: bool, initial: Any) -> Any:
    """Reduce with maximum or minimum. Along the innermost axis in memory, NumPy's reduction takes 20 ns for each
    result. If the innermost axis is short, copy the array with this axis first, and reduce the copy."""
    short = axis is not None and len(axis) == 1 and 0 < x.shape[axis[0]] <= SHORT
    if not short or x.strides[axis[0]] != x.itemsize or x.size == x.shape[axis[0]]:
        return function.reduce(x, axis, keepdims=keep, initial=initial)
    at = axis[0] % x.ndim
    y = function.reduce(np.ascontiguousarray(x.transpose(at, *range(at), *range(at + 1, x.ndim))), 0)
    return y[(slice(None),) * at + (None,)] if keep else y


def lowest(dtype: np.dtype[Any]) -> Any:
    """Return a lower bound of all values of a type."""
    return False if dtype.kind == "b" else np.iinfo(dtype).min if dtype.kind in "iu" else -np.inf


def highest(dtype: np.dtype[Any]) -> Any:
    """Return an upper bound of all values of a type."""
    return True if dtype.kind == "b" else np.iinfo(dtype).max if dtype.kind in "iu" else np.inf


def arg(function: Callable[..., Any]) -> Callable[..., Array]:
    """Return ArgMax or ArgMin."""

    def operator(x: Array, *, axis: int = 0, keepdims: int = 1, select_last_index: int = 0) -> Array:
        found = function(np.flip(x, axis) if select_last_index else x, axis, keepdims=bool(keepdims))
        return np.asarray(x.shape[axis] - 1 - found if select_last_index else found, np.int64)

    return operator


def cumulative(function: np.ufunc, start: int) -> Callable[..., Array]:
    """Return CumSum or CumProd."""

    @wide
    def operator(x: Array, axis: Array, *, exclusive: int = 0, reverse: int = 0) -> Array:
        along = int(np.asarray(axis).item())
        values = np.flip(x, along) if reverse else x
        if x.dtype.kind == "f" and along % x.ndim < x.ndim - 1:  # NumPy's accumulate reads columns one by one
            result = values.copy()
            parts = np.moveaxis(result, along, 0)
            for before, part in itertools.pairwise(parts):
                function(before, part, out=part)
        else:
            result = np.asarray(function.accumulate(values, along, x.dtype))
        if exclusive:
            result = np.roll(result, 1, along)
            index: list[Any] = [slice(None)] * x.ndim
            index[along] = slice(1)
            result[tuple(index)] = start
        return np.flip(result, along) if reverse else result

    return operator


# Reductions that select an element.
CHOICES: dict[str, Reduce] = {
    "ReduceMax": lambda x, axis, keep: chosen(np.maximum, x, axis, keep, lowest(x.dtype)),
    "ReduceMin": lambda x, axis, keep: chosen(np.minimum, x, axis, keep, highest(x.dtype)),
}
# Reductions that compute with elements.
SUMS: dict[str, Reduce] = {
    "ReduceSum": lambda x, axis, keep: add(x, axis, x.dtype, keepdims=keep),
    "ReduceProd": lambda x, axis, keep: multiply(x, axis, x.dtype, keepdims=keep),
    "ReduceL1": lambda x, axis, keep: add(np.abs(x), axis, keepdims=keep),
    "ReduceL2": lambda x, axis, keep: np.sqrt(add(x * x, axis, keepdims=keep)),
    "ReduceSumSquare": lambda x, axis, keep: add(x * x, axis, keepdims=keep),
    "ReduceLogSum": lambda x, axis, keep: np.log(add(x, axis, keepdims=keep)),
    "ReduceLogSumExp": log_sum_exp,
}

REDUCED = Traits(typed_by=0, sized_by=(1,))
CHOSEN = replace(REDUCED, chooses=lambda **_: True)
OPERATORS = [
    *(
        Operator(name, reduction(lambda *_, function=function: function, rounds), prepared=True, traits=traits)
        for functions, rounds, traits in ((CHOICES, False, CHOSEN), (SUMS, True, REDUCED))
        for name, function in functions.items()
    ),
    Operator("ReduceMean", reduction(mean, True), prepared=True, traits=REDUCED),
    Operator("ArgMax", arg(np.ndarray.argmax), 1, traits=SHAPED),
    Operator("ArgMin", arg(np.ndarray.argmin), 1, traits=SHAPED),
    Operator("CumSum", cumulative(np.add, 0), 11, traits=SAME_TYPE),
    Operator("CumProd", cumulative(np.multiply, 1), 26, traits=SAME_TYPE),
]
