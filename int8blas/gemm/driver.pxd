# The GEMM driver, for modules that have set up a Problem.
from libc.stdint cimport int32_t, int64_t

from int8blas.gemm.path cimport Plan
from int8blas.gemm.problem cimport Problem


cdef int gemm(const Problem *g, int *threads=*) noexcept nogil
cdef void set_segment(Problem *part, const Problem *g, const Plan *p, int64_t segment, int32_t *sums) noexcept nogil
