"""Dot products of contiguous vectors (csrc/gemm/dot_body.h): many of them, read in place, times a few that are packed.

The many are the rows of A where C has few columns, or the columns of a plain B where C has few rows. Below they are x,
the few are y. Where y has zero points, the sums of x are needed: its products with a vector of ones, which is one more
y where that costs nothing or little.
"""

from libc.stddef cimport ptrdiff_t
from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t, uint32_t
from libc.string cimport memset

from int8blas.core.kernels cimport (
    I8_CHUNK,
    I8_DOTS_1,
    I8_DOTS_8,
    I8_DOTS_16,
    I8_GROUP,
    I8_PANEL,
    I8_X_UNSIGNED,
    I8_Y_UNSIGNED,
    i8_dot_args,
    i8_dot_fn,
    i8_output_args,
)
from int8blas.core.memory cimport acquire, release
from int8blas.core.split cimport ceil_div, part_count, share, split
from int8blas.core.threads cimport run_parts
from int8blas.gemm.operand cimport SHIFT, SIGN_BIT, address
from int8blas.gemm.output cimport output
from int8blas.gemm.plan cimport Gemm, Plan, Planned, busy_threads, is_in_memory, thread_work

cdef enum:
    MAX_PIECES = 5
    # Vectors x at a time: of one output stage, and where they are read more than once, as many as stay in half of the
    # L1 cache.
    BLOCK = 64
    MIN_BLOCK = 8


cdef void plan_few_columns(const Gemm *g, Plan *p) noexcept nogil:
    """Threads of PATH_FEW_COLUMNS."""
    p.by_rows = reads_a(g)
    cdef int64_t vectors = g.m if p.by_rows else g.n
    cdef int64_t threads = busy_threads(g, thread_work(g), vectors)
    cdef int64_t pieces = ceil_div(vectors, g.kernels.gemm.dots_rows)
    p.far = g.far or is_in_memory(g.machine, <double>vectors * g.k)
    if p.by_rows:
        split(pieces, 1, threads, False, &p.grid)
    else:
        split(1, pieces, threads, True, &p.grid)


# The zero points of x or y, as the kernel sees them: one value, or that and another for each vector.
cdef struct Zeros:
    int64_t value
    const int64_t *values


# Some of the vectors y, or none but the ones, for one kernel.
cdef struct Piece:
    int first, count, columns   # columns of the kernel, of which `count` exist
    int ones                    # the column that is a vector of ones, or -1
    i8_dot_fn kernel
    uint8_t *y
    int32_t sums[MAX_Y]         # of y, if x has zero points
    int32_t start[MAX_Y]


cdef struct Operands:
    bint by_rows                # x are the rows of A, y the columns of B
    bint x_unsigned             # x is u8 and y s8, rather than the other way
    const uint8_t *x
    ptrdiff_t x_row
    uint8_t x_flip              # which makes x the operand that the kernel takes
    Zeros x_zeros, y_zeros
    const uint8_t *ones         # K of them
    int pieces
    int64_t block               # vectors x at a time
    Piece piece[MAX_PIECES]
    bint direct                 # the kernel stores C itself,
    ptrdiff_t c_x, c_y          # from one x to the next, and from one y
    bint finishes               # C is not the bare sums


cdef bint is_zero(const Zeros *z) noexcept nogil:
    return z.value == 0 and z.values is NULL


cdef inline int64_t zero_of(const Zeros *z, int64_t i) noexcept nogil:
    return z.value if z.values is NULL else z.value + z.values[i]


cdef i8_dot_fn kernel_of(const Gemm *g, const Operands *o, int columns) noexcept nogil:
    cdef int width = I8_DOTS_16 if columns == 16 else I8_DOTS_8 if columns == 8 else I8_DOTS_1 + columns - 1
    return g.kernels.gemm.dots[I8_X_UNSIGNED if o.x_unsigned else I8_Y_UNSIGNED][width]


