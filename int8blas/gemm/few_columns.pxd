from int8blas.core.kernels cimport I8_DOT4, i8_matrix
from int8blas.gemm.operand cimport SHIFT
from int8blas.gemm.plan cimport Gemm, Plan, matrix_of

cdef enum:
    # Up to how many rows a B with contiguous columns is read in place, rather than packed: more of a longer K where
    # kernels store C themselves. A is for as many as a dot kernel takes.
    FEW_ROWS = 16
    MORE_ROWS = 64
    MORE_ROWS_K = 256
    MIN_DOT_K = 64
    # Columns of the widest kernel.
    MAX_Y = 16


cdef inline bint reads_a(const Gemm *g) noexcept nogil:
    """Whether A would be read in place by rows, rather than B by columns: C has few columns."""
    cdef const i8_matrix *matrix = matrix_of(g)
    return (
        g.a.column == 1 and g.m >= g.n
        and g.n <= (g.kernels.gemm.dots_columns if matrix is NULL else matrix.dots_columns)
    )


cdef inline bint pays_for_more_rows(const Gemm *g, const Plan *p) noexcept nogil:
    """Whether the widest kernel takes a K that is so long, and stores C: there is no zero point but one of all columns
    of B."""
    return (
        g.k >= MORE_ROWS_K and g.kernels.gemm.exact == I8_DOT4 and g.kernels.gemm.dots_columns == MAX_Y
        and matrix_of(g) is NULL and p.identity
        and g.b.zeros is NULL and g.a.zeros is NULL and g.a.zero == (SHIFT if g.a.flip else 0)
    )


cdef inline bint takes_few_columns(const Gemm *g, const Plan *p) noexcept nogil:
    """Whether one operand is read in place along k, which is long: of few columns A, or of few rows B."""
    if g.kernels.gemm.dots_columns == 0 or g.k < MIN_DOT_K:
        return False
    if reads_a(g):
        return True
    return g.packed is NULL and g.b.row == 1 and g.m <= (MORE_ROWS if pays_for_more_rows(g, p) else FEW_ROWS)


cdef void plan_few_columns(const Gemm *g, Plan *p) noexcept nogil
cdef int gemm_few_columns(const Gemm *g, const Plan *p) noexcept nogil
