"""Multiply elements wider than 8 bits (csrc/gemm/wide.h). Blocks of both operands are packed for one kind of
multiply-add. Tiles add their sums to C in 64 bits.

The loops go, from the outermost, over blocks of B (some k and columns), blocks of A, panels of B, and tiles.
Each thread computes a rectangle of C, or some matrices of a stack.
"""

from libc.stddef cimport ptrdiff_t
from libc.stdint cimport INT64_MAX, INT64_MIN, int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from int8blas.core.kernels cimport (
    I8_INT_S8, I8_INT_S16, I8_INT_S32, I8_INT_S64, I8_INT_U8, I8_INT_U16, I8_INT_U32, I8_PANEL, I8_WIDE_F64,
    I8_WIDE_S16_FULL, i8_wide_kind, i8_wide_tile_args)
from int8blas.core.memory cimport ALIGNMENT, acquire, aligned, release
from int8blas.core.split cimport Grid, Piece, MAX_PIECES, ceil_div, part_count, pieces_of, round_up, share, split
from int8blas.core.threads cimport paid_threads, parallel_for, part_fn

cdef extern from "gemm/direct.h" nogil:
    ctypedef struct i8_direct_operand:
        const char *data
        ptrdiff_t row, column

    void i8_multiply_direct(int type, const i8_direct_operand *a, const i8_direct_operand *b, int64_t *c,
                            ptrdiff_t c_row, int64_t m, int64_t n, int64_t k)

cdef enum:
    # The number of groups of k in a block. With AVX-512, a panel of B takes 24 KiB of L1, a tile's A 8 KiB.
    BLOCK_GROUPS = 128
    A_BYTES = 128 << 10         # bytes of a block of A, in the L2 cache
    B_BYTES = 512 << 10         # bytes of a block of B, in the L2 or L3 cache
    SMALL_BYTES = 8 << 10       # maximum bytes of both operands if they are packed on the stack

# An integer of 64 bits has three digits of 22 bits. The sum of 3 * 2**16 products of digits fits 64 bits.
cdef enum:
    DIGIT_BITS = 22
    DIGIT_MASK = (1 << 22) - 1
    DIGIT_K = 1 << 16


# The panels that tiles read, in a block of B or in a packed B.
cdef struct Panels:
    const char *data
    int width                   # columns of a panel
    ptrdiff_t step              # bytes to the next panel


# A rectangle of one product of the stack, its blocks, and the memory for the blocks.
cdef struct Rectangle:
    const WideProduct *w
    const i8_wide_kind *kind
    const char *a
    const char *b
    char *c
    int group                   # k of a group
    int size                    # bytes of a group of one row or column
    Piece piece                 # in elements of C
    int64_t groups, rows, columns   # sizes of a block
    int64_t a_bytes             # bytes of a block of A
    char *a_block
    char *b_block
    Panels panels


cdef void operands_of(const WideProduct *w, int64_t index, const char **a, const char **b) noexcept nogil:
    """Set the addresses of pair number `index` of the stack."""
    cdef ptrdiff_t to_a = 0, to_b = 0
    cdef int64_t i
    cdef int axis
    if w.stack.dims == 1:
        a[0], b[0] = w.a.data + index * w.stack.a_steps[0], w.b.data + index * w.stack.b_steps[0]
        return
    for axis in range(w.stack.dims - 1, -1, -1):
        i = index % w.stack.shape[axis]
        index = index // w.stack.shape[axis]
        to_a += i * w.stack.a_steps[axis]
        to_b += i * w.stack.b_steps[axis]
    a[0], b[0] = w.a.data + to_a, w.b.data + to_b


