# Products of float32 matrices, also as parts of larger computations (see real_product.pyx).
from libc.stddef cimport ptrdiff_t
from libc.stdint cimport int8_t, int64_t, uint8_t
cimport int8blas.core.cnumpy as cnp

from int8blas.core.kernels cimport i8_kernels

cdef enum:
    BLOCK_K = 512               # rows of b in the buffer, a multiple of 4; three panels take 96 KiB
    BLOCK_ROWS = 512            # rows of a that are multiplied by the panels in the buffer
    FEW_ROWS = 32               # b is read in place for at most this number of rows, because a copy would take longer
    THREAD_PRODUCTS = 1 << 20   # multiply-adds for which a further thread is worth its start
    MOST_SPATIAL = 3            # spatial dimensions of an image


cdef struct RealWindows:
    # The geometry of windows over the channels of an image. Absent spatial dimensions come first, and have size 1.
    int64_t sizes[MOST_SPATIAL]
    int64_t kernel[MOST_SPATIAL]
    int64_t strides[MOST_SPATIAL]
    int64_t dilations[MOST_SPATIAL]
    int64_t before[MOST_SPATIAL]            # padding
    int64_t outputs[MOST_SPATIAL]
    ptrdiff_t steps[MOST_SPATIAL]           # in elements
    ptrdiff_t channel


cdef struct RealJob:
    const i8_kernels *kernels
    int64_t rows, k, columns, panels        # sizes of each product
    int per                                 # panels of b that are multiplied at a time
    int64_t groups, blocks                  # groups of panels and blocks of rows of each product
    # The stack of `count` products: its dimensions, and the steps of a, b and y along them in bytes.
    int dims
    int64_t count
    int64_t shape[cnp.NPY_MAXDIMS]
    ptrdiff_t a_steps[cnp.NPY_MAXDIMS]
    ptrdiff_t b_steps[cnp.NPY_MAXDIMS]
    ptrdiff_t y_steps[cnp.NPY_MAXDIMS]
    const char *a
    char *y
    ptrdiff_t a_row, y_row                  # in elements
    int64_t room                            # columns of y that may be written in each row
    # If `weights` is not NULL, b is packed integers, with scales for whole panels. If `weights` is NULL, b is float32
    # with steps in elements, multiplied by b_factor.
    const int8_t *weights
    ptrdiff_t panel_size
    # Integer weights may have 4 bits, two weights in a byte. Integer weights have one zero point, or zero points of
    # blocks, [panels][blocks][16] (gemm/four_bits.pyx).
    bint four_bits
    uint8_t zero
    const uint8_t *zeros
    const float *scale                      # scales of the sums; NULL if blocks of k have scales
    const float *block_scales               # scales of the blocks, in rows of whole panels, `scales_row` apart
    int64_t block, scales_row
    const char *b
    ptrdiff_t b_row, b_column
    float b_factor
    const RealWindows *windows              # if not NULL, b is an image, and each window is a column of the matrix


cdef struct RealArea:
    # One unit of work: rows of a, and panels of b and y.
    const float *a
    const float *b
    float *y
    ptrdiff_t a_row, y_row                  # in elements
    int64_t rows, panel
    int panels


cdef void copy_elements(const RealWindows *w, const float *channel, float *y, int64_t z, int64_t row, int64_t column,
                        int64_t count) noexcept nogil
cdef void find_area(const RealJob *j, int64_t unit, RealArea *area) noexcept nogil
cdef void multiply_area(const RealJob *j, const RealArea *area, float *buffer) noexcept nogil
cdef int64_t area_floats(const RealJob *j) noexcept nogil
cdef int multiply_part(const void *job, int64_t part, int64_t parts) noexcept nogil
cdef int64_t divide(RealJob *job) noexcept
cdef cnp.ndarray set_a(RealJob *job, cnp.ndarray a)
cdef cnp.ndarray set_b(RealJob *job, cnp.ndarray b)
cdef void set_y(RealJob *job, cnp.ndarray y) noexcept
cdef list stack_shape(RealJob *job, cnp.ndarray a, cnp.ndarray b)
