# Element-wise operators on arrays (see elements.pyx).
from libc.stddef cimport ptrdiff_t
from libc.stdint cimport int32_t, int64_t
from libc.string cimport memcpy
cimport int8blas.core.cnumpy as cnp

from int8blas.core.kernels cimport i8_elements_fn

cdef enum:
    PARAMETERS = 3  # parameters of an element-wise kernel: scale or multiplier, zero point, exponent
    FILLED = 8      # words that `fill` writes at a time


# The dimensions of an array in the order of memory, without dimensions of size 1. Each dimension has its size, its
# axis, and whether its stride is negative. Loops over several arrays of one shape visit all of the arrays in the Order
# of one array.
cdef struct Order:
    int dims
    int64_t shape[cnp.NPY_MAXDIMS]
    int axes[cnp.NPY_MAXDIMS]
    bint backwards[cnp.NPY_MAXDIMS]


cdef object apply(i8_elements_fn function, cnp.ndarray x, object out, int typenum, tuple axes, list parameters)
cdef void memory_order(Order *order, cnp.ndarray out) noexcept
cdef char *ordered_strides(const Order *order, cnp.ndarray array, ptrdiff_t *strides) noexcept
cdef bint is_dense(cnp.ndarray array) noexcept
cdef bint lie_alike(cnp.ndarray x, cnp.ndarray y) noexcept
cdef int even_from(const Order *order, cnp.ndarray array, int first) noexcept
cdef void repeat_bytes(char *to, const char *source, int64_t size, int64_t n) noexcept nogil
cdef void copy_strided(char *to, ptrdiff_t to_step, const char *source, ptrdiff_t step, int size,
                       int64_t n) noexcept nogil
cdef bint share_memory(cnp.ndarray x, cnp.ndarray out)
cdef bint clash(cnp.ndarray x, cnp.ndarray out)
cdef bint fits(cnp.ndarray parameter, cnp.ndarray x, tuple axes) noexcept


cdef inline void fill(int32_t *dst, int64_t blocks, const char *value) noexcept nogil:
    """Write a value blocks * FILLED times. GCC compiles the inner loop to two stores."""
    cdef int32_t word
    cdef int64_t _block
    cdef int j
    memcpy(&word, value, sizeof(word))
    for _block in range(blocks):
        for j in range(FILLED):
            dst[j] = word
        dst += FILLED


cdef inline void copy_bytes(char *to, const char *source, int64_t n) noexcept nogil:
    """Copy bytes like memcpy. Short runs are copied without a call, in pieces of 16 bytes, and the last two pieces may
    overlap."""
    cdef int64_t i
    if n < 16 or n > 1024:
        memcpy(to, source, n)
    else:
        for i in range(0, n - 16, 16):
            memcpy(to + i, source + i, 16)
        memcpy(to + n - 16, source + n - 16, 16)
