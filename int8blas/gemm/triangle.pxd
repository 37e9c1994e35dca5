# A @ A.T, of which a triangle is computed (see triangle.pyx).
from int8blas.gemm.operand cimport SIGN_BIT
from int8blas.gemm.plan cimport WHOLE, Gemm, Plan, matrix_of, size_of_c

cdef enum:
    # From how many rows and how many k on a whole C pays for its mirror, which costs as much to store as the other
    # half costs to compute below them; and from how many k if C has more bytes than caches hold.
    WHOLE_ROWS = 64
    WHOLE_K = 64
    LARGE_C = 8 << 20
    LARGE_K = 128
    # From how many multiply-adds of the whole product on, if there are several threads, which meet twice here.
    SHARED_WORK = 1 << 23


cdef bint has_same_zeros(const Gemm *g) noexcept nogil


cdef inline bint is_gram(const Gemm *g) noexcept nogil:
    """Whether B is A.T: the same bytes in the same memory, read as the same type, with the same zero points."""
    return (
        g.m == g.n and g.a.data == g.b.data and g.a.row == g.b.column and g.a.column == g.b.row
        and (g.a.flip ^ g.b.flip) == SIGN_BIT and g.packed is NULL and has_same_zeros(g)
    )


cdef inline bint takes_triangle(const Gemm *g) noexcept nogil:
    """Whether C is a triangle, or one and its mirror: a product that is symmetric to the last bit, without an old C.

    With numerics="saturating" it is not: a sum of two products depends on which of the operands was shifted. A matrix
    unit multiplies both halves sooner than vectors one.
    """
    if g.triangle != WHOLE:
        return True
    return (
        g.m >= WHOLE_ROWS and g.k >= (WHOLE_K if g.m * g.n * size_of_c(g) <= LARGE_C else LARGE_K) and is_gram(g)
        and (g.threads == 1 or <double>g.m * g.n * g.k >= SHARED_WORK) and not g.saturating
        and g.stage is NULL and g.beta == 0 and matrix_of(g) is NULL
        and g.co == 0 and g.co_rows is NULL and g.co_cols is NULL
    )


cdef void plan_triangle(const Gemm *g, Plan *p) noexcept nogil
cdef int gemm_triangle(const Gemm *g, const Plan *p) noexcept nogil
cdef size_t triangle_bytes(const Gemm *g, const Plan *p) noexcept nogil
