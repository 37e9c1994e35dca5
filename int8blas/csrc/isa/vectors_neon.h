/* i8_vec for AArch64: two registers of 128 bits, with 8 lanes. The 32 registers hold 16 vectors, and a panel is 2
 * vectors. A tile of 6 x 16 takes 15 vectors: 12 accumulators, 2 vectors of B and 1 vector of A. A "unit of 128 bits"
 * is a register. vectors_avx2.h and vectors_x86.h describe the functions that have no comment here.
 *
 * Maxima and minima of f32 follow MAXPS and MINPS, which return their second operand if an operand is NaN, and if both
 * are zeros of any sign. FMAX and FMIN return other values for NaN and for two zeros. */
#ifdef I8_AARCH64
#ifndef I8_TARGET
#ifdef __clang__
#define I8_TARGET "neon"
#else
#define I8_TARGET "+simd"
#endif
#endif
I8_TARGET_BEGIN(I8_TARGET)
#include <arm_neon.h>
#include <string.h>

#define I8_WIDTH_NAME neon
#define I8_LANES 8
#define I8_MR 6
#define I8_NP 1
#define I8_ROW_NP 3
#define I8_FEW_ROWS_MR 4
#define I8_DOT_ROWS 4
#define I8_DOT_SUMS 8
#define I8_SMALL_K_ROWS 2
#define I8_SMALL_K_GROUPS 4

#include "isa/units.h"

typedef struct {
    int32x4_t low, high;
} i8_vec;

/* Convert a register, or half of a register, to elements of another type. */
#define I8_U8(x) ((uint8x16_t)(x))
#define I8_S8(x) ((int8x16_t)(x))
#define I8_U16(x) ((uint16x8_t)(x))
#define I8_S16(x) ((int16x8_t)(x))
#define I8_U32(x) ((uint32x4_t)(x))
#define I8_S32(x) ((int32x4_t)(x))
#define I8_U64(x) ((uint64x2_t)(x))
#define I8_LOW_S16(x) vget_low_s16(I8_S16(x))
#define I8_HIGH_S16(x) vget_high_s16(I8_S16(x))

#define I8_VEC(low_, high_)                                                                                            \
    (i8_vec) { (int32x4_t)(low_), (int32x4_t)(high_) }
/* Define a function of one or two vectors from an intrinsic. */
#define I8_UNARY(name, type, f)                                                                                        \
    I8_INLINE i8_vec name(i8_vec x) { return I8_VEC(f((type)x.low), f((type)x.high)); }
#define I8_BINARY(name, type, f)                                                                                       \
    I8_INLINE i8_vec name(i8_vec x, i8_vec y)                                                                          \
    {                                                                                                                  \
        return I8_VEC(f((type)x.low, (type)y.low), f((type)x.high, (type)y.high));                                     \
    }

I8_INLINE i8_vec i8_twice(int32x4_t x) { return I8_VEC(x, x); }

/* GCC 12 moves a load before its condition, and then warns that the memory may be uninitialized. */
#if !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
I8_INLINE i8_vec i8_load(const void *p)
{
    i8_vec v;
    v.low = (int32x4_t)vld1q_u8((const uint8_t *)p);
    v.high = (int32x4_t)vld1q_u8((const uint8_t *)p + 16);
    return v;
}
#if !defined(__clang__)
#pragma GCC diagnostic pop
#endif
I8_INLINE void i8_store(void *p, i8_vec v)
{
    vst1q_u8((uint8_t *)p, I8_U8(v.low));
    vst1q_u8((uint8_t *)p + 16, I8_U8(v.high));
}
I8_INLINE i8_vec i8_zero(void) { return i8_twice(vdupq_n_s32(0)); }
I8_BINARY(i8_add, int32x4_t, vaddq_s32)
I8_INLINE void i8_store_some(int32_t *p, i8_vec v, int n)
{
    int32x4_t x = v.low;
    if (n >= 4) {
        vst1q_s32(p, x);
        if (n >= 8) {
            vst1q_s32(p + 4, v.high);
            return;
        }
        p += 4;
        x = v.high;
        n -= 4;
    }
    if (n <= 0)
        return;
    int32x2_t half = vget_low_s32(x);
    if (n >= 2) {
        vst1_s32(p, half);
        p += 2;
        half = vget_high_s32(x);
    }
    if (n % 2)
        vst1_lane_s32(p, half, 0);
}
I8_INLINE void i8_store_lanes(int32_t *p, i8_vec v, int from, int to)
{
    int32_t lanes[I8_LANES];
    i8_store(lanes, v);
    to = to < I8_LANES ? to : I8_LANES;
    for (int i = from > 0 ? from : 0; i < to; ++i)
        p[i] = lanes[i];
}
I8_INLINE i8_unit i8_load_bytes(const uint8_t *p, const int count) { return i8_load_first_bytes(p, count); }
I8_INLINE void i8_store_units(void *p, const i8_unit units[4])
{
    I8_FOR(u, 4) i8_store_unit((char *)p + 16 * u, units[u]);
}
/* Plain stores are enough: CPUs detect stores of whole cache lines, and do not read these lines first. */
I8_INLINE void i8_stream(void *p, i8_vec v) { i8_store(p, v); }