cdef void set_y(const Gemm *g, const Operands *o, const Piece *piece, int64_t *zeros, int64_t *terms) noexcept nogil:
    """The zero points of a piece's vectors y, and what times a zero point of x is to be subtracted from their sums."""
    cdef int y
    for y in range(piece.count):
        zeros[y] = zero_of(&o.y_zeros, piece.first + y)
        terms[y] = piece.sums[y] - g.k * zeros[y]


cdef void finish(const Gemm *g, const Operands *o, const Piece *piece, const int32_t *tile, const int64_t *x_sums,
                 const int64_t *x_zeros, int64_t first, int rows) noexcept nogil:
    """A tile of sums goes to C by the output stage. `g` has C with the vectors y as rows."""
    cdef int32_t turned[BLOCK * MAX_Y + I8_CHUNK]
    cdef int64_t y_zeros[MAX_Y]
    cdef int64_t y_terms[MAX_Y]
    cdef int x, y
    cdef i8_output_args t
    memset(&t, 0, sizeof(t))
    for y in range(piece.count):
        for x in range(rows):
            turned[y * BLOCK + x] = tile[x * piece.columns + y]
    set_y(g, o, piece, y_zeros, y_terms)
    # A zero point of all x is in the start values and in the sums of x.
    if not is_zero(&o.y_zeros):
        t.ao, t.col_sum = y_zeros, x_sums
    if o.x_zeros.values is not NULL:
        t.bo, t.row_term = x_zeros, y_terms
    output(g, &t, turned, piece.count, rows, BLOCK, piece.first, first)


cdef void finish_rows(const Gemm *g, const Operands *o, const Piece *piece, const int32_t *tile, const int64_t *x_sums,
                      const int64_t *x_zeros, int64_t first, int rows) noexcept nogil:
    """The same for the output stage of a primitive, which knows y as the columns of C."""
    cdef int64_t y_zeros[MAX_Y + I8_CHUNK]
    cdef int64_t y_terms[MAX_Y + I8_CHUNK]
    cdef i8_output_args t
    memset(&t, 0, sizeof(t))
    memset(y_zeros, 0, sizeof(y_zeros))
    memset(y_terms, 0, sizeof(y_terms))
    set_y(g, o, piece, y_zeros, y_terms)
    if not is_zero(&o.y_zeros):
        t.bo, t.row_term = y_zeros, x_sums
    if o.x_zeros.values is not NULL:
        t.ao, t.col_sum = x_zeros, y_terms
    output(g, &t, tile, rows, piece.count, piece.columns, first, piece.first)


cdef void multiply_vectors(const Gemm *g, const Plan *p, const Operands *o, int64_t first,
                           int64_t end) noexcept nogil:
    """Some of the vectors x by all of y, which are packed."""
    cdef int32_t tile[BLOCK * MAX_Y + I8_CHUNK]
    cdef int64_t x_sums[BLOCK]
    cdef int64_t x_zeros[BLOCK]
    cdef int64_t rows = o.block, x_zero = o.x_zeros.value if o.x_zeros.values is NULL else 0
    cdef int i, x, ones
    cdef const Piece *piece
    cdef Gemm by_y = g[0]
    cdef i8_dot_args t
    if o.by_rows:
        by_y.c_row, by_y.c_col = g.c_col, g.c_row
        by_y.co_rows, by_y.co_cols = g.co_cols, g.co_rows
    t.k, t.ahead, t.x_squares = g.k, 0, NULL
    t.x_row, t.x_flip, t.far = o.x_row, o.x_flip, p.far
    while first < end:
        rows = min(rows, end - first)
        t.rows = rows
        t.x = o.x + first * o.x_row
        if o.x_zeros.values is not NULL:
            for x in range(rows):
                x_zeros[x] = zero_of(&o.x_zeros, first + x)
        for i in range(o.pieces):
            piece = &o.piece[i]
            t.y, t.start = piece.y, <int32_t *>piece.start
            if o.direct:
                t.dst = g.c + first * o.c_x + piece.first * o.c_y
                t.dst_row, t.dst_column, t.count = o.c_x, o.c_y, piece.count
            else:
                set_tile(&t, piece, tile)
            piece.kernel(&t)
            if o.direct:
                continue
            ones = piece.ones
            if ones >= 0:
                for x in range(rows):
                    x_sums[x] = tile[x * piece.columns + ones] - g.k * x_zero
            if piece.count == 0:
                continue
            if g.stage is not NULL:
                finish_rows(g, o, piece, tile, x_sums, x_zeros, first, <int>rows)
            else:
                finish(&by_y, o, piece, tile, x_sums, x_zeros, first, <int>rows)
        first += rows


