/* The dot kernels, written once: both operands in place, vectorized over k (i8_dot_args in i8_types.h). For few columns
 * or few rows, where a tile of 16 columns or packing B would cost more than the product. A kernel_<isa>.c includes this
 * file once for each sign, after defining I8_PREFIX, I8_STEP(acc, x, y) and the i8_vec of gemm_body.h with
 * i8_load_bytes, i8_reduce and i8_reduce4.
 *
 * xr * yr accumulators, xr vectors of A and one of B: 4 x 6 takes 24 + 4 + 1 of 32 registers. Instruction sets with 16
 * registers go up to 2 x 4.
 */
#define I8_ADD_BYTES(load_x, load_y)                                                                                   \
    do {                                                                                                               \
        i8_vec xv[I8_MAX_XR];                                                                                          \
        I8_FOR(i, xr) xv[i] = load_x;                                                                                  \
        I8_FOR(j, yr) {                                                                                                \
            const i8_vec yv = load_y;                                                                                  \
            I8_FOR(i, xr) I8_STEP(acc[d][i][j], xv[i], yv);                                                            \
        }                                                                                                              \
    } while (0)

I8_INLINE void I8_NAME(body)(const i8_dot_args *t, const int xr, const int yr)
{
    enum { BYTES = 4 * I8_LANES };
    const int depth = xr * yr > 6 ? 1 : xr * yr > 3 ? 2 : 4;
    i8_vec acc[4][I8_MAX_XR][I8_MAX_YR];
    const uint8_t *x = t->x, *y = t->y;
    const ptrdiff_t x_row = t->x_row, y_row = t->y_row;
    const uint32_t x_flip4 = 0x01010101u * t->x_flip, y_flip4 = 0x01010101u * t->y_flip;
    const i8_vec x_flip = i8_broadcast(&x_flip4), y_flip = i8_broadcast(&y_flip4);
    int64_t k = t->k;

    I8_FOR(d, depth) I8_FOR(i, xr) I8_FOR(j, yr) acc[d][i][j] = i8_zero();
    for (; k >= depth * BYTES; k -= depth * BYTES) {
        I8_FOR(d, depth) {
            I8_ADD_BYTES(i8_xor(i8_load(x + i * x_row), x_flip), i8_xor(i8_load(y + j * y_row), y_flip));
            x += BYTES;
            y += BYTES;
        }
    }
    while (k > 0) {
        const int d = 0, valid = k < BYTES ? (int)k : BYTES;
        I8_ADD_BYTES(i8_load_bytes(x + i * x_row, x_flip, valid), i8_load_bytes(y + j * y_row, y_flip, valid));
        x += BYTES;
        y += BYTES;
        k -= BYTES;
    }
    I8_FOR(d, depth - 1) I8_FOR(i, xr) I8_FOR(j, yr) acc[0][i][j] = i8_add(acc[0][i][j], acc[d + 1][i][j]);
#define I8_AT(e) acc[0][(e) / yr][(e) % yr]
    const int fours = xr * yr / 4;
    I8_FOR(e, fours) i8_reduce4(t->dst + 4 * e, I8_AT(4 * e), I8_AT(4 * e + 1), I8_AT(4 * e + 2), I8_AT(4 * e + 3));
    I8_FOR(e, xr * yr - 4 * fours) t->dst[4 * fours + e] = i8_reduce(I8_AT(4 * fours + e));
#undef I8_AT
}

#define I8_DEFINE(xr, yr) \
    static void I8_NAME(xr##x##yr)(const i8_dot_args *t) { I8_NAME(body)(t, xr, yr); }

I8_DEFINE(1, 1) I8_DEFINE(1, 2) I8_DEFINE(1, 3) I8_DEFINE(1, 4) I8_DEFINE(2, 1) I8_DEFINE(2, 2) I8_DEFINE(2, 3) I8_DEFINE(2, 4)
#if I8_LANES == 16
I8_DEFINE(1, 5) I8_DEFINE(1, 6) I8_DEFINE(2, 5) I8_DEFINE(2, 6)
I8_DEFINE(3, 1) I8_DEFINE(3, 2) I8_DEFINE(3, 3) I8_DEFINE(3, 4) I8_DEFINE(3, 5) I8_DEFINE(3, 6)
I8_DEFINE(4, 1) I8_DEFINE(4, 2) I8_DEFINE(4, 3) I8_DEFINE(4, 4) I8_DEFINE(4, 5) I8_DEFINE(4, 6)
#endif

#undef I8_DEFINE
#undef I8_ADD_BYTES
#undef I8_STEP
#undef I8_PREFIX
