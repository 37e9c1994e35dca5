"""Tiles of C from a block, by a matrix unit.

A row of tiles at a time, so that its A stays in the L1 cache and lines of C are written one behind the other, while B
comes from the L2 cache. Such a unit is so fast that what it waits for is C.
"""

from libc.stddef cimport ptrdiff_t
from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t
from libc.string cimport memcpy, memset

from int8blas.core.kernels cimport (
    I8_GROUP,
    I8_MATRIX_K,
    I8_MATRIX_ROWS,
    I8_MATRIX_TILE,
    I8_PANEL,
    i8_output_args,
    i8_tile_args,
    i8_tile_output,
)
from int8blas.core.memory cimport ALIGNMENT
from int8blas.core.split cimport ceil_div, round_up, share
from int8blas.gemm.block cimport (
    Area,
    Slab,
    Workspace,
    add_row_terms,
    made_row,
    make_rows,
    set_output,
    set_vectors,
    store_rows,
)
from int8blas.gemm.operand cimport address
from int8blas.gemm.output cimport GATHERED, set_formula
from int8blas.gemm.plan cimport Gemm, Plan, is_made


cdef size_t tile_a_bytes(const Gemm *g, const Plan *p) noexcept nogil:
    return min(p.mr, round_up(g.m, I8_MATRIX_ROWS)) * made_row(ceil_div(p.kc, I8_GROUP))


cdef size_t matrix_a_bytes(const Gemm *g, const Plan *p) noexcept nogil:
    """Memory for the A of a row of tiles, whole registers of which are read, or for that of all."""
    return tile_a_bytes(g, p) * (ceil_div(g.m, p.mr) * p.k_blocks if p.keeps_a else 1)


cdef size_t matrix_b_bytes(const Gemm *g, const Plan *p) noexcept nogil:
    """Memory for the last, incomplete steps of the panels of a block."""
    return min(p.nc, p.panels) * I8_MATRIX_TILE if g.k % I8_MATRIX_K else 0


cdef int unit_rows(const Gemm *g) noexcept nogil:
    """Rows that a register of the matrix unit has for this problem."""
    return <int>min(g.m, <int64_t>I8_MATRIX_ROWS)


cdef void make_tails(const Workspace *w, const int8_t *b, ptrdiff_t b_panel, int64_t panels, int64_t k) noexcept nogil:
    """The last, incomplete steps of some panels, padded with zeros."""
    cdef int64_t done = k // I8_MATRIX_K * I8_MATRIX_TILE, i
    cdef size_t size = round_up(k, I8_GROUP) * I8_PANEL - done
    for i in range(panels):
        memcpy(w.b_tail + i * I8_MATRIX_TILE, b + i * b_panel + done, size)
        memset(w.b_tail + i * I8_MATRIX_TILE + size, 0, I8_MATRIX_TILE - size)


