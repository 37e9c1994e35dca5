"""Sums of squares of the rows of arrays, for distances; those of a packed matrix are kept by it (PackedB.squares)."""

from libc.stdint cimport int32_t, int64_t, uint8_t
cimport int8blas.core.cnumpy as cnp
import numpy as np

from int8blas.core.kernels cimport current_kernels, i8_kernels
from int8blas.core.split cimport ceil_div
from int8blas.core.threads cimport GIL_BYTES, THREAD_PACKED_BYTES, run_work

cnp.import_array()

cdef enum:
    # Rows of a part: four cache lines of an array by columns.
    SOME_ROWS = 256


cdef struct SquaresJob:
    const i8_kernels *kernels
    const uint8_t *x
    int64_t rows, k
    ptrdiff_t row_stride, k_stride
    bint is_signed
    int64_t *squares


cdef int square_rows(const void *job, int64_t part, int64_t _parts) noexcept nogil:
    """SOME_ROWS rows, or what is left."""
    cdef const SquaresJob *j = <const SquaresJob *>job
    cdef int64_t first = part * SOME_ROWS
    j.kernels.packing.row_squares(j.squares + first, min(<int64_t>SOME_ROWS, j.rows - first), j.k,
                                  j.x + first * j.row_stride, j.row_stride, j.k_stride, j.is_signed)
    return 0


cdef cnp.ndarray row_squares(cnp.ndarray x):
    """The sum of squares of each row of a matrix of uint8 or int8, int64."""
    cdef SquaresJob job
    cdef cnp.ndarray squares = np.empty(x.shape[0], np.int64)
    job.kernels = current_kernels()
    job.x = <const uint8_t *>cnp.PyArray_DATA(x)
    job.rows, job.k = x.shape[0], x.shape[1]
    job.row_stride, job.k_stride = x.strides[0], x.strides[1]
    job.is_signed = cnp.PyArray_TYPE(x) == cnp.NPY_INT8
    job.squares = <int64_t *>cnp.PyArray_DATA(squares)
    run_work(square_rows, &job, ceil_div(job.rows, SOME_ROWS), <double>job.rows * job.k, THREAD_PACKED_BYTES, GIL_BYTES)
    return squares


cdef cnp.ndarray as_int32(const int64_t *squares, int64_t count):
    """Sums of squares that fit int32, as int32."""
    cdef cnp.npy_intp size = count
    cdef cnp.ndarray array = cnp.PyArray_EMPTY(1, &size, cnp.NPY_INT32, 0)
    cdef int32_t *values = <int32_t *>cnp.PyArray_DATA(array)
    cdef int64_t i
    for i in range(count):
        values[i] = <int32_t>squares[i]
    return array
