"""Tiles of C from a block, by the micro-kernels for vector registers.

A is packed, or widened, when the first panels need it so.
"""

from libc.stddef cimport ptrdiff_t
from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t, uint16_t

from int8blas.core.kernels cimport (
    I8_DOT2,
    I8_DOT4_SAT,
    I8_DOT8,
    I8_DOT_ARRANGED,
    I8_DOT_SMALL,
    I8_SHORT_TILE,
    I8_GROUP,
    I8_PANEL,
    i8_outlier_args,
    i8_output_args,
    i8_tile_args,
    i8_tile_output,
)
from int8blas.core.split cimport ceil_div, equal_parts, leading_share, round_up
from int8blas.gemm.block cimport (
    Area,
    Slab,
    Workspace,
    double_sums,
    made_row,
    make_rows,
    set_output,
    set_vectors,
    store_rows,
)
from int8blas.gemm.operand cimport address
from int8blas.gemm.output cimport GATHERED, set_formula
from int8blas.gemm.plan cimport SPLIT_ROWS, Gemm, Plan, has_contiguous_rows, is_made
from int8blas.gemm.small_values cimport groups_of, small_dot, tile_of
from int8blas.gemm.spans cimport MAX_SPANS, Place, Span, move_on, multiply_spans, place_of, spans_of

cdef enum:
    # Tiles of an A by columns that are packed together: their rows are a cache line or less.
    PACKED_TILES = 8


# The columns of `together` tiles beside each other, `width` panels each: panels `panel` to `end` of the slab.
cdef struct Columns:
    int64_t panel, end, column, together
    int width
    Choice choice
    bint are_last                       # of the block
    int32_t *outlier_sums               # what their sums start with; or NULL

# The rows of some tiles below each other, of one height: `first` to `end` of the block.
cdef struct Rows:
    int64_t first, end
    int height
    bint to_output                      # the micro-kernel writes C itself, through the output stage

# Sums that wait for the output stage, from row `row` of the block and panel `panel` of the slab on. Where there is one
# tile of rows, it has several tiles of columns at a time (`gathers`, in rows of gathered_row). Otherwise it has several
# tiles of rows (`stacks`): what is set up for the columns of a tile serves more of them. Not where some go to C
# without it, as they lie in one line of C.
cdef struct Waiting:
    bint gathers, stacks
    int64_t gathered_row, row, panel
    i8_output_args o


cdef void pack_rows(const Gemm *g, const Plan *p, const Workspace *w, int64_t row, int64_t rows, int64_t k0,
                    int64_t k) noexcept nogil:
    """A block of A into micro-panels, one for each tile of rows, arranged if that is planned; or as rows, where it is
    in no memory and is not arranged."""
    cdef uint8_t arranged_flip = g.kernels.gemm.arranged_flip if p.arranges else 0, flip = g.a.flip ^ arranged_flip
    cdef int64_t tiles = ceil_div(rows, p.mr), i, first, groups = ceil_div(k, 4)
    cdef int height, some, t
    cdef int starts[PACKED_TILES + 1]
    if is_made(g) and not p.arranges:
        make_rows(g, w, w.a, row, 0, rows, k0, k)
        return
    if g.a.row == 1 and g.a.column != 1 and not is_made(g):
        i = 0
        while i < tiles:
            some = <int>min(<int64_t>PACKED_TILES, tiles - i)
            first = leading_share(rows, i, tiles)
            for t in range(some + 1):
                starts[t] = <int>(leading_share(rows, i + t, tiles) - first)
            g.kernels.packing.pack_tiles(w.a + first * groups * 4, starts, some, k, address(&g.a, row + first, k0),
                                         g.a.column, g.m - row - first, flip)
            i += some
    else:
        for i in range(tiles):
            first = leading_share(rows, i, tiles)
            height = <int>(leading_share(rows, i + 1, tiles) - first)
            if is_made(g):
                make_rows(g, w, w.made, row, first, height, k0, k)
                g.kernels.packing.pack_panel(w.a + first * groups * 4, height, height, k, w.made, made_row(groups), 1,
                                             arranged_flip)
            else:
                g.kernels.packing.pack_panel(w.a + first * groups * 4, height, height, k,
                                             address(&g.a, row + first, k0), g.a.row, g.a.column, flip)
    if p.arranges and g.kernels.gemm.arrange_a is not NULL:
        for i in range(tiles):
            first = leading_share(rows, i, tiles)
            height = <int>(leading_share(rows, i + 1, tiles) - first)
            g.kernels.gemm.arrange_a(w.a + first * groups * 4, height, groups)


