"""Products without VNNI whose sums fit s16, by what the values of both operands are.

VPMADDUBSW adds the products of two neighbours along k in s16, where 255 * 127 + 255 * 127 does not fit. That none does
is certain of any A' if the values of B' are small (its certificate, packing.pyx), and of any B' if those of A' are. So
the largest value of A' is found for each block of rows, before they are packed or read, and the largest pair sum of B'
for each panel when it is packed; ``groups_in_16_bits`` says what that makes certain, ``small_dot`` which multiply-add
is exact then. A large value costs the block of rows that it is in, or the panel, and no other.

A shift by 128 makes large values of small ones. It is left out where it need not be: of a u8 B with nothing above 127,
whose bytes are s8 as they are, for all of B; of an s8 A for each block of rows, whose smallest value becomes 0.

A triangle multiplies one matrix by itself. If its values span at most 127, each less the smallest is both a u8 and an
s8, so the same panels serve as A' and as B', and two products of 127 * 127 fit s16.
"""

from libc.stdint cimport int64_t, uint8_t

from int8blas.gemm.operand cimport SHIFT, address
from int8blas.gemm.plan cimport PATH_BLOCKS, PATH_TRIANGLE, is_made, zero_by_row

cdef enum:
    # Columns of C from which on A is looked at: a byte of it takes as long as that of a few columns.
    LOOK_COLUMNS = 48


cdef bint can_be_lowered(const Gemm *g, const Plan *p, const Slab *s) noexcept nogil:
    """Whether rows of A' may be less than by the shift: their zero point is part of start values of the tiles, which
    column sums change."""
    return g.a.flip != 0 and g.a.zero != 0 and s.col_sums is not NULL and not p.wide and not zero_by_row(g)


cdef void find_range(const Gemm *g, const Plan *p, const Slab *s, int64_t row, int64_t rows, int64_t panel,
                     int64_t panels, Area *m) noexcept nogil:
    """What is known of the values of some rows of A', in the k of the slab, for products with some panels."""
    cdef int64_t enough = 0, x
    cdef uint8_t found[2]
    cdef bint lowers = can_be_lowered(g, p, s)
    m.largest, m.lowered = LARGEST_A, 0
    if (not p.may_widen or is_made(g) or g.scale_groups is not NULL or g.m < SPLIT_ROWS or g.n < LOOK_COLUMNS
            or (g.a.row != 1 and g.a.column != 1)):
        return
    for x in range(panel, panel + panels):
        enough = max(enough, largest_that_helps(pair_sum_of(s, x)))
    # From 0 on, unless the smallest value is to become 0.
    found[0], found[1] = LARGEST_A if lowers else 0, 0
    g.kernels.packing.value_range(found, rows, s.k, address(&g.a, row, s.k0), g.a.row, g.a.column, g.a.flip,
                                  <int>enough)
    if found[1] - found[0] > enough:
        return
    m.largest = found[1]
    # No panel of what is lowered may be widened, which is done from where A lies: 127 times all pair sums fit.
    if lowers and found[1] - found[0] <= LARGEST_16 // I8_MAX_PAIR_SUM:
        m.largest, m.lowered = found[1] - found[0], found[0]


cdef bint suits_values(const Gemm *g, const Plan *p, Gemm *other) noexcept nogil:
    """Set `other` to the same problem in a form that is faster for the values of its operands, if there is one."""
    return is_small_triangle(g, p, other) if p.path == PATH_TRIANGLE else unshifted(g, p, other)


cdef bint is_small_triangle(const Gemm *g, const Plan *p, Gemm *other) noexcept nogil:
    """Let `other` be a triangle that is multiplied in bytes rather than widened, if its values are near one another."""
    cdef uint8_t found[2]
    if not p.may_widen or g.m < SPLIT_ROWS or g.k == 0 or (g.a.row != 1 and g.a.column != 1):
        return False
    found[0], found[1] = LARGEST_A, 0
    g.kernels.packing.value_range(found, g.m, g.k, g.a.data, g.a.row, g.a.column, g.a.flip, LARGEST_S8)
    if found[1] - found[0] > LARGEST_S8:
        return False
    other[0] = g[0]
    # Values that are all the same are taken to be 0 or 1 more than the smallest.
    other.lowest, other.spread = found[0], max(found[1] - found[0], 1)
    return True


cdef bint unshifted(const Gemm *g, const Plan *p, Gemm *other) noexcept nogil:
    """Let `other` be the problem with a u8 B as it is, rather than less 128, if nothing in it is above 127."""
    cdef uint8_t found[2]
    if p.path != PATH_BLOCKS or not p.may_widen or g.m < SPLIT_ROWS or g.b.zeros is not NULL or g.stage is not NULL:
        return False
    if g.packed is NULL:
        if g.b.flip == 0 or (g.b.row != 1 and g.b.column != 1):
            return False
        found[0] = found[1] = 0
        g.kernels.packing.value_range(found, g.k, g.n, g.b.data, g.b.row, g.b.column, 0, LARGEST_S8)
        if found[1] > LARGEST_S8:
            return False
    elif g.as_s8 is NULL:
        return False
    other[0] = g[0]
    other.b.flip = 0
    other.b.zero += SHIFT
    if g.packed is not NULL:
        other.as_s8 = NULL
        other.packed, other.col_sums, other.certified = g.as_s8.packed, g.as_s8.col_sums, g.as_s8.certified
        other.pair_sums, other.split = g.as_s8.pair_sums, g.as_s8.split
    return True
