/* Rows of the matrix that im2col makes of an image (i8_image in i8_types.h), straight from the image. */

/* n bytes, XORed with flip: whole chunks, and one more that overlaps. */
I8_INLINE void i8_copy_chunks(uint8_t *dst, const uint8_t *src, int64_t n, uint8_t flip, const int chunk)
{
    uint8_t x[64];
    for (int64_t i = 0; i < n; i += chunk) {
        const int64_t at = i + chunk <= n ? i : n - chunk;
        memcpy(x, src + at, (size_t)chunk);
        for (int v = 0; v < chunk; ++v)
            x[v] ^= flip;
        memcpy(dst + at, x, (size_t)chunk);
    }
}

I8_INLINE void i8_copy_bytes(uint8_t *dst, const uint8_t *src, int64_t n, uint8_t flip)
{
    if (n >= 64)
        i8_copy_chunks(dst, src, n, flip, 64);
    else if (n >= 32)
        i8_copy_chunks(dst, src, n, flip, 32);
    else if (n >= 16)
        i8_copy_chunks(dst, src, n, flip, 16);
    else if (n >= 8)
        i8_copy_chunks(dst, src, n, flip, 8);
    else if (n >= 4)
        i8_copy_chunks(dst, src, n, flip, 4);
    else
        for (int64_t i = 0; i < n; ++i)
            dst[i] = src[i] ^ flip;
}

/* `n` channels of a pixel from channel `first` on. */
I8_INLINE void i8_copy_channels(uint8_t *dst, const i8_image *m, const uint8_t *pixel, int64_t first, int64_t n,
                                uint8_t flip)
{
    if (m->steps[4] == 1) {
        i8_copy_bytes(dst, pixel + first, n, flip);
        return;
    }
    for (int64_t i = 0; i < n; ++i)
        dst[i] = pixel[(first + i) * m->steps[4]] ^ flip;
}

/* The columns [from, to) of a row, within one line of the kernel; `src` is the line of the image, or NULL in the padding,
 * x the position of its first tap, and columns count from that. */
I8_INLINE void i8_im2col_line(uint8_t *dst, const i8_image *m, const uint8_t *src, int64_t x, int64_t from, int64_t to,
                              uint8_t flip)
{
    const int64_t channels = m->channels, last = x + (m->kernel[2] - 1) * m->dilation[2];
    if (!src) {
        memset(dst, m->padding ^ flip, (size_t)(to - from));
        return;
    }
    if (x >= 0 && last < m->size[2] && m->steps[4] == 1 && m->steps[3] * m->dilation[2] == channels) {
        i8_copy_bytes(dst, src + x * m->steps[3] + from, to - from, flip);
        return;
    }
    int64_t tap = from / channels, channel = from - tap * channels;
    for (x += tap * m->dilation[2]; from < to; x += m->dilation[2], channel = 0) {
        const int64_t n = channels - channel < to - from ? channels - channel : to - from;
        if (x >= 0 && x < m->size[2])
            i8_copy_channels(dst, m, src + x * m->steps[3], channel, n, flip);
        else
            memset(dst, m->padding ^ flip, (size_t)n);
        dst += n;
        from += n;
    }
}

/* Columns [k0, k0 + k) of `rows` rows from `row` on, XORed with flip, and zeros up to a multiple of 4; dst_row bytes from
 * one row to the next. Of the image nothing but the bytes of the windows is read. */
static void i8_im2col(uint8_t *dst, ptrdiff_t dst_row, const i8_image *m, int64_t row, int64_t rows, int64_t k0,
                      int64_t k, uint8_t flip)
{
    const int64_t line = m->kernel[2] * m->channels;
    const int64_t first = line ? k0 / line : 0, height = m->kernel[1];
    int64_t w = row % m->out[2], h = row / m->out[2] % m->out[1], d = row / (m->out[2] * m->out[1]) % m->out[0];
    int64_t n = row / (m->out[2] * m->out[1] * m->out[0]);
    for (; rows > 0; --rows, dst += dst_row) {
        const uint8_t *image = m->src + n * m->steps[0];
        const int64_t x = w * m->stride[2] - m->before[2];
        int64_t kd = first / height, kh = first % height, at = k0, start = first * line;
        for (; at < k0 + k; start += line) {
            const int64_t z = d * m->stride[0] - m->before[0] + kd * m->dilation[0];
            const int64_t y = h * m->stride[1] - m->before[1] + kh * m->dilation[1];
            const int inside = z >= 0 && z < m->size[0] && y >= 0 && y < m->size[1];
            const int64_t end = start + line < k0 + k ? start + line : k0 + k;
            i8_im2col_line(dst + (at - k0), m, inside ? image + z * m->steps[1] + y * m->steps[2] : NULL, x, at - start,
                           end - start, flip);
            at = end;
            if (++kh == height)
                kh = 0, ++kd;
        }
        for (int64_t i = k; i % I8_GROUP; ++i)
            dst[i] = 0;
        if (++w == m->out[2]) {
            w = 0;
            if (++h == m->out[1]) {
                h = 0;
                if (++d == m->out[0])
                    d = 0, ++n;
            }
        }
    }
}
