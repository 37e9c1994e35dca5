from typing import Any

import numpy as np
import numpy.typing as npt

def erf(x: npt.NDArray[np.float32], table: npt.NDArray[np.float32]) -> npt.NDArray[Any]: ...
def in_c_order(x: npt.NDArray[Any]) -> npt.NDArray[Any]: ...
