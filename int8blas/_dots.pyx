"""Dot products of contiguous vectors (csrc/dot_body.h): many of them, read in place, times a few that are packed.

The many are the rows of A where C has few columns, or the columns of a plain B where C has few rows. Below they are x,
the few are y.
"""

from cython.parallel cimport prange
from libc.stddef cimport ptrdiff_t
from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t, uint32_t
from libc.string cimport memset

from int8blas._kernels cimport (
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
)
from int8blas._output cimport store
from int8blas._plan cimport Gemm, Plan
from int8blas._split cimport ceil_div, part_count, share
from int8blas._workspace cimport acquire, release

cdef enum:
    MAX_Y = 16
    MAX_PIECES = 4
    # Vectors x at a time: of one output stage, and where they are read more than once, as many as stay in the L1 cache.
    BLOCK = 64
    MIN_BLOCK = 8
    BLOCK_BYTES = 1 << 14


# Some of the vectors y, for one kernel, and the signs that it has.
cdef struct Piece:
    int first, count, columns   # columns of the kernel, of which `count` exist
    i8_dot_fn kernel
    i8_dot_fn sums              # the kernel for one column and the same signs
    uint8_t x_flip
    uint32_t x_zero, y_zero     # zero points
    uint8_t *y
    int32_t start[MAX_Y]


cdef struct Operands:
    bint by_rows                # x are the rows of A, y the columns of B
    const uint8_t *x
    ptrdiff_t x_row
    const uint8_t *ones         # K of them
    int pieces
    int64_t block               # vectors x at a time
    Piece piece[MAX_PIECES]
    bint direct                 # the kernel stores C itself


cdef void multiply_part(const Gemm *g, const Plan *p, const Operands *o, int64_t first, int64_t end) noexcept nogil:
    """Some of the vectors x by all of y."""
    cdef int32_t x_start[BLOCK]
    cdef int32_t tile[BLOCK * MAX_Y + I8_CHUNK]
    cdef int32_t turned[BLOCK * MAX_Y + I8_CHUNK]
    cdef int64_t rows = o.block
    cdef int i, x, y
    cdef const Piece *piece
    cdef i8_dot_args t
    t.k = g.k
    t.x_row = o.x_row
    t.dst = tile
    while first < end:
        rows = min(rows, end - first)
        t.rows = rows
        t.x = o.x + first * o.x_row
        for i in range(o.pieces):
            piece = &o.piece[i]
            t.x_flip = piece.x_flip
            t.x_start = NULL
            if piece.y_zero != 0:
                # The zero point of y times the sums of x, which are its products with a vector of ones.
                t.y = o.ones
                t.start = NULL
                t.dst = x_start
                piece.sums(&t)
                for x in range(rows):
                    x_start[x] = <int32_t>(-piece.y_zero * (<uint32_t>x_start[x] - <uint32_t>g.k * piece.x_zero))
                t.x_start = x_start
            t.y = piece.y
            t.start = <int32_t *>piece.start
            t.dst = <int32_t *>(g.c + first * (g.c_row if o.by_rows else g.c_col)) if o.direct else tile
            piece.kernel(&t)
            if o.direct:
                continue
            if o.by_rows:
                store(g, p, tile, <int>rows, piece.count, piece.columns, first, piece.first)
            else:
                for y in range(piece.count):
                    for x in range(rows):
                        turned[y * BLOCK + x] = tile[x * piece.columns + y]
                store(g, p, turned, piece.count, <int>rows, BLOCK, piece.first, first)
        first += rows


cdef void set_signs(const Gemm *g, bint by_rows, Piece *piece) noexcept nogil:
    """Which of x and y is the u8 operand, x shifted for that where it must be, and their zero points."""
    cdef bint a_is_u8 = g.a_flip == 0, b_is_u8 = g.packed is NULL and g.b_flip != 0
    cdef bint x_is_u8 = a_is_u8 if by_rows else b_is_u8, y_is_u8 = b_is_u8 if by_rows else a_is_u8
    cdef int64_t ao = g.ao - (0 if a_is_u8 else 128), bo = g.bo + (128 if b_is_u8 else 0)
    # A shifted y would need the sums of x; shifting x costs less.
    cdef bint x_unsigned = not y_is_u8
    cdef int shift = 128 if x_unsigned else -128
    cdef int width = (I8_DOTS_16 if piece.columns == 16 else I8_DOTS_8 if piece.columns == 8
                      else I8_DOTS_1 + piece.columns - 1)
    piece.x_flip = 0 if x_unsigned == x_is_u8 else 0x80
    piece.x_zero = <uint32_t>((ao if by_rows else bo) + (shift if piece.x_flip else 0))
    piece.y_zero = <uint32_t>(bo if by_rows else ao)
    piece.kernel = g.kernels.dots[I8_X_UNSIGNED if x_unsigned else I8_Y_UNSIGNED][width]
    piece.sums = g.kernels.dots[I8_X_UNSIGNED if x_unsigned else I8_Y_UNSIGNED][I8_DOTS_1]


