# Views of the images that suit the kernels better than the images themselves (see views.pyx).
from libc.stdint cimport int64_t, uint8_t

from int8blas.convolution.filters cimport Filters, Images
from int8blas.stage.output_stage cimport Bound


cdef class View:
    cdef Filters filters
    cdef Bound bound
    cdef Images src, dst


cdef bint takes_folded(Filters f, Bound bound, const Images *dst) noexcept
cdef Bound repeated_bound(Bound bound, int64_t count, int64_t times)
cdef int add_views(list views, Filters filters, Bound bound, const Images *src, const Images *dst,
                   uint8_t flip) except -1
