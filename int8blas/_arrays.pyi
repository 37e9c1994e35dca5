# Types of arguments, for the other stubs, and what the modules in Python use.
from collections.abc import Sequence
from typing import Any, Literal, Protocol, SupportsFloat, SupportsIndex, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

_T_co = TypeVar("_T_co", bound=np.generic, covariant=True)

class _Array(Protocol[_T_co]):
    def __array__(self) -> npt.NDArray[_T_co]: ...

_Int8OrUInt8: TypeAlias = np.int8 | np.uint8
_Real: TypeAlias = SupportsFloat | SupportsIndex
_Integers: TypeAlias = SupportsIndex | Sequence[SupportsIndex] | _Array[np.integer[Any]]
_Numerics: TypeAlias = Literal["exact", "saturating"]
_Offset: TypeAlias = Literal["F", "C", "R", "f", "c", "r"]

def as_array(x: Any, name: str) -> npt.NDArray[Any]: ...
def widened(x: Any, name: str) -> npt.NDArray[Any]: ...
def elements_output(x: Any, name: str, typenum: int, shape: tuple[int, ...]) -> npt.NDArray[Any]: ...
def is_bfloat16(dtype: np.dtype[Any]) -> bool: ...
def bfloat16_dtype() -> np.dtype[Any]: ...
