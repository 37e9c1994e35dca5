from collections.abc import Callable, Sequence
from typing import Literal, SupportsIndex, TypeAlias, overload

import numpy as np
import numpy.typing as npt

from int8blas.core.arrays import _Array, _Int8OrUInt8
from int8blas.gemm.packing import PackedB

_Shard: TypeAlias = _Array[_Int8OrUInt8] | PackedB
_Excluded: TypeAlias = range | slice | _Array[np.bool_] | Sequence[bool]

@overload
def nearest(queries: _Array[_Int8OrUInt8], base: _Shard | Sequence[_Shard], k: SupportsIndex, *,
            metric: Literal["inner", "sqeuclidean", "hamming"] = "inner", exclude: _Excluded | None = None,
            callback: Callable[[int, int], object] | None = None
            ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32 | np.int64]]: ...
@overload
def nearest(queries: _Array[_Int8OrUInt8], base: _Shard | Sequence[_Shard], k: SupportsIndex, *,
            metric: Literal["cosine"], exclude: _Excluded | None = None,
            callback: Callable[[int, int], object] | None = None
            ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]: ...
