# The strategy that reads windows line by line from a copy of a part of the image (see lines.pyx).
from libc.stddef cimport ptrdiff_t
from libc.stdint cimport int64_t, uint8_t

from int8blas.convolution.filters cimport Filters, Images
from int8blas.convolution.window_sums cimport Windows
from int8blas.core.kernels cimport i8_image, i8_matrix
from int8blas.gemm.problem cimport Problem
from int8blas.stage.output_stage cimport Bound


# One execution of a layer.
cdef struct LinesJob:
    Problem g                   # with epilogue, zero points and B; C is the first pixel
    i8_image image
    int64_t groups, outputs     # as in Filters
    int64_t channels            # source channels of all groups
    int64_t panels              # panels of a group
    int64_t together            # groups copied together
    int64_t size[4]             # n, d, h, w of the destination
    ptrdiff_t steps[5]          # steps of n, d, h, w and channel, in bytes
    int64_t blocks              # blocks of output lines in a plane
    int64_t stretch, stretches  # outputs of a line in a block; number of stretches of a line
    int64_t room                # bytes for the copied part of the image
    ptrdiff_t pitch             # bytes from one copied line to the next
    ptrdiff_t group_pitch       # bytes from one group of a copied line to the next
    int dot                     # multiply-add instruction: I8_DOT4, ...
    const i8_matrix *matrix     # the matrix unit, or NULL for vector registers
    int64_t mr, np              # rows and panels of a tile
    bint plain                  # whether the micro-kernel applies the epilogue
    bint skips                  # whether padding adds 0 to every sum
    Windows windows


# A block of the output: a range of lines of a plane (n, d), a range of outputs in these lines, and the groups from
# `group` on.
cdef struct Block:
    int64_t plane, line, lines, first, outputs, group


cdef class LineFilters(Filters):
    cdef bint prepare_lines(self, LinesJob *j, Bound bound, const Images *src, const Images *dst,
                            uint8_t flip) except -1


cdef const i8_matrix *matrix_of_lines(const Problem *g, const i8_image *m) noexcept nogil
cdef bint has_lines(tuple shape, tuple dilation) except -1
cdef bint overlap(tuple shape, tuple strides) except -1
cdef bint set_blocks(LinesJob *j) noexcept nogil
cdef int64_t all_units(const LinesJob *j) noexcept nogil
cdef Block copy_block(const LinesJob *j, uint8_t *region, int64_t unit) noexcept nogil
cdef void lines_inside(const LinesJob *j, int64_t h, int64_t *low, int64_t *high) noexcept nogil
cdef char *target_of(const LinesJob *j, const Block *k, int64_t h) noexcept nogil
