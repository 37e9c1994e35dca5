"""Few rows of A and a packed B of 4 bits, which is read once, as it is packed (csrc/gemm/four_bits_body.h).

What takes the time is reading B from memory, half of the bytes of an 8-bit B. All rows are made first, s8 and padded
with zeros: copied, or quantized if A is a dynamic source. Then each thread multiplies them by panels of its own, a few
at a time, and the sums go to C by the epilogue while they are in the L1 cache. With more rows than a kernel takes,
tiles of an unpacked B are faster (pack_b.pyx).

B' is the values of B less a zero point. The kernels multiply the values as they are, so the sums of the rows of A are
computed too. With scale groups the kernels subtract all zero points; otherwise they subtract what all columns share,
and the epilogue subtracts the rest.
"""

from libc.stddef cimport ptrdiff_t
from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t, uint32_t
from libc.string cimport memset

from int8blas.core.kernels cimport (
    I8_DOT2,
    I8_MAX_FOUR_BITS,
    I8_PANEL,
    i8_four_bits_args,
    i8_output_args,
    i8_scale_groups,
)
from int8blas.core.memory cimport ALIGNMENT, acquire, carve, release
from int8blas.core.split cimport ceil_div, leave_out, part_count, round_up, share, split
from int8blas.core.threads cimport THREAD_BYTES, run_parts
from int8blas.gemm.dynamic_source cimport quantize_rows, source_parameters
from int8blas.gemm.operand cimport SHIFT, SIGN_BIT, address, has_zero, zero_of
from int8blas.gemm.output cimport set_target
from int8blas.gemm.path cimport Description, Path, Plan, as_capsule
from int8blas.gemm.problem cimport STEP_K, Problem, has_scale_groups, is_doubled, row_scales_from, thread_work

cdef enum:
    # Rows that are multiplied so, and without VNNI: more make unpacking pay.
    ROWS = 16
    PAIRED_ROWS = 8
    # Panels that are multiplied together, whose sums fill lines of C.
    PANELS = 4
    COLUMNS = PANELS * I8_PANEL


# The rows of A, which all threads read, and what the sums need to know of them.
cdef struct Rows:
    int8_t *a
    ptrdiff_t row               # bytes from one row to the next
    int64_t groups, size        # scale groups, and k of each; without, one group of all of K
    int32_t *sums               # of the rows in each group, [rows][groups]
    float *scales
    int64_t *zeros              # of A', of a dynamic source
    int64_t *ao                 # zero points of A
    int32_t *short_ao
    int64_t *row_term           # sums of A - ao
    int32_t *row_init
    bint has_ao                 # some zero point of A is not 0


cdef struct FourBitsJob:
    const Problem *g
    const Plan *p
    Rows rows


cdef inline bint has_values_by_group(const i8_scale_groups *s) noexcept nogil:
    """Return whether scales or zero points other than those of 4-bit weights differ from group to group."""
    return s.row_scales is not NULL or s.row_zeros is not NULL or s.column_zeros is not NULL


cdef bint takes_four_bits(const Problem *g, const Plan *p) noexcept nogil:
    """Return whether B has 4 bits, and A few rows."""
    return (
        g.four_bits.data is not NULL and g.kernels.gemm.four_bits is not NULL and 0 < g.k
        and g.m <= (PAIRED_ROWS if g.kernels.gemm.exact == I8_DOT2 else ROWS)
        and not p.wide and g.source.image is NULL and g.c.line == 0 and not is_doubled(g)
        and not (
            has_scale_groups(g)
            and (has_zero(&g.b) or g.known.large_zeros or has_values_by_group(g.epilogue.scale_groups))
        )
    )


cdef void plan_four_bits(const Problem *g, Plan *plan) noexcept nogil:
    """Divide panels among threads."""
    cdef double work = <double>g.m * <double>g.n * <double>g.k
    cdef double pays = 1 + max(work / thread_work(g), <double>g.n * <double>g.k / 2 / THREAD_BYTES)
    split(1, ceil_div(ceil_div(g.n, I8_PANEL), PANELS), <int64_t>min(<double>g.threads, pays), True, &plan.grid)
    leave_out(&plan.grid)


