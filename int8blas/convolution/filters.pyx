"""Packed weights of a convolution, and the general strategy: products with the windows of an image.

Each group of channels is a GEMM. Rows are output pixels, columns are output channels, and A is the matrix that im2col
would make from the image (csrc/gemm/im2col_body.h). If windows are single pixels, evenly spaced in memory, A is the
image itself. B has the groups side by side, each in whole panels of columns. k has the order (d, h, w, channel of a
window).
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uintptr_t
from libc.string cimport memcpy
cimport int8blas.core.cnumpy as cnp
import numpy as np

from int8blas.convolution.window_sums cimport Windows, window_sums
from int8blas.core.arrays cimport bounds
from int8blas.core.kernels cimport I8_GROUP, I8_PANEL, i8_image, i8_post_op, i8_stage
from int8blas.core.memory cimport LINE, acquire, release
from int8blas.core.split cimport ceil_div, round_up, share
from int8blas.core.threads cimport KEEPS_GIL_WORK, max_threads, paid_threads, parallel_for
from int8blas.core.turns cimport end_turn, keeps_gil, take_turn
from int8blas.core.verbose cimport report, seconds, verbose
from int8blas.gemm.driver cimport gemm
from int8blas.gemm.operand cimport has_zero
from int8blas.gemm.packing cimport pack
from int8blas.gemm.plan cimport threads_of
from int8blas.gemm.problem cimport Problem, product_work, slice_panels, start
from int8blas.stage.output_stage cimport STAGE_OPS, Bound
from int8blas.stage.requantization cimport skip_columns

cnp.import_array()


# The arguments that all groups of an execution share.
cdef struct PackingJob:
    Problem g                   # product of the first group and the first image
    i8_image image
    int64_t groups, outputs     # as in Filters
    int64_t channels            # source channels of a group
    int64_t panels              # panels of a group
    int outer                   # leading dimensions of the destination (n, d) with one product for each index
    int64_t size[4]             # n, d, h, w of the destination
    ptrdiff_t steps[5]          # steps of n, d, h, w and channel, in bytes
    bint in_place               # whether A is the image itself
    Windows windows


cdef bint is_even(const int64_t *size, const ptrdiff_t *steps, int first, int64_t *line,
                  ptrdiff_t *line_step) noexcept nogil:
    """Return whether the pixels in dimensions `first` to w can be the rows of Problem.c. The pixels must be evenly
    spaced, at least in each line."""
    cdef int64_t length = size[3]
    cdef ptrdiff_t step = steps[3]
    cdef int d
    line[0] = line_step[0] = 0
    for d in range(2, first - 1, -1):
        if size[d] == 1:
            continue
        if line[0] == 0 and (length == 1 or steps[d] == step * length):
            if length == 1:
                step = steps[d]
            length *= size[d]
        elif line[0] == 0:
            line[0], line_step[0], step, length = length, steps[d], steps[d], size[d]
        elif steps[d] == step * length:
            length *= size[d]
        else:
            return False
    return True


cdef int run_group(const PackingJob *j, int64_t group, int64_t n, int64_t d, int threads) noexcept nogil:
    """Compute one group, at index (n, d) of the outer dimensions. Return 0, or -1 if there is no memory."""
    cdef Problem g = j.g
    cdef i8_image image = j.image
    cdef i8_stage stage = j.g.epilogue.stage[0]
    cdef i8_post_op ops[STAGE_OPS]
    cdef int64_t first = group * j.outputs, row = (n * j.size[1] + d) * j.size[2] * j.size[3]
    cdef int i
    g.threads = threads
    g.c.data += n * j.steps[0] + d * j.steps[1] + first * j.steps[4]
    slice_panels(&g.panels, group * j.panels, g.k)
    if g.known.col_init is not NULL:
        g.known.col_init += group * j.panels * I8_PANEL
    if g.epilogue.co_cols is not NULL:
        g.epilogue.co_cols += first
    if g.b.zero_points is not NULL:
        g.b.zero_points += first
    if j.windows.sums is not NULL:
        g.known.window_sums = j.windows.sums + group * j.windows.pixels + row
    stage.scale.values += first * stage.scale.step
    stage.bias.values += first * stage.bias.step
    stage.dst_scale.values += first * stage.dst_scale.step
    stage.dst_zero.values += first * stage.dst_zero.step
    if stage.offset is not NULL:
        stage.offset += first
    skip_columns(&stage.requantization, first)
    for i in range(stage.op_count):
        ops[i] = stage.ops[i]
        if ops[i].operand is not NULL:
            ops[i].operand += row * ops[i].operand_row + first * ops[i].operand_col
    stage.ops = ops
    g.epilogue.stage = &stage
    image.src += n * image.steps[0] + group * j.channels * image.steps[4]
    image.before[0] -= d * image.stride[0]
    if j.in_place:
        g.a.data = image.src + d * image.steps[1]
    else:
        g.source.image = &image
    return gemm(&g)


cdef int64_t all_products(const PackingJob *j) noexcept nogil:
    return j.groups * (j.size[0] if j.outer > 0 else 1) * (j.size[1] if j.outer > 1 else 1)


cdef int busy_threads(const PackingJob *j, int threads) noexcept nogil:
    """Return the number of threads for which there is enough work, at most `threads`."""
    return paid_threads(all_products(j) * product_work(&j.g), j.g.kernels.tuning.thread_work, threads)


cdef int run_product(const void *job, int64_t unit, int64_t _units) noexcept nogil:
    """Compute one product on one thread. Return 0, or -1 if there is no memory."""
    cdef const PackingJob *j = <const PackingJob *>job
    cdef int64_t images = j.size[0] if j.outer > 0 else 1, slices = j.size[1] if j.outer > 1 else 1
    return run_group(j, unit // (images * slices), unit // slices % images, unit % slices, 1)


cdef int run_all(const PackingJob *j, int threads) noexcept nogil:
    """Compute all groups. Return 0, or -1 if there is no memory."""
    cdef int64_t group, n, d
    cdef int64_t images = j.size[0] if j.outer > 0 else 1, slices = j.size[1] if j.outer > 1 else 1
    threads = busy_threads(j, threads)
    if j.g.c.dry_run:  # all groups need the same memory
        return run_group(j, 0, 0, 0, 1 if all_products(j) >= threads else threads)
    if all_products(j) >= threads > 1:
        return parallel_for(run_product, j, all_products(j), threads)
    for group in range(j.groups):
        for n in range(images):
            for d in range(slices):
                if run_group(j, group, n, d, threads):
                    return -1
    return 0


cdef void set_first_product(const PackingJob *j, Problem *g, i8_image *image) noexcept nogil:
    """Set the product of the first group and the first image, and set `image` to its windows."""
    g[0], image[0] = j.g, j.image
    if j.in_place:
        g.a.data = image.src
    else:
        g.source.image = image


cdef int describe_all(const PackingJob *j, int threads, double elapsed, str name) except -1:
    """Report the execution of all groups, for INT8BLAS_VERBOSE."""
    cdef Problem g
    cdef i8_image image
    threads = busy_threads(j, threads)
    if all_products(j) < threads:
        set_first_product(j, &g, &image)
        g.threads = threads
        threads = threads_of(&g)
    return report(name, f"m={all_products(j) // j.groups * j.g.m},n={j.groups * j.outputs},k={j.g.k}", "packed",
                  j.g.kernels, threads, elapsed)


# An execution that is not a GEMM. `memory` has `size` bytes for each part.
cdef struct Execution:
    path_fn do_part
    const void *job
    char *memory
    size_t size


cdef int execute(const void *job, int64_t part, int64_t parts) noexcept nogil:
    """Run one part of an execution."""
    cdef const Execution *e = <const Execution *>job
    e.do_part(e.job, <int>part, <int>parts, e.memory, e.size)
    return 0


cdef class Filters:
    """Filters with int8 weights (g, oc, ic, kd, kh, kw), and with strides, dilation and padding for d, h and w.

    The packed matrix depends only on weights, strides, dilation and padding. `pack_weights` or `restore` sets the
    matrix. With `whole_groups`, zeros pad each line of a window to whole groups of k.
    """

    def __cinit__(self):
        self.variants = {}

    def __init__(self, shape, strides, dilation, before, saturating, doubled, partial, whole_groups=False):
        groups, outputs, channels, *kernel = shape
        self.shape = shape
        self.saturating, self.doubled = saturating, doubled
        self.partial = partial
        # Small groups share a panel of columns, which reduces the number of products, but not the number of
        # multiply-adds.
        self.merged = 1 if saturating else max(
            [n for n in range(1, I8_PANEL + 1) if groups % n == 0 and n * outputs <= I8_PANEL], default=1)
        self.groups, self.outputs = groups // self.merged, outputs * self.merged
        self.set_window(tuple(kernel), strides, dilation, before)
        self.window.channels = channels * self.merged
        used = kernel[2] * self.window.channels
        self.window.line = round_up(used, I8_GROUP) if whole_groups else used

    cdef int set_zeros(self, zeros) except -1:
        """Set the zero points of the packed weights."""
        self.zeros = zeros
        self.shares_zero = zeros is not None and zeros.size > 0 and bool((zeros == zeros[0]).all())
        return 0

    cdef void share_zero(self, Problem *g) noexcept:
        """If all zero points of the weights are equal, let sums start with their term."""
        if self.shares_zero and g.b.zero_points is not NULL:
            g.b.zero_point, g.b.zero_points = g.b.zero_points[0], NULL

    cdef tuple matrix_shape(self):
        """Return (K, N) of the packed B."""
        # Each group starts with a new panel.
        width = self.outputs if self.groups == 1 else round_up(self.outputs, I8_PANEL)
        return self.shape[3] * self.shape[4] * self.window.line, self.groups * width

    cdef object matrix(self, weights):
        """Return B. k counts (kd, kh; kw, ic), and columns count (g, oc)."""
        if self.doubled:
            weights = np.rint(weights / 2).astype(np.int8)
        outputs, channels, *kernel = weights.shape[1:]
        k, n = self.matrix_shape()
        matrix = np.zeros((k, n), np.int8)
        # `part` is a view of the part of the matrix without padding.
        part = matrix.reshape(*kernel[:2], self.window.line, self.groups, n // self.groups)
        part = part[:, :, :kernel[2] * self.window.channels, :, :self.outputs].reshape(
            *kernel, self.merged, channels, self.groups, self.merged, outputs)
        if self.zeros is not None:  # weights for channels of other groups are zero points, and add 0
            part[...] = self.zeros.reshape(self.groups, self.merged, outputs)
        for i in range(self.merged):
            part[:, :, :, i, :, :, i] = weights[i::self.merged].transpose(3, 4, 5, 2, 0, 1)
        return matrix

    cdef int pack_weights(self, weights) except -1:
        """Pack the weights, an array with the elements of `shape`. None stands for weights that add 0."""
        if weights is None:
            weights = np.zeros(self.shape, np.int8)
            if self.zeros is not None:
                weights[...] = self.zeros.reshape(*self.shape[:2], *(1,) * (weights.ndim - 2))
        self.packed = pack(self.matrix(weights.reshape(self.shape)), False)
        return 0

    cdef int restore(self, PackedB packed) except -1:
        """Check that packed weights have the shape of the filters, and set the packed weights."""
        if packed.dtype != np.int8 or packed.shape != self.matrix_shape():
            raise ValueError(f"weights must have been packed as int8 of shape {self.matrix_shape()}, got {packed}")
        self.packed = packed
        return 0

    cdef object unpacked(self):
        """Return the weights (g, oc, ic, kd, kh, kw) from B. Groups that share a product count as one group."""
        kernel, channels = self.shape[3:], self.window.channels
        rows = self.packed.unpack().reshape(kernel[0] * kernel[1], self.window.line, self.groups, -1)
        rows = rows[:, :kernel[2] * channels, :, :self.outputs]
        return rows.reshape(*kernel, channels, self.groups, self.outputs).transpose(4, 5, 3, 0, 1, 2)

    cdef object column_sums(self):
        """Return the sum of the weights of each output channel, in the order of the columns of B."""
        return self.packed._sums

    cdef object compensation(self, Bound bound):
        """Return start values of the sums, which compensate for the zero point of the source."""
        return (-bound.ao * self.column_sums()).astype(np.int32)

    cdef void set_problem(self, Problem *g, i8_image *image, Bound bound, const Images *src, const Images *dst,
                          uint8_t flip) noexcept:
        """Set up a product with the weights and the epilogue, and its image."""
        cdef int d
        start(g, self.saturating)
        self.packed.fill(g)
        bound.fill(g)
        g.a.sign_flip = flip
        g.c.data, g.c.column = dst.data, dst.steps[4]
        image[0] = self.window
        image.src, image.end = <const uint8_t *>src.data, <const uint8_t *>src.end
        image.padding = <uint8_t>(bound.padding() & 0xff)
        for d in range(5):
            image.steps[d] = src.steps[d]
        for d in range(3):
            image.size[d], image.out[d] = src.size[d + 1], dst.size[d + 1]
        image.before[2] -= src.shift

    cdef int set_window(self, tuple kernel, tuple strides, tuple dilation, tuple before) except -1:
        cdef int d
        for d in range(3):
            self.window.kernel[d], self.window.stride[d] = kernel[d], strides[d]
            self.window.dilation[d], self.window.before[d] = dilation[d], before[d]
        return 0

    cdef str describe(self, Bound bound, const Images *src, const Images *dst, uint8_t flip, Problem *g,
                      i8_image *image, size_t *workspace):
        """Set up an execution and return its path. For the path "gemm", set the first product `g` and its image
        `image`. For a path that is not "gemm", set `workspace`, the bytes of memory of a thread."""
        cdef PackingJob j
        prepare(&j, self, bound, src, dst, flip)
        set_first_product(&j, g, image)
        return "gemm"

    cdef int run(self, Bound bound, const Images *src, const Images *dst, uint8_t flip, bint dry_run,
                 str name) except -1:
        """Compute dst from src, which must share no memory. Bytes of src are XORed with `flip`. With `dry_run`, only
        acquire and release the memory that the execution needs."""
        cdef PackingJob j
        cdef int threads, status
        cdef double elapsed
        if is_empty(dst):
            return 0
        prepare(&j, self, bound, src, dst, flip)
        j.g.c.dry_run = dry_run
        threads = max_threads()
        if has_zero(&j.g.b) and not j.in_place:
            _memory = window_sums(&j.g, &j.image, self.groups, self.window.channels, j.size, &j.windows)
        elapsed = seconds()
        if keeps_gil(all_products(&j) * product_work(&j.g), KEEPS_GIL_WORK):
            status, threads = run_all(&j, 1), 1
        else:
            with nogil:
                end_turn()
                status = run_all(&j, threads)
                take_turn()
        elapsed = seconds() - elapsed
        if status:
            raise MemoryError(f"{name}: no memory for the workspace")
        if verbose and not dry_run:
            describe_all(&j, threads, elapsed, name)
        return 0

    cdef int run_path(self, path_fn do_part, const void *job, Problem *g, Bound bound, int parts, size_t size,
                      bint dry_run, str name, str path) except -1:
        """Run an execution that is not a GEMM, with one part on each thread. `g` is the problem of the job. If the
        layer has more filters, set the compensation of `g` for these filters."""
        cdef double elapsed
        cdef cnp.ndarray compensation
        cdef Execution e
        e.do_part, e.job, e.size = do_part, job, size
        if self.partial and bound.ao != 0:
            compensation = self.compensation(bound)
            g.known.col_init = <const int32_t *>cnp.PyArray_DATA(compensation)
        with nogil:
            end_turn()
            elapsed = seconds()
            e.memory = <char *>acquire(parts * size)
            if e.memory is not NULL:
                if not dry_run:
                    parallel_for(execute, &e, parts, parts)
                release(e.memory)
            elapsed = seconds() - elapsed
            take_turn()
        if e.memory is NULL:
            raise MemoryError(f"{name}: no memory for the workspace")
        if verbose and not dry_run:
            report(name, f"m={g.m},n={g.n},k={g.k}", path, g.kernels, parts, elapsed)
        return 0


cdef int prepare(PackingJob *j, Filters f, Bound bound, const Images *src, const Images *dst, uint8_t flip) except -1:
    """Set up the arguments that all groups of an execution share."""
    cdef int64_t line
    cdef ptrdiff_t line_step
    cdef ptrdiff_t windows[5]       # bytes from one window to the next
    cdef int d
    cdef bint apart = True          # whether the windows are the pixels of the image, or segments of its lines
    j.groups, j.outputs, j.channels = f.groups, f.outputs, f.window.channels
    j.panels = ceil_div(f.outputs, I8_PANEL)
    f.set_problem(&j.g, &j.image, bound, src, dst, flip)
    f.share_zero(&j.g)
    set_target(j.size, j.steps, dst)
    lay_column(&j.image, j.size, j.steps)
    for d in range(5):
        windows[d] = j.image.steps[d]
    for d in range(3):
        windows[d + 1] *= j.image.stride[d]
        apart = apart and (
            j.image.kernel[d] == j.image.stride[d] and j.image.before[d] == 0
            and j.image.out[d] * j.image.stride[d] == j.image.size[d]
            and (j.image.kernel[d] == 1 or (
                d == 2 and j.image.dilation[2] == 1 and j.image.steps[4] == 1 and j.image.steps[3] == j.image.channels))
        )
    j.outer = 0
    while not is_even(j.size, j.steps, j.outer, &line, &line_step):
        j.outer += 1
    j.in_place = False
    j.windows.sums, j.windows.starts = NULL, NULL
    if apart:
        d = j.outer
        while d < 2 and not (is_even(j.size, windows, d, &line, &line_step) and line == 0):
            d += 1
        j.in_place = is_even(j.size, windows, d, &line, &line_step) and line == 0
        if j.in_place:
            j.outer = d

    is_even(j.size, j.steps, j.outer, &j.g.c.line, &j.g.c.line_step)
    if f.partial:
        j.g.known.col_init = NULL
    j.g.m, j.g.n, j.g.k = 1, f.outputs, f.packed._k
    for d in range(j.outer, 4):
        j.g.m *= j.size[d]
    f.packed.fill_split(&j.g, j.g.m)
    if j.outer > 1:
        j.image.out[0] = 1
    j.g.a.row, j.g.a.column = pixel_step(j.size, windows), windows[4]
    j.g.c.row = pixel_step(j.size, j.steps)
    j.g.epilogue.doubled = f.doubled
    return 0


cdef void set_target(int64_t *size, ptrdiff_t *steps, const Images *dst) noexcept:
    """Set the size (n, d, h, w) and the steps (n, d, h, w, channel) of a destination."""
    cdef int d
    for d in range(5):
        steps[d] = dst.steps[d]
    for d in range(4):
        size[d] = dst.size[d]


cdef void lay_column(i8_image *m, int64_t *size, ptrdiff_t *steps) noexcept:
    """Treat an image of one column, and its destination, as an image of one line: (d, h, 1) becomes (1, d, h). B is
    unchanged if no padding separates the taps of a column."""
    cdef int d
    if (
        m.size[2] != 1 or m.out[2] != 1 or m.kernel[2] != 1 or m.before[2] != 0 or m.line != m.channels
        or m.dilation[1] != 1
    ):
        return
    for d in range(2, 0, -1):
        m.size[d], m.out[d], m.kernel[d] = m.size[d - 1], m.out[d - 1], m.kernel[d - 1]
        m.stride[d], m.dilation[d], m.before[d] = m.stride[d - 1], m.dilation[d - 1], m.before[d - 1]
        size[d + 1] = size[d]
    m.size[0] = m.out[0] = m.kernel[0] = m.stride[0] = m.dilation[0] = size[1] = 1
    m.before[0] = 0
    for d in range(3, 1, -1):
        m.steps[d], steps[d] = m.steps[d - 1], steps[d - 1]
    m.steps[1] = steps[1] = 0
    m.line = m.kernel[2] * m.channels


cdef bint sums_fit(int64_t k, object bias, bint has_zeros) except -1:
    """Return whether sums of k products, plus an integer bias, fit s32, with or without zero points of weights."""
    integer_bias = bias is not None and np.asarray(bias).dtype.kind == "i" and np.size(bias)
    largest = int(np.abs(np.asarray(bias, np.int64)).max()) if integer_bias else 0
    return 255 * (255 if has_zeros else 128) * int(k) + largest < 2**31


cdef bint is_empty(const Images *images) noexcept:
    return not (images.size[0] and images.size[1] and images.size[2] and images.size[3])


cdef void set_images(Images *images, cnp.ndarray array, bint channels_last) noexcept:
    """Set sizes and steps from an array in a layout. Absent spatial dimensions have size 1."""
    cdef cnp.npy_intp *shape = cnp.PyArray_DIMS(array)
    cdef cnp.npy_intp *strides = cnp.PyArray_STRIDES(array)
    cdef uintptr_t low, high
    cdef int spatial = cnp.PyArray_NDIM(array) - 2, first = 1 if channels_last else 2, d
    cdef int channel = spatial + 1 if channels_last else 1
    bounds(array, &low, &high)
    images.data, images.end = <char *>cnp.PyArray_DATA(array), <const char *>high
    images.size[0], images.steps[0] = shape[0], strides[0]
    images.size[4], images.steps[4] = shape[channel], strides[channel]
    images.shift = 0
    for d in range(3):
        images.size[1 + d], images.steps[1 + d] = 1, 0
        if d >= 3 - spatial:
            images.size[1 + d] = shape[first + d - 3 + spatial]
            images.steps[1 + d] = strides[first + d - 3 + spatial]


cdef ptrdiff_t pixel_step(const int64_t *size, const ptrdiff_t *steps) noexcept nogil:
    """Return the bytes from one pixel to the next in the innermost dimension whose size is not 1."""
    cdef int d
    for d in range(3, -1, -1):
        if size[d] > 1:
            return steps[d]
    return steps[3]


cdef void fill_run(const Filling *j, char *line, int64_t first, int64_t end) noexcept nogil:
    """Copy the pixel of `j` to outputs [first, end) of a line."""
    cdef ptrdiff_t step = j.dst.steps[3]
    cdef int64_t most = j.repeats if step == j.bytes else 1, block, x, pixels
    cdef char *dst
    for block in range(j.blocks):
        dst = line + block * j.dst.steps[4]
        x = first
        while x < end:
            pixels = min(most, end - x)
            memcpy(dst + x * step, j.pattern + block * j.repeats * j.bytes, pixels * j.bytes)
            x += pixels


cdef bint is_reached(const Filling *j, int d, int64_t x) noexcept nogil:
    """Return whether taps reach index x of dimension d."""
    cdef int64_t i
    for i in range(j.reached[d]):
        if x % j.strides[d] == j.firsts[d][i]:
            return True
    return False


cdef int fill_lines(const void *job, int64_t part, int64_t parts) noexcept nogil:
    """Fill one part of the lines."""
    cdef const Filling *j = <const Filling *>job
    cdef const int64_t *size = &j.dst.size[0]
    cdef int64_t lines = size[0] * size[1] * size[2], unit, plane, period, at, i, stride = j.strides[2]
    cdef char *line
    for unit in range(share(lines, part, parts), share(lines, part + 1, parts)):
        plane = unit // size[2]
        line = (j.dst.data + plane // size[1] * j.dst.steps[0] + plane % size[1] * j.dst.steps[1]
                + unit % size[2] * j.dst.steps[2])
        if (not (is_reached(j, 0, plane % size[1]) and is_reached(j, 1, unit % size[2]))
                or 0 < (stride - j.reached[2]) * j.bytes < LINE):
            # Fill the line: copies to short gaps would take longer, and products overwrite outputs that taps reach.
            fill_run(j, line, 0, size[3])
        elif stride > j.reached[2]:
            period = 0
            while period < size[3]:
                at = 0
                for i in range(j.reached[2]):
                    fill_run(j, line, period + at, min(size[3], period + j.firsts[2][i]))
                    at = j.firsts[2][i] + 1
                fill_run(j, line, period + at, min(size[3], period + stride))
                period += stride
    return 0
