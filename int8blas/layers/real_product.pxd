# Products of real numbers, for those who do more in their place (see real_product.pyx).
from libc.stddef cimport ptrdiff_t
from libc.stdint cimport int8_t, int64_t
cimport int8blas.core.cnumpy as cnp

from int8blas.core.kernels cimport i8_kernels

cdef enum:
    BLOCK_ROWS = 512            # multiplied by what is in the buffer
    FEW_ROWS = 32               # for which a panel is not worth a copy
    THREAD_PRODUCTS = 1 << 20   # multiply-adds that pay for a thread


cdef struct RealJob:
    const i8_kernels *kernels
    int64_t rows, k, columns, panels        # of each product
    int per                                 # panels at a time
    int64_t groups, blocks                  # of panels, and of rows, of each product
    # Products, with the steps of their operands and results in bytes.
    int dims
    int64_t count
    int64_t shape[cnp.NPY_MAXDIMS]
    ptrdiff_t a_steps[cnp.NPY_MAXDIMS]
    ptrdiff_t b_steps[cnp.NPY_MAXDIMS]
    ptrdiff_t y_steps[cnp.NPY_MAXDIMS]
    const char *a
    char *y
    ptrdiff_t a_row, y_row                  # in elements
    int64_t room                            # of a row of y: columns that may be written
    # b: weights, and their scales of whole panels; or, where `weights` is NULL, numbers with steps in elements, each of
    # which is multiplied by a factor.
    const int8_t *weights
    ptrdiff_t panel_size
    const float *scale
    const char *b
    ptrdiff_t b_row, b_column
    float b_factor


cdef struct RealArea:
    # What is multiplied at a time: rows of a, and panels of b and of y.
    const float *a
    const float *b
    float *y
    ptrdiff_t a_row, y_row                  # in elements
    int64_t rows, panel
    int panels


cdef void find_area(const RealJob *j, int64_t unit, RealArea *area) noexcept nogil
cdef void multiply_area(const RealJob *j, const RealArea *area, float *buffer) noexcept nogil
cdef int64_t area_floats(const RealJob *j) noexcept nogil
cdef cnp.ndarray set_a(RealJob *job, cnp.ndarray a)
cdef cnp.ndarray set_b(RealJob *job, cnp.ndarray b)
cdef void set_y(RealJob *job, cnp.ndarray y) noexcept
cdef list stack_shape(RealJob *job, cnp.ndarray a, cnp.ndarray b)
