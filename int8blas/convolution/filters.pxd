# Packed weights of a convolution, and their windows (see filters.pyx).
from libc.stddef cimport ptrdiff_t
from libc.stdint cimport int64_t, uint8_t
cimport int8blas.core.cnumpy as cnp

from int8blas.core.kernels cimport i8_image
from int8blas.gemm.packing cimport PackedB
from int8blas.gemm.problem cimport Problem
from int8blas.stage.output_stage cimport Bound


# An array of images, with sizes and steps (in bytes) of n, d, h, w and channel.
cdef struct Images:
    char *data
    const char *end             # address after the last byte
    int64_t size[5]
    ptrdiff_t steps[5]
    int64_t shift               # of a source: pixels by which all windows are shifted along w


# Copies of a pixel to all outputs that no tap reaches. A block is one channel of a pixel, or all channels if they are
# contiguous.
cdef struct Filling:
    Images dst
    int64_t blocks              # blocks of a pixel
    int64_t bytes               # bytes of a block
    int64_t repeats             # repetitions of each block in `pattern`
    char *pattern
    int64_t strides[3]          # d, h, w
    int64_t reached[3]          # the number of phases with taps in each dimension
    const int64_t *firsts[3]    # the first outputs of these phases, in order


# A function that runs part `part` of an execution in `parts` parts, in one thread. `memory` has `size` bytes for this
# part.
ctypedef void (*path_fn)(const void *job, int part, int parts, char *memory, size_t size) noexcept nogil


cdef class Filters:
    cdef PackedB packed
    cdef tuple shape                # (g, oc, ic, kd, kh, kw) of the weights
    cdef int64_t merged             # groups of the weights that share one product
    cdef i8_image window            # the members that do not depend on the image
    cdef int64_t groups, outputs    # groups after merging; output channels of a group
    cdef bint saturating, doubled
    cdef object zeros               # s8 zero points of the packed weights, or None for 0
    cdef bint shares_zero           # whether all zero points are equal
    cdef bint fits                  # whether the sums of a whole window, with the bias, fit s32
    cdef bint partial               # whether the layer has more filters than these
    cdef dict variants              # the filters for views of the images, by form and fold (see views.pyx)

    cdef int set_zeros(self, zeros) except -1
    cdef void share_zero(self, Problem *g) noexcept
    cdef tuple matrix_shape(self)
    cdef object matrix(self, weights)
    cdef int pack_weights(self, weights) except -1
    cdef int restore(self, PackedB packed) except -1
    cdef object unpacked(self)
    cdef object column_sums(self)
    cdef object compensation(self, Bound bound)
    cdef void set_problem(self, Problem *g, i8_image *image, Bound bound, const Images *src, const Images *dst,
                          uint8_t flip) noexcept
    cdef int set_window(self, tuple kernel, tuple strides, tuple dilation, tuple before) except -1
    cdef str describe(self, Bound bound, const Images *src, const Images *dst, uint8_t flip, Problem *g,
                      i8_image *image, size_t *workspace)
    cdef int run(self, Bound bound, const Images *src, const Images *dst, uint8_t flip, bint dry_run,
                 str name) except -1
    cdef int run_path(self, path_fn do_part, const void *job, Problem *g, Bound bound, int parts, size_t size,
                      bint dry_run, str name, str path) except -1


cdef bint is_even(const int64_t *size, const ptrdiff_t *steps, int first, int64_t *line,
                  ptrdiff_t *line_step) noexcept nogil
cdef ptrdiff_t pixel_step(const int64_t *size, const ptrdiff_t *steps) noexcept nogil
cdef void set_images(Images *images, cnp.ndarray array, bint channels_last) noexcept
cdef void set_target(int64_t *size, ptrdiff_t *steps, const Images *dst) noexcept
cdef void lay_column(i8_image *m, int64_t *size, ptrdiff_t *steps) noexcept
cdef bint sums_fit(int64_t k, object bias, bint has_zeros) except -1
cdef bint is_empty(const Images *images) noexcept
cdef int fill_lines(const void *job, int64_t part, int64_t parts) noexcept nogil
