from cpython.object cimport PyObject

# The part of NumPy's C API that this package uses. NumPy's numpy/__init__.pxd declares the whole API. With NumPy's
# file, Cython would need twice the time for each module, and every import would look up twenty types.
cdef extern from "numpy/arrayobject.h":
    ctypedef signed long npy_intp  # Cython only needs a name; the C compiler knows the width of a pointer
    ctypedef int NPY_ORDER

    enum:
        NPY_BOOL, NPY_INT8, NPY_UINT8, NPY_INT16, NPY_UINT16, NPY_INT32, NPY_INT64, NPY_ULONG, NPY_ULONGLONG
        NPY_FLOAT16, NPY_FLOAT32, NPY_FLOAT64
        NPY_MAXDIMS
        NPY_ARRAY_WRITEABLE
        NPY_ARRAY_CARRAY, NPY_ARRAY_ENSURECOPY, NPY_ARRAY_FORCECAST

    NPY_ORDER NPY_CORDER

    ctypedef class numpy.dtype [object PyArray_Descr, check_size ignore]:
        cdef int type_num

        @property
        cdef inline npy_intp itemsize(self) noexcept nogil:
            return PyDataType_ELSIZE(self)

    ctypedef class numpy.ndarray [object PyArrayObject, check_size ignore]:
        @property
        cdef inline int ndim(self) noexcept nogil:
            return PyArray_NDIM(self)

        @property
        cdef inline npy_intp size(self) noexcept nogil:
            return PyArray_SIZE(self)

        @property
        cdef inline npy_intp *shape(self) noexcept nogil:
            return PyArray_DIMS(self)

        @property
        cdef inline npy_intp *strides(self) noexcept nogil:
            return PyArray_STRIDES(self)

    # Each module calls import_array before any other function of this file that is not a macro.
    int import_array "PyArray_ImportNumPyAPI"() except -1

    int PyArray_NDIM(ndarray) nogil
    npy_intp PyArray_SIZE(ndarray) nogil
    npy_intp PyArray_NBYTES(ndarray) nogil
    npy_intp PyArray_ITEMSIZE(ndarray) nogil
    int PyArray_TYPE(ndarray) nogil
    npy_intp *PyArray_DIMS(ndarray) nogil
    npy_intp *PyArray_STRIDES(ndarray) nogil
    npy_intp PyArray_DIM(ndarray, size_t) nogil
    npy_intp PyArray_STRIDE(ndarray, size_t) nogil
    void *PyArray_DATA(ndarray) nogil
    char *PyArray_BYTES(ndarray) nogil

    npy_intp PyDataType_ELSIZE(dtype) nogil
    bint PyArray_Check(object)
    bint PyArray_CheckExact(object)
    bint PyArray_IS_C_CONTIGUOUS(ndarray) nogil
    bint PyArray_SAMESHAPE(ndarray, ndarray) nogil
    bint PyArray_IS_F_CONTIGUOUS(ndarray) nogil
    bint PyArray_ISWRITEABLE(ndarray) nogil
    bint PyArray_ISALIGNED(ndarray) nogil
    bint PyArray_ISNOTSWAPPED(ndarray) nogil
    bint PyArray_ISBEHAVED(ndarray) nogil
    bint PyArray_ISBEHAVED_RO(ndarray) nogil
    bint PyArray_ISCARRAY(ndarray) nogil
    bint PyArray_ISCARRAY_RO(ndarray) nogil
    bint PyArray_ISFARRAY(ndarray) nogil
    bint PyTypeNum_ISINTEGER(int) nogil
    bint PyTypeNum_ISUSERDEF(int) nogil
    unsigned char PyArray_EquivTypenums(int, int)
    int PyArray_CompareLists(npy_intp *, npy_intp *, int)

    dtype PyArray_DescrFromType(int)
    object PyArray_EMPTY(int, npy_intp *, int, int)
    object PyArray_ZEROS(int, npy_intp *, int, int)
    object PyArray_NewCopy(ndarray, NPY_ORDER)
    object PyArray_SwapAxes(ndarray, int, int)
    ndarray PyArray_View(ndarray, void *, void *)
    # The next two functions take over the references to the dtype and to the owner of the memory.
    ndarray PyArray_NewFromDescr(type, dtype, int, npy_intp *, npy_intp *, void *, int, void *)
    int PyArray_SetBaseObject(ndarray, object) except -1
    PyObject *PyArray_BASE(ndarray)
    void PyArray_CLEARFLAGS(ndarray, int)
    ndarray PyArray_GETCONTIGUOUS(ndarray)
    object PyArray_FROM_OTF(object, int, int)
