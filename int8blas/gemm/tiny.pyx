"""Very small problems: everything on the stack, one thread, no plan.

The same tiles as in ``blocks``, for problems whose time is otherwise spent on deciding how to compute them.
"""

from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t, uint32_t, uintptr_t
from libc.string cimport memcpy, memset

from int8blas.core.kernels cimport (
    I8_DOT4,
    I8_DOT4_SAT,
    I8_GROUP,
    I8_MAX_COLUMNS,
    I8_PANEL,
    i8_kernels,
    i8_output_args,
    i8_tile_args,
    i8_tile_output,
    tile_panels,
)
from int8blas.core.split cimport equal_parts, round_up
from int8blas.gemm.operand cimport has_zero, zero_of
from int8blas.gemm.output cimport output
from int8blas.gemm.plan cimport (
    TINY_COLUMNS,
    TINY_K,
    UPPER,
    WHOLE,
    Gemm,
    can_widen,
    is_product,
    stores_transposed,
    set_tile_output,
    tile_rows,
)
from int8blas.gemm.triangle cimport TINY_TRIANGLE

cdef enum:
    # Sums of several tiles of rows, at most I8_MAX_COLUMNS rows, that go to C together.
    STACKED_SUMS = I8_MAX_COLUMNS * I8_PANEL
    # Bytes of rows of A, at most I8_MAX_COLUMNS of them, that are copied together.
    COPIED_BYTES = 4096


