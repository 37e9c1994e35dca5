from collections.abc import Callable
from typing import Any

from int8blas.convolution.layer import ConvolutionLayer
from int8blas.core.arrays import _Array, _Int8OrUInt8, _Numerics
from int8blas.gemm.explanation import Explanation
from int8blas.gemm.packing import PackedB

def register(cls: type, function: Callable[..., Explanation]) -> None: ...
def plan_of(
    m: int,
    n: int,
    k: int,
    isa: str,
    machine: dict[str, int],
    packed: bool = False,
    b_columns: bool = False,
    tile: tuple[int, int] | None = None,
) -> dict[str, Any]: ...
def explain(
    a: _Array[_Int8OrUInt8],
    b: _Array[_Int8OrUInt8] | PackedB | ConvolutionLayer,
    *,
    trans_a: int = False,
    trans_b: int = False,
    numerics: _Numerics = "exact",
) -> Explanation: ...
