"""Few rows of A times a plain, C-ordered B. The path reads B in place, because packing would take longer than the
product (csrc/gemm/few_rows_body.h).

The path reads B along its rows, a few groups of rows side by side. The sums of some blocks of columns stay in the
cache::

    multiply_piece  some tiles of rows and blocks of columns
      for some blocks at a time:
        for a few groups of k at a time:
          for each block:           first copy it, if its rows would evict one another from the cache
            for each tile of rows:  the row kernel
        for each block: store the sums to C

Blocks begin at cache lines if all rows of B have the same alignment. The first and the last block may overlap their
neighbours, but each block stores only its own columns.

The path `few_rows` can compute every problem with exact numerics and 32-bit sums. A zero point of A needs the column
sums of B. The column sums are the product of a row of ones and B, so the path adds this row to A. If A has a single row
and the kernel splits bytes into halves, the path needs no column sums, because it subtracts the zero point from the
row.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uintptr_t
from libc.string cimport memcpy, memset

from int8blas.core.kernels cimport (
    I8_A_UNSIGNED, I8_B_UNSIGNED, I8_CHUNK, I8_GROUP, I8_MAX_COLUMNS, I8_MAX_FEW_ROWS, i8_output_args, i8_few_rows_args)
from int8blas.core.memory cimport ALIGNMENT, acquire, carve, release
from int8blas.core.split cimport (
    MAX_PIECES, Piece, ceil_div, drop_idle_parts, part_count, pieces_of, round_up, share, split)
from int8blas.core.threads cimport two_phase_parallel_for
from int8blas.gemm.operand cimport SHIFT, address, zero_of
from int8blas.gemm.output cimport output
from int8blas.gemm.path cimport Description, Path, Plan, as_capsule, divide_long_k, needs_blocks
from int8blas.gemm.problem cimport Problem, busy_threads, cached_b_bytes, find_row_terms, least_work

cdef enum:
    # If the distance between rows of B is a multiple of CONFLICT_BYTES, rows evict one another from an L1 cache with 8
    # or 12 ways.
    CONFLICT_BYTES = 2048
    # The last block of columns is a whole block, so it begins earlier and repeats columns of the previous block. If A
    # has more rows than one row kernel takes, the path takes the problem only if at most 1/REPEATED of the columns are
    # repeated.
    REPEATED = 8
    MIN_ROWS_K = 64
    STAGED_BYTES = 256          # bytes that are copied of each row
    # The kernel reads ROWS_GROUPS groups of rows of B side by side, or UNCACHED_GROUPS groups of an uncached B, because
    # DRAM delivers few long streams faster. AHEAD is the prefetch distance in bytes. For up to GEMV_ROWS rows of A, the
    # kernel reads GEMV_GROUPS groups of an uncached B at the distance GEMV_AHEAD, and does not prefetch a cached B. The
    # sums that wait for further groups take at most ROWS_SUMS_BYTES bytes, and at most 1/16 of the L2 cache.
    #
    # Times of one thread of Zen 5 (AVX512-VNNI), in us:
    #   ROWS_GROUPS      4 x 1024 x 1024:    8 19.2, 32 16.0, 128 17.8
    #   UNCACHED_GROUPS  4 x 16384 x 8192:   4 7390, 16 6210, 64 6730
    #   GEMV_ROWS        2 x 2048 x 2048:    0 67.8, 2 67.1, 4 70.2;  4 x 2048 x 2048:  2 84.2, 4 93.8
    #   GEMV_GROUPS      1 x 2048 x 2048:    1 69.2, 2 58.1, 4 54.1, 8 55.7;  2 x 4096 x 4096:  2 699, 4 475, 8 532
    #   AHEAD            4 x 2048 x 2048:    0 102, 128 84.7, 512 96.7;  4 x 16384 x 8192:  0 8210, 128 6260, 512 7180
    #   GEMV_AHEAD       1 x 16384 x 8192:   0 5460, 256 5270, 1024 5370, 4096 5750
    #   ROWS_SUMS_BYTES  4 x 4096 x 4096:    8 KiB 654, 64 KiB 446, 1 MiB 435
    ROWS_GROUPS = 32
    UNCACHED_GROUPS = 16
    GEMV_ROWS = 2
    GEMV_GROUPS = 4
    AHEAD = 128
    GEMV_AHEAD = 1024
    ROWS_SUMS_BYTES = 1 << 16
    # From ALIGNED_BLOCKS blocks on, one more block for alignment takes little time. From LONG_BLOCKS blocks on, a row
    # is a long stream.
    ALIGNED_BLOCKS = 16
    LONG_BLOCKS = 16


cdef struct FewRowsPlan:
    Plan common
    bint row_of_ones            # A gets a row of ones, for column sums of B
    bint centered               # A has a single row, and the path subtracts the zero point from it before the product
    bint staged                 # the path copies rows of B before it multiplies them
    int64_t head                # columns before the first aligned block
    int64_t ahead               # i8_few_rows_args.ahead
    int64_t kc                  # number of rows of B that are read side by side
    int64_t blocks              # blocks of a row kernel's columns in N
    int64_t nc                  # blocks whose sums are kept at a time


cdef bint takes_few_rows(const Problem *g, const Plan *p) noexcept nogil:
    """Return whether B can be read in place: A has few rows, and rows of B are contiguous."""
    cdef int64_t width = g.kernels.gemm.few_rows.columns, repeated
    if (g.panels.data is not NULL or g.b.column != 1 or g.m > g.kernels.tuning.few_rows_limit or g.n < width
            or needs_blocks(g, p)):
        return False
    if g.m <= g.kernels.gemm.few_rows.mr:
        return True
    repeated = round_up(g.n, width) - g.n
    return repeated * REPEATED <= g.n and g.k >= MIN_ROWS_K and g.b.row % CONFLICT_BYTES != 0


cdef void plan_few_rows(const Problem *g, Plan *plan) noexcept nogil:
    """Choose the blocks and the number of threads."""
    cdef FewRowsPlan *p = <FewRowsPlan *>plan
    cdef bint shifted = g.a.sign_flip != 0
    p.row_of_ones = g.a.zero_points is not NULL or g.a.zero_point != (SHIFT if shifted else 0)
    p.centered = (
        p.row_of_ones and g.m == 1 and g.kernels.gemm.few_rows.halve_centered is not NULL
        and 0 <= zero_of(&g.a, 0) <= 255
    )
    p.row_of_ones = p.row_of_ones and not p.centered
    plan.from_registers = plan.from_registers and plan.identity and not p.row_of_ones
    cdef int64_t rows = g.m + p.row_of_ones
    cdef int64_t tiles = ceil_div(rows, g.kernels.gemm.few_rows.mr), width = g.kernels.gemm.few_rows.columns
    cdef int64_t threads = busy_threads(g, least_work(g), g.n)
    cdef bint uncached = g.n * g.k > cached_b_bytes(g) * threads, stores_often
    # A row of a block is one cache line or half a cache line.
    p.head = 0
    if g.b.row % width == 0 and g.n >= ALIGNED_BLOCKS * width:
        p.head = <int64_t>(-<uintptr_t>g.b.data % <uintptr_t>width)
    p.blocks = (p.head > 0) + ceil_div(g.n - p.head, width)
    split(1 if p.row_of_ones else tiles, p.blocks, threads, True, &plan.grid)
    drop_idle_parts(&plan.grid)
    # With many rows of A, the kernels read each line of B more than once, so a copy in the L1 cache saves time.
    p.staged = g.b.row % CONFLICT_BYTES == 0 and rows > g.kernels.gemm.few_rows.mr // 2
    p.ahead = AHEAD
    p.kc = I8_GROUP * (UNCACHED_GROUPS if uncached or p.staged else ROWS_GROUPS)
    if g.m <= GEMV_ROWS:
        p.ahead = GEMV_AHEAD if uncached else 0
        # Kernels with `halve_row` store their sums after a few groups for any `kc`. Rows of B of LONG_BLOCKS blocks or
        # more speed up kernels with `halve_row`, even for a cached B.
        stores_often = rows == 1 and g.kernels.gemm.few_rows.halve_row is not NULL and p.blocks >= LONG_BLOCKS
        p.kc = I8_GROUP * (GEMV_GROUPS if uncached or stores_often else ROWS_GROUPS)
    p.nc = min(<int64_t>ROWS_SUMS_BYTES, g.machine.l2 // 16) // (4 * rows * width)
    p.nc = min(ceil_div(p.blocks, plan.grid.column_parts), max(<int64_t>4, p.nc))
    divide_long_k(g, plan)


# The state that all parts share.
cdef struct Rows:
    # The kernels read A without a shift. If A is s8, B is therefore the u8 operand, and the zero points differ by 128.
    int unsigned_operand
    uint8_t b_flip
    int64_t shift               # added to the zero points of A, subtracted from the zero points of B
    int64_t rows, tiles         # rows of A, including the row of ones, and their tiles
    int64_t groups              # groups of 4 k
    int group                   # bytes of a group in a packed row
    uint8_t *a                  # packed, tile by tile
    int32_t *offsets            # for each row, the term of the zero point that all of B shares
    int64_t *ao                 # NULL, or zero points of the rows of A in the form that the kernels read
    int64_t *bo                 # NULL, or zero points of the columns of B in the form that the kernels read
    int64_t *row_term           # NULL, or sums of the rows of A - ao, which are multiplied by bo
    # The memory of one part:
    int32_t *sums
    uint8_t *staged


cdef struct RowsJob:
    const Problem *g
    const FewRowsPlan *p
    Rows shared


cdef size_t lay_out(const Problem *g, const FewRowsPlan *p, Rows *w, char *memory) noexcept nogil:
    """Set the pointers of `w` into `memory`, and return the bytes that the arrays take."""
    cdef char *start = memory
    cdef int64_t parts = part_count(&p.common.grid)
    w.a = <uint8_t *>carve(&memory, w.rows * w.groups * w.group)
    w.offsets = <int32_t *>carve(&memory, 4 * w.rows)
    w.row_term = <int64_t *>carve(&memory, 8 * w.rows)
    w.ao = <int64_t *>carve(&memory, 8 * w.rows if w.rows > g.m else 0)
    w.bo = <int64_t *>carve(&memory, 8 * g.n if g.b.zero_points is not NULL else 0)
    w.sums = <int32_t *>carve(&memory, 4 * parts * w.rows * p.nc * g.kernels.gemm.few_rows.columns)
    w.staged = <uint8_t *>carve(&memory, parts * STAGED_BYTES * p.kc if p.staged else 0)
    return memory - start


cdef int pack_tile(const void *job, int64_t tile, int64_t _tiles) noexcept nogil:
    """Pack one tile of rows of A, and find the terms of its zero points."""
    cdef const Problem *g = (<const RowsJob *>job).g
    cdef const FewRowsPlan *p = (<const RowsJob *>job).p
    cdef const Rows *w = &(<const RowsJob *>job).shared
    cdef int64_t row = share(w.rows, tile, w.tiles), end = share(w.rows, tile + 1, w.tiles), i, k
    cdef int64_t own = min(end, g.m) - row
    cdef int height = <int>(end - row)
    cdef uint8_t *halved = w.a + row * w.groups * w.group
    # If the kernel splits bytes into halves, pack the tile to the second half of its memory, so that splitting fills
    # both halves.
    cdef uint8_t *a = halved + height * w.groups * (w.group - I8_GROUP)
    g.kernels.packing.pack_panel(a, height, <int>own, g.k, address(&g.a, row, 0), g.a.row, g.a.column, 0)
    if own < height:
        for k in range(g.k):
            a[(k // I8_GROUP * height + own) * I8_GROUP + k % I8_GROUP] = 1
        w.offsets[g.m] = 0
    if p.centered:
        g.kernels.gemm.few_rows.halve_centered(
            halved, a, g.k, g.a.sign_flip == 0, <int32_t>(zero_of(&g.a, 0) - g.a.sign_flip))
    elif w.group > I8_GROUP:
        g.kernels.gemm.few_rows.halve_row(halved, a, w.groups, w.unsigned_operand == I8_A_UNSIGNED)
    if g.b.zero_point + w.shift == 0 and w.bo is NULL:
        memset(w.offsets + row, 0, own * sizeof(int32_t))
    else:
        find_row_terms(g, row, own, w.row_term + row)
        for i in range(row, row + own):
            w.offsets[i] = 0
            if w.bo is NULL:
                w.offsets[i] = <int32_t>(<uint32_t>-(g.b.zero_point + w.shift) * <uint32_t>w.row_term[i])
    if w.ao is not NULL:
        for i in range(row, row + own):
            w.ao[i] = zero_of(&g.a, i) - w.shift
    return 0


cdef void multiply(const Problem *g, const Rows *w, i8_few_rows_args *t, int64_t group, int64_t tile, int64_t tile_end,
                   int32_t *sums) noexcept nogil:
    """Multiply tiles of rows by the groups and the blocks of columns in `t`."""
    cdef int64_t row, height
    for tile in range(tile, tile_end):
        row = share(w.rows, tile, w.tiles)
        height = share(w.rows, tile + 1, w.tiles) - row
        t.a = w.a + w.group * (row * w.groups + group * height)
        t.a_group = w.group * height
        t.acc = sums + row * t.acc_row
        g.kernels.gemm.few_rows.of[w.unsigned_operand][height - 1](t)


cdef int64_t own_column(const Problem *g, const FewRowsPlan *p, int64_t block) noexcept nogil:
    """Return the first column that a block stores. A block stores all columns up to the first column of the next
    block."""
    return 0 if block == 0 else min(p.head + (block - (p.head > 0)) * g.kernels.gemm.few_rows.columns, g.n)


cdef int64_t read_column(const Problem *g, const FewRowsPlan *p, int64_t block) noexcept nogil:
    """Return the first column that a block reads."""
    return min(own_column(g, p, block), g.n - g.kernels.gemm.few_rows.columns)


cdef void store_block(const Problem *g, const FewRowsPlan *p, const Rows *w, const int32_t *sums, int64_t block,
                      int64_t row, int64_t row_end) noexcept nogil:
    """Store the finished sums of one block of columns to rows [row, row_end) of C."""
    cdef int width = g.kernels.gemm.few_rows.columns
    cdef int64_t column = own_column(g, p, block), i, r
    cdef int start = <int>(column - read_column(g, p, block)), height
    cdef int columns = <int>(own_column(g, p, block + 1) - column)
    cdef int32_t tile[I8_MAX_FEW_ROWS * I8_MAX_COLUMNS + I8_CHUNK]
    cdef int64_t col_sum[I8_MAX_COLUMNS + I8_CHUNK]
    cdef i8_output_args o
    if p.common.from_registers:
        for i in range(row, row_end):
            if columns == width:
                g.kernels.gemm.few_rows.store_rows(
                    <int32_t *>(g.c.data + i * g.c.row) + column, sums + i * width, w.offsets[i])
            else:
                g.kernels.gemm.few_rows.store_rows(tile, sums + i * width, w.offsets[i])
                memcpy(<int32_t *>(g.c.data + i * g.c.row) + column, tile + start, columns * sizeof(int32_t))
        return
    memset(&o, 0, sizeof(o))
    if w.ao is not NULL:
        g.kernels.gemm.few_rows.store_rows(tile, sums + g.m * width, 0)
        for i in range(width):
            col_sum[i] = tile[i]
        o.col_sum = col_sum + start
    if w.bo is not NULL:
        o.bo = w.bo + column
    r = row
    while r < row_end:
        height = <int>min(<int64_t>I8_MAX_FEW_ROWS, row_end - r)
        for i in range(height):
            g.kernels.gemm.few_rows.store_rows(tile + i * width, sums + (r + i) * width, w.offsets[r + i])
        if w.ao is not NULL:
            o.ao = w.ao + r
        if w.bo is not NULL:
            o.row_term = w.row_term + r
        output(g, &o, tile + start, height, columns, width, r, column)
        r += height


cdef void multiply_piece(const Problem *g, const FewRowsPlan *p, const Rows *w, int64_t tile, int64_t tile_end,
                         int64_t first, int64_t end) noexcept nogil:
    """Multiply some tiles of rows by blocks of columns from `first` to `end`."""
    cdef int64_t width = g.kernels.gemm.few_rows.columns
    cdef int64_t row = share(w.rows, tile, w.tiles), row_end = min(share(w.rows, tile_end, w.tiles), g.m)
    cdef int64_t whole = 1 if p.head else 0, whole_end = whole + (g.n - p.head) // width
    cdef int64_t together = STAGED_BYTES // width if p.staged else p.nc
    cdef int64_t last, block, count, group, step = p.kc // I8_GROUP
    cdef i8_few_rows_args t
    t.b_flip = <uint32_t>0x01010101 * w.b_flip
    t.acc_row, t.acc_block = width, w.rows * width
    t.centered = p.centered
    t.ahead = p.ahead
    while first < end:
        last = min(first + p.nc, end)
        group = 0
        while group < w.groups:
            t.first = group == 0
            t.groups = min(step, g.k // I8_GROUP - group)
            t.b_tail = <int>(g.k % I8_GROUP) if group + step >= w.groups else 0
            block = first
            while block < last:
                count = 1 if block < whole or block >= whole_end else min(together, min(last, whole_end) - block)
                t.b = g.b.data + I8_GROUP * group * g.b.row + read_column(g, p, block)
                t.b_row = g.b.row
                t.blocks = count
                if p.staged:
                    t.b_row = count * width
                    g.kernels.gemm.few_rows.copy_rows(
                        w.staged, count * width, I8_GROUP * t.groups + t.b_tail, t.b, g.b.row)
                    t.b = w.staged
                multiply(g, w, &t, group, tile, tile_end, w.sums + (block - first) * t.acc_block)
                block += count
            group += step
        for block in range(first, last):
            store_block(g, p, w, w.sums + (block - first) * t.acc_block, block, row, row_end)
        first = last


cdef int rows_part(const void *job, int64_t part, int64_t _parts) noexcept nogil:
    """Multiply one thread's pieces of the grid."""
    cdef const Problem *g = (<const RowsJob *>job).g
    cdef const FewRowsPlan *p = (<const RowsJob *>job).p
    cdef Rows w = (<const RowsJob *>job).shared
    cdef Piece pieces[MAX_PIECES]
    cdef int i
    w.sums += part * w.rows * p.nc * g.kernels.gemm.few_rows.columns
    w.staged += part * STAGED_BYTES * p.kc if p.staged else 0
    for i in range(pieces_of(&p.common.grid, <int>part, pieces)):
        # If there is a row of ones, every block needs this row, so the only row of the grid stands for all tiles.
        multiply_piece(g, p, &w, 0 if p.row_of_ones else pieces[i].row,
                       w.tiles if p.row_of_ones else pieces[i].row_end, pieces[i].column, pieces[i].column_end)
    return 0


