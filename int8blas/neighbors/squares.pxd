# Sums of squares of rows (see squares.pyx).
from libc.stdint cimport int32_t, int64_t
cimport int8blas.core.cnumpy as cnp


cdef cnp.ndarray row_squares(cnp.ndarray x)
cdef cnp.ndarray as_int32(const int64_t *squares, int64_t count)
