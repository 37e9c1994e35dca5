"""Dot products of vectors (csrc/gemm/dot_body.h): many of them, read in place, times a few that are packed.

The many are the rows of A where C has few columns, or the columns of a plain B where C has few rows. Below they are x,
the few are y. The kernels read contiguous x; others are copied, some at a time, which takes less time than to pack
them. If k runs backwards in x, it is turned round in x and y. Where y has zero points, the sums of x are needed:
its products with a vector of ones, which is one more y where that costs nothing or little.
"""

from libc.stddef cimport ptrdiff_t
from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t, uint32_t
from libc.string cimport memset

from int8blas.core.kernels cimport (
    I8_CHUNK,
    I8_DOT4,
    I8_DOTS_1,
    I8_DOTS_8,
    I8_DOTS_16,
    I8_GROUP,
    I8_PANEL,
    I8_X_UNSIGNED,
    I8_Y_UNSIGNED,
    i8_dot_args,
    i8_dot_fn,
    i8_matrix,
    i8_output_args,
)
from int8blas.core.memory cimport acquire, release
from int8blas.core.split cimport ceil_div, part_count, share, split
from int8blas.core.threads cimport run_parts
from int8blas.gemm.operand cimport SHIFT, SIGN_BIT, address
from int8blas.gemm.output cimport output
from int8blas.gemm.path cimport Planned, divide_long_k, needs_blocks
from int8blas.gemm.paths.sizes cimport is_dot_k
from int8blas.gemm.problem cimport busy_threads, is_in_memory, is_quantized, matrix_of, thread_work

cdef extern from "gemm/set_apart.h" nogil:
    void i8_set_apart(uint8_t *dst, ptrdiff_t dst_vector, int count, int64_t k, const uint8_t *src, ptrdiff_t step,
                      const uint8_t *end)

cdef enum:
    # Most columns of C for which rows of A that are not contiguous are copied: A is read once for them, and packing it
    # takes as long as 8 columns (1024 x 8 x 1024, AVX512-VNNI). Bytes of the rows that are copied at a time.
    COPIED_COLUMNS = 4
    COPIED_BYTES = 1 << 14
    # Up to how many rows a B with contiguous columns is read in place, rather than packed: more of a longer K where
    # kernels store C themselves. A is for as many as a dot kernel takes.
    FEW_ROWS = 16
    MORE_ROWS = 64
    MORE_ROWS_K = 256
    # Columns of the widest kernel.
    MAX_Y = 16
    MAX_PIECES = 5
    # Vectors x at a time: for one call of the epilogue, and if they are read more than once, at most as many as stay in
    # half of the L1 cache.
    BLOCK = 64
    MIN_BLOCK = 8


cdef bint reads_a(const Problem *g) noexcept nogil:
    """Return whether A would be read in place by rows, rather than B by columns: C has few columns."""
    cdef const i8_matrix *matrix = matrix_of(g)
    cdef int64_t columns = g.kernels.gemm.dots_columns if matrix is NULL else matrix.dots_columns
    if g.a.column != 1 and g.a.column != -1:
        columns = min(columns, <int64_t>COPIED_COLUMNS) if g.a.row != 1 else 0
    return g.m >= g.n and g.n <= columns


cdef bint pays_for_more_rows(const Problem *g, const Plan *p) noexcept nogil:
    """Return whether the widest kernel takes a K that is so long, and stores C: there is no zero point but one of all
    columns of B."""
    return (
        g.k >= MORE_ROWS_K and g.kernels.gemm.exact == I8_DOT4 and g.kernels.gemm.dots_columns == MAX_Y
        and matrix_of(g) is NULL and p.identity
        and g.b.zero_points is NULL and g.a.zero_points is NULL and g.a.zero_point == (SHIFT if g.a.sign_flip else 0)
    )


