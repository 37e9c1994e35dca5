/* Element-wise quantization: float32 to integers, back, and from one integer type to another. In chunks of 16
 * elements. Plain C on local arrays, which the compiler vectorizes for the instruction set of the file that includes
 * this one; floats to bytes and back on the vector primitives where there are some (see below).
 * Arguments: i8_elements_args in i8_types.h. What is rounded is rounded half to even, if nothing else is said; sat()
 * saturates to the type of `out`.
 *
 *   quantize     out = sat(rne(f32(x / scale) + f32(zero_point)))             NaN: zero_point
 *   dequantize   out = scale * f32(x - zero_point)                            the difference is exact
 *   requantize   out = sat(rne(f32(f32(x) * scale) + f32(zero_point)))        I8_FLOAT
 *                out = sat(y + zero_point)                                    I8_DOUBLING, I8_SINGLE: y is s32, below
 */
#include <math.h>
#include <string.h>

#define I8_CHUNK 16
#define I8_STREAMS (I8_LANES > 1) /* i8_stream, which writes past the caches */

/* ------------------------------------------------------------------------------------------------- one element --- */

/* The comparisons are false for NaN, which gives `low`. */
I8_INLINE int32_t i8_round_between(float y, const float low, const float high)
{
    y = y > low ? y : low;
    y = y < high ? y : high;
    return (int32_t)rintf(y);
}

/* INT32_MAX is no f32: 2**31 and above are replaced after the conversion, which they would overflow. */
I8_INLINE int32_t i8_round_to_s32(float y)
{
    const float r = rintf(y > -0x1p31f ? y : -0x1p31f);
    const int32_t q = (int32_t)(r < 0x1p31f ? r : 0.0f);
    return r < 0x1p31f ? q : INT32_MAX;
}

/* sat(y + zero_point) without overflow, where low <= zero_point <= high. */
I8_INLINE int32_t i8_shift_between(int32_t y, int32_t zero_point, const int32_t low, const int32_t high)
{
    y = y > low - zero_point ? y : low - zero_point;
    y = y < high - zero_point ? y : high - zero_point;
    return y + zero_point;
}

I8_INLINE int32_t i8_shift_in_s32(int32_t y, int32_t zero_point)
{
    const int32_t sum = (int32_t)((uint32_t)y + (uint32_t)zero_point);
    return ((y ^ sum) & (zero_point ^ sum)) < 0 ? (y < 0 ? INT32_MIN : INT32_MAX) : sum;
}

#define I8_ROUND_u8(y) i8_round_between(y, 0.0f, 255.0f)
#define I8_ROUND_s8(y) i8_round_between(y, -128.0f, 127.0f)
#define I8_ROUND_s32(y) i8_round_to_s32(y)
#define I8_SHIFT_u8(y, zero_point) i8_shift_between(y, zero_point, 0, 255)
#define I8_SHIFT_s8(y, zero_point) i8_shift_between(y, zero_point, -128, 127)
#define I8_SHIFT_s32(y, zero_point) i8_shift_in_s32(y, zero_point)
/* f32(x - zero_point): s32 differences have 33 bits, which f64 holds. */
#define I8_DIFFERENCE_u8(x, zero_point) ((float)((x) - (zero_point)))
#define I8_DIFFERENCE_s8(x, zero_point) ((float)((x) - (zero_point)))
#define I8_DIFFERENCE_s32(x, zero_point) ((float)((double)(x) - (double)(zero_point)))

/* I8_DOUBLING, with exponent in [-31, 31]:
 *     v = sat_s32(x * 2**max(exponent, 0))
 *     h = floor(v * multiplier / 2**31 + 1/2)       the rounded high half of the doubled product
 *     y = h / 2**max(-exponent, 0)                  rounded to nearest, ties away from zero
 * The doubled product would overflow only for multiplier = -2**31. */
