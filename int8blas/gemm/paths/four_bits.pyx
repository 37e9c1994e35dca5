"""Multiply by a packed B of 4 bits without unpacking it (csrc/gemm/four_bits_body.h).

With few rows, reading B takes most of the time, and B of 4 bits has half of the bytes of an 8-bit B. First the path
writes rows of A as s8, padded with zeros. The path copies the rows, or quantizes the rows of a dynamic source. Then
each thread multiplies all rows by some of the panels, a few panels at a time. The epilogue computes C from the sums
while the sums are in the L1 cache. With many rows, tiles with an unpacked B (pack_b.pyx) are faster than the path
`four_bits`. With scale groups the path is faster than tiles for any number of rows, and takes blocks of rows that fit
the L2 cache.

B' has the values of B minus a zero point. The kernels multiply the stored values, so the path also computes the sums of
the rows of A. With scale groups the kernels subtract the terms of all zero points. Without scale groups the kernels
subtract the term that all columns share, and the epilogue subtracts all other terms.
"""

from libc.stddef cimport ptrdiff_t
from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t, uint32_t
from libc.string cimport memset

from int8blas.core.kernels cimport (
    I8_DOT2, I8_MAX_FOUR_BITS, I8_PANEL, i8_four_bits_args, i8_output_args, i8_scale_groups)
from int8blas.core.memory cimport ALIGNMENT, acquire, carve, release
from int8blas.core.split cimport ceil_div, drop_idle_parts, part_count, round_up, share, split
from int8blas.core.threads cimport THREAD_BYTES, THREAD_REALS, paid_threads, parallel_for, threads_for_bytes
from int8blas.gemm.dynamic_source cimport quantize_rows, source_parameters
from int8blas.gemm.operand cimport SHIFT, SIGN_BIT, address, has_zero, zero_of
from int8blas.gemm.output cimport set_target
from int8blas.gemm.path cimport Description, Path, Plan, as_capsule
from int8blas.gemm.problem cimport (
    STEP_K, Problem, element, has_scale_groups, is_doubled, row_scales_from, thread_work, zero_by_row)

cdef enum:
    # The maximum number of rows: with VNNI, with a matrix unit, and without VNNI. For more rows than the maximum, tiles
    # with an unpacked B are faster than this path. Tiles of a matrix unit are 1.1x as fast for 16 rows (N = K = 4096,
    # Emerald Rapids). On Zen 5 this path is 1.2x as fast as tiles for 32 rows (AVX512-VNNI) and for 16 rows (AVX2).
    ROWS = 32
    MATRIX_ROWS = 8
    PAIRED_ROWS = 16
    # The number of panels that are multiplied together. The sums of 4 panels fill whole cache lines of C, and stay in
    # the L1 cache.
    PANELS = 4
    COLUMNS = PANELS * I8_PANEL


# A block of rows of A, which all threads read, and the values of each row that the sums need.
cdef struct RowBlock:
    int64_t first, count        # the rows of the block
    int8_t *a
    ptrdiff_t row               # bytes from one row to the next
    int64_t groups, size        # number of scale groups, and their k; without scale groups, one group has all of K
    int32_t *terms              # [rows][groups]: sums of A in a group, times -zero (times -1 if groups have zeros)
    float *scales
    int64_t *zeros              # zero points of the A' of a dynamic source
    int64_t *ao                 # zero points of A
    int32_t *short_ao
    int64_t *row_term           # sums of A - ao
    int32_t *row_init
    bint has_ao                 # some zero point of A may not be 0


cdef struct FourBitsJob:
    const Problem *g
    RowBlock rows


cdef inline bint has_values_by_group(const i8_scale_groups *s) noexcept nogil:
    """Return whether scales, or zero points other than the zero points of 4-bit weights, differ from group to group."""
    return s.row_scales is not NULL or s.row_zeros is not NULL or s.column_zeros is not NULL


