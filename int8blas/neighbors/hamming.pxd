# Rows of packed bits in the form that Hamming kernels take (see hamming.pyx).
cimport int8blas.core.cnumpy as cnp


cdef cnp.ndarray packed_rows(cnp.ndarray x)
