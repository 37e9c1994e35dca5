"""The inner two loops of the loop nest for a packed B whose columns have a scale for each group of k.

    y = sum over the groups, one after the other, of f32(sums of the group) * (scale of the row * scale of the group)

The operations are in f32, and each is rounded once. The epilogue computes C from y. If the kernel table has a
micro-kernel for scale groups (TileForms.scaled_tiles), the micro-kernel computes all groups of one tile and keeps the
integer sums and y in registers. Without a micro-kernel for scale groups, the loops compute each group for several tiles
along M, and the integer sums and y stay in the L1 cache.
"""

from libc.stddef cimport ptrdiff_t
from libc.stdint cimport int8_t, int32_t, int64_t

from int8blas.core.kernels cimport (
    I8_DOT2, I8_GROUP, I8_PANEL, i8_output_args, i8_scale_group_args, i8_scale_groups, i8_tile_args)
from int8blas.core.split cimport ceil_div, equal_parts
from int8blas.gemm.nest cimport A_PACKED, Cursor, RowVectors, first_column, groups_of, padded_row
from int8blas.gemm.operand cimport address, zero_of
from int8blas.gemm.output cimport EPILOGUE_SUMS
from int8blas.gemm.pack_a cimport load_a, pack_rows, point_to_a
from int8blas.gemm.problem cimport Problem, is_generated, row_scales_from
from int8blas.gemm.small_values cimport choose_dot
from int8blas.gemm.tiles cimport start_tiles, store_rows


