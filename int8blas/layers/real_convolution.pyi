from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

def real_convolution(image: npt.ArrayLike, weights: npt.ArrayLike, bias: npt.ArrayLike | None = None, *,
                     strides: Sequence[int], dilations: Sequence[int], before: Sequence[int], outputs: Sequence[int],
                     groups: int = 1) -> npt.NDArray[np.float32]: ...
