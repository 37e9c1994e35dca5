# Whole arrays quantized by their range (see by_range.pyx).
from libc.stdint cimport int64_t, uint8_t

from int8blas.core.kernels cimport i8_kernels

cdef inline void widen_range(float *whole, const float *ends) noexcept nogil:
    """Extend a range to contain another range. Both contain 0. The result is NaN if either range is NaN."""
    if ends[0] != ends[0] or ends[0] < whole[0]:
        whole[0] = ends[0]
    if ends[1] != ends[1] or ends[1] > whole[1]:
        whole[1] = ends[1]


cdef void range_parameters(const float *ends, float *scale, int *zero) noexcept nogil
cdef void quantize_some(const i8_kernels *kernels, uint8_t *dst, const float *src, int64_t size, float scale,
                        int zero) noexcept nogil
cdef void quantize_by_range(const i8_kernels *kernels, uint8_t *dst, const float *src, int64_t size, float *scale,
                            int *zero, int threads) noexcept nogil
