"""The limits of the machine, measured with loops of the selected instruction set: multiply-adds and reading."""

from libc.stdint cimport int64_t, uint8_t
cimport int8blas.core.cnumpy as cnp

from int8blas.core.kernels cimport current_kernels, i8_kernels, i8_peak_fn
from int8blas.core.memory cimport acquire, release
from int8blas.core.threads cimport parallel_for

cnp.import_array()


cdef struct PeakJob:
    i8_peak_fn peak
    int64_t iterations
    int64_t *done               # multiply-adds of each thread


cdef struct ReadJob:
    const i8_kernels *kernels
    const uint8_t *start
    int64_t share, passes
    int64_t gap, step           # bytes from one stream to the next, and from one read of a stream to its next read


cdef int do_peak(const void *shared, int64_t thread, int64_t _threads) noexcept nogil:
    cdef const PeakJob *job = <const PeakJob *>shared
    job.done[thread] = job.peak(job.iterations)
    return 0


cdef int do_read(const void *shared, int64_t thread, int64_t _threads) noexcept nogil:
    cdef const ReadJob *job = <const ReadJob *>shared
    cdef int64_t vector = job.kernels.gemm.limits.read_bytes, _turn
    for _turn in range(job.passes):
        job.kernels.gemm.limits.read(job.start + thread * job.share, job.gap, job.step, job.share // (4 * vector))
    return 0


def multiply_add(int64_t iterations, int threads):
    """Run `iterations` of the loop of multiply-adds on each of `threads` threads.

    Returns
    -------
    int
        The number of multiply-adds of all threads, or 0 if the instruction set has no loop of multiply-adds.
    """
    cdef const i8_kernels *kernels = current_kernels()
    cdef PeakJob job
    cdef int64_t total = 0
    cdef int thread
    job.peak, job.iterations = kernels.gemm.limits.peak, iterations
    if kernels.matrix is not NULL:
        job.peak = kernels.matrix.peak
    if job.peak is NULL:
        return 0
    job.done = <int64_t *>acquire(threads * sizeof(int64_t))
    if job.done is NULL:
        raise MemoryError("no memory for the counts of the threads")
    with nogil:
        parallel_for(do_peak, &job, threads, threads)
        for thread in range(threads):
            total += job.done[thread]
        release(job.done)
    return total


def read(cnp.ndarray buffer not None, int passes, int streams, int threads):
    """Read a contiguous array of uint8 `passes` times. Each of `threads` threads reads an equal share, as 1 or 4
    streams.

    Shares are multiples of 256 bytes. Bytes after the last share are not read.

    Returns
    -------
    int
        The number of bytes that all threads read.
    """
    cdef const i8_kernels *kernels = current_kernels()
    cdef int64_t vector = kernels.gemm.limits.read_bytes
    cdef int64_t share = cnp.PyArray_SIZE(buffer) // threads // 256 * 256
    cdef ReadJob job
    if share == 0:
        return 0
    job.kernels, job.start = kernels, <const uint8_t *>cnp.PyArray_DATA(buffer)
    job.share, job.passes = share, passes
    job.gap = vector if streams == 1 else share // 4
    job.step = 4 * vector if streams == 1 else vector
    with nogil:
        parallel_for(do_read, &job, threads, threads)
    return share * threads * passes