cdef void set_group_terms(const LoopState *loop) noexcept nogil:
    """Compute the row terms of each group, for zero points of B: the sums of A' - ao over the group. If zero points are
    out of the range of their types, compute the sums of A'."""
    cdef const Problem *g = loop.g
    cdef const RowVectors *v = &loop.arena.rows
    cdef const i8_scale_groups *s = g.epilogue.scale_groups
    cdef int64_t size = s.size, row = loop.at.row, i, group, total, zero
    for i in range(loop.at.rows):
        zero = 0 if g.known.far_zeros else zero_of(&g.a, row + i) if v.ao is NULL else v.ao[i]
        for group in range(g.k // size):
            if s.row_zeros is not NULL and not g.known.far_zeros:
                zero = s.row_zeros[group * s.row_step + row + i]
            if is_generated(g):
                g.kernels.packing.row_sums(&total, 1, size,
                                           loop.arena.a + i * padded_row(groups_of(g.k)) + group * size, 0,
                                           1, 0)
            else:
                g.kernels.packing.row_sums(&total, 1, size, address(&g.a, row + i, group * size), 0, g.a.column,
                                           g.a.sign_flip)
            v.group_terms[group * loop.at.rows + i] = <int32_t>(total - size * zero)


cdef void start_scaled(LoopState *loop, i8_scale_group_args *a) noexcept nogil:
    """Set the arguments that all micro-kernel and epilogue calls of a block share."""
    cdef const Problem *g = loop.g
    cdef i8_tile_args *t = &loop.tile
    cdef i8_output_args *o = &loop.pending.args
    start_tiles(loop)
    t.sequential = t.along_n = False
    t.ahead = NULL
    t.output = NULL
    t.a.tail = NULL
    t.acc_in = NULL
    t.dst = loop.arena.tile
    a.acc, a.y = loop.arena.tile, loop.arena.scaled
    a.ao, a.far_size = g.a.zero_point, g.epilogue.scale_groups.size if g.known.far_zeros else 0
    a.panel_step = g.k // g.epilogue.scale_groups.size * I8_PANEL
    o.acc32, o.acc64, o.acc_f32 = NULL, NULL, loop.arena.scaled
    o.ao = o.bo = o.col_sum = o.row_term = NULL
    o.row_scale = NULL


cdef void set_scales(const LoopState *loop, i8_scale_group_args *a) noexcept nogil:
    """Set the scales and zero points of the current tiles' rows and columns, in the first group."""
    cdef const Problem *g = loop.g
    cdef const i8_scale_groups *s = g.epilogue.scale_groups
    cdef const RowVectors *v = &loop.arena.rows
    cdef int64_t row = loop.at.tile_row, panel = loop.b.first + loop.at.tile_panel
    a.rows = <int>(loop.at.along_m * loop.at.height)
    a.panels = loop.at.width
    a.acc_row = a.y_row = loop.at.width * I8_PANEL
    a.ao_rows = v.ao + row if v.ao is not NULL else NULL
    a.bo = loop.b.bo + loop.at.tile_panel * I8_PANEL if loop.b.bo is not NULL else NULL
    a.row_scale = v.scale + row if v.scale is not NULL else NULL
    if g.epilogue.row_scales is not NULL:
        a.row_scale = row_scales_from(g, loop.at.row + row)
    a.scale = s.scales + panel * a.panel_step
    a.col_sum = NULL
    if v.ao is not NULL or g.a.zero_point != 0 or s.row_zeros is not NULL:
        a.col_sum = s.col_sums + panel * a.panel_step
    if s.row_scales is not NULL:
        a.row_scale = s.row_scales + loop.at.row + row
    if s.row_zeros is not NULL:
        a.ao_rows = s.row_zeros + loop.at.row + row
    if s.column_zeros is not NULL:
        a.bo = s.column_zeros + panel * I8_PANEL


cdef void add_groups(LoopState *loop, i8_scale_group_args *a) noexcept nogil:
    """Add all groups of the current tiles, one by one."""
    cdef const Problem *g = loop.g
    cdef const Cursor *at = &loop.at
    cdef i8_tile_args *t = &loop.tile
    cdef const i8_scale_groups *s = g.epilogue.scale_groups
    cdef int64_t size = s.size, group, i
    # Bytes from one group of k to the next in A.
    cdef ptrdiff_t a_step = size // I8_GROUP * t.a.group * (2 if loop.dot == I8_DOT2 else 1)
    cdef const int8_t *b = t.b.data
    cdef const int32_t *terms = loop.arena.rows.group_terms
    # Start with -0.0: adding it changes no number.
    for i in range(a.rows * t.cols):
        a.y[i] = <float>-0.0
    for group in range(g.k // size):
        t.b.data, t.b.panel = b, loop.b.panel_size
        if loop.dot == I8_DOT2:
            for i in range(at.width):
                g.kernels.packing.widen_b(loop.arena.b_wide + i * size * I8_PANEL, b + i * loop.b.panel_size,
                                          size // I8_GROUP)
            t.b.data, t.b.panel = <const int8_t *>loop.arena.b_wide, 2 * size * I8_PANEL
        g.kernels.gemm.tiles[loop.dot].of[at.height - 1][at.width - 1](t)
        a.row_term = terms + group * at.rows + at.tile_row if terms is not NULL else NULL
        g.kernels.stage.add_scale_group(a)
        t.a.data += a_step
        b += size * I8_PANEL
        a.scale += I8_PANEL
        if a.col_sum is not NULL:
            a.col_sum += I8_PANEL
        if s.row_scales is not NULL:
            a.row_scale += s.row_step
        if s.row_zeros is not NULL:
            a.ao_rows += s.row_step
        if s.column_zeros is not NULL:
            a.bo += s.column_step


cdef void multiply_scale_groups(LoopState *loop) noexcept nogil:
    """Compute the tiles of one block, whose K block is all of K."""
    cdef const Problem *g = loop.g
    cdef Cursor *at = &loop.at
    cdef i8_tile_args *t = &loop.tile
    cdef i8_output_args *o = &loop.pending.args
    cdef int64_t m_tiles = ceil_div(at.rows, loop.p.mr), n_tiles = ceil_div(at.panels, loop.p.np), i, j
    cdef i8_scale_group_args a
    start_scaled(loop, &a)
    if is_generated(g):  # packing also computes the terms of the scale groups
        pack_rows(loop)
        loop.a_forms |= A_PACKED
    if loop.arena.rows.group_terms is not NULL:
        set_group_terms(loop)
    for j in range(n_tiles):
        equal_parts(at.panels, j, n_tiles, &at.tile_panel, &at.width)
        at.tile_panel += at.panel
        loop.dot = choose_dot(loop, at.tile_panel, at.width, &loop.is_split)
        load_a(loop)
        t.groups = g.epilogue.scale_groups.size // I8_GROUP * (2 if loop.dot == I8_DOT2 else 1)
        t.dst_row = t.acc_row = t.cols = at.width * I8_PANEL
        o.cols, o.acc_row = <int>min(<int64_t>t.cols, g.n - first_column(loop)), t.dst_row
        i = 0
        while i < m_tiles:
            at.along_m = equal_parts(at.rows, i, m_tiles, &at.tile_row, &at.height)
            at.along_m = t.tiles = min(at.along_m, EPILOGUE_SUMS // (at.width * I8_PANEL) // at.height)
            i += at.along_m
            point_to_a(loop)
            set_scales(loop, &a)
            t.b.data, t.b.panel = loop.b.data + at.tile_panel * loop.b.panel_size, loop.b.panel_size
            if loop.p.forms.scaled_tiles:
                g.kernels.gemm.scaled_tiles.of[at.height - 1][at.width - 1](t, &a, g.k // g.epilogue.scale_groups.size)
            else:
                add_groups(loop, &a)
            o.rows, o.row, o.column = a.rows, at.row + at.tile_row, first_column(loop)
            store_rows(g, o)
