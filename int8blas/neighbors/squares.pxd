# Sums of squares of rows (see squares.pyx).
from libc.stddef cimport ptrdiff_t
from libc.stdint cimport int32_t, int64_t, uint8_t
cimport int8blas.core.cnumpy as cnp

from int8blas.core.kernels cimport i8_kernels

cdef enum:
    # Up to this K sums of squares fit int32: 2**31 // 255**2.
    SHORT_SQUARES_K = 33025


# Rows of bytes.
cdef struct Rows:
    const uint8_t *data
    int64_t count, k
    ptrdiff_t row_stride, k_stride
    bint is_signed


cdef bint pays_for_threads(cnp.ndarray x) noexcept
cdef cnp.ndarray row_squares(cnp.ndarray x, int threads)
cdef void short_row_squares(cnp.ndarray x, int32_t *squares, int threads) noexcept
cdef void add_short_squares(const i8_kernels *kernels, const Rows *x, int32_t *squares) noexcept nogil
