/* The kernels of long K multiply few vectors by few vectors, which are contiguous in k and read in place
 * (i8_long_k_args in gemm.h). gemm.c includes this file once, after I8_DOT(acc, a, b) and the i8_vec of tile_body.h
 * with i8_repeat_some, i8_fold_lanes, i8_fold_units, i8_words_s8 and i8_words_u8.
 *
 * Each of the rows * columns sums has its own accumulator. If there are few sums, each sum has several accumulators, so
 * that a multiply-add does not wait for the previous multiply-add. The products of a segment are added in s32, and
 * segments in s64. A stretch is I8_LANES segments: each lane adds the products of one segment, so only the sum of the
 * lanes needs s64. Leaving the loop after each segment would be 1.02x slower for vectors from memory.
 *
 * If an instruction multiplies bytes, a step has one vector of bytes of each operand. VNNI multiplies u8 by s8. On
 * AArch64, the dot product takes two operands of the same sign (I8_ALIKE). The matrix multiplication extension has
 * products of u8 and s8. If no instruction takes the signs of the operands, the kernel shifts x by 128, and corrects
 * the result by the sums of y, which are products of y with a vector of ones. The sums of y need one more multiply-add
 * for each vector y, which takes hardly any time, because loads limit the speed.
 *
 * If no instruction multiplies bytes, a load widens half a vector of bytes, and VPMADDWD takes any signs. Widening
 * takes 8 instructions for 64 bytes with AVX2. Splitting bytes into halves would take 7.5 instructions for operands of
 * different signs and 10.5 for operands of the same sign. Shifting x would take 9 instructions. */
#define I8_LONG_K_STEP ((I8_PAIRED ? 2 : 4) * I8_LANES)
#define I8_LONG_K_STRETCH (I8_LANES * (int64_t)I8_LONG_K_SEGMENT)

#ifndef I8_ALIKE
#define I8_ALIKE 0
#endif
/* Add the products of the bytes of x and y to acc. */
#if I8_ALIKE
#define I8_LONG_K_DOT(acc, x, y, x_signed, y_signed)                                                                   \
    do {                                                                                                               \
        if ((x_signed) && (y_signed))                                                                                  \
            (acc) = i8_dot_signed(acc, x, y);                                                                          \
        else if (x_signed)                                                                                             \
            I8_DOT(acc, y, x);                                                                                         \
        else if (y_signed)                                                                                             \
            I8_DOT(acc, x, y);                                                                                         \
        else                                                                                                           \
            (acc) = i8_dot_unsigned(acc, x, y);                                                                        \
    } while (0)
#else
#define I8_LONG_K_DOT(acc, x, y, x_signed, y_signed)                                                                   \
    do {                                                                                                               \
        if (y_signed)                                                                                                  \
            I8_DOT(acc, x, y);                                                                                         \
        else                                                                                                           \
            I8_DOT(acc, y, x);                                                                                         \
    } while (0)
#endif

/* Return whether x is shifted. */
I8_INLINE int i8_long_k_shifts(const int x_signed, const int y_signed)
{
#if I8_PAIRED
    (void)x_signed;
    (void)y_signed;
    return 0;
#else
    return x_signed == y_signed ? !I8_ALIKE : !I8_MIXED;
#endif
}

static const int8_t i8_before_end[2 * 64] = {[64] = -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1,
                                             -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1,
                                             -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1,
                                             -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1};

/* Copy vectors shorter than a step, and append zeros. */
static void i8_copy_short(uint8_t (*dst)[4 * I8_LANES], const uint8_t *src, ptrdiff_t row, int count, int k)
{
    for (int i = 0; i < count; ++i)
        i8_store(dst[i], i8_repeat_some(src + i * row, 4 * I8_LANES, k));
}

/* Load a step of one vector in the form of the multiply-add. */
I8_INLINE i8_vec i8_long_k_load(const void *p, const int is_signed, const int shifted)
{
#if I8_PAIRED
    (void)shifted;
    return is_signed ? i8_words_s8(p) : i8_words_u8(p);
#else
    const uint32_t sign = 0x80808080u;
    (void)is_signed;
    return shifted ? i8_xor(i8_load(p), i8_broadcast(&sign)) : i8_load(p);
#endif
}

/* Add one step: acc[i * columns + j] += x(i) * y(j), and sum[j] += y(j) if x is shifted. `mask` is ANDed with y, unless
 * it is NULL. */
