# An operand of a product in the form that the kernels multiply. Only this module shifts operands by 128.
from libc.stddef cimport ptrdiff_t
from libc.stdint cimport int64_t, uint8_t


# The kernels compute one product, u8 times s8. Flipping the sign bit of each byte turns an s8 A into the u8 matrix A' =
# A + 128, and a u8 B into the s8 matrix B' = B - 128. The zero points are shifted equally: 128 is added to the zero
# points of A, and subtracted from the zero points of B.
cdef struct Operand:
    const uint8_t *data         # the caller's array, or NULL; XOR with `sign_flip` makes A' or B'
    ptrdiff_t row, column       # distance in bytes from one row to the next, and from one column to the next
    uint8_t sign_flip
    int64_t zero_point          # the zero point of A' or B', if `zero_points` is NULL
    const int64_t *zero_points  # NULL, or a zero point for each row of A' or column of B'


cdef enum:
    SIGN_BIT = 0x80
    SHIFT = 128


cdef inline void clear(Operand *x) noexcept nogil:
    x.data = NULL
    x.row = x.column = x.zero_point = 0
    x.sign_flip = 0
    x.zero_points = NULL


cdef inline void set_as_u8(Operand *x, bint is_s8) noexcept nogil:
    """Set the sign of an A without a zero point."""
    x.sign_flip, x.zero_point = (<uint8_t>SIGN_BIT, <int64_t>SHIFT) if is_s8 else (<uint8_t>0, <int64_t>0)


cdef inline void set_as_s8(Operand *x, bint is_u8) noexcept nogil:
    """Set the sign of a B without a zero point."""
    x.sign_flip, x.zero_point = (<uint8_t>SIGN_BIT, -<int64_t>SHIFT) if is_u8 else (<uint8_t>0, <int64_t>0)


cdef inline Operand transposed(const Operand *x, int64_t shift) noexcept nogil:
    """Return the transpose of an operand without `zero_points`, with the sign of the other operand: with the shift
    -SHIFT, A becomes B; with SHIFT, B becomes A."""
    cdef Operand t = x[0]
    t.row, t.column = x.column, x.row
    t.sign_flip = x.sign_flip ^ SIGN_BIT
    t.zero_point = x.zero_point + shift
    return t


cdef inline const uint8_t *address(const Operand *x, int64_t row, int64_t column) noexcept nogil:
    return x.data + row * x.row + column * x.column


cdef inline bint has_zero(const Operand *x) noexcept nogil:
    """Return whether an operand may have a zero point that is not 0."""
    return x.zero_point != 0 or x.zero_points is not NULL


cdef inline int64_t zero_of(const Operand *x, int64_t i) noexcept nogil:
    """Return the zero point of row i of A', or of column i of B'."""
    return x.zero_point if x.zero_points is NULL else x.zero_points[i]
