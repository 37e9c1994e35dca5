from int8blas.gemm.path cimport Description, Plan
from int8blas.gemm.problem cimport Problem


cdef bint takes_four_bits(const Problem *g, const Plan *p) noexcept nogil
cdef void plan_four_bits(const Problem *g, Plan *plan) noexcept nogil
cdef int run_four_bits(const Problem *g, const Plan *plan) noexcept nogil
cdef void describe_four_bits(const Problem *g, const Plan *plan, Description *d) noexcept nogil
