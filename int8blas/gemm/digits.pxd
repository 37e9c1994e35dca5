# Products of 16-bit integers from products of their bytes (see digits.pyx).
cimport int8blas.core.cnumpy as cnp

from int8blas.gemm.wide cimport WideProduct


cdef bint uses_digits(const WideProduct *w) noexcept
cdef int multiply_digits(const WideProduct *w, cnp.ndarray x, object y, str name) except -1
