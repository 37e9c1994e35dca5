/* Element-wise quantization: float32 to integers, integers to float32, and one integer type to another. The kernels
 * compute chunks of 16 elements, in vectors or in plain C. elementwise.h describes the arguments (i8_elements_args).
 * rne() rounds half to even. sat() saturates to the type of `out`.
 *
 *   quantize     out = sat(rne(f32(x / scale) + f32(zero_point)))             NaN: sat(zero_point)
 *                out = sat(rne(f32(x / scale)) + zero_point)                  quantize_onnx
 *   dequantize   out = scale * f32(x - zero_point)                            the difference is exact
 *   requantize   out = sat(rne(f32(f32(x) * scale) + f32(zero_point)))        I8_FLOAT
 *                out = sat(rne(f32(f32(x) * scale)) + zero_point)             I8_ONNX
 *                out = sat(y + zero_point)                                    I8_DOUBLING, I8_SINGLE: y is s32, as in
 *                                                                             requantize_body.h
 */
#include <math.h>
#include <string.h>

#include "elementwise/reciprocal.h"

/* Numbers of magnitude I8_FAR_FROM_BYTES or more saturate to bytes for every 8-bit zero point. */
#define I8_FAR_FROM_BYTES 512.0f

#define I8_STREAMS (I8_LANES > 1) /* whether i8_stream exists, which writes past the caches */

/* A function that computes one chunk. `x`, `out` and the three parameters need no alignment. `out` may be x if the
 * types have the same size. */
typedef void (*i8_chunk_fn)(void *out, const void *x, const void *factor, const void *zero_point, const void *exponent);

/* A function that computes I8_BLOCK elements like a chunk function. Each parameter is one value, repeated in a vector,
 * or I8_BLOCK values if `each` is 1. The function divides by the scales if `reciprocal` is `scale`. It returns 0, and
 * stores nothing, if it cannot compute an element. */
#define I8_BLOCK (4 * I8_LANES)
typedef int (*i8_block_fn)(char *out, const char *x, const char *scale, const char *zero_point, const char *reciprocal,
                           const int each);

#if I8_LANES > 1
/* Vectors */

#ifdef I8_MARKS_OVERFLOW
/* Return f32(x / scale) without the divider, from the reciprocal r = f32(1 / scale). With q = f32(x * r):
 *
 *     f32(q + f32(x - q * scale) * r) = f32(x / scale).
 *
 * Proof for 1 <= x, scale < 2. One ulp is the distance of f32 numbers near x / scale: 2**-24 if x < scale, else 2**-23.
 * The second step multiplies the error of q by r * scale - 1, at most s = scale * 2**-25, and the rounding of x - q *
 * scale adds at most 2**-23 ulps. Let m be the midpoint of two adjacent f32 numbers that is nearest to x / scale, and t
 * the distance from m to x / scale in ulps. The result can only be wrong if t is at most the error of the sum, which is
 * less than 2**-22 ulps. Since |r - 1 / scale| <= 2**-25, the error of q is at most 1/2 + x / 2 ulps. For x <= 2 -
 * 2**-21, q is one of the two numbers next to m. For x > 2 - 2**-21 and scale > x, x / scale lies next to a multiple of
 * 2**-24, not to a midpoint. With a q next to m, x - q * scale is exact, and the error of the sum is at most s * (1/2
 * + t), so t <= s * (1/2 + 2**-25). x - m * scale is not 0, and is a multiple of 2**-24 ulps, so t >= 2**-24 / scale.
 * For scale <= 2 - 2**-23 the lower bound of t exceeds the upper bound, so the result is never wrong.
 *
 * Reciprocals are NaN for scales above I8_FAR_SCALE or below its inverse. For scales from 1 / I8_FAR_SCALE to
 * I8_FAR_SCALE, and quotients of at least 2**-26, x - q * scale is a multiple of 2**-132, so nothing underflows.
 * Quotients below 2**-26 stay below 2**-25, and do not change a rounded sum. */
