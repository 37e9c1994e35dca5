"""Find facts about a product that do not depend on its path, and make slices of a product."""

from libc.stddef cimport ptrdiff_t
from libc.stdint cimport INT32_MAX, int32_t, int64_t
from libc.stdlib cimport llabs

from int8blas.core.kernels cimport (
    I8_DISTANCES, I8_FLOAT, I8_INT64, I8_PANEL, I8_QUANTIZED, I8_TYPE_F32, I8_TYPE_S8, I8_TYPE_S32, I8_TYPE_U8,
    i8_epilogue, i8_stage)
from int8blas.gemm.operand cimport SHIFT, address, transposed
from int8blas.gemm.problem cimport is_quantized, start_epilogue

cdef enum:
    # A value of 4 bits minus a zero point is at most 15 in magnitude. A value minus two zero points, of B and of the
    # group, is at most 30 in magnitude.
    FOUR_BITS_SPAN = 30


cdef int64_t product_bound(const Problem *g) noexcept nogil:
    """Return a bound for the magnitude that one k adds to an element of (A - ao) @ (B - bo). A result beyond s32 means
    no bound."""
    if g.known.far_zeros:
        return <int64_t>1 << 32
    if g.saturating:
        # The sum of two products is at most 2 * 255 * 128 in magnitude. For each k, the three compensations together
        # are at most 255 * 128.
        return 3 * 255 * 128
    cdef int64_t a = 255 if zero_by_row(g) else max(g.a.zero_point, 255 - g.a.zero_point)
    if g.four_bits.data is not NULL:
        return a * FOUR_BITS_SPAN
    cdef int64_t b = 255 if g.b.zero_points is not NULL else max(127 - g.b.zero_point, g.b.zero_point + 128)
    return a * b


cdef int64_t offset_bound(const Problem *g) noexcept nogil:
    """Return the largest magnitude in co."""
    cdef const i8_epilogue *e = &g.epilogue
    cdef int64_t largest = llabs(e.co)
    cdef int64_t i
    if e.co_rows is not NULL:
        for i in range(g.m):
            largest = max(largest, llabs(e.co_rows[i]))
    if e.co_cols is not NULL:
        for i in range(g.n):
            largest = max(largest, llabs(e.co_cols[i]))
    return largest


cdef void find_row_terms(const Problem *g, int64_t row, int64_t rows, int64_t *terms) noexcept nogil:
    """Compute the sums of some rows of A - ao, which zero points of B multiply."""
    cdef int64_t i, shift = g.k * g.a.zero_point
    g.kernels.packing.row_sums(terms, rows, g.k, address(&g.a, row, 0), g.a.row, g.a.column, g.a.sign_flip)
    if g.a.zero_points is not NULL:
        for i in range(rows):
            terms[i] -= g.k * g.a.zero_points[row + i]
    elif shift != 0:
        for i in range(rows):
            terms[i] -= shift


cdef void transpose_problem(Problem *t, const Problem *g) noexcept nogil:
    """Set `t` to C.T := (B - bo).T @ (A - ao).T, for a plain B. A shift by 128 exchanges the operands' signs."""
    t[0] = g[0]
    t.m, t.n = g.n, g.m
    t.a, t.b = transposed(&g.b, SHIFT), transposed(&g.a, -SHIFT)
    t.epilogue.co_rows, t.epilogue.co_cols = g.epilogue.co_cols, g.epilogue.co_rows
    t.epilogue.column_squares = NULL
    t.c.row, t.c.column = g.c.column, g.c.row


