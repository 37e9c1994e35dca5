# Packed matrices of 4 bits (see four_bits.pyx).
from libc.stdint cimport int64_t
cimport int8blas.core.cnumpy as cnp

from int8blas.gemm.problem cimport FourBits, Problem


cdef class PackedB4:
    cdef int64_t _k, _n
    cdef int _typenum               # of unpacked values: int8 for int4, uint8 for uint4
    cdef cnp.ndarray _data          # uint8 [panels, steps, 16, 4], read-only
    cdef cnp.ndarray _sums          # int64 [panels * 16], of B
    cdef FourBits _matrix
    cdef object __weakref__

    cdef void fill(self, Problem *g) noexcept
    cdef cnp.ndarray group_sums(self, int64_t size, cnp.ndarray zeros)


cdef void set_product(object function)
cdef PackedB4 pack_four_bits(cnp.ndarray b, bint transpose)
