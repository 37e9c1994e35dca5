"""Sums of the windows of an image, which are multiplied by the zero points of weights::

    sum over k of (src[k] - zp_src) * (weights[k, oc] - zp_weights[oc])
        = sum over k of (src[k] - zp_src) * weights[k, oc]  -  zp_weights[oc] * sum over k of (src[k] - zp_src)

All outputs of a group share the last sum. Padding has the value of the zero point and adds 0. To compute the sums, add
the channels of each pixel, then pixels along w, then along h, then along d.
"""

from libc.stddef cimport ptrdiff_t
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from libc.string cimport memset
cimport int8blas.core.cnumpy as cnp
import numpy as np

from int8blas.core.kernels cimport i8_image
from int8blas.core.memory cimport acquire, release
from int8blas.core.split cimport ceil_div
from int8blas.core.threads cimport KEEPS_GIL_BYTES, THREAD_PACKED_BYTES, run_work
from int8blas.gemm.problem cimport Problem

cnp.import_array()


cdef struct SumsJob:
    const Problem *g
    i8_image image
    int64_t channels            # channels of a group
    int64_t images, outputs     # outputs of a group in one image
    int64_t *sums
    int32_t *starts             # as in Windows


cdef void add_lines(int64_t *dst, const int64_t *src, int64_t step, int64_t lines, int64_t length) noexcept nogil:
    """Add `lines` lines of src, `step` apart, to the contiguous lines of dst."""
    cdef int64_t i, j
    if length == 1:
        for i in range(lines):
            dst[i] += src[i * step]
        return
    for i in range(lines):
        for j in range(length):
            dst[i * length + j] += src[i * step + j]


cdef void add_taps(int64_t *dst, const int64_t *src, const i8_image *m, int d, int64_t before,
                   int64_t behind) noexcept nogil:
    """Sum windows along dimension d. The product of the sizes of all dimensions before d is `before`, and the product
    of the sizes after d is `behind`."""
    cdef int64_t i, k, first, end, at, step = m.stride[d] * behind
    memset(dst, 0, before * m.out[d] * behind * sizeof(int64_t))
    for k in range(m.kernel[d]):
        # For outputs o from `first` to `end`, tap k lies in the image: 0 <= at + o * stride < size.
        at = k * m.dilation[d] - m.before[d]
        first = ceil_div(-at, m.stride[d]) if at < 0 else 0
        end = min(m.out[d], ceil_div(m.size[d] - at, m.stride[d]) if at < m.size[d] else 0)
        for i in range(before):
            add_lines(dst + (i * m.out[d] + first) * behind,
                      src + (i * m.size[d] + first * m.stride[d] + at) * behind, step, end - first, behind)


cdef int sums_of_group(const void *job, int64_t unit, int64_t _units) noexcept nogil:
    """Sum all windows of a group in one image. Return 0, or -1 if there is no memory."""
    cdef const SumsJob *j = <const SumsJob *>job
    cdef const Problem *g = j.g
    cdef const i8_image *m = &j.image
    cdef int64_t group = unit // j.images, n = unit % j.images
    cdef int64_t lines = m.size[0] * m.size[1], pixels = lines * m.size[2], i
    cdef int64_t *own = <int64_t *>acquire(
        (pixels + lines * m.out[2] + m.size[0] * m.out[1] * m.out[2]) * sizeof(int64_t))
    cdef int64_t *along_w = own + pixels
    cdef int64_t *along_h = along_w + lines * m.out[2]
    cdef int64_t *sums = j.sums + unit * j.outputs
    if own is NULL:
        return -1
    for i in range(lines):
        g.kernels.packing.row_sums(
            own + i * m.size[2], m.size[2], j.channels,
            m.src + n * m.steps[0] + i // m.size[1] * m.steps[1] + i % m.size[1] * m.steps[2]
            + group * j.channels * m.steps[4], m.steps[3], m.steps[4], g.a.sign_flip)
    for i in range(pixels):
        own[i] -= g.a.zero_point * j.channels
    add_taps(along_w, own, m, 2, lines, 1)
    add_taps(along_h, along_w, m, 1, m.size[0], m.out[2])
    add_taps(sums, along_h, m, 0, 1, m.out[1] * m.out[2])
    release(own)
    if j.starts is not NULL:
        for i in range(j.outputs):
            j.starts[unit * j.outputs + i] = <int32_t>(-<uint64_t>g.b.zero_point * <uint64_t>sums[i])
    return 0


cdef cnp.ndarray window_sums(const Problem *g, const i8_image *image, int64_t groups, int64_t channels,
                             const int64_t *size, Windows *windows):
    """Compute the window sums of all groups, for a destination of `size` (n, d, h, w), and return the array of sums.

    `image` has all groups, and each group has `channels` channels. `g` has the zero point of the image.
    """
    cdef SumsJob job
    cdef int64_t pixels = size[0] * size[1] * size[2] * size[3], units = groups * size[0]
    cdef double bytes_read = <double>(size[0] * groups * channels)
    cdef int d
    cdef bint shared = g.b.zero_points is NULL
    cdef cnp.ndarray array = np.empty((3 if shared else 2, groups, pixels), np.int32)
    job.g, job.image, job.channels = g, image[0], channels
    job.images, job.outputs = size[0], size[1] * size[2] * size[3]
    job.sums = <int64_t *>cnp.PyArray_DATA(array)
    job.starts = <int32_t *>(job.sums + groups * pixels) if shared else NULL
    for d in range(3):
        job.image.out[d] = size[d + 1]
        bytes_read *= image.size[d]
    if run_work(sums_of_group, &job, units, bytes_read, THREAD_PACKED_BYTES, KEEPS_GIL_BYTES):
        raise MemoryError("no memory for the sums of the windows")
    windows.sums, windows.starts, windows.pixels = job.sums, job.starts, pixels
    return array


cdef void take_off(const Windows *windows, const int64_t *zeros, int32_t *sums, ptrdiff_t sums_row, int64_t row,
                   int64_t rows, int64_t column, int64_t cols) noexcept nogil:
    """Subtract the terms of the weights' zero points from a tile of sums, modulo 2**32."""
    cdef int64_t i, j
    cdef const int64_t *own
    cdef uint64_t zero
    if windows.sums is NULL:
        return
    for j in range(cols):
        zero = <uint64_t>zeros[column + j]
        own = windows.sums + (column + j) // windows.outputs * windows.pixels + row
        for i in range(rows):
            sums[i * sums_row + j] = <int32_t>(<uint32_t>sums[i * sums_row + j] - <uint32_t>(zero * <uint64_t>own[i]))
