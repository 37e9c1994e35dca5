# The way of sums to C (see output.pyx).
from libc.stddef cimport ptrdiff_t
from libc.stdint cimport int32_t, int64_t

from int8blas.core.kernels cimport i8_output_args
from int8blas.gemm.problem cimport Problem


cdef enum:
    # Sums that are gathered from several tiles for one run of the output stage.
    GATHERED = 3072


cdef inline void set_formula(const Problem *g, i8_output_args *o) noexcept nogil:
    """What an output stage makes of sums, and of which type."""
    o.stage = g.stage
    o.alpha, o.beta = g.alpha, g.beta
    o.integral = g.alpha == 1 and (g.beta == 0 or g.beta == 1)
    o.to_s64, o.saturated = g.to_s64, g.saturated
    o.c_row, o.c_col = g.c_row, g.c_col
    o.acc_f32 = NULL


cdef void output(const Problem *g, i8_output_args *o, const int32_t *tile, int rows, int cols, ptrdiff_t tile_row,
                 int64_t row, int64_t column) noexcept nogil
