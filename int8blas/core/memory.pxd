# Memory that begins on a cache line (see memory.pyx).
from libc.stdint cimport uintptr_t

cdef enum:
    LINE = 64                   # bytes of a cache line
    ALIGNMENT = LINE            # alignment of all memory from these functions, in bytes
    # The minimum bytes of a thread's results for which streaming stores write past the caches: the size of a usual L3
    # cache, in which results of an earlier call may still be. With streaming stores and with other stores, products of
    # K = 4 take 385 us and 212 us (2048 x 2048, 16 MiB), 771 us and 803 us (4096 x 2048, 32 MiB), 1560 us and 2330 us
    # (4096 x 4096, 64 MiB) with AVX512-VNNI on a Zen 5 with 32 MiB of L3.
    STREAM_BYTES = 32 << 20

cdef void *allocate(size_t size) noexcept nogil
cdef void *reallocate(void *memory, size_t size) noexcept nogil
cdef void free(void *memory) noexcept nogil

cdef void *acquire(size_t size) noexcept nogil
cdef void release(void *memory) noexcept nogil
cdef void open_arena() noexcept nogil
cdef void close_arena() noexcept nogil
cdef void *take(size_t size) noexcept nogil
cdef void keep(void *memory) noexcept nogil


cdef inline void *carve(char **memory, size_t size) noexcept nogil:
    """Return the next `size` aligned bytes and advance `memory`. Return NULL if `size` is 0. If `memory` begins at
    ALIGNMENT instead of a real address, the call only measures: nothing is read or written there."""
    cdef char *start = memory[0]
    memory[0] += (size + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT
    return start if size > 0 else NULL


cdef inline char *aligned(char *memory) noexcept nogil:
    """Return the first aligned address at or after this address."""
    return memory + (-<uintptr_t>memory) % ALIGNMENT