/* Store the dwords as s64. */
I8_INLINE void i8_store_s64(char *p, i8_vec v, const int stream)
{
    (void)stream;
    i8_store(p, I8_VEC(vmovl_s32(vget_low_s32(v.low)), vmovl_high_s32(v.low)));
    i8_store(p + 32, I8_VEC(vmovl_s32(vget_low_s32(v.high)), vmovl_high_s32(v.high)));
}
I8_INLINE i8_vec i8_broadcast(const void *p)
{
    int32_t x;
    memcpy(&x, p, sizeof x);
    return i8_twice(vdupq_n_s32(x));
}
#define I8_EVEN_U8(x) vandq_u16(I8_U16(x), vdupq_n_u16(0xff))
#define I8_ODD_U8(x) vshrq_n_u16(I8_U16(x), 8)
#define I8_EVEN_S8(x) vshrq_n_s16(vshlq_n_s16(I8_S16(x), 8), 8)
#define I8_ODD_S8(x) vshrq_n_s16(I8_S16(x), 8)
I8_UNARY(i8_even_u8, uint16x8_t, I8_EVEN_U8)
I8_UNARY(i8_odd_u8, uint16x8_t, I8_ODD_U8)
I8_UNARY(i8_even_s8, int16x8_t, I8_EVEN_S8)
I8_UNARY(i8_odd_s8, int16x8_t, I8_ODD_S8)
/* Products of u8 and s8 fit s16. Sums of two products saturate, as in VPMADDUBSW, or are modulo 2**16. */
#define I8_EVEN_PRODUCTS(a, b) vmulq_s16(I8_S16(I8_EVEN_U8(a)), I8_EVEN_S8(b))
#define I8_ODD_PRODUCTS(a, b) vmulq_s16(I8_S16(I8_ODD_U8(a)), I8_ODD_S8(b))
#define I8_PAIRS(a, b) vqaddq_s16(I8_EVEN_PRODUCTS(a, b), I8_ODD_PRODUCTS(a, b))
#define I8_ADD_PAIRS_16(sums, a, b)                                                                                    \
    vmlaq_s16(vmlaq_s16(sums, I8_S16(I8_EVEN_U8(a)), I8_EVEN_S8(b)), I8_S16(I8_ODD_U8(a)), I8_ODD_S8(b))
I8_INLINE i8_vec i8_dot4_sat(i8_vec acc, i8_vec a, i8_vec b)
{
    return I8_VEC(vpadalq_s16(acc.low, I8_PAIRS(a.low, b.low)), vpadalq_s16(acc.high, I8_PAIRS(a.high, b.high)));
}
I8_INLINE i8_vec i8_dot_16(i8_vec acc, i8_vec a, i8_vec b)
{
    return I8_VEC(I8_ADD_PAIRS_16(I8_S16(acc.low), a.low, b.low), I8_ADD_PAIRS_16(I8_S16(acc.high), a.high, b.high));
}
I8_INLINE i8_vec i8_dot8(i8_vec acc, i8_vec a, i8_vec b, i8_vec c, i8_vec d)
{
    const i8_vec sums = i8_dot_16(i8_dot_16(i8_zero(), a, b), c, d);
    return I8_VEC(vpadalq_s16(acc.low, I8_S16(sums.low)), vpadalq_s16(acc.high, I8_S16(sums.high)));
}
I8_INLINE int32x4_t i8_half_dot2(int32x4_t acc, int16x8_t a, int16x8_t b)
{
    return vaddq_s32(acc, vpaddq_s32(vmull_s16(vget_low_s16(a), vget_low_s16(b)), vmull_high_s16(a, b)));
}
I8_INLINE i8_vec i8_dot2(i8_vec acc, i8_vec a, i8_vec b)
{
    return I8_VEC(i8_half_dot2(acc.low, I8_S16(a.low), I8_S16(b.low)),
                  i8_half_dot2(acc.high, I8_S16(a.high), I8_S16(b.high)));
}
I8_INLINE int32x4_t i8_half_dot2_any(int32x4_t acc, int16x8_t a, int16x8_t b)
{
    return vmlal_high_s16(vmlal_s16(acc, vget_low_s16(a), vget_low_s16(b)), a, b);
}
I8_INLINE i8_vec i8_dot2_any(i8_vec acc, i8_vec a, i8_vec b)
{
    return I8_VEC(i8_half_dot2_any(acc.low, I8_S16(a.low), I8_S16(b.low)),
                  i8_half_dot2_any(acc.high, I8_S16(a.high), I8_S16(b.high)));
}

