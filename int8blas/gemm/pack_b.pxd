# The packed B block (see pack_b.pyx).
from libc.stdint cimport int64_t, uint16_t

from int8blas.gemm.nest cimport PackedBlock
from int8blas.gemm.block_plan cimport BlocksPlan
from int8blas.gemm.problem cimport FourBits, Problem


cdef inline uint16_t four_bits_pair(const FourBits *f) noexcept nogil:
    """Return the largest pair sum that 4-bit values minus their zero points can have: 16 for int4."""
    return 2 * (15 if f.zeros is not NULL else max(<int>f.zero, 15 - f.zero))


cdef void set_block(const Problem *g, const BlocksPlan *p, PackedBlock *b) noexcept nogil
cdef void pack_block(const Problem *g, const BlocksPlan *p, const PackedBlock *b, int64_t first,
                     int64_t panels) noexcept nogil
