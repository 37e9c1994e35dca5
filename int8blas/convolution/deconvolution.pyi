from collections.abc import Mapping
from typing import Any, Literal, final

import numpy as np
import numpy.typing as npt

from int8blas.convolution.layer import ConvolutionLayer
from int8blas.core.arrays import _Array, _Float, _Numerics
from int8blas.elementwise.pooling import _Layout, _Padding, _Sizes
from int8blas.stage.attributes import Attributes

@final
class Deconvolution(ConvolutionLayer):
    output_padding: tuple[int, ...]
    def __init__(self, weights: _Array[Any], bias: _Array[_Float | np.int32] | None = None, *, strides: _Sizes = 1,
                 padding: _Padding = 0, output_padding: _Sizes = 0, dilation: _Sizes = 1, groups: int = 1,
                 layout: _Layout = None, src_dtype: npt.DTypeLike, dst_dtype: npt.DTypeLike,
                 attributes: Attributes | None = None, scales: Mapping[str, Any] | None = None,
                 zero_points: Mapping[str, Any] | None = None,
                 dynamic: Literal["per_image", "per_tensor"] | None = None, dynamic_dtype: npt.DTypeLike = "int8",
                 numerics: _Numerics = "exact") -> None: ...
