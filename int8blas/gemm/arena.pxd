# The memory of a call of the general path (see arena.pyx).
from int8blas.gemm.nest cimport Arena, PackedBlock
from int8blas.gemm.block_plan cimport BlocksPlan
from int8blas.gemm.problem cimport Problem


cdef size_t lay_out_block(const Problem *g, const BlocksPlan *p, PackedBlock *b, char *memory) noexcept nogil
cdef size_t lay_out_thread(const Problem *g, const BlocksPlan *p, Arena *arena, char *memory) noexcept nogil
cdef size_t thread_bytes(const Problem *g, const BlocksPlan *p) noexcept nogil