cdef int64_t most_rows(const Problem *g) noexcept nogil:
    """Return the maximum number of rows of A. With scale groups the number has no limit."""
    if has_scale_groups(g):
        return g.m
    if g.kernels.gemm.exact == I8_DOT2:
        return PAIRED_ROWS
    return ROWS if g.kernels.matrix is NULL else MATRIX_ROWS


cdef bint takes_four_bits(const Problem *g, const Plan *p) noexcept nogil:
    """Return whether the path computes a problem: B has 4 bits, and A has few rows or B has scale groups."""
    return (
        g.four_bits.data is not NULL and g.kernels.gemm.four_bits is not NULL and 0 < g.k and g.m <= most_rows(g)
        and not p.wide and g.source.image is NULL and g.c.line == 0 and not is_doubled(g)
        and (has_scale_groups(g) or g.four_bits.col_sums is not NULL)
        and not (
            has_scale_groups(g)
            and (has_zero(&g.b) or g.known.far_zeros or has_values_by_group(g.epilogue.scale_groups))
        )
    )


cdef void plan_four_bits(const Problem *g, Plan *plan) noexcept nogil:
    """Divide panels among threads."""
    cdef double work = <double>g.m * <double>g.n * <double>g.k
    cdef int64_t threads = threads_for_bytes(
        work, thread_work(g), <double>g.n * <double>g.k / 2, THREAD_BYTES, g.threads)
    split(1, ceil_div(ceil_div(g.n, I8_PANEL), PANELS), threads, True, &plan.grid)
    drop_idle_parts(&plan.grid)


