"""Few rows or few columns: B, A or both are read in place, once, where packing would cost more than the product.

``gemm_rows``
    Few rows of A times a C-ordered plain B. Walks along the rows of B, a few at a time, so that the memory sees as many
    sequential streams; the sums of a stretch of columns stay in the L1 or L2 cache (csrc/rows_body.h).
``gemm_dots``
    Few rows of A times a plain B with contiguous columns, or any A with contiguous rows times few columns. Vectorized
    over k (csrc/dot_body.h).

Both need exact numerics and a zero point of A that the operands' signs absorb (``_plan.choose_path``).
"""

from cython.parallel cimport prange
from libc.stddef cimport ptrdiff_t
from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t, uint32_t, uintptr_t
from libc.stdlib cimport free, malloc
from libc.string cimport memset

from int8blas._kernels cimport (
    I8_A_UNSIGNED,
    I8_B_UNSIGNED,
    I8_GROUP,
    I8_MAX_COLUMNS,
    I8_MAX_XR,
    I8_MAX_YR,
    I8_PANEL,
    i8_dot_args,
    i8_output_args,
    i8_rows_args,
)
from int8blas._plan cimport Gemm, Plan, ceil_div, share

cdef enum:
    SUMS_BYTES = 1 << 16        # of the sums that gemm_rows keeps at a time


# Which operand the kernels read as u8, and the zero points that go with that reading: u8 A and s8 B, or s8 A and u8 B.
cdef struct Signs:
    int unsigned_operand
    uint8_t a_flip, b_flip
    int64_t ao, bo


cdef void plain_signs(const Gemm *g, Signs *s) noexcept nogil:
    """As the tiles do: A' is u8, B' is s8."""
    s.unsigned_operand = I8_A_UNSIGNED
    s.a_flip, s.b_flip = g.a_flip, g.b_flip
    s.ao, s.bo = g.ao, g.bo


cdef void unshifted_a(const Gemm *g, Signs *s) noexcept nogil:
    """The reading that leaves A as it is: where it is s8, B is the u8 operand. The zero point of A is then 0."""
    plain_signs(g, s)
    if g.a_flip:
        s.unsigned_operand = I8_B_UNSIGNED
        s.a_flip, s.b_flip = 0, g.b_flip ^ 0x80
        s.ao, s.bo = g.ao - 128, g.bo + 128


cdef void row_offsets(const Gemm *g, const Signs *s, int64_t row, int rows, int64_t *sums,
                      int32_t *offsets) noexcept nogil:
    """What the zero point of B adds to each row: -bo * (sum of the row of A - K * ao)."""
    cdef int i
    if s.bo == 0:
        memset(offsets, 0, rows * sizeof(int32_t))
        return
    g.kernels.row_sums(sums, rows, g.k, g.a + row * g.a_row, g.a_row, g.a_col, g.a_flip)
    for i in range(rows):
        # row_sums reads an s8 A shifted by 128; so does s.ao unless A is the s8 operand.
        sums[i] -= g.k * (s.ao + (128 if s.a_flip != g.a_flip else 0))
        offsets[i] = <int32_t>(<uint32_t>-s.bo * <uint32_t>sums[i])


cdef void store(const Gemm *g, const Plan *p, const int32_t *tile, int rows, int cols, ptrdiff_t tile_row,
                int64_t row, int64_t column) noexcept nogil:
    """The finished product of a few rows and columns goes to C, by the output stage unless that is the identity."""
    cdef i8_output_args o
    cdef int32_t co_row[I8_MAX_XR]
    cdef char *c = g.c + row * g.c_row + column * g.c_col
    cdef int i, j
    if p.identity:
        for i in range(rows):
            for j in range(cols):
                (<int32_t *>(c + i * g.c_row + j * g.c_col))[0] = tile[i * tile_row + j]
        return
    memset(&o, 0, sizeof(o))
    for i in range(rows):
        co_row[i] = g.co
    o.rows, o.cols = rows, cols
    o.acc32, o.acc_row = tile, tile_row
    o.co_row = g.co_rows + row if g.co_rows is not NULL else co_row if g.co != 0 else NULL
    o.co_col = g.co_cols + column if g.co_cols is not NULL else NULL
    o.alpha, o.beta = g.alpha, g.beta
    o.integral = g.alpha == 1 and (g.beta == 0 or g.beta == 1)
    o.c, o.c_row, o.c_col = c, g.c_row, g.c_col
    g.kernels.output(&o)


