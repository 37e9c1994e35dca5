# Products whose groups of K have scales (see scale_groups.pyx).
from int8blas.gemm.nest cimport Nest


cdef void multiply_scale_groups(Nest *x) noexcept nogil
