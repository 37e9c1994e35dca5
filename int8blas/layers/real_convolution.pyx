"""Convolutions of float32 images, with the same bits on every CPU and with any number of threads.

If each filter has a separate channel, channels are filtered tap by tap, and each product and each sum is rounded. All
other convolutions are products of the weights and the matrix of windows. The matrix of windows is never stored: the
product reads the phases of the channels in place. If the phases have many more positions than the result, a unit of
work copies its windows from the image to its buffer instead (see fill in real_product.pyx).

Elements outside of an image are 0. An image may have any strides.
"""

from libc.stddef cimport ptrdiff_t
from libc.stdint cimport int64_t
from libc.string cimport memcpy, memset
cimport int8blas.core.cnumpy as cnp
import numpy as np

from int8blas.core.arrays cimport float32s
from int8blas.core.kernels cimport (
    I8_PANEL, current_kernels, i8_kernels, i8_real_filter_args, i8_real_tile_args)
from int8blas.core.memory cimport acquire, release
from int8blas.core.results cimport empty_of
from int8blas.core.split cimport ceil_div, share
from int8blas.core.threads cimport KEEPS_GIL_WORK, THREAD_DEPTHWISE_WORK, max_threads, paid_threads, run_work
from int8blas.layers.real_product cimport (
    BLOCK_K, MOST_SPATIAL, THREAD_PRODUCTS, RealArea, RealJob, RealWindows, area_floats, copy_elements, divide,
    find_area, multiply_area)

cnp.import_array()


cdef struct FilterJob:
    const i8_kernels *kernels
    const RealWindows *windows
    int64_t units, channels                 # units: channels of all images
    int64_t sizes[MOST_SPATIAL]             # sizes of a phase (see set_phases)
    int64_t floats, count                   # floats of all phases of a channel; results, and positions between rows
    int taps
    const char *image
    ptrdiff_t image_step, channel_step      # in bytes
    const float *weights
    const float *bias                       # or NULL
    const ptrdiff_t *offsets
    float *y


cdef struct ProductJob:
    RealJob product
    const float *bias                       # or NULL
    # If `steps` is not NULL, the product has columns for the positions between rows too, and reads phases in place.
    # A step is the distance from the phase of a channel and a tap to the next.
    const ptrdiff_t *steps
    int64_t sizes[MOST_SPATIAL]             # of a phase


cdef void add_number(float *y, int64_t count, float number) noexcept nogil:
    cdef int64_t i
    for i in range(count):
        y[i] += number


