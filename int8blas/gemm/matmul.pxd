# Products of a packed matrix and arrays of wider elements (see matmul.pyx).
cimport int8blas.core.cnumpy as cnp

from int8blas.gemm.packed cimport Packed


cdef int limbs_of(cnp.ndarray x, Packed packed) except -1
cdef cnp.ndarray sum_of_limbs(cnp.ndarray x, Packed packed, int limbs)
