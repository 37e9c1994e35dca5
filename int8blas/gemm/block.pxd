# What the parts of the general path share (see block.pyx).
from libc.stddef cimport ptrdiff_t
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t

from int8blas.core.kernels cimport I8_GROUP, I8_PANEL, i8_output_args, i8_tile_output
from int8blas.core.memory cimport ALIGNMENT
from int8blas.core.split cimport ceil_div, round_up
from int8blas.gemm.plan cimport Gemm, Plan, set_tile_output


# A slab of B as the parts see it. Pointers are to its first panel.
cdef struct Slab:
    int64_t first, panels
    int64_t first_block, end_block      # of K
    int64_t k0, k                       # the same in k
    ptrdiff_t panel_size                # bytes
    const int8_t *data
    const int64_t *col_sums
    const uint8_t *certified            # of a packed B, where pair sums are not known
    const uint16_t *pair_sums
    const int32_t *col_init
    const int64_t *bo


# The call's memory, carved out of one allocation; see lay_out.
cdef struct Workspace:
    # shared by the threads
    uint8_t *data
    int64_t *col_sums
    uint16_t *pair_sums
    int32_t *col_init
    int64_t *bo
    # of one thread
    uint8_t *a
    uint8_t *made                       # the rows of a tile of an A' that is in no memory, before they are packed
    uint16_t *a_wide
    int16_t *b_wide
    uint8_t *a_columns
    int8_t *b_tail
    int32_t *outlier_sums
    void *partial
    int32_t *tile
    int64_t *ao
    int64_t *row_term
    int32_t *row_init
    int32_t *lowered_init               # start values of the columns for rows of A' that are lowered
    int32_t *co_row
    uint32_t *a_tail
    float *row_scale                    # of the rows of a source,
    int64_t *zeros                      # and their zero points
    float *scaled                       # sums of scale groups
    int32_t *group_terms                # and their terms for zero points of B, [groups][rows]
    size_t shared_size, thread_size


# One block: rows of A, panels of a slab, a block of K.
cdef struct Area:
    int64_t row, rows, panel, panels, k_block
    int64_t k0, k, groups
    bint is_first, is_last              # of the blocks of K
    int64_t row_tiles, column_tiles
    int64_t largest                     # value of these rows of A', after `lowered` is subtracted (small_values.pyx)
    uint8_t lowered


cdef inline Area area_of(const Gemm *g, const Plan *p, int64_t row, int64_t rows, int64_t panel, int64_t panels,
                         int64_t k_block) noexcept nogil:
    cdef Area m
    m.row, m.rows, m.panel, m.panels, m.k_block = row, rows, panel, panels, k_block
    m.k0 = k_block * p.kc
    m.k = min(p.kc, g.k - m.k0)
    m.groups = ceil_div(m.k, I8_GROUP)
    m.is_first, m.is_last = k_block == 0, k_block == p.k_blocks - 1
    m.row_tiles, m.column_tiles = ceil_div(rows, p.mr), ceil_div(panels, p.np)
    m.largest, m.lowered = 255, 0
    return m


cdef inline ptrdiff_t made_row(int64_t groups) noexcept nogil:
    """Bytes from one row of an A' that is made to the next; whole cache lines, and not a power of two, as in
    packed_size."""
    return round_up(groups * 4, ALIGNMENT) + ALIGNMENT


cdef void make_rows(const Gemm *g, const Workspace *w, uint8_t *dst, int64_t block, int64_t row, int64_t rows,
                    int64_t k0, int64_t k) noexcept nogil
cdef void add_row_terms(const Gemm *g, const Workspace *w, const uint8_t *a, int64_t row, int64_t rows, int64_t k0,
                        int64_t k) noexcept nogil
cdef void double_sums(const i8_output_args *o) noexcept nogil
cdef void store_rows(const Gemm *g, i8_output_args *o) noexcept nogil


cdef inline void set_output(const Gemm *g, const Workspace *w, i8_tile_output *out, int64_t block, int64_t row,
                            int64_t column) noexcept nogil:
    """The output stage of a micro-kernel, for a tile at a row of the block and a column."""
    cdef int64_t at = block + row
    set_tile_output(g, out, column)
    out.row_scale = w.row_scale + row if w.row_scale is not NULL else NULL
    if g.row_scales is not NULL:
        out.row_scale = g.row_scales + at
    if g.stage is NULL and g.co_rows is not NULL:
        out.row_squares = g.co_rows + at
    if g.c_line == 0:
        out.c = g.c + at * g.c_row
    else:
        out.c = g.c + at // g.c_line * g.c_line_step + at % g.c_line * g.c_row
    out.c += column * g.c_col
    out.c_row = g.c_row


cdef inline void set_vectors(const Gemm *g, const Workspace *w, const Slab *s, i8_output_args *o, int64_t block,
                             int64_t row, int64_t panel) noexcept nogil:
    """What belongs to the rows and columns of a tile: it begins at a row of a block of rows and a panel of the slab."""
    o.row, o.column = block + row, (s.first + panel) * I8_PANEL
    o.ao = w.ao + row if w.ao is not NULL else NULL
    o.col_sum = s.col_sums + panel * I8_PANEL if w.ao is not NULL else NULL
    o.bo = s.bo + panel * I8_PANEL if s.bo is not NULL else NULL
    o.row_term = w.row_term + row if s.bo is not NULL else NULL
    o.co_row = w.co_row + row if w.co_row is not NULL else NULL
    if g.co_rows is not NULL:
        o.co_row = g.co_rows + o.row
    o.co_col = g.co_cols + o.column if g.co_cols is not NULL else NULL
    o.row_scale = w.row_scale + row if w.row_scale is not NULL else NULL
    if g.row_scales is not NULL:
        o.row_scale = g.row_scales + o.row
