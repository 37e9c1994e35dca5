# Kernels of rows, applied to arrays (see normalize.pyx).
from libc.stdint cimport int64_t
cimport int8blas.core.cnumpy as cnp

from int8blas.core.kernels cimport i8_normalize_args, i8_normalize_fn

cdef int normalize(i8_normalize_fn function, i8_normalize_fn across, i8_normalize_args *args, cnp.ndarray src,
                   cnp.ndarray dst) except -1