I8_BINARY(i8_xor, uint8x16_t, veorq_u8)
I8_BINARY(i8_and, uint8x16_t, vandq_u8)

#define I8_COUNT_BITS(acc, x) vaddq_u8(acc, vcntq_u8(x))
#define I8_SUM_BYTES(x) vpaddlq_u16(vpaddlq_u8(x))
I8_BINARY(i8_count_bits, uint8x16_t, I8_COUNT_BITS)
I8_UNARY(i8_sum_bytes, uint8x16_t, I8_SUM_BYTES)

I8_BINARY(i8_low_8, uint8x16_t, vzip1q_u8)
I8_BINARY(i8_high_8, uint8x16_t, vzip2q_u8)
I8_BINARY(i8_low_16, uint16x8_t, vzip1q_u16)
I8_BINARY(i8_high_16, uint16x8_t, vzip2q_u16)
I8_BINARY(i8_low_32, uint32x4_t, vzip1q_u32)
I8_BINARY(i8_high_32, uint32x4_t, vzip2q_u32)
I8_BINARY(i8_low_64, uint64x2_t, vzip1q_u64)
I8_BINARY(i8_high_64, uint64x2_t, vzip2q_u64)
#include "isa/interleave.h"

I8_INLINE i8_vec i8_add_columns(i8_vec acc, i8_vec low, i8_vec high, const int half)
{
    if (half)
        return I8_VEC(vmlal_n_s16(vaddw_high_s16(acc.low, I8_S16(low.low)), I8_HIGH_S16(high.low), 16),
                      vmlal_n_s16(vaddw_high_s16(acc.high, I8_S16(low.high)), I8_HIGH_S16(high.high), 16));
    return I8_VEC(vmlal_n_s16(vaddw_s16(acc.low, I8_LOW_S16(low.low)), I8_LOW_S16(high.low), 16),
                  vmlal_n_s16(vaddw_s16(acc.high, I8_LOW_S16(low.high)), I8_LOW_S16(high.high), 16));
}
I8_INLINE i8_vec i8_broadcast_16(const void *p)
{
    int16_t x;
    memcpy(&x, p, sizeof x);
    return i8_twice((int32x4_t)vdupq_n_s16(x));
}

I8_INLINE void i8_transpose_units(i8_vec *v)
{
    const i8_vec lo01 = I8_VEC(v[0].low, v[1].low), lo23 = I8_VEC(v[2].low, v[3].low);
    const i8_vec hi01 = I8_VEC(v[0].high, v[1].high), hi23 = I8_VEC(v[2].high, v[3].high);
    v[0] = lo01;
    v[1] = lo23;
    v[2] = hi01;
    v[3] = hi23;
}

I8_INLINE i8_vec i8_load_units(const void *p, ptrdiff_t step)
{
    return I8_VEC(i8_load_unit(p), i8_load_unit((const char *)p + step));
}

I8_INLINE void i8_add_units(int32_t *p, ptrdiff_t step, i8_vec x, const int units, int add)
{
    const int32x4_t unit[2] = {x.low, x.high};
    I8_FOR(u, 2) {
        int32_t *d = p + u * step;
        if (u < units)
            vst1q_s32(d, add ? vaddq_s32(vld1q_s32(d), unit[u]) : unit[u]);
    }
}

I8_INLINE i8_vec i8_repeat(const void *p, const int bytes)
{
    if (bytes == 4)
        return i8_broadcast(p);
    if (bytes == 8) {
        int64_t x;
        memcpy(&x, p, sizeof x);
        return i8_twice((int32x4_t)vdupq_n_s64(x));
    }
    return bytes == 16 ? i8_twice((int32x4_t)i8_load_unit(p)) : i8_load(p);
}
I8_INLINE i8_vec i8_repeat_some(const void *p, const int bytes, int valid)
{
    uint8_t some[4 * I8_LANES] = {0};
    for (int i = 0; i < valid; ++i)
        some[i] = ((const uint8_t *)p)[i];
    return i8_repeat(some, bytes);
}

/* i8_fold_lanes adds neighbouring lanes: each 128 bits get two sums of x, then two sums of y. i8_fold_units adds
 * neighbouring units of 128 bits, and returns the sum of x, then the sum of y. */
