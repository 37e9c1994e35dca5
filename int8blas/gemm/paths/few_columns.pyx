"""Dot products of vectors (csrc/gemm/dot_body.h): many vectors, read in place, times a few packed vectors.

The many vectors, x, are the rows of A if C has few columns, or the columns of a plain B if C has few rows. The few
vectors, y, belong to the other operand. The kernels read contiguous vectors x. If y has zero points, the path needs the
sums of x, which are products of x with a vector of ones. If the kernel has a spare column, the vector of ones is an
additional y. If the kernel has no spare column, a separate kernel of one column multiplies the vector of ones.
"""

from libc.stddef cimport ptrdiff_t
from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t, uint32_t
from libc.string cimport memset

from int8blas.core.kernels cimport (
    I8_CHUNK, I8_DOT4, I8_DOTS_1, I8_DOTS_8, I8_DOTS_16, I8_GROUP, I8_PANEL, I8_X_UNSIGNED, I8_Y_UNSIGNED, i8_dot_args,
    i8_dot_fn, i8_matrix, i8_output_args)
from int8blas.core.memory cimport acquire, aligned, release
from int8blas.core.split cimport ceil_div, part_count, share, split
from int8blas.core.threads cimport parallel_for
from int8blas.gemm.operand cimport SHIFT, SIGN_BIT, address
from int8blas.gemm.output cimport output
from int8blas.gemm.path cimport Description, Path, Plan, Planned, as_capsule, divide_long_k, needs_blocks
from int8blas.gemm.paths.sizes cimport is_dot_k
from int8blas.gemm.problem cimport Problem, busy_threads, is_quantized, is_uncached_size, matrix_of, thread_work

cdef enum:
    # The maximum number of rows of A for which the path reads a B with contiguous columns in place, instead of packing
    # it. The maximum is MORE_ROWS if K is at least MORE_ROWS_K and kernels store C themselves, and FEW_ROWS if not. If
    # the path reads A in place, the columns of C must fit one dot kernel. On Zen 5 (AVX512-VNNI), 20 x 2048 x 512 takes
    # 53 us in place and 68 us packed. 32 x 4096 x 100 takes 54 us in place and 37 us packed. 40 x 2048 x 200 takes 48
    # us in place and 39 us packed, and 40 x 2048 x 384 takes 81 us in both ways.
    FEW_ROWS = 16
    MORE_ROWS = 64
    MORE_ROWS_K = 256
    # The number of columns of the widest kernel.
    MAX_Y = 16
    MAX_PIECES = 5
    # The number of vectors x for each call of the epilogue. If the path reads x more than once, the vectors x of one
    # call take at most half of the L1 cache, unless K is so long that fewer than MIN_BLOCK vectors fit. MIN_BLOCK
    # matters little: with 2, 8 and 32 vectors, 2000 x 8 x 8192 takes 356 us, 348 us and 358 us (AVX512-VNNI, Zen 5).
    BLOCK = 64
    MIN_BLOCK = 8


cdef struct FewColumnsPlan:
    Plan common
    bint by_rows                # rows of A are read in place; otherwise columns of B
    bint uncached               # no cache holds the vectors that are read in place


cdef bint reads_a(const Problem *g) noexcept nogil:
    """Return whether the path reads rows of A in place, because C has few columns, and not columns of B."""
    cdef const i8_matrix *matrix = matrix_of(g)
    cdef int64_t columns = g.kernels.gemm.dots.columns if matrix is NULL else matrix.dots_columns
    return g.a.column == 1 and g.m >= g.n and g.n <= columns


cdef bint pays_for_more_rows(const Problem *g, const Plan *p) noexcept nogil:
    """Return whether K is long enough for MORE_ROWS rows, and the widest kernel can store C. A must have no zero point,
    and B at most one for all of its elements."""
    return (
        g.k >= MORE_ROWS_K and g.kernels.gemm.exact == I8_DOT4 and g.kernels.gemm.dots.columns == MAX_Y
        and matrix_of(g) is NULL and p.identity
        and g.b.zero_points is NULL and g.a.zero_points is NULL and g.a.zero_point == (SHIFT if g.a.sign_flip else 0)
    )


