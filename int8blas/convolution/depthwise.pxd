# The strategy for groups of one channel (see depthwise.pyx).
from libc.stddef cimport ptrdiff_t
from libc.stdint cimport int64_t, uint8_t

from int8blas.convolution.filters cimport Filters, Images
from int8blas.convolution.window_sums cimport Windows
from int8blas.core.kernels cimport i8_image
from int8blas.gemm.problem cimport Problem
from int8blas.stage.output_stage cimport Bound


# One execution of a layer.
cdef struct DepthwiseJob:
    Problem g                   # with epilogue and zero points; C is the first pixel
    i8_image image
    int64_t channels, multiplier
    int64_t chunks              # kernel calls for all channels
    int64_t repeats             # copies of the weights, each shifted by one more output line
    int64_t together            # output lines in a unit of work
    int64_t size[4]             # n, d, h, w of the destination
    ptrdiff_t steps[5]          # steps of n, d, h, w and channel, in bytes
    int64_t pixels              # outputs of a stretch
    int64_t block               # lines, or runs of `together` lines, in a unit of work
    bint plain, copies
    bint flat                   # whether a line of pixels and channels is one row of the kernel
    bint strided                # whether the kernel for stride 2 runs
    Windows windows


cdef class DepthwiseFilters(Filters):
    cdef int64_t channels, multiplier
    cdef int parts                  # number of int8 filters whose sum is weights minus zero points
    cdef int64_t together           # output lines computed from the same interleaved lines

    cdef object split_weights(self, weights)
    cdef bint is_strided(self, const Problem *g) noexcept
    cdef bint is_flat(self, const DepthwiseJob *j) noexcept
    cdef int prepare(self, DepthwiseJob *j, Bound bound, const Images *src, const Images *dst, uint8_t flip) noexcept


cdef bint is_depthwise(tuple shape, tuple strides, tuple dilation) except -1
