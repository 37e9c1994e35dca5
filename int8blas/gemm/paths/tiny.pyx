"""The path for very small problems. The path keeps all data on the stack, uses one thread and needs no plan.

The path uses the micro-kernels of ``blocks``. Planning would take most of the time of a very small problem.
"""

from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t, uint32_t
from libc.string cimport memcpy, memset

from int8blas.core.kernels cimport (
    I8_BLAS, I8_DISTANCES, I8_DOT4, I8_DOT4_SAT, I8_GROUP, I8_MAX_COLUMNS, I8_PANEL, I8_STACK_UNIT, i8_epilogue,
    i8_kernels, i8_output_args, i8_tile_args, i8_tile_output, tile_panels)
from int8blas.core.memory cimport ALIGNMENT, aligned
from int8blas.core.split cimport equal_parts, round_up
from int8blas.gemm.operand cimport has_zero
from int8blas.gemm.output cimport output
from int8blas.gemm.path cimport Description, Path, as_capsule
from int8blas.gemm.paths.sizes cimport (
    TINY_A_BYTES, TINY_B_BYTES, TINY_COLUMNS, TINY_TRIANGLE, WHOLE_ROWS, is_tiny, is_tiny_triangle)
from int8blas.gemm.paths.triangle cimport takes_triangle
from int8blas.gemm.problem cimport (
    UPPER, WHOLE, applies_from_registers, c_element_bytes, find_row_terms, is_product, set_tile_output,
    stores_transposed, tile_rows)

cdef enum:
    # The maximum number of sums that are stored to C together: several tiles along M, with up to I8_MAX_COLUMNS rows in
    # all.
    STACKED_SUMS = I8_MAX_COLUMNS * I8_PANEL


# Up to I8_MAX_COLUMNS rows of A in the form that kernels read, and vectors with a value for each row.
cdef struct RowsOfA:
    uint8_t bytes_[TINY_A_BYTES + I8_GROUP]
    uint32_t tails[I8_MAX_COLUMNS]
    int32_t init[I8_MAX_COLUMNS]
    int64_t terms[I8_MAX_COLUMNS]


# B in the form that kernels read, and the sums and start values of its columns.
cdef struct ColumnsOfB:
    uint8_t bytes_[TINY_B_BYTES + ALIGNMENT]
    int64_t sums[TINY_COLUMNS]
    int32_t init[TINY_COLUMNS]


cdef bint takes_tiny(const Problem *g, const Plan *p) noexcept nogil:
    """Return whether a problem is empty, or is tiny and not faster on the path `triangle`."""
    if is_tiny(g):
        return g.m < WHOLE_ROWS or not takes_triangle(g, p)
    return is_tiny_triangle(g) or g.m == 0 or g.n == 0


cdef int run_tiny(const Problem *g, const Plan *plan) noexcept nogil:
    """Compute a planned problem. Return 0."""
    if g.c.dry_run:
        return 0
    if g.c.half != WHOLE:
        multiply_triangle(g)
    elif g.epilogue.kind != I8_BLAS and is_stored_by_tiles(g):
        multiply_by_tiles(g)
    else:
        multiply_whole(g)
    return 0


cdef void describe_tiny(const Problem *g, const Plan *plan, Description *d) noexcept nogil:
    """Describe the plan: the size of a tile."""
    d.tile[0] = 1 if g.m == 1 else tile_rows(g, is_product(g) and not stores_transposed(g))
    d.tile[1] = tile_panels(g.kernels, g.m) * I8_PANEL


cdef void multiply_whole(const Problem *g) noexcept nogil:
    """Compute C := sat(rne(alpha * (A - ao) @ (B - bo) + beta * C + co)). Micro-kernels store C, or the epilogue takes
    the sums of several tiles together."""
    cdef RowsOfA rows
    cdef ColumnsOfB columns
    cdef int32_t stacked[STACKED_SUMS]
    cdef int m = <int>g.m, n = <int>g.n, i = 0, height
    cdef int64_t r = 0, count
    cdef int dot = I8_DOT4_SAT if g.saturating else I8_DOT4
    cdef bint finishes = not is_product(g), stacks = finishes or stores_transposed(g)
    cdef int mr = tile_rows(g, not stacks), tiles = parts(m, mr)
    cdef int row = <int>round_up(n, I8_PANEL), top = 0
    cdef const int8_t *b
    cdef const int32_t *init = start_of(g, &columns)
    cdef int32_t *dst
    cdef i8_tile_args t
    cdef i8_output_args o
    start_tile_args(g, &t)
    t.dst_row = row if stacks else g.c.row // <int>sizeof(int32_t)
    b = prepare(g, &t, &columns, &rows)
    if finishes:
        memset(&o, 0, sizeof(o))
    while i < tiles:
        count = m if tiles == 1 or not stacks else STACKED_SUMS // row - (r - top)
        height = take_rows(g, &t, &rows, i, tiles, count, r - top, &r)
        dst = &stacked[(r - top) * row] if stacks else <int32_t *>(g.c.data + r * g.c.row)
        multiply(g.kernels, dot, height, &t, b, init, dst, n)
        i += <int>t.tiles
        r += t.tiles * height
        if stacks and r < m and (r - top + mr) * row <= STACKED_SUMS:
            continue
        if finishes:
            if g.a.zero_points is not NULL:
                o.ao, o.col_sum = g.a.zero_points + top, columns.sums
            if g.b.zero_points is not NULL:
                o.bo, o.row_term = g.b.zero_points, rows.terms
            output(g, &o, stacked, <int>r - top, n, row, top, 0)
        elif stacks:
            g.kernels.stage.transpose_store(g.c.data + top * g.c.row, g.c.row, g.c.column, <const char *>stacked,
                                            row * sizeof(int32_t), r - top, n, sizeof(int32_t))
        top = <int>r


