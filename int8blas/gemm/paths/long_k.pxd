from libc.stdint cimport int64_t, uint8_t

from int8blas.core.kernels cimport i8_kernels


cdef inline int vectors_of_kernel(int left, int most) noexcept nogil:
    """Return the number of vectors that the next kernel takes: 4, 2 or 1, at most `most`."""
    return 4 if most >= 4 and left >= 4 else 2 if most >= 2 and left >= 2 else 1


# The arguments of a product of two contiguous vectors.
cdef struct Dot:
    const i8_kernels *kernels
    int64_t k
    const uint8_t *x
    const uint8_t *y
    bint x_signed, y_signed


cdef int dot_threads(const Dot *d, int threads) noexcept nogil
cdef int dot(const Dot *d, int threads, int64_t *sum) noexcept nogil
