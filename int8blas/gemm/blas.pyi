import numpy as np
import numpy.typing as npt

from int8blas.core.arrays import _Array, _Integers, _Memory, _Numerics, _Offset, _Real, _UInt8
from int8blas.gemm.four_bits import PackedB4
from int8blas.gemm.packing import PackedB

def gemm_u8s8s32(alpha: _Real, a: _Array[_UInt8], b: _Array[np.int8] | PackedB, beta: _Real = 0.0,
                 c: npt.NDArray[np.int32] | _Memory | None = None, trans_a: int = False, trans_b: int = False,
                 overwrite_c: bool = False, *, offsetc: _Offset = "F", ao: _Integers = 0, bo: _Integers = 0,
                 co: _Integers = 0, numerics: _Numerics = "exact") -> npt.NDArray[np.int32]: ...
def gemm_s8s8s32(alpha: _Real, a: _Array[np.int8], b: _Array[np.int8] | PackedB, beta: _Real = 0.0,
                 c: npt.NDArray[np.int32] | _Memory | None = None, trans_a: int = False, trans_b: int = False,
                 overwrite_c: bool = False, *, offsetc: _Offset = "F", ao: _Integers = 0, bo: _Integers = 0,
                 co: _Integers = 0, numerics: _Numerics = "exact") -> npt.NDArray[np.int32]: ...
def gemm_s8u8s32(alpha: _Real, a: _Array[np.int8], b: _Array[_UInt8] | PackedB, beta: _Real = 0.0,
                 c: npt.NDArray[np.int32] | _Memory | None = None, trans_a: int = False, trans_b: int = False,
                 overwrite_c: bool = False, *, offsetc: _Offset = "F", ao: _Integers = 0, bo: _Integers = 0,
                 co: _Integers = 0, numerics: _Numerics = "exact") -> npt.NDArray[np.int32]: ...
def gemm_u8u8s32(alpha: _Real, a: _Array[_UInt8], b: _Array[_UInt8] | PackedB, beta: _Real = 0.0,
                 c: npt.NDArray[np.int32] | _Memory | None = None, trans_a: int = False, trans_b: int = False,
                 overwrite_c: bool = False, *, offsetc: _Offset = "F", ao: _Integers = 0, bo: _Integers = 0,
                 co: _Integers = 0, numerics: _Numerics = "exact") -> npt.NDArray[np.int32]: ...
def gemm_u8s4s32(alpha: _Real, a: _Array[_UInt8], b: PackedB4, beta: _Real = 0.0,
                 c: npt.NDArray[np.int32] | _Memory | None = None, trans_a: int = False, trans_b: int = False,
                 overwrite_c: bool = False, *, offsetc: _Offset = "F", ao: _Integers = 0, bo: _Integers = 0,
                 co: _Integers = 0, numerics: _Numerics = "exact") -> npt.NDArray[np.int32]: ...
def gemm_s8s4s32(alpha: _Real, a: _Array[np.int8], b: PackedB4, beta: _Real = 0.0,
                 c: npt.NDArray[np.int32] | _Memory | None = None, trans_a: int = False, trans_b: int = False,
                 overwrite_c: bool = False, *, offsetc: _Offset = "F", ao: _Integers = 0, bo: _Integers = 0,
                 co: _Integers = 0, numerics: _Numerics = "exact") -> npt.NDArray[np.int32]: ...
