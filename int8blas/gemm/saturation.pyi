from dataclasses import dataclass
from typing import SupportsIndex

import numpy as np
import numpy.typing as npt

from int8blas.core.arrays import _Array, _Int8OrUInt8
from int8blas.gemm.packing import PackedB

@dataclass(frozen=True)
class Saturation:
    count: int
    where: npt.NDArray[np.int64]
    def __bool__(self) -> bool: ...

def would_saturate(a: _Array[_Int8OrUInt8], b: _Array[_Int8OrUInt8] | PackedB, *, trans_a: int = False,
                   trans_b: int = False, limit: SupportsIndex = 1000) -> Saturation: ...
