"""The memory of a call of the general path. One allocation holds the packed B block, then an Arena for each thread.

The functions that set the pointers also return the size of the memory, so that the size always fits the layout.
"""

from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t

from int8blas.core.kernels cimport I8_GROUP, I8_MAX_TILE, I8_PANEL
from int8blas.core.memory cimport ALIGNMENT, carve
from int8blas.core.split cimport round_up
from int8blas.gemm.matrix cimport matrix_a_bytes, matrix_b_bytes
from int8blas.gemm.nest cimport (
    RowVectors, groups_of, has_col_init, has_row_init, has_row_terms, padded_row, outer_ao, outer_bo, packed_size,
    wide_row)
from int8blas.gemm.operand cimport has_zero
from int8blas.gemm.output cimport EPILOGUE_SUMS
from int8blas.gemm.pack_a cimport COLUMN_K, COLUMN_ROWS
from int8blas.gemm.problem cimport has_scale_groups, is_generated


cdef size_t lay_out_block(const Problem *g, const BlocksPlan *p, PackedBlock *b, char *memory) noexcept nogil:
    """Place a packed B block in `memory`, if the block needs memory. Return the bytes that the block takes: 0 if a
    packed B has all panels and vectors that the product needs."""
    cdef char *start = memory
    cdef size_t columns = p.packed_panels * I8_PANEL
    cdef bint is_plain = g.panels.data is NULL
    cdef bint has_sums = g.four_bits.data is not NULL and g.four_bits.col_sums is not NULL
    cdef bint needs_sums = is_plain and not has_sums and (
        g.a.zero_point != 0 or outer_ao(g, p) or g.epilogue.column_squares is not NULL)
    cdef size_t panel = packed_size(min(p.groups * I8_GROUP, p.packed_k_blocks * p.kc))
    b.data = <int8_t *>carve(&memory, p.packed_panels * panel if is_plain else 0)
    b.col_sums = <int64_t *>carve(&memory, sizeof(int64_t) * columns if needs_sums else 0)
    b.pair_sums = <uint16_t *>carve(
        &memory, sizeof(uint16_t) * p.packed_panels if is_plain and p.forms.may_widen else 0)
    b.col_init = <int32_t *>carve(&memory, sizeof(int32_t) * columns if has_col_init(g, p) else 0)
    b.bo = <int64_t *>carve(&memory, sizeof(int64_t) * columns if outer_bo(g, p) else 0)
    return memory - start


cdef size_t lay_out_rows(const Problem *g, const BlocksPlan *p, RowVectors *rows, char *memory) noexcept nogil:
    """Set the pointers of the row vectors of an M block. Return the bytes that the vectors take."""
    cdef char *start = memory
    cdef size_t mc = min(p.mc, g.m), wide = sizeof(int64_t) * mc, short = sizeof(int32_t) * mc
    cdef size_t groups = 0 if not has_scale_groups(g) else g.k // g.epilogue.scale_groups.size
    rows.ao = <int64_t *>carve(&memory, wide if outer_ao(g, p) else 0)
    rows.row_term = <int64_t *>carve(&memory, wide if has_row_terms(g) else 0)
    rows.row_init = <int32_t *>carve(&memory, short if has_row_init(g, p) else 0)
    rows.a_tail = <uint32_t *>carve(&memory, short if p.forms.direct_a and g.k % I8_GROUP else 0)
    rows.scale = <float *>carve(&memory, short if g.source.dynamic is not NULL else 0)
    rows.zero = <int64_t *>carve(&memory, wide if g.source.dynamic is not NULL else 0)
    rows.group_terms = <int32_t *>carve(&memory, short * groups if has_zero(&g.b) else 0)
    return memory - start


cdef size_t lay_out_thread(const Problem *g, const BlocksPlan *p, Arena *arena, char *memory) noexcept nogil:
    """Set the pointers of one thread's arena. Return the bytes that the arena takes."""
    cdef char *start = memory
    cdef size_t mc = min(p.mc, g.m), kc = p.kc, groups = groups_of(kc), columns = p.packed_panels * I8_PANEL
    cdef size_t widened = kc if not has_scale_groups(g) else g.epilogue.scale_groups.size
    cdef size_t sums = mc * p.nc * I8_PANEL
    cdef bint by_matrix = p.matrix is not NULL, has_blocks = p.k_blocks > 1 or p.common.wide
    arena.a = <uint8_t *>carve(
        &memory, matrix_a_bytes(g, p) if by_matrix else 0 if p.forms.direct_a else mc * padded_row(groups))
    arena.generated = <uint8_t *>carve(
        &memory, p.mr * padded_row(groups) if p.forms.interleaves and is_generated(g) else 0)
    arena.a_wide = <uint16_t *>carve(&memory, sizeof(uint16_t) * mc * wide_row(groups) if p.forms.may_widen else 0)
    arena.a_columns = <uint8_t *>carve(
        &memory, round_up(mc, COLUMN_ROWS) * round_up(kc, COLUMN_K) if p.forms.splits else 0)
    arena.b_wide = <int16_t *>carve(
        &memory, sizeof(int16_t) * g.kernels.gemm.np * I8_PANEL * widened if p.forms.may_widen else 0)
    arena.b_tail = <int8_t *>carve(&memory, matrix_b_bytes(g, p) if by_matrix else 0)
    arena.partial = carve(&memory, sums * (sizeof(int64_t) if p.common.wide else sizeof(int32_t)) if has_blocks else 0)
    arena.tile = <int32_t *>carve(
        &memory,
        sizeof(int32_t) * max(I8_MAX_TILE, EPILOGUE_SUMS) if p.common.wide or not p.common.from_registers else 0)
    arena.outlier_sums = <int32_t *>carve(&memory, sizeof(int32_t) * mc * p.np * I8_PANEL if p.forms.splits else 0)
    arena.scaled = <float *>carve(&memory, sizeof(float) * EPILOGUE_SUMS if has_scale_groups(g) else 0)
    arena.rebased_init = <int32_t *>carve(
        &memory, sizeof(int32_t) * columns if p.forms.may_widen and g.a.sign_flip else 0)
    memory += lay_out_rows(g, p, &arena.rows, memory)
    return memory - start


cdef size_t thread_bytes(const Problem *g, const BlocksPlan *p) noexcept nogil:
    """Return the size of one thread's arena."""
    cdef Arena arena
    return lay_out_thread(g, p, &arena, <char *>ALIGNMENT)
