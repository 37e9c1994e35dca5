# The common base of layers with int8 weights (see quantized_layer.pyx).
cimport int8blas.core.cnumpy as cnp

from int8blas.stage.output_stage cimport Bound, Layer


cdef class QuantizedLayer:
    cdef readonly tuple weights_shape
    cdef readonly object src_dtype
    cdef readonly object dst_dtype
    cdef readonly object attributes
    cdef object _numerics
    cdef int _src_type, _dst_type
    cdef bint _saturating
    cdef bint _wide                 # whether the source has 16 bits
    cdef Layer _layer
    cdef Bound _constant            # the values that all executions share, or None

    cdef int set_types(self, src_dtype, tuple src_dtypes, dst_dtype, attributes, numerics) except -1
    cdef Layer created(self)
    cdef cnp.ndarray source(self, object src)