cdef void multiply_positions(const ProductJob *j, const RealArea *area, float *sums) noexcept nogil:
    """Multiply one area of phases. Copy all results except the results at positions between two rows."""
    cdef const RealJob *p = &j.product
    cdef const int64_t *outputs = p.windows.outputs
    cdef i8_real_tile_args t
    cdef int64_t width = area.panels * I8_PANEL, first = area.panel * I8_PANEL, k = 0, tile, row, position, at, x, y, z
    cdef int64_t tiles = ceil_div(area.rows, p.kernels.stage.real_rows), count
    cdef float bias
    cdef float *out
    t.panels, t.a_row, t.b, t.b_row, t.c_row, t.scale = area.panels, area.a_row, area.b + first, 0, width, NULL
    while k < p.k:
        t.k, t.first, t.steps = min(<int64_t>BLOCK_K, p.k - k), k == 0, j.steps + k
        for tile in range(tiles):
            row = share(area.rows, tile, tiles)
            t.rows = <int>(share(area.rows, tile + 1, tiles) - row)
            t.a, t.c = area.a + row * area.a_row + k, sums + row * width
            p.kernels.stage.real_tile(&t)
        for at in range(k, k + t.k):
            t.b += j.steps[at]
        k += t.k
    position = first
    while position < min(first + width, p.columns):
        x, y = position % j.sizes[2], position // j.sizes[2]
        y, z = y % j.sizes[1], y // j.sizes[1]
        count = min(outputs[2] - x, first + width - position)
        if count > 0 and y < outputs[1]:
            for row in range(area.rows):
                out = area.y + row * area.y_row + (z * outputs[1] + y) * outputs[2] + x
                memcpy(out, sums + row * width + position - first, 4 * count)
                if j.bias is not NULL:
                    bias = j.bias[(area.a - <const float *>p.a) // p.a_row + row]
                    add_number(out, count, bias)
        position += j.sizes[2] - x


cdef int multiply_part(const void *job, int64_t part, int64_t parts) noexcept nogil:
    """Multiply one thread's share of the units, and add the bias while the results are in cache."""
    cdef const ProductJob *j = <const ProductJob *>job
    cdef const RealJob *p = &j.product
    cdef RealArea area
    cdef int64_t units = p.count * p.blocks * p.groups, unit, row, first, columns
    cdef const float *bias
    cdef float *buffer = <float *>acquire(4 * area_floats(p))
    if buffer is NULL:
        return -1
    for unit in range(share(units, part, parts), share(units, part + 1, parts)):
        find_area(p, unit, &area)
        if j.steps is not NULL:
            multiply_positions(j, &area, buffer)
            continue
        multiply_area(p, &area, buffer)
        if j.bias is not NULL:
            first = area.panel * I8_PANEL
            columns = min(<int64_t>area.panels * I8_PANEL, p.columns - first)
            bias = j.bias + (area.a - <const float *>p.a) // p.a_row
            for row in range(area.rows):
                add_number(area.y + row * area.y_row + first, columns, bias[row])
    release(buffer)
    return 0


cdef void set_phases(const FilterJob *j, const char *channel, float *phases) noexcept nogil:
    """Copy a channel with its padding. With strides, elements whose distance is a multiple of the strides form a
    separate image, a phase. In a phase the distance between neighboring outputs is one element, so a channel is one
    filter over a vector."""
    cdef const RealWindows *w = j.windows
    cdef int64_t a, b, c, z, y
    cdef float *row = phases
    for a in range(w.strides[0]):
        for b in range(w.strides[1]):
            for c in range(w.strides[2]):
                for z in range(j.sizes[0]):
                    for y in range(j.sizes[1]):
                        copy_elements(w, <const float *>channel, row, a + z * w.strides[0] - w.before[0],
                                      b + y * w.strides[1] - w.before[1], c - w.before[2], j.sizes[2])
                        row += j.sizes[2]


cdef int filter_part(const void *job, int64_t part, int64_t parts) noexcept nogil:
    """Filter one thread's share of the channels. Copy all results except the results at positions between two rows."""
    cdef const FilterJob *j = <const FilterJob *>job
    cdef const RealWindows *w = j.windows
    cdef i8_real_filter_args f
    cdef int64_t unit, channel, z, y, columns = w.outputs[2]
    cdef float *phases = <float *>acquire(4 * (j.floats + j.count))
    cdef float *out
    if phases is NULL:
        return -1
    f.count, f.taps, f.offsets, f.x, f.y = j.count, j.taps, j.offsets, phases, phases + j.floats
    for unit in range(share(j.units, part, parts), share(j.units, part + 1, parts)):
        channel = unit % j.channels
        set_phases(j, j.image + unit // j.channels * j.image_step + channel * j.channel_step, phases)
        f.weights = j.weights + channel * j.taps
        j.kernels.stage.real_filter(&f)
        out = j.y + unit * w.outputs[0] * w.outputs[1] * columns
        for z in range(w.outputs[0]):
            for y in range(w.outputs[1]):
                memcpy(out, f.y + (z * j.sizes[1] + y) * j.sizes[2], 4 * columns)
                if j.bias is not NULL:
                    add_number(out, columns, j.bias[channel])
                out += columns
    release(phases)
    return 0


cdef cnp.ndarray set_filter(FilterJob *job, cnp.ndarray image, const RealWindows *w):
    """Set the image and the phases of a job, and return the offsets of the taps."""
    cdef int64_t taps = w.kernel[0] * w.kernel[1] * w.kernel[2]
    cdef cnp.ndarray offsets = np.zeros(taps, np.intp)
    cdef ptrdiff_t *offset = <ptrdiff_t *>cnp.PyArray_DATA(offsets)
    cdef int64_t phase = 1, step = 1, inner = 1, at
    cdef int d, tap
    job.count, job.taps = 1, <int>taps
    for d in range(MOST_SPATIAL):
        job.sizes[d] = w.outputs[d] + (w.kernel[d] - 1) * w.dilations[d] // w.strides[d]
        phase *= job.sizes[d]
    for d in range(MOST_SPATIAL - 1, -1, -1):
        for tap in range(taps):
            at = tap // inner % w.kernel[d] * w.dilations[d]
            offset[tap] += at // w.strides[d] * step + at % w.strides[d] * phase
        inner *= w.kernel[d]
        job.count += (w.outputs[d] - 1) * step
        step *= job.sizes[d]
        phase *= w.strides[d]
    job.floats = phase
    job.kernels, job.windows, job.offsets = current_kernels(), w, offset
    job.channels, job.units = image.shape[1], image.shape[1] * image.shape[0]
    job.image, job.image_step, job.channel_step = cnp.PyArray_BYTES(image), image.strides[0], image.strides[1]
    return offsets


cdef int filter_channels(FilterJob *job, cnp.ndarray weights, const float *bias, cnp.ndarray y) except -1:
    """Filter each channel alone."""
    cdef double work = <double>job.units * job.count * job.taps
    job.weights, job.bias, job.y = <const float *>cnp.PyArray_DATA(weights), bias, <float *>cnp.PyArray_DATA(y)
    if run_work(filter_part, job, min(job.units, <int64_t>paid_threads(work, THREAD_DEPTHWISE_WORK, max_threads())),
                work, THREAD_DEPTHWISE_WORK, KEEPS_GIL_WORK):
        raise MemoryError("a convolution of real numbers: no memory for the workspace")
    return 0


cdef int copy_part(const void *job, int64_t part, int64_t parts) noexcept nogil:
    """Copy the phases of one thread's share of the channels to y."""
    cdef const FilterJob *j = <const FilterJob *>job
    cdef int64_t unit
    for unit in range(share(j.units, part, parts), share(j.units, part + 1, parts)):
        set_phases(j, j.image + unit // j.channels * j.image_step + unit % j.channels * j.channel_step,
                   j.y + unit * j.floats)
    return 0


cdef tuple set_positions(ProductJob *job, FilterJob *filter):
    """Let a product read the phases of all channels in place, and return the arrays that it reads. Reading in place
    saves a copy for each tap, but computes the positions between rows."""
    cdef RealJob *p = &job.product
    cdef int64_t channels = p.k // filter.taps, k, d
    cdef double work = <double>filter.units * filter.floats
    cdef int64_t end = filter.units * filter.floats
    # the last panels read beyond the last position
    cdef cnp.ndarray phases = empty_of((end + filter.kernels.stage.real_panels * I8_PANEL,), cnp.NPY_FLOAT32)
    cdef cnp.ndarray steps = np.zeros(p.k, np.intp)
    cdef ptrdiff_t *step = <ptrdiff_t *>cnp.PyArray_DATA(steps)
    for k in range(1, p.k):
        step[k - 1] = filter.offsets[k % filter.taps] - filter.offsets[(k - 1) % filter.taps]
        if k % filter.taps == 0:
            step[k - 1] += filter.floats
    filter.y = <float *>cnp.PyArray_DATA(phases)
    memset(filter.y + end, 0, 4 * filter.kernels.stage.real_panels * I8_PANEL)
    if run_work(copy_part, filter, min(filter.units, <int64_t>paid_threads(work, THREAD_PRODUCTS, max_threads())), work,
                THREAD_PRODUCTS, KEEPS_GIL_WORK):
        raise MemoryError("a convolution of real numbers: no memory for the workspace")
    p.columns, p.b = filter.count, <const char *>filter.y
    p.b_steps[0], p.b_steps[1] = 4 * filter.channels * filter.floats, 4 * channels * filter.floats
    job.steps = step
    for d in range(MOST_SPATIAL):
        job.sizes[d] = filter.sizes[d]
    return phases, steps


cdef int multiply_windows(FilterJob *filter, cnp.ndarray image, cnp.ndarray weights, const float *bias,
                          int64_t groups, cnp.ndarray y) except -1:
    """Multiply the weights of each group by the windows of each image."""
    cdef ProductJob job
    cdef RealJob *p = &job.product
    cdef const RealWindows *w = filter.windows
    cdef double work
    p.rows, p.k = weights.shape[0] // groups, cnp.PyArray_SIZE(weights) // weights.shape[0]
    p.columns = p.room = w.outputs[0] * w.outputs[1] * w.outputs[2]
    p.dims, p.count = 2, image.shape[0] * groups
    p.shape[0], p.shape[1] = image.shape[0], groups
    p.a, p.a_row, p.a_steps[0], p.a_steps[1] = cnp.PyArray_BYTES(weights), p.k, 0, 4 * p.rows * p.k
    p.b, p.b_row, p.b_column, p.b_factor = cnp.PyArray_BYTES(image), 0, 0, 1
    p.b_steps[0], p.b_steps[1] = image.strides[0], image.shape[1] // groups * image.strides[1]
    p.y, p.y_row = cnp.PyArray_BYTES(y), p.columns
    p.y_steps[0], p.y_steps[1] = 4 * groups * p.rows * p.columns, 4 * p.rows * p.columns
    p.weights, p.scale, p.block_scales, p.windows = NULL, NULL, NULL, w
    job.bias, job.steps = bias, NULL
    read = None
    # With a quarter more positions, 3 x 3 kernels in place are 1.06 (64 channels, 256 filters) to 1.9 times (16
    # channels, 8 filters) as fast as with windows (AVX-512, Emerald Rapids).
    if filter.taps > 1 and 4 * ceil_div(filter.count, I8_PANEL) <= 5 * ceil_div(p.columns, I8_PANEL):
        read = set_positions(&job, filter)
    work = <double>p.count * p.rows * p.k * p.columns
    if run_work(multiply_part, &job, divide(p), work, THREAD_PRODUCTS, KEEPS_GIL_WORK):
        raise MemoryError("a convolution of real numbers: no memory for the workspace")
    return 0


def real_convolution(image, weights, bias=None, *, strides, dilations, before, outputs, groups=1):
    """Return ``sum(weights[o, c, t] * image[n, c, outputs * strides + t * dilations - before])`` of each group.

    A sum takes one fused multiply-add for each channel and tap in turn. The bias is added to the rounded sum.

    Parameters
    ----------
    image : array_like of float32
        (n, channels, *spatial), with one to three spatial dimensions.
    weights : array_like of float32
        (filters, channels / groups, *kernel).
    bias : array_like of float32, optional
        (filters,).
    strides, dilations, before, outputs : sequence of int
        For each spatial dimension, the distance between windows, the distance between elements of a window, the padding
        before the image, and the number of windows. Windows may reach beyond the image on each side.
    groups : int
        The number of groups of channels.
    """
    cdef cnp.ndarray source = float32s(image, "image"), filters, added, y
    cdef RealWindows w
    cdef FilterJob job
    cdef const float *summands = NULL
    cdef int d, missing = MOST_SPATIAL + 2 - source.ndim
    filters = np.ascontiguousarray(float32s(weights, "weights"))
    shape = (<object>filters).shape
    fits = filters.ndim == source.ndim and groups > 0 and shape[0] % groups == 0
    if not 0 <= missing < MOST_SPATIAL or not fits or shape[1] * groups != source.shape[1]:
        raise ValueError(f"weights must fit an image of shape {(<object>source).shape} in {groups} groups, got shape "
                         f"{shape}")
    dims = source.ndim - 2
    if not dims == len(strides) == len(dilations) == len(before) == len(outputs):
        raise ValueError(f"strides, dilations, before and outputs must have {dims} numbers each, got {strides}, "
                         f"{dilations}, {before} and {outputs}")
    if min(*strides, *dilations) < 1 or min(outputs) < 0:
        raise ValueError(f"strides and dilations must be at least 1, and outputs at least 0, got {strides}, "
                         f"{dilations} and {outputs}")
    if any(step % 4 for step in (<object>source).strides):
        source = np.ascontiguousarray(source)
    for d in range(MOST_SPATIAL):
        w.sizes[d] = w.kernel[d] = w.strides[d] = w.dilations[d] = w.outputs[d] = 1
        w.before[d] = w.steps[d] = 0
    for d in range(missing, MOST_SPATIAL):
        w.sizes[d], w.steps[d], w.kernel[d] = source.shape[d + 2 - missing], source.strides[d + 2 - missing] // 4, \
            filters.shape[d + 2 - missing]
        w.strides[d], w.dilations[d] = strides[d - missing], dilations[d - missing]
        w.before[d], w.outputs[d] = before[d - missing], outputs[d - missing]
    w.channel = source.strides[1] // 4
    if bias is not None:
        added = np.ascontiguousarray(float32s(bias, "bias"))
        if (<object>added).shape != shape[:1]:
            raise ValueError(f"bias must have shape {shape[:1]}, got {(<object>added).shape}")
        summands = <const float *>cnp.PyArray_DATA(added)
    y = empty_of((source.shape[0], shape[0], *outputs), cnp.NPY_FLOAT32)
    if not cnp.PyArray_SIZE(y):
        return y
    if not cnp.PyArray_SIZE(filters):
        y.fill(0)
        if bias is not None:
            y += added.reshape(-1, *(1,) * dims)
        return y
    _offsets = set_filter(&job, source, &w)  # the job points to the memory of the offsets
    if shape[1] == 1 and shape[0] == groups:
        filter_channels(&job, filters, summands, y)
    else:
        multiply_windows(&job, source, filters, summands, groups, y)
    return y