cdef void gemm_tiny(const Gemm *g) noexcept nogil:
    """C := sat(rne(alpha * (A - ao) @ (B - bo) + beta * C + co)) for a problem that is_tiny."""
    cdef uint8_t b_memory[TINY_K * TINY_COLUMNS + 64]
    cdef uint8_t a_memory[COPIED_BYTES + I8_GROUP]
    cdef uint32_t a_tail[I8_MAX_COLUMNS]
    cdef int32_t col_init[TINY_COLUMNS]
    cdef int64_t col_sums[TINY_COLUMNS]
    cdef int32_t row_init[I8_MAX_COLUMNS]
    cdef int64_t row_terms[I8_MAX_COLUMNS]
    cdef int32_t stacked[STACKED_SUMS]
    cdef int m = <int>g.m, n = <int>g.n, i = 0, height, rows
    cdef int64_t r = 0
    cdef int dot = I8_DOT4_SAT if g.saturating else I8_DOT4
    cdef bint widens = can_widen(g) and g.n % I8_PANEL == 0
    cdef bint finishes = not widens and not is_product(g)
    cdef bint stacks = finishes or stores_transposed(g)
    cdef int mr = tile_rows(g, not stacks), tiles = parts(m, mr)
    cdef const int8_t *b = g.packed
    cdef const int32_t *init = col_init if g.a.zero != 0 and g.a.zeros is NULL else NULL
    cdef const uint8_t *a
    cdef int32_t *dst
    cdef int row = <int>round_up(n, I8_PANEL), top = 0
    cdef i8_tile_args t
    cdef i8_output_args o
    cdef i8_tile_output out

    start_tiles(g, &t)
    t.dst_row = row if stacks else g.c_row // <int>sizeof(int32_t)
    if b is NULL:
        b = <const int8_t *>((<uintptr_t>b_memory + 63) & ~<uintptr_t>63)
        g.kernels.packing.pack_panels(<uint8_t *>b, t.b_panel, n, g.k, g.b.data, g.b.column, g.b.row, g.b.flip)
    if has_zero(&g.a):
        sum_columns(g, &t, b, col_sums, col_init)
    if finishes:
        memset(&o, 0, sizeof(o))
    if g.a.column == 1:
        t.groups = g.k // I8_GROUP
        t.a_tail = a_tail if g.k % I8_GROUP else NULL
    if widens:
        set_tile_output(g, &out, 0)
        out.c_row = g.c_row
        t.output = &out
    while i < tiles:
        # Tiles of one height that lie below each other, as many as are prepared together.
        t.tiles, height = 1, m
        if tiles > 1:
            t.tiles = equal_parts(m, i, tiles, &r, &height)
            t.tiles = together(g, t.tiles, height, STACKED_SUMS // row - (r - top) if stacks else m)
        rows = <int>t.tiles * height
        a = g.a.data + r * g.a.row
        if has_zero(&g.b):
            sum_rows(g, a, r, rows, &row_terms[r - top], row_init)
            t.row_init = row_init if g.b.zeros is NULL else NULL
        set_rows(g, &t, a, height, rows, a_memory, a_tail)
        dst = &stacked[(r - top) * row] if stacks else <int32_t *>(g.c + r * g.c_row)
        out.c = g.c + r * g.c_row
        multiply(g.kernels, dot, height, &t, &out, b, init, dst, n)
        i += <int>t.tiles
        r += rows
        if stacks and r < m and (r - top + mr) * row <= STACKED_SUMS:
            continue
        if finishes:
            if g.a.zeros is not NULL:
                o.ao, o.col_sum = g.a.zeros + top, col_sums
            if g.b.zeros is not NULL:
                o.bo, o.row_term = g.b.zeros, row_terms
            output(g, &o, stacked, r - top, n, row, top, 0)
        elif stacks:
            g.kernels.stage.transpose_store(g.c + top * g.c_row, g.c_row, g.c_col, <const char *>stacked,
                                            row * sizeof(int32_t), r - top, n, sizeof(int32_t))
        top = r


cdef void gemm_tiny_triangle(const Gemm *g) noexcept nogil:
    """A triangle of C, of all of C, for a problem that is_tiny_triangle."""
    cdef int32_t results[TINY_TRIANGLE * TINY_TRIANGLE]
    cdef Gemm whole = g[0]
    cdef int64_t n = g.n, row, j, first, end
    cdef char *c
    whole.triangle = WHOLE
    whole.c, whole.c_row, whole.c_col = <char *>results, n * <int64_t>sizeof(int32_t), sizeof(int32_t)
    gemm_tiny(&whole)
    for row in range(n):
        first, end = (row, n) if g.triangle == UPPER else (<int64_t>0, row + 1)
        c = g.c + row * g.c_row
        if g.c_col == sizeof(int32_t):
            memcpy(c + first * <int64_t>sizeof(int32_t), results + row * n + first, (end - first) * sizeof(int32_t))
            continue
        for j in range(first, end):
            (<int32_t *>(c + j * g.c_col))[0] = results[row * n + j]


cdef inline void start_tiles(const Gemm *g, i8_tile_args *t) noexcept nogil:
    """What all tiles have in common."""
    cdef int groups = (<int>g.k + 3) // 4
    t.acc_in = NULL
    t.fetch = t.ahead = NULL
    t.output = NULL
    t.row_init = NULL
    t.a_tail = NULL
    t.more_segments = t.beside = t.in_turn = 0
    t.b_panel = groups * 4 * I8_PANEL if g.packed is NULL else g.panel_size
    t.groups = groups


cdef inline int64_t together(const Gemm *g, int64_t tiles, int height, int64_t room) noexcept nogil:
    """How many of some tiles of `height` rows are prepared together, if there is room for the sums of so many rows."""
    if g.a.column != 1:
        return 1
    if g.k % I8_GROUP or has_zero(&g.b) or g.a.flip:
        room = min(room, <int64_t>I8_MAX_COLUMNS)
        if tiles * height * g.k > COPIED_BYTES:
            room = min(room, COPIED_BYTES // g.k)
    # Most often all of them, which needs no division of 64 bits.
    return tiles if tiles * height <= room else max(<int64_t>1, room // height)


cdef inline void set_rows(const Gemm *g, i8_tile_args *t, const uint8_t *a, int height, int rows, uint8_t *memory,
                          uint32_t *tails) noexcept nogil:
    """A for tiles of `height` rows, `rows` in all: in place, or copied to where it is as the kernels read it."""
    cdef int j, k = <int>g.k, tail = k % I8_GROUP
    if g.a.column != 1:
        g.kernels.packing.pack_panel(memory, height, height, k, a, g.a.row, g.a.column, g.a.flip)
        t.a, t.a_row, t.a_group = memory, 4, 4 * height
        return
    t.a, t.a_row, t.a_group = a, g.a.row, 4
    if g.a.flip:
        flip_rows(g, memory, a, rows)
        t.a, t.a_row = memory, k
    t.a_tile = height * t.a_row
    if tail:
        for j in range(rows):
            tails[j] = last_bytes(t.a + j * t.a_row + k - tail, tail)


cdef inline int parts(int count, int largest) noexcept nogil:
    """How many parts of at most `largest` make `count`."""
    return 1 if count <= largest else (count + largest - 1) // largest


cdef inline int part(int count, int i, int parts) noexcept nogil:
    """The size of part `i` of `count` things that are split evenly."""
    return count if parts == 1 else count // parts + (i < count % parts)


cdef inline void multiply(const i8_kernels *kernels, int dot, int height, i8_tile_args *t, i8_tile_output *out,
                          const int8_t *b, const int32_t *col_init, int32_t *dst, int n) noexcept nogil:
    """One row of tiles, `n` columns, for what `t` says about A, to `dst`, or as s64 to out's c if `t` has that."""
    cdef int panels = (n + I8_PANEL - 1) // I8_PANEL, tiles = parts(panels, tile_panels(kernels, height))
    cdef int i, width
    for i in range(tiles):
        width = part(panels, i, tiles)
        t.b, t.col_init, t.dst, t.cols = b, col_init, dst, min(width * I8_PANEL, n)
        kernels.gemm.tiles[dot].of[height - 1][width - 1](t)
        b += width * t.b_panel
        dst += width * I8_PANEL
        if t.output is not NULL:
            out.c += width * I8_PANEL * <int>sizeof(int64_t)
        n -= width * I8_PANEL
        if col_init is not NULL:
            col_init += width * I8_PANEL


cdef inline void sum_columns(const Gemm *g, i8_tile_args *t, const int8_t *b, int64_t *sums,
                             int32_t *init) noexcept nogil:
    """The column sums of packed B, and -ao times them."""
    cdef uint32_t ones = 0x01010101
    cdef int n = <int>round_up(g.n, I8_PANEL)
    cdef int i
    if g.col_sums is not NULL:
        for i in range(n):
            sums[i] = g.col_sums[i]
    else:
        # The product of a row of ones and B, which saturates nowhere: pair sums are at most 2 * 128.
        t.a, t.a_row, t.a_group = <const uint8_t *>&ones, 0, 0
        t.tiles = 1
        multiply(g.kernels, I8_DOT4 if g.kernels.gemm.exact == I8_DOT4 else I8_DOT4_SAT, 1, t, NULL, b, NULL, init, n)
        for i in range(n):
            sums[i] = init[i]
    for i in range(n):
        init[i] = <int32_t>(<uint32_t>-g.a.zero * <uint32_t>sums[i])


cdef inline void sum_rows(const Gemm *g, const uint8_t *a, int row, int rows, int64_t *terms,
                          int32_t *init) noexcept nogil:
    """The sums of a few rows of A - ao, and -bo times them."""
    cdef int i
    g.kernels.packing.row_sums(terms, rows, g.k, a, g.a.row, g.a.column, g.a.flip)
    for i in range(rows):
        terms[i] -= g.k * zero_of(&g.a, row + i)
        init[i] = <int32_t>(<uint32_t>-g.b.zero * <uint32_t>terms[i])


cdef inline void flip_rows(const Gemm *g, uint8_t *dst, const uint8_t *a, int rows) noexcept nogil:
    """A few rows of A', side by side, from rows of A that are contiguous."""
    cdef int i, k = <int>g.k
    if g.a.row == k:
        g.kernels.packing.pack_panel(dst, 1, 1, rows * k, a, 0, 1, g.a.flip)
        return
    # A row is padded with zeros to a multiple of 4, which the next one overwrites.
    for i in range(rows):
        g.kernels.packing.pack_panel(dst + i * k, 1, 1, k, a + i * g.a.row, 0, 1, g.a.flip)


cdef inline uint32_t last_bytes(const uint8_t *p, int count) noexcept nogil:
    """`count` bytes, 1 to 3, padded with zeros."""
    cdef uint32_t x = 0
    cdef uint8_t *bytes_ = <uint8_t *>&x
    bytes_[0] = p[0]
    if count > 1:
        bytes_[1] = p[1]
    if count > 2:
        bytes_[2] = p[2]
    return x
