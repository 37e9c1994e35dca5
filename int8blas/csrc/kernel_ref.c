/* Portable C for every other CPU, and the reference: plain loops, of which the compiler makes what the baseline of the
 * target allows. */
#include "kernel_table.h"
#include <math.h>
#include <string.h>

#define I8_LANES 1
#define I8_MR 4
#define I8_NP 1
#define I8_ROW_NP I8_NP

static int32_t i8_sat16(int32_t x) { return x > INT16_MAX ? INT16_MAX : x < INT16_MIN ? INT16_MIN : x; }

static int32_t i8_dot4(const uint8_t *a, const int8_t *b)
{
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2] + a[3] * b[3];
}

static int32_t i8_dot4_sat(const uint8_t *a, const int8_t *b)
{
    return i8_sat16(a[0] * b[0] + a[1] * b[1]) + i8_sat16(a[2] * b[2] + a[3] * b[3]);
}

/* u32 sums wrap without undefined behaviour. */
I8_INLINE void i8_ref_tile(const i8_tile_args *t, const int64_t tile, const int mr,
                           int32_t (*dot)(const uint8_t *, const int8_t *))
{
    uint32_t acc[I8_MR][I8_PANEL];
    const int64_t row = t->beside ? 0 : tile * mr, column = t->beside ? tile * I8_PANEL : 0;
    const uint8_t *first = t->beside ? t->a : t->a + tile * t->a_tile;
    const int8_t *b = t->beside ? t->b + tile * t->b_panel : t->b;
    for (int i = 0; i < mr; ++i)
        for (int j = 0; j < I8_PANEL; ++j)
            acc[i][j] = (uint32_t)(t->acc_in ? t->acc_in[(row + i) * t->acc_row + column + j] : 0) +
                        (uint32_t)(t->row_init ? t->row_init[row + i] : 0) +
                        (uint32_t)(t->col_init ? t->col_init[column + j] : 0);
    const int64_t whole = t->groups * (t->more_segments + 1), all = whole + (t->a_tail ? 1 : 0);
    for (int64_t g = 0; g < all; ++g, b += 4 * I8_PANEL) {
        if (g > 0 && g < whole && g % t->groups == 0)
            b += t->b_segment;
        for (int i = 0; i < mr; ++i) {
            uint8_t a[4];
            const void *from;
            if (g < whole)
                from = first + i * t->a_row + g / t->groups * t->a_segment + g % t->groups * t->a_group;
            else
                from = t->a_tail + row + i;
            memcpy(a, from, 4);
            for (int j = 0; j < I8_PANEL; ++j)
                acc[i][j] += (uint32_t)dot(a, b + 4 * j);
        }
    }
    for (int i = 0; i < mr; ++i)
        for (int j = 0; j < t->cols; ++j)
            t->dst[(row + i) * t->dst_row + column + j] = (int32_t)acc[i][j];
}

I8_INLINE void i8_ref_tiles(const i8_tile_args *t, const int mr, int32_t (*dot)(const uint8_t *, const int8_t *))
{
    for (int64_t tile = 0; tile < t->tiles; ++tile)
        i8_ref_tile(t, tile, mr, dot);
}

#define I8_DEFINE(mr)                                                                                                  \
    static void i8_ref_dot4_##mr##x1(const i8_tile_args *t) { i8_ref_tiles(t, mr, i8_dot4); }                          \
    static void i8_ref_dot4_sat_##mr##x1(const i8_tile_args *t) { i8_ref_tiles(t, mr, i8_dot4_sat); }
I8_DEFINE(1)
I8_DEFINE(2)
I8_DEFINE(3)
I8_DEFINE(4)

#include "eltwise_body.h"

/* A chunk of 16 f32; i8_floats_* as in vectors_avx512.h. */
typedef struct {
    float lane[I8_CHUNK];
} i8_floats;

#define I8_LANEWISE(expression)                                                                                        \
    i8_floats result;                                                                                                  \
    for (int v = 0; v < I8_CHUNK; ++v)                                                                                 \
        result.lane[v] = (expression);                                                                                 \
    return result
