from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

def real_attention(
    q: npt.ArrayLike,
    k: npt.ArrayLike,
    v: npt.ArrayLike,
    mask: npt.ArrayLike | None = None,
    *,
    scales: Sequence[float] = (1, 1, 1),
) -> npt.NDArray[np.float32]: ...
