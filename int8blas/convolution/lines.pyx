"""The strategy for overlapping windows of few channels. Gathering a matrix of overlapping windows would take longer
than copying lines.

A thread copies a part of the image with its padding, with contiguous channels of one group. In the copy, the window of
an output is one segment of each line, and windows of neighbouring outputs are evenly spaced, so the micro-kernel reads
rows of A from the copy (i8_tile_args.more_segments). The copy has each element of the image about once. A gathered
matrix would have each element once for every tap.

The order of k in B is (h, d; w, channel), and each line is padded to a multiple of 4. The copy has the lines of all
planes of a window side by side, so that the lines of a window are evenly spaced. If lines are dilated, the copy puts
runs of neighbouring lines side by side, one run for each plane. The number of lines of a run is the dilation. A unit of
work is a block of the output for one group: some lines, or a stretch of one line. If the instruction set has no exact
multiply-add of bytes, and the no-saturation proof fails for a panel, each unit of work widens its copy and its panels
of B to 16 bits. For the matrix unit of a CPU, each unit of work pads the lines of B with zeros to whole steps. The
bytes of A that meet padding of B do not matter.
"""

from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t
from libc.string cimport memcpy, memset
cimport int8blas.core.cnumpy as cnp

from int8blas.convolution.filters cimport Filters, Images, is_empty, lay_column, set_target
from int8blas.convolution.window_sums cimport window_sums
from int8blas.core.kernels cimport (
    I8_DOT2, I8_DOT4, I8_DOT4_SAT, I8_GROUP, I8_MATRIX_K, I8_MATRIX_ROWS, I8_MATRIX_TILE, I8_PANEL, i8_image,
    i8_output_args, i8_tile_args, i8_tile_output)
from int8blas.core.memory cimport LINE, carve
from int8blas.core.split cimport ceil_div, equal_parts, round_up, share
from int8blas.core.threads cimport max_threads, paid_threads
from int8blas.gemm.operand cimport has_zero
from int8blas.gemm.output cimport EPILOGUE_SUMS
from int8blas.gemm.problem cimport (
    STAGE_WORK, Problem, applies_from_registers, block_a_bytes, is_wide, matrix_of, pays_to_split, set_tile_output,
    tile_rows)
from int8blas.gemm.spans cimport MAX_SPANS, TAP_CHANNELS, Span, multiply_spans, tap_spans
from int8blas.stage.output_stage cimport Bound

cnp.import_array()

cdef enum:
    # If the weights of all panels are split, gathered windows are faster than copied lines for groups with at least
    # SPLIT_OUTPUTS outputs.
    SPLIT_OUTPUTS = 48
    # The number of bytes after a line that a tile may read and a copy may write.
    SLACK = 64
    # The maximum number of groups that are copied together.
    MOST_TOGETHER = 4
    # The matrix unit reads windows from copied lines if the lines fill at least 1 / MATRIX_PADDING of their steps.
    # If lines fill less than 1 / MATRIX_PADDING of their steps, and there are no groups, windows of MATRIX_CHANNELS
    # channels or more are gathered for the unit.
    MATRIX_CHANNELS = 32
    MATRIX_PADDING = 3
    # Kernels read windows from copied lines up to these numbers of channels. MATRIX_TAP_CHANNELS applies to the matrix
    # unit if the channels are a multiple of I8_MATRIX_K. LINE_CHANNELS applies to vector kernels.
    MATRIX_TAP_CHANNELS = 512
    # A 3 x 3 convolution of 14 x 14 pixels and 128 channels takes 52.8 us from copied lines and 57.7 us from gathered
    # windows. With 256 channels, the convolution takes 210 us from copied lines and 221 us from gathered windows
    # (AVX512-VNNI, Zen 5).
    LINE_CHANNELS = 256
    # The maximum number of bytes of a thread's widened panels. Widened panels take at most a quarter of the L2 cache. A
    # 3 x 3 convolution of 28 x 28 pixels and 128 channels takes 1005 us with 32 KiB, and 960 us with 256 KiB or 4 MiB
    # (AVX2, Zen 5).
    WIDE_BYTES = 1 << 18


