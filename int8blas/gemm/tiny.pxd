# Very small problems (see tiny.pyx).
from int8blas.gemm.plan cimport Gemm


cdef void gemm_tiny(const Gemm *g) noexcept nogil
cdef bint is_stored_by_tiles(const Gemm *g) noexcept nogil
cdef void gemm_tiny_by_tiles(const Gemm *g) noexcept nogil
cdef void gemm_tiny_triangle(const Gemm *g) noexcept nogil