I8_BINARY(i8_fold_lanes, int32x4_t, vpaddq_s32)
I8_INLINE i8_vec i8_fold_units(i8_vec x, i8_vec y)
{
    return I8_VEC(vaddq_s32(x.low, x.high), vaddq_s32(y.low, y.high));
}
I8_INLINE i8_vec i8_take(i8_vec v, i8_vec index)
{
    const uint8x16x2_t table = {{I8_U8(v.low), I8_U8(v.high)}};
    const uint32x4_t first = vdupq_n_u32(0x03020100u);
    const uint32x4_t low = vmlaq_n_u32(first, I8_U32(index.low), 0x04040404u);
    const uint32x4_t high = vmlaq_n_u32(first, I8_U32(index.high), 0x04040404u);
    return I8_VEC(vqtbl2q_u8(table, I8_U8(low)), vqtbl2q_u8(table, I8_U8(high)));
}
I8_INLINE i8_vec i8_permute(i8_vec v, const int32_t *order) { return i8_take(v, i8_load(order)); }

I8_INLINE int32x4_t i8_half_widened(int32x4_t x, const int half)
{
    const int16x8_t words = half ? vuzp2q_s16(I8_S16(x), I8_S16(x)) : vuzp1q_s16(I8_S16(x), I8_S16(x));
    return (int32x4_t)vmovl_s8(vget_low_s8(I8_S8(words)));
}
I8_INLINE i8_vec i8_widen_pairs(i8_vec x, const int half)
{
    return I8_VEC(i8_half_widened(x.low, half), i8_half_widened(x.high, half));
}
I8_INLINE i8_vec i8_words_repeated(const void *p)
{
    uint32_t x;
    memcpy(&x, p, sizeof x);
    return i8_twice((int32x4_t)vmovl_u8((uint8x8_t)vdup_n_u32(x)));
}
I8_INLINE i8_vec i8_words_s8(const void *p)
{
    const int8x16_t x = I8_S8(i8_load_unit(p));
    return I8_VEC(vmovl_s8(vget_low_s8(x)), vmovl_high_s8(x));
}
I8_INLINE i8_vec i8_words_u8(const void *p)
{
    const uint8x16_t x = i8_load_unit(p);
    return I8_VEC(vmovl_u8(vget_low_u8(x)), vmovl_high_u8(x));
}
I8_INLINE i8_vec i8_add_neighbours(i8_vec x, i8_vec y)
{
    return I8_VEC(vpaddq_s32(x.low, x.high), vpaddq_s32(y.low, y.high));
}

#define I8_LOW_HALVES(x) vandq_u8(x, vdupq_n_u8(15))
#define I8_HIGH_HALVES(x) vshrq_n_u8(x, 4)
I8_UNARY(i8_low_halves, uint8x16_t, I8_LOW_HALVES)
I8_UNARY(i8_high_halves, uint8x16_t, I8_HIGH_HALVES)
#define I8_ADD_HALF(acc, low, high)                                                                                    \
    vmlaq_n_s32(vpadalq_s16(acc, I8_S16(low)), vpaddlq_s16(I8_S16(high)), 16)
I8_INLINE i8_vec i8_add_halves(i8_vec acc, i8_vec low, i8_vec high)
{
    return I8_VEC(I8_ADD_HALF(acc.low, low.low, high.low), I8_ADD_HALF(acc.high, low.high, high.high));
}

/* Return acc plus the exact sums of four u8 * s8 products, without instructions for dot products. */
#define I8_HALF_DOT4(acc, a, b) vpadalq_s16(vpadalq_s16(acc, I8_EVEN_PRODUCTS(a, b)), I8_ODD_PRODUCTS(a, b))
I8_INLINE i8_vec i8_dot4_widening(i8_vec acc, i8_vec a, i8_vec b)
{
    return I8_VEC(I8_HALF_DOT4(acc.low, a.low, b.low), I8_HALF_DOT4(acc.high, a.high, b.high));
}

/* F32 */

/* The following functions are for quantize_body.h: f32, rounding to s32 half to even, and widening of bytes to s32. */
typedef struct {
    float32x4_t low, high;
} i8_f32;

#define I8_F32(low_, high_)                                                                                            \
    (i8_f32) { low_, high_ }
#define I8_BINARY_F32(name, f)                                                                                         \
    I8_INLINE i8_f32 name(i8_f32 x, i8_f32 y) { return I8_F32(f(x.low, y.low), f(x.high, y.high)); }
