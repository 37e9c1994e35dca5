/* Multiply few rows of A by panels of B of 4 bits, which are read from memory once (i8_four_bits_args in gemm.h).
 *
 * One load and two ANDs give two groups of B. The low halves are values of 0 to 15. The high halves are 16 times values
 * of 0 to 15. Kernels with separate sums for the high halves divide these sums by 16 at the end. Other kernels shift
 * the high halves to values of 0 to 15, which are both u8 and s8. A is s8, so that no instruction set needs a
 * correction for signs. Without VNNI, VPMADDUBSW adds two products of at most 15 * 128 in s16, so the sums of eight
 * groups (four steps) fit s16: 8 * 2 * 1920 = 30720.
 *
 * Memory: the kernel reads a panel and its scales as two streams, in the order of their addresses. With one row of A, a
 * product takes as long as reading the panels and scales. Four panels at a time would be eight streams, which are 1.2x
 * slower. In the last AHEAD bytes of a panel, the kernel prefetches the next panel to the L2 cache. With one row, AHEAD
 * = 1 KiB is 1.1x as fast as prefetching 8 KiB ahead to the L1 cache, without huge pages. With two rows, AHEAD = 4 KiB
 * is 1.1x as fast as AHEAD = 2 KiB (N = K = 4096 from memory, AVX512-VNNI, Zen 4).
 *
 * Registers: with VNNI and AVX-512, 8 rows take 20 of 32 registers: 8 sums, 8 sums of groups, 2 vectors of B, a mask
 * and a scale. Up to 4 rows have separate sums for the low and the high halves. With 16 registers, a panel is two
 * vectors, and the kernel broadcasts A again for each vector. */
#define I8_FOUR_BITS_MR (I8_LANES == 16 && !I8_PAIRED ? 8 : 4)
#define I8_FOUR_BITS_STEP (4 * I8_PANEL) /* bytes of a step of 8 k in a panel */
#define I8_FOUR_BITS_AHEAD(mr) ((mr) == 1 ? 1024 : (mr) < 4 ? 4096 : 1024 * (mr))
#define I8_FOUR_BITS_SCALES_AHEAD(mr) (512 * (mr)) /* bytes */
/* The number of steps whose sums fit s16 without VNNI, and s32 with VNNI, even with 16 times the values: 4096 * 4 * 240
 * * 128 < 2**29. */
enum { I8_FOUR_BITS_STEPS = I8_PAIRED ? 4 : 4096 };

#ifndef I8_KEEPS_B
#define I8_KEEPS_B 0
#endif
#if I8_PAIRED
#define I8_FOUR_BITS_DOT(acc, b, a) (acc) = i8_dot_16(acc, b, a)
#elif I8_MIXED
#define I8_FOUR_BITS_DOT(acc, b, a) I8_DOT(acc, b, a)
#else
#define I8_FOUR_BITS_DOT(acc, b, a) (acc) = i8_dot_signed(acc, a, b)
#endif
/* Return 2 if low and high halves have separate sums, which are two chains of additions, else 1. */
#define I8_FOUR_BITS_CHAINS(mr) (!I8_PAIRED && (mr) <= (I8_LANES == 16 ? 4 : 1) ? 2 : 1)
/* Return whether the high halves are multiplied as 16 times their values, which needs a product of u8 by s8. */
#if I8_PAIRED
#define I8_FOUR_BITS_SHIFTED(mr) 0
#else
#define I8_FOUR_BITS_SHIFTED(mr) (I8_MIXED && I8_FOUR_BITS_CHAINS(mr) == 2)
#endif

/* The operands of a kernel, which it reads in the order of their addresses. */
typedef struct {
    const int8_t *a;
    const uint8_t *b;
} i8_four_bits_place;

