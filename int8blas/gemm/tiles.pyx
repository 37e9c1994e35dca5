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
    I8_DISTANCES, I8_DOT2, I8_DOT8, I8_DOT_INTERLEAVED, I8_DOT_SMALL, I8_GROUP, I8_PANEL, I8_SHORT_TILE,
    i8_outlier_args, i8_set_part, i8_tile_args, i8_tile_output)
from int8blas.core.split cimport equal_parts, round_up
from int8blas.gemm.nest cimport A_PACKED, Cursor, Pending, RowVectors, end_panel, end_row, first_column, groups_of
from int8blas.gemm.output cimport EPILOGUE_SUMS, set_target
from int8blas.gemm.pack_a cimport COLUMN_K, load_columns
from int8blas.gemm.problem cimport (
    c_element_bytes, element, is_doubled, is_quantized, row_scales_from, set_tile_output)
from int8blas.gemm.small_values cimport choose_dot, groups_in_s16
from int8blas.gemm.spans cimport place_of


cdef void start_tiles(LoopState *loop) noexcept nogil:
    """Begin the tiles of a block. No sums wait yet, and no form of A exists yet, unless A is read in place."""
    cdef const Problem *g = loop.g
    cdef bint is_last = loop.at.is_last and not loop.p.common.wide
    cdef Pending *z = &loop.pending
    loop.a_forms = A_PACKED if loop.p.forms.direct_a else 0
    loop.tile.more_segments = loop.tile.a.segment = loop.tile.b.segment = 0
    loop.tile.sequential = loop.p.memory.sequential
    loop.tile.fetch = NULL
    loop.tile.fetch_row = g.c.row
    loop.tile.row_init = loop.tile.col_init = NULL
    z.along_n = (
        is_last and is_quantized(g) and loop.at.rows <= loop.p.mr and not loop.p.common.to_output
        and not loop.p.forms.skips
    )
    z.along_m = is_last and not (
        z.along_n or loop.p.common.from_registers or (loop.p.common.to_output and g.c.line != 0))
    z.row_size = EPILOGUE_SUMS // loop.at.rows // I8_PANEL * I8_PANEL
    z.row, z.panel = 0, loop.at.panel
    set_target(g, &z.args)


