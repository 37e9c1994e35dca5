from typing import final, overload

import numpy as np
import numpy.typing as npt

from int8blas.core.arrays import _Array, _Float, _MemoryT
from int8blas.gemm.four_bits import PackedB4
from int8blas.gemm.packing import PackedB

@final
class RealProduct:
    bias: npt.NDArray[np.float32] | None
    zero_points: npt.NDArray[np.int32] | None
    def __init__(self, weights: _Array[np.int8 | np.uint8 | _Float] | PackedB | PackedB4,
                 scale: npt.ArrayLike | None = None, bias: _Array[_Float] | None = None, *, group: int | None = None,
                 bits: int = 8, zero_points: npt.ArrayLike | None = None) -> None: ...
    @property
    def weights(self) -> PackedB | PackedB4: ...
    @property
    def scale(self) -> npt.NDArray[np.float32]: ...
    @property
    def group(self) -> int | None: ...
    @overload
    def __call__(self, x: npt.ArrayLike, *, out: npt.NDArray[np.float32] | None = None) -> npt.NDArray[np.float32]: ...
    @overload
    def __call__(self, x: npt.ArrayLike, *, out: _MemoryT) -> _MemoryT: ...

def real_matmul(a: npt.ArrayLike, b: npt.ArrayLike) -> npt.NDArray[np.float32]: ...
