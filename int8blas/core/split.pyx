"""Divide work among threads, by pure functions of the sizes.

A grid has units of work, for example tiles of C. If no rectangle is larger than the rounded up mean, the grid is
divided into rectangles of nearly equal size, one for each thread. If a rectangle would be larger than the mean, the
grid is divided into stretches: consecutive units, counted column by column. No stretch is larger than the rounded up
mean. Rectangles are preferred to stretches, because rectangles read less of the operands for each unit.
"""

from libc.stdint cimport int64_t


cdef void split(int64_t rows, int64_t columns, int64_t threads, bint columns_first, Grid *grid) noexcept nogil:
    """Divide a grid of at least one unit into at most `threads` parts, so that the largest part is small. If several
    divisions are equally good, choose the one that divides the columns (with `columns_first`) or the rows most."""
    cdef int64_t n, m, units, best = 0
    cdef int64_t first = columns if columns_first else rows, second = rows if columns_first else columns
    cdef double total = <double>rows * <double>columns
    threads = <int64_t>min(<double>threads, total)
    grid.rows, grid.columns = rows, columns
    grid.stretches = False
    for n in range(1, min(threads, second) + 1):
        m = min(threads // n, first)
        units = ceil_div(first, m) * ceil_div(second, n)
        if best == 0 or units < best:
            best = units
            grid.row_parts, grid.column_parts = <int>(n if columns_first else m), <int>(m if columns_first else n)
    if best >= total / threads + 1:
        grid.stretches = True
        grid.row_parts, grid.column_parts = <int>threads, 1


cdef void drop_idle_parts(Grid *grid) noexcept nogil:
    """Use fewer parts if the largest part stays the same, because more threads would not finish sooner."""
    cdef int64_t units = grid.rows * grid.columns
    if grid.stretches:
        grid.row_parts = <int>ceil_div(units, ceil_div(units, grid.row_parts))
    else:
        grid.row_parts = <int>ceil_div(grid.rows, ceil_div(grid.rows, grid.row_parts))
        grid.column_parts = <int>ceil_div(grid.columns, ceil_div(grid.columns, grid.column_parts))


cdef int pieces_of(const Grid *grid, int part, Piece *pieces) noexcept nogil:
    """Store the rectangles of one part, at most MAX_PIECES, and return their number."""
    cdef int64_t row_part = part // grid.column_parts, column_part = part % grid.column_parts
    cdef int64_t unit, end, row, column, height, width
    cdef int count = 0
    if not grid.stretches:
        pieces[0].row = share(grid.rows, row_part, grid.row_parts)
        pieces[0].row_end = share(grid.rows, row_part + 1, grid.row_parts)
        pieces[0].column = share(grid.columns, column_part, grid.column_parts)
        pieces[0].column_end = share(grid.columns, column_part + 1, grid.column_parts)
        return 1
    unit = share(grid.rows * grid.columns, part, grid.row_parts)
    end = share(grid.rows * grid.columns, part + 1, grid.row_parts)
    while unit < end:
        # A stretch is the rest of a column, whole columns, and the beginning of the next column.
        column, row = unit // grid.rows, unit % grid.rows
        height, width = min(grid.rows - row, end - unit), 1
        if row == 0 and height == grid.rows:
            width = (end - unit) // grid.rows
        pieces[count].row, pieces[count].row_end = row, row + height
        pieces[count].column, pieces[count].column_end = column, column + width
        count += 1
        unit += height * width
    return count


cdef list pieces_of_parts(const Grid *grid):
    """Return a list for each part: its pieces (row, row_end, column, column_end)."""
    cdef Piece pieces[MAX_PIECES]
    cdef int part, i
    parts = []
    for part in range(part_count(grid)):
        parts.append([(pieces[i].row, pieces[i].row_end, pieces[i].column, pieces[i].column_end)
                      for i in range(pieces_of(grid, part, pieces))])
    return parts


def split_of(rows, columns, threads, columns_first=False, leaves_out=False):
    """Return the pieces of each part as (row, row_end, column, column_end), for tests and for people."""
    cdef Grid grid
    split(rows, columns, threads, columns_first, &grid)
    if leaves_out:
        drop_idle_parts(&grid)
    return pieces_of_parts(&grid)
