/* Depthwise convolution without VNNI: each channel has a filter of its own. Written once; see i8_depthwise_args.
 *
 * Two lines of the image are interleaved and widened, so that a dword has an element of each, of one channel: a step
 * for I8_LANES channels is VPMADDWD and VPADDD. Output lines start at every line of a pair; where their windows do not
 * start with the pair, there are weights with a 0 in front. Columns are kept for several lines of outputs, and each of
 * them serves all windows that it is in.
 *
 * Unpacking within units of 128 bits leaves channels in an order that packing to bytes undoes: unit u of vector v has
 * channels 16 * u + 4 * v and on. Weights and values of the output stage are brought into it first. */
#define I8_DEPTHWISE_CHANNELS (4 * I8_LANES)
#define I8_DEPTHWISE_LINES 2
/* 12 accumulators, a weight and a product are 14 registers; of 32, 16 accumulators do as well. */
#if I8_LANES == 16
#define I8_DEPTHWISE_PIXELS 4
#else
#define I8_DEPTHWISE_PIXELS 3
#endif

I8_INLINE void i8_depthwise_columns(const uint8_t *src[2], const ptrdiff_t step[2], int columns, ptrdiff_t dst_step,
                                    uint8_t *dst, const int flips)
{
    const uint32_t flip = 0x80808080u;
    for (; columns > 0; --columns, dst += dst_step) {
        i8_vec v[4];
        I8_FOR(r, 2) {
            v[r] = i8_load(src[r]);
            if (flips)
                v[r] = i8_xor(v[r], i8_broadcast(&flip));
            src[r] += step[r];
        }
        i8_interleave_words(v);
        I8_FOR(q, 4) i8_store(dst + q * 4 * I8_LANES, v[q]);
    }
}

#include "depthwise_columns.h"

/* Values of the channels, in the order of the sums. */
typedef struct {
    i8_vec start[4], low;
    float scale[I8_DEPTHWISE_CHANNELS], bias[I8_DEPTHWISE_CHANNELS];
    float dst_scale[I8_DEPTHWISE_CHANNELS], dst_zero[I8_DEPTHWISE_CHANNELS];
} i8_depthwise_values;

I8_INLINE int i8_is_bytes(const i8_tile_output *o) { return o->type == I8_TYPE_U8 || o->type == I8_TYPE_S8; }

I8_INLINE void i8_depthwise_order_floats(float *dst, const float *src, ptrdiff_t step, int channels)
{
    float copy[I8_DEPTHWISE_CHANNELS];
    if (!step) {
        I8_FOR(v, 4) i8_store(dst + v * I8_LANES, i8_load(src));
        return;
    }
    if (channels < I8_DEPTHWISE_CHANNELS) {
        memset(copy, 0, sizeof copy);
        src = memcpy(copy, src, (size_t)channels * sizeof(float));
    }
    I8_FOR(v, 4) i8_store(dst + v * I8_LANES, i8_load_units(src + 4 * v, 16 * sizeof(float)));
}

static void i8_depthwise_order_values(const i8_depthwise_args *t, i8_depthwise_values *s)
{
    const i8_tile_output *o = t->output;
    const int bytes = o && i8_is_bytes(o);
    if (!bytes)
        memset(s, 0, sizeof *s);
    I8_FOR(v, 4) s->start[v] = t->start ? i8_load_units(t->start + 4 * v, 16 * sizeof(int32_t)) : i8_zero();
    if (!bytes)
        return;
    if (o->offset)
        I8_FOR(v, 4) s->start[v] = i8_add(s->start[v], i8_load_units(o->offset + 4 * v, 16 * sizeof(int32_t)));
    i8_depthwise_order_floats(s->scale, o->scale.values, o->scale.step, t->channels);
    i8_depthwise_order_floats(s->bias, o->bias.values, o->bias.step, t->channels);
    i8_depthwise_order_floats(s->dst_scale, o->dst_scale.values, o->dst_scale.step, t->channels);
    i8_depthwise_order_floats(s->dst_zero, o->dst_zero.values, o->dst_zero.step, t->channels);
    /* What ReLU makes the smallest result, in the range of the bytes: a zero point may be far outside. */
    const i8_f32 smallest = i8_set_f32(o->type == I8_TYPE_U8 ? 0 : -128);
    const i8_f32 largest = i8_set_f32(o->type == I8_TYPE_U8 ? 255 : 127);
    i8_vec low[4];
    I8_FOR(v, 4) {
        const i8_f32 zero = i8_min_f32(i8_load_f32(s->dst_zero + v * I8_LANES), largest);
        low[v] = i8_round_within_s32(o->relu ? i8_max_f32(smallest, zero) : smallest);
    }
    s->low = o->type == I8_TYPE_U8 ? i8_pack_u8(low) : i8_pack_s8(low);
}

/* Pairs of lines that the window of an output line is in, where it starts with the pair (0) or a line further (1). */
I8_INLINE int i8_depthwise_pairs(const i8_depthwise_args *t, int odd)
{
    return (t->lines - (t->together - 1) * t->line_stride + odd + 1) / 2;
}

/* Weights as dwords of two, widened, for windows that start with a pair, then for those that do not:
 * dst[odd][tap][pair]. The latter have been packed as those of the second output line. */
static void i8_depthwise_widen_weights(const i8_depthwise_args *t, uint8_t *dst)
{
    const int kinds = t->together > 1 ? 1 + t->line_stride % 2 : 1;
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
                I8_FOR(v, 4) {
                    const i8_vec w = i8_load_units(weights + pair / 2 * 4 * I8_PANEL + 16 * v, t->panel_size);
                    i8_store(dst, i8_odd_s8(i8_shuffle(w, order)));
                    dst += 4 * I8_LANES;
                }
            }
    }
}

