# The parts of a window that are not all padding (see _spans.pyx).
from libc.stdint cimport int64_t

from int8blas._kernels cimport i8_image

cdef enum:
    MAX_SPANS = 32


# Columns [k0, k0 + k) of a block of an image's matrix, for some rows of a tile. k0 is a multiple of 4.
cdef struct Span:
    int64_t k0, k
    int row, rows


cdef int spans_of(const i8_image *m, int64_t row, int height, int64_t k0, int64_t k, Span *spans) noexcept nogil
