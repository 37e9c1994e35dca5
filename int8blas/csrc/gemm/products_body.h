/* Tiles by an instruction that multiplies 8 bytes by 8 bytes to s16 (SMULL). tile_body.h calls the add_products that
 * this file defines. add_products multiplies 16 k of a row of A' - 128 by 16 k of a column of B':
 *
 *     acc += (products of k 0 to 7) + (products of k 8 to 15)          neighbours are added in s32
 *
 * If no column of B' has -128 at both k and k + 8, the sum of both products fits s16, and one SADALP adds it to the
 * sums. If a column has -128 at both k and k + 8, each product has its own SADALP. The four lanes of a sum are added at
 * the end. The kernel multiplies 3 or 4 rows by 4 columns at a time. The loop takes 22 of 32 registers: 16 for sums, 4
 * for A, 1 for B and 1 for products.
 *
 * The tiles take four groups of k together. For all tiles along M, i8_interleave_panel makes the dwords of a column of
 * B' adjacent once: first all k of 4 columns, then all k of the next 4 columns. interleave_a makes the dwords of a row
 * of A' adjacent. If fewer than four groups are left, their order in A' is unchanged, and B' is padded with zeros. */
#include "core/dwords.h"

#define I8_COLUMN_SETS (I8_PANEL / 4)
#define I8_SET_ROWS 4
#define I8_STEP_GROUPS 4

void I8_OF_SET(interleave_a)(uint8_t *a, int height, int64_t groups);
void I8_OF_SET(interleave_a)(uint8_t *a, int height, int64_t groups)
{
    for (; groups >= I8_STEP_GROUPS; groups -= I8_STEP_GROUPS, a += 16 * height) {
        uint8_t x[16 * I8_MR];
        memcpy(x, a, 16 * (size_t)height);
        for (int i = 0; i < height; ++i)
            I8_FOR(g, I8_STEP_GROUPS) i8_write32(a + 16 * i + 4 * g, i8_read32(x + 4 * (g * height + i)));
    }
}

/* Interleave a panel, one set of columns at a time. Return whether the sum of two products fits s16. */
static int i8_interleave_panel(int8_t *dst, const int8_t *b, int64_t groups)
{
    const int64_t steps = (groups + I8_STEP_GROUPS - 1) / I8_STEP_GROUPS;
    int8x16_t least = vdupq_n_s8(0); /* minimum, over all k, of the larger byte of k and k + 8 */
    for (int64_t step = 0; step < steps; ++step, groups -= I8_STEP_GROUPS, b += I8_STEP_GROUPS * 4 * I8_PANEL)
        I8_FOR(q, I8_COLUMN_SETS) {
            uint32x4x4_t x;
            I8_FOR(g, I8_STEP_GROUPS)
                x.val[g] = g < groups ? I8_U32(i8_load_unit(b + g * 4 * I8_PANEL + 16 * q)) : vdupq_n_u32(0);
            I8_FOR(g, 2) least = vminq_s8(least, vmaxq_s8(I8_S8(x.val[g]), I8_S8(x.val[g + 2])));
            vst4q_u32((uint32_t *)(dst + (q * steps + step) * 64), x);
        }
    return vminvq_s8(least) > -128;
}

/* Load up to four groups (dwords) of a row, and fill the unit with zeros. */
I8_INLINE i8_unit i8_row_of_groups(const uint8_t *a, ptrdiff_t a_group, int64_t groups)
{
    uint32_t x[I8_STEP_GROUPS] = {0};
    for (int g = 0; g < groups; ++g)
        x[g] = i8_read32(a + g * a_group);
    return i8_load_unit(x);
}

/* Successive instructions take different rows, so that no instruction waits for the previous instruction. */
I8_INLINE void i8_multiply_column(int32x4_t acc[I8_SET_ROWS][4], const i8_unit *a, i8_unit b, const int j,
                                  const int rows, const int in_16_bits)
{
    int16x8_t products[I8_SET_ROWS];
    I8_FOR(i, rows) products[i] = i8_smull(a[i], b);
    if (in_16_bits) {
        I8_FOR(i, rows) products[i] = i8_smlal2(products[i], a[i], b);
    } else {
        I8_FOR(i, rows) acc[i][j] = i8_sadalp(acc[i][j], products[i]);
        I8_FOR(i, rows) products[i] = i8_smull2(a[i], b);
    }
    I8_FOR(i, rows) acc[i][j] = i8_sadalp(acc[i][j], products[i]);
}

