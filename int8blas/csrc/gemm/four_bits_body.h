/* Multiply few rows of A by panels of B of 4 bits, read from memory once (i8_four_bits_args in gemm.h).
 *
 * One load, an AND and a shift give two groups of B: values of 0 to 15, which are both u8 and s8. A is s8, so that no
 * instruction set needs a correction for signs. Without VNNI, VPMADDUBSW adds two products of at most 15 * 128 in s16,
 * and the sums of eight groups, four steps, fit: 8 * 2 * 1920 = 30720.
 *
 * Memory: a panel and its scales are two streams, each read in the order of its addresses. With one row, a product
 * takes the time of reading them. Four panels at a time would be eight streams, which are 1.2x slower. In the last
 * AHEAD bytes of a panel, the kernel prefetches the next panel. An AHEAD of 8 KiB is 1.1x (one row) to 1.5x (8 rows)
 * faster than 2 KiB; 16 KiB is no faster (4096 x 4096 from memory, AVX512-VNNI, Zen 5).
 *
 * Registers: with VNNI and AVX-512, 8 rows take 20 of 32 registers: 8 sums, 8 sums of groups, 2 vectors of B, a mask
 * and a scale. VPDPBUSD itself broadcasts A from memory. Up to 4 rows have separate sums of the low and the high
 * halves. With 16 registers, a panel is two vectors, and each of them loads the broadcasts of A again. */
#define I8_FOUR_BITS_MR (I8_LANES == 16 && !I8_PAIRED ? 8 : 4)
#define I8_FOUR_BITS_STEP (4 * I8_PANEL) /* bytes of a step of 8 k in a panel */
#define I8_FOUR_BITS_AHEAD (128 * I8_FOUR_BITS_STEP)
#define I8_FOUR_BITS_SCALES_AHEAD (32 * I8_PANEL) /* scales */
enum { I8_FOUR_BITS_STEPS = 4 }; /* whose sums fit s16 */

#if I8_PAIRED
#define I8_FOUR_BITS_DOT(acc, b, a) (acc) = i8_dot_16(acc, b, a)
#elif I8_MIXED
#define I8_FOUR_BITS_DOT(acc, b, a) I8_DOT(acc, b, a)
#else
#define I8_FOUR_BITS_DOT(acc, b, a) (acc) = i8_dot_signed(acc, a, b)
#endif
/* Whether low and high halves have separate sums: two chains of additions instead of one. */
#define I8_FOUR_BITS_CHAINS(mr) (!I8_PAIRED && (mr) <= (I8_LANES == 16 ? 4 : 1) ? 2 : 1)

/* Add the products of `steps` steps to the sums. */
I8_INLINE void i8_four_bits_steps(i8_vec sums[I8_FOUR_BITS_MR][2][I8_VECS], const int8_t *a, ptrdiff_t a_row,
                                  const uint8_t *b, int64_t steps, const int mr)
{
    const int other = I8_FOUR_BITS_CHAINS(mr) - 1;
    for (; steps > 0; --steps, a += 8, b += I8_FOUR_BITS_STEP) {
        i8_vec low[I8_FOUR_BITS_MR], high[I8_FOUR_BITS_MR];
        I8_PREFETCH(b + I8_FOUR_BITS_AHEAD);
        I8_FOR(i, mr) low[i] = i8_broadcast(a + i * a_row), high[i] = i8_broadcast(a + i * a_row + 4);
        I8_FOR(v, I8_VECS) {
            const i8_vec both = i8_load(b + v * 4 * I8_LANES);
            const i8_vec first = i8_low_halves(both), second = i8_high_halves(both);
            I8_FOR(i, mr) {
                I8_FOUR_BITS_DOT(sums[i][0][v], first, low[i]);
                I8_FOUR_BITS_DOT(sums[i][other][v], second, high[i]);
            }
        }
    }
}

