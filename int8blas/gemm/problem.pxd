# One product, before any decision about how to compute it (see problem.pyx).
from libc.stddef cimport ptrdiff_t
from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t, uint16_t

from int8blas.core.kernels cimport (
    I8_BLAS, I8_DOT2, I8_INT64, I8_PANEL, I8_QUANTIZED, I8_SCALE_GROUPS, I8_TYPE_F32, I8_TYPE_S32, I8_TYPE_S64,
    I8_TYPE_S8, I8_TYPE_U8, current_kernels, i8_epilogue, i8_image, i8_kernels, i8_matrix, i8_outliers, i8_tile_output)
from int8blas.core.machine cimport Machine, this_machine
from int8blas.core.split cimport ceil_div
from int8blas.core.threads cimport THREAD_BYTES, threads_for_bytes
from int8blas.gemm.operand cimport Operand, clear


# A source of real numbers, which the call quantizes to A' (see dynamic_source.pyx). Each row has its own range, or all
# rows share one range.
cdef struct DynamicSource:
    int type                    # I8_TYPE_F32, I8_TYPE_F16 or I8_TYPE_BF16
    bint symmetric              # True: quantize to s8 with zero point 0; False: to u8
    bint per_row
    float scale                 # the scale of all rows, unless per_row
    int64_t zero                # the zero point of all rows, unless per_row


# The panels of B' that are split into a dense part and outliers (csrc/gemm/outliers_body.h), only without VNNI.
cdef struct SplitB:
    const uint8_t *panels       # whether each panel is split; NULL if no panel is split
    const int8_t *dense         # the dense parts, in the layout of B'
    const i8_outliers *outliers
    # starts[(p * blocks + q) * 16 + c] is the index of the first outlier of column c of panel p in K block q.
    const int64_t *starts
    int64_t k                   # size of a K block


# A packed B', and facts about its panels. `slice_panels` advances all pointers.
cdef struct Panels:
    const int8_t *data          # NULL if B is plain
    ptrdiff_t step              # bytes from one panel to the next
    const int64_t *col_sums
    const uint8_t *certified    # whether each panel has a no-saturation proof
    const uint16_t *pair_sums   # the largest pair sum of each panel (csrc/gemm/packing.h), or NULL if unknown
    SplitB split
    const Panels *as_s8         # the panels of a u8 B without the shift if no value exceeds 127; else NULL


# A packed B of 4 bits: each byte has two values of 0 to 15 (csrc/gemm/gemm.h). B' is the values minus zero points.
# Without groups, all of B has one zero point.
cdef struct FourBits:
    const uint8_t *data         # NULL if B does not have 4 bits
    ptrdiff_t step              # bytes from one panel to the next
    const int64_t *col_sums     # sums of the columns of B'; NULL in a part of K
    uint8_t zero                # the zero point of all of B, if `zeros` is NULL
    const uint8_t *zeros        # zero points of the columns in each group: [panels][groups][16]; or NULL
    int64_t size                # number of k of a group


cdef enum:
    PACK_PANELS = 4             # panels that are packed together: whole cache lines of a C-ordered B
    STEP_K = 8                  # k of a step of B of 4 bits
    STEP_BYTES = 64             # bytes of a step in a panel
    # The maximum bytes of packed B that a call keeps at a time, unless one block needs more. 256 x 4096 x 1024 takes
    # 2.18 ms with 1 MiB, 2.21 ms with 4 MiB and 2.28 ms with 16 MiB (one thread, AVX512-VNNI, Zen 5). With several
    # threads, smaller blocks would add barriers, because threads synchronize after they have packed a block.
    PACKED_BYTES = 4 << 20


# The elements of C to compute.
cdef enum Half:
    WHOLE
    LOWER
    UPPER


# C. Strides are in bytes.
cdef struct Output:
    char *data
    ptrdiff_t row, column
    # The number of rows in a line of C, or 0 if C has no lines, and the bytes from one line to the next. Only the C of
    # a convolution has lines.
    int64_t line
    ptrdiff_t line_step
    Half half                   # WHOLE; or the triangle of C to compute, UPPER or LOWER, if B is A.T
    uint8_t dry_run             # only acquire and release the memory of the call


# The source of an A' that is not in memory. The product computes rows of A' from this source, block by block.
cdef struct Source:
    const DynamicSource *dynamic    # if not NULL, A has real numbers, with the strides of `a`
    const i8_image *image       # if not NULL, A' is the matrix of this image (csrc/gemm/im2col_body.h) ^ a.sign_flip


