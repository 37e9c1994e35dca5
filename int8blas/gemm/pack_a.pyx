"""Make the A block: its row vectors, and the forms of A that multiply-adds read. A form is made when a tile first needs
it.

A tile reads A in place (TileForms.direct_a), packed, widened to s16 (I8_DOT2) or, for outliers, by columns. If A is the
matrix of an image's windows, or a dynamic source of real numbers, there is no 8-bit A in memory. For images and dynamic
sources, this module first writes rows of an 8-bit A: it gathers windows, or quantizes numbers.
"""

from libc.stddef cimport ptrdiff_t
from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t
from libc.string cimport memcpy, memset

from int8blas.core.kernels cimport I8_DOT2, I8_GROUP, i8_outlier_kernels, i8_tile_args
from int8blas.core.split cimport ceil_div, leading_share, round_up
from int8blas.gemm.dynamic_source cimport quantize_rows, source_parameters
from int8blas.gemm.nest cimport (
    A_BY_COLUMNS, A_PACKED, A_WIDENED, Cursor, RowVectors, groups_of, outer_bo, padded_row, wide_row)
from int8blas.gemm.operand cimport address
from int8blas.gemm.problem cimport (
    Problem, find_row_terms, has_contiguous_rows, has_row_offset, is_generated, row_offset, zero_by_row)

cdef enum:
    # The number of tiles that are packed together if A has contiguous columns. The rows of 8 tiles, at most 8 in a
    # tile, take at most a cache line of each column.
    PACKED_TILES = 8


cdef void start_rows(LoopState *loop) noexcept nogil:
    """Compute the row vectors of an M block."""
    cdef const Problem *g = loop.g
    cdef const RowVectors *v = &loop.arena.rows
    cdef int64_t row = loop.at.row, rows = loop.at.rows, i
    cdef const int64_t *zeros
    cdef int64_t bo = g.b.zero_point if v.row_term is not NULL and not outer_bo(g, loop.p) else 0
    if v.row_term is not NULL and g.source.dynamic is NULL:
        if g.source.image is not NULL:
            memcpy(v.row_term, g.known.window_sums + row, rows * sizeof(int64_t))
        else:
            find_row_terms(g, row, rows, v.row_term)
    if v.scale is not NULL:
        source_parameters(g, row, rows, v.scale, v.zero)
    if v.ao is not NULL:
        zeros = g.a.zero_points + row if g.a.zero_points is not NULL else v.zero
        for i in range(rows):
            v.ao[i] = zeros[i] if zero_by_row(g) else g.a.zero_point
    if v.row_init is not NULL:
        if bo != 0:
            g.kernels.packing.scale_sums(v.row_init, v.row_term, rows, <int32_t>-bo)
        else:
            memset(v.row_init, 0, rows * sizeof(int32_t))
        if loop.p.common.from_registers and has_row_offset(g):
            for i in range(rows):
                v.row_init[i] = <int32_t>(<uint32_t>v.row_init[i] + <uint32_t>row_offset(g, row + i))


cdef void copy_tail(const LoopState *loop) noexcept nogil:
    """Copy the last, incomplete group of each row of an A that is read in place, padded with zeros."""
    cdef const Problem *g = loop.g
    cdef uint32_t *tail = loop.arena.rows.a_tail
    cdef int count = <int>(g.k % I8_GROUP), j
    cdef int64_t rows = loop.at.rows, whole = rows, i
    cdef ptrdiff_t step = g.a.row
    cdef const uint8_t *a = address(&g.a, loop.at.row, g.k - count)
    if tail is NULL:
        return
    if g.k > I8_GROUP:
        # Read the dword that ends with the row.
        for i in range(rows):
            memcpy(&tail[i], a + i * step - (I8_GROUP - count), I8_GROUP)
            tail[i] >>= 8 * (I8_GROUP - count)
        return
    # Read the dword that begins with the row, if the next rows of A contain its end.
    if step < count or (g.m - loop.at.row - rows) * step + count < I8_GROUP:
        whole = max(<int64_t>0, rows - I8_GROUP)
    if step < count:
        whole = 0
    for i in range(whole):
        memcpy(&tail[i], a + i * step, I8_GROUP)
        tail[i] &= (<uint32_t>1 << 8 * count) - 1
    memset(tail + whole, 0, I8_GROUP * (rows - whole))
    for i in range(whole, rows):
        for j in range(count):
            (<uint8_t *>&tail[i])[j] = a[i * step + j]


