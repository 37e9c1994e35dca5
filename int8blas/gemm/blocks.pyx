"""The general path: the loop nest.

    run_blocks packs B block by block, unless B is packed already
      multiply_blocks       one thread's part of C: five loops around the micro-kernel

            N                      nc panels         B' in panels of 16 columns, a packed B block at a time
        +-------+                 +---+---+
      K |   B   |               K |   |   | kc       the panels of a tile stay in the L1 cache while the rows pass by
        +-------+                 +---+---+
    +---+-------+            +---+
    |   |       |         mc |   | kc                A' in micro-panels of mr rows, in the L2 cache
    | A |   C   | M          +---+
    |   |       |
    +---+-------+

The loops have the names of BLIS: jc over N, ic over M, pc over K, jr and ir over the panels and rows of tiles. Unlike
in BLIS, the loop over K is inside the loops over M and N, so the sums of one block of C stay in the L2 cache between
two K blocks. In the order of BLIS the sums of all of C would go to memory.

Nothing in this module depends on the instruction set: tile sizes, block sizes and functions come from the kernel table.
"""

from libc.stdint cimport int64_t

from int8blas.core.kernels cimport I8_DOT2, I8_MATRIX_ROWS, I8_PANEL, i8_finish_streams
from int8blas.core.memory cimport ALIGNMENT, acquire, release
from int8blas.core.split cimport (
    MAX_PIECES, Grid, Piece, ceil_div, has_own_columns, part_count, pieces_of, round_up, share)
from int8blas.core.threads cimport parallel_for, two_phase_parallel_for
from int8blas.gemm.arena cimport lay_out_block, lay_out_thread, thread_bytes
from int8blas.gemm.block_plan cimport BlocksPlan, plan_blocks
from int8blas.gemm.matrix cimport multiply_by_matrix, unit_rows
from int8blas.gemm.nest cimport Cursor, LoopState, PackedBlock
from int8blas.gemm.pack_a cimport copy_tail, load_a, point_to_a, start_rows
from int8blas.gemm.pack_b cimport pack_block, set_block
from int8blas.gemm.path cimport Description, Path, Plan, as_capsule
from int8blas.gemm.problem cimport PACK_PANELS, Problem, has_scale_groups
from int8blas.gemm.scale_groups cimport multiply_scale_groups
from int8blas.gemm.small_values cimport find_range, rebase_start, unshift
from int8blas.gemm.spans cimport multiply_in_window
from int8blas.gemm.tiles cimport (
    go_to_panels, go_to_rows, multiply_outliers, point_to_c, start_tiles, store_tile, widen_panels)

cdef enum:
    # The maximum number of panels of a packed B for which one thread computes the vectors of all columns. If several
    # threads computed the vectors, the barrier would take longer than one thread takes to compute all of them.
    FEW_PANELS = 64


# A packed B block, and the memory of the threads that multiply it.
cdef struct BlockJob:
    const Problem *g
    const BlocksPlan *p
    PackedBlock b
    size_t shared_bytes             # bytes of the packed B block; 0 if B is packed and needs no vectors
    size_t thread_bytes
    char *memory                    # the first thread's arena


cdef void start_m_block(LoopState *loop, bint has_vectors) noexcept nogil:
    """Compute the row vectors of an M block, unless an earlier N block has computed them. Copy the tails of the rows.
    Find the range of the values."""
    if loop.b.first_k_block == 0 and not has_vectors:
        start_rows(loop)
    copy_tail(loop)
    find_range(loop)
    if loop.rebase:
        rebase_start(loop)


cdef void start_k_block(LoopState *loop) noexcept nogil:
    """Set the first k and the size of the K block."""
    loop.at.k0 = loop.at.k_block * loop.p.kc
    loop.at.k = min(loop.p.kc, loop.g.k - loop.at.k0)
    loop.at.is_first, loop.at.is_last = loop.at.k_block == 0, loop.at.k_block == loop.p.k_blocks - 1


