"""The table of all operators, assembled from the families."""

from int8blas.onnx import (
    attention,
    control,
    dynamic,
    elementwise,
    fused,
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
    sessions,
    shape,
    windows,
)
from int8blas.onnx.table import Table

FAMILIES = (
    integer, dynamic, microsoft, fused, elementwise, shape, reduction, linear, attention, windows, normalization,
    resize, recurrent, generators, control, sequences, reference,
    sessions,
)  # fmt: skip
TABLE = Table(*(family.OPERATORS for family in FAMILIES))
