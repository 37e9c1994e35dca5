# Runs of networks at the same time (see turns.pyx).
cdef void enter_run() noexcept nogil
cdef void leave_run() noexcept nogil
cdef void forget_runs() noexcept nogil
cdef int shared_cpus(int cpus) noexcept nogil
cdef bint keeps_gil(double work, double gil_work) noexcept nogil
cdef void end_turn() noexcept nogil
cdef void take_turn() noexcept nogil
