import numpy as np
import numpy.typing as npt

from int8blas.core.arrays import _Array, _Integers, _Memory, _Offset, _Real
from int8blas.gemm.packing import PackedB
from int8blas.gemm.sixteen_bits import PackedB16

def gemm_s16s16s32(alpha: _Real, a: _Array[np.int16], b: _Array[np.int16] | PackedB16, beta: _Real = 0.0,
                   c: npt.NDArray[np.int32] | _Memory | None = None, trans_a: int = False, trans_b: int = False,
                   overwrite_c: bool = False, *, offsetc: _Offset = "F", ao: _Integers = 0, bo: _Integers = 0,
                   co: _Integers = 0) -> npt.NDArray[np.int32]: ...
def gemm_s16s8s32(alpha: _Real, a: _Array[np.int16], b: _Array[np.int8] | PackedB, beta: _Real = 0.0,
                  c: npt.NDArray[np.int32] | _Memory | None = None, trans_a: int = False, trans_b: int = False,
                  overwrite_c: bool = False, *, offsetc: _Offset = "F", ao: _Integers = 0, bo: _Integers = 0,
                  co: _Integers = 0) -> npt.NDArray[np.int32]: ...
def gemm_u16s8s32(alpha: _Real, a: _Array[np.uint16], b: _Array[np.int8] | PackedB, beta: _Real = 0.0,
                  c: npt.NDArray[np.int32] | _Memory | None = None, trans_a: int = False, trans_b: int = False,
                  overwrite_c: bool = False, *, offsetc: _Offset = "F", ao: _Integers = 0, bo: _Integers = 0,
                  co: _Integers = 0) -> npt.NDArray[np.int32]: ...
def syrk_s16s64(alpha: int, a: _Array[np.int16], beta: int = 0, c: npt.NDArray[np.int64] | _Memory | None = None,
                trans: int = False, lower: int = False, overwrite_c: bool = False, *,
                ao: _Integers = 0) -> npt.NDArray[np.int64]: ...