cdef int start_part(LoopState *loop, const BlockJob *j, int64_t part, Piece *pieces) noexcept nogil:
    """Set one thread's state and memory, and the rectangles of its part of C. Pack the panels that no other thread
    uses. Return the number of rectangles."""
    cdef const BlocksPlan *p = j.p
    cdef Grid grid = p.common.grid
    cdef int64_t panel
    cdef int count
    loop.g, loop.p, loop.b = j.g, p, j.b
    lay_out_thread(j.g, p, &loop.arena, j.memory + part * j.thread_bytes)
    grid.columns = ceil_div(loop.b.panels, p.grid_np)
    count = pieces_of(&grid, <int>part, pieces)
    if j.shared_bytes > 0 and has_own_columns(&grid):
        panel = pieces[0].column * p.grid_np
        pack_block(j.g, p, &loop.b, panel, min(pieces[0].column_end * p.grid_np, loop.b.panels) - panel)
    if p.matrix is not NULL:
        p.matrix.enter(unit_rows(j.g))
    return count


cdef int multiply_blocks(const void *job, int64_t part, int64_t _parts) noexcept nogil:
    """Compute one thread's part of C, in the K blocks of the packed B block: five loops for each rectangle of the
    part. Return 0."""
    cdef const BlocksPlan *p = (<const BlockJob *>job).p
    cdef Piece pieces[MAX_PIECES]
    cdef LoopState loop
    cdef Cursor *at = &loop.at
    cdef int64_t first_row, end_row, first_panel, end_panel, jr, ir, n_tiles, m_tiles
    cdef bint is_first_n, is_last_m
    cdef int i
    for i in range(start_part(&loop, <const BlockJob *>job, part, pieces)):
        first_row, end_row = pieces[i].row * p.mr, min(pieces[i].row_end * p.mr, loop.g.m)
        first_panel, end_panel = pieces[i].column * p.grid_np, min(pieces[i].column_end * p.grid_np, loop.b.panels)
        at.panel = first_panel
        while at.panel < end_panel:                                             # jc: blocks of N
            at.panels = min(p.nc, end_panel - at.panel)
            n_tiles, is_first_n = ceil_div(at.panels, p.np), at.panel == first_panel
            at.row = first_row
            while at.row < end_row:                                             # ic: blocks of M
                at.rows = min(p.mc, end_row - at.row)
                m_tiles, is_last_m = ceil_div(at.rows, p.mr), at.row + at.rows == end_row
                start_m_block(&loop, not is_first_n and at.rows == end_row - first_row)
                for at.k_block in range(loop.b.first_k_block, loop.b.end_k_block):    # pc: blocks of K
                    start_k_block(&loop)
                    if has_scale_groups(loop.g):
                        multiply_scale_groups(&loop)
                        continue
                    if p.matrix is not NULL:
                        multiply_by_matrix(&loop, is_first_n, end_panel, is_last_m)
                        continue
                    start_tiles(&loop)
                    jr = 0
                    while jr < n_tiles:                                         # jr: panels of a tile
                        jr += go_to_panels(&loop, jr, n_tiles)
                        load_a(&loop)                                           # the block of A, once
                        if loop.dot == I8_DOT2:
                            widen_panels(&loop)
                        elif loop.is_split:
                            multiply_outliers(&loop)
                        ir = 0
                        while ir < m_tiles:                                     # ir: rows of a tile
                            ir += go_to_rows(&loop, ir, m_tiles)
                            point_to_a(&loop)                                   # loop.tile.a
                            point_to_c(&loop)                                   # loop.tile.dst
                            if p.forms.skips:
                                multiply_in_window(&loop)
                            else:  # the micro-kernel
                                loop.g.kernels.gemm.tiles[loop.dot].of[at.height - 1][at.width - 1](&loop.tile)
                            store_tile(&loop)
                at.row += at.rows
            at.panel += at.panels
    if p.matrix is not NULL:
        p.matrix.leave()
    if p.memory.stream:
        i8_finish_streams()
    return 0


