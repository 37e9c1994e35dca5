"""Gather rows of a quantized table and dequantize them: the embedding of tokens."""

from libc.stddef cimport ptrdiff_t
from libc.stdint cimport INT32_MAX, INT32_MIN, int8_t, int32_t, int64_t
cimport int8blas.core.cnumpy as cnp
import numpy as np

from int8blas.core.arrays cimport (
    as_array, axis_from, elements, elements_output, integers_in_range, one_or_shaped, scale_numbers)
from int8blas.core.kernels cimport (
    I8_S32, I8_S8, I8_U8, current_kernels, i8_elements_args, i8_elements_fn, i8_sum_rows_args)
from int8blas.core.results cimport Layout, check_layout, empty, empty_of, lay_out
from int8blas.core.split cimport ceil_div, share
from int8blas.core.threads cimport KEEPS_GIL_BYTES, THREAD_BYTES, run_work, threads_for
from int8blas.elementwise.elements cimport FILLED, apply, copy_bytes, fill, repeat_bytes, share_memory
from int8blas.elementwise.quantization cimport LEAST_ZERO, MOST_ZERO, lie_between
from int8blas.core.traced import traced
from int8blas.core.words import dtype_name

cdef extern from "core/compiler.h" nogil:
    void I8_PREFETCH(const void *)

cnp.import_array()

# The prefetch distance, about the number of bytes from the current row to the prefetched row.
cdef int64_t AHEAD = 2048
# Rows of up to SHORT_ROW elements share kernel calls. If each row has its own parameters, the limit is
# SHORT_ROW_OF_ITS_OWN elements, because repeating the parameters in memory makes rows of 64 elements slower (Zen 4).
cdef int64_t SHORT_ROW = 128, SHORT_ROW_OF_ITS_OWN = 48
cdef enum:
    BLOCK = 1024            # elements of a kernel call for short rows


cdef struct GatherJob:
    i8_elements_fn function
    const char *table
    ptrdiff_t row               # in bytes
    const int64_t *indices
    int64_t count, columns
    const char *parameters[2]       # scales and zero points: one value, or one for each row of `out` or column
    ptrdiff_t parameter_rows[2]     # in bytes
    bint each                       # whether each column has its own parameters
    char *out


cdef int gather_rows(const void *shared, int64_t part, int64_t parts) noexcept nogil:
    """Gather one part of the rows."""
    cdef const GatherJob *job = <const GatherJob *>shared
    cdef int64_t first = share(job.count, part, parts), end = share(job.count, part + 1, parts)
    cdef bint by_row = job.parameter_rows[0] or job.parameter_rows[1]
    if job.columns <= (SHORT_ROW_OF_ITS_OWN if by_row else SHORT_ROW):
        gather_short_rows(job, first, end)
    else:
        gather_long_rows(job, first, end)
    return 0


cdef inline void prefetch_row(const GatherJob *job, int64_t i, int64_t ahead, int64_t end) noexcept nogil:
    """Prefetch the row `ahead` rows after row i."""
    cdef const char *row
    cdef int64_t byte
    if i + ahead < end:
        row = job.table + job.indices[i + ahead] * job.row
        for byte in range(0, job.columns, 64):
            I8_PREFETCH(row + byte)


cdef void gather_long_rows(const GatherJob *job, int64_t first, int64_t end) noexcept nogil:
    """Call the kernel for each row."""
    cdef i8_elements_args e
    cdef int64_t i, ahead = 1 + AHEAD // job.columns
    e.n, e.each, e.stream = job.columns, job.each, False
    for i in range(first, end):
        prefetch_row(job, i, ahead, end)
        e.x, e.out = job.table + job.indices[i] * job.row, job.out + 4 * i * job.columns
        e.parameters[0] = job.parameters[0] + i * job.parameter_rows[0]
        e.parameters[1] = e.parameters[2] = job.parameters[1] + i * job.parameter_rows[1]
        job.function(&e)


