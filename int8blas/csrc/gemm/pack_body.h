/* Pack operands, and compute sums of packed panels. packing.c compiles this file for each vector width. With I8_UNITS,
 * operands with a stride of 1 are packed by transposing units (units.h). */
#include <string.h>

#include "core/dwords.h"

/* Return a dword of `valid` bytes, k_stride bytes apart, padded with zeros. */
I8_INLINE uint32_t i8_gather(const uint8_t *src, ptrdiff_t k_stride, int valid, uint8_t flip)
{
    uint8_t bytes[4] = {0, 0, 0, 0};
    I8_FOR(j, 4)
        if (j < valid)
            bytes[j] = (uint8_t)(src[j * k_stride] ^ flip);
    return i8_read32(bytes);
}

#ifdef I8_UNITS
/* Return a whole dword. */
I8_INLINE uint32_t i8_gather_4(const uint8_t *src, ptrdiff_t k_stride)
{
    return (uint32_t)src[0] | (uint32_t)src[k_stride] << 8 | (uint32_t)src[2 * k_stride] << 16 |
           (uint32_t)src[3 * k_stride] << 24;
}

/* Return a dword of the last `valid` bytes of a row of at least 4 contiguous bytes. The load ends at the end of the
 * row. */
I8_INLINE uint32_t i8_gather_last(const uint8_t *src, int valid, uint32_t flip4)
{
    return (i8_read32(src + valid - 4) ^ flip4) >> (8 * (4 - valid));
}
#endif

/* Pack all rows of a panel, with any strides. */
static void i8_pack_any(uint8_t *dst, int width, int rows, int64_t k, const uint8_t *src, ptrdiff_t row_stride,
                        ptrdiff_t k_stride, uint8_t flip)
{
    for (int64_t g = 0; g < (k + 3) / 4; ++g) {
        const int valid = k - 4 * g < 4 ? (int)(k - 4 * g) : 4;
        for (int i = 0; i < rows; ++i) {
            const uint8_t *s = src + i * row_stride + 4 * g * k_stride;
            uint8_t *d = dst + 4 * (g * width + i);
#ifdef I8_UNITS
            if (valid == 4) {
                i8_write32(d, i8_gather_4(s, k_stride) ^ 0x01010101u * flip);
                continue;
            }
#endif
            i8_write32(d, i8_gather(s, k_stride, valid, flip));
        }
    }
}

#ifdef I8_UNITS
/* Pack 1, 2 or 4 rows that are contiguous in k, from row `from` on: transpose the dwords of 16 bytes of each row at a
 * time. */
I8_INLINE void i8_pack_k_contiguous(uint8_t *dst, int width, int from, const int rows, int64_t k, const uint8_t *src,
                                    ptrdiff_t row_stride, uint8_t flip)
{
    const i8_unit f = i8_set_unit(flip);
    const uint8_t *s = src + from * row_stride;
    uint8_t *d = dst + 4 * from;
    int64_t done = 0;
    for (; done + 16 <= k; done += 16, s += 16, d += 16 * width) {
        i8_unit v[4];
        /* Prefetch a cache line of one of the next 4 rows, each row in turn. */
        if (rows == 4)
            I8_PREFETCH(s + (4 + (done >> 4 & 3)) * row_stride);
        I8_FOR(i, rows) v[i] = i8_xor_unit(i8_load_unit(s + i * row_stride), f);
        if (rows == 4) {
            i8_transpose_unit(v);
            I8_FOR(i, 4) i8_store_unit(d + 4 * i * width, v[i]);
        } else if (rows == 2) {
            const i8_unit low = i8_zip_low_32(v[0], v[1]), high = i8_zip_high_32(v[0], v[1]);
            i8_store_half_unit(d, low);
            i8_store_half_unit(d + 4 * width, i8_zip_high_64(low, low));
            i8_store_half_unit(d + 8 * width, high);
            i8_store_half_unit(d + 12 * width, i8_zip_high_64(high, high));
        } else {
            i8_write32(d, i8_dword_of(v[0], 0));
            i8_write32(d + 4 * width, i8_dword_of(v[0], 1));
            i8_write32(d + 8 * width, i8_dword_of(v[0], 2));
            i8_write32(d + 12 * width, i8_dword_of(v[0], 3));
        }
    }
    const uint32_t flip4 = 0x01010101u * flip;
    for (; done + 4 <= k; done += 4, s += 4, d += 4 * width)
        I8_FOR(i, rows) i8_write32(d + 4 * i, i8_read32(s + i * row_stride) ^ flip4);
    if (done < k)
        I8_FOR(i, rows)
            i8_write32(d + 4 * i, k >= 4 ? i8_gather_last(s + i * row_stride, (int)(k - done), flip4)
                                         : i8_gather(s + i * row_stride, 1, (int)(k - done), flip));
}

