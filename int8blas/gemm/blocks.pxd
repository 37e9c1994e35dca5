from int8blas.gemm.plan cimport Gemm, Plan


cdef int gemm_blocks(const Gemm *g, const Plan *p) noexcept nogil
