from int8blas.gemm.problem cimport Problem

cdef enum:
    # Rows of x up to which y is read in place: more pack it. Rows that are shorter than a step of a kernel, which pads
    # them, pay for fewer.
    FEW_X = 16
    STEP = 64
    PADDED_ROWS = 2


cdef inline bint takes_in_place(const Problem *g) noexcept nogil:
    """Whether distances to int32 are computed in place: few rows x, rows y that are plain, and both contiguous."""
    return (
        g.panels.data is NULL and 0 < g.m <= (FEW_X if g.k >= STEP else PADDED_ROWS) and g.k > 0
        and g.a.column == 1 and g.b.row == 1 and not g.to_s64 and g.c_col == sizeof(int)
    )


cdef int distances_in_place(const Problem *g) noexcept
