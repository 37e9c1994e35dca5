/* Squared distances of few rows x and many rows y, contiguous in k and read in place (i8_distance_args in gemm.h).
 * gemm_table.h includes this file once, after long_k_body.h, whose loads, copies, end of a row and folds these are.
 *
 * With VNNI, where y is s8 and x' is x as u8 (x + 128 if it is s8), or y is u8 and x' is x as s8, and y' is y as the
 * other type,
 *
 *     (x - y)^2 = x^2 + y y' - 2 x' y + 128 y     if x is s8
 *     (x - y)^2 = x^2 + y y' - 2 x' y - 128 y     if x is u8
 *
 * whatever y is: two multiply-adds for each y, beside one for each x. Without VNNI VPMADDWD squares differences in s16:
 * three instructions for each x, beside one that widens y.
 */

#define I8_DISTANCE_STEP ((I8_DIFFERENCES ? 2 : 4) * I8_LANES)

/* A step of one vector. */
I8_INLINE i8_vec i8_distance_load(const void *p, const int is_signed, const int shifted)
{
#if I8_DIFFERENCES
    (void)shifted;
    return is_signed ? i8_words_s8(p) : i8_words_u8(p);
#else
    return i8_long_k_load(p, is_signed, shifted);
#endif
}

/* A step: squares[j] += y y', sums[j] += 64 y, acc[i * columns + j] += x' y; or, as pairs of s16, acc alone, of
 * (x - y)^2. `mask` is for the last step, which reaches back, or NULL. */
I8_INLINE void i8_distance_step(i8_vec *acc, i8_vec *squares, i8_vec *sums, const uint8_t *x, ptrdiff_t x_row,
                                const uint8_t *y, ptrdiff_t y_row, const void *mask, const int rows, const int columns,
                                const int x_signed, const int y_signed)
{
    i8_vec xv[4];
    I8_FOR(i, rows) xv[i] = i8_distance_load(x + i * x_row, x_signed, x_signed == y_signed);
    I8_FOR(j, columns) {
        i8_vec yv = i8_distance_load(y + j * y_row, y_signed, 0);
#if I8_DIFFERENCES
        (void)sums;
        if (rows == 0) {
            yv = mask ? i8_and(yv, i8_distance_load(mask, 1, 0)) : yv;
            squares[j] = i8_dot2(squares[j], yv, yv);
        }
        I8_FOR(i, rows) {
            i8_vec apart = i8_sub_16(yv, xv[i]);
            apart = mask ? i8_and(apart, i8_distance_load(mask, 1, 0)) : apart;
            acc[i * columns + j] = i8_dot2(acc[i * columns + j], apart, apart);
        }
#else
        const uint32_t sign = 0x80808080u, weight = 0x40404040u;
        const i8_vec weights = i8_broadcast(&weight);
        yv = mask ? i8_and(yv, i8_load(mask)) : yv;
        const i8_vec other = i8_xor(yv, i8_broadcast(&sign));
        if (y_signed) {
            I8_DOT(squares[j], other, yv);
            I8_DOT(sums[j], weights, yv);
            I8_FOR(i, rows) I8_DOT(acc[i * columns + j], xv[i], yv);
        } else {
            I8_DOT(squares[j], yv, other);
            I8_DOT(sums[j], yv, weights);
            I8_FOR(i, rows) I8_DOT(acc[i * columns + j], yv, xv[i]);
        }
#endif
    }
}

/* Rows y side by side: their sums of squares, if there are no rows x, or their distances from these, which are padded
 * with zeros to a step. */
