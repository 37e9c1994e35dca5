# The gate to threads: the number of threads that a call may use, the work that justifies one more thread, and all
# parallel regions (see threads.pyx). No other module reads OpenMP's state.
from libc.stdint cimport int64_t

# The minimum work for which waking one more thread saves time, in the unit of each comment. For products each
# instruction set has its own number of multiply-adds, `thread_work`. Waking a thread takes some microseconds. One core
# of Zen 5 takes 3.6 us for THREAD_BYTES (dequantize), 9.4 us for THREAD_PACKED_BYTES (pack_b), 12 us for THREAD_REALS,
# 4.8 us for THREAD_NORMALIZED (layer_norm) and 3.7 us for THREAD_DEPTHWISE_WORK.
cdef enum:
    THREAD_BYTES = 1 << 19          # bytes read and written by a pass over memory
    THREAD_PACKED_BYTES = 1 << 18   # bytes of weights or of an image that are packed, summed or checked
    THREAD_REALS = 1 << 17          # real numbers whose range is found, or that are quantized by their range
    MAX_RANGES = 64                 # maximum threads that search for a range; their ranges are on the stack
    THREAD_NORMALIZED = 1 << 15     # elements of rows that are normalized
    THREAD_DEPTHWISE_WORK = 1 << 18     # multiply-adds of a depthwise convolution
    # multiply-adds of a step of a recurrent layer: less, because threads are awake and only meet at a barrier
    THREAD_STEP_WORK = 1 << 17

# The maximum work of calls that keep the GIL, because releasing and taking the GIL takes time.
cdef enum:
    GIL_BYTES = 1 << 14             # unit: as for THREAD_BYTES
    GIL_NORMALIZED = 1 << 12        # unit: as for THREAD_NORMALIZED
    GIL_WORK = 1 << 16              # multiply-adds of a product, 0.2 us; the GIL would take 0.03 us (AVX512-VNNI)

# A function that runs one part of a job. Any thread may run any part, in any order. The function returns 0, or -1 if
# there is no memory.
ctypedef int (*part_fn)(const void *job, int64_t part, int64_t parts) noexcept nogil
# Run one thread's share of a job. All threads of a region call the function, and may wait for each other.
ctypedef void (*member_fn)(const void *job, int thread, int threads) noexcept nogil


cdef inline int paid_threads(double work, double thread_work, double most) noexcept nogil:
    """Return the number of threads for which there is enough work: one, plus one for each `thread_work`, up to `most`.
    """
    return <int>max(1.0, min(most, 1 + work / thread_work))


cdef inline int threads_for_bytes(double work, double thread_work, double size, double thread_bytes,
                                  double most) noexcept nogil:
    """Return the number of threads for which there is enough work, up to `most`: one, plus one for each `thread_work`
    multiply-adds or each `thread_bytes` of `size` bytes, whichever gives more threads."""
    return paid_threads(max(work / thread_work, size / thread_bytes), 1, most)


cdef int threads_for(double work, double thread_work, double most) noexcept nogil
cdef int run_parts(part_fn function, const void *job, int64_t parts, int threads) noexcept nogil
cdef void run_in_turn(part_fn first, int64_t first_parts, part_fn second, int64_t second_parts, const void *job,
                      int threads) noexcept nogil
cdef int run_work(part_fn function, const void *job, int64_t parts, double work, double thread_work,
                  double gil_work) noexcept
cdef void run_team(member_fn function, const void *job, int threads) noexcept nogil
cdef int max_threads() noexcept nogil
cdef int region_threads(int wanted) noexcept nogil
cdef void forget_regions() noexcept nogil
cdef int region_used() noexcept nogil

# A barrier for the threads of a parallel region.
cdef extern from "core/barrier.h" nogil:
    ctypedef struct i8_barrier:
        int arrived
        int round

    void i8_wait(i8_barrier *barrier, int threads)
