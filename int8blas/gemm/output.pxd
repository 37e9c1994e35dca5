# The epilogue, from sums to C (see output.pyx).
from libc.stddef cimport ptrdiff_t
from libc.stdint cimport int32_t, int64_t

from int8blas.core.kernels cimport i8_output_args
from int8blas.gemm.problem cimport Problem


cdef enum:
    # The number of sums that are gathered from several tiles for one call of the epilogue: 12 KiB, which leave most of
    # the L1 cache to B. 256 x 256 x 64 with alpha = 2 takes 28.9 us with 384 sums, 21.9 us with 1536 sums, 20.5 us with
    # 3072 sums and 19.8 us with 6144 sums (AVX512-VNNI, Zen 5).
    EPILOGUE_SUMS = 3072


# The sums of a whole product, m rows of n, and the vectors for the terms of zero points, as in i8_output_args. NULL
# stands for zeros. For the epilogue of a layer, I8_MAX_COLUMNS more values are readable after `sums` and after the
# vectors of columns.
cdef struct WideSums:
    const int64_t *sums
    const int64_t *ao
    const int64_t *col_sums
    const int64_t *bo
    const int64_t *row_terms


cdef inline void set_target(const Problem *g, i8_output_args *o) noexcept nogil:
    """Set the epilogue of sums, and the strides of C."""
    o.epilogue = &g.epilogue
    o.c_row, o.c_col = g.c.row, g.c.column
    o.acc_f32 = NULL


cdef void output(const Problem *g, i8_output_args *o, const int32_t *tile, int rows, int cols, ptrdiff_t tile_row,
                 int64_t row, int64_t column) noexcept nogil
cdef void store_sums(const Problem *g, const WideSums *s) noexcept nogil
