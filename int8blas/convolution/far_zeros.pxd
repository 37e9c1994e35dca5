# Convolution with zero points beyond their types (see far_zeros.pyx).
cimport int8blas.core.cnumpy as cnp

from int8blas.stage.output_stage cimport Bound

cdef int store_images(Bound bound, cnp.ndarray sums, cnp.ndarray out) except -1