/* Pack 1 to 16 rows that lie side by side in memory: interleave the bytes of 4 consecutive k. If the panel has more
 * than 16 rows, `rows` is 16. The function may overwrite up to `room` bytes from dst on. The packed bytes end at dst +
 * 4 * width * ceil(k / 4). */
I8_INLINE void i8_pack_line(uint8_t *dst, int64_t room, const int width, const int rows, int64_t k, const uint8_t *src,
                            ptrdiff_t k_stride, uint8_t flip)
{
    const int stored = width <= 4 ? 16 : width <= 8 ? 32 : 64;
    const i8_unit f = i8_and_unit(i8_set_unit(flip), i8_first_bytes(rows));
    /* A store may write bytes after the end of a group, which the next group overwrites. */
    uint8_t last[64];
    for (; k > 0; k -= 4, room -= 4 * width, src += 4 * k_stride) {
        uint8_t *d = room >= stored ? dst : last;
        i8_unit r[4];
        if (k >= 4)
            I8_FOR(j, 4) r[j] = i8_xor_unit(i8_load_bytes(src + j * k_stride, rows), f);
        else
            I8_FOR(j, 4)
                r[j] = j < k ? i8_xor_unit(i8_load_bytes(src + j * k_stride, rows), f) : i8_zero_unit();
        const i8_unit lo01 = i8_zip_low_8(r[0], r[1]), lo23 = i8_zip_low_8(r[2], r[3]);
        const i8_unit hi01 = i8_zip_high_8(r[0], r[1]), hi23 = i8_zip_high_8(r[2], r[3]);
        const i8_unit units[4] = {i8_zip_low_16(lo01, lo23), i8_zip_high_16(lo01, lo23),
                                  i8_zip_low_16(hi01, hi23), i8_zip_high_16(hi01, hi23)};
        if (stored == 64)
            i8_store_units(d, units);
        else {
            i8_store_unit(d, units[0]);
            if (stored == 32)
                i8_store_unit(d + 16, units[1]);
        }
        if (d == last)
            memcpy(dst, last, 4 * (size_t)(width < 16 ? width : 16));
        dst += 4 * width;
    }
}

static void i8_pack_rows_contiguous(uint8_t *dst, int width, int rows, int64_t k, const uint8_t *src,
                                    ptrdiff_t k_stride, uint8_t flip)
{
    const int64_t size = 4 * ((k + 3) / 4) * width;
    if (width > 16) {
        /* The last i8_pack_line packs some rows again. */
        for (int i = 0; i < rows; i += 16) {
            const int first = i + 16 <= rows ? i : rows - 16;
            i8_pack_line(dst + 4 * first, size - 4 * first, width, 16, k, src + first, k_stride, flip);
        }
    } else if (width == 16 && rows == 16)
        i8_pack_line(dst, size, 16, 16, k, src, k_stride, flip);
    else if (width == 16)
        i8_pack_line(dst, size, 16, rows, k, src, k_stride, flip);
    else if (width == 8 && rows == 8)
        i8_pack_line(dst, size, 8, 8, k, src, k_stride, flip);
    else
        i8_pack_line(dst, size, width, rows, k, src, k_stride, flip);
}
#endif

/* Copy a single contiguous row, which is a micro-panel already. The function stores no single bytes, because a later
 * load of a dword would wait for the stores of its bytes. i8_copy_run, whose chunks may overlap, would make products
 * 1.05x slower (64 x 64 x 64, signed A). */
