# New arrays for results (see _results.pyx).
cimport numpy as cnp

cdef enum:
    MAX_DIMS = 64               # NPY_MAXDIMS

cdef cnp.ndarray empty(int ndim, cnp.npy_intp *shape, int typenum)
cdef cnp.ndarray empty_of(shape, int typenum)
cdef cnp.ndarray empty_like(cnp.ndarray array, int typenum)
cdef cnp.ndarray empty_in_order(cnp.npy_intp *shape, cnp.ndarray like, int typenum)
