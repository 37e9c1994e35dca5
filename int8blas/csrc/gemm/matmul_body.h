/* Compute tiles with USMMLA, an instruction that multiplies 2 rows of 8 k by 2 columns of 8 k to 4 sums. tile_body.h
 * calls the add_products that this file defines. isa/i8mm.h has i8_matmul(acc, a, b).
 *
 * The tiles take two groups of k together. A unit of B' has 4 columns of a group. Zipping the dwords of a unit of the
 * first group and a unit of the second group makes two units, each with 2 columns of 8 k. A call zips B' once for all
 * tiles along M, into other memory. interleave_a zips the micro-panel of A' in place, so that the dwords of a row are
 * adjacent, and two rows are a unit. If the number of groups is odd, the last group of A' is unchanged, and the last
 * group of B' is zipped with zeros.
 *
 * A tile of 6 x 16 has 3 x 8 units of sums, and uses 3 registers for A and 1 register for B. A unit of sums has the
 * sums of two rows and two columns. The kernel brings the sums into the order of C at the end. */
#include "core/dwords.h"

#define I8_ROW_PAIRS(mr) (((mr) + 1) / 2)
#define I8_COLUMN_PAIRS (I8_PANEL / 2)

void I8_OF_SET(interleave_a)(uint8_t *a, int height, int64_t groups);
void I8_OF_SET(interleave_a)(uint8_t *a, int height, int64_t groups)
{
    for (; groups >= 2; groups -= 2, a += 8 * height) {
        uint32_t x[2 * I8_MR];
        memcpy(x, a, 8 * (size_t)height);
        for (int i = 0; i < height; ++i) {
            i8_write32(a + 8 * i, x[i]);
            i8_write32(a + 8 * i + 4, x[height + i]);
        }
    }
}

/* Zip the units of two groups, or of one group and zeros. */
I8_INLINE void i8_zip_groups(int8_t *dst, const int8_t *b, const int both)
{
    I8_FOR(u, 4) {
        const i8_unit x = i8_load_unit(b + 16 * u), y = both ? i8_load_unit(b + 64 + 16 * u) : i8_zero_unit();
        i8_store_unit(dst + 32 * u, i8_zip_low_32(x, y));
        i8_store_unit(dst + 32 * u + 16, i8_zip_high_32(x, y));
    }
}
static void i8_zip_panel(int8_t *dst, const int8_t *b, int64_t groups)
{
    for (; groups >= 2; groups -= 2, b += 8 * I8_PANEL, dst += 8 * I8_PANEL)
        i8_zip_groups(dst, b, 1);
    if (groups)
        i8_zip_groups(dst, b, 0);
}

/* Load 8 k of two rows of a packed A. If both_groups is 0, zeros replace the second group of 4 k. If both_rows is 0,
 * zeros replace the second row. */
I8_INLINE i8_unit i8_two_rows(const uint8_t *a, const int both_groups, const int both_rows)
{
    if (both_groups)
        return both_rows ? i8_load_unit(a) : i8_load_half_unit(a);
    const uint32_t x = i8_read32(a), y = both_rows ? i8_read32(a + 4) : 0;
    return i8_unit_of_dwords(x, 0, y, 0);
}

#define I8_MULTIPLY_GROUPS(both_groups)                                                                                \
    do {                                                                                                               \
        i8_unit av[I8_ROW_PAIRS(I8_MR)];                                                                               \
        I8_FOR(i, I8_ROW_PAIRS(mr))                                                                                    \
            av[i] = i8_two_rows(a + ((both_groups) ? 16 : 8) * i, both_groups, 2 * i + 1 < mr);                        \
        I8_FOR(j, I8_COLUMN_PAIRS) {                                                                                   \
            const i8_unit bv = i8_load_unit(b + 16 * j);                                                               \
            I8_FOR(i, I8_ROW_PAIRS(mr)) acc[i][j] = i8_matmul(acc[i][j], av[i], bv);                                   \
        }                                                                                                              \
    } while (0)

/* Add all products of a tile to `sums`: see tile_body.h. */
I8_INLINE void I8_NAME(add_products)(i8_vec sums[I8_MR][I8_ROW_NP * I8_VECS], const i8_tile_args *t, const int64_t row,
                                     const uint8_t *a, const int8_t *b, const char *ahead, const int mr, const int np)
{
    int32x4_t acc[I8_ROW_PAIRS(I8_MR)][I8_COLUMN_PAIRS];
    int64_t groups = t->groups;
    I8_IN_MEMORY(sums); /* the multiply-adds need all registers */
    (void)row;
    (void)np;
    I8_FOR(i, I8_ROW_PAIRS(mr)) I8_FOR(j, I8_COLUMN_PAIRS) acc[i][j] = vdupq_n_s32(0);
    for (; groups >= 2; groups -= 2, a += 8 * mr, b += 8 * I8_PANEL) {
        if (ahead) {
            I8_PREFETCH(ahead);
            I8_PREFETCH(ahead + t->ahead_step);
            ahead += 2 * t->ahead_step;
        }
        I8_MULTIPLY_GROUPS(1);
    }
    if (groups)
        I8_MULTIPLY_GROUPS(0);
    I8_FOR(i, mr) I8_FOR(v, I8_VECS) {
        int32x4_t sorted[2];
        I8_FOR(u, 2) {
            const int64x2_t x = (int64x2_t)acc[i / 2][4 * v + 2 * u], y = (int64x2_t)acc[i / 2][4 * v + 2 * u + 1];
            sorted[u] = (int32x4_t)(i % 2 ? vzip2q_s64(x, y) : vzip1q_s64(x, y));
        }
        sums[i][v] = i8_add(sums[i][v], I8_VEC(sorted[0], sorted[1]));
    }
}
#undef I8_MULTIPLY_GROUPS

/* Compute the tiles of `t` with a zipped B. */
#define I8_PREPARE(t, mr, np)                                                                                          \
    _Alignas(64) int8_t zipped[I8_INTERLEAVED_K * I8_PANEL];                                                           \
    i8_tile_args with_zipped = *t;                                                                                     \
    i8_zip_panel(zipped, t->b.data, t->groups);                                                                        \
    with_zipped.b.data = zipped;                                                                                       \
    t = &with_zipped