cdef void gather_short_rows(const GatherJob *job, int64_t first, int64_t end) noexcept nogil:
    """Copy rows and their parameters to buffers, and call the kernel for a whole buffer. A call takes 8 ns."""
    cdef char rows[BLOCK]
    cdef int32_t words[2][BLOCK + FILLED]
    cdef i8_elements_args e
    cdef int64_t columns = job.columns, most = min(BLOCK // columns, end - first), ahead = 1 + AHEAD // columns
    cdef int64_t blocks = ceil_div(columns, FILLED), count, i
    cdef bint by_row = job.parameter_rows[0] or job.parameter_rows[1]
    cdef int p
    e.each, e.stream = job.each or by_row, False
    for p in range(2):
        e.parameters[p] = <const char *>words[p] if e.each else job.parameters[p]
        if job.each:
            repeat_bytes(<char *>words[p], job.parameters[p], 4 * columns, most)
        elif by_row and not job.parameter_rows[p]:
            fill(words[p], ceil_div(most * columns, FILLED), job.parameters[p])
    e.parameters[2] = e.parameters[1]
    while first < end:
        count = min(most, end - first)
        for i in range(count):
            prefetch_row(job, first + i, ahead, end)
            copy_bytes(rows + i * columns, job.table + job.indices[first + i] * job.row, columns)
        for p in range(2):
            if job.parameter_rows[p]:
                for i in range(count):
                    fill(words[p] + i * columns, blocks, job.parameters[p] + (first + i) * job.parameter_rows[p])
        e.n, e.x, e.out = count * columns, rows, job.out + 4 * first * columns
        job.function(&e)
        first += count


cdef void do_all(const GatherJob *job) noexcept:
    cdef double size = 5 * <double>job.count * job.columns
    cdef int parts = threads_for(size, THREAD_BYTES, <double>job.count)
    run_work(gather_rows, job, parts, size, THREAD_BYTES, KEEPS_GIL_BYTES)


cdef cnp.ndarray checked_indices(object x, int64_t rows):
    """Return indices of rows, int64 in C order. The array is new, because another thread may write to the argument
    after the check."""
    cdef cnp.ndarray array = as_array(x, "indices"), chosen
    cdef const int64_t *index
    cdef int64_t i
    if cnp.PyArray_TYPE(array) == cnp.NPY_INT64 and cnp.PyArray_ISCARRAY_RO(array):
        chosen = cnp.PyArray_NewCopy(array, cnp.NPY_CORDER)
    elif array.dtype.kind not in "iu" and not (array.size == 0 and isinstance(x, (list, tuple))):
        is_mask = array.dtype.kind == "b" and (<object>array).shape == (rows,)
        mask = ": give np.flatnonzero(mask) for a mask" if is_mask else ""
        raise TypeError(f"indices must be integers, got {dtype_name(array.dtype)}{mask}")
    else:
        chosen = np.array(array, np.int64, order="C")
    index = <const int64_t *>cnp.PyArray_DATA(chosen)
    for i in range(cnp.PyArray_SIZE(chosen)):
        if not 0 <= index[i] < rows:
            # Values of uint64 beyond int64 have wrapped.
            found = index[i] % 2**64 if array.dtype.kind == "u" else index[i]
            raise ValueError(f"indices must be between 0 and {rows - 1}, got {found}")
    return chosen


cdef bint is_vector(cnp.ndarray x, int64_t size, bint real) noexcept:
    """Return whether an array is a C-contiguous vector of this size, of int32, or of float32 if `real`."""
    return (cnp.PyArray_NDIM(x) == 1 and cnp.PyArray_DIM(x, 0) == size and cnp.PyArray_ISCARRAY_RO(x)
            and (cnp.PyArray_TYPE(x) == cnp.NPY_INT32 or (real and cnp.PyArray_TYPE(x) == cnp.NPY_FLOAT32)))


cdef object of_rows(object x, str name, str kinds, str wanted, int64_t rows, cnp.ndarray indices):
    """Return one value, or select the values of the wanted rows from the values of all rows."""
    cdef cnp.ndarray values, selected
    cdef const int64_t *index = <const int64_t *>cnp.PyArray_DATA(indices)
    cdef int64_t i
    if type(x) is int or type(x) is float:
        return x
    if type(x) is cnp.ndarray and is_vector(<cnp.ndarray>x, rows, "f" in kinds):
        # For a few rows, selecting with NumPy would take longer than all other work.
        values = x
        selected = empty(cnp.PyArray_NDIM(indices), cnp.PyArray_DIMS(indices), cnp.PyArray_TYPE(values))
        for i in range(cnp.PyArray_SIZE(indices)):
            (<int32_t *>cnp.PyArray_DATA(selected))[i] = (<const int32_t *>cnp.PyArray_DATA(values))[index[i]]
        return selected
    values = one_or_shaped(x, name, kinds, wanted, (rows,))
    return np.asarray(values[indices]) if values.ndim else values


cdef cnp.ndarray of_columns(cnp.ndarray values, cnp.npy_intp columns):
    """Return values of 4 bytes for each column. If there is one value, repeat it."""
    cdef cnp.ndarray repeated
    if cnp.PyArray_NDIM(values):
        return values
    repeated = cnp.PyArray_EMPTY(1, &columns, cnp.PyArray_TYPE(values), 0)
    repeat_bytes(cnp.PyArray_BYTES(repeated), cnp.PyArray_BYTES(values), 4, columns)
    return repeated


@traced("table", "indices")
def gather(table, indices, scale=1.0, zero_point=0, *, axis=None, out=None):
    """Dequantize rows of a quantized table: ``scale * float32(table[indices] - zero_point)``.

    Parameters
    ----------
    table : array_like of uint8 or int8, shape (rows, columns)
        The table. Contiguous rows are read in place.
    indices : array_like of int
        The numbers of the wanted rows, from 0 to rows - 1, in any shape.
    scale : float, or array_like, optional
        The scale, finite and not 0 when rounded to float32: one value, or, with `axis`, an array. If rows have scales,
        only the scales of the wanted rows are read.
    zero_point : int, or array_like of int, optional
        The zero point, any int32: one value, or, with `axis`, an array, as for `scale`.
    axis : {None, 0, 1}, optional
        The dimension of the table that has its own `scale` and `zero_point`: 0 for values of each row, 1 for values of
        each column.
    out : ndarray of float32, optional
        The array for the result. The array must have the shape of the result, may have any strides and may overlap the
        table.

    Returns
    -------
    ndarray of float32, shape indices.shape + (columns,)
        ``out`` if it is given. The result has the bits of ``dequantize(table, scale, zero_point, axis=axis)[indices]``.

    Raises
    ------
    TypeError, ValueError
        If an argument is not as described above. Nothing is written then.

    See Also
    --------
    dequantize : dequantize a whole array.

    Notes
    -----
    This is the embedding of tokens from a table that takes a quarter of the memory of a float32 table.

    Examples
    --------
    >>> import numpy as np, int8blas
    >>> words = np.array([[0.5, 1, -1], [0, 2, 0.25], [-4, 3, 1]], np.float32)
    >>> scale = abs(words).max(axis=1) / 127
    >>> table = int8blas.quantize(words, scale, axis=0)
    >>> tokens = [[2, 0], [0, 1]]
    >>> np.round(int8blas.gather(table, tokens, scale, axis=0), 2)
    array([[[-4.  ,  2.99,  1.01],
            [ 0.5 ,  1.  , -1.  ]],
    <BLANKLINE>
           [[ 0.5 ,  1.  , -1.  ],
            [ 0.  ,  2.  ,  0.25]]], dtype=float32)
    """
    cdef cnp.ndarray source = elements(table, "table", (cnp.NPY_UINT8, cnp.NPY_INT8))
    cdef cnp.ndarray chosen, scales, zero_points, result
    cdef bint is_signed = cnp.PyArray_TYPE(source) == cnp.NPY_INT8
    cdef bint is_wide
    cdef int64_t rows
    cdef Layout layout
    cdef GatherJob job
    if source.ndim != 2:
        raise ValueError(f"table must have 2 dimensions, got shape {(<object>source).shape}")
    lay_out(&layout, source)
    rows, job.columns = layout.shape[0], layout.shape[1]
    chosen = checked_indices(indices, rows)
    along = None if axis is None else axis_from(axis, "axis", 2)
    of_axis = () if along is None else (job.columns,)
    if along == 0:
        scale = of_rows(scale, "scale", "fiu", "a real number", rows, chosen)
        zero_point = of_rows(zero_point, "zero_point", "iu", "an integer", rows, chosen)
        of_axis = (<object>chosen).shape
    scales = scale_numbers(scale, "scale", cnp.NPY_FLOAT32, of_axis)
    zero_points = integers_in_range(zero_point, "zero_point", INT32_MIN, INT32_MAX, of_axis)
    is_wide = not lie_between(zero_points, LEAST_ZERO, MOST_ZERO)
    shape = (*(<object>chosen).shape, job.columns)
    job.function = current_kernels().elementwise.dequantize[I8_S32 if is_wide else I8_S8 if is_signed else I8_U8]
    result = empty_of(shape, cnp.NPY_FLOAT32) if out is None else elements_output(out, "out", cnp.NPY_FLOAT32, shape)
    check_layout(&layout, source, "table")
    if is_wide or source.strides[1] != 1 or not ready(source, result):
        axes = () if along is None else (chosen.ndim,) if along == 1 else tuple(range(chosen.ndim))
        selected = source[chosen].astype(np.int32) if is_wide else source[chosen]
        return apply(job.function, selected, out, cnp.NPY_FLOAT32, axes, [scales, zero_points])
    if cnp.PyArray_SIZE(result):
        if along == 1:
            scales, zero_points = of_columns(scales, job.columns), of_columns(zero_points, job.columns)
        job.table, job.row = cnp.PyArray_BYTES(source), source.strides[0]
        job.indices, job.count = <const int64_t *>cnp.PyArray_DATA(chosen), cnp.PyArray_SIZE(chosen)
        job.parameters = [cnp.PyArray_BYTES(scales), cnp.PyArray_BYTES(zero_points)]
        job.parameter_rows = [4 if along == 0 and values.ndim else 0 for values in (scales, zero_points)]
        job.each = along == 1
        job.out = cnp.PyArray_BYTES(result)
        do_all(&job)
    return result if out is None else out


cdef struct BagJob:
    GatherJob rows              # without parameters; `out` has a row for each bag
    i8_sum_rows_args sum
    void (*function)(const i8_sum_rows_args *) noexcept nogil
    const int64_t *starts       # the first index of each bag, and the end of the last bag
    bint mean


cdef int sum_some_bags(const void *shared, int64_t part, int64_t parts) noexcept nogil:
    """Sum the rows of one part of the bags."""
    cdef const BagJob *job = <const BagJob *>shared
    cdef i8_sum_rows_args t = job.sum
    cdef int64_t bag, i, j
    for bag in range(share(job.rows.count, part, parts), share(job.rows.count, part + 1, parts)):
        t.count, t.indices = job.starts[bag + 1] - job.starts[bag], job.rows.indices + job.starts[bag]
        for i in range(t.count):  # fetch the rows of the next bag
            prefetch_row(&job.rows, job.starts[bag] + i, t.count, job.starts[job.rows.count])
        t.y = <float *>job.rows.out + bag * t.n
        job.function(&t)
        for j in range(t.n if job.mean and t.count > 1 else 0):
            t.y[j] /= <float>t.count
    return 0


def sum_bags(cnp.ndarray table not None, indices, cnp.ndarray scales not None, cnp.ndarray starts not None, bint mean):
    """Return the sums, or the means, of bags of rows of a C-ordered table of int8 with a float32 scale for each row, in
    float32. Bag i has the indices from starts[i] to starts[i + 1]. Return None if the table or the scales have another
    type or layout, or if `starts`, of int64, does not grow from 0 to at most the number of indices."""
    cdef cnp.ndarray chosen, result
    cdef BagJob job
    cdef int64_t i
    cdef double size
    cdef int parts
    if (cnp.PyArray_TYPE(table) != cnp.NPY_INT8 or cnp.PyArray_NDIM(table) != 2 or not cnp.PyArray_ISCARRAY_RO(table)
            or cnp.PyArray_TYPE(scales) != cnp.NPY_FLOAT32 or cnp.PyArray_NDIM(scales) != 1
            or not cnp.PyArray_ISCARRAY_RO(scales) or cnp.PyArray_DIM(scales, 0) != cnp.PyArray_DIM(table, 0)):
        return None
    chosen = checked_indices(indices, cnp.PyArray_DIM(table, 0))
    job.starts, job.rows.count = <const int64_t *>cnp.PyArray_DATA(starts), cnp.PyArray_DIM(starts, 0) - 1
    if job.rows.count < 0 or job.starts[0] != 0 or job.starts[job.rows.count] > cnp.PyArray_SIZE(chosen):
        return None
    for i in range(job.rows.count):
        if job.starts[i] > job.starts[i + 1]:
            return None
    result = empty_of((job.rows.count, cnp.PyArray_DIM(table, 1)), cnp.NPY_FLOAT32)
    job.function, job.mean = current_kernels().elementwise.sum_rows, mean
    job.rows.indices, job.rows.out = <const int64_t *>cnp.PyArray_DATA(chosen), cnp.PyArray_BYTES(result)
    job.rows.table, job.rows.columns = cnp.PyArray_BYTES(table), cnp.PyArray_DIM(table, 1)
    job.rows.row = job.rows.columns
    job.sum.n, job.sum.row, job.sum.table = job.rows.columns, job.rows.row, <const int8_t *>job.rows.table
    job.sum.scales = <const float *>cnp.PyArray_DATA(scales)
    size = <double>job.starts[job.rows.count] * job.rows.columns
    parts = threads_for(size, THREAD_BYTES, <double>job.rows.count)
    run_work(sum_some_bags, &job, parts, size, THREAD_BYTES, KEEPS_GIL_BYTES)
    return result


cdef bint ready(cnp.ndarray table, cnp.ndarray out):
    """Return whether results can be stored directly in `out`, which is in C order and does not overlap the table."""
    return cnp.PyArray_IS_C_CONTIGUOUS(out) and not share_memory(table, out)