cdef void set_signs(const Gemm *g, Operands *o) noexcept nogil:
    """Which of x and y is the u8 operand, x shifted for that where it must be, and their zero points."""
    cdef bint a_is_u8 = g.a.flip == 0, b_is_u8 = g.packed is NULL and g.b.flip != 0
    cdef bint x_is_u8 = a_is_u8 if o.by_rows else b_is_u8, y_is_u8 = b_is_u8 if o.by_rows else a_is_u8
    # Those of g are of A' and B'. A shifted y would need the sums of x; shifting x costs less.
    cdef int64_t a_shift = 0 if a_is_u8 else -SHIFT, b_shift = SHIFT if b_is_u8 else 0
    cdef Zeros a, b
    a.value, a.values = a_shift + (g.a.zero if g.a.zeros is NULL else 0), g.a.zeros
    b.value, b.values = b_shift + (g.b.zero if g.b.zeros is NULL else 0), g.b.zeros
    o.x_zeros, o.y_zeros = a, b
    if not o.by_rows:
        o.x_zeros, o.y_zeros = b, a
    o.x_unsigned = not y_is_u8
    o.x_flip = 0
    if o.x_unsigned != x_is_u8:
        o.x_flip = SIGN_BIT
        o.x_zeros.value += SHIFT if o.x_unsigned else -SHIFT


cdef int64_t add_piece(const Gemm *g, Operands *o, int first, int count, int columns, int ones) noexcept nogil:
    """One more piece. Returns the bytes that it takes."""
    cdef Piece *piece = &o.piece[o.pieces]
    piece.first, piece.count, piece.columns, piece.ones = first, count, columns, ones
    piece.kernel = kernel_of(g, o, columns)
    o.pieces += 1
    return g.kernels.gemm.dots_size(columns, g.k)


cdef int64_t cut(const Gemm *g, Operands *o, int count) noexcept nogil:
    """The pieces of `count` vectors y. Returns the bytes that they take."""
    cdef int64_t size = 0
    cdef int first = 0, rest, columns
    cdef bint sums = not is_zero(&o.y_zeros), has_ones
    o.pieces = 0
    while first < count:
        rest = count - first
        # Of 8 and 16 columns at most a quarter is padding, or ones.
        if rest > 12 and g.kernels.gemm.dots_columns == 16:
            columns = 16
        elif rest > (4 if sums else 6):
            columns = 8
        else:
            columns = min(rest, 4)
        # The vector of ones comes first: where a column is left, where one more takes no wider a kernel, or alone.
        if sums and first == 0 and rest < 4:
            columns = rest + 1
        if sums and first == 0 and rest >= columns:
            size += add_piece(g, o, 0, 0, 1, 0)
        has_ones = sums and first == 0 and rest < columns
        size += add_piece(g, o, first, min(columns, rest), columns, rest if has_ones else -1)
        first += min(columns, rest)
    return size


cdef inline void set_tile(i8_dot_args *t, const Piece *piece, const int32_t *tile) noexcept nogil:
    """The kernel stores all of its columns, side by side."""
    t.dst = <void *>tile
    t.dst_column = sizeof(int32_t)
    t.dst_row, t.count = piece.columns * t.dst_column, piece.columns


