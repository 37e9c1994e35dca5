from collections.abc import Callable
from typing import Any

from int8blas.convolution.layer import ConvolutionLayer
from int8blas.core.arrays import _Array, _Numerics
from int8blas.gemm.explanation import Explanation, WideExplanation
from int8blas.gemm.matmul import _AnyInteger
from int8blas.gemm.packed import Packed

def register(cls: type, function: Callable[..., Explanation]) -> None: ...
def plan_of(m: int, n: int, k: int, isa: str, machine: dict[str, int], packed: bool = False, b_columns: bool = False,
            tile: tuple[int, int] | None = None) -> dict[str, Any]: ...
def explain(a: _Array[_AnyInteger], b: _Array[_AnyInteger] | Packed | ConvolutionLayer, *, trans_a: int = False,
            trans_b: int = False, numerics: _Numerics = "exact") -> Explanation | WideExplanation: ...
