from typing import Any

import numpy as np
import numpy.typing as npt

def reduce_windows(x: npt.NDArray[np.floating[Any]], axis: int, window: tuple[int, ...], count: int,
                   maximum: bool) -> npt.NDArray[Any]: ...
def add_windows(parts: npt.NDArray[np.floating[Any]], windows: tuple[tuple[int, ...], ...],
                sizes: tuple[int, ...]) -> npt.NDArray[Any]: ...
def add_weighted(x: npt.NDArray[np.floating[Any]], axis: int, index: npt.NDArray[np.int64],
                 weights: npt.NDArray[np.floating[Any]]) -> npt.NDArray[Any]: ...
