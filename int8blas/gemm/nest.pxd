# One thread's state in the loop nest of the general path (see blocks.pyx): where the loops are (Cursor), the packed B
# block that they multiply (PackedBlock), and the memory that they use (Arena).
from libc.stddef cimport ptrdiff_t
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t

from int8blas.core.kernels cimport I8_GROUP, I8_PANEL, i8_output_args, i8_tile_args, i8_tile_output
from int8blas.core.memory cimport ALIGNMENT
from int8blas.core.split cimport ceil_div, round_up
from int8blas.gemm.operand cimport has_zero
from int8blas.gemm.block_plan cimport BlocksPlan
from int8blas.gemm.problem cimport Problem, has_row_offset, has_scale_groups, zero_by_row

cdef enum:
    # The forms in which the A block exists: LoopState.a_forms.
    A_PACKED = 1                    # u8, in micro-panels for the micro-kernels
    A_WIDENED = 2                   # s16, for I8_DOT2
    A_BY_COLUMNS = 4                # u8, for outliers


# The position of the loops. Rows are rows of C. Panel numbers begin with 0 at the first panel of the packed B block.
cdef struct Cursor:
    int64_t row, rows               # M block
    int64_t panel, panels           # N block
    int64_t k_block, k0, k          # number of the K block, its first k, its size
    bint is_first, is_last          # whether the K block is the first of K, and whether it is the last
    int64_t tile_panel              # first panel of the tile
    int width                       # panels of the tile
    int64_t along_n                 # tiles along N that one call of the micro-kernel computes
    int64_t tile_row                # first row of the tile, counted from the first row of the M block
    int height                      # rows of the tile
    int64_t along_m                 # tiles along M that one call of the micro-kernel computes


# A packed B block, which all threads read: some panels of B' over some K blocks. If B is packed, the panels and the
# vectors of their columns belong to the caller. If B is plain, the threads pack the panels into shared memory.
cdef struct PackedBlock:
    int64_t first, panels           # the first panel of B, and the number of panels
    int64_t first_k_block, end_k_block
    int64_t k0, k                   # the first k, and the number of k
    ptrdiff_t panel_size            # bytes from one panel to the next
    int8_t *data
    int64_t *col_sums               # sums of the columns of B'
    uint16_t *pair_sums             # the largest pair sum of each panel; NULL if only `certified` is known
    const uint8_t *certified        # whether each panel has a no-saturation proof, for a packed B without pair sums
    int32_t *col_init               # start values of the tiles' columns, or NULL
    int64_t *bo                     # zero points of the columns, for the epilogue, or NULL


# Vectors with a value for each row of the M block. A vector that the product does not need is NULL.
cdef struct RowVectors:
    int64_t *ao                     # zero points of A', for the epilogue
    int64_t *row_term               # sums of the rows of A' - ao over all k, for zero points of B
    int32_t *row_init               # start values of the tiles' rows
    uint32_t *a_tail                # the last, incomplete group of an A that is read in place, padded with zeros
    float *scale                    # scales of a dynamic source
    int64_t *zero                   # zero points of a dynamic source
    int32_t *group_terms            # row_term of each scale group: [groups][rows]


# One thread's memory. All pointers point into one allocation of the call (see arena.pyx). Memory that the product does
# not need is NULL.
cdef struct Arena:
    RowVectors rows
    uint8_t *a                      # the packed A block
    uint8_t *generated              # generated rows of A' of one tile, before they are packed
    uint16_t *a_wide                # the A block as s16
    uint8_t *a_columns              # the A block by columns
    int16_t *b_wide                 # the panels of one tile as s16
    int8_t *b_tail                  # the last, incomplete step of each panel, for a matrix unit
    void *partial                   # sums of the earlier K blocks, s32 or s64: [tiles][height][width]
    int32_t *tile                   # sums that wait for the epilogue
    int32_t *outlier_sums           # products with outliers: start values of a tile's sums
    float *scaled                   # sums of scale groups
    int32_t *rebased_init           # start values of the columns for rebased rows (see small_values.pyx)


# Sums in Arena.tile that wait for the epilogue. One call of the epilogue takes several tiles, so that its loops are
# longer.
cdef struct Pending:
    bint along_n                    # tiles along N wait: a row has `row_size` sums, which belong to several tiles
    bint along_m                    # tiles along M wait: the rows of a tile follow the rows of the previous tile
    int64_t row_size
    int64_t row, panel              # the first row and panel that wait, counted like Cursor.tile_row and tile_panel
    i8_output_args args


