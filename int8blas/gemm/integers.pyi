from typing import Any

import numpy as np
import numpy.typing as npt

def operand(x: Any, name: str) -> npt.NDArray[Any]: ...
def output_for(out: Any, dtype: Any, shape: tuple[int, ...]) -> tuple[npt.NDArray[Any], np.dtype[Any]]: ...
