# A problem for the driver from Python arguments (see _problem.pyx).
from libc.stdint cimport int64_t
cimport numpy as cnp

from int8blas._plan cimport Gemm

cdef void start(Gemm *g, bint saturating) noexcept
cdef void set_a(Gemm *g, cnp.ndarray a, bint transpose) noexcept
cdef void set_b(Gemm *g, cnp.ndarray b, bint transpose) noexcept
cdef void set_c(Gemm *g, cnp.ndarray c) noexcept
cdef object set_operands(Gemm *g, object a, object b, int a_type, int b_type, object trans_a, object trans_b)
cdef cnp.ndarray set_zero_point(object value, str name, bint unsigned, Py_ssize_t length, str count, int64_t shift,
                                int64_t *scalar, const int64_t **vector)
cdef bint is_usable(cnp.ndarray c, cnp.ndarray a, object b)
cdef int run(const Gemm *g, str name) except -1
