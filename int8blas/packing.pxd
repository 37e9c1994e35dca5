# Packed matrices, for the modules that multiply by them.
from libc.stdint cimport int64_t
cimport numpy as cnp

from int8blas._plan cimport Gemm


cdef class PackedB:
    cdef readonly int64_t _k, _n
    cdef int _typenum
    cdef cnp.ndarray _data          # int8 [panels, groups, 16, 4], read-only
    cdef cnp.ndarray _sums          # int64 [panels * 16], of the stored bytes
    cdef cnp.ndarray _certified     # bool [panels]
    cdef object __weakref__

    cdef void fill(self, Gemm *g) noexcept


cdef PackedB pack(cnp.ndarray b, bint transpose)
