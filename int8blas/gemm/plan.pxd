# A problem for the driver, and how it is computed (see plan.pyx).
from libc.stddef cimport ptrdiff_t
from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t, uint16_t

from int8blas.core.kernels cimport (
    I8_DOT2,
    I8_GROUP,
    I8_PANEL,
    I8_TYPE_S32,
    I8_TYPE_S64,
    i8_image,
    i8_kernels,
    i8_matrix,
    i8_outliers,
    i8_stage,
    i8_tile_output,
)
from int8blas.core.machine cimport Machine
from int8blas.core.split cimport Grid, part_count, round_down
from int8blas.core.threads cimport THREAD_BYTES
from int8blas.gemm.operand cimport Operand


# A source of real numbers, to be quantized to A' with a range of each row, or with a given one.
cdef struct DynamicSource:
    int type                    # I8_TYPE_F32, I8_TYPE_F16 or I8_TYPE_BF16
    bint symmetric              # to s8 with zero point 0, else to u8
    bint per_row
    float scale                 # if not per_row
    int64_t zero


# What panels of B' are split into without VNNI: a dense part and outliers (csrc/gemm/outliers_body.h).
cdef struct SplitB:
    const uint8_t *panels       # which are; NULL if none is
    const int8_t *dense         # as they lie in B'; only theirs
    const i8_outliers *outliers
    const int64_t *starts       # of column c of panel p in block q of K: starts[(p * blocks + q) * 16 + c]
    int64_t k                   # of a block


# A packed u8 B as s8, where nothing in it is above 127: the members of Gemm that its bytes less 128 would have else.
cdef struct PackedS8:
    const int8_t *packed
    const int64_t *col_sums
    const uint8_t *certified
    const uint16_t *pair_sums
    SplitB split


# Scales of a packed B by groups of `size` k, [panels][groups][16], and so the sums of the columns of B' in each group,
# modulo 2**32; these are NULL if A has no zero point.
cdef struct ScaleGroups:
    int64_t size
    const float *scales
    const int32_t *col_sums


# Which elements C has.
cdef enum Half:
    WHOLE
    LOWER
    UPPER


# One problem. A' and B' are A and B as the kernels see them, u8 and s8 (csrc/isa/kernels.h); strides are in bytes.
cdef struct Gemm:
    const i8_kernels *kernels
    const Machine *machine      # whose caches the blocks are for
    bint saturating             # numerics="saturating"
    int64_t m, n, k
    Operand a
    Operand b                   # whose data is NULL where B is packed
    # B' in panels, or NULL; with its column sums and certificates.
    const int8_t *packed
    ptrdiff_t panel_size        # bytes from one panel to the next
    const int64_t *col_sums
    const uint8_t *certified
    const uint16_t *pair_sums   # the largest of each panel (csrc/gemm/packing.h); NULL where they are not known
    SplitB split                # of a packed B'
    const PackedS8 *as_s8       # the same B, or NULL
    double alpha, beta
    # co: one value, or M or N of them.
    int32_t co
    const int32_t *co_rows
    const int32_t *co_cols
    # NULL, or the memory of co_cols: sums of squares of the columns of a plain B are put there in the call. K is at
    # most SHORT_SQUARES_K (see squares.pyx).
    int32_t *column_squares
    char *c
    ptrdiff_t c_row, c_col
    bint to_s64                 # C is of s64, and the bare product with its zero points
    int *saturated              # set to 1 where an element of C is saturated; or NULL
    int threads                 # at most
    Half triangle               # of C, which alone is computed; B is A.T then
    # PATH_TRIANGLE without VNNI: all values of A, as u8, are from `lowest` to `lowest + spread`; a spread of 0 if
    # that is not known, else of at most LARGEST_S8 (small_values.pyx).
    uint8_t lowest, spread
    # If not NULL, the output stage of a quantized primitive takes the place of alpha and beta, and C has its type;
    # with scales of the rows, or NULL. B is packed then.
    const i8_stage *stage
    const float *row_scales
    const int32_t *col_init     # -ao * column sums of a packed B, where somebody has them ready
    # If not NULL, the sums of each group are scaled before they are added, in f32, and then go through the stage, whose
    # own scale is 1, as row_scales and the scales of a source are part of the groups' (see scale_groups.pyx).
    const ScaleGroups *scale_groups
    # Quantized to A' while it is packed, where A is f32, f16 or bf16 (see dynamic_source.pyx); strides as above.
    const DynamicSource *dynamic_source
    # A' is the matrix of an image (see csrc/gemm/im2col_body.h), XORed with a.flip.
    const i8_image *image
    const int64_t *window_sums  # of the rows of an image's matrix, less the zero points, for those of B
    # If not 0, the rows of C, evenly spaced for so many, go on c_line_step bytes after the first of these. With a stage
    # only.
    int64_t c_line
    ptrdiff_t c_line_step
    bint doubled                # sums are doubled before the output stage
    uint8_t tries_memory        # what the call needs is acquired and released, and nothing is done with it
    uint8_t far                 # B is a part of one that is in no cache, or an operand that is read in place is


