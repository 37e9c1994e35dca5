# The GEMM driver, for the modules that have turned Python objects into a problem.
from int8blas._plan cimport Gemm


cdef int gemm(const Gemm *g) noexcept nogil
