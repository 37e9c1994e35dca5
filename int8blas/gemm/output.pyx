"""Sums go to C by the output stage of the kernel table (csrc/stage/output_body.h)."""

from libc.stddef cimport ptrdiff_t
from libc.stdint cimport int32_t, int64_t

from int8blas.core.kernels cimport I8_MAX_COLUMNS, i8_output_args


cdef void output(const Problem *g, i8_output_args *o, const int32_t *tile, int rows, int cols, ptrdiff_t tile_row,
                 int64_t row, int64_t column) noexcept nogil:
    """A tile of at most I8_MAX_COLUMNS rows goes to C by the output stage; `o` has the zero points, or zeros."""
    cdef int32_t co_row[I8_MAX_COLUMNS]
    cdef int i
    for i in range(rows):
        co_row[i] = g.co
    o.rows, o.cols = rows, cols
    o.acc32, o.acc_row = tile, tile_row
    o.co_row = g.co_rows + row if g.co_rows is not NULL else co_row if g.co != 0 else NULL
    o.co_col = g.co_cols + column if g.co_cols is not NULL else NULL
    set_formula(g, o)
    o.c = g.c + row * g.c_row + column * g.c_col
    o.row, o.column = row, column
    o.row_scale = g.row_scales + row if g.row_scales is not NULL else NULL
    g.kernels.stage.output(o)
