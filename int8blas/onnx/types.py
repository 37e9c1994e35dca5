"""The numbers that ONNX has for types."""

from __future__ import annotations

from typing import Any

import numpy as np

from int8blas.core.arrays import bfloat16_dtype

FLOAT32, STRING = 1, 8
DTYPES = {
    FLOAT32: "float32", 2: "uint8", 3: "int8", 4: "uint16", 5: "int16", 6: "int32", 7: "int64", STRING: "object",
    9: "bool", 10: "float16", 11: "float64", 12: "uint32", 13: "uint64", 14: "complex64", 15: "complex128",
}  # fmt: skip
BFLOAT16 = 16
# The integers of 8 bits.
BYTES = (np.dtype(np.uint8), np.dtype(np.int8))


def dtype_of(number: int) -> np.dtype[Any]:
    """The dtype of a number.

    Raises
    ------
    ValueError
        For those that have fewer than 8 bits or are floats of 8 bits.
    """
    if number == BFLOAT16:
        return np.dtype(bfloat16_dtype())
    if number not in DTYPES:
        raise ValueError(f"type must be one of {', '.join(DTYPES.values())} or bfloat16, got number {number} of ONNX")
    return np.dtype(DTYPES[number])
