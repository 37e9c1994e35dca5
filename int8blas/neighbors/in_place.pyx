"""Distances of few rows x from plain rows y, which are read from memory once.

The squares of a row y are as many multiply-adds as two rows x. So they are computed where y is read: of up to
``distance_rows`` rows x together with the products, in registers (csrc/gemm/distances_body.h); of more, block by block,
while a block of y is in the L2 cache for its product.
"""

from libc.stdint cimport int32_t, int64_t

from int8blas.core.kernels cimport i8_distance_args
from int8blas.core.memory cimport acquire, release
from int8blas.core.split cimport ceil_div, even_size
from int8blas.core.threads cimport GIL_WORK, THREAD_BYTES, run_work
from int8blas.gemm.driver cimport gemm
from int8blas.gemm.long_k cimport vectors_of_kernel
from int8blas.gemm.operand cimport address
from int8blas.gemm.plan cimport Gemm, thread_work
from int8blas.neighbors.squares cimport Rows, add_short_squares

cdef enum:
    # Bytes of a block of y, or a quarter of a smaller L2 cache.
    BLOCK_BYTES = 1 << 17
    # Up to how many rows x the kernels pay for rows that are shorter than a step of a kernel, which they pad.
    STEP = 64
    PADDED_ROWS = 2


cdef struct InPlace:
    const Gemm *g
    int64_t rows                # of a block


cdef void few_distances(const Gemm *g, int64_t first, int64_t count) noexcept nogil:
    """Some rows y, with as many rows x at a time as a kernel takes."""
    cdef i8_distance_args t
    cdef int i = 0, rows
    t.k, t.count = g.k, count
    t.y, t.y_row, t.x_row = address(&g.b, 0, first), g.b.column, g.a.row
    t.dst_row = g.c_row // <ptrdiff_t>sizeof(int32_t)
    while i < g.m:
        rows = vectors_of_kernel(<int>g.m - i, g.kernels.gemm.distance_rows)
        t.x, t.x_squares = address(&g.a, i, 0), g.co_rows + i
        t.dst = <int32_t *>(g.c + i * g.c_row) + first
        g.kernels.gemm.distances[g.a.flip != 0][g.b.flip == 0][3 if rows == 4 else rows](&t)
        i += rows


cdef int block_distances(const void *job, int64_t part, int64_t _parts) noexcept nogil:
    """A block of rows y. 0, or -1 if there is no memory."""
    cdef const Gemm *g = (<const InPlace *>job).g
    cdef int64_t rows = (<const InPlace *>job).rows, first = part * rows, count = min(rows, g.n - first)
    cdef Gemm own
    cdef Rows y
    cdef int32_t *squares
    cdef int status
    if g.m <= (g.kernels.gemm.distance_rows if g.k >= STEP else PADDED_ROWS):
        few_distances(g, first, count)
        return 0
    squares = <int32_t *>acquire(count * sizeof(int32_t))
    if squares is NULL:
        return -1
    y.data, y.count, y.k = address(&g.b, 0, first), count, g.k
    y.row_stride, y.k_stride, y.is_signed = g.b.column, 1, g.b.flip == 0
    add_short_squares(g.kernels, &y, squares)
    own = g[0]
    own.n, own.threads, own.b.data, own.co_cols = count, 1, y.data, squares
    own.c = g.c + first * g.c_col
    status = gemm(&own)
    release(squares)
    return status


cdef int distances_in_place(const Gemm *g) noexcept:
    """C of distances, g.co_rows of which has the squares of the rows x. 0, or -1 if there is no memory."""
    cdef InPlace job
    cdef int64_t bytes = min(<int64_t>BLOCK_BYTES, g.machine.l2 // 4)
    job.g, job.rows = g, even_size(g.n, max(<int64_t>1, bytes // g.k), 1)
    # To read y takes as long as to multiply it by some rows x.
    return run_work(block_distances, &job, ceil_div(g.n, job.rows),
                    <double>g.n * g.k * max(<double>g.m, thread_work(g) / THREAD_BYTES), thread_work(g), GIL_WORK)
