# Very small problems (see tiny.pyx).
from int8blas.gemm.path cimport Description, Plan
from int8blas.gemm.problem cimport Problem


cdef bint takes_tiny(const Problem *g, const Plan *p) noexcept nogil
cdef int run_tiny(const Problem *g, const Plan *plan) noexcept nogil
cdef void describe_tiny(const Problem *g, const Plan *plan, Description *d) noexcept nogil
