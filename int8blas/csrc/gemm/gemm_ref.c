/* Products in portable C, the reference. */
#include <string.h>

#include "isa/dot_ref.h"
#include "isa/names.h"

enum { I8_MR = 4 };

static int32_t i8_sat16(int32_t x) { return x > INT16_MAX ? INT16_MAX : x < INT16_MIN ? INT16_MIN : x; }

static int32_t i8_dot4_sat(const uint8_t *a, const int8_t *b)
{
    return i8_sat16(a[0] * b[0] + a[1] * b[1]) + i8_sat16(a[2] * b[2] + a[3] * b[3]);
}

/* Sums are u32, because overflow of signed integers is undefined. */
I8_INLINE void i8_ref_tile(const i8_tile_args *t, const int64_t tile, const int mr,
                           int32_t (*dot)(const uint8_t *, const int8_t *))
{
    uint32_t acc[I8_MR][I8_PANEL];
    const int64_t row = t->along_n ? 0 : tile * mr, column = t->along_n ? tile * I8_PANEL : 0;
    const uint8_t *first = t->along_n ? t->a.data : t->a.data + tile * t->a.tile;
    const int8_t *b = t->along_n ? t->b.data + tile * t->b.panel : t->b.data;
    for (int i = 0; i < mr; ++i)
        for (int j = 0; j < I8_PANEL; ++j)
            acc[i][j] = (uint32_t)(t->acc_in ? t->acc_in[(row + i) * t->acc_row + column + j] : 0) +
                        (uint32_t)(t->row_init ? t->row_init[row + i] : 0) +
                        (uint32_t)(t->col_init ? t->col_init[column + j] : 0);
    const int64_t whole = t->groups * (t->more_segments + 1), all = whole + (t->a.tail ? 1 : 0);
    for (int64_t g = 0; g < all; ++g, b += 4 * I8_PANEL) {
        if (g > 0 && g < whole && g % t->groups == 0)
            b += t->b.segment;
        for (int i = 0; i < mr; ++i) {
            uint8_t a[4];
            const void *from;
            if (g < whole)
                from = first + i * t->a.row + g / t->groups * t->a.segment + g % t->groups * t->a.group;
            else
                from = t->a.tail + row + i;
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

static const i8_tiles i8_exact_tiles = {{{i8_ref_dot4_1x1}, {i8_ref_dot4_2x1}, {i8_ref_dot4_3x1}, {i8_ref_dot4_4x1}}};
static const i8_tiles i8_saturating_tiles = {
    {{i8_ref_dot4_sat_1x1}, {i8_ref_dot4_sat_2x1}, {i8_ref_dot4_sat_3x1}, {i8_ref_dot4_sat_4x1}}};

/* Multiply one vector x by one vector y. */
I8_INLINE void i8_ref_long_k(const i8_long_k_args *t, const int x_signed, const int y_signed)
{
    for (int64_t k = 0; k < t->k; ++k)
        *t->dst += (x_signed ? (int8_t)t->x[k] : t->x[k]) * (y_signed ? (int8_t)t->y[k] : t->y[k]);
}

static void i8_ref_long_k_uu(const i8_long_k_args *t) { i8_ref_long_k(t, 0, 0); }
static void i8_ref_long_k_us(const i8_long_k_args *t) { i8_ref_long_k(t, 0, 1); }
static void i8_ref_long_k_su(const i8_long_k_args *t) { i8_ref_long_k(t, 1, 0); }
static void i8_ref_long_k_ss(const i8_long_k_args *t) { i8_ref_long_k(t, 1, 1); }

I8_INLINE void i8_ref_distances(const i8_distance_args *t, const int rows, const int x_signed, const int y_signed)
{
    for (int64_t j = 0; j < t->count; ++j) {
        const uint8_t *y = t->y + j * t->y_row;
        uint32_t sum = 0;
        for (int64_t k = 0; k < t->k; ++k) {
            const int x = rows == 0 ? 0 : x_signed ? (int8_t)t->x[k] : t->x[k];
            const int apart = x - (y_signed ? (int8_t)y[k] : y[k]);
            sum += (uint32_t)(apart * apart);
        }
        t->dst[j] = (int32_t)sum;
    }
}

static void i8_ref_squares_u(const i8_distance_args *t) { i8_ref_distances(t, 0, 0, 0); }
static void i8_ref_squares_s(const i8_distance_args *t) { i8_ref_distances(t, 0, 0, 1); }
static void i8_ref_distances_uu(const i8_distance_args *t) { i8_ref_distances(t, 1, 0, 0); }
static void i8_ref_distances_us(const i8_distance_args *t) { i8_ref_distances(t, 1, 0, 1); }
static void i8_ref_distances_su(const i8_distance_args *t) { i8_ref_distances(t, 1, 1, 0); }
static void i8_ref_distances_ss(const i8_distance_args *t) { i8_ref_distances(t, 1, 1, 1); }

static void i8_ref_column_squares(int32_t *squares, const int8_t *panel, int64_t groups, const int64_t *sums)
{
    (void)sums;
    for (int c = 0; c < I8_PANEL; ++c) {
        uint32_t sum = 0;
        for (int64_t g = 0; g < groups; ++g)
            for (int j = 0; j < 4; ++j) {
                const int b = panel[(g * I8_PANEL + c) * 4 + j];
                sum += (uint32_t)(b * b);
            }
        squares[c] = (int32_t)sum;
    }
}

static void i8_ref_stack(const i8_stack_args *t)
{
    for (int64_t index = 0; index < t->count; ++index)
        for (int i = 0; i < t->m; ++i)
            for (int j = 0; j < t->n; ++j) {
                const uint8_t *a = t->a.data + index * t->a.step + t->a.first + i * t->a.row;
                const uint8_t *b = t->b.data + index * t->b.step + t->b.first + j * t->b.column;
                int32_t sum = 0;
                for (int k = 0; k < t->k; ++k)
                    sum += ((a[k * t->a.column] ^ t->a.flip) - t->a.zero) * ((b[k * t->b.row] ^ t->b.flip) - t->b.zero);
                t->c[index * t->c_step + i * t->n + j] = sum;
            }
}

static uint32_t i8_ref_read(const uint8_t *p, ptrdiff_t gap, ptrdiff_t step, int64_t count)
{
    uint64_t sum[4] = {0}, word;
    for (; count > 0; --count, p += step)
        for (int j = 0; j < 4; ++j) {
            memcpy(&word, p + j * gap, sizeof word);
            sum[j] += word;
        }
    return (uint32_t)(sum[0] + sum[1] + sum[2] + sum[3]);
}

const i8_gemm_kernels i8_gemm_ref = {
    .mr = I8_MR,
    .np = 1,
    .row_np = 1,
    .exact = I8_DOT4,
    .tiles = {[I8_DOT4] = &i8_exact_tiles, [I8_DOT4_SAT] = &i8_saturating_tiles},
    .long_k = {1, 1, {{{{i8_ref_long_k_uu}}, {{i8_ref_long_k_us}}}, {{{i8_ref_long_k_su}}, {{i8_ref_long_k_ss}}}}},
    .distances.rows = 1,
    .distances.of = {{{i8_ref_squares_u, i8_ref_distances_uu}, {i8_ref_squares_s, i8_ref_distances_us}},
                  {{i8_ref_squares_u, i8_ref_distances_su}, {i8_ref_squares_s, i8_ref_distances_ss}}},
    .distances.column_squares = i8_ref_column_squares,
    .stack = i8_ref_stack,
    .limits = {.read = i8_ref_read, .read_bytes = sizeof(uint64_t)},
};
