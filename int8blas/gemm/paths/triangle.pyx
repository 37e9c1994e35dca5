"""The path for A @ A.T. The path `triangle` computes one triangle of C, and mirrors the triangle if the call computes
all of C.

A is packed once for both operands, in the layout of B'. The micro-kernel can read rows of A from panels, as dwords that
are 64 bytes apart. If the micro-kernel multiplies bytes, A' is a copy of the panels XORed with 0x80, made while the
panels are in the cache. Without VNNI, A' and B' are the same panels in 16 bits. If the range of all values is small
(small_values.pyx), A' and B' are the same panels of bytes, minus the smallest value. For a matrix unit, A' is packed in
rows.

    run_triangle      for each packed block (some K blocks of all panels, or of a thread's panels)
      prepare_part      pack panels, find their sums and start values               (in parallel over the panels)
      multiply_cells    compute one thread's cells of the triangle                  (in parallel over the parts)
        multiply_area     for each M block
          multiply_rows     for each tile along N, and each panel of rows: the micro-kernel
            multiply_row      compute cells along N, and store C and its mirror
            multiply_square   compute a cell on the diagonal, and store the triangle that C needs.

A cell has 16 x 16 elements of C: a panel of rows times a panel of columns. With a matrix unit a cell is a tile of the
unit: two panels of rows times two panels of columns. Cells are numbered row by row. Each thread has the same number of
consecutive cells. Between two K blocks the sums stay in C if C has the bare sums and contiguous rows, or else in memory
of the call.

Fetching a cache line that another core has packed takes 12 ns; packing the line takes 2.3 ns (Zen 4). If packing is
little work compared with the products of a thread, each thread packs the panels that it needs.
"""

from libc.stddef cimport ptrdiff_t
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint32_t
from libc.string cimport memcpy, memset

from int8blas.core.kernels cimport (
    I8_PREFETCH_WRITE, I8_DOT2, I8_DOT4_SAT, I8_GROUP, I8_MATRIX_K, I8_MATRIX_ROWS, I8_PANEL, i8_matrix, i8_output_args,
    i8_set_part, i8_tile_args)
from int8blas.core.memory cimport ALIGNMENT, acquire, carve, release
from int8blas.core.split cimport ceil_div, equal_parts, even_size, round_down, round_up, share
from int8blas.core.threads cimport paid_threads, parallel_for, two_phase_parallel_for
from int8blas.gemm.operand cimport SHIFT, SIGN_BIT, address, zero_of
from int8blas.gemm.output cimport set_target
from int8blas.gemm.path cimport Description, Path, Plan, as_capsule, divide_k, find_facts, planned_threads
from int8blas.gemm.paths.sizes cimport WHOLE_ROWS, is_tiny, is_tiny_triangle
from int8blas.gemm.problem cimport (
    PACKED_BYTES, PACK_PANELS, UPPER, WHOLE, c_element_bytes, element, has_row_offset, is_quantized, matrix_of)
from int8blas.gemm.small_values cimport rebase_triangle, small_triangle_dot

cdef enum:
    # The smallest K for which a call that computes all of C mirrors a triangle: storing the mirror takes as long as
    # computing the other half. MIRRORED_WIDENED_K is for widened operands. MIRRORED_ROWS_K and MIRRORED_COLUMNS_K are
    # for bytes with contiguous rows and contiguous columns of A. MIRRORED_LARGE_K (for widened operands
    # MIRRORED_LARGE_WIDENED_K) is for a C of more than LARGE_C bytes, whose mirror is stored to L3 or memory. Times on
    # Zen 5 in us, mirrored and whole:
    #   MIRRORED_WIDENED_K        512 x 512 x 48: 107, 124 (AVX2), 71, 63 (AVX-512BW);  512 x 512 x 64: 124, 159 and 80,
    #                             82
    #   MIRRORED_ROWS_K           256 x 256 x 96: 15.7, 13.8;  256 x 256 x 128: 17.9, 18.2 (AVX512-VNNI)
    #   MIRRORED_COLUMNS_K        256 x 256 x 64: 13.3, 12.4;  256 x 256 x 96: 15.6, 17.4 (AVX512-VNNI)
    #   MIRRORED_LARGE_WIDENED_K  2048 x 2048 x 160: 4730, 6360 (AVX2)
    #   MIRRORED_LARGE_K          2048 x 2048 x 128: 2580, 1080;  1536 x 1536 x 192: 921, 887 (AVX512-VNNI)
    # MIRRORED_ROWS_K is below Zen 5's best value, because CPUs with fewer multiply-adds a cycle break even earlier.
    MIRRORED_WIDENED_K = 64
    MIRRORED_ROWS_K = 96
    MIRRORED_COLUMNS_K = 80
    LARGE_C = 8 << 20
    MIRRORED_LARGE_WIDENED_K = 128
    MIRRORED_LARGE_K = 216
    # The smallest K for which a call mirrors a triangle that a matrix unit computes. With a K below MIRRORED_MATRIX_K,
    # the unit computes the other half of C in less time than the CPU takes to mirror the triangle.
    MIRRORED_MATRIX_K = 4096
    # The minimum number of multiply-adds of all of C if there are several threads, because threads synchronize twice on
    # this path.
    SHARED_WORK = 1 << 23
    # The minimum number of panels for each thread if each thread packs the panels that it needs. With OWN_PANELS
    # panels, packing takes a fifth of the time of the thread's products.
    OWN_PANELS = 12
    # The maximum number of cells for each thread with which dividing K is faster. If K is divided, no thread waits for
    # panels that another thread packs.
    FEW_CELLS = 24


