"""The GEMM driver: ``gemm`` makes a plan, and carries it out.

``gemm`` makes the plan in the two steps of ``plan.resolve``. Between the steps ``gemm`` sends the smallest problems to
the path `tiny` without a plan, which saves 5 % of their time. After both steps ``gemm`` limits the plan to the threads
that the system can create. ``explain`` does not limit the plan, because a trial would create threads.

The path of a plan computes most products as a whole. In two kinds of plans each thread computes a smaller problem. The
driver plans the smaller problem again, because its size decides path and blocks. The smaller problem has a part of K if
C has too few tiles for the threads, or if sums could exceed s32. The driver then adds the sums of the parts in s64.
A smaller problem with the whole K has some rows or columns of C, and each thread packs its own B.

The way of an operand from a public function to the micro-kernel:

    blas.multiply_arrays    checks the arguments; set_a_operand puts the array into Problem.a
    call.run_problem        releases the GIL
    driver.gemm             chooses a plan, and calls `run` of its path, which the last lines of the path's module set
    blocks.run_blocks       packs B, and starts the threads; it is the `run` of the path that takes most large products
    blocks.multiply_blocks  goes through the tiles of C. load_a (pack_a) packs the block of A, and point_to_a sets
                            i8_tile_args.a for each tile
    <prefix>_<m>x<n>        the micro-kernel, from the table i8_gemm_kernels.tiles; it calls <prefix>_tile_<m>x<n>
                            for each of its tiles of m rows and n panels (I8_DEFINE in csrc/gemm/tile_body.h)
"""

from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.string cimport memset

from int8blas.core.kernels cimport I8_MAX_COLUMNS, I8_PANEL, i8_output_args
from int8blas.core.memory cimport acquire, release
from int8blas.core.split cimport ceil_div, part_count, share
from int8blas.core.threads cimport parallel_for
from int8blas.gemm.copies cimport (
    copied_bytes, copies_operands, copy_operands, keep_columns, skips_columns, skips_rows, spreads_b)
from int8blas.gemm.operand cimport has_zero, zero_of
from int8blas.gemm.output cimport set_target
from int8blas.gemm.path cimport Planned, planned_threads
from int8blas.gemm.paths.tiny cimport run_tiny
from int8blas.gemm.plan cimport Resolved, choose_form, fit_threads, plan_form, skips_plan
from int8blas.gemm.problem cimport (
    LOWER, STEP_K, UPPER, element, find_row_terms, row_scales_from, slice_columns, slice_k, slice_rows,
    transpose_problem)
from int8blas.gemm.squares cimport find_column_squares


# The memory of a product in parts of K: each part has totals in s64 for all of C, and the sums of one segment.
cdef struct PartsOfK:
    const Problem *g
    const Plan *p
    int64_t *totals
    int32_t *sums


cdef int compute_private_part(const void *job, int64_t part, int64_t _parts) noexcept nogil:
    """Compute one thread's rows or columns as a separate problem. Return 0, or -1 if there is no memory."""
    cdef const Problem *g = (<const Planned *>job).g
    cdef const Plan *p = (<const Planned *>job).p
    cdef Problem own
    cdef int64_t first, panels
    cdef int32_t *squares = NULL
    cdef int status
    if p.private_rows:
        first = share(p.grid.rows, part, p.grid.row_parts) * p.private_unit
        slice_rows(&own, g, first, min(share(p.grid.rows, part + 1, p.grid.row_parts) * p.private_unit, g.m) - first)
        if g.epilogue.column_squares is not NULL:
            # Every thread packs all columns.
            squares = <int32_t *>acquire(g.n * sizeof(int32_t))
            if squares is NULL:
                return -1
            own.epilogue.co_cols = own.epilogue.column_squares = squares
    else:
        panels = ceil_div(g.n, I8_PANEL)
        first = share(panels, part, p.grid.column_parts) * I8_PANEL
        slice_columns(&own, g, first, min(share(panels, part + 1, p.grid.column_parts) * I8_PANEL, g.n) - first)
    own.threads = 1
    status = gemm(&own)
    release(squares)
    return status


cdef int64_t segment_start(const Problem *g, const Plan *p, int64_t segment) noexcept nogil:
    """Return the first k of a segment."""
    return min(share(ceil_div(g.k, STEP_K), segment, p.segments) * STEP_K, g.k)


cdef void set_segment(Problem *part, const Problem *g, const Plan *p, int64_t segment, int32_t *sums) noexcept nogil:
    """Set `part` to the product over one segment of K. The part stores its sums to `sums`."""
    cdef int64_t first = segment_start(g, p, segment)
    slice_k(part, g, first, segment_start(g, p, segment + 1) - first, sums)
    if p.k_parts > 1:
        part.threads = 1


cdef inline int64_t first_column(const Problem *g, int64_t row) noexcept nogil:
    """Return the first computed column of a row of C."""
    return row if g.c.half == UPPER else 0


cdef inline int64_t end_column(const Problem *g, int64_t row) noexcept nogil:
    """Return the column after the last computed column of a row of C."""
    return row + 1 if g.c.half == LOWER else g.n