cdef bint takes_few_columns(const Problem *g, const Plan *p) noexcept nogil:
    """Return whether K is long, and the path can read one operand in place along k (A if C has few columns, B if C has
    few rows)."""
    if g.kernels.gemm.dots.columns == 0 or not is_dot_k(g.k, min(g.m, g.n)) or needs_blocks(g, p):
        return False
    if reads_a(g):
        return True
    return (
        g.panels.data is NULL and g.b.row == 1
        and g.m <= (MORE_ROWS if pays_for_more_rows(g, p) else FEW_ROWS)
    )


cdef void plan_few_columns(const Problem *g, Plan *plan) noexcept nogil:
    """Choose the operand that is read in place, and the number of threads."""
    cdef FewColumnsPlan *p = <FewColumnsPlan *>plan
    p.by_rows = reads_a(g)
    cdef int64_t vectors = g.m if p.by_rows else g.n
    cdef int64_t threads = busy_threads(g, thread_work(g), vectors)
    cdef int64_t pieces = ceil_div(vectors, g.kernels.gemm.dots.rows)
    p.uncached = g.known.uncached or is_uncached_size(g.machine, <double>vectors * g.k)
    if p.by_rows:
        split(pieces, 1, threads, False, &plan.grid)
    else:
        split(1, pieces, threads, True, &plan.grid)
    divide_long_k(g, plan)


# The zero points of x or y for the kernel. The zero point of vector i is value + values[i], or `value` if `values` is
# NULL.
cdef struct Zeros:
    int64_t value
    const int64_t *values


# The vectors y that one call of a kernel multiplies. `count` is 0 in a piece that has only the vector of ones.
cdef struct Piece:
    int first, count, columns   # columns of the kernel; the first `count` exist in C
    int ones                    # the column that is a vector of ones, or -1
    i8_dot_fn kernel
    uint8_t *y
    int32_t sums[MAX_Y]         # sums of y, if x has zero points
    int32_t start[MAX_Y]


# The vectors x, which the kernels read in place.
cdef struct Vectors:
    bint is_unsigned            # True: x is u8 and y is s8; False: x is s8 and y is u8
    const uint8_t *data
    ptrdiff_t row               # bytes from one vector to the next
    uint8_t flip                # the kernel XORs x with this byte, to get the sign that it multiplies
    Zeros zeros


cdef struct Operands:
    bint by_rows                # True: x are rows of A, y columns of B; False: x are columns of B, y rows of A
    Vectors x
    Zeros y_zeros
    const uint8_t *ones         # a vector of K ones
    int pieces
    int64_t block               # the number of vectors x at a time
    Piece piece[MAX_PIECES]
    bint direct                 # C has the bare sums, and the kernel stores them
    ptrdiff_t c_x, c_y          # strides of C: from one x to the next, and from one y to the next


cdef bint is_zero(const Zeros *z) noexcept nogil:
    return z.value == 0 and z.values is NULL


cdef inline int64_t zero_at(const Zeros *z, int64_t i) noexcept nogil:
    return z.value if z.values is NULL else z.value + z.values[i]


cdef i8_dot_fn kernel_of(const Problem *g, const Operands *o, int columns) noexcept nogil:
    cdef int width = I8_DOTS_16 if columns == 16 else I8_DOTS_8 if columns == 8 else I8_DOTS_1 + columns - 1
    return g.kernels.gemm.dots.of[I8_X_UNSIGNED if o.x.is_unsigned else I8_Y_UNSIGNED][width]


cdef void set_y(const Problem *g, const Operands *o, const Piece *piece, int64_t *zeros, int64_t *terms) noexcept nogil:
    """Set the zero points of a piece's vectors y. Set terms to sum(y) - K * zero point of y: the zero points of x
    multiply these terms."""
    cdef int y
    for y in range(piece.count):
        zeros[y] = zero_at(&o.y_zeros, piece.first + y)
        terms[y] = piece.sums[y] - g.k * zeros[y]


