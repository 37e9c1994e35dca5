from typing import Any

import numpy as np
import numpy.typing as npt

from int8blas._arrays import _Array, _Int8OrUInt8, _Integers, _Numerics
from int8blas.packing import PackedB

def matmul(
    a: _Array[_Int8OrUInt8],
    b: _Array[_Int8OrUInt8] | PackedB,
    *,
    out: npt.NDArray[np.int32] | npt.NDArray[np.int64] | None = None,
    dtype: npt.DTypeLike | None = None,
    ao: _Integers = 0,
    bo: _Integers = 0,
    numerics: _Numerics = "exact",
) -> npt.NDArray[np.int32] | npt.NDArray[np.int64] | Any: ...  # a scalar for two vectors
