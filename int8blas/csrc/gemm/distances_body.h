/* Squared distances of few rows x and many rows y, which are contiguous in k and read in place (i8_distance_args in
 * gemm.h). gemm.c includes this file after long_k_body.h, whose functions it uses.
 *
 * With VNNI,
 *
 *     (x - y)^2 = x^2 - 2 x y + y^2
 *
 * where u is y as u8, v is y as s8, and u = v + 128:
 *
 *     x y = x u - 128 x   if x and y are s8   x v + 128 x   if both are u8      x v or x u if one is u8 and one is s8
 *     y^2 = u v - 128 u + 128^2   if y is s8                u v + 128 v + 128^2   if y is u8
 *
 * Each y takes two multiply-adds, and one more for each x. All multiply-adds read one form of y, u or v, so that the
 * sums of y are not needed. The offset of a row x contains the terms that depend only on x. Without VNNI, VPMADDWD
 * squares differences in s16. A step takes three instructions for each x, and one instruction that widens y.
 *
 * With several rows x, the kernel reads several rows y side by side, so that each load of x is used several times, and
 * prefetches rows y. With a single row x, the kernel reads rows y one after the other, because memory delivers one
 * stream 1.5x as fast as several streams. */

#define I8_DISTANCE_STEP ((I8_DIFFERENCES ? 2 : 4) * I8_LANES)

enum {
    /* The prefetch distance of rows y, in bytes. Reads from memory are 1.1x slower with a distance of 3 KiB than with 4
     * KiB. Distances above 4 KiB slow reads from L3. */
    I8_DISTANCE_AHEAD = 1 << 12,
    /* With a single row x, rows y are read one after the other if y has at least I8_DISTANCE_UNCACHED bytes and a row
     * has at most I8_DISTANCE_TURN bytes. A y of more than I8_DISTANCE_UNCACHED bytes does not fit the L2 cache. With
     * short rows the CPU begins the next row before the dependent multiply-adds of the current row have ended. If y is
     * in L2, reading rows one after the other is 1.1x slower than reading several rows side by side. */
    I8_DISTANCE_UNCACHED = 1 << 20,
    I8_DISTANCE_TURN = 1 << 10
};

/* A step is a whole step, the last bytes of a longer row, or a row shorter than a step. */
enum { I8_WHOLE_STEP, I8_LAST_STEP, I8_SHORT_ROW };

/* Load a step of a row that has `left` bytes left. Set bytes of other rows or of the previous step to zero. */
I8_INLINE i8_vec i8_distance_load(const uint8_t *p, const int kind, int64_t left, const int is_signed)
{
#if I8_DIFFERENCES
#define I8_DISTANCE_VECTOR(p, is_signed) ((is_signed) ? i8_words_s8(p) : i8_words_u8(p))
#else
#define I8_DISTANCE_VECTOR(p, is_signed) i8_load(p)
    (void)is_signed;
#endif
    if (kind == I8_SHORT_ROW) {
#if I8_DIFFERENCES
        uint8_t row[4 * I8_LANES];
        i8_store(row, i8_repeat_some(p, 4 * I8_LANES, (int)left));
        return I8_DISTANCE_VECTOR(row, is_signed);
#else
        return i8_repeat_some(p, 4 * I8_LANES, (int)left);
#endif
    }
    if (kind == I8_LAST_STEP)
        return i8_and(I8_DISTANCE_VECTOR(p + left - I8_DISTANCE_STEP, is_signed),
                      I8_DISTANCE_VECTOR((const uint8_t *)i8_before_end + 64 - I8_DISTANCE_STEP + left, 1));
    return I8_DISTANCE_VECTOR(p, is_signed);
#undef I8_DISTANCE_VECTOR
}

/* Add one step of the products: acc[i * columns + j] += x u, or x v. If the squares are not `known`, add y^2 without
 * its term 128^2 to squares[j] + shifts[j]. `shifts` may be `squares`. In s16, set acc[i * columns + j] += (x - y)^2,
 * or squares[j] += y^2 if there are no rows x. */