I8_INLINE void i8_distance_tile(const i8_distance_args *t, const uint8_t *x, ptrdiff_t x_row, const uint8_t *y,
                                int32_t *dst, const int rows, const int columns, const int x_signed, const int y_signed)
{
    const int step = I8_DISTANCE_STEP, sets = rows ? rows : 1, n = sets * columns;
    const ptrdiff_t y_row = t->y_row;
    i8_vec acc[16], squares[4], sums[4];
    int32_t found[16];
    int64_t k = t->k;

    I8_FOR(i, n) acc[i] = i8_zero();
    I8_FOR(j, columns) squares[j] = sums[j] = i8_zero();
    for (; k >= step; k -= step, x += step, y += step)
        i8_distance_step(acc, squares, sums, x, x_row, y, y_row, NULL, rows, columns, x_signed, y_signed);
    if (k > 0 && t->k >= step) {
        x += k - step;
        y += k - step;
        i8_distance_step(acc, squares, sums, x, x_row, y, y_row, i8_before_end + 64 - step + k, rows, columns, x_signed,
                         y_signed);
    } else if (k > 0) {
        uint8_t y_step[4][4 * I8_LANES];
        i8_copy_short(y_step, y, y_row, columns, (int)k);
        i8_distance_step(acc, squares, sums, x, x_row, y_step[0], 4 * I8_LANES, NULL, rows, columns, x_signed,
                         y_signed);
    }
    I8_FOR(i, sets) I8_FOR(j, columns) {
        i8_vec *sum = &acc[i * columns + j];
        if (!I8_DIFFERENCES) {
            *sum = x_signed ? i8_sub(sums[j], *sum) : i8_sub(i8_zero(), i8_add(sums[j], *sum));
            *sum = i8_add(*sum, *sum);
        }
        if (!I8_DIFFERENCES || rows == 0)
            *sum = i8_add(*sum, squares[j]);
    }
    i8_long_k_fold(found, acc, n);
    I8_FOR(i, sets) I8_FOR(j, columns)
        dst[i * t->dst_row + j] = found[i * columns + j] + (I8_DIFFERENCES || rows == 0 ? 0 : t->x_squares[i]);
}

I8_INLINE void i8_distances(const i8_distance_args *t, const int rows, const int x_signed, const int y_signed)
{
    const int columns = rows < 4 && I8_LANES == 16 ? 4 : 2;
    const uint8_t *x = t->x;
    ptrdiff_t x_row = t->x_row;
    uint8_t x_step[4][4 * I8_LANES];
    int64_t j = 0;
    if (t->k < I8_DISTANCE_STEP) {
        i8_copy_short(x_step, x, x_row, rows, (int)t->k);
        x = x_step[0];
        x_row = 4 * I8_LANES;
    }
    for (; j + columns <= t->count; j += columns)
        i8_distance_tile(t, x, x_row, t->y + j * t->y_row, t->dst + j, rows, columns, x_signed, y_signed);
    for (; j < t->count; ++j)
        i8_distance_tile(t, x, x_row, t->y + j * t->y_row, t->dst + j, rows, 1, x_signed, y_signed);
}

/* (0 - y)^2 is that of an x of the other sign: no shift. */
#define I8_DEFINE(rows)                                                                                                \
    static void i8_distances_uu_##rows(const i8_distance_args *t) { i8_distances(t, rows, 0, 0); }                     \
    static void i8_distances_us_##rows(const i8_distance_args *t) { i8_distances(t, rows, 0, 1); }                     \
    static void i8_distances_su_##rows(const i8_distance_args *t) { i8_distances(t, rows, 1, 0); }                     \
    static void i8_distances_ss_##rows(const i8_distance_args *t) { i8_distances(t, rows, 1, 1); }
I8_DEFINE(1)
I8_DEFINE(2)
static void i8_squares_u(const i8_distance_args *t) { i8_distances(t, 0, 1, 0); }
static void i8_squares_s(const i8_distance_args *t) { i8_distances(t, 0, 0, 1); }
#if I8_DIFFERENCES
#define I8_DISTANCE_ROWS 2
#define I8_DISTANCES_OF(s, y) {i8_squares_##y, i8_distances_##s##y##_1, i8_distances_##s##y##_2}
#else
I8_DEFINE(4)
#define I8_DISTANCE_ROWS 4
#define I8_DISTANCES_OF(s, y) \
    {i8_squares_##y, i8_distances_##s##y##_1, i8_distances_##s##y##_2, i8_distances_##s##y##_4}
#endif
#undef I8_DEFINE
#define I8_DISTANCES {{I8_DISTANCES_OF(u, u), I8_DISTANCES_OF(u, s)}, {I8_DISTANCES_OF(s, u), I8_DISTANCES_OF(s, s)}}
