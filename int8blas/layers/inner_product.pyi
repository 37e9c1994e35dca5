from collections.abc import Mapping, Sequence
from typing import Any, Literal, final, overload

import numpy as np
import numpy.typing as npt

from int8blas.core.arrays import _Array, _Float, _MemoryT, _Numerics
from int8blas.gemm.four_bits import PackedB4
from int8blas.gemm.packing import PackedB
from int8blas.stage.attributes import Attributes
from int8blas.stage.quantized_layer import QuantizedLayer

@final
class InnerProduct(QuantizedLayer):
    def __init__(self, weights: _Array[Any] | PackedB | PackedB4, bias: _Array[_Float | np.int32] | None = None, *,
                 src_dtype: npt.DTypeLike | None = None, dst_dtype: npt.DTypeLike | None = None,
                 attributes: Attributes | None = None, scales: Mapping[str, Any] | None = None,
                 zero_points: Mapping[str, Any] | None = None, dynamic: Literal["per_row", "per_tensor"] | None = None,
                 dynamic_dtype: npt.DTypeLike = "int8", numerics: _Numerics = "exact", group: int | None = None,
                 bits: Literal[8, 4] = 8) -> None: ...
    @classmethod
    def dynamic(cls, weights: _Array[Any] | PackedB | PackedB4, bias: _Array[Any] | None = None, *,
                dynamic: Literal["per_row", "per_tensor"] = "per_row", dynamic_dtype: npt.DTypeLike = "int8",
                src_dtype: npt.DTypeLike = "float32", dst_dtype: npt.DTypeLike = "float32",
                attributes: Attributes | None = None, scales: Mapping[str, Any] | None = None,
                zero_points: Mapping[str, Any] | None = None, numerics: _Numerics = "exact", group: int | None = None,
                bits: Literal[8, 4] = 8) -> InnerProduct: ...
    @property
    def group(self) -> int | None: ...
    @property
    def weights(self) -> PackedB | PackedB4: ...
    @property
    def bits(self) -> int: ...
    @overload
    def __call__(self, src: npt.ArrayLike, *, scales: Mapping[str, Any] | None = None,
                 zero_points: Mapping[str, Any] | None = None, operands: Sequence[npt.ArrayLike] | None = None,
                 out: npt.NDArray[Any] | None = None) -> npt.NDArray[Any]: ...
    @overload
    def __call__(self, src: npt.ArrayLike, *, scales: Mapping[str, Any] | None = None,
                 zero_points: Mapping[str, Any] | None = None, operands: Sequence[npt.ArrayLike] | None = None,
                 out: _MemoryT) -> _MemoryT: ...
    def _at(self, src: int, rows: int) -> npt.NDArray[np.float32]: ...
