"""Distances of few rows x from plain rows y. Each row y is read from memory once.

The squares of a row y take twice the multiply-adds of its product with one row x. With few rows x, a kernel reads y
once and computes squares and products together, in registers (csrc/gemm/distances_body.h). If one kernel call cannot
take all rows x, a kernel first computes the squares of some rows y, which stay in the L1 cache. The kernels then
multiply all rows x by the cached rows y. Kernels without VNNI take too few rows x. Without VNNI a product multiplies
one block of y at a time, and may pack the block.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.string cimport memset

from int8blas.core.kernels cimport I8_DOTS_16, I8_GROUP, I8_X_UNSIGNED, I8_Y_UNSIGNED, i8_distance_args, i8_dot_args
from int8blas.core.memory cimport acquire, release
from int8blas.core.split cimport ceil_div, round_down, round_up
from int8blas.core.threads cimport GIL_WORK, THREAD_BYTES, max_threads, run_work
from int8blas.gemm.driver cimport gemm
from int8blas.gemm.operand cimport SHIFT, SIGN_BIT, address
from int8blas.gemm.paths.long_k cimport vectors_of_kernel
from int8blas.gemm.problem cimport Problem, thread_work
from int8blas.gemm.squares cimport SOME_ROWS, Rows, add_short_squares

cdef enum:
    # Bytes of a block of y that is read more than once, at most a quarter of the L2 cache.
    BLOCK_BYTES = 1 << 17
    # Rows y in one kernel step. The number of rows of a block is a multiple of ROWS.
    ROWS = 4
    # Indices of the kernels for four rows x: the kernel without squares of y, and the kernel that gets these squares.
    FOUR_ROWS = 3
    FOUR_ROWS_OF_SQUARES = 4
    # The rows x of the widest dot kernel, and the number of rows x above which this kernel is faster than kernels for
    # four rows. One call of the widest kernel takes as long as three calls of a kernel for four rows.
    WIDE_ROWS = 16
    PADDED_WIDE_ROWS = 12


cdef struct InPlace:
    const Problem *g
    int64_t rows                # rows y of a block
    int64_t sums[FEW_X]         # sums of the rows x
    # At most 16 rows x in the order of the widest dot kernel, with their start values, or NULL.
    uint8_t *wide
    int32_t start[WIDE_ROWS]


cdef void some_distances(const InPlace *job, int64_t first, int64_t count, const int32_t *squares) noexcept nogil:
    """Compute distances from all rows x to `count` rows y from row `first` on. A kernel call takes several rows x at a
    time. If `squares` is NULL, the kernel also computes the squares of the rows y."""
    cdef const Problem *g = job.g
    cdef i8_distance_args t
    cdef int i = 0, rows
    t.k, t.count = g.k, count
    t.y, t.y_row, t.x_row, t.y_squares = address(&g.b, 0, first), g.b.column, g.a.row, squares
    t.dst_row = g.c.row // <ptrdiff_t>sizeof(int32_t)
    while i < g.m:
        rows = vectors_of_kernel(<int>g.m - i, g.kernels.gemm.distances.rows)
        t.x, t.x_sums, t.x_squares = address(&g.a, i, 0), job.sums + i, g.epilogue.co_rows + i
        t.dst = <int32_t *>(g.c.data + i * g.c.row) + first
        g.kernels.gemm.distances.of[g.a.sign_flip != 0][g.b.sign_flip == 0][
            rows if rows <= 2 else FOUR_ROWS if squares is NULL else FOUR_ROWS_OF_SQUARES](&t)
        i += rows


cdef Rows rows_of(const Problem *g, int64_t first, int64_t count) noexcept nogil:
    """Return a view of some rows y."""
    cdef Rows y
    y.data, y.count, y.k = address(&g.b, 0, first), count, g.k
    y.row_stride, y.k_stride, y.is_signed = g.b.column, 1, g.b.sign_flip == 0
    return y


cdef inline int64_t rows_of_l1(const Problem *g) noexcept nogil:
    """Return the number of rows y that fill half of the L1 cache."""
    return min(<int64_t>SOME_ROWS, max(<int64_t>ROWS, round_down(g.machine.l1 // 2 // g.k, ROWS)))


cdef void more_distances(const InPlace *job, int64_t first, int64_t count) noexcept nogil:
    """Compute distances to some rows y for many rows x. Divide the rows y into parts that fit the L1 cache."""
    cdef const Problem *g = job.g
    cdef int32_t squares[SOME_ROWS]
    cdef int64_t end = first + count, some = rows_of_l1(g)
    cdef Rows y
    while first < end:
        y = rows_of(g, first, min(some, end - first))
        add_short_squares(g.kernels, &y, squares)
        some_distances(job, first, y.count, squares)
        first += y.count


cdef inline bint takes_wide(const Problem *g) noexcept nogil:
    """Return whether the widest dot kernel multiplies the rows x."""
    return (
        g.m > PADDED_WIDE_ROWS and g.kernels.gemm.distances.rows == 4 and g.kernels.gemm.dots.columns == WIDE_ROWS
    )


cdef int start_wide(InPlace *job) noexcept nogil:
    """Order the rows x for the widest dot kernel, with start values that undo the shift. Return 0, or -1 if there is no
    memory."""
    cdef const Problem *g = job.g
    cdef int64_t groups = ceil_div(g.k, I8_GROUP), size = g.kernels.gemm.dots.size(WIDE_ROWS, g.k), i
    cdef bint x_signed = g.a.sign_flip != 0
    cdef int64_t shift = 0 if x_signed != (g.b.sign_flip == 0) else 2 * SHIFT if x_signed else -2 * SHIFT
    cdef uint8_t *scratch
    job.wide = <uint8_t *>acquire(2 * size)
    if job.wide is NULL:
        return -1
    scratch = job.wide + size
    g.kernels.packing.pack_panel(scratch, WIDE_ROWS, <int>g.m, g.k, g.a.data, g.a.row, 1, 0)
    memset(scratch + groups * WIDE_ROWS * I8_GROUP, 0, size - groups * WIDE_ROWS * I8_GROUP)
    g.kernels.gemm.dots.order(job.wide, scratch, WIDE_ROWS, g.k, not x_signed)
    memset(job.start, 0, WIDE_ROWS * sizeof(int32_t))
    for i in range(g.m):
        job.start[i] = <int32_t>(g.epilogue.co_rows[i] + shift * job.sums[i])
    return 0


cdef void wide_distances(const InPlace *job, int64_t first, int64_t count) noexcept nogil:
    """Compute distances to some rows y with the widest dot kernel."""
    cdef const Problem *g = job.g
    cdef int32_t squares[SOME_ROWS]
    cdef int64_t end = first + count, some = max(<int64_t>g.kernels.gemm.dots.rows, rows_of_l1(g))
    cdef bint x_signed = g.a.sign_flip != 0
    cdef i8_dot_args t
    cdef Rows y
    t.k, t.x_row, t.x_flip, t.uncached = g.k, g.b.column, SIGN_BIT if x_signed == (g.b.sign_flip == 0) else 0, False
    t.y, t.start, t.count = job.wide, job.start, <int>g.m
    t.dst_row, t.dst_column = sizeof(int32_t), g.c.row
    # Prefetch two blocks ahead, before the squares of a block are computed.
    t.ahead, t.x_squares = 2 * some * g.b.column, squares
    while first < end:
        y = rows_of(g, first, min(some, end - first))
        add_short_squares(g.kernels, &y, squares)
        t.rows, t.x, t.dst = y.count, y.data, g.c.data + first * <int64_t>sizeof(int32_t)
        g.kernels.gemm.dots.of[I8_X_UNSIGNED if x_signed else I8_Y_UNSIGNED][I8_DOTS_16](&t)
        first += y.count


cdef int packed_distances(const Problem *g, int64_t first, int64_t count) noexcept nogil:
    """Compute distances to some rows y by a product that packs the rows y. Return 0, or -1 if there is no memory."""
    cdef Problem own = g[0]
    cdef int32_t *squares = <int32_t *>acquire(count * sizeof(int32_t))
    cdef int status
    if squares is NULL:
        return -1
    own.n, own.threads, own.b.data = count, 1, address(&g.b, 0, first)
    own.epilogue.co_cols = own.epilogue.column_squares = squares
    own.c.data = g.c.data + first * g.c.column
    status = gemm(&own)
    release(squares)
    return status


cdef int block_distances(const void *job, int64_t part, int64_t _parts) noexcept nogil:
    """Compute distances to one block of rows y. Return 0, or -1 if there is no memory."""
    cdef const InPlace *j = <const InPlace *>job
    cdef int64_t first = part * j.rows, count = min(j.rows, j.g.n - first)
    cdef int most = j.g.kernels.gemm.distances.rows
    if j.wide is not NULL:
        wide_distances(j, first, count)
    elif j.g.m <= most:
        some_distances(j, first, count, NULL)
    elif most == 4:
        more_distances(j, first, count)
    else:
        return packed_distances(j.g, first, count)
    return 0


cdef int distances_in_place(const Problem *g) noexcept:
    """Compute all distances. g.epilogue.co_rows has the squares of the rows x. Return 0, or -1 if there is no
    memory."""
    cdef InPlace job
    cdef int status
    cdef int64_t most = max(<int64_t>ROWS, min(<int64_t>BLOCK_BYTES, g.machine.l2 // 4) // g.k), i
    if g.m == vectors_of_kernel(<int>g.m, g.kernels.gemm.distances.rows):
        most = max(<int64_t>ROWS, g.n)  # one kernel call reads all rows y once, so a block may have all rows
    # All threads get an equal number of blocks.
    most = min(most, ceil_div(g.n, round_up(max(<int64_t>1, ceil_div(g.n, most)), max_threads())))
    job.g, job.rows = g, max(<int64_t>ROWS, round_up(most, ROWS))
    g.kernels.packing.row_sums(job.sums, g.m, g.k, g.a.data, g.a.row, g.a.column, g.a.sign_flip)
    for i in range(g.m if g.a.sign_flip else 0):
        job.sums[i] -= SHIFT * g.k
    job.wide = NULL
    if takes_wide(g) and start_wide(&job):
        return -1
    # Reading y takes as long as multiplying y by several rows x, so the work counts at least this number of rows x.
    status = run_work(
        block_distances, &job, ceil_div(g.n, job.rows),
        <double>g.n * g.k * max(<double>g.m, thread_work(g) / THREAD_BYTES), thread_work(g), GIL_WORK
    )
    release(job.wide)
    return status
