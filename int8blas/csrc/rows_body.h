/* The row kernels, written once: few rows of A times a C-ordered B in place (i8_rows_args in i8_types.h). A
 * kernel_<isa>.c includes this file once for each sign, after defining I8_PREFIX, I8_STEP(acc, a, b), I8_ROWS_MR and the
 * i8_vec of gemm_body.h with i8_interleave and i8_xor.
 *
 * A block is 4 vectors of columns, so that a row of it is one vector load; interleaving the bytes of 4 rows takes 8
 * shuffles for 4 vectors. It leaves the columns in an order of its own, the same in every block, which the sums keep
 * until they are finished: lane c of 128-bit lane l of vector q is column 16 * l + 4 * q + c.
 */
#define I8_ADD_ROWS(a_, a_row_, valid)                                                                                 \
    do {                                                                                                               \
        i8_vec bv[4];                                                                                                  \
        I8_FOR(q, 4) bv[q] = i8_xor(i8_load(b + ((valid) > q ? q * b_row : 0)), b_flip);                               \
        i8_interleave(bv);                                                                                             \
        I8_FOR(i, mr) {                                                                                                \
            const i8_vec av = i8_broadcast((a_) + i * (a_row_));                                                       \
            I8_FOR(q, 4) I8_STEP(acc[i][q], av, bv[q]);                                                                \
        }                                                                                                              \
    } while (0)

I8_INLINE void I8_NAME(body)(const i8_rows_args *t, const int mr)
{
    i8_vec acc[I8_ROWS_MR][4];
    const uint8_t *a = t->a, *b = t->b;
    const ptrdiff_t a_group = t->a_group, b_row = t->b_row;
    const i8_vec b_flip = i8_broadcast(&t->b_flip);

    I8_FOR(i, mr) I8_FOR(q, 4)
        acc[i][q] = t->first ? i8_zero() : i8_load(t->acc + i * t->acc_row + q * I8_LANES);
    for (int64_t g = t->groups; g > 0; --g) {
        I8_ADD_ROWS(a, 4, 4);
        a += a_group;
        b += 4 * b_row;
    }
    if (t->b_tail == 1)
        I8_ADD_ROWS(a, 4, 1);
    else if (t->b_tail == 2)
        I8_ADD_ROWS(a, 4, 2);
    else if (t->b_tail == 3)
        I8_ADD_ROWS(a, 4, 3);
    I8_FOR(i, mr) I8_FOR(q, 4) i8_store(t->acc + i * t->acc_row + q * I8_LANES, acc[i][q]);
}

#define I8_DEFINE(mr) \
    static void I8_NAME(mr)(const i8_rows_args *t) { I8_NAME(body)(t, mr); }

I8_DEFINE(1)
I8_DEFINE(2)
#if I8_ROWS_MR > 2
I8_DEFINE(3)
I8_DEFINE(4)
I8_DEFINE(5)
I8_DEFINE(6)
#endif

#undef I8_DEFINE
#undef I8_ADD_ROWS
#undef I8_STEP
#undef I8_PREFIX
