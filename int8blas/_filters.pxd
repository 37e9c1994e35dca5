# The weights of a convolution, packed, with the windows that they see (see _filters.pyx).
from libc.stdint cimport int64_t
cimport numpy as cnp

from int8blas._kernels cimport i8_image
from int8blas._stage cimport Bound
from int8blas.packing cimport PackedB


cdef class Filters:
    cdef readonly PackedB packed
    cdef i8_image window            # all of it that does not depend on the image
    cdef int64_t groups, outputs    # output channels of a group
    cdef bint saturating, doubled

    cdef object column_sums(self)
    cdef int set_window(self, tuple kernel, tuple strides, tuple dilation, tuple before) except -1
    cdef int run(self, Bound bound, cnp.ndarray src, cnp.ndarray dst, int64_t padding, str name) except -1