I8_NOINLINE void i8_pack_row(uint8_t *dst, int64_t k, const uint8_t *src, uint8_t flip)
{
    int64_t i = 0;
#ifdef I8_UNITS
    const uint32_t flip4 = 0x01010101u * flip;
    const i8_vec f = i8_broadcast(&flip4);
    for (; i + 4 * I8_LANES <= k; i += 4 * I8_LANES)
        i8_store(dst + i, i8_xor(i8_load(src + i), f));
    for (; i + 16 <= k; i += 16)
        i8_store_unit(dst + i, i8_xor_unit(i8_load_unit(src + i), i8_set_unit(flip)));
    I8_FOR(j, 3)
        if (i + 4 <= k) {
            i8_write32(dst + i, i8_read32(src + i) ^ flip4);
            i += 4;
        }
    if (i < k)
        i8_write32(dst + i, i8_gather(src + i, 1, (int)(k - i), flip));
#else
    for (; i < k; ++i)
        dst[i] = (uint8_t)(src[i] ^ flip);
    for (; i & 3; ++i)
        dst[i] = 0;
#endif
}

/* Pack any number of rows, with any strides. */
I8_NOINLINE void i8_pack_rows(uint8_t *dst, int width, int rows, int64_t k, const uint8_t *src, ptrdiff_t row_stride,
                              ptrdiff_t k_stride, uint8_t flip)
{
#ifdef I8_UNITS
    if (row_stride == 1 && k_stride != 1 && rows > 0 && (width <= 16 || rows == width)) {
        i8_pack_rows_contiguous(dst, width, rows, k, src, k_stride, flip);
        return;
    }
#endif
    if (rows < width)
        memset(dst, 0, 4 * (size_t)((k + 3) / 4) * (size_t)width);
#ifdef I8_UNITS
    if (k_stride == 1) {
        int packed = 0;
        for (; packed + 4 <= rows; packed += 4)
            i8_pack_k_contiguous(dst, width, packed, 4, k, src, row_stride, flip);
        if (rows & 2)
            i8_pack_k_contiguous(dst, width, packed, 2, k, src, row_stride, flip);
        if (rows & 1)
            i8_pack_k_contiguous(dst, width, packed + (rows & 2), 1, k, src, row_stride, flip);
        return;
    }
#endif
    i8_pack_any(dst, width, rows, k, src, row_stride, k_stride, flip);
}

static void i8_pack_panel(uint8_t *dst, int width, int rows, int64_t k, const uint8_t *src, ptrdiff_t row_stride,
                          ptrdiff_t k_stride, uint8_t flip)
{
    if (width == 1 && k_stride == 1 && k > 0)
        i8_pack_row(dst, k, src, flip);
    else
        i8_pack_rows(dst, width, rows, k, src, row_stride, k_stride, flip);
}

/* See i8_packing_kernels.pack_tiles. The function packs I8_TILE_GROUPS groups for all tiles before the next groups, so
 * that the L1 cache loads each line of A once. */
enum { I8_TILE_GROUPS = 4 };
static void i8_pack_tiles(uint8_t *dst, const int *first, int tiles, int64_t k, const uint8_t *src, ptrdiff_t k_stride,
                          int64_t readable, uint8_t flip)
{
    const int64_t groups = (k + 3) / 4;
    for (int64_t g = 0; g < groups; g += I8_TILE_GROUPS) {
        const int64_t some = k - 4 * g < 4 * I8_TILE_GROUPS ? k - 4 * g : 4 * I8_TILE_GROUPS;
        for (int t = 0; t < tiles; ++t) {
            const int height = first[t + 1] - first[t];
            uint8_t *d = dst + 4 * (first[t] * groups + g * height);
            const uint8_t *s = src + 4 * g * k_stride + first[t];
#ifdef I8_UNITS
            if (height > 4 && readable - first[t] >= 8) {
                i8_pack_line(d, 4 * (groups - g) * height, height, 8, some, s, k_stride, flip);
                continue;
            }
#endif
            (void)readable;
            i8_pack_panel(d, height, height, some, s, 1, k_stride, flip);
        }
    }
}

#ifdef I8_UNITS
/* Pack panels of columns that lie side by side in memory. Each step packs I8_PACK_GROUPS groups of I8_PACK_PANELS
 * panels. The steps move along the rows, so the function reads a few sequential streams, and prefetches the next bytes
 * of each stream. A row of I8_PACK_PANELS panels is one vector. Return the number of packed panels, the largest
 * multiple of I8_PACK_PANELS. */
enum { I8_PACK_GROUPS = 4, I8_PACK_PANELS = I8_LANES / 4, I8_PACK_AHEAD = 128 };

