# Sums of squares in s32, which distances add to products (see squares.pyx).
from libc.stddef cimport ptrdiff_t
from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t

from int8blas.core.kernels cimport i8_kernels
from int8blas.gemm.problem cimport Problem

cdef enum:
    # The maximum K whose sums of squares fit int32: 2**31 // 255**2.
    SHORT_SQUARES_K = 33025
    # The number of rows that a thread sums at a time: four cache lines of an array with contiguous columns.
    SOME_ROWS = 256


# Rows of bytes with any strides.
cdef struct Rows:
    const uint8_t *data
    int64_t count, k
    ptrdiff_t row_stride, k_stride
    bint is_signed


cdef void add_short_squares(const i8_kernels *kernels, const Rows *x, int32_t *squares) noexcept nogil
cdef void add_panel_squares(const Problem *g, const int8_t *panel, int64_t k, const int64_t *sums, int64_t columns,
                            bint is_first, int32_t *squares) noexcept nogil
cdef void find_column_squares(const Problem *g, int threads) noexcept nogil
