"""The tiles of a block of C: their panels and rows, and the start values and destinations of their sums.

One call of the micro-kernel computes several tiles, along M or along N. The sums have one of four destinations:

    Plan.from_registers     the micro-kernel stores them in C
    i8_tile_args.output     the micro-kernel applies the epilogue and stores C
    Arena.partial           the sums wait for the next K block, as s32, or as s64 if they could exceed s32 (Plan.wide)
    Arena.tile              the sums wait for the epilogue of the kernel table (Pending)
"""

from libc.stddef cimport ptrdiff_t
from libc.stdint cimport int8_t, int32_t, int64_t, uint32_t

from int8blas.core.kernels cimport (
    I8_DOT2, I8_DOT8, I8_DOT_INTERLEAVED, I8_DOT_SMALL, I8_GROUP, I8_PANEL, I8_SHORT_TILE, i8_outlier_args, i8_set_part,
    i8_tile_args, i8_tile_output)
from int8blas.core.split cimport equal_parts, round_up
from int8blas.gemm.nest cimport A_PACKED, Cursor, Pending, RowVectors, end_panel, end_row, first_column, groups_of
from int8blas.gemm.output cimport EPILOGUE_SUMS, set_target
from int8blas.gemm.pack_a cimport COLUMN_K, load_a, load_columns, point_to_a
from int8blas.gemm.problem cimport element, is_doubled, is_quantized, row_scales_from, set_tile_output
from int8blas.gemm.small_values cimport choose_dot, groups_in_s16
from int8blas.gemm.spans cimport place_of


cdef void start_tiles(LoopState *x) noexcept nogil:
    """Begin the tiles of a block. No sums wait yet, and no form of A exists yet, unless A is read in place."""
    cdef const Problem *g = x.g
    cdef bint is_last = x.at.is_last and not x.p.common.wide
    cdef Pending *z = &x.pending
    x.a_forms = A_PACKED if x.p.forms.direct_a else 0
    x.tile.more_segments = x.tile.a.segment = x.tile.b.segment = 0
    x.tile.sequential = x.p.memory.sequential
    x.tile.fetch = NULL
    x.tile.fetch_row = g.c.row
    x.tile.row_init = x.tile.col_init = NULL
    z.along_n = (
        is_last and is_quantized(g) and x.at.rows <= x.p.mr and not x.p.common.to_output and not x.p.forms.skips
    )
    z.along_m = is_last and not (z.along_n or x.p.common.from_registers or (x.p.common.to_output and g.c.line != 0))
    z.row_size = EPILOGUE_SUMS // x.at.rows // I8_PANEL * I8_PANEL
    z.row, z.panel = 0, x.at.panel
    set_target(g, &z.args)


