# Convert Python objects to arrays and numbers, or raise an error. The functions for common cases are inline, because a
# call to another module takes as long as the check. arrays.pyx has all other cases.
from cpython.long cimport PyLong_AsLongLongAndOverflow
from libc.math cimport isfinite
from libc.stddef cimport ptrdiff_t
from libc.stdint cimport int32_t, int64_t, uintptr_t
cimport int8blas.core.cnumpy as cnp

cpdef cnp.ndarray as_array(object x, str name)
cdef cnp.ndarray as_memory(object x, str name, int typenum)
cpdef bint is_bfloat16(cnp.dtype dtype)
cpdef object bfloat16_dtype()
cpdef cnp.ndarray widened(object x, str name)
cpdef cnp.ndarray in_float32(object x, str name)
cdef cnp.ndarray float32s(object x, str name)
cpdef object dtype_from(object x)
cpdef str dtype_argument(object x)
cdef int check_other_type(cnp.ndarray array, str name, int typenum) except -1
cdef cnp.ndarray source_of_type(object x, int typenum)
cdef cnp.ndarray int8_operand(object x, str name)
cdef cnp.ndarray output_from(object x, str name, int typenum)
cdef cnp.ndarray product_output(object out, object dtype, int *typenum)
cdef int transpose_from(object flag, str name) except -1
cdef bint flag(object x, str name) except -1
cpdef double real_from(object x, str name) except? -1
cdef bint check_numerics(object numerics) except -1
cdef cnp.ndarray integers(object x, str name, int64_t low, int64_t high, Py_ssize_t length, str count)
cdef cnp.ndarray elements(object x, str name, tuple typenums)
cpdef cnp.ndarray elements_output(object x, str name, int typenum, tuple shape)
cdef cnp.ndarray elements_output_like(object x, str name, int typenum, cnp.ndarray like)
cdef tuple axes_from(object x, str name, int ndim)
cdef int axis_from(object x, str name, int ndim) except -1
cdef cnp.ndarray one_or_shaped(object x, str name, str kinds, str wanted, tuple shape)
cdef cnp.ndarray scale_numbers(object x, str name, int typenum, tuple shape)
cdef float scale_from(object x, str name) except? -1
cdef float divisor(object x, str name) except? -1
cdef cnp.ndarray integers_in_range(object x, str name, int64_t low, int64_t high, tuple shape)
cpdef dict by_tensor(object x, str name, tuple tensors)
cpdef list items_of(object x, str name)
cdef int choice(object x, str name, tuple choices) except -1
cdef int quantized_type(object dtype, str name) except -1
cdef cnp.ndarray finite_numbers(object x, str name)


cdef inline int check_type(cnp.ndarray array, str name, int typenum) except -1:
    """Check that an input array has type `typenum`. The type may be bool instead of uint8. The array may have any
    dimensions."""
    if cnp.PyArray_TYPE(array) != typenum:
        check_other_type(array, name, typenum)
    return 0


cdef inline bint is_output(object x, int typenum) noexcept:
    """Return whether results of a type may be written to `x` directly: the common case of a contiguous array."""
    return cnp.PyArray_CheckExact(x) and cnp.PyArray_TYPE(<cnp.ndarray>x) == typenum and (
        cnp.PyArray_ISCARRAY(<cnp.ndarray>x) or cnp.PyArray_ISFARRAY(<cnp.ndarray>x)
    )


cdef inline bint is_alike(int typenum, int other) noexcept:
    """Return whether two types are equivalent for NumPy. Compare the numbers first, because NumPy's search takes 40 ns.
    Dtypes of other packages may have the number -1, for which NumPy has no table."""
    return typenum == other or (typenum >= 0 and cnp.PyArray_EquivTypenums(typenum, other))


cdef inline cnp.ndarray output_of(object x, str name, int typenum):
    """Return an array of a type for results. The array has native byte order, is writeable, and does not overlap
    itself."""
    if is_output(x, typenum):
        return <cnp.ndarray>x
    return output_from(x, name, typenum)


cdef inline cnp.ndarray output(object x, str name):
    """Return an int32 array for results."""
    return output_of(x, name, cnp.NPY_INT32)


cdef inline int check_transpose(object flag, str name) except -1:
    """Return 0 or 1 for a transpose flag: a bool, or 0, 1, 2 as in BLAS interfaces. 2, the conjugate, counts as 1."""
    if flag is False:
        return 0
    if flag is True:
        return 1
    if type(flag) is int and flag == 0:
        return 0
    return transpose_from(flag, name)


cdef inline double real(object x, str name) except? -1:
    """Return a finite real number."""
    cdef double value
    if type(x) is float:
        value = x
        if isfinite(value):
            return value
    elif type(x) is int:
        if x == 1:
            return 1
        if x == 0:
            return 0
    return real_from(x, name)


cdef inline bint is_within(object x, int64_t low, int64_t high, int64_t *value) noexcept:
    """Return whether `x` is a Python integer in [low, high]; if so, store it in `value`."""
    cdef int overflow = 0
    if type(x) is not int:
        return False
    value[0] = PyLong_AsLongLongAndOverflow(x, &overflow)
    return overflow == 0 and low <= value[0] <= high


cdef inline void bounds(cnp.ndarray array, uintptr_t *low, uintptr_t *high) noexcept:
    """Set the address of the first byte of an array, and the address after its last byte. The addresses are equal if
    the array is empty."""
    cdef cnp.npy_intp *shape = cnp.PyArray_DIMS(array)
    cdef cnp.npy_intp *strides = cnp.PyArray_STRIDES(array)
    cdef int axis
    cdef ptrdiff_t extent = cnp.PyArray_ITEMSIZE(array)
    low[0] = <uintptr_t>cnp.PyArray_DATA(array)
    if cnp.PyArray_IS_C_CONTIGUOUS(array):
        for axis in range(cnp.PyArray_NDIM(array)):
            extent *= shape[axis]
        high[0] = low[0] + extent
        return
    high[0] = low[0] + extent
    for axis in range(cnp.PyArray_NDIM(array)):
        if shape[axis] == 0:
            high[0] = low[0]
            break
        extent = (shape[axis] - 1) * strides[axis]
        if extent < 0:
            low[0] += extent
        else:
            high[0] += extent
