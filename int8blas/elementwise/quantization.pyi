from collections.abc import Sequence
from typing import Any, Literal, SupportsIndex, TypeAlias, overload

import numpy as np
import numpy.typing as npt
from typing_extensions import TypeVar

from int8blas.core.arrays import _Array, _Float, _FloatsT, _OutT, _Real

_Q = TypeVar("_Q", np.uint8, np.int8, np.int32, default=np.int8)
_Integer: TypeAlias = np.uint8 | np.int8 | np.int32
_Reals: TypeAlias = _Real | Sequence[Any] | _Array[np.floating[Any] | np.integer[Any]]
_ZeroPoints: TypeAlias = SupportsIndex | Sequence[Any] | _Array[np.integer[Any]]
_Axis: TypeAlias = SupportsIndex | tuple[SupportsIndex, ...] | None
_Scheme: TypeAlias = Literal["float", "doubling", "single", "onnx"]
_Rounding: TypeAlias = Literal["float", "onnx"]

@overload
def quantize(x: _Array[_Float], scale: _Reals, zero_point: _ZeroPoints = 0, dtype: type[_Q] | np.dtype[_Q] = ..., *,
             axis: _Axis = None, scheme: _Rounding = "float",
             out: npt.NDArray[_Q] | None = None) -> npt.NDArray[_Q]: ...
@overload
def quantize(x: _Array[_Float], scale: _Reals, zero_point: _ZeroPoints = 0, dtype: npt.DTypeLike = ..., *,
             axis: _Axis = None, scheme: _Rounding = "float", out: _OutT | None = None) -> _OutT: ...
def dequantize(x: _Array[_Integer], scale: _Reals, zero_point: _ZeroPoints = 0, *, axis: _Axis = None,
               out: _FloatsT | None = None) -> _FloatsT: ...
@overload
def requantize(x: _Array[np.int32], scale: _Reals, zero_point: _ZeroPoints = 0, dtype: type[_Q] | np.dtype[_Q] = ..., *,
               axis: _Axis = None, scheme: _Scheme = "float",
               out: npt.NDArray[_Q] | None = None) -> npt.NDArray[_Q]: ...
@overload
def requantize(x: _Array[np.int32], scale: _Reals, zero_point: _ZeroPoints = 0, dtype: npt.DTypeLike = ..., *,
               axis: _Axis = None, scheme: _Scheme = "float", out: _OutT | None = None) -> _OutT: ...
def quantized_multiplier(scale: _Real) -> tuple[int, int]: ...