cdef void rows_part(const Gemm *g, const Plan *p, const Signs *s, const uint8_t *a, const int32_t *offsets,
                    int64_t block, int64_t end, int32_t *sums) noexcept nogil:
    """Blocks of columns from `block` to `end`; the last of all reaches back to be a whole one."""
    cdef int width = g.kernels.rows_columns, m = <int>g.m
    cdef int64_t tiles = ceil_div(m, g.kernels.rows_mr), groups = ceil_div(g.k, I8_GROUP)
    cdef int64_t chunk = max(1, SUMS_BYTES // (4 * m * width)), step = p.kc // I8_GROUP
    cdef int64_t first, last, i, tile, column, group
    cdef int r, height, start
    cdef int32_t finished[I8_MAX_COLUMNS]
    cdef i8_rows_args t
    t.b_row = g.b_row
    t.b_flip = <uint32_t>0x01010101 * s.b_flip
    t.acc_row = width
    first = block
    while first < end:
        last = min(first + chunk, end)
        group = 0
        while group < groups:
            t.first = group == 0
            t.groups = min(step, g.k // I8_GROUP - group)
            t.b_tail = <int>(g.k % I8_GROUP) if group + step >= groups else 0
            for i in range(first, last):
                column = min(i * width, g.n - width)
                t.b = g.b + 4 * group * g.b_row + column
                for tile in range(tiles):
                    r = <int>share(m, tile, tiles)
                    height = <int>share(m, tile + 1, tiles) - r
                    t.a = a + 4 * (r * groups + group * height)
                    t.a_group = 4 * height
                    t.acc = sums + ((i - first) * m + r) * width
                    g.kernels.rows[s.unsigned_operand][height - 1](&t)
            group += step
        for i in range(first, last):
            column = min(i * width, g.n - width)
            start = <int>(i * width - column)
            for r in range(m):
                if p.from_registers:
                    g.kernels.finish_rows(<int32_t *>(g.c + r * g.c_row) + column, sums + ((i - first) * m + r) * width,
                                          start, offsets[r])
                else:
                    g.kernels.finish_rows(finished, sums + ((i - first) * m + r) * width, start, offsets[r])
                    store(g, p, finished + start, 1, width - start, 0, r, column + start)
        first = last


cdef int gemm_rows(const Gemm *g, const Plan *p) noexcept nogil:
    """Few rows times a C-ordered B. 0, or -1 if there is no memory."""
    cdef Signs s
    cdef int parts = p.n_parts, part, r, height
    cdef int64_t blocks = ceil_div(g.n, g.kernels.rows_columns), groups = ceil_div(g.k, I8_GROUP), tile
    cdef int64_t tiles = ceil_div(g.m, g.kernels.rows_mr)
    cdef int64_t a_size = (g.m * groups * I8_GROUP + 63) // 64 * 64
    cdef int64_t sums_size = max(<int64_t>SUMS_BYTES, g.m * 4 * g.kernels.rows_columns)
    cdef char *memory = <char *>malloc(a_size + parts * sums_size + 12 * g.m + 64)
    cdef char *base
    cdef uint8_t *a
    cdef int32_t *offsets
    if memory is NULL:
        return -1
    unshifted_a(g, &s)
    base = <char *>((<uintptr_t>memory + 63) & ~<uintptr_t>63)
    a = <uint8_t *>(base + parts * sums_size)
    offsets = <int32_t *>(a + a_size)
    row_offsets(g, &s, 0, <int>g.m, <int64_t *>base, offsets)
    for tile in range(tiles):
        r = <int>share(g.m, tile, tiles)
        height = <int>share(g.m, tile + 1, tiles) - r
        g.kernels.pack_panel(a + 4 * r * groups, height, height, g.k, g.a + r * g.a_row, g.a_row, g.a_col, s.a_flip)
    if parts == 1:
        rows_part(g, p, &s, a, offsets, 0, blocks, <int32_t *>base)
    else:
        for part in prange(parts, num_threads=parts, schedule="static"):
            rows_part(g, p, &s, a, offsets, share(blocks, part, parts), share(blocks, part + 1, parts),
                      <int32_t *>(base + part * sums_size))
    free(memory)
    return 0


cdef void dots_part(const Gemm *g, const Plan *p, const Signs *s, const uint8_t *columns, ptrdiff_t column_stride,
                    const int32_t *col_offsets, int64_t row, int64_t row_end, int64_t column,
                    int64_t column_end) noexcept nogil:
    """A rectangle of C."""
    cdef int64_t row_tiles = ceil_div(row_end - row, g.kernels.dots_xr)
    cdef int64_t column_tiles = ceil_div(column_end - column, g.kernels.dots_yr)
    cdef int64_t i, r, c, outer, inner
    cdef int64_t sums[I8_MAX_XR]
    cdef int32_t row_offset[I8_MAX_XR]
    cdef int32_t tile[I8_MAX_XR * I8_MAX_YR]
    cdef int xr, yr, x, y
    cdef bint by_rows = g.n <= p.few
    cdef i8_dot_args t
    t.k = g.k
    t.x_row, t.y_row = g.a_row, column_stride
    t.x_flip, t.y_flip = s.a_flip, s.b_flip
    t.dst = tile
    for outer in range(row_tiles if by_rows else column_tiles):
        for inner in range(column_tiles if by_rows else row_tiles):
            i = outer if by_rows else inner
            r = row + share(row_end - row, i, row_tiles)
            xr = <int>(row + share(row_end - row, i + 1, row_tiles) - r)
            i = inner if by_rows else outer
            c = column + share(column_end - column, i, column_tiles)
            yr = <int>(column + share(column_end - column, i + 1, column_tiles) - c)
            t.x = g.a + r * g.a_row
            t.y = columns + c * column_stride
            g.kernels.dots[s.unsigned_operand][xr - 1][yr - 1](&t)
            if s.bo != 0 or col_offsets is not NULL:
                if s.bo != 0 and (inner == 0 or not by_rows):
                    row_offsets(g, s, r, xr, sums, row_offset)
                for x in range(xr):
                    for y in range(yr):
                        tile[x * yr + y] = <int32_t>(
                            <uint32_t>tile[x * yr + y] + (<uint32_t>row_offset[x] if s.bo != 0 else 0)
                            + (<uint32_t>col_offsets[c + y] if col_offsets is not NULL else 0)
                        )
            store(g, p, tile, xr, yr, yr, r, c)


cdef void copy_columns(const Gemm *g, uint8_t *columns, ptrdiff_t stride) noexcept nogil:
    """B' with contiguous columns, `stride` bytes apart."""
    cdef int64_t j, k
    cdef const int8_t *panel
    for j in range(g.n):
        if g.packed is NULL:
            for k in range(g.k):
                columns[j * stride + k] = g.b[k * g.b_row + j * g.b_col] ^ g.b_flip
        else:
            panel = g.packed + j // I8_PANEL * ceil_div(g.k, I8_GROUP) * I8_GROUP * I8_PANEL
            for k in range(g.k):
                columns[j * stride + k] = panel[(k // I8_GROUP * I8_PANEL + j % I8_PANEL) * I8_GROUP + k % I8_GROUP]


cdef int gemm_dots(const Gemm *g, const Plan *p) noexcept nogil:
    """Few columns, or few rows times a B with contiguous columns. 0, or -1 if there is no memory."""
    cdef Signs s
    cdef bint few_columns = g.n <= p.few, in_place = g.packed is NULL and g.b_row == 1
    cdef int parts = p.m_parts * p.n_parts, part
    cdef ptrdiff_t stride = (g.k + 63) // 64 * 64
    cdef const uint8_t *columns = g.b
    cdef char *memory = NULL
    cdef int64_t *sums
    cdef int32_t *offsets = NULL
    cdef int64_t j
    if few_columns:
        plain_signs(g, &s)
    else:
        unshifted_a(g, &s)
    if few_columns and (s.ao != 0 or not in_place):
        memory = <char *>malloc(g.n * 12 + (0 if in_place else g.n * stride))
        if memory is NULL:
            return -1
        sums = <int64_t *>memory
        offsets = <int32_t *>(sums + g.n)
        if not in_place:
            columns = <const uint8_t *>(offsets + g.n)
            copy_columns(g, <uint8_t *>columns, stride)
            s.b_flip = 0
        if s.ao != 0:
            # row_sums reads u8: shift the s8 columns by 128 for it.
            g.kernels.row_sums(sums, g.n, g.k, columns, stride if not in_place else g.b_col, 1, s.b_flip ^ 0x80)
            for j in range(g.n):
                offsets[j] = <int32_t>(<uint32_t>-s.ao * <uint32_t>(sums[j] - 128 * g.k))
        else:
            offsets = NULL
    if in_place:
        stride = g.b_col
    if parts == 1:
        dots_part(g, p, &s, columns, stride, offsets, 0, g.m, 0, g.n)
    else:
        for part in prange(parts, num_threads=parts, schedule="static"):
            dots_part(g, p, &s, columns, stride, offsets, share(g.m, part // p.n_parts, p.m_parts),
                      share(g.m, part // p.n_parts + 1, p.m_parts), share(g.n, part % p.n_parts, p.n_parts),
                      share(g.n, part % p.n_parts + 1, p.n_parts))
    free(memory)
    return 0