# The ways to compute a problem, in tiny, long_k, few_rows, few_columns, small_k, triangle and blocks.
cdef enum Path:
    PATH_TINY
    PATH_LONG_K
    PATH_FEW_ROWS
    PATH_FEW_COLUMNS
    PATH_SMALL_K
    PATH_TRIANGLE
    PATH_BLOCKS


# How a problem is computed. Paths other than PATH_BLOCKS use the first members only.
cdef struct Plan:
    Path path
    int64_t k_parts             # of K, in which threads compute all of C, one each
    int64_t segments            # of K, in all of these parts: their sums fit s32, and are added in s64
    Grid grid                   # of tiles or other units of C, and its parts, one for each thread
    bint wide                   # sums could leave s32: add blocks of K in s64
    bint from_registers         # the micro-kernel stores C itself; otherwise the output stage does
    bint to_output              # the micro-kernel applies a primitive's output stage, makes distances, or widens to s64
    bint identity               # the output stage would be the identity, but for the strides of C
    bint row_of_ones            # PATH_FEW_ROWS: A gets one, for column sums of B
    bint centered               # PATH_FEW_ROWS: the only row of A is multiplied less its zero point
    int64_t head                # PATH_FEW_ROWS: columns before the first block that is aligned, if blocks are
    bint staged                 # PATH_FEW_ROWS: rows of B are copied before they are multiplied
    int64_t ahead               # PATH_FEW_ROWS: i8_few_rows_args.ahead
    bint far                    # PATH_FEW_COLUMNS: the vectors that are read in place come from memory
    bint by_rows                # PATH_FEW_COLUMNS reads A in place by rows, rather than B by columns
    bint stream                 # C is written past the caches, by PATH_SMALL_K or as s64
    int64_t kc                  # k of a block; of PATH_LONG_K too
    int64_t groups              # of 4 k, in all
    int64_t panels              # of 16 columns, in all (PATH_FEW_ROWS: blocks of a row kernel)
    int64_t slab                # panels of plain B that are packed before they are multiplied, and
    int64_t slab_blocks         # how many blocks of their K
    bint own_columns            # each thread packs and multiplies columns of its own, in pieces,
    bint own_rows               # or packs all of B for rows of its own; or what its cells of a triangle need
    int64_t mc, nc              # block sizes: rows, panels
    const i8_matrix *matrix     # the matrix unit, if it multiplies; else NULL
    bint keeps_a                # which has all of A as it made it for the first nc panels
    int64_t np                  # panels of a tile
    int64_t mr                  # rows of a tile
    int64_t grid_np             # panels of a unit of the grid
    bint in_turn                # tiles read their panels one after the other
    bint skips                  # products with padding are left out (see spans.pyx)
    bint fetch_c                # C is fetched before a tile of it is stored
    bint fetch_b                # B for the next tile, or a matrix unit's next block, is fetched ahead
    int64_t k_blocks
    bint direct_a               # the micro-kernel reads A in place; a matrix unit whole registers of rows only
    bint interleaves            # A is packed as I8_DOT_INTERLEAVED takes it, by which tiles are multiplied
    bint may_widen              # panels without a certificate need
    int uncertified             # this dot: I8_DOT2, or I8_DOT4
    bint scaled_tiles           # all scale groups of a tile are multiplied in registers
    bint splits                 # panels that are split are multiplied so


# What the parts of a product have in common.
cdef struct Planned:
    const Gemm *g
    const Plan *p


cdef void make_plan(const Gemm *g, Plan *p) noexcept nogil
cdef void transpose_problem(Gemm *t, const Gemm *g) noexcept nogil
cdef bint stores_transposed(const Gemm *g) noexcept nogil
cdef bint can_widen(const Gemm *g) noexcept nogil
cdef bint are_plain_distances(const Gemm *g) noexcept nogil
cdef bint is_plain(const Gemm *g) noexcept nogil
cdef bint is_wide(const Gemm *g) noexcept nogil


