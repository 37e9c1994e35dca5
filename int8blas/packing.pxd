# Packed matrices, for the modules that multiply by them.
from libc.stdint cimport int64_t, uint8_t
cimport numpy as cnp

from int8blas._kernels cimport i8_kernels
from int8blas._plan cimport Gemm


cdef class PackedB:
    cdef readonly int64_t _k, _n
    cdef int _typenum
    cdef cnp.ndarray _data          # int8 [panels, groups, 16, 4], read-only
    cdef cnp.ndarray _sums          # int64 [panels * 16], of the stored bytes
    cdef cnp.ndarray _certified     # bool [panels]
    cdef cnp.ndarray _split         # bool [panels]; this and the following as in Gemm, None until they are needed
    cdef cnp.ndarray _outliers      # bytes
    cdef cnp.ndarray _starts        # int64
    cdef object __weakref__

    cdef void fill(self, Gemm *g) noexcept
    cdef int fill_split(self, Gemm *g) except -1
    cdef int split(self, const i8_kernels *kernels) except -1


cdef PackedB pack(cnp.ndarray b, bint transpose)
