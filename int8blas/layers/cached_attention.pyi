from typing import Any

import numpy as np
import numpy.typing as npt

_Floats = npt.NDArray[np.float32]

def cached_attention(query: npt.ArrayLike, key: npt.ArrayLike, value: npt.ArrayLike, past_key: npt.ArrayLike | None,
                     past_value: npt.ArrayLike | None, last: npt.NDArray[Any], total: int, *, heads: int,
                     shared_heads: int, cos: npt.ArrayLike | None = None, sin: npt.ArrayLike | None = None,
                     positions: npt.ArrayLike | None = None, mask: npt.ArrayLike | None = None,
                     sinks: npt.ArrayLike | None = None, interleaved: bool = False, window: int = -1, scale: float = 0,
                     softcap: float = 0, in_place: bool = False) -> tuple[_Floats, _Floats, _Floats]: ...
