"""Copies of operands that have neither contiguous rows nor contiguous columns.

Paths read contiguous operands in vectors, and other operands byte by byte. Copying a large operand takes less time than
reading it byte by byte, because the copy reads 16 bytes at a time and selects the bytes of the operand
(csrc/gemm/copy_vectors.h).
"""

from libc.stddef cimport ptrdiff_t
from libc.stdint cimport int64_t, uint8_t

from int8blas.core.memory cimport carve
from int8blas.core.split cimport share
from int8blas.core.threads cimport THREAD_BYTES, paid_threads, run_parts
from int8blas.gemm.operand cimport Operand


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
    cdef bint by_rows = max(x.column, -x.column) <= max(x.row, -x.row)
    if not by_rows:
        job.line, job.step, job.lines, job.length = x.column, x.row, columns, rows
    job.end = x.data + max(<ptrdiff_t>0, (rows - 1) * x.row) + max(<ptrdiff_t>0, (columns - 1) * x.column) + 1
    if not g.c.dry_run:
        run_parts(copy_part, &job, threads, threads)
    x.data, x.row, x.column = copy, job.length, 1
    if not by_rows:
        x.row, x.column = 1, job.length


cdef bint shares_copy(const Problem *g) noexcept nogil:
    """Return whether A is copied and B is A.T, so that the copy of A serves both."""
    return (
        copies_a(g) and copies_b(g) and g.m == g.n
        and g.a.data == g.b.data and g.a.row == g.b.column and g.a.column == g.b.row)


cdef size_t copied_bytes(const Problem *g) noexcept nogil:
    """Return the bytes of memory for the copies of a problem's operands."""
    cdef char *end = NULL
    if copies_a(g):
        carve(&end, g.m * g.k)
    if copies_b(g) and not shares_copy(g):
        carve(&end, g.k * g.n)
    return <size_t>end


cdef void copy_operands(Problem *own, const Problem *g, uint8_t *memory) noexcept nogil:
    """Set `own` to a problem whose operands are copies in `memory`."""
    cdef char *rest = <char *>memory
    own[0] = g[0]
    if copies_a(g):
        copy_operand(&own.a, g, g.m, g.k, &rest)
    if shares_copy(g):
        own.b.data, own.b.row, own.b.column = own.a.data, own.a.column, own.a.row
    elif copies_b(g):
        copy_operand(&own.b, g, g.k, g.n, &rest)
