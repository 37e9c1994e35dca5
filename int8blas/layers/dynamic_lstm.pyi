from collections.abc import Mapping
from typing import Literal, TypeAlias, final, overload

import numpy as np
import numpy.typing as npt

from int8blas.core.arrays import _Array, _Float, _MemoryT

_Direction: TypeAlias = Literal["left2right", "right2left", "bidirectional_concat"]
_Scales: TypeAlias = Mapping[str, Literal["per_channel", "per_tensor"] | npt.ArrayLike]

@final
class DynamicLSTM:
    input_size: int
    units: int
    directions: int
    direction: _Direction
    def __init__(self, weights_layer: _Array[np.int8 | np.uint8 | np.float32],
                 weights_iter: _Array[np.int8 | np.uint8 | np.float32], bias: _Array[_Float] | None = None, *,
                 scales: _Scales | None = None, zero_points: Mapping[str, npt.ArrayLike] | None = None,
                 direction: _Direction = "left2right") -> None: ...
    @overload
    def __call__(self, src: npt.ArrayLike, h0: _Array[_Float] | None = None, c0: _Array[_Float] | None = None, *,
                 lengths: npt.ArrayLike | None = None,
                 out: npt.NDArray[np.float32] | None = None
                 ) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32], npt.NDArray[np.float32]]: ...
    @overload
    def __call__(self, src: npt.ArrayLike, h0: _Array[_Float] | None = None, c0: _Array[_Float] | None = None, *,
                 lengths: npt.ArrayLike | None = None,
                 out: _MemoryT) -> tuple[_MemoryT, npt.NDArray[np.float32], npt.NDArray[np.float32]]: ...
