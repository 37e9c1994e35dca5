# Python objects become arrays and numbers of the right kind, or an error.
from libc.stddef cimport ptrdiff_t
from libc.stdint cimport int32_t, int64_t
cimport numpy as cnp

cdef cnp.ndarray operand(object x, str name, int typenum)
cdef cnp.ndarray int8_operand(object x, str name)
cdef cnp.ndarray output(object x, str name)
cdef int check_transpose(object flag, str name) except -1
cdef double real(object x, str name) except? -1
cdef bint check_numerics(object numerics) except -1
cdef cnp.ndarray integers(object x, str name, int64_t low, int64_t high, Py_ssize_t length, str count)
cdef bint overlap(cnp.ndarray x, cnp.ndarray y) noexcept
