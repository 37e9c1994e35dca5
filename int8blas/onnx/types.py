"""ONNX's numbers of types, and the arithmetic of 16-bit floats."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Literal, TypeVar, cast

import numpy as np
import numpy.typing as npt

from int8blas.core.arrays import bfloat16_dtype
from int8blas.elementwise.functions import eltwise

FLOAT32, STRING = 1, 8
# The values of ONNX's attribute auto_pad.
AutoPad = Literal["NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"]
DTYPES = {
    FLOAT32: "float32", 2: "uint8", 3: "int8", 4: "uint16", 5: "int16", 6: "int32", 7: "int64", STRING: "object",
    9: "bool", 10: "float16", 11: "float64", 12: "uint32", 13: "uint64", 14: "complex64", 15: "complex128",
}  # fmt: skip
BFLOAT16 = 16
# The integers of 8 and of 16 bits.
BYTES = (np.dtype(np.uint8), np.dtype(np.int8))
SHORTS = (np.dtype(np.uint16), np.dtype(np.int16))
FOUR_BITS = ("int4", "uint4")  # the names of the types of 4 bits, which NumPy lacks


F = TypeVar("F", bound=Callable[..., Any])


def cached(function: F) -> F:
    """Keep the last 1024 results of a function. Unlike functools.cache, type checkers see the function's parameters."""
    return cast("F", functools.lru_cache(1024)(function))


@cached
def dtype_of(number: int) -> np.dtype[Any]:
    """Return the dtype of an ONNX type number. Types of fewer than 8 bits and 8-bit floats are refused."""
    if number == BFLOAT16:
        return np.dtype(bfloat16_dtype())
    if number not in DTYPES:
        raise ValueError(f"type must be one of {', '.join(DTYPES.values())} or bfloat16, got number {number} of ONNX")
    return np.dtype(DTYPES[number])


HALF, SINGLE = np.dtype(np.float16), np.dtype(np.float32)
CONVERSIONS = {(HALF, SINGLE), (SINGLE, HALF)}


def converted(x: npt.NDArray[Any], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """Return an array in another type. Between float16 and float32 the function is four times as fast as NumPy."""
    return np.asarray(eltwise(x, (), dst_dtype=dtype)) if (x.dtype, dtype) in CONVERSIONS else x.astype(dtype)


def is_short(x: Any) -> bool:
    """Return whether an array is of float16 or bfloat16."""
    return isinstance(x, np.ndarray) and x.dtype.itemsize == 2 and x.dtype.kind not in "iu"


def single(x: Any) -> Any:
    """Return an array of float16 or bfloat16 in float32, and any other value unchanged."""
    return converted(x, SINGLE) if is_short(x) else x


def wide(function: Callable[..., Any]) -> Callable[..., Any]:
    """Let a function compute in float32 if its first argument is float16 or bfloat16.

    The wrapper converts arguments of 16-bit floats to float32, and rounds float32 results once, to the type of the
    first argument. In float32, intermediate results neither lose digits nor overflow."""

    @functools.wraps(function)
    def wrapper(x: Any, *others: Any, **attributes: Any) -> Any:
        if not is_short(x):
            return function(x, *others, **attributes)
        given = [single(each) for each in (x, *others)]
        results = function(*given, **attributes)
        if isinstance(results, tuple):
            return tuple(rounded(result, x.dtype) for result in results)
        return rounded(results, x.dtype)

    return wrapper


def rounded(result: Any, dtype: np.dtype[Any]) -> Any:
    """Convert a float result to another type, and return any other result unchanged."""
    floats = isinstance(result, (np.ndarray, np.floating)) and result.dtype.kind == "f"
    return np.asarray(result, dtype) if floats else result
