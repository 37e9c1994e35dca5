/* Products of wide elements, for an instruction set with vectors. */
#include "isa/set.h"

#ifdef I8_LANES
#include "gemm/wide_body.h"

#ifndef I8_DOT_PAIRS
#define I8_DOT_PAIRS(acc, a, b) (acc) = i8_dot2(acc, a, b)
#endif

#define I8_WIDE_LANES (I8_LANES / 2) /* number of lanes of 64 bits */

#ifdef I8_AARCH64
#define I8_S64(x) ((int64x2_t)(x))
#define I8_F64(x) ((float64x2_t)(x))
I8_INLINE i8_vec i8_wide_broadcast(const char *p)
{
    int64_t x;
    memcpy(&x, p, sizeof x);
    return i8_twice((int32x4_t)vdupq_n_s64(x));
}
I8_INLINE i8_vec i8_add_64(i8_vec x, i8_vec y)
{
    return I8_VEC(vaddq_s64(I8_S64(x.low), I8_S64(y.low)), vaddq_s64(I8_S64(x.high), I8_S64(y.high)));
}
I8_INLINE i8_vec i8_madd_s32(i8_vec acc, i8_vec a, i8_vec b)
{
    return I8_VEC(vmlal_s32(I8_S64(acc.low), vmovn_s64(I8_S64(a.low)), vmovn_s64(I8_S64(b.low))),
                  vmlal_s32(I8_S64(acc.high), vmovn_s64(I8_S64(a.high)), vmovn_s64(I8_S64(b.high))));
}
I8_INLINE i8_vec i8_madd_u32(i8_vec acc, i8_vec a, i8_vec b)
{
    return I8_VEC(vmlal_u32(I8_U64(acc.low), vmovn_u64(I8_U64(a.low)), vmovn_u64(I8_U64(b.low))),
                  vmlal_u32(I8_U64(acc.high), vmovn_u64(I8_U64(a.high)), vmovn_u64(I8_U64(b.high))));
}
I8_INLINE i8_vec i8_swap_halves(i8_vec x) { return I8_VEC(vrev64q_s32(x.low), vrev64q_s32(x.high)); }
I8_INLINE i8_vec i8_madd_halves(i8_vec acc, i8_vec a, i8_vec b)
{
    return I8_VEC(vmlaq_s32(acc.low, a.low, b.low), vmlaq_s32(acc.high, a.high, b.high));
}
/* Return the sum of both halves of each 64-bit lane, in its upper half. */
I8_INLINE i8_vec i8_upper_sum(i8_vec x)
{
    return I8_VEC(vshlq_n_u64(vpaddlq_u32(I8_U32(x.low)), 32), vshlq_n_u64(vpaddlq_u32(I8_U32(x.high)), 32));
}
/* Convert the halves of a vector of s32 to s64. */
I8_INLINE void i8_widen_64(i8_vec x, i8_vec *low, i8_vec *high)
{
    *low = I8_VEC(vmovl_s32(vget_low_s32(x.low)), vmovl_high_s32(x.low));
    *high = I8_VEC(vmovl_s32(vget_low_s32(x.high)), vmovl_high_s32(x.high));
}
I8_INLINE i8_vec i8_upper_halves(i8_vec x) { return I8_VEC(vshrq_n_s32(x.low, 16), vshrq_n_s32(x.high, 16)); }
I8_INLINE i8_vec i8_up_32(i8_vec x) { return I8_VEC(vshlq_n_s32(x.low, 16), vshlq_n_s32(x.high, 16)); }
I8_INLINE i8_vec i8_up_64(i8_vec x) { return I8_VEC(vshlq_n_s64(I8_S64(x.low), 16), vshlq_n_s64(I8_S64(x.high), 16)); }
I8_INLINE i8_vec i8_madd_f64(i8_vec acc, i8_vec a, i8_vec b)
{
    return I8_VEC(vfmaq_f64(I8_F64(acc.low), I8_F64(a.low), I8_F64(b.low)),
                  vfmaq_f64(I8_F64(acc.high), I8_F64(a.high), I8_F64(b.high)));
}
I8_INLINE i8_vec i8_add_f64(i8_vec x, i8_vec y)
{
    return I8_VEC(vaddq_f64(I8_F64(x.low), I8_F64(y.low)), vaddq_f64(I8_F64(x.high), I8_F64(y.high)));
}
#else
#define i8_wide_broadcast(p) i8_broadcast_64(p)
#if I8_LANES == 16
#define I8_AS_F64(x) _mm512_castsi512_pd(x)
#define I8_OF_F64(x) _mm512_castpd_si512(x)
#else
#define I8_AS_F64(x) _mm256_castsi256_pd(x)
#define I8_OF_F64(x) _mm256_castpd_si256(x)
#endif
I8_INLINE i8_vec i8_add_64(i8_vec x, i8_vec y) { return I8_MM(add_epi64)(x, y); }
I8_INLINE i8_vec i8_madd_s32(i8_vec acc, i8_vec a, i8_vec b) { return i8_add_64(acc, I8_MM(mul_epi32)(a, b)); }
#if I8_LANES != 16
I8_INLINE i8_vec i8_madd_u32(i8_vec acc, i8_vec a, i8_vec b) { return i8_add_64(acc, I8_MM(mul_epu32)(a, b)); }
#endif
I8_INLINE i8_vec i8_swap_halves(i8_vec x) { return I8_MM(shuffle_epi32)(x, 0xb1); }
I8_INLINE i8_vec i8_madd_halves(i8_vec acc, i8_vec a, i8_vec b) { return i8_add(acc, I8_MM(mullo_epi32)(a, b)); }
I8_INLINE i8_vec i8_upper_sum(i8_vec x) { return I8_MM(slli_epi64)(i8_add(x, I8_MM(srli_epi64)(x, 32)), 32); }
/* Convert the halves of a vector of s32 to s64. */
I8_INLINE void i8_widen_64(i8_vec x, i8_vec *low, i8_vec *high)
{
    *low = I8_MM(cvtepi32_epi64)(i8_half_of(x, 0));
    *high = I8_MM(cvtepi32_epi64)(i8_half_of(x, 1));
}
/* Return the upper halves of s32, with their sign. */
I8_INLINE i8_vec i8_upper_halves(i8_vec x) { return I8_MM(srai_epi32)(x, 16); }
/* Multiply each lane of x by 2**16: i8_up_32 takes lanes of 32 bits, i8_up_64 lanes of 64 bits. */
I8_INLINE i8_vec i8_up_32(i8_vec x) { return I8_MM(slli_epi32)(x, 16); }
I8_INLINE i8_vec i8_up_64(i8_vec x) { return I8_MM(slli_epi64)(x, 16); }
I8_INLINE i8_vec i8_madd_f64(i8_vec acc, i8_vec a, i8_vec b)
{
    return I8_OF_F64(I8_MM(fmadd_pd)(I8_AS_F64(a), I8_AS_F64(b), I8_AS_F64(acc)));
}
I8_INLINE i8_vec i8_add_f64(i8_vec x, i8_vec y) { return I8_OF_F64(I8_MM(add_pd)(I8_AS_F64(x), I8_AS_F64(y))); }
#endif

