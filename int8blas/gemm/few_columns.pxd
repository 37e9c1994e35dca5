from int8blas.core.kernels cimport i8_matrix
from int8blas.gemm.plan cimport Gemm, Plan, matrix_of

cdef enum:
    # Up to how many rows a B with contiguous columns is read in place; A is for as many as a dot kernel takes.
    FEW_ROWS = 16
    MIN_DOT_K = 64


cdef inline bint reads_a(const Gemm *g) noexcept nogil:
    """Whether A would be read in place by rows, rather than B by columns: C has few columns."""
    cdef const i8_matrix *matrix = matrix_of(g)
    return (
        g.a.column == 1 and g.m >= g.n
        and g.n <= (g.kernels.gemm.dots_columns if matrix is NULL else matrix.dots_columns)
    )


cdef inline bint takes_few_columns(const Gemm *g) noexcept nogil:
    """Whether one operand is read in place along k, which is long: of few columns A, or of few rows B."""
    if g.kernels.gemm.dots_columns == 0 or g.k < MIN_DOT_K:
        return False
    return reads_a(g) or (g.packed is NULL and g.b.row == 1 and g.m <= FEW_ROWS)


cdef void plan_few_columns(const Gemm *g, Plan *p) noexcept nogil
cdef int gemm_few_columns(const Gemm *g, const Plan *p) noexcept nogil
