/* Depthwise convolution with dot products of 4 bytes (i8_depthwise_args). Each channel has its own filter. The
 * multiply-add of isa/shared_dots.h multiplies 4 u8 by 4 s8 in every s32 lane, and determines how columns are
 * interleaved.
 *
 * A lane has four bytes of a channel, usually one column of four lines of the window. The kernel interleaves the
 * columns of a stretch once, for all outputs whose windows contain these columns. With stride 2, few outputs
 * share a column, so a lane has four columns of one line, which the kernel interleaves in registers for each output. */
#define I8_DEPTHWISE_CHANNELS (4 * I8_LANES)
#define I8_DEPTHWISE_LINES 4
#define I8_DEPTHWISE_STRIDED i8_depthwise_strided
#if I8_LANES == 16
#define I8_DEPTHWISE_PIXELS 4
#else
#define I8_DEPTHWISE_PIXELS 2
#endif

#define I8_DEPTHWISE_INTERLEAVE(v, few) ((few) ? i8_interleave_half(v, 0) : i8_interleave(v))
#include "convolution/depthwise_columns.h"
#include "convolution/depthwise_flat.h"
#include "convolution/depthwise_output.h"

/* Sum `pixels` successive outputs of a line, each with `vectors` vectors of channels. The weights [tap][group] begin at
 * b, and groups are b_group bytes apart. `at` is the offset of vector v in a group. */
#define I8_DEPTHWISE_SUMS(acc, b, b_group, at)                                                                         \
    do {                                                                                                               \
        for (int tap = 0; tap < t->taps; ++tap, a += t->dilation * column)                                             \
            for (int g = 0; g < groups; ++g, b += b_group) {                                                           \
                i8_vec weights[4];                                                                                     \
                I8_FOR(v, vectors) weights[v] = i8_load(b + (at));                                                     \
                I8_FOR(p, pixels) I8_FOR(v, vectors) {                                                                 \
                    const i8_vec x = i8_load(a + p * across + (g * 4 + v) * 4 * I8_LANES);                             \
                    I8_SHARED_DOT(acc[p][v], x, weights[v]);                                                           \
                }                                                                                                      \
            }                                                                                                          \
    } while (0)

/* Compute outputs with all channels, in the order of i8_interleave. */
I8_INLINE void i8_depthwise_pixels(const i8_depthwise_args *t, const i8_depthwise_values *s, int line, int pixel,
                                   const int pixels)
{
    i8_vec acc[I8_DEPTHWISE_PIXELS][4];
    const int groups = i8_depthwise_groups(t), vectors = 4;
    const ptrdiff_t column = groups * 16 * I8_LANES, across = t->stride * column;
    const uint8_t *a = t->interleaved + pixel * across;
    const uint8_t *b = t->prepared + I8_DEPTHWISE_VALUES + line * t->taps * groups * 16 * I8_LANES;
    I8_FOR(v, 4) I8_FOR(p, pixels) acc[p][v] = s->start[v];
    I8_DEPTHWISE_SUMS(acc, b, 16 * I8_LANES, v * 4 * I8_LANES);
    i8_depthwise_output(t, s, line, pixel, acc, pixels);
}

/* See depthwise_few.h. */
I8_INLINE void i8_depthwise_few_sums(const i8_depthwise_args *t, int line, int pixel,
                                     i8_vec acc[I8_DEPTHWISE_PIXELS][4], const int pixels, const int vectors)
{
    const int groups = i8_depthwise_groups(t);
    const ptrdiff_t column = groups * 16 * I8_LANES, across = t->stride * column;
    const uint8_t *a = t->interleaved + pixel * across;
    const int8_t *b = t->weights + line * t->weights_step;
    I8_FOR(v, vectors) {
        acc[0][v] = t->start ? i8_load(t->start + v * I8_LANES) : i8_zero();
        i8_depthwise_finish(&acc[0][v], b + I8_DEPTHWISE_FEW(v), t->taps * groups, 4 * I8_PANEL);
        I8_FOR(p, pixels) acc[p][v] = acc[0][v];
    }
    I8_DEPTHWISE_SUMS(acc, b, 4 * I8_PANEL, I8_DEPTHWISE_FEW(v));
}

#include "convolution/depthwise_few.h"

/* Bring the weights of 4 vectors of channels into the order of i8_interleave, for each output line that has its own
 * weights, each tap and each group. */
static void i8_depthwise_order_weights(const i8_depthwise_args *t, uint8_t *dst)
{
    for (int line = 0; line < i8_depthwise_repeats(t); ++line) {
        const int8_t *weights = t->weights + line * t->weights_step;
        for (int i = 0; i < t->taps * i8_depthwise_groups(t); ++i, weights += 4 * I8_PANEL)
            I8_FOR(v, 4) {
                i8_store(dst, i8_load_units(weights + 16 * v, t->panel_size));
                dst += 4 * I8_LANES;
            }
    }
}