cdef inline void set_tile_output(const Gemm *g, i8_tile_output *out, int64_t column) noexcept nogil:
    """The values of a plain output stage for the columns from one on."""
    cdef const i8_stage *s = g.stage
    out.offset = out.row_squares = NULL
    out.row_scale = NULL
    out.stream = False
    if g.to_s64:
        out.type = I8_TYPE_S64
        return
    if g.co_cols is not NULL:
        out.offset = g.co_cols + column
    if s is NULL:  # distances
        out.type = I8_TYPE_S32
        return
    out.scale.values, out.scale.step = s.scale.values + s.scale.step * column, s.scale.step
    out.bias.values, out.bias.step = s.bias.values + s.bias.step * column, s.bias.step
    out.dst_scale.values, out.dst_scale.step = s.dst_scale.values + s.dst_scale.step * column, s.dst_scale.step
    out.dst_zero.values, out.dst_zero.step = s.dst_zero.values + s.dst_zero.step * column, s.dst_zero.step
    out.rounder = s.rounder
    out.relu, out.shifts, out.type, out.integral = s.relu, s.shifts, s.type, s.integral


cdef inline int plan_threads(const Gemm *g, const Plan *p) noexcept nogil:
    """Threads that take part."""
    return part_count(&p.grid) if p.k_parts == 1 else <int>p.k_parts


# What a call holds in the caches, as parts of them (see block_plan.pyx).
cdef inline int64_t near_bytes(const Gemm *g) noexcept nogil:
    """Up to this size B is taken to be in the L2 cache: all of it, or half beside the sums and the lines of C of a
    matrix unit, which passes by more of them in the same time."""
    return g.machine.l2 if g.kernels.matrix is NULL else g.machine.l2 // 2


