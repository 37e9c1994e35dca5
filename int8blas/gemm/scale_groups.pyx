"""Tiles of C from a packed B whose columns have a scale for each group of K.

    y = sum over the groups, one after the other, of f32(sums of the group) * (scale of the row * scale of the group)

in f32, each operation rounded once; the output stage makes C of y. All groups of some panels are taken by a tile of
rows after the other, with integers and y in registers, where there is a micro-kernel for that (Plan.scaled_tiles). Else
some tiles, one below the other, are multiplied and added group by group: their integers and y stay in the L1 cache.
"""

from libc.stddef cimport ptrdiff_t
from libc.stdint cimport int8_t, int32_t, int64_t

from int8blas.core.kernels cimport I8_DOT2, I8_GROUP, I8_PANEL, i8_output_args, i8_scale_group_args, i8_tile_args
from int8blas.core.split cimport equal_parts
from int8blas.gemm.block cimport Area, Slab, Workspace, made_row, store_rows
from int8blas.gemm.operand cimport address, zero_of
from int8blas.gemm.output cimport GATHERED, set_formula
from int8blas.gemm.plan cimport Gemm, Plan, is_made
from int8blas.gemm.tiles cimport Forms, choose_dot, make_a, pack_rows, set_a


cdef void set_group_terms(const Gemm *g, const Workspace *w, int64_t row, int64_t rows) noexcept nogil:
    """For zero points of B: the sums over each group of A' less its zero point, of some rows of it."""
    cdef int64_t size = g.scale_groups.size, groups = g.k // size, i, group, total, zero
    for i in range(rows):
        zero = zero_of(&g.a, row + i) if w.ao is NULL else w.ao[i]
        for group in range(groups):
            if is_made(g):
                g.kernels.packing.row_sums(&total, 1, size, w.a + i * made_row(g.k // I8_GROUP) + group * size, 0, 1, 0)
            else:
                g.kernels.packing.row_sums(&total, 1, size, address(&g.a, row + i, group * size), 0, g.a.column,
                                           g.a.flip)
            w.group_terms[group * rows + i] = <int32_t>(total - size * zero)


cdef void add_groups(const Gemm *g, const Workspace *w, const Slab *s, i8_tile_args *t, i8_scale_group_args *a, int dot,
                     int64_t row, int64_t rows, int height, int width) noexcept nogil:
    """All groups of some tiles, which begin at a row of a block of `rows` rows, one by one."""
    cdef int64_t size = g.scale_groups.size, group, x
    # From one group to the next.
    cdef ptrdiff_t a_step = size // I8_GROUP * t.a_group * (2 if dot == I8_DOT2 else 1)
    cdef const int8_t *b = t.b
    # -0.0 is what leaves every number as it is when it is added.
    for x in range(a.rows * t.cols):
        a.y[x] = <float>-0.0
    for group in range(g.k // size):
        t.b, t.b_panel = b, s.panel_size
        if dot == I8_DOT2:
            for x in range(width):
                g.kernels.packing.widen_b(w.b_wide + x * size * I8_PANEL, b + x * s.panel_size, size // I8_GROUP)
            t.b, t.b_panel = <const int8_t *>w.b_wide, 2 * size * I8_PANEL
        g.kernels.gemm.tiles[dot].of[height - 1][width - 1](t)
        a.row_term = w.group_terms + group * rows + row if w.group_terms is not NULL else NULL
        g.kernels.stage.add_scale_group(a)
        t.a += a_step
        b += size * I8_PANEL
        a.scale += I8_PANEL
        if a.col_sum is not NULL:
            a.col_sum += I8_PANEL


cdef void multiply_scale_groups(const Gemm *g, const Plan *p, const Workspace *w, const Slab *s,
                                const Area *m) noexcept nogil:
    """A block, of all of K, with panels of a packed B."""
    cdef int64_t i, j, r, c, column
    cdef int height, width, dot
    cdef Forms made
    cdef i8_tile_args t
    cdef i8_scale_group_args a
    cdef i8_output_args o

    made.packed, made.wide, made.columns = p.direct_a, False, False
    if is_made(g):  # also for the terms of its groups
        pack_rows(g, p, w, m.row, m.rows, 0, g.k)
        made.packed = True
    if w.group_terms is not NULL:
        set_group_terms(g, w, m.row, m.rows)
    t.more_segments = 0
    t.in_turn = t.beside = False
    t.fetch = t.ahead = NULL
    t.output = NULL
    t.a_tail = NULL
    t.row_init = t.col_init = t.acc_in = NULL
    t.dst = w.tile
    a.acc, a.y = w.tile, w.scaled
    a.ao = g.a.zero
    a.panel_step = g.k // g.scale_groups.size * I8_PANEL
    set_formula(g, &o)
    o.acc32, o.acc64, o.acc_f32 = NULL, NULL, w.scaled
    o.ao = o.bo = o.col_sum = o.row_term = NULL
    o.co_row = o.co_col = NULL
    o.row_scale = NULL

    for j in range(m.column_tiles):
        equal_parts(m.panels, j, m.column_tiles, &c, &width)
        c += m.panel
        column = (s.first + c) * I8_PANEL
        dot = choose_dot(g, p, s, m, c, width).dot
        make_a(g, p, w, dot, m, &made)
        t.groups = g.scale_groups.size // I8_GROUP * (2 if dot == I8_DOT2 else 1)
        t.dst_row = t.acc_row = t.cols = width * I8_PANEL
        a.panels, a.acc_row, a.y_row = width, t.dst_row, t.dst_row
        a.bo = s.bo + c * I8_PANEL if s.bo is not NULL else NULL
        o.cols = <int>min(<int64_t>t.cols, g.n - column)
        o.acc_row = t.dst_row
        i = 0
        while i < m.row_tiles:
            t.tiles = equal_parts(m.rows, i, m.row_tiles, &r, &height)
            t.tiles = min(t.tiles, GATHERED // (width * I8_PANEL) // height)
            i += t.tiles
            set_a(g, p, w, &t, dot, m.row, r, height, 0, g.k)
            a.rows = <int>(t.tiles * height)
            a.ao_rows = w.ao + r if w.ao is not NULL else NULL
            a.row_scale = w.row_scale + r if w.row_scale is not NULL else NULL
            if g.row_scales is not NULL:
                a.row_scale = g.row_scales + m.row + r
            a.scale = g.scale_groups.scales + (s.first + c) * a.panel_step
            a.col_sum = NULL
            if g.scale_groups.col_sums is not NULL:
                a.col_sum = g.scale_groups.col_sums + (s.first + c) * a.panel_step
            t.b, t.b_panel = s.data + c * s.panel_size, s.panel_size
            if p.scaled_tiles:
                g.kernels.gemm.scaled_tiles.of[height - 1][width - 1](&t, &a, g.k // g.scale_groups.size)
            else:
                add_groups(g, w, s, &t, &a, dot, r, m.rows, height, width)
            o.rows, o.row, o.column = a.rows, m.row + r, column
            store_rows(g, &o)
