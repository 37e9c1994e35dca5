"""Small K: writing C takes most of the time (csrc/gemm/small_k_body.h).

The path packs all of B, and shifts its columns so that panels begin at cache lines of C. The CPU writes full lines
twice as fast as half lines, and streaming stores need full lines. If rows of a large C begin at different places in a
cache line, the path computes all rows that begin at one place, then the rows of the next place. If C has the bare sums
or distances, the kernel stores C. If C has neither bare sums nor distances, the epilogue computes C from one part of
the sums at a time, while the part is in the L1 cache.
"""

from libc.stddef cimport ptrdiff_t
from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t, uint32_t, uintptr_t
from libc.string cimport memcpy, memset

from int8blas.core.kernels cimport (
    I8_CHUNK, I8_DISTANCES, I8_GROUP, I8_MAX_SMALL_K, I8_PANEL, i8_output_args, i8_small_k_args)
from int8blas.core.memory cimport LINE, STREAM_BYTES, acquire, release
from int8blas.core.split cimport ceil_div, drop_idle_parts, part_count, share, split
from int8blas.core.threads cimport THREAD_BYTES, parallel_for, threads_for_bytes
from int8blas.gemm.operand cimport has_zero
from int8blas.gemm.output cimport output
from int8blas.gemm.path cimport Description, Path, Plan, Planned, as_capsule, divide_long_k, needs_blocks
from int8blas.gemm.paths.sizes cimport is_small_k
from int8blas.gemm.problem cimport Problem, find_row_terms, has_row_offset, is_quantized, row_offset
from int8blas.gemm.squares cimport add_panel_squares

cdef enum:
    ROWS = 64                   # rows of A that are packed at a time
    # The minimum number of panels in a row of C for shifting columns. The shift adds one panel, at most 1/16 more work.
    MIN_SHIFTED = 16
    # The maximum number of sums, and of panels, for one call of the epilogue. The sums take 32 KiB, which fit the L1
    # cache. 512 x 4096 x 8 takes 116 us with 4 panels, 105 us with 32 panels and 130 us with 128 panels (AVX512-VNNI,
    # Zen 5).
    PART = 1 << 13
    PART_PANELS = 32


cdef struct SmallKPlan:
    Plan common
    bint stream                 # streaming stores write C past the caches


cdef bint takes_small_k(const Problem *g, const Plan *p) noexcept nogil:
    """Return whether this path takes a problem. K must be small and C large. If micro-kernels can apply the epilogue,
    this path's kernel must be able to apply it too."""
    return (
        is_small_k(g) and not is_quantized(g) and (not p.to_output or g.epilogue.kind == I8_DISTANCES)
        and not needs_blocks(g, p)
    )


cdef void plan_small_k(const Problem *g, Plan *plan) noexcept nogil:
    """Choose the number of threads. The path packs little, and stores to C limit its speed."""
    cdef SmallKPlan *p = <SmallKPlan *>plan
    cdef double work = <double>g.m * <double>g.n * <double>g.k
    cdef int64_t size = g.m * g.n * sizeof(int32_t)
    split(g.m, 1, threads_for_bytes(work, g.kernels.tuning.thread_work, <double>size, THREAD_BYTES, g.threads), False,
          &plan.grid)
    drop_idle_parts(&plan.grid)
    plan.packs_squares = plan.to_output
    p.stream = size >= STREAM_BYTES * part_count(&plan.grid)
    divide_long_k(g, plan)


# B in the form that the kernel reads. The first `lead` columns of the first panel are padding.
cdef struct Columns:
    int lead, groups
    int64_t panels
    const int8_t *data
    const int64_t *sums         # sums of the columns of B
    const int32_t *init


cdef inline bint is_stored(const Plan *p) noexcept nogil:
    """Return whether the kernel stores C: bare sums (from_registers), or distances or s64 (to_output)."""
    return p.from_registers or p.to_output


cdef inline int32_t start_value(const Plan *p, int32_t offset, int64_t zero, int64_t sum) noexcept nogil:
    """Return the start value of a row or column: its offset minus the term of the other operand's zero point. For
    distances the term is multiplied by -2."""
    cdef int factor = -2 if p.to_output else 1
    return <int32_t>(<uint32_t>offset - <uint32_t>factor * <uint32_t>zero * <uint32_t>sum)


cdef bint has_row_terms(const Problem *g) noexcept nogil:
    """Return whether the kernel needs the row sums of A - ao, for zero points of B."""
    return has_zero(&g.b)


cdef void start_rows(const Problem *g, const Plan *p, int64_t row, int rows, int64_t *terms,
                     int32_t *init) noexcept nogil:
    """Find the sums of a few rows of A - ao, if needed, and the start values of the rows."""
    cdef int i
    if has_row_terms(g):
        find_row_terms(g, row, rows, terms)
    for i in range(rows):
        init[i] = row_offset(g, row + i) if is_stored(p) else 0
        if g.b.zero_point != 0 and g.b.zero_points is NULL:
            init[i] = start_value(p, init[i], g.b.zero_point, terms[i])


