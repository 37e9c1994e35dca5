/* The depthwise kernels for at most 2 * I8_LANES channels, half of the maximum. The channels are in order, in one or
 * two vectors. The including file defines
 *
 *   i8_depthwise_few_sums(t, line, pixel, acc, pixels, vectors)   set acc[p][v] to the sums of successive outputs */

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

/* Compute all outputs. The constant `outputs` is 1 if there is an epilogue. A local copy of the epilogue can stay in
 * registers, because stores to C cannot change the copy. If the channels do not fill the vectors, the last vector of a
 * pixel spills into the next pixels, which are stored later. The last pixels of a line, and all pixels that other
 * channels follow, go to C through a buffer. */
I8_INLINE void i8_depthwise_few_of(const i8_depthwise_args *t, const int outputs, const int vectors)
{
    const int most = I8_DEPTHWISE_PIXELS, step = t->pixels < most ? 1 : most, spills = t->channels < vectors * I8_LANES;
    char buffer[(I8_DEPTHWISE_PIXELS + 1) * 2 * I8_LANES * sizeof(float)], *c = NULL, *to = NULL;
    i8_tile_output output;
    i8_epilogue epilogue;
    i8_stage stage;
    ptrdiff_t c_row = 0;
    int bytes = 0, spilled = 0; /* the number of pixels that a vector spills into */
    if (outputs) {
        output = *t->output, epilogue = *output.epilogue, stage = *epilogue.stage;
        output.epilogue = &epilogue, epilogue.stage = &stage;
        c_row = output.c_row, bytes = t->channels;
        if (epilogue.type != I8_TYPE_U8 && epilogue.type != I8_TYPE_S8)
            bytes *= (int)sizeof(float);
    }
    const int gaps = spills && c_row != bytes;
    if (spills && outputs)
        spilled = (vectors * I8_LANES - 1) / t->channels;
    if (gaps)
        output.c_row = 2 * I8_LANES * sizeof(float);
    const i8_tile_output *o = outputs ? &output : NULL;
    for (int line = 0; line < t->together; ++line)
        for (int x = 0; x < t->pixels; x += step) {
            const int last = x + step >= t->pixels, pixel = last ? t->pixels - step : x; /* calls may overlap */
            const int buffered = outputs && (gaps || (spills && x + step + spilled > t->pixels));
            if (outputs) {
                to = output.c + line * t->c_line + pixel * c_row;
                c = buffered ? buffer : to;
            }
            if (step == 1)
                i8_depthwise_few_pixels(t, o, c, line, pixel, 1, vectors);
            else
                i8_depthwise_few_pixels(t, o, c, line, pixel, most, vectors);
            for (int p = 0; buffered && p < step; ++p)
                i8_copy_part(to + p * c_row, buffer + p * output.c_row, bytes);
        }
}

static void i8_depthwise_few_lines(const i8_depthwise_args *t)
{
    if (t->channels <= I8_LANES)
        t->output ? i8_depthwise_few_of(t, 1, 1) : i8_depthwise_few_of(t, 0, 1);
    else
        t->output ? i8_depthwise_few_of(t, 1, 2) : i8_depthwise_few_of(t, 0, 2);
}
