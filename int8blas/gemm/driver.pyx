"""The GEMM: ``gemm`` carries out what ``plan.make_plan`` decides.

Very small problems go to ``tiny``, few rows or columns to ``few_rows`` and ``few_columns``, a small K to ``small_k``,
all others to ``blocks``. Where C has too few tiles for the threads and K is long, each thread multiplies a part of K;
where sums could leave s32, K falls into segments, each a problem of its own, and their sums are added in s64.
"""

from libc.stddef cimport ptrdiff_t
from libc.stdint cimport int32_t, int64_t
from libc.string cimport memset

from int8blas.core.kernels cimport I8_GROUP, I8_MAX_COLUMNS, I8_PANEL, i8_output_args
from int8blas.core.memory cimport acquire, release
from int8blas.core.split cimport ceil_div, part_count, share
from int8blas.core.threads cimport region_threads, run_parts
from int8blas.gemm.blocks cimport gemm_blocks
from int8blas.gemm.few_columns cimport gemm_few_columns
from int8blas.gemm.few_rows cimport gemm_few_rows
from int8blas.gemm.operand cimport address, has_zero, zero_of
from int8blas.gemm.long_k cimport gemm_long_k
from int8blas.gemm.output cimport set_formula
from int8blas.gemm.plan cimport (
    LOWER,
    PATH_FEW_COLUMNS,
    PATH_FEW_ROWS,
    PATH_LONG_K,
    PATH_SMALL_K,
    PATH_TRIANGLE,
    UPPER,
    Gemm,
    Plan,
    Planned,
    arranged,
    is_tiny,
    make_plan,
    pays_to_transpose,
    plan_threads,
)
from int8blas.gemm.small_k cimport gemm_small_k
from int8blas.gemm.small_values cimport suits_values
from int8blas.gemm.squares cimport find_column_squares, packs_squares
from int8blas.gemm.tiny cimport gemm_tiny, gemm_tiny_by_tiles, gemm_tiny_triangle, is_stored_by_tiles
from int8blas.gemm.triangle cimport gemm_triangle, is_tiny_triangle, takes_triangle


# What the parts of K have in common: for each of them, all of C in s64, and its sums of a segment.
cdef struct PartsOfK:
    const Gemm *g
    const Plan *p
    int64_t *totals
    int32_t *sums


cdef int multiply_own(const void *job, int64_t part, int64_t _parts) noexcept nogil:
    """One thread's rows, or columns, as a problem of its own. 0, or -1 if there is no memory."""
    cdef const Gemm *g = (<const Planned *>job).g
    cdef const Plan *p = (<const Planned *>job).p
    cdef Gemm own = g[0]
    cdef int64_t first
    cdef int32_t *squares = NULL
    cdef int status
    if p.own_rows:
        first = share(p.grid.rows, part, p.grid.row_parts) * p.mr
        own.m = min(share(p.grid.rows, part + 1, p.grid.row_parts) * p.mr, g.m) - first
        own.a.data += first * g.a.row
        own.c += first * g.c_row
        if g.co_rows is not NULL:
            own.co_rows += first
        if g.column_squares is not NULL:
            # Every thread packs all columns.
            squares = <int32_t *>acquire(g.n * sizeof(int32_t))
            if squares is NULL:
                return -1
            own.co_cols = own.column_squares = squares
    else:
        first = share(p.panels, part, p.grid.column_parts) * I8_PANEL
        own.n = min(share(p.panels, part + 1, p.grid.column_parts) * I8_PANEL, g.n) - first
        own.b.data += first * g.b.column
        own.c += first * g.c_col
        if g.co_cols is not NULL:
            own.co_cols += first
        if g.column_squares is not NULL:
            own.column_squares += first
    own.threads = 1
    status = multiply(&own)
    release(squares)
    return status


cdef int64_t segment_start(const Gemm *g, const Plan *p, int64_t segment) noexcept nogil:
    """The first k of a segment."""
    return min(share(ceil_div(g.k, I8_GROUP), segment, p.segments) * I8_GROUP, g.k)


