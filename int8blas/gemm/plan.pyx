"""How a problem is computed: everything that depends on the shape, decided before anything is touched."""

from libc.stdint cimport INT32_MAX, int64_t
from libc.stdlib cimport llabs

from int8blas.core.kernels cimport (
    I8_DOT4,
    I8_FLOAT,
    I8_GROUP,
    I8_PANEL,
    I8_TYPE_F32,
    I8_TYPE_S8,
    I8_TYPE_S32,
    I8_TYPE_U8,
    i8_stage,
)
from int8blas.core.split cimport ceil_div, round_up, split
from int8blas.core.threads cimport THREAD_BYTES
from int8blas.gemm.block_plan cimport plan_blocks
from int8blas.gemm.few_columns cimport plan_few_columns, takes_few_columns
from int8blas.gemm.few_rows cimport plan_few_rows, takes_few_rows
from int8blas.gemm.long_k cimport plan_long_k, takes_long_k
from int8blas.gemm.operand cimport SHIFT, transposed
from int8blas.gemm.small_k cimport plan_small_k, takes_small_k
from int8blas.gemm.triangle cimport is_tiny_triangle, plan_triangle, takes_triangle

cdef enum:
    # k that each thread gets at least if K is divided.
    MIN_PART_K = 4096
    # Up to how many elements of C, all or those of all threads, there are sums in s64 for each, where K is long; or any
    # number of a triangle.
    SEGMENT_ELEMENTS = 1 << 20
    # Up to how many cells of a triangle for each thread parts of K are better: threads that share panels wait for them.
    FEW_CELLS = 24


cdef int64_t product_bound(const Gemm *g) noexcept nogil:
    """The largest magnitude that one k can add to an element of (A - ao) @ (B - bo)."""
    if g.saturating:
        # A pair sum is at most 2 * 255 * 128 in magnitude, and the three compensations together at most
        # 255 * 128 each for every k, whatever the saturation did.
        return 3 * 255 * 128
    cdef int64_t a = 255 if zero_by_row(g) else max(g.a.zero, 255 - g.a.zero)
    cdef int64_t b = 255 if g.b.zeros is not NULL else max(127 - g.b.zero, g.b.zero + 128)
    return a * b


cdef int64_t offset_bound(const Gemm *g) noexcept nogil:
    """The largest magnitude in co."""
    cdef int64_t largest = llabs(g.co)
    cdef int64_t i
    if g.co_rows is not NULL:
        for i in range(g.m):
            largest = max(largest, llabs(g.co_rows[i]))
    if g.co_cols is not NULL:
        for i in range(g.n):
            largest = max(largest, llabs(g.co_cols[i]))
    return largest


cdef Path choose_path(const Gemm *g, const Plan *p) noexcept nogil:
    """The ways to compute a problem, in the order in which they are asked; `p` has the facts of `start_plan`.

    Each is a file: what it takes, how it plans, and how it computes. The last one takes everything.
    """
    if takes_triangle(g):
        return PATH_TRIANGLE
    if is_tiny(g) or is_tiny_triangle(g):
        return PATH_TINY
    if takes_long_k(g):
        return PATH_LONG_K
    if needs_blocks(g, p):
        return PATH_BLOCKS
    if takes_few_columns(g, p):
        return PATH_FEW_COLUMNS
    if takes_few_rows(g):
        return PATH_FEW_ROWS
    if takes_small_k(g, p):
        return PATH_SMALL_K
    return PATH_BLOCKS


cdef bint needs_blocks(const Gemm *g, const Plan *p) noexcept nogil:
    """Whether a problem has what the general path alone computes."""
    return (
        g.saturating or p.wide or g.k == 0 or is_made(g) or g.c_line != 0 or g.doubled or g.scale_groups is not NULL
    )


cdef void transpose_problem(Gemm *t, const Gemm *g) noexcept nogil:
    """t: C.T := (B - bo).T @ (A - ao).T, for a plain B. Each operand takes the other's sign by one more shift."""
    t[0] = g[0]
    t.m, t.n = g.n, g.m
    t.a, t.b = transposed(&g.b, SHIFT), transposed(&g.a, -SHIFT)
    t.co_rows, t.co_cols = g.co_cols, g.co_rows
    t.c_row, t.c_col = g.c_col, g.c_row


cdef bint stores_transposed(const Gemm *g) noexcept nogil:
    """Whether rows of C are not contiguous: an output stage turns its tiles (csrc/stage/transpose_store_body.h)."""
    if g.stage is NULL or g.stage.type == I8_TYPE_F32 or g.stage.type == I8_TYPE_S32:
        return g.c_col != (sizeof(int32_t) if g.stage is not NULL else size_of_c(g))
    return g.c_col != (1 if g.stage.type == I8_TYPE_U8 or g.stage.type == I8_TYPE_S8 else 2)


cdef bint can_widen(const Gemm *g) noexcept nogil:
    """Whether a micro-kernel can store the sums in its registers as s64, if they do not leave s32."""
    return (
        g.to_s64 and g.kernels.gemm.tile_output and not stores_transposed(g) and g.a.zeros is NULL and g.b.zeros is NULL
        and g.co_rows is NULL
    )


