# The definition of a path, and the members common to the plans of all paths (see path.pyx).
from libc.stdint cimport int64_t

from int8blas.core.split cimport Grid, part_count
from int8blas.gemm.problem cimport Problem

cdef struct Path

cdef enum:
    PLAN_BYTES = 256            # the maximum size of a path's own plan


# The first member, `common`, of each path's own plan.
cdef struct Plan:
    const Path *path
    int64_t k_parts             # parts of K; a thread computes all of C for its part
    int64_t segments            # segments of K in all parts; the sums of a segment fit s32, and are added in s64
    Grid grid                   # tiles or other units of C, with a part for each thread
    bint wide                   # sums could exceed s32: add the sums of K blocks in s64
    bint from_registers         # the micro-kernel stores C; otherwise the epilogue stores C
    bint to_output              # the micro-kernel applies a primitive's epilogue, makes distances, or widens to s64
    bint identity               # the epilogue only saturates the sums
    # Each thread computes a private problem: columns of C in whole panels, or rows in units of `private_unit`.
    bint private_columns, private_rows
    int64_t private_unit
    bint packs_squares          # packing also finds the sums of squares of B's columns (see squares.pyx)


# The description of a plan that `explain` prints. Sizes are (rows, columns) of C.
cdef struct Description:
    int64_t tile[2]             # the tile of the largest kernel
    int64_t block[3]            # rows, columns, k of a block; 0 if the path has no blocks
    size_t workspace            # bytes that each thread takes during the call
    int64_t unit[2]             # the size of a unit of the grid
    int64_t units[2]            # the number of units that threads divide
    bint a_in_place
    bint may_widen              # panels without a no-saturation proof must be widened or split
    bint splits                 # split panels are multiplied as a dense part and outliers


# A path. The module of a path defines one Path, and plan.pyx lists the module. `takes` returns whether the path can
# compute a problem. `plan` fills in the rest of the plan.
cdef struct Path:
    const char *name
    const char *summary         # the reason that `explain` gives
    bint by_size                # `takes` reads only the problem, not the plan, so it runs before `find_facts`
    bint names_kernel           # the path's kernel is not the micro-kernel of tiles
    bint sums_any_k             # the path adds segments of K in s64 itself
    bint (*takes)(const Problem *g, const Plan *p) noexcept nogil
    # If the values of the operands make another form of the problem faster, set `other` to this form and return True.
    # The pointer is NULL if the path has only one form.
    bint (*specialize)(Problem *other, const Problem *g) noexcept nogil
    void (*plan)(const Problem *g, Plan *p) noexcept nogil          # NULL if one thread needs no plan
    int (*run)(const Problem *g, const Plan *p) noexcept nogil      # 0, or -1 if there is no memory
    void (*describe)(const Problem *g, const Plan *p, Description *d) noexcept nogil


# A problem and its plan, which threads share.
cdef struct Planned:
    const Problem *g
    const Plan *p


cdef enum:
    # The minimum k of a thread's part if K is divided. Two threads need 7 us more CPU time for two parts than one
    # thread for one part. 8 x 48 x 4096 takes 8.0 us on one thread and at least 7.7 us on two threads, and 8 x 48 x
    # 8192 takes 15.6 us and at least 11.6 us (AVX512-VNNI, Zen 5).
    MIN_PART_K = 4096
    # The maximum number of totals in s64 if K is divided: each thread has a total for each element of C, 8 MiB in all.
    # Without totals the path `blocks` adds in s64. 1024 x 1024 x 40,000, uint8 times uint8, takes 99.7 ms with totals
    # and 109.7 ms without totals.
    SEGMENT_ELEMENTS = 1 << 20


cdef object as_capsule(const Path *path, size_t plan_bytes)
cdef const Path *from_capsule(object capsule) except NULL
cdef void find_facts(const Problem *g, Plan *p) noexcept nogil
cdef bint needs_blocks(const Problem *g, const Plan *p) noexcept nogil
cdef void divide_k(const Problem *g, Plan *p, bint has_totals, double max_units_per_thread) noexcept nogil


cdef inline int planned_threads(const Plan *p) noexcept nogil:
    """Return the number of threads that take part."""
    return part_count(&p.grid) if p.k_parts == 1 else <int>p.k_parts


cdef inline void divide_long_k(const Problem *g, Plan *p) noexcept nogil:
    """Choose the parts of K for a path whose units of work are the tiles of C."""
    divide_k(g, p, <double>g.m * <double>g.n <= SEGMENT_ELEMENTS, 0.5)
