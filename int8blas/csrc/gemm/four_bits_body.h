/* Multiply few rows of A by panels of B of 4 bits, read from memory once (i8_four_bits_args in gemm.h).
 *
 * One load, an AND and a shift give two groups of B: values of 0 to 15, which are both u8 and s8. A is s8, so that no
 * instruction set needs a correction for signs. Without VNNI, VPMADDUBSW adds two products of at most 15 * 128 in s16,
 * and the sums of eight groups, four steps, fit: 8 * 2 * 1920 = 30720.
 *
 * Registers: with AVX-512 4 rows of 4 panels take 16 sums, 8 broadcasts of A, 2 vectors of B and a mask, 27 of 32. With
 * 16 registers one row takes 2 panels, and several rows take one; broadcasts are loaded from the L1 cache again. */
#define I8_FOUR_BITS_MR 4
#define I8_FOUR_BITS_NP(mr) (I8_LANES == 16 ? 4 : (mr) == 1 ? 2 : 1)
#define I8_FOUR_BITS_STEP (4 * I8_PANEL) /* bytes of a step of 8 k in a panel */
#define I8_FOUR_BITS_AHEAD (16 * I8_FOUR_BITS_STEP)
enum { I8_FOUR_BITS_STEPS = 4 }; /* whose sums fit s16 */

#if I8_PAIRED
#define I8_FOUR_BITS_DOT(acc, b, a) (acc) = i8_dot_16(acc, b, a)
#elif I8_MIXED
#define I8_FOUR_BITS_DOT(acc, b, a) I8_DOT(acc, b, a)
#else
#define I8_FOUR_BITS_DOT(acc, b, a) (acc) = i8_dot_signed(acc, a, b)
#endif

/* Add the products of `steps` steps to the sums. */
I8_INLINE void i8_four_bits_steps(i8_vec sums[I8_FOUR_BITS_MR][4], const int8_t *a, ptrdiff_t a_row, const uint8_t *b,
                                  ptrdiff_t b_panel, int64_t steps, const int mr, const int np)
{
    for (; steps > 0; --steps, a += 8, b += I8_FOUR_BITS_STEP) {
        i8_vec low[I8_FOUR_BITS_MR], high[I8_FOUR_BITS_MR];
        I8_FOR(i, mr) low[i] = i8_broadcast(a + i * a_row), high[i] = i8_broadcast(a + i * a_row + 4);
        I8_FOR(p, np) {
            I8_PREFETCH(b + p * b_panel + I8_FOUR_BITS_AHEAD);
            I8_FOR(v, I8_VECS) {
                const i8_vec both = i8_load(b + p * b_panel + v * 4 * I8_LANES);
                const i8_vec first = i8_low_halves(both), second = i8_high_halves(both);
                I8_FOR(i, mr) {
                    I8_FOUR_BITS_DOT(sums[i][p * I8_VECS + v], first, low[i]);
                    I8_FOUR_BITS_DOT(sums[i][p * I8_VECS + v], second, high[i]);
                }
            }
        }
    }
}

/* Add the products of a scale group, or of all of K, to the sums. */
I8_INLINE void i8_four_bits_group(i8_vec acc[I8_FOUR_BITS_MR][4], const i8_four_bits_args *t, const int8_t *a,
                                  const uint8_t *b, const int mr, const int np)
{
#if I8_PAIRED
    for (int64_t done = 0; done < t->steps; done += I8_FOUR_BITS_STEPS) {
        i8_vec sums[I8_FOUR_BITS_MR][4];
        I8_FOR(i, mr) I8_FOR(j, np * I8_VECS) sums[i][j] = i8_zero();
        /* GCC would unroll a constant number of steps, and keep more products than there are registers. */
        const int64_t left = t->steps - done;
        i8_four_bits_steps(sums, a, t->a_row, b, t->b_panel, left < I8_FOUR_BITS_STEPS ? left : I8_FOUR_BITS_STEPS, mr,
                           np);
        I8_FOR(i, mr) I8_FOR(j, np * I8_VECS) acc[i][j] = i8_dot2(acc[i][j], sums[i][j], i8_set_16(1));
        a += 8 * I8_FOUR_BITS_STEPS;
        b += I8_FOUR_BITS_STEP * I8_FOUR_BITS_STEPS;
    }
#else
    i8_four_bits_steps(acc, a, t->a_row, b, t->b_panel, t->steps, mr, np);
#endif
}

/* Compute the sums of some panels. */
I8_INLINE void i8_four_bits_sums(const i8_four_bits_args *t, int64_t panel, const int mr, const int np)
{
    i8_vec acc[I8_FOUR_BITS_MR][4];
    I8_FOR(i, mr) I8_FOR(j, np * I8_VECS) acc[i][j] = i8_set_32(t->row_init[i]);
    i8_four_bits_group(acc, t, t->a, t->b + panel * t->b_panel, mr, np);
    I8_FOR(i, mr) I8_FOR(j, np * I8_VECS)
        i8_store(t->dst + i * t->dst_row + panel * I8_PANEL + j * I8_LANES, acc[i][j]);
}