cdef void generate_rows(const LoopState *loop, uint8_t *dst, int64_t row, int64_t rows) noexcept nogil:
    """Generate rows of A' in the K block, from a row of the M block on, by gathering windows of an image or quantizing
    real numbers."""
    cdef const Problem *g = loop.g
    cdef int64_t k0 = loop.at.k0, k = loop.at.k
    cdef ptrdiff_t step = padded_row(groups_of(k))
    if g.source.image is not NULL:
        g.kernels.packing.im2col(dst, step, g.source.image, loop.at.row + row, rows, k0, k, g.a.sign_flip)
    else:
        quantize_rows(g, dst, step, loop.at.row + row, rows, k0, k, loop.arena.rows.scale + row,
                      loop.arena.rows.zero + row)
        add_row_terms(loop, dst, row, rows)


cdef void add_row_terms(const LoopState *loop, const uint8_t *a, int64_t row, int64_t rows) noexcept nogil:
    """Add the K block to the row terms of generated rows, if zero points of B need row terms."""
    cdef const Problem *g = loop.g
    cdef int64_t *term = loop.arena.rows.row_term
    cdef int64_t total, i
    if term is NULL:
        return
    for i in range(rows):
        g.kernels.packing.row_sums(&total, 1, loop.at.k, a + i * padded_row(groups_of(loop.at.k)), 0, 1, 0)
        if loop.at.is_first:
            term[row + i] = -g.k * (loop.arena.rows.zero[row + i] if zero_by_row(g) else g.a.zero_point)
        term[row + i] += total


cdef void pack_columns(const LoopState *loop, uint8_t flip) noexcept nogil:
    """Pack several micro-panels together from an A whose columns are contiguous."""
    cdef const Problem *g = loop.g
    cdef const Cursor *at = &loop.at
    cdef int64_t tiles = ceil_div(at.rows, loop.p.mr), i = 0, first
    cdef int starts[PACKED_TILES + 1]
    cdef int some, t
    while i < tiles:
        some = <int>min(<int64_t>PACKED_TILES, tiles - i)
        first = leading_share(at.rows, i, tiles)
        for t in range(some + 1):
            starts[t] = <int>(leading_share(at.rows, i + t, tiles) - first)
        g.kernels.packing.pack_tiles(loop.arena.a + first * groups_of(at.k) * I8_GROUP, starts, some, at.k,
                                     address(&g.a, at.row + first, at.k0), g.a.column, g.m - at.row - first, flip)
        i += some


cdef void pack_rows(LoopState *loop) noexcept nogil:
    """Pack the A block: a micro-panel for each tile of rows, interleaved if the plan says so. A generated A that is not
    interleaved stays in rows."""
    cdef const Problem *g = loop.g
    cdef const Cursor *at = &loop.at
    cdef uint8_t interleaved_flip = g.kernels.gemm.interleaved.flip if loop.p.forms.interleaves else 0
    cdef int64_t tiles = ceil_div(at.rows, loop.p.mr), groups = groups_of(at.k), i, first
    cdef bint by_columns = g.a.row == 1 and g.a.column != 1 and not is_generated(g)
    cdef int height
    cdef uint8_t *panel
    if is_generated(g) and not loop.p.forms.interleaves:
        generate_rows(loop, loop.arena.a, 0, at.rows)
        return
    if by_columns:
        pack_columns(loop, g.a.sign_flip ^ interleaved_flip)
    for i in range(tiles):
        first = leading_share(at.rows, i, tiles)
        height = <int>(leading_share(at.rows, i + 1, tiles) - first)
        panel = loop.arena.a + first * groups * I8_GROUP
        if is_generated(g):
            generate_rows(loop, loop.arena.generated, first, height)
            g.kernels.packing.pack_panel(panel, height, height, at.k, loop.arena.generated, padded_row(groups), 1,
                                         interleaved_flip)
        elif not by_columns:
            g.kernels.packing.pack_panel(panel, height, height, at.k, address(&g.a, at.row + first, at.k0), g.a.row,
                                         g.a.column, g.a.sign_flip ^ interleaved_flip)
        if loop.p.forms.interleaves and g.kernels.gemm.interleaved.interleave is not NULL:
            g.kernels.gemm.interleaved.interleave(panel, height, groups)


