# A problem for the driver from Python arguments (see problem.pyx).
from libc.stddef cimport ptrdiff_t
from libc.stdint cimport int64_t, uint8_t
cimport int8blas.core.cnumpy as cnp

from int8blas.core.kernels cimport current_kernels
from int8blas.core.machine cimport this_machine
from int8blas.gemm.operand cimport Operand, set_as_s8, set_as_u8
from int8blas.gemm.plan cimport WHOLE, Gemm


# Where the matrices of a stack of problems are that differ in nothing else: distances in bytes along its dimensions.
cdef struct Stack:
    int64_t count
    int dims
    int64_t shape[cnp.NPY_MAXDIMS]
    ptrdiff_t a[cnp.NPY_MAXDIMS]
    ptrdiff_t b[cnp.NPY_MAXDIMS]
    ptrdiff_t c[cnp.NPY_MAXDIMS]


cdef int set_a_operand(Gemm *g, cnp.ndarray a, int a_type, object trans, str trans_name) except -1
cdef int set_b_operand(Gemm *g, object b, int b_type, bint transpose) except -1
cdef cnp.ndarray set_ao(Gemm *g, object value, str count)
cdef cnp.ndarray set_bo(Gemm *g, object value, str count)
cdef bint is_usable(cnp.ndarray c, cnp.ndarray a, object b)
cdef int run(Gemm *g, str name) except -1
cdef int run_nogil(Gemm *g, const char *name) noexcept nogil
cdef int run_stack(Gemm *g, const Stack *s, str name) except -1
cdef int no_memory(str name) except -1
cdef int warn_saturated(str name) except -1


cdef inline int check_memory(int status, str name) except -1:
    """An error if a problem was not computed."""
    if status:
        no_memory(name)
    return 0


cdef inline void clear(Operand *x) noexcept nogil:
    x.data = NULL
    x.row = x.column = x.zero = 0
    x.flip = 0
    x.zeros = NULL


cdef inline void start(Gemm *g, bint saturating) noexcept nogil:
    """An empty problem for the calling thread; `run` fills in how many threads it may use."""
    # One by one: memset of a constant size becomes REP STOS, which takes longer than these stores.
    g.kernels = current_kernels()
    g.machine = &this_machine
    g.saturating = saturating
    g.m = g.n = g.k = 0
    clear(&g.a)
    clear(&g.b)
    g.packed = NULL
    g.col_sums = NULL
    g.certified = NULL
    g.pair_sums = NULL
    g.split.panels = NULL
    g.as_s8 = NULL
    g.alpha = 1
    g.beta = 0
    g.co = 0
    g.co_rows = NULL
    g.co_cols = NULL
    g.column_squares = NULL
    g.c = NULL
    g.c_row = g.c_col = 0
    g.threads = 1
    g.triangle = WHOLE
    g.stage = NULL
    g.row_scales = NULL
    g.col_init = NULL
    g.scale_groups = NULL
    g.dynamic_source = NULL
    g.image = NULL
    g.c_line = g.c_line_step = 0
    g.doubled = g.far = g.tries_memory = False
    g.lowest = g.spread = 0
    g.to_s64 = False
    g.saturated = NULL


cdef inline void set_a(Gemm *g, cnp.ndarray a, bint transpose) noexcept:
    """A of the problem, from the last two dimensions of `a`, without a zero point; M and K with it."""
    cdef cnp.npy_intp *shape = cnp.PyArray_DIMS(a) + cnp.PyArray_NDIM(a) - 2
    cdef cnp.npy_intp *strides = cnp.PyArray_STRIDES(a) + cnp.PyArray_NDIM(a) - 2
    g.m, g.k = shape[transpose], shape[1 - transpose]
    g.a.row, g.a.column = strides[transpose], strides[1 - transpose]
    g.a.data = <const uint8_t *>cnp.PyArray_DATA(a)
    if cnp.PyArray_TYPE(a) == cnp.NPY_INT8:
        set_as_u8(&g.a, True)


cdef inline void set_b(Gemm *g, cnp.ndarray b, bint transpose) noexcept:
    """Plain B of the problem, from the last two dimensions of `b`, without a zero point; N with it."""
    cdef cnp.npy_intp *strides = cnp.PyArray_STRIDES(b) + cnp.PyArray_NDIM(b) - 2
    g.n = cnp.PyArray_DIMS(b)[cnp.PyArray_NDIM(b) - 1 - transpose]
    g.b.row, g.b.column = strides[transpose], strides[1 - transpose]
    g.b.data = <const uint8_t *>cnp.PyArray_DATA(b)
    if cnp.PyArray_TYPE(b) != cnp.NPY_INT8:  # uint8, or bool
        set_as_s8(&g.b, True)


cdef inline void set_c(Gemm *g, cnp.ndarray c) noexcept:
    """C of the problem, from the last two dimensions of `c`."""
    cdef cnp.npy_intp *strides = cnp.PyArray_STRIDES(c) + cnp.PyArray_NDIM(c) - 2
    g.c = <char *>cnp.PyArray_DATA(c)
    g.c_row, g.c_col = strides[0], strides[1]
