# Problems that are small, which several paths ask for.
from int8blas.core.kernels cimport I8_DOT2, I8_PANEL
from int8blas.gemm.problem cimport WHOLE, Problem, least_work

cdef enum:
    # small_k: rows that pay for shifting B, columns for loading a row of A, elements of C for the plan.
    SMALL_K_ROWS = 64
    SMALL_K_COLUMNS = 64
    SMALL_K_ELEMENTS = 3 << 14
    # tiny: packed B and its start values fit on the stack, and one thread is done before another would wake.
    TINY_K = 256
    TINY_COLUMNS = 8 * I8_PANEL
    # Up to how many rows, and multiply-adds of the whole product, a triangle is taken from all of C: VNNI multiplies
    # bytes that lie in rows so fast that up to 64 x 64 x 64 preparing them for a triangle takes longer.
    TINY_TRIANGLE = 64
    TINY_ROWS_WORK = 1 << 18
    TINY_TRIANGLE_WORK = 1 << 13


cdef inline bint is_small_k(const Problem *g) noexcept nogil:
    """Return whether the sizes of a problem are those of the path small_k."""
    return (
        0 < g.k <= g.kernels.gemm.small_k_limit and g.m >= SMALL_K_ROWS and g.n >= SMALL_K_COLUMNS
        and g.m * g.n >= SMALL_K_ELEMENTS
        and not g.saturating
    )


cdef inline bint is_tiny(const Problem *g) noexcept nogil:
    """Return whether a problem without a triangle is small, and has no epilogue of a primitive."""
    return (
        g.k <= TINY_K and g.n <= TINY_COLUMNS and g.m <= g.kernels.tuning.tiny_work
        and g.m * g.n * g.k <= g.kernels.tuning.tiny_work
        and (g.threads <= 1 or g.kernels.matrix is not NULL or g.m * g.n * g.k < least_work(g))
        and g.stage is NULL and g.triangle == WHOLE and not is_small_k(g)
    )


cdef inline bint is_tiny_triangle(const Problem *g) noexcept nogil:
    """Return whether a triangle is sooner taken from all of C, as the path tiny computes it."""
    cdef bint is_fast = g.a.column == 1 and g.kernels.gemm.exact != I8_DOT2
    return (
        g.triangle != WHOLE and g.n <= TINY_TRIANGLE and g.k <= TINY_K
        and g.n * g.n * g.k <= (TINY_ROWS_WORK if is_fast else TINY_TRIANGLE_WORK) and g.beta == 0
        and g.stage is NULL and not g.saturating
    )
