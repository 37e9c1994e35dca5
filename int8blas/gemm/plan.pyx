"""How a problem is computed: everything that depends on the shape, decided before anything is touched."""

from libc.stdint cimport INT32_MAX, int32_t, int64_t, uintptr_t
from libc.stdlib cimport llabs

from int8blas.core.kernels cimport (
    I8_DOT2,
    I8_DOT4,
    I8_FLOAT,
    I8_GROUP,
    I8_MATRIX_K,
    I8_MAX_IN_TURN,
    I8_PANEL,
    I8_TYPE_F32,
    I8_TYPE_S8,
    I8_TYPE_S32,
    I8_TYPE_U8,
    i8_image,
    i8_stage,
    tile_panels,
)
from int8blas.core.memory cimport ALIGNMENT
from int8blas.core.split cimport Grid, ceil_div, even_size, largest_part, leave_out, part_count, round_up, split
from int8blas.core.threads cimport THREAD_BYTES
from int8blas.gemm.few_columns cimport plan_few_columns, takes_few_columns
from int8blas.gemm.few_rows cimport plan_few_rows, takes_few_rows
from int8blas.gemm.small_k cimport plan_small_k, takes_small_k

cdef enum:
    # k that each thread gets at least if K is divided.
    MIN_PART_K = 4096
    # Up to how many rows operands are widened in registers, for each tile anew, rather than in memory.
    WIDEN_ROWS = 8
    # Up to how many rows each thread packs plain B for itself, in pieces of MIDDLE_BYTES, or a quarter of a smaller L2
    # cache, and MIDDLE_K for the first so many; for a matrix unit, which is soon done with a piece, more if B is in no
    # L2 cache. And the k of a block where there is a single tile of rows.
    MIDDLE_ROWS = 64
    MATRIX_MIDDLE_ROWS = 256
    MIDDLE_K = 256
    FEW_ROWS_K = 4096
    MATRIX_FEW_ROWS_K = 1 << 14
    # Columns that are many for a matrix unit.
    MATRIX_COLUMNS = 128
    MIDDLE_BYTES = 1 << 18
    # Tiles of rows for each thread, of which one more hardly matters.
    MANY_TILES = 8
    # Up to this size, or a quarter of a smaller L2 cache, each thread packs all of plain B, if it has rows: a line that
    # another one has packed takes five times as long to come as to be packed.
    OWN_BYTES = 1 << 18
    # Up to which k a packed B beyond the L2 cache is read one panel after the other, by tiles that can: side by side,
    # panels so short end when the hardware has just begun to fetch ahead in each. Where full tiles have one panel,
    # three side by side are faster for one row with any k.
    IN_TURN_K = 2048
    # Bytes of a C in whole words from which it is fetched ahead, as it is in no cache.
    FETCH_BYTES = 4 << 20
    # Blocks of K that are one for an image, so that its windows are whole.
    IMAGE_BLOCKS = 2
    # Up to how many elements of C there are sums in s64 for all of them, or for each thread, where K is long.
    SEGMENT_ELEMENTS = 1 << 20
# Bytes of packed B that a call may hold at a time.
cdef int64_t SLAB_BYTES = 4 << 20


cdef int64_t product_bound(const Gemm *g) noexcept nogil:
    """The largest magnitude that one k can add to an element of (A - ao) @ (B - bo)."""
    if g.saturating:
        # A pair sum is at most 2 * 255 * 128 in magnitude, and the three compensations together at most
        # 255 * 128 each for every k, whatever the saturation did.
        return 3 * 255 * 128
    cdef int64_t a = 255 if zero_by_row(g) else max(g.ao, 255 - g.ao)
    cdef int64_t b = 255 if g.bo_cols is not NULL else max(127 - g.bo, g.bo + 128)
    return a * b


cdef int64_t offset_bound(const Gemm *g) noexcept nogil:
    """The largest magnitude in co."""
    cdef int64_t largest = llabs(g.co)
    cdef int64_t i
    if g.co_rows is not NULL:
        for i in range(g.m):
            largest = max(largest, llabs(g.co_rows[i]))
    if g.co_cols is not NULL:
        for i in range(g.n):
            largest = max(largest, llabs(g.co_cols[i]))
    return largest


