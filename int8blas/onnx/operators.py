"""The table of all operators, assembled from the families."""

from int8blas.onnx import (
    attention,
    blocked,
    control,
    decoders,
    dynamic,
    elementwise,
    fused,
    generators,
    integer,
    learning,
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
    vision,
    windows,
)
from int8blas.onnx.table import MICROSOFT, Table

FAMILIES = (
    integer, dynamic, microsoft, blocked, decoders, fused, elementwise, shape, reduction, linear, attention, windows,
    normalization, resize, recurrent, generators, control, sequences, reference,
    sessions, learning, vision,
)  # fmt: skip
# The operators of ONNX that onnxruntime also has in its own domain.
OF_MICROSOFT = {"GatherND", "GridSample", "Pad", "Range", "Trilu"}
ROWS = [row for family in FAMILIES for row in family.OPERATORS]
TABLE = Table([*ROWS, *(row._replace(domain=MICROSOFT, since=1) for row in ROWS if row.name in OF_MICROSOFT)])
