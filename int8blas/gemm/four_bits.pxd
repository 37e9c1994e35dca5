# Packed matrices of 4 bits (see four_bits.pyx).
from libc.stdint cimport int64_t
cimport int8blas.core.cnumpy as cnp

from int8blas.gemm.packed cimport Packed
from int8blas.gemm.problem cimport FourBits, Problem


cdef class PackedB4(Packed):
    cdef FourBits _matrix

    cdef void fill(self, Problem *g) noexcept
    cdef cnp.ndarray group_sums(self, int64_t size, cnp.ndarray zeros)


cdef PackedB4 pack_four_bits(cnp.ndarray b, bint transpose)
