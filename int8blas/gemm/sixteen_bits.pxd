# Packed matrices of 16 bits (see sixteen_bits.pyx).
from libc.stdint cimport int64_t
cimport int8blas.core.cnumpy as cnp

from int8blas.gemm.bits cimport Bits
from int8blas.gemm.packed cimport Packed


cdef class PackedB16(Packed):
    cdef Bits _bits                 # the bits of all values

    cdef PackedB16 left(self, int64_t columns)


cdef PackedB16 pack_sixteen_bits(cnp.ndarray b, bint transpose)
