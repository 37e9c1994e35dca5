# One triangle of A @ A.T (see triangle.pyx).
from int8blas.gemm.path cimport Plan
from int8blas.gemm.problem cimport Problem


cdef bint takes_triangle(const Problem *g, const Plan *p) noexcept nogil
