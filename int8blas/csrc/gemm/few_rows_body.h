/* The row kernels multiply few rows of A by a C-ordered B, which they read in place (i8_few_rows_args in gemm.h).
 * gemm.c includes this file once for each sign, after defining I8_PREFIX, I8_STEP(acc, a, b), I8_FEW_ROWS_MR and the
 * i8_vec of tile_body.h with i8_interleave, i8_interleave_half and i8_xor.
 *
 * A block has 4 vectors of sums, so that one vector load reads one row of the block. Interleaving the bytes of 4 rows
 * takes 8 shuffles for 4 vectors, and permutes the columns of every block: lane c of 128-bit lane l of vector q is
 * column 16 * l + 4 * q + c. Sums keep the permuted order of columns until the kernel has added all products.
 *
 * The sums of a kernel fill the registers. Kernels of one or two rows take several blocks side by side, so they read
 * longer parts of each row of B. Kernels of many rows compute half a block at a time: two vectors, with half of the
 * shuffles.
 *
 * If products of bytes are added in s16, the kernel interleaves rows in pairs. Pairs take half of the shuffles and keep
 * the order of columns. I8_STEP_PAIR(acc, a, b) adds the products of a pair to the sums of two vectors.
 *
 * If I8_STEP multiplies operands of the same sign, B is shifted to the sign of A. The correction of a sum is I8_SHIFT
 * times the sum of the row of A.
 *
 * The kernels prefetch the next cache lines of each row of B into the L2 cache, because they read too little of a row
 * at a time for the hardware to detect a stream. If B is in the L2 cache, kernels of one or two rows are faster without
 * prefetching. */

/* Return the offset in bytes of row q of a group. In the last group, row 0 replaces missing rows. A has zeros for
 * missing rows. */
#define I8_EACH_ROW(q) (q) * b_row
#define I8_LAST_ROW(q) tail[q]

/* Load block w of the row that begins `bytes` bytes after the first row. */
#define I8_LOAD_ROW(row, bytes)                                                                                        \
    do {                                                                                                               \
        const uint8_t *line = b + w * 4 * I8_LANES + (bytes);                                                          \
        (row) = i8_xor(i8_load(line), b_flip);                                                                         \
        if (fetch)                                                                                                     \
            I8_PREFETCH_L2(line + ahead);                                                                              \
    } while (0)

#ifdef I8_STEP_PAIR
#define I8_ADD_ROWS(a_, line_of)                                                                                       \
    I8_FOR(pair, 2) {                                                                                                  \
        I8_FOR(w, blocks) {                                                                                            \
            i8_vec bv[2];                                                                                              \
            I8_FOR(q, 2) I8_LOAD_ROW(bv[q], line_of(2 * pair + q));                                                    \
            I8_FOR(h, vectors / 2) {                                                                                   \
                const i8_vec columns = i8_interleave_pair(bv[0], bv[1], half + h);                                     \
                I8_FOR(i, mr) {                                                                                        \
                    const i8_vec av = i8_broadcast_16((a_) + i * 4 + 2 * pair);                                        \
                    I8_STEP_PAIR(acc[i] + w * vectors + 2 * h, av, columns);                                           \
                }                                                                                                      \
            }                                                                                                          \
        }                                                                                                              \
    }
#else
#define I8_ADD_ROWS(a_, line_of)                                                                                       \
    I8_FOR(w, blocks) {                                                                                                \
        i8_vec bv[4];                                                                                                  \
        I8_FOR(q, 4) I8_LOAD_ROW(bv[q], line_of(q));                                                                   \
        if (vectors == 4)                                                                                              \
            i8_interleave(bv);                                                                                         \
        else                                                                                                           \
            i8_interleave_half(bv, half);                                                                              \
        I8_FOR(i, mr) {                                                                                                \
            const i8_vec av = i8_broadcast((a_) + i * 4);                                                              \
            I8_FOR(q, vectors) I8_STEP(acc[i][w * vectors + q], av, bv[q]);                                            \
        }                                                                                                              \
    }
#endif

#ifdef I8_SHIFT
/* Compute the corrections for the shift of B, one for each row of A. */
I8_INLINE void I8_NAME(row_shifts)(int32_t *shifts, const i8_few_rows_args *t, const int mr)
{
    const int64_t all = t->groups + (t->b_tail > 0);
    I8_FOR(i, mr) {
        i8_vec sum = i8_zero();
        int32_t lanes[I8_LANES];
        for (int64_t g = 0; g < all; ++g)
            I8_STEP(sum, i8_broadcast(t->a + g * t->a_group + i * 4), i8_set_8(1));
        i8_store(lanes, sum);
        shifts[i] = (int32_t)((uint32_t)lanes[0] * (uint32_t)(I8_SHIFT));
    }
}
#endif