# The place of an output in an image: a row of the image's matrix (see spans.pyx).
cdef struct Place:
    int64_t d, h, w


cdef struct LoopState:
    const Problem *g
    const BlocksPlan *p
    Cursor at
    PackedBlock b
    Arena arena
    Pending pending
    i8_tile_args tile               # the next call of the micro-kernel
    i8_tile_output output           # its epilogue, if the micro-kernel applies one
    int dot                         # the multiply-add of the current panels: I8_DOT4 and so on
    bint is_split                   # whether the current panels are a dense part and outliers
    int32_t *outlier_sums           # start values of the current panels' sums; NULL without outliers
    int a_forms                     # A_PACKED | A_WIDENED | A_BY_COLUMNS
    int64_t largest                 # the largest value of A' in the M block, minus `rebase`
    uint8_t rebase                  # the byte to subtract from A' in the M block (see small_values.pyx)
    Place place                     # the place of the current tile's first row, if the tile skips padding


cdef inline int64_t groups_of(int64_t k) noexcept nogil:
    """Return the number of groups of k."""
    return ceil_div(k, I8_GROUP)


cdef inline ptrdiff_t packed_size(int64_t k) noexcept nogil:
    """Return the bytes from one panel of a packed B block to the next.

    Packing writes several panels at a time. If panels were a power of two apart, they would share sets of the cache.
    """
    return round_up(k, I8_GROUP) * I8_PANEL + ALIGNMENT


cdef inline ptrdiff_t padded_row(int64_t groups) noexcept nogil:
    """Return the bytes from one generated row of A' to the next: whole cache lines, and not a power of two."""
    return round_up(groups * I8_GROUP, ALIGNMENT) + ALIGNMENT


cdef inline ptrdiff_t wide_row(int64_t groups) noexcept nogil:
    """Return the elements from one widened row of A' to the next, not a power of two."""
    return groups * I8_GROUP + ALIGNMENT // <ptrdiff_t>sizeof(uint16_t)


cdef inline int64_t end_row(const Cursor *at) noexcept nogil:
    """Return the first row after the current tiles, counted from the first row of the M block."""
    return at.tile_row + at.along_m * at.height


cdef inline int64_t end_panel(const Cursor *at) noexcept nogil:
    """Return the first panel after the current tiles."""
    return at.tile_panel + at.along_n * at.width


cdef inline int64_t first_column(const LoopState *loop) noexcept nogil:
    """Return the column of C with which the current tiles begin."""
    return (loop.b.first + loop.at.tile_panel) * I8_PANEL


# The terms of zero points are added in one of two places: in the start values of the tiles, or as outer products in the
# epilogue. Start values contain the term if an operand has one zero point, unless the term would overflow s32.
cdef inline bint outer_ao(const Problem *g, const BlocksPlan *p) noexcept nogil:
    """Return whether the epilogue subtracts ao times the column sums."""
    return zero_by_row(g) or (p.common.wide and g.a.zero_point != 0)


cdef inline bint outer_bo(const Problem *g, const BlocksPlan *p) noexcept nogil:
    """Return whether the epilogue subtracts bo times the row terms."""
    cdef bint wraps = p.common.wide or g.source.dynamic is not NULL or has_scale_groups(g)
    return g.b.zero_points is not NULL or (wraps and g.b.zero_point != 0)


cdef inline bint has_col_init(const Problem *g, const BlocksPlan *p) noexcept nogil:
    """Return whether the call computes start values of the columns."""
    if has_scale_groups(g) or (g.known.col_init is not NULL and not p.common.from_registers):
        return False
    return (g.a.zero_point != 0 and not outer_ao(g, p)) or (p.common.from_registers and g.epilogue.co_cols is not NULL)


cdef inline bint has_row_init(const Problem *g, const BlocksPlan *p) noexcept nogil:
    """Return whether tiles have start values of their rows."""
    return (g.b.zero_point != 0 and not outer_bo(g, p)) or (p.common.from_registers and has_row_offset(g))


cdef inline bint has_row_terms(const Problem *g) noexcept nogil:
    """Return whether zero points of B need row terms: sums of the rows of A over all of K."""
    return has_zero(&g.b) and not has_scale_groups(g)