I8_INLINE i8_f32 i8_quotient(i8_f32 x, i8_f32 scale, i8_f32 reciprocal)
{
    const i8_f32 q = i8_mul_f32(x, reciprocal);
    return i8_fma_f32(i8_fnma_f32(q, scale, x), reciprocal, q);
}

/* Compute 4 vectors of bytes. A sum that is NaN or beyond s32 becomes INT32_MIN, then INT16_MIN. */
I8_INLINE int i8_block(char *out, const char *x, const char *scale, const char *zero_point, const char *reciprocal,
                       const int each, const int onnx, const int is_signed)
{
    i8_vec v[4], z[4];
    I8_FOR(k, 4) {
        const int at = 4 * I8_LANES * k, own = each ? at : 0;
        i8_f32 w = i8_load_f32(x + at);
        I8_PIN(w); /* without I8_PIN, GCC would load x twice */
        const i8_f32 f = i8_load_f32(scale + own);
        const i8_f32 q = each && reciprocal == scale ? i8_div_f32(w, f)
                                                     : i8_quotient(w, f, i8_load_f32(reciprocal + own));
        z[k] = i8_load(zero_point + own);
        v[k] = i8_round_within_s32(onnx ? q : i8_add_f32(q, i8_to_f32(z[k])));
    }
    i8_vec low = i8_pack_words(v[0], v[1]), high = i8_pack_words(v[2], v[3]);
    if (i8_any_equal_16(i8_min_s16(low, high), i8_set_16(INT16_MIN)))
        return 0;
    if (onnx) {
        low = i8_add_sat_16(low, i8_pack_words(z[0], z[1]));
        high = i8_add_sat_16(high, i8_pack_words(z[2], z[3]));
    }
    i8_store(out, i8_in_order(is_signed ? i8_pack_words_s8(low, high) : i8_pack_words_u8(low, high)));
    return 1;
}

#define I8_BLOCK_FN(name, onnx, is_signed)                                                                             \
    I8_INLINE int name##_block(char *out, const char *x, const char *scale, const char *zero_point,                    \
                               const char *reciprocal, const int each)                                                 \
    {                                                                                                                  \
        return i8_block(out, x, scale, zero_point, reciprocal, each, onnx, is_signed);                                 \
    }
I8_BLOCK_FN(i8_quantize_u8, 0, 0)
I8_BLOCK_FN(i8_quantize_s8, 0, 1)
I8_BLOCK_FN(i8_quantize_onnx_u8, 1, 0)
I8_BLOCK_FN(i8_quantize_onnx_s8, 1, 1)
#undef I8_BLOCK_FN
#endif

#define I8_OF(p, size) ((char *)(p) + (size) * I8_LANES * v)
#define I8_WIDE(p) i8_load(I8_OF(p, 4))
#define I8_REAL(p) i8_load_f32(I8_OF(p, 4))
#define I8_CHUNK_FN(name, value)                                                                                       \
    I8_INLINE void name##_chunk(void *out, const void *x, const void *factor, const void *zero_point,                  \
                                const void *exponent)                                                                  \
    {                                                                                                                  \
        (void)exponent;                                                                                                \
        I8_FOR(v, I8_VECS) {                                                                                           \
            const i8_vec z = I8_WIDE(zero_point);                                                                      \
            value;                                                                                                     \
        }                                                                                                              \
    }
/* Return sat(rne(q) + zero_point) for s32. If q is beyond s32, and q and the zero point have different signs, the
 * function moves both towards 0 by 2**31, which is exact. */
