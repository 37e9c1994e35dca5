from libc.stdint cimport int64_t

from int8blas.core.split cimport round_up
from int8blas.gemm.plan cimport Gemm, Plan

cdef enum:
    # Rows of B whose distance is a multiple of this push one another out of an L1 cache with 8 or 12 ways.
    CONFLICT_BYTES = 2048
    # More rows than one row kernel takes read B in place if the last block of columns, which reaches back, repeats at
    # most this part of the others.
    REPEATED = 8
    MIN_ROWS_K = 64


cdef inline bint takes_few_rows(const Gemm *g) noexcept nogil:
    """Whether rows of B are read in place: A has few rows, and those of B are contiguous."""
    cdef int64_t width = g.kernels.gemm.few_rows_columns, repeated
    if g.packed is not NULL or g.b.column != 1 or g.m > g.kernels.tuning.few_rows_limit or g.n < width:
        return False
    if g.m <= g.kernels.gemm.few_rows_mr:
        return True
    repeated = round_up(g.n, width) - g.n
    return repeated * REPEATED <= g.n and g.k >= MIN_ROWS_K and g.b.row % CONFLICT_BYTES != 0


cdef void plan_few_rows(const Gemm *g, Plan *p) noexcept nogil
cdef int gemm_few_rows(const Gemm *g, const Plan *p) noexcept nogil
