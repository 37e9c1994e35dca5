"""New arrays for results. Large arrays begin on a cache line.

NumPy's arrays begin 16 bytes after a page, or at any multiple of 16 bytes. In NumPy's arrays, even rows of whole cache
lines span one more line each, and every store of a vector writes two lines. Large results therefore get memory from
memory.pyx, through a memory handler of NumPy (NEP 49). Arrays own, resize and trace memory from memory.pyx like any
memory. If a program has set its own handler, NumPy uses that handler.

Small arrays get NumPy's memory. Alignment does not make small arrays faster, and changing the handler takes as long as
a small product. The module also remembers views of arrays, because NumPy takes a microsecond to make a view.
"""

import contextvars

from cpython.contextvars cimport PyContextVar_Reset, PyContextVar_Set
from cpython.object cimport PyObject
from cpython.pycapsule cimport PyCapsule_New
from cpython.ref cimport Py_INCREF
from libc.stddef cimport ptrdiff_t
from libc.stdint cimport uint8_t
from libc.stdlib cimport llabs
from libc.string cimport memcmp, memcpy, memset
cimport int8blas.core.cnumpy as cnp

import numpy as np

from int8blas.core.memory cimport ALIGNMENT, aligned, allocate, free, keep, reallocate, take
from int8blas.core.threads import put_limit, thread_count

cnp.import_array()

cdef extern from "numpy/arrayobject.h":
    ctypedef struct PyDataMemAllocator:
        void *ctx
        void *(*malloc)(void *ctx, size_t size) noexcept nogil
        void *(*calloc)(void *ctx, size_t count, size_t size) noexcept nogil
        void *(*realloc)(void *ctx, void *memory, size_t size) noexcept nogil
        void (*free)(void *ctx, void *memory, size_t size) noexcept nogil

    ctypedef struct PyDataMem_Handler:
        char name[127]
        uint8_t version
        PyDataMemAllocator allocator

    object PyDataMem_GetHandler()
    object PyDataMem_SetHandler(object handler)
    PyObject *PyDataMem_DefaultHandler

cdef void *new(void *ctx, size_t size) noexcept nogil:
    return allocate(size)


cdef void *new_zeros(void *ctx, size_t count, size_t size) noexcept nogil:
    cdef void *memory = NULL
    if size == 0 or count <= <size_t>-1 // size:
        memory = allocate(count * size)
    if memory != NULL:
        memset(memory, 0, count * size)
    return memory


cdef void *resized(void *ctx, void *memory, size_t size) noexcept nogil:
    return reallocate(memory, size)


cdef void give_back(void *ctx, void *memory, size_t size) noexcept nogil:
    free(memory)


cdef void *taken(void *ctx, size_t size) noexcept nogil:
    return take(size)


cdef void kept(void *ctx, void *memory, size_t size) noexcept nogil:
    keep(memory)


cdef object capsule(PyDataMem_Handler *handler, PyDataMemAllocator allocator):
    """Return a memory handler in the form that NumPy takes."""
    memcpy(handler.name, b"int8blas", 9)
    handler.version, handler.allocator = 1, allocator
    return PyCapsule_New(handler, "mem_handler", NULL)


cdef PyDataMem_Handler HANDLER, RECYCLING_HANDLER
cdef object CAPSULE = capsule(&HANDLER, PyDataMemAllocator(NULL, new, new_zeros, resized, give_back))
cdef object RECYCLING = capsule(&RECYCLING_HANDLER, PyDataMemAllocator(NULL, taken, new_zeros, resized, kept))


cdef class RunContext:
    """The context of a run of a network, in which NumPy ignores floating-point errors. numpy.errstate(all="ignore") has
    the same effect, but is 1 us slower. NumPy's large arrays reuse the memory of earlier arrays. Without the context,
    the system would map new memory for each array, page by page. A handler that the program has set stays in use. Calls
    of the thread use at most `threads` threads, if `threads` is given. The context must end before a block of
    num_threads that its thread entered earlier."""

    cdef object before, token, threads, limit

    def __init__(self, threads=None):
        self.threads = None if threads is None else thread_count(threads, "num_threads")

    def __enter__(self):
        self.token = PyContextVar_Set(ERRORS, IGNORED)
        self.before = PyDataMem_GetHandler()
        if <PyObject *>self.before == PyDataMem_DefaultHandler:
            PyDataMem_SetHandler(RECYCLING)
        else:
            self.before = None
        if self.threads is not None:
            self.limit = put_limit(self.threads)
        return self

    def __exit__(self, *_error):
        if self.before is not None:
            PyDataMem_SetHandler(self.before)
        PyContextVar_Reset(ERRORS, self.token)
        if self.threads is not None:
            put_limit(self.limit)


