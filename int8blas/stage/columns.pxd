# Values for each column, as kernels read them (see columns.pyx).
from libc.stdint cimport int64_t
cimport int8blas.core.cnumpy as cnp

from int8blas.core.kernels cimport i8_column_values


cdef cnp.ndarray padded(object values, int typenum)
cdef int set_columns(i8_column_values *columns, object values, list arrays) except -1
cdef cnp.ndarray products(cnp.ndarray values, float factor)
cdef float largest(object values) except? -1
cdef cnp.ndarray multiples(cnp.ndarray sums, int64_t factor)
cdef object one_scale(object value, bint divides)
cdef object one_integer(object value, object dtype)
