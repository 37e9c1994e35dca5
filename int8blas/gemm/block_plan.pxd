# How the general path divides a problem (see block_plan.pyx).
from int8blas.gemm.plan cimport Gemm, Plan


cdef void plan_blocks(const Gemm *g, Plan *p) noexcept nogil
