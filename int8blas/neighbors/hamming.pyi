from typing import overload

import numpy as np
import numpy.typing as npt

from int8blas.core.arrays import _Array, _MemoryT
from int8blas.gemm.packing import PackedB

# The type of the result is an array, although the distance of two rows is a scalar.
@overload
def hamming(x: _Array[np.uint8], y: _Array[np.uint8] | PackedB, *, out: None = None) -> npt.NDArray[np.int32]: ...
@overload
def hamming(x: _Array[np.uint8], y: _Array[np.uint8] | PackedB, *, out: _MemoryT) -> _MemoryT: ...
