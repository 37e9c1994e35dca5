from libc.stdint cimport int64_t

from int8blas.gemm.path cimport Description, Plan
from int8blas.gemm.problem cimport Problem


cdef struct FewRowsPlan:
    Plan common
    bint row_of_ones            # A gets one, for column sums of B
    bint centered               # the only row of A is multiplied less its zero point
    bint staged                 # rows of B are copied before they are multiplied
    int64_t head                # columns before the first block that is aligned, if blocks are
    int64_t ahead               # i8_few_rows_args.ahead
    int64_t kc                  # k of rows of B that are walked along together
    int64_t blocks              # of a row kernel's columns, in all
    int64_t nc                  # blocks whose sums are carried at a time


cdef bint takes_few_rows(const Problem *g, const Plan *p) noexcept nogil
cdef void plan_few_rows(const Problem *g, Plan *plan) noexcept nogil
cdef int run_few_rows(const Problem *g, const Plan *plan) noexcept nogil
cdef void describe_few_rows(const Problem *g, const Plan *plan, Description *d) noexcept nogil
