from typing import final

import numpy as np
import numpy.typing as npt

from int8blas.gemm.packed import Packed

@final
class PackedB16(Packed):
    @property
    def dtype(self) -> np.dtype[np.int16]: ...
    @property
    def data(self) -> npt.NDArray[np.int16]: ...
    @property
    def column_sums(self) -> npt.NDArray[np.int64]: ...
    def unpack(self) -> npt.NDArray[np.int16]: ...