cdef void set_segment(Gemm *own, const Gemm *g, const Plan *p, int64_t segment, int32_t *sums) noexcept nogil:
    """The product over one segment of K, to `sums`, as a problem of its own.

    The zero points of a packed B's problem are left out: its column sums are those of all of K.
    """
    cdef int64_t first = segment_start(g, p, segment)
    own[0] = g[0]
    own.k = segment_start(g, p, segment + 1) - first
    own.a.data += first * g.a.column
    if g.packed is NULL:
        own.b.data += first * g.b.row
    else:
        own.packed += first * I8_PANEL
        own.split.panels = NULL
        own.as_s8 = NULL
        own.a.zero = own.b.zero = 0
        own.a.zeros = own.b.zeros = NULL
    own.alpha, own.beta = 1, 0
    own.stage = NULL
    own.col_init = NULL
    own.co = 0
    own.co_rows = own.co_cols = own.column_squares = NULL
    own.to_s64, own.saturated = False, NULL
    own.c, own.c_row, own.c_col = <char *>sums, g.n * <ptrdiff_t>sizeof(int32_t), sizeof(int32_t)
    if p.k_parts > 1:
        own.threads = 1


cdef inline int64_t first_column(const Gemm *g, int64_t row) noexcept nogil:
    """The first column of C that a row has."""
    return row if g.triangle == UPPER else 0


cdef inline int64_t end_column(const Gemm *g, int64_t row) noexcept nogil:
    return row + 1 if g.triangle == LOWER else g.n


