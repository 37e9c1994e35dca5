# The plan of the general path (see block_plan.pyx).
from libc.stdint cimport int64_t

from int8blas.core.kernels cimport i8_matrix
from int8blas.gemm.path cimport Plan
from int8blas.gemm.problem cimport Problem


# The operands of tiles, and their multiply-adds.
cdef struct TileForms:
    bint direct_a               # tiles read A in place (a matrix unit only reads whole registers of rows)
    bint interleaves            # A is interleaved, and tiles multiply by I8_DOT_INTERLEAVED
    bint keeps_a                # all of A stays packed for a matrix unit, from the first N block on
    bint may_widen              # panels without a no-saturation proof must be widened or split
    int uncertified             # the multiply-add of panels without a proof that are not split: I8_DOT2 or I8_DOT4
    bint splits                 # split panels are multiplied as a dense part and outliers
    bint scaled_tiles           # a micro-kernel computes all scale groups of a tile in registers
    bint skips                  # products with padding are left out (see spans.pyx)


# How a path reads B from memory and writes C to memory.
cdef struct MemoryUse:
    bint stream                 # streaming stores write a C of s64
    bint sequential             # a tile reads its panels one after the other, not side by side
    bint fetch_c                # prefetch C before a tile is stored
    bint fetch_b                # prefetch B for the next tile, or for a matrix unit's next block


cdef struct BlocksPlan:
    Plan common
    int64_t kc, k_blocks        # size of a K block; number of K blocks
    int64_t groups              # groups of 4 k in K
    int64_t panels              # panels of 16 columns in N
    int64_t packed_panels       # panels of a packed B block
    int64_t packed_k_blocks     # K blocks of a packed B block
    int64_t mc, nc              # block sizes: rows, panels
    const i8_matrix *matrix     # the matrix unit, or NULL if the vector unit multiplies
    int64_t mr, np              # rows and panels of a tile
    int64_t grid_np             # panels of a unit of the grid
    TileForms forms
    MemoryUse memory


cdef void plan_blocks(const Problem *g, Plan *plan) noexcept nogil