I8_INLINE void i8_distance_step(i8_vec *acc, i8_vec *squares, i8_vec *shifts, const uint8_t *x, ptrdiff_t x_row,
                                const uint8_t *y, ptrdiff_t y_row, int64_t left, const int kind, const int rows,
                                const int columns, const int x_signed, const int y_signed, const int known)
{
    i8_vec xv[4];
    I8_FOR(i, rows) {
        xv[i] = i8_distance_load(x + i * x_row, kind == I8_LAST_STEP ? kind : I8_WHOLE_STEP, left, x_signed);
        I8_PIN(xv[i]);
    }
    I8_FOR(j, columns) {
        i8_vec yv = i8_distance_load(y + j * y_row, kind, left, y_signed);
        I8_PIN(yv);
#if I8_DIFFERENCES
        (void)known;
        (void)shifts;
        if (rows == 0)
            squares[j] = i8_dot2(squares[j], yv, yv);
        I8_FOR(i, rows) {
            const i8_vec apart = i8_sub_16(yv, xv[i]);
            acc[i * columns + j] = i8_dot2(acc[i * columns + j], apart, apart);
        }
#else
        const i8_vec signs = i8_set_8(0x80), other = i8_xor(yv, signs);
        const i8_vec u = y_signed ? other : yv, v = y_signed ? yv : other;
        if (!known) {
            I8_DOT(squares[j], u, v);
            if (y_signed)
                I8_DOT(shifts[j], u, signs);
            else
                I8_DOT(shifts[j], signs, v);
        }
        I8_FOR(i, rows) {
            if (x_signed)
                I8_DOT(acc[i * columns + j], u, xv[i]);
            else
                I8_DOT(acc[i * columns + j], xv[i], v);
        }
#endif
    }
}

/* Read rows y side by side. Sum the squares of y in `squares`, and the products of x and y in acc[i * columns + j]. */
I8_INLINE void i8_distance_rows(i8_vec *acc, i8_vec *squares, const uint8_t *x, ptrdiff_t x_row, const uint8_t *y,
                                ptrdiff_t y_row, int64_t k, const int rows, const int columns, const int x_signed,
                                const int y_signed, const int known)
{
    const int step = I8_DISTANCE_STEP, fetches = rows > 1 && !known;
    const int64_t all = k;
    /* If rows y follow one another without gaps, prefetch the bytes after the last row. */
    const uint8_t *ahead = y + I8_DISTANCE_AHEAD;
    const ptrdiff_t ahead_step = y_row - k < step ? columns * step : 0;
    /* With a single row y, one accumulator for squares and shifts would form a chain of dependent multiply-adds. A
     * second accumulator, for the shifts, lets two multiply-adds run at the same time. */
    i8_vec shift = i8_zero(), *shifts = columns == 1 ? &shift : squares;
    I8_FOR(i, rows * columns) acc[i] = i8_zero();
    I8_FOR(j, columns) squares[j] = i8_zero();
#define I8_DISTANCE(kind)                                                                                              \
    i8_distance_step(acc, squares, shifts, x, x_row, y, y_row, k, kind, rows, columns, x_signed, y_signed, known)
    for (; k >= step; k -= step, x += step, y += step) {
        I8_FOR(i, fetches * (columns * step + 63) / 64) I8_PREFETCH(ahead + 64 * i);
        ahead += ahead_step;
        I8_DISTANCE(I8_WHOLE_STEP);
    }
    if (k > 0 && all >= step)
        I8_DISTANCE(I8_LAST_STEP);
    else if (k > 0)
        I8_DISTANCE(I8_SHORT_ROW);
#undef I8_DISTANCE
    if (columns == 1)
        squares[0] = i8_add(squares[0], shift);
}

/* Store the distances of some rows y. Without rows x, store the sums of squares of the rows y. A short row is padded
 * with zeros to a step. The offset of row i and column j is offsets[i * columns + j]. */
