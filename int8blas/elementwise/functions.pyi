from collections.abc import Iterable, Mapping
from typing import Any, Literal, SupportsIndex, TypeAlias, TypeVar, final, overload

import numpy as np
import numpy.typing as npt

from int8blas.core.arrays import _Array, _Float, _Int8OrUInt8, _OutT, _Real
from int8blas.stage.attributes import PostOp

_Element: TypeAlias = _Int8OrUInt8 | np.int32 | _Float
_T = TypeVar("_T", np.uint8, np.int8, np.int32, np.float32, np.float16)
_Scales: TypeAlias = Mapping[str, _Real] | None
_ZeroPoints: TypeAlias = Mapping[str, SupportsIndex] | None
_PostOps: TypeAlias = PostOp | Iterable[PostOp]
_Operation: TypeAlias = Literal["add", "sub", "mul", "div", "min", "max", "ge", "gt", "le", "lt", "eq", "ne"]
_Rounding: TypeAlias = Literal["float", "onnx"]

@overload
def eltwise(src: _Array[_T], ops: _PostOps, *, scales: _Scales = None, zero_points: _ZeroPoints = None,
            dst_dtype: None = None, scheme: _Rounding = "float",
            out: npt.NDArray[_T] | None = None) -> npt.NDArray[_T]: ...
@overload
def eltwise(src: _Array[_Element], ops: _PostOps, *, scales: _Scales = None, zero_points: _ZeroPoints = None,
            dst_dtype: npt.DTypeLike | None = None, scheme: _Rounding = "float", out: _OutT | None = None) -> _OutT: ...
@overload
def binary(op: _Operation, src0: _Array[_T], src1: _Array[_Element], *, scales: _Scales = None,
           zero_points: _ZeroPoints = None, post_ops: _PostOps = (), dst_dtype: None = None,
           scheme: _Rounding = "float", out: npt.NDArray[_T] | None = None) -> npt.NDArray[_T]: ...
@overload
def binary(op: _Operation, src0: _Array[_Element], src1: _Array[_Element], *, scales: _Scales = None,
           zero_points: _ZeroPoints = None, post_ops: _PostOps = (), dst_dtype: npt.DTypeLike | None = None,
           scheme: _Rounding = "float", out: _OutT | None = None) -> _OutT: ...
def sum(srcs: Iterable[_Array[_Element]], *, scales: Iterable[_Real] | None = None,
        zero_points: Iterable[SupportsIndex] | None = None, post_ops: _PostOps = (), dst_scale: _Real = 1,
        dst_zero_point: SupportsIndex = 0, dst_dtype: npt.DTypeLike | None = None,
        out: _OutT | None = None) -> _OutT: ...
def concat(srcs: Iterable[_Array[_Element]], axis: SupportsIndex, *, scales: Iterable[_Real] | None = None,
           zero_points: Iterable[SupportsIndex] | None = None, post_ops: _PostOps = (), dst_scale: _Real = 1,
           dst_zero_point: SupportsIndex = 0, dst_dtype: npt.DTypeLike | None = None,
           out: _OutT | None = None) -> _OutT: ...
def look_up(src: _Array[_Int8OrUInt8], table: npt.NDArray[_T], *,
            out: npt.NDArray[_T] | None = None) -> npt.NDArray[_T]: ...

@final
class PreparedTable:
    def __init__(self, table: npt.NDArray[Any]) -> None: ...
    def __call__(self, src: npt.NDArray[Any]) -> npt.NDArray[Any]: ...

@final
class PreparedEltwise:
    def __init__(self, ops: _PostOps) -> None: ...
    def __call__(self, src: npt.NDArray[Any], spare: npt.NDArray[Any] | None = None) -> npt.NDArray[Any]: ...

@final
class PreparedConcat:
    def __init__(self, tables: list[npt.NDArray[Any] | None], axis: int, dtype: np.dtype[Any]) -> None: ...
    def __call__(self, parts: tuple[npt.NDArray[Any], ...]) -> npt.NDArray[Any] | None: ...
    def again(self, parts: tuple[npt.NDArray[Any], ...]) -> npt.NDArray[Any] | None: ...

@final
class PreparedBinary:
    def __init__(self, op: _Operation, src_dtypes: tuple[np.dtype[Any], np.dtype[Any]], *, scales: _Scales = None,
                 zero_points: _ZeroPoints = None, post_ops: _PostOps = (), dst_dtype: npt.DTypeLike | None = None,
                 scheme: _Rounding = "float") -> None: ...
    def __call__(self, src0: npt.NDArray[Any], src1: npt.NDArray[Any]) -> npt.NDArray[Any]: ...
