/* Convolution in groups of 4 or 8 channels (i8_grouped_args). convolution.c defines I8_STEP(acc, a, b). I8_STEP adds
 * dot products of 4 u8 and 4 s8 in every s32 lane (isa/shared_dots.h). With I8_PAIRED, I8_STEP multiplies pairs of s16,
 * from widened weights.
 *
 * A lane has four neighbouring channels of one group, and the sum of one output of that group. The kernel thus reads
 * channels in the order of memory, and multiplies no channel by a weight of 0. At the end the kernel adds the lanes of
 * a group, and brings the sums into the order of the channels. A pass has four outputs. With 16 registers and
 * I8_PAIRED, two pixels take 15 registers: 8 accumulators, 4 registers for the pixels' bytes, and 1 each for weights, a
 * product and a mask. Kernels that keep no products in registers have room for three pixels (12 accumulators). With 32
 * registers there is room for four pixels (16 accumulators). */
#if I8_PAIRED
#define I8_HALVES 2
#define I8_GROUPED_STEP (8 * I8_LANES) /* bytes of weights for a group of k */
#else
#define I8_HALVES 1
#define I8_GROUPED_STEP (4 * I8_PANEL)
#endif
#if I8_LANES == 16
#define I8_GROUPED_PIXELS 4
#elif I8_HALVES == 1
#define I8_GROUPED_PIXELS 3
#else
#define I8_GROUPED_PIXELS 2
#endif
#define I8_GROUPED_CHANNELS (4 * I8_LANES)

#if I8_PAIRED
/* See i8_convolution_kernels.widen_grouped. */
static void i8_widen_grouped(int8_t *restrict dst, const int8_t *restrict src, int64_t groups)
{
    for (; groups > 0; --groups, src += 4 * I8_PANEL, dst += I8_GROUPED_STEP) {
        const i8_vec w = i8_load(src);
        i8_store(dst, i8_even_s8(w));
        i8_store(dst + 4 * I8_LANES, i8_odd_s8(w));
    }
}
#endif

/* Compute the start values of the sums in each pass of a line, if pixels are shifted by 128. */
I8_INLINE void i8_grouped_starts(const i8_grouped_args *t, i8_vec starts[2][4], const int size)
{
    for (int pass = 0; I8_SHARED_FLIP && pass < size / 4; ++pass) {
        const int8_t *b = t->weights + (ptrdiff_t)(pass * t->window + t->first) * 4 * I8_GROUPED_STEP;
        i8_vec sums[4];
        I8_FOR(o, 4) sums[o] = i8_zero();
        for (int tap = 0; tap < t->lines * t->taps; ++tap, b += 4 * I8_GROUPED_STEP)
            I8_FOR(o, 4) sums[o] = i8_add_fours(sums[o], i8_load(b + o * I8_GROUPED_STEP));
        I8_FOR(o, 4) starts[pass][o] = i8_finish_dots(i8_zero(), sums[o]);
    }
}

/* Sum four outputs of every group, lane by lane. */
I8_INLINE void i8_grouped_sums(const i8_grouped_args *t, i8_vec acc[I8_GROUPED_PIXELS][4], const i8_vec starts[2][4],
                               const uint8_t *a, int pass, const int pixels)
{
    const int8_t *b = t->weights + (ptrdiff_t)(pass * t->window + t->first) * 4 * I8_GROUPED_STEP;
    I8_FOR(p, pixels) I8_FOR(o, 4) acc[p][o] = I8_SHARED_FLIP ? starts[pass][o] : i8_zero();
    for (int line = 0; line < t->lines; ++line, a += t->a_line) {
        const uint8_t *from = a;
        for (int tap = 0; tap < t->taps; ++tap, from += t->a_tap) {
            i8_vec x[I8_GROUPED_PIXELS][I8_HALVES];
            I8_FOR(p, pixels) {
                const i8_vec bytes = i8_load(from + p * t->a_pixel);
#if I8_PAIRED
                x[p][0] = i8_even_u8(bytes);
                x[p][1] = i8_odd_u8(bytes);
#else
                x[p][0] = i8_shared(bytes);
#endif
            }
            I8_FOR(o, 4) I8_FOR(half, I8_HALVES) {
                const i8_vec w = i8_load(b + o * I8_GROUPED_STEP + half * 4 * I8_LANES);
                I8_FOR(p, pixels) I8_STEP(acc[p][o], x[p][half], w);
            }
            b += 4 * I8_GROUPED_STEP;
        }
    }
}