I8_INLINE void i8_distance_tile(const i8_distance_args *t, const uint8_t *x, ptrdiff_t x_row, int64_t first,
                                const int32_t *offsets, const int rows, const int columns, const int sequential,
                                const int x_signed, const int y_signed, const int known)
{
    const int sets = rows ? rows : 1;
    const uint8_t *y = t->y + first * t->y_row;
    i8_vec acc[16], squares[16], result;
    int32_t found[16];

    if (sequential)
        I8_FOR(j, columns)
            i8_distance_rows(acc + j, squares + j, x, x_row, y + j * t->y_row, t->y_row, t->k, rows, 1, x_signed,
                             y_signed, known);
    else
        i8_distance_rows(acc, squares, x, x_row, y, t->y_row, t->k, rows, columns, x_signed, y_signed, known);
    /* Folding repeats the sums in all lanes. With one row x, subtract the products from the squares before folding. */
    if (!I8_DIFFERENCES && rows == 1 && !known)
        I8_FOR(j, columns) squares[j] = i8_sub(squares[j], i8_add(acc[j], acc[j]));
    else if (rows > 0)
        i8_long_k_fold(found, acc, rows * columns);
    if (known)
        squares[0] = i8_repeat(t->y_squares + first, 4 * columns);
    else if (rows == 0 || !I8_DIFFERENCES)
        i8_long_k_fold(found, squares, columns);
    result = rows > 0 && I8_DIFFERENCES ? acc[0] : squares[0];
    if (!I8_DIFFERENCES && (rows > 1 || known))
        result = i8_sub(result, i8_add(acc[0], acc[0]));
    if (!I8_DIFFERENCES)
        result = i8_add(result, i8_load(offsets));
    i8_store(found, result);
    I8_FOR(i, sets)
        memcpy(t->dst + i * t->dst_row + first, found + i * columns, (size_t)columns * sizeof(int32_t));
}

/* Compute the offsets of the distances of rows x: the squares of x and, with VNNI, the terms of the shift by 128. */
I8_INLINE void i8_distance_offsets(int32_t *offsets, const i8_distance_args *t, const int rows, const int columns,
                                   const int x_signed, const int y_signed, const int known)
{
    const int64_t padded = (t->k + I8_DISTANCE_STEP - 1) / I8_DISTANCE_STEP * I8_DISTANCE_STEP;
    const uint32_t squares = known ? 0 : 128 * 128 * (uint32_t)padded;
    I8_FOR(i, I8_LANES) offsets[i] = (int32_t)squares;
    I8_FOR(i, rows) {
        const uint32_t shift = x_signed != y_signed ? 0 : 256 * (uint32_t)t->x_sums[i];
        const uint32_t offset = squares + (uint32_t)t->x_squares[i] + (x_signed ? shift : 0 - shift);
        I8_FOR(j, columns) offsets[i * columns + j] = (int32_t)offset;
    }
}

I8_INLINE void i8_distances(const i8_distance_args *t, const int rows, const int x_signed, const int y_signed,
                            const int known)
{
    /* Adding up the lanes of a short row would take longer than its one step of multiply-adds, so one fold of lanes
     * serves many rows. */
    const int columns = I8_LANES == 16 ? 4 : 2, many = rows == 0 ? I8_LANES : columns;
    const int sequential = rows == 1 && t->count * t->k >= I8_DISTANCE_UNCACHED && t->k >= I8_DISTANCE_STEP &&
                        t->k <= I8_DISTANCE_TURN;
    const uint8_t *x = t->x;
    ptrdiff_t x_row = t->x_row;
    uint8_t x_step[4][4 * I8_LANES];
    int32_t offsets[2][I8_LANES];
    int64_t j = 0;
    if (!I8_DIFFERENCES) {
        i8_distance_offsets(offsets[0], t, rows, columns, x_signed, y_signed, known);
        i8_distance_offsets(offsets[1], t, rows, 1, x_signed, y_signed, known);
    }
    if (t->k < I8_DISTANCE_STEP) {
        i8_copy_short(x_step, x, x_row, rows, (int)t->k);
        x = x_step[0];
        x_row = 4 * I8_LANES;
        for (; many > columns && j + many <= t->count; j += many)
            i8_distance_tile(t, x, x_row, j, offsets[0], rows, many, 0, x_signed, y_signed, known);
    }
    for (; sequential && j + columns <= t->count; j += columns)
        i8_distance_tile(t, x, x_row, j, offsets[0], rows, columns, rows == 1, x_signed, y_signed, known);
    for (; j + columns <= t->count; j += columns)
        i8_distance_tile(t, x, x_row, j, offsets[0], rows, columns, 0, x_signed, y_signed, known);
    for (; j < t->count; ++j)
        i8_distance_tile(t, x, x_row, j, offsets[1], rows, 1, 0, x_signed, y_signed, known);
}

