# Problems with few rows or few columns, computed on the user's own memory (see _inplace.pyx).
from int8blas._plan cimport Gemm, Plan


cdef int gemm_rows(const Gemm *g, const Plan *p) noexcept nogil
cdef int gemm_dots(const Gemm *g, const Plan *p) noexcept nogil
