/* Depthwise convolution without VNNI (i8_depthwise_args). Each channel has its own filter.
 *
 * The kernel interleaves and widens two image lines, so that a dword has two lines of a channel. VPMADDWD and VPADDD
 * then add two lines to the sums of I8_LANES channels. A window may start at either line of a pair. If a window starts
 * at the second line, its weights begin with a 0. All output lines of a call use the same interleaved columns. */
#define I8_DEPTHWISE_CHANNELS (4 * I8_LANES)
#define I8_DEPTHWISE_LINES 2
#define I8_DEPTHWISE_STRIDED NULL
/* 12 accumulators (3 x 4), a weight and a product take 14 of 16 registers. With 32 registers, 16 accumulators fit. */
#if I8_LANES == 16
#define I8_DEPTHWISE_PIXELS 4
#else
#define I8_DEPTHWISE_PIXELS 3
#endif

#define I8_DEPTHWISE_INTERLEAVE(v, few) i8_interleave_words(v)
#include "convolution/depthwise_columns.h"
#include "convolution/depthwise_flat.h"
#include "convolution/depthwise_output.h"

/* Return the number of pairs of lines that a window touches. The window starts at the first line of a pair (odd = 0),
 * or at the second line (odd = 1). */
I8_INLINE int i8_depthwise_pairs(const i8_depthwise_args *t, int odd)
{
    return (t->lines - (t->together - 1) * t->line_stride + odd + 1) / 2;
}

/* Widen weights to dwords of two weights: dst[odd][tap][pair]. Windows that start at the second line of a pair (odd =
 * 1) take the packed weights of the second output line. */
static void i8_depthwise_widen_weights(const i8_depthwise_args *t, uint8_t *dst)
{
    const int kinds = i8_depthwise_repeats(t) > 1 ? 1 + t->line_stride % 2 : 1;
    const ptrdiff_t tap_step = (i8_depthwise_pairs(t, 0) + 1) / 2 * 4 * I8_PANEL;
    uint8_t index[2][4 * I8_LANES];
    for (int i = 0; i < 4 * I8_LANES; ++i) {
        index[0][i] = (uint8_t)(i % 16 / 4 * 4 + i % 4 / 2);
        index[1][i] = (uint8_t)(index[0][i] + 2);
    }
    for (int odd = 0; odd < kinds; ++odd) {
        const int first = odd * t->line_stride / 2, pairs = i8_depthwise_pairs(t, odd);
        const int8_t *weights = t->weights + odd * t->weights_step;
        for (int tap = 0; tap < t->taps; ++tap, weights += tap_step)
            for (int pair = first; pair < first + pairs; ++pair) {
                const i8_vec order = i8_load(index[pair % 2]);
                const int8_t *from = weights + pair / 2 * 4 * I8_PANEL;
                for (int v = 0; v < (i8_depthwise_few(t) ? 2 : 4); ++v) {
                    const i8_vec w = i8_depthwise_few(t) ? i8_load(from + I8_DEPTHWISE_FEW(v))
                                                         : i8_load_units(from + 16 * v, t->panel_size);
                    i8_store(dst + v * 4 * I8_LANES, i8_odd_s8(i8_shuffle(w, order)));
                }
                dst += 16 * I8_LANES;
            }
    }
}

/* Add the products of `pixels` successive outputs of a line to acc, with `vectors` vectors of channels. */
I8_INLINE void i8_depthwise_sums(const i8_depthwise_args *t, int line, int pixel, i8_vec acc[I8_DEPTHWISE_PIXELS][4],
                                 const int pixels, const int vectors)
{
    const int first = line * t->line_stride, odd = first % 2, pairs = i8_depthwise_pairs(t, odd);
    const ptrdiff_t column = i8_depthwise_groups(t) * 16 * I8_LANES, across = t->stride * column;
    const uint8_t *a = t->interleaved + pixel * across + first / 2 * 16 * I8_LANES;
    const uint8_t *b = t->prepared + I8_DEPTHWISE_VALUES;
    if (odd)
        b += t->taps * i8_depthwise_pairs(t, 0) * 16 * I8_LANES;
    for (int tap = 0; tap < t->taps; ++tap, a += t->dilation * column) {
        const uint8_t *x = a;
        for (int pair = 0; pair < pairs; ++pair, x += 16 * I8_LANES, b += 16 * I8_LANES)
            I8_FOR(v, vectors) {
                const i8_vec weights = i8_load(b + v * 4 * I8_LANES);
                I8_FOR(p, pixels)
                    acc[p][v] = i8_dot2(acc[p][v], weights, i8_load(x + p * across + v * 4 * I8_LANES));
            }
    }
}

I8_INLINE void i8_depthwise_pixels(const i8_depthwise_args *t, const i8_depthwise_values *s, int line, int pixel,
                                   const int pixels)
{
    i8_vec acc[I8_DEPTHWISE_PIXELS][4];
    I8_FOR(v, 4) I8_FOR(p, pixels) acc[p][v] = s->start[v];
    i8_depthwise_sums(t, line, pixel, acc, pixels, 4);
    i8_depthwise_output(t, s, line, pixel, acc, pixels);
}

/* See depthwise_few.h. */
I8_INLINE void i8_depthwise_few_sums(const i8_depthwise_args *t, int line, int pixel,
                                     i8_vec acc[I8_DEPTHWISE_PIXELS][4], const int pixels, const int vectors)
{
    I8_FOR(v, vectors) {
        const i8_vec start = t->start ? i8_load(t->start + v * I8_LANES) : i8_zero();
        I8_FOR(p, pixels) acc[p][v] = start;
    }
    i8_depthwise_sums(t, line, pixel, acc, pixels, vectors);
}

#include "convolution/depthwise_few.h"

static void i8_depthwise(const i8_depthwise_args *t)
{
    if (!t->padding) {
        i8_depthwise_flat(t);
        return;
    }
    i8_depthwise_values *s = (i8_depthwise_values *)(void *)t->prepared;
    if (!t->is_prepared) {
        if (!i8_depthwise_few(t))
            i8_depthwise_order_values(t, s);
        i8_depthwise_widen_weights(t, t->prepared + I8_DEPTHWISE_VALUES);
    }
    i8_depthwise_interleave(t);
    if (i8_depthwise_few(t)) {
        i8_depthwise_few_lines(t);
        return;
    }
    for (int line = 0; line < t->together; ++line) {
        int pixel = 0;
        for (; pixel + I8_DEPTHWISE_PIXELS <= t->pixels; pixel += I8_DEPTHWISE_PIXELS)
            i8_depthwise_pixels(t, s, line, pixel, I8_DEPTHWISE_PIXELS);
        for (; pixel + 2 <= t->pixels; pixel += 2)
            i8_depthwise_pixels(t, s, line, pixel, 2);
        if (pixel < t->pixels)
            i8_depthwise_pixels(t, s, line, pixel, 1);
    }
}
