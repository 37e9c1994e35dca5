# Residues, and products of residues (see modular.pyx).
from libc.stdint cimport int64_t

cimport int8blas.core.cnumpy as cnp


cdef int reduce_to(cnp.ndarray target, cnp.ndarray x, int64_t p, int64_t low) except -1
cdef cnp.ndarray residues_of(cnp.ndarray x, int64_t p)
cdef cnp.ndarray sums_of_residues(cnp.ndarray x, cnp.ndarray y, int64_t p)
