from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, SupportsIndex, TypeAlias, TypeVar, overload

import numpy as np
import numpy.typing as npt

from int8blas.core.arrays import _Array, _Int8OrUInt8, _OutT, _Real
from int8blas.stage.attributes import PostOp

_Q = TypeVar("_Q", np.uint8, np.int8)
_Sizes: TypeAlias = SupportsIndex | Sequence[SupportsIndex] | npt.NDArray[np.integer[Any]]
_Padding: TypeAlias = _Sizes | Sequence[SupportsIndex | Sequence[SupportsIndex]] | str
_Layout: TypeAlias = (
    Literal["nwc", "nhwc", "ndhwc", "ncw", "nchw", "ncdhw", "NWC", "NHWC", "NDHWC", "NCW", "NCHW", "NCDHW"] | None
)
_Tensor: TypeAlias = Literal["src", "dst"]
_Scales: TypeAlias = Mapping[_Tensor, _Real] | None
_ZeroPoints: TypeAlias = Mapping[_Tensor, SupportsIndex] | None
_PostOps: TypeAlias = PostOp | Iterable[PostOp]
_Flag: TypeAlias = bool | np.bool_ | SupportsIndex

@overload
def max_pool(src: _Array[_Q], kernel: _Sizes, *, strides: _Sizes | None = None, padding: _Padding = 0,
             dilation: _Sizes = 1, ceil_mode: _Flag = False, layout: _Layout = None, scales: _Scales = None,
             zero_points: _ZeroPoints = None, post_ops: _PostOps = (), dst_dtype: None = None,
             out: npt.NDArray[_Q] | None = None) -> npt.NDArray[_Q]: ...
@overload
def max_pool(src: _Array[_Int8OrUInt8], kernel: _Sizes, *, strides: _Sizes | None = None, padding: _Padding = 0,
             dilation: _Sizes = 1, ceil_mode: _Flag = False, layout: _Layout = None, scales: _Scales = None,
             zero_points: _ZeroPoints = None, post_ops: _PostOps = (), dst_dtype: npt.DTypeLike | None = None,
             out: _OutT | None = None) -> _OutT: ...
@overload
def avg_pool(src: _Array[_Q], kernel: _Sizes, *, strides: _Sizes | None = None, padding: _Padding = 0,
             include_padding: _Flag = False, zero_point: SupportsIndex = 0, ceil_mode: _Flag = False,
             layout: _Layout = None, scales: _Scales = None, zero_points: _ZeroPoints = None, post_ops: _PostOps = (),
             dst_dtype: None = None, out: npt.NDArray[_Q] | None = None) -> npt.NDArray[_Q]: ...
@overload
def avg_pool(src: _Array[_Int8OrUInt8], kernel: _Sizes, *, strides: _Sizes | None = None, padding: _Padding = 0,
             include_padding: _Flag = False, zero_point: SupportsIndex = 0, ceil_mode: _Flag = False,
             layout: _Layout = None, scales: _Scales = None, zero_points: _ZeroPoints = None, post_ops: _PostOps = (),
             dst_dtype: npt.DTypeLike | None = None, out: _OutT | None = None) -> _OutT: ...
@overload
def global_max_pool(src: _Array[_Q], *, layout: _Layout = None, scales: _Scales = None, zero_points: _ZeroPoints = None,
                    post_ops: _PostOps = (), dst_dtype: None = None,
                    out: npt.NDArray[_Q] | None = None) -> npt.NDArray[_Q]: ...
@overload
def global_max_pool(src: _Array[_Int8OrUInt8], *, layout: _Layout = None, scales: _Scales = None,
                    zero_points: _ZeroPoints = None, post_ops: _PostOps = (), dst_dtype: npt.DTypeLike | None = None,
                    out: _OutT | None = None) -> _OutT: ...
@overload
def global_avg_pool(src: _Array[_Q], *, layout: _Layout = None, scales: _Scales = None, zero_points: _ZeroPoints = None,
                    post_ops: _PostOps = (), dst_dtype: None = None,
                    out: npt.NDArray[_Q] | None = None) -> npt.NDArray[_Q]: ...
@overload
def global_avg_pool(src: _Array[_Int8OrUInt8], *, layout: _Layout = None, scales: _Scales = None,
                    zero_points: _ZeroPoints = None, post_ops: _PostOps = (), dst_dtype: npt.DTypeLike | None = None,
                    out: _OutT | None = None) -> _OutT: ...