I8_NOINLINE int64_t i8_pack_lines(uint8_t *dst, ptrdiff_t panel_stride, int64_t panels, int64_t k, const uint8_t *src,
                                  ptrdiff_t k_stride, uint8_t flip)
{
    const uint32_t flip4 = 0x01010101u * flip;
    const i8_vec f = i8_broadcast(&flip4);
    const int64_t groups = k / 4;
    panels -= panels % I8_PACK_PANELS;
    for (int64_t g = 0; g < groups; g += I8_PACK_GROUPS) {
        const int64_t end = groups - g < I8_PACK_GROUPS ? groups : g + I8_PACK_GROUPS;
        for (int64_t p = 0; p < panels; p += I8_PACK_PANELS) {
            const uint8_t *s = src + I8_PANEL * p + 4 * g * k_stride;
            uint8_t *d = dst + p * panel_stride + 4 * I8_PANEL * g;
            for (int64_t i = g; i < end; ++i, s += 4 * k_stride, d += 4 * I8_PANEL) {
                i8_vec v[4];
                I8_FOR(j, 4) {
                    v[j] = i8_xor(i8_load(s + j * k_stride), f);
                    I8_PREFETCH_L2(s + j * k_stride + I8_PACK_AHEAD);
                }
                i8_interleave(v);
                i8_transpose_units(v);
                I8_FOR(j, 4)
                    i8_store(d + j / I8_VECS * panel_stride + j % I8_VECS * 4 * I8_LANES, v[j]);
            }
        }
    }
    if (k % 4)
        for (int64_t p = 0; p < panels; ++p)
            i8_pack_rows_contiguous(dst + p * panel_stride + 4 * groups * I8_PANEL, I8_PANEL, I8_PANEL, k % 4,
                                    src + I8_PANEL * p + 4 * groups * k_stride, k_stride, flip);
    return panels;
}
#endif

/* Columns that are contiguous in k are packed in blocks of I8_PACK_K bytes. Packing 4 columns writes a part of every
 * line of the block, which then stays in the L1 cache. */
enum { I8_PACK_K = 256 };
static void i8_pack_panels(uint8_t *dst, ptrdiff_t panel_stride, int64_t columns, int64_t k, const uint8_t *src,
                           ptrdiff_t column_stride, ptrdiff_t k_stride, uint8_t flip)
{
    const int64_t most = k_stride == 1 ? I8_PACK_K : k;
    int64_t packed = 0;
#ifdef I8_UNITS
    const int lines = column_stride == 1 && k_stride != 1;
    if (lines && columns >= I8_PANEL * I8_PACK_PANELS)
        packed = i8_pack_lines(dst, panel_stride, columns / I8_PANEL, k, src, k_stride, flip);
#endif
    for (; packed * I8_PANEL < columns; ++packed) {
        const int64_t rest = columns - packed * I8_PANEL;
        const int width = rest < I8_PANEL ? (int)rest : I8_PANEL;
        uint8_t *d = dst + packed * panel_stride;
        const uint8_t *s = src + packed * I8_PANEL * column_stride;
#ifdef I8_UNITS
        if (lines) { /* this branch is 5 to 10 ns faster than i8_pack_panel: 5 % of the smallest products */
            i8_pack_rows_contiguous(d, I8_PANEL, width, k, s, k_stride, flip);
            continue;
        }
#endif
        for (int64_t i = 0; i < k; i += most)
            i8_pack_panel(d + i * I8_PANEL, I8_PANEL, width, k - i < most ? k - i : most, s + i * k_stride,
                          column_stride, k_stride, flip);
    }
}

/* Return the 4 rows of 16 bytes of a group of a panel. */
I8_INLINE void i8_rows_of_group(uint8_t rows[4][I8_PANEL], const uint8_t *group, uint8_t flip)
{
#ifdef I8_UNITS
    i8_unit v[4];
    I8_FOR(j, 4) v[j] = i8_xor_unit(i8_load_unit(group + 16 * j), i8_set_unit(flip));
    /* Byte (column, k) has index 4 * column + k in a group, and 16 * k + column in rows. Each zip of the halves of the
     * 64 bytes moves the highest bit of the index to the lowest place, so four zips move the column's 4 bits there. */
    I8_FOR(step, 4) {
        const i8_unit low[2] = {v[0], v[1]}, high[2] = {v[2], v[3]};
        I8_FOR(j, 2) {
            v[2 * j] = i8_zip_low_8(low[j], high[j]);
            v[2 * j + 1] = i8_zip_high_8(low[j], high[j]);
        }
    }
    I8_FOR(j, 4) i8_store_unit(rows[j], v[j]);
#else
    for (int j = 0; j < 4 * I8_PANEL; ++j)
        rows[j % 4][j / 4] = group[j] ^ flip;
#endif
}