/* Add the products of `steps` steps to the sums. */
I8_INLINE void i8_four_bits_steps(i8_vec sums[I8_FOUR_BITS_MR][2][I8_VECS], i8_four_bits_place *at, ptrdiff_t a_row,
                                  int64_t steps, const int mr)
{
    const int other = I8_FOUR_BITS_CHAINS(mr) - 1;
    for (; steps > 0; --steps, at->a += 8, at->b += I8_FOUR_BITS_STEP) {
        i8_vec low[I8_FOUR_BITS_MR], high[I8_FOUR_BITS_MR];
        I8_PREFETCH_L2(at->b + I8_FOUR_BITS_AHEAD(mr));
        I8_FOR(i, mr) low[i] = i8_broadcast(at->a + i * a_row), high[i] = i8_broadcast(at->a + i * a_row + 4);
        I8_FOR(v, I8_VECS) {
            i8_vec both = i8_load(at->b + v * 4 * I8_LANES);
            if (I8_KEEPS_B)
                I8_PIN(both);
            const i8_vec first = i8_low_halves(both);
            const i8_vec second = I8_FOUR_BITS_SHIFTED(mr) ? i8_and(both, i8_set_8(0xf0)) : i8_high_halves(both);
            I8_FOR(i, mr) {
                I8_FOUR_BITS_DOT(sums[i][0][v], first, low[i]);
                I8_FOUR_BITS_DOT(sums[i][other][v], second, high[i]);
            }
        }
    }
}

/* Add the products of at most I8_FOUR_BITS_STEPS steps to the sums. */
I8_INLINE void i8_four_bits_some(i8_vec acc[I8_FOUR_BITS_MR][I8_VECS], i8_four_bits_place *at, ptrdiff_t a_row,
                                 int64_t steps, const int mr)
{
    i8_vec sums[I8_FOUR_BITS_MR][2][I8_VECS];
    I8_FOR(i, mr) I8_FOR(v, I8_VECS) sums[i][0][v] = I8_PAIRED ? i8_zero() : acc[i][v], sums[i][1][v] = i8_zero();
    i8_four_bits_steps(sums, at, a_row, steps, mr);
    I8_FOR(i, mr) I8_FOR(v, I8_VECS) {
#if I8_PAIRED
        acc[i][v] = i8_dot2(acc[i][v], sums[i][0][v], i8_set_16(1));
#else
        const i8_vec high = I8_FOUR_BITS_SHIFTED(mr) ? i8_shift_right(sums[i][1][v], i8_set_32(4)) : sums[i][1][v];
        acc[i][v] = I8_FOUR_BITS_CHAINS(mr) == 2 ? i8_add(sums[i][0][v], high) : sums[i][0][v];
#endif
    }
}

/* Add the products of a scale group, or of all of K, to the sums. `is_long` is 1 if there may be more than
 * I8_FOUR_BITS_STEPS steps. */
I8_INLINE void i8_four_bits_group(i8_vec acc[I8_FOUR_BITS_MR][I8_VECS], i8_four_bits_place *at, ptrdiff_t a_row,
                                  int64_t steps, const int is_long, const int mr)
{
    for (int64_t count; steps > 0; steps -= count) {
        /* With a constant number of steps, GCC would unroll the loop and keep more products than registers. */
        count = is_long && steps > I8_FOUR_BITS_STEPS ? I8_FOUR_BITS_STEPS : steps;
        i8_four_bits_some(acc, at, a_row, count, mr);
    }
}

/* Compute the sums of all panels. */
I8_INLINE void i8_four_bits_sums(const i8_four_bits_args *t, const int mr)
{
    for (int panel = 0; panel < t->panels; ++panel) {
        i8_vec acc[I8_FOUR_BITS_MR][I8_VECS];
        I8_FOR(i, mr) I8_FOR(v, I8_VECS) acc[i][v] = i8_set_32(t->row_init[i]);
        i8_four_bits_place at = {t->a, t->b + panel * t->b_step};
        i8_four_bits_group(acc, &at, t->a_row, t->steps, 1, mr);
        I8_FOR(i, mr) I8_FOR(v, I8_VECS)
            i8_store(t->dst + i * t->dst_row + panel * I8_PANEL + v * I8_LANES, acc[i][v]);
    }
}

/* Load scales. */
I8_INLINE i8_f32 i8_four_bits_scale(const char *scales, int v, int is_half)
{
    if (!is_half)
        return i8_load_f32((const float *)(const void *)scales + v * I8_LANES);
#if I8_LANES == 16
    return i8_floats_from_f16(scales);
#else
    return i8_half_from_f16(scales + 2 * v * I8_LANES);
#endif
}

/* Set the sums of a scale group to the terms of the zero points. `column` is the index of the first column in t->zeros
 * and t->col_sum. */
