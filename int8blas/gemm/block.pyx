"""A block of the general path, by whatever it is multiplied: an A that is made, and the way of a tile's sums to C."""

from libc.stdint cimport int64_t

from int8blas.core.kernels cimport i8_output_args, i8_set_part
from int8blas.core.split cimport ceil_div
from int8blas.gemm.dynamic_source cimport quantize_rows
from int8blas.gemm.plan cimport Gemm, zero_by_row


cdef void make_rows(const Gemm *g, const Workspace *w, uint8_t *dst, int64_t block, int64_t row, int64_t rows,
                    int64_t k0, int64_t k) noexcept nogil:
    """Rows of an A' that is in no memory, from one of a block on."""
    cdef ptrdiff_t step = made_row(ceil_div(k, 4))
    if g.image is not NULL:
        g.kernels.packing.im2col(dst, step, g.image, block + row, rows, k0, k, g.a.flip)
    else:
        quantize_rows(g, dst, step, block + row, rows, k0, k, w.row_scale + row, w.zeros + row)
        add_row_terms(g, w, dst, row, rows, k0, k)


cdef void add_row_terms(const Gemm *g, const Workspace *w, const uint8_t *a, int64_t row, int64_t rows, int64_t k0,
                        int64_t k) noexcept nogil:
    """What some columns of rows that are made of a source add to their terms for zero points of B, if it has any."""
    cdef int64_t *term = w.row_term + row
    cdef int64_t total, i
    if w.row_term is NULL:
        return
    for i in range(rows):
        g.kernels.packing.row_sums(&total, 1, k, a + i * made_row(ceil_div(k, 4)), 0, 1, 0)
        if k0 == 0:
            term[i] = -g.k * (w.zeros[row + i] if zero_by_row(g) else g.a.zero)
        term[i] += total


cdef void double_sums(const i8_output_args *o) noexcept nogil:
    """The sums of a tile twice as large."""
    cdef int i, j
    for i in range(o.rows):
        for j in range(o.cols):
            if o.acc64 is NULL:
                (<uint32_t *>o.acc32)[i * o.acc_row + j] *= 2
            else:
                (<int64_t *>o.acc64)[i * o.acc_row + j] *= 2


cdef void store_rows(const Gemm *g, i8_output_args *o) noexcept nogil:
    """The output stage of a tile: all of its rows at once, or those of each line of C."""
    cdef i8_output_args part
    cdef int64_t line, row      # of C, and of its line
    cdef int rows, done = 0
    o.c = g.c + o.row * g.c_row + o.column * g.c_col
    if g.c_line == 0:
        g.kernels.stage.output(o)
        return
    line, row = o.row // g.c_line, o.row % g.c_line
    while done < o.rows:
        rows = <int>min(<int64_t>(o.rows - done), g.c_line - row)
        i8_set_part(&part, o, done, 0, rows, o.cols)
        part.c = g.c + line * g.c_line_step + row * g.c_row + o.column * g.c_col
        g.kernels.stage.output(&part)
        done += rows
        line, row = line + 1, 0
