/* Helpers for the kernels that read one of two operands in place (few_rows_body.h, dot_body.h). The helpers bring the
 * operand that is not read in place into the order of the kernels, split bytes into halves, and restore the order of
 * the columns of results. */
#include <string.h>

#include "core/dwords.h"

/* The maximum bytes of the next rows that the widest kernels of dot_body.h prefetch into the L1 cache. If the next rows
 * have more bytes, the kernels prefetch the bytes into the L2 cache. */
enum { I8_DOT_AHEAD = 1 << 13 };

/* Return the number of groups of a column that dot_body.h takes at a time. Up to 4 columns have a register each. More
 * columns share one register. */
I8_INLINE int i8_dots_lanes(int columns) { return columns > 4 ? I8_LANES / columns : I8_LANES; }

static int64_t i8_dots_size(int columns, int64_t k)
{
    const int bytes = 4 * i8_dots_lanes(columns);
    return (k + bytes - 1) / bytes * bytes * columns * (I8_PAIRED ? 2 : 1);
}

#if I8_LANES == 16
/* Transpose 8 rows of 16 values to 16 columns of 8. */
I8_INLINE void i8_turn_dots(int32_t *dst, const int32_t *found)
{
    i8_vec low[4], high[4], columns[2][4];
    I8_FOR(i, 4) {
        const i8_vec even = i8_load(found + 32 * i), odd = i8_load(found + 32 * i + 16);
        low[i] = i8_low_32(even, odd);
        high[i] = i8_high_32(even, odd);
    }
    I8_FOR(i, 2) {
        columns[0][i] = i8_low_64(low[2 * i], low[2 * i + 1]);
        columns[0][2 + i] = i8_high_64(low[2 * i], low[2 * i + 1]);
        columns[1][i] = i8_low_64(high[2 * i], high[2 * i + 1]);
        columns[1][2 + i] = i8_high_64(high[2 * i], high[2 * i + 1]);
    }
    I8_FOR(j, 2) {
        i8_transpose_units(columns[j]);
        I8_FOR(i, 4) i8_store(dst + 32 * i + 16 * j, columns[j][i]);
    }
}
#endif

/* Store the results of a dot kernel, [rows][columns], at dst_row and dst_column. */
I8_NOINLINE void i8_scatter_dots(const i8_dot_args *t, char *dst, const int32_t *found, int rows, int columns)
{
#if I8_LANES == 16
    if (rows == 8 && columns == 16 && t->dst_row == 4) {
        int32_t turned[16 * 8];
        i8_turn_dots(turned, found);
        for (int j = 0; j < t->count; ++j)
            memcpy(dst + j * t->dst_column, turned + 8 * j, 32);
        return;
    }
#endif
    for (int j = 0; j < t->count; ++j, ++found, dst += t->dst_column)
        if (rows == I8_DOT_ROWS)
            I8_FOR(i, I8_DOT_ROWS) i8_write32(dst + i * t->dst_row, (uint32_t)found[i * columns]);
        else
            for (int i = 0; i < rows; ++i)
                i8_write32(dst + i * t->dst_row, (uint32_t)found[i * columns]);
}

/* Split blocks of `dwords` into two blocks of halves: x = low + 16 * high in every byte. If x is u8, low and high are
 * u4. If x is s8, low is from -8 to 7 and high from -8 to 8. VPMADDUBSW multiplies u4 halves by s8, or s8 halves by u8.
 * The sum of I8_HALVES_STEPS results of VPMADDUBSW fits s16. src may be the last part of dst. */
I8_INLINE uint32_t i8_extend_halves(uint32_t x) { return x | (x >> 3 & 0x01010101) * 0xf0; }
I8_INLINE void i8_halve(uint8_t *dst, const uint8_t *src, int64_t blocks, int is_unsigned, const int dwords)
{
    for (; blocks > 0; --blocks, src += 4 * dwords, dst += 8 * dwords) {
        uint32_t low[I8_LANES], high[I8_LANES];
        for (int j = 0; j < dwords; ++j) {
            const uint32_t x = i8_read32(src + 4 * j), l = x & 0x0f0f0f0f, h = x >> 4 & 0x0f0f0f0f;
            const uint32_t e = i8_extend_halves(h), carry = l >> 3 & 0x01010101;
            low[j] = is_unsigned ? l : i8_extend_halves(l);
            high[j] = is_unsigned ? h : ((e & 0x7f7f7f7f) + carry) ^ (e & 0x80808080);
        }
        memcpy(dst, low, 4 * (size_t)dwords);
        memcpy(dst + 4 * dwords, high, 4 * (size_t)dwords);
    }
}

