"""The packed B block: panels of a plain B, and vectors with a value for each column.

For a packed B only the vectors that depend on this call's zero points are computed.
"""

from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t
from libc.string cimport memset

from int8blas.core.kernels cimport I8_GROUP, I8_PANEL
from int8blas.gemm.nest cimport groups_of, has_col_init, outer_ao, outer_bo, packed_size
from int8blas.gemm.operand cimport address, zero_of
from int8blas.gemm.problem cimport STEP_BYTES, STEP_K, FourBits
from int8blas.gemm.small_values cimport CERTIFIED_SUM
from int8blas.gemm.squares cimport add_panel_squares


cdef void set_block(const Problem *g, const BlocksPlan *p, PackedBlock *b) noexcept nogil:
    """Set the sizes of the packed B block that begins with panel `first` and K block `first_k_block`. If B is packed,
    let the block point to the caller's panels."""
    b.panels = min(p.packed_panels, p.panels - b.first)
    b.end_k_block = min(b.first_k_block + p.packed_k_blocks, p.k_blocks)
    b.k0 = b.first_k_block * p.kc
    b.k = min(b.end_k_block * p.kc, g.k) - b.k0
    if g.panels.data is NULL:
        b.panel_size = packed_size(b.k)
        b.certified = NULL
        if g.four_bits.data is not NULL and g.four_bits.col_sums is not NULL:
            b.col_sums = <int64_t *>g.four_bits.col_sums + b.first * I8_PANEL
    else:
        b.panel_size = g.panels.step
        b.data = <int8_t *>g.panels.data
        b.col_sums = <int64_t *>g.panels.col_sums
        b.certified = g.panels.certified
        b.pair_sums = <uint16_t *>g.panels.pair_sums
    if g.known.col_init is not NULL and not p.common.from_registers and not outer_ao(g, p):
        b.col_init = <int32_t *>g.known.col_init + b.first * I8_PANEL


cdef void unpack_panels(const Problem *g, const PackedBlock *b, int64_t first, int64_t panels) noexcept nogil:
    """Unpack panels of a B of 4 bits. A K block begins at a step. With zero points by groups there is only one K
    block."""
    cdef const FourBits *f = &g.four_bits
    cdef int64_t groups = groups_of(b.k), panel, i
    for i in range(panels):
        panel = b.first + first + i
        g.kernels.packing.unpack_four_bits(
            b.data + (first + i) * b.panel_size, f.data + panel * f.step + b.k0 // STEP_K * STEP_BYTES, groups, f.zero,
            NULL if f.zeros is NULL else f.zeros + panel * (g.k // f.size) * I8_PANEL, f.size // I8_GROUP)
        if b.pair_sums is not NULL:
            b.pair_sums[first + i] = four_bits_pair(f)
        if b.col_sums is not NULL and f.col_sums is NULL:
            g.kernels.packing.panel_sums(b.col_sums + (first + i) * I8_PANEL, b.data + (first + i) * b.panel_size,
                                         groups)


cdef void pack_panels(const Problem *g, const PackedBlock *b, int64_t first, int64_t panels) noexcept nogil:
    """Pack panels of a plain B, and find the sums and no-saturation proofs that the product needs."""
    cdef int64_t column = (b.first + first) * I8_PANEL, columns = min(panels * I8_PANEL, g.n - column), i
    cdef const int64_t *sums
    cdef const int8_t *panel
    if g.four_bits.data is not NULL:
        unpack_panels(g, b, first, panels)
        return
    g.kernels.packing.pack_panels(<uint8_t *>b.data + first * b.panel_size, b.panel_size, columns, b.k,
                                  address(&g.b, b.k0, column), g.b.column, g.b.row, g.b.sign_flip)
    for i in range(panels):
        panel = b.data + (first + i) * b.panel_size
        sums = NULL
        if b.col_sums is not NULL:
            sums = b.col_sums + (first + i) * I8_PANEL
            g.kernels.packing.panel_sums(<int64_t *>sums, panel, groups_of(b.k))
        if g.epilogue.column_squares is not NULL:
            add_panel_squares(g, panel, b.k, sums, columns - i * I8_PANEL, b.k0 == 0,
                              g.epilogue.column_squares + column + i * I8_PANEL)
        if b.pair_sums is not NULL:
            b.pair_sums[first + i] = g.kernels.packing.panel_pair_sum(panel, groups_of(b.k), CERTIFIED_SUM)


cdef void pack_block(const Problem *g, const BlocksPlan *p, const PackedBlock *b, int64_t first,
                     int64_t panels) noexcept nogil:
    """Prepare some panels of a packed B block: pack a plain B, and compute the vectors that tiles and epilogue add to
    columns."""
    cdef int64_t column = (b.first + first) * I8_PANEL, columns = min(panels * I8_PANEL, g.n - column), i
    cdef int32_t *init
    if g.panels.data is NULL:
        pack_panels(g, b, first, panels)
    if outer_bo(g, p):
        # Pad the zero points with 0 to whole panels, because the epilogue computes all columns of the panels.
        for i in range(panels * I8_PANEL):
            b.bo[first * I8_PANEL + i] = 0 if i >= columns else zero_of(&g.b, column + i)
    if has_col_init(g, p):
        init = b.col_init + first * I8_PANEL
        if g.a.zero_points is not NULL or g.a.zero_point == 0:
            memset(init, 0, panels * I8_PANEL * sizeof(int32_t))
        else:
            g.kernels.packing.scale_sums(init, b.col_sums + first * I8_PANEL, panels * I8_PANEL,
                                         <int32_t>-g.a.zero_point)
        if p.common.from_registers and g.epilogue.co_cols is not NULL and b.k0 == 0:
            for i in range(columns):
                init[i] = <int32_t>(<uint32_t>init[i] + <uint32_t>g.epilogue.co_cols[column + i])