cdef struct Workspace:
    uint8_t *region
    uint16_t *wide_region
    int16_t *wide_panels
    int8_t *steps
    int32_t *tiles


# A range of panels of a block, with the arguments that all tiles share.
cdef struct Panels:
    int width                   # width in panels
    bint spills                 # whether whole vectors spill into the next output, which is stored later
    int64_t channel             # first output channel
    int64_t size                # bytes of an element of the copy: 1, or 2 if widened
    int64_t line_groups         # groups of k in a line of the window
    const uint8_t *a
    const int8_t *b
    i8_tile_args t
    i8_tile_output out
    i8_output_args o


cdef inline int64_t most_widened(const Problem *g) noexcept nogil:
    """Return the largest size of a thread's widened panels, in bytes."""
    return min(<int64_t>WIDE_BYTES, g.machine.l2 // 4)


cdef inline int64_t window_lines(const i8_image *m) noexcept nogil:
    return m.kernel[0] * m.kernel[1]


cdef inline size_t wide_size(const LinesJob *j) noexcept nogil:
    """Return the bytes of the widened panels of a tile."""
    return sizeof(int16_t) * j.g.kernels.gemm.np * I8_PANEL * window_lines(&j.image) * round_up(j.image.line, I8_GROUP)


cdef inline int64_t line_steps(const i8_image *m) noexcept nogil:
    """Return the number of steps of a matrix unit in a line of a window."""
    return ceil_div(m.line, I8_MATRIX_K)


cdef inline size_t steps_size(const i8_image *m, int64_t panels) noexcept nogil:
    """Return the bytes of panels whose lines are padded to whole steps."""
    return panels * window_lines(m) * line_steps(m) * I8_MATRIX_TILE


cdef inline bint pads_steps(const LinesJob *j) noexcept nogil:
    """Return whether the weights' lines must be padded to whole steps of a matrix unit."""
    return j.matrix is not NULL and j.image.line % I8_MATRIX_K != 0


cdef inline size_t matrix_slack(const LinesJob *j) noexcept nogil:
    """Return the number of bytes after a region that a matrix unit may read, because it reads whole registers."""
    return 0 if j.matrix is NULL else I8_MATRIX_ROWS * j.image.stride[2] * j.image.channels + I8_MATRIX_K


cdef size_t lay_out(const LinesJob *j, Workspace *w, char *memory) noexcept nogil:
    """Set the pointers to the memory of one thread, and return the size of this memory in bytes."""
    cdef char *first = memory
    w.region = <uint8_t *>carve(&memory, j.room + matrix_slack(j))
    w.wide_region = <uint16_t *>carve(&memory, sizeof(uint16_t) * j.room if j.dot == I8_DOT2 else 0)
    w.wide_panels = <int16_t *>carve(&memory, wide_size(j) if j.dot == I8_DOT2 else 0)
    w.steps = <int8_t *>carve(&memory, steps_size(&j.image, j.np) if pads_steps(j) else 0)
    w.tiles = <int32_t *>carve(&memory, sizeof(int32_t) * EPILOGUE_SUMS)
    return memory - first


cdef inline int64_t lines_of_run(const LinesJob *j) noexcept nogil:
    """Return the number of lines in a run: neighbouring lines of a plane in the copy."""
    return j.image.dilation[1] if j.image.kernel[0] > 1 else 1


cdef inline int64_t region_lines(const LinesJob *j, int64_t lines) noexcept nogil:
    """Return the number of lines of a plane in the windows of `lines` output lines, rounded up to whole runs."""
    return round_up(
        (lines - 1) * j.image.stride[1] + (j.image.kernel[1] - 1) * j.image.dilation[1] + 1, lines_of_run(j))


cdef inline ptrdiff_t line_offset(const LinesJob *j, int64_t line) noexcept nogil:
    """Return the offset, in lines, of a line of a window's first plane in the copy."""
    return line // lines_of_run(j) * lines_of_run(j) * j.image.kernel[0] + line % lines_of_run(j)


cdef inline int64_t region_columns(const LinesJob *j, int64_t outputs) noexcept nogil:
    """Return the number of image columns in the windows of `outputs` outputs of a line."""
    return (outputs - 1) * j.image.stride[2] + (j.image.kernel[2] - 1) * j.image.dilation[2] + 1


cdef void lines_inside(const LinesJob *j, int64_t h, int64_t *low, int64_t *high) noexcept nogil:
    """Set the lines [low, high) of the window of output line h that contribute to the sums."""
    cdef int64_t y = h * j.image.stride[1] - j.image.before[1]
    low[0], high[0] = 0, j.image.kernel[1]
    if j.skips:
        while low[0] < high[0] and y + low[0] * j.image.dilation[1] < 0:
            low[0] += 1
        while high[0] > low[0] and y + (high[0] - 1) * j.image.dilation[1] >= j.image.size[1]:
            high[0] -= 1


cdef char *target_of(const LinesJob *j, const Block *k, int64_t h) noexcept nogil:
    """Return the address of channel 0 of a block's first output, in output line h."""
    return (j.g.c.data + k.plane // j.size[1] * j.steps[0] + k.plane % j.size[1] * j.steps[1] + h * j.steps[2]
            + k.first * j.steps[3])


cdef void pad_steps(const LinesJob *j, const Workspace *w, const int8_t *b, int width) noexcept nogil:
    """Copy panels, and pad their lines to whole steps. The padding is already zero."""
    cdef int64_t line = round_up(j.image.line, I8_GROUP) * I8_PANEL, size = line_steps(&j.image) * I8_MATRIX_TILE, i, x
    cdef int64_t lines = window_lines(&j.image)
    for x in range(width):
        for i in range(lines):
            memcpy(w.steps + (x * lines + i) * size, b + x * j.g.panels.step + i * line, line)


cdef void set_panels(const LinesJob *j, const Workspace *w, const Block *k, int64_t panel, int width,
                     Panels *s) noexcept nogil:
    """Set up the arguments that all tiles of some panels of a block share."""
    cdef const i8_image *m = &j.image
    cdef const Problem *g = &j.g
    cdef int64_t own = k.group % j.together * j.group_pitch, groups = window_lines(m) * ceil_div(m.line, I8_GROUP), i
    cdef int columns = <int>min(<int64_t>width * I8_PANEL, j.outputs - panel * I8_PANEL)
    s.width, s.channel = width, k.group * j.outputs + panel * I8_PANEL
    s.size = 2 if j.dot == I8_DOT2 else 1
    s.line_groups = ceil_div(m.line, I8_GROUP) * s.size
    s.a, s.b = w.region + own, g.panels.data + (k.group * j.panels + panel) * g.panels.step
    memset(&s.t, 0, sizeof(s.t))
    memset(&s.o, 0, sizeof(s.o))
    s.t.a.row, s.t.a.group = m.stride[2] * m.channels * s.size, I8_GROUP
    s.t.a.segment = m.dilation[1] * j.pitch * s.size
    s.t.b.panel = g.panels.step
    if j.matrix is not NULL:
        s.t.a.group = I8_MATRIX_K
        s.line_groups = line_steps(m) * (I8_MATRIX_K // I8_GROUP)
    if pads_steps(j):
        pad_steps(j, w, s.b, width)
        s.b, s.t.b.panel = w.steps, steps_size(m, 1)
    if j.dot == I8_DOT2:
        s.t.b.panel = groups * 2 * I8_GROUP * I8_PANEL
        for i in range(width):
            g.kernels.packing.widen_b(w.wide_panels + i * groups * I8_GROUP * I8_PANEL, s.b + i * g.panels.step, groups)
        s.a, s.b = <const uint8_t *>(w.wide_region + own), <const int8_t *>w.wide_panels
    s.t.col_init = g.known.col_init + (k.group * j.panels + panel) * I8_PANEL if g.known.col_init is not NULL else NULL
    s.t.cols = s.t.dst_row = width * I8_PANEL
    s.t.unit_rows = I8_MATRIX_ROWS
    # The last tile of a line must not spill. The last tile overwrites the spilled columns of the previous tile, so
    # these columns must fit in the last tile.
    s.spills = (
        columns < s.t.cols and j.panels == width and j.matrix is NULL and j.steps[3] == j.outputs * j.steps[4]
        and k.outputs // ceil_div(k.outputs, j.mr) * columns >= s.t.cols - columns
    )
    if j.plain and (columns == s.t.cols or s.spills):
        set_tile_output(g, &s.out, 0, s.channel)
        s.out.c_row = j.steps[3]
        s.t.output = &s.out
    s.o.cols, s.o.column, s.o.acc32, s.o.acc_row = columns, s.channel, w.tiles, s.t.cols
    s.o.epilogue = &g.epilogue
    s.o.c_row, s.o.c_col = j.steps[3], j.steps[4]


cdef void do_line(const LinesJob *j, const Workspace *w, const Block *k, int64_t i, Panels *s) noexcept nogil:
    """Multiply line i of a block by some panels, tile by tile."""
    cdef const i8_image *m = &j.image
    cdef const Problem *g = &j.g
    cdef i8_tile_args *t = &s.t
    cdef i8_output_args *o = &s.o
    cdef int64_t h = k.line + i, tile = 0, tiles = ceil_div(k.outputs, j.mr), top = 0, low, high, x, end
    cdef int64_t pixel = (k.plane * j.size[2] + h) * j.size[3] + k.first
    cdef char *c = target_of(j, k, h) + s.channel * j.steps[4]
    cdef const i8_tile_output *output = t.output
    cdef Span spans[MAX_SPANS]
    cdef int count
    lines_inside(j, h, &low, &high)
    low *= m.kernel[0]
    high *= m.kernel[0]
    t.groups, t.more_segments = s.line_groups if high > low else 0, max(<int64_t>0, high - low - 1)
    t.b.data = s.b + low * s.line_groups * I8_GROUP * I8_PANEL
    while tile < tiles:
        count = 0
        if j.matrix is NULL:
            t.tiles = equal_parts(k.outputs, tile, tiles, &x, &t.rows)
            if t.output is not NULL and s.spills:
                t.tiles = min(t.tiles, tiles - 1 - tile)
                if t.tiles == 0:
                    t.tiles, t.output = 1, NULL
            if j.skips and m.channels >= TAP_CHANNELS and high > low:
                t.tiles = 1
                count = tap_spans(m, k.first + x, t.rows, high - low, spans)
            elif t.output is NULL:
                t.tiles = max(1, min(t.tiles, (EPILOGUE_SUMS // t.cols - (x - top)) // t.rows))
        else:
            x = tile * j.mr
            t.tiles, t.rows = 1, <int>min(<int64_t>j.mr, k.outputs - x)
        tile += t.tiles
        end = x + t.tiles * t.rows
        t.a.tile = t.rows * t.a.row
        t.a.data = s.a + line_offset(j, i * m.stride[1]) * j.pitch * s.size + low * t.a.segment + x * t.a.row
        t.dst = w.tiles + ((x - top) * t.cols if t.output is NULL else 0)
        s.out.c = c + x * j.steps[3]
        if j.windows.starts is not NULL:
            t.row_init = j.windows.starts + k.group * j.windows.pixels + pixel + x
        if count > 0:
            multiply_spans(g.kernels, t, spans, count, j.dot, t.rows, s.width, m.line)
        elif j.matrix is NULL:
            g.kernels.gemm.tiles[j.dot].of[t.rows - 1][s.width - 1](t)
        else:
            j.matrix.tile[(t.rows - 1) // I8_MATRIX_ROWS][s.width - 1](t)
        if t.output is NULL and (tile == tiles or (end - top + j.mr) * t.cols > EPILOGUE_SUMS):
            o.rows = <int>(end - top)
            o.row = pixel + top
            o.c = c + top * j.steps[3]
            if j.windows.sums is not NULL and j.windows.starts is NULL:
                o.bo, o.row_term = g.b.zero_points + s.channel, j.windows.sums + k.group * j.windows.pixels + o.row
            g.kernels.stage.output(o)
            top = end
        elif t.output is not NULL:
            top = end
    t.output = output


cdef Block copy_block(const LinesJob *j, uint8_t *region, int64_t unit) noexcept nogil:
    """Return the block of a unit, and copy the part of the image that the unit reads to `region`."""
    cdef i8_image m = j.image
    cdef Block k
    cdef const uint8_t *image
    cdef int64_t z, y, i, r, first, run = lines_of_run(j)
    k.group = unit % (j.groups // j.together) * j.together
    unit //= j.groups // j.together
    k.first = unit % j.stretches * j.stretch
    k.outputs = min(j.stretch, j.size[3] - k.first)
    unit //= j.stretches
    k.line = share(j.size[2], unit % j.blocks, j.blocks)
    k.lines = share(j.size[2], unit % j.blocks + 1, j.blocks) - k.line
    k.plane = unit // j.blocks
    image = m.src + k.plane // j.size[1] * m.steps[0] + k.group * m.channels * m.steps[4]
    m.channels = min(m.channels, j.channels - k.group * m.channels)
    m.steps[2] *= run
    for i in range(m.kernel[0]):
        z = k.plane % j.size[1] * m.stride[0] - m.before[0] + i * m.dilation[0]
        for r in range(run):
            # Lines with the remainder y modulo `run` are side by side, so line `first` has the index (first - y) / run.
            first = k.line * j.image.stride[1] - j.image.before[1] + r
            y = (first % run + run) % run
            m.src = image + z * m.steps[1] + y * j.image.steps[2]
            m.size[1] = max(<int64_t>0, ceil_div(j.image.size[1] - y, run)) if 0 <= z < m.size[0] else 0
            j.g.kernels.packing.image_lines(
                region + (i * run + r) * j.pitch, m.kernel[0] * run * j.pitch, j.group_pitch, j.together, &m,
                (first - y) // run, region_lines(j, k.lines) // run, k.first * m.stride[2] - m.before[2],
                region_columns(j, k.outputs), j.g.a.sign_flip)
    return k


cdef void do_unit(const LinesJob *j, const Workspace *w, int64_t unit) noexcept nogil:
    """Compute one block, for the groups that are copied together."""
    cdef Block k = copy_block(j, w.region, unit)
    cdef Panels s
    cdef int64_t panel, tiles = ceil_div(j.panels, j.np), end = k.group + j.together, i, line
    if j.dot == I8_DOT2:
        j.g.kernels.packing.widen_a(w.wide_region, j.pitch, w.region, j.pitch, I8_GROUP,
                                    j.image.kernel[0] * region_lines(j, k.lines), j.pitch, 0)
    while k.group < end:
        for i in range(tiles):
            panel = share(j.panels, i, tiles)
            set_panels(j, w, &k, panel, <int>(share(j.panels, i + 1, tiles) - panel), &s)
            for line in range(k.lines):
                do_line(j, w, &k, line, &s)
        k.group += 1


cdef int64_t all_units(const LinesJob *j) noexcept nogil:
    return j.size[0] * j.size[1] * j.blocks * j.stretches * (j.groups // j.together)


cdef void do_part(const void *job, int part, int parts, char *memory, size_t size) noexcept nogil:
    """Compute one thread's units."""
    cdef const LinesJob *j = <const LinesJob *>job
    cdef Workspace w
    cdef int64_t unit, units = all_units(j)
    lay_out(j, &w, memory + part * size)
    if j.matrix is not NULL:
        j.matrix.enter(I8_MATRIX_ROWS)
    if pads_steps(j):
        memset(w.steps, 0, steps_size(&j.image, j.np))
    for unit in range(share(units, part, parts), share(units, part + 1, parts)):
        do_unit(j, &w, unit)
    if j.matrix is not NULL:
        j.matrix.leave()


cdef int64_t groups_of_line(const LinesJob *j) noexcept nogil:
    """Return the number of groups to copy together, so that each cache line of the image is loaded once."""
    cdef int64_t together = min(<int64_t>MOST_TOGETHER, LINE // j.image.channels)
    return together if together > 1 and j.image.steps[4] == 1 and j.groups % together == 0 else 1


cdef int busy_threads(const LinesJob *j, int threads) noexcept nogil:
    """Return the number of threads for which there is enough work, at most `threads`."""
    cdef double elements = <double>(j.size[0] * j.size[1] * j.size[2] * j.size[3]) * j.groups * j.outputs
    cdef double work = elements * (j.g.k + STAGE_WORK)
    return paid_threads(work, j.g.kernels.tuning.thread_work, threads)


cdef int64_t divided_lines(const LinesJob *j, int64_t units, int64_t stretches, int threads) noexcept nogil:
    """Return the number of stretches of a line, which is `stretches`, or more if the threads need more `units`."""
    cdef int64_t common = threads, rest = units
    while rest:
        common, rest = rest, common % rest
    cdef int64_t more = round_up(stretches, threads // common)
    return more if units < 4 * threads and j.size[3] >= 2 * more * j.mr else stretches


cdef bint set_blocks(LinesJob *j) noexcept nogil:
    """Choose blocks of whole lines or of a stretch of one line, whose part of the image fits. Return False if the image
    of a single tile does not fit."""
    cdef int64_t least = j.mr, lines, stretch, planes = j.size[0] * j.size[1] * (j.groups // j.together)
    cdef int threads = busy_threads(j, max_threads())
    # `stretch` is the largest number of outputs of a line whose windows fit in j.room. Subtract SLACK twice, because
    # the pitch is rounded up.
    stretch = j.room // (j.together * j.image.kernel[0] * region_lines(j, 1))
    stretch -= 2 * SLACK + region_columns(j, 1) * j.image.channels
    stretch = 1 + stretch // (j.image.stride[2] * j.image.channels) if stretch >= 0 else 0
    if stretch < min(least, j.size[3]):
        return False
    j.stretches = ceil_div(j.size[3], stretch if stretch >= j.size[3] else stretch // least * least)
    j.stretches = divided_lines(j, planes * j.size[2], j.stretches, threads)
    j.stretch = ceil_div(j.size[3], j.stretches)
    j.stretches = ceil_div(j.size[3], j.stretch)
    j.group_pitch = round_up(region_columns(j, j.stretch) * j.image.channels + SLACK, SLACK)
    j.pitch = j.together * j.group_pitch
    lines = j.room // (j.image.kernel[0] * j.pitch)
    lines = max(<int64_t>1, 1 + (lines - lines % lines_of_run(j) - region_lines(j, 1)) // j.image.stride[1])
    j.blocks = ceil_div(j.size[2], lines)
    if threads > 1:
        # Give each thread several blocks, and all threads an equal number of blocks.
        planes *= j.stretches
        j.blocks = max(j.blocks, 4 * threads // planes)
        j.blocks = min(j.size[2], round_up(j.blocks, 1 if planes % threads == 0 else threads))
    j.g.threads = <int>min(<int64_t>threads, all_units(j))
    return True


cdef bint are_all(const uint8_t *facts, int64_t panels) noexcept nogil:
    """Return whether a fact is true for all panels of B."""
    cdef int64_t i
    for i in range(panels):
        if not facts[i]:
            return False
    return True


cdef const i8_matrix *matrix_of_lines(const Problem *g, const i8_image *m) noexcept nogil:
    """Return the matrix unit if it can read windows from copied lines efficiently, else NULL. Tiles must use most of
    the unit's rows, and lines must fill the unit's steps."""
    if 8 * m.out[2] < 7 * round_up(m.out[2], I8_MATRIX_ROWS):
        return NULL
    if m.line % I8_MATRIX_K and (
        MATRIX_PADDING * m.line < line_steps(m) * I8_MATRIX_K or <int64_t>steps_size(m, 2) > most_widened(g)
    ):
        return NULL
    return matrix_of(g)


cdef bint has_lines(tuple shape, tuple dilation) except -1:
    """Return whether the strategy may take filters (g, oc, ic, kd, kh, kw).

    Windows must have contiguous taps. With many channels, gathering windows is as fast as copying lines: the segments
    of a window are long, and gathering skips each tap that lies in the padding.
    """
    channels = shape[2]
    return (
        dilation[2] == 1 and channels > 0
        and (channels < TAP_CHANNELS or (channels % I8_MATRIX_K == 0 and channels <= MATRIX_TAP_CHANNELS))
    )


cdef bint overlap(tuple shape, tuple strides) except -1:
    """Return whether windows overlap, so that a copy of the image is smaller than gathered windows."""
    return strides[1] * strides[2] < shape[4] * shape[5]


cdef class LineFilters(Filters):
    """Filters with int8 weights (g, oc, ic, kd, kh, kw), and with strides, dilation and padding for d, h and w."""

    def __init__(self, shape, strides, dilation, before, partial):
        Filters.__init__(self, shape, strides, dilation, before, False, False, partial, True)

    cdef object matrix(self, weights):
        return Filters.matrix(self, weights.swapaxes(3, 4))

    cdef object unpacked(self):
        weights = Filters.unpacked(self)
        depth, height = self.shape[3:5]
        return weights.reshape(*weights.shape[:3], height, depth, -1).swapaxes(3, 4)

    cdef bint prepare_lines(self, LinesJob *j, Bound bound, const Images *src, const Images *dst,
                            uint8_t flip) except -1:
        """Set up the job, except the compensation. Return False if a product with gathered windows is faster than
        copied lines."""
        self.set_problem(&j.g, &j.image, bound, src, dst, flip)
        self.share_zero(&j.g)
        j.groups, j.outputs, j.panels = self.groups, self.outputs, ceil_div(self.outputs, I8_PANEL)
        j.channels = j.groups * j.image.channels
        j.together = groups_of_line(j)
        # The copy takes a quarter of a block of A, because B shares the cache.
        j.room = block_a_bytes(&j.g) // 4
        set_target(j.size, j.steps, dst)
        if j.image.kernel[0] == 1:
            lay_column(&j.image, j.size, j.steps)
        j.g.k = self.packed._k
        j.windows.sums, j.windows.starts, j.windows.outputs = NULL, NULL, j.outputs
        j.plain = applies_from_registers(&j.g)
        j.dot = I8_DOT4
        j.g.m, j.g.n = j.size[0] * j.size[1] * j.size[2] * j.size[3], j.outputs
        if j.g.kernels.gemm.exact == I8_DOT2:
            if j.outputs >= SPLIT_OUTPUTS:
                self.packed.fill_split(&j.g, j.g.m)
                if pays_to_split(&j.g) and are_all(j.g.panels.split.panels, self.groups * j.panels):
                    return False
            j.dot = I8_DOT4_SAT if are_all(j.g.panels.certified, self.groups * j.panels) else I8_DOT2
        j.mr, j.np, j.matrix = tile_rows(&j.g, j.plain), j.g.kernels.gemm.np, matrix_of_lines(&j.g, &j.image)
        if j.matrix is not NULL:
            j.mr, j.np = j.matrix.mr, j.matrix.np
        elif j.image.channels > (LINE_CHANNELS if j.dot == I8_DOT4 else TAP_CHANNELS - 1) or (
            self.groups == 1 and j.image.channels >= MATRIX_CHANNELS and matrix_of(&j.g) is not NULL
        ):
            return False
        j.skips = (j.image.padding ^ flip) == 0 and j.g.a.zero_point == 0
        # Set n to the columns of all groups, because is_wide must see the offsets of every group.
        j.g.n = self.groups * self.outputs
        if is_wide(&j.g) or j.dot == I8_DOT2 and <int64_t>wide_size(j) > most_widened(&j.g) or not set_blocks(j):
            return False
        j.g.k = window_lines(&self.window) * self.window.kernel[2] * self.window.channels
        return True

    cdef str describe(self, Bound bound, const Images *src, const Images *dst, uint8_t flip, Problem *g,
                      i8_image *image, size_t *workspace):
        cdef LinesJob j
        cdef Workspace w
        if is_empty(dst) or not self.prepare_lines(&j, bound, src, dst, flip):
            return Filters.describe(self, bound, src, dst, flip, g, image, workspace)
        workspace[0] = lay_out(&j, &w, NULL)
        g[0], image[0] = j.g, j.image
        return "lines"

    cdef int run(self, Bound bound, const Images *src, const Images *dst, uint8_t flip, bint dry_run,
                 str name) except -1:
        cdef LinesJob j
        cdef Workspace w
        if is_empty(dst) or not self.prepare_lines(&j, bound, src, dst, flip):
            return Filters.run(self, bound, src, dst, flip, dry_run, name)
        if has_zero(&j.g.b):
            _memory = window_sums(&j.g, &j.image, self.groups, self.window.channels, j.size, &j.windows)
        return self.run_path(do_part, &j, &j.g, bound, j.g.threads, lay_out(&j, &w, NULL), dry_run, name, "lines")