cdef void make_a(const Gemm *g, const Plan *p, const Workspace *w, i8_tile_args *t, int64_t block, int64_t row,
                 int64_t k_block, int64_t k, bint is_there) noexcept nogil:
    """The A of a row of tiles, t.rows rows of it from one of a block on, and how it lies; made unless it `is_there`."""
    cdef ptrdiff_t step = made_row(ceil_div(k, I8_GROUP))
    cdef int64_t k0 = k_block * p.kc
    cdef uint8_t *a = w.a
    cdef int i
    if p.direct_a and t.rows % t.unit_rows == 0:
        t.a = g.a.data + (block + row) * g.a.row + k0
        t.a_row = g.a.row
        t.a_group = I8_MATRIX_K
        return
    if p.keeps_a:
        a += ((block + row) // p.mr * p.k_blocks + k_block) * tile_a_bytes(g, p)
    t.a = a
    if is_made(g):
        t.a_row = step
        t.a_group = I8_MATRIX_K
    else:
        t.a_row = I8_MATRIX_K
        t.a_group = round_up(t.rows, I8_MATRIX_ROWS) * I8_MATRIX_K
    if is_there:
        if g.dynamic_source is not NULL:
            add_row_terms(g, w, a, row, t.rows, k0, k)
        return
    if not is_made(g):
        p.matrix.pack(a, t.rows, k, address(&g.a, block + row, k0), g.a.row, g.a.column, g.a.flip)
        return
    make_rows(g, w, a, block, row, t.rows, k0, k)
    if k % I8_MATRIX_K:
        for i in range(t.rows):
            memset(a + i * step + k, 0, I8_MATRIX_K - k % I8_MATRIX_K)


cdef void multiply_by_matrix(const Gemm *g, const Plan *p, const Workspace *w, const Slab *s, const Area *m,
                             bint is_there, const int8_t *ahead) noexcept nogil:
    """All tiles of one block, the rows of whose A may be there already. Meanwhile the next block's B comes into the L2
    cache, if `ahead` is not NULL: each row of tiles fetches a part of it."""
    cdef int64_t i, j, r, c, column, first, gathered_row, k = m.k
    cdef const int8_t *b = s.data + m.panel * s.panel_size + (m.k0 - s.k0) * I8_PANEL
    cdef int32_t *partial
    cdef int width
    cdef i8_tile_args t
    cdef i8_output_args o
    cdef i8_tile_output out

    set_formula(g, &o)
    o.acc64 = NULL
    t.groups = k // I8_MATRIX_K * (I8_MATRIX_K // I8_GROUP)
    t.b_panel = s.panel_size
    t.b_tail = NULL
    t.more_segments = t.a_segment = t.b_segment = 0
    t.row_init = t.col_init = t.acc_in = NULL
    t.unit_rows = unit_rows(g)
    t.ahead_step = round_up(ceil_div(I8_MATRIX_TILE, m.row_tiles), ALIGNMENT)
    if k % I8_MATRIX_K:
        make_tails(w, b, s.panel_size, m.panels, k)

    for i in range(m.row_tiles):
        r = i * p.mr
        t.rows = <int>min(p.mr, m.rows - r)
        make_a(g, p, w, &t, m.row, r, m.k_block, k, is_there)
        # The output stage has several tiles at a time, from panel `first` on.
        first = m.panel
        gathered_row = GATHERED // t.rows // I8_PANEL * I8_PANEL
        for j in range(m.column_tiles):
            c = m.panel + share(m.panels, j, m.column_tiles)
            width = <int>(m.panel + share(m.panels, j + 1, m.column_tiles) - c)
            column = (s.first + c) * I8_PANEL
            t.b = b + (c - m.panel) * s.panel_size
            t.ahead = NULL
            if ahead is not NULL and i * t.ahead_step < I8_MATRIX_TILE:
                t.ahead = <const char *>ahead + (c - m.panel) * s.panel_size + i * t.ahead_step * (k // I8_MATRIX_K)
            if k % I8_MATRIX_K:
                t.b_tail = w.b_tail + (c - m.panel) * I8_MATRIX_TILE
            # Sums of the blocks of K so far lie in `partial`, tile by tile.
            partial = <int32_t *>w.partial
            if partial is not NULL:
                partial += ((c - m.panel) * m.rows + r * width) * I8_PANEL
            t.acc_in = NULL if m.is_first else partial
            t.dst_row = t.acc_row = t.cols = width * I8_PANEL
            if m.is_first and w.row_init is not NULL:
                t.row_init = w.row_init + r
            if m.k_block == s.first_block and s.col_init is not NULL:
                t.col_init = s.col_init + c * I8_PANEL
            t.output = NULL
            t.dst = partial
            if m.is_last:
                if p.to_output and column + t.cols <= g.n and (
                    g.c_line == 0 or (m.row + r) // g.c_line == (m.row + r + t.rows - 1) // g.c_line
                ):
                    set_output(g, w, &out, m.row, r, column)
                    out.stream = p.stream
                    t.output = &out
                    first = c + width
                elif p.from_registers:
                    t.dst = <int32_t *>(g.c + (m.row + r) * g.c_row) + column
                    t.dst_row = g.c_row // <ptrdiff_t>sizeof(int32_t)
                    t.cols = <int>min(<int64_t>t.cols, g.n - column)
                else:
                    t.dst = w.tile + (c - first) * I8_PANEL
                    t.dst_row = gathered_row
            p.matrix.tile[(t.rows - 1) // I8_MATRIX_ROWS][width - 1](&t)
            if not m.is_last or p.from_registers or t.output is not NULL:
                continue
            if j + 1 < m.column_tiles and (c + width - first + p.np) * I8_PANEL <= gathered_row:
                continue
            o.rows = t.rows
            o.cols = <int>min((c + width - first) * I8_PANEL, g.n - (s.first + first) * I8_PANEL)
            o.acc32 = w.tile
            o.acc_row = gathered_row
            set_vectors(g, w, s, &o, m.row, r, first)
            store_rows(g, &o)
            first = c + width
