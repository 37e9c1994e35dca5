from int8blas.gemm.path cimport Description, Plan
from int8blas.gemm.problem cimport Problem


cdef bint takes_blocks(const Problem *g, const Plan *p) noexcept nogil
cdef int run_blocks(const Problem *g, const Plan *plan) noexcept nogil
cdef void describe_blocks(const Problem *g, const Plan *plan, Description *d) noexcept nogil