static void i8_depthwise(const i8_depthwise_args *t)
{
    const int most = I8_DEPTHWISE_PIXELS;
    if (!t->padding) {
        i8_depthwise_flat(t);
        return;
    }
    i8_depthwise_values *s = (i8_depthwise_values *)(void *)t->prepared;
    if (i8_depthwise_few(t)) {
        i8_depthwise_interleave(t);
        i8_depthwise_few_lines(t);
        return;
    }
    if (!t->is_prepared) {
        i8_depthwise_order_values(t, s);
        i8_depthwise_order_weights(t, t->prepared + I8_DEPTHWISE_VALUES);
        I8_FOR(v, 4) i8_depthwise_finish(&s->start[v], t->prepared + I8_DEPTHWISE_VALUES + v * 4 * I8_LANES,
                                         t->taps * i8_depthwise_groups(t), 16 * I8_LANES);
    }
    i8_depthwise_interleave(t);
    for (int line = 0; line < t->together; ++line)
        if (t->pixels < most)
            for (int pixel = 0; pixel < t->pixels; ++pixel)
                i8_depthwise_pixels(t, s, line, pixel, 1);
        else /* the last call recomputes some outputs */
            for (int x = 0; x < t->pixels; x += most)
                i8_depthwise_pixels(t, s, line, x + most <= t->pixels ? x : t->pixels - most, most);
}

/* Transpose the weights. A dword of t->weights has the weights of a channel for one tap in four lines; a dword of
 * dst[line][vector] has the weights of a channel for all taps of one line. */
static void i8_depthwise_transpose_weights(const i8_depthwise_args *t, uint8_t *dst)
{
    I8_FOR(v, 4) {
        i8_vec w[4];
        I8_FOR(tap, I8_STRIDED) w[tap] = i8_load_units(t->weights + tap * 4 * I8_PANEL + 16 * v, t->panel_size);
        w[3] = i8_zero();
        i8_interleave(w);
        i8_transpose_lanes(w);
        I8_FOR(line, I8_STRIDED) i8_store(dst + (line * 4 + v) * 4 * I8_LANES, w[line]);
    }
}

/* Compute outputs `pixel` to `end` of a line. Each output needs two new columns. src[l] has the next columns in line l
 * of the window, which are step[l] bytes apart. A dword of an output has four bytes of a channel: two of the previous
 * columns and two of the new columns. before[l][half] has the bytes of the two previous columns, interleaved channel by
 * channel, for the first or the last 8 of each 16 channels. */
I8_INLINE void i8_depthwise_strided_run(const i8_depthwise_args *t, const i8_depthwise_values *s, int line, int pixel,
                                        int end, const uint8_t *const src[I8_STRIDED],
                                        const ptrdiff_t step[I8_STRIDED], i8_vec before[I8_STRIDED][2],
                                        const int kind, const int flips)
{
    const uint32_t flip = 0x80808080u;
    const uint8_t *b = t->prepared + I8_DEPTHWISE_VALUES, *x[I8_STRIDED];
    const i8_tile_output *o = t->output;
    i8_vec weights[I8_STRIDED][4], two[I8_STRIDED][2];
    I8_FOR(l, I8_STRIDED) {
        x[l] = src[l];
        I8_FOR(v, 4) weights[l][v] = i8_load(b + (l * 4 + v) * 4 * I8_LANES);
        I8_FOR(half, 2) two[l][half] = before[l][half];
    }
    for (; pixel < end; ++pixel) {
        i8_vec acc[4];
        I8_FOR(v, 4) acc[v] = s->start[v];
        I8_FOR(l, I8_STRIDED) {
            i8_vec column[2];
            I8_FOR(i, 2) column[i] = i8_load(x[l] + i * step[l]);
            if (flips)
                I8_FOR(i, 2) column[i] = i8_xor(column[i], i8_broadcast(&flip));
            x[l] += 2 * step[l];
            I8_FOR(half, 2) {
                const i8_vec next = i8_interleave_pair(column[0], column[1], half);
                I8_FOR(q, 2) {
                    const i8_vec quad = i8_interleave_quad(two[l][half], next, q);
                    I8_SHARED_DOT(acc[2 * half + q], quad, weights[l][2 * half + q]);
                }
                two[l][half] = next;
            }
        }
        if (kind == I8_OUTPUT_WORDS)
            i8_depthwise_words(t, line, pixel, acc, 1);
        else
            i8_depthwise_bytes(s, o->c + line * t->c_line + pixel * o->c_row, o->c_row, acc, 1, t->channels,
                               kind == I8_OUTPUT_S8, kind != I8_OUTPUT_U8_ONLY);
    }
    I8_FOR(l, I8_STRIDED) I8_FOR(half, 2) before[l][half] = two[l][half];
}