/* Compute the sums of some panels, scaled group by group. */
I8_INLINE void i8_four_bits_scaled(const i8_four_bits_args *t, int64_t panel, const int mr, const int np)
{
    i8_f32 y[I8_FOUR_BITS_MR][4];
    const int8_t *a = t->a;
    const uint8_t *b = t->b + panel * t->b_panel;
    ptrdiff_t at = panel * t->panel_step;
    I8_FOR(i, mr) I8_FOR(j, np * I8_VECS) y[i][j] = i8_set_f32(-0.0f); /* -0.0 leaves every number as it is */
    for (int64_t group = 0; group < t->groups; ++group) {
        i8_vec acc[I8_FOUR_BITS_MR][4];
        I8_FOR(i, mr) {
            const uint32_t zero = t->zeros ? 0 : (uint32_t)t->zero;
            const uint32_t less = zero * (uint32_t)t->row_sums[i * t->groups + group];
            I8_FOR(j, np * I8_VECS) acc[i][j] = i8_set_32((int32_t)(0u - less));
        }
        i8_four_bits_group(acc, t, a, b, mr, np);
        I8_FOR(p, np) I8_FOR(v, I8_VECS) {
            const ptrdiff_t column = at + p * t->panel_step + v * I8_LANES;
            const i8_f32 scale = i8_load_f32(t->scale + column);
            const int j = p * I8_VECS + v;
            if (t->zeros) {
                const i8_vec zero = i8_load_u8(t->zeros + column);
                I8_FOR(i, mr) acc[i][j] =
                    i8_sub(acc[i][j], i8_mul_s32(zero, i8_set_32(t->row_sums[i * t->groups + group])));
            }
            if (t->col_sum) {
                const i8_vec sums = i8_load(t->col_sum + column);
                I8_FOR(i, mr) acc[i][j] = i8_sub(acc[i][j], i8_mul_s32(sums, i8_set_32(t->ao[i])));
            }
            I8_FOR(i, mr) {
                const i8_f32 factor = i8_mul_f32(i8_set_f32(t->row_scale[i]), scale);
                y[i][j] = i8_add_f32(y[i][j], i8_mul_f32(i8_to_f32(acc[i][j]), factor));
            }
        }
        a += 8 * t->steps;
        b += I8_FOUR_BITS_STEP * t->steps;
        at += I8_PANEL;
    }
    I8_FOR(i, mr) I8_FOR(j, np * I8_VECS)
        i8_store_f32(t->y + i * t->dst_row + panel * I8_PANEL + j * I8_LANES, y[i][j]);
}

#define I8_DEFINE(mr)                                                                                                  \
    I8_NOINLINE void i8_four_bits_sums_##mr(const i8_four_bits_args *t, int64_t panel)                                 \
    {                                                                                                                  \
        i8_four_bits_sums(t, panel, mr, I8_FOUR_BITS_NP(mr));                                                          \
    }                                                                                                                  \
    I8_NOINLINE void i8_four_bits_scaled_##mr(const i8_four_bits_args *t, int64_t panel)                               \
    {                                                                                                                  \
        i8_four_bits_scaled(t, panel, mr, I8_FOUR_BITS_NP(mr));                                                        \
    }                                                                                                                  \
    I8_NOINLINE void i8_four_bits_sums_##mr##_of_one(const i8_four_bits_args *t, int64_t panel)                        \
    {                                                                                                                  \
        i8_four_bits_sums(t, panel, mr, 1);                                                                            \
    }                                                                                                                  \
    I8_NOINLINE void i8_four_bits_scaled_##mr##_of_one(const i8_four_bits_args *t, int64_t panel)                      \
    {                                                                                                                  \
        i8_four_bits_scaled(t, panel, mr, 1);                                                                          \
    }
I8_DEFINE(1)
I8_DEFINE(2)
I8_DEFINE(3)
I8_DEFINE(4)
#undef I8_DEFINE

static void i8_four_bits(const i8_four_bits_args *t)
{
#define I8_KERNELS_OF(kind)                                                                                            \
    {                                                                                                                  \
        {i8_four_bits_##kind##_1_of_one, i8_four_bits_##kind##_1},                                                     \
        {i8_four_bits_##kind##_2_of_one, i8_four_bits_##kind##_2},                                                     \
        {i8_four_bits_##kind##_3_of_one, i8_four_bits_##kind##_3},                                                     \
        {i8_four_bits_##kind##_4_of_one, i8_four_bits_##kind##_4}                                                      \
    }
    static void (*const kernels[2][I8_FOUR_BITS_MR][2])(const i8_four_bits_args *, int64_t) = {
        I8_KERNELS_OF(sums), I8_KERNELS_OF(scaled)};
#undef I8_KERNELS_OF
    const int width = I8_FOUR_BITS_NP(t->rows);
    for (int64_t panel = 0; panel < t->panels;) {
        const int whole = t->panels - panel >= width;
        kernels[t->scale != NULL][t->rows - 1][whole](t, panel);
        panel += whole ? width : 1;
    }
}
