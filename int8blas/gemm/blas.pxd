# C of a call, for the modules that compute it otherwise (see blas.pyx).
cimport int8blas.core.cnumpy as cnp

from int8blas.gemm.plan cimport Gemm

cdef cnp.ndarray c_operand(Gemm *g, object c, object overwrite_c)