cdef bint can_be_divided(const Gemm *g, const Plan *p) noexcept nogil:
    """Whether threads may pack plain B on their own: parts of the problem are problems themselves."""
    return g.packed is NULL and not p.wide and g.ao_rows is NULL and g.bo_cols is NULL


cdef Path choose_path(const Gemm *g, const Plan *p) noexcept nogil:
    """The ways to compute a problem, in the order in which they are asked; `p` has the facts of `start_plan`.

    Each is a file: what it takes, how it plans, and how it computes. The last one takes everything.
    """
    if is_tiny(g):
        return PATH_TINY
    if needs_blocks(g, p):
        return PATH_BLOCKS
    if takes_few_columns(g):
        return PATH_FEW_COLUMNS
    if takes_few_rows(g):
        return PATH_FEW_ROWS
    if takes_small_k(g, p):
        return PATH_SMALL_K
    return PATH_BLOCKS


cdef bint needs_blocks(const Gemm *g, const Plan *p) noexcept nogil:
    """Whether a problem has what the general path alone computes."""
    return (
        g.saturating or p.wide or g.k == 0 or is_made(g) or g.c_line != 0 or g.doubled or g.scale_groups is not NULL
    )


cdef void split_threads(const Gemm *g, Plan *p) noexcept nogil:
    """The threads of PATH_BLOCKS."""
    cdef int64_t m_tiles = ceil_div(g.m, p.mr), rows = 1 if p.own_columns else m_tiles
    cdef int64_t panels = p.panels if p.own_columns else p.slab
    cdef int64_t threads = busy_threads(g, thread_work(g), g.n)
    # Columns come first where threads pack B, each what it multiplies; rows where they share it, unless these are so
    # few that the last tile, which they may not fill, makes a difference.
    cdef bint columns_first = g.packed is NULL or (g.m <= MIDDLE_ROWS and not is_made(g)), meets
    cdef Grid narrower
    split(rows, ceil_div(panels, p.grid_np), threads, columns_first, &p.grid)
    if p.grid_np > 2 and part_count(&p.grid) > 1:
        # Tiles that are a panel narrower cost little, an uneven division of the columns more.
        split(rows, ceil_div(panels, p.grid_np - 1), threads, columns_first, &narrower)
        if largest_part(&narrower, p.grid_np - 1, panels) < largest_part(&p.grid, p.grid_np, panels):
            p.grid = narrower
            p.grid_np -= 1
    # With columns for a single tile threads would write to the same lines of C at the same time.
    meets = p.grid.column_parts > 1 and ceil_div(panels, p.grid.column_parts) <= p.np and rows >= MANY_TILES * threads
    p.own_rows = (
        can_be_divided(g, p) and not p.own_columns and g.n * g.k <= min(<int64_t>OWN_BYTES, g.machine.l2 // 4)
        and part_count(&p.grid) > 1
    )
    if meets or p.own_rows:
        split(rows, 1, threads, False, &p.grid)
    if p.own_columns:  # whose parts are of panels
        p.grid.column_parts = <int>ceil_div(p.panels, ceil_div(p.panels, p.grid.column_parts))
    else:
        leave_out(&p.grid)
    p.grid.rows = m_tiles


cdef void set_blocks(Plan *p, int64_t kc) noexcept nogil:
    """K in blocks of equal size, of whole groups or steps, of at most `kc`."""
    p.kc = even_size(4 * p.groups, kc, I8_GROUP if p.matrix is NULL else I8_MATRIX_K)
    p.k_blocks = max(1, ceil_div(4 * p.groups, p.kc))


cdef void transpose_problem(Gemm *t, const Gemm *g) noexcept nogil:
    """t: C.T := (B - bo).T @ (A - ao).T, for a plain B. Each operand takes the other's sign by one more shift."""
    t[0] = g[0]
    t.m, t.n = g.n, g.m
    t.a, t.a_row, t.a_col, t.a_flip, t.ao = g.b, g.b_col, g.b_row, g.b_flip ^ 0x80, g.bo + 128
    t.b, t.b_row, t.b_col, t.b_flip, t.bo = g.a, g.a_col, g.a_row, g.a_flip ^ 0x80, g.ao - 128
    t.co_rows, t.co_cols = g.co_cols, g.co_rows
    t.c_row, t.c_col = g.c_col, g.c_row


cdef bint stores_transposed(const Gemm *g) noexcept nogil:
    """Whether rows of C are not contiguous: an output stage turns its tiles (csrc/stage/transpose_store_body.h)."""
    if g.stage is NULL or g.stage.type == I8_TYPE_F32 or g.stage.type == I8_TYPE_S32:
        return g.c_col != (sizeof(int32_t) if g.stage is not NULL else size_of_c(g))
    return g.c_col != (1 if g.stage.type == I8_TYPE_U8 or g.stage.type == I8_TYPE_S8 else 2)


cdef bint can_widen(const Gemm *g) noexcept nogil:
    """Whether a micro-kernel can store the sums in its registers as s64, if they do not leave s32."""
    return (
        g.to_s64 and g.kernels.gemm.tile_output and not stores_transposed(g) and g.ao_rows is NULL and g.bo_cols is NULL
    )


cdef bint is_plain(const Gemm *g) noexcept nogil:
    """Whether a micro-kernel can apply the output stage to the sums in its registers."""
    cdef const i8_stage *s = g.stage
    cdef bint by_row = g.row_scales is not NULL or g.source is not NULL
    if stores_transposed(g):
        return False
    if s.type == I8_TYPE_F32 or s.type == I8_TYPE_S32:
        if s.rescales or (by_row and s.type == I8_TYPE_S32):
            return False
    elif (s.type != I8_TYPE_U8 and s.type != I8_TYPE_S8) or by_row:
        return False
    return (
        g.kernels.gemm.tile_output and s.op_count == 0 and s.finite and not s.bias_first and s.offset is NULL
        and g.scale_groups is NULL and s.requantization.scheme == I8_FLOAT
        and g.bo == 0 and g.bo_cols is NULL and not zero_by_row(g) and not g.doubled
        and g.co == 0 and g.co_rows is NULL
    )


cdef bint pays_to_split(const Gemm *g) noexcept nogil:
    """Whether panels that are split are multiplied so."""
    return g.split.panels is not NULL and g.m >= SPLIT_ROWS and g.n >= SPLIT_COLUMNS


cdef bint is_wide(const Gemm *g) noexcept nogil:
    """Whether sums could leave s32; with a primitive's output stage, after offsets are added to them as integers."""
    cdef int64_t bound = product_bound(g)
    return g.k > INT32_MAX // bound or (
        g.stage is not NULL and g.k * bound * (2 if g.doubled else 1) + offset_bound(g) > INT32_MAX
    )