I8_INLINE void i8_long_k_step(i8_vec *acc, i8_vec *sum, const uint8_t *x, ptrdiff_t x_row, const uint8_t *y,
                              ptrdiff_t y_row, const void *mask, const int rows, const int columns, const int x_signed,
                              const int y_signed)
{
    const int shifts = i8_long_k_shifts(x_signed, y_signed);
    i8_vec yv[4];
    I8_FOR(j, columns) {
        yv[j] = i8_long_k_load(y + j * y_row, y_signed, 0);
        if (mask)
            yv[j] = i8_and(yv[j], i8_long_k_load(mask, 1, 0));
    }
#if I8_PAIRED
    (void)shifts;
    (void)sum;
    I8_FOR(i, rows) {
        const i8_vec xv = i8_long_k_load(x + i * x_row, x_signed, 0);
        I8_FOR(j, columns) acc[i * columns + j] = i8_dot2_any(acc[i * columns + j], xv, yv[j]);
    }
#else
    if (shifts) {
        const uint32_t one4 = 0x01010101u;
        const i8_vec ones = i8_broadcast(&one4);
        I8_FOR(j, columns) I8_LONG_K_DOT(sum[j], ones, yv[j], I8_ALIKE && y_signed, y_signed);
    }
    I8_FOR(i, rows) {
        const i8_vec xv = i8_long_k_load(x + i * x_row, x_signed, shifts);
        I8_FOR(j, columns) I8_LONG_K_DOT(acc[i * columns + j], xv, yv[j], shifts ? !x_signed : x_signed, y_signed);
    }
#endif
}

#define I8_FOLD(fold, n)                                                                                               \
    I8_FOR(i, ((n) + 1) / 2) acc[i] = fold(acc[2 * i], acc[2 * i + 1 < (n) ? 2 * i + 1 : 2 * i])

/* Sum the lanes of each of up to 16 vectors. dst has room for n sums, rounded up to a vector. */
I8_INLINE void i8_long_k_fold(int32_t *dst, i8_vec *acc, const int n)
{
    I8_FOLD(i8_fold_lanes, n);
    I8_FOLD(i8_fold_lanes, (n + 1) / 2);
    I8_FOLD(i8_fold_units, (n + 3) / 4);
    if (I8_LANES > 8)
        I8_FOLD(i8_fold_units, (n + 7) / 8);
    I8_FOR(i, (n + I8_LANES - 1) / I8_LANES) i8_store(dst + i * I8_LANES, acc[i]);
}
#undef I8_FOLD

/* Add the sum of the lanes of vector i * columns + j to dst[i, j]. If x is shifted, also add the shift times the sum of
 * the lanes of vector j of y_lanes. The sums are in s64, because they may exceed s32. */
static void i8_long_k_add_lanes(const i8_long_k_args *t, const int32_t *lanes, const int32_t *y_lanes, int rows,
                                int columns, int shift)
{
    for (int i = 0; i < rows; ++i)
        for (int j = 0; j < columns; ++j, lanes += I8_LANES) {
            int64_t total = 0;
            for (int lane = 0; lane < I8_LANES; ++lane)
                total += lanes[lane] + (shift ? shift * (int64_t)y_lanes[j * I8_LANES + lane] : 0);
            t->dst[i * t->dst_row + j * t->dst_column] += total;
        }
}