#if I8_PAIRED
static void i8_halve_row(uint8_t *dst, const uint8_t *src, int64_t dwords, int a_unsigned)
{
    i8_halve(dst, src, dwords, a_unsigned, 1);
}

/* Split x, from -255 to 255, into low + 16 * high, with low from -8 to 7 and high from -16 to 16. */
static void i8_halve_centered(uint8_t *dst, const uint8_t *src, int64_t k, int a_unsigned, int32_t zero)
{
    enum { BYTES = 64 };
    for (; k > 0; k -= BYTES, src += BYTES, dst += 2 * BYTES) {
        const int n = k < BYTES ? (int)k : BYTES;
        int8_t low[BYTES] = {0}, high[BYTES] = {0};
        for (int j = 0; j < n; ++j) {
            const int x = (a_unsigned ? src[j] : (int8_t)src[j]) - zero, l = ((x + 8) & 15) - 8;
            low[j] = (int8_t)l;
            high[j] = (int8_t)((x - l) / 16);
        }
        for (int j = 0; j < n; j += 4) {
            memcpy(dst + 2 * j, low + j, 4);
            memcpy(dst + 2 * j + 4, high + j, 4);
        }
    }
}
#endif

static void i8_order_dots(uint8_t *dst, const uint8_t *restrict src, int columns, int64_t k, int y_unsigned)
{
    const int lanes = i8_dots_lanes(columns);
    const int64_t size = i8_dots_size(columns, k) / (I8_PAIRED ? 2 : 1), steps = size / (4 * lanes * columns);
    int32_t order[I8_LANES];
    uint8_t *ordered = dst + (I8_PAIRED ? size : 0), *to = ordered;
    /* Vector v of a step gathers the dwords of I8_LANES / lanes columns, from column v * I8_LANES / lanes on. */
    if (lanes == 1 || columns == 1) {
        memcpy(to, src, (size_t)size);
    } else if (lanes < I8_LANES) {
        for (int j = 0; j < I8_LANES; ++j)
            order[j] = j % lanes * columns + j / lanes;
        for (int64_t i = 0; i < steps; ++i)
            i8_store(to + 4 * I8_LANES * i, i8_permute(i8_load(src + 4 * I8_LANES * i), order));
    } else {
        for (int64_t i = 0; i < steps; ++i, src += 4 * lanes * columns, to += 4 * lanes * columns)
            for (int c = 0; c < columns; ++c)
                for (int j = 0; j < lanes; ++j)
                    i8_write32(to + 4 * (c * lanes + j), i8_read32(src + 4 * (j * columns + c)));
    }
    if (I8_PAIRED)
        i8_halve(dst, ordered, size / (4 * I8_LANES), y_unsigned, I8_LANES);
}

/* Copy rows. Prefetch the next bytes of each row, which the next call copies. */
static void i8_copy_rows(uint8_t *dst, int64_t bytes, int64_t rows, const uint8_t *src, ptrdiff_t row_stride)
{
    for (; rows > 0; --rows, src += row_stride)
        for (int64_t i = 0; i < bytes; i += 4 * I8_LANES, dst += 4 * I8_LANES) {
            i8_store(dst, i8_load(src + i));
            I8_PREFETCH_L2(src + i + bytes);
        }
}

/* Bring one row of a block of few_rows_body.h into the order of the columns: transpose the 4 x 4 units of 128 bits of 4
 * vectors, so that unit l of vector q becomes unit q of vector l. */
static void i8_store_few_rows(int32_t *dst, const int32_t *acc, int32_t add)
{
    const i8_vec offset = i8_broadcast(&add);
    i8_vec v[4];
    I8_FOR(q, 4) v[q] = i8_load(acc + q * I8_LANES);
    i8_transpose_units(v);
    I8_FOR(q, 4) i8_store(dst + q * I8_LANES, i8_add(v[q], offset));
}