cdef bint has_plain_formula(const Problem *g) noexcept nogil:
    """Return whether a micro-kernel can compute the formula of a quantized primitive. There must be no post-ops, and
    all scales must be finite. u8, s8 and s32 results must have no scales of rows. f32 and s32 results must have no
    scale and no zero point of the destination. B may have one zero point for all elements, whose term is in the start
    values, unless A is generated from real numbers."""
    cdef const i8_epilogue *e = &g.epilogue
    cdef const i8_stage *s = e.stage
    cdef bint by_row = e.row_scales is not NULL or g.source.dynamic is not NULL
    if e.type == I8_TYPE_F32 or e.type == I8_TYPE_S32:
        if s.rescales or (by_row and e.type == I8_TYPE_S32):
            return False
    elif (e.type != I8_TYPE_U8 and e.type != I8_TYPE_S8) or by_row:
        return False
    return (
        s.op_count == 0 and s.finite and not s.bias_first and s.offset is NULL and s.requantization.scheme == I8_FLOAT
        and g.b.zero_points is NULL and (g.b.zero_point == 0 or g.source.dynamic is NULL) and not zero_by_row(g)
        and not e.doubled and e.co == 0 and e.co_rows is NULL
    )


cdef bint applies_from_registers(const Problem *g) noexcept nogil:
    """Return whether a micro-kernel can apply the epilogue to the sums in its registers, if they fit s32. A
    micro-kernel can store s64 results or distances, whose only zero points are in the start values, and can compute the
    simplest formula of a quantized primitive. A bare s32 product needs no epilogue."""
    if not g.kernels.gemm.tile_output or stores_transposed(g):
        return False
    if g.epilogue.kind == I8_INT64 or g.epilogue.kind == I8_DISTANCES:
        return (
            g.a.zero_points is NULL and g.b.zero_points is NULL
            and (g.epilogue.kind == I8_INT64 or g.epilogue.type == I8_TYPE_S32)
        )
    return g.epilogue.kind == I8_QUANTIZED and has_plain_formula(g)


cdef bint is_wide(const Problem *g) noexcept nogil:
    """Return whether sums could exceed s32. With the epilogue of a primitive, sums include the offsets that are added
    as integers."""
    cdef int64_t bound = product_bound(g)
    return g.k > INT32_MAX // bound or (
        is_quantized(g) and g.k * bound * (2 if g.epilogue.doubled else 1) + offset_bound(g) > INT32_MAX
    )


cdef void slice_rows(Problem *part, const Problem *g, int64_t first, int64_t rows) noexcept nogil:
    """Set `part` to some rows of C. A is in memory, without zero points of its rows."""
    part[0] = g[0]
    part.m = rows
    part.a.data += first * g.a.row
    part.c.data += first * g.c.row
    if g.epilogue.co_rows is not NULL:
        part.epilogue.co_rows += first


cdef void slice_columns(Problem *part, const Problem *g, int64_t first, int64_t columns) noexcept nogil:
    """Set `part` to some columns of C. B is plain, without zero points of its columns."""
    part[0] = g[0]
    part.n = columns
    part.b.data += first * g.b.column
    part.c.data += first * g.c.column
    if g.epilogue.co_cols is not NULL:
        part.epilogue.co_cols += first
    if g.epilogue.column_squares is not NULL:
        part.epilogue.column_squares += first


cdef void slice_k(Problem *part, const Problem *g, int64_t first, int64_t k, int32_t *sums) noexcept nogil:
    """Set `part` to the bare product over the part of K from `first` to `first + k`, stored to `sums` [m][n]. `first`
    is a multiple of 8.

    If B is packed, the part has no zero points, because the column sums of a packed B are over all of K.
    """
    part[0] = g[0]
    part.k = k
    part.a.data += first * g.a.column
    if g.four_bits.data is not NULL:
        part.four_bits.data += first // STEP_K * STEP_BYTES
        part.four_bits.col_sums = NULL
    elif g.panels.data is NULL:
        part.b.data += first * g.b.row
    else:
        part.panels.data += first * I8_PANEL
        part.panels.split.panels = NULL
        part.panels.as_s8 = NULL
        part.a.zero_point = part.b.zero_point = 0
        part.a.zero_points = part.b.zero_points = NULL
        part.known.far_zeros = False
    start_epilogue(&part.epilogue)
    part.known.col_init = NULL
    part.c.data, part.c.row, part.c.column = <char *>sums, g.n * <ptrdiff_t>sizeof(int32_t), sizeof(int32_t)
