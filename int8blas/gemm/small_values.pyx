"""Choose the fastest multiply-add that is exact for the values of both operands, on CPUs without VNNI.

VPMADDUBSW adds the products of two neighbours along k in s16, but 255 * 127 + 255 * 127 does not fit s16. VPMADDUBSW is
exact for any A' if the values of B' are small (B's no-saturation proof), and for any B' if the values of A' are small.
``find_range`` therefore finds the largest value of A' in each M block before the block is packed, and packing finds the
largest pair sum of each panel of B'. ``choose_dot`` takes the fastest multiply-add that is exact for the values of both
operands. A large value slows down only its M block or its panel.

The shift by 128 makes small values large. Two methods avoid the shift. A u8 B without values above 127 needs no shift,
because its bytes are s8 already (`unshift`). Each M block of an s8 A can be shifted so that its smallest value becomes
0 (`rebase`).

The path `triangle` multiplies a matrix by its own transpose. If the values of the matrix span at most 127, each value
minus the smallest value is both a u8 and an s8, so A' and B' are the same panels. Two products of 127 * 127 fit s16.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t

from int8blas.core.kernels cimport (
    I8_DOT2, I8_DOT4_SAT, I8_DOT8, I8_DOT_INTERLEAVED, I8_DOT_SMALL, I8_MAX_PAIR_SUM, I8_PANEL)
from int8blas.gemm.nest cimport PackedBlock
from int8blas.gemm.operand cimport SHIFT, address
from int8blas.gemm.problem cimport SPLIT_ROWS, has_scale_groups, is_generated, is_quantized, zero_by_row

cdef enum:
    LARGEST_S16 = 32767
    LARGEST_A = 255             # the largest value that A' can have
    # The minimum number of columns of C for `find_range`. For fewer than LOOK_COLUMNS columns, reading A takes longer
    # than a fast multiply-add saves. If all values of A are below 30, 256 x 32 x 512 takes 28.6 us with the search and
    # 37.8 us without. If A has large values, the search makes 256 x 48 x 512 0.5 % slower (AVX2, Zen 5).
    LOOK_COLUMNS = 32
    # The minimum number of groups for I8_DOT_SMALL, which adds all groups in s16. I8_DOT8 adds two groups. For 4
    # groups, I8_DOT_SMALL is 1.06x (AVX2) or 0.96x (AVX-512) as fast as I8_DOT8. For 8 groups, I8_DOT_SMALL is 1.18x
    # (AVX2) or 1.07x (AVX-512) as fast.
    SMALL_GROUPS = 6
    MOST_GROUPS = 1 << 20       # more than any block has


cdef int64_t groups_that_fit(int64_t largest, int64_t pair_sum) noexcept nogil:
    """Return the number of groups of k that can be added in s16, for an A' of 0 to `largest` and this pair sum of B'.
    Return 0 if the sum of one group may exceed s16.

    VPMADDUBSW adds two products, for k and k + 1. Products with positive values of B' are at least 0, and products with
    negative values are at most 0. Each sum is therefore at most largest * pair_sum in magnitude, and n groups add n
    sums.
    """
    return MOST_GROUPS if largest * pair_sum == 0 else LARGEST_S16 // (largest * pair_sum)


cdef int small_dot(int64_t groups, bint few_rows) noexcept nogil:
    """Return the multiply-add for sums of `groups` groups, 1 or more, in s16. A tile of few rows widens the sum of each
    group, because it has too few sums to hide the latency of longer sequences."""
    if groups == 1 or few_rows:
        return I8_DOT4_SAT
    return I8_DOT8 if groups < SMALL_GROUPS else I8_DOT_SMALL


cdef int small_triangle_dot(const Problem *g, int64_t *groups) noexcept nogil:
    """Return the multiply-add of a triangle whose values have a known spread. Set `groups` to the number of groups that
    the multiply-add adds in s16."""
    groups[0] = groups_that_fit(g.known.spread, 2 * g.known.spread)
    return small_dot(groups[0], False)


cdef int64_t largest_that_helps(int64_t pair_sum) noexcept nogil:
    """Return the largest value of A' for which s16 can hold the sum of more groups than for the value 255."""
    cdef int64_t groups = groups_that_fit(LARGEST_A, pair_sum)
    return 0 if groups == MOST_GROUPS else LARGEST_S16 // ((groups + 1) * pair_sum)


cdef int64_t pair_sum_of(const PackedBlock *b, int64_t panel) noexcept nogil:
    """Return the largest pair sum of a panel, or an upper bound."""
    if b.pair_sums is not NULL:
        return b.pair_sums[panel]
    return CERTIFIED_SUM if b.certified[panel] else I8_MAX_PAIR_SUM


cdef bint may_rebase(const LoopState *loop) noexcept nogil:
    """Return whether rows of A' may be rebased: the term of the zero point must be in the start values of the tiles, so
    that column sums can correct the term."""
    return (
        loop.g.a.sign_flip != 0 and loop.g.a.zero_point != 0 and loop.b.col_sums is not NULL and not loop.p.common.wide
        and not zero_by_row(loop.g)
    )