/* Unpack a group of `columns` columns to `rows` rows. */
I8_INLINE void i8_unpack_group(uint8_t *dst, ptrdiff_t dst_row, int rows, int64_t columns, const uint8_t *group,
                               ptrdiff_t panel_stride, uint8_t flip)
{
    uint8_t row[4][I8_PANEL];
    for (; columns > 0; columns -= I8_PANEL, group += panel_stride, dst += I8_PANEL) {
        i8_rows_of_group(row, group, flip);
        for (int j = 0; j < rows; ++j)
            memcpy(dst + j * dst_row, row[j], columns < I8_PANEL ? (size_t)columns : I8_PANEL);
    }
}

static void i8_unpack_panels(uint8_t *dst, ptrdiff_t dst_row, int64_t columns, int64_t k, const uint8_t *src,
                             ptrdiff_t panel_stride, uint8_t flip)
{
    for (int64_t i = 0; i < k; i += 4, src += 4 * I8_PANEL, dst += 4 * dst_row) {
        int64_t c = 0;
#ifdef I8_UNITS
        /* This loop inverts i8_pack_lines: three interleavings in total restore the order of bytes. */
        const uint32_t flip4 = 0x01010101u * flip;
        const i8_vec f = i8_broadcast(&flip4);
        for (; k - i >= 4 && c + I8_PACK_PANELS * I8_PANEL <= columns; c += I8_PACK_PANELS * I8_PANEL) {
            const uint8_t *group = src + c / I8_PANEL * panel_stride;
            i8_vec v[4];
            I8_FOR(j, 4) {
                const uint8_t *s = group + j / I8_VECS * panel_stride + j % I8_VECS * 4 * I8_LANES;
                I8_PREFETCH_L2(s + I8_PACK_AHEAD);
                v[j] = i8_xor(i8_load(s), f);
            }
            I8_FOR(j, I8_VECS) i8_transpose_units(v);
            I8_FOR(j, 2) i8_interleave(v);
            I8_FOR(j, 4) i8_store(dst + j * dst_row + c, v[j]);
        }
#endif
        i8_unpack_group(dst + c, dst_row, k - i < 4 ? (int)(k - i) : 4, columns - c,
                        src + c / I8_PANEL * panel_stride, panel_stride, flip);
    }
}

static int64_t i8_sum(int64_t k, const uint8_t *src, ptrdiff_t k_stride, uint8_t flip)
{
    int64_t sum = 0;
    for (int64_t i = 0; i < k; ++i)
        sum += (uint8_t)(src[i * k_stride] ^ flip);
    return sum;
}

#ifdef I8_UNITS
/* Sum `rows` rows of contiguous bytes. If `whole` is 1, the function may read 16 bytes of each row. */
I8_INLINE void i8_sums_of_rows(int64_t *sums, const int rows, int64_t k, const uint8_t *src, ptrdiff_t row_stride,
                               uint8_t flip, const int whole)
{
    const i8_unit f = i8_set_unit(flip), ones = i8_set_unit(0xff);
    const int rest = (int)(k % 16);
    /* The last bytes of a long row are the end of the unit that ends with the row. */
    const i8_unit last = k < 16 ? i8_first_bytes(rest) : i8_xor_unit(i8_first_bytes(16 - rest), ones);
    const uint8_t *tail = src + (k < 16 ? 0 : k - 16);
    i8_unit sum[4];
    I8_FOR(r, rows) sum[r] = i8_zero_unit();
    for (int64_t i = 0; i + 16 <= k; i += 16)
        I8_FOR(r, rows) sum[r] = i8_add_bytes(sum[r], i8_xor_unit(i8_load_unit(src + r * row_stride + i), f));
    if (rest > 0)
        I8_FOR(r, rows) {
            const uint8_t *p = tail + r * row_stride;
            const i8_unit x = whole ? i8_load_unit(p) : i8_load_first_bytes(p, rest);
            sum[r] = i8_add_bytes(sum[r], i8_and_unit(i8_xor_unit(x, f), last));
        }
    for (int r = 0; r < rows; r += 2) {
        const i8_unit x = sum[r], y = sum[r + 1 < rows ? r + 1 : r];
        const i8_unit result = i8_add_qwords(i8_zip_low_64(x, y), i8_zip_high_64(x, y));
        if (r + 1 < rows)
            i8_store_unit(sums + r, result);
        else
            i8_store_half_unit(sums + r, result);
    }
}
#endif

