from int8blas.core.kernels cimport I8_TYPE_S32
from int8blas.gemm.problem cimport Problem

cdef enum:
    # With at most FEW_X rows x, y is read in place. With more than FEW_X rows x, packing y is faster. The maximum
    # number of rows x is PADDED_ROWS if rows have fewer than STEP bytes, the bytes of one kernel step, because the
    # kernel pads these short rows.
    FEW_X = 16
    STEP = 64
    PADDED_ROWS = 2


cdef inline bint takes_in_place(const Problem *g) noexcept nogil:
    """Return whether rows y are read in place. There must be few rows x, plain and contiguous rows y, and int32
    distances."""
    return (
        g.panels.data is NULL and 0 < g.m <= (FEW_X if g.k >= STEP else PADDED_ROWS) and g.k > 0
        and g.a.column == 1 and g.b.row == 1 and g.epilogue.type == I8_TYPE_S32 and g.c.column == sizeof(int)
    )


cdef int distances_in_place(const Problem *g) noexcept