cdef bint are_plain_distances(const Gemm *g) noexcept nogil:
    """Whether C is squared distances, and a micro-kernel can make them of the sums in its registers."""
    return (
        g.co_rows is not NULL and g.co_cols is not NULL and not g.to_s64 and g.kernels.gemm.tile_output
        and not stores_transposed(g) and g.a.zeros is NULL and g.b.zeros is NULL
    )


cdef bint is_plain(const Gemm *g) noexcept nogil:
    """Whether a micro-kernel can apply the output stage to the sums in its registers."""
    cdef const i8_stage *s = g.stage
    cdef bint by_row = g.row_scales is not NULL or g.dynamic_source is not NULL
    if stores_transposed(g):
        return False
    if s.type == I8_TYPE_F32 or s.type == I8_TYPE_S32:
        if s.rescales or (by_row and s.type == I8_TYPE_S32):
            return False
    elif (s.type != I8_TYPE_U8 and s.type != I8_TYPE_S8) or by_row:
        return False
    return (
        g.kernels.gemm.tile_output and s.op_count == 0 and s.finite and not s.bias_first and s.offset is NULL
        and g.scale_groups is NULL and s.requantization.scheme == I8_FLOAT
        and g.b.zero == 0 and g.b.zeros is NULL and not zero_by_row(g) and not g.doubled
        and g.co == 0 and g.co_rows is NULL
    )


cdef bint is_wide(const Gemm *g) noexcept nogil:
    """Whether sums could leave s32; with a primitive's output stage, after offsets are added to them as integers."""
    cdef int64_t bound = product_bound(g)
    return g.k > INT32_MAX // bound or (
        g.stage is not NULL and g.k * bound * (2 if g.doubled else 1) + offset_bound(g) > INT32_MAX
    )


cdef void start_plan(const Gemm *g, Plan *p) noexcept nogil:
    """What holds for every path."""
    cdef int64_t bound = product_bound(g)
    p.wide = is_wide(g) and g.scale_groups is NULL
    if g.stage is not NULL:
        p.identity = p.from_registers = False
        p.to_output = is_plain(g) and not p.wide
        return
    p.to_output = (can_widen(g) or are_plain_distances(g)) and not p.wide
    p.identity = (
        not g.to_s64 and g.alpha == 1 and g.beta == 0 and g.co == 0 and g.co_rows is NULL and g.co_cols is NULL
    )
    p.from_registers = (
        not p.wide and not g.to_s64 and g.alpha == 1 and g.beta == 0 and not stores_transposed(g)
        and g.a.zeros is NULL and g.b.zeros is NULL
        and (p.identity or g.k * bound + offset_bound(g) <= INT32_MAX)
    )


cdef void plan_k(const Gemm *g, Plan *p) noexcept nogil:
    """The parts of K: for threads, because C has too few units of work for them, and because sums could leave s32."""
    cdef double work = <double>g.m * <double>g.n * <double>g.k, elements = <double>g.m * <double>g.n
    cdef int64_t units = p.grid.rows * p.grid.columns
    # A packed B's zero points are left to the end.
    cdef int64_t bound = 255 * 128 if g.packed is not NULL and not g.saturating else product_bound(g)
    cdef int64_t longest = INT32_MAX // bound - I8_GROUP
    cdef int64_t threads = <int64_t>min(
        <double>g.threads, 1 + max(work / thread_work(g), <double>max(g.m, g.n) * g.k / THREAD_BYTES)
    )
    # A triangle has no other way to sums in s64.
    cdef bint has_totals = elements <= SEGMENT_ELEMENTS or p.path == PATH_TRIANGLE
    cdef bint is_long = g.k > longest and has_totals and not p.splits
    p.k_parts = p.segments = 1
    if is_made(g) or g.c_line != 0 or g.doubled or g.scale_groups is not NULL:
        return
    threads = min(threads, g.k // MIN_PART_K)
    cdef bint has_few_units = 2 * units <= threads or (p.path == PATH_TRIANGLE and units <= FEW_CELLS * threads)
    if threads >= 2 and (has_few_units or (is_long and elements * threads <= SEGMENT_ELEMENTS)):
        p.k_parts = threads
    if is_long or p.k_parts > 1:
        p.segments = round_up(ceil_div(g.k, longest), p.k_parts)


cdef void plan_path(const Gemm *g, Plan *p) noexcept nogil:
    """Fill `p` but for the parts of K."""
    start_plan(g, p)
    p.may_widen = p.direct_a = p.keeps_a = p.own_columns = p.own_rows = p.splits = p.scaled_tiles = False
    p.interleaves = False
    p.uncertified = I8_DOT4
    p.groups = ceil_div(g.k, 4)
    p.panels = ceil_div(g.n, I8_PANEL)
    p.path = choose_path(g, p)
    if p.path == PATH_TINY:
        split(1, 1, 1, False, &p.grid)
    elif p.path == PATH_LONG_K:
        plan_long_k(g, p)
    elif p.path == PATH_FEW_ROWS:
        plan_few_rows(g, p)
    elif p.path == PATH_FEW_COLUMNS:
        plan_few_columns(g, p)
    elif p.path == PATH_SMALL_K:
        plan_small_k(g, p)
    elif p.path == PATH_TRIANGLE:
        plan_triangle(g, p)
    else:
        plan_blocks(g, p)


cdef void make_plan(const Gemm *g, Plan *p) noexcept nogil:
    """Fill `p`. M and N must not be 0."""
    plan_path(g, p)
    if p.path != PATH_LONG_K:
        plan_k(g, p)
