from typing import Any, Literal, TypeVar, overload

import numpy as np
import numpy.typing as npt

from int8blas.core.arrays import _Array, _Int8OrUInt8, _Integers, _MemoryT, _Numerics
from int8blas.gemm.four_bits import PackedB4
from int8blas.gemm.packed import Packed
from int8blas.gemm.packing import PackedB

_AnyInteger = np.integer[Any] | np.bool_
_Overflow = Literal["saturate", "wrap", "raise"]
_R = TypeVar("_R", bound=np.integer[Any])

# The types of results are arrays, although the product of two vectors is a scalar.
@overload
def matmul(a: _Array[_Int8OrUInt8], b: _Array[_Int8OrUInt8] | PackedB | PackedB4, *, out: None = None,
           dtype: None = None, ao: _Integers = 0, bo: _Integers = 0, numerics: _Numerics = "exact",
           overflow: _Overflow = "saturate", mod: None = None) -> npt.NDArray[np.int32]: ...
@overload
def matmul(a: _Array[_AnyInteger], b: _Array[_AnyInteger] | Packed, *, out: None = None, dtype: None = None,
           ao: _Integers = 0, bo: _Integers = 0, numerics: _Numerics = "exact", overflow: _Overflow = "saturate",
           mod: int | None = None) -> npt.NDArray[Any]: ...
@overload
def matmul(a: _Array[_AnyInteger], b: _Array[_AnyInteger] | Packed, *, out: npt.NDArray[_R],
           dtype: npt.DTypeLike | None = None, ao: _Integers = 0, bo: _Integers = 0, numerics: _Numerics = "exact",
           overflow: _Overflow = "saturate", mod: int | None = None) -> npt.NDArray[_R]: ...
@overload
def matmul(a: _Array[_AnyInteger], b: _Array[_AnyInteger] | Packed, *, out: _MemoryT,
           dtype: npt.DTypeLike | None = None, ao: _Integers = 0, bo: _Integers = 0, numerics: _Numerics = "exact",
           overflow: _Overflow = "saturate", mod: int | None = None) -> _MemoryT: ...
@overload
def matmul(a: _Array[_AnyInteger], b: _Array[_AnyInteger] | Packed, *, out: None = None, dtype: type[_R] | np.dtype[_R],
           ao: _Integers = 0, bo: _Integers = 0, numerics: _Numerics = "exact", overflow: _Overflow = "saturate",
           mod: int | None = None) -> npt.NDArray[_R]: ...
@overload
def matmul(a: _Array[_AnyInteger], b: _Array[_AnyInteger] | Packed, *, out: None = None, dtype: npt.DTypeLike,
           ao: _Integers = 0, bo: _Integers = 0, numerics: _Numerics = "exact", overflow: _Overflow = "saturate",
           mod: int | None = None) -> npt.NDArray[Any]: ...
def stacked(a: npt.NDArray[Any], b: npt.NDArray[Any], axes: int, *, dtype: Any, overflow: Any, mod: Any) -> Any: ...
