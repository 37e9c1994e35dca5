from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

def real_filter(
    image: npt.NDArray[np.float32], weights: npt.NDArray[np.float32], offsets: Sequence[int], count: int
) -> npt.NDArray[np.float32]: ...
