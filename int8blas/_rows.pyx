"""Few rows of A times a C-ordered plain B, which is read in place, once (csrc/rows_body.h).

Walks along the rows of B, a few at a time, so that the memory sees as many sequential streams; the sums of a stretch of
columns stay in the L1 or L2 cache.
"""

from cython.parallel cimport prange
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uintptr_t
from libc.stdlib cimport free, malloc

from int8blas._inplace cimport Signs, row_offsets, store, unshifted_a
from int8blas._kernels cimport I8_GROUP, I8_MAX_COLUMNS, i8_rows_args
from int8blas._plan cimport Gemm, Plan, ceil_div, share

cdef enum:
    SUMS_BYTES = 1 << 16        # of the sums that gemm_rows keeps at a time


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
