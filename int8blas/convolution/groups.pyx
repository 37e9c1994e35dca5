"""The strategy for groups of 4 and 8 channels, by the kernel in csrc/convolution/grouped_body.h.

A GEMM for 4 or 8 channels would multiply mostly zeros. grouped_body.h takes 4 neighbouring channels of a pixel in each
lane, so a vector has several groups. B has a column for every 4 channels of the source. The order of k is (pass; h, w;
output of the pass, channel of the 4), as in i8_grouped_args.

As in lines.pyx, a thread copies a part of the image with its padding. A copy has I8_MAX_GROUPED channels, for one panel
of B. A unit of work is a block of the output for I8_MAX_GROUPED channels.
"""

from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t
from libc.string cimport memset
cimport int8blas.core.cnumpy as cnp
import numpy as np

from int8blas.convolution.filters cimport Filters, Images, is_empty, set_target
from int8blas.convolution.lines cimport Block, LinesJob, all_units, copy_block, lines_inside, set_blocks, target_of
from int8blas.convolution.window_sums cimport take_off, window_sums
from int8blas.core.kernels cimport (
    I8_GROUP, I8_MAX_GROUPED, I8_MAX_MR, I8_PANEL, i8_grouped_args, i8_grouped_output, i8_image, i8_output_args,
    i8_tile_output)
from int8blas.core.memory cimport carve
from int8blas.core.split cimport ceil_div, share
from int8blas.gemm.problem cimport Problem, applies_from_registers, is_wide, set_tile_output
from int8blas.stage.output_stage cimport Bound

cnp.import_array()

cdef enum:
    # The bytes of a copied part of the image. Together with the weights, ROOM bytes fit every L2 cache.
    ROOM = 48 << 10
    # The maximum number of pixels that the windows of the shortest stretch of a line may span. MAX_SPAN pixels fill at
    # most half of ROOM.
    MAX_SPAN = ROOM // (2 * I8_MAX_GROUPED)
    # The maximum number of outputs of a kernel call.
    MAX_PIXELS = 64
    # The minimum number of groups. 4 groups of 8 channels fill half of the widest vectors. 28 x 28 pixels of 4 groups
    # of 4 channels take 3.27 us in this strategy and 3.63 us in other strategies (AVX512-VNNI, Zen 5).
    MIN_GROUPS = 4


cdef struct Workspace:
    uint8_t *region
    int8_t *widened
    int32_t *sums


cdef size_t lay_out(const LinesJob *j, Workspace *w, char *memory) noexcept nogil:
    """Set the pointers to the memory of one thread, and return the size of this memory in bytes."""
    cdef char *first = memory
    w.region = <uint8_t *>carve(&memory, j.room)
    w.widened = <int8_t *>carve(
        &memory, 2 * j.g.panels.step if j.g.kernels.convolution.widen_grouped is not NULL else 0)
    w.sums = <int32_t *>carve(&memory, sizeof(int32_t) * I8_MAX_GROUPED * MAX_PIXELS)
    return memory - first


