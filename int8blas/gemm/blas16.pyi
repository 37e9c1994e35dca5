import numpy as np
import numpy.typing as npt

from int8blas.core.arrays import _Array, _Integers, _Memory, _Offset, _Real

def gemm_s16s16s32(
    alpha: _Real,
    a: _Array[np.int16],
    b: _Array[np.int16],
    beta: _Real = 0.0,
    c: npt.NDArray[np.int32] | _Memory | None = None,
    trans_a: int = False,
    trans_b: int = False,
    overwrite_c: bool = False,
    *,
    offsetc: _Offset = "F",
    ao: _Integers = 0,
    bo: _Integers = 0,
    co: _Integers = 0,
) -> npt.NDArray[np.int32]: ...
def gemm_s16s8s32(
    alpha: _Real,
    a: _Array[np.int16],
    b: _Array[np.int8],
    beta: _Real = 0.0,
    c: npt.NDArray[np.int32] | _Memory | None = None,
    trans_a: int = False,
    trans_b: int = False,
    overwrite_c: bool = False,
    *,
    offsetc: _Offset = "F",
    ao: _Integers = 0,
    bo: _Integers = 0,
    co: _Integers = 0,
) -> npt.NDArray[np.int32]: ...
def gemm_u16s8s32(
    alpha: _Real,
    a: _Array[np.uint16],
    b: _Array[np.int8],
    beta: _Real = 0.0,
    c: npt.NDArray[np.int32] | _Memory | None = None,
    trans_a: int = False,
    trans_b: int = False,
    overwrite_c: bool = False,
    *,
    offsetc: _Offset = "F",
    ao: _Integers = 0,
    bo: _Integers = 0,
    co: _Integers = 0,
) -> npt.NDArray[np.int32]: ...