cdef struct TrianglePlan:
    Plan common
    const i8_matrix *matrix     # the matrix unit, or NULL if the vector unit multiplies
    int64_t mr, np              # rows and panels of a tile
    int64_t grid_np             # panels of a cell along M and along N
    int64_t kc, k_blocks        # size of a K block; number of K blocks
    int64_t mc, nc              # rows and panels of a block
    int64_t panels              # panels of 16 columns in N
    int64_t packed_k_blocks     # K blocks that are packed together, before they are multiplied
    bint private_panels         # each thread packs the panels that its cells need


# The multiply-add of the panels, and their values.
cdef struct Form:
    int dot                     # the multiply-add: I8_DOT4 and so on
    int64_t small_groups        # groups that I8_DOT_SMALL adds in s16
    bint shares_panels          # A' and B' are the same bytes
    uint8_t flip                # packing XORs the bytes of A with `flip`, then subtracts `lowest`
    int64_t shift               # added to the zero points of B', because of `flip` and `lowest`


# The division of C into cells, which are squares.
cdef struct Cells:
    int64_t panels              # panels of a cell along M and along N
    int64_t side                # rows (and columns) of a cell
    int64_t bands               # rows (and columns) of cells
    int64_t tile_cells          # number of cells along N in a tile


# B' in panels, and A'. A' is a copy of the panels XORed with 0x80, or the panels themselves, or rows that are packed
# for a matrix unit.
cdef struct PackedPair:
    int8_t *b
    uint8_t *a
    ptrdiff_t panel_size, block_size    # bytes


# Vectors with a value for each column of B'. Row i of A' corresponds to column i of B'. A vector that the product does
# not need is NULL.
cdef struct Terms:
    bint outer                  # True: the epilogue subtracts the terms of zero points; False: start values have them
    int64_t *sums               # sums of the columns of B'
    int32_t *row_init           # start values
    int32_t *col_init
    # For the epilogue: zero points of A' and B', and sums of the rows of A' - ao.
    int64_t *ao
    int64_t *bo
    int64_t *row_term


# One thread's memory, and the rows of cells for which the thread prepares A'.
cdef struct ThreadMemory:
    int64_t first_row, end_row
    int32_t *tile
    int8_t *scratch             # panels before they are widened


# The state of the computation. Threads share all memory except `mine`.
cdef struct Triangle:
    const Problem *g
    const TrianglePlan *p
    Form form
    Cells cells
    PackedPair packed
    Terms terms
    ThreadMemory mine
    int64_t first_block, end_block      # K blocks of the current packed block
    int32_t *partial            # sums of the earlier K blocks, [rows][columns]
    int32_t *squares            # sums of the cells on the diagonal, [bands][side][side]
    char *memory
    size_t thread_size          # bytes of `mine`


cdef bint has_same_zeros(const Problem *g) noexcept nogil:
    """Return whether each column of B has the zero point of the corresponding row of A: the zero points of A' and B'
    differ by 128."""
    cdef int64_t i
    if g.a.zero_points is NULL or g.b.zero_points is NULL:
        return g.a.zero_points is NULL and g.b.zero_points is NULL and g.a.zero_point == g.b.zero_point + SHIFT
    for i in range(g.m):
        if g.a.zero_points[i] != g.b.zero_points[i] + SHIFT:
            return False
    return True


cdef bint is_gram(const Problem *g) noexcept nogil:
    """Return whether B is A.T: the same bytes in the same memory, read as the same type, with the same zero points."""
    return (
        g.m == g.n and g.a.data == g.b.data and g.a.row == g.b.column and g.a.column == g.b.row
        and (g.a.sign_flip ^ g.b.sign_flip) == SIGN_BIT and g.panels.data is NULL and has_same_zeros(g)
    )


cdef int64_t least_mirrored_k(const Problem *g) noexcept nogil:
    """Return the smallest k for which mirroring a triangle is faster than computing all of C."""
    if g.m * g.n * c_element_bytes(g) > LARGE_C:
        return MIRRORED_LARGE_WIDENED_K if g.kernels.gemm.exact == I8_DOT2 else MIRRORED_LARGE_K
    if g.kernels.gemm.exact == I8_DOT2:
        return MIRRORED_WIDENED_K
    return MIRRORED_ROWS_K if g.a.column == 1 else MIRRORED_COLUMNS_K


