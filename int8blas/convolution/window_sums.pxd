# Sums of the windows of an image (see window_sums.pyx).
from libc.stddef cimport ptrdiff_t
from libc.stdint cimport int32_t, int64_t
cimport int8blas.core.cnumpy as cnp

from int8blas.core.kernels cimport i8_image
from int8blas.gemm.problem cimport Problem


# The window sums of an execution, [groups][pixels of the destination]. `sums` is NULL if the weights have no zero
# points.
cdef struct Windows:
    const int64_t *sums
    const int32_t *starts       # sums times -zero point, modulo 2**32, if all weights have one zero point; else NULL
    int64_t pixels
    int64_t outputs             # destination channels of a group


cdef cnp.ndarray window_sums(const Problem *g, const i8_image *m, int64_t groups, int64_t channels, const int64_t *size,
                             Windows *windows)
cdef void take_off(const Windows *windows, const int64_t *zeros, int32_t *sums, ptrdiff_t sums_row, int64_t row,
                   int64_t rows, int64_t column, int64_t cols) noexcept nogil