cdef size_t lay_out(const Problem *g, Rows *r, char *memory) noexcept nogil:
    """Set the pointers of `r` into `memory`, and return how much of it they take."""
    cdef char *start = memory
    r.size = g.epilogue.scale_groups.size if has_scale_groups(g) else g.k
    r.groups = ceil_div(g.k, r.size)
    r.row = round_up(g.k, ALIGNMENT)
    r.a = <int8_t *>carve(&memory, g.m * r.row)
    r.sums = <int32_t *>carve(&memory, sizeof(int32_t) * g.m * r.groups)
    r.scales = <float *>carve(&memory, sizeof(float) * g.m)
    r.zeros = <int64_t *>carve(&memory, sizeof(int64_t) * g.m)
    r.ao = <int64_t *>carve(&memory, sizeof(int64_t) * g.m)
    r.short_ao = <int32_t *>carve(&memory, sizeof(int32_t) * g.m)
    r.row_term = <int64_t *>carve(&memory, sizeof(int64_t) * g.m)
    r.row_init = <int32_t *>carve(&memory, sizeof(int32_t) * g.m)
    return memory - start


cdef void make_rows(const Problem *g, Rows *r) noexcept nogil:
    """Make the rows of A as s8, padded with zeros, and find their scales and zero points."""
    cdef const float *scales = row_scales_from(g, 0)
    cdef int64_t i, j
    cdef uint8_t *row
    memset(r.a, 0, g.m * r.row)
    for i in range(g.m):
        r.scales[i] = 1 if scales is NULL else scales[i]
        r.zeros[i] = zero_of(&g.a, i)
    if g.source.dynamic is not NULL:
        source_parameters(g, 0, g.m, r.scales, r.zeros)
        quantize_rows(g, <uint8_t *>r.a, r.row, 0, g.m, 0, g.k, r.scales, r.zeros)
    r.has_ao = False
    for i in range(g.m):
        row = <uint8_t *>r.a + i * r.row
        if g.source.dynamic is NULL:
            g.kernels.packing.pack_panel(row, 1, 1, g.k, address(&g.a, i, 0), g.a.row, g.a.column,
                                         g.a.sign_flip ^ SIGN_BIT)
        else:
            for j in range(g.k):
                row[j] ^= SIGN_BIT
            if g.source.dynamic.symmetric or not g.source.dynamic.per_row:
                r.zeros[i] = g.a.zero_point
        r.ao[i] = r.zeros[i] - SHIFT
        r.short_ao[i] = <int32_t>r.ao[i]
        r.has_ao = r.has_ao or r.ao[i] != 0


cdef void add_up_rows(const Problem *g, Rows *r) noexcept nogil:
    """Add up the rows in each group, and set what their sums start with."""
    cdef int64_t i, group, total, all
    cdef uint32_t init
    for i in range(g.m):
        all = 0
        for group in range(r.groups):
            g.kernels.packing.row_sums(&total, 1, r.size, <const uint8_t *>r.a + i * r.row + group * r.size, 0, 1,
                                       SIGN_BIT)
            total -= SHIFT * r.size
            r.sums[i * r.groups + group] = <int32_t>total
            all += total
        r.row_term[i] = all - g.k * r.ao[i]
        init = -<uint32_t>g.four_bits.zero * <uint32_t>all
        if g.b.zero_points is NULL:
            init -= <uint32_t>g.b.zero_point * <uint32_t>r.row_term[i]
        r.row_init[i] = <int32_t>init


cdef void set_kernel(const Problem *g, const Rows *r, i8_four_bits_args *t) noexcept nogil:
    """Set what all panels have in common."""
    t.groups, t.steps = r.groups, ceil_div(r.size, STEP_K)
    t.a_row = r.row
    t.b_panel = g.four_bits.step
    t.zero = g.four_bits.zero
    t.scale, t.col_sum, t.zeros = NULL, NULL, NULL
    t.panel_step = r.groups * I8_PANEL
    t.dst_row = COLUMNS


cdef void set_epilogue(const Problem *g, const Rows *r, i8_output_args *o) noexcept nogil:
    """Set what the epilogue of all panels has in common."""
    memset(o, 0, sizeof(o[0]))
    set_target(g, o)
    o.rows, o.acc_row = <int>g.m, COLUMNS
    if not has_scale_groups(g):
        o.ao = r.ao if r.has_ao else NULL
        o.row_term = r.row_term if g.b.zero_points is not NULL else NULL
        if row_scales_from(g, 0) is not NULL or g.source.dynamic is not NULL:
            o.row_scale = r.scales


