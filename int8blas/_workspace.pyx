"""Memory for the length of a call (csrc/workspace.h)."""

cdef extern from "workspace.h" nogil:
    void *i8_acquire(size_t size)
    void i8_release(void *memory)


cdef void *acquire(size_t size) noexcept nogil:
    """`size` bytes, aligned to cache lines; NULL if there are none."""
    return i8_acquire(size)


cdef void release(void *memory) noexcept nogil:
    """Give back what `acquire` returned."""
    i8_release(memory)