cdef void pack_piece(const Gemm *g, const Operands *o, Piece *piece, uint8_t *scratch) noexcept nogil:
    """Pack some of the vectors y, and set their start values."""
    cdef int64_t groups = ceil_div(g.k, I8_GROUP), i
    cdef int size = piece.columns * I8_GROUP, y
    cdef const int8_t *panel
    cdef i8_dot_args t
    if not o.by_rows:
        g.kernels.packing.pack_panel(scratch, piece.columns, piece.count, g.k, address(&g.a, piece.first, 0), g.a.row,
                                     g.a.column, 0)
    elif g.packed is NULL:
        g.kernels.packing.pack_panel(scratch, piece.columns, piece.count, g.k, address(&g.b, 0, piece.first),
                                     g.b.column, g.b.row, 0)
    else:
        # There are at most 16 columns, one panel, and no piece goes beyond it.
        panel = g.packed + piece.first * I8_GROUP
        for i in range(groups):
            for y in range(piece.columns):
                (<uint32_t *>scratch)[i * piece.columns + y] = (<const uint32_t *>panel)[i * I8_PANEL + y]
    if piece.ones >= 0:
        for i in range(g.k):
            scratch[i // I8_GROUP * size + piece.ones * I8_GROUP + i % I8_GROUP] = 1
    memset(scratch + groups * size, 0, g.kernels.gemm.dots_size(piece.columns, g.k) - groups * size)
    g.kernels.gemm.order_dots(piece.y, scratch, piece.columns, g.k, not o.x_unsigned)

    memset(piece.start, 0, sizeof(piece.start))
    if not is_zero(&o.x_zeros):
        # Their products with a vector of ones.
        memset(&t, 0, sizeof(t))
        t.k = g.k
        t.rows = 1
        t.x = o.ones
        t.y = piece.y
        set_tile(&t, piece, piece.sums)
        piece.kernel(&t)
        for y in range(piece.count if o.x_zeros.values is NULL else 0):
            piece.start[y] = <int32_t>(-<uint32_t>o.x_zeros.value * <uint32_t>piece.sums[y])


cdef int multiply_part(const void *job, int64_t part, int64_t parts) noexcept nogil:
    """Some of the vectors x by all of y. 0, or -1 if there is no memory."""
    cdef const Gemm *g = (<const Planned *>job).g
    cdef const Plan *p = (<const Planned *>job).p
    cdef int64_t many = g.m if p.by_rows else g.n
    cdef int64_t first = share(many, part, parts), end = share(many, part + 1, parts)
    cdef Operands o
    cdef int i, few = <int>(g.n if p.by_rows else g.m)
    cdef int64_t size, one_size
    cdef char *memory
    cdef uint8_t *y
    o.by_rows = p.by_rows
    o.x, o.x_row = g.a.data, g.a.row
    o.c_x, o.c_y = g.c_row, g.c_col
    if not o.by_rows:
        o.x, o.x_row = g.b.data, g.b.column
        o.c_x, o.c_y = g.c_col, g.c_row
    set_signs(g, &o)
    size = cut(g, &o, few)
    one_size = g.kernels.gemm.dots_size(1, g.k)
    memory = <char *>acquire(2 * size + one_size)
    if memory is NULL:
        return -1
    if g.tries_memory:
        release(memory)
        return 0
    y = <uint8_t *>memory
    o.ones = y + size
    memset(y + size, 1, g.k)
    memset(y + size + g.k, 0, one_size - g.k)
    o.finishes = not p.identity or not is_zero(&o.y_zeros) or o.x_zeros.values is not NULL
    o.direct = not o.finishes
    # The kernel goes through all of x where nothing is left to do between its rows.
    o.block = end - first if o.direct else BLOCK
    for i in range(o.pieces):
        o.piece[i].y = y
        y += g.kernels.gemm.dots_size(o.piece[i].columns, g.k)
        pack_piece(g, &o, &o.piece[i], <uint8_t *>o.ones + one_size)
        if o.pieces > 1:
            o.block = max(<int64_t>MIN_BLOCK, min(<int64_t>BLOCK, g.machine.l1 // 2 // g.k // MIN_BLOCK * MIN_BLOCK))
    multiply_vectors(g, p, &o, first, end)
    release(memory)
    return 0


cdef int gemm_few_columns(const Gemm *g, const Plan *p) noexcept nogil:
    """Few columns, or few rows times a B with contiguous columns. 0, or -1 if there is no memory.

    Each thread packs all of y, which takes less time than to get it from another one.
    """
    cdef Planned job = Planned(g, p)
    return run_parts(multiply_part, &job, part_count(&p.grid), part_count(&p.grid))
