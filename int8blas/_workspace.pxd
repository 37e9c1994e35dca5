cdef void *acquire(size_t size) noexcept nogil
cdef void release(void *memory) noexcept nogil
