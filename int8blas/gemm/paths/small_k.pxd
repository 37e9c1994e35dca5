from int8blas.gemm.path cimport Description, Plan
from int8blas.gemm.problem cimport Problem

cdef struct SmallKPlan:
    Plan common
    bint stream                 # streaming stores write C past the caches


cdef bint takes_small_k(const Problem *g, const Plan *p) noexcept nogil
cdef void plan_small_k(const Problem *g, Plan *plan) noexcept nogil
cdef int run_small_k(const Problem *g, const Plan *plan) noexcept nogil
cdef void describe_small_k(const Problem *g, const Plan *plan, Description *d) noexcept nogil