I8_NOINLINE i8_vec i8_add_rounded(i8_f32 q, i8_vec zero_point)
{
    const i8_vec top = i8_set_32(INT32_MIN), y = i8_to_s32(q);
    const i8_f32 back = i8_as_f32(i8_add(i8_and(zero_point, top), i8_set_32(0x4f000000))); /* 2**31 or -2**31 */
    const i8_vec moved = i8_shift_in_s32(i8_to_s32(i8_add_f32(q, back)), i8_xor(zero_point, top));
    const i8_vec beyond = i8_and(i8_equal(y, i8_limit_of(y)), i8_sign_of(i8_xor(y, zero_point)));
    return i8_where(beyond, moved, i8_shift_in_s32(y, zero_point));
}

#define I8_CHUNK_FNS(t, size, load, store, rounded, shifted, added, saturated, difference)                             \
    I8_CHUNK_FN(i8_quantize_##t, const i8_f32 w = I8_REAL(x);                                                          \
                const i8_f32 y = i8_add_f32(i8_div_f32(w, I8_REAL(factor)), i8_to_f32(z));                             \
                store(I8_OF(out, size), i8_replace_nan(w, rounded, saturated)))                                        \
    I8_CHUNK_FN(i8_quantize_onnx_##t, const i8_f32 w = I8_REAL(x); const i8_f32 q = i8_div_f32(w, I8_REAL(factor));    \
                store(I8_OF(out, size), i8_replace_nan(w, added, z)))                                                  \
    I8_CHUNK_FN(i8_dequantize_##t, const i8_vec w = load(I8_OF(x, size));                                              \
                i8_store_f32(I8_OF(out, 4), i8_mul_f32(I8_REAL(factor), difference)))                                  \
    I8_CHUNK_FN(i8_requantize_float_##t, const i8_f32 w = i8_to_f32(I8_WIDE(x));                                       \
                const i8_f32 y = i8_add_f32(i8_mul_f32(w, I8_REAL(factor)), i8_to_f32(z));                             \
                store(I8_OF(out, size), rounded))                                                                      \
    I8_CHUNK_FN(i8_requantize_onnx_##t, const i8_f32 q = i8_mul_f32(i8_to_f32(I8_WIDE(x)), I8_REAL(factor));           \
                store(I8_OF(out, size), added))                                                                        \
    I8_CHUNK_FN(i8_requantize_doubling_##t,                                                                            \
                const i8_vec y = i8_doubling(I8_WIDE(x), I8_WIDE(factor), I8_WIDE(exponent));                          \
                store(I8_OF(out, size), shifted))                                                                      \
    I8_CHUNK_FN(i8_requantize_right_##t, /* i8_requantize_doubling for an exponent of at most 0 */                     \
                const i8_vec y = i8_doubled(I8_WIDE(x), I8_WIDE(factor), i8_sub(i8_zero(), I8_WIDE(exponent)));        \
                store(I8_OF(out, size), shifted))                                                                      \
    I8_CHUNK_FN(i8_requantize_single_##t,                                                                              \
                const i8_vec y = i8_single(I8_WIDE(x), I8_WIDE(factor), I8_WIDE(exponent));                            \
                store(I8_OF(out, size), shifted))
/* Clip q before rounding and adding a zero point. Clipped values saturate with every 8-bit zero point. */
#define I8_NEAR i8_round(q, -I8_FAR_FROM_BYTES, I8_FAR_FROM_BYTES)
#define I8_CLAMPED(x, low, high) i8_min_s32(i8_max_s32(x, i8_set_32(low)), i8_set_32(high))
I8_CHUNK_FNS(u8, 1, i8_load_u8, i8_store_u8, i8_round(y, 0, 255), i8_shift_between(y, z, 0, 255),
             i8_shift_between(I8_NEAR, z, 0, 255), I8_CLAMPED(z, 0, 255), i8_to_f32(i8_sub(w, z)))
I8_CHUNK_FNS(s8, 1, i8_load_s8, i8_store_s8, i8_round(y, -128, 127), i8_shift_between(y, z, -128, 127),
             i8_shift_between(I8_NEAR, z, -128, 127), I8_CLAMPED(z, -128, 127), i8_to_f32(i8_sub(w, z)))