static i8_floats i8_floats_load(const float *p) /* which may be unaligned */
{
    i8_floats result;
    memcpy(&result, p, sizeof result);
    return result;
}
static i8_floats i8_floats_from(const int32_t *p) /* as above */
{
    int32_t words[I8_CHUNK];
    memcpy(words, p, sizeof words);
    I8_LANEWISE((float)words[v]);
}
static i8_floats i8_floats_minus(const int32_t *p, int32_t largest)
{
    int32_t words[I8_CHUNK];
    memcpy(words, p, sizeof words);
    /* No 0.0f - x, of which GCC 12 makes -x. */
    I8_LANEWISE(words[v] == largest ? 0.0f : -(float)((uint32_t)largest - (uint32_t)words[v]));
}
static i8_floats i8_floats_from_u8(const uint8_t *p) { I8_LANEWISE((float)p[v]); }
static i8_floats i8_floats_from_s8(const int8_t *p) { I8_LANEWISE((float)p[v]); }
static uint16_t i8_half_at(const char *p)
{
    uint16_t half;
    memcpy(&half, p, sizeof half);
    return half;
}
static i8_floats i8_floats_from_f16(const char *p) { I8_LANEWISE(i8_from_half(i8_half_at(p + 2 * v))); }
static i8_floats i8_floats_from_bf16(const char *p) { I8_LANEWISE(i8_from_bfloat(i8_half_at(p + 2 * v))); }
static i8_floats i8_floats_from_less(const int32_t *p, int32_t a, const int32_t *q)
{
    I8_LANEWISE((float)(int32_t)((uint32_t)p[v] - (uint32_t)a * (uint32_t)q[v]));
}
static i8_floats i8_floats_from_difference(const int32_t *p, const int32_t *q)
{
    I8_LANEWISE((float)(int32_t)((uint32_t)p[v] - (uint32_t)q[v]));
}
static i8_floats i8_floats_set(float x) { I8_LANEWISE(x); }
static i8_floats i8_floats_add(i8_floats x, i8_floats y) { I8_LANEWISE(x.lane[v] + y.lane[v]); }
static i8_floats i8_floats_mul(i8_floats x, i8_floats y) { I8_LANEWISE(x.lane[v] * y.lane[v]); }
static i8_floats i8_floats_min(i8_floats x, i8_floats y) { I8_LANEWISE(x.lane[v] < y.lane[v] ? x.lane[v] : y.lane[v]); }
static i8_floats i8_floats_max(i8_floats x, i8_floats y) { I8_LANEWISE(x.lane[v] > y.lane[v] ? x.lane[v] : y.lane[v]); }
static float i8_floats_sum(i8_floats x)
{
    for (int width = I8_CHUNK / 2; width > 0; width /= 2)
        for (int v = 0; v < width; ++v)
            x.lane[v] += x.lane[v + width];
    return x.lane[0];
}
static i8_floats i8_floats_largest(i8_floats x, i8_floats y)
{
    I8_LANEWISE(fabsf(y.lane[v]) <= x.lane[v] || x.lane[v] != x.lane[v] ? x.lane[v] : fabsf(y.lane[v]));
}
static i8_floats i8_floats_relu(i8_floats x) { I8_LANEWISE(x.lane[v] < 0 ? 0.0f : x.lane[v]); }
static i8_floats i8_floats_ordered(i8_floats x) { I8_LANEWISE(x.lane[v] == x.lane[v] ? x.lane[v] : 0.0f); }
static void i8_floats_store(float *p, i8_floats x) { memcpy(p, &x, sizeof(x)); }
static void i8_floats_store_rounded(uint8_t *p, i8_floats x, uint8_t flip)
{
    for (int v = 0; v < I8_CHUNK; ++v)
        p[v] = (uint8_t)(int32_t)rintf(x.lane[v]) ^ flip;
}
static void i8_floats_store_bytes(uint8_t *p, i8_floats x, float low, float high, int is_signed)
{
    (void)is_signed;
    for (int v = 0; v < I8_CHUNK; ++v) {
        const float y = x.lane[v] < high ? x.lane[v] : high;
        p[v] = (uint8_t)(int32_t)rintf(y > low ? y : low);
    }
}
static void i8_floats_store_f16(char *p, i8_floats x)
{
    uint16_t halves[I8_CHUNK];
    I8_EACH halves[v] = i8_to_half(x.lane[v]);
    memcpy(p, halves, sizeof halves);
}
static void i8_floats_store_bf16(char *p, i8_floats x)
{
    uint16_t halves[I8_CHUNK];
    I8_EACH halves[v] = i8_to_bfloat(x.lane[v]);
    memcpy(p, halves, sizeof halves);
}
static void i8_floats_store_s32(char *p, i8_floats x)
{
    int32_t words[I8_CHUNK];
    I8_EACH
    {
        const float y = x.lane[v] > -0x1p31f ? x.lane[v] : -0x1p31f;
        words[v] = y < 0x1p31f ? (int32_t)rintf(y) : INT32_MAX;
    }
    memcpy(p, words, sizeof words);
}

#include "requantize_body.h"
#include "epilogue_body.h"
#include "pack_body.h"
#include "quantize_body.h"
#include "pool_body.h"
#include "chain_body.h"
#include "normalize_body.h"
#include "cell_body.h"

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
                    const int inside = t->line[i] && column >= t->first && column < t->end;
                    const uint8_t *src = inside ? t->line[i] + column * t->column_step : t->padding;
                    const int8_t *w = weights + i / I8_GROUP * I8_GROUP * I8_PANEL + c % I8_PANEL * I8_GROUP;
                    sum += (src[c] ^ t->flip) * w[i % I8_GROUP];
                }
            }
            t->dst[p * I8_MAX_DEPTHWISE + c] = sum;
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

static uint32_t i8_read(const uint8_t *p, ptrdiff_t gap, ptrdiff_t step, int64_t count)
{
    uint64_t sum[4] = {0}, word;
    for (; count > 0; --count, p += step)
        for (int j = 0; j < 4; ++j) {
            memcpy(&word, p + j * gap, sizeof word);
            sum[j] += word;
        }
    return (uint32_t)(sum[0] + sum[1] + sum[2] + sum[3]);
}

static int supported(void) { return 1; }

const i8_kernels i8_kernels_ref = {
    .name = "ref",
    .supported = supported,
    .mr = I8_MR,
    .np = I8_NP,
    .row_np = I8_ROW_NP,
    .exact = I8_DOT4,
    .a_bytes = 64 << 10,
    .kc = 512,
    .nc = 32,
    .thread_work = 2e5,
    .tiny_work = 1 << 16,
    .tile = {[I8_DOT4] = I8_TILES_4X1(i8_ref_dot4), [I8_DOT4_SAT] = I8_TILES_4X1(i8_ref_dot4_sat)},
    .depthwise_channels = I8_MAX_DEPTHWISE,
    .depthwise_lines = I8_GROUP,
    .depthwise = i8_depthwise,
    .grouped_pixels = 1,
    .grouped_channels = I8_MAX_GROUPED,
    .grouped = i8_grouped,
    I8_COMMON_SLOTS,
    I8_ELEMENT_SLOTS,
    I8_POOL_SLOTS,
    I8_CHAIN_SLOTS(i8_lookup),
    I8_NORMALIZE_SLOTS,
    I8_CELL_SLOTS,
    .read = i8_read,
    .read_bytes = sizeof(uint64_t),
};
