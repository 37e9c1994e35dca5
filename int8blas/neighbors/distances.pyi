from typing import Any, TypeVar, overload

import numpy as np
import numpy.typing as npt

from int8blas.core.arrays import _Array, _Int8OrUInt8, _MemoryT
from int8blas.gemm.packing import PackedB

_R = TypeVar("_R", np.int32, np.int64)

# The types of results are arrays, although the distance of two vectors is a scalar.
@overload
def sqeuclidean(x: _Array[_Int8OrUInt8], y: _Array[_Int8OrUInt8] | PackedB, *, out: None = None,
                dtype: None = None) -> npt.NDArray[np.int32 | np.int64]: ...
@overload
def sqeuclidean(x: _Array[_Int8OrUInt8], y: _Array[_Int8OrUInt8] | PackedB, *, out: npt.NDArray[_R],
                dtype: npt.DTypeLike | None = None) -> npt.NDArray[_R]: ...
@overload
def sqeuclidean(x: _Array[_Int8OrUInt8], y: _Array[_Int8OrUInt8] | PackedB, *, out: _MemoryT,
                dtype: npt.DTypeLike | None = None) -> _MemoryT: ...
@overload
def sqeuclidean(x: _Array[_Int8OrUInt8], y: _Array[_Int8OrUInt8] | PackedB, *, out: None = None,
                dtype: type[_R] | np.dtype[_R]) -> npt.NDArray[_R]: ...
@overload
def sqeuclidean(x: _Array[_Int8OrUInt8], y: _Array[_Int8OrUInt8] | PackedB, *, out: None = None,
                dtype: npt.DTypeLike) -> npt.NDArray[Any]: ...
