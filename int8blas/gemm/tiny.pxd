# Very small problems (see tiny.pyx).
from int8blas.gemm.plan cimport Gemm


cdef void gemm_tiny(const Gemm *g) noexcept nogil
cdef void gemm_tiny_triangle(const Gemm *g) noexcept nogil
