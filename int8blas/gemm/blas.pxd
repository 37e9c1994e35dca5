# Checks of a call's operands, shared with blas16 (see blas.pyx).
cimport int8blas.core.cnumpy as cnp

from int8blas.gemm.problem cimport Problem

cdef cnp.ndarray operand_array(object x, str name, int typenum)
cdef cnp.ndarray set_offset(Problem *g, object co, object offsetc)
cdef cnp.ndarray c_operand(Problem *g, object c, bint overwrites)
cdef cnp.ndarray result_for(Problem *g, cnp.ndarray array, bint overwrites, cnp.ndarray a, object b)