cdef bint pays_for_whole(const Problem *g) noexcept nogil:
    """Return whether a triangle and its mirror take less time than all of C."""
    if g.m < WHOLE_ROWS or g.k < least_mirrored_k(g):
        return False
    if matrix_of(g) is not NULL and g.k < MIRRORED_MATRIX_K:
        return False
    if is_tiny(g):
        # The path `tiny` is slower than this path if columns of A are contiguous and rows are not, because the path
        # `tiny` packs A for each tile.
        return g.a.column != 1 or g.kernels.gemm.exact == I8_DOT2
    return g.threads == 1 or <double>g.m * g.n * g.k >= SHARED_WORK


cdef bint takes_triangle(const Problem *g, const Plan *p) noexcept nogil:
    """Return whether the path takes the problem: C is a triangle, or a triangle and its mirror. For a mirror, all bits
    of the product must be symmetric, and beta must be 0.

    With numerics="saturating" a product is not symmetric, because saturation depends on which operand was shifted.
    """
    if g.c.half != WHOLE:
        return not is_tiny_triangle(g)
    return (
        pays_for_whole(g) and is_gram(g) and not g.saturating
        and not is_quantized(g) and g.epilogue.beta == 0
        and not has_row_offset(g) and g.epilogue.co_cols is NULL
    )


cdef bint widens(const Problem *g) noexcept nogil:
    """Return whether the operands are widened to s16."""
    return g.kernels.gemm.exact == I8_DOT2 and not g.saturating and g.known.spread == 0


cdef void choose_dot(const Problem *g, Triangle *t) noexcept nogil:
    """Choose the multiply-add, and the number of groups that it adds in s16."""
    t.form.dot, t.form.small_groups = I8_DOT4_SAT if g.saturating else g.kernels.gemm.exact, 0
    if g.known.spread != 0:
        t.form.dot = small_triangle_dot(g, &t.form.small_groups)


cdef bint stores_sums(const Problem *g, const TrianglePlan *p) noexcept nogil:
    """Return whether micro-kernels may keep sums in C from one K block to the next. An upper triangle needs whole
    panels."""
    return p.common.from_registers and (p.k_blocks == 1 or g.c.half != UPPER or g.n % I8_PANEL == 0)


cdef const i8_matrix *matrix_of_triangle(const Problem *g) noexcept nogil:
    """Return the matrix unit, or NULL if the CPU has no matrix unit or A has too few rows for the registers of the
    unit."""
    return matrix_of(g) if g.n >= I8_MATRIX_ROWS else NULL


