from typing import TypeVar, overload

import numpy as np
import numpy.typing as npt

from int8blas.core.arrays import _Array, _Int8OrUInt8, _MemoryT
from int8blas.elementwise.pooling import _Layout, _Padding, _Sizes

_Q = TypeVar("_Q", np.uint8, np.int8)

@overload
def im2col(src: _Array[_Q], kernel: _Sizes, *, strides: _Sizes = 1, padding: _Padding = 0, dilation: _Sizes = 1,
           groups: int = 1, layout: _Layout = None, padding_value: int = 0,
           out: npt.NDArray[_Q] | None = None) -> npt.NDArray[_Q]: ...
@overload
def im2col(src: _Array[_Int8OrUInt8], kernel: _Sizes, *, strides: _Sizes = 1, padding: _Padding = 0,
           dilation: _Sizes = 1, groups: int = 1, layout: _Layout = None, padding_value: int = 0,
           out: _MemoryT) -> _MemoryT: ...