#define I8_LARGER(x, y) vbslq_f32(vcgtq_f32(x, y), x, y)
#define I8_SMALLER(x, y) vbslq_f32(vcltq_f32(x, y), x, y)
#define I8_IS_NUMBER(x) vceqq_f32(x, x)

I8_BINARY(i8_sub, int32x4_t, vsubq_s32)
I8_BINARY(i8_mul_s32, int32x4_t, vmulq_s32) /* modulo 2**32 */
I8_INLINE i8_f32 i8_load_f32(const void *p)
{
    const i8_vec x = i8_load(p);
    return I8_F32((float32x4_t)x.low, (float32x4_t)x.high);
}
I8_INLINE void i8_store_f32(void *p, i8_f32 x) { i8_store(p, I8_VEC(x.low, x.high)); }
I8_BINARY_F32(i8_add_f32, vaddq_f32)
I8_BINARY_F32(i8_sub_f32, vsubq_f32)
I8_BINARY_F32(i8_mul_f32, vmulq_f32)
I8_BINARY_F32(i8_div_f32, vdivq_f32)
/* x * y + z, rounded once. */
I8_INLINE i8_f32 i8_fma_f32(i8_f32 x, i8_f32 y, i8_f32 z)
{
    return I8_F32(vfmaq_f32(z.low, x.low, y.low), vfmaq_f32(z.high, x.high, y.high));
}
/* Return x - y * z, for exact products y * z. */
I8_INLINE i8_f32 i8_less_product_f32(i8_f32 x, i8_f32 y, i8_f32 z)
{
    return I8_F32(vfmsq_f32(x.low, y.low, z.low), vfmsq_f32(x.high, y.high, z.high));
}
I8_INLINE i8_f32 i8_set_f32(float x) { return I8_F32(vdupq_n_f32(x), vdupq_n_f32(x)); }
/* The result is y if x or y is NaN or both are zeros, as with MAXPS. */
I8_BINARY_F32(i8_max_f32, I8_LARGER)
I8_BINARY_F32(i8_min_f32, I8_SMALLER)
I8_INLINE i8_f32 i8_as_f32(i8_vec x) { return I8_F32((float32x4_t)x.low, (float32x4_t)x.high); }
I8_INLINE i8_f32 i8_to_f32(i8_vec x) { return I8_F32(vcvtq_f32_s32(x.low), vcvtq_f32_s32(x.high)); }
/* Round half to even and saturate. NaN becomes -2**31. */
I8_INLINE i8_vec i8_to_s32(i8_f32 x)
{
    x = i8_max_f32(x, i8_set_f32(-0x1p31f));
    return I8_VEC(vcvtnq_s32_f32(x.low), vcvtnq_s32_f32(x.high));
}
/* Round x, which is in the range of s32, half to even. NaN becomes -2**31. */
I8_INLINE i8_vec i8_round_within_s32(i8_f32 x) { return i8_to_s32(x); }
I8_INLINE float32x4_t i8_half_difference(int32x4_t x, int32x4_t y)
{
    const float32x2_t low = vcvt_f32_f64(vcvtq_f64_s64(vsubl_s32(vget_low_s32(x), vget_low_s32(y))));
    return vcvt_high_f32_f64(low, vcvtq_f64_s64(vsubl_high_s32(x, y)));
}
I8_INLINE i8_f32 i8_difference_f32(i8_vec x, i8_vec y)
{
    return I8_F32(i8_half_difference(x.low, y.low), i8_half_difference(x.high, y.high));
}
I8_INLINE i8_vec i8_round(i8_f32 x, float low, float high)
{
    x = i8_min_f32(i8_max_f32(x, i8_set_f32(low)), i8_set_f32(high));
    return I8_VEC(vcvtnq_s32_f32(x.low), vcvtnq_s32_f32(x.high));
}
/* Functions of s32 lanes. A comparison sets all bits of a lane or none. i8_where selects x in lanes whose bits are set,
 * and y in other lanes. Shifts are by at most 31 bits. The right shift keeps the sign. */
