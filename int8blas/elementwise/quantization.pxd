# Zero points of quantization (see quantization.pyx).
from libc.stdint cimport int64_t
cimport int8blas.core.cnumpy as cnp

cdef enum:
    # The bounds of zero points whose differences from bytes fit int32.
    LEAST_ZERO = -2147483392
    MOST_ZERO = 2147483391

cdef bint lie_between(cnp.ndarray zero_points, int64_t low, int64_t high) noexcept
