# Dynamic quantization of A (see dynamic_source.pyx).
from libc.stddef cimport ptrdiff_t
from libc.stdint cimport int64_t, uint8_t

from int8blas.gemm.problem cimport DynamicSource, Problem

cdef void parameters(const DynamicSource *s, const float *range_, float *scale, int64_t *zero) noexcept nogil
cdef void source_parameters(const Problem *g, int64_t row, int64_t rows, float *scales, int64_t *zeros) noexcept nogil
cdef void quantize_rows(const Problem *g, uint8_t *dst, ptrdiff_t dst_row, int64_t row, int64_t rows, int64_t k0,
                        int64_t k, const float *scales, const int64_t *zeros) noexcept nogil
cdef void set_tensor_parameters(const Problem *g, DynamicSource *s, int threads) noexcept nogil