cdef void multiply_panels(Rectangle *r, int64_t row, int64_t rows, int64_t column, int64_t columns, int64_t k,
                          int64_t groups) noexcept nogil:
    """Multiply a packed block of A by a packed block of B, tile by tile."""
    cdef const WideProduct *w = r.w
    cdef i8_wide_tile_args t
    cdef int64_t i, j, g, segment = min(groups, w.segment)
    cdef int width = r.panels.width
    cdef const char *a
    cdef const char *b
    t.c_row, t.panel = w.n, r.panels.step
    j = 0
    while j < columns:
        t.cols = <int>min(columns - j, <int64_t>r.kind.columns)
        b = r.panels.data + j // width * r.panels.step + j % width * r.size
        i = 0
        while i < rows:
            t.rows = <int>min(rows - i, <int64_t>r.kind.rows)
            t.c = r.c + ((row + i) * w.n + column + j) * <ptrdiff_t>sizeof(int64_t)
            a = r.a_block + i * groups * r.size
            g = 0
            while g < groups:
                t.groups = min(segment, groups - g)
                t.a, t.b = a + g * r.kind.rows * r.size, b + g * width * r.size
                t.add = k > 0 or g > 0
                r.kind.tile(&t)
                g += segment
            i += r.kind.rows
        j += r.kind.columns


cdef void pack_operand(const Rectangle *r, char *block, const WideOperand *x, const char *data, ptrdiff_t line,
                       ptrdiff_t step, int64_t lines, int width, int64_t k) noexcept nogil:
    """Pack rows of A or columns of B, `width` at a time."""
    cdef int64_t i = 0
    while i < lines:
        r.w.kernels.pack[r.w.kind][x.type](block, <int>min(lines - i, <int64_t>width), width, k, data, line, step)
        block += width * ceil_div(k, r.group) * r.size
        data += width * line
        i += width


cdef void set_panels(Rectangle *r, int64_t column, int64_t columns, int64_t k, int64_t depth) noexcept nogil:
    """Set the panels of a block of B, and pack the block unless B is packed."""
    cdef const WideProduct *w = r.w
    cdef int width = r.panels.width
    if w.packed is not NULL:
        r.panels.step = w.panel
        r.panels.data = w.packed + column // width * w.panel + k // r.group * width * r.size
        return
    r.panels.data, r.panels.step = r.b_block, ceil_div(depth, r.group) * width * r.size
    pack_operand(r, r.b_block, &w.b, r.b + k * w.b.row + column * w.b.column, w.b.column, w.b.row, columns, width,
                 depth)


cdef void multiply_rectangle(Rectangle *r) noexcept nogil:
    """Compute a rectangle of C, block by block."""
    cdef const WideProduct *w = r.w
    cdef const Piece *p = &r.piece
    cdef int64_t row, column = p.column, k, rows, columns, depth
    while column < p.column_end:
        columns, k = min(r.columns, p.column_end - column), 0
        while k < w.k:
            depth, row = min(r.groups * r.group, w.k - k), p.row
            set_panels(r, column, columns, k, depth)
            while row < p.row_end:
                rows = min(r.rows, p.row_end - row)
                pack_operand(r, r.a_block, &w.a, r.a + row * w.a.row + k * w.a.column, w.a.row, w.a.column, rows,
                             r.kind.rows, depth)
                multiply_panels(r, row, rows, column, columns, k, ceil_div(depth, r.group))
                row += rows
            k += depth
        column += columns


cdef inline int column_unit(const WideProduct *w) noexcept nogil:
    """Return the number of columns of the units into which blocks and threads divide C: a tile, or a wider panel of
    pairs."""
    return max(w.kernels.kinds[w.kind].columns, I8_PANEL if w.kind <= I8_WIDE_S16_FULL else 0)


