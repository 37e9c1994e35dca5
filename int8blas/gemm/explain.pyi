from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from int8blas.convolution.layer import ConvolutionLayer
from int8blas.core.arrays import _Array, _Int8OrUInt8, _Numerics
from int8blas.gemm.packing import PackedB

PATHS: dict[str, str]
MULTIPLY_ADDS: dict[str, str]

@dataclass(frozen=True)
class Explanation:
    shape: tuple[int, int, int]
    path: str
    isa: str
    numerics: str
    tile: tuple[int, int]
    block: tuple[int, int, int] | None
    threads: int
    thread_grid: tuple[int, int] | None
    k_parts: int
    segments: int
    max_threads: int
    workspace: int
    b_is_packed: bool
    a_in_place: bool
    a_shifted: bool
    b_shifted: bool
    wide_sums: bool
    may_widen: bool
    transposed: bool
    certified_panels: tuple[int, int] | None
    split_panels: tuple[int, int] | None
    a_quantized: bool
    multiply_adds: dict[str, int] | None = None
    @property
    def kernel(self) -> str: ...

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