I8_INLINE void i8_four_bits_start(i8_vec acc[I8_FOUR_BITS_MR][I8_VECS], const i8_four_bits_args *t,
                                  const int32_t *terms, ptrdiff_t column, const int mr)
{
    I8_FOR(i, mr) I8_FOR(v, I8_VECS) {
        const i8_vec term = i8_set_32(terms[i * t->groups]);
        acc[i][v] = t->zeros ? i8_mul_s32(i8_load_u8(t->zeros + column + v * I8_LANES), term) : term;
        if (t->col_sum) {
            const i8_vec sums = i8_load(t->col_sum + column + v * I8_LANES);
            acc[i][v] = i8_sub(acc[i][v], i8_mul_s32(sums, i8_set_32(t->ao[i])));
        }
    }
}

/* Compute the sums of all panels, scaled group by group. */
I8_INLINE void i8_four_bits_scaled(const i8_four_bits_args *t, const int mr)
{
    const int is_half = t->half_scale != NULL, has_terms = t->zeros || t->col_sum;
    const char *scales = is_half ? (const char *)t->half_scale : (const char *)t->scale;
    for (int panel = 0; panel < t->panels; ++panel) {
        i8_f32 y[I8_FOUR_BITS_MR][I8_VECS];
        i8_four_bits_place at = {t->a, t->b + panel * t->b_step};
        I8_FOR(i, mr) I8_FOR(v, I8_VECS) y[i][v] = i8_set_f32(-0.0f); /* adding -0.0 changes no number */
        for (int64_t group = 0; group < t->groups; ++group) {
            i8_vec acc[I8_FOUR_BITS_MR][I8_VECS];
            I8_PREFETCH_L2(scales + I8_FOUR_BITS_SCALES_AHEAD(mr));
            I8_FOR(i, mr) I8_FOR(v, I8_VECS) acc[i][v] = i8_set_32(t->row_terms[i * t->groups + group]);
            if (has_terms)
                i8_four_bits_start(acc, t, t->row_terms + group, (panel * t->groups + group) * I8_PANEL, mr);
            i8_four_bits_group(acc, &at, t->a_row, t->steps, I8_PAIRED, mr);
            I8_FOR(v, I8_VECS) {
                const i8_f32 scale = i8_four_bits_scale(scales, v, is_half);
                I8_FOR(i, mr) {
                    const i8_f32 factor = i8_mul_f32(i8_set_f32(t->row_scale[i]), scale);
                    y[i][v] = i8_add_f32(y[i][v], i8_mul_f32(i8_to_f32(acc[i][v]), factor));
                }
            }
            scales += is_half ? 2 * I8_PANEL : 4 * I8_PANEL;
        }
        I8_FOR(i, mr) I8_FOR(v, I8_VECS)
            i8_store_f32(t->y + i * t->dst_row + panel * I8_PANEL + v * I8_LANES, y[i][v]);
    }
}

#define I8_DEFINE(mr)                                                                                                  \
    I8_NOINLINE void i8_four_bits_sums_##mr(const i8_four_bits_args *t) { i8_four_bits_sums(t, mr); }                  \
    I8_NOINLINE void i8_four_bits_scaled_##mr(const i8_four_bits_args *t) { i8_four_bits_scaled(t, mr); }
I8_DEFINE(1)
I8_DEFINE(2)
I8_DEFINE(3)
I8_DEFINE(4)
#if I8_LANES == 16 && !I8_PAIRED
I8_DEFINE(5)
I8_DEFINE(6)
I8_DEFINE(7)
I8_DEFINE(8)
#define I8_NAMES(name) name##_1, name##_2, name##_3, name##_4, name##_5, name##_6, name##_7, name##_8
#else
#define I8_NAMES(name) name##_1, name##_2, name##_3, name##_4
#endif
#undef I8_DEFINE

static void i8_four_bits(const i8_four_bits_args *t)
{
    static void (*const kernels[2][I8_FOUR_BITS_MR])(const i8_four_bits_args *) = {{I8_NAMES(i8_four_bits_sums)},
                                                                                   {I8_NAMES(i8_four_bits_scaled)}};
    i8_four_bits_args part = *t;
    for (int left = t->rows; left > 0; left -= part.rows) {
        part.rows = left <= I8_FOUR_BITS_MR ? left : (left + 1) / 2;
        kernels[t->scale != NULL][part.rows - 1](&part);
        part.a += part.rows * t->a_row;
        part.row_init += part.rows, part.row_scale += part.rows, part.ao += part.rows;
        part.row_terms += part.rows * t->groups;
        part.dst += part.rows * t->dst_row, part.y += part.rows * t->dst_row;
    }
}
#undef I8_NAMES
