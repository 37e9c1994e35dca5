"""The inner two loops of the loop nest for a matrix unit (AMX).

The loops compute one row of tiles after another: the A of the row stays in the L1 cache, B comes from the L2 cache, and
C is stored along its lines. The unit is so fast that stores to C limit it.
"""

from libc.stddef cimport ptrdiff_t
from libc.stdint cimport int8_t, int64_t, uint8_t
from libc.string cimport memcpy, memset

from int8blas.core.kernels cimport I8_GROUP, I8_MATRIX_K, I8_MATRIX_ROWS, I8_MATRIX_TILE, I8_PANEL, i8_tile_args
from int8blas.core.memory cimport ALIGNMENT
from int8blas.core.split cimport ceil_div, round_up, share
from int8blas.gemm.nest cimport Cursor, groups_of, padded_row
from int8blas.gemm.operand cimport address
from int8blas.gemm.output cimport EPILOGUE_SUMS
from int8blas.gemm.pack_a cimport add_row_terms, generate_rows
from int8blas.gemm.problem cimport is_generated
from int8blas.gemm.tiles cimport choose_output, point_to_c, start_tiles, store_tile


cdef size_t tile_a_bytes(const Problem *g, const BlocksPlan *p) noexcept nogil:
    """Return the size of the part of A that one row of tiles reads, in whole registers."""
    return min(p.mr, round_up(g.m, I8_MATRIX_ROWS)) * padded_row(groups_of(p.kc))


cdef size_t matrix_a_bytes(const Problem *g, const BlocksPlan *p) noexcept nogil:
    """Return the size of packed A: all of A if it is kept for later N blocks, otherwise one row of tiles."""
    return tile_a_bytes(g, p) * (ceil_div(g.m, p.mr) * p.k_blocks if p.forms.keeps_a else 1)


cdef size_t matrix_b_bytes(const Problem *g, const BlocksPlan *p) noexcept nogil:
    """Return the bytes of the incomplete last steps of all panels of an N block, or 0 if the last step is complete."""
    return min(p.nc, p.panels) * I8_MATRIX_TILE if g.k % I8_MATRIX_K else 0


cdef int unit_rows(const Problem *g) noexcept nogil:
    """Return the rows that a register of the matrix unit has for this problem."""
    return <int>min(g.m, <int64_t>I8_MATRIX_ROWS)


cdef void copy_tails(const LoopState *loop, const int8_t *b) noexcept nogil:
    """Copy the last, incomplete step of each panel of the N block, padded with zeros."""
    cdef int64_t done = loop.at.k // I8_MATRIX_K * I8_MATRIX_TILE, i
    cdef size_t size = round_up(loop.at.k, I8_GROUP) * I8_PANEL - done
    cdef int8_t *tail = loop.arena.b_tail
    for i in range(loop.at.panels):
        memcpy(tail, b + i * loop.b.panel_size + done, size)
        memset(tail + size, 0, I8_MATRIX_TILE - size)
        tail += I8_MATRIX_TILE


