/* Sum squares of rows and of packed columns (i8_packing_kernels in packing.h), for distances. packing.c includes this
 * file after pack_body.h. A square is at most 2**16, so the sum of I8_SQUARES squares fits s32. */
enum { I8_SQUARES = 1 << 14 };

/* The compiler vectorizes these simple loops. `is_signed` is a constant. */
I8_INLINE int64_t i8_sum_squares(int64_t k, const uint8_t *src, ptrdiff_t k_stride, const int is_signed)
{
    int64_t total = 0;
    for (int64_t first = 0; first < k; first += I8_SQUARES) {
        const int64_t some = k - first < I8_SQUARES ? k - first : I8_SQUARES;
        const uint8_t *p = src + first * k_stride;
        int32_t sum = 0;
        for (int64_t i = 0; i < some; ++i) {
            const int16_t x = is_signed ? (int8_t)p[i * k_stride] : p[i * k_stride];
            sum += x * x;
        }
        total += sum;
    }
    return total;
}

#ifdef I8_UNITS
I8_INLINE int64_t i8_sum_squares_contiguous(int64_t k, const uint8_t *src, const int is_signed)
{
    enum { BYTES = 4 * I8_LANES };
    int64_t total = 0;
    while (k >= BYTES) {
        int64_t steps = k / BYTES;
        steps = steps < I8_SQUARES / 4 ? steps : I8_SQUARES / 4; /* a lane adds 4 bytes of each vector */
        k -= steps * BYTES;
        i8_vec acc[2] = {i8_zero(), i8_zero()};
        for (; steps > 0; --steps, src += BYTES) {
            const i8_vec x = i8_load(src);
            const i8_vec even = is_signed ? i8_even_s8(x) : i8_even_u8(x);
            const i8_vec odd = is_signed ? i8_odd_s8(x) : i8_odd_u8(x);
            acc[0] = i8_dot2_any(acc[0], even, even);
            acc[1] = i8_dot2_any(acc[1], odd, odd);
        }
        int32_t lanes[2 * I8_LANES];
        i8_store(lanes, acc[0]);
        i8_store(lanes + I8_LANES, acc[1]);
        for (int v = 0; v < 2 * I8_LANES; ++v)
            total += lanes[v];
    }
    return total + i8_sum_squares(k, src, 1, is_signed);
}
#endif

/* Sum rows that lie side by side in memory: add whole lines. */
I8_INLINE void i8_sum_squares_of_lines(int64_t *sums, int64_t rows, int64_t k, const uint8_t *src, ptrdiff_t k_stride,
                                       const int is_signed)
{
    enum { SOME = 256 };
    for (int64_t first = 0; first < rows; first += SOME) {
        const int some = rows - first < SOME ? (int)(rows - first) : SOME;
        for (int i = 0; i < some; ++i)
            sums[first + i] = 0;
        for (int64_t j = 0; j < k;) {
            const int64_t end = k - j < I8_SQUARES ? k : j + I8_SQUARES;
            int32_t part[SOME] = {0};
            for (; j < end; ++j)
                for (int i = 0; i < some; ++i) {
                    const uint8_t byte = src[j * k_stride + first + i];
                    const int16_t x = is_signed ? (int8_t)byte : byte;
                    part[i] += x * x;
                }
            for (int i = 0; i < some; ++i)
                sums[first + i] += part[i];
        }
    }
}

I8_INLINE void i8_row_squares_of(int64_t *sums, int64_t rows, int64_t k, const uint8_t *src, ptrdiff_t row_stride,
                                 ptrdiff_t k_stride, const int is_signed)
{
    if (row_stride == 1 && k_stride != 1) {
        i8_sum_squares_of_lines(sums, rows, k, src, k_stride, is_signed);
        return;
    }
    for (int64_t i = 0; i < rows; ++i) {
#ifdef I8_UNITS
        if (k_stride == 1) {
            sums[i] = i8_sum_squares_contiguous(k, src + i * row_stride, is_signed);
            continue;
        }
#endif
        sums[i] = i8_sum_squares(k, src + i * row_stride, k_stride, is_signed);
    }
}

static void i8_row_squares(int64_t *sums, int64_t rows, int64_t k, const uint8_t *src, ptrdiff_t row_stride,
                           ptrdiff_t k_stride, int is_signed)
{
    if (is_signed)
        i8_row_squares_of(sums, rows, k, src, row_stride, k_stride, 1);
    else
        i8_row_squares_of(sums, rows, k, src, row_stride, k_stride, 0);
}

static void i8_panel_squares(int64_t *sums, const int8_t *panel, int64_t groups)
{
    for (int c = 0; c < I8_PANEL; ++c)
        sums[c] = 0;
    while (groups > 0) {
        const int64_t chunk = groups < I8_SQUARES / 4 ? groups : I8_SQUARES / 4;
        int32_t part[I8_PANEL] = {0};
#ifdef I8_UNITS
        i8_vec acc[2][I8_VECS];
        I8_FOR(d, 2) I8_FOR(v, I8_VECS) acc[d][v] = i8_zero();
        for (int64_t g = 0; g < chunk; ++g, panel += 4 * I8_PANEL)
            I8_FOR(v, I8_VECS) {
                const i8_vec x = i8_load(panel + v * 4 * I8_LANES), even = i8_even_s8(x), odd = i8_odd_s8(x);
                acc[0][v] = i8_dot2(acc[0][v], even, even);
                acc[1][v] = i8_dot2(acc[1][v], odd, odd);
            }
        I8_FOR(v, I8_VECS) i8_store(part + v * I8_LANES, i8_add(acc[0][v], acc[1][v]));
#else
        for (int64_t g = 0; g < chunk; ++g, panel += 4 * I8_PANEL)
            for (int c = 0; c < I8_PANEL; ++c)
                for (int j = 0; j < 4; ++j)
                    part[c] += panel[4 * c + j] * panel[4 * c + j];
#endif
        for (int c = 0; c < I8_PANEL; ++c)
            sums[c] += part[c];
        groups -= chunk;
    }
}
