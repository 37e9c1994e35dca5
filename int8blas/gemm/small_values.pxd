# Products without VNNI whose sums fit s16 (see small_values.pyx).
from libc.stdint cimport int64_t

from int8blas.core.kernels cimport I8_DOT4_SAT, I8_DOT8, I8_DOT_SMALL, I8_MAX_PAIR_SUM, i8_tile_fn
from int8blas.gemm.block cimport Area, Slab
from int8blas.gemm.plan cimport SPLIT_ROWS, Gemm, Plan

cdef enum:
    LARGEST_16 = 32767          # of s16
    LARGEST_A = 255             # of A'
    LARGEST_S8 = 127
    # What a certificate of B alone says, and LARGEST_A // CERTIFIED_SUM twice: 255 * 128 = 32640.
    CERTIFIED_SUM = 128
    # From how many groups on they are added in registers of their own (I8_DOT_SMALL), rather than two at a time
    # (I8_DOT8): 4 groups are 1.06 times as fast with AVX2 and 0.96 times with AVX-512, 8 groups 1.18 and 1.07.
    SMALL_GROUPS = 6
    MOST_GROUPS = 1 << 20       # more than any block has


cdef inline int64_t groups_in_16_bits(int64_t largest, int64_t pair_sum) noexcept nogil:
    """How many groups of k can be added in s16, for an A' of 0 to `largest` and this pair sum of B'; 0 if the products
    of one may not fit.

    VPMADDUBSW makes the sum of two products of each pair, (k, k + 1). Products of the positive values of B' are 0 or
    more, those of the negative ones 0 or less, so that no sum of them is larger in magnitude than all of one sign:
    largest * pair_sum. So many groups have at most 32767 in a sum as that goes into it.
    """
    return MOST_GROUPS if largest * pair_sum == 0 else LARGEST_16 // (largest * pair_sum)


cdef inline int64_t largest_that_helps(int64_t pair_sum) noexcept nogil:
    """Up to which largest value of A' more groups can be added than with all of 0 to 255."""
    cdef int64_t groups = groups_in_16_bits(LARGEST_A, pair_sum)
    return 0 if groups == MOST_GROUPS else LARGEST_16 // ((groups + 1) * pair_sum)


cdef inline int small_dot(int64_t groups, bint few_rows) noexcept nogil:
    """The multiply-add for sums of so many groups, 1 or more, in s16. Of few rows each sum is widened: their tiles have
    too few sums to wait for one another."""
    if groups == 1 or few_rows:
        return I8_DOT4_SAT
    return I8_DOT8 if groups < SMALL_GROUPS else I8_DOT_SMALL


cdef inline int small_triangle_dot(const Gemm *g, int64_t *groups) noexcept nogil:
    """The multiply-add of a triangle whose values have a spread, and how many groups it adds in s16."""
    groups[0] = groups_in_16_bits(g.spread, 2 * g.spread)
    return small_dot(groups[0], False)


cdef inline i8_tile_fn tile_of(const Gemm *g, int dot, int height, int width) noexcept nogil:
    """The micro-kernel. Where tiles of small values are not nearly full, I8_DOT8 takes them, which adds two groups."""
    cdef i8_tile_fn tile = g.kernels.gemm.tiles[dot].of[height - 1][width - 1]
    return g.kernels.gemm.tiles[I8_DOT8].of[height - 1][width - 1] if tile is NULL else tile


cdef inline int64_t pair_sum_of(const Slab *s, int64_t panel) noexcept nogil:
    """The largest pair sum of a panel of the slab, or more."""
    if s.pair_sums is not NULL:
        return s.pair_sums[panel]
    return CERTIFIED_SUM if s.certified[panel] else I8_MAX_PAIR_SUM


cdef inline int64_t groups_of(const Gemm *g, const Plan *p, const Slab *s, const Area *m, int64_t panel,
                              int width) noexcept nogil:
    """How many groups of a block can be added in s16 for some panels of the slab; not two where parts of K are sums of
    their own."""
    cdef int64_t pair_sum = 0, x
    for x in range(width):
        pair_sum = max(pair_sum, pair_sum_of(s, panel + x))
    x = groups_in_16_bits(m.largest, pair_sum)
    return min(x, <int64_t>1) if p.skips or g.scale_groups is not NULL else x


cdef void find_range(const Gemm *g, const Plan *p, const Slab *s, int64_t row, int64_t rows, int64_t panel,
                     int64_t panels, Area *m) noexcept nogil
cdef bint suits_values(const Gemm *g, const Plan *p, Gemm *other) noexcept nogil