cdef int64_t tiles_along_n(const LoopState *x, int64_t most) noexcept nogil:
    """Return the number of tiles that one call computes along N: 1, or up to `most` tiles of equal width.

    One call computes several tiles if the M block has few rows, there is one K block, and the kernel or the epilogue
    takes sums side by side. All tiles must lie completely in C and use one multiply-add that reads B in its packed
    order.
    """
    cdef const Cursor *at = &x.at
    cdef const Pending *z = &x.pending
    cdef int64_t count = 1
    cdef bint is_split
    if (
        at.rows > min(x.p.mr, <int64_t>I8_SHORT_TILE(x.g.kernels.gemm.np)) or not at.is_first or not at.is_last
        or x.p.common.wide or x.p.forms.skips or x.g.c.line != 0
        or not (x.p.common.from_registers or x.p.common.to_output or z.along_n)
        or x.dot in (I8_DOT2, I8_DOT8, I8_DOT_SMALL, I8_DOT_INTERLEAVED)
    ):
        return 1
    most = min(most, (x.g.n - first_column(x)) // (at.width * I8_PANEL))
    if z.along_n:
        most = min(most, (z.row_size // I8_PANEL - (at.tile_panel - z.panel)) // at.width)
    if not x.p.forms.may_widen:
        return max(<int64_t>1, most)
    while count < most and choose_dot(x, at.tile_panel + count * at.width, at.width, &is_split) == x.dot:
        count += 1
    return count


cdef inline const int64_t *outlier_starts(const LoopState *x, int64_t panel) noexcept nogil:
    """Return the starts of the outliers of each column of a panel in the K block."""
    return x.g.panels.split.starts + ((x.b.first + panel) * x.p.k_blocks + x.at.k_block) * I8_PANEL


cdef bint has_outliers(const LoopState *x) noexcept nogil:
    """Return whether the current panels have outliers in any K block."""
    cdef int64_t panel = x.b.first + x.at.tile_panel, blocks = x.p.k_blocks * I8_PANEL
    return x.g.panels.split.starts[panel * blocks] != x.g.panels.split.starts[(panel + x.at.width) * blocks]


cdef void multiply_outliers(LoopState *x) noexcept nogil:
    """Multiply the A block by the outliers of the current panels. The products, added to the sums of the earlier K
    blocks, are the start values of the tiles' sums."""
    cdef const Cursor *at = &x.at
    cdef i8_outlier_args t
    cdef int i
    load_columns(x)
    x.outlier_sums = x.arena.outlier_sums
    if x.arena.partial is not NULL and not x.p.common.wide:
        x.outlier_sums = <int32_t *>x.arena.partial + (at.tile_panel - at.panel) * at.rows * I8_PANEL
    t.rows = at.rows
    t.a = x.arena.a_columns
    t.a_columns = round_up(at.k, COLUMN_K)
    t.outliers = x.g.panels.split.outliers
    t.add = not at.is_first and not x.p.common.wide
    t.dst_row = at.width * I8_PANEL
    for i in range(at.width):
        t.dst = x.outlier_sums + i * I8_PANEL
        t.starts = outlier_starts(x, at.tile_panel + i)
        x.g.kernels.gemm.outliers.multiply(&t)


cdef void widen_panels(LoopState *x) noexcept nogil:
    """Widen the current panels to s16, and let the micro-kernel read them."""
    cdef i8_tile_args *t = &x.tile
    cdef int64_t groups = groups_of(x.at.k)
    cdef int i
    for i in range(x.at.width):
        x.g.kernels.packing.widen_b(x.arena.b_wide + i * groups * I8_GROUP * I8_PANEL, t.b.data + i * t.b.panel, groups)
    t.b.data = <const int8_t *>x.arena.b_wide
    t.b.panel = groups * I8_GROUP * I8_PANEL * 2
    t.groups = 2 * groups
    t.ahead_step //= 2
    if x.at.width > 1:
        t.ahead = NULL  # prefetching would use b_panel, which is now the distance between widened panels


cdef int64_t load_panels(LoopState *x, int64_t number, int64_t tiles) noexcept nogil:
    """Move the cursor to the panels of tile `number` of `tiles` in the N block. Set B, and the form of A for these
    panels. Return the number of tiles that one call computes along N."""
    cdef Cursor *at = &x.at
    cdef i8_tile_args *t = &x.tile
    cdef int64_t equal = equal_parts(at.panels, number, tiles, &at.tile_panel, &at.width)
    cdef bint is_last
    at.tile_panel += at.panel
    x.dot = choose_dot(x, at.tile_panel, at.width, &x.is_split)
    at.along_n = tiles_along_n(x, equal)
    is_last = number + at.along_n == tiles
    t.b.data = x.g.panels.split.dense if x.is_split else x.b.data
    t.b.data += at.tile_panel * x.b.panel_size + (at.k0 - x.b.k0) * I8_PANEL
    t.b.panel = x.b.panel_size
    t.groups = at.k // I8_GROUP if x.p.forms.direct_a else groups_of(at.k)
    t.ahead = <const char *>t.b.data + at.width * t.b.panel if x.p.memory.fetch_b and not is_last else NULL
    t.ahead_step = I8_GROUP * I8_PANEL
    t.a.tail = NULL
    if x.dot == I8_DOT_SMALL:
        t.small_groups = groups_in_s16(x, at.tile_panel, at.width)
    load_a(x)
    x.outlier_sums = NULL
    if x.dot == I8_DOT2:
        widen_panels(x)
    elif x.is_split and has_outliers(x):
        multiply_outliers(x)
    x.pending.row = 0
    if x.p.forms.skips:
        x.place = place_of(x.g.source.image, at.row)
    return at.along_n


cdef inline bint is_in_line(const LoopState *x) noexcept nogil:
    """Return whether the rows of the tile are evenly spaced in C."""
    cdef int64_t row = x.at.row + x.at.tile_row
    return x.g.c.line == 0 or row // x.g.c.line == (row + x.at.height - 1) // x.g.c.line


cdef void choose_output(LoopState *x) noexcept nogil:
    """Decide whether the micro-kernel applies the epilogue to the tile: the tile must consist of whole panels of C, and
    its rows must be in one line of the output."""
    x.tile.output = NULL
    if x.at.is_last and x.p.common.to_output and first_column(x) + x.at.width * I8_PANEL <= x.g.n and is_in_line(x):
        x.tile.output = &x.output


cdef int64_t load_rows(LoopState *x, int64_t number, int64_t tiles) noexcept nogil:
    """Go to the rows of tile `number` of `tiles` in the M block. Return the number of tiles along M that one call
    computes. These tiles have equal height and one destination, and their sums fit Arena.tile."""
    cdef Cursor *at = &x.at
    cdef bint waits
    cdef int64_t room
    tiles = equal_parts(at.rows, number, tiles, &at.tile_row, &at.height)
    choose_output(x)
    waits = at.is_last and x.tile.output is NULL and not x.p.common.from_registers
    if (x.p.forms.skips or x.p.common.wide or (x.tile.output is not NULL and x.g.c.line != 0)
            or (waits and not x.pending.along_m)):
        tiles = 1
    elif waits:
        room = EPILOGUE_SUMS // (at.width * I8_PANEL) - (at.tile_row - x.pending.row)
        tiles = max(1, min(tiles, room // at.height))
    at.along_m = tiles
    x.tile.along_n = at.along_n > 1
    x.tile.tiles = at.along_n if x.tile.along_n else tiles
    point_to_a(x)
    return tiles


cdef inline int32_t *partial_sums(const LoopState *x) noexcept nogil:
    """Return the address of the sums of the earlier K blocks for the current tiles, tile by tile. Return NULL if there
    is one K block."""
    cdef const Cursor *at = &x.at
    if x.arena.partial is NULL:
        return NULL
    return <int32_t *>x.arena.partial + (
        ((at.tile_panel - at.panel) * at.rows + at.tile_row * at.width) * I8_PANEL * (2 if x.p.common.wide else 1))


cdef inline void set_start(LoopState *x) noexcept nogil:
    """Set the start values of the current tiles' sums."""
    cdef const Cursor *at = &x.at
    cdef const int32_t *col_init = x.arena.rebased_init if x.rebase else x.b.col_init
    cdef i8_tile_args *t = &x.tile
    t.acc_in = NULL if at.is_first or x.p.common.wide else partial_sums(x)
    t.acc_row = at.width * I8_PANEL
    if x.outlier_sums is not NULL:
        t.acc_in = x.outlier_sums + at.tile_row * at.width * I8_PANEL
    if at.is_first and x.arena.rows.row_init is not NULL:
        t.row_init = x.arena.rows.row_init + at.tile_row
    if at.k_block == x.b.first_k_block and col_init is not NULL:
        t.col_init = col_init + at.tile_panel * I8_PANEL


cdef inline void set_output(LoopState *x) noexcept nogil:
    """Set the epilogue that the micro-kernel applies to the current tiles."""
    cdef const Problem *g = x.g
    cdef i8_tile_output *out = &x.output
    cdef int64_t row = x.at.row + x.at.tile_row, column = first_column(x)
    set_tile_output(g, out, row, column)
    out.stream = x.p.memory.stream
    if x.arena.rows.scale is not NULL:
        out.row_scale = x.arena.rows.scale + x.at.tile_row
    out.c_row = g.c.row
    out.c = g.c.data + column * g.c.column
    out.c += row * g.c.row if g.c.line == 0 else row // g.c.line * g.c.line_step + row % g.c.line * g.c.row


cdef void set_tile(LoopState *x) noexcept nogil:
    """Set the start values and the destination of the current tiles' sums."""
    cdef const Problem *g = x.g
    cdef const Cursor *at = &x.at
    cdef const Pending *z = &x.pending
    cdef i8_tile_args *t = &x.tile
    cdef char *c
    set_start(x)
    t.dst_row = t.cols = at.width * I8_PANEL
    if t.output is not NULL:
        set_output(x)
    if at.is_last and x.p.memory.fetch_c and g.c.line == 0:
        t.fetch = element(&g.c, at.row + at.tile_row, first_column(x))
    if at.is_last and x.p.common.from_registers:
        c = g.c.data + (at.row + at.tile_row) * g.c.row
        t.dst = <int32_t *>c + first_column(x)
        t.dst_row = g.c.row // <ptrdiff_t>sizeof(int32_t)
        t.cols = <int>min(<int64_t>t.cols, g.n - first_column(x))
    elif z.along_n:
        t.dst = x.arena.tile + (at.tile_panel - z.panel) * I8_PANEL
        t.dst_row = z.row_size
    elif at.is_last or x.p.common.wide:
        t.dst = x.arena.tile + ((at.tile_row - z.row) * at.width * I8_PANEL if z.along_m else 0)
    else:
        t.dst = partial_sums(x)


cdef inline void add_wide(const LoopState *x) noexcept nogil:
    """Add the sums of a tile to its sums of the earlier K blocks, in s64."""
    cdef int64_t *total = <int64_t *>partial_sums(x)
    cdef int i
    for i in range(x.at.height * x.at.width * I8_PANEL):
        total[i] = (0 if x.at.is_first else total[i]) + x.arena.tile[i]


cdef inline bint is_full(LoopState *x) noexcept nogil:
    """Return whether to apply the epilogue now to the sums that wait for it. This is so if no more tiles can wait, or
    if there is no room for the sums of the next tile."""
    cdef const Cursor *at = &x.at
    cdef Pending *z = &x.pending
    if not z.along_m:
        z.row = at.tile_row
    elif end_row(at) < at.rows and (end_row(at) - z.row + x.p.mr) * at.width * I8_PANEL <= EPILOGUE_SUMS:
        return False
    if not z.along_n:
        z.panel = at.tile_panel
    elif end_panel(at) < at.panel + at.panels and (end_panel(at) - z.panel + x.p.np) * I8_PANEL <= z.row_size:
        return False
    return True


cdef void set_vectors(LoopState *x) noexcept nogil:
    """Set the epilogue's vectors for the rows and columns of the sums that wait."""
    cdef const Problem *g = x.g
    cdef const RowVectors *v = &x.arena.rows
    cdef const Pending *z = &x.pending
    cdef i8_output_args *o = &x.pending.args
    o.row, o.column = x.at.row + z.row, (x.b.first + z.panel) * I8_PANEL
    o.ao = v.ao + z.row if v.ao is not NULL else NULL
    o.col_sum = x.b.col_sums + z.panel * I8_PANEL if v.ao is not NULL else NULL
    o.bo = x.b.bo + z.panel * I8_PANEL if x.b.bo is not NULL else NULL
    o.row_term = v.row_term + z.row if x.b.bo is not NULL else NULL
    o.row_scale = v.scale + z.row if v.scale is not NULL else row_scales_from(g, o.row)


cdef void double_sums(const i8_output_args *o) noexcept nogil:
    """Double the sums of a tile."""
    cdef int i, j
    for i in range(o.rows):
        for j in range(o.cols):
            if o.acc64 is NULL:
                (<uint32_t *>o.acc32)[i * o.acc_row + j] *= 2
            else:
                (<int64_t *>o.acc64)[i * o.acc_row + j] *= 2


cdef void store_rows(const Problem *g, i8_output_args *o) noexcept nogil:
    """Apply the epilogue to sums and store C: all rows at once, or the rows of each line of C."""
    cdef i8_output_args part
    cdef int64_t line, row      # the line of C, and the row in this line
    cdef int rows, done = 0
    o.c = element(&g.c, o.row, o.column)
    if g.c.line == 0:
        g.kernels.stage.output(o)
        return
    line, row = o.row // g.c.line, o.row % g.c.line
    while done < o.rows:
        rows = <int>min(<int64_t>(o.rows - done), g.c.line - row)
        i8_set_part(&part, o, done, 0, rows, o.cols)
        part.c = g.c.data + line * g.c.line_step + row * g.c.row + o.column * g.c.column
        g.kernels.stage.output(&part)
        done += rows
        line, row = line + 1, 0


cdef void store_tile(LoopState *x) noexcept nogil:
    """Finish tiles that the micro-kernel has computed. Unless it has stored C, add their sums to the wide sums. Apply
    the epilogue to the sums that wait, if no more tiles can wait with them."""
    cdef const Cursor *at = &x.at
    cdef Pending *z = &x.pending
    cdef i8_output_args *o = &z.args
    x.tile.ahead = NULL
    if x.tile.output is not NULL:
        z.row, z.panel = end_row(at), end_panel(at)
        return
    if x.p.common.wide:
        add_wide(x)
    if not at.is_last or x.p.common.from_registers or not is_full(x):
        return
    o.rows = <int>(end_row(at) - z.row)
    o.cols = <int>min((end_panel(at) - z.panel) * I8_PANEL, x.g.n - (x.b.first + z.panel) * I8_PANEL)
    o.acc32 = NULL if x.p.common.wide else x.arena.tile
    o.acc64 = <const int64_t *>partial_sums(x) if x.p.common.wide else NULL
    o.acc_row = x.tile.dst_row
    set_vectors(x)
    if is_doubled(x.g):
        double_sums(o)
    store_rows(x.g, o)
    z.row, z.panel = end_row(at), end_panel(at)