cdef void start_plan(const Gemm *g, Plan *p) noexcept nogil:
    """What holds for every path."""
    cdef int64_t bound = product_bound(g)
    p.wide = is_wide(g) and g.scale_groups is NULL
    if g.stage is not NULL:
        p.identity = p.from_registers = False
        p.to_output = is_plain(g) and not p.wide
        return
    p.to_output = can_widen(g) and not p.wide
    p.identity = (
        not g.to_s64 and g.alpha == 1 and g.beta == 0 and g.co == 0 and g.co_rows is NULL and g.co_cols is NULL
    )
    p.from_registers = (
        not p.wide and not g.to_s64 and g.alpha == 1 and g.beta == 0 and not stores_transposed(g)
        and g.ao_rows is NULL and g.bo_cols is NULL
        and (p.identity or g.k * bound + offset_bound(g) <= INT32_MAX)
    )


cdef void plan_k(const Gemm *g, Plan *p) noexcept nogil:
    """The parts of K: for threads, because C has too few units of work for them, and because sums could leave s32."""
    cdef double work = <double>g.m * <double>g.n * <double>g.k, elements = <double>g.m * <double>g.n
    cdef int64_t units = p.grid.rows * p.grid.columns
    # A packed B's zero points are left to the end.
    cdef int64_t bound = 255 * 128 if g.packed is not NULL and not g.saturating else product_bound(g)
    cdef int64_t longest = INT32_MAX // bound - I8_GROUP
    cdef int64_t threads = <int64_t>min(
        <double>g.threads, 1 + max(work / thread_work(g), <double>max(g.m, g.n) * g.k / THREAD_BYTES)
    )
    cdef bint is_long = g.k > longest and elements <= SEGMENT_ELEMENTS and not p.splits
    p.k_parts = p.segments = 1
    if is_made(g) or g.c_line != 0 or g.doubled or g.scale_groups is not NULL:
        return
    threads = min(threads, g.k // MIN_PART_K)
    if threads >= 2 and (2 * units <= threads or (is_long and elements * threads <= SEGMENT_ELEMENTS)):
        p.k_parts = threads
    if is_long or p.k_parts > 1:
        p.segments = round_up(ceil_div(g.k, longest), p.k_parts)


cdef void make_plan(const Gemm *g, Plan *p) noexcept nogil:
    """Fill `p`. M and N must not be 0."""
    plan_path(g, p)
    plan_k(g, p)


cdef bint has_padding(const i8_image *m) noexcept nogil:
    """Whether windows reach beyond the image."""
    cdef int d
    for d in range(3):
        if m.before[d] > 0:
            return True
        if (m.out[d] - 1) * m.stride[d] + (m.kernel[d] - 1) * m.dilation[d] >= m.before[d] + m.size[d]:
            return True
    return False


cdef void plan_image(const Gemm *g, Plan *p) noexcept nogil:
    """Tiles that leave out products with padding, if that adds nothing: rows that fill the lines of the output evenly,
    and all of K in a block."""
    cdef const i8_image *m = g.image
    cdef int64_t tiles = ceil_div(m.out[2], g.kernels.gemm.mr), rows = ceil_div(m.out[2], tiles)
    p.skips = (
        has_padding(m) and (m.padding ^ g.a_flip) == 0 and g.ao == 0 and not p.splits and not g.saturating
        and p.matrix is NULL
    )
    if not p.skips:
        return
    if rows * tiles == m.out[2] and 4 * rows >= 3 * g.kernels.gemm.mr:
        p.mr = rows
    set_blocks(p, IMAGE_BLOCKS * block_k(g))


cdef int64_t middle_rows(const Gemm *g, const Plan *p) noexcept nogil:
    """Up to how many rows each thread packs plain B for itself."""
    return MIDDLE_ROWS if p.matrix is NULL or g.n * g.k <= near_bytes(g) else MATRIX_MIDDLE_ROWS


cdef void plan_path(const Gemm *g, Plan *p) noexcept nogil:
    """Fill `p` but for the parts of K."""
    start_plan(g, p)
    p.may_widen = p.direct_a = p.keeps_a = p.own_columns = p.own_rows = p.splits = p.scaled_tiles = False
    p.uncertified = I8_DOT4
    p.path = choose_path(g, p)
    if p.path == PATH_TINY:
        split(1, 1, 1, False, &p.grid)
        return
    if p.path == PATH_FEW_ROWS:
        plan_few_rows(g, p)
        return
    if p.path == PATH_FEW_COLUMNS:
        plan_few_columns(g, p)
        return
    p.groups = ceil_div(g.k, 4)
    p.panels = ceil_div(g.n, I8_PANEL)
    if p.path == PATH_SMALL_K:
        plan_small_k(g, p)
        return
    p.may_widen = g.kernels.gemm.exact == I8_DOT2 and not g.saturating
    p.uncertified = I8_DOT4 if g.m <= WIDEN_ROWS else I8_DOT2
    p.splits = p.may_widen and pays_to_split(g)
    p.matrix = matrix_of(g)
    if p.wide or g.scale_groups is not NULL:
        p.matrix = NULL
    cdef int64_t kc = block_k(g), a_bytes = block_a_bytes(g), nc = block_panels(g), slab_bytes
    p.mr = tile_rows(g, p.from_registers or p.to_output)
    p.np, p.grid_np = tile_panels(g.kernels, g.m), g.kernels.gemm.np
    if p.matrix is not NULL:
        kc, a_bytes, nc = p.matrix.kc, matrix_a_limit(g), matrix_b_limit(g) // (p.matrix.kc * I8_PANEL)
        # Half a block more costs less than to keep the sums of another. Twice a block does where C is as large as
        # these, B is in the L2 cache, and the A of a tile, which leaves L1, is for many columns.
        if 2 * g.k <= 3 * kc or (
            g.k <= 2 * kc and p.from_registers and g.n * g.k <= near_bytes(g) and g.n >= MATRIX_COLUMNS
        ):
            kc = round_up(g.k, I8_MATRIX_K)
        p.mr, p.np, p.grid_np = p.matrix.mr, p.matrix.np, p.matrix.np
    p.direct_a = has_contiguous_rows(g) and g.a_flip == 0
    # With few rows a packed B is used only a few times, so it should not leave the L2 cache in between; with many rows,
    # larger slabs let A be read less often.
    p.own_columns = can_be_divided(g, p) and g.m <= middle_rows(g, p)
    if p.own_columns and g.m <= MIDDLE_ROWS:
        kc = min(<int64_t>MIDDLE_K, kc)
    elif g.m <= p.mr:
        # B is read once, whatever the cache holds of it, and long panels are long streams.
        kc = max(<int64_t>(FEW_ROWS_K if p.matrix is NULL else MATRIX_FEW_ROWS_K), kc)
    set_blocks(p, kc)
    if g.scale_groups is not NULL:
        # The groups are its blocks.
        p.kc, p.k_blocks = g.k, 1
        p.scaled_tiles = (
            g.kernels.gemm.scale_groups_mr > (0 if g.m == 1 else 1) and not g.saturating and g.bo == 0
            and g.bo_cols is NULL
        )
        if p.scaled_tiles:
            p.mr = g.kernels.gemm.scale_groups_mr
    if p.splits:
        p.kc = g.split.k
        p.k_blocks = ceil_div(g.k, p.kc)
    p.skips = False
    if g.image is not NULL:
        plan_image(g, p)
    p.slab_blocks = 1 if p.own_columns else p.k_blocks
    p.slab = p.panels
    p.stream = (
        g.to_s64 and p.to_output and (<uintptr_t>g.c | <uintptr_t>g.c_row) % ALIGNMENT == 0
        and g.m * g.n * <int64_t>sizeof(int64_t) >= STREAM_BYTES
    )
    p.fetch_c = g.c_col == sizeof(int32_t) and g.m * g.n * <int64_t>sizeof(int32_t) >= FETCH_BYTES
    # Not where a matrix unit reads B once: streams of tiles are as fast as they can be.
    p.fetch_b = g.packed is not NULL and g.n * g.k > near_bytes(g) and (p.matrix is NULL or g.m > p.mr)
    p.in_turn = (
        g.kernels.gemm.np > 1 and g.packed is not NULL and g.n * g.k > near_bytes(g)
        and g.m <= I8_MAX_IN_TURN and g.k <= IN_TURN_K
    )
    if p.in_turn and p.matrix is not NULL:
        p.np = 1
    if g.packed is NULL:
        slab_bytes = min(<int64_t>MIDDLE_BYTES, g.machine.l2 // 4) if p.own_columns else SLAB_BYTES
        p.slab = min(p.panels, max(p.grid_np, slab_bytes // (max(1, p.slab_blocks * p.kc) * I8_PANEL)))
    split_threads(g, p)
    # Blocks of equal height, in whole tiles.
    cdef int64_t m_tiles = ceil_div(ceil_div(g.m, p.mr), 1 if p.grid.stretches else p.grid.row_parts)
    cdef int64_t rows = max(p.mr, a_bytes // max(1, p.kc))
    cdef int64_t columns, m_blocks = 1 if p.own_columns else ceil_div(m_tiles * p.mr, rows)
    p.mc = ceil_div(m_tiles, m_blocks) * p.mr
    cdef bint fits = round_up(g.m, p.mr) * g.k <= g.machine.l2 // 4, halves
    p.nc = columns = ceil_div(ceil_div(p.slab, p.grid_np), p.grid.column_parts) * p.grid_np
    if p.own_columns:
        p.nc = round_up(p.slab, p.grid_np)
    elif p.k_blocks > 1:
        # A matrix unit's B shares the L2 cache with these sums and with the next block's B; but a source that is not
        # kept is quantized for each block of columns.
        halves = g.image is not NULL or (p.matrix is not NULL and (fits or g.source is NULL))
        p.nc = min(p.nc, nc // 2 if halves else nc)
    elif p.matrix is not NULL and g.m > p.mr:
        # A row of tiles reads B once, from wherever it is, and had better make its A once.
        p.nc = min(p.nc, max(p.grid_np, matrix_b_limit(g) // (p.kc * I8_PANEL)))
    if p.matrix is not NULL:
        # An A that is loaded once is loaded where it lies, although that takes 50 cycles where rows are not aligned.
        p.direct_a = p.direct_a and g.k % I8_MATRIX_K == 0 and p.nc <= p.np
        p.keeps_a = fits and p.nc < columns
