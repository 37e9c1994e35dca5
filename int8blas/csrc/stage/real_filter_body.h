/* Depthwise convolution of real numbers. stage.h has arguments and formula (i8_real_filter_args). Four chunks of sums
 * hide the latency of additions. */
enum { I8_FILTER_CHUNKS = 4 };

I8_INLINE void i8_real_filter_chunks(const i8_real_filter_args *f, int64_t j, const int chunks)
{
    i8_floats sums[I8_FILTER_CHUNKS];
    I8_FOR(v, chunks) sums[v] = i8_floats_set(0.0f);
    for (int t = 0; t < f->taps; ++t) {
        const i8_floats weight = i8_floats_set(f->weights[t]);
        const float *x = f->x + f->offsets[t] + j;
        I8_FOR(v, chunks)
            sums[v] = i8_floats_add(sums[v], i8_floats_mul(weight, i8_floats_load(x + I8_CHUNK * v)));
    }
    I8_FOR(v, chunks) i8_floats_store(f->y + j + I8_CHUNK * v, sums[v]);
}

static void i8_real_filter(const i8_real_filter_args *f)
{
    int64_t j = 0;
    for (; j + I8_FILTER_CHUNKS * I8_CHUNK <= f->count; j += I8_FILTER_CHUNKS * I8_CHUNK)
        i8_real_filter_chunks(f, j, I8_FILTER_CHUNKS);
    for (; j + I8_CHUNK <= f->count; j += I8_CHUNK)
        i8_real_filter_chunks(f, j, 1);
    if (j < f->count && f->count >= I8_CHUNK) {
        i8_real_filter_chunks(f, f->count - I8_CHUNK, 1); /* the last chunk overlaps the previous chunk */
        return;
    }
    for (; j < f->count; ++j) {
        float sum = 0.0f;
        for (int t = 0; t < f->taps; ++t)
            sum += f->weights[t] * f->x[f->offsets[t] + j];
        f->y[j] = sum;
    }
}
