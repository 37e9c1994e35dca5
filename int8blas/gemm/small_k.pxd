from int8blas.gemm.plan cimport Gemm, Plan, is_thin


cdef inline bint takes_thin(const Gemm *g, const Plan *p) noexcept nogil:
    """Whether C is written row by row: K is small, C is not, and no micro-kernel has an output stage for it."""
    return is_thin(g) and g.stage is NULL and not p.to_output


cdef void plan_thin(const Gemm *g, Plan *p) noexcept nogil
cdef int gemm_thin(const Gemm *g, const Plan *p) noexcept nogil
