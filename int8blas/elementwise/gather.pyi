from collections.abc import Sequence
from typing import Any, Literal, SupportsIndex, TypeAlias

import numpy as np

from int8blas.core.arrays import _Array, _FloatsT, _Int8OrUInt8
from int8blas.elementwise.quantization import _Reals, _ZeroPoints

_Indices: TypeAlias = SupportsIndex | Sequence[Any] | _Array[np.integer[Any]]

def gather(table: _Array[_Int8OrUInt8], indices: _Indices, scale: _Reals = 1.0, zero_point: _ZeroPoints = 0, *,
           axis: Literal[0, 1, -1, -2] | None = None, out: _FloatsT | None = None) -> _FloatsT: ...
def sum_bags(table: _Array[np.int8], indices: _Indices, scales: _Array[np.float32], starts: _Array[np.int64],
             mean: bool) -> _Array[np.float32] | None: ...
