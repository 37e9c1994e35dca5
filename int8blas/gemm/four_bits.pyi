from typing import Any, final

import numpy as np
import numpy.typing as npt

from int8blas.gemm.packed import Packed

@final
class PackedB4(Packed):
    @property
    def bits(self) -> int: ...
    @property
    def dtype(self) -> np.dtype[np.int8 | np.uint8]: ...
    @property
    def data(self) -> npt.NDArray[np.uint8]: ...
    @property
    def column_sums(self) -> npt.NDArray[np.int64]: ...
    def unpack(self) -> npt.NDArray[Any]: ...