#define I8_DEFINE(name, rows, known)                                                                                   \
    static void i8_distances_uu_##name(const i8_distance_args *t) { i8_distances(t, rows, 0, 0, known); }              \
    static void i8_distances_us_##name(const i8_distance_args *t) { i8_distances(t, rows, 0, 1, known); }              \
    static void i8_distances_su_##name(const i8_distance_args *t) { i8_distances(t, rows, 1, 0, known); }              \
    static void i8_distances_ss_##name(const i8_distance_args *t) { i8_distances(t, rows, 1, 1, known); }
I8_DEFINE(1, 1, 0)
I8_DEFINE(2, 2, 0)
static void i8_squares_u(const i8_distance_args *t) { i8_distances(t, 0, 1, 0, 0); }
static void i8_squares_s(const i8_distance_args *t) { i8_distances(t, 0, 0, 1, 0); }
#if I8_DIFFERENCES
#define I8_DISTANCE_ROWS 2
#define I8_DISTANCES_OF(s, y) {i8_squares_##y, i8_distances_##s##y##_1, i8_distances_##s##y##_2}
#else
I8_DEFINE(4, 4, 0)
I8_DEFINE(known, 4, 1)
#define I8_DISTANCE_ROWS 4
#define I8_DISTANCES_OF(s, y)                                                                                          \
    {i8_squares_##y, i8_distances_##s##y##_1, i8_distances_##s##y##_2, i8_distances_##s##y##_4,                        \
     i8_distances_##s##y##_known}
#endif
#undef I8_DEFINE
#define I8_DISTANCES {{I8_DISTANCES_OF(u, u), I8_DISTANCES_OF(u, s)}, {I8_DISTANCES_OF(s, u), I8_DISTANCES_OF(s, s)}}

/* See i8_distance_kernels.column_squares. */
static void i8_column_squares(int32_t *squares, const int8_t *panel, int64_t groups, const int64_t *sums)
{
    i8_vec acc[2][I8_VECS];
    I8_FOR(d, 2) I8_FOR(v, I8_VECS) acc[d][v] = i8_zero();
#if I8_DIFFERENCES
    (void)sums;
    for (; groups > 0; --groups, panel += 4 * I8_PANEL)
        I8_FOR(v, I8_VECS) {
            const i8_vec b = i8_load(panel + v * 4 * I8_LANES), even = i8_even_s8(b), odd = i8_odd_s8(b);
            acc[0][v] = i8_dot2(acc[0][v], even, even);
            acc[1][v] = i8_dot2(acc[1][v], odd, odd);
        }
    I8_FOR(v, I8_VECS) i8_store(squares + v * I8_LANES, i8_add(acc[0][v], acc[1][v]));
#else
#define I8_ADD_SQUARES(d)                                                                                              \
    do {                                                                                                               \
        I8_FOR(v, I8_VECS) {                                                                                           \
            i8_vec b = i8_load(panel + v * 4 * I8_LANES);                                                              \
            I8_PIN(b);                                                                                                 \
            I8_DOT(acc[d][v], i8_xor(b, i8_set_8(0x80)), b);                                                           \
        }                                                                                                              \
        panel += 4 * I8_PANEL;                                                                                         \
    } while (0)
    /* Add b (b + 128) in two chains of multiply-adds, because each multiply-add of a chain waits for the previous
     * multiply-add. */
    for (; groups > 1; groups -= 2)
        I8_FOR(d, 2) I8_ADD_SQUARES(d);
    if (groups > 0)
        I8_ADD_SQUARES(0);
#undef I8_ADD_SQUARES
    I8_FOR(v, I8_VECS) i8_store(squares + v * I8_LANES, i8_add(acc[0][v], acc[1][v]));
    for (int c = 0; c < I8_PANEL; ++c)
        squares[c] = (int32_t)((uint32_t)squares[c] - 128 * (uint32_t)sums[c]);
#endif
}
