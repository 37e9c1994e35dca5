"""The general way: tiles of C from packed blocks of A and B.

    gemm_blocks     for each slab of panels of B (all of them if B is packed)
      prepare_panels    pack panels, their sums, certificates and start values      (in parallel over the panels,
                        or, where parts are columns, each by the part that it belongs to)
      multiply_part     one thread's tiles of C                                     (in parallel over the parts)
                          for each nc panels, each mc rows, each kc of K:
                            multiply_tiles, or multiply_by_matrix: for each np panels and mr rows the micro-kernel,
                              then the output stage; multiply_scale_groups: all of K in groups

Nothing here knows an instruction set: tile sizes, blocking and functions come from the kernel table.
"""

from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t
from libc.string cimport memcpy, memset

from int8blas.core.kernels cimport I8_MAX_TILE, I8_PANEL, i8_finish_streams
from int8blas.core.memory cimport ALIGNMENT, acquire, carve, release
from int8blas.core.split cimport (
    MAX_PIECES,
    Grid,
    Piece,
    ceil_div,
    has_own_columns,
    part_count,
    pieces_of,
    round_up,
    share,
)
from int8blas.core.threads cimport run_in_turn, run_parts
from int8blas.gemm.block cimport Area, Slab, Workspace, area_of, made_row
from int8blas.gemm.dynamic_source cimport source_parameters
from int8blas.gemm.matrix cimport matrix_a_bytes, matrix_b_bytes, multiply_by_matrix, unit_rows
from int8blas.gemm.operand cimport address, has_zero, zero_of
from int8blas.gemm.output cimport GATHERED
from int8blas.gemm.plan cimport Gemm, Plan, is_made, zero_by_row
from int8blas.gemm.scale_groups cimport multiply_scale_groups
from int8blas.gemm.small_values cimport CERTIFIED_SUM, find_range
from int8blas.gemm.squares cimport add_panel_squares
from int8blas.gemm.tiles cimport COLUMN_K, COLUMN_ROWS, multiply_tiles, wide_row

cdef enum:
    # Panels are prepared in steps of so many: four make whole cache lines of a C-ordered B.
    PREPARE_PANELS = 4
    # Panels of a packed B whose vectors one thread prepares before the others begin: sooner than they have waited for
    # one another.
    FEW_PANELS = 64


# A slab of panels, which the parts multiply; the memory is that of all of them.
cdef struct SlabJob:
    const Gemm *g
    const Plan *p
    Workspace w
    Slab slab
    char *memory


cdef bint has_ao(const Gemm *g) noexcept nogil:
    return g.a.zero != 0 or zero_by_row(g)


cdef bint has_bo(const Gemm *g) noexcept nogil:
    return has_zero(&g.b)


# Scalar zero points go into the start values of the tiles, except where these would wrap; the rest is left to the
# output stage as an outer product.
cdef bint outer_ao(const Gemm *g, const Plan *p) noexcept nogil:
    return zero_by_row(g) or (p.wide and g.a.zero != 0)


cdef bint outer_bo(const Gemm *g, const Plan *p) noexcept nogil:
    cdef bint wraps = p.wide or g.dynamic_source is not NULL or g.scale_groups is not NULL
    return g.b.zeros is not NULL or (wraps and g.b.zero != 0)


cdef bint has_col_init(const Gemm *g, const Plan *p) noexcept nogil:
    if g.scale_groups is not NULL or (g.col_init is not NULL and not p.from_registers):
        return False
    return (g.a.zero != 0 and not outer_ao(g, p)) or (p.from_registers and g.co_cols is not NULL)


cdef bint has_row_init(const Gemm *g, const Plan *p) noexcept nogil:
    return (g.b.zero != 0 and not outer_bo(g, p)) or (p.from_registers and (g.co != 0 or g.co_rows is not NULL))


cdef int64_t packed_size(int64_t k) noexcept nogil:
    """Bytes from one panel of a slab to the next: packing writes to several at a time, and they should not meet in the
    same sets of the cache, as they would at a distance that is a power of two."""
    return round_up(k, 4) * I8_PANEL + ALIGNMENT