/* Multiply a stretch of k bytes at x and y. */
I8_INLINE void i8_long_k_stretch(const i8_long_k_args *t, const uint8_t *x, const uint8_t *y, int64_t k,
                                 const int rows, const int columns, const int x_signed, const int y_signed)
{
    const int n = rows * columns, step = I8_LONG_K_STEP, shifts = i8_long_k_shifts(x_signed, y_signed);
    const int chains = n + shifts * columns, depth = chains > 4 ? 1 : chains > 2 ? 2 : 4;
    const int shift = x_signed ? -128 : 128;
    const ptrdiff_t x_row = t->x_row, y_row = t->y_row;
    i8_vec acc[4][16], sum[4][4];
    int32_t sums[16 * I8_LANES], y_sums[4 * I8_LANES];
    const int64_t all = k;

    I8_FOR(d, depth) {
        I8_FOR(i, n) acc[d][i] = i8_zero();
        I8_FOR(j, columns) sum[d][j] = i8_zero();
    }
    for (; k >= depth * step; k -= depth * step, x += depth * step, y += depth * step)
        I8_FOR(d, depth)
            i8_long_k_step(acc[d], sum[d], x + d * step, x_row, y + d * step, y_row, NULL, rows, columns, x_signed,
                           y_signed);
    for (; depth > 1 && k >= step; k -= step, x += step, y += step)
        i8_long_k_step(acc[0], sum[0], x, x_row, y, y_row, NULL, rows, columns, x_signed, y_signed);
    if (k > 0) {
        /* The last step overlaps the previous step. A mask sets the repeated elements of y to 0. Vectors shorter than a
         * step are copied. */
        uint8_t x_step[4][4 * I8_LANES], y_step[4][4 * I8_LANES];
        const int copied = all < step;
        if (copied) {
            i8_copy_short(x_step, x, x_row, rows, (int)k);
            i8_copy_short(y_step, y, y_row, columns, (int)k);
        }
        i8_long_k_step(acc[0], sum[0], copied ? x_step[0] : x + k - step, copied ? 4 * I8_LANES : x_row,
                       copied ? y_step[0] : y + k - step, copied ? 4 * I8_LANES : y_row,
                       i8_before_end + 64 - (copied ? 0 : step - k), rows, columns, x_signed, y_signed);
    }
    I8_FOR(d, depth - 1) {
        I8_FOR(i, n) acc[0][i] = i8_add(acc[0][i], acc[d + 1][i]);
        I8_FOR(j, columns) sum[0][j] = i8_add(sum[0][j], sum[d + 1][j]);
    }
    if (all <= I8_LONG_K_SEGMENT) {
        i8_long_k_fold(sums, acc[0], n);
        if (shifts)
            i8_long_k_fold(y_sums, sum[0], columns);
        I8_FOR(i, rows) I8_FOR(j, columns)
            t->dst[i * t->dst_row + j * t->dst_column] +=
                (int64_t)sums[i * columns + j] + (shifts ? shift * (int64_t)y_sums[j] : 0);
    } else {
        I8_FOR(i, n) i8_store(sums + i * I8_LANES, acc[0][i]);
        if (shifts)
            I8_FOR(j, columns) i8_store(y_sums + j * I8_LANES, sum[0][j]);
        i8_long_k_add_lanes(t, sums, y_sums, rows, columns, shifts ? shift : 0);
    }
}

I8_INLINE void i8_long_k(const i8_long_k_args *t, const int rows, const int columns, const int x_signed,
                         const int y_signed)
{
    for (int64_t k = 0; k < t->k; k += I8_LONG_K_STRETCH)
        i8_long_k_stretch(t, t->x + k, t->y + k, t->k - k < I8_LONG_K_STRETCH ? t->k - k : I8_LONG_K_STRETCH, rows,
                          columns, x_signed, y_signed);
}

#define I8_DEFINE(rows, columns)                                                                                       \
    static void i8_long_k_uu_##rows##x##columns(const i8_long_k_args *t) { i8_long_k(t, rows, columns, 0, 0); }        \
    static void i8_long_k_us_##rows##x##columns(const i8_long_k_args *t) { i8_long_k(t, rows, columns, 0, 1); }        \
    static void i8_long_k_su_##rows##x##columns(const i8_long_k_args *t) { i8_long_k(t, rows, columns, 1, 0); }        \
    static void i8_long_k_ss_##rows##x##columns(const i8_long_k_args *t) { i8_long_k(t, rows, columns, 1, 1); }
I8_DEFINE(1, 1) I8_DEFINE(2, 1) I8_DEFINE(4, 1) I8_DEFINE(1, 2) I8_DEFINE(2, 2) I8_DEFINE(4, 2)
#if I8_LANES == 16
I8_DEFINE(1, 4) I8_DEFINE(2, 4) I8_DEFINE(4, 4)
#define I8_LONG_K_COLUMNS 4
#define I8_LONG_K_OF(s, rows) {i8_long_k_##s##_##rows##x1, i8_long_k_##s##_##rows##x2, i8_long_k_##s##_##rows##x4}
#else
#define I8_LONG_K_COLUMNS 2
#define I8_LONG_K_OF(s, rows) {i8_long_k_##s##_##rows##x1, i8_long_k_##s##_##rows##x2}
#endif
#undef I8_DEFINE
#define I8_LONG_K(s) {I8_LONG_K_OF(s, 1), I8_LONG_K_OF(s, 2), I8_LONG_K_OF(s, 4)}
