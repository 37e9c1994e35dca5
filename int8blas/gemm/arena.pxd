# The memory of a call of the general path (see arena.pyx).
from int8blas.gemm.nest cimport Arena, PackedBlock
from int8blas.gemm.plan cimport Gemm, Plan


cdef size_t lay_out_block(const Gemm *g, const Plan *p, PackedBlock *b, char *memory) noexcept nogil
cdef size_t lay_out_thread(const Gemm *g, const Plan *p, Arena *arena, char *memory) noexcept nogil
cdef size_t thread_bytes(const Gemm *g, const Plan *p) noexcept nogil
