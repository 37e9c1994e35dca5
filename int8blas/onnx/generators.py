"""Operators that create tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from int8blas.onnx.graph import Array
from int8blas.onnx.limits import allowed
from int8blas.onnx.shape import ints
from int8blas.onnx.table import SHAPED, Operator, Traits
from int8blas.onnx.types import dtype_of


def constant(
    *, value: Array | None = None, value_float: float | None = None, value_floats: Sequence[float] | None = None,
    value_int: int | None = None, value_ints: Sequence[int] | None = None, value_string: str | None = None,
    value_strings: Sequence[str] | None = None,
) -> Array:  # fmt: skip
    """Return the given value, after checking that exactly one value is given."""
    given = [
        np.asarray(number, dtype)
        for number, dtype in (
            (value, None if value is None else value.dtype), (value_float, np.float32), (value_floats, np.float32),
            (value_int, np.int64), (value_ints, np.int64), (value_string, object), (value_strings, object),
        )
        if number is not None
    ]  # fmt: skip
    if len(given) != 1:
        raise ValueError(f"a constant must have one value, got {len(given)}")
    return given[0]


def constant_of_shape(shape: Array, *, value: Array | None = None) -> Array:
    fill = np.zeros(1, np.float32) if value is None else value
    return np.full(allowed(ints(shape), fill.dtype), fill.reshape(-1)[0], fill.dtype)


def arange(start: Array, limit: Array, delta: Array) -> Array:
    first, last, step = (np.asarray(number).item() for number in (start, limit, delta))
    count = max(int(np.ceil((last - first) / step)), 0)
    allowed([count], start.dtype)
    return (first + np.arange(count) * step).astype(start.dtype)


def eye_like(x: Array, *, dtype: int | None = None, k: int = 0) -> Array:
    return np.eye(x.shape[0], x.shape[1], k, dtype=x.dtype if dtype is None else dtype_of(dtype))


def generator(seed: float | None) -> np.random.Generator:
    return np.random.default_rng(None if seed is None else abs(int(seed * 1e6)))


def random_uniform(
    *, shape: Sequence[int], dtype: int = 1, low: float = 0.0, high: float = 1.0, seed: float | None = None
) -> Array:
    return generator(seed).uniform(low, high, allowed(shape, np.float64)).astype(dtype_of(dtype))


def random_normal(
    *, shape: Sequence[int], dtype: int = 1, mean: float = 0.0, scale: float = 1.0, seed: float | None = None
) -> Array:
    return generator(seed).normal(mean, scale, allowed(shape, np.float64)).astype(dtype_of(dtype))


def like(draw: Callable[..., Array]) -> Callable[..., Array]:
    """Return an operator that draws a tensor with the shape, and by default with the type, of another tensor."""

    def operator(x: Array, *, dtype: int | None = None, **attributes: Any) -> Array:
        return draw(shape=x.shape, **attributes).astype(x.dtype if dtype is None else dtype_of(dtype))

    return operator


def bernoulli(x: Array, *, dtype: int | None = None, seed: float | None = None) -> Array:
    """Draw 1 with the probabilities of a tensor, else 0."""
    return (generator(seed).uniform(size=x.shape) < x).astype(x.dtype if dtype is None else dtype_of(dtype))


def multinomial(x: Array, *, dtype: int = 6, sample_size: int = 1, seed: float | None = None) -> Array:
    """Draw columns for each row. The elements of a row are logarithms of probabilities that need not add to 1."""
    ends = np.cumsum(np.exp(x - x.max(1, keepdims=True), dtype=np.float64), 1)
    drawn = generator(seed).uniform(size=allowed((len(x), sample_size, 1), np.float64)) * ends[:, None, -1:]
    return (drawn >= ends[:, None]).sum(2).astype(dtype_of(dtype))


OPERATORS = [
    Operator("Constant", constant, 1),
    Operator("ConstantOfShape", constant_of_shape, 9, traits=Traits(sized_by=(0,))),
    Operator("Range", arange, 11, traits=Traits(typed_by=0, sized_by=(0, 1, 2))),
    Operator("EyeLike", eye_like, 9, traits=SHAPED),
    Operator("RandomUniform", random_uniform, 1, pure=False),
    Operator("RandomNormal", random_normal, 1, pure=False),
    Operator("RandomUniformLike", like(random_uniform), 1, pure=False, traits=SHAPED),
    Operator("RandomNormalLike", like(random_normal), 1, pure=False, traits=SHAPED),
    Operator("Bernoulli", bernoulli, 15, pure=False, traits=SHAPED),
    Operator("Multinomial", multinomial, 7, pure=False),
]