cdef void load_matrix_a(LoopState *loop, bint exists) noexcept nogil:
    """Let the unit read the A of the current row of tiles: in place, or packed. `exists` says that this A has been
    packed before."""
    cdef const Problem *g = loop.g
    cdef const Cursor *at = &loop.at
    cdef i8_tile_args *t = &loop.tile
    cdef ptrdiff_t step = padded_row(groups_of(at.k))
    cdef int64_t row = at.row + at.tile_row, i
    cdef uint8_t *a = loop.arena.a
    t.rows = at.height
    if loop.p.forms.direct_a and t.rows % t.unit_rows == 0:
        t.a.data, t.a.row, t.a.group = g.a.data + row * g.a.row + at.k0, g.a.row, I8_MATRIX_K
        return
    if loop.p.forms.keeps_a:
        a += (row // loop.p.mr * loop.p.k_blocks + at.k_block) * tile_a_bytes(g, loop.p)
    if is_generated(g):
        t.a.data, t.a.row, t.a.group = a, step, I8_MATRIX_K
    else:
        t.a.data, t.a.row, t.a.group = a, I8_MATRIX_K, round_up(t.rows, I8_MATRIX_ROWS) * I8_MATRIX_K
    if exists:
        if g.source.dynamic is not NULL:
            add_row_terms(loop, a, at.tile_row, t.rows)
    elif not is_generated(g):
        loop.p.matrix.pack(a, t.rows, at.k, address(&g.a, row, at.k0), g.a.row, g.a.column, g.a.sign_flip)
    else:
        generate_rows(loop, a, at.tile_row, t.rows)
        if at.k % I8_MATRIX_K:
            for i in range(t.rows):
                memset(a + i * step + at.k, 0, I8_MATRIX_K - at.k % I8_MATRIX_K)


cdef const int8_t *next_block(const LoopState *loop, int64_t panel_end, bint is_last_m) noexcept nogil:
    """Return the address of the next block of B, which tiles prefetch, or NULL. N blocks end before `panel_end`."""
    cdef int64_t k_block = loop.at.k_block + 1, panel = loop.at.panel
    if k_block == loop.b.end_k_block:
        k_block = loop.b.first_k_block
        if is_last_m:
            panel += loop.at.panels
    if not loop.p.memory.fetch_b or panel == panel_end:
        return NULL
    return loop.b.data + panel * loop.b.panel_size + (k_block * loop.p.kc - loop.b.k0) * I8_PANEL


cdef void multiply_by_matrix(LoopState *loop, bint is_first_n, int64_t panel_end, bint is_last_m) noexcept nogil:
    """Compute the tiles of one block. If the first N block has packed all of A, do not pack A again. Each row of tiles
    prefetches a part of the next block's B into the L2 cache."""
    cdef Cursor *at = &loop.at
    cdef i8_tile_args *t = &loop.tile
    cdef int64_t m_tiles = ceil_div(at.rows, loop.p.mr), n_tiles = ceil_div(at.panels, loop.p.np), i, j, panel
    cdef int64_t tail = at.k % I8_MATRIX_K, steps = at.k // I8_MATRIX_K
    cdef const int8_t *b = loop.b.data + at.panel * loop.b.panel_size + (at.k0 - loop.b.k0) * I8_PANEL
    cdef const int8_t *ahead = next_block(loop, panel_end, is_last_m)
    start_tiles(loop)
    loop.pending.along_n, loop.pending.along_m = at.is_last, False
    loop.outlier_sums = NULL
    at.along_n = at.along_m = 1
    t.groups = steps * (I8_MATRIX_K // I8_GROUP)
    t.b.panel = loop.b.panel_size
    t.b.tail = NULL
    t.a.segment = t.b.segment = 0
    t.unit_rows = unit_rows(loop.g)
    t.ahead_step = round_up(ceil_div(I8_MATRIX_TILE, m_tiles), ALIGNMENT)
    if tail:
        copy_tails(loop, b)
    for i in range(m_tiles):
        at.tile_row = i * loop.p.mr
        at.height = <int>min(loop.p.mr, at.rows - at.tile_row)
        load_matrix_a(loop, loop.p.forms.keeps_a and not is_first_n)
        loop.pending.panel = at.panel
        loop.pending.row_size = EPILOGUE_SUMS // at.height // I8_PANEL * I8_PANEL
        for j in range(n_tiles):
            panel = share(at.panels, j, n_tiles)
            at.tile_panel = at.panel + panel
            at.width = <int>(share(at.panels, j + 1, n_tiles) - panel)
            t.b.data = b + panel * t.b.panel
            if ahead is not NULL and i * t.ahead_step < I8_MATRIX_TILE:
                t.ahead = <const char *>ahead + panel * t.b.panel + i * t.ahead_step * steps
            else:
                t.ahead = NULL
            if tail:
                t.b.tail = loop.arena.b_tail + panel * I8_MATRIX_TILE
            choose_output(loop)
            point_to_c(loop)
            loop.p.matrix.tile[(at.height - 1) // I8_MATRIX_ROWS][at.width - 1](t)
            store_tile(loop)
