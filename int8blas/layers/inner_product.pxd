# The inner product, for layers that multiply in a loop (see inner_product.pyx).
from libc.stdint cimport int64_t
cimport int8blas.core.cnumpy as cnp

from int8blas.gemm.four_bits cimport PackedB4
from int8blas.gemm.packing cimport PackedB
from int8blas.gemm.problem cimport DynamicSource, Problem
from int8blas.stage.output_stage cimport Bound
from int8blas.stage.quantized_layer cimport QuantizedLayer


cdef class InnerProduct(QuantizedLayer):
    cdef readonly object group
    cdef PackedB _packed            # None for 4-bit weights
    cdef PackedB4 _four_bits        # None for 8-bit weights
    cdef cnp.ndarray _group_zeros   # stored zero points of 4-bit weights: uint8 [panels, groups, 16], or None
    cdef object _given_zeros        # these zero points as a matrix (groups, oc)
    cdef int64_t _k, _n             # ic and oc
    cdef object _dynamic_dtype, _dynamic
    cdef DynamicSource _source

    cdef int set_weights(self, weights, dict scales, group) except -1
    cdef int64_t set_four_bits(self, weights, dict scales, dict zero_points, group) except -1
    cdef cnp.ndarray in_whole_groups(self, cnp.ndarray x)
    cdef int multiply_bytes(self, cnp.ndarray matrix, cnp.ndarray target, Bound bound) except -1
    cdef int multiply_wide(self, cnp.ndarray x, cnp.ndarray target, Bound bound) except -1
    cdef int set_layer(self, Problem *g, DynamicSource *source, Bound bound, int src_type) except -1
    cdef int set_rows(self, Problem *g, DynamicSource *source, const float *src, int64_t rows, float *dst) except -1
    cdef tuple flattened(self, cnp.ndarray x)
    cdef cnp.ndarray target_for(self, cnp.ndarray result, object leading, int64_t rows, cnp.ndarray src)
