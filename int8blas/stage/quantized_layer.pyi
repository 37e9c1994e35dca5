from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from typing_extensions import disjoint_base

from int8blas.stage.attributes import Attributes

@disjoint_base
class QuantizedLayer:
    weights_shape: tuple[int, ...]
    src_dtype: np.dtype[Any]
    dst_dtype: np.dtype[Any]
    attributes: Attributes
    @property
    def scales(self) -> Mapping[str, Any]: ...
    @property
    def zero_points(self) -> Mapping[str, Any]: ...
    @property
    def bias(self) -> npt.NDArray[np.float32 | np.int32] | None: ...