cdef int run_few_rows(const Problem *g, const Plan *plan) noexcept nogil:
    """Compute a planned problem. Return 0, or -1 if there is no memory."""
    cdef const FewRowsPlan *p = <const FewRowsPlan *>plan
    cdef RowsJob job
    cdef Rows *w = &job.shared
    cdef char *memory
    cdef int64_t i
    cdef int parts = part_count(&p.common.grid)
    job.g, job.p = g, p
    w.unsigned_operand = I8_B_UNSIGNED if g.a.sign_flip or p.centered else I8_A_UNSIGNED
    w.shift = SHIFT if w.unsigned_operand == I8_B_UNSIGNED else 0
    w.b_flip = g.b.sign_flip ^ w.shift
    w.groups = ceil_div(g.k, I8_GROUP)
    w.rows = g.m + p.row_of_ones
    w.group = 2 * I8_GROUP if w.rows == 1 and g.kernels.gemm.few_rows.halve_row is not NULL else I8_GROUP
    w.tiles = ceil_div(w.rows, g.kernels.gemm.few_rows.mr)
    memory = <char *>acquire(lay_out(g, p, w, <char *>ALIGNMENT))
    if memory is NULL:
        return -1
    lay_out(g, p, w, memory)
    if w.bo is not NULL:
        for i in range(g.n):
            w.bo[i] = g.b.zero_points[i] + w.shift
    two_phase_parallel_for(pack_tile, w.tiles, rows_part, parts, &job, parts)
    release(memory)
    return 0


cdef void describe_few_rows(const Problem *g, const Plan *plan, Description *d) noexcept nogil:
    """Describe the plan: the size of a row kernel, and the blocks and tiles that threads divide."""
    d.tile[0], d.tile[1] = g.kernels.gemm.few_rows.mr, g.kernels.gemm.few_rows.columns
    d.unit[0], d.unit[1] = ceil_div(g.m, plan.grid.rows), g.kernels.gemm.few_rows.columns


cdef Path path = Path(
    name=b"few_rows", summary=b"few rows, so B is read in place along its rows, once",
    by_size=False, names_kernel=True, sums_any_k=False,
    takes=takes_few_rows, specialize=NULL, plan=plan_few_rows, run=run_few_rows, describe=describe_few_rows)
PATH = as_capsule(&path, sizeof(FewRowsPlan))
