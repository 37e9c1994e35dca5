import numpy as np
import numpy.typing as npt
from typing_extensions import disjoint_base

from int8blas.gemm.packing import PackedB

@disjoint_base
class RealProduct:
    def __init__(self, weights: npt.ArrayLike | PackedB, scale: npt.ArrayLike) -> None: ...
    def __call__(self, x: npt.ArrayLike) -> npt.NDArray[np.float32]: ...

def real_matmul(a: npt.ArrayLike, b: npt.ArrayLike) -> npt.NDArray[np.float32]: ...
