"""Very small problems: everything on the stack, one thread, no plan.

The same tiles as in ``_gemm``, for problems whose time is otherwise spent on deciding how to compute them.
"""

from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t, uint32_t, uintptr_t

from int8blas._kernels cimport I8_DOT4, I8_DOT4_SAT, I8_MAX_MR, I8_PANEL, i8_tile_args
from int8blas._plan cimport Gemm

# Bounds of _plan.is_tiny.
cdef enum:
    TINY_K = 256
    TINY_COLUMNS = 128


cdef void gemm_tiny(const Gemm *g) noexcept nogil:
    """C := (A - ao) @ (B - bo) for a problem that is_tiny."""
    cdef uint8_t b_memory[TINY_K * TINY_COLUMNS + 64]
    cdef uint8_t a_memory[TINY_K * I8_MAX_MR]
    cdef uint32_t a_tail[I8_MAX_MR]
    cdef int64_t sums[TINY_COLUMNS]
    cdef int32_t col_init[TINY_COLUMNS]
    cdef int32_t row_init[I8_MAX_MR]
    cdef int64_t row_sums[I8_MAX_MR]
    cdef int n = <int>g.n, k = <int>g.k
    cdef int groups = (k + 3) // 4, panels = (n + I8_PANEL - 1) // I8_PANEL, panel_size = groups * 4 * I8_PANEL
    cdef int row_tiles = <int>(g.m + g.kernels.mr - 1) // g.kernels.mr
    cdef int column_tiles = (panels + g.kernels.np - 1) // g.kernels.np
    cdef int i, j, r, c, height, width, next_row, next_panel, tail = k % 4
    cdef int dot = I8_DOT4_SAT if g.saturating else I8_DOT4
    cdef bint direct = g.a_col == 1 and g.a_flip == 0
    cdef const int8_t *data = g.packed
    cdef const int64_t *col_sums = g.col_sums
    cdef const uint8_t *a
    cdef i8_tile_args t

    if data is NULL:
        data = <int8_t *>((<uintptr_t>b_memory + 63) & ~<uintptr_t>63)
        g.kernels.pack_panels(<uint8_t *>data, panel_size, n, k, g.b, g.b_col, g.b_row, g.b_flip)
        if g.ao != 0:
            for i in range(panels):
                g.kernels.panel_sums(sums + i * I8_PANEL, data + i * panel_size, groups)
            col_sums = sums
    t.acc_in = NULL
    t.row_init = t.col_init = NULL
    t.a_tail = a_tail if direct and tail else NULL
    t.b_panel = panel_size
    t.dst_row = g.c_row // <int>sizeof(int32_t)
    t.groups = k // 4 if direct else groups
    if g.ao != 0:
        for i in range(panels * I8_PANEL):
            col_init[i] = <int32_t>(<uint32_t>-g.ao * <uint32_t>col_sums[i])

    r = 0
    for i in range(row_tiles):
        next_row = <int>(g.m * (i + 1) // row_tiles)
        height = next_row - r
        a = g.a + r * g.a_row
        if direct:
            t.a, t.a_row, t.a_group = a, g.a_row, 4
            if tail:
                for j in range(height):
                    a_tail[j] = last_bytes(a + j * g.a_row + k - tail, tail)
        else:
            g.kernels.pack_panel(a_memory, height, height, k, a, g.a_row, g.a_col, g.a_flip)
            t.a, t.a_row, t.a_group = a_memory, 4, 4 * height
        if g.bo != 0:
            g.kernels.row_sums(row_sums, height, k, a, g.a_row, g.a_col, g.a_flip)
            for j in range(height):
                row_init[j] = <int32_t>(<uint32_t>-g.bo * <uint32_t>(row_sums[j] - k * g.ao))
            t.row_init = row_init
        c = 0
        for j in range(column_tiles):
            next_panel = panels * (j + 1) // column_tiles
            width = next_panel - c
            t.b = data + c * panel_size
            if g.ao != 0:
                t.col_init = col_init + c * I8_PANEL
            t.dst = <int32_t *>(g.c + r * g.c_row) + c * I8_PANEL
            t.cols = min(width * I8_PANEL, n - c * I8_PANEL)
            g.kernels.tile[dot][height - 1][width - 1](&t)
            c = next_panel
        r = next_row


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
