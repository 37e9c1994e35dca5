# The packed B block (see pack_b.pyx).
from libc.stdint cimport int64_t

from int8blas.gemm.nest cimport PackedBlock
from int8blas.gemm.block_plan cimport BlocksPlan
from int8blas.gemm.problem cimport Problem

cdef enum:
    FOUR_BITS_PAIR = 2 * 15     # the largest pair sum of values of 4 bits less a zero point


cdef void set_block(const Problem *g, const BlocksPlan *p, PackedBlock *b) noexcept nogil
cdef void pack_block(const Problem *g, const BlocksPlan *p, const PackedBlock *b, int64_t first,
                     int64_t panels) noexcept nogil
