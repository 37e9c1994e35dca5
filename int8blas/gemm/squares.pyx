"""Sums of squares of the columns of a plain B, which distances add to products (``i8_epilogue.column_squares``).

Paths that pack B find the squares of a panel while the panel is in the L1 cache and its sums are known. For other paths
`find_column_squares` reads B before the path runs.
"""

from libc.stdint cimport int8_t, int32_t, int64_t, uint32_t

from int8blas.core.kernels cimport I8_GROUP, I8_PANEL, i8_distance_args, i8_kernels
from int8blas.core.split cimport ceil_div, share
from int8blas.core.threads cimport parallel_for
from int8blas.gemm.operand cimport address


cdef void add_short_squares(const i8_kernels *kernels, const Rows *x, int32_t *squares) noexcept nogil:
    """Add up the squares of each row, which has at most SHORT_SQUARES_K elements."""
    cdef i8_distance_args t
    cdef int64_t wide[SOME_ROWS]
    cdef int64_t first = 0, i, count
    if x.k_stride == 1:
        t.k, t.count, t.x, t.x_row, t.x_sums = x.k, x.count, NULL, 0, NULL
        t.x_squares = t.y_squares = NULL
        t.y, t.y_row, t.dst, t.dst_row = x.data, x.row_stride, squares, 0
        kernels.gemm.distances.of[0][x.is_signed][0](&t)
        return
    while first < x.count:
        count = min(<int64_t>SOME_ROWS, x.count - first)
        kernels.packing.row_squares(wide, count, x.k, x.data + first * x.row_stride, x.row_stride, x.k_stride,
                                    x.is_signed)
        for i in range(count):
            squares[first + i] = <int32_t>wide[i]
        first += count


cdef void add_panel_squares(const Problem *g, const int8_t *panel, int64_t k, const int64_t *sums, int64_t columns,
                            bint is_first, int32_t *squares) noexcept nogil:
    """Add the squares of the first `columns` columns of a packed panel to `squares`. The panel has a part of K. `sums`
    has the sums of the panel's columns."""
    cdef int32_t some[I8_PANEL]
    cdef int32_t *found = squares if is_first and columns >= I8_PANEL else some
    cdef int64_t i
    g.kernels.gemm.distances.column_squares(found, panel, ceil_div(k, I8_GROUP), sums)
    if g.b.sign_flip:
        # (B' + 128)**2
        for i in range(I8_PANEL):
            found[i] = <int32_t>(<uint32_t>found[i] + 256 * <uint32_t>sums[i] + 128 * 128 * <uint32_t>k)
    if found is some:
        for i in range(min(<int64_t>I8_PANEL, columns)):
            squares[i] = <int32_t>(<uint32_t>some[i] + (0 if is_first else <uint32_t>squares[i]))


cdef int square_columns(const void *job, int64_t part, int64_t parts) noexcept nogil:
    """Find one thread's part of the columns' squares."""
    cdef const Problem *g = <const Problem *>job
    cdef int64_t first = share(g.n, part, parts)
    cdef Rows columns
    columns.data, columns.count, columns.k = address(&g.b, 0, first), share(g.n, part + 1, parts) - first, g.k
    columns.row_stride, columns.k_stride, columns.is_signed = g.b.column, g.b.row, g.b.sign_flip == 0
    add_short_squares(g.kernels, &columns, g.epilogue.column_squares + first)
    return 0


cdef void find_column_squares(const Problem *g, int threads) noexcept nogil:
    """Find the squares of all columns from B in place, with the product's number of threads."""
    threads = <int>min(<int64_t>threads, g.n)
    parallel_for(square_columns, g, threads, threads)