I8_INLINE int32_t i8_doubling(int32_t x, int32_t multiplier, int32_t exponent)
{
    const int32_t left = exponent > 0 ? exponent : 0, right = left - exponent;
    const int32_t shifted = (int32_t)((uint32_t)x << left);
    const int32_t v = shifted >> left == x ? shifted : x < 0 ? INT32_MIN : INT32_MAX;
    const int64_t product = (int64_t)v * multiplier + ((int64_t)1 << 30);
    const int32_t h = (int32_t)(uint32_t)((uint64_t)product >> 31);
    const int32_t mask = (int32_t)(((uint32_t)1 << right) - 1);
    return (h >> right) + ((h & mask) > (mask >> 1) + (h < 0));
}

/* I8_SINGLE, with exponent in [-31, 32]:
 *     y = sat_s32(floor(x * multiplier / 2**(31 - exponent) + 1/2))
 * for a chunk, in steps that GCC 12 vectorizes. 62 bits and a sign are enough: |x * multiplier| < 2**62, and it is
 * doubled, for exponent 32, only where nothing is added. The arithmetic shift is a logical one of biased values, which
 * AVX2 has for 64 bits. */
I8_INLINE void i8_single(int32_t *y, const int32_t *x, const int32_t *multiplier, const int32_t *exponent)
{
    const uint64_t bias = (uint64_t)1 << 63;
    uint64_t product[I8_CHUNK], right[I8_CHUNK], half[I8_CHUNK];
    int64_t z[I8_CHUNK];
    for (int j = 0; j < I8_CHUNK; ++j)
        product[j] = (uint64_t)((int64_t)x[j] * multiplier[j]);
    for (int j = 0; j < I8_CHUNK; ++j)
        product[j] += exponent[j] > 31 ? product[j] : 0;
    for (int j = 0; j < I8_CHUNK; ++j)
        right[j] = (uint64_t)(uint32_t)(exponent[j] > 31 ? 0 : 31 - exponent[j]);
    for (int j = 0; j < I8_CHUNK; ++j)
        half[j] = 63 - right[j];
    for (int j = 0; j < I8_CHUNK; ++j)
        half[j] = (bias >> half[j]) >> 1; /* 2**right / 2, or 0 */
    for (int j = 0; j < I8_CHUNK; ++j)
        z[j] = (int64_t)(((product[j] + half[j] + bias) >> right[j]) - (bias >> right[j]));
    for (int j = 0; j < I8_CHUNK; ++j)
        z[j] = z[j] < INT32_MAX ? z[j] : INT32_MAX;
    for (int j = 0; j < I8_CHUNK; ++j)
        z[j] = z[j] > INT32_MIN ? z[j] : INT32_MIN;
    for (int j = 0; j < I8_CHUNK; ++j)
        y[j] = (int32_t)z[j];
}

/* --------------------------------------------------------------------------------------------------- one chunk --- */

/* `x`, `out` and the three parameters need no alignment, and all is read before anything is written. */
typedef void (*i8_chunk_fn)(void *out, const void *x, const void *factor, const void *zero_point, const void *exponent);

/* Conversions between types of different sizes are loops of their own, which GCC 12 needs to vectorize the rest. */
#define I8_CHUNK_FN(name, from, wide_from, wide_to, to, factor_type, first, value)                                     \
    I8_INLINE void name(void *out, const void *x, const void *factor, const void *zero_point, const void *exponent)    \
    {                                                                                                                  \
        from narrow_x[I8_CHUNK];                                                                                       \
        wide_from v[I8_CHUNK];                                                                                         \
        wide_to w[I8_CHUNK];                                                                                           \
        to narrow[I8_CHUNK];                                                                                           \
        factor_type f[I8_CHUNK];                                                                                       \
        int32_t z[I8_CHUNK], s[I8_CHUNK];                                                                              \
        memcpy(narrow_x, x, sizeof narrow_x);                                                                          \
        memcpy(f, factor, sizeof f);                                                                                   \
        memcpy(z, zero_point, sizeof z);                                                                               \
        memcpy(s, exponent, sizeof s);                                                                                 \
        (void)s;                                                                                                       \
        for (int j = 0; j < I8_CHUNK; ++j)                                                                             \
            v[j] = narrow_x[j];                                                                                        \
        first;                                                                                                         \
        for (int j = 0; j < I8_CHUNK; ++j)                                                                             \
            w[j] = value;                                                                                              \
        for (int j = 0; j < I8_CHUNK; ++j)                                                                             \
            narrow[j] = (to)w[j];                                                                                      \
        memcpy(out, narrow, sizeof narrow);                                                                            \
    }

