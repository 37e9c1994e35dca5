import numpy as np
import numpy.typing as npt

from int8blas.core.arrays import _Array, _Integers, _Memory, _Numerics, _Real, _UInt8

def syrk_u8s32(alpha: _Real, a: _Array[_UInt8], beta: _Real = 0.0, c: npt.NDArray[np.int32] | _Memory | None = None,
               trans: int = False, lower: int = False, overwrite_c: bool = False, *, ao: _Integers = 0,
               numerics: _Numerics = "exact") -> npt.NDArray[np.int32]: ...
def syrk_s8s32(alpha: _Real, a: _Array[np.int8], beta: _Real = 0.0, c: npt.NDArray[np.int32] | _Memory | None = None,
               trans: int = False, lower: int = False, overwrite_c: bool = False, *, ao: _Integers = 0,
               numerics: _Numerics = "exact") -> npt.NDArray[np.int32]: ...
