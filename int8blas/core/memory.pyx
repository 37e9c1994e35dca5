"""Memory that begins on a cache line (csrc/core/memory.h). The functions return NULL if there is no memory."""

cdef extern from "core/memory.h" nogil:
    void *i8_allocate(size_t size)
    void *i8_reallocate(void *memory, size_t size)
    void i8_free(void *memory)
    void *i8_acquire(size_t size)
    void i8_release(void *memory)
    void i8_open_arena()
    void i8_close_arena()
    void i8_drop_kept()
    void *i8_take(size_t size)
    void i8_keep(void *memory)


cdef void *allocate(size_t size) noexcept nogil:
    """Return `size` bytes."""
    return i8_allocate(size)


cdef void *reallocate(void *memory, size_t size) noexcept nogil:
    """Resize a block that `allocate` returned, and return its new address."""
    return i8_reallocate(memory, size)


cdef void free(void *memory) noexcept nogil:
    """Free a block that `allocate` returned."""
    i8_free(memory)


cdef void *acquire(size_t size) noexcept nogil:
    """Return `size` bytes for the duration of a call."""
    return i8_acquire(size)


cdef void release(void *memory) noexcept nogil:
    """Release a block that `acquire` returned."""
    i8_release(memory)


cdef void open_arena() noexcept nogil:
    """Open an arena scope: until `close_arena`, blocks that this thread releases are kept for its next `acquire`."""
    i8_open_arena()


cdef void close_arena() noexcept nogil:
    """Close the innermost arena scope."""
    i8_close_arena()


cdef void *take(size_t size) noexcept nogil:
    """Return `size` bytes for an array. The bytes may be the memory of an earlier array."""
    return i8_take(size)


cdef void keep(void *memory) noexcept nogil:
    """Give back a block that `take` returned. A later array may reuse the block."""
    i8_keep(memory)


def drop_kept():
    """Free the memory that is kept for later calls (at most 64 MiB) and for arrays of networks (at most 128 MiB)."""
    i8_drop_kept()
