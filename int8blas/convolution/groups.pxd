# The strategy for groups of 4 and 8 channels (see groups.pyx).
from libc.stdint cimport int64_t, uint8_t

from int8blas.convolution.filters cimport Filters, Images
from int8blas.convolution.lines cimport LinesJob
from int8blas.stage.output_stage cimport Bound


cdef class GroupFilters(Filters):
    cdef int64_t channels, fold     # channels of an output; neighbouring outputs that form it
    cdef object sums                # weight sums of each output channel; None before the first use

    cdef list order(self)
    cdef int prepare(self, LinesJob *j, Bound bound, const Images *src, const Images *dst, uint8_t flip) noexcept


cdef bint has_few_lines(tuple shape, tuple strides, tuple dilation) except -1
cdef bint has_small_groups(tuple shape, tuple strides, tuple dilation) except -1
