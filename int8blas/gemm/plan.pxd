# The way of a product: which path computes it, and how (see plan.pyx).
from libc.string cimport memset

from int8blas.gemm.block_plan cimport BlocksPlan
from int8blas.gemm.path cimport Description, Path, Plan, find_facts
from int8blas.gemm.paths.few_columns cimport FewColumnsPlan
from int8blas.gemm.paths.few_rows cimport FewRowsPlan
from int8blas.gemm.paths.long_k cimport LongKPlan
from int8blas.gemm.paths.sizes cimport TINY_K, is_small_k, is_tiny
from int8blas.gemm.paths.small_k cimport SmallKPlan
from int8blas.gemm.paths.triangle cimport WHOLE_ROWS, TrianglePlan
from int8blas.gemm.problem cimport (
    LOWER,
    UPPER,
    WHOLE,
    Problem,
    is_quantized,
    size_of_c,
    transpose_problem,
    zero_by_row,
)

cdef enum:
    # What is computed transposed: a C with up to so many columns, and for each so many rows, a few if a row kernel
    # takes all columns; up to what size a small problem is.
    TRANSPOSED_COLUMNS = 16
    TRANSPOSED_ROWS = 16
    TRANSPOSED_FEW_ROWS = 4
    TRANSPOSED_TINY = 64
    # The first paths of the table decide before facts are found, which takes a tenth of the time of a tiny product.
    BY_SIZE = 3


# The plan of whichever path.
cdef union AnyPlan:
    Plan common
    TrianglePlan triangle
    LongKPlan long_k
    FewColumnsPlan few_columns
    FewRowsPlan few_rows
    SmallKPlan small_k
    BlocksPlan blocks


# A problem as it is computed, and its plan. `problem` is the one that was given, or `other`, which is made of it; so a
# Resolved stays where it is made.
cdef struct Resolved:
    const Problem *given
    const Problem *problem
    bint transposed
    AnyPlan plan
    Problem other


# The table of paths (plan.pyx), in the order in which they are asked. The last one takes every problem.
cdef const Path *first_path

cdef void replan(Resolved *r, int threads) noexcept nogil
cdef int threads_of(const Problem *given) noexcept nogil
cdef void describe(const Resolved *r, Description *d) noexcept nogil


cdef inline bint pays_to_transpose(const Problem *g) noexcept nogil:
    """Return whether C.T := B.T @ A.T is faster to compute: few columns of C and an A whose columns are contiguous,
    which then is what is read along its rows; or a C by columns, of a small K, or of tiny A and B by columns."""
    if (g.panels.data is not NULL or is_quantized(g) or g.saturating or zero_by_row(g)
            or g.b.zero_points is not NULL):
        return False
    if g.a.row == 1 and g.a.column != 1 and g.n <= TRANSPOSED_COLUMNS:
        if g.m >= g.n * (TRANSPOSED_FEW_ROWS if g.n <= g.kernels.gemm.few_rows_mr else TRANSPOSED_ROWS):
            return True
    if g.c_row != size_of_c(g) or g.c_col == size_of_c(g):
        return False
    if is_small_k(g):
        return True
    return (
        g.a.row == 1 and g.b.row == 1 and TRANSPOSED_ROWS <= g.m <= TRANSPOSED_TINY and g.n <= TRANSPOSED_TINY
        and g.k <= TINY_K
    )


cdef inline bint skips_plan(const Problem *g) noexcept nogil:
    """Return whether a problem, which is not empty, skips `resolve`: the smallest ones, for which it would come to the
    path tiny, and takes 5 % of their time."""
    return is_tiny(g) and g.m < WHOLE_ROWS and g.epilogue.column_squares is NULL and not pays_to_transpose(g)


cdef inline bint pays_to_mirror(const Problem *g) noexcept nogil:
    """Return whether a triangle of C is computed as the other one, which is as symmetric as its product: C is by
    columns."""
    return g.triangle != WHOLE and not g.saturating and g.c_row == size_of_c(g) and g.c_col != size_of_c(g)


cdef inline void start_plan(Plan *p) noexcept nogil:
    """Plan for one thread, as for the smallest products."""
    p.k_parts = p.segments = 1
    p.grid.rows = p.grid.columns = p.grid.row_parts = p.grid.column_parts = 1
    p.grid.stretches = False
    p.wide = p.own_columns = p.own_rows = p.packs_squares = False


cdef inline void choose(const Problem *g, AnyPlan *plan) noexcept nogil:
    """Start a plan with the first path that takes the problem."""
    cdef const Path *path = first_path
    cdef Plan *p = &plan.common
    start_plan(p)
    while not path.takes(g, p):
        path += 1
        if path == first_path + BY_SIZE:
            # Members that a path leaves alone are 0. The smallest products skip this: it would take 17 ns of 270.
            memset(plan, 0, sizeof(plan[0]))
            start_plan(p)
            find_facts(g, p)
    p.path = path


cdef inline void make_plan(const Problem *g, Plan *p) noexcept nogil:
    """Let the path plan, unless `start_plan` has done all that it needs."""
    if p.path.plan is not NULL:
        p.path.plan(g, p)


cdef inline void choose_form(const Problem *given, Resolved *r) noexcept nogil:
    """Fill in the problem, transposed if that is faster, and the path that takes it."""
    r.given = r.problem = given
    r.transposed = False
    if given.triangle == WHOLE:
        if pays_to_transpose(given):
            transpose_problem(&r.other, given)
            r.problem, r.transposed = &r.other, True
    elif pays_to_mirror(given):
        r.other = given[0]
        r.other.c_row, r.other.c_col = given.c_col, given.c_row
        r.other.triangle = UPPER if given.triangle == LOWER else LOWER
        r.problem, r.transposed = &r.other, True
    choose(r.problem, &r.plan)


cdef inline void resolve(const Problem *given, Resolved *r) noexcept nogil:
    """Fill in `r`: the problem as it is computed, and its plan."""
    cdef Plan *p = &r.plan.common
    choose_form(given, r)
    if p.path.suit is not NULL and p.path.suit(&r.other, r.problem):
        r.problem = &r.other
        choose(r.problem, &r.plan)
    make_plan(r.problem, p)