# Facts that the caller knows, and that the product would need time to find.
cdef struct Known:
    const int32_t *col_init     # -ao * column sums of a packed B, or NULL
    const int64_t *window_sums  # sums of the rows of A' - ao of an image, for zero points of B
    # For a triangle without VNNI: all values of A, as u8, are from `lowest` to `lowest + spread`. `spread` is at most
    # LARGEST_S8 (small_values.pyx), and 0 if it is unknown.
    uint8_t lowest, spread
    bint far_zeros              # some zero point lies outside the range of its type
    uint8_t uncached            # B's parent, or the operand read in place, does not fit in cache


# A problem. A' and B' are A and B in the form that the kernels multiply, u8 and s8 (csrc/gemm/gemm.h). Strides are in
# bytes.
cdef struct Problem:
    const i8_kernels *kernels
    const Machine *machine      # the caches that blocks must fit
    int threads                 # the maximum number of threads
    bint saturating             # numerics="saturating"
    int64_t m, n, k
    Operand a
    Operand b                   # `data` is NULL if B is packed
    Panels panels               # the packed B'
    i8_epilogue epilogue        # from sums to C (csrc/stage/stage.h)
    Output c
    Source source               # the source of A' if A' is not materialized
    Known known
    FourBits four_bits          # the packed B', if it has 4 bits


cdef void find_row_terms(const Problem *g, int64_t row, int64_t rows, int64_t *terms) noexcept nogil
cdef void transpose_problem(Problem *t, const Problem *g) noexcept nogil
cdef bint applies_from_registers(const Problem *g) noexcept nogil
cdef int64_t product_bound(const Problem *g) noexcept nogil
cdef int64_t offset_bound(const Problem *g) noexcept nogil
cdef bint is_wide(const Problem *g) noexcept nogil
cdef void slice_rows(Problem *part, const Problem *g, int64_t first, int64_t rows) noexcept nogil
cdef void slice_columns(Problem *part, const Problem *g, int64_t first, int64_t columns) noexcept nogil
cdef void slice_k(Problem *part, const Problem *g, int64_t first, int64_t k, int32_t *sums) noexcept nogil


cdef inline void start_epilogue(i8_epilogue *e) noexcept nogil:
    """Set an epilogue that saturates the product to s32. The members for quantized primitives stay undefined."""
    e.kind, e.type = I8_BLAS, I8_TYPE_S32
    e.alpha, e.beta = 1, 0
    e.saturated = NULL
    e.co = 0
    e.co_rows = e.co_cols = NULL
    e.column_squares = NULL


cdef inline void set_product_type(i8_epilogue *e, bint is_s64) noexcept nogil:
    """Set an epilogue that stores the bare product, with zero points, in s64 or s32."""
    e.kind = I8_INT64 if is_s64 else I8_BLAS
    e.type = I8_TYPE_S64 if is_s64 else I8_TYPE_S32


cdef inline bint is_quantized(const Problem *g) noexcept nogil:
    """Return whether C has the epilogue of a quantized primitive. B is then packed."""
    return g.epilogue.kind >= I8_QUANTIZED


cdef inline bint has_scale_groups(const Problem *g) noexcept nogil:
    """Return whether the weights have scale groups (see scale_groups.pyx). With scale groups, the epilogue's own scale
    is 1, because the scales of groups contain the scales of rows and of a dynamic source."""
    return g.epilogue.kind == I8_SCALE_GROUPS


cdef inline bint is_doubled(const Problem *g) noexcept nogil:
    """Return whether the epilogue reads doubled sums."""
    return is_quantized(g) and g.epilogue.doubled


cdef inline bint has_row_offset(const Problem *g) noexcept nogil:
    """Return whether the epilogue adds an integer to rows of C: one integer for all rows, or one for each row."""
    return g.epilogue.co != 0 or g.epilogue.co_rows is not NULL


cdef inline int32_t row_offset(const Problem *g, int64_t row) noexcept nogil:
    """Return the integer that is added to a row of C."""
    return g.epilogue.co if g.epilogue.co_rows is NULL else g.epilogue.co_rows[row]


