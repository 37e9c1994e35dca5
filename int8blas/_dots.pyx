"""Dot products of contiguous vectors, vectorized over k (csrc/dot_body.h).

For few rows of A times a plain B with contiguous columns, or any A with contiguous rows times few columns: packing would
cost more than the product.
"""

from cython.parallel cimport prange
from libc.stddef cimport ptrdiff_t
from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t, uint32_t
from libc.stdlib cimport free, malloc

from int8blas._inplace cimport Signs, plain_signs, row_offsets, store, unshifted_a
from int8blas._kernels cimport I8_GROUP, I8_MAX_XR, I8_MAX_YR, I8_PANEL, i8_dot_args
from int8blas._plan cimport Gemm, Plan, ceil_div, share


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
