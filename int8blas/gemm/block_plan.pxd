# How the general path divides a problem (see block_plan.pyx).
from libc.stdint cimport int64_t

from int8blas.core.kernels cimport i8_matrix
from int8blas.gemm.path cimport Plan
from int8blas.gemm.problem cimport Problem


# The sizes of blocks and what tiles of them do: more members than elsewhere, each of which a loop or a kernel asks for.
cdef struct BlocksPlan:
    Plan common
    int64_t kc                  # k of a block,
    int64_t k_blocks            # and how many there are
    int64_t groups              # of 4 k, in all
    int64_t panels              # of 16 columns, in all
    int64_t slab                # panels of plain B that are packed before they are multiplied, and
    int64_t slab_blocks         # how many blocks of their K
    int64_t mc, nc              # block sizes: rows, panels
    const i8_matrix *matrix     # the matrix unit, if it multiplies; else NULL
    int64_t np                  # panels of a tile
    int64_t mr                  # rows of a tile
    int64_t grid_np             # panels of a unit of the grid
    bint stream                 # C of s64 is written past the caches
    bint keeps_a                # a matrix unit has all of A as it made it for the first nc panels
    bint in_turn                # tiles read their panels one after the other
    bint skips                  # products with padding are left out (see spans.pyx)
    bint fetch_c                # C is fetched before a tile of it is stored
    bint fetch_b                # B for the next tile, or a matrix unit's next block, is fetched ahead
    bint direct_a               # the micro-kernel reads A in place; a matrix unit whole registers of rows only
    bint interleaves            # A is packed as I8_DOT_INTERLEAVED takes it, by which tiles are multiplied
    bint may_widen              # panels without a certificate need
    int uncertified             # this dot: I8_DOT2, or I8_DOT4
    bint scaled_tiles           # all scale groups of a tile are multiplied in registers
    bint splits                 # panels that are split are multiplied so


cdef void plan_blocks(const Problem *g, Plan *plan) noexcept nogil
