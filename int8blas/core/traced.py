"""The lines of INT8BLAS_VERBOSE about functions of arrays. Without INT8BLAS_VERBOSE the functions are not wrapped."""

import functools
import inspect
import threading
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from int8blas.core.verbose import begin, end, is_verbose, seconds_since

# The maximum number of source shapes in a line.
MOST_SHAPES = 4
Function = TypeVar("Function", bound=Callable[..., Any])

# `inside` says whether the calling thread is inside a traced function. Nested traced functions write no lines.
inside = threading.local()


def size_of(value: Any) -> str:
    """Return the shape of an array, or the shapes of a sequence of arrays: 2x3, or 2x3+4x3."""
    arrays = value if are_arrays(value) else [value]
    texts = ["x".join(map(str, np.shape(array))) or "1" for array in arrays[:MOST_SHAPES]]
    return "+".join(texts) + (f"+{len(arrays) - MOST_SHAPES} more" if len(arrays) > MOST_SHAPES else "")


def type_of(value: Any) -> str:
    """Return the dtype of an array, or of the first of a sequence of arrays."""
    array = value[0] if are_arrays(value) else value
    return str(array.dtype if hasattr(array, "dtype") else np.asarray(array).dtype).removeprefix("torch.")


def are_arrays(value: object) -> bool:
    return isinstance(value, (list, tuple)) and bool(value) and all(hasattr(array, "shape") for array in value)


def traced(*sources: str) -> Callable[[Function], Function]:
    """Trace calls of a function of arrays. The line of a call has the shapes of the arguments that `sources` names."""

    def decorate(function: Function) -> Function:
        if not is_verbose():
            return function
        bind = inspect.signature(function).bind

        @functools.wraps(function)
        def tracing(*args: Any, **kwargs: Any) -> Any:
            if getattr(inside, "traced", False):
                return function(*args, **kwargs)
            inside.traced = True
            begun = begin()
            try:
                result = function(*args, **kwargs)
            finally:
                inside.traced = False
            elapsed = seconds_since(begun)
            given = bind(*args, **kwargs).arguments
            sizes = "".join([f"{name}={size_of(given[name])}," for name in sources])
            how = type_of(given[sources[0]])
            if hasattr(result, "dtype"):
                sizes, how = f"{sizes}dst={size_of(result)},", f"{how} to {type_of(result)}"
            end(function.__name__, sizes[:-1], how, elapsed)
            return result

        return tracing  # type: ignore[return-value]

    return decorate
