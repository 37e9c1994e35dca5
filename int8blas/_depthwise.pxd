# Filters of single channels (see _depthwise.pyx).
from libc.stdint cimport int64_t

from int8blas._filters cimport Filters


cdef class DepthwiseFilters(Filters):
    cdef int64_t channels, multiplier
    cdef int64_t together           # output lines that are computed from the same interleaved lines


cdef bint is_depthwise(object weights, object bias, tuple strides, tuple dilation) except -1