cdef void store_columns(const Problem *g, const Operands *o, const Piece *piece, const int32_t *tile,
                        const int64_t *x_sums, const int64_t *x_zeros, int64_t first, int rows) noexcept nogil:
    """Apply the epilogue to a tile of sums. In `g`, the vectors y are rows of C."""
    cdef int32_t transposed[BLOCK * MAX_Y + I8_CHUNK]
    cdef int64_t y_zeros[MAX_Y]
    cdef int64_t y_terms[MAX_Y]
    cdef int x, y
    cdef i8_output_args t
    memset(&t, 0, sizeof(t))
    for y in range(piece.count):
        for x in range(rows):
            transposed[y * BLOCK + x] = tile[x * piece.columns + y]
    set_y(g, o, piece, y_zeros, y_terms)
    # The start values and the sums of x already contain a zero point that all x share.
    if not is_zero(&o.y_zeros):
        t.ao, t.col_sum = y_zeros, x_sums
    if o.x.zeros.values is not NULL:
        t.bo, t.row_term = x_zeros, y_terms
    output(g, &t, transposed, piece.count, rows, BLOCK, piece.first, first)


cdef void store_rows(const Problem *g, const Operands *o, const Piece *piece, const int32_t *tile,
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
    if o.x.zeros.values is not NULL:
        t.ao, t.col_sum = x_zeros, y_terms
    output(g, &t, tile, rows, piece.count, piece.columns, first, piece.first)


cdef void multiply_vectors(const Problem *g, const FewColumnsPlan *p, const Operands *o, int64_t first,
                           int64_t end) noexcept nogil:
    """Multiply some of the vectors x by all packed vectors y."""
    cdef int32_t sums[BLOCK * MAX_Y + 2 * I8_CHUNK]
    cdef int32_t *tile = <int32_t *>aligned(<char *>sums)
    cdef int64_t x_sums[BLOCK]
    cdef int64_t x_zeros[BLOCK]
    cdef int64_t rows = o.block, x_zero = o.x.zeros.value if o.x.zeros.values is NULL else 0
    cdef int i, x, ones
    cdef const Piece *piece
    cdef Problem by_y = g[0]
    cdef i8_dot_args t
    if o.by_rows:
        by_y.c.row, by_y.c.column = g.c.column, g.c.row
        by_y.epilogue.co_rows, by_y.epilogue.co_cols = g.epilogue.co_cols, g.epilogue.co_rows
    t.k, t.ahead, t.x_squares = g.k, 0, NULL
    t.x_row, t.x_flip, t.uncached = o.x.row, o.x.flip, p.uncached
    while first < end:
        rows = min(rows, end - first)
        t.rows = rows
        t.x = o.x.data + first * o.x.row
        if o.x.zeros.values is not NULL:
            for x in range(rows):
                x_zeros[x] = zero_at(&o.x.zeros, first + x)
        for i in range(o.pieces):
            piece = &o.piece[i]
            t.y, t.start = piece.y, <int32_t *>piece.start
            if o.direct:
                t.dst = g.c.data + first * o.c_x + piece.first * o.c_y
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
                store_rows(g, o, piece, tile, x_sums, x_zeros, first, <int>rows)
            else:
                store_columns(&by_y, o, piece, tile, x_sums, x_zeros, first, <int>rows)
        first += rows


cdef void set_signs(const Problem *g, Operands *o) noexcept nogil:
    """Choose whether x or y is the u8 operand, and set both zero points. If x and y have the same sign, shift x.
    """
    cdef bint a_is_u8 = g.a.sign_flip == 0, b_is_u8 = g.panels.data is NULL and g.b.sign_flip != 0
    cdef bint x_is_u8 = a_is_u8 if o.by_rows else b_is_u8, y_is_u8 = b_is_u8 if o.by_rows else a_is_u8
    # The zero points in `g` are for A' and B'. Shift x, because shifting y would need the sums of x.
    cdef int64_t a_shift = 0 if a_is_u8 else -SHIFT, b_shift = SHIFT if b_is_u8 else 0
    cdef Zeros a, b
    a.value, a.values = a_shift + (g.a.zero_point if g.a.zero_points is NULL else 0), g.a.zero_points
    b.value, b.values = b_shift + (g.b.zero_point if g.b.zero_points is NULL else 0), g.b.zero_points
    o.x.zeros, o.y_zeros = a, b
    if not o.by_rows:
        o.x.zeros, o.y_zeros = b, a
    o.x.is_unsigned = not y_is_u8
    o.x.flip = 0
    if o.x.is_unsigned != x_is_u8:
        o.x.flip = SIGN_BIT
        o.x.zeros.value += SHIFT if o.x.is_unsigned else -SHIFT


cdef int64_t add_piece(const Problem *g, Operands *o, int first, int count, int columns, int ones) noexcept nogil:
    """Add a piece. Return the bytes of the packed piece."""
    cdef Piece *piece = &o.piece[o.pieces]
    piece.first, piece.count, piece.columns, piece.ones = first, count, columns, ones
    piece.kernel = kernel_of(g, o, columns)
    o.pieces += 1
    return g.kernels.gemm.dots.size(columns, g.k)


cdef int64_t cut(const Problem *g, Operands *o, int count) noexcept nogil:
    """Divide `count` vectors y into pieces. Return the bytes of the packed pieces."""
    cdef int64_t size = 0
    cdef int first = 0, rest, columns
    cdef bint sums = not is_zero(&o.y_zeros), has_ones
    o.pieces = 0
    while first < count:
        rest = count - first
        # Choose a kernel of 16 or 8 columns only if at most a quarter of its columns is padding or ones.
        if rest > 12 and g.kernels.gemm.dots.columns == 16:
            columns = 16
        elif rest > (4 if sums else 6):
            columns = 8
        else:
            columns = min(rest, 4)
        # If the first piece has a free column, or fewer than 4 columns, it also has the vector of ones. If the first
        # piece has no room for the vector of ones, this vector is a separate piece.
        if sums and first == 0 and rest < 4:
            columns = rest + 1
        if sums and first == 0 and rest >= columns:
            size += add_piece(g, o, 0, 0, 1, 0)
        has_ones = sums and first == 0 and rest < columns
        size += add_piece(g, o, first, min(columns, rest), columns, rest if has_ones else -1)
        first += min(columns, rest)
    return size


cdef inline void set_tile(i8_dot_args *t, const Piece *piece, const int32_t *tile) noexcept nogil:
    """Set the kernel's destination to a tile, for all columns of the kernel."""
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
        # B has at most 16 columns, so it is one panel, and every piece is a part of this panel.
        panel = g.panels.data + piece.first * I8_GROUP
        for i in range(groups):
            for y in range(piece.columns):
                (<uint32_t *>scratch)[i * piece.columns + y] = (<const uint32_t *>panel)[i * I8_PANEL + y]
    if piece.ones >= 0:
        # The kernel needs zeros after the last k, where the replaced column of the panel may have other numbers.
        for i in range(groups * I8_GROUP):
            scratch[i // I8_GROUP * size + piece.ones * I8_GROUP + i % I8_GROUP] = i < g.k
    memset(scratch + groups * size, 0, g.kernels.gemm.dots.size(piece.columns, g.k) - groups * size)
    g.kernels.gemm.dots.order(piece.y, scratch, piece.columns, g.k, not o.x.is_unsigned)

    memset(piece.start, 0, sizeof(piece.start))
    if not is_zero(&o.x.zeros):
        # Compute the sums of y as products with a vector of ones.
        memset(&t, 0, sizeof(t))
        t.k = g.k
        t.rows = 1
        t.x = o.ones
        t.y = piece.y
        set_tile(&t, piece, piece.sums)
        piece.kernel(&t)
        for y in range(piece.count if o.x.zeros.values is NULL else 0):
            piece.start[y] = <int32_t>(-<uint32_t>o.x.zeros.value * <uint32_t>piece.sums[y])


cdef int multiply_x_vectors(const void *job, int64_t part, int64_t parts) noexcept nogil:
    """Multiply one thread's vectors x by all vectors y. Return 0, or -1 if there is no memory."""
    cdef const Problem *g = (<const Planned *>job).g
    cdef const FewColumnsPlan *p = <const FewColumnsPlan *>(<const Planned *>job).p
    cdef int64_t many = g.m if p.by_rows else g.n
    cdef int64_t first = share(many, part, parts), end = share(many, part + 1, parts)
    cdef Operands o
    cdef int i, few = <int>(g.n if p.by_rows else g.m)
    cdef int64_t size, one_size
    cdef char *memory
    cdef uint8_t *y
    o.by_rows = p.by_rows
    o.x.data, o.x.row = g.a.data, g.a.row
    o.c_x, o.c_y = g.c.row, g.c.column
    if not o.by_rows:
        o.x.data, o.x.row = g.b.data, g.b.column
        o.c_x, o.c_y = g.c.column, g.c.row
    set_signs(g, &o)
    size = cut(g, &o, few)
    one_size = g.kernels.gemm.dots.size(1, g.k)
    memory = <char *>acquire(2 * size + one_size)
    if memory is NULL:
        return -1
    if g.c.dry_run:
        release(memory)
        return 0
    y = <uint8_t *>memory
    o.ones = y + size
    memset(y + size, 1, g.k)
    memset(y + size + g.k, 0, one_size - g.k)
    o.direct = p.common.identity and is_zero(&o.y_zeros) and o.x.zeros.values is NULL
    # If the kernel stores C, one call of the kernel takes all of x.
    o.block = end - first if o.direct else BLOCK
    for i in range(o.pieces):
        o.piece[i].y = y
        y += g.kernels.gemm.dots.size(o.piece[i].columns, g.k)
        pack_piece(g, &o, &o.piece[i], <uint8_t *>o.ones + one_size)
        if o.pieces > 1:
            o.block = max(<int64_t>MIN_BLOCK, min(<int64_t>BLOCK, g.machine.l1 // 2 // g.k // MIN_BLOCK * MIN_BLOCK))
    multiply_vectors(g, p, &o, first, end)
    release(memory)
    return 0


cdef int run_few_columns(const Problem *g, const Plan *plan) noexcept nogil:
    """Compute a planned problem. Return 0, or -1 if there is no memory.

    Each thread packs all of y: packing takes less time than fetching y from another core.
    """
    cdef Planned job = Planned(g, plan)
    return parallel_for(multiply_x_vectors, &job, part_count(&plan.grid), part_count(&plan.grid))


cdef void describe_few_columns(const Problem *g, const Plan *plan, Description *d) noexcept nogil:
    """Describe the plan: the size of a dot kernel, and the vectors read in place, which threads divide."""
    cdef bint by_rows = (<const FewColumnsPlan *>plan).by_rows
    d.tile[0], d.tile[1] = g.kernels.gemm.dots.rows, g.kernels.gemm.dots.columns
    d.unit[0], d.unit[1] = 1 if by_rows else g.m, g.n if by_rows else 1
    d.units[0], d.units[1] = g.m if by_rows else 1, 1 if by_rows else g.n


cdef Path path = Path(
    name=b"few_columns", summary=b"few rows or columns, so the other operand is read in place along k",
    by_size=False, names_kernel=True, sums_any_k=False,
    takes=takes_few_columns, specialize=NULL, plan=plan_few_columns, run=run_few_columns, describe=describe_few_columns)
PATH = as_capsule(&path, sizeof(FewColumnsPlan))
