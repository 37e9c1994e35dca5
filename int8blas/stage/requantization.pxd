# Integer requantization: multipliers of scales, and their part of an epilogue (see requantization.pyx).
from libc.stdint cimport int64_t
cimport int8blas.core.cnumpy as cnp

from int8blas.core.kernels cimport i8_requantization

cdef tuple multipliers(cnp.ndarray scales)
cdef cnp.ndarray limited(cnp.ndarray exponents, int scheme)
cdef object check_requantization(object attributes, str kind, object dst_dtype, object bias, dict masks)
cdef object set_requantization(i8_requantization *q, object attributes, dict scales, object zero_point,
                               object dst_dtype, int64_t columns, list arrays)
cdef void skip_columns(i8_requantization *q, int64_t count) noexcept nogil
