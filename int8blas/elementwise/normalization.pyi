from collections.abc import Iterable, Mapping
from typing import Any, Literal, SupportsIndex, TypeAlias, overload

import numpy as np
import numpy.typing as npt
from typing_extensions import TypeVar

from int8blas.core.arrays import _Array, _Float, _Int8OrUInt8, _OutT, _Real
from int8blas.stage.attributes import PostOp

_Source: TypeAlias = _Array[_Int8OrUInt8 | np.int32 | _Float]
_Result = TypeVar("_Result", np.uint8, np.int8, np.float32, np.float16, default=np.float32)
_PostOps: TypeAlias = PostOp | Iterable[PostOp]
_Tensor: TypeAlias = Literal["src", "dst"]
_Scales: TypeAlias = Mapping[_Tensor, _Real] | None
_ZeroPoints: TypeAlias = Mapping[_Tensor, SupportsIndex] | None

@overload
def softmax(src: _Source, axis: SupportsIndex = -1, *, scales: _Scales = None, zero_points: _ZeroPoints = None,
            post_ops: _PostOps = (), log: bool = False, dst_dtype: type[_Result] | np.dtype[_Result] = ...,
            out: npt.NDArray[_Result] | None = None) -> npt.NDArray[_Result]: ...
@overload
def softmax(src: _Source, axis: SupportsIndex = -1, *, scales: _Scales = None, zero_points: _ZeroPoints = None,
            post_ops: _PostOps = (), log: bool = False, dst_dtype: npt.DTypeLike = ...,
            out: _OutT | None = None) -> _OutT: ...
@overload
def layer_norm(src: _Source, gamma: _Array[_Float] | None = None, beta: _Array[_Float] | None = None, *,
               epsilon: _Real = 1e-5, scales: _Scales = None, zero_points: _ZeroPoints = None, post_ops: _PostOps = (),
               dst_dtype: type[_Result] | np.dtype[_Result] = ...,
               out: npt.NDArray[_Result] | None = None) -> npt.NDArray[_Result]: ...
@overload
def layer_norm(src: _Source, gamma: _Array[_Float] | None = None, beta: _Array[_Float] | None = None, *,
               epsilon: _Real = 1e-5, scales: _Scales = None, zero_points: _ZeroPoints = None, post_ops: _PostOps = (),
               dst_dtype: npt.DTypeLike = ..., out: _OutT | None = None) -> _OutT: ...
def layer_norm_of_sum(src: npt.NDArray[Any], plus: npt.NDArray[Any], gamma: npt.NDArray[Any] | None = None,
                      beta: npt.NDArray[Any] | None = None, *, epsilon: float = 1e-5) -> npt.NDArray[Any]: ...
def rms_norm(src: npt.ArrayLike, gamma: npt.ArrayLike, *, epsilon: float = 1e-5) -> npt.NDArray[np.float32]: ...
