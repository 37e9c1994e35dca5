"""Tiles of C from a block, by the micro-kernels for vector registers.

A is packed, or widened, when the first panels need it so.
"""

from libc.stddef cimport ptrdiff_t
from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t, uint16_t

from int8blas.core.kernels cimport (
    I8_DOT2,
    I8_DOT4_SAT,
    I8_DOT8,
    I8_FEW_ROWS,
    I8_GROUP,
    I8_PANEL,
    i8_outlier_args,
    i8_output_args,
    i8_tile_args,
    i8_tile_output,
)
from int8blas.core.split cimport ceil_div, equal_parts, leading_share, round_up
from int8blas.gemm.block cimport Slab, Workspace, double_sums, made_row, make_rows, set_output, set_vectors, store_rows
from int8blas.gemm.output cimport GATHERED, set_formula
from int8blas.gemm.plan cimport Gemm, Plan, has_contiguous_rows, is_made
from int8blas.gemm.spans cimport MAX_SPANS, Place, Span, move_on, multiply_spans, place_of, spans_of

cdef enum:
    # Tiles of an A by columns that are packed together: their rows are a cache line or less.
    PACKED_TILES = 8


cdef void pack_rows(const Gemm *g, const Plan *p, const Workspace *w, int64_t row, int64_t rows, int64_t k0,
                    int64_t k) noexcept nogil:
    """A block of A into micro-panels, one for each tile of rows; or as rows, where it is in no memory."""
    cdef int64_t tiles = ceil_div(rows, p.mr), i, first, groups = ceil_div(k, 4)
    cdef int height, some, t
    cdef int starts[PACKED_TILES + 1]
    if is_made(g):
        make_rows(g, w, w.a, row, 0, rows, k0, k)
        return
    if g.a_row == 1 and g.a_col != 1:
        i = 0
        while i < tiles:
            some = <int>min(<int64_t>PACKED_TILES, tiles - i)
            first = leading_share(rows, i, tiles)
            for t in range(some + 1):
                starts[t] = <int>(leading_share(rows, i + t, tiles) - first)
            g.kernels.packing.pack_tiles(w.a + first * groups * 4, starts, some, k, g.a + row + first + k0 * g.a_col,
                                         g.a_col, g.m - row - first, g.a_flip)
            i += some
        return
    for i in range(tiles):
        first = leading_share(rows, i, tiles)
        height = <int>(leading_share(rows, i + 1, tiles) - first)
        g.kernels.packing.pack_panel(w.a + first * groups * 4, height, height, k,
                                     g.a + (row + first) * g.a_row + k0 * g.a_col, g.a_row, g.a_col, g.a_flip)


cdef void widen_rows(const Gemm *g, const Plan *p, const Workspace *w, int64_t row, int64_t rows, int64_t k0,
                     int64_t k) noexcept nogil:
    """A block of A as s16, in rows: from where it lies, if it has contiguous rows, or from the packed block."""
    cdef int64_t tiles = ceil_div(rows, p.mr), groups = ceil_div(k, 4), i, first, height
    cdef ptrdiff_t dst_row = wide_row(groups)
    if is_made(g):
        g.kernels.packing.widen_a(w.a_wide, dst_row, w.a, made_row(groups), I8_GROUP, rows, groups * 4, 0)
    elif has_contiguous_rows(g):
        g.kernels.packing.widen_a(w.a_wide, dst_row, g.a + row * g.a_row + k0, g.a_row, I8_GROUP, rows, k, g.a_flip)
    else:
        for i in range(tiles):
            first = leading_share(rows, i, tiles)
            height = leading_share(rows, i + 1, tiles) - first
            g.kernels.packing.widen_a(w.a_wide + first * dst_row, dst_row, w.a + first * groups * 4, 4, 4 * height,
                                      height, groups * 4, 0)


cdef void turn_rows(const Gemm *g, const Workspace *w, int64_t row, int64_t rows, int64_t k0, int64_t k) noexcept nogil:
    """A block of A by columns, from where it lies."""
    cdef int64_t columns = round_up(k, COLUMN_K)
    if is_made(g):
        g.kernels.gemm.columns_of(w.a_columns, columns, w.a, made_row(ceil_div(k, 4)), 1, rows, k, 0)
    else:
        g.kernels.gemm.columns_of(w.a_columns, columns, g.a + row * g.a_row + k0 * g.a_col, g.a_row, g.a_col, rows, k,
                                  g.a_flip)


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


cdef int dot_of(const Gemm *g, const Plan *p, const Slab *s, int64_t panel, int width) noexcept nogil:
    """The dot for `width` panels of the slab."""
    cdef int dot = I8_DOT4_SAT if g.saturating or p.may_widen else g.kernels.gemm.exact, x
    if p.may_widen:
        for x in range(width):
            if not s.certified[panel + x]:
                dot = p.uncertified
    if p.splits:
        for x in range(width):
            if not g.split.panels[s.first + panel + x]:
                return dot
        return I8_DOT8
    return dot


