import numpy as np
import numpy.typing as npt

def quantize_whole(x: npt.ArrayLike) -> tuple[npt.NDArray[np.uint8], float, int]: ...
