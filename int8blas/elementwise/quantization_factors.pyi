from typing import SupportsIndex, overload

import numpy as np
import numpy.typing as npt

from int8blas.core.arrays import _Real
from int8blas.elementwise.quantization import _Reals

def activation_factor(x: npt.ArrayLike) -> float: ...
@overload
def weights_factor(w: npt.ArrayLike, *, axis: None = None) -> float: ...
@overload
def weights_factor(w: npt.ArrayLike, *, axis: SupportsIndex | tuple[SupportsIndex, ...]) -> npt.NDArray[np.float64]: ...
def quantize_bias(bias: npt.ArrayLike, q_a: _Real, q_w: _Reals) -> npt.NDArray[np.int32]: ...
