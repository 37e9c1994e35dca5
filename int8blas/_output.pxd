# The way of sums to C (see _output.pyx).
from libc.stddef cimport ptrdiff_t
from libc.stdint cimport int32_t, int64_t

from int8blas._kernels cimport i8_output_args
from int8blas._plan cimport Gemm, Plan


cdef enum:
    # Sums that are gathered from several tiles for one run of the output stage.
    GATHERED = 3072


cdef void output(const Gemm *g, i8_output_args *o, const int32_t *tile, int rows, int cols, ptrdiff_t tile_row,
                 int64_t row, int64_t column) noexcept nogil
cdef void store(const Gemm *g, const Plan *p, const int32_t *tile, int rows, int cols, ptrdiff_t tile_row,
                int64_t row, int64_t column) noexcept nogil
