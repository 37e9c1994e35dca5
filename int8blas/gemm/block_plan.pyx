"""Divide a problem for the general path: tiles, blocks that fit the caches, packed B blocks, and parts for threads.

The block sizes of a kernel table are upper limits, measured with an L2 cache of 1 MiB, or of 2 MiB with a matrix unit.
A smaller cache makes blocks smaller; a larger cache does not change them.
"""

from libc.stdint cimport int32_t, int64_t, uintptr_t

from int8blas.core.kernels cimport (
    I8_DOT2, I8_DOT4, I8_DOT_INTERLEAVED, I8_GROUP, I8_INT64, I8_INTERLEAVED_K, I8_MATRIX_K, I8_MAX_SEQUENTIAL,
    I8_PANEL, i8_image, tile_panels)
from int8blas.core.memory cimport ALIGNMENT, STREAM_BYTES
from int8blas.core.split cimport (
    Grid, ceil_div, even_size, largest_part, drop_idle_parts, part_count, round_down, round_up, split)
from int8blas.gemm.operand cimport has_zero
from int8blas.gemm.path cimport SEGMENT_ELEMENTS, divide_k
from int8blas.gemm.problem cimport (
    PACKED_BYTES, STEP_K, block_a_bytes, busy_threads, cached_b_bytes, has_contiguous_rows, has_scale_groups,
    is_generated, is_quantized, is_uncached_size, matrix_of, pays_to_split, thread_work, tile_rows)

cdef enum:
    # The minimum number of rows of A, and of panels of a block, for which A is interleaved. 12 rows are two full tiles
    # of 6 rows, and the tiles of 4 panels share the time of the interleaving. No measurement supports the limits,
    # because no 64-bit Arm machine was available.
    INTERLEAVED_ROWS = 12
    INTERLEAVED_PANELS = 4
    # The maximum number of rows for which each tile widens its operands in registers instead of reading widened copies.
    # With N = K = 512, 8 rows take 31 us in registers and 33 us with copies; 12 rows take 42 us in registers and 39 us
    # with copies (AVX2, Zen 5).
    WIDEN_ROWS = 8
    # The maximum number of rows of A for which each thread packs a plain B for its own columns. The limit is higher for
    # a matrix unit if B does not fit the L2 cache, because the unit would wait for panels that other cores have packed.
    # On one thread, 64 x 1024 x 1024 takes 151 us with and without private columns, but 128 x 1024 x 1024 takes 281 us
    # with and 272 us without (AVX512-VNNI, Zen 5).
    MIDDLE_ROWS = 64
    MATRIX_MIDDLE_ROWS = 256
    # The maximum size of the packed B block of a thread that packs B for its own columns, in bytes, and its maximum
    # size along K. The block takes at most a quarter of the L2 cache. MIDDLE_K limits K blocks for up to MIDDLE_ROWS
    # rows of A. 56 x 1024 x 1024 takes 148 us with blocks of 32 KiB, and 138 us with blocks of 256 KiB or 1 MiB
    # (AVX512-VNNI, Zen 5). A block that is longer along K has fewer columns. 56 x 1024 x 1024 takes 144 us with K
    # blocks of 128, 137 us with K blocks of 256, 136 us with K blocks of 512 and 133 us with K blocks of 1024.
    MIDDLE_BYTES = 1 << 18
    MIDDLE_K = 256
    # The size of a K block if A has a single row of tiles. 6 x 512 x 16384 takes 393 us with K blocks of 1024, 380 us
    # with K blocks of 4096 and 374 us with K blocks of 16384 (AVX2, Zen 5).
    FEW_ROWS_K = 4096
    MATRIX_FEW_ROWS_K = 1 << 14
    # The minimum number of columns for which a matrix unit reuses the A of a tile so often that a single K block may
    # have up to twice the usual size.
    MATRIX_COLUMNS = 128
    # A plan leaves up to FEWER_THREADS threads unused if the largest part stays the same. For example, the largest part
    # of 26 rows of tiles is 2 rows with 13 threads and with 16 threads. Every plan divides the grid once more for each
    # number of threads that it tries.
    FEWER_THREADS = 3
    # If each thread has at least MANY_TILES rows of tiles, an uneven division of the rows makes the largest part at
    # most 1/8 longer.
    MANY_TILES = 8
    # Threads that compute different rows each pack all of a plain B if B takes at most PRIVATE_BYTES bytes, and at most
    # a quarter of the L2 cache. Fetching a cache line that another thread has packed takes 5x as long as packing the
    # line. 256 KiB are a quarter of an L2 cache of 1 MiB.
    PRIVATE_BYTES = 1 << 18
    # The maximum K for which tiles of few rows read the panels of a packed B one after the other if B does not fit the
    # L2 cache. If tiles read short panels side by side, the panels would end just after the hardware has begun to
    # prefetch them. 1 x 16384 x 1024 takes 174 us with panels one after the other, and 194 us side by side. 1 x 8192 x
    # 4096 takes 682 us with panels one after the other, and 587 us side by side (AVX512-VNNI, Zen 5). If full tiles
    # have one panel, tiles of one row read three panels side by side for every K.
    SEQUENTIAL_K = 2048
    # The maximum size of a K block that holds whole windows of an image, divided by the usual size of a K block. A
    # convolution of 3 x 3 windows and 512 channels, with 7 x 7 pixels, takes 1037 us with a limit of 1 and 993 us with
    # a limit of 2 (AVX2), or 210 us with 1 and 197 us with 2 or 4 (AVX512-VNNI, Zen 5).
    IMAGE_BLOCKS = 2