cdef int multiply_part_of_k(const void *job, int64_t part, int64_t _parts) noexcept nogil:
    """The product over one part of K, segment by segment, to its totals. 0, or -1 if there is no memory."""
    cdef const PartsOfK *j = <const PartsOfK *>job
    cdef const Gemm *g = j.g
    cdef const Plan *p = j.p
    cdef int64_t *total = j.totals + part * g.m * g.n
    cdef int32_t *sums = j.sums + part * g.m * g.n
    cdef int64_t first = p.segments // p.k_parts * part, segment, row, i
    cdef Gemm own
    for segment in range(first, first + p.segments // p.k_parts):
        set_segment(&own, g, p, segment, sums)
        if multiply(&own):
            return -1
        for row in range(0 if g.tries_memory else g.m):
            for i in range(row * g.n + first_column(g, row), row * g.n + end_column(g, row)):
                total[i] = sums[i] + (0 if segment == first else total[i])
    return 0


cdef void store_totals(const Gemm *g, const Plan *p, const int64_t *totals) noexcept nogil:
    """The sums of all parts go to C."""
    cdef i8_output_args o
    cdef int64_t total[I8_MAX_COLUMNS]
    cdef int64_t bo[I8_MAX_COLUMNS]
    cdef int64_t row, column, end, part, j, ao, row_term = 0
    cdef int32_t co
    cdef int cols
    memset(&o, 0, sizeof(o))
    set_formula(g, &o)
    o.rows = 1
    o.acc64 = total
    memset(total, 0, sizeof(total))
    memset(bo, 0, sizeof(bo))
    for row in range(g.m):
        ao = zero_of(&g.a, row)
        co = g.co if g.co_rows is NULL else g.co_rows[row]
        if g.packed is not NULL:
            o.ao = &ao
            if has_zero(&g.b):
                g.kernels.packing.row_sums(&row_term, 1, g.k, address(&g.a, row, 0), g.a.row, g.a.column, g.a.flip)
                row_term -= g.k * ao
                o.row_term = &row_term
        if g.co_cols is NULL or g.co_rows is not NULL:
            o.co_row = &co
        column, end = first_column(g, row), end_column(g, row)
        while column < end:
            cols = <int>min(<int64_t>I8_MAX_COLUMNS, end - column)
            for j in range(cols):
                total[j] = 0
                bo[j] = zero_of(&g.b, column + j)
            for part in range(p.k_parts):
                for j in range(cols):
                    total[j] += totals[(part * g.m + row) * g.n + column + j]
            o.cols, o.row, o.column = cols, row, column
            o.row_scale = g.row_scales + row if g.row_scales is not NULL else NULL
            o.bo = bo if o.row_term is not NULL else NULL
            o.col_sum = g.col_sums + column if o.ao is not NULL else NULL
            o.co_col = g.co_cols + column if g.co_cols is not NULL else NULL
            o.c = g.c + row * g.c_row + column * g.c_col
            g.kernels.stage.output(&o)
            column += cols


cdef int gemm_parts_of_k(const Gemm *g, const Plan *p) noexcept nogil:
    """A long K. 0, or -1 if there is no memory.

    The memory that it takes depends on C and the number of threads, not on K.
    """
    cdef int status
    cdef int64_t size = p.k_parts * g.m * g.n
    cdef PartsOfK job = PartsOfK(g, p, <int64_t *>acquire(size * (sizeof(int64_t) + sizeof(int32_t))), NULL)
    if job.totals is NULL:
        return -1
    job.sums = <int32_t *>(job.totals + size)
    status = run_parts(multiply_part_of_k, &job, p.k_parts, <int>p.k_parts)
    if status == 0 and not g.tries_memory:
        store_totals(g, p, job.totals)
    release(job.totals)
    return status


cdef int gemm(const Gemm *g) noexcept nogil:
    """C := sat(rne(alpha * (A - ao) @ (B - bo) + beta * C + co)). 0, or -1 if there is no memory."""
    cdef Gemm other, found
    if g.column_squares is not NULL and pays_to_transpose(g):
        # They become those of the rows. K or N is small.
        find_column_squares(g, 1)
        found = g[0]
        found.column_squares = NULL
        return gemm(&found)
    return multiply(arranged(g, &other))


cdef int multiply_with_squares(const Gemm *g, int threads) noexcept nogil:
    """`multiply` on a path that does not find the sums of squares of the columns: they are found before."""
    cdef Gemm other = g[0]
    find_column_squares(g, threads)
    other.column_squares = NULL
    return multiply(&other)


cdef int multiply(const Gemm *g) noexcept nogil:
    """`gemm` of a problem as it is arranged."""
    cdef Plan p
    cdef Gemm other
    cdef Planned job
    cdef int parts, threads
    if g.m == 0 or g.n == 0:
        return 0
    if is_tiny(g) and not takes_triangle(g):
        if g.column_squares is not NULL:
            find_column_squares(g, 1)
        if (g.to_s64 or g.co_rows is not NULL) and is_stored_by_tiles(g):
            gemm_tiny_by_tiles(g)
        elif not g.tries_memory:
            gemm_tiny(g)
        return 0
    if is_tiny_triangle(g):
        gemm_tiny_triangle(g)
        return 0
    make_plan(g, &p)
    if suits_values(g, &p, &other):
        return multiply(&other)
    parts = part_count(&p.grid)
    if parts > 1 or p.k_parts > 1:
        threads = region_threads(plan_threads(g, &p))
        if threads < plan_threads(g, &p):
            other = g[0]
            other.threads = threads
            return multiply(&other)
    if g.column_squares is not NULL and not packs_squares(g, &p):
        return multiply_with_squares(g, plan_threads(g, &p))
    if p.path == PATH_LONG_K:
        return gemm_long_k(g, &p)
    if p.segments > 1:
        return gemm_parts_of_k(g, &p)
    if p.path == PATH_FEW_ROWS:
        return gemm_few_rows(g, &p)
    if p.path == PATH_FEW_COLUMNS:
        return gemm_few_columns(g, &p)
    if p.path == PATH_SMALL_K:
        return gemm_small_k(g, &p)
    if p.path == PATH_TRIANGLE:
        return gemm_triangle(g, &p)
    if parts == 1 or not (p.own_columns or p.own_rows):
        return gemm_blocks(g, &p)
    job.g, job.p = g, &p
    return run_parts(multiply_own, &job, parts, parts)
