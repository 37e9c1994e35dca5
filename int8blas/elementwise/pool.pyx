"""The driver of pooling, for arrays of any strides. There are three strategies.

- Lines, for many contiguous channels. For each line of the result, one kernel call computes all windows that have no
  padding. Each window with padding needs its own call.
- Patches, for all other channels. The driver copies a part of the source with its padding to a small buffer. A
  kernel reads the buffer, and computes the windows at every position along w, 64 bytes or more at a time. Only the
  results that the strides select are stored.
- Windows, if a line of the result has one element, or if a patch would not fit the buffer. Windows are computed one by
  one, along contiguous elements.

Dimensions are counted as (n, d, h, w, c). A dimension that a layout lacks has size 1.
"""

from libc.math cimport INFINITY, rintf
from libc.stddef cimport ptrdiff_t
from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t
from libc.string cimport memcpy, memset
cimport int8blas.core.cnumpy as cnp

from int8blas.core.kernels cimport (
    I8_CHUNK, I8_POOL_PART, I8_POOL_RUN, I8_POOL_WINDOW, I8_S8, I8_TYPE_F32, I8_TYPE_S8, I8_TYPE_S32, I8_TYPE_U8, I8_U8,
    current_kernels, i8_kernels, i8_pool_args, i8_pool_fn)
from int8blas.core.results cimport empty_in_order, empty_of
from int8blas.core.split cimport ceil_div
from int8blas.core.threads cimport KEEPS_GIL_BYTES, THREAD_BYTES, run_work

cnp.import_array()

cdef enum:
    PATCH = 1 << 13         # bytes of a patch, which fits the L1 or L2 cache with 4-byte results and divisors
    LARGEST_STEP = 16       # largest stride along w: a patch computes this many times more results than it stores
    CHANNELS = 64           # channels of a patch or a window
    LONG_LINE = 1 << 12     # minimum elements whose maximum a kernel finds faster than a loop, by wider vectors
# Fewer than FEW_LINES lines are divided into pieces, so that all threads have work. A piece has PIECE channels, or all
# channels and LONG_PIECE elements.
cdef int64_t PIECE = 1 << 10, LONG_PIECE = 1 << 13, FEW_LINES = 64

cdef enum Way:
    LINES, PATCHES, WINDOWS


cdef struct PoolJob:
    Way way
    int operation
    const i8_kernels *kernels
    i8_pool_fn kernel
    bint is_signed
    int type, size              # type of the result (an I8_TYPE), bytes of an element
    int64_t shape[5]
    int64_t out_shape[5]
    ptrdiff_t x[5]              # strides of the source
    ptrdiff_t y[5]              # strides of the result
    Axis axes[3]
    const uint8_t *src
    char *out
    int64_t channels, columns, rows                     # channels, columns and rows of the result in a unit of work
    int64_t channel_blocks, column_blocks, row_blocks
    const float *divisors       # the divisors of each patch if all patches have equal divisors, or NULL


# The first element of the result that a unit of work computes.
cdef struct Place:
    int64_t n, d, h, w, c


# The elements of a window along one dimension that are not padding.
cdef struct Range:
    int64_t first, count        # first element in the source; number of elements
    int64_t skipped             # elements of the window before the first


cdef inline Range inside(const Axis *axis, int64_t size, int64_t position) noexcept nogil:
    """Return the elements of the window for one position of the result."""
    cdef Range r
    cdef int64_t start = position * axis.stride - axis.before
    r.skipped = ceil_div(-start, axis.dilation) if start < 0 else 0
    r.first = start + r.skipped * axis.dilation
    r.count = min(axis.kernel, ceil_div(size - start, axis.dilation) if size > start else 0) - r.skipped
    return r


cdef bint padding_only(const Axis *axis, int64_t size, int64_t positions) noexcept:
    """Return whether any window has only padding."""
    cdef int64_t position
    for position in range(positions):
        if inside(axis, size, position).count <= 0:
            return True
    return False


cdef inline void divide_in_16_bits(const PoolJob *job, i8_pool_args *a, int64_t count) noexcept nogil:
    """Set the multiplier for a division by `count`, if one exists.

    Unsigned sums have u <= 255 * count < 2**16 - count / 2. An odd count has no ties, so the average is floor((u +
    (count - 1) / 2) / count). For m = ceil(2**p / count), floor(x * m / 2**p) = floor(x / count) if x * (m * count -
    2**p) < 2**p. For count = 2**k the average is (u + 2**(k - 1) - 1 + odd) >> k, where odd is bit k of u: half is
    rounded up only to an even number. Bit k is the same in a sum of signed elements, u - 128 * count. The averages
    equal rne(f32(u) / f32(count)): the error of the f32 quotient is less than 2**-17, and u / count is a tie, or at
    least 1 / (2 * count) away from the nearest tie.
    """
    cdef int64_t m, p = 16
    a.multiplier = 0
    if job.size != 1 or not 1 < count < I8_POOL_PART:
        return
    a.shift, a.parity_shift, a.bias = 0, 16, <int>(count - 1) // 2
    if count & (count - 1) == 0:
        m = (1 << 16) // count
        a.parity_shift = 0
        while 1 << a.parity_shift < count:
            a.parity_shift += 1
    elif count & 1:
        while 2 << a.shift < count:
            a.shift += 1
        p += a.shift
        m = ((1 << p) + count - 1) // count
        if (255 * count + a.bias) * (m * count - (1 << p)) >= 1 << p:
            return
    else:
        return
    if job.is_signed:
        a.bias += <int>(128 * count)
    a.multiplier = <int>m


