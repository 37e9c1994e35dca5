"""The table of all operators, put together of those of each family."""

from int8blas.onnx import (
    control,
    elementwise,
    generators,
    integer,
    linear,
    normalization,
    reduction,
    sequences,
    shape,
    windows,
)  # fmt: skip
from int8blas.onnx.table import Table

TABLE = Table(
    integer.OPERATORS,
    elementwise.OPERATORS,
    shape.OPERATORS,
    reduction.OPERATORS,
    linear.OPERATORS,
    windows.OPERATORS,
    normalization.OPERATORS,
    generators.OPERATORS,
    control.OPERATORS,
    sequences.OPERATORS,
)
