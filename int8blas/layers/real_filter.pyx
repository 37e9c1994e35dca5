"""Filters of the channels of float32 images, with the same bits on every CPU and with any number of threads."""

from libc.stddef cimport ptrdiff_t
from libc.stdint cimport int64_t
cimport int8blas.core.cnumpy as cnp
import numpy as np

from int8blas.core.kernels cimport current_kernels, i8_kernels, i8_real_filter_args
from int8blas.core.results cimport empty_of
from int8blas.core.split cimport share
from int8blas.core.threads cimport GIL_WORK, THREAD_DEPTHWISE_WORK, max_threads, paid_threads, run_work

cnp.import_array()


cdef struct FilterJob:
    const i8_kernels *kernels
    int64_t units, channels, size, outputs      # units: the channels of all images; size: of a channel, in elements
    int taps
    const float *image
    const float *weights
    const ptrdiff_t *offsets
    float *y


cdef int filter_part(const void *job, int64_t part, int64_t parts) noexcept nogil:
    """Filter one thread's share of the channels."""
    cdef const FilterJob *j = <const FilterJob *>job
    cdef i8_real_filter_args f
    cdef int64_t unit
    f.count, f.taps, f.offsets = j.outputs, j.taps, j.offsets
    for unit in range(share(j.units, part, parts), share(j.units, part + 1, parts)):
        f.weights = j.weights + unit % j.channels * j.taps
        f.x, f.y = j.image + unit * j.size, j.y + unit * j.outputs
        j.kernels.stage.real_filter(&f)
    return 0


def real_filter(image, weights, offsets, count):
    """Return for each channel ``sum(weights[channel, t] * image[..., channel, offsets[t] + j] for t)``, for j < count.

    Each product and each sum is rounded to float32, in the order of the taps.

    Parameters
    ----------
    image : ndarray of float32
        (..., channels, size), contiguous.
    weights : ndarray of float32
        (channels, taps).
    offsets : sequence of int
        The distance of each tap; with `count`, none may reach beyond a channel.
    count : int
        The number of results of a channel.
    """
    cdef cnp.ndarray source = np.ascontiguousarray(image, np.float32), filters, places, y
    cdef FilterJob job
    cdef double work
    filters = np.ascontiguousarray(weights, np.float32)
    places = np.ascontiguousarray(offsets, np.intp)
    if source.ndim < 2:
        raise ValueError(f"image must have channels and their elements, got shape {image.shape}")
    if filters.ndim != 2 or filters.shape[0] != source.shape[source.ndim - 2]:
        raise ValueError(f"weights must have shape ({source.shape[source.ndim - 2]}, taps), got {weights.shape}")
    last = source.shape[source.ndim - 1] - int(count)
    if places.ndim != 1 or places.shape[0] != filters.shape[1] or count < 0 or any(not 0 <= p <= last for p in offsets):
        raise ValueError(f"offsets must be {filters.shape[1]} numbers from 0 to {last}, got {offsets}")
    y = empty_of(((<object>source).shape[:-1] + (count,)), cnp.NPY_FLOAT32)
    job.kernels = current_kernels()
    job.channels, job.size, job.outputs = filters.shape[0], source.shape[source.ndim - 1], count
    job.taps = <int>filters.shape[1]
    job.units = cnp.PyArray_SIZE(y) // job.outputs if job.outputs else 0
    job.image, job.weights = <const float *>cnp.PyArray_DATA(source), <const float *>cnp.PyArray_DATA(filters)
    job.offsets, job.y = <const ptrdiff_t *>cnp.PyArray_DATA(places), <float *>cnp.PyArray_DATA(y)
    work = <double>job.units * job.outputs * job.taps
    if work:
        run_work(filter_part, &job, min(job.units, <int64_t>paid_threads(work, THREAD_DEPTHWISE_WORK, max_threads())),
                 work, THREAD_DEPTHWISE_WORK, GIL_WORK)
    elif job.taps == 0:
        y.fill(0)
    return y