/* AVX-512 multiplies integers of 64 bits in one instruction. Other CPUs multiply halves of 32 bits: a * b modulo 2**64
 * is the product of the lower halves, plus 2**32 times the sum of the two products of a lower and an upper half.
 * Products of a lower and an upper half have separate sums of 32 bits. */
#if defined(I8_X86_64) && I8_LANES == 16
#define I8_WIDE_HALVES 0
#define I8_MADD_64(acc, a, b) (acc) = i8_add_64(acc, _mm512_mullo_epi64(a, b))
#else
#define I8_WIDE_HALVES 1
#define I8_MADD_64(acc, a, b) (acc) = i8_madd_u32(acc, a, b)
#endif

/* Tiles have 3 vectors of columns with AVX-512, otherwise 2 vectors. Tiles that keep two sums for each element are
 * smaller than tiles with one sum. */
#if I8_LANES == 16
enum { I8_WIDE_ROWS = 8, I8_WIDE_VECS = 3, I8_WIDE_ROWS_64 = 8, I8_WIDE_VECS_64 = 3 };
enum { I8_WIDE_ROWS_FULL = 6, I8_WIDE_VECS_FULL = 2 };
#else
enum { I8_WIDE_ROWS = 6, I8_WIDE_VECS = 2, I8_WIDE_ROWS_64 = 4, I8_WIDE_VECS_64 = 1 };
enum { I8_WIDE_ROWS_FULL = 4, I8_WIDE_VECS_FULL = 1 };
#endif

/* Store or add a vector of sums. */
I8_INLINE void i8_wide_put(int64_t *c, i8_vec x, int add, const int is_f64)
{
    if (add)
        x = is_f64 ? i8_add_f64(i8_load(c), x) : i8_add_64(i8_load(c), x);
    i8_store(c, x);
}