cdef int64_t block_rows(const Problem *g) noexcept nogil:
    """Return the rows of a block: a multiple of ROWS that fits half of the L2 cache."""
    return min(g.m, max(<int64_t>1, g.machine.l2 // 2 // (round_up(g.k, ALIGNMENT) * ROWS)) * ROWS)


cdef size_t lay_out(const Problem *g, RowBlock *r, char *memory) noexcept nogil:
    """Set the pointers of `r` into `memory`, and return the bytes that the arrays take."""
    cdef char *start = memory
    cdef int64_t rows = block_rows(g)
    r.size = g.epilogue.scale_groups.size if has_scale_groups(g) else g.k
    r.groups = ceil_div(g.k, r.size)
    r.row = round_up(g.k, ALIGNMENT)
    r.a = <int8_t *>carve(&memory, rows * r.row)
    r.terms = <int32_t *>carve(&memory, sizeof(int32_t) * rows * r.groups)
    r.scales = <float *>carve(&memory, sizeof(float) * rows)
    r.zeros = <int64_t *>carve(&memory, sizeof(int64_t) * rows)
    r.ao = <int64_t *>carve(&memory, sizeof(int64_t) * rows)
    r.short_ao = <int32_t *>carve(&memory, sizeof(int32_t) * rows)
    r.row_term = <int64_t *>carve(&memory, sizeof(int64_t) * rows)
    r.row_init = <int32_t *>carve(&memory, sizeof(int32_t) * rows)
    r.has_ao = zero_by_row(g) or g.a.zero_point != SHIFT
    return memory - start


cdef int make_rows(const void *job, int64_t part, int64_t parts) noexcept nogil:
    """Write a part of a block's rows of A as s8, padded with zeros, and find their scales, zero points and sums."""
    cdef const Problem *g = (<const FourBitsJob *>job).g
    cdef const RowBlock *r = &(<const FourBitsJob *>job).rows
    cdef int64_t first = share(r.count, part, parts), end = share(r.count, part + 1, parts), i, j
    cdef const float *scales = row_scales_from(g, r.first)
    cdef uint8_t *row
    memset(r.a + first * r.row, 0, (end - first) * r.row)
    for i in range(first, end):
        r.scales[i] = 1 if scales is NULL else scales[i]
        r.zeros[i] = zero_of(&g.a, r.first + i)
    if g.source.dynamic is not NULL:
        source_parameters(g, r.first + first, end - first, r.scales + first, r.zeros + first)
        quantize_rows(g, <uint8_t *>r.a + first * r.row, r.row, r.first + first, end - first, 0, g.k, r.scales + first,
                      r.zeros + first)
    for i in range(first, end):
        row = <uint8_t *>r.a + i * r.row
        if g.source.dynamic is NULL:
            g.kernels.packing.pack_panel(row, 1, 1, g.k, address(&g.a, r.first + i, 0), g.a.row, g.a.column,
                                         g.a.sign_flip ^ SIGN_BIT)
        else:
            for j in range(g.k):
                row[j] ^= SIGN_BIT
            if g.source.dynamic.symmetric or not g.source.dynamic.per_row:
                r.zeros[i] = g.a.zero_point
        r.ao[i] = r.zeros[i] - SHIFT
        r.short_ao[i] = <int32_t>r.ao[i]
        add_up_row(g, r, i)
    return 0


cdef void add_up_row(const Problem *g, const RowBlock *r, int64_t i) noexcept nogil:
    """Sum the elements of a row of A in each group. Set the start value of the row's sums."""
    cdef int64_t factor = 1 if g.four_bits.zeros is not NULL else g.four_bits.zero, group, total, all = 0
    cdef uint32_t init
    for group in range(r.groups):
        g.kernels.packing.row_sums(&total, 1, r.size, <const uint8_t *>r.a + i * r.row + group * r.size, 0, 1, SIGN_BIT)
        total -= SHIFT * r.size
        r.terms[i * r.groups + group] = <int32_t>(-total * factor)
        all += total
    r.row_term[i] = all - g.k * r.ao[i]
    init = -<uint32_t>g.four_bits.zero * <uint32_t>all
    if g.b.zero_points is NULL:
        init -= <uint32_t>g.b.zero_point * <uint32_t>r.row_term[i]
    r.row_init[i] = <int32_t>init


cdef void multiply_rows(const Problem *g, const RowBlock *r, i8_four_bits_args *t, int64_t panel, int64_t first,
                        int64_t rows) noexcept nogil:
    """Multiply some rows by t.panels panels. Each call of the kernel takes up to I8_MAX_FOUR_BITS rows."""
    cdef int64_t tiles = ceil_div(rows, I8_MAX_FOUR_BITS), tile, row, at
    cdef int32_t *dst = t.dst
    cdef float *y = t.y
    cdef const i8_scale_groups *s = g.epilogue.scale_groups
    cdef ptrdiff_t values = panel * r.groups * I8_PANEL
    t.b = g.four_bits.data + panel * g.four_bits.step
    if has_scale_groups(g):
        t.scale = s.scales + values
        t.half_scale = s.half_scales + values if s.half_scales is not NULL else NULL
        t.col_sum = s.col_sums + values if r.has_ao else NULL
        t.zeros = g.four_bits.zeros + values if g.four_bits.zeros is not NULL else NULL
    for tile in range(tiles):
        at = share(rows, tile, tiles)
        row = first + at
        t.rows = <int>(share(rows, tile + 1, tiles) - at)
        t.a = r.a + row * r.row
        t.row_init, t.row_terms = r.row_init + row, r.terms + row * r.groups
        t.row_scale, t.ao = r.scales + row, r.short_ao + row
        t.dst, t.y = dst + at * COLUMNS, y + at * COLUMNS
        g.kernels.gemm.four_bits(t)
    t.dst, t.y = dst, y


cdef void finish(const Problem *g, const RowBlock *r, i8_output_args *o, int64_t first, int64_t rows) noexcept nogil:
    """Apply the epilogue to some rows of the columns in `o`."""
    cdef int64_t row = r.first + first
    o.rows, o.row = <int>rows, row
    if not has_scale_groups(g):
        o.ao = r.ao + first if r.has_ao else NULL
        o.row_term = r.row_term + first if g.b.zero_points is not NULL else NULL
        if row_scales_from(g, 0) is not NULL or g.source.dynamic is not NULL:
            o.row_scale = r.scales + first
    o.c = element(&g.c, row, o.column)
    g.kernels.stage.output(o)


cdef int multiply_panels(const void *job, int64_t part, int64_t parts) noexcept nogil:
    """Multiply a block of rows by one thread's panels."""
    cdef const Problem *g = (<const FourBitsJob *>job).g
    cdef const RowBlock *r = &(<const FourBitsJob *>job).rows
    cdef int64_t panels = ceil_div(g.n, I8_PANEL), units = ceil_div(panels, PANELS)
    cdef int64_t panel = share(units, part, parts) * PANELS, end = min(share(units, part + 1, parts) * PANELS, panels)
    cdef int32_t sums[ROWS * COLUMNS]
    cdef float scaled[ROWS * COLUMNS]
    cdef int64_t bo[COLUMNS]
    cdef int64_t width, first, rows
    cdef i8_four_bits_args t
    cdef i8_output_args o
    cdef int i
    t.groups, t.steps, t.a_row, t.b_step = r.groups, ceil_div(r.size, STEP_K), r.row, g.four_bits.step
    t.scale, t.half_scale, t.col_sum, t.zeros = NULL, NULL, NULL, NULL
    t.dst_row = COLUMNS
    memset(&o, 0, sizeof(o))
    set_target(g, &o)
    o.acc_row = COLUMNS
    if has_scale_groups(g):
        o.acc_f32 = scaled
    else:
        o.acc32 = sums
    while panel < end:
        width = min(<int64_t>PANELS, end - panel)
        o.column = panel * I8_PANEL
        o.cols = <int>min(width * I8_PANEL, g.n - o.column)
        if not has_scale_groups(g):
            o.col_sum = g.four_bits.col_sums + o.column if r.has_ao else NULL
            if g.b.zero_points is not NULL:
                # Pad the zero points with 0 to whole panels, because the epilogue computes all columns of the panels.
                for i in range(COLUMNS):
                    bo[i] = g.b.zero_points[o.column + i] if i < o.cols else 0
                o.bo = bo
        first = 0
        while first < r.count:
            rows = min(<int64_t>ROWS, r.count - first)
            # If several tiles of rows read each panel, take one panel at a time, so that the panel stays in a cache.
            t.panels = <int>(width if rows <= I8_MAX_FOUR_BITS else 1)
            for i in range(width // t.panels):
                t.dst, t.y = sums + i * I8_PANEL, scaled + i * I8_PANEL
                multiply_rows(g, r, &t, panel + i, first, rows)
            finish(g, r, &o, first, rows)
            first += rows
        panel += width
    return 0


cdef int run_four_bits(const Problem *g, const Plan *plan) noexcept nogil:
    """Compute a planned problem. Return 0, or -1 if there is no memory."""
    cdef FourBitsJob job
    cdef int parts = part_count(&plan.grid), makers, status = 0
    cdef int64_t rows = block_rows(g)
    cdef char *memory = <char *>acquire(lay_out(g, &job.rows, <char *>ALIGNMENT))
    if memory is NULL:
        return -1
    job.g = g
    lay_out(g, &job.rows, memory)
    job.rows.first = g.m if g.c.dry_run else 0
    while job.rows.first < g.m and status == 0:
        job.rows.count = min(rows, g.m - job.rows.first)
        makers = paid_threads(<double>job.rows.count * g.k, THREAD_REALS, <double>min(<int64_t>parts, job.rows.count))
        parallel_for(make_rows, &job, makers, makers)
        status = parallel_for(multiply_panels, &job, parts, parts)
        job.rows.first += job.rows.count
    release(memory)
    return status


cdef void describe_four_bits(const Problem *g, const Plan *plan, Description *d) noexcept nogil:
    """Describe the plan: the size of the largest kernel, and the panels that threads divide."""
    d.tile[0], d.tile[1] = I8_MAX_FOUR_BITS, COLUMNS
    d.unit[0], d.unit[1] = g.m, COLUMNS


cdef Path path = Path(
    name=b"four_bits", summary=b"few rows or scale groups, so B of 4 bits is read as it is packed",
    by_size=False, names_kernel=True, sums_any_k=False,
    takes=takes_four_bits, specialize=NULL, plan=plan_four_bits, run=run_four_bits, describe=describe_four_bits)
PATH = as_capsule(&path, sizeof(Plan))