cdef inline void divide_by(const PoolJob *job, i8_pool_args *a, float *chunk, int64_t count) noexcept nogil:
    """Make the kernel divide all sums by `count`."""
    cdef int i
    a.each = False
    a.divisors = chunk
    for i in range(I8_CHUNK):
        chunk[i] = <float>count
    divide_in_16_bits(job, a, count)


cdef inline int64_t window_size(const PoolJob *job) noexcept nogil:
    return job.axes[0].kernel * job.axes[1].kernel * job.axes[2].kernel


cdef inline void set_window(const PoolJob *job, i8_pool_args *a, int64_t deep, int64_t high,
                            int64_t wide) noexcept nogil:
    """Set the number of elements of the window along d, h and w. If two loops visit evenly spaced elements, replace
    them by one loop."""
    a.counts[0], a.counts[1], a.counts[2] = deep, high, wide
    a.strides[0], a.strides[1] = job.axes[0].dilation * job.x[1], job.axes[1].dilation * job.x[2]
    a.strides[2] = job.axes[2].dilation * job.x[3]
    if a.counts[1] == 1 or a.strides[1] == a.counts[2] * a.strides[2]:
        a.counts[2] *= a.counts[1]
        a.counts[1], a.strides[1] = a.counts[0], a.strides[0]
        a.counts[0] = 1
        if a.counts[1] == 1 or a.strides[1] == a.counts[2] * a.strides[2]:
            a.counts[2] *= a.counts[1]
            a.counts[1] = 1
    elif a.counts[0] > 1 and a.strides[0] == a.counts[1] * a.strides[1]:
        a.counts[1] *= a.counts[0]
        a.counts[0] = 1


cdef inline Place place_of(const PoolJob *job, int64_t unit) noexcept nogil:
    cdef Place p
    p.w = unit % job.column_blocks * job.columns
    unit = unit // job.column_blocks
    p.h = unit % job.row_blocks * job.rows
    unit = unit // job.row_blocks
    p.d = unit % job.out_shape[1]
    unit = unit // job.out_shape[1]
    p.c = unit % job.channel_blocks * job.channels
    p.n = unit // job.channel_blocks
    return p


# Lines