cdef int64_t tiles_beside(const Gemm *g, const Plan *p, const Slab *s, int64_t panel, int width, int64_t most,
                          int dot) noexcept nogil:
    """How many tiles from a panel on, of so many of equal width, lie whole in C beside each other and have the same
    dot, one that needs no B but their own."""
    cdef int64_t count = 1
    most = min(most, (g.n - (s.first + panel) * I8_PANEL) // (width * I8_PANEL))
    if dot == I8_DOT2 or dot == I8_DOT8:
        return 1
    if not p.may_widen:
        return max(<int64_t>1, most)
    while count < most and dot_of(g, p, s, panel + count * width, width) == dot:
        count += 1
    return count


cdef inline void set_a(const Gemm *g, const Plan *p, const Workspace *w, i8_tile_args *t, int dot, int64_t block,
                       int64_t row, int height, int64_t k0, int64_t k) noexcept nogil:
    """A for tiles of `height` rows, the first of which is a row of a block of rows, from k0 on."""
    cdef int64_t groups = ceil_div(k, 4)
    t.a_group = 4
    if dot == I8_DOT2:
        t.a = <const uint8_t *>(w.a_wide + row * wide_row(groups))
        t.a_row = wide_row(groups) * <ptrdiff_t>sizeof(uint16_t)
    elif p.direct_a:
        t.a, t.a_row = g.a + (block + row) * g.a_row + k0, g.a_row
        t.groups = k // 4
        t.a_tail = w.a_tail + row if k % 4 else NULL
    elif is_made(g):
        t.a, t.a_row = w.a + row * made_row(groups), made_row(groups)
    else:
        t.a, t.a_row, t.a_group, t.a_tile = w.a + row * groups * 4, 4, 4 * height, 4 * height * groups
        return
    t.a_tile = height * t.a_row


cdef void multiply_tiles(const Gemm *g, const Plan *p, const Workspace *w, const Slab *s, int64_t row, int64_t rows,
                         int64_t panel, int64_t panels, int64_t k_block) noexcept nogil:
    """All tiles of one block: `rows` rows of A, `panels` panels of the slab, one block of K."""
    cdef int64_t k0 = k_block * p.kc, k = min(p.kc, g.k - k0), groups = ceil_div(k, 4)
    cdef bint first_block = k_block == 0, last_block = k_block == p.k_blocks - 1
    cdef int64_t row_tiles = ceil_div(rows, p.mr), column_tiles = ceil_div(panels, p.np)
    cdef int64_t i, j, r, c, column, end
    cdef int height, width, dot, x
    cdef bint a_is_packed = p.direct_a, a_is_wide = False, a_is_turned = False, to_output
    # Where there is one tile of rows, the output stage has several tiles of columns, from panel `first` on, at a time.
    cdef bint gathers = (
        g.stage is not NULL and last_block and row_tiles == 1 and not p.wide and not p.to_output and not p.skips
    )
    cdef int64_t gathered_row = GATHERED // rows // I8_PANEL * I8_PANEL, first = panel
    # Otherwise it has several tiles of rows, from row `top` on: what is set up for the columns of a tile serves more of
    # them. Not where some go to C without it, as they lie in one line of C.
    cdef bint stacks = (
        last_block and not (p.wide or gathers or p.from_registers or (p.to_output and g.c_line != 0))
    )
    # A single tile of few rows, whose sums stay beside each other, is called for several columns of tiles at a time.
    cdef bint lies_beside = (
        row_tiles == 1 and rows <= I8_FEW_ROWS(g.kernels.gemm.np) and first_block and last_block and not p.wide
        and not p.skips and g.c_line == 0 and (p.from_registers or p.to_output or gathers)
    )
    cdef int64_t top, together, c_end
    cdef int32_t *partial
    cdef int32_t *outlier_sums
    cdef i8_tile_args t
    cdef i8_output_args o
    cdef i8_tile_output out
    cdef Span spans[MAX_SPANS]
    cdef Place block, at
    cdef int count

    set_formula(g, &o)
    t.more_segments = 0
    t.in_turn = p.in_turn
    t.fetch = NULL
    t.fetch_row = g.c_row
    t.output = NULL
    t.row_init = t.col_init = t.acc_in = NULL
    if p.skips:
        block = place_of(g.image, row)

    j = 0
    while j < column_tiles:
        together = equal_parts(panels, j, column_tiles, &c, &width)
        c += panel
        column = (s.first + c) * I8_PANEL

        dot = dot_of(g, p, s, c, width)
        together = tiles_beside(g, p, s, c, width, together, dot) if lies_beside else 1
        if gathers:
            together = max(1, min(together, (gathered_row - (c - first) * I8_PANEL) // (width * I8_PANEL)))
        j += together
        c_end = c + together * width
        outlier_sums = NULL
        t.b = s.data if dot != I8_DOT8 else g.split.dense
        t.b += c * s.panel_size + (k0 - s.k0) * I8_PANEL
        t.b_panel = s.panel_size
        t.groups = groups
        t.ahead = <const char *>t.b + width * t.b_panel if p.fetch_b and j < column_tiles else NULL
        t.ahead_step = I8_GROUP * I8_PANEL
        t.a_tail = NULL
        # Contiguous rows are widened from where they lie.
        if not a_is_packed and not (dot == I8_DOT2 and has_contiguous_rows(g)):
            pack_rows(g, p, w, row, rows, k0, k)
            a_is_packed = True
        if dot == I8_DOT2:
            if not a_is_wide:
                widen_rows(g, p, w, row, rows, k0, k)
                a_is_wide = True
            for x in range(width):
                g.kernels.packing.widen_b(w.b_wide + x * groups * 4 * I8_PANEL, t.b + x * t.b_panel, groups)
            t.b = <const int8_t *>w.b_wide
            t.b_panel = groups * 8 * I8_PANEL
            t.groups = 2 * groups
            t.ahead_step //= 2
            if width > 1:
                t.ahead = NULL  # panels are as far apart as those of the widened B

        elif dot == I8_DOT8 and has_outliers(g, p, s.first + c, width):
            if not a_is_turned:
                turn_rows(g, w, row, rows, k0, k)
                a_is_turned = True
            # On top of the sums of the blocks of K so far.
            outlier_sums = w.outlier_sums
            if w.partial is not NULL and not p.wide:
                outlier_sums = <int32_t *>w.partial + (c - panel) * rows * I8_PANEL
            multiply_outliers(g, p, w, s.first + c, width, rows, k_block, outlier_sums)

        if p.skips:
            at = block
        i = top = 0
        while i < row_tiles:
            # As many tiles of one height as lie below each other and go the same way.
            t.tiles = equal_parts(rows, i, row_tiles, &r, &height)
            to_output = (
                last_block and p.to_output and column + width * I8_PANEL <= g.n
                and (g.c_line == 0 or (row + r) // g.c_line == (row + r + height - 1) // g.c_line)
            )
            t.beside = together > 1
            if p.skips or p.wide or (to_output and g.c_line != 0):
                t.tiles = 1
            elif last_block and not (to_output or p.from_registers):
                x = GATHERED // (width * I8_PANEL)
                t.tiles = max(1, min(t.tiles, (x - (r - top)) // height)) if stacks else 1
            i += t.tiles
            end = r + t.tiles * height
            if t.beside:
                t.tiles = together
            set_a(g, p, w, &t, dot, row, r, height, k0, k)

            # Sums of the blocks of K so far lie in `partial`, tile by tile.
            partial = <int32_t *>w.partial
            x = height * width * I8_PANEL
            if partial is not NULL:
                partial += ((c - panel) * rows + r * width) * I8_PANEL * (2 if p.wide else 1)
            t.acc_in = NULL if first_block or p.wide else partial
            if outlier_sums is not NULL:
                t.acc_in = outlier_sums + r * width * I8_PANEL
            if first_block:
                t.row_init = w.row_init + r if w.row_init is not NULL else NULL
            if k_block == s.first_block:
                t.col_init = s.col_init + c * I8_PANEL if s.col_init is not NULL else NULL
            if last_block and p.fetch_c and g.c_line == 0:
                t.fetch = g.c + (row + r) * g.c_row + column * g.c_col
            t.dst_row = t.acc_row = t.cols = width * I8_PANEL
            t.output = &out if to_output else NULL
            if to_output:
                set_output(g, w, &out, row, r, column)
                out.stream = p.stream
            if last_block and p.from_registers:
                t.dst = <int32_t *>(g.c + (row + r) * g.c_row) + column
                t.dst_row = g.c_row // <ptrdiff_t>sizeof(int32_t)
                t.cols = <int>min(<int64_t>t.cols, g.n - column)
            elif gathers:
                t.dst = w.tile + (c - first) * I8_PANEL
                t.dst_row = gathered_row
            elif last_block or p.wide:
                t.dst = w.tile + ((r - top) * width * I8_PANEL if stacks else 0)
            else:
                t.dst = partial
            if p.skips:
                count = spans_of(g.image, &at, height, k0, k, spans)
                move_on(g.image, &at, height)
                t.a_segment = g.image.line * (2 if dot == I8_DOT2 else 1)
                multiply_spans(g.kernels, &t, spans, count, dot, height, width, g.image.line)
            else:
                g.kernels.gemm.tiles[dot].of[height - 1][width - 1](&t)
            t.ahead = NULL
            if to_output:
                first, top = c_end, end
                continue

            if p.wide:
                add_tile(<int64_t *>partial, w.tile, x, first_block)
            if not stacks:
                top = r
            elif i < row_tiles and (end - top + p.mr) * width * I8_PANEL <= GATHERED:
                continue
            if not gathers:
                first = c
            elif j < column_tiles and (c_end - first + p.np) * I8_PANEL <= gathered_row:
                continue
            if last_block and not p.from_registers:
                o.rows = <int>(end - top)
                o.cols = <int>min((c_end - first) * I8_PANEL, g.n - (s.first + first) * I8_PANEL)
                o.acc32 = NULL if p.wide else w.tile
                o.acc64 = <const int64_t *>partial if p.wide else NULL
                o.acc_row = t.dst_row
                set_vectors(g, w, s, &o, row, top, first)
                if g.doubled:
                    double_sums(&o)
                store_rows(g, &o)
                first, top = c_end, end
