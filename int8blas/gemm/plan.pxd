# The choice of a path for a product, and the plan of the product (see plan.pyx).
from libc.string cimport memset

from int8blas.core.kernels cimport I8_PANEL, I8_STACK_SIDE
from int8blas.gemm.block_plan cimport BlocksPlan
from int8blas.gemm.path cimport PLAN_BYTES, Description, Path, Plan, find_facts
from int8blas.gemm.paths.sizes cimport REGISTER_ROWS, TINY_K, WHOLE_ROWS, is_small_k, is_tiny
from int8blas.gemm.problem cimport (
    LOWER, UPPER, WHOLE, Problem, c_element_bytes, is_quantized, transpose_problem, zero_by_row)

cdef enum:
    # Limits for transposing a problem whose A has contiguous columns. TRANSPOSED_COLUMNS is the maximum number of
    # columns of C. TRANSPOSED_ROWS is the minimum number of rows of C for each column, or TRANSPOSED_FEW_ROWS if one
    # row kernel computes all columns. TRANSPOSED_TINY is the largest size of a small problem whose matrices all have
    # contiguous columns. WHOLE_PANEL_K is the maximum K for which a C of one whole panel is not transposed.
    #
    # Times in us, as given and transposed, on Zen 5 with AVX512-VNNI, and in the last line on Zen 4 with AVX2:
    #   TRANSPOSED_COLUMNS   2000 x 64 x 200: 109, 78;  2000 x 96 x 100: 67, 70
    #   TRANSPOSED_ROWS      128 x 16 x 200: 2.08, 2.10;  256 x 16 x 200: 4.23, 3.31
    #   TRANSPOSED_FEW_ROWS  16 x 8 x 200: 0.40, 0.45;  32 x 8 x 200: 0.63, 0.60
    #   TRANSPOSED_TINY      128 x 128 x 128: 7.4, 5.1
    #   WHOLE_PANEL_K        3000 x 16 x 8: 20, 30;  3000 x 16 x 24: 50, 42
    TRANSPOSED_COLUMNS = 64
    TRANSPOSED_ROWS = 16
    TRANSPOSED_FEW_ROWS = 4
    TRANSPOSED_TINY = 128
    WHOLE_PANEL_K = 20


# The plan of any path. `common` is the first member of each path's own plan, so a path casts the pointer to `common`.
cdef union AnyPlan:
    Plan common
    BlocksPlan blocks
    char of_path[PLAN_BYTES]


# A problem in its final form, and its plan. `problem` is `given`, or the address of `other`, so a Resolved must not be
# moved.
cdef struct Resolved:
    const Problem *given
    const Problem *problem
    bint transposed
    AnyPlan plan
    Problem other


# The table of paths (plan.pyx).
cdef const Path **first_path

cdef bint is_register_transposed(const Problem *g) noexcept nogil
cdef void fit_threads(Resolved *r) noexcept nogil
cdef int threads_of(const Problem *given) noexcept nogil
cdef void describe(const Resolved *r, Description *d) noexcept nogil


cdef inline bint pays_to_transpose(const Problem *g) noexcept nogil:
    """Return whether C.T := B.T @ A.T is faster to compute than C. There are four cases:

    - A is one row, and the kernel of stacks takes the transposed problem;
    - C has few columns and A has contiguous columns, along which the transposed problem reads A (but not if C is one
      whole panel and K is small);
    - C has contiguous columns and K is small;
    - all three matrices are small and have contiguous columns.
    """
    if (g.panels.data is not NULL or g.four_bits.data is not NULL or is_quantized(g) or g.saturating
            or zero_by_row(g) or g.b.zero_points is not NULL):
        return False
    if g.m == 1 and g.n >= REGISTER_ROWS and g.k <= I8_STACK_SIDE and is_register_transposed(g):
        return True
    if g.a.row == 1 and g.a.column != 1 and g.n <= TRANSPOSED_COLUMNS and not (
            g.n == I8_PANEL and 1 < g.k <= WHOLE_PANEL_K):
        if g.m >= g.n * (TRANSPOSED_FEW_ROWS if g.n <= g.kernels.gemm.few_rows.mr else TRANSPOSED_ROWS):
            return True
    if g.c.row != c_element_bytes(g) or g.c.column == c_element_bytes(g):
        return False
    if is_small_k(g):
        return True
    return (
        g.a.row == 1 and g.b.row == 1 and TRANSPOSED_ROWS <= g.m <= TRANSPOSED_TINY and g.n <= TRANSPOSED_TINY
        and g.k <= TINY_K
    )


