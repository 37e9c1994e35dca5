from int8blas.gemm.plan cimport Gemm, Plan


cdef int gemm_dots(const Gemm *g, const Plan *p) noexcept nogil