I8_INLINE i8_vec i8_set_32(int32_t x) { return i8_twice(vdupq_n_s32(x)); }
I8_BINARY(i8_min_s32, int32x4_t, vminq_s32)
I8_BINARY(i8_max_s32, int32x4_t, vmaxq_s32)
I8_BINARY(i8_equal, int32x4_t, vceqq_s32)
I8_BINARY(i8_greater, int32x4_t, vcgtq_s32)
I8_INLINE i8_vec i8_where(i8_vec bits, i8_vec x, i8_vec y)
{
    return I8_VEC(vbslq_s32(I8_U32(bits.low), x.low, y.low), vbslq_s32(I8_U32(bits.high), x.high, y.high));
}
#define I8_SHIFT_RIGHT(x, n) vshlq_s32(x, vnegq_s32(n))
I8_BINARY(i8_shift_left, int32x4_t, vshlq_s32)
I8_BINARY(i8_shift_right, int32x4_t, I8_SHIFT_RIGHT)
/* Return the low 32 bits of floor(x * y / 2**31 + 1/2). At most one of x and y is -2**31. */
I8_BINARY(i8_high_product, int32x4_t, vqrdmulhq_s32)
/* Return sat_s32(floor(x * y * 2**left / 2**right + 1/2)), for factors whose product fits 64 bits. */
I8_INLINE int32x2_t i8_two_scaled(int32x2_t x, int32x2_t y, int32x2_t left, int32x2_t right)
{
    const int64x2_t product = vshlq_s64(vmull_s32(x, y), vmovl_s32(left));
    return vqmovn_s64(vrshlq_s64(product, vnegq_s64(vmovl_s32(right))));
}
I8_INLINE int32x4_t i8_half_scaled(int32x4_t x, int32x4_t y, int32x4_t left, int32x4_t right)
{
    return vcombine_s32(
        i8_two_scaled(vget_low_s32(x), vget_low_s32(y), vget_low_s32(left), vget_low_s32(right)),
        i8_two_scaled(vget_high_s32(x), vget_high_s32(y), vget_high_s32(left), vget_high_s32(right)));
}
I8_INLINE i8_vec i8_scaled_product(i8_vec x, i8_vec y, i8_vec left, i8_vec right)
{
    return I8_VEC(i8_half_scaled(x.low, y.low, left.low, right.low),
                  i8_half_scaled(x.high, y.high, left.high, right.high));
}
I8_INLINE i8_vec i8_replace_nan(i8_f32 x, i8_vec y, i8_vec z)
{
    return i8_where(I8_VEC(I8_IS_NUMBER(x.low), I8_IS_NUMBER(x.high)), y, z);
}
I8_INLINE int16x8_t i8_packed_words(i8_vec x) { return vqmovn_high_s32(vqmovn_s32(x.low), x.high); }
I8_INLINE void i8_store_u8(void *p, i8_vec x) { vst1_u8((uint8_t *)p, vqmovun_s16(i8_packed_words(x))); }
I8_INLINE void i8_store_s8(void *p, i8_vec x) { vst1_s8((int8_t *)p, vqmovn_s16(i8_packed_words(x))); }
I8_INLINE void i8_store_bounded(void *p, i8_f32 x, i8_f32 low, const int is_signed)
{
    x = i8_max_f32(x, low); /* conversions and packing saturate */
    const i8_vec y = I8_VEC(vcvtnq_s32_f32(x.low), vcvtnq_s32_f32(x.high));
    if (is_signed)
        i8_store_s8(p, y);
    else
        i8_store_u8(p, y);
}
I8_INLINE i8_vec i8_load_u8(const void *p)
{
    const uint16x8_t x = vmovl_u8(vld1_u8((const uint8_t *)p));
    return I8_VEC(vmovl_u16(vget_low_u16(x)), vmovl_high_u16(x));
}
I8_INLINE i8_vec i8_load_s8(const void *p)
{
    const int16x8_t x = vmovl_s8(vld1_s8((const int8_t *)p));
    return I8_VEC(vmovl_s16(vget_low_s16(x)), vmovl_high_s16(x));
}

/* Arithmetic on bytes and 16-bit elements for pool_body.h and fused_body.h, and widening of half a vector from 16 bits
 * to s32. */
