"""Operands that have neither contiguous rows nor contiguous columns: copy them, or read the bytes between them.

Paths read contiguous operands in vectors, and other operands byte by byte. Copying a large operand takes less time than
reading it byte by byte, because the copy reads 16 bytes at a time and selects the bytes of the operand
(csrc/gemm/copy_vectors.h).

If the other operand has few vectors, spreading them is faster than a copy: A[:, ::2] @ v equals A @ w, where w has the
elements of v two bytes apart, and v's zero point between them. Likewise, v @ B[:, ::2] is every second column of v @ B.
"""

from libc.stddef cimport ptrdiff_t
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.string cimport memset

from int8blas.core.memory cimport carve
from int8blas.core.split cimport share
from int8blas.core.threads cimport THREAD_BYTES, paid_threads, parallel_for
from int8blas.gemm.operand cimport Operand, zero_of


# The lines of an operand, and their copy. Lines are the rows or the columns, whichever have the smaller step between
# bytes.
cdef struct Lines:
    uint8_t *copy
    const uint8_t *data
    const uint8_t *end          # the end of the operand's memory
    ptrdiff_t line, step        # distance from one line to the next, and from one byte of a line to the next
    int64_t lines, length


cdef int copy_part(const void *job, int64_t part, int64_t parts) noexcept nogil:
    """Copy some lines. Return 0."""
    cdef const Lines *x = <const Lines *>job
    cdef int64_t i
    for i in range(share(x.lines, part, parts), share(x.lines, part + 1, parts)):
        i8_copy_vectors(x.copy + i * x.length, 0, 1, x.length, x.data + i * x.line, x.step, x.end)
    return 0


cdef void copy_operand(Operand *x, const Problem *g, int64_t rows, int64_t columns, char **memory) noexcept nogil:
    """Replace an operand by its copy in `memory`, whose size is `copied_bytes`."""
    cdef uint8_t *copy = <uint8_t *>carve(memory, rows * columns)
    cdef int threads = paid_threads(<double>rows * columns, THREAD_BYTES, g.threads)
    cdef Lines job = Lines(copy, x.data, NULL, x.row, x.column, rows, columns)
    cdef bint by_rows = rows == 1 or (columns > 1 and max(x.column, -x.column) <= max(x.row, -x.row))
    if not by_rows:
        job.line, job.step, job.lines, job.length = x.column, x.row, columns, rows
    job.end = x.data + max(<ptrdiff_t>0, (rows - 1) * x.row) + max(<ptrdiff_t>0, (columns - 1) * x.column) + 1
    if not g.c.dry_run:
        parallel_for(copy_part, &job, threads, threads)
    x.data, x.row, x.column = copy, job.length, 1
    if not by_rows:
        x.row, x.column = 1, job.length


cdef inline int64_t with_gaps(int64_t count, ptrdiff_t step) noexcept nogil:
    """Return the size of the memory that `count` bytes span if they are `step` bytes apart."""
    return (count - 1) * max(step, -step) + 1


cdef int64_t spread_operand(Operand *x, ptrdiff_t *x_step, Operand *y, ptrdiff_t *y_step, ptrdiff_t *y_vector,
                            int64_t few, int64_t k, char *memory) noexcept nogil:
    """Replace the vectors of y by copies that are spread like x, and let x include the bytes between its elements along
    k. Fill the copies of the first `few` vectors. Return the new K.

    The bytes of x and y are `x_step` and `y_step` apart along k, and the vectors of y begin `y_vector` apart.
    """
    cdef ptrdiff_t step = max(x_step[0], -x_step[0])
    cdef int64_t spread_k = with_gaps(k, step)
    cdef uint8_t *copy = <uint8_t *>memory
    cdef const uint8_t *line = y.data
    cdef ptrdiff_t line_step = y_step[0]
    cdef int64_t i, j
    if x_step[0] < 0:
        x.data += (k - 1) * x_step[0]
        line += (k - 1) * line_step
        line_step = -line_step
    for j in range(few):
        memset(copy, <uint8_t>zero_of(y, j) ^ y.sign_flip, spread_k)
        for i in range(k):
            copy[i * step] = line[i * line_step]
        line += y_vector[0]
        copy += spread_k
    y.data = <const uint8_t *>memory
    x_step[0] = y_step[0] = 1
    y_vector[0] = spread_k
    return spread_k


cdef bint shares_copy(const Problem *g) noexcept nogil:
    """Return whether A is copied and B is A.T, so that the copy of A serves both operands."""
    return (
        copies_a(g) and copies_b(g) and g.m == g.n
        and g.a.data == g.b.data and g.a.row == g.b.column and g.a.column == g.b.row)


cdef size_t copied_bytes(const Problem *g) noexcept nogil:
    """Return the bytes of memory for the copies of a problem's operands."""
    cdef char *end = NULL
    if spreads_b(g):
        return with_gaps(g.k, g.a.column) * g.n
    if spreads_a(g):
        return with_gaps(g.k, g.b.row) * g.m
    if skips_columns(g):
        return g.m * with_gaps(g.n, g.b.column) * sizeof(int32_t)
    if copies_a(g):
        carve(&end, g.m * g.k)
    if copies_b(g) and not shares_copy(g):
        carve(&end, g.k * g.n)
    return <size_t>end


cdef void copy_operands(Problem *own, const Problem *g, uint8_t *memory) noexcept nogil:
    """Set `own` to a problem whose operands are copies in `memory`."""
    cdef char *rest = <char *>memory
    own[0] = g[0]
    if spreads_b(g):
        own.k = spread_operand(&own.a, &own.a.column, &own.b, &own.b.row, &own.b.column, 0 if g.c.dry_run else g.n, g.k,
                               rest)
        return
    if spreads_a(g):
        own.k = spread_operand(&own.b, &own.b.row, &own.a, &own.a.column, &own.a.row, 0 if g.c.dry_run else g.m, g.k,
                               rest)
        return
    if skips_columns(g):
        own.n = with_gaps(g.n, g.b.column)
        own.b.data += min(<ptrdiff_t>0, (g.n - 1) * g.b.column)
        own.b.column = 1
        own.c.data, own.c.row, own.c.column = rest, own.n * sizeof(int32_t), sizeof(int32_t)
        return
    if copies_a(g):
        copy_operand(&own.a, g, g.m, g.k, &rest)
    if shares_copy(g):
        own.b.data, own.b.row, own.b.column = own.a.data, own.a.column, own.a.row
    elif copies_b(g):
        copy_operand(&own.b, g, g.k, g.n, &rest)


cdef void keep_columns(const Problem *g, const Problem *own) noexcept nogil:
    """Copy the columns of C from the wider product `own`."""
    cdef ptrdiff_t step = g.b.column
    cdef int64_t i, j
    cdef const int32_t *row
    cdef char *c
    for i in range(0 if g.c.dry_run else g.m):
        row = <const int32_t *>(own.c.data + i * own.c.row) - min(<ptrdiff_t>0, (g.n - 1) * step)
        c = g.c.data + i * g.c.row
        if g.c.column == sizeof(int32_t):
            for j in range(g.n):
                (<int32_t *>c)[j] = row[j * step]
        else:
            for j in range(g.n):
                (<int32_t *>(c + j * g.c.column))[0] = row[j * step]
