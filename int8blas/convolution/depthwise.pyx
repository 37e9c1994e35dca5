"""The strategy for groups of one channel. The kernels are in csrc/convolution/depthwise_body.h (VNNI) and
depthwise_pairs_body.h (without VNNI).

The weights are a packed B with a column for each output channel. Each kernel column w has consecutive rows of
B, one for each kernel line (d, h), padded to a multiple of 4 rows. A unit of work consists of some output lines, for
the channels of one kernel call. A thread computes one stretch of a unit's lines after another. If the channels of a
pixel are not contiguous, or have several filters each, the thread first copies the stretch of the image.

A few channels would leave most lanes of a vector empty. For few channels, the kernel takes the channels of all pixels
of a line as one row (csrc/convolution/depthwise_flat_args.h). A unit of work consists of some output lines, and a
thread copies the part of the image that these lines read, with its padding.

Weights minus zero points may exceed the range of int8. The layer packs differences beyond int8 as the sum of two int8
filters: the window has two planes, and both planes multiply the same plane of the image. If a weight is 255 above its
zero point, three filters are needed.
"""

from libc.stddef cimport ptrdiff_t
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.string cimport memset
cimport int8blas.core.cnumpy as cnp
import numpy as np

from int8blas.convolution.filters cimport Filters, Images, is_empty, set_target
from int8blas.convolution.window_sums cimport take_off, window_sums
from int8blas.core.kernels cimport (
    I8_DEPTHWISE_VALUES, I8_GROUP, I8_MAX_DEPTHWISE, I8_PANEL, I8_STRIDED, I8_TYPE_S8, I8_TYPE_U8,
    i8_depthwise_args, i8_image, i8_output_args, i8_tile_output)
from int8blas.core.memory cimport carve
from int8blas.core.split cimport ceil_div, round_up, share
from int8blas.core.threads cimport THREAD_DEPTHWISE_WORK, max_threads
from int8blas.gemm.problem cimport Problem, applies_from_registers, stores_transposed, is_wide, set_tile_output
from int8blas.stage.output_stage cimport Bound

cnp.import_array()

cdef extern from "convolution/depthwise_flat_args.h" nogil:
    int64_t i8_depthwise_flat_prepared(int64_t channels, int64_t together, int64_t taps, int64_t lines)
    ptrdiff_t i8_depthwise_flat_row(const i8_depthwise_args *t)

cdef enum:
    # The largest window of the kernel, in lines and in columns. Larger windows take other strategies.
    MAX_LINES = 64
    MAX_SPAN = 256
    # COLUMNS is the maximum number of interleaved columns of a stretch, over all groups of 4 lines. 64 columns of 256
    # bytes take 16 KiB of the L1 cache. MAX_PIXELS is the maximum number of outputs of a stretch. 56 x 56 pixels of 64
    # channels take 19.1 us with 16 outputs and 17.3 us with 64 outputs (AVX512-VNNI, Zen 5).
    COLUMNS = 64
    MAX_PIXELS = 64
    # The interleaved columns of 2 lines must have room for at least FEW_PIXELS outputs of a line. If channels are not
    # contiguous in the source or the destination, runs of pixels are transposed, and there must be room for at least
    # TRANSPOSED_PIXELS outputs.
    FEW_PIXELS = 8
    TRANSPOSED_PIXELS = 32
    # The minimum number of units for each thread, unless there are too few lines. If threads have 4 units each, a
    # thread with one more unit takes a quarter more time.
    THREAD_UNITS = 4
    # The maximum number of lines of a unit, or of runs of lines that are computed together. 56 x 56 pixels of 64
    # channels take 18.0 us with 1 line, 17.1 us with 4 lines and 17.0 us with 8 lines.
    BLOCK = 8
    # The maximum number of channels of flat lines, the maximum for pairs of lines, and the bytes of the flat lines of a
    # unit. The images of the measurements are 56 x 56, with windows of 3 x 3 and one thread. With AVX512-VNNI and 12
    # channels, flat lines take 18 us to uint8 and 17 us to float32, and vectors of one pixel take 17 us to uint8 and 22
    # us to float32. With 13 channels, flat lines take 21 us to uint8 and 23 us to float32, and vectors of one pixel
    # take 17 us to uint8 and 23 us to float32. With AVX512BW, whose kernel computes pairs of lines, 16 channels take 26
    # us with flat lines and 29 us with vectors of one pixel.
    FLAT_CHANNELS = 12
    FLAT_PAIRS = 16
    FLAT_BYTES = 1 << 15


