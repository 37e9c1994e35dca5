# The packed B block (see pack_b.pyx).
from libc.stdint cimport int64_t

from int8blas.gemm.nest cimport PackedBlock
from int8blas.gemm.plan cimport Gemm, Plan


cdef void set_block(const Gemm *g, const Plan *p, PackedBlock *b) noexcept nogil
cdef void pack_block(const Gemm *g, const Plan *p, const PackedBlock *b, int64_t first,
                     int64_t panels) noexcept nogil
