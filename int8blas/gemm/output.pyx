"""Apply the epilogue of the kernel table (csrc/stage/output_body.h) to the sums of a tile."""

from libc.stddef cimport ptrdiff_t
from libc.stdint cimport int32_t, int64_t

from libc.string cimport memset

from int8blas.core.kernels cimport I8_INT_S32, I8_MAX_COLUMNS, I8_TYPE_S32, i8_output_args
from int8blas.gemm.problem cimport element, is_identity, row_scales_from


cdef void output(const Problem *g, i8_output_args *o, const int32_t *tile, int rows, int cols, ptrdiff_t tile_row,
                 int64_t row, int64_t column) noexcept nogil:
    """Apply the epilogue to a tile, and store it to C. The caller sets the pointers to zero points in `o`."""
    set_target(g, o)
    o.rows, o.cols = rows, cols
    o.row, o.column = row, column
    o.acc32, o.acc_row = tile, tile_row
    o.row_scale = row_scales_from(g, row)
    o.c = element(&g.c, row, column)
    g.kernels.stage.output(o)


cdef bint only_saturates(const Problem *g, const WideSums *s) noexcept nogil:
    """Return whether the epilogue only saturates sums to s32, and there are no zero points."""
    return is_identity(&g.epilogue) and g.epilogue.type == I8_TYPE_S32 and s.ao is NULL and s.bo is NULL


cdef void store_sums(const Problem *g, const WideSums *s) noexcept nogil:
    """Apply the epilogue to the sums of a product, and store C: row by row if the epilogue only saturates, otherwise
    tile by tile."""
    cdef i8_output_args o
    cdef int64_t row = 0, column
    if only_saturates(g, s):
        for row in range(g.m):
            if g.kernels.wide.saturate[I8_INT_S32](element(&g.c, row, 0), g.c.column, s.sums + row * g.n, g.n):
                g.epilogue.saturated[0] = True
        return
    memset(&o, 0, sizeof(o))
    set_target(g, &o)
    o.acc_row = g.n
    while row < g.m:
        o.rows, column = <int>min(<int64_t>I8_MAX_COLUMNS, g.m - row), 0
        o.ao = NULL if s.ao is NULL else s.ao + row
        o.row_term = NULL if s.row_terms is NULL else s.row_terms + row
        o.row_scale = row_scales_from(g, row)
        while column < g.n:
            o.cols = <int>min(<int64_t>I8_MAX_COLUMNS, g.n - column)
            o.acc64 = s.sums + row * g.n + column
            o.col_sum = NULL if s.col_sums is NULL else s.col_sums + column
            o.bo = NULL if s.bo is NULL else s.bo + column
            o.c = element(&g.c, row, column)
            o.row, o.column = row, column
            g.kernels.stage.output(&o)
            column += o.cols
        row += o.rows