/* Sum at most 16 rows that lie side by side in memory: add whole lines. A constant `count` makes the loops faster. */
I8_INLINE void i8_sums_of_lines(int64_t *sums, const int count, int64_t k, const uint8_t *src, ptrdiff_t k_stride,
                                uint8_t flip)
{
    uint32_t part[16];
    I8_FOR(i, count) sums[i] = 0;
    while (k > 0) {
        /* The sum of 2**24 bytes fits u32. */
        const int64_t some = k < (1 << 24) ? k : (1 << 24);
        I8_FOR(i, count) part[i] = 0;
        for (int64_t j = 0; j < some; ++j, src += k_stride)
            for (int i = 0; i < count; ++i)
                part[i] += (uint8_t)(src[i] ^ flip);
        I8_FOR(i, count) sums[i] += part[i];
        k -= some;
    }
}

static void i8_row_sums(int64_t *sums, int64_t rows, int64_t k, const uint8_t *src, ptrdiff_t row_stride,
                        ptrdiff_t k_stride, uint8_t flip)
{
#ifdef I8_UNITS
    if (k_stride == 1) {
        /* From the first `whole` rows, 16 bytes can be read. A gap between rows can be read if it is shorter than 16
         * bytes, because no page of memory fits in the gap. */
        const int near = row_stride > 0 && row_stride >= k && row_stride < k + 16;
        const int64_t whole = k >= 16 ? rows : near ? rows - (15 - k) / row_stride - 1 : 0;
        int64_t i = 0;
        for (; i + 4 <= whole; i += 4)
            i8_sums_of_rows(sums + i, 4, k, src + i * row_stride, row_stride, flip, 1);
        for (; i < rows; ++i)
            i8_sums_of_rows(sums + i, 1, k, src + i * row_stride, row_stride, flip, k >= 16);
        return;
    }
#endif
    if (row_stride == 1 && k_stride != 1) {
        for (; rows >= 16; rows -= 16, sums += 16, src += 16)
            i8_sums_of_lines(sums, 16, k, src, k_stride, flip);
        for (; rows >= 8; rows -= 8, sums += 8, src += 8)
            i8_sums_of_lines(sums, 8, k, src, k_stride, flip);
        if (rows > 0)
            i8_sums_of_lines(sums, (int)rows, k, src, k_stride, flip);
        return;
    }
    for (int64_t i = 0; i < rows; ++i)
        sums[i] = i8_sum(k, src + i * row_stride, k_stride, flip);
}

static void i8_scale_sums(int32_t *restrict dst, const int64_t *restrict sums, int64_t n, int32_t factor)
{
    for (int64_t i = 0; i < n; ++i)
        dst[i] = (int32_t)((uint32_t)factor * (uint32_t)sums[i]);
}

static void i8_panel_sums(int64_t *sums, const int8_t *panel, int64_t groups)
{
    for (int c = 0; c < I8_PANEL; ++c)
        sums[c] = 0;
    while (groups > 0) {
        /* The sum of 2**20 groups of four bytes fits s32. */
        const int64_t chunk = groups < (1 << 20) ? groups : (1 << 20);
        int32_t part[I8_PANEL] = {0};
#ifdef I8_UNITS
        /* Sum the bytes by a dot product with ones. Sums of pairs fit s16. */
        const uint32_t one4 = 0x01010101;
        const i8_vec ones = i8_broadcast(&one4);
        i8_vec acc[2][I8_VECS];
        I8_FOR(d, 2) I8_FOR(v, I8_VECS) acc[d][v] = i8_zero();
        int64_t g = 0;
        for (; g + 2 <= chunk; g += 2, panel += 2 * 4 * I8_PANEL)
            I8_FOR(d, 2) I8_FOR(v, I8_VECS)
                acc[d][v] = i8_dot4_sat(acc[d][v], ones, i8_load(panel + d * 4 * I8_PANEL + v * 4 * I8_LANES));
        for (; g < chunk; ++g, panel += 4 * I8_PANEL)
            I8_FOR(v, I8_VECS) acc[0][v] = i8_dot4_sat(acc[0][v], ones, i8_load(panel + v * 4 * I8_LANES));
        I8_FOR(v, I8_VECS) i8_store(part + v * I8_LANES, i8_add(acc[0][v], acc[1][v]));
#else
        for (int64_t g = 0; g < chunk; ++g, panel += 4 * I8_PANEL)
            for (int c = 0; c < I8_PANEL; ++c)
                part[c] += panel[4 * c] + panel[4 * c + 1] + panel[4 * c + 2] + panel[4 * c + 3];
#endif
        for (int c = 0; c < I8_PANEL; ++c)
            sums[c] += part[c];
        groups -= chunk;
    }
}