cdef void widen_rows(const Gemm *g, const Plan *p, const Workspace *w, int64_t row, int64_t rows, int64_t k0,
                     int64_t k) noexcept nogil:
    """A block of A as s16, in rows: from where it lies, if it has contiguous rows, or from the packed block."""
    cdef int64_t tiles = ceil_div(rows, p.mr), groups = ceil_div(k, 4), i, first, height
    cdef ptrdiff_t dst_row = wide_row(groups)
    if is_made(g):
        g.kernels.packing.widen_a(w.a_wide, dst_row, w.a, made_row(groups), I8_GROUP, rows, groups * 4, 0)
    elif has_contiguous_rows(g):
        g.kernels.packing.widen_a(w.a_wide, dst_row, address(&g.a, row, k0), g.a.row, I8_GROUP, rows, k, g.a.flip)
    else:
        for i in range(tiles):
            first = leading_share(rows, i, tiles)
            height = leading_share(rows, i + 1, tiles) - first
            g.kernels.packing.widen_a(w.a_wide + first * dst_row, dst_row, w.a + first * groups * 4, 4, 4 * height,
                                      height, groups * 4, 0)


cdef void transpose_rows(const Gemm *g, const Workspace *w, int64_t row, int64_t rows, int64_t k0,
                         int64_t k) noexcept nogil:
    """A block of A by columns, from where it lies."""
    cdef int64_t columns = round_up(k, COLUMN_K)
    if is_made(g):
        g.kernels.gemm.columns_of(w.a_columns, columns, w.a, made_row(ceil_div(k, 4)), 1, rows, k, 0)
    else:
        g.kernels.gemm.columns_of(w.a_columns, columns, address(&g.a, row, k0), g.a.row, g.a.column, rows, k, g.a.flip)


cdef inline const int64_t *outlier_starts(const Gemm *g, const Plan *p, int64_t panel, int64_t k_block) noexcept nogil:
    return g.split.starts + (panel * p.k_blocks + k_block) * I8_PANEL


cdef inline bint has_outliers(const Gemm *g, const Plan *p, int64_t panel, int width) noexcept nogil:
    return outlier_starts(g, p, panel, 0)[0] != outlier_starts(g, p, panel + width, 0)[0]


cdef void multiply_outliers(const Gemm *g, const Plan *p, const Workspace *w, int64_t panel, int width, int64_t rows,
                            int64_t k_block, int32_t *sums) noexcept nogil:
    """The products of a block of A with the outliers of some panels."""
    cdef i8_outlier_args t
    cdef int x
    t.rows = rows
    t.a = w.a_columns
    t.a_columns = round_up(min(p.kc, g.k - k_block * p.kc), COLUMN_K)
    t.outliers = g.split.outliers
    t.add = k_block > 0 and not p.wide
    t.dst_row = width * I8_PANEL
    for x in range(width):
        t.dst = sums + x * I8_PANEL
        t.starts = outlier_starts(g, p, panel + x, k_block)
        g.kernels.gemm.multiply_outliers(&t)


cdef inline void add_tile(int64_t *total, const int32_t *tile, int size, bint first) noexcept nogil:
    cdef int i
    for i in range(size):
        total[i] = (0 if first else total[i]) + tile[i]


