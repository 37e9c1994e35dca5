from int8blas.gemm.path cimport Description, Plan
from int8blas.gemm.problem cimport Problem


cdef struct FewColumnsPlan:
    Plan common
    bint by_rows                # rows of A are read in place; otherwise columns of B
    bint far                    # the vectors that are read in place are in no cache


cdef bint takes_few_columns(const Problem *g, const Plan *p) noexcept nogil
cdef void plan_few_columns(const Problem *g, Plan *plan) noexcept nogil
cdef int run_few_columns(const Problem *g, const Plan *plan) noexcept nogil
cdef void describe_few_columns(const Problem *g, const Plan *plan, Description *d) noexcept nogil
