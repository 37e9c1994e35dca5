"""The sums of the windows of an image, which the zero points of weights are multiplied by::

    sum over k of (src[k] - zp_src) * (weights[k, oc] - zp_weights[oc])
        = sum over k of (src[k] - zp_src) * weights[k, oc]  -  zp_weights[oc] * sum over k of (src[k] - zp_src)

The last sum is the same for all outputs of a group, and padding, which is the zero point, adds nothing to it. It is
that of the channels of each pixel, added along w, then h, then d.
"""

from cython.parallel cimport prange
from libc.stddef cimport ptrdiff_t
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from libc.string cimport memset
cimport numpy as cnp
import numpy as np

from int8blas.core.kernels cimport i8_image
from int8blas.core.memory cimport acquire, release
from int8blas.core.threads cimport max_threads, region_threads
from int8blas.gemm.plan cimport Gemm

cnp.import_array()

# Bytes read that pay for waking one more thread.
cdef int64_t THREAD_BYTES = 1 << 18


cdef void add_taps(int64_t *dst, const int64_t *src, const i8_image *m, int d, int64_t before,
                   int64_t behind) noexcept nogil:
    """The sums along dimension d of the window, of `before` times the sizes of d and of the dimensions behind."""
    cdef int64_t i, o, k, at, v
    memset(dst, 0, before * m.out[d] * behind * sizeof(int64_t))
    for i in range(before):
        for o in range(m.out[d]):
            for k in range(m.kernel[d]):
                at = o * m.stride[d] - m.before[d] + k * m.dilation[d]
                if not 0 <= at < m.size[d]:
                    continue
                for v in range(behind):
                    dst[(i * m.out[d] + o) * behind + v] += src[(i * m.size[d] + at) * behind + v]


cdef int sums_of_group(const Gemm *g, const i8_image *m, int64_t channels, int64_t group, int64_t n,
                       int64_t *dst) noexcept nogil:
    """All windows of a group in one image. 0, or -1 if there is no memory."""
    cdef int64_t lines = m.size[0] * m.size[1], pixels = lines * m.size[2], i
    cdef int64_t *own = <int64_t *>acquire(
        (pixels + lines * m.out[2] + m.size[0] * m.out[1] * m.out[2]) * sizeof(int64_t))
    cdef int64_t *along_w = own + pixels
    cdef int64_t *along_h = along_w + lines * m.out[2]
    if own is NULL:
        return -1
    for i in range(lines):
        g.kernels.packing.row_sums(
            own + i * m.size[2], m.size[2], channels,
            m.src + n * m.steps[0] + i // m.size[1] * m.steps[1] + i % m.size[1] * m.steps[2]
            + group * channels * m.steps[4], m.steps[3], m.steps[4], g.a_flip)
    for i in range(pixels):
        own[i] -= g.ao * channels
    add_taps(along_w, own, m, 2, lines, 1)
    add_taps(along_h, along_w, m, 1, m.size[0], m.out[2])
    add_taps(dst, along_h, m, 0, 1, m.out[1] * m.out[2])
    release(own)
    return 0


cdef cnp.ndarray window_sums(const Gemm *g, const i8_image *image, int64_t groups, int64_t channels,
                             const int64_t *size, Windows *windows):
    """Set the sums of all groups of so many channels, for a destination of `size` (n, d, h, w); the memory they lie in.

    `image` is the whole one, and its zero point that of g.
    """
    cdef i8_image m = image[0]
    cdef int64_t pixels = size[0] * size[1] * size[2] * size[3], unit, units = groups * size[0]
    cdef int64_t bytes_read = size[0] * m.size[0] * m.size[1] * m.size[2] * groups * channels
    cdef int d, status = 0, threads = <int>min(min(<int64_t>max_threads(), units), 1 + bytes_read // THREAD_BYTES)
    cdef cnp.ndarray array = np.empty((groups, pixels), np.int64)
    cdef int64_t *sums = <int64_t *>cnp.PyArray_DATA(array)
    for d in range(3):
        m.out[d] = size[d + 1]
    with nogil:
        if threads > 1:
            for unit in prange(units, num_threads=region_threads(threads), schedule="static"):
                status += sums_of_group(g, &m, channels, unit // size[0], unit % size[0],
                                        sums + unit * (pixels // size[0]))
        else:
            for unit in range(units):
                status += sums_of_group(g, &m, channels, unit // size[0], unit % size[0],
                                        sums + unit * (pixels // size[0]))
    if status:
        raise MemoryError("no memory for the sums of the windows")
    windows.sums, windows.pixels = sums, pixels
    return array


cdef void take_off(const Windows *windows, const int64_t *zeros, int32_t *sums, ptrdiff_t sums_row, int64_t row,
                   int64_t rows, int64_t column, int64_t cols) noexcept nogil:
    """Take the zero points' terms off a tile of sums at a pixel and a channel of the destination, modulo 2**32."""
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