cdef bint are_split(const Gemm *g, const Plan *p, const Slab *s, int64_t panel, int width) noexcept nogil:
    """Whether all of some panels of the slab are."""
    cdef int x
    if not p.splits:
        return False
    for x in range(width):
        if not g.split.panels[s.first + panel + x]:
            return False
    return True


cdef Choice choose_dot(const Gemm *g, const Plan *p, const Slab *s, const Area *m, int64_t panel,
                       int width) noexcept nogil:
    """What `width` panels of the slab are multiplied by, for a block of rows."""
    cdef Choice c
    c.groups, c.is_split = 0, False
    c.dot = I8_DOT4_SAT if g.saturating else I8_DOT_ARRANGED if p.arranges else g.kernels.gemm.exact
    if not p.may_widen:
        return c
    c.groups = groups_of(g, p, s, m, panel, width)
    c.dot = p.uncertified if c.groups == 0 else small_dot(c.groups, g.m < SPLIT_ROWS)
    # Outliers are a second way through A, which is not lowered for them.
    if c.groups < 2 and m.lowered == 0 and are_split(g, p, s, panel, width):
        c.dot, c.is_split = I8_DOT8, True
    return c


cdef int64_t tiles_beside(const Gemm *g, const Plan *p, const Slab *s, const Area *m, const Columns *q,
                          int64_t most) noexcept nogil:
    """How many tiles from some columns on, of so many of equal width, lie whole in C beside each other and have the
    same dot, one that needs no B but their own."""
    cdef int64_t count = 1
    most = min(most, (g.n - q.column) // (q.width * I8_PANEL))
    if q.choice.dot in (I8_DOT2, I8_DOT8, I8_DOT_SMALL, I8_DOT_ARRANGED):
        return 1
    if not p.may_widen:
        return max(<int64_t>1, most)
    while count < most and choose_dot(g, p, s, m, q.panel + count * q.width, q.width).dot == q.choice.dot:
        count += 1
    return count


cdef void make_a(const Gemm *g, const Plan *p, const Workspace *w, int dot, const Area *m, Forms *made) noexcept nogil:
    """A block of A in the form that this dot takes, unless it has been made. Contiguous rows are widened from where
    they lie."""
    if not made.packed and not (dot == I8_DOT2 and has_contiguous_rows(g)):
        pack_rows(g, p, w, m.row, m.rows, m.k0, m.k)
        if m.lowered:
            g.kernels.packing.lower(w.a, m.rows * m.groups * I8_GROUP, m.lowered)
        made.packed = True
    if dot == I8_DOT2 and not made.wide:
        widen_rows(g, p, w, m.row, m.rows, m.k0, m.k)
        made.wide = True


cdef void set_a(const Gemm *g, const Plan *p, const Workspace *w, i8_tile_args *t, int dot, int64_t block,
                int64_t row, int height, int64_t k0, int64_t k) noexcept nogil:
    """A for tiles of `height` rows, the first of which is a row of a block of rows, from k0 on."""
    cdef int64_t groups = ceil_div(k, 4)
    t.a_group = 4
    if dot == I8_DOT2:
        t.a = <const uint8_t *>(w.a_wide + row * wide_row(groups))
        t.a_row = wide_row(groups) * <ptrdiff_t>sizeof(uint16_t)
    elif p.direct_a:
        t.a, t.a_row = address(&g.a, block + row, k0), g.a.row
        t.a_tail = w.a_tail + row if k % 4 else NULL
    elif is_made(g) and not p.arranges:
        t.a, t.a_row = w.a + row * made_row(groups), made_row(groups)
    else:
        t.a, t.a_row, t.a_group, t.a_tile = w.a + row * groups * 4, 4, 4 * height, 4 * height * groups
        return
    t.a_tile = height * t.a_row


cdef void set_waiting(const Gemm *g, const Plan *p, const Area *m, Waiting *z) noexcept nogil:
    """How the sums of this block wait for the output stage."""
    z.gathers = (
        g.stage is not NULL and m.is_last and m.row_tiles == 1 and not p.wide and not p.to_output and not p.skips
    )
    z.stacks = m.is_last and not (p.wide or z.gathers or p.from_registers or (p.to_output and g.c_line != 0))
    z.gathered_row = GATHERED // m.rows // I8_PANEL * I8_PANEL
    z.panel, z.row = m.panel, 0
    set_formula(g, &z.o)


cdef bint may_lie_beside(const Gemm *g, const Plan *p, const Area *m, const Waiting *z) noexcept nogil:
    """Whether a single tile of few rows, whose sums stay beside each other, is called for several columns of tiles."""
    return (
        m.row_tiles == 1 and m.rows <= I8_SHORT_TILE(g.kernels.gemm.np) and m.is_first and m.is_last and not p.wide
        and not p.skips and g.c_line == 0 and (p.from_registers or p.to_output or z.gathers)
    )


cdef void set_columns(const Gemm *g, const Plan *p, const Slab *s, const Area *m, const Waiting *z, bint lies_beside,
                      int64_t number, Columns *q) noexcept nogil:
    """The columns of tile `number`, and of those that are computed with it."""
    q.together = equal_parts(m.panels, number, m.column_tiles, &q.panel, &q.width)
    q.panel += m.panel
    q.column = (s.first + q.panel) * I8_PANEL
    q.choice = choose_dot(g, p, s, m, q.panel, q.width)
    q.together = tiles_beside(g, p, s, m, q, q.together) if lies_beside else 1
    if z.gathers:
        q.together = max(1, min(
            q.together, (z.gathered_row - (q.panel - z.panel) * I8_PANEL) // (q.width * I8_PANEL)))
    q.end = q.panel + q.together * q.width
    q.are_last = number + q.together == m.column_tiles


cdef void set_b(const Gemm *g, const Plan *p, const Workspace *w, const Slab *s, const Area *m, Columns *q, Forms *made,
                i8_tile_args *t) noexcept nogil:
    """B for tiles of these columns, A in the form that they need, and the products of their outliers."""
    cdef int x
    q.outlier_sums = NULL
    t.b = g.split.dense if q.choice.is_split else s.data
    t.b += q.panel * s.panel_size + (m.k0 - s.k0) * I8_PANEL
    t.b_panel = s.panel_size
    t.groups = m.k // I8_GROUP if p.direct_a else m.groups
    t.ahead = <const char *>t.b + q.width * t.b_panel if p.fetch_b and not q.are_last else NULL
    t.ahead_step = I8_GROUP * I8_PANEL
    t.a_tail = NULL
    t.small_groups = q.choice.groups
    make_a(g, p, w, q.choice.dot, m, made)
    if q.choice.dot == I8_DOT2:
        for x in range(q.width):
            g.kernels.packing.widen_b(w.b_wide + x * m.groups * 4 * I8_PANEL, t.b + x * t.b_panel, m.groups)
        t.b = <const int8_t *>w.b_wide
        t.b_panel = m.groups * 8 * I8_PANEL
        t.groups = 2 * m.groups
        t.ahead_step //= 2
        if q.width > 1:
            t.ahead = NULL  # panels are as far apart as those of the widened B
    elif q.choice.is_split and has_outliers(g, p, s.first + q.panel, q.width):
        if not made.columns:
            transpose_rows(g, w, m.row, m.rows, m.k0, m.k)
            made.columns = True
        # On top of the sums of the blocks of K so far.
        q.outlier_sums = w.outlier_sums
        if w.partial is not NULL and not p.wide:
            q.outlier_sums = <int32_t *>w.partial + (q.panel - m.panel) * m.rows * I8_PANEL
        multiply_outliers(g, p, w, s.first + q.panel, q.width, m.rows, m.k_block, q.outlier_sums)


cdef int64_t set_rows(const Gemm *g, const Plan *p, const Workspace *w, const Area *m, const Columns *q,
                      const Waiting *z, int64_t number, Rows *r, i8_tile_args *t) noexcept nogil:
    """The rows of tile `number` and of those below it that go the same way, as many as are returned."""
    cdef int64_t tiles = equal_parts(m.rows, number, m.row_tiles, &r.first, &r.height), room
    r.to_output = (
        m.is_last and p.to_output and q.column + q.width * I8_PANEL <= g.n
        and (g.c_line == 0 or (m.row + r.first) // g.c_line == (m.row + r.first + r.height - 1) // g.c_line)
    )
    if p.skips or p.wide or (r.to_output and g.c_line != 0):
        tiles = 1
    elif m.is_last and not (r.to_output or p.from_registers):
        room = GATHERED // (q.width * I8_PANEL) - (r.first - z.row)
        tiles = max(1, min(tiles, room // r.height)) if z.stacks else 1
    r.end = r.first + tiles * r.height
    t.beside = q.together > 1
    t.tiles = q.together if t.beside else tiles
    set_a(g, p, w, t, q.choice.dot, m.row, r.first, r.height, m.k0, m.k)
    return tiles


cdef inline int32_t *partial_sums(const Plan *p, const Workspace *w, const Area *m, const Columns *q,
                                  const Rows *r) noexcept nogil:
    """Where the sums of the blocks of K so far are, tile by tile; NULL where there is one block."""
    if w.partial is NULL:
        return NULL
    return <int32_t *>w.partial + (
        ((q.panel - m.panel) * m.rows + r.first * q.width) * I8_PANEL * (2 if p.wide else 1))


cdef inline void set_start(const Plan *p, const Workspace *w, const Slab *s, const Area *m, const Columns *q,
                           const Rows *r, const int32_t *partial, i8_tile_args *t) noexcept nogil:
    """What the sums of a tile start with."""
    t.acc_in = NULL if m.is_first or p.wide else partial
    if q.outlier_sums is not NULL:
        t.acc_in = q.outlier_sums + r.first * q.width * I8_PANEL
    if m.is_first:
        t.row_init = w.row_init + r.first if w.row_init is not NULL else NULL
    if m.k_block == s.first_block:
        if m.lowered:
            t.col_init = w.lowered_init + q.panel * I8_PANEL
        else:
            t.col_init = s.col_init + q.panel * I8_PANEL if s.col_init is not NULL else NULL
    t.acc_row = q.width * I8_PANEL


cdef inline void set_destination(const Gemm *g, const Plan *p, const Workspace *w, const Area *m, const Columns *q,
                                 const Rows *r, const Waiting *z, int32_t *partial, i8_tile_output *out,
                                 i8_tile_args *t) noexcept nogil:
    """Where the sums of a tile go: to C, by the micro-kernel itself, or to where they wait."""
    cdef int64_t row = m.row + r.first
    if m.is_last and p.fetch_c and g.c_line == 0:
        t.fetch = g.c + row * g.c_row + q.column * g.c_col
    t.dst_row = t.cols = q.width * I8_PANEL
    t.output = out if r.to_output else NULL
    if r.to_output:
        set_output(g, w, out, m.row, r.first, q.column)
        out.stream = p.stream
    if m.is_last and p.from_registers:
        t.dst = <int32_t *>(g.c + row * g.c_row) + q.column
        t.dst_row = g.c_row // <ptrdiff_t>sizeof(int32_t)
        t.cols = <int>min(<int64_t>t.cols, g.n - q.column)
    elif z.gathers:
        t.dst = w.tile + (q.panel - z.panel) * I8_PANEL
        t.dst_row = z.gathered_row
    elif m.is_last or p.wide:
        t.dst = w.tile + ((r.first - z.row) * q.width * I8_PANEL if z.stacks else 0)
    else:
        t.dst = partial


cdef inline bint is_full(const Plan *p, const Area *m, const Columns *q, const Rows *r, Waiting *z,
                         int64_t next_tile) noexcept nogil:
    """Whether what waits, with a tile more, is to be stored now: there is no more of it, or no room."""
    if not z.stacks:
        z.row = r.first
    elif next_tile < m.row_tiles and (r.end - z.row + p.mr) * q.width * I8_PANEL <= GATHERED:
        return False
    if not z.gathers:
        z.panel = q.panel
    elif not q.are_last and (q.end - z.panel + p.np) * I8_PANEL <= z.gathered_row:
        return False
    return m.is_last and not p.from_registers


cdef inline void store_waiting(const Gemm *g, const Plan *p, const Workspace *w, const Slab *s, const Area *m,
                               const Columns *q, const Rows *r, Waiting *z, const int32_t *partial,
                               ptrdiff_t acc_row) noexcept nogil:
    """All that waits goes through the output stage."""
    z.o.rows = <int>(r.end - z.row)
    z.o.cols = <int>min((q.end - z.panel) * I8_PANEL, g.n - (s.first + z.panel) * I8_PANEL)
    z.o.acc32 = NULL if p.wide else w.tile
    z.o.acc64 = <const int64_t *>partial if p.wide else NULL
    z.o.acc_row = acc_row
    set_vectors(g, w, s, &z.o, m.row, z.row, z.panel)
    if g.doubled:
        double_sums(&z.o)
    store_rows(g, &z.o)
    z.panel, z.row = q.end, r.end


cdef void multiply_column(const Gemm *g, const Plan *p, const Workspace *w, const Slab *s, const Area *m,
                          const Columns *q, Waiting *z, i8_tile_args *t) noexcept nogil:
    """The tiles of these columns, from the first row of the block to the last."""
    cdef Rows r
    cdef Span spans[MAX_SPANS]
    cdef Place at
    cdef i8_tile_output out
    cdef int64_t i = 0
    cdef int32_t *partial
    cdef int count
    if p.skips:
        at = place_of(g.image, m.row)
    z.row = 0
    while i < m.row_tiles:
        i += set_rows(g, p, w, m, q, z, i, &r, t)
        partial = partial_sums(p, w, m, q, &r)
        set_start(p, w, s, m, q, &r, partial, t)
        set_destination(g, p, w, m, q, &r, z, partial, &out, t)
        if p.skips:
            count = spans_of(g.image, &at, r.height, m.k0, m.k, spans)
            move_on(g.image, &at, r.height)
            t.a_segment = g.image.line * (2 if q.choice.dot == I8_DOT2 else 1)
            multiply_spans(g.kernels, t, spans, count, q.choice.dot, r.height, q.width, g.image.line)
        else:
            tile_of(g, q.choice.dot, r.height, q.width)(t)
        t.ahead = NULL
        if r.to_output:
            z.panel, z.row = q.end, r.end
            continue
        if p.wide:
            add_tile(<int64_t *>partial, w.tile, r.height * q.width * I8_PANEL, m.is_first)
        if is_full(p, m, q, &r, z, i):
            store_waiting(g, p, w, s, m, q, &r, z, partial, t.dst_row)


cdef void multiply_tiles(const Gemm *g, const Plan *p, const Workspace *w, const Slab *s,
                         const Area *m) noexcept nogil:
    """All tiles of one block."""
    cdef Waiting z
    cdef Columns q
    cdef Forms made
    cdef i8_tile_args t
    cdef bint lies_beside
    cdef int64_t j = 0
    set_waiting(g, p, m, &z)
    lies_beside = may_lie_beside(g, p, m, &z)
    made.packed, made.wide, made.columns = p.direct_a, False, False
    t.more_segments = 0
    t.in_turn = p.in_turn
    t.fetch = NULL
    t.fetch_row = g.c_row
    t.output = NULL
    t.row_init = t.col_init = t.acc_in = NULL
    while j < m.column_tiles:
        set_columns(g, p, s, m, &z, lies_beside, j, &q)
        j += q.together
        set_b(g, p, w, s, m, &q, &made, &t)
        multiply_column(g, p, w, s, m, &q, &z, &t)