#define I8_MULTIPLY_STEP(row_of_a, in_16_bits)                                                                         \
    do {                                                                                                               \
        i8_unit av[I8_SET_ROWS];                                                                                       \
        I8_FOR(i, rows) av[i] = row_of_a;                                                                              \
        I8_FOR(j, 4) i8_multiply_column(acc, av, i8_load_unit(b + 16 * j), j, rows, in_16_bits);                       \
        b += 64;                                                                                                       \
    } while (0)

/* Multiply `rows` rows of a micro-panel of `mr` rows, from row `first` on, by set `q` of the columns. Each of the four
 * sets prefetches a quarter of the cache lines of the next B. */
I8_INLINE void i8_multiply_set(int32x4_t sums[I8_MR][I8_COLUMN_SETS], const i8_tile_args *t, const uint8_t *a,
                               const int8_t *b, const char *ahead, const int q, const int mr, const int first,
                               const int rows)
{
    int32x4_t acc[I8_SET_ROWS][4];
    int64_t steps = t->groups / I8_STEP_GROUPS;
    const int64_t left = t->groups % I8_STEP_GROUPS;
    const ptrdiff_t ahead_step = ahead ? t->ahead_step : 0;
    const char *next = ahead ? ahead + q * steps * ahead_step : (const char *)b;
    b += q * (steps + (left > 0)) * 64;
    a += 16 * first;
    I8_FOR(i, rows) I8_FOR(j, 4) acc[i][j] = vdupq_n_s32(0);
    if (t->small_groups)
        for (; steps > 0; --steps, a += 16 * mr, next += ahead_step) {
            I8_PREFETCH(next);
            I8_MULTIPLY_STEP(i8_load_unit(a + 16 * i), 1);
        }
    else
        for (; steps > 0; --steps, a += 16 * mr, next += ahead_step) {
            I8_PREFETCH(next);
            I8_MULTIPLY_STEP(i8_load_unit(a + 16 * i), 0);
        }
    if (left) {
        a -= 12 * first;
        I8_MULTIPLY_STEP(i8_row_of_groups(a + 4 * i, 4 * mr, left), 0);
    }
    I8_FOR(i, rows) sums[first + i][q] = vpaddq_s32(vpaddq_s32(acc[i][0], acc[i][1]), vpaddq_s32(acc[i][2], acc[i][3]));
}
#undef I8_MULTIPLY_STEP

/* Add all products of a tile to `sums`: see tile_body.h. */
I8_INLINE void I8_NAME(add_products)(i8_vec sums[I8_MR][I8_ROW_NP * I8_VECS], const i8_tile_args *t, const int64_t row,
                                     const uint8_t *a, const int8_t *b, const char *ahead, const int mr, const int np)
{
    int32x4_t made[I8_MR][I8_COLUMN_SETS];
    const int upper = mr > I8_SET_ROWS ? (mr + 1) / 2 : mr;
    I8_IN_MEMORY(sums); /* the products need all registers */
    (void)row;
    (void)np;
    for (int q = 0; q < I8_COLUMN_SETS; ++q) {
        i8_multiply_set(made, t, a, b, ahead, q, mr, 0, upper);
        if (upper < mr)
            i8_multiply_set(made, t, a, b, NULL, q, mr, upper, mr - upper);
    }
    I8_FOR(i, mr) I8_FOR(v, I8_VECS)
        sums[i][v] = i8_add(sums[i][v], I8_VEC(made[i][2 * v], made[i][2 * v + 1]));
}

/* Compute the tiles of `t` with an interleaved B. The sums of the tiles start with the shift of A'. */
#define I8_SHIFTS_A 1
#define I8_PREPARE(t, mr, np)                                                                                          \
    _Alignas(64) int8_t interleaved[I8_INTERLEAVED_K * I8_PANEL];                                                      \
    int32_t col_init[I8_PANEL];                                                                                        \
    i8_tile_args prepared = *t;                                                                                        \
    prepared.small_groups = i8_interleave_panel(interleaved, t->b.data, t->groups);                                    \
    prepared.b.data = interleaved;                                                                                     \
    I8_NAME(shifted_columns)(col_init, t, np);                                                                         \
    prepared.col_init = col_init;                                                                                      \
    t = &prepared