#if I8_LANES > 1
/* The same functions of floats and bytes on vectors: of the plain C, GCC 12 makes code that takes two to four times as
 * long. */
#define I8_VECTORS_FN(name, value)                                                                                     \
    I8_INLINE void name(void *out, const void *x, const void *factor, const void *zero_point, const void *exponent)    \
    {                                                                                                                  \
        (void)exponent;                                                                                                \
        I8_FOR(v, I8_VECS) {                                                                                           \
            const i8_f32 f = i8_load_f32((const char *)factor + 4 * I8_LANES * v);                                     \
            const i8_vec z = i8_load((const char *)zero_point + 4 * I8_LANES * v);                                     \
            value;                                                                                                     \
        }                                                                                                              \
    }
#define I8_WIDE(p) ((const char *)(p) + 4 * I8_LANES * v)
#define I8_OUT(size) ((char *)out + (size) * I8_LANES * v)

#define I8_BYTE_FNS(t, low, high)                                                                                      \
    I8_VECTORS_FN(i8_quantize_##t##_vectors, const i8_f32 w = i8_load_f32(I8_WIDE(x));                                 \
                  const i8_f32 y = i8_add_f32(i8_div_f32(w, f), i8_to_f32(z));                                         \
                  i8_store_##t(I8_OUT(1), i8_replace_nan(w, i8_round(y, low, high), z)))                               \
    I8_VECTORS_FN(i8_requantize_float_##t##_vectors,                                                                   \
                  const i8_f32 y = i8_add_f32(i8_mul_f32(i8_to_f32(i8_load(I8_WIDE(x))), f), i8_to_f32(z));            \
                  i8_store_##t(I8_OUT(1), i8_round(y, low, high)))                                                     \
    I8_VECTORS_FN(i8_dequantize_##t##_vectors,                                                                         \
                  const i8_vec w = i8_load_##t((const char *)x + I8_LANES * v);                                        \
                  i8_store_f32(I8_OUT(4), i8_mul_f32(f, i8_to_f32(i8_sub(w, z)))))
I8_BYTE_FNS(u8, 0.0f, 255.0f)
I8_BYTE_FNS(s8, -128.0f, 127.0f)
#undef I8_BYTE_FNS
#undef I8_OUT
#undef I8_WIDE
#undef I8_VECTORS_FN
#endif

/* Fewer elements than a chunk go through a chunk of their own on either side of it; p is where the parameters of the run
 * are. */
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

I8_INLINE void i8_run(const i8_elements_args *e, i8_chunk_fn chunk, const int64_t x_size, const int64_t out_size)
{
    const char *x = e->x;
    char *out = e->out;
    const int64_t n = e->n, step = e->each ? 4 : 0; /* bytes from the parameters of an element to those of the next */
    const int stream = I8_STREAMS && out_size == 4 && e->stream && (uintptr_t)out % 4 == 0;
    int64_t i = 0;
    /* One value for all elements is read as a chunk of equal ones; values of each element are read in place. */
    char same[3][4 * I8_CHUNK];
    const char *p[3];
    for (int k = 0; k < 3; ++k) {
        p[k] = e->each ? (const char *)e->parameters[k] : same[k];
        for (int j = 0; j < I8_CHUNK && !e->each; ++j)
            memcpy(same[k] + 4 * j, e->parameters[k], 4);
    }
#if I8_STREAMS
    if (stream) {
        /* Whole cache lines: those that the run begins or ends in are not. */
        i = (int64_t)(-(uintptr_t)out % 64) / 4;
        i = i < n ? i : n;
        i8_part_of_run(e, chunk, x_size, out_size, p, 0, i);
        for (; i + I8_CHUNK <= n; i += I8_CHUNK) {
            char line[4 * I8_CHUNK];
            chunk(line, x + i * x_size, p[0] + i * step, p[1] + i * step, p[2] + i * step);
            I8_FOR(v, I8_VECS) i8_stream(out + 4 * (i + I8_LANES * v), i8_load(line + 4 * I8_LANES * v));
        }
        _mm_sfence();
    }
#else
    (void)stream;
#endif
    for (; i + I8_CHUNK <= n; i += I8_CHUNK)
        chunk(out + i * out_size, x + i * x_size, p[0] + i * step, p[1] + i * step, p[2] + i * step);
    if (i < n)
        i8_part_of_run(e, chunk, x_size, out_size, p, i, n - i);
}

/* -------------------------------------------------------------------------------------------------- the kernels --- */

#define I8_RUN(name, chunk, x_size, out_size)                                                                          \
    static void name(const i8_elements_args *e) { i8_run(e, chunk, x_size, out_size); }
#define I8_PLAIN(name, from, wide_from, wide_to, to, factor, first, value)                                             \
    I8_CHUNK_FN(name##_plain, from, wide_from, wide_to, to, factor, first, value)                                      \
    I8_RUN(name, name##_plain, sizeof(from), sizeof(to))
#define I8_INTEGER_KERNELS(t, type)                                                                                    \
    I8_PLAIN(i8_requantize_doubling_##t, int32_t, int32_t, int32_t, type, int32_t, (void)0,                            \
             I8_SHIFT_##t(i8_doubling(v[j], f[j], s[j]), z[j]))                                                        \
    I8_PLAIN(i8_requantize_single_##t, int32_t, int32_t, int32_t, type, int32_t, i8_single(v, v, f, s),                \
             I8_SHIFT_##t(v[j], z[j]))
#define I8_FLOAT_KERNELS(t, type)                                                                                      \
    I8_PLAIN(i8_quantize_##t, float, float, int32_t, type, float, (void)0,                                             \
             v[j] == v[j] ? I8_ROUND_##t(v[j] / f[j] + (float)z[j]) : z[j])                                            \
    I8_PLAIN(i8_requantize_float_##t, int32_t, int32_t, int32_t, type, float, (void)0,                                 \
             I8_ROUND_##t((float)v[j] * f[j] + (float)z[j]))                                                           \
    I8_PLAIN(i8_dequantize_##t, type, int32_t, float, float, float, (void)0, f[j] * I8_DIFFERENCE_##t(v[j], z[j]))
#if I8_LANES > 1
#define I8_BYTE_KERNELS(t)                                                                                             \
    I8_RUN(i8_quantize_##t, i8_quantize_##t##_vectors, 4, 1)                                                           \
    I8_RUN(i8_requantize_float_##t, i8_requantize_float_##t##_vectors, 4, 1)                                           \
    I8_RUN(i8_dequantize_##t, i8_dequantize_##t##_vectors, 1, 4)
I8_BYTE_KERNELS(u8)
I8_BYTE_KERNELS(s8)
#undef I8_BYTE_KERNELS
#else
I8_FLOAT_KERNELS(u8, uint8_t)
I8_FLOAT_KERNELS(s8, int8_t)
#endif
I8_FLOAT_KERNELS(s32, int32_t)
I8_INTEGER_KERNELS(u8, uint8_t)
I8_INTEGER_KERNELS(s8, int8_t)
I8_INTEGER_KERNELS(s32, int32_t)
#undef I8_FLOAT_KERNELS
#undef I8_INTEGER_KERNELS
#undef I8_PLAIN
#undef I8_RUN