cdef void plan_triangle(const Problem *g, Plan *plan) noexcept nogil:
    """Choose the blocks and the number of threads."""
    cdef TrianglePlan *p = <TrianglePlan *>plan
    cdef int size = sizeof(int16_t) if widens(g) else sizeof(int8_t)
    cdef double bands, cells
    cdef int64_t k = round_up(g.k, I8_GROUP)
    find_facts(g, plan)
    p.mr, p.np, p.matrix = g.kernels.gemm.mr, g.kernels.gemm.np, matrix_of_triangle(g)
    p.panels = ceil_div(g.n, I8_PANEL)
    p.grid_np, p.nc = 1, p.panels
    if p.matrix is not NULL:
        # Compute one row of tiles at a time. The A of the row stays in the L1 cache, and a block of B stays in the L2
        # cache.
        p.mr, p.np = p.matrix.mr, p.matrix.np
        p.kc = even_size(k, p.matrix.kc, I8_MATRIX_K)
        p.mc, p.grid_np = p.mr, p.np
    else:
        # A panel of rows fits half of the L1 cache, and a block of panels fits a quarter of the L2 cache.
        p.kc = even_size(k, max(<int64_t>I8_PANEL, g.machine.l1 // 2 // (I8_PANEL * size)), I8_GROUP)
        p.mc = max(<int64_t>1, g.machine.l2 // 4 // (I8_PANEL * size * p.kc)) * I8_PANEL
    p.k_blocks = max(1, ceil_div(k, p.kc))
    p.packed_k_blocks = max(<int64_t>1, min(p.k_blocks, PACKED_BYTES // (p.panels * 2 * I8_PANEL * p.kc)))
    if p.matrix is not NULL:
        p.nc = round_down(p.matrix.b_bytes // (I8_PANEL * p.kc * p.packed_k_blocks), p.np)
    bands = <double>ceil_div(p.panels, p.grid_np)
    cells = bands * (bands + 1) / 2
    plan.from_registers = stores_sums(g, p)
    # Each thread gets consecutive cells.
    plan.grid.rows, plan.grid.columns, plan.grid.column_parts, plan.grid.stretches = <int64_t>cells, 1, 1, True
    # One more thread saves time only for twice the work of other paths: threads synchronize twice, because each thread
    # reads panels that other threads have packed.
    plan.grid.row_parts = paid_threads(
        cells * p.grid_np * p.grid_np * I8_PANEL * I8_PANEL * (g.k + 1),
        2 * (g.kernels.tuning.thread_work if p.matrix is NULL else p.matrix.thread_work), min(<double>g.threads, cells)
    )
    p.private_panels = plan.grid.row_parts > 1 and p.matrix is NULL and p.panels >= OWN_PANELS * plan.grid.row_parts
    # The path `triangle` has only sums in s32, so the driver divides a long K into segments.
    divide_k(g, plan, True, FEW_CELLS)


cdef void carve_packed(const Problem *g, const TrianglePlan *p, Triangle *t, char **memory) noexcept nogil:
    """Place A', B', their sums and their zero-point terms in `memory`."""
    cdef int64_t columns = p.panels * I8_PANEL
    # If A' and B' are not the same bytes, they differ by 128, so A' or B' has a zero point.
    cdef bint has_zeros = not t.form.shares_panels or g.b.zero_points is not NULL or g.b.zero_point + t.form.shift != 0
    t.packed.b = <int8_t *>carve(memory, p.packed_k_blocks * t.packed.block_size)
    t.packed.a = <uint8_t *>t.packed.b
    if not t.form.shares_panels:
        t.packed.a = <uint8_t *>carve(memory, p.packed_k_blocks * t.packed.block_size)
    t.terms.sums = <int64_t *>carve(memory, 8 * columns if has_zeros else 0)
    t.terms.row_init = <int32_t *>carve(memory, 4 * columns if has_zeros and not t.terms.outer else 0)
    t.terms.col_init = <int32_t *>carve(memory, 4 * columns if has_zeros and not t.terms.outer else 0)
    t.terms.ao = <int64_t *>carve(memory, 8 * columns if has_zeros and t.terms.outer else 0)
    t.terms.bo = <int64_t *>carve(memory, 8 * columns if has_zeros and t.terms.outer else 0)
    t.terms.row_term = <int64_t *>carve(memory, 8 * columns if has_zeros and t.terms.outer else 0)


cdef char *lay_out(const Problem *g, const TrianglePlan *p, Triangle *t, char *memory, int thread) noexcept nogil:
    """Set the pointers of `t` for one thread, and the size of the thread's memory. Return the memory's end."""
    cdef int64_t columns = p.panels * I8_PANEL
    cdef char *start
    t.terms.outer = g.b.zero_points is not NULL
    t.form.shares_panels = widens(g) or g.known.spread != 0
    t.form.flip = g.b.sign_flip if g.known.spread == 0 else g.a.sign_flip
    t.form.shift = 0 if g.known.spread == 0 else SHIFT - g.known.lowest
    t.cells.panels, t.cells.side, t.cells.tile_cells = p.grid_np, p.grid_np * I8_PANEL, p.np // p.grid_np
    t.cells.bands = ceil_div(p.panels, t.cells.panels)
    t.packed.panel_size = round_up(p.kc, I8_GROUP) * I8_PANEL * (2 if widens(g) else 1) + ALIGNMENT
    t.packed.block_size = t.cells.bands * t.cells.panels * t.packed.panel_size
    t.squares = <int32_t *>carve(&memory, 4 * t.cells.bands * t.cells.side * t.cells.side)
    t.partial = <int32_t *>carve(
        &memory, 4 * columns * columns if p.k_blocks > 1 and not p.common.from_registers else 0)
    if not p.private_panels:
        carve_packed(g, p, t, &memory)
    memory += t.thread_size * thread
    start = memory
    if p.private_panels:
        carve_packed(g, p, t, &memory)
    t.mine.tile = <int32_t *>carve(&memory, 4 * t.cells.side * I8_PANEL * p.np)
    t.mine.scratch = <int8_t *>carve(&memory, round_up(p.kc, I8_GROUP) * PACK_PANELS * I8_PANEL if widens(g) else 0)
    t.thread_size = memory - start
    return memory


cdef size_t bytes_of_call(const Problem *g, const TrianglePlan *p) noexcept nogil:
    """Return the size of the memory that the call acquires."""
    cdef Triangle t
    cdef char *end
    t.thread_size = 0
    end = lay_out(g, p, &t, <char *>ALIGNMENT, 0)
    return end - <char *>ALIGNMENT + t.thread_size * (p.common.grid.row_parts - 1)


cdef inline int64_t cells_before(const Triangle *t, int64_t row) noexcept nogil:
    """Return the number of cells in the rows of cells before `row`."""
    if t.g.c.half == UPPER:
        return row * t.cells.bands - row * (row - 1) // 2
    return row * (row + 1) // 2


cdef int64_t row_of(const Triangle *t, int64_t cell) noexcept nogil:
    """Return the row of cells to which a cell belongs."""
    cdef int64_t row = 0
    while cells_before(t, row + 1) <= cell:
        row += 1
    return row


cdef void start_columns(const Triangle *t, int64_t column, int64_t columns) noexcept nogil:
    """Find the start values, or the terms of zero points, for some columns of B' and the corresponding rows of A'. The
    column sums must be complete."""
    cdef const Problem *g = t.g
    cdef int64_t i, ao, bo, term
    for i in range(column, column + columns):
        bo = zero_of(&g.b, min(i, g.n - 1)) + t.form.shift
        ao = bo if t.form.shares_panels else bo + SHIFT
        # The sum of A' - ao equals the sum of B' - bo.
        term = t.terms.sums[i] - g.k * bo
        if t.terms.outer:
            t.terms.ao[i], t.terms.bo[i], t.terms.row_term[i] = ao, bo, term
        else:
            t.terms.row_init[i] = <int32_t>(-<uint32_t>bo * <uint32_t>term)
            t.terms.col_init[i] = <int32_t>(-<uint32_t>ao * <uint32_t>t.terms.sums[i])


cdef inline int rows_of(const Triangle *t, int64_t row) noexcept nogil:
    """Return the number of rows of C in a row of cells, which is also the number of columns in a column of cells."""
    return <int>min(t.cells.side, t.g.n - row * t.cells.side)


cdef void prepare_panels(const Triangle *t, int64_t panel, int64_t panels, int64_t block) noexcept nogil:
    """Pack at most PACK_PANELS panels of a block of K for both operands, and find their sums."""
    cdef const Problem *g = t.g
    cdef int64_t k0 = block * t.p.kc, k = min(t.p.kc, g.k - k0), groups = ceil_div(k, I8_GROUP), i, j
    cdef int64_t size = groups * I8_GROUP * I8_PANEL, column = panel * I8_PANEL
    cdef int64_t some[I8_PANEL]
    cdef ptrdiff_t at = (block - t.first_block) * t.packed.block_size + panel * t.packed.panel_size
    cdef ptrdiff_t step = size if widens(g) else t.packed.panel_size
    cdef int8_t *b = t.mine.scratch if widens(g) else t.packed.b + at
    if k == 0:
        return
    g.kernels.packing.pack_panels(<uint8_t *>b, step, min(panels * I8_PANEL, g.n - column), k,
                                  address(&g.b, k0, column), g.b.column, g.b.row, t.form.flip)
    for i in range(panels):
        if g.known.lowest != 0:
            g.kernels.packing.rebase(<uint8_t *>b + i * step, size, g.known.lowest)
        if t.terms.sums is not NULL:
            g.kernels.packing.panel_sums(some, b + i * step, groups)
            for j in range(I8_PANEL):
                t.terms.sums[column + i * I8_PANEL + j] += some[j]
        if widens(g):
            g.kernels.packing.widen_b(<int16_t *>(t.packed.b + at + i * t.packed.panel_size), b + i * step, groups)
        elif t.form.shares_panels or not t.mine.first_row <= (panel + i) // t.cells.panels < t.mine.end_row:
            continue
        elif t.p.matrix is NULL:
            g.kernels.packing.pack_panel(t.packed.a + at + i * t.packed.panel_size, 1, 1, size,
                                         <uint8_t *>b + i * step, 0, 1, SIGN_BIT)
        elif i % t.cells.panels == 0:
            # Beyond K, A' has zeros, so all products are 0, and B' may have any bytes.
            t.p.matrix.pack(t.packed.a + at + i * t.packed.panel_size, rows_of(t, (panel + i) // t.cells.panels), k,
                            address(&g.a, column + i * I8_PANEL, k0), g.a.row, g.a.column, g.a.sign_flip)


cdef void prepare_columns(const Triangle *t, int64_t panel, int64_t panel_end) noexcept nogil:
    """Prepare some columns of cells, in all K blocks of the packed block, and their start values."""
    cdef int64_t panels, block
    while panel < panel_end:
        panels = min(<int64_t>PACK_PANELS, panel_end - panel)
        if t.terms.sums is not NULL and t.first_block == 0:
            memset(t.terms.sums + panel * I8_PANEL, 0, panels * I8_PANEL * sizeof(int64_t))
        for block in range(t.first_block, t.end_block):
            prepare_panels(t, panel, panels, block)
        if t.terms.sums is not NULL and t.end_block == t.p.k_blocks:
            start_columns(t, panel * I8_PANEL, panels * I8_PANEL)
        panel += panels


cdef int prepare_part(const void *job, int64_t part, int64_t parts) noexcept nogil:
    """Prepare one thread's part of the panels of a packed block."""
    cdef Triangle t = (<const Triangle *>job)[0]
    cdef int64_t steps = ceil_div(t.p.panels, PACK_PANELS)
    lay_out(t.g, t.p, &t, t.memory, <int>part)
    t.mine.first_row, t.mine.end_row = 0, t.cells.bands
    prepare_columns(&t, share(steps, part, parts) * PACK_PANELS,
                    min(share(steps, part + 1, parts) * PACK_PANELS, t.p.panels))
    return 0


cdef void multiply_tiles(const Triangle *t, i8_tile_args *a, int64_t row, int64_t column, int panels, int64_t block,
                         int rows) noexcept nogil:
    """Multiply a row of cells by `panels` panels of columns, over one K block. `a` has the start values of the sums,
    and the address to store the sums to."""
    cdef int64_t number = 0, tiles = ceil_div(rows, t.p.mr), first, k = min(t.p.kc, t.g.k - block * t.p.kc)
    cdef ptrdiff_t at = (block - t.first_block) * t.packed.block_size
    cdef const uint8_t *panel_a = t.packed.a + at + row * t.cells.panels * t.packed.panel_size
    cdef i8_tile_args part = a[0]
    cdef int height
    part.b.data, part.b.panel = t.packed.b + at + column * t.cells.panels * t.packed.panel_size, t.packed.panel_size
    if t.p.matrix is not NULL:
        part.groups = ceil_div(k, I8_MATRIX_K) * (I8_MATRIX_K // I8_GROUP)
        part.rows, part.unit_rows, part.b.tail, part.ahead_step = rows, I8_MATRIX_ROWS, NULL, 0
        part.a.data, part.a.row = panel_a, I8_MATRIX_K
        part.a.group = round_up(rows, I8_MATRIX_ROWS) * I8_MATRIX_K
        t.p.matrix.tile[(rows - 1) // I8_MATRIX_ROWS][panels - 1](&part)
        return
    part.groups = ceil_div(k, I8_GROUP) * (2 if t.form.dot == I8_DOT2 else 1)
    part.a.row, part.a.group = I8_GROUP, I8_GROUP * I8_PANEL
    while number < tiles:
        part.tiles = equal_parts(rows, number, tiles, &first, &height)
        part.a.data, part.a.tile = panel_a + first * I8_GROUP, height * I8_GROUP
        part.dst = a.dst + first * a.dst_row
        part.acc_in = a.acc_in + first * a.acc_row if a.acc_in is not NULL else NULL
        part.fetch = a.fetch + first * a.fetch_row if a.fetch is not NULL else NULL
        part.row_init = a.row_init + first if a.row_init is not NULL else NULL
        t.g.kernels.gemm.tiles[t.form.dot].of[height - 1][panels - 1](&part)
        number += part.tiles


cdef void start_tile(const Triangle *t, i8_tile_args *a, int64_t row, int64_t column, bint is_last) noexcept nogil:
    """Set the arguments that all tiles share. The last K block adds the start values, which need all column sums."""
    a.more_segments = a.a.segment = a.b.segment = 0
    a.a.tail = NULL
    a.fetch = a.ahead = NULL
    a.along_n = a.sequential = 0
    a.small_groups = t.form.small_groups
    a.output = NULL
    a.row_init = t.terms.row_init + row * t.cells.side if is_last and t.terms.row_init is not NULL else NULL
    a.col_init = t.terms.col_init + column * t.cells.side if is_last and t.terms.col_init is not NULL else NULL


cdef void start_output(const Triangle *t, i8_output_args *o, int64_t row, int64_t column, int rows,
                       int cols) noexcept nogil:
    """Set up the epilogue for the sums of a cell and of the cells after it."""
    cdef const Problem *g = t.g
    memset(o, 0, sizeof(o[0]))
    set_target(g, o)
    o.rows, o.cols = rows, cols
    o.row, o.column = row * t.cells.side, column * t.cells.side
    o.c = element(&g.c, o.row, o.column)
    if t.terms.ao is not NULL:
        o.ao, o.row_term = t.terms.ao + o.row, t.terms.row_term + o.row
        o.bo, o.col_sum = t.terms.bo + o.column, t.terms.sums + o.column


cdef void multiply_row(const Triangle *t, int64_t row, int64_t column, int width, int64_t block) noexcept nogil:
    """Compute `width` cells along N. No cell is on the diagonal."""
    cdef const Problem *g = t.g
    cdef const TrianglePlan *p = t.p
    cdef bint is_first = block == 0, is_last = block == p.k_blocks - 1
    cdef int64_t all_columns = p.panels * I8_PANEL, at = (row * all_columns + column) * t.cells.side
    cdef int rows = rows_of(t, row), cols = <int>min(width * t.cells.side, g.n - column * t.cells.side), i
    cdef int panels = <int>ceil_div(cols, I8_PANEL)
    cdef char *c = element(&g.c, row * t.cells.side, column * t.cells.side)
    cdef char *line
    cdef i8_tile_args a
    cdef i8_output_args o
    start_tile(t, &a, row, column, is_last)
    a.dst, a.dst_row, a.cols = t.mine.tile, panels * I8_PANEL, panels * I8_PANEL
    a.acc_in, a.acc_row = NULL, all_columns
    if p.common.from_registers:
        a.dst, a.dst_row, a.cols = <int32_t *>c, g.c.row // <ptrdiff_t>sizeof(int32_t), cols
        a.acc_in, a.acc_row = NULL if is_first else a.dst, a.dst_row
    elif t.partial is not NULL:
        a.acc_in = NULL if is_first else t.partial + at
        if not is_last:
            a.dst, a.dst_row = t.partial + at, all_columns
    if p.common.from_registers and is_last:
        a.fetch, a.fetch_row = c, g.c.row
        if g.c.half == WHOLE:
            for i in range(cols):
                line = element(&g.c, column * t.cells.side + i, row * t.cells.side)
                I8_PREFETCH_WRITE(line)
                if rows > I8_PANEL:
                    I8_PREFETCH_WRITE(line + I8_PANEL * g.c.column)
    multiply_tiles(t, &a, row, column, panels, block, rows)
    if not is_last:
        return
    if p.common.from_registers:
        return
    start_output(t, &o, row, column, rows, cols)
    o.acc32, o.acc_row = t.mine.tile, panels * I8_PANEL
    g.kernels.stage.output(&o)
    if g.c.half == WHOLE:
        o.c, o.c_row, o.c_col = o.c + (column - row) * t.cells.side * (g.c.row - g.c.column), g.c.column, g.c.row
        g.kernels.stage.output(&o)


cdef void mirror(const Triangle *t, int64_t row, int64_t row_end, int64_t column, int64_t column_end) noexcept nogil:
    """Copy rows of cells below the diagonal of C to the columns above the diagonal."""
    cdef const Problem *g = t.g
    cdef int64_t first = row * t.cells.side, left = column * t.cells.side
    g.kernels.stage.transpose_store(
        element(&g.c, left, first), g.c.column, g.c.row, element(&g.c, first, left), g.c.row,
        <int>(min(row_end * t.cells.side, g.n) - first), <int>((column_end - column) * t.cells.side), sizeof(int32_t))


cdef void multiply_square(const Triangle *t, int64_t row, int64_t block) noexcept nogil:
    """Compute a cell on the diagonal, and store the elements that belong to C."""
    cdef const Problem *g = t.g
    cdef const TrianglePlan *p = t.p
    cdef bint is_first = block == 0, is_last = block == p.k_blocks - 1
    cdef int rows = rows_of(t, row), i, first, end, panels = <int>ceil_div(rows, I8_PANEL)
    cdef int32_t *sums = t.squares + row * t.cells.side * t.cells.side
    cdef i8_tile_args a
    cdef i8_output_args o, part
    start_tile(t, &a, row, row, is_last)
    a.dst = sums
    a.acc_in = NULL if is_first else sums
    a.dst_row = a.acc_row = a.cols = panels * I8_PANEL
    multiply_tiles(t, &a, row, row, panels, block, rows)
    if not is_last:
        return
    start_output(t, &o, row, row, rows, rows)
    o.acc32, o.acc_row = sums, a.cols
    if g.c.half == WHOLE:
        g.kernels.stage.output(&o)
        return
    for i in range(rows):
        first = i if g.c.half == UPPER else 0
        end = rows if g.c.half == UPPER else i + 1
        if p.common.from_registers:
            memcpy(o.c + i * g.c.row + first * g.c.column, sums + i * a.cols + first, (end - first) * sizeof(int32_t))
            continue
        i8_set_part(&part, &o, i, first, 1, end - first)
        g.kernels.stage.output(&part)


cdef void multiply_rows(const Triangle *t, int64_t row, int64_t end, int64_t column, int64_t column_end,
                        int64_t block) noexcept nogil:
    """Compute the cells of a block of rows that are in the triangle, over one K block."""
    cdef bint upper = t.g.c.half == UPPER
    cdef bint mirrors = t.g.c.half == WHOLE and t.p.common.from_registers and block == t.p.k_blocks - 1
    cdef int64_t tile = max(column, row) if upper else column, i, first, last
    while tile < (column_end if upper else min(column_end, end)):
        for i in range(row if upper else max(row, tile), min(end, tile + t.cells.tile_cells) if upper else end):
            first, last = tile, min(tile + t.cells.tile_cells, column_end)
            if upper and first <= i:
                first = i + 1
                multiply_square(t, i, block)
            elif not upper and last > i:
                last = i
                multiply_square(t, i, block)
            if first < last:
                multiply_row(t, i, first, <int>(last - first), block)
                if mirrors and i < tile + t.cells.tile_cells:
                    mirror(t, i, i + 1, first, last)
        if mirrors and max(row, tile + t.cells.tile_cells) < end:
            mirror(t, max(row, tile + t.cells.tile_cells), end, tile, min(tile + t.cells.tile_cells, column_end))
        tile += t.cells.tile_cells


cdef void multiply_area(const Triangle *t, int64_t row, int64_t row_end, int64_t column, int64_t column_end,
                        int64_t block, int64_t block_end) noexcept nogil:
    """Compute the cells of a rectangle that are in the triangle, over some K blocks."""
    cdef int64_t top, bottom, right, i
    while column < column_end:
        right = min(column + t.p.nc // t.cells.panels, column_end)
        top = row
        while top < row_end:
            bottom = min(top + t.p.mc // t.cells.side, row_end)
            for i in range(block, block_end):
                multiply_rows(t, top, bottom, column, right, i)
            top = bottom
        column = right


cdef void multiply_stretch(const Triangle *t, int64_t first, int64_t end, int64_t block,
                           int64_t block_end) noexcept nogil:
    """Compute consecutive cells: the rest of a row, whole rows, and the beginning of a row."""
    cdef int64_t row = row_of(t, first), row_end, column, count
    while first < end:
        row_end = row
        if first == cells_before(t, row):
            while row_end < t.cells.bands and cells_before(t, row_end + 1) <= end:
                row_end += 1
        if row_end > row:
            multiply_area(t, row, row_end, 0, t.cells.bands, block, block_end)
        else:
            count = min(end, cells_before(t, row + 1)) - first
            column = first - cells_before(t, row) + (row if t.g.c.half == UPPER else 0)
            multiply_area(t, row, row + 1, column, column + count, block, block_end)
            row_end = row if first + count < cells_before(t, row + 1) else row + 1
            first += count
            row = row_end
            continue
        row = row_end
        first = cells_before(t, row)


cdef void multiply_block(const Triangle *t, int64_t part, int64_t parts) noexcept nogil:
    """Compute one thread's cells over the K blocks of a packed block, block by block. A matrix unit reads its sums so
    often that they must stay in a cache: it computes all K blocks of a row of cells before the next row."""
    cdef int64_t block = t.first_block, cells = cells_before(t, t.cells.bands)
    cdef int64_t step = 1 if t.p.matrix is NULL else t.end_block - t.first_block
    if t.p.matrix is not NULL:
        t.p.matrix.enter(I8_MATRIX_ROWS)
    while block < t.end_block:
        multiply_stretch(t, share(cells, part, parts), share(cells, part + 1, parts), block, block + step)
        block += step
    if t.p.matrix is not NULL:
        t.p.matrix.leave()


cdef int multiply_cells(const void *job, int64_t part, int64_t parts) noexcept nogil:
    """Compute one thread's cells over a packed block."""
    cdef Triangle t = (<const Triangle *>job)[0]
    lay_out(t.g, t.p, &t, t.memory, <int>part)
    multiply_block(&t, part, parts)
    return 0


cdef bint next_block(Triangle *t) noexcept nogil:
    """Go to the next packed block. Return whether there is a next block."""
    t.first_block = t.end_block
    t.end_block = min(t.first_block + t.p.packed_k_blocks, t.p.k_blocks)
    return t.first_block < t.end_block


cdef int own_part(const void *job, int64_t part, int64_t parts) noexcept nogil:
    """Compute one thread's cells over all of K, from panels that it packs itself."""
    cdef Triangle t = (<const Triangle *>job)[0]
    cdef int64_t cells, first
    lay_out(t.g, t.p, &t, t.memory, <int>part)
    cells = cells_before(&t, t.cells.bands)
    first = share(cells, part, parts)
    t.mine.first_row = row_of(&t, first)
    t.mine.end_row = row_of(&t, share(cells, part + 1, parts) - 1) + 1
    while next_block(&t):
        prepare_columns(&t, t.mine.first_row if t.g.c.half == UPPER else 0,
                        t.cells.bands if t.g.c.half == UPPER else t.mine.end_row)
        multiply_block(&t, part, parts)
    return 0


cdef int run_triangle(const Problem *g, const Plan *plan) noexcept nogil:
    """Compute a planned problem. Return 0, or -1 if there is no memory."""
    cdef const TrianglePlan *p = <const TrianglePlan *>plan
    cdef Triangle t
    cdef int parts = plan.grid.row_parts
    t.g, t.p = g, p
    choose_dot(g, &t)
    t.thread_size = 0
    lay_out(g, p, &t, <char *>ALIGNMENT, 0)  # this call only computes sizes
    t.memory = <char *>acquire(bytes_of_call(g, p))
    if t.memory is NULL:
        return -1
    t.end_block = 0
    if p.private_panels:
        parallel_for(own_part, &t, parts, parts)
    else:
        while next_block(&t):
            two_phase_parallel_for(prepare_part, parts, multiply_cells, parts, &t, parts)
    release(t.memory)
    return 0


cdef void describe_triangle(const Problem *g, const Plan *plan, Description *d) noexcept nogil:
    """Describe the plan: the sizes of a tile and of blocks. The memory that the description gives for each thread
    includes memory that all threads share."""
    cdef const TrianglePlan *p = <const TrianglePlan *>plan
    d.tile[0], d.tile[1] = 1 if g.m == 1 else p.mr, p.np * I8_PANEL
    d.block[0], d.block[1], d.block[2] = p.mc, p.nc * I8_PANEL, p.kc
    d.workspace = bytes_of_call(g, p) // planned_threads(plan)
    d.may_widen = widens(g)


cdef Path path = Path(
    name=b"triangle", summary=b"B is A.T, so one triangle of C is computed, from panels that serve both, and mirrored",
    by_size=True, names_kernel=False, sums_any_k=False,
    takes=takes_triangle, specialize=rebase_triangle, plan=plan_triangle, run=run_triangle, describe=describe_triangle)
PATH = as_capsule(&path, sizeof(TrianglePlan))