cdef inline bint is_in_memory(const Machine *machine, double size) noexcept nogil:
    """Whether so many bytes are taken to be in no cache: more than half of the last one, which has other things too."""
    return size > max(machine.l3 // 2, 2 * machine.l2)


cdef inline int64_t block_a_bytes(const Gemm *g) noexcept nogil:
    """Bytes of a block of A: at most half of the L2 cache, as panels of B share it, and less where the block may be
    widened to 16 bits."""
    return min(g.kernels.tuning.a_bytes, g.machine.l2 // (4 if g.kernels.gemm.exact == I8_DOT2 else 2))


# From how many rows and columns on a B that is split is multiplied so: outliers take vectors of rows, and A by columns.
cdef enum:
    SPLIT_ROWS = 7
    SPLIT_COLUMNS = 24


cdef inline bint pays_to_split(const Gemm *g) noexcept nogil:
    """Whether panels that are split are multiplied so."""
    return g.split.panels is not NULL and g.m >= SPLIT_ROWS and g.n >= SPLIT_COLUMNS


# Bounds of a tiny problem: packed B and its start values fit on the stack, and one thread is done before another would
# wake.
cdef enum:
    TINY_K = 256
    TINY_COLUMNS = 8 * I8_PANEL
    # Bounds of PATH_SMALL_K: rows that pay for shifting B, columns for loading a row of A, elements of C for the plan.
    SMALL_K_ROWS = 64
    SMALL_K_COLUMNS = 64
    SMALL_K_ELEMENTS = 3 << 14
    # What is computed transposed: a C with up to so many columns, and for each so many rows, a few if a row kernel
    # takes all columns; up to what size a small problem is.
    TRANSPOSED_COLUMNS = 16
    TRANSPOSED_ROWS = 16
    TRANSPOSED_FEW_ROWS = 4
    TRANSPOSED_TINY = 64


# Up to which K a tile has half as many rows as its sums would find registers for, if a micro-kernel stores them in C:
# while the sums of one are finished, multiplications of the next can begin, as far as a CPU looks ahead.
cdef enum:
    SHORT_K = 256


cdef inline int tile_rows(const Gemm *g, bint finishes) noexcept nogil:
    """Rows of a full tile; whether a micro-kernel stores its sums in C, or what an output stage makes of them."""
    cdef bint is_short = finishes and g.k <= SHORT_K and g.n > I8_PANEL and g.kernels.gemm.np > 1
    return g.kernels.gemm.mr // 2 if is_short else g.kernels.gemm.mr


cdef inline bint zero_by_row(const Gemm *g) noexcept nogil:
    """Whether each row of A has a zero point of its own."""
    cdef const DynamicSource *s = g.dynamic_source
    return g.a.zeros is not NULL or (s is not NULL and s.per_row and not s.symmetric)


cdef inline bint is_made(const Gemm *g) noexcept nogil:
    """Whether A' is made block by block, of a source or of an image, as rows."""
    return g.dynamic_source is not NULL or g.image is not NULL


cdef inline bint has_contiguous_rows(const Gemm *g) noexcept nogil:
    """Whether A is in memory, each row of it without gaps."""
    return g.a.column == 1 and not is_made(g)


cdef inline const i8_matrix *matrix_of(const Gemm *g) noexcept nogil:
    """The matrix unit, if there is one and it pays for the blocks of this problem."""
    if g.kernels.matrix is NULL or g.saturating or g.m < g.kernels.matrix.least_rows or g.k < g.kernels.matrix.least_k:
        return NULL
    return g.kernels.matrix


cdef inline double thread_work(const Gemm *g) noexcept nogil:
    """Multiply-adds that pay for one more thread."""
    cdef const i8_matrix *matrix = matrix_of(g)
    return g.kernels.tuning.thread_work if matrix is NULL else matrix.thread_work


# Bytes of a thread's C from which it is written past the caches: a fifth faster where C is in no cache, half as fast
# where it is.
cdef enum:
    STREAM_BYTES = 16 << 20


# Multiply-adds in whose time an output stage does an element, about.
cdef enum:
    STAGE_WORK = 32


cdef inline double product_work(const Gemm *g) noexcept nogil:
    """The multiply-adds of a product, and what is done with its elements counted as some."""
    return <double>g.m * <double>g.n * <double>(g.k + (1 if g.stage is NULL else STAGE_WORK))


cdef inline int64_t busy_threads(const Gemm *g, double least, int64_t vectors) noexcept nogil:
    """As many threads as the work pays for, of those that there are, if one more takes `least` multiply-adds, or its
    part of `vectors` vectors of k, which an operand has, comes from memory."""
    return <int64_t>min(<double>g.threads, 1 + max(product_work(g) / least, <double>vectors * g.k / THREAD_BYTES))


cdef inline double least_work(const Gemm *g) noexcept nogil:
    """As thread_work, but twice as many where few rows would read B in place, which comes more slowly than packed."""
    return thread_work(g) * (2 if g.packed is NULL and g.m <= g.kernels.tuning.few_rows_limit else 1)


cdef inline ptrdiff_t size_of_c(const Gemm *g) noexcept nogil:
    """Bytes of an element of C, where there is no output stage of a primitive."""
    return sizeof(int64_t) if g.to_s64 else sizeof(int32_t)


cdef inline bint is_small_k(const Gemm *g) noexcept nogil:
    """Whether the size of the problem is one for small_k."""
    return (
        0 < g.k <= g.kernels.gemm.small_k_limit and g.m >= SMALL_K_ROWS and g.n >= SMALL_K_COLUMNS
        and g.m * g.n >= SMALL_K_ELEMENTS
        and not g.saturating
    )


cdef inline bint is_product(const Gemm *g) noexcept nogil:
    """Whether C is the bare product, with a zero point for all of A and one for all of B."""
    return (
        g.stage is NULL and not g.to_s64 and g.alpha == 1 and g.beta == 0
        and g.a.zeros is NULL and g.b.zeros is NULL and g.co == 0 and g.co_rows is NULL and g.co_cols is NULL
    )


cdef inline bint is_tiny(const Gemm *g) noexcept nogil:
    """Whether tiny computes the problem: it is small, and has no output stage of a primitive."""
    return (
        g.k <= TINY_K and g.n <= TINY_COLUMNS and g.m <= g.kernels.tuning.tiny_work
        and g.m * g.n * g.k <= g.kernels.tuning.tiny_work
        and (g.threads <= 1 or g.kernels.matrix is not NULL or g.m * g.n * g.k < least_work(g))
        and g.stage is NULL and g.triangle == WHOLE and not is_small_k(g)
    )


cdef inline bint pays_to_transpose(const Gemm *g) noexcept nogil:
    """Whether C.T := B.T @ A.T is faster to compute: few columns of C and an A whose columns are contiguous, which then
    is what is read along its rows; or a C by columns, of a small K, or of tiny A and B by columns."""
    if g.packed is not NULL or g.stage is not NULL or g.saturating or zero_by_row(g) or g.b.zeros is not NULL:
        return False
    if g.a.row == 1 and g.a.column != 1 and g.n <= TRANSPOSED_COLUMNS:
        if g.m >= g.n * (TRANSPOSED_FEW_ROWS if g.n <= g.kernels.gemm.few_rows_mr else TRANSPOSED_ROWS):
            return True
    if g.c_row != size_of_c(g) or g.c_col == size_of_c(g):
        return False
    if is_small_k(g):
        return True
    return (
        g.a.row == 1 and g.b.row == 1 and TRANSPOSED_ROWS <= g.m <= TRANSPOSED_TINY and g.n <= TRANSPOSED_TINY
        and g.k <= TINY_K
    )


cdef inline const Gemm *arranged(const Gemm *g, Gemm *other) noexcept nogil:
    """The problem as it is computed: itself, or `other` as its transpose."""
    if g.triangle != WHOLE:
        if g.saturating or g.c_row != size_of_c(g) or g.c_col == size_of_c(g):
            return g
        # It is as symmetric as its product.
        other[0] = g[0]
        other.c_row, other.c_col = g.c_col, g.c_row
        other.triangle = UPPER if g.triangle == LOWER else LOWER
        return other
    if not pays_to_transpose(g):
        return g
    transpose_problem(other, g)
    return other
