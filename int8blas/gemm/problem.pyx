"""One product: what its operands, its numerics and its epilogue say, whatever computes it; and parts of it."""

from libc.stddef cimport ptrdiff_t
from libc.stdint cimport INT32_MAX, int32_t, int64_t
from libc.stdlib cimport llabs

from int8blas.core.kernels cimport I8_FLOAT, I8_PANEL, I8_TYPE_F32, I8_TYPE_S8, I8_TYPE_S32, I8_TYPE_U8, i8_stage
from int8blas.gemm.operand cimport SHIFT, transposed


cdef int64_t product_bound(const Problem *g) noexcept nogil:
    """Return the largest magnitude that one k can add to an element of (A - ao) @ (B - bo); beyond s32 it is no
    bound."""
    if g.far_zeros:
        return <int64_t>1 << 32
    if g.saturating:
        # A pair sum is at most 2 * 255 * 128 in magnitude, and the three compensations together at most
        # 255 * 128 each for every k, whatever the saturation did.
        return 3 * 255 * 128
    cdef int64_t a = 255 if zero_by_row(g) else max(g.a.zero_point, 255 - g.a.zero_point)
    cdef int64_t b = 255 if g.b.zero_points is not NULL else max(127 - g.b.zero_point, g.b.zero_point + 128)
    return a * b


cdef int64_t offset_bound(const Problem *g) noexcept nogil:
    """Return the largest magnitude in co."""
    cdef int64_t largest = llabs(g.co)
    cdef int64_t i
    if g.co_rows is not NULL:
        for i in range(g.m):
            largest = max(largest, llabs(g.co_rows[i]))
    if g.co_cols is not NULL:
        for i in range(g.n):
            largest = max(largest, llabs(g.co_cols[i]))
    return largest


cdef void transpose_problem(Problem *t, const Problem *g) noexcept nogil:
    """Let `t` be C.T := (B - bo).T @ (A - ao).T, for a plain B. Each operand takes the other's sign by one more
    shift."""
    t[0] = g[0]
    t.m, t.n = g.n, g.m
    t.a, t.b = transposed(&g.b, SHIFT), transposed(&g.a, -SHIFT)
    t.co_rows, t.co_cols = g.co_cols, g.co_rows
    t.c_row, t.c_col = g.c_col, g.c_row
    t.column_squares = NULL


cdef bint can_widen(const Problem *g) noexcept nogil:
    """Return whether a micro-kernel can store the sums in its registers as s64, if they do not leave s32."""
    return (
        g.to_s64 and g.kernels.gemm.tile_output and not stores_transposed(g)
        and g.a.zero_points is NULL and g.b.zero_points is NULL
        and g.co_rows is NULL
    )


cdef bint are_plain_distances(const Problem *g) noexcept nogil:
    """Return whether C is squared distances, and a micro-kernel can make them of the sums in its registers."""
    return (
        g.co_rows is not NULL and g.co_cols is not NULL and not g.to_s64 and g.kernels.gemm.tile_output
        and not stores_transposed(g) and g.a.zero_points is NULL and g.b.zero_points is NULL
    )


cdef bint is_plain(const Problem *g) noexcept nogil:
    """Return whether a micro-kernel can apply the output stage to the sums in its registers."""
    cdef const i8_stage *s = g.stage
    cdef bint by_row = g.row_scales is not NULL or g.dynamic_source is not NULL
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
        and g.b.zero_point == 0 and g.b.zero_points is NULL and not zero_by_row(g) and not g.doubled
        and g.co == 0 and g.co_rows is NULL
    )


cdef bint is_wide(const Problem *g) noexcept nogil:
    """Return whether sums could leave s32; with a primitive's output stage, after offsets are added to them as
    integers."""
    cdef int64_t bound = product_bound(g)
    return g.k * bound > INT32_MAX or (
        g.stage is not NULL and g.k * bound * (2 if g.doubled else 1) + offset_bound(g) > INT32_MAX
    )


cdef void slice_rows(Problem *part, const Problem *g, int64_t first, int64_t rows) noexcept nogil:
    """Let `part` be some rows of C, of an A in memory without zero points of its rows."""
    part[0] = g[0]
    part.m = rows
    part.a.data += first * g.a.row
    part.c += first * g.c_row
    if g.co_rows is not NULL:
        part.co_rows += first


cdef void slice_columns(Problem *part, const Problem *g, int64_t first, int64_t columns) noexcept nogil:
    """Let `part` be some columns of C, of a plain B without zero points of its columns."""
    part[0] = g[0]
    part.n = columns
    part.b.data += first * g.b.column
    part.c += first * g.c_col
    if g.co_cols is not NULL:
        part.co_cols += first
    if g.column_squares is not NULL:
        part.column_squares += first


cdef void slice_k(Problem *part, const Problem *g, int64_t first, int64_t k, int32_t *sums) noexcept nogil:
    """Let `part` be the bare product over some k, which begin with a group, to `sums`, [m][n].

    The zero points of a packed B's problem are left out: its column sums are those of all of K.
    """
    part[0] = g[0]
    part.k = k
    part.a.data += first * g.a.column
    if g.panels.data is NULL:
        part.b.data += first * g.b.row
    else:
        part.panels.data += first * I8_PANEL
        part.panels.split.panels = NULL
        part.panels.as_s8 = NULL
        part.a.zero_point = part.b.zero_point = 0
        part.a.zero_points = part.b.zero_points = NULL
    part.alpha, part.beta = 1, 0
    part.stage = NULL
    part.col_init = NULL
    part.co = 0
    part.co_rows = part.co_cols = part.column_squares = NULL
    part.to_s64, part.saturated = False, NULL
    part.c, part.c_row, part.c_col = <char *>sums, g.n * <ptrdiff_t>sizeof(int32_t), sizeof(int32_t)
