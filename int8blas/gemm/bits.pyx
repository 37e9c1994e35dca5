"""Find the number of bits of the elements of integer arrays, in one pass."""

from libc.stdint cimport int64_t
cimport int8blas.core.cnumpy as cnp

from int8blas.core.kernels cimport I8_INT_U8, i8_int_bits, i8_wide_kernels

cnp.import_array()


cdef int integer_type(cnp.ndarray array) noexcept:
    """Return the kernels' code of an array's type, or -1 if the type is neither an integer type nor bool."""
    cdef int typenum = cnp.PyArray_TYPE(array)
    if typenum == cnp.NPY_BOOL:
        return I8_INT_U8
    return integer_code(typenum, <int>cnp.PyArray_ITEMSIZE(array)) if cnp.PyTypeNum_ISINTEGER(typenum) else -1


cdef Bits count_bits(const i8_int_bits *found) noexcept:
    cdef Bits bits = Bits(0, <int64_t>found.sign < 0)
    while bits.count < 64 and found.magnitude >> bits.count:
        bits.count += 1
    return bits


cdef void add_bits(const i8_wide_kernels *kernels, int type, const char *data, int axis, cnp.ndarray x,
                   i8_int_bits *found) noexcept:
    """Extend `found` by the bits of all elements, for the axes from `axis` on."""
    cdef cnp.npy_intp i
    if axis >= cnp.PyArray_NDIM(x) - 1:
        kernels.bits[type](found, data, cnp.PyArray_STRIDE(x, axis) if axis < cnp.PyArray_NDIM(x) else 0,
                           cnp.PyArray_DIM(x, axis) if axis < cnp.PyArray_NDIM(x) else 1)
        return
    for i in range(cnp.PyArray_DIM(x, axis)):
        add_bits(kernels, type, data + i * cnp.PyArray_STRIDE(x, axis), axis + 1, x, found)


cdef Bits bits_of(const i8_wide_kernels *kernels, cnp.ndarray x) noexcept:
    """Find the bits of an array's elements, in one pass."""
    cdef i8_int_bits found = i8_int_bits(0, 0)
    cdef int type = integer_type(x)
    if cnp.PyArray_SIZE(x) == 0:
        return Bits(0, False)
    if cnp.PyArray_IS_C_CONTIGUOUS(x) or cnp.PyArray_IS_F_CONTIGUOUS(x):
        kernels.bits[type](&found, cnp.PyArray_BYTES(x), cnp.PyArray_ITEMSIZE(x), cnp.PyArray_SIZE(x))
    else:
        add_bits(kernels, type, cnp.PyArray_BYTES(x), 0, x, &found)
    return count_bits(&found)