cdef bint takes_few_columns(const Problem *g, const Plan *p) noexcept nogil:
    """Return whether one operand is read in place along k, which is long: of few columns A, or of few rows B."""
    if g.kernels.gemm.dots_columns == 0 or not is_dot_k(g.k, min(g.m, g.n)) or needs_blocks(g, p):
        return False
    if reads_a(g):
        return True
    return (
        g.panels.data is NULL and (g.b.row == 1 or g.b.row == -1)
        and g.m <= (MORE_ROWS if pays_for_more_rows(g, p) else FEW_ROWS)
    )


cdef void plan_few_columns(const Problem *g, Plan *plan) noexcept nogil:
    """Choose the operand that is read in place, and threads."""
    cdef FewColumnsPlan *p = <FewColumnsPlan *>plan
    p.by_rows = reads_a(g)
    cdef int64_t vectors = g.m if p.by_rows else g.n
    cdef int64_t threads = busy_threads(g, thread_work(g), vectors)
    cdef int64_t pieces = ceil_div(vectors, g.kernels.gemm.dots_rows)
    p.far = g.far or is_in_memory(g.machine, <double>vectors * g.k)
    if p.by_rows:
        split(pieces, 1, threads, False, &plan.grid)
    else:
        split(1, pieces, threads, True, &plan.grid)
    divide_long_k(g, plan)


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
    ptrdiff_t x_row, x_step
    const uint8_t *x_end        # of the memory of x
    uint8_t *copied             # room for copies of x, or NULL
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


cdef i8_dot_fn kernel_of(const Problem *g, const Operands *o, int columns) noexcept nogil:
    cdef int width = I8_DOTS_16 if columns == 16 else I8_DOTS_8 if columns == 8 else I8_DOTS_1 + columns - 1
    return g.kernels.gemm.dots[I8_X_UNSIGNED if o.x_unsigned else I8_Y_UNSIGNED][width]


cdef void set_y(const Problem *g, const Operands *o, const Piece *piece, int64_t *zeros, int64_t *terms) noexcept nogil:
    """Set the zero points of a piece's vectors y, and the terms that a zero point of x is multiplied by."""
    cdef int y
    for y in range(piece.count):
        zeros[y] = zero_of(&o.y_zeros, piece.first + y)
        terms[y] = piece.sums[y] - g.k * zeros[y]


cdef void finish(const Problem *g, const Operands *o, const Piece *piece, const int32_t *tile, const int64_t *x_sums,
                 const int64_t *x_zeros, int64_t first, int rows) noexcept nogil:
    """Apply the epilogue to a tile of sums. `g` has C with the vectors y as rows."""
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


cdef void finish_rows(const Problem *g, const Operands *o, const Piece *piece, const int32_t *tile,
                      const int64_t *x_sums, const int64_t *x_zeros, int64_t first, int rows) noexcept nogil:
    """Apply the epilogue of a primitive to a tile of sums. The vectors y are columns of C."""
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


cdef void multiply_vectors(const Problem *g, const FewColumnsPlan *p, const Operands *o, int64_t first,
                           int64_t end) noexcept nogil:
    """Multiply some of the vectors x by all vectors y, which are packed."""
    cdef int32_t tile[BLOCK * MAX_Y + I8_CHUNK]
    cdef int64_t x_sums[BLOCK]
    cdef int64_t x_zeros[BLOCK]
    cdef int64_t rows = o.block, x_zero = o.x_zeros.value if o.x_zeros.values is NULL else 0
    cdef int i, x, ones
    cdef const Piece *piece
    cdef Problem by_y = g[0]
    cdef i8_dot_args t
    if o.by_rows:
        by_y.c_row, by_y.c_col = g.c_col, g.c_row
        by_y.epilogue.co_rows, by_y.epilogue.co_cols = g.epilogue.co_cols, g.epilogue.co_rows
    t.k, t.ahead, t.x_squares = g.k, 0, NULL
    t.x_row, t.x_flip, t.far = o.x_row, o.x_flip, p.far
    if o.copied is not NULL:
        t.x_row, t.far = g.k, False
    while first < end:
        rows = min(rows, end - first)
        t.rows = rows
        t.x = o.x + first * o.x_row
        if o.copied is not NULL:
            t.x = o.copied
            for x in range(rows):
                i8_set_apart(o.copied + x * g.k, 0, 1, g.k, o.x + (first + x) * o.x_row, o.x_step, o.x_end)
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
            if is_quantized(g):
                finish_rows(g, o, piece, tile, x_sums, x_zeros, first, <int>rows)
            else:
                finish(&by_y, o, piece, tile, x_sums, x_zeros, first, <int>rows)
        first += rows


