# Dynamic quantization of images (see dynamic_images.pyx).
from libc.stdint cimport int64_t
cimport int8blas.core.cnumpy as cnp


# The scale and the zero point of a range of images, and whether all values of these images are finite.
cdef struct ImageParameters:
    float scale
    int64_t zero
    bint finite


cdef cnp.ndarray dense(cnp.ndarray x)
cdef ImageParameters quantize_images(cnp.ndarray x, cnp.ndarray out, int64_t first, int64_t count) except *
