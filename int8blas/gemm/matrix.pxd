# Tiles of C from a block, by a matrix unit (see matrix.pyx).
from libc.stdint cimport int8_t

from int8blas.gemm.block cimport Area, Slab, Workspace
from int8blas.gemm.plan cimport Gemm, Plan


cdef size_t matrix_a_bytes(const Gemm *g, const Plan *p) noexcept nogil
cdef size_t matrix_b_bytes(const Gemm *g, const Plan *p) noexcept nogil
cdef int unit_rows(const Gemm *g) noexcept nogil
cdef void multiply_by_matrix(const Gemm *g, const Plan *p, const Workspace *w, const Slab *s, const Area *m,
                             bint is_there, const int8_t *ahead) noexcept nogil
