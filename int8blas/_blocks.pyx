"""The general way: tiles of C from packed blocks of A and B.

    gemm_blocks     for each slab of panels of B (all of them if B is packed)
      prepare_panels    pack panels, their sums, certificates and start values      (in parallel over the panels)
      multiply_part     one thread's tiles of C                                     (in parallel over the parts)
                          for each nc panels, each mc rows, each kc of K:
                            for each np panels, each mr rows: the micro-kernel, then the output stage
                              (A is packed, or widened, when the first panels need it so)

Nothing here knows an instruction set: tile sizes, blocking and functions come from the kernel table.
"""

from cython.parallel cimport parallel, prange
from libc.stddef cimport ptrdiff_t
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t
from libc.string cimport memset

from int8blas._kernels cimport (
    I8_DOT2,
    I8_DOT4_SAT,
    I8_DOT8,
    I8_GROUP,
    I8_MAX_TILE,
    I8_PANEL,
    i8_outlier_args,
    i8_output_args,
    i8_part_of,
    i8_tile_args,
    i8_tile_output,
)
from int8blas._output cimport GATHERED
from int8blas._plan cimport Gemm, Plan, has_contiguous_rows, is_made, set_tile_output, zero_by_row, zero_of_row
from int8blas._spans cimport MAX_SPANS, Place, Span, move_on, place_of, spans_of
from int8blas._source cimport quantize_rows, source_parameters
from int8blas._split cimport MAX_PIECES, Grid, Piece, ceil_div, part_count, pieces_of, round_up, share
from int8blas._workspace cimport ALIGNMENT, acquire, carve, release

cdef enum:
    # Tiles of an A by columns that are packed together: their rows are a cache line or less.
    PACKED_TILES = 8
    # Panels are prepared in steps of so many: four make whole cache lines of a C-ordered B.
    PREPARE_PANELS = 4
    # The columns of A that outliers take are made for so many rows and k together, with the widest vectors.
    COLUMN_ROWS = 128
    COLUMN_K = 16


# A slab of B as the parts see it. Pointers are to its first panel.
cdef struct Slab:
    int64_t first, panels
    int64_t first_block, end_block      # of K
    int64_t k0, k                       # the same in k
    ptrdiff_t panel_size                # bytes
    const int8_t *data
    const int64_t *col_sums
    const uint8_t *certified
    const int32_t *col_init
    const int64_t *bo


# The call's memory, carved out of one allocation; see lay_out.
cdef struct Workspace:
    # shared by the threads
    uint8_t *data
    int64_t *col_sums
    uint8_t *certified
    int32_t *col_init
    int64_t *bo
    # of one thread
    uint8_t *a
    uint16_t *a_wide
    int16_t *b_wide
    uint8_t *a_columns
    int32_t *outlier_sums
    void *partial
    int32_t *tile
    int64_t *ao
    int64_t *row_term
    int32_t *row_init
    int32_t *co_row
    uint32_t *a_tail
    float *row_scale                    # of the rows of a source,
    int64_t *zeros                      # and their zero points
    size_t shared_size, thread_size


cdef bint has_ao(const Gemm *g) noexcept nogil:
    return g.ao != 0 or zero_by_row(g)


cdef bint has_bo(const Gemm *g) noexcept nogil:
    return g.bo != 0 or g.bo_cols is not NULL


# Scalar zero points go into the start values of the tiles, except where these would wrap; the rest is left to the
# output stage as an outer product.
cdef bint outer_ao(const Gemm *g, const Plan *p) noexcept nogil:
    return zero_by_row(g) or (p.wide and g.ao != 0)


cdef bint outer_bo(const Gemm *g, const Plan *p) noexcept nogil:
    return g.bo_cols is not NULL or (p.wide and g.bo != 0)


cdef bint has_col_init(const Gemm *g, const Plan *p) noexcept nogil:
    if g.col_init is not NULL and not p.from_registers:
        return False
    return (g.ao != 0 and not outer_ao(g, p)) or (p.from_registers and g.co_cols is not NULL)


