"""Values for each column of C, or one value for all columns, in the form that the kernels of the epilogue read.

Scales and zero points are NumPy scalars, or contiguous vectors of float32 or int64, which other functions have checked.
Calls that supply values usually supply single numbers and have small problems, so the functions of this module must
take well under 1 us.
"""

from libc.math cimport fabs, isfinite
from libc.stdint cimport int64_t, uint32_t
from libc.string cimport memcpy
cimport int8blas.core.cnumpy as cnp
import numpy as np

from int8blas.core.kernels cimport I8_CHUNK, i8_column_values

cnp.import_array()

cdef object FLOAT32 = np.float32, INT64 = np.int64, ARRAY = np.ndarray, INTEGER = np.integer
# The types whose values are rounded only once on the way to double and then to float32.
cdef tuple REAL_TYPES = (float, np.float32, np.float64, np.float16)
cdef tuple REAL_DTYPES = (cnp.NPY_FLOAT32, cnp.NPY_FLOAT64, cnp.NPY_FLOAT16)


cdef cnp.ndarray padded(object values, int typenum):
    """Return a copy that is padded to whole chunks and one more chunk, because the kernels read a chunk beyond the last
    column."""
    cdef cnp.ndarray source = values, array
    cdef cnp.npy_intp count = cnp.PyArray_SIZE(source), size = count // I8_CHUNK * I8_CHUNK + 2 * I8_CHUNK
    array = cnp.PyArray_ZEROS(1, &size, typenum, 0)
    if cnp.PyArray_TYPE(source) == typenum and cnp.PyArray_IS_C_CONTIGUOUS(source):
        memcpy(cnp.PyArray_DATA(array), cnp.PyArray_DATA(source), cnp.PyArray_NBYTES(source))
    else:
        array[:count] = source
    return array


cdef int set_columns(i8_column_values *columns, object values, list arrays) except -1:
    """Set one value, or one value for each column, in float32. `arrays` owns the memory."""
    cdef cnp.npy_intp size = I8_CHUNK, i
    cdef cnp.ndarray array
    cdef float *data
    cdef float value
    if isinstance(values, ARRAY):
        array = padded(values, cnp.NPY_FLOAT32)
        columns.step = 1
    else:
        value = values
        array = cnp.PyArray_EMPTY(1, &size, cnp.NPY_FLOAT32, 0)
        data = <float *>cnp.PyArray_DATA(array)
        for i in range(size):
            data[i] = value
        columns.step = 0
    arrays.append(array)
    columns.values = <const float *>cnp.PyArray_DATA(array)
    return 0


cdef cnp.ndarray products(cnp.ndarray values, float factor):
    """Return float32(values * factor). Each product is rounded once. Underflow and overflow raise no error."""
    cdef cnp.ndarray result = cnp.PyArray_NewCopy(values, cnp.NPY_CORDER)
    cdef float *data = <float *>cnp.PyArray_DATA(result)
    cdef cnp.npy_intp i
    for i in range(cnp.PyArray_SIZE(result)):
        data[i] = data[i] * factor
    return result


cdef float largest(object values) except? -1:
    """Return the largest magnitude of some values in float32."""
    cdef float most = 0
    cdef cnp.ndarray array
    cdef const float *data
    cdef cnp.npy_intp i
    if not isinstance(values, ARRAY):
        return fabs(<float>values)
    array = cnp.PyArray_GETCONTIGUOUS(values)
    data = <const float *>cnp.PyArray_DATA(array)
    for i in range(cnp.PyArray_SIZE(array)):
        most = max(most, <float>fabs(data[i]))
    return most


cdef cnp.ndarray multiples(cnp.ndarray sums, int64_t factor):
    """Return the products of int64 sums and a factor, modulo 2**32, as int32."""
    cdef cnp.npy_intp size = cnp.PyArray_SIZE(sums), i
    cdef cnp.ndarray result = cnp.PyArray_EMPTY(1, &size, cnp.NPY_INT32, 0)
    cdef uint32_t *data = <uint32_t *>cnp.PyArray_DATA(result)
    cdef const int64_t *values = <const int64_t *>cnp.PyArray_DATA(sums)
    for i in range(size):
        data[i] = <uint32_t>factor * <uint32_t>values[i]
    return result


cdef object one_of(object value, tuple types, tuple typenums):
    """Return a value whose type is in `types`, the only element of an array whose type number is in `typenums`, or
    None."""
    if type(value) in types:
        return value
    if type(value) is ARRAY and value.size == 1 and cnp.PyArray_TYPE(<cnp.ndarray>value) in typenums:
        return value.item()
    return None


cdef object one_scale(object value, bint divides):
    """Return a finite float32 that is not 0. If `divides` is true, the reciprocal must also be finite. Return None for
    values that need the full check."""
    cdef float scale
    value = one_of(value, REAL_TYPES, REAL_DTYPES)
    if value is None:
        return None
    scale = <float><double>value
    if scale == 0 or not isfinite(scale) or (divides and not isfinite(<float>1 / scale)):
        return None
    return FLOAT32(scale)


cdef object one_integer(object value, object dtype):
    """Return an integer within the range of a type as int64. Return None for values that need the full check."""
    if isinstance(value, ARRAY):
        if value.size != 1 or value.dtype.kind not in "iu":
            return None
        value = value.item()
    elif type(value) is not int and not isinstance(value, INTEGER):
        return None
    low, high = RANGES[dtype.char]
    return INT64(value) if low <= value <= high else None


cdef dict RANGES = {np.dtype(t).char: (int(np.iinfo(t).min), int(np.iinfo(t).max))
                    for t in (np.int8, np.uint8, np.int16, np.uint16, np.int32)}
