"""Runs of networks at the same time. Each run has its share of the CPUs, and the runs take turns with the GIL.

csrc/core/turns.h implements the turns. Only this module includes turns.h, so the state of the turns exists once.
"""

cdef extern from "core/turns.h" nogil:
    int i8_shares()
    int i8_shared_cpus(int cpus)
    void i8_enter_run()
    void i8_leave_run()
    void i8_forget_runs()
    void i8_end_turn()
    void i8_take_turn()

# A call releases the GIL if its work is above a limit, because releasing the GIL takes time. If another thread runs a
# network, the limit is SHARED_GIL times as high, because getting the GIL back takes longer. If two threads run an
# encoder of 8 tokens, each thread reaches 0.64 of the speed of one thread alone, and 0.57 with SHARED_GIL = 1.
cdef enum:
    SHARED_GIL = 10


cdef void enter_run() noexcept nogil:
    """Begin a run of a network, which may be inside another run."""
    i8_enter_run()


cdef void leave_run() noexcept nogil:
    """End a run of a network."""
    i8_leave_run()


cdef void forget_runs() noexcept nogil:
    """Forget the runs of other threads, which do not exist after a fork."""
    i8_forget_runs()


cdef int shared_cpus(int cpus) noexcept nogil:
    """Return how many of `cpus` CPUs a call of this thread may use."""
    return i8_shared_cpus(cpus)


cdef bint keeps_shared_gil(double work, double gil_work) noexcept nogil:
    """Return whether another thread runs a network too, and `work` is at most SHARED_GIL times `gil_work`, so that the
    call keeps the GIL."""
    return i8_shares() and work <= gil_work * SHARED_GIL


cdef void end_turn() noexcept nogil:
    """End the turn of a thread that has just released the GIL."""
    i8_end_turn()


cdef void take_turn() noexcept nogil:
    """Wait for a turn, just before the thread takes the GIL."""
    i8_take_turn()