I8_CHUNK_FNS(s32, 4, i8_load, i8_store, i8_to_s32(y), i8_shift_in_s32(y, z), i8_add_rounded(q, z), z,
             i8_difference_f32(w, z))
#undef I8_CLAMPED
#undef I8_NEAR
#undef I8_REAL
#undef I8_WIDE
#undef I8_OF

#else
/* Plain C */

/* For NaN the comparisons are false, and the result is `low`. */
I8_INLINE int32_t i8_round_between(float y, const float low, const float high)
{
    y = y > low ? y : low;
    y = y < high ? y : high;
    return (int32_t)rintf(y);
}

/* f32 cannot represent INT32_MAX. Converting a number of 2**31 or more overflows, so its result is replaced. */
I8_INLINE int32_t i8_round_to_s32(float y)
{
    const float r = rintf(y > -0x1p31f ? y : -0x1p31f);
    const int32_t q = (int32_t)(r < 0x1p31f ? r : 0.0f);
    return r < 0x1p31f ? q : INT32_MAX;
}

I8_INLINE int32_t i8_add_rounded(float q, int32_t zero_point)
{
    const double y = (double)rintf(q) + (double)zero_point;
    return y <= INT32_MIN ? INT32_MIN : y >= INT32_MAX ? INT32_MAX : (int32_t)y;
}

#define I8_NEAR(y) i8_round_between(y, -I8_FAR_FROM_BYTES, I8_FAR_FROM_BYTES)
#define I8_ADD_u8(q, zero_point) I8_SHIFT_u8(I8_NEAR(q), zero_point)
#define I8_ADD_s8(q, zero_point) I8_SHIFT_s8(I8_NEAR(q), zero_point)
#define I8_ADD_s32(q, zero_point) i8_add_rounded(q, zero_point)
#define I8_ROUND_u8(y) i8_round_between(y, 0.0f, 255.0f)
#define I8_ROUND_s8(y) i8_round_between(y, -128.0f, 127.0f)
#define I8_ROUND_s32(y) i8_round_to_s32(y)
#define I8_SHIFT_u8(y, zero_point) i8_shift_between(y, zero_point, 0, 255)
#define I8_SHIFT_s8(y, zero_point) i8_shift_between(y, zero_point, -128, 127)
#define I8_SHIFT_s32(y, zero_point) i8_shift_in_s32(y, zero_point)
#define I8_SATURATE_u8(y) ((y) < 0 ? 0 : (y) > 255 ? 255 : (y))
#define I8_SATURATE_s8(y) ((y) < -128 ? -128 : (y) > 127 ? 127 : (y))
#define I8_SATURATE_s32(y) (y)
/* Return f32(x - zero_point). Differences of s32 have 33 bits, which fit f64. */
#define I8_DIFFERENCE_u8(x, zero_point) ((float)((x) - (zero_point)))
#define I8_DIFFERENCE_s8(x, zero_point) ((float)((x) - (zero_point)))
#define I8_DIFFERENCE_s32(x, zero_point) ((float)((double)(x) - (double)(zero_point)))


#define I8_CHUNK_FN(name, from, to, factor_type, value)                                                                \
    I8_INLINE void name##_chunk(void *out, const void *x, const void *factor, const void *zero_point,                  \
                                const void *exponent)                                                                  \
    {                                                                                                                  \
        from v[I8_CHUNK];                                                                                              \
        to w[I8_CHUNK];                                                                                                \
        factor_type f[I8_CHUNK];                                                                                       \
        int32_t z[I8_CHUNK], s[I8_CHUNK];                                                                              \
        memcpy(v, x, sizeof v);                                                                                        \
        memcpy(f, factor, sizeof f);                                                                                   \
        memcpy(z, zero_point, sizeof z);                                                                               \
        memcpy(s, exponent, sizeof s);                                                                                 \
        (void)s;                                                                                                       \
        for (int j = 0; j < I8_CHUNK; ++j)                                                                             \
            w[j] = (to)(value);                                                                                        \
        memcpy(out, w, sizeof w);                                                                                      \
    }