cdef inline bint streams(const Problem *g, const SmallKPlan *plan, const Columns *b) noexcept nogil:
    """Return whether the kernel writes C past the caches: the plan allows it, and cache lines begin at the same column
    in each row of C."""
    return plan.stream and b.lead * <int>sizeof(int32_t) == <int>(<uintptr_t>g.c.data % LINE) and g.c.row % LINE == 0


cdef void multiply_rows(const Problem *g, const SmallKPlan *plan, const Columns *b, int64_t row,
                        int64_t end) noexcept nogil:
    """Multiply some rows of A by the prepared B."""
    cdef const Plan *p = &plan.common
    cdef uint8_t packed[ROWS * I8_MAX_SMALL_K]
    cdef int64_t row_terms[ROWS]
    cdef int32_t row_init[ROWS]
    cdef int32_t sums[PART + I8_CHUNK]
    cdef bint in_place = g.a.column == 1 and g.k >= I8_GROUP, stores = is_stored(p)
    cdef bint starts = has_row_terms(g) or (stores and has_row_offset(g))
    # The number of panels of B that fit half of the L1 cache.
    cdef int64_t step = max(<int64_t>1, g.machine.l1 // 2 // (b.groups * I8_GROUP * I8_PANEL))
    cdef int64_t panel, column, next_column
    cdef int64_t most = ROWS
    cdef int rows
    cdef const uint8_t *a
    cdef i8_small_k_args t
    cdef i8_output_args o
    t.groups, t.distances = b.groups, p.to_output
    t.a.tail = <int>(g.k % I8_GROUP) if in_place else 0
    t.a.flip = g.a.sign_flip if in_place else 0
    t.stream = streams(g, plan, b)
    t.dst_row = g.c.row // <ptrdiff_t>sizeof(int32_t)
    t.row_init = row_init if starts else NULL
    if not stores:
        step = min(min(step, b.panels), <int64_t>PART_PANELS)
        most = min(most, PART // (step * I8_PANEL))
        t.dst, t.dst_row, t.stream = sums, step * I8_PANEL, False
        memset(&o, 0, sizeof(o))
    while row < end:
        rows = <int>min(most, end - row)
        a = g.a.data + row * g.a.row
        t.rows = rows
        if in_place:
            t.a.data, t.a.row, t.a.group = a, g.a.row, I8_GROUP
        else:
            g.kernels.packing.pack_panel(packed, rows, rows, g.k, a, g.a.row, g.a.column, g.a.sign_flip)
            t.a.data, t.a.row, t.a.group = packed, I8_GROUP, I8_GROUP * rows
        if starts:
            start_rows(g, p, row, rows, row_terms, row_init)
        panel = column = 0
        while panel < b.panels:
            next_column = min((panel + step) * I8_PANEL - b.lead, g.n)
            t.first = b.lead if panel == 0 else 0
            t.b = b.data + panel * b.groups * I8_GROUP * I8_PANEL
            t.col_init = b.init + panel * I8_PANEL
            if stores:
                t.dst = <int32_t *>(g.c.data + row * g.c.row) + column
            t.cols = next_column - column
            g.kernels.gemm.small_k.run(&t)
            if not stores:
                if g.a.zero_points is not NULL:
                    o.ao, o.col_sum = g.a.zero_points + row, b.sums + column
                if g.b.zero_points is not NULL:
                    o.bo, o.row_term = g.b.zero_points + column, row_terms
                output(g, &o, sums, rows, <int>t.cols, t.dst_row, row, column)
            column = next_column
            panel += step
        row += rows


cdef void shift_panels(int8_t *dst, const int8_t *src, int64_t panels, int groups, int lead) noexcept nogil:
    """Copy the columns of `panels` panels, shifted by `lead` columns."""
    cdef int64_t i
    cdef int size = I8_GROUP * I8_PANEL, stay = (I8_PANEL - lead) * I8_GROUP, g
    for i in range(panels):
        for g in range(groups):
            memcpy(dst + (i * groups + g) * size + size - stay, src + (i * groups + g) * size, stay)
            memcpy(dst + ((i + 1) * groups + g) * size, src + (i * groups + g) * size + stay, size - stay)


cdef int64_t lead_classes(const Problem *g, const SmallKPlan *p) noexcept nogil:
    """Return n such that cache lines begin at the same column in every n-th row of C. The path computes n separate
    products of every n-th row, with streaming stores. Return 1 if the path does not stream, or if each row has its own
    zero point or offset."""
    if (not p.stream or not p.common.from_registers or g.c.row % <ptrdiff_t>sizeof(int32_t)
            or g.n < MIN_SHIFTED * I8_PANEL or g.a.zero_points is not NULL or has_row_offset(g)):
        return 1
    return LINE // (g.c.row & -g.c.row) if g.c.row % LINE else 1


cdef int compute_rows(const void *job, int64_t part, int64_t parts) noexcept nogil:
    """Compute one thread's rows of C. Return 0, or -1 if there is no memory."""
    cdef const Problem *g = (<const Planned *>job).g
    cdef const SmallKPlan *p = <const SmallKPlan *>(<const Planned *>job).p
    cdef int64_t classes = lead_classes(g, p), i
    cdef int64_t panels = ceil_div(g.n, I8_PANEL), groups = ceil_div(g.k, I8_GROUP)
    cdef int64_t padded = panels * I8_PANEL, panel_size = groups * I8_GROUP * I8_PANEL, size = panels * panel_size
    cdef Problem rows = g[0]
    cdef Columns b
    cdef char *memory
    cdef int64_t *sums
    cdef int8_t *data
    # Memory for packed B, for shifted B with one more panel, and for sums and start values of the columns.
    memory = <char *>acquire(2 * size + panel_size + 12 * (padded + I8_PANEL))
    if memory is NULL:
        return -1
    data = <int8_t *>memory
    sums = <int64_t *>(data + 2 * size + panel_size)
    b.groups = <int>groups
    b.data, b.sums = g.panels.data, <int64_t *>g.panels.col_sums
    if g.panels.data is NULL:
        g.kernels.packing.pack_panels(<uint8_t *>data, panel_size, g.n, g.k, g.b.data, g.b.column, g.b.row,
                                      g.b.sign_flip)
        b.data, b.sums = data, sums
        if has_zero(&g.a) or p.common.packs_squares:
            for i in range(panels):
                g.kernels.packing.panel_sums(sums + i * I8_PANEL, data + i * panel_size, groups)
    for i in range(classes):
        rows.m = (g.m - i + classes - 1) // classes
        rows.a.data, rows.a.row = g.a.data + i * g.a.row, classes * g.a.row
        rows.c.data, rows.c.row = g.c.data + i * g.c.row, classes * g.c.row
        compute_class(&rows, p, b, data + size, <int32_t *>(sums + padded), share(rows.m, part, parts),
                      share(rows.m, part + 1, parts))
    release(memory)
    return 0


cdef void compute_class(const Problem *g, const SmallKPlan *plan, Columns b, int8_t *shifted, int32_t *init,
                        int64_t first, int64_t end) noexcept nogil:
    """Compute rows `first` to `end` of C. `shifted` has room for B with one more panel, and `init` has room for start
    values of the columns."""
    cdef const Plan *p = &plan.common
    cdef int64_t panels = ceil_div(g.n, I8_PANEL), panel_size = b.groups * I8_GROUP * I8_PANEL, i
    cdef int32_t *squares = g.epilogue.column_squares if p.packs_squares else NULL
    b.lead = 0
    if is_stored(p) and g.c.row % LINE == 0 and panels >= MIN_SHIFTED:
        b.lead = <int>(<uintptr_t>g.c.data % LINE) // <int>sizeof(int32_t)
    b.panels = ceil_div(b.lead + g.n, I8_PANEL)
    b.init = init
    for i in range(g.n if squares is NULL else 0):
        init[b.lead + i] = g.epilogue.co_cols[i] if is_stored(p) and g.epilogue.co_cols is not NULL else 0
    for i in range(panels if squares is not NULL else 0):
        add_panel_squares(g, b.data + i * panel_size, g.k, b.sums + i * I8_PANEL, g.n - i * I8_PANEL, True,
                          init + b.lead + i * I8_PANEL)
    if g.a.zero_point != 0 and g.a.zero_points is NULL:
        for i in range(g.n):
            init[b.lead + i] = start_value(p, init[b.lead + i], g.a.zero_point, b.sums[i])
    if b.lead:
        shift_panels(shifted, b.data, panels, b.groups, b.lead)
        b.data = shifted
    multiply_rows(g, plan, &b, first, end)


cdef int run_small_k(const Problem *g, const Plan *plan) noexcept nogil:
    """Compute a planned problem. Return 0, or -1 if there is no memory.

    Each thread prepares all of B, because preparing B takes less time than fetching it from another core.
    """
    cdef Planned job = Planned(g, plan)
    return parallel_for(compute_rows, &job, part_count(&plan.grid), part_count(&plan.grid))


cdef void describe_small_k(const Problem *g, const Plan *plan, Description *d) noexcept nogil:
    """Describe the plan: the size of the kernel, and the rows of C that threads divide."""
    d.tile[0], d.tile[1] = g.kernels.gemm.small_k.rows, I8_PANEL
    d.unit[0], d.unit[1] = 1, g.n


cdef Path path = Path(
    name=b"small_k", summary=b"small K, so C is written row by row from a packed B in the cache",
    by_size=False, names_kernel=True, sums_any_k=False,
    takes=takes_small_k, specialize=NULL, plan=plan_small_k, run=run_small_k, describe=describe_small_k)
PATH = as_capsule(&path, sizeof(SmallKPlan))