cdef void lay_out(const Gemm *g, const Plan *p, Workspace *w, char *memory, int thread) noexcept nogil:
    """Set the pointers of `w` for one thread, and the sizes of its two parts."""
    cdef char *start = memory
    cdef size_t columns = p.slab * I8_PANEL
    cdef bint plain = g.packed is NULL
    w.data = <uint8_t *>carve(&memory, p.slab * packed_size(min(p.groups * 4, p.slab_blocks * p.kc)) if plain else 0)
    w.col_sums = <int64_t *>carve(&memory, 8 * columns if plain and (has_ao(g) or g.column_squares is not NULL) else 0)
    w.pair_sums = <uint16_t *>carve(&memory, sizeof(uint16_t) * p.slab if plain and p.may_widen else 0)
    w.col_init = <int32_t *>carve(&memory, 4 * columns if has_col_init(g, p) else 0)
    w.bo = <int64_t *>carve(&memory, 8 * columns if outer_bo(g, p) else 0)
    w.shared_size = memory - start

    cdef size_t mc = min(p.mc, g.m), kc = p.kc, widened = kc if g.scale_groups is NULL else g.scale_groups.size
    cdef size_t groups = 0 if g.scale_groups is NULL else g.k // g.scale_groups.size
    memory += w.thread_size * thread
    start = memory
    cdef bint by_matrix = p.matrix is not NULL
    w.a = <uint8_t *>carve(&memory, matrix_a_bytes(g, p) if by_matrix else 0 if p.direct_a else mc * made_row(kc // 4))
    w.made = <uint8_t *>carve(&memory, p.mr * made_row(kc // 4) if p.arranges and is_made(g) else 0)
    w.b_tail = <int8_t *>carve(&memory, matrix_b_bytes(g, p) if by_matrix else 0)
    w.a_wide = <uint16_t *>carve(&memory, sizeof(uint16_t) * mc * wide_row(kc // 4) if p.may_widen else 0)
    w.b_wide = <int16_t *>carve(&memory, sizeof(int16_t) * g.kernels.gemm.np * I8_PANEL * widened if p.may_widen else 0)
    w.a_columns = <uint8_t *>carve(&memory, round_up(mc, COLUMN_ROWS) * round_up(kc, COLUMN_K) if p.splits else 0)
    w.outlier_sums = <int32_t *>carve(&memory, 4 * mc * p.np * I8_PANEL if p.splits else 0)
    w.partial = carve(&memory, mc * p.nc * I8_PANEL * (8 if p.wide else 4) if p.k_blocks > 1 or p.wide else 0)
    w.tile = <int32_t *>carve(&memory, 4 * max(I8_MAX_TILE, GATHERED) if p.wide or not p.from_registers else 0)
    w.ao = <int64_t *>carve(&memory, 8 * mc if outer_ao(g, p) else 0)
    w.row_term = <int64_t *>carve(&memory, 8 * mc if has_bo(g) and groups == 0 else 0)
    w.row_init = <int32_t *>carve(&memory, 4 * mc if has_row_init(g, p) else 0)
    w.lowered_init = <int32_t *>carve(&memory, 4 * columns if p.may_widen and g.a.flip else 0)
    w.co_row = <int32_t *>carve(&memory, 4 * mc if not p.from_registers and g.co != 0 else 0)
    w.a_tail = <uint32_t *>carve(&memory, 4 * mc if p.direct_a and g.k % 4 else 0)
    w.row_scale = <float *>carve(&memory, 4 * mc if g.dynamic_source is not NULL else 0)
    w.zeros = <int64_t *>carve(&memory, 8 * mc if w.row_scale is not NULL else 0)
    w.scaled = <float *>carve(&memory, 4 * GATHERED if groups else 0)
    w.group_terms = <int32_t *>carve(&memory, 4 * mc * groups if has_bo(g) else 0)
    w.thread_size = memory - start


cdef void prepare_panels(const Gemm *g, const Plan *p, const Workspace *w, const Slab *s, int64_t first,
                         int64_t panels) noexcept nogil:
    """What the parts need of some panels of the slab beyond the user's own memory."""
    cdef int64_t column = (s.first + first) * I8_PANEL, columns = min(panels * I8_PANEL, g.n - column)
    cdef const int64_t *sums = s.col_sums + first * I8_PANEL
    cdef const int8_t *data = s.data + first * s.panel_size
    cdef int32_t *init
    cdef int64_t i
    if g.packed is NULL:
        g.kernels.packing.pack_panels(<uint8_t *>data, s.panel_size, columns, s.k,
                                      address(&g.b, s.k0, column), g.b.column, g.b.row, g.b.flip)
        if w.col_sums is not NULL:
            for i in range(panels):
                g.kernels.packing.panel_sums(<int64_t *>sums + i * I8_PANEL, data + i * s.panel_size, ceil_div(s.k, 4))
        if g.column_squares is not NULL:
            for i in range(panels):
                add_panel_squares(g, data + i * s.panel_size, s.k, sums + i * I8_PANEL, columns - i * I8_PANEL,
                                  s.k0 == 0, g.column_squares + column + i * I8_PANEL)
        if w.pair_sums is not NULL:
            for i in range(panels):
                w.pair_sums[first + i] = g.kernels.packing.panel_pair_sum(data + i * s.panel_size, ceil_div(s.k, 4),
                                                                          CERTIFIED_SUM)
    if w.bo is not NULL:
        # Zeros up to whole panels: output stages compute with all of their columns.
        for i in range(panels * I8_PANEL):
            w.bo[first * I8_PANEL + i] = 0 if i >= columns else zero_of(&g.b, column + i)
    if w.col_init is not NULL:
        init = w.col_init + first * I8_PANEL
        if g.a.zeros is not NULL or g.a.zero == 0:
            memset(init, 0, panels * I8_PANEL * sizeof(int32_t))
        else:
            g.kernels.packing.scale_sums(init, sums, panels * I8_PANEL, <int32_t>-g.a.zero)
        if p.from_registers and g.co_cols is not NULL and s.k0 == 0:
            for i in range(columns):
                init[i] = <int32_t>(<uint32_t>init[i] + <uint32_t>g.co_cols[column + i])


cdef void prepare_rows(const Gemm *g, const Plan *p, const Workspace *w, int64_t row, int64_t rows) noexcept nogil:
    """Row vectors of the block of A that begins at `row`."""
    cdef int64_t i
    cdef const int64_t *zeros
    cdef uint32_t init
    if w.row_term is not NULL and g.dynamic_source is NULL:
        if g.image is not NULL:
            memcpy(w.row_term, g.window_sums + row, rows * sizeof(int64_t))
        else:
            g.kernels.packing.row_sums(w.row_term, rows, g.k, address(&g.a, row, 0), g.a.row, g.a.column, g.a.flip)
            for i in range(rows):
                w.row_term[i] -= g.k * zero_of(&g.a, row + i)
    if w.row_scale is not NULL:
        source_parameters(g, row, rows, w.row_scale, w.zeros)
    if w.ao is not NULL:
        zeros = g.a.zeros + row if g.a.zeros is not NULL else w.zeros
        for i in range(rows):
            w.ao[i] = zeros[i] if zero_by_row(g) else g.a.zero
    if w.co_row is not NULL:
        for i in range(rows):
            w.co_row[i] = g.co
    if w.row_init is not NULL:
        for i in range(rows):
            init = 0
            if g.b.zero != 0 and w.row_term is not NULL and not outer_bo(g, p):
                init -= <uint32_t>g.b.zero * <uint32_t>w.row_term[i]
            if p.from_registers:
                init += <uint32_t>(g.co if g.co_rows is NULL else g.co_rows[row + i])
            w.row_init[i] = <int32_t>init


cdef void prepare_tail(const Gemm *g, const Workspace *w, int64_t row, int64_t rows) noexcept nogil:
    """The last, incomplete group of each row of A, padded with zeros."""
    cdef uint8_t *tail = <uint8_t *>w.a_tail
    cdef int64_t i, j, first = g.k - g.k % 4
    memset(tail, 0, 4 * rows)
    for i in range(rows):
        for j in range(g.k - first):
            tail[4 * i + j] = g.a.data[(row + i) * g.a.row + first + j]


cdef const int8_t *block_after(const Plan *p, const Slab *s, int64_t panel, int64_t next_panel, int64_t panel_end,
                               int64_t k_block, bint last_rows) noexcept nogil:
    """The B of the block that follows one in multiply_piece, if it is to be fetched meanwhile; else NULL."""
    k_block += 1
    if k_block == s.end_block:
        k_block = s.first_block
        if last_rows:
            panel = next_panel
    if not p.fetch_b or panel == panel_end:
        return NULL
    return s.data + panel * s.panel_size + (k_block * p.kc - s.k0) * I8_PANEL


cdef void lower_start(const Workspace *w, const Slab *s, int64_t panel, int64_t panels, int64_t by) noexcept nogil:
    """Start values of the columns of some panels, for rows of A' that are less by so much: so is their zero point."""
    cdef int64_t i
    cdef uint32_t init
    for i in range(panel * I8_PANEL, (panel + panels) * I8_PANEL):
        init = 0 if s.col_init is NULL else <uint32_t>s.col_init[i]
        w.lowered_init[i] = <int32_t>(init + <uint32_t>by * <uint32_t>s.col_sums[i])


cdef void multiply_piece(const Gemm *g, const Plan *p, const Workspace *w, const Slab *s,
                         const Piece *piece) noexcept nogil:
    """A rectangle of tiles of rows and of panels of the slab."""
    cdef int64_t row, row_end = min(piece.row_end * p.mr, g.m), rows, panels, k_block
    cdef int64_t panel = piece.column * p.grid_np, panel_end = min(piece.column_end * p.grid_np, s.panels)
    cdef const int8_t *ahead
    cdef Area m, found
    cdef bint later
    while panel < panel_end:
        panels = min(p.nc, panel_end - panel)
        later = panel > piece.column * p.grid_np
        row = piece.row * p.mr
        while row < row_end:
            rows = min(p.mc, row_end - row)
            # What is prepared for all rows at once is there for later panels too.
            if s.first_block == 0 and not (later and rows == row_end - piece.row * p.mr):
                prepare_rows(g, p, w, row, rows)
            if w.a_tail is not NULL:
                prepare_tail(g, w, row, rows)
            find_range(g, p, s, row, rows, panel, panels, &found)
            if found.lowered:
                lower_start(w, s, panel, panels, found.lowered)
            for k_block in range(s.first_block, s.end_block):
                m = area_of(g, p, row, rows, panel, panels, k_block)
                m.largest, m.lowered = found.largest, found.lowered
                if g.scale_groups is not NULL:
                    multiply_scale_groups(g, p, w, s, &m)
                elif p.matrix is NULL:
                    multiply_tiles(g, p, w, s, &m)
                else:
                    ahead = block_after(p, s, panel, panel + panels, panel_end, k_block, row + rows == row_end)
                    multiply_by_matrix(g, p, w, s, &m, p.keeps_a and later, ahead)
            row += rows
        panel += panels


cdef int prepare_part(const void *job, int64_t part, int64_t parts) noexcept nogil:
    """A part of the panels of a slab, prepared for all threads."""
    cdef const SlabJob *j = <const SlabJob *>job
    cdef int64_t steps = ceil_div(j.slab.panels, PREPARE_PANELS), first = share(steps, part, parts) * PREPARE_PANELS
    cdef int64_t end = min(share(steps, part + 1, parts) * PREPARE_PANELS, j.slab.panels)
    prepare_panels(j.g, j.p, &j.w, &j.slab, first, end - first)
    return 0


cdef int multiply_part(const void *job, int64_t part, int64_t _parts) noexcept nogil:
    """What one thread does of a slab, which includes the panels of columns that are its own."""
    cdef const SlabJob *j = <const SlabJob *>job
    cdef const Gemm *g = j.g
    cdef const Plan *p = j.p
    cdef const Slab *s = &j.slab
    cdef Workspace w = j.w
    cdef Grid grid = p.grid
    cdef Piece pieces[MAX_PIECES]
    cdef int64_t panel
    cdef int i
    lay_out(g, p, &w, j.memory, <int>part)
    grid.columns = ceil_div(s.panels, p.grid_np)
    if w.shared_size > 0 and has_own_columns(&p.grid):
        pieces_of(&grid, <int>part, pieces)
        panel = pieces[0].column * p.grid_np
        prepare_panels(g, p, &w, s, panel, min(pieces[0].column_end * p.grid_np, s.panels) - panel)
    if p.matrix is not NULL:
        p.matrix.enter(unit_rows(g))
    for i in range(pieces_of(&grid, <int>part, pieces)):
        multiply_piece(g, p, &w, s, &pieces[i])
    if p.matrix is not NULL:
        p.matrix.leave()
    if p.stream:
        i8_finish_streams()
    return 0


cdef size_t thread_bytes(const Gemm *g, const Plan *p) noexcept nogil:
    """Workspace of one thread, besides the panels of a plain B, which all share."""
    cdef Workspace w
    w.thread_size = 0
    lay_out(g, p, &w, <char *>ALIGNMENT, 0)
    return w.thread_size


cdef void set_slab(const Gemm *g, const Plan *p, const Workspace *w, Slab *s) noexcept nogil:
    """The panels and the blocks of a slab that begins with a panel and a block, and where what belongs to them is."""
    s.panels = min(p.slab, p.panels - s.first)
    s.end_block = min(s.first_block + p.slab_blocks, p.k_blocks)
    s.k0 = s.first_block * p.kc
    s.k = min(s.end_block * p.kc, g.k) - s.k0
    s.panel_size = packed_size(s.k) if g.packed is NULL else g.panel_size
    s.data = <int8_t *>w.data if g.packed is NULL else <int8_t *>g.packed
    s.col_sums = w.col_sums if g.packed is NULL else <int64_t *>g.col_sums
    s.certified = <uint8_t *>g.certified
    s.pair_sums = w.pair_sums if g.packed is NULL else <uint16_t *>g.pair_sums
    s.col_init = w.col_init
    if g.col_init is not NULL and not p.from_registers and not outer_ao(g, p):
        s.col_init = <int32_t *>g.col_init + s.first * I8_PANEL
    s.bo = w.bo


cdef int gemm_blocks(const Gemm *g, const Plan *p) noexcept nogil:
    """The problem in blocks, by the threads of the plan. 0, or -1 if there is no memory."""
    cdef SlabJob job
    cdef Workspace *w = &job.w
    cdef Slab *s = &job.slab
    cdef int parts = part_count(&p.grid)
    cdef bint shares            # panels are prepared by all threads before any multiplies
    job.g, job.p = g, p
    w.thread_size = 0
    lay_out(g, p, w, <char *>ALIGNMENT, 0)  # for the sizes
    job.memory = <char *>acquire(w.shared_size + parts * w.thread_size)
    if job.memory is NULL:
        return -1
    if g.tries_memory:
        release(job.memory)
        return 0
    lay_out(g, p, w, job.memory, 0)
    s.first = s.first_block = 0
    while s.first < p.panels:
        set_slab(g, p, w, s)
        shares = w.shared_size > 0 and not has_own_columns(&p.grid)
        if shares and g.packed is not NULL and s.panels <= FEW_PANELS:
            prepare_panels(g, p, w, s, 0, s.panels)
            shares = False
        if shares:
            run_in_turn(prepare_part, parts, multiply_part, parts, &job, parts)
        else:
            run_parts(multiply_part, &job, parts, parts)
        s.first_block = s.end_block
        if s.first_block == p.k_blocks:
            s.first_block = 0
            s.first += s.panels
    release(job.memory)
    return 0