/* Add the products of a scale group, or of all of K, to the sums. */
I8_INLINE void i8_four_bits_group(i8_vec acc[I8_FOUR_BITS_MR][I8_VECS], const i8_four_bits_args *t, const int8_t *a,
                                  const uint8_t *b, const int mr)
{
    i8_vec sums[I8_FOUR_BITS_MR][2][I8_VECS];
#if I8_PAIRED
    for (int64_t done = 0; done < t->steps; done += I8_FOUR_BITS_STEPS) {
        I8_FOR(i, mr) I8_FOR(v, I8_VECS) sums[i][0][v] = i8_zero();
        /* GCC would unroll a constant number of steps, and keep more products than there are registers. */
        const int64_t left = t->steps - done;
        i8_four_bits_steps(sums, a, t->a_row, b, left < I8_FOUR_BITS_STEPS ? left : I8_FOUR_BITS_STEPS, mr);
        I8_FOR(i, mr) I8_FOR(v, I8_VECS) acc[i][v] = i8_dot2(acc[i][v], sums[i][0][v], i8_set_16(1));
        a += 8 * I8_FOUR_BITS_STEPS;
        b += I8_FOUR_BITS_STEP * I8_FOUR_BITS_STEPS;
    }
#else
    I8_FOR(i, mr) I8_FOR(v, I8_VECS) sums[i][0][v] = acc[i][v], sums[i][1][v] = i8_zero();
    i8_four_bits_steps(sums, a, t->a_row, b, t->steps, mr);
    I8_FOR(i, mr) I8_FOR(v, I8_VECS) acc[i][v] =
        I8_FOUR_BITS_CHAINS(mr) == 2 ? i8_add(sums[i][0][v], sums[i][1][v]) : sums[i][0][v];
#endif
}

/* Compute the sums of a panel. */
I8_INLINE void i8_four_bits_sums(const i8_four_bits_args *t, const int mr)
{
    i8_vec acc[I8_FOUR_BITS_MR][I8_VECS];
    I8_FOR(i, mr) I8_FOR(v, I8_VECS) acc[i][v] = i8_set_32(t->row_init[i]);
    i8_four_bits_group(acc, t, t->a, t->b, mr);
    I8_FOR(i, mr) I8_FOR(v, I8_VECS) i8_store(t->dst + i * t->dst_row + v * I8_LANES, acc[i][v]);
}

/* Load f16. */
I8_INLINE i8_f32 i8_four_bits_half(const uint16_t *p)
{
#if I8_LANES == 16
    return i8_floats_from_f16((const char *)p);
#else
    return i8_half_from_f16((const char *)p);
#endif
}

/* Compute the sums of a panel, scaled group by group. */
I8_INLINE void i8_four_bits_scaled(const i8_four_bits_args *t, const int mr)
{
    i8_f32 y[I8_FOUR_BITS_MR][I8_VECS];
    const int8_t *a = t->a;
    const uint8_t *b = t->b;
    ptrdiff_t at = 0;
    I8_FOR(i, mr) I8_FOR(v, I8_VECS) y[i][v] = i8_set_f32(-0.0f); /* -0.0 leaves every number unchanged */
    for (int64_t group = 0; group < t->groups; ++group) {
        i8_vec acc[I8_FOUR_BITS_MR][I8_VECS];
        if (t->half_scale)
            I8_PREFETCH(t->half_scale + at + I8_FOUR_BITS_SCALES_AHEAD);
        else
            I8_PREFETCH(t->scale + at + I8_FOUR_BITS_SCALES_AHEAD);
        I8_FOR(i, mr) I8_FOR(v, I8_VECS) acc[i][v] =
            t->zeros ? i8_zero() : i8_set_32(t->row_terms[i * t->groups + group]);
        i8_four_bits_group(acc, t, a, b, mr);
        I8_FOR(v, I8_VECS) {
            const ptrdiff_t column = at + v * I8_LANES;
            const i8_f32 scale =
                t->half_scale ? i8_four_bits_half(t->half_scale + column) : i8_load_f32(t->scale + column);
            if (t->zeros) {
                const i8_vec zero = i8_load_u8(t->zeros + column);
                I8_FOR(i, mr) acc[i][v] =
                    i8_add(acc[i][v], i8_mul_s32(zero, i8_set_32(t->row_terms[i * t->groups + group])));
            }
            if (t->col_sum) {
                const i8_vec sums = i8_load(t->col_sum + column);
                I8_FOR(i, mr) acc[i][v] = i8_sub(acc[i][v], i8_mul_s32(sums, i8_set_32(t->ao[i])));
            }
            I8_FOR(i, mr) {
                const i8_f32 factor = i8_mul_f32(i8_set_f32(t->row_scale[i]), scale);
                y[i][v] = i8_add_f32(y[i][v], i8_mul_f32(i8_to_f32(acc[i][v]), factor));
            }
        }
        a += 8 * t->steps;
        b += I8_FOUR_BITS_STEP * t->steps;
        at += I8_PANEL;
    }
    I8_FOR(i, mr) I8_FOR(v, I8_VECS)
        i8_store_f32(t->y + i * t->dst_row + v * I8_LANES, y[i][v]);
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