cdef inline const float *row_scales_from(const Problem *g, int64_t row) noexcept nogil:
    """Return the scales of the rows of C from `row` on, or NULL if rows have no scales."""
    return g.epilogue.row_scales + row if is_quantized(g) and g.epilogue.row_scales is not NULL else NULL


cdef inline void start(Problem *g, bint saturating) noexcept nogil:
    """Make an empty problem for the calling thread; `run_problem` sets the number of threads."""
    # Set single members. The compiler turns memset into REP STOS, which takes longer than single stores.
    g.kernels = current_kernels()
    g.machine = &this_machine
    g.saturating = saturating
    g.m = g.n = g.k = 0
    clear(&g.a)
    clear(&g.b)
    # If B is plain, nothing reads members of `panels` except `data` and `split.panels`.
    g.panels.data = NULL
    g.panels.split.panels = NULL
    g.four_bits.data = NULL
    start_epilogue(&g.epilogue)
    g.c.data = NULL
    g.c.row = g.c.column = 0
    g.threads = 1
    g.c.half = WHOLE
    g.known.col_init = NULL
    g.source.dynamic = NULL
    g.source.image = NULL
    g.known.window_sums = NULL
    g.c.line = g.c.line_step = 0
    g.known.far_zeros = g.known.uncached = g.c.dry_run = False
    g.known.lowest = g.known.spread = 0


cdef inline char *element(const Output *c, int64_t row, int64_t column) noexcept nogil:
    """Return the address of an element of C."""
    return c.data + row * c.row + column * c.column


cdef inline void slice_panels(Panels *x, int64_t panel, int64_t k) noexcept nogil:
    """Advance all pointers of `x` by a number of panels; `k` is the K of B."""
    x.data += panel * x.step
    x.col_sums += panel * I8_PANEL
    x.certified += panel
    x.as_s8 = NULL
    if x.pair_sums is not NULL:
        x.pair_sums += panel
    if x.split.panels is not NULL:
        x.split.panels += panel
        x.split.dense += panel * x.step
        x.split.starts += panel * ceil_div(k, x.split.k) * I8_PANEL


cdef inline void set_tile_output(const Problem *g, i8_tile_output *out, int64_t row, int64_t column) noexcept nogil:
    """Set `out` to the epilogue that a micro-kernel applies to the tile at this row and column of C. The caller sets
    the address of C."""
    out.epilogue = &g.epilogue
    out.row, out.column = row, column
    out.row_scale = row_scales_from(g, row)
    out.stream = False


cdef inline int64_t cached_b_bytes(const Problem *g) noexcept nogil:
    """Return the size in bytes up to which B counts as cached in L2: all of L2, or half of L2 with a matrix unit,
    because the unit's sums and C take the other half."""
    return g.machine.l2 if g.kernels.matrix is NULL else g.machine.l2 // 2