cdef int compute_part_of_k(const void *job, int64_t part, int64_t _parts) noexcept nogil:
    """Sum the products of one part of K, segment by segment, in the part's totals. Return 0, or -1 if there is no
    memory."""
    cdef const PartsOfK *j = <const PartsOfK *>job
    cdef const Problem *g = j.g
    cdef const Plan *p = j.p
    cdef int64_t *total = j.totals + part * g.m * g.n
    cdef int32_t *sums = j.sums + part * g.m * g.n
    cdef int64_t first = p.segments // p.k_parts * part, segment, row, i
    cdef Problem own
    for segment in range(first, first + p.segments // p.k_parts):
        set_segment(&own, g, p, segment, sums)
        if gemm(&own):
            return -1
        for row in range(0 if g.c.dry_run else g.m):
            for i in range(row * g.n + first_column(g, row), row * g.n + end_column(g, row)):
                total[i] = sums[i] + (0 if segment == first else total[i])
    return 0


cdef void store_totals(const Problem *g, const Plan *p, const int64_t *totals) noexcept nogil:
    """Add the totals of all parts and store them to C."""
    cdef i8_output_args o
    cdef int64_t total[I8_MAX_COLUMNS]
    cdef int64_t bo[I8_MAX_COLUMNS]
    cdef int64_t row, column, end, part, j, ao, row_term = 0
    cdef int cols
    memset(&o, 0, sizeof(o))
    set_target(g, &o)
    o.rows = 1
    o.acc64 = total
    memset(total, 0, sizeof(total))
    memset(bo, 0, sizeof(bo))
    for row in range(g.m):
        ao = zero_of(&g.a, row)
        if g.panels.data is not NULL:
            o.ao = &ao
            if has_zero(&g.b):
                find_row_terms(g, row, 1, &row_term)
                o.row_term = &row_term
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
            o.row_scale = row_scales_from(g, row)
            o.bo = bo if o.row_term is not NULL else NULL
            o.col_sum = g.panels.col_sums + column if o.ao is not NULL else NULL
            o.c = element(&g.c, row, column)
            g.kernels.stage.output(&o)
            column += cols


cdef int compute_parts_of_k(const Problem *g, const Plan *p) noexcept nogil:
    """Compute a long K in parts. Return 0, or -1 if there is no memory.

    The memory depends on the size of C and the number of threads, not on K.
    """
    cdef int status
    cdef int64_t size = p.k_parts * g.m * g.n
    cdef PartsOfK job = PartsOfK(g, p, <int64_t *>acquire(size * (sizeof(int64_t) + sizeof(int32_t))), NULL)
    if job.totals is NULL:
        return -1
    job.sums = <int32_t *>(job.totals + size)
    status = parallel_for(compute_part_of_k, &job, p.k_parts, <int>p.k_parts)
    if status == 0 and not g.c.dry_run:
        store_totals(g, p, job.totals)
    release(job.totals)
    return status


cdef int multiply_copies(const Problem *g, int *threads) noexcept nogil:
    """Copy operands without contiguous rows or columns, and multiply the copies. Return 0, or -1 if there is no
    memory."""
    cdef Problem own
    cdef int status
    cdef uint8_t *memory
    if skips_rows(g) and not skips_columns(g) and not spreads_b(g):
        transpose_problem(&own, g)
        return gemm(&own, threads)
    memory = <uint8_t *>acquire(copied_bytes(g))
    if memory is NULL:
        return -1
    copy_operands(&own, g, memory)
    status = gemm(&own, threads)
    if status == 0 and own.c.data != g.c.data:
        keep_columns(g, &own)
    release(memory)
    return status


cdef int gemm(const Problem *g, int *threads=NULL) noexcept nogil:
    """Compute C := sat(rne(alpha * (A - ao) @ (B - bo) + beta * C + co)), or another epilogue. Set `threads`, unless it
    is NULL, to the number of threads that took part. Return 0, or -1 if there is no memory."""
    cdef Resolved r
    cdef const Plan *p = &r.plan.common
    cdef Planned job
    cdef int parts
    if threads is not NULL:
        threads[0] = 1
    if g.m == 0 or g.n == 0:
        return 0
    if copies_operands(g):
        return multiply_copies(g, threads)
    choose_form(g, &r)
    if g.epilogue.column_squares is NULL and skips_plan(r.problem):
        return run_tiny(r.problem, NULL)
    plan_form(&r)
    if planned_threads(p) > 1:
        fit_threads(&r)
    if threads is not NULL:
        threads[0] = planned_threads(p)
    if g.epilogue.column_squares is not NULL and (r.transposed or p.segments > 1 or not p.packs_squares):
        find_column_squares(g, planned_threads(p))
    if p.segments > 1 and not p.path.sums_any_k:
        return compute_parts_of_k(r.problem, p)
    parts = part_count(&p.grid)
    if parts > 1 and (p.private_columns or p.private_rows):
        job.g, job.p = r.problem, p
        return parallel_for(compute_private_part, &job, parts, parts)
    return p.path.run(r.problem, p)