#define I8_CHUNK_FNS(t, type)                                                                                          \
    I8_CHUNK_FN(i8_quantize_##t, float, type, float,                                                                   \
                v[j] == v[j] ? I8_ROUND_##t(v[j] / f[j] + (float)z[j]) : I8_SATURATE_##t(z[j]))                        \
    I8_CHUNK_FN(i8_quantize_onnx_##t, float, type, float,                                                              \
                v[j] == v[j] ? I8_ADD_##t(v[j] / f[j], z[j]) : z[j])                                                   \
    I8_CHUNK_FN(i8_dequantize_##t, type, float, float, f[j] * I8_DIFFERENCE_##t(v[j], z[j]))                           \
    I8_CHUNK_FN(i8_requantize_float_##t, int32_t, type, float, I8_ROUND_##t((float)v[j] * f[j] + (float)z[j]))         \
    I8_CHUNK_FN(i8_requantize_onnx_##t, int32_t, type, float, I8_ADD_##t((float)v[j] * f[j], z[j]))                    \
    I8_CHUNK_FN(i8_requantize_doubling_##t, int32_t, type, int32_t,                                                    \
                I8_SHIFT_##t(i8_doubling(v[j], f[j], s[j]), z[j]))                                                     \
    I8_CHUNK_FN(i8_requantize_single_##t, int32_t, type, int32_t, I8_SHIFT_##t(i8_single(v[j], f[j], s[j]), z[j]))
I8_CHUNK_FNS(u8, uint8_t)
I8_CHUNK_FNS(s8, int8_t)
I8_CHUNK_FNS(s32, int32_t)
#endif
#undef I8_CHUNK_FNS
#undef I8_CHUNK_FN

/* The kernels */

/* Each value fills `repeats` elements. If a vector begins at element `phase` of a value, its lane l takes the value
 * (phase + l) / repeats values further on. Multiplying by the rounded reciprocals gives exact quotients, because
 * (phase + l) * repeats is less than 2**15, and i is less than 2**16. */
static void i8_spread(int32_t *out, const int32_t *values, int64_t count, int64_t repeats, int64_t start, int64_t n)
{
    int64_t i = 0, first = start % repeats;
    values += start / repeats;
    count -= start / repeats;
#if I8_LANES > 1
    int32_t lane[I8_LANES], few[I8_LANES];
    for (int l = 0; l < I8_LANES; ++l) {
        lane[l] = l;
        if (count < I8_LANES)
            few[l] = values[l < count ? l : count - 1];
    }
    if (count < I8_LANES) {
        values = few;
        count = I8_LANES;
    }
    const i8_vec lanes = i8_load(lane), reciprocal = i8_set_32((int32_t)(0x10000 / repeats + 1));
    const int64_t factor = (1ll << 32) / repeats + 1;
#define I8_INDEX(phase) i8_mul_high_16(i8_add(lanes, i8_set_32((int32_t)(phase))), reciprocal)
    if (I8_LANES % repeats == 0) { /* all vectors have one phase */
        const i8_vec index = I8_INDEX(first);
        for (int64_t value = 0; i < n && value + I8_LANES <= count; i += I8_LANES, value += I8_LANES / repeats)
            i8_store(out + i, i8_take(i8_load(values + value), index));
    }
    for (; i < n; i += I8_LANES) {
        const int64_t value = ((first + i) * factor) >> 32;
        if (value + I8_LANES > count)
            break;
        i8_store(out + i, i8_take(i8_load(values + value), I8_INDEX(first + i - value * repeats)));
    }
    const i8_vec last = i8_load(values + count - I8_LANES);
    for (; i < n; i += I8_LANES) {
        const int64_t value = ((first + i) * factor) >> 32;
        const i8_vec skipped = i8_set_32((int32_t)(value - count + I8_LANES));
        i8_store(out + i, i8_take(last, i8_add(I8_INDEX(first + i - value * repeats), skipped)));
    }
#undef I8_INDEX
#else
    (void)count;
    for (int64_t value = 0; i < n; ++i) {
        out[i] = values[value];
        first = first + 1 < repeats ? first + 1 : 0;
        value += first == 0;
    }
#endif
}

/* Compute less than a chunk: copy the elements to a buffer, and the results from a buffer. p has the addresses of the
 * parameters. */
I8_INLINE void i8_part_of_run(const i8_elements_args *e, i8_chunk_fn chunk, const int64_t x_size,
                              const int64_t out_size, const char *const *p, const int64_t start, const int64_t count)
{
    char x[4 * I8_CHUNK] = {0}, out[4 * I8_CHUNK], own[3][4 * I8_CHUNK] = {{0}};
    memcpy(x, (const char *)e->x + start * x_size, (size_t)(count * x_size));
    for (int k = 0; k < 3 && e->each; ++k)
        memcpy(own[k], p[k] + 4 * start, (size_t)(4 * count));
    if (e->each)
        chunk(out, x, own[0], own[1], own[2]);
    else
        chunk(out, x, p[0], p[1], p[2]);
    memcpy((char *)e->out + start * out_size, out, (size_t)(count * out_size));
}

I8_INLINE void i8_run_of(const i8_elements_args *e, i8_chunk_fn chunk, i8_block_fn block, const int64_t x_size,
                         const int64_t out_size, const int each)
{
    const char *x = e->x;
    char *out = e->out;
    /* `step` is the number of bytes from the parameters of an element to the parameters of the next element. */
    const int64_t n = e->n, step = each ? 4 : 0;
    const int stream = I8_STREAMS && out_size == 4 && e->stream && (uintptr_t)out % 4 == 0;
    int64_t i = 0;
    /* Kernels read a chunk of each parameter. If a parameter has one value, repeat the value in a buffer, so that the
     * compiler keeps the values in registers. A block function takes the reciprocal of the scale in place of the
     * exponent. */
    char same[3][4 * I8_CHUNK];
    const char *p[3];
    float scale = 1;
    if (block && !each)
        memcpy(&scale, e->parameters[0], sizeof scale);
    const float reciprocal = i8_reciprocal(scale);
    for (int k = 0; k < 3; ++k) {
        p[k] = each ? (const char *)e->parameters[k] : same[k];
        for (int j = 0; j < I8_CHUNK && !each; ++j)
            memcpy(same[k] + 4 * j, block && k == 2 ? &reciprocal : e->parameters[k], 4);
    }
#if I8_STREAMS
    if (stream) {
        /* Stream only whole cache lines, not the partial first and last lines of the run. */
        i = (int64_t)(-(uintptr_t)out % 64) / 4;
        i = i < n ? i : n;
        i8_part_of_run(e, chunk, x_size, out_size, p, 0, i);
        for (; i + I8_CHUNK <= n; i += I8_CHUNK) {
            char line[4 * I8_CHUNK];
            chunk(line, x + i * x_size, p[0] + i * step, p[1] + i * step, p[2] + i * step);
            I8_FOR(v, I8_VECS) i8_stream(out + 4 * (i + I8_LANES * v), i8_load(line + 4 * I8_LANES * v));
        }
        i8_finish_streams();
    }
#else
    (void)stream;
#endif
    /* No other function gets the address of `kept`, so the loops keep the values, and what depends only on them, in
     * registers. */
    char kept[3][4 * I8_CHUNK];
    if (!each) {
        memcpy(kept, same, sizeof kept);
        for (int k = 0; k < 3; ++k)
            p[k] = kept[k];
    }
    /* Numbers that a block function cannot compute often come together, so after a failure the loop tries no block
     * function before element `retry`. */
    for (int64_t retry = 0; block && i + I8_BLOCK <= n; i += I8_BLOCK) {
        const int64_t at = i * step;
        if (i >= retry && block(out + i * out_size, x + i * x_size, p[0] + at, p[1] + at, p[2] + at, each))
            continue;
        retry = i < retry ? retry : i + 4 * I8_BLOCK;
        for (int64_t j = i; j < i + I8_BLOCK; j += I8_CHUNK)
            chunk(out + j * out_size, x + j * x_size, p[0] + j * step, p[1] + j * step, p[2] + j * step);
    }
    for (;; i = n - I8_CHUNK) { /* the last chunk ends with the run, and computes some elements twice */
        for (; i + I8_CHUNK <= n; i += I8_CHUNK)
            chunk(out + i * out_size, x + i * x_size, p[0] + i * step, p[1] + i * step, p[2] + i * step);
        if (i == n || n < I8_CHUNK || out == x)
            break;
    }
    if (i < n)
        i8_part_of_run(e, chunk, x_size, out_size, p, i, n - i);
}

I8_INLINE void i8_run(const i8_elements_args *e, i8_chunk_fn chunk, i8_block_fn block, const int64_t x_size,
                      const int64_t out_size)
{
    if (e->each)
        i8_run_of(e, chunk, block, x_size, out_size, 1);
    else
        i8_run_of(e, chunk, block, x_size, out_size, 0);
}

#define I8_RUN(name, x_size, out_size)                                                                                 \
    static void name(const i8_elements_args *e) { i8_run(e, name##_chunk, NULL, x_size, out_size); }
#ifdef I8_MARKS_OVERFLOW
#define I8_BYTES_RUN(name)                                                                                             \
    static void name(const i8_elements_args *e) { i8_run(e, name##_chunk, name##_block, 4, 1); }
#else
#define I8_BYTES_RUN(name) I8_RUN(name, 4, 1)
#endif
#if I8_LANES > 1
/* Nearly all scales are less than 1. Such a scale has an exponent of at most 0, so no left shift is needed. */
#define I8_DOUBLING_RUN(t, size)                                                                                       \
    static void i8_requantize_doubling_##t(const i8_elements_args *e)                                                  \
    {                                                                                                                  \
        int32_t exponent;                                                                                              \
        memcpy(&exponent, e->parameters[2], sizeof exponent);                                                          \
        if (!e->each && exponent <= 0)                                                                                 \
            i8_run_of(e, i8_requantize_right_##t##_chunk, NULL, 4, size, 0);                                           \
        else                                                                                                           \
            i8_run(e, i8_requantize_doubling_##t##_chunk, NULL, 4, size);                                              \
    }
#else
#define I8_DOUBLING_RUN(t, size) I8_RUN(i8_requantize_doubling_##t, 4, size)
#endif
#define I8_RUNS(t, size)                                                                                               \
    I8_RUN(i8_dequantize_##t, size, 4)                                                                                 \
    I8_RUN(i8_requantize_float_##t, 4, size)                                                                           \
    I8_RUN(i8_requantize_onnx_##t, 4, size)                                                                            \
    I8_DOUBLING_RUN(t, size)                                                                                           \
    I8_RUN(i8_requantize_single_##t, 4, size)
I8_RUNS(u8, 1)
I8_RUNS(s8, 1)
I8_RUNS(s32, 4)
I8_BYTES_RUN(i8_quantize_u8)
I8_BYTES_RUN(i8_quantize_s8)
I8_RUN(i8_quantize_s32, 4, 4)
I8_BYTES_RUN(i8_quantize_onnx_u8)
I8_BYTES_RUN(i8_quantize_onnx_s8)
I8_RUN(i8_quantize_onnx_s32, 4, 4)
#undef I8_RUNS
#undef I8_DOUBLING_RUN
#undef I8_BYTES_RUN
#undef I8_RUN
