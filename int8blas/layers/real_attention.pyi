from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

def takes(q: npt.NDArray[Any], k: npt.NDArray[Any], v: npt.NDArray[Any],
          mask: npt.NDArray[Any] | None = None) -> bool: ...
def real_attention(q: npt.ArrayLike, k: npt.ArrayLike, v: npt.ArrayLike, mask: npt.ArrayLike | None = None, *,
                   scales: Sequence[float] = (1, 1, 1)) -> npt.NDArray[np.float32]: ...
