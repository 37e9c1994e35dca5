# How many threads a call may use; the only module that looks at OpenMP's state.

cdef int max_threads() noexcept nogil
cdef int region_threads(int wanted) noexcept nogil
cdef void forget_regions() noexcept nogil
cdef int region_used() noexcept nogil
cdef int team_size() noexcept nogil

# A barrier of the threads of a parallel region.
cdef extern from "core/barrier.h" nogil:
    ctypedef struct i8_barrier:
        int arrived
        int round

    void i8_wait(i8_barrier *barrier, int threads)
