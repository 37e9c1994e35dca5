# Tiles of C from a block (see tiles.pyx).
from libc.stddef cimport ptrdiff_t
from libc.stdint cimport int64_t, uint16_t

from int8blas.core.kernels cimport i8_tile_args
from int8blas.core.memory cimport ALIGNMENT
from int8blas.gemm.block cimport Area, Slab, Workspace
from int8blas.gemm.plan cimport Gemm, Plan

cdef enum:
    # The columns of A that outliers take are made for so many rows and k together, with the widest vectors.
    COLUMN_ROWS = 128
    COLUMN_K = 16


# What some panels are multiplied by.
cdef struct Choice:
    int dot
    int64_t groups                      # that are added in s16, without VNNI
    bint is_split                       # into a dense part and outliers


# The forms of A that have been made for a block.
cdef struct Forms:
    bint packed, wide, columns


cdef void pack_rows(const Gemm *g, const Plan *p, const Workspace *w, int64_t row, int64_t rows, int64_t k0,
                    int64_t k) noexcept nogil
cdef void make_a(const Gemm *g, const Plan *p, const Workspace *w, int dot, const Area *m, Forms *made) noexcept nogil
cdef void set_a(const Gemm *g, const Plan *p, const Workspace *w, i8_tile_args *t, int dot, int64_t block,
                int64_t row, int height, int64_t k0, int64_t k) noexcept nogil
cdef Choice choose_dot(const Gemm *g, const Plan *p, const Slab *s, const Area *m, int64_t panel,
                       int width) noexcept nogil
cdef void multiply_tiles(const Gemm *g, const Plan *p, const Workspace *w, const Slab *s, const Area *m) noexcept nogil


cdef inline ptrdiff_t wide_row(int64_t groups) noexcept nogil:
    """Elements from one row that is widened to the next; not a power of two."""
    return groups * 4 + ALIGNMENT // <ptrdiff_t>sizeof(uint16_t)