cdef int64_t cut(const Gemm *g, Operands *o, int count) noexcept nogil:
    """The pieces of `count` vectors y. Returns the bytes that they take."""
    cdef int64_t size = 0
    cdef int first = 0, rest
    cdef Piece *piece
    while first < count:
        rest = count - first
        piece = &o.piece[o.pieces]
        # Of 8 and 16 columns at most a quarter is padding.
        if rest > 12 and g.kernels.dots_columns == 16:
            piece.columns = 16
        elif rest > 6:
            piece.columns = 8
        else:
            piece.columns = min(rest, 4)
        piece.first = first
        piece.count = min(piece.columns, rest)
        set_signs(g, o.by_rows, piece)
        size += g.kernels.dots_size(piece.columns, g.k)
        o.pieces += 1
        first += piece.count
    return size


cdef void pack_piece(const Gemm *g, const Operands *o, Piece *piece, uint8_t *scratch) noexcept nogil:
    """Pack some of the vectors y, and set their start values."""
    cdef int64_t groups = ceil_div(g.k, I8_GROUP), i
    cdef int size = piece.columns * I8_GROUP, y
    cdef int32_t sums[MAX_Y]
    cdef const int8_t *panel
    cdef i8_dot_args t
    if not o.by_rows:
        g.kernels.pack_panel(scratch, piece.columns, piece.count, g.k, g.a + piece.first * g.a_row, g.a_row, g.a_col, 0)
    elif g.packed is NULL:
        g.kernels.pack_panel(scratch, piece.columns, piece.count, g.k, g.b + piece.first * g.b_col, g.b_col, g.b_row, 0)
    else:
        # There are at most 16 columns, one panel, and no piece goes beyond it.
        panel = g.packed + piece.first * I8_GROUP
        for i in range(groups):
            for y in range(piece.columns):
                (<uint32_t *>scratch)[i * piece.columns + y] = (<const uint32_t *>panel)[i * I8_PANEL + y]
    memset(scratch + groups * size, 0, g.kernels.dots_size(piece.columns, g.k) - groups * size)
    g.kernels.order_dots(piece.y, scratch, piece.columns, g.k)

    memset(piece.start, 0, sizeof(piece.start))
    if piece.x_zero != 0:
        # The zero point of x times the sums of y, which are their products with a vector of ones.
        memset(&t, 0, sizeof(t))
        t.k = g.k
        t.rows = 1
        t.x = o.ones
        t.y = piece.y
        t.dst = sums
        piece.kernel(&t)
        for y in range(piece.columns):
            piece.start[y] = <int32_t>(-piece.x_zero * <uint32_t>sums[y])


cdef int gemm_dots(const Gemm *g, const Plan *p) noexcept nogil:
    """Few columns, or few rows times a B with contiguous columns. 0, or -1 if there is no memory."""
    cdef Operands o
    cdef int parts = part_count(&p.grid), part, i, few = <int>(g.n if p.by_rows else g.m)
    cdef int64_t many = g.m if p.by_rows else g.n, size, one_size
    cdef ptrdiff_t c_x, c_y
    cdef char *memory
    cdef uint8_t *y
    o.by_rows = p.by_rows
    o.x, o.x_row = g.a, g.a_row
    c_x, c_y = g.c_row, g.c_col
    if not o.by_rows:
        o.x, o.x_row = g.b, g.b_col
        c_x, c_y = g.c_col, g.c_row
    o.pieces = 0
    size = cut(g, &o, few)
    one_size = g.kernels.dots_size(1, g.k)
    memory = <char *>acquire(2 * size + one_size)
    if memory is NULL:
        return -1
    y = <uint8_t *>memory
    o.ones = y + size
    memset(y + size, 1, g.k)
    memset(y + size + g.k, 0, one_size - g.k)
    o.direct = p.identity and o.pieces == 1 and o.piece[0].columns == few
    o.direct = o.direct and c_x == few * <ptrdiff_t>sizeof(int32_t) and (few == 1 or c_y == sizeof(int32_t))
    # The kernel goes through all of x where nothing is left to do between its rows.
    o.block = many if o.direct else BLOCK
    for i in range(o.pieces):
        o.piece[i].y = y
        y += g.kernels.dots_size(o.piece[i].columns, g.k)
        pack_piece(g, &o, &o.piece[i], <uint8_t *>o.ones + one_size)
        if o.pieces > 1 or o.piece[i].y_zero != 0:
            o.block = max(<int64_t>MIN_BLOCK, min(<int64_t>BLOCK, BLOCK_BYTES // g.k // MIN_BLOCK * MIN_BLOCK))
    if parts == 1:
        multiply_part(g, p, &o, 0, many)
    else:
        for part in prange(parts, num_threads=parts, schedule="static"):
            multiply_part(g, p, &o, share(many, part, parts), share(many, part + 1, parts))
    release(memory)
    return 0
