"""The machine's own limits, measured with loops of the selected instruction set: multiply-adds and reading."""

from cython.parallel cimport prange
from libc.stdint cimport int64_t, uint8_t
cimport numpy as cnp

from int8blas.core.kernels cimport current_kernels, i8_kernels, i8_peak_fn
from int8blas.core.threads cimport region_threads

cnp.import_array()


def multiply_add(int64_t iterations, int threads):
    """Run `iterations` of the loop of multiply-adds on each of `threads` threads.

    Returns
    -------
    int
        How many multiply-adds all of them did; 0 where the instruction set has no such loop.
    """
    cdef const i8_kernels *kernels = current_kernels()
    cdef int64_t done = 0
    cdef int _thread
    cdef i8_peak_fn peak = kernels.limits.peak
    if kernels.matrix is not NULL:
        peak = kernels.matrix.peak
    if peak is NULL:
        return 0
    for _thread in prange(threads, nogil=True, num_threads=region_threads(threads), schedule="static"):
        done += peak(iterations)
    return done


def read(cnp.ndarray buffer not None, int passes, int streams, int threads):
    """Read a contiguous array of uint8 `passes` times, an equal share of it on each of `threads` threads, as 1 or 4 streams a thread.

    Shares are multiples of 256 bytes; what is left over is not read.

    Returns
    -------
    int
        How many bytes all of them read.
    """
    cdef const i8_kernels *kernels = current_kernels()
    cdef int64_t vector = kernels.limits.read_bytes
    cdef int64_t share = cnp.PyArray_SIZE(buffer) // threads // 256 * 256
    cdef int64_t gap = vector if streams == 1 else share // 4
    cdef int64_t step = 4 * vector if streams == 1 else vector
    cdef const uint8_t *start
    cdef unsigned int total = 0
    cdef int thread, _turn
    if share == 0:
        return 0
    start = <const uint8_t *>cnp.PyArray_DATA(buffer)
    for thread in prange(threads, nogil=True, num_threads=region_threads(threads), schedule="static"):
        for _turn in range(passes):
            total += kernels.limits.read(start + thread * share, gap, step, share // (4 * vector))
    return share * threads * passes
