from libc.stdint cimport int64_t, uint8_t

from int8blas.core.kernels cimport i8_kernels
from int8blas.gemm.plan cimport Gemm, Plan, is_made, matrix_of

cdef enum:
    # Up to so many rows and columns of C all sums of a part of K are kept while both operands are read once.
    LONG_K_SIDE = 16
    # From how many k on, for each element of C, its sums in s64 pay; and how many vectors are worth copying where they
    # are not contiguous along k: more are packed for tiles in less time.
    MIN_LONG_K = 16
    COPIED_VECTORS = 8


cdef inline bint takes_long_k(const Gemm *g) noexcept nogil:
    """Whether C has few rows and columns, K is long, and both operands are plain."""
    return (
        g.m <= LONG_K_SIDE and g.n <= LONG_K_SIDE and g.k >= MIN_LONG_K * g.m * g.n
        and (g.a.column == 1 or g.m <= COPIED_VECTORS) and (g.b.row == 1 or g.n <= COPIED_VECTORS)
        and g.packed is NULL and g.stage is NULL and not g.saturating and not is_made(g)
        and (matrix_of(g) is NULL or g.n <= matrix_of(g).dots_columns)
    )


cdef inline int vectors_of_kernel(int left, int most) noexcept nogil:
    """The vectors of the next kernel: 4, 2 or 1."""
    return 4 if most >= 4 and left >= 4 else 2 if most >= 2 and left >= 2 else 1


# The product of two contiguous vectors, from arguments that are known to be some.
cdef struct Dot:
    const i8_kernels *kernels
    int64_t k
    const uint8_t *x
    const uint8_t *y
    bint x_signed, y_signed


cdef int dot_threads(const Dot *d, int threads) noexcept nogil
cdef int dot(const Dot *d, int threads, int64_t *sum) noexcept nogil

cdef void plan_long_k(const Gemm *g, Plan *p) noexcept nogil
cdef int gemm_long_k(const Gemm *g, const Plan *p) noexcept nogil