cdef void widen_rows(const LoopState *loop) noexcept nogil:
    """Widen the A block to s16, in rows: from the caller's memory if its rows are contiguous, otherwise from the
    packed block."""
    cdef const Problem *g = loop.g
    cdef const Cursor *at = &loop.at
    cdef int64_t tiles = ceil_div(at.rows, loop.p.mr), groups = groups_of(at.k), i, first, height
    cdef ptrdiff_t dst_row = wide_row(groups)
    cdef uint16_t *dst = loop.arena.a_wide
    cdef const uint8_t *a = loop.arena.a
    if is_generated(g):
        g.kernels.packing.widen_a(dst, dst_row, a, padded_row(groups), I8_GROUP, at.rows, groups * I8_GROUP, 0)
    elif has_contiguous_rows(g):
        g.kernels.packing.widen_a(dst, dst_row, address(&g.a, at.row, at.k0), g.a.row, I8_GROUP, at.rows, at.k,
                                  g.a.sign_flip)
    else:
        for i in range(tiles):
            first = leading_share(at.rows, i, tiles)
            height = leading_share(at.rows, i + 1, tiles) - first
            g.kernels.packing.widen_a(dst + first * dst_row, dst_row, a + first * groups * I8_GROUP, I8_GROUP,
                                      I8_GROUP * height, height, groups * I8_GROUP, 0)


cdef void load_a(LoopState *loop) noexcept nogil:
    """Make the form of the A block that the current multiply-add takes, unless it exists."""
    cdef bint in_place = loop.dot == I8_DOT2 and has_contiguous_rows(loop.g)
    if not loop.a_forms & A_PACKED and not in_place:
        pack_rows(loop)
        if loop.rebase:
            loop.g.kernels.packing.rebase(loop.arena.a, loop.at.rows * groups_of(loop.at.k) * I8_GROUP, loop.rebase)
        loop.a_forms |= A_PACKED
    if loop.dot == I8_DOT2 and not loop.a_forms & A_WIDENED:
        widen_rows(loop)
        loop.a_forms |= A_WIDENED


cdef void load_columns(LoopState *loop) noexcept nogil:
    """Copy the A block by columns, for outliers, unless the copy exists."""
    cdef const Problem *g = loop.g
    cdef const i8_outlier_kernels *kernels = &g.kernels.gemm.outliers
    cdef const Cursor *at = &loop.at
    cdef int64_t columns = round_up(at.k, COLUMN_K)
    if loop.a_forms & A_BY_COLUMNS:
        return
    loop.a_forms |= A_BY_COLUMNS
    if is_generated(g):
        kernels.columns_of(loop.arena.a_columns, columns, loop.arena.a, padded_row(groups_of(at.k)), 1, at.rows, at.k,
                           0)
    else:
        kernels.columns_of(loop.arena.a_columns, columns, address(&g.a, at.row, at.k0), g.a.row, g.a.column, at.rows,
                           at.k, g.a.sign_flip)


cdef void point_to_a(LoopState *loop) noexcept nogil:
    """Let the micro-kernel read the A of the current tiles, in the form that load_a has made."""
    cdef const Cursor *at = &loop.at
    cdef i8_tile_args *t = &loop.tile
    cdef int64_t groups = groups_of(at.k), row = at.tile_row
    t.a.group = I8_GROUP
    if loop.dot == I8_DOT2:
        t.a.data = <const uint8_t *>(loop.arena.a_wide + row * wide_row(groups))
        t.a.row = wide_row(groups) * <ptrdiff_t>sizeof(uint16_t)
    elif loop.p.forms.direct_a:
        t.a.data, t.a.row = address(&loop.g.a, at.row + row, at.k0), loop.g.a.row
        t.a.tail = loop.arena.rows.a_tail + row if at.k % I8_GROUP else NULL
    elif is_generated(loop.g) and not loop.p.forms.interleaves:
        t.a.data, t.a.row = loop.arena.a + row * padded_row(groups), padded_row(groups)
    else:
        t.a.data, t.a.row = loop.arena.a + row * groups * I8_GROUP, I8_GROUP
        t.a.group, t.a.tile = I8_GROUP * at.height, I8_GROUP * at.height * groups
        return
    t.a.tile = at.height * t.a.row