/* The output stage of i8_output_as. Bounds are those of whole numbers, so that they hold for bytes as well; without
 * `shifts` they are those of u8. NaN becomes the lowest number. */
I8_INLINE void i8_depthwise_bytes(const i8_depthwise_values *s, char *c, ptrdiff_t c_row, const i8_vec *acc,
                                  const int pixels, int channels, const int is_signed, const int shifts)
{
    i8_vec y[I8_DEPTHWISE_PIXELS][4];
    const i8_f32 high = i8_set_f32(is_signed ? 127 : 255);
    I8_FOR(v, 4) {
        const i8_f32 scale = i8_load_f32(s->scale + v * I8_LANES), bias = i8_load_f32(s->bias + v * I8_LANES);
        const i8_f32 dst_scale = i8_load_f32(s->dst_scale + v * I8_LANES);
        I8_FOR(p, pixels) {
            i8_f32 x = i8_add_f32(i8_mul_f32(i8_to_f32(acc[p * 4 + v]), scale), bias);
            x = i8_mul_f32(x, dst_scale);
            if (shifts)
                x = i8_add_f32(x, i8_load_f32(s->dst_zero + v * I8_LANES));
            y[p][v] = i8_round_within_s32(i8_min_f32(high, x));
        }
    }
    I8_FOR(p, pixels) {
        i8_vec bytes = is_signed ? i8_pack_s8(y[p]) : i8_pack_u8(y[p]);
        if (shifts)
            bytes = is_signed ? i8_max_s8(bytes, s->low) : i8_max_u8(bytes, s->low);
        if (channels == I8_DEPTHWISE_CHANNELS)
            i8_store(c + p * c_row, bytes);
        else
            memcpy(c + p * c_row, &bytes, I8_DEPTHWISE_CHANNELS / 2);
    }
}

/* Sums in their own order, to dst or through an output stage to s32 or f32. */
static void i8_depthwise_words(const i8_depthwise_args *t, int line, int pixel, const i8_vec *sums)
{
    i8_vec acc[4];
    I8_FOR(v, 4) acc[v] = sums[v];
    i8_transpose_units(acc);
    if (t->output) {
        i8_tile_output o = *t->output;
        o.c += line * t->c_line + pixel * o.c_row;
        if (t->channels == I8_DEPTHWISE_CHANNELS)
            i8_output_tile(&o, 0, 0, acc, 4, 1, 4);
        else
            i8_output_tile(&o, 0, 0, acc, 4, 1, 2);
        return;
    }
    I8_FOR(v, 4) i8_store(t->dst + (line * t->pixels + pixel) * I8_MAX_DEPTHWISE + v * I8_LANES, acc[v]);
}

/* `pixels` outputs of a line from one on. */
I8_INLINE void i8_depthwise_pixels(const i8_depthwise_args *t, const i8_depthwise_values *s, int line, int pixel,
                                   const int pixels)
{
    i8_vec acc[I8_DEPTHWISE_PIXELS][4];
    const int first = line * t->line_stride, odd = first % 2, pairs = i8_depthwise_pairs(t, odd);
    const ptrdiff_t column = i8_depthwise_groups(t) * 16 * I8_LANES, across = t->stride * column;
    const uint8_t *a = t->interleaved + pixel * across + first / 2 * 16 * I8_LANES;
    const uint8_t *b = t->widened + (odd ? t->taps * i8_depthwise_pairs(t, 0) * 16 * I8_LANES : 0);
    I8_FOR(v, 4) I8_FOR(p, pixels) acc[p][v] = s->start[v];
    for (int tap = 0; tap < t->taps; ++tap, a += t->dilation * column) {
        const uint8_t *x = a;
        for (int pair = 0; pair < pairs; ++pair, x += 16 * I8_LANES, b += 16 * I8_LANES)
            I8_FOR(v, 4) {
                const i8_vec weights = i8_load(b + v * 4 * I8_LANES);
                I8_FOR(p, pixels)
                    acc[p][v] = i8_dot2(acc[p][v], weights, i8_load(x + p * across + v * 4 * I8_LANES));
            }
    }
    if (t->output && i8_is_bytes(t->output)) {
        const i8_tile_output *o = t->output;
        char *c = o->c + line * t->c_line + pixel * o->c_row;
        if (o->type == I8_TYPE_S8)
            i8_depthwise_bytes(s, c, o->c_row, acc[0], pixels, t->channels, 1, 1);
        else if (o->shifts)
            i8_depthwise_bytes(s, c, o->c_row, acc[0], pixels, t->channels, 0, 1);
        else
            i8_depthwise_bytes(s, c, o->c_row, acc[0], pixels, t->channels, 0, 0);
        return;
    }
    i8_vec sums[I8_DEPTHWISE_PIXELS][4];
    I8_FOR(p, pixels) {
        I8_FOR(v, 4) sums[p][v] = acc[p][v];
        i8_depthwise_words(t, line, pixel + p, sums[p]);
    }
}

static void i8_depthwise(const i8_depthwise_args *t)
{
    i8_depthwise_values s;
    i8_depthwise_order_values(t, &s);
    i8_depthwise_widen_weights(t, t->widened);
    i8_depthwise_interleave(t);
    for (int line = 0; line < t->together; ++line) {
        int pixel = 0;
        for (; pixel + I8_DEPTHWISE_PIXELS <= t->pixels; pixel += I8_DEPTHWISE_PIXELS)
            i8_depthwise_pixels(t, &s, line, pixel, I8_DEPTHWISE_PIXELS);
        for (; pixel + 2 <= t->pixels; pixel += 2)
            i8_depthwise_pixels(t, &s, line, pixel, 2);
        if (pixel < t->pixels)
            i8_depthwise_pixels(t, &s, line, pixel, 1);
    }
}
