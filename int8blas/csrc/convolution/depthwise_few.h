/* The depthwise kernels for at most 2 * I8_LANES channels, half of the maximum. The channels are in memory order, in
 * one or two vectors. The including file defines
 *
 *   i8_depthwise_few_sums(t, line, pixel, acc, pixels, vectors)   to set acc[p][v] to sums of successive outputs */

/* Compute `pixels` successive outputs. Apply the epilogue `o` and store whole vectors of C at c, or store sums in
 * t->dst if `o` is NULL. */
I8_INLINE void i8_depthwise_few_pixels(const i8_depthwise_args *t, const i8_tile_output *o, char *c, int line,
                                       int pixel, const int pixels, const int vectors)
{
    i8_vec acc[I8_DEPTHWISE_PIXELS][4];
    i8_depthwise_few_sums(t, line, pixel, acc, pixels, vectors);
    if (o) {
        i8_in_line_output_stage(o, c, 0, 0, acc[0], 4, pixels, vectors);
        return;
    }
    I8_FOR(p, pixels) I8_FOR(v, vectors)
        i8_store(t->dst + (line * t->pixels + pixel + p) * I8_MAX_DEPTHWISE + v * I8_LANES, acc[p][v]);
}

/* Return the bytes of a pixel's channels in C. */
I8_INLINE int i8_depthwise_few_bytes(const i8_depthwise_args *t)
{
    return t->channels * (int)i8_size(t->output->epilogue->type);
}

/* Compute all outputs. The constant `outputs` is 1 if there is an epilogue. A local copy of the epilogue can stay in
 * registers, because stores to C cannot change the copy. If the channels do not fill the vectors, the last vector of a
 * pixel spills. With the constant `spills`, last vectors spill into the next pixels, which are stored later, and only
 * the last pixels of a line go to C through a buffer. If `gaps` is 1, other channels follow each pixel, and all pixels
 * go to C through the buffer. */
I8_INLINE void i8_depthwise_few_of(const i8_depthwise_args *t, const int vectors, const int outputs, const int spills,
                                   const int gaps)
{
    const int most = I8_DEPTHWISE_PIXELS, step = t->pixels < most ? 1 : most;
    char buffer[(I8_DEPTHWISE_PIXELS + 1) * 2 * I8_LANES * sizeof(float)], *c = NULL, *to = NULL;
    i8_tile_output output;
    i8_epilogue epilogue;
    i8_stage stage;
    ptrdiff_t c_row = 0;
    const int spilled = spills ? (vectors * I8_LANES - 1) / t->channels : 0; /* pixels that a vector spills into */
    if (outputs) {
        output = *t->output, epilogue = *output.epilogue, stage = *epilogue.stage;
        output.epilogue = &epilogue, epilogue.stage = &stage;
        c_row = output.c_row;
    }
    if (gaps)
        output.c_row = 2 * I8_LANES * sizeof(float);
    const i8_tile_output *o = outputs ? &output : NULL;
    for (int line = 0; line < t->together; ++line)
        for (int x = 0; x < t->pixels; x += step) {
            const int last = x + step >= t->pixels, pixel = last ? t->pixels - step : x; /* calls may overlap */
            const int buffered = gaps || (spills && x + step + spilled > t->pixels);
            if (outputs) {
                to = output.c + line * t->c_line + pixel * c_row;
                c = buffered ? buffer : to;
            }
            if (step == 1)
                i8_depthwise_few_pixels(t, o, c, line, pixel, 1, vectors);
            else
                i8_depthwise_few_pixels(t, o, c, line, pixel, most, vectors);
            for (int p = 0; gaps && p < step; ++p)
                i8_copy_part(to + p * c_row, buffer + p * output.c_row, i8_depthwise_few_bytes(t));
            if (buffered && !gaps)
                memcpy(to, buffer, (size_t)(step * c_row));
        }
}

/* Define one function for each case, so that the compiler allocates registers for each case. */
#define I8_RUN(name, vectors, outputs, spills, gaps)                                                                   \
    I8_NOINLINE void i8_depthwise_few_##name(const i8_depthwise_args *t)                                               \
    {                                                                                                                  \
        i8_depthwise_few_of(t, vectors, outputs, spills, gaps);                                                        \
    }
I8_RUN(sums_1, 1, 0, 0, 0)
I8_RUN(full_1, 1, 1, 0, 0)
I8_RUN(spills_1, 1, 1, 1, 0)
I8_RUN(gaps_1, 1, 1, 0, 1)
I8_RUN(sums_2, 2, 0, 0, 0)
I8_RUN(full_2, 2, 1, 0, 0)
I8_RUN(spills_2, 2, 1, 1, 0)
I8_RUN(gaps_2, 2, 1, 0, 1)
#undef I8_RUN

static void i8_depthwise_few_lines(const i8_depthwise_args *t)
{
    static void (*const run[2][4])(const i8_depthwise_args *) = {
        {i8_depthwise_few_sums_1, i8_depthwise_few_full_1, i8_depthwise_few_spills_1, i8_depthwise_few_gaps_1},
        {i8_depthwise_few_sums_2, i8_depthwise_few_full_2, i8_depthwise_few_spills_2, i8_depthwise_few_gaps_2},
    };
    const int two = t->channels > I8_LANES, full = t->channels == (1 + two) * I8_LANES;
    const int kind = !t->output ? 0 : full ? 1 : t->output->c_row == i8_depthwise_few_bytes(t) ? 2 : 3;
    run[two][kind](t);
}