cdef void do_line(const PoolJob *job, int64_t unit) noexcept nogil:
    """Compute a line of the result, or some of its columns or channels."""
    cdef i8_pool_args a
    cdef float chunk[I8_CHUNK]
    cdef Place p = place_of(job, unit)
    cdef const Axis *axis = &job.axes[2]
    cdef Range d = inside(&job.axes[0], job.shape[1], p.d), h = inside(&job.axes[1], job.shape[2], p.h), w
    cdef const uint8_t *src = (job.src + p.n * job.x[0] + d.first * job.x[1] + h.first * job.x[2] + p.c)
    cdef char *out = job.out + p.n * job.y[0] + p.d * job.y[1] + p.h * job.y[2] + p.c * job.size
    # The windows from `low` to `high` lie within the source.
    cdef int64_t end = min(p.w + job.columns, job.out_shape[3]), room = job.shape[3] + axis.before - extent(axis)
    cdef int64_t low = max(p.w, min(ceil_div(axis.before, axis.stride), end)), column
    cdef int64_t high = max(min(room // axis.stride + 1, end), low) if room >= 0 else low
    a.n = job.out_shape[4] - p.c
    if a.n >= 2 * job.channels:
        a.n = job.channels
    a.src_step, a.out_step = axis.stride * job.x[3], job.y[3]
    a.type = job.type
    column = p.w
    while column < end:
        w = inside(axis, job.shape[3], column)
        set_window(job, &a, d.count, h.count, w.count)
        divide_by(job, &a, chunk, d.count * h.count * w.count if job.operation == AVERAGE else window_size(job))
        a.src, a.out = src + w.first * job.x[3], out + column * job.y[3]
        a.runs = high - low if column == low and low < high else 1
        job.kernel(&a)
        column += a.runs


# Patches

cdef inline void copy_elements(char *to, ptrdiff_t to_step, const char *source, ptrdiff_t step, int64_t n,
                               int size) noexcept nogil:
    """Copy n elements of 1 or 4 bytes. The steps are in bytes."""
    cdef int64_t i
    if size == 4:
        for i in range(n):
            memcpy(to + i * to_step, source + i * step, 4)
    elif to_step == 1 and step == 1:
        memcpy(to, source, n)
    elif to_step == 1 and step == 2:
        for i in range(n):
            to[i] = source[2 * i]
    else:
        for i in range(n):
            to[i * to_step] = source[i * step]


cdef void copy_pixels(char *to, ptrdiff_t to_pixel, ptrdiff_t to_channel, const char *source, ptrdiff_t pixel,
                      ptrdiff_t channel, int64_t pixels, int64_t channels, int size) noexcept nogil:
    """Copy `pixels` pixels of `channels` elements."""
    cdef int64_t i
    if channels == 1:
        copy_elements(to, to_pixel, source, pixel, pixels, size)
    elif to_channel == size and channel == size:
        if to_pixel == channels * size and pixel == channels * size:
            memcpy(to, source, pixels * channels * size)
        else:
            for i in range(pixels):
                memcpy(to + i * to_pixel, source + i * pixel, channels * size)
    else:
        for i in range(channels):
            copy_elements(to + i * to_channel, to_pixel, source + i * channel, pixel, pixels, size)


cdef void set_divisors(const PoolJob *job, const Place *p, float *divisors, int64_t depth, int64_t rows, int64_t n,
                       int64_t channels) noexcept nogil:
    """Set the divisors of a patch: the number of elements of each window, without padding."""
    cdef Axis every = job.axes[2]
    cdef int64_t row, i, start = p.w * every.stride
    cdef float count = 1
    every.stride = 1
    for i in range(n):
        # The maximum with 1 avoids a division by 0, and matters only for results that are not stored: after the last
        # position, or at positions that the stride skips.
        if i % channels == 0:
            count = <float>max(inside(&every, job.shape[3], start + i // channels).count, 1)
        divisors[i] = count
    for row in range(rows - 1, -1, -1):
        count = <float>(depth * inside(&job.axes[1], job.shape[2], p.h + row).count)
        for i in range(n):
            divisors[row * n + i] = count * divisors[i]


cdef void share_divisors(PoolJob *job, float *divisors) noexcept:
    """Set the divisors of all patches if they are equal: each patch has all windows of an image, and all patches have
    an equal number of channels."""
    cdef Place p
    cdef int64_t n = max(((job.columns - 1) * job.axes[2].stride + 1) * job.channels, I8_POOL_RUN)
    cdef bint padded = (job.axes[1].before or job.axes[1].after or job.axes[2].before or job.axes[2].after)
    if (padded and job.operation == AVERAGE and job.out_shape[1] == job.row_blocks == job.column_blocks == 1
            and job.out_shape[4] % job.channels == 0):
        p = place_of(job, 0)
        set_divisors(job, &p, divisors, inside(&job.axes[0], job.shape[1], 0).count, job.rows, n, job.channels)
        job.divisors = divisors


cdef void do_patch(const PoolJob *job, int64_t unit) noexcept nogil:
    """Compute rows and columns of the result for some channels."""
    cdef i8_pool_args a
    cdef char patch[PATCH + I8_POOL_RUN]
    cdef char results[4 * PATCH]
    cdef float divisors[PATCH]
    cdef Place p = place_of(job, unit)
    cdef const Axis *high = &job.axes[1]
    cdef const Axis *wide = &job.axes[2]
    cdef int64_t channels = min(job.channels, job.out_shape[4] - p.c)
    cdef int64_t rows = min(job.rows, job.out_shape[2] - p.h), columns = min(job.columns, job.out_shape[3] - p.w)
    cdef int64_t height = (rows - 1) * high.stride + extent(high), width = (columns - 1) * wide.stride + extent(wide)
    cdef Range d = inside(&job.axes[0], job.shape[1], p.d)
    cdef int64_t top = p.h * high.stride - high.before, left = p.w * wide.stride - wide.before
    cdef int64_t before = min(max(-left, 0), width), within = min(job.shape[3] - left, width) - before
    cdef int64_t line = width * channels, depth, row
    cdef const char *src = <const char *>job.src + p.n * job.x[0] + (left + before) * job.x[3] + p.c * job.x[4]
    cdef const char *from_
    cdef char *to = patch
    # Padding is 0 in a sum, and less than or equal to every element in a maximum.
    cdef int fill = -128 if job.is_signed and job.operation == MAXIMUM else 0
    cdef bint padded = within < width or top < 0 or top + height > job.shape[2]
    if padded:
        memset(patch, fill, d.count * height * line)
    for depth in range(d.count):
        from_ = src + (d.first + depth * job.axes[0].dilation) * job.x[1]
        if not padded and job.x[2] == line and job.x[3] == channels and (channels == 1 or job.x[4] == 1):
            memcpy(to, from_ + top * line, height * line)
            to += height * line
            continue
        for row in range(top, top + height):
            if 0 <= row < job.shape[2] and within > 0:
                copy_pixels(to + before * channels, channels, 1, from_ + row * job.x[2], job.x[3], job.x[4], within,
                            channels, 1)
            to += line
    memset(to, fill, I8_POOL_RUN)

    a.n = ((columns - 1) * wide.stride + 1) * channels
    if not padded and wide.stride <= extent(wide):
        a.n = columns * wide.stride * channels  # equal steps between all results, also from row to row
    a.n = max(a.n, I8_POOL_RUN)
    a.runs = rows
    a.src, a.out = <const uint8_t *>patch, results
    a.src_step, a.out_step = high.stride * line, a.n * job.size
    # The runs are successive along h, so h is the window's innermost dimension here.
    a.counts[0], a.counts[1], a.counts[2] = d.count, wide.kernel, high.kernel
    a.strides[0], a.strides[1], a.strides[2] = height * line, wide.dilation * channels, high.dilation * line
    a.type = job.type
    if job.operation == AVERAGE and padded:
        a.divisors, a.each, a.divisor_step, a.multiplier = divisors, True, a.n, 0
        if job.divisors is not NULL:
            a.divisors = job.divisors
        else:
            set_divisors(job, &p, divisors, d.count, rows, a.n, channels)
    else:
        depth = d.count if job.operation == AVERAGE else job.axes[0].kernel
        divide_by(job, &a, divisors, depth * high.kernel * wide.kernel)
    job.kernel(&a)
    cdef char *out = job.out + p.n * job.y[0] + p.d * job.y[1] + p.h * job.y[2] + p.w * job.y[3] + p.c * job.y[4]
    cdef ptrdiff_t step = wide.stride * channels * job.size
    if job.y[2] == columns * job.y[3] and a.out_step == columns * step:
        rows, columns = 1, rows * columns
    for row in range(rows):
        copy_pixels(out + row * job.y[2], job.y[3], job.y[4], results + row * a.out_step, step, job.size, columns,
                    channels, job.size)


# Windows

cdef inline int64_t element(const PoolJob *job, const uint8_t *x) noexcept nogil:
    if job.is_signed:
        return (<const int8_t *>x)[0]
    return x[0]


cdef uint8_t largest_of(const uint8_t *x, int64_t n, uint8_t flip) noexcept nogil:
    """Return the maximum of x[i] ^ flip. GCC vectorizes this loop."""
    cdef uint8_t largest = 0, value
    cdef int64_t i
    for i in range(n):
        value = x[i] ^ flip
        largest = value if value > largest else largest
    return largest


cdef int64_t contiguous_maximum(const PoolJob *job, i8_pool_args *a, const uint8_t *src, int64_t n) noexcept nogil:
    """Return the maximum of n contiguous elements. A kernel reduces long lines to I8_POOL_RUN elements first."""
    cdef uint8_t partial[I8_POOL_RUN]
    cdef uint8_t flip = 0x80 if job.is_signed else 0, largest = 0
    if n >= LONG_LINE:
        a.runs, a.n, a.strides[2], a.counts[2] = 1, I8_POOL_RUN, I8_POOL_RUN, n // I8_POOL_RUN
        a.src, a.out = src, <char *>partial
        job.kernel(a)
        largest = largest_of(partial, I8_POOL_RUN, flip)
        src, n = src + n // I8_POOL_RUN * I8_POOL_RUN, n % I8_POOL_RUN
    return max(<int64_t>largest, <int64_t>largest_of(src, n, flip)) - flip


cdef void add_line(const PoolJob *job, i8_pool_args *a, int64_t *values, const uint8_t *src, int64_t n, ptrdiff_t pixel,
                   int64_t channels) noexcept nogil:
    """Add n pixels to the sums of their channels, or update the maxima of their channels."""
    cdef int32_t partial[I8_POOL_RUN + CHANNELS]
    cdef int64_t together = ceil_div(I8_POOL_RUN, channels), i, j, value, parts
    cdef bint contiguous = pixel == channels
    cdef const uint8_t *x
    if contiguous and channels == 1 and job.operation == MAXIMUM:
        values[0] = max(values[0], contiguous_maximum(job, a, src, n))
        return
    if contiguous and channels == 1:
        job.kernels.packing.row_sums(&value, 1, n, src, n, 1, 0x80 if job.is_signed else 0)
        values[0] += value - 128 * n if job.is_signed else value
        return
    a.runs = 1
    a.n = together * channels
    a.out = <char *>partial
    a.strides[2] = a.n
    while contiguous and n >= 2 * together:
        # Contiguous pixels are treated like channels of one pixel, and their results are combined at the end.
        parts = min(n // together, <int64_t>I8_POOL_WINDOW)
        a.src, a.counts[2] = src, parts
        job.kernel(a)
        for i in range(a.n):
            j = i % channels
            if job.operation != MAXIMUM:
                values[j] += partial[i]
            else:
                values[j] = max(values[j], element(job, <uint8_t *>partial + i))
        src += parts * together * pixel
        n -= parts * together
    for j in range(channels):
        x = src + j * job.x[4]
        for i in range(n):
            value = element(job, x + i * pixel)
            values[j] = max(values[j], value) if job.operation == MAXIMUM else values[j] + value


cdef void store_value(const PoolJob *job, char *out, int64_t value, int64_t count) noexcept nogil:
    cdef float quotient
    if job.operation == MAXIMUM:
        out[0] = <char>value
        return
    quotient = <float>value / <float>count
    if job.type == I8_TYPE_F32:
        memcpy(out, &quotient, 4)
    else:
        out[0] = <char><int32_t>rintf(quotient)


cdef void do_windows(const PoolJob *job, int64_t unit) noexcept nogil:
    """Compute a line of the result for some channels, window by window."""
    cdef i8_pool_args a
    cdef float ones[I8_CHUNK]
    cdef int64_t values[CHANNELS]
    cdef Place p = place_of(job, unit)
    cdef int64_t channels = min(job.channels, job.out_shape[4] - p.c), column, i, j, c, count
    cdef int64_t lowest = 0 if job.operation != MAXIMUM else -128 if job.is_signed else 0
    cdef int64_t counts[3]
    cdef ptrdiff_t pixel
    cdef Range d = inside(&job.axes[0], job.shape[1], p.d), h = inside(&job.axes[1], job.shape[2], p.h), w
    cdef const uint8_t *src
    cdef const uint8_t *line
    cdef char *out = job.out + p.n * job.y[0] + p.d * job.y[1] + p.h * job.y[2] + p.c * job.y[4]
    a.type = I8_TYPE_S32
    divide_by(job, &a, ones, 1)
    for column in range(job.out_shape[3]):
        w = inside(&job.axes[2], job.shape[3], column)
        src = (job.src + p.n * job.x[0] + d.first * job.x[1] + h.first * job.x[2] + w.first * job.x[3]
               + p.c * job.x[4])
        set_window(job, &a, d.count, h.count, w.count)
        counts[0], counts[1], counts[2], pixel = a.counts[0], a.counts[1], a.counts[2], a.strides[2]
        a.counts[0] = a.counts[1] = 1
        for i in range(channels):
            values[i] = lowest
        for i in range(counts[0]):
            for j in range(counts[1]):
                line = src + i * a.strides[0] + j * a.strides[1]
                if job.x[4] == 1:
                    add_line(job, &a, values, line, counts[2], pixel, channels)
                else:
                    for c in range(channels):
                        add_line(job, &a, values + c, line + c * job.x[4], counts[2], pixel, 1)
        count = d.count * h.count * w.count if job.operation == AVERAGE else window_size(job)
        for i in range(channels):
            store_value(job, out + column * job.y[3] + i * job.y[4], values[i], count)


# Driver

cdef bint lay_out_patches(PoolJob *job, int64_t channels) noexcept:
    """Set the size of patches of `channels` channels. Return whether a patch fits the buffer."""
    cdef int64_t deep = job.axes[0].kernel, high = extent(&job.axes[1]), wide = extent(&job.axes[2]), room
    cdef int64_t width
    if deep > PATCH or high > PATCH or wide > PATCH or deep * high * wide * channels > PATCH:
        return False
    room = PATCH // (deep * high * channels)
    job.channels = channels
    job.columns = min(job.out_shape[3], (room - wide) // job.axes[2].stride + 1)
    width = (job.columns - 1) * job.axes[2].stride + wide
    room = PATCH // (deep * width * channels)
    job.rows = min(job.out_shape[2], (room - high) // job.axes[1].stride + 1)
    job.rows = min(job.rows, PATCH // max(width * channels, I8_POOL_RUN))
    return True


cdef void choose_way(PoolJob *job) noexcept:
    """Choose lines, patches or windows, and set the sizes of a unit of work."""
    cdef int64_t channels = job.out_shape[4], lines = job.out_shape[0] * job.out_shape[1] * job.out_shape[2]
    cdef int64_t some = 1 if job.x[3] == 1 and job.x[4] != 1 else min(channels, <int64_t>CHANNELS)
    job.rows, job.columns = 1, job.out_shape[3]
    if job.x[4] == 1 and job.y[4] == job.size and channels >= I8_POOL_RUN and (
        job.operation == MAXIMUM or window_size(job) <= I8_POOL_WINDOW
    ):
        job.way = LINES
        job.channels = PIECE if lines < FEW_LINES and channels >= PIECE else channels
        job.channel_blocks = channels // job.channels
        if lines < FEW_LINES:
            job.columns = max(ceil_div(lines * job.out_shape[3], FEW_LINES), ceil_div(LONG_PIECE, job.channels))
    else:
        if job.out_shape[3] > 1 and job.axes[2].stride <= LARGEST_STEP and (
            lay_out_patches(job, some) or lay_out_patches(job, 1)
        ):
            job.way = PATCHES
        else:
            job.way = WINDOWS
            job.channels = min(channels, <int64_t>CHANNELS)
        job.channel_blocks = ceil_div(channels, job.channels)
    job.column_blocks = ceil_div(job.out_shape[3], job.columns)
    job.row_blocks = ceil_div(job.out_shape[2], job.rows)


cdef void swap_last_dimensions(PoolJob *job) noexcept:
    """Exchange h and w, so that a result one column wide has one long line."""
    job.axes[1], job.axes[2] = job.axes[2], job.axes[1]
    job.shape[2], job.shape[3] = job.shape[3], job.shape[2]
    job.out_shape[2], job.out_shape[3] = job.out_shape[3], job.out_shape[2]
    job.x[2], job.x[3] = job.x[3], job.x[2]
    job.y[2], job.y[3] = job.y[3], job.y[2]


cdef int do_unit(const void *shared, int64_t unit, int64_t _units) noexcept nogil:
    cdef const PoolJob *job = <const PoolJob *>shared
    if job.way == LINES:
        do_line(job, unit)
    elif job.way == PATCHES:
        do_patch(job, unit)
    else:
        do_windows(job, unit)
    return 0


cdef int pool(cnp.ndarray src, cnp.ndarray out, tuple axes, int operation, const Axis *window) except -1:
    """Pool an array of uint8 or int8 into an array of the same dimensions. `axes` lists the axes in the order n, d, h,
    w, c.

    `window` has an entry for each spatial dimension. Every window has an element that is not padding. `out` has the
    type of `src` or float32, is not empty, and does not overlap `src`.
    """
    cdef PoolJob job
    cdef float divisors[PATCH]
    cdef int d, axis, ndim = cnp.PyArray_NDIM(src), missing = 5 - ndim
    cdef int64_t units
    cdef double work = cnp.PyArray_SIZE(out)
    job.operation = operation
    job.is_signed = cnp.PyArray_TYPE(src) == cnp.NPY_INT8
    job.size = cnp.PyArray_ITEMSIZE(out)
    job.type = I8_TYPE_F32 if job.size == 4 else I8_TYPE_S8 if job.is_signed else I8_TYPE_U8
    d = I8_S8 if job.is_signed else I8_U8
    job.kernels = current_kernels()
    job.kernel = job.kernels.elementwise.maximum[d] if operation == MAXIMUM else job.kernels.elementwise.average[d]
    job.src, job.out = <const uint8_t *>cnp.PyArray_DATA(src), <char *>cnp.PyArray_DATA(out)
    for d in range(5):
        axis = axes[0 if d == 0 else max(d - missing, 0)]
        if 0 < d <= missing:
            job.shape[d] = job.out_shape[d] = 1
            job.x[d] = job.y[d] = 0
        else:
            job.shape[d], job.out_shape[d] = src.shape[axis], out.shape[axis]
            job.x[d], job.y[d] = src.strides[axis], out.strides[axis]
    for d in range(3):
        if d < missing:
            job.axes[d].kernel = job.axes[d].stride = job.axes[d].dilation = 1
            job.axes[d].before = job.axes[d].after = 0
        else:
            job.axes[d] = window[d - missing]
        work *= job.axes[d].kernel
    if job.out_shape[3] == 1 and job.out_shape[2] > 1:
        swap_last_dimensions(&job)
    choose_way(&job)
    job.divisors = NULL
    if job.way == PATCHES:
        share_divisors(&job, divisors)
    units = job.out_shape[0] * job.channel_blocks * job.out_shape[1] * job.row_blocks * job.column_blocks
    run_work(do_unit, &job, units, work, THREAD_BYTES, KEEPS_GIL_BYTES)  # bytes of windows
    return 0


# Windows of float32 and float64

ctypedef fused real:
    float
    double


# A tap along one dimension. `start` is the position of the tap's element in window 0. Windows `low` to `high` - 1 have
# an element of the source at the tap. All other windows have padding at the tap.
cdef struct Tap:
    int64_t start, low, high


cdef cnp.ndarray taps_of(const Axis *axis, int64_t size, int64_t positions):
    """Return an array with the taps of a window along one dimension."""
    cdef cnp.ndarray result = empty_of((axis.kernel, 3), cnp.NPY_INT64)
    cdef Tap *taps = <Tap *>cnp.PyArray_DATA(result)
    cdef int64_t i, start
    for i in range(axis.kernel):
        start = i * axis.dilation - axis.before
        taps[i].start = start
        taps[i].low = min(positions, ceil_div(-start, axis.stride)) if start < 0 else 0
        taps[i].high = min(positions, ceil_div(size - start, axis.stride)) if size > start else 0
        taps[i].high = max(taps[i].low, taps[i].high)
    return result


cdef inline real larger(real a, real b) noexcept nogil:
    """Return the larger number, or NaN if a number is NaN."""
    return a if (a > b) | (a != a) else b


cdef void combine(real *y, const real *x, int64_t rows, int64_t columns, int64_t y_row, int64_t x_row,
                  bint maximum) noexcept nogil:
    """Add rows of x to rows of y, or set y to the maximum."""
    cdef int64_t i
    if y_row == columns == x_row:
        rows, columns = 1, rows * columns
    if columns == 1:
        for i in range(rows if maximum else 0):
            y[i * y_row] = larger(y[i * y_row], x[i * x_row])
        for i in range(0 if maximum else rows):
            y[i * y_row] += x[i * x_row]
        return
    for _ in range(rows):
        for i in range(columns if maximum else 0):
            y[i] = larger(y[i], x[i])
        for i in range(0 if maximum else columns):
            y[i] += x[i]
        y, x = y + y_row, x + x_row


cdef void reduce_axis(real *y, const real *x, const Axis *w, const Tap *taps, int64_t outer, int64_t size,
                      int64_t inner, int64_t count, bint maximum, real *every, int64_t step) noexcept nogil:
    """Reduce the windows along the second of three axes. If `step` is more than 1, compute the windows at all positions
    in `every`, where the elements of a tap are contiguous, and store every `step`-th window."""
    cdef int64_t i, tap
    cdef real *to
    for _ in range(outer):
        to = every if step > 1 else y
        for i in range(((count - 1) * step + 1) * inner):
            to[i] = -INFINITY if maximum else 0
        for tap in range(w.kernel):
            combine(to + taps[tap].low * inner, x + (taps[tap].start + taps[tap].low * w.stride) * inner,
                    taps[tap].high - taps[tap].low, inner, inner, w.stride * inner, maximum)
        for i in range(count if step > 1 else 0):
            y[i] = to[i * step]
        y, x = y + count * inner, x + size * inner


# One tap of the windows of an image along each dimension, and the elements from one index to the next.
cdef struct Step:
    Tap tap
    int64_t stride, y_step, x_step


cdef void add_tap(real *y, const real *x, const Step *p, int dims) noexcept nogil:
    """Add one tap of all windows to an image."""
    cdef int64_t i, low = p.tap.low
    y += (p.tap.start + low * p.stride) * p.y_step
    x += low * p.x_step
    if dims == 1:
        combine(y, x, p.tap.high - low, 1, p.stride, 1, False)
        return
    for i in range(p.tap.high - low):
        add_tap(y + i * p.stride * p.y_step, x + i * p.x_step, p + 1, dims - 1)


cdef void add_taps(real *y, const real *x, const int64_t *index, const real *weights, int64_t taps, int64_t count,
                   int64_t inner) noexcept nogil:
    """Store the weighted sums of rows. Each product and each sum is rounded."""
    cdef int64_t tap, row, i
    cdef const real *source
    cdef real weight
    if inner == 1:
        for row in range(count):
            y[row] = weights[row] * x[index[row]]
        for tap in range(1, taps):
            for row in range(count):
                y[row] += weights[tap * count + row] * x[index[tap * count + row]]
        return
    for row in range(count):
        for tap in range(taps):
            source, weight = x + index[tap * count + row] * inner, weights[tap * count + row]
            if tap == 0:
                for i in range(inner):
                    y[i] = weight * source[i]
            else:
                for i in range(inner):
                    y[i] += weight * source[i]
        y += inner


cdef cnp.ndarray empty_along(cnp.ndarray x, int axis, int64_t count, int64_t *outer, int64_t *inner):
    """Return an array with another size along an axis. Set the numbers of elements before and after the axis."""
    cdef cnp.npy_intp shape[cnp.NPY_MAXDIMS]
    cdef int d
    outer[0] = inner[0] = 1
    for d in range(cnp.PyArray_NDIM(x)):
        shape[d] = cnp.PyArray_DIM(x, d)
        if d < axis:
            outer[0] *= shape[d]
        elif d > axis:
            inner[0] *= shape[d]
    shape[axis] = count
    return empty_in_order(shape, x, cnp.PyArray_TYPE(x))


def reduce_windows(cnp.ndarray x, int axis, tuple window, int64_t count, bint maximum):
    """Return the sums or maxima of windows along one axis of an array in C order. Elements are added in turn. A window
    without elements has the sum 0 and the maximum -inf.

    Parameters
    ----------
    x : ndarray of float32 or float64
        The array, in C order.
    axis : int
        The axis.
    window : tuple of int
        The number of taps of a window, the stride, the dilation, and the position of element 0 in window 0.
    count : int
        The number of windows.
    maximum : bool
        Whether to compute maxima.
    """
    cdef Axis w
    cdef int64_t outer, inner, size = cnp.PyArray_DIM(x, axis), step = 1
    cdef cnp.ndarray y, taps, every = None
    w.kernel, w.stride, w.dilation, w.before = window
    y = every = empty_along(x, axis, count, &outer, &inner)
    if inner == 1 and count and w.stride <= LARGEST_STEP:
        step, w.stride = w.stride, 1
    if step > 1:
        every = empty_of(((count - 1) * step + 1,), cnp.PyArray_TYPE(x))
    taps = taps_of(&w, size, (count - 1) * step + 1)
    if cnp.PyArray_TYPE(x) == cnp.NPY_FLOAT32:
        reduce_axis(<float *>cnp.PyArray_DATA(y), <const float *>cnp.PyArray_DATA(x), &w,
                    <const Tap *>cnp.PyArray_DATA(taps), outer, size, inner, count, maximum,
                    <float *>cnp.PyArray_DATA(every), step)
    else:
        reduce_axis(<double *>cnp.PyArray_DATA(y), <const double *>cnp.PyArray_DATA(x), &w,
                    <const Tap *>cnp.PyArray_DATA(taps), outer, size, inner, count, maximum,
                    <double *>cnp.PyArray_DATA(every), step)
    return y


def add_windows(cnp.ndarray parts, tuple windows, tuple sizes):
    """Add windows to images of zeros, tap by tap, and return the images.

    Parameters
    ----------
    parts : ndarray of float32 or float64
        (images, channels, *kernel, *positions), in C order.
    windows : tuple of tuple of int
        The number of taps, the stride, the dilation, and the position of element 0 in window 0, of each dimension.
    sizes : tuple of int
        The spatial shape of the images. Elements of windows outside of the images have no effect.
    """
    cdef Axis w[cnp.NPY_MAXDIMS]
    cdef Step steps[cnp.NPY_MAXDIMS]
    cdef int64_t channel, tap, rest, y_size = 1, x_size = 1, count = 1, first = 0
    cdef int d, dims = len(sizes)
    cdef cnp.ndarray y = empty_of((cnp.PyArray_DIM(parts, 0), cnp.PyArray_DIM(parts, 1)) + sizes,
                                  cnp.PyArray_TYPE(parts))
    cdef list taps = []
    memset(cnp.PyArray_DATA(y), 0, cnp.PyArray_NBYTES(y))
    for d in reversed(range(dims)):
        w[d].kernel, w[d].stride, w[d].dilation, w[d].before = windows[d]
        steps[d].stride, steps[d].y_step, steps[d].x_step = w[d].stride, y_size, x_size
        taps.insert(0, taps_of(&w[d], sizes[d], cnp.PyArray_DIM(parts, 2 + dims + d)))
        y_size *= cnp.PyArray_DIM(y, 2 + d)
        x_size *= cnp.PyArray_DIM(parts, 2 + dims + d)
        count *= w[d].kernel
    for channel in range(cnp.PyArray_DIM(y, 0) * cnp.PyArray_DIM(y, 1)):
        for tap in range(count):
            rest = tap
            for d in reversed(range(dims)):
                steps[d].tap = (<const Tap *>cnp.PyArray_DATA(<cnp.ndarray>taps[d]))[rest % w[d].kernel]
                rest //= w[d].kernel
            if cnp.PyArray_TYPE(parts) == cnp.NPY_FLOAT32:
                add_tap(<float *>cnp.PyArray_DATA(y) + channel * y_size,
                        <const float *>cnp.PyArray_DATA(parts) + first, steps, dims)
            else:
                add_tap(<double *>cnp.PyArray_DATA(y) + channel * y_size,
                        <const double *>cnp.PyArray_DATA(parts) + first, steps, dims)
            first += x_size
    return y


def add_weighted(cnp.ndarray x, int axis, cnp.ndarray index, cnp.ndarray weights):
    """Return ``sum over t of weights[t, i] * x[index[t, i]]`` along an axis, in the order of t.

    Parameters
    ----------
    x : ndarray of float32 or float64
        The array.
    axis : int
        The axis.
    index : ndarray of int64
        (taps, count).
    weights : ndarray
        As `index`, and of the type of x.
    """
    cdef int64_t count = cnp.PyArray_DIM(index, 1), taps = cnp.PyArray_DIM(index, 0), outer, inner, i
    cdef int64_t size = cnp.PyArray_DIM(x, axis)
    cdef const int64_t *at
    cdef cnp.ndarray y
    x, index, weights = (
        cnp.PyArray_GETCONTIGUOUS(x), cnp.PyArray_GETCONTIGUOUS(index), cnp.PyArray_GETCONTIGUOUS(weights))
    at = <const int64_t *>cnp.PyArray_DATA(index)
    y = empty_along(x, axis, count, &outer, &inner)
    for i in range(outer):
        if cnp.PyArray_TYPE(x) == cnp.NPY_FLOAT32:
            add_taps(<float *>cnp.PyArray_DATA(y) + i * count * inner,
                     <const float *>cnp.PyArray_DATA(x) + i * size * inner, at,
                     <const float *>cnp.PyArray_DATA(weights), taps, count, inner)
        else:
            add_taps(<double *>cnp.PyArray_DATA(y) + i * count * inner,
                     <const double *>cnp.PyArray_DATA(x) + i * size * inner, at,
                     <const double *>cnp.PyArray_DATA(weights), taps, count, inner)
    return y
