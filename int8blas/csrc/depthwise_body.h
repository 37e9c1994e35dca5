/* Depthwise convolution: each channel has a filter of its own. Written once; see i8_depthwise_args. isa_body.h defines
 *
 *   I8_STEP(acc, a, b)   acc += the exact dot of 4 u8 and 4 s8 in every s32 lane
 *
 * Four lines of the window, four taps in a column of it, are interleaved, so that a lane has the four bytes of one
 * channel: 4 * I8_LANES channels take 4 vectors. These are kept for a stretch of columns, and each column serves all
 * outputs whose windows it is in. */
#define I8_DEPTHWISE_CHANNELS (4 * I8_LANES)
#define I8_DEPTHWISE_LINES 4
#if I8_LANES == 16
#define I8_DEPTHWISE_PIXELS 4
#else
#define I8_DEPTHWISE_PIXELS 2
#endif

/* Dwords of a vector in the order in which interleaving within 128 bits, as i8_interleave does, leaves channels in
 * theirs: dword q of unit u is that of channels 4 * (q * I8_LANES / 4 + u) and on. */
#if I8_LANES == 16
static const int32_t i8_depthwise_order[16] = {0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15};
#else
static const int32_t i8_depthwise_order[8] = {0, 2, 4, 6, 1, 3, 5, 7};
#endif

I8_INLINE void i8_depthwise_columns(const uint8_t *src[4], const ptrdiff_t step[4], int columns, ptrdiff_t dst_step,
                                    uint8_t *dst, const int flips)
{
    const uint32_t flip = 0x80808080u;
    for (; columns > 0; --columns, dst += dst_step) {
        i8_vec v[4];
        I8_FOR(r, 4) {
            v[r] = i8_load(src[r]);
            if (flips)
                v[r] = i8_xor(v[r], i8_broadcast(&flip));
            v[r] = i8_permute(v[r], i8_depthwise_order);
            src[r] += step[r];
        }
        i8_interleave(v);
        I8_FOR(q, 4) i8_store(dst + q * 4 * I8_LANES, v[q]);
    }
}

#include "depthwise_columns.h"

/* The sums of `pixels` outputs of a line from one on, `vectors` vectors of channels each. */
I8_INLINE void i8_depthwise_pixels(const i8_depthwise_args *t, int line, int pixel, const int pixels, const int vectors)
{
    i8_vec acc[I8_DEPTHWISE_PIXELS][4];
    const int groups = i8_depthwise_groups(t);
    const ptrdiff_t column = groups * 16 * I8_LANES, across = t->stride * column;
    const uint8_t *a = t->interleaved + pixel * across;
    const int8_t *b = t->weights + line * t->weights_step;
    I8_FOR(v, vectors) {
        acc[0][v] = t->start ? i8_load(t->start + v * I8_LANES) : i8_zero();
        I8_FOR(p, pixels) acc[p][v] = acc[0][v];
    }
    for (int tap = 0; tap < t->taps; ++tap, a += t->dilation * column) {
        for (int g = 0; g < groups; ++g, b += 4 * I8_PANEL) {
            i8_vec weights[4];
            I8_FOR(v, vectors) {
                const int lane = v * I8_LANES;
                weights[v] = i8_load(b + lane / I8_PANEL * t->panel_size + lane % I8_PANEL * 4);
            }
            I8_FOR(p, pixels) I8_FOR(v, vectors) {
                const i8_vec x = i8_load(a + p * across + (g * 4 + v) * 4 * I8_LANES);
                I8_STEP(acc[p][v], x, weights[v]);
            }
        }
    }
    if (t->output) {
        i8_tile_output o = *t->output;
        o.c += line * t->c_line + pixel * o.c_row;
        i8_output_tile(&o, 0, 0, acc[0], 4, pixels, vectors);
        return;
    }
    I8_FOR(p, pixels) I8_FOR(v, vectors)
        i8_store(t->dst + (line * t->pixels + pixel + p) * I8_MAX_DEPTHWISE + v * I8_LANES, acc[p][v]);
}

I8_INLINE void i8_depthwise_line(const i8_depthwise_args *t, int line, const int vectors)
{
    const int most = I8_DEPTHWISE_PIXELS;
    if (t->pixels < most)
        for (int pixel = 0; pixel < t->pixels; ++pixel)
            i8_depthwise_pixels(t, line, pixel, 1, vectors);
    else /* the last ones overlap the ones before */
        for (int pixel = 0; pixel < t->pixels; pixel += most)
            i8_depthwise_pixels(t, line, pixel + most <= t->pixels ? pixel : t->pixels - most, most, vectors);
}

static void i8_depthwise(const i8_depthwise_args *t)
{
    i8_depthwise_interleave(t);
    for (int line = 0; line < t->together; ++line)
        if (t->channels <= 2 * I8_LANES)
            i8_depthwise_line(t, line, 2);
        else
            i8_depthwise_line(t, line, 4);
}

#undef I8_STEP
