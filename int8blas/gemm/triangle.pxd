# A @ A.T, of which a triangle is computed (see triangle.pyx).
from libc.stdint cimport int64_t

from int8blas.core.kernels cimport I8_DOT2
from int8blas.gemm.operand cimport SIGN_BIT
from int8blas.gemm.plan cimport TINY_K, WHOLE, Gemm, Plan, is_tiny, matrix_of, size_of_c

cdef enum:
    # From how many rows and how many k on a whole C pays for its mirror, which costs as much to store as the other
    # half costs to compute below them: k that are widened, or bytes, by whether rows of A or its columns are
    # contiguous; and from how many k if C has more bytes than caches hold.
    WHOLE_ROWS = 64
    WHOLE_WIDENED_K = 64
    WHOLE_ROWS_K = 96
    WHOLE_COLUMNS_K = 80
    LARGE_C = 8 << 20
    LARGE_K = 128
    # With a matrix unit, which computes the other half sooner than its mirror is stored.
    MATRIX_WHOLE_K = 4096
    # From how many multiply-adds of the whole product on, if there are several threads, which meet twice here.
    SHARED_WORK = 1 << 23
    # Up to how many rows, and multiply-adds of the whole product, a triangle is taken from all of C: VNNI multiplies
    # bytes that lie in rows so fast that up to 64 x 64 x 64 preparing them for a triangle takes longer.
    TINY_TRIANGLE = 64
    TINY_ROWS_WORK = 1 << 18
    TINY_TRIANGLE_WORK = 1 << 13


cdef bint has_same_zeros(const Gemm *g) noexcept nogil


cdef inline bint is_gram(const Gemm *g) noexcept nogil:
    """Whether B is A.T: the same bytes in the same memory, read as the same type, with the same zero points."""
    return (
        g.m == g.n and g.a.data == g.b.data and g.a.row == g.b.column and g.a.column == g.b.row
        and (g.a.flip ^ g.b.flip) == SIGN_BIT and g.packed is NULL and has_same_zeros(g)
    )


cdef inline bint is_tiny_triangle(const Gemm *g) noexcept nogil:
    """Whether a triangle is sooner taken from all of C, as tiny computes it."""
    cdef bint is_fast = g.a.column == 1 and g.kernels.gemm.exact != I8_DOT2
    return (
        g.triangle != WHOLE and g.n <= TINY_TRIANGLE and g.k <= TINY_K
        and g.n * g.n * g.k <= (TINY_ROWS_WORK if is_fast else TINY_TRIANGLE_WORK) and g.beta == 0
        and g.stage is NULL and not g.saturating
    )


cdef inline int64_t whole_k(const Gemm *g) noexcept nogil:
    """From how many k on C pays for its mirror."""
    if g.m * g.n * size_of_c(g) > LARGE_C:
        return LARGE_K
    if g.kernels.gemm.exact == I8_DOT2:
        return WHOLE_WIDENED_K
    return WHOLE_ROWS_K if g.a.column == 1 else WHOLE_COLUMNS_K


cdef inline bint pays_for_whole(const Gemm *g) noexcept nogil:
    """Whether a triangle and its mirror take less time than all of C."""
    if g.m < WHOLE_ROWS or g.k < whole_k(g):
        return False
    if matrix_of(g) is not NULL and g.k < MATRIX_WHOLE_K:
        return False
    if is_tiny(g):
        # tiny packs an A by columns for each tile of its rows.
        return g.a.column != 1 or g.kernels.gemm.exact == I8_DOT2
    return g.threads == 1 or <double>g.m * g.n * g.k >= SHARED_WORK


cdef inline bint takes_triangle(const Gemm *g) noexcept nogil:
    """Whether C is a triangle, or one and its mirror: a product that is symmetric to the last bit, without an old C.

    With numerics="saturating" it is not: a sum of two products depends on which of the operands was shifted.
    """
    if g.triangle != WHOLE:
        return not is_tiny_triangle(g)
    return (
        pays_for_whole(g) and is_gram(g) and not g.saturating
        and g.stage is NULL and g.beta == 0
        and g.co == 0 and g.co_rows is NULL and g.co_cols is NULL
    )


cdef void plan_triangle(const Gemm *g, Plan *p) noexcept nogil
cdef int gemm_triangle(const Gemm *g, const Plan *p) noexcept nogil
cdef size_t triangle_bytes(const Gemm *g, const Plan *p) noexcept nogil
