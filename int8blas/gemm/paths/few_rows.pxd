from libc.stdint cimport int64_t

from int8blas.gemm.path cimport Description, Plan
from int8blas.gemm.problem cimport Problem


cdef struct FewRowsPlan:
    Plan common
    bint row_of_ones            # A gets a row of ones, for column sums of B
    bint centered               # the zero point is subtracted from the only row of A before the product
    bint staged                 # the path copies rows of B before it multiplies them
    int64_t head                # columns before the first block that is aligned, if blocks are
    int64_t ahead               # i8_few_rows_args.ahead
    int64_t kc                  # k of the rows of B that are read side by side
    int64_t blocks              # blocks of a row kernel's columns in N
    int64_t nc                  # blocks whose sums are kept at a time


cdef bint takes_few_rows(const Problem *g, const Plan *p) noexcept nogil
cdef void plan_few_rows(const Problem *g, Plan *plan) noexcept nogil
cdef int run_few_rows(const Problem *g, const Plan *plan) noexcept nogil
cdef void describe_few_rows(const Problem *g, const Plan *plan, Description *d) noexcept nogil
