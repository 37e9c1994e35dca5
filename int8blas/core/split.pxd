# Division of work among threads (see split.pyx).
from libc.stdint cimport int64_t

cdef enum:
    MAX_PIECES = 3


# A grid of rows x columns units of work, divided into row_parts x column_parts rectangles. If `stretches` is true, the
# grid is divided into row_parts stretches: runs of consecutive units, counted down one column after another.
cdef struct Grid:
    int64_t rows, columns
    int row_parts, column_parts
    bint stretches


# Units [row, row_end) x [column, column_end).
cdef struct Piece:
    int64_t row, row_end, column, column_end


# division.h documents the following functions. The functions are in C, because Cython would parse inline functions
# again in each of some sixty modules.
cdef extern from "core/division.h" nogil:
    int64_t ceil_div "i8_ceil_div"(int64_t a, int64_t b)
    int64_t round_up "i8_round_up"(int64_t x, int64_t step)
    int64_t round_down "i8_round_down"(int64_t x, int64_t step)
    int64_t even_size "i8_even_size"(int64_t total, int64_t most, int64_t step)
    int64_t share "i8_share"(int64_t total, int64_t part, int64_t parts)
    int64_t leading_share "i8_leading_share"(int64_t total, int64_t part, int64_t parts)
    int64_t equal_parts "i8_equal_parts"(int64_t total, int64_t part, int64_t parts, int64_t *first, int *size)


cdef inline int part_count(const Grid *grid) noexcept nogil:
    return grid.row_parts * grid.column_parts


cdef inline int64_t largest_part(const Grid *grid, int64_t width, int64_t total) noexcept nogil:
    """Return the size of the largest part, if a unit has `width` columns and the grid has `total` columns."""
    if grid.stretches:
        return ceil_div(grid.rows * grid.columns, grid.row_parts) * width
    return ceil_div(grid.rows, grid.row_parts) * min(ceil_div(grid.columns, grid.column_parts) * width, total)


cdef inline bint has_own_columns(const Grid *grid) noexcept nogil:
    """Return whether no column belongs to two parts."""
    return grid.row_parts == 1 and not grid.stretches


cdef void split(int64_t rows, int64_t columns, int64_t threads, bint columns_first, Grid *grid) noexcept nogil
cdef void drop_idle_parts(Grid *grid) noexcept nogil
cdef list pieces_of_parts(const Grid *grid)
cdef int pieces_of(const Grid *grid, int part, Piece *pieces) noexcept nogil
