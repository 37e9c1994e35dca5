# Tiles of C by a matrix unit (see matrix.pyx).
from libc.stdint cimport int8_t, int64_t

from int8blas.gemm.nest cimport LoopState
from int8blas.gemm.block_plan cimport BlocksPlan
from int8blas.gemm.problem cimport Problem


cdef size_t matrix_a_bytes(const Problem *g, const BlocksPlan *p) noexcept nogil
cdef size_t matrix_b_bytes(const Problem *g, const BlocksPlan *p) noexcept nogil
cdef int unit_rows(const Problem *g) noexcept nogil
cdef void multiply_by_matrix(LoopState *loop, bint is_first_n, int64_t panel_end, bint is_last_m) noexcept nogil