cdef bint is_stored_by_tiles(const Problem *g) noexcept nogil:
    """Return whether a micro-kernel applies the epilogue: distances, or s64 results in whole panels."""
    return applies_from_registers(g) and (g.epilogue.kind == I8_DISTANCES or g.n % I8_PANEL == 0)


cdef void multiply_by_tiles(const Problem *g) noexcept nogil:
    """Compute C by micro-kernels that apply the epilogue. Distances are stored in whole panels, and copied if C has
    fewer columns."""
    cdef RowsOfA rows
    cdef ColumnsOfB columns
    cdef int32_t copied[STACKED_SUMS]
    cdef int32_t squares[TINY_COLUMNS]
    cdef int m = <int>g.m, n = <int>g.n, i = 0, height, row = <int>round_up(n, I8_PANEL)
    cdef int64_t r = 0
    cdef bint copies = row != n
    cdef int tiles = parts(m, tile_rows(g, True))
    cdef const int8_t *b
    cdef i8_tile_args t
    cdef i8_tile_output whole, out
    cdef i8_epilogue padded
    start_tile_args(g, &t)
    t.dst_row = row  # the row that holds column sums
    b = prepare(g, &t, &columns, &rows)
    set_tile_output(g, &whole, 0, 0)
    whole.c_row = row * <int>sizeof(int32_t) if copies else g.c.row
    if copies:
        memcpy(squares, g.epilogue.co_cols, n * sizeof(int32_t))
        memset(squares + n, 0, (row - n) * sizeof(int32_t))
        padded = g.epilogue
        padded.co_cols = squares
        whole.epilogue = &padded
    t.output = &out
    while i < tiles:
        height = take_rows(g, &t, &rows, i, tiles, STACKED_SUMS // row if copies else m, 0, &r)
        out = whole
        out.c = <char *>copied if copies else g.c.data + r * g.c.row
        out.row = r
        multiply_to(g, height, &t, &out, b, start_of(g, &columns), row // I8_PANEL)
        if copies:
            g.kernels.stage.transpose_store(g.c.data + r * g.c.row, g.c.row, g.c.column, <const char *>copied,
                                            whole.c_row, t.tiles * height, n, sizeof(int32_t))
        i += <int>t.tiles
        r += t.tiles * height


cdef void multiply_triangle(const Problem *g) noexcept nogil:
    """Compute all of C, and store only a triangle."""
    cdef int32_t results[TINY_TRIANGLE * TINY_TRIANGLE]
    cdef Problem whole = g[0]
    cdef int64_t n = g.n, row, j, first, end
    cdef char *c
    whole.c.half = WHOLE
    whole.c.data, whole.c.row, whole.c.column = <char *>results, n * <int64_t>sizeof(int32_t), sizeof(int32_t)
    multiply_whole(&whole)
    for row in range(n):
        first, end = (row, n) if g.c.half == UPPER else (<int64_t>0, row + 1)
        c = g.c.data + row * g.c.row
        if g.c.column == sizeof(int32_t):
            memcpy(c + first * <int64_t>sizeof(int32_t), results + row * n + first, (end - first) * sizeof(int32_t))
            continue
        for j in range(first, end):
            (<int32_t *>(c + j * g.c.column))[0] = results[row * n + j]


cdef inline void start_tile_args(const Problem *g, i8_tile_args *t) noexcept nogil:
    """Set the arguments that all tiles share."""
    cdef int groups = (<int>g.k + 3) // 4
    t.acc_in = NULL
    t.fetch = t.ahead = NULL
    t.output = NULL
    t.row_init = NULL
    t.a.tail = NULL
    t.more_segments = t.a.segment = t.b.segment = 0
    t.along_n = t.sequential = 0
    t.b.panel = groups * 4 * I8_PANEL if g.panels.data is NULL else g.panels.step
    t.groups = groups


cdef inline const int32_t *start_of(const Problem *g, const ColumnsOfB *columns) noexcept nogil:
    """Return the start values of the columns, or NULL if there are none."""
    return columns.init if g.a.zero_point != 0 and g.a.zero_points is NULL else NULL


cdef inline const int8_t *prepare(const Problem *g, i8_tile_args *t, ColumnsOfB *columns, RowsOfA *rows) noexcept nogil:
    """Return B in panels, with its sums if the product needs them. Set the groups and the tail of the rows of A."""
    cdef const int8_t *b = g.panels.data
    if b is NULL:
        b = <const int8_t *>aligned(<char *>columns.bytes_)
        g.kernels.packing.pack_panels(<uint8_t *>b, t.b.panel, g.n, g.k, g.b.data, g.b.column, g.b.row, g.b.sign_flip)
    if has_zero(&g.a):
        sum_columns(g, t, b, columns.sums, columns.init)
    if g.a.column == 1:
        t.groups = g.k // I8_GROUP
        t.a.tail = rows.tails if g.k % I8_GROUP else NULL
    return b


cdef inline int take_rows(const Problem *g, i8_tile_args *t, RowsOfA *rows, int i, int tiles, int64_t room,
                          int64_t place, int64_t *first) noexcept nogil:
    """Prepare tiles of equal height along M, from tile `i` of `tiles` on, whose sums fit `room` rows. Return the
    height. Store the terms of the rows from index `place` on."""
    cdef int height = <int>g.m, count
    cdef const uint8_t *a
    t.tiles = 1
    if tiles > 1:
        t.tiles = equal_parts(g.m, i, tiles, first, &height)
        t.tiles = together(g, t.tiles, height, room)
    count = <int>t.tiles * height
    a = g.a.data + first[0] * g.a.row
    if has_zero(&g.b):
        sum_rows(g, <int>first[0], count, rows.terms + place, rows.init)
        t.row_init = rows.init if g.b.zero_points is NULL else NULL
    set_rows(g, t, a, height, count, rows.bytes_, rows.tails)
    return height


cdef inline int64_t together(const Problem *g, int64_t tiles, int height, int64_t room) noexcept nogil:
    """Return the number of tiles of `height` rows to prepare together. The sums have memory for `room` rows."""
    if g.a.column != 1:
        return 1
    if g.k % I8_GROUP or has_zero(&g.b) or g.a.sign_flip:
        room = min(room, <int64_t>I8_MAX_COLUMNS)
        if tiles * height * g.k > TINY_A_BYTES:
            room = min(room, TINY_A_BYTES // g.k)
    # Usually all tiles fit. Comparing first avoids a 64-bit division, which takes long.
    return tiles if tiles * height <= room else max(<int64_t>1, room // height)


cdef inline void set_rows(const Problem *g, i8_tile_args *t, const uint8_t *a, int height, int rows, uint8_t *memory,
                          uint32_t *tails) noexcept nogil:
    """Set A for tiles of `height` rows, `rows` rows in all: in place, or packed to `memory`."""
    cdef int j, k = <int>g.k, tail = k % I8_GROUP
    if g.a.column != 1:
        g.kernels.packing.pack_panel(memory, height, height, k, a, g.a.row, g.a.column, g.a.sign_flip)
        t.a.data, t.a.row, t.a.group = memory, 4, 4 * height
        return
    t.a.data, t.a.row, t.a.group = a, g.a.row, 4
    if g.a.sign_flip:
        flip_rows(g, memory, a, rows)
        t.a.data, t.a.row = memory, k
    t.a.tile = height * t.a.row
    if tail:
        for j in range(rows):
            tails[j] = last_bytes(t.a.data + j * t.a.row + k - tail, tail)


cdef inline int parts(int count, int largest) noexcept nogil:
    """Return the number of parts into which `count` is split. A part has at most `largest`."""
    return 1 if count <= largest else (count + largest - 1) // largest


cdef inline int part(int count, int i, int parts) noexcept nogil:
    """Return the size of part `i` if `count` is split evenly into `parts`."""
    return count if parts == 1 else count // parts + (i < count % parts)


cdef inline void multiply(const i8_kernels *kernels, int dot, int height, i8_tile_args *t, const int8_t *b,
                          const int32_t *col_init, int32_t *dst, int n) noexcept nogil:
    """Multiply the rows of A in `t` by `n` columns of B, and store the sums to `dst`."""
    cdef int panels = (n + I8_PANEL - 1) // I8_PANEL, tiles = parts(panels, tile_panels(kernels, height))
    cdef int i, width
    for i in range(tiles):
        width = part(panels, i, tiles)
        t.b.data, t.col_init, t.dst, t.cols = b, col_init, dst, min(width * I8_PANEL, n)
        kernels.gemm.tiles[dot].of[height - 1][width - 1](t)
        b += width * t.b.panel
        dst += width * I8_PANEL
        n -= width * I8_PANEL
        if col_init is not NULL:
            col_init += width * I8_PANEL


cdef inline void multiply_to(const Problem *g, int height, i8_tile_args *t, i8_tile_output *out, const int8_t *b,
                             const int32_t *col_init, int panels) noexcept nogil:
    """Multiply the rows of A in `t` by whole panels, and apply the epilogue `out`."""
    cdef int tiles = parts(panels, tile_panels(g.kernels, height)), size = <int>c_element_bytes(g), i, width
    cdef int dot = I8_DOT4_SAT if g.saturating else I8_DOT4
    for i in range(tiles):
        width = part(panels, i, tiles)
        multiply(g.kernels, dot, height, t, b, col_init, NULL, width * I8_PANEL)
        b += width * t.b.panel
        out.c += width * I8_PANEL * size
        out.column += width * I8_PANEL
        if col_init is not NULL:
            col_init += width * I8_PANEL


cdef inline void sum_columns(const Problem *g, const i8_tile_args *t, const int8_t *b, int64_t *sums,
                             int32_t *init) noexcept nogil:
    """Find -ao times the column sums of packed B. If each row of A has its own zero point, find only the sums."""
    cdef int64_t n = round_up(g.n, I8_PANEL), i
    cdef const int64_t *found = sums if g.panels.data is NULL else g.panels.col_sums
    if g.panels.data is NULL:
        for i in range(n // I8_PANEL):
            g.kernels.packing.panel_sums(sums + i * I8_PANEL, b + i * t.b.panel, t.groups)
    elif g.a.zero_points is not NULL:
        memcpy(sums, found, n * sizeof(int64_t))
    if g.a.zero_points is NULL:
        g.kernels.packing.scale_sums(init, found, n, <int32_t>-g.a.zero_point)


cdef inline void sum_rows(const Problem *g, int row, int rows, int64_t *terms, int32_t *init) noexcept nogil:
    """Find the sums of a few rows of A - ao, and multiply them by -bo."""
    find_row_terms(g, row, rows, terms)
    g.kernels.packing.scale_sums(init, terms, rows, <int32_t>-g.b.zero_point)


cdef inline void flip_rows(const Problem *g, uint8_t *dst, const uint8_t *a, int rows) noexcept nogil:
    """Copy contiguous rows of A to rows of A', without gaps."""
    cdef int i = 0, j, k = <int>g.k
    cdef uint32_t four, flip = g.a.sign_flip * <uint32_t>0x01010101
    if g.a.row == k:
        g.kernels.packing.pack_panel(dst, 1, 1, rows * k, a, 0, 1, g.a.sign_flip)
        return
    # If gaps between rows are smaller than a unit of 128 bits, and therefore readable, copy 4 bytes at a time, as long
    # as no copy reads beyond the last row. The next row overwrites the bytes after the end of a row.
    while k < g.a.row < k + I8_STACK_UNIT and (rows - 1 - i) * g.a.row + k >= round_up(k, I8_GROUP):
        for j in range(0, k, 4):
            memcpy(&four, a + i * g.a.row + j, 4)
            four ^= flip
            memcpy(dst + i * k + j, &four, 4)
        i += 1
    # Pad the remaining rows with zeros to a multiple of 4 bytes.
    while i < rows:
        g.kernels.packing.pack_panel(dst + i * k, 1, 1, k, a + i * g.a.row, 0, 1, g.a.sign_flip)
        i += 1


cdef inline uint32_t last_bytes(const uint8_t *p, int count) noexcept nogil:
    """Return `count` bytes, 1 to 3, padded with zeros."""
    cdef uint32_t x = 0
    cdef uint8_t *bytes_ = <uint8_t *>&x
    bytes_[0] = p[0]
    if count > 1:
        bytes_[1] = p[1]
    if count > 2:
        bytes_[2] = p[2]
    return x


cdef Path path = Path(
    name=b"tiny", summary=b"small enough to be computed on the stack",
    by_size=True, names_kernel=False, sums_any_k=False,
    takes=takes_tiny, specialize=NULL, plan=NULL, run=run_tiny, describe=describe_tiny)
PATH = as_capsule(&path, sizeof(Plan))
