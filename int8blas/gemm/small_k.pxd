from int8blas.gemm.plan cimport Gemm, Plan, are_plain_distances, is_small_k


cdef inline bint takes_small_k(const Gemm *g, const Plan *p) noexcept nogil:
    """Whether C is written row by row: K is small, C is not, and it is sums, distances, or what no micro-kernel has an
    output stage for."""
    return is_small_k(g) and g.stage is NULL and (not p.to_output or are_plain_distances(g))


cdef void plan_small_k(const Gemm *g, Plan *p) noexcept nogil
cdef int gemm_small_k(const Gemm *g, const Plan *p) noexcept nogil