I8_BINARY(i8_max_u8, uint8x16_t, vmaxq_u8)
I8_BINARY(i8_min_u8, uint8x16_t, vminq_u8)
I8_BINARY(i8_max_s8, int8x16_t, vmaxq_s8)
I8_BINARY(i8_min_s8, int8x16_t, vminq_s8)
I8_BINARY(i8_add_sat_u8, uint8x16_t, vqaddq_u8)
I8_BINARY(i8_add_sat_s8, int8x16_t, vqaddq_s8)
I8_BINARY(i8_sub_sat_u8, uint8x16_t, vqsubq_u8)
I8_BINARY(i8_sub_sat_s8, int8x16_t, vqsubq_s8)
I8_BINARY(i8_add_16, uint16x8_t, vaddq_u16)
I8_BINARY(i8_sub_16, uint16x8_t, vsubq_u16)
I8_INLINE i8_vec i8_widen_u16(i8_vec x, const int half)
{
    const uint16x8_t y = I8_U16(half ? x.high : x.low);
    return I8_VEC(vmovl_u16(vget_low_u16(y)), vmovl_high_u16(y));
}
I8_INLINE i8_vec i8_widen_s16(i8_vec x, const int half)
{
    const int16x8_t y = I8_S16(half ? x.high : x.low);
    return I8_VEC(vmovl_s16(vget_low_s16(y)), vmovl_high_s16(y));
}
I8_INLINE i8_vec i8_set_16(int x) { return i8_twice((int32x4_t)vdupq_n_s16((int16_t)x)); }
I8_INLINE uint16x8_t i8_half_mul_high(uint16x8_t x, uint16x8_t y)
{
    return vuzp2q_u16(I8_U16(vmull_u16(vget_low_u16(x), vget_low_u16(y))), I8_U16(vmull_high_u16(x, y)));
}
I8_BINARY(i8_mul_high_16, uint16x8_t, i8_half_mul_high)
I8_INLINE i8_vec i8_shift_right_16(i8_vec x, int n)
{
    const int16x8_t by = vdupq_n_s16((int16_t)-n);
    return I8_VEC(vshlq_u16(I8_U16(x.low), by), vshlq_u16(I8_U16(x.high), by));
}
I8_INLINE void i8_store_low_bytes(void *p, i8_vec x)
{
    vst1q_u8((uint8_t *)p, vmovn_high_u16(vmovn_u16(I8_U16(x.low)), I8_U16(x.high)));
}

/* A chunk of 16 f32 */

I8_INLINE float32x4_t i8_quarter_minus(int32x4_t x, int32_t largest)
{
    const uint32x4_t distance = I8_U32(vsubq_s32(vdupq_n_s32(largest), x));
    return (float32x4_t)vandq_u32(I8_U32(vnegq_f32(vcvtq_f32_u32(distance))), vtstq_u32(distance, distance));
}
I8_INLINE i8_f32 i8_half_minus(const int32_t *p, int32_t largest)
{
    const i8_vec x = i8_load(p);
    return I8_F32(i8_quarter_minus(x.low, largest), i8_quarter_minus(x.high, largest));
}
I8_INLINE i8_f32 i8_half_from_f16(const char *p)
{
    const float16x8_t x = (float16x8_t)i8_load_unit(p);
    return I8_F32(vcvt_f32_f16(vget_low_f16(x)), vcvt_high_f32_f16(x));
}
I8_INLINE i8_f32 i8_half_from_bf16(const char *p)
{
    const uint16x8_t x = I8_U16(i8_load_unit(p)), zero = vdupq_n_u16(0);
    return I8_F32((float32x4_t)vzip1q_u16(zero, x), (float32x4_t)vzip2q_u16(zero, x));
}
I8_INLINE float32x4_t i8_with_plain_nan(float32x4_t x)
{
    const uint32x4_t nan = vorrq_u32(vandq_u32(I8_U32(x), vdupq_n_u32(0x80000000u)), vdupq_n_u32(0x7fc00000u));
    return vbslq_f32(I8_IS_NUMBER(x), x, (float32x4_t)nan);
}
I8_INLINE void i8_half_store_f16(char *p, i8_f32 x)
{
    const float16x4_t low = vcvt_f16_f32(i8_with_plain_nan(x.low));
    i8_store_unit(p, I8_U8(vcvt_high_f16_f32(low, i8_with_plain_nan(x.high))));
}
I8_INLINE uint32x4_t i8_to_bf16(float32x4_t x)
{
    const uint32x4_t bits = I8_U32(i8_with_plain_nan(x)), odd = vandq_u32(vshrq_n_u32(bits, 16), vdupq_n_u32(1));
    return vaddq_u32(bits, vaddq_u32(odd, vdupq_n_u32(0x7fff)));
}
I8_INLINE void i8_half_store_bf16(char *p, i8_f32 x)
{
    i8_store_unit(p, I8_U8(vshrn_high_n_u32(vshrn_n_u32(i8_to_bf16(x.low), 16), i8_to_bf16(x.high), 16)));
}
#define I8_LARGEST(x, y) (float32x4_t)vmaxq_s32((int32x4_t)(x), (int32x4_t)vabsq_f32(y))
I8_BINARY_F32(i8_half_largest, I8_LARGEST)
I8_INLINE float i8_half_top_of(i8_f32 x)
{
    const int32_t bits = vmaxvq_s32(vmaxq_s32((int32x4_t)x.low, (int32x4_t)x.high));
    float top;
    memcpy(&top, &bits, sizeof top);
    return top;
}
I8_INLINE i8_f32 i8_half_load_some(const float *p, int count)
{
    float x[8] = {0};
    memcpy(x, p, (size_t)count * sizeof *x);
    return i8_load_f32(x);
}
I8_INLINE i8_f32 i8_half_ordered(i8_f32 x)
{
    return I8_F32((float32x4_t)vandq_u32(I8_U32(x.low), I8_IS_NUMBER(x.low)),
                  (float32x4_t)vandq_u32(I8_U32(x.high), I8_IS_NUMBER(x.high)));
}
I8_INLINE float i8_half_sum(i8_f32 y)
{
    const float32x4_t z = vaddq_f32(y.low, y.high);
    const float32x2_t w = vadd_f32(vget_low_f32(z), vget_high_f32(z));
    return vget_lane_f32(w, 0) + vget_lane_f32(w, 1);
}
I8_INLINE float i8_half_top(i8_f32 y) { return vmaxvq_f32(vmaxq_f32(y.low, y.high)); }
I8_INLINE i8_f32 i8_half_power_of_two(i8_f32 x)
{
    return I8_F32((float32x4_t)vshlq_n_u32(I8_U32(x.low), 23), (float32x4_t)vshlq_n_u32(I8_U32(x.high), 23));
}
I8_INLINE i8_f32 i8_half_unless_below(i8_f32 x, i8_f32 limit, i8_f32 y)
{
    return I8_F32((float32x4_t)vbicq_u32(I8_U32(y.low), vcltq_f32(x.low, limit.low)),
                  (float32x4_t)vbicq_u32(I8_U32(y.high), vcltq_f32(x.high, limit.high)));
}
#include "isa/chunk_of_two.h"

