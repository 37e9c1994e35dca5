/* The epilogue of the depthwise kernels that leave channels in the order of i8_interleave: unit u (128 bits) of vector
 * v has the channels from 16 * u + 4 * v on. The values of the epilogue are also stored in the order of i8_interleave.
 * Packing to bytes restores the order of the channels. The including file defines I8_DEPTHWISE_CHANNELS and
 * I8_DEPTHWISE_PIXELS. */
#include "core/copy_part.h"

/* The kinds of results. WORDS stands for s32, f32 and sums without an epilogue, S8 and U8 for bytes, and U8_ONLY for u8
 * if all zero points are 0. */
enum { I8_OUTPUT_WORDS, I8_OUTPUT_S8, I8_OUTPUT_U8, I8_OUTPUT_U8_ONLY };

/* The epilogue's values for the channels, in the order of the sums, at the start of i8_depthwise_args.prepared. */
typedef struct {
    i8_vec start[4], low;
    float scale[I8_DEPTHWISE_CHANNELS], bias[I8_DEPTHWISE_CHANNELS];
    float dst_scale[I8_DEPTHWISE_CHANNELS], dst_zero[I8_DEPTHWISE_CHANNELS];
    float rounder;
    int kind; /* I8_OUTPUT_WORDS and so on */
} i8_depthwise_values;
_Static_assert(sizeof(i8_depthwise_values) <= I8_DEPTHWISE_VALUES, "room for the values of the channels");

I8_INLINE int i8_output_kind(const i8_tile_output *o)
{
    const int type = o ? o->epilogue->type : I8_TYPE_S32;
    if (type != I8_TYPE_U8 && type != I8_TYPE_S8)
        return I8_OUTPUT_WORDS;
    return type == I8_TYPE_S8 ? I8_OUTPUT_S8 : o->epilogue->stage->shifts ? I8_OUTPUT_U8 : I8_OUTPUT_U8_ONLY;
}