/* Compute `blocks` blocks of columns, 4 vectors each, or one half block of 2 vectors. */
I8_INLINE void I8_NAME(strip)(const i8_few_rows_args *t, const uint8_t *b, int32_t *sums, const int32_t *shifts,
                              const int mr, const int blocks, const int vectors, const int half, const int fetch)
{
    i8_vec acc[I8_FEW_ROWS_MR][16];
    const uint8_t *a = t->a;
    const ptrdiff_t a_group = t->a_group, b_row = t->b_row, ahead = t->ahead;
    const ptrdiff_t tail[4] = {0, t->b_tail > 1 ? b_row : 0, t->b_tail > 2 ? 2 * b_row : 0, 0};
#ifdef I8_SHIFT
    const i8_vec b_flip = i8_xor(i8_broadcast(&t->b_flip), i8_set_8(0x80));
#else
    const i8_vec b_flip = i8_broadcast(&t->b_flip);
#endif

    sums += 2 * half * I8_LANES;
    I8_FOR(w, blocks) I8_FOR(i, mr) I8_FOR(q, vectors)
        acc[i][w * vectors + q] =
            t->first ? i8_zero() : i8_load(sums + w * t->acc_block + i * t->acc_row + q * I8_LANES);
#ifdef I8_SHIFT
    I8_FOR(w, blocks) I8_FOR(i, mr) I8_FOR(q, vectors)
        acc[i][w * vectors + q] = i8_add(acc[i][w * vectors + q], i8_set_32(shifts[i]));
#else
    (void)shifts;
#endif
    for (int64_t g = t->groups; g > 0; --g) {
        I8_ADD_ROWS(a, I8_EACH_ROW);
        a += a_group;
        b += 4 * b_row;
    }
    if (t->b_tail > 0)
        I8_ADD_ROWS(a, I8_LAST_ROW);
    I8_FOR(w, blocks) I8_FOR(i, mr) I8_FOR(q, vectors)
        i8_store(sums + w * t->acc_block + i * t->acc_row + q * I8_LANES, acc[i][w * vectors + q]);
}

#ifdef I8_STEP_16
/* Add products for one row of A that is split into halves. Interleaving rows of B in pairs takes half of the shuffles.
 * The products of I8_HALVES_STEPS pairs have a sum that fits s16. If the row is centered, the limit is I8_HALVES_STEPS
 * / 2 pairs. */
#define I8_ADD_PAIRS(a_, valid)                                                                                        \
    I8_FOR(pair, ((valid) + 1) / 2) {                                                                                  \
        const i8_vec al = i8_broadcast_16((a_) + 2 * pair), ah = i8_broadcast_16((a_) + 4 + 2 * pair);                 \
        I8_FOR(w, blocks) {                                                                                            \
            i8_vec bv[2];                                                                                              \
            I8_FOR(q, 2) I8_LOAD_ROW(bv[q], ((valid) > 2 * pair + q ? 2 * pair + q : 0) * b_row);                      \
            I8_FOR(h, 2) {                                                                                             \
                const i8_vec columns = i8_interleave_pair(bv[0], bv[1], h);                                            \
                I8_STEP_16(low[2 * w + h], al, columns);                                                               \
                I8_STEP_16(high[2 * w + h], ah, columns);                                                              \
                I8_PIN(low[2 * w + h]);                                                                                \
                I8_PIN(high[2 * w + h]);                                                                               \
            }                                                                                                          \
        }                                                                                                              \
    }

