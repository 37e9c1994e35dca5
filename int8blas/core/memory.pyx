"""Memory that begins on a cache line (csrc/core/memory.h), NULL where there is none."""

cdef extern from "core/memory.h" nogil:
    void *i8_allocate(size_t size)
    void *i8_reallocate(void *memory, size_t size)
    void i8_free(void *memory)
    void *i8_acquire(size_t size)
    void i8_release(void *memory)
    void i8_hold()
    void i8_let_go()
    void i8_drop_kept()
    void *i8_take(size_t size)
    void i8_keep(void *memory)


cdef void *allocate(size_t size) noexcept nogil:
    """`size` bytes."""
    return i8_allocate(size)


cdef void *reallocate(void *memory, size_t size) noexcept nogil:
    """What `allocate` returned with another size, perhaps elsewhere."""
    return i8_reallocate(memory, size)


cdef void free(void *memory) noexcept nogil:
    """Give back what `allocate` returned."""
    i8_free(memory)


cdef void *acquire(size_t size) noexcept nogil:
    """`size` bytes for the length of a call."""
    return i8_acquire(size)


cdef void release(void *memory) noexcept nogil:
    """Give back what `acquire` returned."""
    i8_release(memory)


cdef void hold() noexcept nogil:
    """Until `let_go`, what this thread releases stays its own, for what it acquires."""
    i8_hold()


cdef void let_go() noexcept nogil:
    """The end of the last `hold`."""
    i8_let_go()


cdef void *take(size_t size) noexcept nogil:
    """`size` bytes for an array, perhaps those of one before."""
    return i8_take(size)


cdef void keep(void *memory) noexcept nogil:
    """Give back what `take` returned, perhaps for another array."""
    i8_keep(memory)


def drop_kept():
    """Give back the memory that calls have left for the next ones, at most 64 MiB, and arrays of networks, 128 MiB."""
    i8_drop_kept()
