# Element-wise functions of arrays (see elements.pyx).
from libc.stddef cimport ptrdiff_t
from libc.stdint cimport int64_t
cimport int8blas.core.cnumpy as cnp

from int8blas.core.kernels cimport i8_elements_fn

# The parameters of an element-wise function: scale or multiplier, zero point, exponent.
cdef enum:
    PARAMETERS = 3


cdef object apply(i8_elements_fn function, cnp.ndarray x, object out, int typenum, tuple axes, list parameters)
cdef list in_memory_order(cnp.ndarray out, list arrays)
cdef bint is_dense(cnp.ndarray array) noexcept
cdef bint lie_alike(cnp.ndarray x, cnp.ndarray y) noexcept
cdef int even_from(list arrays)
cdef void copy_strided(char *to, ptrdiff_t to_step, const char *source, ptrdiff_t step, int size,
                       int64_t n) noexcept nogil
cdef bint share_memory(cnp.ndarray x, cnp.ndarray out)
cdef bint clash(cnp.ndarray x, cnp.ndarray out)
