/* Copy rows of the matrix of an image (i8_image in packing.h) from the image.
 *
 * A row consists of runs of bytes that are contiguous in the image: lines of the window if taps follow one another
 * without a gap, or else the channels of single taps. The code copies one run for all rows of an output line before the
 * next run.
 */

/* Copy one run of `n` bytes, XORed with flip, for each of `rows` rows of the matrix. */
typedef struct {
    uint8_t *dst;
    ptrdiff_t dst_row;
    const uint8_t *src;
    ptrdiff_t src_row;
    int64_t rows, n;
    uint8_t flip;
} i8_copies;

/* Copy 1, 4, 16, 32 or 64 bytes. */
I8_INLINE void i8_copy_bytes(uint8_t *restrict dst, const uint8_t *restrict src, const int n, uint8_t flip)
{
#ifdef I8_UNITS
    const uint32_t flip4 = 0x01010101u * flip;
    if (n >= 4 * I8_LANES) {
        const i8_vec f = i8_broadcast(&flip4);
        for (int at = 0; at < n; at += 4 * I8_LANES)
            i8_store(dst + at, i8_xor(i8_load(src + at), f));
        return;
    }
    if (n >= 16) {
        const i8_unit f = i8_set_unit(flip);
        for (int at = 0; at < n; at += 16)
            i8_store_unit(dst + at, i8_xor_unit(i8_load_unit(src + at), f));
        return;
    }
#endif
    for (int v = 0; v < n; ++v)
        dst[v] = src[v] ^ flip;
}

/* Copy whole chunks. The last chunk overlaps the previous chunk, or ends after the row if `beyond` is 1. `r` is passed
 * by value, because the compiler would load members behind a pointer again after each store of bytes. */
I8_INLINE void i8_copy_chunks(i8_copies r, const int chunk, const int beyond)
{
    for (; r.rows > 0; --r.rows, r.src += r.src_row, r.dst += r.dst_row)
        for (int64_t i = 0; i < r.n; i += chunk) {
            const int64_t at = beyond || i + chunk <= r.n ? i : r.n - chunk;
            i8_copy_bytes(r.dst + at, r.src + at, chunk, r.flip);
        }
}

/* Copy runs of at most `chunk` bytes as whole chunks, which may exceed the end. */
I8_INLINE void i8_copy_chunk(i8_copies r, const int chunk)
{
    for (; r.rows > 0; --r.rows, r.src += r.src_row, r.dst += r.dst_row)
        i8_copy_bytes(r.dst, r.src, chunk, r.flip);
}

/* Copy a run. If `beyond` is 1, up to 63 bytes after each run may be read and written. */
static void i8_copy_run(const i8_copies *r, int beyond)
{
    if (beyond && r->n <= 16)
        i8_copy_chunk(*r, 16);
    else if (beyond && r->n <= 32)
        i8_copy_chunk(*r, 32);
    else if (beyond && r->n <= 64)
        i8_copy_chunk(*r, 64);
    else if (beyond)
        i8_copy_chunks(*r, 64, 1);
    else if (r->n >= 64)
        i8_copy_chunks(*r, 64, 0);
    else if (r->n >= 16)
        i8_copy_chunks(*r, 16, 0);
    else if (r->n >= 4)
        i8_copy_chunks(*r, 4, 0);
    else
        i8_copy_chunks(*r, 1, 0);
}

/* Copy columns [from, to) of a run of one row. Tap t of the run is at position x + t * dilation of the image line. */
I8_INLINE void i8_copy_taps(uint8_t *dst, const i8_image *m, const uint8_t *line, int64_t x, int64_t from, int64_t to,
                            uint8_t flip)
{
    const int64_t channels = m->channels;
    int64_t tap = from / channels, channel = from - tap * channels;
    for (x += tap * m->dilation[2]; from < to; x += m->dilation[2], channel = 0) {
        const int64_t n = channels - channel < to - from ? channels - channel : to - from;
        const uint8_t *src = line + x * m->steps[3] + channel * m->steps[4];
        if (x < 0 || x >= m->size[2]) {
            memset(dst, m->padding ^ flip, (size_t)n);
        } else if (m->steps[4] == 1) {
            const i8_copies one = {dst, 0, src, 0, 1, n, flip};
            i8_copy_run(&one, 0);
        } else {
            for (int64_t i = 0; i < n; ++i)
                dst[i] = src[i * m->steps[4]] ^ flip;
        }
        dst += n;
        from += n;
    }
}

/* Copy columns [from, to) of a run of `taps` taps, for `rows` rows of an output line. `line` is the line of the image,
 * or NULL in the padding. The first tap of the first row is at position x of the line. */
static void i8_copy_rows_of(uint8_t *dst, ptrdiff_t dst_row, const i8_image *m, const uint8_t *line, int64_t x,
                            int64_t taps, int64_t rows, int64_t from, int64_t to, uint8_t flip, int room)
{
    const int64_t stride = m->stride[2], reach = (taps - 1) * m->dilation[2];
    int64_t first = 0, end = 0; /* rows whose taps are all in the image */
    if (line && m->steps[4] == 1) {
        first = x < 0 ? (stride - 1 - x) / stride : 0;
        end = m->size[2] - 1 - reach - x < 0 ? 0 : (m->size[2] - 1 - reach - x) / stride + 1;
        first = first < rows ? first : rows;
        end = end < first ? first : end < rows ? end : rows;
    }
    for (int64_t i = 0; i < rows; ++i) {
        if (i == first && first < end) {
            const uint8_t *src = line + (x + first * stride) * m->steps[3] + from;
            const i8_copies run = {
                dst + first * dst_row, dst_row, src, stride * m->steps[3], end - first, to - from, flip};
            const uint8_t *last = run.src + (run.rows - 1) * run.src_row;
            i8_copy_run(&run, room && m->end - run.src >= run.n + 63 && m->end - last >= run.n + 63);
            i = end - 1;
        } else if (line) {
            i8_copy_taps(dst + i * dst_row, m, line, x + i * stride, from, to, flip);
        } else {
            memset(dst + i * dst_row, m->padding ^ flip, (size_t)(to - from));
        }
    }
}

