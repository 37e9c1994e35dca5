from collections.abc import Mapping, Sequence
from typing import Any, Literal, Self, overload

import numpy as np
import numpy.typing as npt
from typing_extensions import disjoint_base

from int8blas.core.arrays import _Array, _Float, _MemoryT, _Numerics
from int8blas.core.spatial import Pair
from int8blas.elementwise.pooling import _Layout, _Padding, _Sizes
from int8blas.stage.attributes import Attributes
from int8blas.stage.quantized_layer import QuantizedLayer

@disjoint_base
class ConvolutionLayer(QuantizedLayer):
    strides: tuple[int, ...]
    padding: tuple[Pair, ...] | str
    dilation: tuple[int, ...]
    groups: int
    layout: str
    def __init__(self, weights: _Array[Any], bias: _Array[_Float | np.int32] | None = None, *, strides: _Sizes = 1,
                 padding: _Padding = 0, dilation: _Sizes = 1, groups: int = 1, layout: _Layout = None,
                 src_dtype: npt.DTypeLike, dst_dtype: npt.DTypeLike, attributes: Attributes | None = None,
                 scales: Mapping[str, Any] | None = None, zero_points: Mapping[str, Any] | None = None,
                 dynamic: Literal["per_image", "per_tensor"] | None = None, dynamic_dtype: npt.DTypeLike = "int8",
                 numerics: _Numerics = "exact") -> None: ...
    @classmethod
    def dynamic(cls, weights: _Array[Any], bias: _Array[_Float | np.int32] | None = None, **options: Any) -> Self: ...
    @overload
    def __call__(self, src: npt.ArrayLike, *, scales: Mapping[str, Any] | None = None,
                 zero_points: Mapping[str, Any] | None = None, operands: Sequence[npt.ArrayLike] | None = None,
                 out: npt.NDArray[Any] | None = None) -> npt.NDArray[Any]: ...
    @overload
    def __call__(self, src: npt.ArrayLike, *, scales: Mapping[str, Any] | None = None,
                 zero_points: Mapping[str, Any] | None = None, operands: Sequence[npt.ArrayLike] | None = None,
                 out: _MemoryT) -> _MemoryT: ...
