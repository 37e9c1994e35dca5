# How many threads a call may use; the only module that looks at OpenMP's state.

cdef int max_threads() noexcept nogil
cdef void parallel_region_ran() noexcept nogil
cdef int team_size() noexcept nogil
cdef void barrier() noexcept nogil
