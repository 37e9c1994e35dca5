from collections.abc import Sequence
from typing import Any, Literal, SupportsFloat, SupportsIndex, TypeAlias

import numpy as np
import numpy.typing as npt

from int8blas._explanation import Explanation
from int8blas.packing import PackedB, _Array, _Int8OrUInt8

_Real: TypeAlias = SupportsFloat | SupportsIndex
_Integers: TypeAlias = SupportsIndex | Sequence[SupportsIndex] | _Array[np.integer[Any]]
_Numerics: TypeAlias = Literal["exact", "saturating"]
_Offset: TypeAlias = Literal["F", "C", "R", "f", "c", "r"]

def gemm_u8s8s32(
    alpha: _Real,
    a: _Array[np.uint8],
    b: _Array[np.int8] | PackedB,
    beta: _Real = 0.0,
    c: npt.NDArray[np.int32] | None = None,
    trans_a: int = False,
    trans_b: int = False,
    overwrite_c: bool = False,
    *,
    offsetc: _Offset = "F",
    ao: _Integers = 0,
    bo: _Integers = 0,
    co: _Integers = 0,
    numerics: _Numerics = "exact",
) -> npt.NDArray[np.int32]: ...
def gemm_s8s8s32(
    alpha: _Real,
    a: _Array[np.int8],
    b: _Array[np.int8] | PackedB,
    beta: _Real = 0.0,
    c: npt.NDArray[np.int32] | None = None,
    trans_a: int = False,
    trans_b: int = False,
    overwrite_c: bool = False,
    *,
    offsetc: _Offset = "F",
    ao: _Integers = 0,
    bo: _Integers = 0,
    co: _Integers = 0,
    numerics: _Numerics = "exact",
) -> npt.NDArray[np.int32]: ...
def gemm_s8u8s32(
    alpha: _Real,
    a: _Array[np.int8],
    b: _Array[np.uint8] | PackedB,
    beta: _Real = 0.0,
    c: npt.NDArray[np.int32] | None = None,
    trans_a: int = False,
    trans_b: int = False,
    overwrite_c: bool = False,
    *,
    offsetc: _Offset = "F",
    ao: _Integers = 0,
    bo: _Integers = 0,
    co: _Integers = 0,
    numerics: _Numerics = "exact",
) -> npt.NDArray[np.int32]: ...
def gemm_u8u8s32(
    alpha: _Real,
    a: _Array[np.uint8],
    b: _Array[np.uint8] | PackedB,
    beta: _Real = 0.0,
    c: npt.NDArray[np.int32] | None = None,
    trans_a: int = False,
    trans_b: int = False,
    overwrite_c: bool = False,
    *,
    offsetc: _Offset = "F",
    ao: _Integers = 0,
    bo: _Integers = 0,
    co: _Integers = 0,
    numerics: _Numerics = "exact",
) -> npt.NDArray[np.int32]: ...
def matmul(
    a: _Array[_Int8OrUInt8],
    b: _Array[_Int8OrUInt8] | PackedB,
    *,
    out: npt.NDArray[np.int32] | None = None,
    ao: _Integers = 0,
    bo: _Integers = 0,
    numerics: _Numerics = "exact",
) -> npt.NDArray[np.int32]: ...
def explain(
    a: _Array[_Int8OrUInt8],
    b: _Array[_Int8OrUInt8] | PackedB,
    *,
    trans_a: int = False,
    trans_b: int = False,
    numerics: _Numerics = "exact",
) -> Explanation: ...
