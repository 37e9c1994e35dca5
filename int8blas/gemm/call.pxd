# Set up a problem for the driver from Python arguments (see call.pyx).
from libc.stdint cimport int64_t, uint8_t
cimport int8blas.core.cnumpy as cnp

from int8blas.gemm.operand cimport set_as_s8, set_as_u8
from int8blas.gemm.problem cimport Problem


cdef int set_a_operand(Problem *g, cnp.ndarray a, int a_type, object trans, str trans_name) except -1
cdef int set_b_operand(Problem *g, object b, int b_type, bint transpose) except -1
cdef cnp.ndarray set_ao(Problem *g, object value, str count)
cdef cnp.ndarray set_bo(Problem *g, object value, str count)
cdef bint is_usable(cnp.ndarray c, cnp.ndarray a, object b) noexcept
cdef int run_problem(Problem *g, str name) except -1
cdef int run_nogil(Problem *g, const char *name) noexcept nogil
cdef int no_memory(str name) except -1
cdef int warn_saturated(str name) except -1


cdef inline int check_memory(int status, str name) except -1:
    """Raise MemoryError if a problem was not computed."""
    if status:
        no_memory(name)
    return 0


cdef inline void set_a(Problem *g, cnp.ndarray a, bint transpose) noexcept:
    """Set A, M and K from the last two dimensions of `a`, without a zero point."""
    cdef cnp.npy_intp *shape = cnp.PyArray_DIMS(a) + cnp.PyArray_NDIM(a) - 2
    cdef cnp.npy_intp *strides = cnp.PyArray_STRIDES(a) + cnp.PyArray_NDIM(a) - 2
    g.m, g.k = shape[transpose], shape[1 - transpose]
    g.a.row, g.a.column = strides[transpose], strides[1 - transpose]
    g.a.data = <const uint8_t *>cnp.PyArray_DATA(a)
    if cnp.PyArray_TYPE(a) == cnp.NPY_INT8:
        set_as_u8(&g.a, True)


cdef inline void set_b(Problem *g, cnp.ndarray b, bint transpose) noexcept:
    """Set a plain B and N from the last two dimensions of `b`, without a zero point."""
    cdef cnp.npy_intp *strides = cnp.PyArray_STRIDES(b) + cnp.PyArray_NDIM(b) - 2
    g.n = cnp.PyArray_DIMS(b)[cnp.PyArray_NDIM(b) - 1 - transpose]
    g.b.row, g.b.column = strides[transpose], strides[1 - transpose]
    g.b.data = <const uint8_t *>cnp.PyArray_DATA(b)
    if cnp.PyArray_TYPE(b) != cnp.NPY_INT8:  # uint8, or bool
        set_as_s8(&g.b, True)


cdef inline void set_c(Problem *g, cnp.ndarray c) noexcept:
    """Set C from the last two dimensions of `c`."""
    cdef cnp.npy_intp *strides = cnp.PyArray_STRIDES(c) + cnp.PyArray_NDIM(c) - 2
    g.c.data = <char *>cnp.PyArray_DATA(c)
    g.c.row, g.c.column = strides[0], strides[1]
