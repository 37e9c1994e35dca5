"""Apply the epilogue of the kernel table (csrc/stage/output_body.h) to the sums of a tile."""

from libc.stddef cimport ptrdiff_t
from libc.stdint cimport int32_t, int64_t

from int8blas.core.kernels cimport i8_output_args
from int8blas.gemm.problem cimport element, row_scales_from


cdef void output(const Problem *g, i8_output_args *o, const int32_t *tile, int rows, int cols, ptrdiff_t tile_row,
                 int64_t row, int64_t column) noexcept nogil:
    """Apply the epilogue to a tile, and store it to C; `o` has the zero points, or NULL."""
    set_target(g, o)
    o.rows, o.cols = rows, cols
    o.row, o.column = row, column
    o.acc32, o.acc_row = tile, tile_row
    o.row_scale = row_scales_from(g, row)
    o.c = element(&g.c, row, column)
    g.kernels.stage.output(o)
