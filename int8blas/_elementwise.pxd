# Element-wise functions of arrays (see _elementwise.pyx).
cimport numpy as cnp

from int8blas._kernels cimport i8_elements_fn

# The parameters of an element-wise function: scale or multiplier, zero point, exponent.
cdef enum:
    PARAMETERS = 3

cdef bint clash(cnp.ndarray x, cnp.ndarray out)
cdef object apply(i8_elements_fn function, cnp.ndarray x, object out, int typenum, tuple axes, list parameters)