cdef tuple variable_of_errors():
    """Return the context variable that numpy.errstate sets, and its value for ignored errors."""
    context = contextvars.Context()
    context.run(np.errstate(all="ignore").__enter__)
    return next(iter(context.items()))


cdef object ERRORS, IGNORED
ERRORS, IGNORED = variable_of_errors()


cdef object set_handler(double size):
    """Set the handler for an array of this size. Return the handler to restore, or None if nothing was set."""
    if size < LARGE_BYTES:
        return None
    before = PyDataMem_GetHandler()
    if <PyObject *>before != PyDataMem_DefaultHandler:
        return None
    return PyDataMem_SetHandler(CAPSULE)


cdef cnp.ndarray empty_large(int ndim, cnp.npy_intp *shape, int typenum, double size):
    """Return a new uninitialised C-contiguous array of `size` elements that begins on a cache line."""
    before = set_handler(size * cnp.PyArray_DescrFromType(typenum).itemsize)
    if before is None:
        return cnp.PyArray_EMPTY(ndim, shape, typenum, 0)
    try:
        return cnp.PyArray_EMPTY(ndim, shape, typenum, 0)
    finally:
        PyDataMem_SetHandler(before)


cdef cnp.ndarray empty_of(shape, int typenum):
    """Return a new array with the shape of a sequence of sizes."""
    cdef cnp.npy_intp sizes[MAX_DIMS]
    cdef int ndim = 0
    if len(shape) > MAX_DIMS:
        return np.empty(shape, cnp.PyArray_DescrFromType(typenum))  # raises NumPy's error
    for size in shape:
        sizes[ndim] = size
        ndim += 1
    return empty(ndim, sizes, typenum)


cdef cnp.ndarray empty_bytes(cnp.npy_intp size):
    """Return new uninitialised int8 memory of any size that begins on a cache line."""
    cdef cnp.npy_intp room = size + ALIGNMENT, step = 1
    cdef cnp.ndarray memory = cnp.PyArray_EMPTY(1, &room, cnp.NPY_INT8, 0)
    return view_of(memory, 1, &size, &step, aligned(cnp.PyArray_BYTES(memory)), cnp.NPY_ARRAY_WRITEABLE)


cdef cnp.ndarray empty_like(cnp.ndarray array, int typenum):
    """Return a new array with the shape of `array` and its order of dimensions in memory, like numpy.empty_like."""
    return empty_in_order(cnp.PyArray_DIMS(array), array, typenum)


cdef bint sort_axes(int *order, cnp.ndarray array) noexcept:
    """Fill in `order` with the axes of an array in the order of decreasing strides. Return whether the axes already
    have the order of decreasing strides."""
    cdef int axis, at
    cdef bint is_plain = True
    for axis in range(cnp.PyArray_NDIM(array)):
        at = axis
        while at > 0 and llabs(cnp.PyArray_STRIDE(array, order[at - 1])) < llabs(cnp.PyArray_STRIDE(array, axis)):
            order[at] = order[at - 1]
            at -= 1
        order[at] = axis
        is_plain = is_plain and at == axis
    return is_plain


cdef list axes_in_memory(cnp.ndarray array):
    """Return the axes of an array in the order of decreasing strides."""
    cdef int order[MAX_DIMS]
    cdef int at
    sort_axes(order, array)
    return [order[at] for at in range(cnp.PyArray_NDIM(array))]


cdef cnp.ndarray empty_in_order(cnp.npy_intp *shape, cnp.ndarray like, int typenum):
    """Return a new array of this shape, whose dimensions have the order of `like` in memory."""
    cdef int order[MAX_DIMS]
    cdef cnp.npy_intp strides[MAX_DIMS]
    cdef cnp.npy_intp step
    cdef int ndim = cnp.PyArray_NDIM(like), at
    cdef cnp.dtype dtype
    if cnp.PyArray_IS_C_CONTIGUOUS(like) or sort_axes(order, like):
        return empty(ndim, shape, typenum)
    dtype = cnp.PyArray_DescrFromType(typenum)
    step = (<object>dtype).itemsize
    for at in range(ndim - 1, -1, -1):
        strides[order[at]] = step
        step *= max(<cnp.npy_intp>1, shape[order[at]])
    before = set_handler(<double>step)
    Py_INCREF(dtype)
    try:
        return cnp.PyArray_NewFromDescr(np.ndarray, dtype, ndim, shape, strides, NULL, 0, NULL)
    finally:
        if before is not None:
            PyDataMem_SetHandler(before)


cdef cnp.ndarray view_of(cnp.ndarray array, int ndim, cnp.npy_intp *shape, cnp.npy_intp *strides, char *data,
                         int flags):
    """Return a view of the memory of `base`."""
    cdef cnp.dtype dtype = (<object>array).dtype
    cdef cnp.ndarray view
    Py_INCREF(dtype)
    view = cnp.PyArray_NewFromDescr(np.ndarray, dtype, ndim, shape, strides, data, flags, NULL)
    Py_INCREF(array)
    cnp.PyArray_SetBaseObject(view, array)
    return view


