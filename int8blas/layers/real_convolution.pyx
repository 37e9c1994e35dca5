"""Convolutions of float32 images, with the same bits on every CPU and with any number of threads.

If each filter has a separate channel, channels are filtered tap by tap, and each product and each sum is rounded. All
other convolutions are products of the weights and the matrix of windows. The matrix of windows is never stored: a unit
of work copies its windows from the image to its buffer (see fill in real_product.pyx).

Elements outside of an image are 0. An image may have any strides.
"""

from libc.stddef cimport ptrdiff_t
from libc.stdint cimport int64_t
from libc.string cimport memcpy
cimport int8blas.core.cnumpy as cnp
import numpy as np

from int8blas.core.arrays cimport float32s
from int8blas.core.kernels cimport I8_PANEL, current_kernels, i8_kernels, i8_real_filter_args
from int8blas.core.memory cimport acquire, release
from int8blas.core.results cimport empty_of
from int8blas.core.split cimport share
from int8blas.core.threads cimport KEEPS_GIL_WORK, THREAD_DEPTHWISE_WORK, max_threads, paid_threads, run_work
from int8blas.layers.real_product cimport (
    MOST_SPATIAL, THREAD_PRODUCTS, RealArea, RealJob, RealWindows, area_floats, copy_elements, divide, find_area,
    multiply_area)

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


cdef void add_number(float *y, int64_t count, float number) noexcept nogil:
    cdef int64_t i
    for i in range(count):
        y[i] += number


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


cdef int filter_channels(cnp.ndarray image, cnp.ndarray weights, RealWindows *w, const float *bias,
                         cnp.ndarray y) except -1:
    """Filter each channel alone."""
    cdef FilterJob job
    cdef cnp.npy_intp taps = cnp.PyArray_SIZE(weights) // weights.shape[0]
    cdef cnp.ndarray offsets = np.zeros(taps, np.intp)
    cdef ptrdiff_t *offset = <ptrdiff_t *>cnp.PyArray_DATA(offsets)
    cdef int64_t phase = 1, step = 1, inner = 1, at
    cdef int d, tap
    cdef double work
    job.count, job.taps = 1, <int>taps
    for d in range(MOST_SPATIAL):
        job.sizes[d] = w.outputs[d] + (w.kernel[d] - 1) * w.dilations[d] // w.strides[d]
        phase *= job.sizes[d]
    job.floats = phase
    for d in range(MOST_SPATIAL - 1, -1, -1):
        for tap in range(taps):
            at = tap // inner % w.kernel[d] * w.dilations[d]
            offset[tap] += at // w.strides[d] * step + at % w.strides[d] * phase
        inner *= w.kernel[d]
        job.count += (w.outputs[d] - 1) * step
        step *= job.sizes[d]
        phase *= w.strides[d]
    job.floats = phase
    job.kernels, job.windows, job.bias = current_kernels(), w, bias
    job.channels, job.units = weights.shape[0], weights.shape[0] * image.shape[0]
    job.image, job.image_step, job.channel_step = cnp.PyArray_BYTES(image), image.strides[0], image.strides[1]
    job.weights, job.offsets = <const float *>cnp.PyArray_DATA(weights), offset
    job.y = <float *>cnp.PyArray_DATA(y)
    work = <double>job.units * job.count * job.taps
    if run_work(filter_part, &job, min(job.units, <int64_t>paid_threads(work, THREAD_DEPTHWISE_WORK, max_threads())),
                work, THREAD_DEPTHWISE_WORK, KEEPS_GIL_WORK):
        raise MemoryError("a convolution of real numbers: no memory for the workspace")
    return 0


cdef int multiply_windows(cnp.ndarray image, cnp.ndarray weights, RealWindows *w, const float *bias, int64_t groups,
                          cnp.ndarray y) except -1:
    """Multiply the weights of each group by the windows of each image."""
    cdef ProductJob job
    cdef RealJob *p = &job.product
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
    job.bias = bias
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
    elif shape[1] == 1 and shape[0] == groups:
        filter_channels(source, filters, &w, summands, y)
    else:
        multiply_windows(source, filters, &w, summands, groups, y)
    return y
