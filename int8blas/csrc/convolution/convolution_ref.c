/* Convolutions in portable C: the reference. */
#include "convolution/depthwise_flat_args.h"
#include "isa/dot_ref.h"
#include "isa/names.h"

/* Return the offset of a column in a line, in bytes. */
static ptrdiff_t i8_depthwise_place(const i8_depthwise_args *t, int column)
{
    return t->padding ? column * t->column_step : i8_depthwise_flat_place(t, column);
}

static void i8_depthwise(const i8_depthwise_args *t)
{
    const ptrdiff_t tap_step = (t->lines + I8_GROUP - 1) / I8_GROUP * I8_GROUP * I8_PANEL;
    for (int p = 0; p < t->together * t->pixels; ++p)
        for (int c = 0; c < t->channels; ++c) {
            const int8_t *weights = t->weights + p / t->pixels * t->weights_step + c / I8_PANEL * t->panel_size;
            int32_t sum = t->start ? t->start[c] : 0;
            for (int tap = 0; tap < t->taps; ++tap, weights += tap_step) {
                const int column = p % t->pixels * t->stride + tap * t->dilation;
                for (int i = 0; i < t->lines; ++i) {
                    const int inside = !t->padding || (t->line[i] && column >= t->first && column < t->end);
                    const uint8_t *src = inside ? t->line[i] + i8_depthwise_place(t, column) : t->padding;
                    const int8_t *w = weights + i / I8_GROUP * I8_GROUP * I8_PANEL + c % I8_PANEL * I8_GROUP;
                    sum += (src[c] ^ t->flip) * w[i % I8_GROUP];
                }
            }
            if (t->padding)
                t->dst[p * I8_MAX_DEPTHWISE + c] = sum;
            else
                t->dst[p / t->pixels * i8_depthwise_flat_row(t) + p % t->pixels * t->channels + c] = sum;
        }
}

static void i8_grouped(const i8_grouped_args *t)
{
    const int lanes = t->size / 4;
    for (int p = 0; p < t->pixels; ++p)
        for (int c = 0; c < t->channels; c += t->size)
            for (int i = 0; i < t->size; ++i) {
                const int pass = i / 4, output = c + i8_grouped_output(t->size, pass, i % 4);
                const int8_t *weights = t->weights + ((pass * t->window + t->first) * 4 + i % 4) * 4 * I8_PANEL + c;
                uint32_t sum = t->start ? (uint32_t)t->start[output] : 0;
                for (int tap = 0; tap < t->lines * t->taps; ++tap, weights += 16 * I8_PANEL) {
                    const uint8_t *a = t->a + p * t->a_pixel + tap / t->taps * t->a_line + tap % t->taps * t->a_tap + c;
                    for (int lane = 0; lane < lanes; ++lane)
                        sum += (uint32_t)i8_dot4(a + 4 * lane, weights + 4 * lane);
                }
                t->dst[p * I8_MAX_GROUPED + output] = (int32_t)sum;
            }
}

const i8_convolution_kernels i8_convolution_ref = {
    .depthwise_channels = I8_MAX_DEPTHWISE,
    .depthwise_lines = I8_GROUP,
    .depthwise = i8_depthwise,
    .grouped_pixels = 1,
    .grouped_channels = I8_MAX_GROUPED,
    .grouped = i8_grouped,
};