cdef cnp.ndarray empty_laid_out(Layout *layout):
    """Return a new small array without gaps, whose dimensions have the order of the layout."""
    dtype = cnp.PyArray_DescrFromType(layout.typenum)
    Py_INCREF(dtype)
    return cnp.PyArray_NewFromDescr(np.ndarray, dtype, layout.ndim, layout.shape, layout.strides, NULL, 0, NULL)


cdef void lay_out(Layout *layout, cnp.ndarray array) noexcept:
    layout.ndim, layout.typenum = cnp.PyArray_NDIM(array), cnp.PyArray_TYPE(array)
    memcpy(layout.shape, cnp.PyArray_DIMS(array), layout.ndim * sizeof(cnp.npy_intp))
    memcpy(layout.strides, cnp.PyArray_STRIDES(array), layout.ndim * sizeof(cnp.npy_intp))


cdef bint is_laid_out(const Layout *layout, cnp.ndarray array) noexcept:
    cdef size_t size = layout.ndim * sizeof(cnp.npy_intp)
    return (cnp.PyArray_NDIM(array) == layout.ndim and cnp.PyArray_TYPE(array) == layout.typenum
            and memcmp(cnp.PyArray_DIMS(array), layout.shape, size) == 0
            and memcmp(cnp.PyArray_STRIDES(array), layout.strides, size) == 0)


cdef int check_layout(const Layout *layout, cnp.ndarray array, str name) except -1:
    """Check that an argument still has the layout that was validated. The conversion of another argument may run Python
    code, such as __array__ or __index__, which can set the shape, the strides or the dtype of any array."""
    if not is_laid_out(layout, array):
        raise ValueError(f"{name} must keep its layout during the call, got an array that became {array.dtype} of "
                         f"shape {(<object>array).shape}")
    return 0


cdef class KnownView:
    """A view that is computed once, for arrays with the same layout.

    Parameters
    ----------
    x, y : ndarray
        An array, and the view made from it.
    others : tuple
        The other arguments of the call that made the view.
    """

    cdef Layout source, target
    cdef ptrdiff_t offset
    cdef bint is_view
    cdef object dtype
    cdef tuple others
    cdef tuple shape                # shape of the view that a Viewing returns

    def __init__(self, cnp.ndarray x not None, cnp.ndarray y not None, tuple others not None):
        cdef char *low = cnp.PyArray_BYTES(x)
        cdef char *high = low + cnp.PyArray_ITEMSIZE(x)
        cdef ptrdiff_t extent
        cdef int d
        for d in range(cnp.PyArray_NDIM(x)):
            extent = (cnp.PyArray_DIM(x, d) - 1) * cnp.PyArray_STRIDE(x, d)
            if extent < 0:
                low += extent
            else:
                high += extent
        lay_out(&self.source, x)
        lay_out(&self.target, y)
        self.offset, self.dtype, self.others = cnp.PyArray_BYTES(y) - cnp.PyArray_BYTES(x), (<object>x).dtype, others
        self.is_view = (cnp.PyArray_SIZE(x) > 0 and low <= cnp.PyArray_BYTES(y) < high
                        and (<object>y).dtype is self.dtype)

    def __call__(self, cnp.ndarray x not None, tuple others not None):
        """Return the known view of an array, or None."""
        cdef int i
        if not self.is_view or not is_laid_out(&self.source, x) or (<object>x).dtype is not self.dtype:
            return None
        if len(others) != len(self.others):
            return None
        for i in range(len(self.others)):
            if others[i] is not self.others[i]:
                return None
        return view_of(x, self.target.ndim, self.target.shape, self.target.strides, cnp.PyArray_BYTES(x) + self.offset,
                       cnp.NPY_ARRAY_WRITEABLE if cnp.PyArray_ISWRITEABLE(x) else 0)


cdef class Viewing:
    """A function of an array and other values, whose result is a view. An object of this class remembers the last view.

    A subclass has a method ``find``, which takes the array and a tuple of the other values, calls ``remember``, and
    returns the result. Several threads may call the function at the same time.
    """

    cdef KnownView known

    def __call__(self, cnp.ndarray x not None, *values):
        cdef KnownView known = self.known  # keep this object, because another thread may replace self.known
        cdef object view = None if known is None else known(x, values)
        if view is None:
            return self.find(x, values)
        return view if (<object>view).shape == known.shape else view.reshape(known.shape)

    def remember(self, KnownView known not None, tuple shape not None):
        """Remember a view of an array, and reshape it to `shape`."""
        known.shape = shape
        self.known = known
