"""The table of all operators, assembled from the families."""

from int8blas.onnx import (
    attention,
    control,
    dynamic,
    elementwise,
    generators,
    integer,
    linear,
    microsoft,
    normalization,
    recurrent,
    reduction,
    reference,
    resize,
    sequences,
    shape,
    windows,
)
from int8blas.onnx.table import Table

TABLE = Table(
    integer.OPERATORS,
    dynamic.OPERATORS,
    microsoft.OPERATORS,
    elementwise.OPERATORS,
    shape.OPERATORS,
    reduction.OPERATORS,
    linear.OPERATORS,
    attention.OPERATORS,
    windows.OPERATORS,
    normalization.OPERATORS,
    resize.OPERATORS,
    recurrent.OPERATORS,
    generators.OPERATORS,
    control.OPERATORS,
    sequences.OPERATORS,
    reference.OPERATORS,
)