cdef void find_range(LoopState *loop) noexcept nogil:
    """Find the largest value of A' in the M block. Rebase the M block if rebasing makes the N block faster."""
    cdef const Problem *g = loop.g
    cdef int64_t enough = 0, panel
    cdef uint8_t found[2]
    cdef bint rebases = may_rebase(loop)
    loop.largest, loop.rebase = LARGEST_A, 0
    if (not loop.p.forms.may_widen or is_generated(g) or has_scale_groups(g) or g.m < SPLIT_ROWS or g.n < LOOK_COLUMNS
            or (g.a.row != 1 and g.a.column != 1)):
        return
    for panel in range(loop.at.panel, loop.at.panel + loop.at.panels):
        enough = max(enough, largest_that_helps(pair_sum_of(&loop.b, panel)))
    # The range begins at 0, unless the rows may be rebased.
    found[0], found[1] = LARGEST_A if rebases else 0, 0
    g.kernels.packing.value_range(found, loop.at.rows, loop.b.k, address(&g.a, loop.at.row, loop.b.k0), g.a.row,
                                  g.a.column, g.a.sign_flip, <int>enough)
    if found[1] - found[0] > enough:
        return
    loop.largest = found[1]
    # Widening reads the caller's A, which is not rebased. Rebase only if the largest rebased value is at most 127, so
    # that all pair sums fit s16 and no panel is widened.
    if rebases and found[1] - found[0] <= LARGEST_S16 // I8_MAX_PAIR_SUM:
        loop.largest, loop.rebase = found[1] - found[0], found[0]


cdef void rebase_start(const LoopState *loop) noexcept nogil:
    """Compute the start values of the N block's columns for rebased rows, whose zero point is smaller by `rebase`."""
    cdef int64_t i
    cdef uint32_t init
    for i in range(loop.at.panel * I8_PANEL, (loop.at.panel + loop.at.panels) * I8_PANEL):
        init = 0 if loop.b.col_init is NULL else <uint32_t>loop.b.col_init[i]
        loop.arena.rebased_init[i] = <int32_t>(init + <uint32_t>loop.rebase * <uint32_t>loop.b.col_sums[i])


cdef int64_t groups_in_s16(const LoopState *loop, int64_t panel, int width) noexcept nogil:
    """Return the number of groups of some panels that can be added in s16: at most 1 with scale groups or skipped
    padding."""
    cdef int64_t pair_sum = 0, groups, i
    for i in range(width):
        pair_sum = max(pair_sum, pair_sum_of(&loop.b, panel + i))
    groups = groups_that_fit(loop.largest, pair_sum)
    return min(groups, <int64_t>1) if loop.p.forms.skips or has_scale_groups(loop.g) else groups


cdef bint are_split(const LoopState *loop, int64_t panel, int width) noexcept nogil:
    """Return whether `width` panels from `panel` on are all split, and are multiplied as a dense part and outliers."""
    cdef int i
    if not loop.p.forms.splits:
        return False
    for i in range(width):
        if not loop.g.panels.split.panels[loop.b.first + panel + i]:
            return False
    return True


cdef int choose_dot(const LoopState *loop, int64_t panel, int width, bint *is_split) noexcept nogil:
    """Return the multiply-add for `width` panels and the M block. Set `is_split` if the dense part and the outliers are
    multiplied separately."""
    cdef int64_t groups
    is_split[0] = False
    if loop.g.saturating:
        return I8_DOT4_SAT
    if loop.p.forms.interleaves:
        return I8_DOT_INTERLEAVED
    if not loop.p.forms.may_widen:
        return loop.g.kernels.gemm.exact
    groups = groups_in_s16(loop, panel, width)
    # Outliers are multiplied by a copy of A, which is not rebased.
    if groups < 2 and loop.rebase == 0 and are_split(loop, panel, width):
        is_split[0] = True
        return I8_DOT8
    if groups == 0:
        return loop.p.forms.uncertified
    return small_dot(groups, loop.g.m < SPLIT_ROWS)


cdef bint looks_at_values(const Problem *g) noexcept nogil:
    """Return whether the values of the operands decide the multiply-add: the CPU has no VNNI, and A has enough rows."""
    return g.kernels.gemm.exact == I8_DOT2 and not g.saturating and g.m >= SPLIT_ROWS


cdef bint rebase_triangle(Problem *other, const Problem *g) noexcept nogil:
    """If the values of a triangle's A span at most 127, set `other` to the triangle with a known spread, which the path
    multiplies as bytes. Return whether `other` was set."""
    cdef uint8_t found[2]
    if not looks_at_values(g) or g.k == 0 or (g.a.row != 1 and g.a.column != 1):
        return False
    found[0], found[1] = LARGEST_A, 0
    g.kernels.packing.value_range(found, g.m, g.k, g.a.data, g.a.row, g.a.column, g.a.sign_flip, LARGEST_S8)
    if found[1] - found[0] > LARGEST_S8:
        return False
    other[0] = g[0]
    # A spread of 0 stands for an unknown spread.
    other.known.lowest, other.known.spread = found[0], max(found[1] - found[0], 1)
    return True


cdef bint unshift(Problem *other, const Problem *g) noexcept nogil:
    """If no value of a u8 B is above 127, set `other` to the problem with B as s8, unshifted. Return whether `other`
    was set."""
    cdef uint8_t found[2]
    if not looks_at_values(g) or g.b.zero_points is not NULL or is_quantized(g):
        return False
    if g.panels.data is NULL:
        if g.b.sign_flip == 0 or (g.b.row != 1 and g.b.column != 1):
            return False
        found[0] = found[1] = 0
        g.kernels.packing.value_range(found, g.k, g.n, g.b.data, g.b.row, g.b.column, 0, LARGEST_S8)
        if found[1] > LARGEST_S8:
            return False
    elif g.panels.as_s8 is NULL:
        return False
    other[0] = g[0]
    other.b.sign_flip = 0
    other.b.zero_point += SHIFT
    if g.panels.data is not NULL:
        other.panels = g.panels.as_s8[0]
    return True