cdef void do_lines(const LinesJob *j, const Workspace *w, const Block *k, int64_t first,
                   i8_grouped_args *t) noexcept nogil:
    """Compute all lines of a block, for the channels of one kernel call. The first channel is channel `first` of the
    block."""
    cdef const i8_image *m = &j.image
    cdef const Problem *g = &j.g
    cdef i8_tile_output out
    cdef i8_output_args o
    cdef int64_t channel = k.group * I8_MAX_GROUPED + first, i, h, low, high, x
    cdef const uint8_t *a
    cdef char *c
    cdef int whole = g.kernels.convolution.grouped_channels
    t.weights = g.panels.data + k.group * g.panels.step + first
    if g.kernels.convolution.widen_grouped is not NULL:
        g.kernels.convolution.widen_grouped(w.widened, t.weights, g.panels.step // (I8_GROUP * I8_PANEL))
        t.weights = w.widened
    t.channels = <int>min(<int64_t>whole, j.channels - channel)
    t.start = g.known.col_init + channel if g.known.col_init is not NULL else NULL
    t.output, t.dst = NULL, w.sums
    if j.plain and (t.channels == whole or 2 * t.channels == whole):
        set_tile_output(g, &out, 0, channel)
        out.c_row = j.steps[3]
        t.output = &out
    memset(&o, 0, sizeof(o))
    o.cols, o.acc32, o.acc_row = t.channels, w.sums, I8_MAX_GROUPED
    o.epilogue, o.column = &g.epilogue, channel
    o.c_row, o.c_col = j.steps[3], j.steps[4]
    for i in range(k.lines):
        h = k.line + i
        lines_inside(j, h, &low, &high)
        t.lines, t.first = <int>(high - low), <int>low * t.taps
        a = w.region + (i * m.stride[1] + low * m.dilation[1]) * j.pitch + first
        c = target_of(j, k, h) + channel * j.steps[4]
        x = 0
        while x < k.outputs:
            o.rows = t.pixels = <int>min(<int64_t>MAX_PIXELS, k.outputs - x)
            t.a = a + x * t.a_pixel
            out.c = o.c = c + x * j.steps[3]
            g.kernels.convolution.grouped(t)
            if t.output is NULL:
                o.row = (k.plane * j.size[2] + h) * j.size[3] + k.first + x
                take_off(&j.windows, g.b.zero_points, w.sums, o.acc_row, o.row, o.rows, channel, o.cols)
                g.kernels.stage.output(&o)
            x += MAX_PIXELS


cdef void do_unit(const LinesJob *j, const Workspace *w, int64_t unit) noexcept nogil:
    """Compute one block, for the channels of a panel."""
    cdef const i8_image *m = &j.image
    cdef const Problem *g = &j.g
    cdef Block k = copy_block(j, w.region, unit)
    cdef i8_grouped_args t
    cdef int64_t channels = min(<int64_t>I8_MAX_GROUPED, j.channels - k.group * I8_MAX_GROUPED), first = 0
    cdef int64_t pixel = min(m.channels, channels)
    t.taps = <int>(m.line // m.channels)
    t.window = <int>m.kernel[1] * t.taps
    t.size = <int>g.k // t.window
    t.a_pixel, t.a_line, t.a_tap = m.stride[2] * pixel, m.dilation[1] * j.pitch, m.dilation[2] * pixel
    while first < channels:
        do_lines(j, w, &k, first, &t)
        first += g.kernels.convolution.grouped_channels


cdef void do_part(const void *job, int part, int parts, char *memory, size_t size) noexcept nogil:
    """Compute one thread's units."""
    cdef const LinesJob *j = <const LinesJob *>job
    cdef Workspace w
    cdef int64_t unit, units = all_units(j)
    lay_out(j, &w, memory + part * size)
    for unit in range(share(units, part, parts), share(units, part + 1, parts)):
        do_unit(j, &w, unit)


cdef bint has_small_groups(tuple shape, tuple strides, tuple dilation) except -1:
    """Return whether the strategy takes filters (g, oc, ic, kd, kh, kw) whose sums fit (see Filters.fits).

    The general strategy takes groups of 16 channels, which fill panels of B, and windows of one pixel, which need no
    copy.
    """
    groups, outputs, channels = shape[:3]
    return (
        groups >= MIN_GROUPS and channels == outputs and channels in (4, 8) and has_few_lines(shape, strides, dilation)
    )


cdef bint has_few_lines(tuple shape, tuple strides, tuple dilation) except -1:
    """Return whether windows overlap, and a copy of the image has room for the windows of the shortest stretch."""
    depth, height, width = shape[3:]
    lines = (height - 1) * dilation[1] + 1
    columns = (I8_MAX_MR - 1) * strides[2] + (width - 1) * dilation[2] + 1
    return depth == 1 and strides[1] * strides[2] < height * width and lines * columns <= MAX_SPAN


cdef class GroupFilters(Filters):
    """Filters with int8 weights (g, oc, ic, 1, kh, kw), and with strides, dilation and padding for d, h and w.

    The kernel computes `fold` neighbouring outputs of a line as groups of one output. If `fold` is more than 1, the
    stride along w must be 1.
    """

    def __init__(self, shape, strides, dilation, before, partial, fold=1):
        groups, outputs, channels, depth, height, width = shape
        self.shape = shape
        self.partial = partial
        self.fold = fold
        self.groups, self.outputs, self.channels = groups, outputs, groups * channels * fold
        self.set_window((depth, height, width + ceil_div(fold - 1, dilation[2])), (*strides[:2], strides[2] * fold),
                        dilation, before)
        self.window.channels = min(groups * channels, I8_MAX_GROUPED)
        self.window.line = width * self.window.channels

    cdef tuple matrix_shape(self):
        return (self.outputs * self.shape[4] * self.shape[5] * I8_GROUP,
                ceil_div(self.channels, I8_MAX_GROUPED) * I8_PANEL)

    cdef object matrix(self, weights):
        k, n = self.matrix_shape()
        size, taps = self.shape[2], self.shape[4] * self.shape[5]
        # Axes: (pass, output; group, lane, channel of the lane; tap). The last step changes the axes to the order of B.
        ordered = weights.reshape(self.groups, size, size // I8_GROUP, I8_GROUP, taps)[:, self.order()]
        ordered = ordered.reshape(self.groups, size // I8_GROUP, I8_GROUP, size // I8_GROUP, I8_GROUP, taps)
        padded = np.zeros((k, n), np.int8)
        padded[:, :self.channels // I8_GROUP] = np.tile(ordered.transpose(1, 5, 2, 4, 0, 3).reshape(k, -1), self.fold)
        return padded

    cdef object unpacked(self):
        size, taps = self.outputs, self.shape[4] * self.shape[5]
        rows = self.packed.unpack()[:, :self.channels // self.fold // I8_GROUP]
        ordered = rows.reshape(size // I8_GROUP, taps, I8_GROUP, I8_GROUP, self.groups, -1).transpose(4, 0, 2, 5, 3, 1)
        weights = np.empty((self.groups, size, size, taps), np.int8)
        weights[:, self.order()] = ordered.reshape(weights.shape)
        return weights.reshape(self.shape)

    cdef list order(self):
        """Return the numbers of a group's output channels in the order of the kernel, which computes 4 in a pass."""
        return [i8_grouped_output(self.outputs, i // I8_GROUP, i % I8_GROUP) for i in range(self.outputs)]

    cdef object column_sums(self):
        if self.sums is None:
            panels, size = self.matrix_shape()[1] // I8_PANEL, self.outputs
            # Axes: (panel; pass, tap, output; group, lane; channel of the lane).
            data = self.packed.data.reshape(panels, size // I8_GROUP, -1, I8_GROUP, I8_MAX_GROUPED // size,
                                            size // I8_GROUP, I8_GROUP)
            sums = data.sum(axis=(2, 5, 6), dtype=np.int64).reshape(panels, size, -1)
            ordered = np.empty((panels, sums.shape[2], size), np.int64)
            ordered[:, :, self.order()] = sums.transpose(0, 2, 1)
            self.sums = ordered.reshape(-1)
        return self.sums

    cdef int prepare(self, LinesJob *j, Bound bound, const Images *src, const Images *dst, uint8_t flip) noexcept:
        """Set up the job, except the compensation. Return the number of threads for which there is enough work."""
        self.set_problem(&j.g, &j.image, bound, src, dst, flip)
        set_target(j.size, j.steps, dst)
        j.groups, j.outputs, j.channels = ceil_div(self.channels, I8_MAX_GROUPED), j.image.channels, self.channels
        j.room, j.mr, j.together = ROOM, j.g.kernels.gemm.mr, 1
        j.g.m, j.g.n = j.size[0] * j.size[1] * j.size[2] * j.size[3], self.channels
        j.g.k = self.outputs * self.window.kernel[1] * (self.window.line // self.window.channels)
        j.windows.sums, j.windows.starts, j.windows.outputs = NULL, NULL, self.outputs
        # The sums fit s32, but the sums plus the zero points of the destination may not.
        j.plain = applies_from_registers(&j.g) and not is_wide(&j.g)
        j.skips = (j.image.padding ^ flip) == 0 and j.g.a.zero_point == 0
        j.g.threads = 1
        if not is_empty(dst):
            set_blocks(j)
        return j.g.threads

    cdef str describe(self, Bound bound, const Images *src, const Images *dst, uint8_t flip, Problem *g,
                      i8_image *image, size_t *workspace):
        cdef LinesJob j
        cdef Workspace w
        self.prepare(&j, bound, src, dst, flip)
        workspace[0] = lay_out(&j, &w, NULL)
        g[0] = j.g
        return "groups"

    cdef int run(self, Bound bound, const Images *src, const Images *dst, uint8_t flip, bint dry_run,
                 str name) except -1:
        cdef LinesJob j
        cdef Workspace w
        cdef int parts
        if is_empty(dst):
            return 0
        parts = self.prepare(&j, bound, src, dst, flip)
        if bound._bo_cols is not None:
            _memory = window_sums(&j.g, &j.image, self.groups, self.outputs, j.size, &j.windows)
        return self.run_path(do_part, &j, &j.g, bound, parts, lay_out(&j, &w, NULL), dry_run, name, "groups")