cdef inline bint is_uncached_size(const Machine *machine, double size) noexcept nogil:
    """Return whether an operand of `size` bytes counts as uncached: it is larger than half of the L3 cache, and larger
    than twice the L2 cache."""
    return size > max(machine.l3 // 2, 2 * machine.l2)


cdef inline int64_t block_a_bytes(const Problem *g) noexcept nogil:
    """Return the maximum bytes of a block of A. The maximum is half of the L2 cache, because panels of B share the
    cache, or a quarter if the block may be widened to 16 bits."""
    return min(g.kernels.tuning.a_bytes, g.machine.l2 // (4 if g.kernels.gemm.exact == I8_DOT2 else 2))


# The minimum number of rows of C for which split panels are multiplied in two parts. For fewer than SPLIT_ROWS rows the
# vectors of the kernel for outliers are mostly empty. If 0.4 % of B are outliers, 4 x 512 x 512 takes 6.1 us in two
# parts and 5.9 us in one part, and 7 x 512 x 512 takes 8.7 us in two parts and 10.3 us in one part (AVX-512BW, Zen 5).
cdef enum:
    SPLIT_ROWS = 7


cdef inline bint pays_to_split(const Problem *g) noexcept nogil:
    """Return whether split panels are multiplied as a dense part and outliers. Other paths are faster for a C of one
    panel."""
    return g.panels.split.panels is not NULL and g.m >= SPLIT_ROWS and g.n > I8_PANEL


# The maximum K for which tiles have half their height if a micro-kernel stores C. The multiplications of half a tile
# fit the CPU's out-of-order window, so the CPU starts them while it finishes the sums of the previous tile. On Zen 5
# tiles of both heights are equally fast (256 x 256 x 64 to 256 x 256 x 512).
cdef enum:
    SHORT_K = 256


cdef inline int tile_rows(const Problem *g, bint finishes) noexcept nogil:
    """Return the rows of a full tile. `finishes` is true if a micro-kernel stores C, with or without an epilogue."""
    cdef bint is_short = finishes and g.k <= SHORT_K and g.n > I8_PANEL and g.kernels.gemm.np > 1
    return g.kernels.gemm.mr // 2 if is_short else g.kernels.gemm.mr


cdef inline bint zero_by_row(const Problem *g) noexcept nogil:
    """Return whether each row of A has its own zero point."""
    cdef const DynamicSource *s = g.source.dynamic
    return g.a.zero_points is not NULL or (s is not NULL and s.per_row and not s.symmetric)


cdef inline bint is_generated(const Problem *g) noexcept nogil:
    """Return whether rows of A' are generated block by block, from a dynamic source or an image."""
    return g.source.dynamic is not NULL or g.source.image is not NULL


cdef inline bint has_contiguous_rows(const Problem *g) noexcept nogil:
    """Return whether A is in memory, with contiguous rows."""
    return g.a.column == 1 and not is_generated(g)


cdef inline const i8_matrix *matrix_of(const Problem *g) noexcept nogil:
    """Return the matrix unit, or NULL if the CPU has no matrix unit or the problem is too small for the unit."""
    if g.kernels.matrix is NULL or g.saturating or g.m < g.kernels.matrix.least_rows or g.k < g.kernels.matrix.least_k:
        return NULL
    return g.kernels.matrix


cdef inline double thread_work(const Problem *g) noexcept nogil:
    """Return the minimum number of multiply-adds for which one more thread saves time."""
    cdef const i8_matrix *matrix = matrix_of(g)
    return g.kernels.tuning.thread_work if matrix is NULL else matrix.thread_work


# The time of an epilogue for one element, in multiply-adds: an estimate for all post-ops.
cdef enum:
    STAGE_WORK = 32


cdef inline double product_work(const Problem *g) noexcept nogil:
    """Return the multiply-adds of a product. The epilogue counts as STAGE_WORK multiply-adds for each element."""
    return <double>g.m * <double>g.n * <double>(g.k + (STAGE_WORK if is_quantized(g) else 1))


cdef inline int64_t busy_threads(const Problem *g, double least, int64_t vectors) noexcept nogil:
    """Return the number of threads for which there is enough work, at most g.threads. One more thread saves time for
    each `least` multiply-adds, or for each THREAD_BYTES bytes of an operand that has `vectors` vectors along k."""
    return threads_for_bytes(product_work(g), least, <double>vectors * g.k, THREAD_BYTES, g.threads)


cdef inline double least_work(const Problem *g) noexcept nogil:
    """Return thread_work, doubled if the path `few_rows` reads B in place: reading B in place is slower than reading a
    packed B."""
    return thread_work(g) * (2 if g.panels.data is NULL and g.m <= g.kernels.tuning.few_rows_limit else 1)


cdef inline ptrdiff_t c_element_bytes(const Problem *g) noexcept nogil:
    """Return the bytes of an element of C."""
    cdef int type_ = g.epilogue.type
    if type_ == I8_TYPE_S32 or type_ == I8_TYPE_F32:
        return 4
    return 8 if type_ == I8_TYPE_S64 else 1 if type_ == I8_TYPE_U8 or type_ == I8_TYPE_S8 else 2


cdef inline bint stores_transposed(const Problem *g) noexcept nogil:
    """Return whether rows of C are not contiguous, so that the epilogue transposes its tiles
    (csrc/stage/transpose_store_body.h)."""
    return g.c.column != c_element_bytes(g)


cdef inline bint is_identity(const i8_epilogue *e) noexcept nogil:
    """Return whether the epilogue only saturates the product: it neither scales nor adds."""
    return (
        e.kind == I8_BLAS and e.alpha == 1 and e.beta == 0 and e.co == 0 and e.co_rows is NULL and e.co_cols is NULL
    )


cdef inline bint is_product(const Problem *g) noexcept nogil:
    """Return whether C is the bare product, with at most one zero point for all of A and one for all of B."""
    return is_identity(&g.epilogue) and g.a.zero_points is NULL and g.b.zero_points is NULL
