"""Spans: the parts of a window that are not all padding.

At the border of an image, windows contain padding. If the zero point is 0, products with padding are 0. A tile of
outputs in one line therefore skips the lines of its windows above and below the image. With many channels, a tile also
skips the taps left and right of the image. To skip taps, the tile stores and reloads its sums between columns of taps,
which must take less time than the skipped products.
"""

from libc.stddef cimport ptrdiff_t
from libc.stdint cimport int64_t

from int8blas.core.kernels cimport I8_DOT2, I8_GROUP, I8_PANEL, i8_image, i8_kernels, i8_tile_args
from int8blas.core.split cimport ceil_div

cdef bint is_outside(const i8_image *m, int64_t d, int64_t h, int64_t line) noexcept nogil:
    """Return whether a line of the window at (d, h) is above or below the image."""
    cdef int64_t z = d * m.stride[0] - m.before[0], y = h * m.stride[1] - m.before[1]
    if m.kernel[0] > 1:
        z += line // m.kernel[1] * m.dilation[0]
        line %= m.kernel[1]
    y += line * m.dilation[1]
    return z < 0 or z >= m.size[0] or y < 0 or y >= m.size[1]


cdef void rows_inside(const i8_image *m, int64_t w, int height, int64_t tap, int *first, int *end) noexcept nogil:
    """Find the outputs [first, end), counted from w, whose tap is in the image."""
    cdef int64_t x = w * m.stride[2] - m.before[2] + tap * m.dilation[2], room = m.size[2] - x
    first[0] = <int>min(<int64_t>height, ceil_div(-x, m.stride[2]) if x < 0 else 0)
    end[0] = <int>max(<int64_t>first[0], min(<int64_t>height, ceil_div(room, m.stride[2]) if room > 0 else 0))


cdef int spans_of(const i8_image *m, const Place *at, int height, int64_t k0, int64_t k, Span *spans) noexcept nogil:
    """Find the spans of a tile in columns [k0, k0 + k) of the matrix, and return their number. The first span and the
    last span have all rows of the tile."""
    cdef int64_t width = m.out[2], line_size = m.line, lines = m.kernel[0] * m.kernel[1]
    cdef int64_t w = at.w, h = at.h, d = at.d
    cdef int64_t first = 0, end = lines, low, high
    cdef Span taps[MAX_SPANS]
    cdef int count, i
    spans[0].k0, spans[0].k, spans[0].more, spans[0].row, spans[0].rows = 0, k, 0, 0, height
    if w + height > width or line_size == 0:
        return 1
    while first < lines and is_outside(m, d, h, first):
        first += 1
    while end > first and is_outside(m, d, h, end - 1):
        end -= 1
    low, high = max(first * line_size, k0) - k0, min(end * line_size, k0 + k) - k0
    low -= low % I8_GROUP
    spans[0].k0, spans[0].k = low, max(<int64_t>0, high - low)
    if spans[0].k == 0:
        spans[0].k0 = 0
    if m.channels < TAP_CHANNELS or m.channels % I8_GROUP or k0 != 0 or k < lines * line_size or end == first:
        return 1
    count = tap_spans(m, w, height, end - first, taps)
    if count == 0:
        return 1
    for i in range(count):
        spans[i] = taps[i]
        spans[i].k0 += first * line_size
    return count


cdef int tap_spans(const i8_image *m, int64_t w, int height, int64_t lines, Span *spans) noexcept nogil:
    """Find the spans of `lines` lines of the windows of `height` outputs from column w on. Return the number of spans,
    or 0 if no product can be skipped. The first span and the last span have all rows."""
    cdef int64_t tap = 0, start
    cdef int count = 0, full = 0, r0, r1, next_r0, next_r1
    if m.kernel[2] >= MAX_SPANS:
        return 0
    while tap < m.kernel[2]:
        start = tap
        rows_inside(m, w, height, tap, &r0, &r1)
        tap += 1
        while tap < m.kernel[2]:
            rows_inside(m, w, height, tap, &next_r0, &next_r1)
            if next_r0 != r0 or next_r1 != r1:
                break
            tap += 1
        if r0 == r1:
            continue
        spans[count].k0 = start * m.channels
        spans[count].k, spans[count].more = (tap - start) * m.channels, lines - 1
        spans[count].row, spans[count].rows = r0, r1 - r0
        full += r1 - r0 == height
        count += 1
    if full == 0 or (count == 1 and spans[0].k == m.kernel[2] * m.channels):
        return 0
    if full == 1:
        split_whole_span(spans, count, height)
        count += 1
    bring_whole_spans_to_the_ends(spans, count, height)
    return count