#ifdef I8_UNITS
I8_INLINE void i8_widen_row(uint16_t *restrict dst, const uint8_t *restrict src, int64_t k, uint8_t flip)
{
    int64_t i = 0;
    /* The last vector overlaps the previous vector. */
    const int whole = 2 * I8_LANES;
    const i8_vec f = i8_set_16(flip);
    for (; i + whole <= k; i += whole)
        i8_store(dst + i, i8_xor(i8_words_u8(src + i), f));
    if (i > 0 && i < k) {
        i8_store(dst + k - whole, i8_xor(i8_words_u8(src + k - whole), f));
        i = k;
    }
    for (; i < k; ++i)
        dst[i] = (uint16_t)(uint8_t)(src[i] ^ flip);
    for (; i % I8_GROUP; ++i)
        dst[i] = 0;
}

static void i8_widen_a(uint16_t *dst, ptrdiff_t dst_row, const uint8_t *src, ptrdiff_t src_row, ptrdiff_t src_group,
                       int64_t rows, int64_t k, uint8_t flip)
{
    if (src_group == I8_GROUP) {
        for (; rows > 0; --rows, src += src_row, dst += dst_row)
            i8_widen_row(dst, src, k, flip);
        return;
    }
    for (int64_t i = 0; i < k; i += I8_GROUP, src += src_group)
        for (int64_t r = 0; r < rows; ++r)
            for (int j = 0; j < I8_GROUP; ++j)
                dst[r * dst_row + i + j] = (uint16_t)(uint8_t)(src[r * src_row + j] ^ flip);
}

static void i8_widen_b(int16_t *restrict dst, const int8_t *restrict src, int64_t groups)
{
    for (; groups > 0; --groups, src += 4 * I8_PANEL, dst += 4 * I8_PANEL)
        I8_FOR(v, I8_VECS) {
            const i8_vec x = i8_load(src + v * 4 * I8_LANES);
            i8_store(dst + v * 2 * I8_LANES, i8_widen_pairs(x, 0));
            i8_store(dst + (v + I8_VECS) * 2 * I8_LANES, i8_widen_pairs(x, 1));
        }
}
#endif

/* The compiler turns the loops over 64 bytes into vector instructions. If the number of groups is odd, the last group
 * is unpacked separately. */
static void i8_unpack_four_bits(int8_t *restrict dst, const uint8_t *restrict src, int64_t groups, uint8_t zero,
                                const uint8_t *zeros, int64_t zero_groups)
{
    uint8_t less[4 * I8_PANEL];
    memset(less, zero, sizeof less);
    for (int64_t g = 0; g + 1 < groups; g += 2, src += 4 * I8_PANEL, dst += 8 * I8_PANEL) {
        if (zeros && g % zero_groups == 0) {
            for (int j = 0; j < 4 * I8_PANEL; ++j)
                less[j] = zeros[j / 4];
            zeros += I8_PANEL;
        }
        for (int j = 0; j < 4 * I8_PANEL; ++j) {
            dst[j] = (int8_t)((src[j] & 15) - less[j]);
            dst[4 * I8_PANEL + j] = (int8_t)((src[j] >> 4) - less[j]);
        }
    }
    if (groups % 2)
        for (int j = 0; j < 4 * I8_PANEL; ++j)
            dst[j] = (int8_t)((src[j] & 15) - less[j]);
}