/* See i8_packing_kernels.im2col. i8_im2col reads nothing after the end of the image. */
static void i8_im2col(uint8_t *dst, ptrdiff_t dst_row, const i8_image *m, int64_t row, int64_t rows, int64_t k0,
                      int64_t k, uint8_t flip)
{
    const int64_t width = m->out[2], height = m->out[1], depth = m->out[0], used = m->kernel[2] * m->channels;
    const int gapless = m->steps[4] == 1 && m->steps[3] * m->dilation[2] == m->channels;
    const int64_t taps = gapless ? m->kernel[2] : 1, run = taps * m->channels;
    const int room = dst_row >= k + 63;
    const int64_t zeros = k % I8_GROUP && dst_row >= k + I8_GROUP ? I8_GROUP - k % I8_GROUP : 0;
    while (rows > 0) {
        const int64_t w = row % width, h = row / width % height, d = row / (width * height) % depth;
        const int64_t together = rows < width - w ? rows : width - w;
        const uint8_t *image = m->src + row / (width * height * depth) * m->steps[0];
        for (int64_t at = k0, end; at < k0 + k; at = end) {
            const int64_t number = at / m->line, first = number * m->line; /* window line; its first column */
            const int64_t tap = (at - first) / (run ? run : 1) * taps, start = first + tap * m->channels;
            end = at - first < used ? start + run : first + m->line;
            end = end < k0 + k ? end : k0 + k;
            if (at - first >= used)
                continue;
            const int64_t z = d * m->stride[0] - m->before[0] + number / m->kernel[1] * m->dilation[0];
            const int64_t y = h * m->stride[1] - m->before[1] + number % m->kernel[1] * m->dilation[1];
            const int64_t x = w * m->stride[2] - m->before[2] + tap * m->dilation[2];
            const int inside = z >= 0 && z < m->size[0] && y >= 0 && y < m->size[1];
            i8_copy_rows_of(dst + (at - k0), dst_row, m, inside ? image + z * m->steps[1] + y * m->steps[2] : NULL, x,
                            taps, together, at - start, end - start, flip, room);
        }
        for (int64_t i = 0; zeros > 0 && i < together; ++i)
            memset(dst + i * dst_row + k, 0, (size_t)zeros);
        rows -= together;
        row += together;
        dst += together * dst_row;
    }
}

/* Copy the channels of one group in one line of the image, for i8_image_lines. `src` is column 0 of the line of the
 * image, or NULL in the padding. */
static void i8_image_line(uint8_t *dst, const i8_image *m, const uint8_t *src, int64_t x, int64_t columns, uint8_t flip)
{
    const int64_t channels = m->channels;
    const int64_t left = x >= 0 ? 0 : -x < columns ? -x : columns;
    const int64_t end = m->size[2] - x < columns ? m->size[2] - x : columns;
    const int64_t n = src && end > left ? end - left : 0;
    const int gapless = m->steps[4] == 1 && m->steps[3] == channels;
    uint8_t *to = dst + left * channels;
    if (n == 0 || left > 0)
        memset(dst, m->padding ^ flip, (size_t)((n == 0 ? columns : left) * channels));
    if (n == 0)
        return;
    src += (x + left) * m->steps[3];
    if (m->steps[4] == 1) {
        const i8_copies run = {
            to, channels, src, m->steps[3], gapless ? 1 : n, gapless ? n * channels : channels, flip};
        const uint8_t *last = src + (n - 1) * m->steps[3];
        i8_copy_run(&run, m->end - src >= run.n + 63 && m->end - last >= channels + 63);
    } else if (m->steps[3] == 1) {
        i8_transpose_store((char *)to, 1, channels, (const char *)src, m->steps[4], (int)channels, (int)n, 1);
        for (int64_t i = 0; flip && i < n * channels; ++i)
            to[i] ^= flip;
    } else {
        for (int64_t c = 0; c < channels; ++c)
            for (int64_t i = 0; i < n; ++i)
                to[i * channels + c] = src[c * m->steps[4] + i * m->steps[3]] ^ flip;
    }
    if (left + n < columns)
        memset(to + n * channels, m->padding ^ flip, (size_t)((columns - left - n) * channels));
}

/* See i8_packing_kernels.image_lines. */
static void i8_image_lines(uint8_t *dst, ptrdiff_t dst_line, ptrdiff_t dst_group, int64_t groups, const i8_image *m,
                           int64_t y, int64_t lines, int64_t x, int64_t columns, uint8_t flip)
{
    for (; lines > 0; --lines, ++y, dst += dst_line)
        for (int64_t g = 0; g < groups; ++g) {
            const uint8_t *line = m->src + y * m->steps[2] + g * m->channels * m->steps[4];
            i8_image_line(dst + g * dst_group, m, y >= 0 && y < m->size[1] ? line : NULL, x, columns, flip);
        }
}
