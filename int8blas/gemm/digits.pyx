"""Multiply integers of 16 bits by the kernels of 8 bits, as three products of their bytes.

An integer of 16 bits is 256 * upper + lower + 128 with upper and lower in int8. A' = [upper(A) lower(A)] has the upper
bytes of A left of its lower bytes, and B' = [lower(B); upper(B)] has the lower bytes of B above its upper bytes::

    low = lower(A) @ lower(B), middle = A' @ B', high = upper(A) @ upper(B)
    A @ B = low + 2**8 * middle + 2**16 * high + 128 * rows(A) + 128 * columns(B) - 128**2 * K

The last terms are the offsets of 128 times the sums of rows of A and of columns of B. With VNNI or a matrix unit, four
multiply-adds of bytes take less time than one multiply-add of 16 bits whose sums may exceed 32 bits.
"""

from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t
from libc.string cimport strcmp
cimport int8blas.core.cnumpy as cnp
import numpy as np

from int8blas.core.kernels cimport I8_DOT2, I8_WIDE_S16_FULL, current_kernels, i8_kernels
from int8blas.core.results cimport empty_of
from int8blas.core.split cimport share
from int8blas.core.threads cimport KEEPS_GIL_BYTES, THREAD_BYTES, run_work
from int8blas.gemm.call cimport run_problem, set_a, set_b, set_c
from int8blas.gemm.problem cimport Problem, set_product_type, start

cnp.import_array()

cdef enum:
    OFFSET = 128
    # The minimum of M, N and K. For smaller sizes, dividing the operands and adding the products take longer than the
    # multiplications save. 256 x 256 x 256 takes 240 us with digits and 215 us without, 512 x 512 x 512 takes 1.40 ms
    # and 1.49 ms, and 768 x 768 x 768 takes 4.54 ms and 4.97 ms (AVX512-VNNI, Zen 5).
    LEAST_SIZE = 512
    MOST_K = (1 << 16) - 1      # the sum of 2 * K products of two bytes, each at most 2**14, fits int32
    ROWS = 1024                 # rows of C computed together; the three products take 12 KiB for each column
    PARTS = 64                  # the maximum number of parts of a pass over memory


cdef bint uses_digits(const WideProduct *w) noexcept:
    """Return whether products of bytes take less time than products of 16 bits. The kernels need an instruction that
    multiplies groups of four bytes, which the portable kernels and kernels that widen bytes lack."""
    cdef const i8_kernels *kernels = current_kernels()
    return (
        w.kind == I8_WIDE_S16_FULL and w.stack.count == 1 and min(w.m, w.n, w.k) >= LEAST_SIZE and w.k <= MOST_K
        and kernels.gemm.exact != I8_DOT2 and strcmp(kernels.name, "ref") != 0
    )


# A matrix to divide into bytes, and the sums of its rows. A row of bytes begins `step` bytes after the previous row.
cdef struct Division:
    const int16_t *src
    int8_t *upper
    int8_t *lower
    int64_t rows, columns, step
    int64_t *sums               # sums of the rows, or NULL


cdef int divide_rows(const void *job, int64_t part, int64_t parts) noexcept nogil:
    """Divide one part of the rows. Return 0."""
    cdef const Division *d = <const Division *>job
    cdef const int16_t *src
    cdef int8_t *upper
    cdef int8_t *lower
    cdef int64_t row, i
    cdef int64_t sum_
    for row in range(share(d.rows, part, parts), share(d.rows, part + 1, parts)):
        src, upper, lower = d.src + row * d.columns, d.upper + row * d.step, d.lower + row * d.step
        for i in range(d.columns):
            upper[i] = <int8_t>(src[i] >> 8)
            lower[i] = <int8_t>(<uint8_t>src[i] ^ OFFSET)
        if d.sums is not NULL:
            sum_ = 0
            for i in range(d.columns):
                sum_ += src[i]
            d.sums[row] = sum_
    return 0


cdef int run_division(const Division *d) noexcept:
    return run_work(divide_rows, d, min(d.rows, <int64_t>PARTS), 4.0 * d.rows * d.columns, THREAD_BYTES,
                    KEEPS_GIL_BYTES)