cdef bint has_row_init(const Gemm *g, const Plan *p) noexcept nogil:
    return (g.bo != 0 and not outer_bo(g, p)) or (p.from_registers and (g.co != 0 or g.co_rows is not NULL))


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
    w.col_sums = <int64_t *>carve(&memory, 8 * columns if plain and has_ao(g) else 0)
    w.certified = <uint8_t *>carve(&memory, p.slab if plain and p.may_widen else 0)
    w.col_init = <int32_t *>carve(&memory, 4 * columns if has_col_init(g, p) else 0)
    w.bo = <int64_t *>carve(&memory, 8 * columns if outer_bo(g, p) else 0)
    w.shared_size = memory - start

    cdef size_t mc = min(p.mc, g.m), kc = p.kc
    memory += w.thread_size * thread
    start = memory
    w.a = <uint8_t *>carve(&memory, 0 if p.direct_a else mc * made_row(kc // 4))
    w.a_wide = <uint16_t *>carve(&memory, sizeof(uint16_t) * mc * wide_row(kc // 4) if p.may_widen else 0)
    w.b_wide = <int16_t *>carve(&memory, sizeof(int16_t) * g.kernels.np * I8_PANEL * kc if p.may_widen else 0)
    w.a_columns = <uint8_t *>carve(&memory, round_up(mc, COLUMN_ROWS) * round_up(kc, COLUMN_K) if p.splits else 0)
    w.outlier_sums = <int32_t *>carve(&memory, 4 * mc * p.np * I8_PANEL if p.splits else 0)
    w.partial = carve(&memory, mc * p.nc * I8_PANEL * (8 if p.wide else 4) if p.k_blocks > 1 or p.wide else 0)
    w.tile = <int32_t *>carve(&memory, 4 * max(I8_MAX_TILE, GATHERED) if p.wide or not p.from_registers else 0)
    w.ao = <int64_t *>carve(&memory, 8 * mc if outer_ao(g, p) else 0)
    w.row_term = <int64_t *>carve(&memory, 8 * mc if has_bo(g) else 0)
    w.row_init = <int32_t *>carve(&memory, 4 * mc if has_row_init(g, p) else 0)
    w.co_row = <int32_t *>carve(&memory, 4 * mc if not p.from_registers and g.co != 0 else 0)
    w.a_tail = <uint32_t *>carve(&memory, 4 * mc if p.direct_a and g.k % 4 else 0)
    w.row_scale = <float *>carve(&memory, 4 * mc if g.source is not NULL else 0)
    w.zeros = <int64_t *>carve(&memory, 8 * mc if w.row_scale is not NULL else 0)
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
        g.kernels.pack_panels(<uint8_t *>data, s.panel_size, columns, s.k, g.b + column * g.b_col + s.k0 * g.b_row,
                              g.b_col, g.b_row, g.b_flip)
        if w.col_sums is not NULL:
            for i in range(panels):
                g.kernels.panel_sums(<int64_t *>sums + i * I8_PANEL, data + i * s.panel_size, ceil_div(s.k, 4))
        if w.certified is not NULL:
            for i in range(panels):
                w.certified[first + i] = g.kernels.panel_certified(data + i * s.panel_size, ceil_div(s.k, 4))
    if w.bo is not NULL:
        for i in range(columns):
            w.bo[first * I8_PANEL + i] = g.bo if g.bo_cols is NULL else g.bo_cols[column + i]
    if w.col_init is not NULL:
        init = w.col_init + first * I8_PANEL
        for i in range(panels * I8_PANEL):
            init[i] = 0 if g.ao_rows is not NULL or g.ao == 0 else <int32_t>(<uint32_t>-g.ao * <uint32_t>sums[i])
        if p.from_registers and g.co_cols is not NULL and s.k0 == 0:
            for i in range(columns):
                init[i] = <int32_t>(<uint32_t>init[i] + <uint32_t>g.co_cols[column + i])


cdef void prepare_rows(const Gemm *g, const Plan *p, const Workspace *w, int64_t row, int64_t rows) noexcept nogil:
    """Row vectors of the block of A that begins at `row`."""
    cdef int64_t i
    cdef const int64_t *zeros
    cdef uint32_t init
    if w.row_term is not NULL:
        g.kernels.row_sums(w.row_term, rows, g.k, g.a + row * g.a_row, g.a_row, g.a_col, g.a_flip)
        for i in range(rows):
            w.row_term[i] -= g.k * zero_of_row(g, row + i)
    if w.row_scale is not NULL:
        source_parameters(g, row, rows, w.row_scale, w.zeros)
    if w.ao is not NULL:
        zeros = g.ao_rows + row if g.ao_rows is not NULL else w.zeros
        for i in range(rows):
            w.ao[i] = zeros[i] if zero_by_row(g) else g.ao
    if w.co_row is not NULL:
        for i in range(rows):
            w.co_row[i] = g.co
    if w.row_init is not NULL:
        for i in range(rows):
            init = 0
            if g.bo != 0 and w.row_term is not NULL and not outer_bo(g, p):
                init -= <uint32_t>g.bo * <uint32_t>w.row_term[i]
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
            tail[4 * i + j] = g.a[(row + i) * g.a_row + first + j]


cdef inline ptrdiff_t made_row(int64_t groups) noexcept nogil:
    """Bytes from one row of an A' that is made to the next; not a power of two, as in packed_size."""
    return groups * 4 + ALIGNMENT


cdef inline ptrdiff_t wide_row(int64_t groups) noexcept nogil:
    """The same in elements, for rows that are widened."""
    return groups * 4 + ALIGNMENT // <ptrdiff_t>sizeof(uint16_t)


cdef void pack_rows(const Gemm *g, const Plan *p, const Workspace *w, int64_t row, int64_t rows, int64_t k0,
                    int64_t k) noexcept nogil:
    """A block of A into micro-panels, one for each tile of rows; or as rows, where it is in no memory."""
    cdef int64_t tiles = ceil_div(rows, p.mr), i, first, groups = ceil_div(k, 4)
    cdef int height, some, t
    cdef int starts[PACKED_TILES + 1]
    if g.image is not NULL:
        g.kernels.im2col(w.a, made_row(groups), g.image, row, rows, k0, k, g.a_flip)
        return
    if g.source is not NULL:
        quantize_rows(g, w.a, made_row(groups), row, rows, k0, k, w.row_scale, w.zeros)
        return
    if g.a_row == 1 and g.a_col != 1:
        i = 0
        while i < tiles:
            some = <int>min(<int64_t>PACKED_TILES, tiles - i)
            first = share(rows, i, tiles)
            for t in range(some + 1):
                starts[t] = <int>(share(rows, i + t, tiles) - first)
            g.kernels.pack_tiles(w.a + first * groups * 4, starts, some, k, g.a + row + first + k0 * g.a_col, g.a_col,
                                 g.m - row - first, g.a_flip)
            i += some
        return
    for i in range(tiles):
        first = share(rows, i, tiles)
        height = <int>(share(rows, i + 1, tiles) - first)
        g.kernels.pack_panel(w.a + first * groups * 4, height, height, k,
                             g.a + (row + first) * g.a_row + k0 * g.a_col, g.a_row, g.a_col, g.a_flip)


cdef void widen_rows(const Gemm *g, const Plan *p, const Workspace *w, int64_t row, int64_t rows, int64_t k0,
                     int64_t k) noexcept nogil:
    """A block of A as s16, in rows: from where it lies, if it has contiguous rows, or from the packed block."""
    cdef int64_t tiles = ceil_div(rows, p.mr), groups = ceil_div(k, 4), i, first, height
    cdef ptrdiff_t dst_row = wide_row(groups)
    if is_made(g):
        g.kernels.widen_a(w.a_wide, dst_row, w.a, made_row(groups), I8_GROUP, rows, groups * 4, 0)
    elif has_contiguous_rows(g):
        g.kernels.widen_a(w.a_wide, dst_row, g.a + row * g.a_row + k0, g.a_row, I8_GROUP, rows, k, g.a_flip)
    else:
        for i in range(tiles):
            first = share(rows, i, tiles)
            height = share(rows, i + 1, tiles) - first
            g.kernels.widen_a(w.a_wide + first * dst_row, dst_row, w.a + first * groups * 4, 4, 4 * height, height,
                              groups * 4, 0)


cdef void turn_rows(const Gemm *g, const Workspace *w, int64_t row, int64_t rows, int64_t k0, int64_t k) noexcept nogil:
    """A block of A by columns, from where it lies."""
    cdef int64_t columns = round_up(k, COLUMN_K)
    if is_made(g):
        g.kernels.columns_of(w.a_columns, columns, w.a, made_row(ceil_div(k, 4)), 1, rows, k, 0)
    else:
        g.kernels.columns_of(w.a_columns, columns, g.a + row * g.a_row + k0 * g.a_col, g.a_row, g.a_col, rows, k,
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
        g.kernels.multiply_outliers(&t)


cdef inline void add_tile(int64_t *total, const int32_t *tile, int size, bint first) noexcept nogil:
    cdef int i
    for i in range(size):
        total[i] = (0 if first else total[i]) + tile[i]


cdef inline void set_output(const Gemm *g, const Workspace *w, i8_tile_output *out, int64_t block, int64_t row,
                            int64_t column) noexcept nogil:
    """The output stage of a micro-kernel, for a tile at a row of the block and a column."""
    cdef int64_t at = block + row
    set_tile_output(g, out, column)
    out.row_scale = w.row_scale + row if w.row_scale is not NULL else NULL
    if g.row_scales is not NULL:
        out.row_scale = g.row_scales + at
    if g.c_line == 0:
        out.c = g.c + at * g.c_row
    else:
        out.c = g.c + at // g.c_line * g.c_line_step + at % g.c_line * g.c_row
    out.c += column * g.c_col
    out.c_row = g.c_row


cdef void multiply_spans(const Gemm *g, const i8_tile_args *tile, const Span *spans, int count, int dot, int height,
                         int width) noexcept nogil:
    """A tile of a made A, in the spans of its K alone: its sums lie in dst between them."""
    cdef i8_tile_args t = tile[0]
    cdef ptrdiff_t row = width * I8_PANEL
    cdef int size = 2 if dot == I8_DOT2 else 1
    cdef int i
    for i in range(count):
        t.a = tile.a + spans[i].row * tile.a_row + spans[i].k0 * size
        t.b = tile.b + spans[i].k0 * size * I8_PANEL
        t.groups = ceil_div(spans[i].k, 4) * size
        if i > 0:
            t.acc_in, t.acc_row = tile.dst + spans[i].row * row, row
            t.row_init = t.col_init = NULL
            t.fetch = t.ahead = NULL
        if i < count - 1:
            t.dst, t.dst_row, t.cols, t.output = tile.dst + spans[i].row * row, row, <int>row, NULL
        else:
            t.dst, t.dst_row, t.cols, t.output = tile.dst, tile.dst_row, tile.cols, tile.output
        g.kernels.tile[dot][spans[i].rows - 1][width - 1](&t)


cdef void double_sums(const i8_output_args *o) noexcept nogil:
    """The sums of a tile twice as large."""
    cdef int i, j
    for i in range(o.rows):
        for j in range(o.cols):
            if o.acc64 is NULL:
                (<uint32_t *>o.acc32)[i * o.acc_row + j] *= 2
            else:
                (<int64_t *>o.acc64)[i * o.acc_row + j] *= 2


cdef void store_rows(const Gemm *g, i8_output_args *o) noexcept nogil:
    """The output stage of a tile: all of its rows at once, or those of each line of C."""
    cdef i8_output_args part
    cdef int64_t row
    cdef int done = 0
    o.c = g.c + o.row * g.c_row + o.column * g.c_col
    if g.c_line == 0:
        g.kernels.output(o)
        return
    while done < o.rows:
        row = o.row + done
        part = i8_part_of(o, done, 0, <int>min(<int64_t>(o.rows - done), g.c_line - row % g.c_line), o.cols)
        part.c = g.c + row // g.c_line * g.c_line_step + row % g.c_line * g.c_row + o.column * g.c_col
        g.kernels.output(&part)
        done += part.rows


cdef int dot_of(const Gemm *g, const Plan *p, const Slab *s, int64_t panel, int width) noexcept nogil:
    """The dot for `width` panels of the slab."""
    cdef int dot = I8_DOT4_SAT if g.saturating or p.may_widen else g.kernels.exact, x
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


cdef inline void set_vectors(const Gemm *g, const Workspace *w, const Slab *s, i8_output_args *o, int64_t block,
                             int64_t row, int64_t panel) noexcept nogil:
    """What belongs to the rows and columns of a tile: it begins at a row of a block of rows and a panel of the slab."""
    o.row, o.column = block + row, (s.first + panel) * I8_PANEL
    o.ao = w.ao + row if w.ao is not NULL else NULL
    o.col_sum = s.col_sums + panel * I8_PANEL if w.ao is not NULL else NULL
    o.bo = s.bo + panel * I8_PANEL if s.bo is not NULL else NULL
    o.row_term = w.row_term + row if s.bo is not NULL else NULL
    o.co_row = w.co_row + row if w.co_row is not NULL else NULL
    if g.co_rows is not NULL:
        o.co_row = g.co_rows + o.row
    o.co_col = g.co_cols + o.column if g.co_cols is not NULL else NULL
    o.row_scale = w.row_scale + row if w.row_scale is not NULL else NULL
    if g.row_scales is not NULL:
        o.row_scale = g.row_scales + o.row


cdef void multiply_tiles(const Gemm *g, const Plan *p, const Workspace *w, const Slab *s, int64_t row, int64_t rows,
                         int64_t panel, int64_t panels, int64_t k_block) noexcept nogil:
    """All tiles of one block: `rows` rows of A, `panels` panels of the slab, one block of K."""
    cdef int64_t k0 = k_block * p.kc, k = min(p.kc, g.k - k0), groups = ceil_div(k, 4)
    cdef bint first_block = k_block == 0, last_block = k_block == p.k_blocks - 1
    cdef int64_t row_tiles = ceil_div(rows, p.mr), column_tiles = ceil_div(panels, p.np)
    cdef int64_t i, j, r, c, column
    cdef int height, width, dot, x
    cdef bint a_is_packed = p.direct_a, a_is_wide = False, a_is_turned = False, to_output
    # Where there is one tile of rows, the output stage has several tiles of columns, from panel `first` on, at a time.
    cdef bint gathers = (
        g.stage is not NULL and last_block and row_tiles == 1 and not p.wide and not p.to_output and not p.skips
    )
    cdef int64_t gathered_row = GATHERED // rows // I8_PANEL * I8_PANEL, first = panel
    # Otherwise it has several tiles of rows, from row `top` on: columns that are turned are longer then, and what is
    # set up for the columns of a tile serves more rows.
    cdef bint stacks = (
        (p.turned or g.stage is NULL) and last_block and not p.wide and not gathers and not p.from_registers
    )
    cdef int64_t top
    cdef int32_t *partial
    cdef int32_t *outlier_sums
    cdef i8_tile_args t
    cdef i8_output_args o
    cdef i8_tile_output out
    cdef Span spans[MAX_SPANS]
    cdef Place block, at
    cdef int count

    o.stage = g.stage
    o.alpha, o.beta = g.alpha, g.beta
    o.integral = g.alpha == 1 and (g.beta == 0 or g.beta == 1)
    o.c_row, o.c_col = g.c_row, g.c_col
    t.more_segments = 0
    t.fetch = NULL
    t.fetch_row = g.c_row
    t.output = NULL
    t.row_init = t.col_init = t.acc_in = NULL
    if p.skips:
        block = place_of(g.image, row)

    for j in range(column_tiles):
        c = panel + share(panels, j, column_tiles)
        width = <int>(panel + share(panels, j + 1, column_tiles) - c)
        column = (s.first + c) * I8_PANEL

        dot = dot_of(g, p, s, c, width)
        outlier_sums = NULL
        t.b = s.data if dot != I8_DOT8 else g.split.dense
        t.b += c * s.panel_size + (k0 - s.k0) * I8_PANEL
        t.b_panel = s.panel_size
        t.groups = groups
        t.ahead = <const char *>t.b + width * t.b_panel if p.fetch_b and j + 1 < column_tiles else NULL
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
                g.kernels.widen_b(w.b_wide + x * groups * 4 * I8_PANEL, t.b + x * t.b_panel, groups)
            t.b = <const int8_t *>w.b_wide
            t.b_panel = groups * 8 * I8_PANEL
            t.groups = 2 * groups
            t.ahead_step //= 2

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
        top = 0
        for i in range(row_tiles):
            r = share(rows, i, row_tiles)
            height = <int>(share(rows, i + 1, row_tiles) - r)
            if dot == I8_DOT2:
                t.a = <const uint8_t *>(w.a_wide + r * wide_row(groups))
                t.a_row = wide_row(groups) * <ptrdiff_t>sizeof(uint16_t)
                t.a_group = 4
            elif p.direct_a:
                t.a = g.a + (row + r) * g.a_row + k0
                t.a_row = g.a_row
                t.a_group = 4
                t.groups = k // 4
                t.a_tail = w.a_tail + r if k % 4 else NULL
            elif is_made(g):
                t.a, t.a_row, t.a_group = w.a + r * made_row(groups), made_row(groups), 4
            else:
                t.a = w.a + r * groups * 4
                t.a_row = 4
                t.a_group = 4 * height

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
            to_output = (
                last_block and p.to_output and column + t.cols <= g.n
                and (g.c_line == 0 or (row + r) // g.c_line == (row + r + height - 1) // g.c_line)
            )
            t.output = &out if to_output else NULL
            if to_output:
                set_output(g, w, &out, row, r, column)
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
                multiply_spans(g, &t, spans, count, dot, height, width)
            else:
                g.kernels.tile[dot][height - 1][width - 1](&t)
            t.ahead = NULL
            if to_output:
                first = c + width
                continue

            if p.wide:
                add_tile(<int64_t *>partial, w.tile, x, first_block)
            if not stacks:
                top = r
            elif i + 1 < row_tiles and (r + height - top + p.mr) * width * I8_PANEL <= GATHERED:
                continue
            if not gathers:
                first = c
            elif j + 1 < column_tiles and (c + width - first + p.np) * I8_PANEL <= gathered_row:
                continue
            if last_block and not p.from_registers:
                o.rows = <int>(r + height - top)
                o.cols = <int>min((c + width - first) * I8_PANEL, g.n - (s.first + first) * I8_PANEL)
                o.acc32 = NULL if p.wide else w.tile
                o.acc64 = <const int64_t *>partial if p.wide else NULL
                o.acc_row = t.dst_row
                set_vectors(g, w, s, &o, row, top, first)
                if g.doubled:
                    double_sums(&o)
                store_rows(g, &o)
                first, top = c + width, r + height


cdef void multiply_piece(const Gemm *g, const Plan *p, const Workspace *w, const Slab *s,
                         const Piece *piece) noexcept nogil:
    """A rectangle of tiles of rows and of panels of the slab."""
    cdef int64_t row, row_end = min(piece.row_end * p.mr, g.m), rows, panels, k_block
    cdef int64_t panel = piece.column * g.kernels.np, panel_end = min(piece.column_end * g.kernels.np, s.panels)
    while panel < panel_end:
        panels = min(p.nc, panel_end - panel)
        row = piece.row * p.mr
        while row < row_end:
            rows = min(p.mc, row_end - row)
            if s.first_block == 0:
                prepare_rows(g, p, w, row, rows)
            if w.a_tail is not NULL:
                prepare_tail(g, w, row, rows)
            for k_block in range(s.first_block, s.end_block):
                multiply_tiles(g, p, w, s, row, rows, panel, panels, k_block)
            row += rows
        panel += panels


cdef void multiply_part(const Gemm *g, const Plan *p, const Workspace *shared, const Slab *s, int part,
                        char *memory) noexcept nogil:
    """What one thread does of a slab."""
    cdef Workspace w = shared[0]
    cdef Grid grid = p.grid
    cdef Piece pieces[MAX_PIECES]
    cdef int i
    lay_out(g, p, &w, memory, part)
    grid.columns = ceil_div(s.panels, g.kernels.np)
    for i in range(pieces_of(&grid, part, pieces)):
        multiply_piece(g, p, &w, s, &pieces[i])


cdef size_t thread_bytes(const Gemm *g, const Plan *p) noexcept nogil:
    """Workspace of one thread, besides the panels of a plain B, which all share."""
    cdef Workspace w
    w.thread_size = 0
    lay_out(g, p, &w, <char *>ALIGNMENT, 0)
    return w.thread_size


cdef int gemm_blocks(const Gemm *g, const Plan *p) noexcept nogil:
    """The problem in blocks, by the threads of the plan. 0, or -1 if there is no memory."""
    cdef Workspace w
    cdef Slab s
    cdef char *memory
    cdef int64_t i, steps
    cdef int part, parts = part_count(&p.grid)
    w.thread_size = 0
    lay_out(g, p, &w, <char *>ALIGNMENT, 0)  # for the sizes
    memory = <char *>acquire(w.shared_size + parts * w.thread_size)
    if memory is NULL:
        return -1
    lay_out(g, p, &w, memory, 0)
    s.first = s.first_block = 0
    while s.first < p.panels:
        s.panels = min(p.slab, p.panels - s.first)
        s.end_block = min(s.first_block + p.slab_blocks, p.k_blocks)
        s.k0 = s.first_block * p.kc
        s.k = min(s.end_block * p.kc, g.k) - s.k0
        s.panel_size = packed_size(s.k) if g.packed is NULL else g.panel_size
        s.data = <int8_t *>w.data if g.packed is NULL else <int8_t *>g.packed
        s.col_sums = w.col_sums if g.packed is NULL else <int64_t *>g.col_sums
        s.certified = w.certified if g.packed is NULL else <uint8_t *>g.certified
        s.col_init = w.col_init
        if g.col_init is not NULL and not p.from_registers and not outer_ao(g, &p[0]):
            s.col_init = <int32_t *>g.col_init + s.first * I8_PANEL
        s.bo = w.bo
        if parts == 1:
            if w.shared_size > 0:
                prepare_panels(g, p, &w, &s, 0, s.panels)
            multiply_part(g, p, &w, &s, 0, memory)
        else:
            steps = ceil_div(s.panels, PREPARE_PANELS) if w.shared_size > 0 else 0
            with parallel(num_threads=parts):
                for part in prange(parts, schedule="static"):
                    i = share(steps, part, parts) * PREPARE_PANELS
                    prepare_panels(g, p, &w, &s, i,
                                   min(share(steps, part + 1, parts) * PREPARE_PANELS, s.panels) - i)
                for part in prange(parts, schedule="static"):
                    multiply_part(g, p, &w, &s, part, memory)
        s.first_block = s.end_block
        if s.first_block == p.k_blocks:
            s.first_block = 0
            s.first += s.panels
    release(memory)
    return 0
