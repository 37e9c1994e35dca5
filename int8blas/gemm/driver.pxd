# The GEMM driver, for the modules that have turned Python objects into a problem.
from libc.stdint cimport int32_t, int64_t

from int8blas.gemm.plan cimport Gemm, Plan


cdef int gemm(const Gemm *g) noexcept nogil
cdef void set_segment(Gemm *own, const Gemm *g, const Plan *p, int64_t segment, int32_t *sums) noexcept nogil