/* Store or add the sums of a tile whose last vector is incomplete. */
I8_NOINLINE void i8_wide_put_some(const i8_wide_tile_args *t, const int64_t *sums, int width, const int is_f64)
{
    for (int i = 0; i < t->rows; ++i, sums += width) {
        int64_t *c = (int64_t *)t->c + i * t->c_row;
        for (int j = 0; j < t->cols; ++j) {
            if (!t->add)
                c[j] = sums[j];
            else if (is_f64)
                ((double *)t->c)[i * t->c_row + j] += ((const double *)(const void *)sums)[j];
            else
                c[j] = (int64_t)((uint64_t)c[j] + (uint64_t)sums[j]);
        }
    }
}

/* A term is the sum of two products, minus 1. `sums` has the sums of terms modulo 2**32, and `upper` has the sums of
 * the upper halves of terms. Convert the sums to s64, and add the number of terms. The sums of the lower halves, sums -
 * 2**16 * upper, are u32. Subtracting 2**31 converts a sum from u32 to s32. */
I8_INLINE void i8_join_halves(i8_vec sums, i8_vec upper, int64_t groups, i8_vec *low, i8_vec *high)
{
    const int64_t shift = ((int64_t)1 << 31) + groups;
    const i8_vec back = i8_wide_broadcast((const char *)&shift);
    i8_vec upper_low, upper_high;
    i8_widen_64(i8_add(i8_sub(sums, i8_up_32(upper)), i8_set_32(INT32_MIN)), low, high);
    i8_widen_64(upper, &upper_low, &upper_high);
    *low = i8_add_64(i8_add_64(*low, i8_up_64(upper_low)), back);
    *high = i8_add_64(i8_add_64(*high, i8_up_64(upper_high)), back);
}

#define I8_WIDE_PAIRS(kind) ((kind) == I8_WIDE_S16 || (kind) == I8_WIDE_S16_FULL)
#define I8_WIDE_CROSS(kind) ((kind) == I8_WIDE_S64 && I8_WIDE_HALVES)

/* Store or add the sums of `rows` rows by `vecs` vectors of a tile. */
I8_INLINE void i8_wide_finish(const i8_wide_tile_args *t, i8_vec acc[I8_WIDE_MAX_ROWS][3],
                              i8_vec cross[I8_WIDE_MAX_ROWS][3], const int kind, const int rows, const int vecs)
{
    const int pairs = I8_WIDE_PAIRS(kind), lanes = pairs ? I8_LANES : I8_WIDE_LANES, whole = t->cols >= vecs * lanes;
    /* If C lacks columns of the vectors, `some` takes the sums before C. */
    int64_t some[I8_WIDE_MAX_TILE], *c = whole ? t->c : some;
    const ptrdiff_t c_row = whole ? t->c_row : vecs * lanes;
    const int add = whole && t->add;
    I8_FOR(i, rows) {
        if (i >= t->rows)
            break;
        I8_FOR(v, vecs) {
            int64_t *to = c + i * c_row + v * lanes;
            if (pairs) {
                i8_vec low, high;
                if (kind == I8_WIDE_S16_FULL)
                    i8_join_halves(acc[i][v], cross[i][v], t->groups, &low, &high);
                else
                    i8_widen_64(acc[i][v], &low, &high);
                i8_wide_put(to, low, add, 0);
                i8_wide_put(to + I8_WIDE_LANES, high, add, 0);
                continue;
            }
            if (I8_WIDE_CROSS(kind))
                acc[i][v] = i8_add_64(acc[i][v], i8_upper_sum(cross[i][v]));
            i8_wide_put(to, acc[i][v], add, kind == I8_WIDE_F64);
        }
    }
    if (!whole)
        i8_wide_put_some(t, some, vecs * lanes, kind == I8_WIDE_F64);
}

