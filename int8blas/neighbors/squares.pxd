# Sums of squares of the rows of arrays (see squares.pyx).
from libc.stdint cimport int32_t
cimport int8blas.core.cnumpy as cnp


cdef bint pays_for_threads(cnp.ndarray x) noexcept
cdef cnp.ndarray row_squares(cnp.ndarray x, int threads)
cdef void short_row_squares(cnp.ndarray x, int32_t *squares, int threads) noexcept
