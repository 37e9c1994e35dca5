# New arrays for results, and views (see results.pyx).
cimport int8blas.core.cnumpy as cnp

cdef enum:
    MAX_DIMS = 64               # NPY_MAXDIMS
    LARGE_BYTES = 128 << 10     # results of at least this size begin on a cache line
    ELEMENT_BYTES = 8           # size of the largest dtype of results

# The layout of an array in memory, and its type number. Only the first `ndim` sizes and strides are set.
cdef struct Layout:
    int ndim, typenum
    cnp.npy_intp shape[MAX_DIMS]
    cnp.npy_intp strides[MAX_DIMS]


cdef cnp.ndarray empty_laid_out(Layout *layout)
cdef void lay_out(Layout *layout, cnp.ndarray array) noexcept
cdef bint is_laid_out(const Layout *layout, cnp.ndarray array) noexcept
cdef int check_layout(const Layout *layout, cnp.ndarray array, str name) except -1
cdef cnp.ndarray empty_large(int ndim, cnp.npy_intp *shape, int typenum, double size)
cdef cnp.ndarray empty_of(shape, int typenum)
cdef cnp.ndarray empty_bytes(cnp.npy_intp size)
cdef cnp.ndarray empty_like(cnp.ndarray array, int typenum)
cdef list axes_in_memory(cnp.ndarray array)
cdef cnp.ndarray empty_in_order(cnp.npy_intp *shape, cnp.ndarray like, int typenum)
cdef cnp.ndarray view_of(cnp.ndarray array, int ndim, cnp.npy_intp *shape, cnp.npy_intp *strides, char *data, int flags)


cdef inline cnp.ndarray empty(int ndim, cnp.npy_intp *shape, int typenum):
    """Return a new C-contiguous array, uninitialised."""
    cdef double size = 1
    cdef int axis
    for axis in range(ndim):
        size *= shape[axis]
    if size < LARGE_BYTES // ELEMENT_BYTES:
        return cnp.PyArray_EMPTY(ndim, shape, typenum, 0)
    return empty_large(ndim, shape, typenum, size)