cdef int pack_blocks(const void *job, int64_t part, int64_t parts) noexcept nogil:
    """Pack one thread's part of the panels that all threads share."""
    cdef const BlockJob *j = <const BlockJob *>job
    cdef int64_t steps = ceil_div(j.b.panels, PACK_PANELS), first = share(steps, part, parts) * PACK_PANELS
    cdef int64_t end = min(share(steps, part + 1, parts) * PACK_PANELS, j.b.panels)
    pack_block(j.g, j.p, &j.b, first, end - first)
    return 0


cdef bint takes_blocks(const Problem *g, const Plan *p) noexcept nogil:
    """Return True, because the path `blocks` takes every problem."""
    return True


cdef int run_blocks(const Problem *g, const Plan *plan) noexcept nogil:
    """Compute the product: for each packed B block, pack it and multiply it. Return 0, or -1 if there is no memory."""
    cdef const BlocksPlan *p = <const BlocksPlan *>plan
    cdef BlockJob job
    cdef PackedBlock *b = &job.b
    cdef int parts = part_count(&p.common.grid)
    cdef bint pack_first
    cdef char *memory
    job.g, job.p = g, p
    job.shared_bytes = lay_out_block(g, p, b, <char *>ALIGNMENT)
    job.thread_bytes = thread_bytes(g, p)
    memory = <char *>acquire(job.shared_bytes + parts * job.thread_bytes)
    if memory is NULL:
        return -1
    if g.c.dry_run:
        release(memory)
        return 0
    lay_out_block(g, p, b, memory)
    job.memory = memory + job.shared_bytes
    b.first = b.first_k_block = 0
    while b.first < p.panels:
        set_block(g, p, b)
        pack_first = job.shared_bytes > 0 and not has_own_columns(&p.common.grid)
        if pack_first and g.panels.data is not NULL and b.panels <= FEW_PANELS:
            pack_block(g, p, b, 0, b.panels)
            pack_first = False
        if pack_first:
            two_phase_parallel_for(pack_blocks, parts, multiply_blocks, parts, &job, parts)
        else:
            parallel_for(multiply_blocks, &job, parts, parts)
        b.first_k_block = b.end_k_block
        if b.first_k_block == p.k_blocks:
            b.first_k_block = 0
            b.first += b.panels
    release(memory)
    return 0


cdef void describe_blocks(const Problem *g, const Plan *plan, Description *d) noexcept nogil:
    """Describe the plan: tile and block sizes, multiply-adds, and the units that threads divide."""
    cdef const BlocksPlan *p = <const BlocksPlan *>plan
    d.tile[0], d.tile[1] = 1 if g.m == 1 else p.mr, p.np * I8_PANEL
    if p.matrix is not NULL:
        d.tile[0] = min(p.mr, round_up(g.m, I8_MATRIX_ROWS))
    d.block[0], d.block[1], d.block[2] = p.mc, p.nc * I8_PANEL, p.kc
    d.workspace = thread_bytes(g, p)
    d.a_in_place, d.may_widen, d.splits = p.forms.direct_a, p.forms.may_widen, p.forms.splits
    if plan.private_columns:
        d.units[0], d.units[1], d.unit[0], d.unit[1] = 1, p.panels, g.m, I8_PANEL
    elif plan.grid.columns == 1:
        d.unit[0], d.unit[1] = p.mr, g.n
    else:
        d.units[1], d.unit[0], d.unit[1] = ceil_div(p.packed_panels, p.grid_np), p.mr, p.grid_np * I8_PANEL


cdef Path path = Path(
    name=b"blocks", summary=b"tiles of C from packed panels of B",
    by_size=False, names_kernel=False, sums_any_k=False,
    takes=takes_blocks, specialize=unshift, plan=plan_blocks, run=run_blocks, describe=describe_blocks)
PATH = as_capsule(&path, sizeof(BlocksPlan))