# The three products of bytes, the sums of rows of A and of columns of B, and C.
cdef struct Sums:
    int64_t *c
    const int32_t *low
    const int32_t *middle
    const int32_t *high
    const int64_t *rows
    const int64_t *columns
    int64_t m, n, k


cdef int add_rows(const void *job, int64_t part, int64_t parts) noexcept nogil:
    """Compute one part of the rows of C. Return 0."""
    cdef const Sums *s = <const Sums *>job
    cdef const int32_t *low
    cdef const int32_t *middle
    cdef const int32_t *high
    cdef int64_t *c
    cdef int64_t row, term, i
    for row in range(share(s.m, part, parts), share(s.m, part + 1, parts)):
        low, middle, high = s.low + row * s.n, s.middle + row * s.n, s.high + row * s.n
        c, term = s.c + row * s.n, OFFSET * (s.rows[row] - OFFSET * s.k)
        for i in range(s.n):
            c[i] = low[i] + 256 * <int64_t>middle[i] + 65536 * <int64_t>high[i] + term + OFFSET * s.columns[i]
    return 0


cdef int multiply(cnp.ndarray a, cnp.ndarray b, cnp.ndarray c, str name) except -1:
    """Compute C := A @ B for A and B of int8."""
    cdef Problem g
    start(&g, False)
    set_product_type(&g.epilogue, False)
    set_a(&g, a, False)
    set_b(&g, b, False)
    set_c(&g, c)
    run_problem(&g, name)
    return 0


cdef int multiply_digits(const WideProduct *w, cnp.ndarray x, object y, str name) except -1:
    """Store the product of an array and an array or PackedB16 in C, some rows at a time."""
    cdef Division a, b
    cdef Sums sums
    cdef cnp.ndarray left, right, products, columns, row_sums
    cdef int64_t row, most = min(w.m, <int64_t>ROWS)
    y = np.require(y if isinstance(y, np.ndarray) else y.unpack(), np.int16, "CA").reshape(w.k, w.n)
    x = x.reshape(w.m, w.k)
    columns, row_sums = y.sum(0, np.int64), empty_of((most,), cnp.NPY_INT64)
    left, right = empty_of((most, 2 * w.k), cnp.NPY_INT8), empty_of((2 * w.k, w.n), cnp.NPY_INT8)
    products = empty_of((3, most, w.n), cnp.NPY_INT32)
    b.src, b.rows, b.columns, b.sums = <const int16_t *>cnp.PyArray_DATA(<cnp.ndarray>y), w.k, w.n, NULL
    b.lower, b.step = <int8_t *>cnp.PyArray_DATA(right), w.n
    b.upper = b.lower + w.k * w.n
    run_division(&b)
    a.columns, a.step, a.sums = w.k, 2 * w.k, <int64_t *>cnp.PyArray_DATA(row_sums)
    a.upper = <int8_t *>cnp.PyArray_DATA(left)
    a.lower = a.upper + w.k
    sums.n, sums.k, sums.rows, sums.columns = w.n, w.k, a.sums, <const int64_t *>cnp.PyArray_DATA(columns)
    sums.low = <const int32_t *>cnp.PyArray_DATA(products)
    sums.middle, sums.high = sums.low + most * w.n, sums.low + 2 * most * w.n
    for row in range(0, w.m, most):
        a.rows = sums.m = min(most, w.m - row)
        part = np.require(x[row:row + most], np.int16, "CA")
        a.src = <const int16_t *>cnp.PyArray_DATA(<cnp.ndarray>part)
        run_division(&a)
        multiply(left[:a.rows, w.k:], right[:w.k], products[0, :a.rows], name)
        multiply(left[:a.rows], right, products[1, :a.rows], name)
        multiply(left[:a.rows, :w.k], right[w.k:], products[2, :a.rows], name)
        sums.c = <int64_t *>w.c + row * w.n
        run_work(add_rows, &sums, min(sums.m, <int64_t>PARTS), 20.0 * sums.m * w.n, THREAD_BYTES, KEEPS_GIL_BYTES)
    return 0
