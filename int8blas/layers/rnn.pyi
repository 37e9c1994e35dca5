from collections.abc import Sequence
from typing import Any, Literal, TypeAlias, final, overload

import numpy as np
import numpy.typing as npt
from typing_extensions import disjoint_base

from int8blas.core.arrays import _Array, _Float, _MemoryT

_Weights: TypeAlias = _Array[np.int8 | np.float32] | Sequence[_Array[np.int8 | np.float32]]
_Bias: TypeAlias = _Array[_Float] | Sequence[_Array[_Float]] | None
_WeightsScale: TypeAlias = Literal["per_tensor", "per_channel"] | npt.ArrayLike | None
_Direction: TypeAlias = Literal["left2right", "right2left", "bidirectional_concat", "bidirectional_sum"]
_State: TypeAlias = _Array[np.uint8 | np.float32] | None

@disjoint_base
class RecurrentLayer:
    layers: int
    directions: int
    input_size: int
    units: int
    outputs: int
    direction: _Direction
    data_scale: float
    data_shift: int
    src_dtype: np.dtype[Any]
    dst_dtype: np.dtype[Any]

@final
class LSTM(RecurrentLayer):
    def __init__(self, weights_layer: _Weights, weights_iter: _Weights, bias: _Bias = None, *, data_scale: float = 127,
                 data_shift: int = 128, weights_scale: _WeightsScale = None, direction: _Direction = "left2right",
                 src_dtype: npt.DTypeLike = "uint8", dst_dtype: npt.DTypeLike = "uint8", weights_peephole: _Bias = None,
                 weights_projection: _Weights | None = None, projection_scale: _WeightsScale = None) -> None: ...
    @overload
    def __call__(self, src: npt.ArrayLike, h0: _State = None, c0: _Array[_Float] | None = None, *,
                 lengths: npt.ArrayLike | None = None,
                 out: npt.NDArray[Any] | None = None
                 ) -> tuple[npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[np.float32]]: ...
    @overload
    def __call__(self, src: npt.ArrayLike, h0: _State = None, c0: _Array[_Float] | None = None, *,
                 out: _MemoryT) -> tuple[_MemoryT, npt.NDArray[Any], npt.NDArray[np.float32]]: ...

@final
class GRU(RecurrentLayer):
    def __init__(self, weights_layer: _Weights, weights_iter: _Weights, bias: _Bias = None, *,
                 linear_before_reset: bool = False, data_scale: float = 127, data_shift: int = 128,
                 weights_scale: _WeightsScale = None, direction: _Direction = "left2right",
                 src_dtype: npt.DTypeLike = "uint8", dst_dtype: npt.DTypeLike = "uint8") -> None: ...
    @property
    def linear_before_reset(self) -> bool: ...
    @overload
    def __call__(self, src: npt.ArrayLike, h0: _State = None, *, lengths: npt.ArrayLike | None = None,
                 out: npt.NDArray[Any] | None = None,
                 attention: _State = None) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]: ...
    @overload
    def __call__(self, src: npt.ArrayLike, h0: _State = None, *, out: _MemoryT,
                 attention: _State = None) -> tuple[_MemoryT, npt.NDArray[Any]]: ...

@final
class RNN(RecurrentLayer):
    def __init__(self, weights_layer: _Weights, weights_iter: _Weights, bias: _Bias = None, *,
                 activation: Literal["tanh", "relu", "logistic"] = "tanh", alpha: float = 0.0, data_scale: float = 127,
                 data_shift: int = 128, weights_scale: _WeightsScale = None, direction: _Direction = "left2right",
                 src_dtype: npt.DTypeLike = "uint8", dst_dtype: npt.DTypeLike = "uint8") -> None: ...
    @property
    def activation(self) -> Literal["tanh", "relu", "logistic"]: ...
    @property
    def alpha(self) -> float: ...
    @overload
    def __call__(self, src: npt.ArrayLike, h0: _State = None, *, lengths: npt.ArrayLike | None = None,
                 out: npt.NDArray[Any] | None = None) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]: ...
    @overload
    def __call__(self, src: npt.ArrayLike, h0: _State = None, *,
                 out: _MemoryT) -> tuple[_MemoryT, npt.NDArray[Any]]: ...
