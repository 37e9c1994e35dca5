# Very small problems (see tiny.pyx).
from int8blas.gemm.path cimport Plan
from int8blas.gemm.problem cimport Problem


cdef int run_tiny(const Problem *g, const Plan *plan) noexcept nogil
