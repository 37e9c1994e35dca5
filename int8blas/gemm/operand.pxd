# An operand of a product as the kernels see it, and the one place that shifts by 128.
from libc.stddef cimport ptrdiff_t
from libc.stdint cimport int64_t, uint8_t


# There is one product inside, u8 times s8. An A of s8 becomes A' of u8, and a B of u8 B' of s8, where the sign bit of
# each byte is flipped. That adds 128, or subtracts it, and so the zero points of A' and B' are 128 more or less.
cdef struct Operand:
    const uint8_t *data         # in place, XORed with `flip` to become A' or B'; NULL where it is elsewhere
    ptrdiff_t row, column       # bytes from one row, and from one column, to the next
    uint8_t flip
    int64_t zero                # the zero point of A' or B',
    const int64_t *zeros        # or, if not NULL, those of the rows of A' or the columns of B'


cdef enum:
    SIGN_BIT = 0x80
    SHIFT = 128


cdef inline void set_as_u8(Operand *x, bint is_s8) noexcept nogil:
    """An A without a zero point."""
    x.flip, x.zero = (<uint8_t>SIGN_BIT, <int64_t>SHIFT) if is_s8 else (<uint8_t>0, <int64_t>0)


cdef inline void set_as_s8(Operand *x, bint is_u8) noexcept nogil:
    """A B without a zero point."""
    x.flip, x.zero = (<uint8_t>SIGN_BIT, -<int64_t>SHIFT) if is_u8 else (<uint8_t>0, <int64_t>0)


cdef inline Operand transposed(const Operand *x, int64_t shift) noexcept nogil:
    """The transpose of an operand without `zeros`, with the sign of the other one: A as B for -SHIFT, B as A for
    SHIFT."""
    cdef Operand t = x[0]
    t.row, t.column = x.column, x.row
    t.flip = x.flip ^ SIGN_BIT
    t.zero = x.zero + shift
    return t


cdef inline const uint8_t *address(const Operand *x, int64_t row, int64_t column) noexcept nogil:
    return x.data + row * x.row + column * x.column


cdef inline bint has_zero(const Operand *x) noexcept nogil:
    """Whether the zero point of an operand, or that of a vector of it, may differ from 0."""
    return x.zero != 0 or x.zeros is not NULL


cdef inline int64_t zero_of(const Operand *x, int64_t i) noexcept nogil:
    """The zero point of row i of A', or of column i of B'."""
    return x.zero if x.zeros is NULL else x.zeros[i]
