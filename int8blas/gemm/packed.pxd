# The base of packed matrices (see packed.pyx).
from libc.stdint cimport int64_t
cimport int8blas.core.cnumpy as cnp


cdef class Packed:
    cdef int64_t _k, _n
    cdef int _typenum               # of unpacked values
    cdef cnp.ndarray _data          # [panels, groups, 16, k of a group], read-only
    cdef cnp.ndarray _sums          # int64 [panels * 16], of the stored values
    cdef object __weakref__

    cdef int set_data(self, int64_t k, int64_t n, int typenum, cnp.ndarray data, int64_t groups, int width) except -1


cdef void make_constant(cnp.ndarray array)
cdef void set_product(object function)
cdef cnp.ndarray checked_bytes(object k, object n, object dtype, object buffer, object size, tuple names, str what)
cdef bint can_keep(object buffer, cnp.ndarray data)
