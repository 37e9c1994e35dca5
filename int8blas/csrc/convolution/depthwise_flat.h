/* The depthwise kernel for few channels (depthwise_flat_args.h), for both kinds of multiply-adds. A lane has one
 * channel of one output. The dword of a lane has I8_DEPTHWISE_LINES lines of a column, as bytes or as pairs of s16.
 *
 * Lane i of vector v of a line has channel (v * I8_LANES + i) % channels. The vectors of weights repeat after `period`
 * vectors. The kernel takes 4 vectors at a time, so `period` + 3 vectors are stored. */
#include "convolution/depthwise_flat_args.h"

typedef struct {
    int period; /* vectors until the weights repeat */
    int groups; /* groups of I8_DEPTHWISE_LINES image lines */
    ptrdiff_t vectors;  /* bytes of the weights for one tap and group */
    ptrdiff_t length;   /* bytes of an interleaved group */
} i8_flat;

/* Repeat the first `channels` dwords until x has `count` dwords. */
I8_INLINE void i8_flat_repeat(int32_t *x, int channels, int count)
{
    for (int i = channels; i < count; ++i)
        x[i] = x[i - channels];
}

/* Copy the weights of one tap and group. `src` points to four lines of weights in the first panel. */
I8_INLINE void i8_flat_copy_weights(int32_t *dst, const i8_depthwise_args *t, const int8_t *src, int half)
{
    for (int c = 0; c < t->channels; ++c) {
        const int8_t *w = src + c / I8_PANEL * t->panel_size + c % I8_PANEL * I8_GROUP;
#if I8_PAIRED
        const int16_t pair[2] = {w[2 * half], w[2 * half + 1]};
        memcpy(dst + c, pair, sizeof pair);
#else
        (void)half;
        memcpy(dst + c, w, I8_GROUP);
#endif
    }
}

/* Prepare the start values, and the weights [output line][tap][group]. */
static void i8_flat_prepare(const i8_depthwise_args *t, const i8_flat *f)
{
    const int each = I8_GROUP / I8_DEPTHWISE_LINES, count = (int)(f->vectors / 4);
    uint8_t *first = t->prepared + f->vectors, *dst = first;
    int32_t *start = (int32_t *)(void *)t->prepared;
    for (int line = 0; line < i8_depthwise_repeats(t); ++line) {
        const int8_t *weights = t->weights + line * t->weights_step;
        for (int i = 0; i < t->taps * f->groups; ++i, dst += f->vectors) {
            i8_flat_copy_weights((int32_t *)(void *)dst, t, weights + i / each * 4 * I8_PANEL, i % each);
            i8_flat_repeat((int32_t *)(void *)dst, t->channels, count);
        }
    }
    for (int c = 0; c < t->channels; ++c)
        start[c] = t->start ? t->start[c] : 0;
    i8_flat_repeat(start, t->channels, count);
    for (ptrdiff_t v = 0; v < f->vectors; v += 4 * I8_LANES) {
        i8_vec x = i8_load(t->prepared + v);
        i8_depthwise_finish(&x, first + v, t->taps * f->groups, f->vectors);
        i8_store(t->prepared + v, x);
    }
}

/* Interleave a group of lines. Lines after the last line have weights of 0. */
static void i8_flat_interleave(const i8_depthwise_args *t, const i8_flat *f, int group)
{
    const int first = group * I8_DEPTHWISE_LINES;
    uint8_t *dst = t->interleaved + group * f->length;
    const uint8_t *src[I8_DEPTHWISE_LINES];
    for (int r = 0; r < I8_DEPTHWISE_LINES; ++r)
        src[r] = t->line[first + r < t->lines ? first + r : first];
    for (ptrdiff_t at = 0; 4 * at < f->length; at += 4 * I8_LANES) {
        i8_vec v[4];
        I8_FOR(r, I8_DEPTHWISE_LINES) v[r] = i8_permute(i8_shared(i8_load(src[r] + at)), i8_depthwise_order);
#if I8_PAIRED
        i8_interleave_words(v);
#else
        i8_interleave(v);
#endif
        I8_FOR(q, 4) i8_store(dst + 4 * at + q * 4 * I8_LANES, v[q]);
    }
}

/* Compute the sums of an output line. */
static void i8_flat_line(const i8_depthwise_args *t, const i8_flat *f, const ptrdiff_t *place, int line)
{
    const int above = line * t->line_stride, height = t->lines - (t->together - 1) * t->line_stride;
    const int low = above / I8_DEPTHWISE_LINES, high = (above + height - 1) / I8_DEPTHWISE_LINES + 1;
    const int sums = t->pixels * t->channels, step = 4 % f->period;
    const uint8_t *weights = t->prepared + (1 + line * t->taps * f->groups) * f->vectors;
    int32_t *dst = t->dst + line * i8_depthwise_flat_row(t);
    int phase = 0;
    for (int at = 0; at < sums; at += 4 * I8_LANES, phase += step) {
        i8_vec acc[4];
        phase -= phase >= f->period ? f->period : 0;
        const ptrdiff_t vector = phase * 4 * I8_LANES;
        I8_FOR(v, 4) acc[v] = i8_load(t->prepared + vector + v * 4 * I8_LANES);
        for (int tap = 0; tap < t->taps; ++tap)
            for (int g = low; g < high; ++g) {
                const uint8_t *a = t->interleaved + g * f->length + 4 * (place[tap] + at);
                const uint8_t *b = weights + (tap * f->groups + g) * f->vectors + vector;
                I8_FOR(v, 4) {
                    const i8_vec x = i8_load(a + v * 4 * I8_LANES), w = i8_load(b + v * 4 * I8_LANES);
#if I8_PAIRED
                    acc[v] = i8_dot2(acc[v], x, w);
#else
                    I8_SHARED_DOT(acc[v], x, w);
#endif
                }
            }
        I8_FOR(v, 4) i8_store(dst + at + v * I8_LANES, acc[v]);
    }
}

static void i8_depthwise_flat(const i8_depthwise_args *t)
{
    ptrdiff_t place[I8_MAX_TAPS];
    const int last = (t->taps - 1) * t->dilation, runs = last < t->stride ? last + 1 : t->stride;
    i8_flat f;
    f.period = t->channels;
    for (int lanes = I8_LANES; lanes > 1 && f.period % 2 == 0; lanes /= 2)
        f.period /= 2;
    f.vectors = (f.period + 3) * 4 * I8_LANES;
    f.groups = (t->lines + I8_GROUP - 1) / I8_GROUP * (I8_GROUP / I8_DEPTHWISE_LINES);
    f.length = 4 * (ptrdiff_t)t->end * runs;
    for (int tap = 0; tap < t->taps; ++tap)
        place[tap] = i8_depthwise_flat_place(t, tap * t->dilation);
    if (!t->is_prepared)
        i8_flat_prepare(t, &f);
    for (int g = 0; g < i8_depthwise_groups(t); ++g)
        i8_flat_interleave(t, &f, g);
    for (int line = 0; line < t->together; ++line)
        i8_flat_line(t, &f, place, line);
}
