# What a path is, and what the plans of all paths have in common (see path.pyx).
from libc.stdint cimport int64_t

from int8blas.core.split cimport Grid, part_count
from int8blas.gemm.problem cimport Problem

cdef struct Path


# What every plan has, and begins with: a path's own plan is a struct whose first member is a Plan, `common`.
cdef struct Plan:
    const Path *path
    int64_t k_parts             # of K, in which threads compute all of C, one each
    int64_t segments            # of K, in all of these parts: their sums fit s32, and are added in s64
    Grid grid                   # of tiles or other units of C, and its parts, one for each thread
    bint wide                   # sums could leave s32: add blocks of K in s64
    bint from_registers         # the micro-kernel stores C itself; otherwise the epilogue does
    bint to_output              # the micro-kernel applies a primitive's epilogue, makes distances, or widens to s64
    bint identity               # the epilogue would be the identity, but for the strides of C
    # Each of several threads has a problem of its own: columns of C in whole panels, or rows in units of `own_unit`.
    bint own_columns, own_rows
    int64_t own_unit
    bint packs_squares          # of the columns of a plain B, with the panels (see squares.pyx)


# The description of a plan that `explain` prints. Sizes are (rows, columns) of C, except that of the tile.
cdef struct Description:
    int64_t tile[2]             # of the largest kernel
    int64_t block[3]            # rows, columns, k of a block; 0 where the path has none
    size_t workspace            # bytes of each thread for the length of the call
    int64_t unit[2]             # of a unit of the grid
    int64_t units[2]            # of the grid that threads share
    bint a_in_place
    bint may_widen              # panels of B are multiplied in 16 bits
    bint splits                 # panels that are split are multiplied so


# A row of the table of paths. `takes` sees a plan with the facts of `find_facts`, but for the first paths, which ask
# for sizes alone; `plan` fills in the rest.
cdef struct Path:
    const char *name
    const char *summary         # why `explain` says that it was taken
    bint names_kernel           # its kernel is not that of tiles
    bint sums_any_k             # adds segments of K in s64 itself
    bint (*takes)(const Problem *g, const Plan *p) noexcept nogil
    # NULL, or: let `other` be the problem in a form that is faster for the values of its operands, if there is one.
    bint (*suit)(Problem *other, const Problem *g) noexcept nogil
    void (*plan)(const Problem *g, Plan *p) noexcept nogil          # NULL if one thread needs no plan
    int (*run)(const Problem *g, const Plan *p) noexcept nogil      # 0, or -1 if there is no memory
    void (*describe)(const Problem *g, const Plan *p, Description *d) noexcept nogil


# A planned problem, for the threads that compute it.
cdef struct Planned:
    const Problem *g
    const Plan *p


cdef enum:
    # Up to how many elements of C, all or those of all threads, there are sums in s64 for each, where K is long.
    SEGMENT_ELEMENTS = 1 << 20


cdef void find_facts(const Problem *g, Plan *p) noexcept nogil
cdef bint needs_blocks(const Problem *g, const Plan *p) noexcept nogil
cdef void divide_k(const Problem *g, Plan *p, bint has_totals, double few_units) noexcept nogil


cdef inline int planned_threads(const Plan *p) noexcept nogil:
    """Threads that take part."""
    return part_count(&p.grid) if p.k_parts == 1 else <int>p.k_parts


cdef inline void divide_long_k(const Problem *g, Plan *p) noexcept nogil:
    """The parts of K of a path whose units of work are as good as tiles."""
    divide_k(g, p, <double>g.m * <double>g.n <= SEGMENT_ELEMENTS, 0.5)