/* Round half to even and saturate to [low, high], which is within u8 or s8. */
I8_INLINE void i8_floats_store_bytes(uint8_t *p, i8_floats x, float low, float high, int is_signed)
{
    const int16x8_t first = i8_packed_words(i8_round(x.low, low, high));
    const int16x8_t second = i8_packed_words(i8_round(x.high, low, high));
    i8_store_unit(p, is_signed ? I8_U8(vqmovn_high_s16(vqmovn_s16(first), second))
                               : vqmovun_high_s16(vqmovun_s16(first), second));
}
I8_INLINE void i8_floats_store_rounded(uint8_t *p, i8_floats x, uint8_t flip)
{
    const int16x8_t first = i8_packed_words(I8_VEC(vcvtnq_s32_f32(x.low.low), vcvtnq_s32_f32(x.low.high)));
    const int16x8_t second = i8_packed_words(I8_VEC(vcvtnq_s32_f32(x.high.low), vcvtnq_s32_f32(x.high.high)));
    i8_store_unit(p, veorq_u8(I8_U8(vqmovn_high_s16(vqmovn_s16(first), second)), vdupq_n_u8(flip)));
}

/* Bytes */

#define I8_PACKED_WORDS(x, y) vqmovn_high_s32(vqmovn_s32(x), y)
#define I8_PACKED_U8(v, part)                                                                                          \
    vqmovun_high_s16(vqmovun_s16(I8_PACKED_WORDS((v)[0].part, (v)[1].part)),                                           \
                     I8_PACKED_WORDS((v)[2].part, (v)[3].part))
#define I8_PACKED_S8(v, part)                                                                                          \
    vqmovn_high_s16(vqmovn_s16(I8_PACKED_WORDS((v)[0].part, (v)[1].part)), I8_PACKED_WORDS((v)[2].part, (v)[3].part))
I8_INLINE i8_vec i8_pack_u8(const i8_vec *v) { return I8_VEC(I8_PACKED_U8(v, low), I8_PACKED_U8(v, high)); }
I8_INLINE i8_vec i8_pack_s8(const i8_vec *v) { return I8_VEC(I8_PACKED_S8(v, low), I8_PACKED_S8(v, high)); }
I8_INLINE i8_vec i8_set_8(int x) { return i8_twice((int32x4_t)i8_set_unit(x)); }
I8_BINARY(i8_shuffle, uint8x16_t, vqtbl1q_u8)
/* i8_bits_of_bytes sets all bits of a byte if bit `bit` of the byte was set, or else none. i8_choose selects y for
 * bytes whose bits are set, and x for other bytes. */
typedef i8_vec i8_bits;
I8_INLINE i8_bits i8_bits_of_bytes(i8_vec x, const int bit)
{
    const uint8x16_t one = i8_set_unit(1 << bit);
    return I8_VEC(vtstq_u8(I8_U8(x.low), one), vtstq_u8(I8_U8(x.high), one));
}
I8_INLINE i8_vec i8_choose(i8_bits bits, i8_vec x, i8_vec y) { return i8_where(bits, y, x); }

#undef I8_BINARY
#undef I8_UNARY
#endif
