# One triangle of A @ A.T (see triangle.pyx).
from libc.stdint cimport int64_t

from int8blas.core.kernels cimport i8_matrix
from int8blas.gemm.path cimport Description, Plan
from int8blas.gemm.problem cimport Problem
cdef enum:
    WHOLE_ROWS = 64             # minimum number of rows of C for which mirroring a triangle can be faster


cdef struct TrianglePlan:
    Plan common
    const i8_matrix *matrix     # the matrix unit, if it multiplies; else NULL
    int64_t mr, np              # rows and panels of a tile
    int64_t grid_np             # panels of a cell along M and along N
    int64_t kc, k_blocks        # k of a block, and how many there are
    int64_t mc, nc              # rows and panels of a block
    int64_t panels              # panels of 16 columns in N
    int64_t slab_blocks         # blocks of K that are packed together, before their products
    bint own_panels             # each thread packs what its cells need


cdef bint takes_triangle(const Problem *g, const Plan *p) noexcept nogil
cdef void plan_triangle(const Problem *g, Plan *plan) noexcept nogil
cdef int run_triangle(const Problem *g, const Plan *plan) noexcept nogil
cdef void describe_triangle(const Problem *g, const Plan *plan, Description *d) noexcept nogil