cdef void multiply_rows(const Problem *g, const Rows *r, i8_four_bits_args *t, int32_t *sums,
                        float *scaled) noexcept nogil:
    """Multiply all rows by some panels, as many rows at a time as a kernel takes."""
    cdef int64_t tiles = ceil_div(g.m, I8_MAX_FOUR_BITS), tile, row
    for tile in range(tiles):
        row = share(g.m, tile, tiles)
        t.rows = <int>(share(g.m, tile + 1, tiles) - row)
        t.a = r.a + row * r.row
        t.row_init, t.row_sums = r.row_init + row, r.sums + row * r.groups
        t.row_scale, t.ao = r.scales + row, r.short_ao + row
        t.dst, t.y = sums + row * COLUMNS, scaled + row * COLUMNS
        g.kernels.gemm.four_bits(t)


cdef int multiply_part(const void *job, int64_t part, int64_t parts) noexcept nogil:
    """Multiply one thread's panels."""
    cdef const Problem *g = (<const FourBitsJob *>job).g
    cdef const Rows *r = &(<const FourBitsJob *>job).rows
    cdef int64_t panels = ceil_div(g.n, I8_PANEL), units = ceil_div(panels, PANELS)
    cdef int64_t panel = share(units, part, parts) * PANELS, end = min(share(units, part + 1, parts) * PANELS, panels)
    cdef int32_t sums[ROWS * COLUMNS]
    cdef float scaled[ROWS * COLUMNS]
    cdef int64_t bo[COLUMNS]
    cdef int64_t column
    cdef i8_four_bits_args t
    cdef i8_output_args o
    cdef int i
    set_kernel(g, r, &t)
    set_epilogue(g, r, &o)
    while panel < end:
        column = panel * I8_PANEL
        t.panels = <int>min(<int64_t>PANELS, end - panel)
        t.b = g.four_bits.data + panel * g.four_bits.step
        if has_scale_groups(g):
            t.scale = g.epilogue.scale_groups.scales + panel * t.panel_step
            t.col_sum = g.epilogue.scale_groups.col_sums + panel * t.panel_step if r.has_ao else NULL
            t.zeros = g.four_bits.zeros + panel * t.panel_step if g.four_bits.zeros is not NULL else NULL
            o.acc_f32 = scaled
        else:
            o.acc32 = sums
            o.col_sum = g.four_bits.col_sums + column if r.has_ao else NULL
        multiply_rows(g, r, &t, sums, scaled)
        o.cols = <int>min(<int64_t>t.panels * I8_PANEL, g.n - column)
        o.row, o.column = 0, column
        if o.row_term is not NULL:
            # Zeros up to whole panels: the epilogue computes all of their columns.
            for i in range(COLUMNS):
                bo[i] = g.b.zero_points[column + i] if i < o.cols else 0
            o.bo = bo
        o.c = g.c.data + column * g.c.column
        g.kernels.stage.output(&o)
        panel += PANELS
    return 0


cdef int run_four_bits(const Problem *g, const Plan *plan) noexcept nogil:
    """Compute a planned problem. Return 0, or -1 if there is no memory."""
    cdef FourBitsJob job
    cdef int parts = part_count(&plan.grid), status
    cdef char *memory = <char *>acquire(lay_out(g, &job.rows, <char *>ALIGNMENT))
    if memory is NULL:
        return -1
    status = 0
    if not g.c.dry_run:
        job.g, job.p = g, plan
        lay_out(g, &job.rows, memory)
        make_rows(g, &job.rows)
        add_up_rows(g, &job.rows)
        status = run_parts(multiply_part, &job, parts, parts)
    release(memory)
    return status


cdef void describe_four_bits(const Problem *g, const Plan *plan, Description *d) noexcept nogil:
    """Tell the size of the largest kernel, whose panels are the units."""
    d.tile[0], d.tile[1] = I8_MAX_FOUR_BITS, COLUMNS
    d.unit[0], d.unit[1] = g.m, COLUMNS


cdef Path path = Path(
    name=b"four_bits", summary=b"few rows, so B of 4 bits is read once, as it is packed",
    by_size=False, names_kernel=True, sums_any_k=False,
    takes=takes_four_bits, specialize=NULL, plan=plan_four_bits, run=run_four_bits, describe=describe_four_bits)
PATH = as_capsule(&path, sizeof(Plan))