cdef void set_signs(const Problem *g, Operands *o) noexcept nogil:
    """Choose which of x and y is the u8 operand, shift x if it must be, and set the zero points of both."""
    cdef bint a_is_u8 = g.a.sign_flip == 0, b_is_u8 = g.panels.data is NULL and g.b.sign_flip != 0
    cdef bint x_is_u8 = a_is_u8 if o.by_rows else b_is_u8, y_is_u8 = b_is_u8 if o.by_rows else a_is_u8
    # Those of g are of A' and B'. A shifted y would need the sums of x; shifting x costs less.
    cdef int64_t a_shift = 0 if a_is_u8 else -SHIFT, b_shift = SHIFT if b_is_u8 else 0
    cdef Zeros a, b
    a.value, a.values = a_shift + (g.a.zero_point if g.a.zero_points is NULL else 0), g.a.zero_points
    b.value, b.values = b_shift + (g.b.zero_point if g.b.zero_points is NULL else 0), g.b.zero_points
    o.x_zeros, o.y_zeros = a, b
    if not o.by_rows:
        o.x_zeros, o.y_zeros = b, a
    o.x_unsigned = not y_is_u8
    o.x_flip = 0
    if o.x_unsigned != x_is_u8:
        o.x_flip = SIGN_BIT
        o.x_zeros.value += SHIFT if o.x_unsigned else -SHIFT


cdef int64_t add_piece(const Problem *g, Operands *o, int first, int count, int columns, int ones) noexcept nogil:
    """Add a piece. Return the bytes that it takes."""
    cdef Piece *piece = &o.piece[o.pieces]
    piece.first, piece.count, piece.columns, piece.ones = first, count, columns, ones
    piece.kernel = kernel_of(g, o, columns)
    o.pieces += 1
    return g.kernels.gemm.dots_size(columns, g.k)


cdef int64_t cut(const Problem *g, Operands *o, int count) noexcept nogil:
    """Cut `count` vectors y into pieces. Return the bytes that these take."""
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
    """Let the kernel store all of its columns to a tile, side by side."""
    t.dst = <void *>tile
    t.dst_column = sizeof(int32_t)
    t.dst_row, t.count = piece.columns * t.dst_column, piece.columns


cdef void pack_piece(const Problem *g, const Operands *o, Piece *piece, uint8_t *scratch) noexcept nogil:
    """Pack some of the vectors y, and set their start values."""
    cdef int64_t groups = ceil_div(g.k, I8_GROUP), i
    cdef int size = piece.columns * I8_GROUP, y
    cdef const int8_t *panel
    cdef i8_dot_args t
    if not o.by_rows:
        g.kernels.packing.pack_panel(scratch, piece.columns, piece.count, g.k, address(&g.a, piece.first, 0), g.a.row,
                                     g.a.column, 0)
    elif g.panels.data is NULL:
        g.kernels.packing.pack_panel(scratch, piece.columns, piece.count, g.k, address(&g.b, 0, piece.first),
                                     g.b.column, g.b.row, 0)
    else:
        # There are at most 16 columns, one panel, and no piece goes beyond it.
        panel = g.panels.data + piece.first * I8_GROUP
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


cdef void turn_round(Problem *g) noexcept nogil:
    """Let k of both operands, which are plain, run the other way."""
    g.a.data += (g.k - 1) * g.a.column
    g.b.data += (g.k - 1) * g.b.row
    g.a.column, g.b.row = -g.a.column, -g.b.row


