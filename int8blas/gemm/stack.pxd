# A stack of products (see stack.pyx).
from libc.stddef cimport ptrdiff_t
from libc.stdint cimport int64_t
cimport int8blas.core.cnumpy as cnp

from int8blas.gemm.problem cimport Problem


# The addresses of the matrices in a stack of problems, as distances in bytes along the stack's dimensions. The problems
# of a stack differ only in addresses.
cdef struct Stack:
    int64_t count
    int dims
    int64_t shape[cnp.NPY_MAXDIMS]
    ptrdiff_t a[cnp.NPY_MAXDIMS]
    ptrdiff_t b[cnp.NPY_MAXDIMS]
    ptrdiff_t c[cnp.NPY_MAXDIMS]


cdef tuple broadcast_batch(tuple a, tuple b)
cdef int set_batch(Stack *s, cnp.ndarray a, int a_axes, cnp.ndarray b, int b_axes) except -1
cdef void set_results(Stack *s, cnp.ndarray c) noexcept
cdef int run_stack(Problem *g, const Stack *s, str name) except -1