cdef void multiply_spans(const i8_kernels *kernels, const i8_tile_args *tile, const Span *spans, int count, int dot,
                         int height, int width, int64_t line) noexcept nogil:
    """Compute only the spans of a tile. Between two spans, the sums are in `dst`. A line of the windows has `line`
    columns."""
    cdef i8_tile_args t = tile[0]
    cdef ptrdiff_t row = width * I8_PANEL
    cdef int size = 2 if dot == I8_DOT2 else 1
    cdef int64_t fetched = 0
    cdef int i
    for i in range(count):
        t.a.data = tile.a.data + spans[i].row * tile.a.row + spans[i].k0 * size
        t.b.data = tile.b.data + spans[i].k0 * size * I8_PANEL
        t.groups, t.more_segments = ceil_div(spans[i].k, I8_GROUP) * size, spans[i].more
        t.b.segment = (line - spans[i].k) * size * I8_PANEL
        if i > 0:
            t.acc_in, t.acc_row = tile.dst + spans[i].row * row, row
            t.row_init = t.col_init = NULL
            t.fetch = NULL
            if t.ahead is not NULL:
                t.ahead += t.ahead_step * fetched
        if i < count - 1:
            t.dst, t.dst_row, t.cols, t.output = tile.dst + spans[i].row * row, row, <int>row, NULL
        else:
            t.dst, t.dst_row, t.cols, t.output = tile.dst, tile.dst_row, tile.cols, tile.output
        kernels.gemm.tiles[dot].of[spans[i].rows - 1][width - 1](&t)
        fetched = t.groups * (t.more_segments + 1)


cdef void split_whole_span(Span *spans, int count, int height) noexcept nogil:
    """Split the only span that has all rows into two spans. The second span becomes the last span."""
    cdef int i
    for i in range(count):
        if spans[i].rows == height:
            spans[count] = spans[i]
            spans[i].k = spans[i].k // 2 // I8_GROUP * I8_GROUP
            spans[count].k0 += spans[i].k
            spans[count].k -= spans[i].k
            return


cdef void bring_whole_spans_to_the_ends(Span *spans, int count, int height) noexcept nogil:
    """Swap spans so that the first span and the last span have all rows."""
    cdef Span other
    cdef int i
    for i in range(count):
        if spans[i].rows == height:
            other, spans[i] = spans[i], spans[0]
            spans[0] = other
            break
    for i in range(count - 1, 0, -1):
        if spans[i].rows == height:
            other, spans[i] = spans[i], spans[count - 1]
            spans[count - 1] = other
            return


cdef void move_on(const i8_image *m, Place *at, int rows) noexcept nogil:
    """Advance a place by `rows` rows of the image's matrix."""
    at.w += rows
    while at.w >= m.out[2]:
        at.w -= m.out[2]
        at.h += 1
        if at.h == m.out[1]:
            at.h = 0
            at.d = at.d + 1 if at.d + 1 < m.out[0] else 0


cdef void multiply_in_window(LoopState *loop) noexcept nogil:
    """Compute the current tile of the loop nest without products with padding, and go to the next tile's place."""
    cdef const i8_image *m = loop.g.source.image
    cdef Span spans[MAX_SPANS]
    cdef int count = spans_of(m, &loop.place, loop.at.height, loop.at.k0, loop.at.k, spans)
    move_on(m, &loop.place, loop.at.height)
    loop.tile.a.segment = m.line * (2 if loop.dot == I8_DOT2 else 1)
    multiply_spans(loop.g.kernels, &loop.tile, spans, count, loop.dot, loop.at.height, loop.at.width, m.line)
