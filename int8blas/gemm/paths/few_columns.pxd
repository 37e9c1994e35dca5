from int8blas.gemm.path cimport Description, Plan
from int8blas.gemm.problem cimport Problem


cdef struct FewColumnsPlan:
    Plan common
    bint by_rows                # A is read in place by rows, rather than B by columns
    bint far                    # the vectors that are read in place come from memory


cdef bint takes_few_columns(const Problem *g, const Plan *p) noexcept nogil
cdef void plan_few_columns(const Problem *g, Plan *plan) noexcept nogil
cdef int run_few_columns(const Problem *g, const Plan *plan) noexcept nogil
cdef void describe_few_columns(const Problem *g, const Plan *plan, Description *d) noexcept nogil