/* Compute `rows` rows by `vecs` vectors of a tile that is packed for `full` rows and `panel` vectors. */
I8_INLINE void i8_wide_part(const i8_wide_tile_args *t, const int kind, const int rows, const int vecs, const int full,
                            const int panel)
{
    const int pairs = I8_WIDE_PAIRS(kind), halves = I8_WIDE_CROSS(kind), size = pairs ? 4 : 8;
    /* 2 * (-32768)**2 is 2**31, which is 1 too large for s32, so sums of pairs begin at -1. */
    const i8_vec minus_one = i8_set_32(-1);
    const int step = pairs ? I8_PANEL * size : panel * (int)sizeof(i8_vec);
    i8_vec acc[I8_WIDE_MAX_ROWS][3], cross[I8_WIDE_MAX_ROWS][3];
    const char *a = t->a, *b = t->b;
    ptrdiff_t at[3];
    /* Vectors after the last column of C read the first vector of B. */
    I8_FOR(v, vecs) at[v] = v * (int)sizeof(i8_vec);
    if (pairs)
        I8_FOR(v, vecs) at[v] = v * I8_LANES < t->cols ? v * I8_LANES / I8_PANEL * t->panel + at[v] % step : 0;
    I8_FOR(i, rows) I8_FOR(v, vecs) acc[i][v] = cross[i][v] = i8_zero();
    for (int64_t g = 0; g < t->groups; ++g, a += full * size, b += step) {
        i8_vec y[3], swapped[3];
        I8_FOR(v, vecs) {
            y[v] = i8_load(b + at[v]);
            if (halves)
                swapped[v] = i8_swap_halves(y[v]);
            else
                I8_PIN(y[v]);
        }
        I8_FOR(i, rows) {
            const i8_vec x = pairs ? i8_broadcast(a + i * size) : i8_wide_broadcast(a + i * size);
            I8_FOR(v, vecs) {
                if (kind == I8_WIDE_S16)
                    I8_DOT_PAIRS(acc[i][v], x, y[v]);
                else if (kind == I8_WIDE_S16_FULL) {
                    i8_vec pair = minus_one;
                    I8_DOT_PAIRS(pair, x, y[v]);
                    acc[i][v] = i8_add(acc[i][v], pair);
                    cross[i][v] = i8_add(cross[i][v], i8_upper_halves(pair));
                    I8_PIN(cross[i][v]);
                }
                else if (kind == I8_WIDE_S32)
                    acc[i][v] = i8_madd_s32(acc[i][v], x, y[v]);
                else if (kind == I8_WIDE_F64)
                    acc[i][v] = i8_madd_f64(acc[i][v], x, y[v]);
                else
                    I8_MADD_64(acc[i][v], x, y[v]);
                I8_PIN(acc[i][v]);
                if (halves) {
                    cross[i][v] = i8_madd_halves(cross[i][v], x, swapped[v]);
                    I8_PIN(cross[i][v]);
                }
            }
        }
    }
    i8_wide_finish(t, acc, cross, kind, rows, vecs);
}

/* Compute only the rows and vectors that the tile has. */
I8_INLINE void i8_wide_tile(const i8_wide_tile_args *t, const int kind, const int rows, const int vecs)
{
    const int width = I8_WIDE_PAIRS(kind) ? I8_LANES : I8_WIDE_LANES, half = rows / 2;
    if (vecs > 1 && t->cols <= width) {
        if (t->rows == 1)
            i8_wide_part(t, kind, 1, 1, rows, vecs);
        else if (t->rows <= half)
            i8_wide_part(t, kind, half, 1, rows, vecs);
        else
            i8_wide_part(t, kind, rows, 1, rows, vecs);
    } else if (t->rows == 1)
        i8_wide_part(t, kind, 1, vecs, rows, vecs);
    else if (t->rows <= half)
        i8_wide_part(t, kind, half, vecs, rows, vecs);
    else
        i8_wide_part(t, kind, rows, vecs, rows, vecs);
}

static void i8_wide_s16(const i8_wide_tile_args *t) { i8_wide_tile(t, I8_WIDE_S16, I8_WIDE_ROWS, I8_WIDE_VECS); }
static void i8_wide_s16_full(const i8_wide_tile_args *t)
{
    i8_wide_tile(t, I8_WIDE_S16_FULL, I8_WIDE_ROWS_FULL, I8_WIDE_VECS_FULL);
}
static void i8_wide_s32(const i8_wide_tile_args *t) { i8_wide_tile(t, I8_WIDE_S32, I8_WIDE_ROWS, I8_WIDE_VECS); }
static void i8_wide_s64(const i8_wide_tile_args *t) { i8_wide_tile(t, I8_WIDE_S64, I8_WIDE_ROWS_64, I8_WIDE_VECS_64); }
static void i8_wide_f64(const i8_wide_tile_args *t) { i8_wide_tile(t, I8_WIDE_F64, I8_WIDE_ROWS, I8_WIDE_VECS); }

const i8_wide_kernels I8_TABLE(wide) = {
    .kinds = {{I8_WIDE_ROWS, I8_WIDE_VECS * I8_LANES, i8_wide_s16},
              {I8_WIDE_ROWS_FULL, I8_WIDE_VECS_FULL * I8_LANES, i8_wide_s16_full},
              {I8_WIDE_ROWS, I8_WIDE_VECS * I8_WIDE_LANES, i8_wide_s32},
              {I8_WIDE_ROWS_64, I8_WIDE_VECS_64 * I8_WIDE_LANES, i8_wide_s64},
              {I8_WIDE_ROWS, I8_WIDE_VECS * I8_WIDE_LANES, i8_wide_f64}},
    I8_WIDE_LOOPS,
};
I8_TARGET_END
#endif