cdef inline bint skips_plan(const Problem *g) noexcept nogil:
    """Return whether a problem in its final form skips `plan_form`. The problem must not be empty. For the smallest
    problems `plan_form` always chooses the path `tiny`, and costs 5 % of their time."""
    return is_tiny(g) and g.m < WHOLE_ROWS


cdef inline bint pays_to_mirror(const Problem *g) noexcept nogil:
    """Return whether to compute C.T, with the triangles exchanged, instead of C. C.T has the elements of C because the
    product is symmetric. C.T is faster to compute if columns of C are contiguous."""
    return g.c.half != WHOLE and not g.saturating and g.c.row == c_element_bytes(g) and g.c.column != c_element_bytes(g)


cdef inline void start_plan(Plan *p) noexcept nogil:
    """Start a plan for one thread, which suits the smallest products."""
    p.k_parts = p.segments = 1
    p.grid.rows = p.grid.columns = p.grid.row_parts = p.grid.column_parts = 1
    p.grid.stretches = False
    p.wide = p.private_columns = p.private_rows = p.packs_squares = False


cdef inline void choose(const Problem *g, AnyPlan *plan) noexcept nogil:
    """Start a plan with the first path that takes the problem."""
    cdef const Path **path = first_path
    cdef Plan *p = &plan.common
    start_plan(p)
    while path[0].by_size:
        if path[0].takes(g, p):
            p.path = path[0]
            return
        path += 1
    # Clear the plan, because paths do not set all members. The smallest products skip `memset` and `find_facts`, which
    # would take a tenth of their time.
    memset(plan, 0, sizeof(plan[0]))
    start_plan(p)
    find_facts(g, p)
    while not path[0].takes(g, p):
        path += 1
    p.path = path[0]


cdef inline void make_plan(const Problem *g, Plan *p) noexcept nogil:
    """Let the path fill in its plan, unless `start_plan` is enough."""
    if p.path.plan is not NULL:
        p.path.plan(g, p)


cdef inline void choose_form(const Problem *given, Resolved *r) noexcept nogil:
    """Choose the form of the problem: as given, or transposed if the transposed problem is faster."""
    r.given = r.problem = given
    r.transposed = False
    if given.c.half == WHOLE:
        if pays_to_transpose(given):
            transpose_problem(&r.other, given)
            r.problem, r.transposed = &r.other, True
    elif pays_to_mirror(given):
        r.other = given[0]
        r.other.c.row, r.other.c.column = given.c.column, given.c.row
        r.other.c.half = UPPER if given.c.half == LOWER else LOWER
        r.problem, r.transposed = &r.other, True


cdef inline void plan_form(Resolved *r) noexcept nogil:
    """Plan the problem in its chosen form."""
    choose(r.problem, &r.plan)
    if r.plan.common.path.specialize is not NULL and r.plan.common.path.specialize(&r.other, r.problem):
        r.problem = &r.other
        choose(r.problem, &r.plan)
    make_plan(r.problem, &r.plan.common)


cdef inline void resolve(const Problem *given, Resolved *r) noexcept nogil:
    """Fill in `r`: the chosen form of the problem, and its plan."""
    choose_form(given, r)
    plan_form(r)