/* Add the lanes of each group, in pass `pass` of size / 4 passes. */
I8_INLINE void i8_grouped_fold(i8_vec *sums, const i8_vec *acc, const int size, int pass)
{
    if (size == 4)
        I8_FOR(o, 4) sums[o] = acc[o];
    else
        I8_FOR(o, 2) sums[2 * pass + o] = i8_fold_lanes(acc[o], acc[2 + o]);
}

/* Bring the vectors of all passes into the order of the channels. */
I8_INLINE void i8_grouped_order(i8_vec *sums, const int size)
{
    i8_transpose_lanes(sums);
    if (size == 8) {
        const i8_vec second = sums[1];
        sums[1] = sums[2];
        sums[2] = second;
    }
    i8_transpose_units(sums);
}

/* Store the sums of `pixels` successive outputs. */
I8_INLINE void i8_grouped_store(const i8_grouped_args *t, int pixel, i8_vec sums[I8_GROUPED_PIXELS][4],
                                const int pixels)
{
    if (t->start)
        I8_FOR(v, 4) {
            const i8_vec start = i8_load(t->start + v * I8_LANES);
            I8_FOR(p, pixels) sums[p][v] = i8_add(sums[p][v], start);
        }
    if (t->output) {
        char *c = t->output->c + pixel * t->output->c_row;
        if (t->channels <= 2 * I8_LANES)
            i8_in_line_output_stage(t->output, c, 0, 0, sums[0], 4, pixels, 2);
        else
            i8_in_line_output_stage(t->output, c, 0, 0, sums[0], 4, pixels, 4);
        return;
    }
    I8_FOR(p, pixels) I8_FOR(v, 4) i8_store(t->dst + (pixel + p) * I8_MAX_GROUPED + v * I8_LANES, sums[p][v]);
}

I8_NOINLINE void i8_grouped_store_some(const i8_grouped_args *t, int pixel, i8_vec sums[I8_GROUPED_PIXELS][4])
{
    i8_grouped_store(t, pixel, sums, I8_GROUPED_PIXELS);
}
I8_NOINLINE void i8_grouped_store_one(const i8_grouped_args *t, int pixel, i8_vec sums[I8_GROUPED_PIXELS][4])
{
    i8_grouped_store(t, pixel, sums, 1);
}

I8_INLINE void i8_grouped_pixels(const i8_grouped_args *t, const i8_vec starts[2][4], int pixel, const int pixels,
                                 const int size)
{
    i8_vec sums[I8_GROUPED_PIXELS][4], acc[I8_GROUPED_PIXELS][4];
    for (int pass = 0; pass < size / 4; ++pass) {
        i8_grouped_sums(t, acc, starts, t->a + pixel * t->a_pixel, pass, pixels);
        I8_FOR(p, pixels) i8_grouped_fold(sums[p], acc[p], size, pass);
    }
    I8_FOR(p, pixels) i8_grouped_order(sums[p], size);
    if (pixels == 1)
        i8_grouped_store_one(t, pixel, sums);
    else
        i8_grouped_store_some(t, pixel, sums);
}

I8_INLINE void i8_grouped_line(const i8_grouped_args *t, const int size)
{
    const int most = I8_GROUPED_PIXELS;
    i8_vec starts[2][4];
    i8_grouped_starts(t, starts, size);
    if (t->pixels < most)
        for (int pixel = 0; pixel < t->pixels; ++pixel)
            i8_grouped_pixels(t, starts, pixel, 1, size);
    else /* the last call recomputes some outputs */
        for (int pixel = 0; pixel < t->pixels; pixel += most)
            i8_grouped_pixels(t, starts, pixel + most <= t->pixels ? pixel : t->pixels - most, most, size);
}

static void i8_grouped(const i8_grouped_args *t)
{
    if (t->size == 4)
        i8_grouped_line(t, 4);
    else
        i8_grouped_line(t, 8);
}

#undef I8_HALVES
#undef I8_STEP
