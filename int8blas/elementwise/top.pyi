from typing import Any

import numpy as np
import numpy.typing as npt

def top_k(x: npt.NDArray[Any], keys: npt.NDArray[Any], count: int,
          largest: bool) -> tuple[npt.NDArray[Any], npt.NDArray[np.int64]]: ...