cdef size_t set_blocks(Rectangle *r, const WideProduct *w, int64_t rows, int64_t columns) noexcept nogil:
    """Choose the blocks of a rectangle of this size, and return the bytes of the blocks."""
    cdef int unit = column_unit(w)
    r.w, r.kind = w, &w.kernels.kinds[w.kind]
    r.group, r.size = (2, 4) if w.kind <= I8_WIDE_S16_FULL else (1, 8)
    r.groups = min(<int64_t>BLOCK_GROUPS, ceil_div(w.k, r.group))
    r.rows = min(round_up(A_BYTES // (r.groups * r.size), r.kind.rows), round_up(rows, r.kind.rows))
    r.panels.width = I8_PANEL if w.kind <= I8_WIDE_S16_FULL else r.kind.columns
    r.columns = min(round_up(B_BYTES // (r.groups * r.size), unit), round_up(columns, unit))
    r.a_bytes = round_up(r.rows * r.groups * r.size, ALIGNMENT)
    return r.a_bytes + (r.columns * r.groups * r.size if w.packed is NULL else 0)


cdef bint is_direct(const WideProduct *w) noexcept nogil:
    """Return whether the operands are read in place: the product is small, or consists of dot products of contiguous
    vectors."""
    cdef ptrdiff_t size = 1 << (w.a.type >> 1)
    if w.packed is not NULL or w.kind == I8_WIDE_F64 or w.a.type != w.b.type or w.a.type < I8_INT_S16:
        return False
    if <double>w.m * w.n * w.k <= DIRECT_WORK:
        return True
    return min(w.m, w.n) == 1 and w.a.column == size and w.b.row == size


cdef void multiply_direct(const WideProduct *w, int64_t index, int64_t end, const Piece *p) noexcept nogil:
    """Compute a rectangle of some products of the stack from their operands in place."""
    cdef i8_direct_operand a, b
    a.row, a.column, b.row, b.column = w.a.row, w.a.column, w.b.row, w.b.column
    while index < end:
        operands_of(w, index, &a.data, &b.data)
        a.data += p.row * w.a.row
        b.data += p.column * w.b.column
        i8_multiply_direct(w.a.type, &a, &b, <int64_t *>w.c + (index * w.m + p.row) * w.n + p.column, w.n,
                           p.row_end - p.row, p.column_end - p.column, w.k)
        index += 1


cdef void multiply_piece(const WideProduct *w, int64_t index, const Piece *piece, char *memory) noexcept nogil:
    """Compute a rectangle of one product of the stack."""
    cdef Rectangle r
    cdef char[SMALL_BYTES + ALIGNMENT] small
    if set_blocks(&r, w, piece.row_end - piece.row, piece.column_end - piece.column) <= SMALL_BYTES:
        memory = aligned(small)
    r.piece, r.a_block, r.b_block = piece[0], memory, memory + r.a_bytes
    operands_of(w, index, &r.a, &r.b)
    r.c = w.c + index * w.m * w.n * <ptrdiff_t>sizeof(int64_t)
    multiply_rectangle(&r)


cdef struct WideJob:
    const WideProduct *w
    bint direct
    Grid grid
    char *memory                # blocks of each part, one after the other
    size_t part_bytes


cdef int multiply_own(const void *job, int64_t part, int64_t _parts) noexcept nogil:
    """Compute one thread's rectangles of a product. Return 0."""
    cdef const WideJob *j = <const WideJob *>job
    cdef const WideProduct *w = j.w
    cdef const i8_wide_kind *kind = &w.kernels.kinds[w.kind]
    cdef Piece pieces[MAX_PIECES]
    cdef Piece *p
    cdef int i, unit = column_unit(w)
    for i in range(pieces_of(&j.grid, <int>part, pieces)):
        p = &pieces[i]
        p.row, p.row_end = p.row * kind.rows, min(p.row_end * kind.rows, w.m)
        p.column, p.column_end = p.column * unit, min(p.column_end * unit, w.n)
        if j.direct:
            multiply_direct(w, 0, 1, p)
        else:
            multiply_piece(w, 0, p, j.memory + part * j.part_bytes)
    return 0


cdef int multiply_some(const void *job, int64_t part, int64_t parts) noexcept nogil:
    """Compute one thread's products of a stack. Return 0."""
    cdef const WideJob *j = <const WideJob *>job
    cdef const WideProduct *w = j.w
    cdef Piece whole = Piece(0, w.m, 0, w.n)
    cdef int64_t index = share(w.stack.count, part, parts), end = share(w.stack.count, part + 1, parts)
    if j.direct:
        multiply_direct(w, index, end, &whole)
        return 0
    for index in range(index, end):
        multiply_piece(w, index, &whole, j.memory + part * j.part_bytes)
    return 0


cdef int multiply_wide(const WideProduct *w, int threads) noexcept nogil:
    """Compute a stack of products. Return 0, or -1 if there is no memory; C is then unchanged."""
    cdef WideJob job
    cdef Rectangle r
    cdef const i8_wide_kind *kind = &w.kernels.kinds[w.kind]
    cdef double work = <double>w.m * w.n * w.k * w.stack.count
    cdef part_fn function = multiply_some
    cdef int64_t parts
    if w.k == 0:
        memset(w.c, 0, w.stack.count * w.m * w.n * sizeof(int64_t))
    if work == 0:
        return 0
    threads = paid_threads(work, WIDE_THREAD_WORK, threads)
    parts = min(w.stack.count, <int64_t>threads)
    if w.stack.count == 1 and threads > 1:
        split(ceil_div(w.m, kind.rows), ceil_div(w.n, column_unit(w)), threads, True, &job.grid)
        function, parts = multiply_own, part_count(&job.grid)
    job.w, job.memory, job.direct = w, NULL, is_direct(w)
    job.part_bytes = 0 if job.direct else set_blocks(&r, w, w.m, w.n)
    if job.part_bytes > SMALL_BYTES:
        job.part_bytes = round_up(job.part_bytes, ALIGNMENT)
        job.memory = <char *>acquire(parts * job.part_bytes)
        if job.memory is NULL:
            return -1
    parallel_for(function, &job, parts, threads)
    release(job.memory)
    return 0


cdef void set_digits(int64_t *digits, const char *p, int type) noexcept nogil:
    """Divide an integer into three digits. The last digit has the sign."""
    cdef int64_t x = 0
    cdef int8_t s8
    cdef int16_t s16
    cdef int32_t s32
    cdef uint8_t u8
    cdef uint16_t u16
    cdef uint32_t u32
    cdef uint64_t u64
    if type == I8_INT_S8:
        memcpy(&s8, p, sizeof(s8))
        x = s8
    elif type == I8_INT_U8:
        memcpy(&u8, p, sizeof(u8))
        x = u8
    elif type == I8_INT_S16:
        memcpy(&s16, p, sizeof(s16))
        x = s16
    elif type == I8_INT_U16:
        memcpy(&u16, p, sizeof(u16))
        x = u16
    elif type == I8_INT_S32:
        memcpy(&s32, p, sizeof(s32))
        x = s32
    elif type == I8_INT_U32:
        memcpy(&u32, p, sizeof(u32))
        x = u32
    else:
        memcpy(&x, p, sizeof(x))
    digits[0], digits[1], digits[2] = x & DIGIT_MASK, x >> DIGIT_BITS & DIGIT_MASK, x >> 2 * DIGIT_BITS
    if type > I8_INT_S64:
        memcpy(&u64, p, sizeof(u64))
        digits[2] = <int64_t>(u64 >> 2 * DIGIT_BITS)


cdef int64_t exact_element(const WideProduct *w, int64_t index, int64_t row, int64_t column, bint to_u64,
                           bint *beyond) noexcept nogil:
    """Return one element of C, saturated to s64, or to u64 with its bits in an s64. Set `beyond` if the element
    saturated."""
    cdef int64_t sums[5]
    cdef int64_t x[3]
    cdef int64_t y[3]
    cdef int64_t k, top
    cdef const char *a
    cdef const char *b
    cdef int i, j
    memset(sums, 0, sizeof(sums))
    operands_of(w, index, &a, &b)
    for k in range(w.k):
        set_digits(x, a + row * w.a.row + k * w.a.column, w.a.type)
        set_digits(y, b + k * w.b.row + column * w.b.column, w.b.type)
        for i in range(3):
            for j in range(3):
                sums[i + j] += x[i] * y[j]
        if k % DIGIT_K == DIGIT_K - 1 or k == w.k - 1:
            for i in range(4):
                sums[i + 1] += sums[i] >> DIGIT_BITS
                sums[i] &= DIGIT_MASK
    # `top` has bits 66 and above of the sum. In a sum that fits u64, all bits beyond 63 are 0. In a sum that fits s64,
    # all bits from 63 on are equal.
    top = (sums[4] << DIGIT_BITS) + sums[3]
    if to_u64:
        if sums[4] < 0:
            beyond[0] = True
            return 0
        if sums[4] > 0 or (top << 2) + (sums[2] >> 20) != 0:
            beyond[0] = True
            return -1
    elif not -1 <= sums[4] <= 0 or not -1 <= (top << 3) + (sums[2] >> 19) <= 0:
        beyond[0] = True
        return INT64_MIN if sums[4] < 0 else INT64_MAX
    return <int64_t>(sums[0] + (<uint64_t>sums[1] << DIGIT_BITS) + (<uint64_t>sums[2] << 2 * DIGIT_BITS))
