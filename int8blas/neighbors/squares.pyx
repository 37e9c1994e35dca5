"""Sums of squares of the rows of arrays, for distances. A packed matrix keeps its sums of squares (PackedB.squares)."""

from libc.stdint cimport int32_t, int64_t, uint8_t
cimport int8blas.core.cnumpy as cnp
import numpy as np

from int8blas.core.kernels cimport current_kernels, i8_kernels
from int8blas.core.split cimport share
from int8blas.core.threads cimport KEEPS_GIL_BYTES, THREAD_PACKED_BYTES, parallel_for, threads_for
from int8blas.gemm.squares cimport SOME_ROWS, Rows, add_short_squares

cnp.import_array()

cdef struct SquaresJob:
    const i8_kernels *kernels
    Rows rows
    int64_t *squares            # the result, or NULL if it goes to short_squares
    int32_t *short_squares


cdef int square_rows(const void *job, int64_t part, int64_t parts) noexcept nogil:
    """Square and sum a part of the rows, SOME_ROWS at a time."""
    cdef const SquaresJob *j = <const SquaresJob *>job
    cdef int64_t first = share(j.rows.count, part, parts), end = share(j.rows.count, part + 1, parts)
    cdef Rows some = j.rows
    while first < end:
        some.data, some.count = j.rows.data + first * j.rows.row_stride, min(<int64_t>SOME_ROWS, end - first)
        if j.squares is NULL:
            add_short_squares(j.kernels, &some, j.short_squares + first)
        else:
            j.kernels.packing.row_squares(j.squares + first, some.count, some.k, some.data, some.row_stride,
                                          some.k_stride, some.is_signed)
        first += some.count
    return 0


cdef bint pays_for_threads(cnp.ndarray x) noexcept:
    """Return whether the sums of squares of a matrix's rows have enough work for more than one thread."""
    cdef int64_t size = cnp.PyArray_SIZE(x)
    return size > KEEPS_GIL_BYTES and threads_for(<double>size, THREAD_PACKED_BYTES, <double>cnp.PyArray_DIM(x, 0)) > 1


cdef void run_squares(cnp.ndarray x, SquaresJob *job, int threads) noexcept:
    """Compute the sums of squares of a matrix's rows, on at most `threads` threads."""
    cdef int64_t rows = cnp.PyArray_DIM(x, 0), size = cnp.PyArray_SIZE(x)
    job.kernels = current_kernels()
    job.rows.data = <const uint8_t *>cnp.PyArray_DATA(x)
    job.rows.count, job.rows.k = rows, cnp.PyArray_DIM(x, 1)
    job.rows.row_stride, job.rows.k_stride = cnp.PyArray_STRIDE(x, 0), cnp.PyArray_STRIDE(x, 1)
    job.rows.is_signed = cnp.PyArray_TYPE(x) == cnp.NPY_INT8
    if size <= KEEPS_GIL_BYTES:
        square_rows(job, 0, 1)
        return
    threads = <int>min(<int64_t>threads, max(<int64_t>1, rows))
    with nogil:
        parallel_for(square_rows, job, threads, threads)


cdef cnp.ndarray row_squares(cnp.ndarray x, int threads):
    """Return the sum of squares of each row of a uint8 or int8 matrix, as int64."""
    cdef SquaresJob job
    cdef cnp.ndarray squares = np.empty(x.shape[0], np.int64)
    job.squares, job.short_squares = <int64_t *>cnp.PyArray_DATA(squares), NULL
    run_squares(x, &job, threads)
    return squares


cdef void short_row_squares(cnp.ndarray x, int32_t *squares, int threads) noexcept:
    """Store the sums of squares as int32, for at most SHORT_SQUARES_K columns."""
    cdef SquaresJob job
    job.squares, job.short_squares = NULL, squares
    run_squares(x, &job, threads)