I8_INLINE void I8_NAME(strip_of_row)(const i8_few_rows_args *t, const uint8_t *b, int32_t *sums, const int blocks,
                                     const int fetch)
{
    const uint8_t *a = t->a;
    const ptrdiff_t a_group = t->a_group, b_row = t->b_row, ahead = t->ahead;
    const i8_vec b_flip = i8_broadcast(&t->b_flip);
    int64_t groups = t->groups;
    int first = t->first, tail = t->b_tail;
    while (groups > 0 || tail > 0) {
        i8_vec low[8], high[8];
        int steps = I8_HALVES_STEPS / (t->centered ? 4 : 2); /* a step has two pairs */
        I8_FOR(j, 2 * blocks) low[j] = high[j] = i8_zero();
        for (; steps > 0 && groups > 0; --steps, --groups) {
            I8_ADD_PAIRS(a, 4);
            a += a_group;
            b += 4 * b_row;
        }
        if (steps > 0) {
            if (tail == 1)
                I8_ADD_PAIRS(a, 1)
            else if (tail == 2)
                I8_ADD_PAIRS(a, 2)
            else if (tail == 3)
                I8_ADD_PAIRS(a, 3)
            tail = 0;
        }
        I8_FOR(w, blocks) I8_FOR(h, 2) I8_FOR(quarter, 2) {
            int32_t *at = sums + w * t->acc_block + (2 * h + quarter) * I8_LANES;
            i8_store(at, i8_add_columns(first ? i8_zero() : i8_load(at), low[2 * w + h], high[2 * w + h], quarter));
        }
        first = 0;
    }
}
#undef I8_ADD_PAIRS
#define I8_STRIP(mr, blocks)                                                                                           \
    do {                                                                                                               \
        if ((mr) == 1)                                                                                                 \
            I8_NAME(strip_of_row)(t, b, acc, blocks, fetch);                                                           \
        else                                                                                                           \
            I8_NAME(strip)(t, b, acc, NULL, mr, blocks, 4, 0, fetch);                                                  \
    } while (0)
#else
#define I8_STRIP(mr, blocks) I8_NAME(strip)(t, b, acc, shifts, mr, blocks, 4, 0, fetch)
#endif

/* Compute `together` blocks at a time, or half a block if `together` is 0. */
I8_INLINE void I8_NAME(body)(const i8_few_rows_args *t, const int mr, const int together, const int fetch)
{
    const uint8_t *b = t->b;
    int32_t *acc = t->acc;
    int64_t blocks = t->blocks;
#ifdef I8_SHIFT
    int32_t shifts[I8_FEW_ROWS_MR];
    I8_NAME(row_shifts)(shifts, t, mr);
#else
    const int32_t *shifts = NULL;
#endif
    if (together > 1)
        for (; blocks >= together; blocks -= together, b += together * 4 * I8_LANES, acc += together * t->acc_block)
            I8_STRIP(mr, together);
    if (together > 2 && blocks >= 2) {
        I8_STRIP(mr, 2);
        blocks -= 2, b += 2 * 4 * I8_LANES, acc += 2 * t->acc_block;
    }
    for (; blocks > 0; --blocks, b += 4 * I8_LANES, acc += t->acc_block)
        if (together > 0) {
            I8_STRIP(mr, 1);
        } else {
            I8_NAME(strip)(t, b, acc, shifts, mr, 1, 2, 0, fetch);
            I8_NAME(strip)(t, b, acc, shifts, mr, 1, 2, 1, 0);
        }
}

#define I8_DEFINE_GEMV(mr, together)                                                                                   \
    static void I8_NAME(mr)(const i8_few_rows_args *t)                                                                 \
    {                                                                                                                  \
        if (t->ahead)                                                                                                  \
            I8_NAME(body)(t, mr, together, 1);                                                                         \
        else                                                                                                           \
            I8_NAME(body)(t, mr, together, 0);                                                                         \
    }
#define I8_DEFINE(mr, together) \
    static void I8_NAME(mr)(const i8_few_rows_args *t) { I8_NAME(body)(t, mr, together, 1); }

#if I8_LANES == 16
I8_DEFINE_GEMV(1, 4)
I8_DEFINE_GEMV(2, 2)
I8_DEFINE(3, 1)
I8_DEFINE(4, 1)
I8_DEFINE(5, 1)
I8_DEFINE(6, 1)
I8_DEFINE(7, 0)
I8_DEFINE(8, 0)
I8_DEFINE(9, 0)
I8_DEFINE(10, 0)
I8_DEFINE(11, 0)
I8_DEFINE(12, 0)
#else
I8_DEFINE_GEMV(1, 2)
I8_DEFINE_GEMV(2, 1)
I8_DEFINE(3, 0)
I8_DEFINE(4, 0)
#endif

#undef I8_DEFINE
#undef I8_DEFINE_GEMV
#undef I8_STRIP
#undef I8_ADD_ROWS
#undef I8_LAST_ROW
#undef I8_EACH_ROW
#undef I8_LOAD_ROW
#undef I8_SHIFT
#undef I8_STEP_16
#undef I8_STEP_PAIR
#undef I8_STEP
#undef I8_PREFIX
