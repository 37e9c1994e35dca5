# Runs of networks at the same time (see turns.pyx).
cdef void enter_run() noexcept nogil
cdef void leave_run() noexcept nogil
cdef void forget_runs() noexcept nogil
cdef int shared_cpus(int cpus) noexcept nogil
cdef bint keeps_shared_gil(double work, double gil_work) noexcept nogil
cdef void end_turn() noexcept nogil
cdef void take_turn() noexcept nogil


cdef inline bint keeps_gil(double work, double gil_work) noexcept nogil:
    """Return whether a call keeps the GIL. `gil_work` is the maximum work for which releasing and taking the GIL does
    not pay off."""
    return work <= gil_work or keeps_shared_gil(work, gil_work)