cdef int64_t block_k(const Problem *g) noexcept nogil:
    """Return the largest size of a K block for which the panels of a tile take at most a quarter of the L2 cache."""
    return min(g.kernels.tuning.kc, round_down(g.machine.l2 // 4 // (g.kernels.gemm.np * I8_PANEL), I8_GROUP))


cdef int64_t block_panels(const Problem *g) noexcept nogil:
    """Return the number of panels of an N block if K has several blocks. The L2 cache must hold the sums of the block.
    The kernel table has the number for an L2 cache of 1 MiB. A smaller cache gets proportionally fewer panels."""
    return max(<int64_t>1, min(g.kernels.tuning.nc, g.kernels.tuning.nc * g.machine.l2 >> 20))


cdef int64_t matrix_a_limit(const Problem *g) noexcept nogil:
    """Return the bytes of an A block for a matrix unit: at most 1/16 of the L2 cache. B takes most of the cache."""
    return min(g.kernels.matrix.a_bytes, g.machine.l2 // 16)


cdef int64_t matrix_b_limit(const Problem *g) noexcept nogil:
    """Return the bytes of B for a matrix unit: at most a quarter of the L2 cache, which also holds the sums and the
    next block."""
    return min(g.kernels.matrix.b_bytes, g.machine.l2 // 4)


cdef bint can_be_private(const Problem *g, const BlocksPlan *p) noexcept nogil:
    """Return whether each thread may pack a part of a plain B: the driver can compute slices of the problem as separate
    problems."""
    return (
        g.panels.data is NULL and g.four_bits.data is NULL and not p.common.wide and g.a.zero_points is NULL
        and g.b.zero_points is NULL
        and not is_generated(g) and not is_quantized(g) and g.c.line == 0
    )


cdef int64_t middle_rows(const Problem *g, const BlocksPlan *p) noexcept nogil:
    """Return the number of rows up to which each thread packs a plain B for its own columns."""
    return MIDDLE_ROWS if p.matrix is NULL or g.n * g.k <= cached_b_bytes(g) else MATRIX_MIDDLE_ROWS


cdef void set_blocks(BlocksPlan *p, int64_t kc, bint is_four_bits) noexcept nogil:
    """Divide K into blocks of equal size: whole groups or steps, at most `kc` k in a block."""
    cdef int64_t step = STEP_K if is_four_bits else I8_GROUP
    p.kc = even_size(4 * p.groups, kc, step if p.matrix is NULL else I8_MATRIX_K)
    p.k_blocks = max(1, ceil_div(4 * p.groups, p.kc))


cdef bint has_padding(const i8_image *m) noexcept nogil:
    """Return whether windows reach beyond the image."""
    cdef int d
    for d in range(3):
        if m.before[d] > 0:
            return True
        if (m.out[d] - 1) * m.stride[d] + (m.kernel[d] - 1) * m.dilation[d] >= m.before[d] + m.size[d]:
            return True
    return False


cdef bint may_interleave(const Problem *g, const BlocksPlan *p) noexcept nogil:
    """Return whether an interleaved A makes tiles faster. `choose_interleaving` also checks the size of blocks."""
    return (
        g.kernels.gemm.tiles[I8_DOT_INTERLEAVED] is not NULL and not g.saturating and not has_scale_groups(g)
        and g.m >= INTERLEAVED_ROWS and p.panels >= INTERLEAVED_PANELS
    )


cdef void plan_image(const Problem *g, BlocksPlan *p) noexcept nogil:
    """Decide whether tiles skip products with padding, which are 0. A matrix unit, split panels and an interleaved A
    exclude skipping, because they may save more time. For tiles that skip products, choose a height that divides lines
    of the output evenly, and larger K blocks."""
    cdef const i8_image *m = g.source.image
    cdef int64_t tiles = ceil_div(m.out[2], g.kernels.gemm.mr), rows = ceil_div(m.out[2], tiles)
    p.forms.skips = (
        has_padding(m) and (m.padding ^ g.a.sign_flip) == 0 and g.a.zero_point == 0 and not p.forms.splits
        and not g.saturating and p.matrix is NULL and not may_interleave(g, p)
    )
    if not p.forms.skips:
        return
    if rows * tiles == m.out[2] and 4 * rows >= 3 * g.kernels.gemm.mr:
        p.mr = rows
    set_blocks(p, IMAGE_BLOCKS * block_k(g), False)


cdef void split_columns(int64_t rows, int64_t panels, int64_t width, int64_t threads, bint columns_first,
                        Grid *grid) noexcept nogil:
    """Divide rows of tiles, and columns of up to `width` panels, among threads. Leave a few threads unused if the
    largest part stays the same."""
    cdef int64_t columns = ceil_div(panels, width), fewer
    cdef Grid other
    split(rows, columns, threads, columns_first, grid)
    for fewer in range(1, min(<int64_t>FEWER_THREADS, threads - 2) + 1):
        if largest_part(grid, width, panels) * (threads - fewer) < rows * panels:
            return  # with fewer threads the largest part would be larger
        split(rows, columns, threads - fewer, columns_first, &other)
        if largest_part(&other, width, panels) <= largest_part(grid, width, panels):
            grid[0] = other


cdef void split_threads(const Problem *g, BlocksPlan *p) noexcept nogil:
    """Divide the product among threads."""
    cdef int64_t m_tiles = ceil_div(g.m, p.mr), rows = 1 if p.common.private_columns else m_tiles
    cdef int64_t panels = p.panels if p.common.private_columns else p.packed_panels
    cdef int64_t threads = busy_threads(g, thread_work(g), g.n)
    # Divide the columns of a plain B first, because threads pack them. For a packed B divide rows first, unless rows
    # are so few that an incomplete last tile matters.
    cdef bint columns_first = g.panels.data is NULL or (g.m <= MIDDLE_ROWS and not is_generated(g)), meets
    cdef Grid narrower
    split_columns(rows, panels, p.grid_np, threads, columns_first, &p.common.grid)
    if p.grid_np > 2 and part_count(&p.common.grid) > 1:
        # Tiles with one panel less cost less time than an uneven division of the columns.
        split_columns(rows, panels, p.grid_np - 1, threads, columns_first, &narrower)
        if largest_part(&narrower, p.grid_np - 1, panels) < largest_part(&p.common.grid, p.grid_np, panels):
            p.common.grid = narrower
            p.grid_np -= 1
    # If parts had the width of one tile, threads would write to the same cache lines of C. Divide only rows.
    meets = (
        p.common.grid.column_parts > 1 and ceil_div(panels, p.common.grid.column_parts) <= p.np
        and rows >= MANY_TILES * threads
    )
    p.common.private_rows = (
        can_be_private(g, p) and not p.common.private_columns
        and g.n * g.k <= min(<int64_t>PRIVATE_BYTES, g.machine.l2 // 4) and part_count(&p.common.grid) > 1
    )
    if meets or p.common.private_rows:
        split(rows, 1, threads, False, &p.common.grid)
    if p.common.private_columns:  # parts count panels
        p.common.grid.column_parts = <int>ceil_div(p.panels, ceil_div(p.panels, p.common.grid.column_parts))
    else:
        drop_idle_parts(&p.common.grid)
    p.common.grid.rows = m_tiles


cdef void set_forms(const Problem *g, BlocksPlan *p) noexcept nogil:
    """Choose the multiply-add of the tiles, and the form of each operand."""
    p.forms.may_widen = g.kernels.gemm.exact == I8_DOT2 and not g.saturating
    p.forms.uncertified = I8_DOT4 if g.m <= WIDEN_ROWS else I8_DOT2
    p.forms.splits = p.forms.may_widen and pays_to_split(g)
    p.matrix = NULL if p.common.wide or has_scale_groups(g) else matrix_of(g)
    p.forms.direct_a = has_contiguous_rows(g) and g.a.sign_flip == 0
    p.forms.keeps_a = p.forms.skips = p.forms.scaled_tiles = False
    if p.matrix is not NULL:
        p.mr, p.np, p.grid_np = p.matrix.mr, p.matrix.np, p.matrix.np
    else:
        p.mr = tile_rows(g, p.common.from_registers or p.common.to_output)
        p.np, p.grid_np = tile_panels(g.kernels, g.m), g.kernels.gemm.np
    # With few rows, each thread packs small B blocks for itself: a block stays in the L2 cache for its few uses.
    # With many rows, larger blocks save time because tiles read A less often.
    p.common.private_columns = can_be_private(g, p) and g.m <= middle_rows(g, p)


cdef int64_t longest_block(const Problem *g, const BlocksPlan *p) noexcept nogil:
    """Return the largest size of a K block."""
    cdef int64_t kc = block_k(g) if p.matrix is NULL else p.matrix.kc
    # For a matrix unit, one block of up to 1.5 times the usual size takes less time than storing and reloading sums
    # between two blocks. A block of twice the usual size also takes less time if the unit stores C, B is in the L2
    # cache, and many columns reuse the A of a tile, which no longer fits the L1 cache.
    if p.matrix is not NULL and (
        2 * g.k <= 3 * kc
        or (g.k <= 2 * kc and p.common.from_registers and g.n * g.k <= cached_b_bytes(g) and g.n >= MATRIX_COLUMNS)
    ):
        kc = round_up(g.k, I8_MATRIX_K)
    if p.common.private_columns and g.m <= MIDDLE_ROWS:
        return min(<int64_t>MIDDLE_K, kc)
    if g.m <= p.mr:
        # Each panel is read once, so blocks need not fit a cache. Long panels are read faster.
        return max(<int64_t>(FEW_ROWS_K if p.matrix is NULL else MATRIX_FEW_ROWS_K), kc)
    return kc


cdef void set_k_blocks(const Problem *g, BlocksPlan *p) noexcept nogil:
    """Divide K into blocks."""
    set_blocks(p, longest_block(g, p), g.four_bits.data is not NULL)
    if has_scale_groups(g):
        # The scale groups divide K, so there is one K block.
        p.kc, p.k_blocks = g.k, 1
        p.forms.scaled_tiles = (
            g.kernels.gemm.scaled_tiles is not NULL
            and g.kernels.gemm.scaled_tiles.mr >= min(g.m, <int64_t>2) and not g.saturating and not has_zero(&g.b)
            and not g.known.far_zeros and g.epilogue.scale_groups.row_scales is NULL
            and g.epilogue.scale_groups.row_zeros is NULL
        )
        if p.forms.scaled_tiles:
            p.mr = g.kernels.gemm.scaled_tiles.mr
    if p.forms.splits:
        p.kc = g.panels.split.k
        p.k_blocks = ceil_div(g.k, p.kc)
    if g.source.image is not NULL:
        plan_image(g, p)


cdef void set_memory(const Problem *g, BlocksPlan *p) noexcept nogil:
    """Choose how B and C pass through memory: packed B blocks, prefetching, streaming stores."""
    cdef int64_t packed_bytes
    cdef bint is_far = g.panels.data is not NULL and (g.known.uncached or g.n * g.k > cached_b_bytes(g))
    p.packed_k_blocks = 1 if p.common.private_columns else p.k_blocks
    p.packed_panels = p.panels
    if g.panels.data is NULL:
        packed_bytes = PACKED_BYTES
        if p.common.private_columns:
            packed_bytes = min(<int64_t>MIDDLE_BYTES, g.machine.l2 // 4)
        if g.four_bits.data is not NULL:
            # Unpacking takes little time, so blocks are small enough to stay in the L2 caches until they are
            # multiplied.
            packed_bytes = min(packed_bytes, part_count(&p.common.grid) * g.machine.l2 // 2)
        p.packed_panels = min(p.panels, max(p.grid_np, packed_bytes // (max(1, p.packed_k_blocks * p.kc) * I8_PANEL)))
    p.memory.stream = (
        g.epilogue.kind == I8_INT64 and p.common.to_output
        and (<uintptr_t>g.c.data | <uintptr_t>g.c.row) % ALIGNMENT == 0
        and g.m * g.n * <int64_t>sizeof(int64_t) >= STREAM_BYTES
    )
    # Prefetching a C that is in the L3 cache makes a product 1.38x slower (1024 x 2048 x 64, AVX512-VNNI, Zen 5).
    p.memory.fetch_c = (
        g.c.column == sizeof(int32_t) and is_uncached_size(g.machine, <double>g.m * g.n * sizeof(int32_t))
    )
    # Prefetching does not speed up a matrix unit that reads B once, because it reads B in long streams.
    p.memory.fetch_b = is_far and (p.matrix is NULL or g.m > p.mr)
    p.memory.sequential = g.kernels.gemm.np > 1 and is_far and g.m <= I8_MAX_SEQUENTIAL and g.k <= SEQUENTIAL_K
    if p.memory.sequential and p.matrix is not NULL:
        p.np = 1


cdef void set_block_sizes(const Problem *g, BlocksPlan *p) noexcept nogil:
    """Choose the rows and panels of a block: whole tiles, and M blocks of equal height."""
    cdef int64_t a_bytes = block_a_bytes(g) if p.matrix is NULL else matrix_a_limit(g)
    cdef int64_t m_tiles = ceil_div(ceil_div(g.m, p.mr), 1 if p.common.grid.stretches else p.common.grid.row_parts)
    cdef int64_t rows = max(p.mr, a_bytes // max(1, p.kc))
    cdef int64_t m_blocks = 1 if p.common.private_columns else ceil_div(m_tiles * p.mr, rows)
    cdef int64_t columns = ceil_div(ceil_div(p.packed_panels, p.grid_np), p.common.grid.column_parts) * p.grid_np, nc
    cdef bint fits = round_up(g.m, p.mr) * g.k <= g.machine.l2 // 4, halves
    p.mc = ceil_div(m_tiles, m_blocks) * p.mr
    p.nc = columns
    if p.common.private_columns:
        p.nc = round_up(p.packed_panels, p.grid_np)
    elif p.k_blocks > 1:
        # A matrix unit's B shares the L2 cache with the sums and with the next block's B. A dynamic source that is not
        # kept is quantized again for each N block, so N blocks stay large for this source.
        nc = block_panels(g) if p.matrix is NULL else matrix_b_limit(g) // (p.matrix.kc * I8_PANEL)
        halves = g.source.image is not NULL or (p.matrix is not NULL and (fits or g.source.dynamic is NULL))
        p.nc = min(p.nc, nc // 2 if halves else nc)
    elif p.matrix is not NULL and g.m > p.mr:
        # With several rows of tiles, the B of an N block must stay in the L2 cache. A single row of tiles reads B once.
        p.nc = min(p.nc, max(p.grid_np, matrix_b_limit(g) // (p.kc * I8_PANEL)))
    if p.matrix is not NULL:
        # If each row of A is loaded only once, read A in place, although loading unaligned rows takes 50 cycles.
        p.forms.direct_a = p.forms.direct_a and g.k % I8_MATRIX_K == 0 and p.nc <= p.np
        p.forms.keeps_a = fits and p.nc < columns


cdef void choose_interleaving(const Problem *g, BlocksPlan *p) noexcept nogil:
    """Decide whether A is interleaved. Tiles cannot read an interleaved A in place."""
    p.forms.interleaves = may_interleave(g, p) and p.nc >= INTERLEAVED_PANELS and p.kc <= I8_INTERLEAVED_K
    p.forms.direct_a = p.forms.direct_a and not p.forms.interleaves


cdef void plan_blocks(const Problem *g, Plan *plan) noexcept nogil:
    """Plan the general path: tiles, blocks, packed B blocks, threads."""
    cdef BlocksPlan *p = <BlocksPlan *>plan
    p.groups, p.panels = ceil_div(g.k, I8_GROUP), ceil_div(g.n, I8_PANEL)
    set_forms(g, p)
    set_k_blocks(g, p)
    set_memory(g, p)
    split_threads(g, p)
    set_block_sizes(g, p)
    choose_interleaving(g, p)
    plan.packs_squares, plan.private_unit = True, p.mr
    divide_k(g, plan, <double>g.m * <double>g.n <= SEGMENT_ELEMENTS and not p.forms.splits, 0.5)