cdef int multiply_part(const void *job, int64_t part, int64_t parts) noexcept nogil:
    """Multiply one thread's vectors x by all vectors y. Return 0, or -1 if there is no memory."""
    cdef Problem own = (<const Planned *>job).g[0]
    cdef const Problem *g = &own
    cdef const FewColumnsPlan *p = <const FewColumnsPlan *>(<const Planned *>job).p
    cdef int64_t many = g.m if p.by_rows else g.n
    cdef int64_t first = share(many, part, parts), end = share(many, part + 1, parts)
    cdef Operands o
    cdef int i, few = <int>(g.n if p.by_rows else g.m)
    cdef int64_t size, one_size, copied_size = 0, block = BLOCK
    cdef char *memory
    cdef uint8_t *y
    if g.panels.data is NULL and (g.a.column if p.by_rows else g.b.row) < 0:
        turn_round(&own)
    o.by_rows = p.by_rows
    o.x, o.x_row, o.x_step = g.a.data, g.a.row, g.a.column
    o.c_x, o.c_y = g.c_row, g.c_col
    if not o.by_rows:
        o.x, o.x_row, o.x_step = g.b.data, g.b.column, g.b.row
        o.c_x, o.c_y = g.c_col, g.c_row
    set_signs(g, &o)
    size = cut(g, &o, few)
    one_size = g.kernels.gemm.dots_size(1, g.k)
    if o.x_step != 1:
        block = max(<int64_t>MIN_BLOCK, min(block, COPIED_BYTES // g.k // MIN_BLOCK * MIN_BLOCK))
        copied_size = block * g.k
    memory = <char *>acquire(2 * size + one_size + copied_size)
    if memory is NULL:
        return -1
    if g.dry_run:
        release(memory)
        return 0
    y = <uint8_t *>memory
    o.ones = y + size
    memset(y + size, 1, g.k)
    memset(y + size + g.k, 0, one_size - g.k)
    o.finishes = not p.common.identity or not is_zero(&o.y_zeros) or o.x_zeros.values is not NULL
    o.direct = not o.finishes
    # The kernel goes through all of x where nothing is left to do between its rows.
    o.block = end - first if o.direct and o.x_step == 1 else block
    o.copied = NULL
    if o.x_step != 1:
        o.copied = <uint8_t *>memory + 2 * size + one_size
        o.x_end = o.x + max(<ptrdiff_t>0, (many - 1) * o.x_row) + max(<ptrdiff_t>0, (g.k - 1) * o.x_step) + 1
    for i in range(o.pieces):
        o.piece[i].y = y
        y += g.kernels.gemm.dots_size(o.piece[i].columns, g.k)
        pack_piece(g, &o, &o.piece[i], <uint8_t *>o.ones + one_size)
        if o.pieces > 1:
            o.block = max(<int64_t>MIN_BLOCK, min(block, g.machine.l1 // 2 // g.k // MIN_BLOCK * MIN_BLOCK))
    multiply_vectors(g, p, &o, first, end)
    release(memory)
    return 0


cdef int run_few_columns(const Problem *g, const Plan *plan) noexcept nogil:
    """Compute a planned problem. Return 0, or -1 if there is no memory.

    Each thread packs all of y, which takes less time than to get it from another one.
    """
    cdef Planned job = Planned(g, plan)
    return run_parts(multiply_part, &job, part_count(&plan.grid), part_count(&plan.grid))


cdef void describe_few_columns(const Problem *g, const Plan *plan, Description *d) noexcept nogil:
    """Tell the size of a dot kernel; threads share the vectors that are read in place."""
    cdef bint by_rows = (<const FewColumnsPlan *>plan).by_rows
    d.tile[0], d.tile[1] = g.kernels.gemm.dots_rows, g.kernels.gemm.dots_columns
    d.unit[0], d.unit[1] = 1 if by_rows else g.m, g.n if by_rows else 1
    d.units[0], d.units[1] = g.m if by_rows else 1, 1 if by_rows else g.n
