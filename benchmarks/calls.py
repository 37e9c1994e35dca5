"""Calls of int8blas as data, so that a process with another build can make them: see compare_builds.py.

They are written like the calls, with `api` in place of the module::

    call = api.InnerProduct(weights, src_dtype=np.uint8, dst_dtype=np.int32)(src, out=Empty((4, 8), np.int32))
    run = bind(call)            # with this process's int8blas: makes the layer and the array
    run()                       # and executes the layer

`bind` takes the function that makes arrays, such as the method of a `SharedMemory`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import int8blas
import numpy as np

MakeArray = Callable[[tuple[int, ...], Any], np.ndarray]  # like numpy.empty


@dataclass(frozen=True)
class Empty:
    """An array for a result."""

    shape: tuple[int, ...]
    dtype: Any


@dataclass(frozen=True, eq=False)
class Spread:
    """Return a matrix as every other element of rows of twice the length."""

    matrix: np.ndarray


@dataclass(frozen=True)
class TransposeOf:
    """The transpose of the positional argument of this number, in its memory."""

    argument: int


@dataclass(frozen=True)
class Name:
    """A public name of int8blas."""

    name: str

    def __call__(self, *arguments: Any, **keywords: Any) -> Call:
        return Call(self, arguments, keywords)


@dataclass(frozen=True, eq=False)
class Call:
    """A call of a function, or of the layer that another call makes."""

    function: Name | Call
    arguments: tuple[Any, ...]
    keywords: dict[str, Any]

    def __call__(self, *arguments: Any, **keywords: Any) -> Call:
        return Call(self, arguments, keywords)


class Api:
    """Stand for the module int8blas."""

    def __getattr__(self, name: str) -> Name:
        return Name(name)


api = Api()


def copied(array: np.ndarray, empty: MakeArray) -> np.ndarray:
    """Return a copy with the dimensions in the same order in memory."""
    order = sorted(range(array.ndim), key=lambda axis: -array.strides[axis])
    copy = empty(tuple(array.shape[axis] for axis in order), array.dtype).transpose(np.argsort(order))
    copy[...] = array
    return copy


def value_of(value: Any, empty: MakeArray) -> Any:
    """Return the object that a description stands for, in this process."""
    if isinstance(value, Call):
        return bind(value, empty)()
    if isinstance(value, Name):
        return getattr(int8blas, value.name)
    if isinstance(value, Empty):
        return empty(value.shape, value.dtype)
    if isinstance(value, np.ndarray):
        return copied(value, empty)
    if isinstance(value, Spread):
        return copied(np.repeat(value.matrix, 2, axis=1), empty)[:, ::2]
    if isinstance(value, (list, tuple)):
        return type(value)(value_of(item, empty) for item in value)
    if isinstance(value, dict):
        return {key: value_of(item, empty) for key, item in value.items()}
    return value


def bind(call: Call, empty: MakeArray = np.empty) -> Callable[[], Any]:
    """Return the last call of a description as a function. All earlier calls are made now."""
    arguments = {f"a{i}": value_of(value, empty) for i, value in enumerate(call.arguments)}
    for name, value in arguments.items():
        if isinstance(value, TransposeOf):
            arguments[name] = arguments[f"a{value.argument}"].T
    keywords = {name: value_of(value, empty) for name, value in call.keywords.items()}
    text = ", ".join([*arguments, *(f"{name}={name}" for name in keywords)])
    # Write the call as a user does: passing keywords by `partial` and ** takes longer than a small product.
    run: Callable[[], Any] = eval(
        f"lambda: function({text})", {"function": value_of(call.function, empty), **arguments, **keywords}
    )
    return run