cdef int64_t tiles_along_n(const LoopState *loop, int64_t most) noexcept nogil:
    """Return the number of tiles that one call computes along N: 1, or up to `most` tiles of equal width.

    One call computes several tiles if the M block has few rows, there is one K block, and the kernel or the epilogue
    takes sums side by side. All tiles must lie completely in C and use one multiply-add that reads B in its packed
    order.
    """
    cdef const Cursor *at = &loop.at
    cdef const Pending *z = &loop.pending
    cdef int64_t count = 1
    cdef bint is_split
    if (
        at.rows > min(loop.p.mr, <int64_t>I8_SHORT_TILE(loop.g.kernels.gemm.np)) or not at.is_first or not at.is_last
        or loop.p.common.wide or loop.p.forms.skips or loop.g.c.line != 0
        or not (loop.p.common.from_registers or loop.p.common.to_output or z.along_n)
        or loop.dot in (I8_DOT2, I8_DOT8, I8_DOT_SMALL, I8_DOT_INTERLEAVED)
    ):
        return 1
    most = min(most, (loop.g.n - first_column(loop)) // (at.width * I8_PANEL))
    if z.along_n:
        most = min(most, (z.row_size // I8_PANEL - (at.tile_panel - z.panel)) // at.width)
    if not loop.p.forms.may_widen:
        return max(<int64_t>1, most)
    while count < most and choose_dot(loop, at.tile_panel + count * at.width, at.width, &is_split) == loop.dot:
        count += 1
    return count


cdef inline const int64_t *outlier_starts(const LoopState *loop, int64_t panel) noexcept nogil:
    """Return the starts of the outliers of each column of a panel in the K block."""
    return loop.g.panels.split.starts + ((loop.b.first + panel) * loop.p.k_blocks + loop.at.k_block) * I8_PANEL


cdef bint has_outliers(const LoopState *loop) noexcept nogil:
    """Return whether the current panels have outliers, in any K block."""
    cdef int64_t panel = loop.b.first + loop.at.tile_panel, blocks = loop.p.k_blocks * I8_PANEL
    return loop.g.panels.split.starts[panel * blocks] != loop.g.panels.split.starts[(panel + loop.at.width) * blocks]


cdef void multiply_outliers(LoopState *loop) noexcept nogil:
    """Multiply the A block by the outliers of the current panels, if they have outliers. The products, added to the
    sums of the earlier K blocks, are the start values of the tiles' sums. load_a must have made the A block."""
    cdef const Cursor *at = &loop.at
    cdef i8_outlier_args t
    cdef int i
    if not has_outliers(loop):
        return
    load_columns(loop)
    loop.outlier_sums = loop.arena.outlier_sums
    if loop.arena.partial is not NULL and not loop.p.common.wide:
        loop.outlier_sums = <int32_t *>loop.arena.partial + (at.tile_panel - at.panel) * at.rows * I8_PANEL
    t.rows = at.rows
    t.a = loop.arena.a_columns
    t.a_columns = round_up(at.k, COLUMN_K)
    t.outliers = loop.g.panels.split.outliers
    t.add = not at.is_first and not loop.p.common.wide
    t.dst_row = at.width * I8_PANEL
    for i in range(at.width):
        t.dst = loop.outlier_sums + i * I8_PANEL
        t.starts = outlier_starts(loop, at.tile_panel + i)
        loop.g.kernels.gemm.outliers.multiply(&t)


cdef void widen_panels(LoopState *loop) noexcept nogil:
    """Widen the current panels to s16, and let the micro-kernel read the widened panels."""
    cdef i8_tile_args *t = &loop.tile
    cdef int64_t groups = groups_of(loop.at.k)
    cdef int i
    for i in range(loop.at.width):
        loop.g.kernels.packing.widen_b(loop.arena.b_wide + i * groups * I8_GROUP * I8_PANEL, t.b.data + i * t.b.panel,
                                       groups)
    t.b.data = <const int8_t *>loop.arena.b_wide
    t.b.panel = groups * I8_GROUP * I8_PANEL * 2
    t.groups = 2 * groups
    t.ahead_step //= 2
    if loop.at.width > 1:
        t.ahead = NULL  # prefetching would use b_panel, which is now the distance between widened panels


cdef int64_t go_to_panels(LoopState *loop, int64_t number, int64_t tiles) noexcept nogil:
    """Move the cursor to the panels of tile `number` of `tiles` in the N block. Choose the multiply-add, and set B.
    Return the number of tiles that one call computes along N."""
    cdef Cursor *at = &loop.at
    cdef i8_tile_args *t = &loop.tile
    cdef int64_t equal = equal_parts(at.panels, number, tiles, &at.tile_panel, &at.width)
    cdef bint is_last
    at.tile_panel += at.panel
    loop.dot = choose_dot(loop, at.tile_panel, at.width, &loop.is_split)
    at.along_n = tiles_along_n(loop, equal)
    is_last = number + at.along_n == tiles
    t.b.data = loop.g.panels.split.dense if loop.is_split else loop.b.data
    t.b.data += at.tile_panel * loop.b.panel_size + (at.k0 - loop.b.k0) * I8_PANEL
    t.b.panel = loop.b.panel_size
    t.groups = at.k // I8_GROUP if loop.p.forms.direct_a else groups_of(at.k)
    t.ahead = <const char *>t.b.data + at.width * t.b.panel if loop.p.memory.fetch_b and not is_last else NULL
    t.ahead_step = I8_GROUP * I8_PANEL
    t.a.tail = NULL
    if loop.dot == I8_DOT_SMALL:
        t.small_groups = groups_in_s16(loop, at.tile_panel, at.width)
    loop.outlier_sums = NULL
    loop.pending.row = 0
    if loop.p.forms.skips:
        loop.place = place_of(loop.g.source.image, at.row)
    return at.along_n


cdef inline bint is_in_line(const LoopState *loop) noexcept nogil:
    """Return whether the rows of the tile are evenly spaced in C."""
    cdef int64_t row = loop.at.row + loop.at.tile_row
    return loop.g.c.line == 0 or row // loop.g.c.line == (row + loop.at.height - 1) // loop.g.c.line


cdef inline bint ends_in_c(const LoopState *loop) noexcept nogil:
    """Return whether all columns of the tile are columns of C."""
    return first_column(loop) + loop.at.width * I8_PANEL <= loop.g.n


cdef inline bint is_copied(const LoopState *loop) noexcept nogil:
    """Return whether the micro-kernel stores its results to Arena.tile, because the tile has columns beyond C. The
    results are then copied to C. The epilogue of the kernel table would take longer: a 1x1 convolution of 93 x 156
    pixels from 20 to 60 channels takes 276 us with it, and 64 channels take 173 us (AVX512-VNNI, Intel)."""
    return loop.tile.output is not NULL and not ends_in_c(loop)


cdef inline ptrdiff_t copied_row(const LoopState *loop) noexcept nogil:
    """Return the bytes of a row of results that are copied."""
    return loop.at.width * I8_PANEL * c_element_bytes(loop.g)


cdef void choose_output(LoopState *loop) noexcept nogil:
    """Decide whether the micro-kernel applies the epilogue to the tile. The rows of the tile must be in one line of the
    output. Distances, and tiles that skip padding or that have lines, must also end with whole panels of C."""
    cdef bint may_copy = (
        loop.g.c.line == 0 and not loop.p.forms.skips and loop.g.epilogue.kind != I8_DISTANCES)
    loop.tile.output = NULL
    if loop.at.is_last and loop.p.common.to_output and (may_copy or ends_in_c(loop)) and is_in_line(loop):
        loop.tile.output = &loop.output


cdef int64_t go_to_rows(LoopState *loop, int64_t number, int64_t tiles) noexcept nogil:
    """Go to the rows of tile `number` of `tiles` in the M block. Return the number of tiles along M that one call
    computes: tiles of equal height and one kind of destination, whose sums fit Arena.tile."""
    cdef Cursor *at = &loop.at
    cdef bint waits
    cdef int64_t room
    tiles = equal_parts(at.rows, number, tiles, &at.tile_row, &at.height)
    choose_output(loop)
    waits = at.is_last and loop.tile.output is NULL and not loop.p.common.from_registers
    if (loop.p.forms.skips or loop.p.common.wide or (loop.tile.output is not NULL and loop.g.c.line != 0)
            or (waits and not loop.pending.along_m)):
        tiles = 1
    elif is_copied(loop):
        room = EPILOGUE_SUMS * <int64_t>sizeof(int32_t) // copied_row(loop)
        tiles = max(1, min(tiles, room // at.height))
    elif waits:
        room = EPILOGUE_SUMS // (at.width * I8_PANEL) - (at.tile_row - loop.pending.row)
        tiles = max(1, min(tiles, room // at.height))
    at.along_m = tiles
    loop.tile.along_n = at.along_n > 1
    loop.tile.tiles = at.along_n if loop.tile.along_n else tiles
    return tiles


cdef inline int32_t *partial_sums(const LoopState *loop) noexcept nogil:
    """Return the address of the sums of the earlier K blocks for the current tiles, tile by tile. Return NULL if there
    is one K block."""
    cdef const Cursor *at = &loop.at
    if loop.arena.partial is NULL:
        return NULL
    return <int32_t *>loop.arena.partial + (
        ((at.tile_panel - at.panel) * at.rows + at.tile_row * at.width) * I8_PANEL * (2 if loop.p.common.wide else 1))


cdef inline void set_start(LoopState *loop) noexcept nogil:
    """Set the start values of the current tiles' sums."""
    cdef const Cursor *at = &loop.at
    cdef const int32_t *col_init = loop.arena.rebased_init if loop.rebase else loop.b.col_init
    cdef i8_tile_args *t = &loop.tile
    t.acc_in = NULL if at.is_first or loop.p.common.wide else partial_sums(loop)
    t.acc_row = at.width * I8_PANEL
    if loop.outlier_sums is not NULL:
        t.acc_in = loop.outlier_sums + at.tile_row * at.width * I8_PANEL
    if at.is_first and loop.arena.rows.row_init is not NULL:
        t.row_init = loop.arena.rows.row_init + at.tile_row
    if at.k_block == loop.b.first_k_block and col_init is not NULL:
        t.col_init = col_init + at.tile_panel * I8_PANEL


cdef inline void set_output(LoopState *loop) noexcept nogil:
    """Set the epilogue that the micro-kernel applies to the current tiles."""
    cdef const Problem *g = loop.g
    cdef i8_tile_output *out = &loop.output
    cdef int64_t row = loop.at.row + loop.at.tile_row, column = first_column(loop)
    set_tile_output(g, out, row, column)
    out.stream = loop.p.memory.stream
    if loop.arena.rows.scale is not NULL:
        out.row_scale = loop.arena.rows.scale + loop.at.tile_row
    if is_copied(loop):
        out.c, out.c_row, out.stream = <char *>loop.arena.tile, copied_row(loop), False
        return
    out.c_row = g.c.row
    out.c = g.c.data + column * g.c.column
    out.c += row * g.c.row if g.c.line == 0 else row // g.c.line * g.c.line_step + row % g.c.line * g.c.row


cdef void point_to_c(LoopState *loop) noexcept nogil:
    """Set the start values and the destination of the current tiles' sums. The destination is C, or memory in which the
    sums wait."""
    cdef const Problem *g = loop.g
    cdef const Cursor *at = &loop.at
    cdef const Pending *z = &loop.pending
    cdef i8_tile_args *t = &loop.tile
    cdef char *c
    set_start(loop)
    t.dst_row = t.cols = at.width * I8_PANEL
    if t.output is not NULL:
        set_output(loop)
    if at.is_last and loop.p.memory.fetch_c and g.c.line == 0:
        t.fetch = element(&g.c, at.row + at.tile_row, first_column(loop))
    if at.is_last and loop.p.common.from_registers:
        c = g.c.data + (at.row + at.tile_row) * g.c.row
        t.dst = <int32_t *>c + first_column(loop)
        t.dst_row = g.c.row // <ptrdiff_t>sizeof(int32_t)
        t.cols = <int>min(<int64_t>t.cols, g.n - first_column(loop))
    elif z.along_n:
        t.dst = loop.arena.tile + (at.tile_panel - z.panel) * I8_PANEL
        t.dst_row = z.row_size
    elif at.is_last or loop.p.common.wide:
        t.dst = loop.arena.tile + ((at.tile_row - z.row) * at.width * I8_PANEL if z.along_m else 0)
    else:
        t.dst = partial_sums(loop)


cdef inline void add_wide(const LoopState *loop) noexcept nogil:
    """Add the sums of a tile to its sums of the earlier K blocks, in s64."""
    cdef int64_t *total = <int64_t *>partial_sums(loop)
    cdef int i
    for i in range(loop.at.height * loop.at.width * I8_PANEL):
        total[i] = (0 if loop.at.is_first else total[i]) + loop.arena.tile[i]


cdef inline bint is_full(LoopState *loop) noexcept nogil:
    """Return whether to apply the epilogue now to the sums that wait: no more tiles can join these sums, or the sums of
    the next tile have no room."""
    cdef const Cursor *at = &loop.at
    cdef Pending *z = &loop.pending
    if not z.along_m:
        z.row = at.tile_row
    elif end_row(at) < at.rows and (end_row(at) - z.row + loop.p.mr) * at.width * I8_PANEL <= EPILOGUE_SUMS:
        return False
    if not z.along_n:
        z.panel = at.tile_panel
    elif end_panel(at) < at.panel + at.panels and (end_panel(at) - z.panel + loop.p.np) * I8_PANEL <= z.row_size:
        return False
    return True


cdef void set_vectors(LoopState *loop) noexcept nogil:
    """Set the epilogue's vectors for the rows and columns of the sums that wait."""
    cdef const Problem *g = loop.g
    cdef const RowVectors *v = &loop.arena.rows
    cdef const Pending *z = &loop.pending
    cdef i8_output_args *o = &loop.pending.args
    o.row, o.column = loop.at.row + z.row, (loop.b.first + z.panel) * I8_PANEL
    o.ao = v.ao + z.row if v.ao is not NULL else NULL
    o.col_sum = loop.b.col_sums + z.panel * I8_PANEL if v.ao is not NULL else NULL
    o.bo = loop.b.bo + z.panel * I8_PANEL if loop.b.bo is not NULL else NULL
    o.row_term = v.row_term + z.row if loop.b.bo is not NULL else NULL
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


cdef void copy_results(const LoopState *loop) noexcept nogil:
    """Copy the results of the current tiles to C."""
    cdef const Problem *g = loop.g
    cdef const Cursor *at = &loop.at
    g.kernels.stage.transpose_store(
        element(&g.c, at.row + at.tile_row, first_column(loop)), g.c.row, g.c.column, <const char *>loop.arena.tile,
        copied_row(loop), <int>at.along_m * at.height, <int>(g.n - first_column(loop)), <int>c_element_bytes(g))


cdef void store_tile(LoopState *loop) noexcept nogil:
    """Finish tiles that the micro-kernel has computed. Unless the micro-kernel has stored C, add the sums of the tiles
    to the wide sums, if sums are wide. Apply the epilogue to the waiting sums if no more tiles can join them."""
    cdef const Cursor *at = &loop.at
    cdef Pending *z = &loop.pending
    cdef i8_output_args *o = &z.args
    loop.tile.ahead = NULL
    if loop.tile.output is not NULL:
        if is_copied(loop):
            copy_results(loop)
        z.row, z.panel = end_row(at), end_panel(at)
        return
    if loop.p.common.wide:
        add_wide(loop)
    if not at.is_last or loop.p.common.from_registers or not is_full(loop):
        return
    o.rows = <int>(end_row(at) - z.row)
    o.cols = <int>min((end_panel(at) - z.panel) * I8_PANEL, loop.g.n - (loop.b.first + z.panel) * I8_PANEL)
    o.acc32 = NULL if loop.p.common.wide else loop.arena.tile
    o.acc64 = <const int64_t *>partial_sums(loop) if loop.p.common.wide else NULL
    o.acc_row = loop.tile.dst_row
    set_vectors(loop)
    if is_doubled(loop.g):
        double_sums(o)
    store_rows(loop.g, o)
    z.row, z.panel = end_row(at), end_panel(at)
