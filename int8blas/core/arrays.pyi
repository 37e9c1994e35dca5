# Types of arguments, for the other stubs, and the functions that Python modules use.
from array import array
from collections.abc import Sequence
from ctypes import Array
from enum import Enum
from mmap import mmap
from typing import Any, Literal, Protocol, SupportsFloat, SupportsIndex, TypeAlias

import numpy as np
import numpy.typing as npt
from typing_extensions import TypeVar

_T_co = TypeVar("_T_co", bound=np.generic, covariant=True)

class _SupportsArray(Protocol[_T_co]):
    def __array__(self) -> npt.NDArray[_T_co]: ...

class _DLPack(Protocol):
    # As the array API standard has it. NumPy's own device is no Enum: the dtype of an ndarray is still looked at.
    def __dlpack_device__(self) -> tuple[Enum, int]: ...

# An ndarray, or an object that shares its memory with NumPy. A function that stores its result in such an object
# returns the object itself.
_Memory: TypeAlias = bytearray | memoryview | mmap | array[Any] | Array[Any] | _DLPack
_MemoryT = TypeVar("_MemoryT", bound=_Memory)
# The type of `out` is the type of the result; without `out` the result is a new array.
_OutT = TypeVar("_OutT", bound=_Memory | npt.NDArray[Any], default=npt.NDArray[Any])
_FloatsT = TypeVar("_FloatsT", bound=_Memory | npt.NDArray[np.float32], default=npt.NDArray[np.float32])
_Array: TypeAlias = _SupportsArray[_T_co] | _Memory

# bool is uint8 in place; real numbers become float32.
_UInt8: TypeAlias = np.uint8 | np.bool_
_Int8OrUInt8: TypeAlias = np.int8 | _UInt8
_Float: TypeAlias = np.float32 | np.float64 | np.float16
_Real: TypeAlias = SupportsFloat | SupportsIndex
_Integers: TypeAlias = SupportsIndex | Sequence[SupportsIndex] | _Array[np.integer[Any]]
_Numerics: TypeAlias = Literal["exact", "saturating"]
_Offset: TypeAlias = Literal["F", "C", "R", "f", "c", "r"]

def as_array(x: Any, name: str) -> npt.NDArray[Any]: ...
def widened(x: Any, name: str) -> npt.NDArray[Any]: ...
def in_float32(x: Any, name: str) -> npt.NDArray[Any]: ...
def dtype_from(x: Any) -> np.dtype[Any] | None: ...
def dtype_argument(x: Any) -> str: ...
def real_from(x: Any, name: str) -> float: ...
def float32_from(x: Any, name: str) -> float: ...
def by_tensor(x: Any, name: str, tensors: tuple[str, ...]) -> dict[str, Any]: ...
def items_of(x: Any, name: str) -> list[Any]: ...
def elements_output(x: Any, name: str, typenum: int, shape: tuple[int, ...]) -> npt.NDArray[Any]: ...
def is_bfloat16(dtype: np.dtype[Any]) -> bool: ...
def bfloat16_dtype() -> np.dtype[Any]: ...
