# Count the bits of integers (see bits.pyx).
from libc.stdint cimport int64_t
cimport int8blas.core.cnumpy as cnp

from int8blas.core.kernels cimport i8_int_bits, i8_wide_kernels


# The range of all elements: [-2**count, 2**count) if an element is negative, otherwise [0, 2**count).
cdef struct Bits:
    int count
    bint negative


cdef int integer_type(cnp.ndarray array) noexcept
cdef Bits count_bits(const i8_int_bits *found) noexcept
cdef Bits bits_of(const i8_wide_kernels *kernels, cnp.ndarray x) noexcept


cdef inline int integer_code(int typenum, int size) noexcept:
    """Return the kernels' code of an integer type, from NumPy's type number and the bytes of an element."""
    # NumPy gives each signed type an odd number, and the unsigned type of equal size the next number.
    cdef int code = typenum % 2 == 0
    while size > 1:
        size >>= 1
        code += 2
    return code


cdef inline bint fit_bytes(const i8_int_bits *found) noexcept:
    """Return whether all elements fit int8, or all elements fit uint8."""
    return found.magnitude <= 127 or (found.magnitude <= 255 and <int64_t>found.sign >= 0)


cdef inline int levels(int64_t k) noexcept:
    """Return the bits that a sum of k products may have in addition to the bits of one product."""
    cdef int bits = 0
    while (<int64_t>1 << bits) < k:
        bits += 1
    return bits
