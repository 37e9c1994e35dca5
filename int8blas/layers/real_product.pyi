import numpy as np
import numpy.typing as npt

from int8blas.gemm.packing import PackedB

class RealProduct:
    def __init__(self, weights: npt.ArrayLike | PackedB, scale: npt.ArrayLike) -> None: ...
    def __call__(self, x: npt.ArrayLike) -> npt.NDArray[np.float32]: ...