I8_INLINE void i8_depthwise_order_floats(float *dst, const i8_column_values *values, int64_t column, int channels)
{
    float copy[I8_DEPTHWISE_CHANNELS];
    const float *src = values->values + values->step * column;
    if (!values->step) {
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
    const int kind = i8_output_kind(o);
    if (kind == I8_OUTPUT_WORDS)
        memset(s, 0, sizeof *s);
    s->kind = kind;
    I8_FOR(v, 4) s->start[v] = t->start ? i8_load_units(t->start + 4 * v, 16 * sizeof(int32_t)) : i8_zero();
    if (kind == I8_OUTPUT_WORDS)
        return;
    const i8_epilogue *e = o->epilogue;
    const i8_stage *stage = e->stage;
    if (e->co_cols)
        I8_FOR(v, 4)
            s->start[v] = i8_add(s->start[v], i8_load_units(e->co_cols + o->column + 4 * v, 16 * sizeof(int32_t)));
    i8_depthwise_order_floats(s->scale, &stage->scale, o->column, t->channels);
    i8_depthwise_order_floats(s->bias, &stage->bias, o->column, t->channels);
    i8_depthwise_order_floats(s->dst_scale, &stage->dst_scale, o->column, t->channels);
    i8_depthwise_order_floats(s->dst_zero, &stage->dst_zero, o->column, t->channels);
    s->rounder = stage->rounder;
    /* With ReLU the smallest result is the zero point. The zero point may be out of the range of bytes, so it is
     * clipped to this range. */
    const i8_f32 smallest = i8_set_f32(e->type == I8_TYPE_U8 ? 0 : -128);
    const i8_f32 largest = i8_set_f32(e->type == I8_TYPE_U8 ? 255 : 127), rounder = i8_set_f32(stage->rounder);
    i8_vec low[4];
    I8_FOR(v, 4) {
        const i8_f32 zero = i8_min_f32(i8_add_f32(i8_load_f32(s->dst_zero + v * I8_LANES), rounder), largest);
        low[v] = i8_round_within_s32(stage->relu ? i8_max_f32(smallest, zero) : smallest);
    }
    s->low = e->type == I8_TYPE_U8 ? i8_pack_u8(low) : i8_pack_s8(low);
}

/* Apply the epilogue to the sums of `pixels` pixels and store bytes. Clipping before rounding is exact, because the
 * bounds are whole numbers. Without `shifts` the zero point is 0 and the result is u8. NaN becomes the lowest byte. */
I8_INLINE void i8_depthwise_bytes(const i8_depthwise_values *s, char *c, ptrdiff_t c_row, const i8_vec *acc,
                                  const int pixels, int channels, const int is_signed, const int shifts)
{
    i8_vec y[I8_DEPTHWISE_PIXELS][4];
    const i8_f32 high = i8_set_f32(is_signed ? 127 : 255), rounder = i8_set_f32(s->rounder);
    const int rounds = s->rounder > 0; /* a predicted branch is faster than adding -0.0 */
    I8_FOR(v, 4) {
        const i8_f32 scale = i8_load_f32(s->scale + v * I8_LANES), bias = i8_load_f32(s->bias + v * I8_LANES);
        const i8_f32 dst_scale = i8_load_f32(s->dst_scale + v * I8_LANES);
        I8_FOR(p, pixels) {
            i8_f32 x = i8_add_f32(i8_mul_f32(i8_to_f32(acc[p * 4 + v]), scale), bias);
            x = i8_mul_f32(x, dst_scale);
            if (shifts)
                x = i8_add_f32(rounds ? i8_add_f32(x, rounder) : x, i8_load_f32(s->dst_zero + v * I8_LANES));
            y[p][v] = i8_round_within_s32(i8_min_f32(high, x));
        }
    }
    I8_FOR(p, pixels) {
        i8_vec bytes = is_signed ? i8_pack_s8(y[p]) : i8_pack_u8(y[p]);
        if (shifts)
            bytes = is_signed ? i8_max_s8(bytes, s->low) : i8_max_u8(bytes, s->low);
        /* Lanes after the last channel may spill into the next pixels of this call, which are stored later. */
        if (channels == I8_DEPTHWISE_CHANNELS ||
            (c_row == channels && (pixels - p) * channels >= I8_DEPTHWISE_CHANNELS)) {
            i8_store(c + p * c_row, bytes);
        } else {
            char copy[I8_DEPTHWISE_CHANNELS], *to = c + p * c_row;
            int done = 0;
            i8_store(copy, bytes);
            if (channels > 32) {
                /* Some CPUs store 64 bytes as two halves, and a later load that needs both halves waits for both. */
                memcpy(to, copy, 32);
                done = 32;
            }
            i8_copy_part(to + done, copy + done, channels - done);
        }
    }
}

/* Restore the order of the sums, 4 vectors for each of `pixels` outputs. Then store the sums, or apply an epilogue that
 * gives s32 or f32. */
static void i8_depthwise_words(const i8_depthwise_args *t, int line, int pixel, i8_vec *acc, int pixels)
{
    for (int p = 0; p < pixels; ++p)
        i8_transpose_units(acc + 4 * p);
    if (t->output) {
        char *c = t->output->c + line * t->c_line + pixel * t->output->c_row;
        i8_apart_output_stage(t->output, c, 0, 0, acc, 4, pixels, 4);
        return;
    }
    int32_t *dst = t->dst + (line * t->pixels + pixel) * I8_MAX_DEPTHWISE;
    for (int p = 0; p < pixels; ++p, dst += I8_MAX_DEPTHWISE)
        I8_FOR(v, 4) i8_store(dst + v * I8_LANES, acc[4 * p + v]);
}

/* Store `pixels` successive outputs of a line. */
I8_INLINE void i8_depthwise_output(const i8_depthwise_args *t, const i8_depthwise_values *s, int line, int pixel,
                                   i8_vec acc[I8_DEPTHWISE_PIXELS][4], const int pixels)
{
    const i8_tile_output *o = t->output;
    const int kind = s->kind;
    if (kind != I8_OUTPUT_WORDS) {
        char *c = o->c + line * t->c_line + pixel * o->c_row;
        if (kind == I8_OUTPUT_S8)
            i8_depthwise_bytes(s, c, o->c_row, acc[0], pixels, t->channels, 1, 1);
        else if (kind == I8_OUTPUT_U8)
            i8_depthwise_bytes(s, c, o->c_row, acc[0], pixels, t->channels, 0, 1);
        else
            i8_depthwise_bytes(s, c, o->c_row, acc[0], pixels, t->channels, 0, 0);
        return;
    }
    i8_vec sums[I8_DEPTHWISE_PIXELS][4];
    I8_FOR(p, pixels) I8_FOR(v, 4) sums[p][v] = acc[p][v];
    i8_depthwise_words(t, line, pixel, sums[0], pixels);
}