#define I8_RUN(name, kind, flips)                                                                                      \
    I8_NOINLINE void i8_depthwise_strided_##name(                                                                      \
        const i8_depthwise_args *t, const i8_depthwise_values *s, int line, int pixel, int end,                        \
        const uint8_t *const src[I8_STRIDED], const ptrdiff_t step[I8_STRIDED], i8_vec before[I8_STRIDED][2])          \
    {                                                                                                                  \
        i8_depthwise_strided_run(t, s, line, pixel, end, src, step, before, kind, flips);                              \
    }
I8_RUN(words, I8_OUTPUT_WORDS, 0)
I8_RUN(s8, I8_OUTPUT_S8, 0)
I8_RUN(u8, I8_OUTPUT_U8, 0)
I8_RUN(u8_only, I8_OUTPUT_U8_ONLY, 0)
I8_RUN(words_flipped, I8_OUTPUT_WORDS, 1)
I8_RUN(s8_flipped, I8_OUTPUT_S8, 1)
I8_RUN(u8_flipped, I8_OUTPUT_U8, 1)
I8_RUN(u8_only_flipped, I8_OUTPUT_U8_ONLY, 1)
#undef I8_RUN

/* Return an address where a whole vector of the channels of a column can be read: in the image, in the padding, or in
 * a copy. */
I8_INLINE const uint8_t *i8_depthwise_column(const i8_depthwise_args *t, const uint8_t *line, int column, int whole,
                                             uint8_t copy[I8_DEPTHWISE_CHANNELS])
{
    if (!line || column < t->first || column >= t->end)
        return t->padding;
    line += column * t->column_step;
    return column < whole ? line : memcpy(copy, line, (size_t)t->channels);
}

static void i8_depthwise_strided(const i8_depthwise_args *t)
{
    static void (*const run[2][4])(const i8_depthwise_args *, const i8_depthwise_values *, int, int, int,
                                   const uint8_t *const *, const ptrdiff_t *, i8_vec (*)[2]) = {
        {i8_depthwise_strided_words, i8_depthwise_strided_s8, i8_depthwise_strided_u8, i8_depthwise_strided_u8_only},
        {i8_depthwise_strided_words_flipped, i8_depthwise_strided_s8_flipped, i8_depthwise_strided_u8_flipped,
         i8_depthwise_strided_u8_only_flipped}};
    const int whole = i8_depthwise_whole(t), kind = i8_output_kind(t->output), flips = t->flip != I8_SHARED_FLIP;
    /* For outputs from `low` to `high`, the next columns, 2 * pixel + 2 and 2 * pixel + 3, can be read in place. */
    const int low = t->first > 2 ? (t->first - 1) / 2 : 0, high = whole > 3 ? (whole - 2) / 2 : 0;
    i8_depthwise_values *s = (i8_depthwise_values *)(void *)t->prepared;
    if (!t->is_prepared) {
        i8_depthwise_order_values(t, s);
        i8_depthwise_transpose_weights(t, t->prepared + I8_DEPTHWISE_VALUES);
        I8_FOR(v, 4) i8_depthwise_finish(&s->start[v], t->prepared + I8_DEPTHWISE_VALUES + v * 4 * I8_LANES, I8_STRIDED,
                                         16 * I8_LANES);
    }
    for (int line = 0; line < t->together; ++line) {
        const uint8_t *const *lines = t->line + line * t->line_stride, *src[I8_STRIDED];
        uint8_t copy[I8_STRIDED][2][I8_DEPTHWISE_CHANNELS];
        ptrdiff_t step[I8_STRIDED];
        i8_vec before[I8_STRIDED][2];
        for (int l = 0; l < I8_STRIDED; ++l) {
            i8_vec x[2];
            I8_FOR(i, 2) {
                x[i] = i8_load(i8_depthwise_column(t, lines[l], i, whole, copy[l][i]));
                if (flips)
                    x[i] = i8_xor(x[i], i8_set_8(0x80));
            }
            I8_FOR(half, 2) before[l][half] = i8_interleave_pair(x[0], x[1], half);
        }
        for (int pixel = 0, end; pixel < t->pixels; pixel = end) {
            const int inside = pixel >= low && pixel < high, column = 2 * pixel + 2;
            end = !inside ? pixel + 1 : high < t->pixels ? high : t->pixels;
            for (int l = 0; l < I8_STRIDED; ++l) {
                src[l] = i8_depthwise_column(t, lines[l], column, whole, copy[l][0]);
                step[l] = lines[l] ? t->column_step : 0;
                if (inside)
                    continue;
                I8_FOR(i, 2)
                    i8_store(copy[l][i], i8_load(i8_depthwise_column(t, lines[l], column + i, whole, copy[l][i])));
                src[l] = copy[l][0];
                step[l] = I8_DEPTHWISE_CHANNELS;
            }
            run[flips][kind](t, s, line, pixel, end, src, step, before);
        }
    }
}

#undef I8_DEPTHWISE_FEW
#undef I8_DEPTHWISE_SUMS
