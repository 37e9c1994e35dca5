# Whole arrays quantized by their range (see by_range.pyx).
from libc.stdint cimport int64_t, uint8_t

from int8blas.core.kernels cimport i8_kernels

cdef void range_parameters(const float *ends, float *scale, int *zero) noexcept nogil
cdef void quantize_by_range(const i8_kernels *kernels, uint8_t *dst, const float *src, int64_t size, float *scale,
                            int *zero, int threads) noexcept nogil