cdef struct Workspace:
    uint8_t *padding
    uint8_t *interleaved
    uint8_t *prepared
    uint8_t *copied
    int32_t *sums


cdef inline int64_t window_lines(const DepthwiseJob *j, int64_t together) noexcept nogil:
    """Return the number of image lines in the windows of `together` output lines."""
    return j.image.kernel[0] * j.image.kernel[1] + (together - 1) * j.image.stride[1]


cdef inline int64_t window_columns(const DepthwiseJob *j, int64_t pixels) noexcept nogil:
    """Return the number of image columns in the windows of `pixels` outputs of a line."""
    return (pixels - 1) * j.image.stride[2] + (j.image.kernel[2] - 1) * j.image.dilation[2] + 1


cdef inline bint in_pairs(const DepthwiseJob *j) noexcept nogil:
    """Return whether the kernel interleaves pairs of lines, and so takes any number of output lines."""
    return j.g.kernels.convolution.depthwise_lines == 2


cdef void lay_out(const DepthwiseJob *j, Workspace *w, char *memory, size_t *size) noexcept nogil:
    cdef const i8_image *m = &j.image
    cdef char *first = memory
    cdef int64_t lines = window_lines(j, j.together)
    cdef int64_t columns = window_columns(j, j.pixels)
    w.padding = <uint8_t *>carve(&memory, I8_MAX_DEPTHWISE)
    w.interleaved = <uint8_t *>carve(
        &memory, 0 if j.strided else (
            4 * I8_MAX_DEPTHWISE * columns * ceil_div(lines, j.g.kernels.convolution.depthwise_lines)))
    w.prepared = <uint8_t *>carve(&memory, I8_DEPTHWISE_VALUES + (
        8 * I8_MAX_DEPTHWISE * m.kernel[2] * (m.kernel[0] * m.kernel[1] // 2 + 1) if in_pairs(j)
        else I8_MAX_DEPTHWISE // I8_PANEL * j.g.panels.step))
    w.copied = <uint8_t *>carve(&memory, I8_MAX_DEPTHWISE * lines * columns if j.copies else 0)
    w.sums = <int32_t *>carve(&memory, sizeof(int32_t) * I8_MAX_DEPTHWISE * j.pixels * j.together)
    size[0] = memory - first


cdef void copy_lines(const DepthwiseJob *j, i8_depthwise_args *t, const uint8_t **line, uint8_t *dst,
                     int64_t channel) noexcept nogil:
    """Copy the columns of each line, with contiguous channels, and point `line` to the copies."""
    cdef int64_t columns = (t.pixels - 1) * t.stride + (t.taps - 1) * t.dilation + 1, column
    cdef const uint8_t *src
    cdef ptrdiff_t place[I8_MAX_DEPTHWISE]
    cdef int i, c
    for c in range(t.channels):
        place[c] = (channel + c) // j.multiplier * j.image.steps[4]
    for i in range(t.lines):
        if line[i] is NULL:
            continue
        if t.column_step == 1 and j.multiplier == 1:
            j.g.kernels.stage.transpose_store(
                <char *>dst + t.first * I8_MAX_DEPTHWISE, 1, I8_MAX_DEPTHWISE,
                <const char *>line[i] + t.first + channel * j.image.steps[4], j.image.steps[4], t.channels,
                t.end - t.first, 1)
        else:
            for column in range(t.first, t.end):
                src = line[i] + column * t.column_step
                for c in range(t.channels):
                    dst[column * I8_MAX_DEPTHWISE + c] = src[place[c]]
        line[i] = dst
        dst += columns * I8_MAX_DEPTHWISE
    t.column_step = I8_MAX_DEPTHWISE


cdef void do_stretch(const DepthwiseJob *j, const Workspace *w, int64_t plane, int64_t h, int64_t chunk, int64_t first,
                     int64_t pixels, bint is_prepared) noexcept nogil:
    """Compute outputs `first` to `first` + `pixels` of line h and of the lines that are computed together with line h,
    in plane (n, d), for the channels of a kernel call. `is_prepared` says that the previous stretch has prepared the
    weights of these channels."""
    cdef const i8_image *m = &j.image
    cdef const Problem *g = &j.g
    cdef i8_depthwise_args t
    cdef i8_tile_output out
    cdef i8_output_args o
    cdef const uint8_t *line[MAX_LINES]
    cdef int64_t d = plane % j.size[1], n = plane // j.size[1], width = g.kernels.convolution.depthwise_channels
    cdef int64_t channel = chunk * width
    cdef int64_t x = first * m.stride[2] - m.before[2], z, y, columns
    cdef const uint8_t *image = m.src + n * m.steps[0] + x * m.steps[3]
    cdef char *c_line = g.c.data + n * j.steps[0] + d * j.steps[1] + h * j.steps[2]
    cdef char *c = c_line + first * j.steps[3] + channel * j.steps[4]
    cdef int i
    t.pixels, t.channels = <int>pixels, <int>min(width, j.channels - channel)
    t.together = <int>min(j.together, j.size[2] - h)
    t.lines, t.taps = <int>window_lines(j, t.together), <int>m.kernel[2]
    t.stride, t.dilation, t.line_stride = <int>m.stride[2], <int>m.dilation[2], <int>m.stride[1]
    columns = window_columns(j, pixels)
    t.end = <int>max(<int64_t>0, min(columns, m.size[2] - x))
    t.first = <int>min(<int64_t>t.end, max(<int64_t>0, -x))
    for i in range(t.lines):
        z, y = d * m.stride[0] - m.before[0], h * m.stride[1] - m.before[1]
        if j.together > 1:
            y += i
        else:
            z += i // m.kernel[1] * m.dilation[0]
            y += i % m.kernel[1] * m.dilation[1]
        line[i] = NULL
        if 0 <= z < m.size[0] and 0 <= y < m.size[1]:
            line[i] = image + z * m.steps[1] + y * m.steps[2] + (0 if j.copies else channel)
    t.column_step = m.steps[3]
    if j.copies:
        copy_lines(j, &t, line, w.copied, channel)
    t.line = line
    t.padding, t.flip = w.padding, g.a.sign_flip
    t.panel_size = g.panels.step
    t.weights = g.panels.data + channel // I8_PANEL * t.panel_size
    t.weights_step = t.panel_size // j.repeats
    t.start = g.known.col_init + channel if g.known.col_init is not NULL else NULL
    t.interleaved, t.prepared, t.is_prepared = w.interleaved, w.prepared, is_prepared
    t.output, t.dst, t.c_line = NULL, w.sums, j.steps[2]
    if j.plain and (
        t.channels == g.kernels.convolution.depthwise_channels
        or (2 * t.channels <= g.kernels.convolution.depthwise_channels and not j.strided)
        or g.epilogue.type == I8_TYPE_U8 or g.epilogue.type == I8_TYPE_S8
    ):
        set_tile_output(g, &out, 0, channel)
        out.c, out.c_row = c, j.steps[3]
        t.output = &out
    if j.strided:
        g.kernels.convolution.depthwise_strided(&t)
    else:
        g.kernels.convolution.depthwise(&t)
    if t.output is not NULL:
        return
    memset(&o, 0, sizeof(o))
    o.rows, o.cols = t.pixels, t.channels
    o.acc_row = I8_MAX_DEPTHWISE
    o.epilogue, o.column = &g.epilogue, channel
    o.c_row, o.c_col = j.steps[3], j.steps[4]
    for i in range(t.together):
        o.acc32 = w.sums + i * pixels * I8_MAX_DEPTHWISE
        o.row = (plane * j.size[2] + h + i) * j.size[3] + first
        o.c = c + i * j.steps[2]
        take_off(&j.windows, g.b.zero_points, <int32_t *>o.acc32, o.acc_row, o.row, o.rows, channel, o.cols)
        g.kernels.stage.output(&o)


cdef void do_part(const void *job, int part, int parts, char *memory, size_t size) noexcept nogil:
    """Compute one thread's units."""
    cdef const DepthwiseJob *j = <const DepthwiseJob *>job
    cdef Workspace w
    cdef size_t same
    cdef int64_t steps = ceil_div(j.size[2], j.together), lines = j.size[0] * j.size[1] * steps
    cdef int64_t unit, first, line, chunks = j.chunks, units = ceil_div(lines, j.block) * chunks
    cdef bint is_prepared
    lay_out(j, &w, memory + part * size, &same)
    memset(w.padding, j.image.padding, I8_MAX_DEPTHWISE)
    for unit in range(share(units, part, parts), share(units, part + 1, parts)):
        is_prepared = False
        for line in range(unit // chunks * j.block, min((unit // chunks + 1) * j.block, lines)):
            first = 0
            while first < j.size[3]:
                do_stretch(j, &w, line // steps, line % steps * j.together, unit % chunks, first,
                           min(j.pixels, j.size[3] - first), is_prepared)
                first += j.pixels
                is_prepared = True


cdef inline int64_t flat_runs(const DepthwiseJob *j) noexcept nogil:
    """Return the number of runs of columns that windows read. The columns of a run are `stride` apart."""
    return min(j.image.stride[2], window_columns(j, 1))


cdef inline int64_t flat_run(const DepthwiseJob *j, int64_t pixels) noexcept nogil:
    """Return the bytes of a run of columns, for `pixels` outputs. The copy may write 63 bytes after the columns."""
    cdef int64_t columns = pixels + (window_columns(j, 1) - 1) // j.image.stride[2]
    return round_up(columns * j.channels + I8_MAX_DEPTHWISE - 1, I8_MAX_DEPTHWISE)


cdef inline int64_t flat_lines(const DepthwiseJob *j, int64_t steps) noexcept nogil:
    """Return the number of lines of a plane that the windows of `steps` runs of output lines span."""
    return (steps * j.together - 1) * j.image.stride[1] + (j.image.kernel[1] - 1) * j.image.dilation[1] + 1


cdef inline int64_t flat_planes(const DepthwiseJob *j) noexcept nogil:
    """Return the number of planes of the image in a window. Filters may share a plane."""
    return j.image.kernel[0] if j.image.dilation[0] > 0 else 1


cdef size_t lay_out_flat(const DepthwiseJob *j, Workspace *w, char *memory) noexcept nogil:
    """Set the pointers to the memory of one thread for flat lines, and return the size of this memory in bytes."""
    cdef char *first = memory
    cdef int64_t line = flat_runs(j) * flat_run(j, j.pixels), lines = window_lines(j, j.together)
    w.copied = <uint8_t *>carve(&memory, line * flat_lines(j, j.block) * flat_planes(j) + I8_MAX_DEPTHWISE)
    w.interleaved = <uint8_t *>carve(
        &memory, I8_GROUP * (line * ceil_div(lines, j.g.kernels.convolution.depthwise_lines) + I8_MAX_DEPTHWISE))
    w.prepared = <uint8_t *>carve(&memory, i8_depthwise_flat_prepared(
        j.channels, j.repeats, j.image.kernel[2], round_up(lines, I8_GROUP)))
    w.sums = <int32_t *>carve(&memory, sizeof(int32_t) * (
        j.together * round_up(j.pixels * j.channels, I8_MAX_DEPTHWISE) + I8_MAX_DEPTHWISE))
    return memory - first


cdef void copy_flat(const DepthwiseJob *j, const Workspace *w, int64_t plane, int64_t h, int64_t lines, int64_t first,
                    int64_t pixels) noexcept nogil:
    """Copy `lines` image lines, from the first line of the window of output line h on. Copy the columns that `pixels`
    outputs from `first` on read. Columns whose x is equal modulo the stride are contiguous."""
    cdef i8_image m = j.image
    cdef int64_t stride = m.stride[2], run = flat_run(j, pixels), line = flat_runs(j) * run, r, x, z, p
    cdef int64_t columns = pixels + (window_columns(j, 1) - 1) // stride, width = m.size[2], height = m.size[1]
    cdef const uint8_t *image = m.src + plane // j.size[1] * m.steps[0]
    m.channels = j.channels
    m.steps[3] *= stride
    for p in range(flat_planes(j)):
        z = plane % j.size[1] * m.stride[0] - m.before[0] + p * m.dilation[0]
        m.size[1] = height if 0 <= z < m.size[0] else 0
        for r in range(flat_runs(j)):
            # A run has the columns of the image that are `stride` apart, so column x has the index x // stride in
            # its run. Adding a multiple of the stride keeps x positive.
            x = first * stride - m.before[2] + r + m.before[2] * stride
            m.src = image + z * m.steps[1] + x % stride * j.image.steps[3]
            m.size[2] = max(<int64_t>0, ceil_div(width - x % stride, stride))
            j.g.kernels.packing.image_lines(
                w.copied + p * lines * line + r * run, line, 0, 1, &m, h * m.stride[1] - m.before[1], lines,
                x // stride - m.before[2], columns, j.g.a.sign_flip)


cdef void do_flat(const DepthwiseJob *j, const Workspace *w, int64_t plane, int64_t h, int64_t steps,
                  bint is_prepared) noexcept nogil:
    """Compute `steps` runs of output lines from line h on, stretch by stretch. `is_prepared` says that the weights are
    prepared."""
    cdef const i8_image *m = &j.image
    cdef const Problem *g = &j.g
    cdef i8_depthwise_args t
    cdef i8_output_args o
    cdef const uint8_t *line[MAX_LINES]
    cdef int64_t first = 0, lines = flat_lines(j, steps), pitch, step, block
    cdef char *c = g.c.data + plane // j.size[1] * j.steps[0] + plane % j.size[1] * j.steps[1]
    cdef int i
    memset(&t, 0, sizeof(t))
    t.channels, t.taps, t.stride, t.dilation = <int>j.channels, <int>m.kernel[2], <int>m.stride[2], <int>m.dilation[2]
    t.line, t.line_stride = line, <int>m.stride[1]
    t.weights, t.panel_size, t.start = g.panels.data, g.panels.step, g.known.col_init
    t.weights_step = t.panel_size // j.repeats
    t.interleaved, t.prepared, t.dst, t.is_prepared = w.interleaved, w.prepared, w.sums, is_prepared
    memset(&o, 0, sizeof(o))
    o.cols = <int>j.channels
    o.acc_row = j.channels
    o.epilogue = &g.epilogue
    o.c_row, o.c_col = j.steps[3], j.steps[4]
    while first < j.size[3]:
        o.rows = t.pixels = <int>min(j.pixels, j.size[3] - first)
        t.end = <int>flat_run(j, t.pixels)
        pitch = flat_runs(j) * t.end
        copy_flat(j, w, plane, h, lines, first, t.pixels)
        for block in range(steps):
            step = h + block * j.together
            t.together = <int>min(j.together, j.size[2] - step)
            t.lines = <int>window_lines(j, t.together)
            for i in range(t.lines):
                line[i] = w.copied + (step - h) * m.stride[1] * pitch
                if j.together > 1:
                    line[i] += i * pitch
                else:
                    line[i] += (i // m.kernel[1] % flat_planes(j) * lines + i % m.kernel[1] * m.dilation[1]) * pitch
            g.kernels.convolution.depthwise(&t)
            t.is_prepared = True
            for i in range(t.together):
                o.acc32 = w.sums + i * i8_depthwise_flat_row(&t)
                o.row = (plane * j.size[2] + step + i) * j.size[3] + first
                o.c = c + (step + i) * j.steps[2] + first * j.steps[3]
                take_off(&j.windows, g.b.zero_points, <int32_t *>o.acc32, o.acc_row, o.row, o.rows, 0, o.cols)
                g.kernels.stage.output(&o)
        first += t.pixels


cdef void do_flat_part(const void *job, int part, int parts, char *memory, size_t size) noexcept nogil:
    """Compute one thread's units of flat lines."""
    cdef const DepthwiseJob *j = <const DepthwiseJob *>job
    cdef Workspace w
    cdef int64_t steps = ceil_div(j.size[2], j.together), blocks = ceil_div(steps, j.block), unit, step
    cdef int64_t units = j.size[0] * j.size[1] * blocks, begin = share(units, part, parts)
    lay_out_flat(j, &w, memory + part * size)
    for unit in range(begin, share(units, part + 1, parts)):
        step = unit % blocks * j.block
        do_flat(j, &w, unit // blocks, step * j.together, min(j.block, steps - step), unit > begin)


cdef void set_flat_blocks(DepthwiseJob *j, double threads) noexcept:
    """Choose the lines of a unit and the pixels of a stretch. The interleaved lines and the sums of a stretch fill most
    of the L1 cache."""
    cdef int64_t groups = ceil_div(window_lines(j, j.together), j.g.kernels.convolution.depthwise_lines), steps
    cdef int64_t pixel = I8_GROUP * j.channels * (groups * min(j.image.stride[2], j.image.kernel[2]) + j.together)
    j.pixels = max(<int64_t>I8_MAX_DEPTHWISE, 3 * j.g.machine.l1 // 4 // pixel)
    j.pixels = ceil_div(max(<int64_t>1, j.size[3]), ceil_div(max(<int64_t>1, j.size[3]), j.pixels))
    steps = ceil_div(j.size[2], j.together)
    j.block = FLAT_BYTES // (flat_runs(j) * flat_run(j, j.pixels) * j.together * j.image.stride[1])
    if threads >= 2:
        j.block = min(j.block, <int64_t>(j.size[0] * j.size[1] * steps / (THREAD_UNITS * threads)))
    j.block = max(<int64_t>1, min(j.block, steps))


cdef void set_stretch(DepthwiseJob *j, double threads) noexcept:
    """Choose the numbers of outputs and lines of a stretch, for kernels that take any number of lines. A stretch is
    about as high as it is wide, so that its border is short, because neighbouring stretches both interleave the columns
    at their border. The interleaved columns of a stretch fill three quarters of the L1 cache."""
    cdef int64_t kept = 3 * j.g.machine.l1 // 4 // (4 * j.g.kernels.convolution.depthwise_channels)
    cdef int64_t lines = max(<int64_t>1, j.size[2])
    cdef int64_t pairs, units, width = max(<int64_t>1, j.size[3])
    cdef int64_t few = min(<int64_t>(TRANSPOSED_PIXELS if j.copies or stores_transposed(&j.g) else FEW_PIXELS), width)
    cdef int64_t chunks = j.size[0] * j.size[1] * j.chunks
    if j.image.kernel[0] > 1 or j.image.dilation[1] > 1 or j.image.stride[1] % 2 > 0 and j.repeats == 1:
        lines = 1
    while True:
        pairs = ceil_div(window_lines(j, lines), 2)
        units = chunks * ceil_div(j.size[2], lines)
        if lines == 1 or (
            pairs * window_columns(j, few) <= kept and 2 * pairs <= MAX_LINES
            and (threads < 2 or units >= THREAD_UNITS * threads)
        ):
            break
        # Choose an even number of lines, because the kernel computes pairs of lines.
        lines = ceil_div(lines, 4) * 2 if lines > 2 else 1
    j.together = lines
    j.pixels = (kept // pairs - window_columns(j, 1)) // j.image.stride[2] + 1
    j.pixels = max(<int64_t>4, min(<int64_t>MAX_PIXELS, j.pixels))
    j.pixels = ceil_div(width, ceil_div(width, j.pixels))


cdef int64_t block_of(const DepthwiseJob *j, int64_t lines, double threads) noexcept:
    """Return the number of lines, or of runs of lines, in a unit. All lines of a unit share the prepared values of the
    unit's channels."""
    cdef int64_t units = lines * j.chunks
    return max(<int64_t>1, min(<int64_t>BLOCK, <int64_t>(units / (THREAD_UNITS * max(1.0, threads)))))


cdef bint is_depthwise(tuple shape, tuple strides, tuple dilation) except -1:
    """Return whether the depthwise kernel takes filters (g, oc, ic, kd, kh, kw) whose sums fit (see Filters.fits)."""
    groups, _, channels, depth, height, width = shape
    return (
        channels == 1 and groups > 1 and depth * height <= MAX_LINES and strides[2] <= MAX_SPAN
        and (width - 1) * dilation[2] <= MAX_SPAN
    )


cdef class DepthwiseFilters(Filters):
    """Filters with int8 weights (g, oc, 1, kd, kh, kw), and with strides, dilation and padding for d, h and w."""

    def __init__(self, shape, strides, dilation, before, partial, zeros):
        groups, outputs, _, *kernel = shape
        self.shape, self.zeros = shape, zeros
        self.parts = 1 if zeros is None else 2 if zeros.min() > -128 else 3
        if kernel[0] > 1 or self.parts * kernel[1] > MAX_LINES:
            self.parts = 1
        if self.parts > 1:
            kernel[0], dilation = self.parts, (0, *dilation[1:])
        self.partial = partial
        self.groups, self.outputs, self.channels, self.multiplier = groups, outputs, groups * outputs, outputs
        self.set_window(tuple(kernel), strides, dilation, before)
        self.window.channels = 1
        # If groups of 4 lines have room, add a copy of the weights for each further output line. Each copy is shifted
        # by one stride.
        lines = kernel[0] * kernel[1]
        free = round_up(lines, I8_GROUP) - lines
        self.together = 1 + free // strides[1] if kernel[0] == 1 and dilation[1] == 1 else 1

    cdef tuple matrix_shape(self):
        # Pad with zeros to whole groups of lines, and to the channels that the widest kernel reads.
        lines = round_up(self.window.kernel[0] * self.window.kernel[1], I8_GROUP)
        return (self.together * self.shape[5] * lines,
                round_up(self.channels, I8_MAX_DEPTHWISE))

    cdef object matrix(self, weights):
        cdef int i
        k, n = self.matrix_shape()
        lines, width, step = self.window.kernel[0] * self.window.kernel[1], self.shape[5], self.window.stride[1]
        if self.parts > 1:
            weights = self.split_weights(weights)
        padded = np.zeros((self.together, width, k // (self.together * width), n), np.int8)
        for i in range(self.together):
            padded[i, :, i * step:i * step + lines, :self.channels] = weights.reshape(
                self.channels, lines, width).transpose(2, 1, 0)
        return padded.reshape(k, n)

    cdef object split_weights(self, weights):
        """Split the differences of weights and zero points into int8 filters. The sum of the filters equals the
        differences."""
        rest = weights.astype(np.int16) - self.zeros.reshape(*self.shape[:2], 1, 1, 1, 1)
        filters = []
        for _ in range(self.parts):
            filters.append(rest.clip(-128, 127))
            rest = rest - filters[-1]
        return np.concatenate(filters, 3)

    cdef object unpacked(self):
        kernel = self.shape[3:]
        rows = self.packed.unpack()[:, :self.channels].reshape(self.together, kernel[2], -1, self.channels)
        weights = rows[0, :, :kernel[0] * kernel[1]].reshape(kernel[2], *kernel[:2], 1, *self.shape[:2])
        return weights.transpose(4, 5, 3, 1, 2, 0)

    cdef object column_sums(self):
        return self.packed._sums // self.together

    cdef bint is_strided(self, const Problem *g) noexcept:
        """Return whether the kernel for stride 2 is faster than the general depthwise kernel. The kernel for stride 2
        takes equal times for half of its channels and for all of its channels."""
        cdef const i8_image *m = &self.window
        return (
            g.kernels.convolution.depthwise_strided is not NULL and m.kernel[0] * m.kernel[1] == I8_STRIDED
            and m.kernel[2] == I8_STRIDED and m.stride[2] == 2 and m.dilation[2] == 1
            and 2 * self.channels > g.kernels.convolution.depthwise_channels
        )

    cdef bint is_flat(self, const DepthwiseJob *j) noexcept:
        """Return whether neighbouring pixels share vectors."""
        return self.multiplier == 1 and j.channels <= (FLAT_PAIRS if in_pairs(j) else FLAT_CHANNELS)

    cdef int prepare(self, DepthwiseJob *j, Bound bound, const Images *src, const Images *dst, uint8_t flip) noexcept:
        """Set up the job, except the compensation. Return the number of threads for which there is enough work."""
        cdef int64_t columns, lines
        cdef double work, threads
        self.set_problem(&j.g, &j.image, bound, src, dst, flip)
        j.channels, j.multiplier, j.repeats = self.channels, self.multiplier, self.together
        set_target(j.size, j.steps, dst)
        j.g.m, j.g.n = j.size[0] * j.size[1] * j.size[2] * j.size[3], j.channels
        j.g.k = self.window.kernel[0] * self.window.kernel[1] * self.window.kernel[2]
        j.windows.sums, j.windows.starts, j.windows.outputs = NULL, NULL, self.outputs
        if self.parts > 1:
            j.g.b.zero_points = NULL
        # The sums fit s32, but the sums plus the zero points of the destination may not.
        j.plain = applies_from_registers(&j.g) and not is_wide(&j.g)
        j.copies = self.multiplier > 1 or j.image.steps[4] != 1
        work = <double>j.size[0] * j.size[1] * j.size[2] * j.size[3] * j.channels * self.packed._k / j.repeats
        threads = min(<double>max_threads(), 1 + work / THREAD_DEPTHWISE_WORK)
        j.flat = self.is_flat(j)
        j.strided = not j.flat and self.is_strided(&j.g)
        j.chunks = ceil_div(j.channels, j.g.kernels.convolution.depthwise_channels)
        if j.flat:
            j.together = j.repeats
            set_flat_blocks(j, threads)
            lines = j.size[0] * j.size[1] * ceil_div(ceil_div(j.size[2], j.together), j.block)
            return <int>min(threads, <double>lines)
        if in_pairs(j):
            set_stretch(j, threads)
        elif j.strided:
            j.together = 1
            if self.window.kernel[0] == 1 and self.window.dilation[1] == 1:
                j.together = block_of(j, j.size[0] * j.size[1] * j.size[2], threads)
            j.pixels = min(<int64_t>MAX_PIXELS, max(<int64_t>1, j.size[3]))
        else:
            j.together = j.repeats
            columns = COLUMNS // ceil_div(self.window.kernel[0] * self.window.kernel[1], I8_GROUP)
            columns -= (self.window.kernel[2] - 1) * self.window.dilation[2]
            j.pixels = max(<int64_t>4, min(<int64_t>MAX_PIXELS, columns // self.window.stride[2]))
        lines = j.size[0] * j.size[1] * ceil_div(j.size[2], j.together)
        j.block = block_of(j, lines, threads)
        lines = ceil_div(lines, j.block)
        return <int>min(threads, <double>lines * j.chunks)

    cdef str describe(self, Bound bound, const Images *src, const Images *dst, uint8_t flip, Problem *g,
                      i8_image *image, size_t *workspace):
        cdef DepthwiseJob j
        cdef Workspace w
        cdef int threads = max(1, self.prepare(&j, bound, src, dst, flip))
        if j.flat:
            workspace[0] = lay_out_flat(&j, &w, NULL)
        else:
            lay_out(&j, &w, NULL, workspace)
        g[0] = j.g
        g.threads = threads
        return "depthwise"

    cdef int run(self, Bound bound, const Images *src, const Images *dst, uint8_t flip, bint dry_run,
                 str name) except -1:
        cdef DepthwiseJob j
        cdef Workspace w
        cdef size_t size
        cdef int parts
        if is_empty(dst):
            return 0
        parts = self.prepare(&j, bound, src, dst, flip)
        if bound._bo_cols is not None and self.parts == 1:
            _memory = window_sums(&j.g, &j.image, self.groups, 1, j.size, &j.windows)
        if j.flat:
            size = lay_out_flat(&j, &w, NULL)
            return self.run_path(do_flat_part, &j, &j.g, bound, parts, size, dry_run, name, "depthwise")
        lay_out(&j, &w, NULL, &size)
        return self.run_path(do_part, &j, &j.g, bound, parts, size, dry_run, name, "depthwise")
