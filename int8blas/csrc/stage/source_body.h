/* Quantize a source of real numbers while it is packed (dynamic quantization): find the range of a row, then compute
 * its bytes. Loops take chunks of 16, as in the epilogue. Rows are f32, f16 or bf16, with `step` bytes from one k to
 * the next. */
#include <float.h>
#include <math.h>

/* Load `count` numbers of a row as f32, at most one chunk, and zeros for the rest of the chunk. */
I8_INLINE i8_floats i8_source_chunk(const char *src, int type, ptrdiff_t step, int count)
{
    float x[I8_CHUNK];
    if (count == I8_CHUNK && type == I8_TYPE_F32 && step == (ptrdiff_t)sizeof(float))
        return i8_floats_load((const float *)(const void *)src);
    if (count == I8_CHUNK && (type == I8_TYPE_F16 || type == I8_TYPE_BF16) && step == (ptrdiff_t)sizeof(uint16_t))
        return i8_chunk_of(src, type);
    i8_load_chunk(x, type, src, step, count);
    return i8_floats_load(x);
}

/* Set range[0] to the minimum of 0 and the values of a row, and range[1] to the maximum. Set both to NaN if a value is
 * not finite. For a row with NaN the results of MINPS and MAXPS do not matter. */
I8_INLINE void i8_source_range_of(float *range, const char *src, const int type, ptrdiff_t step, int64_t k)
{
    i8_floats low = i8_floats_set(0), high = low, low2 = low, high2 = low;
    i8_floats largest = low, largest2 = low;
    float lows[I8_CHUNK], highs[I8_CHUNK], magnitudes[I8_CHUNK];
    int64_t i = 0;
    for (; i + 2 * I8_CHUNK <= k; i += 2 * I8_CHUNK) {
        const i8_floats x = i8_source_chunk(src + i * step, type, step, I8_CHUNK);
        const i8_floats y = i8_source_chunk(src + (i + I8_CHUNK) * step, type, step, I8_CHUNK);
        low = i8_floats_min(low, x);
        high = i8_floats_max(high, x);
        low2 = i8_floats_min(low2, y);
        high2 = i8_floats_max(high2, y);
        largest = i8_floats_largest(largest, x);
        largest2 = i8_floats_largest(largest2, y);
    }
    for (; i < k; i += I8_CHUNK) {
        const int count = k - i < I8_CHUNK ? (int)(k - i) : I8_CHUNK;
        const i8_floats x = i8_source_chunk(src + i * step, type, step, count);
        low = i8_floats_min(low, x);
        high = i8_floats_max(high, x);
        largest = i8_floats_largest(largest, x);
    }
    i8_floats_store(lows, i8_floats_min(low, low2));
    i8_floats_store(highs, i8_floats_max(high, high2));
    i8_floats_store(magnitudes, i8_floats_largest(largest, largest2));
    range[0] = range[1] = 0;
    I8_EACH range[0] = lows[v] < range[0] ? lows[v] : range[0];
    I8_EACH range[1] = highs[v] > range[1] ? highs[v] : range[1];
    I8_EACH
    {
        if (!(magnitudes[v] <= FLT_MAX))
            range[0] = range[1] = NAN;
    }
}

/* Return the largest magnitude in a row. If a value is not finite, return infinity or NaN. */
I8_INLINE float i8_source_largest_of(const char *src, const int type, ptrdiff_t step, int64_t k)
{
    i8_floats largest = i8_floats_set(0), largest2 = largest;
    float lanes[I8_CHUNK], result = 0;
    int64_t i = 0;
    for (; i + 2 * I8_CHUNK <= k; i += 2 * I8_CHUNK) {
        largest = i8_floats_largest(largest, i8_source_chunk(src + i * step, type, step, I8_CHUNK));
        largest2 = i8_floats_largest(largest2, i8_source_chunk(src + (i + I8_CHUNK) * step, type, step, I8_CHUNK));
    }
    for (; i < k; i += I8_CHUNK) {
        const int count = k - i < I8_CHUNK ? (int)(k - i) : I8_CHUNK;
        largest = i8_floats_largest(largest, i8_source_chunk(src + i * step, type, step, count));
    }
    i8_floats_store(lanes, i8_floats_largest(largest, largest2));
    I8_EACH result = lanes[v] <= result || result != result ? result : lanes[v];
    return result;
}

/* Set dst = rne(src * reciprocal) ^ flip, in s8. The rounded values are in [-127, 127], so there is no NaN and no
 * saturation. */
I8_INLINE void i8_quantize_within_of(uint8_t *dst, const char *src, const int type, ptrdiff_t step, int64_t k,
                                     float reciprocal, uint8_t flip)
{
    const i8_floats factor = i8_floats_set(reciprocal);
    uint8_t bytes[I8_CHUNK];
    for (int64_t i = 0; i < k; i += I8_CHUNK) {
        const int count = k - i < I8_CHUNK ? (int)(k - i) : I8_CHUNK;
        const i8_floats x = i8_floats_mul(i8_source_chunk(src + i * step, type, step, count), factor);
        i8_floats_store_rounded(count == I8_CHUNK ? dst + i : bytes, x, flip);
        if (count < I8_CHUNK)
            memcpy(dst + i, bytes, (size_t)count);
    }
}

/* Set dst = sat(rne(src * reciprocal + zero)), in u8, or the zero point where src is NaN. */
I8_INLINE void i8_quantize_source_of(uint8_t *dst, const char *src, const int type, ptrdiff_t step, int64_t k,
                                     float reciprocal, float zero)
{
    const i8_floats factor = i8_floats_set(reciprocal), offset = i8_floats_set(zero);
    uint8_t bytes[I8_CHUNK];
    for (int64_t i = 0; i < k; i += I8_CHUNK) {
        const int count = k - i < I8_CHUNK ? (int)(k - i) : I8_CHUNK;
        i8_floats x = i8_floats_mul(i8_source_chunk(src + i * step, type, step, count), factor);
        x = i8_floats_add(i8_floats_ordered(x), offset);
        i8_floats_store_bytes(count == I8_CHUNK ? dst + i : bytes, x, 0, 255, 0);
        if (count < I8_CHUNK)
            memcpy(dst + i, bytes, (size_t)count);
    }
}

/* Set dst = sat(rne(src / scale) + zero) for contiguous f32, in u8: ONNX's order of operations. `zero` is an integer
 * from 0 to 255. Saturating before rounding gives the same result, and makes numbers small enough to be rounded by an
 * addition. */
#define I8_ROUND_MAGIC 12582912.0f /* 1.5 * 2**23: the adjacent f32 are integers */
I8_INLINE void i8_quantize_rounded_chunk(uint8_t *dst, const float *src, float scale, float zero)
{
    const float low = -zero, high = 255.0f - zero;
    float x[I8_CHUNK];
    I8_EACH
    {
        float y = src[v] / scale;
        y = y > low ? y : low; /* also if y is NaN */
        y = y < high ? y : high;
        x[v] = ((y + I8_ROUND_MAGIC) - I8_ROUND_MAGIC) + zero;
    }
    i8_floats_store_bytes(dst, i8_floats_load(x), 0.0f, 255.0f, 0);
}
static void i8_quantize_rounded(uint8_t *dst, const float *src, int64_t k, float scale, float zero)
{
    int64_t i = 0;
    for (; i + I8_CHUNK <= k; i += I8_CHUNK)
        i8_quantize_rounded_chunk(dst + i, src + i, scale, zero);
    if (i < k) {
        float x[I8_CHUNK] = {0};
        uint8_t bytes[I8_CHUNK];
        memcpy(x, src + i, (size_t)(k - i) * sizeof(*x));
        i8_quantize_rounded_chunk(bytes, x, scale, zero);
        memcpy(dst + i, bytes, (size_t)(k - i));
    }
}
#undef I8_ROUND_MAGIC

/* Contiguous rows have a loop for each type. The f32 loops are separate functions, so that they spill fewer
 * registers. */
#define I8_HALF (ptrdiff_t)sizeof(uint16_t)
#define I8_OTHER_TYPE(call)                                                                                            \
    type == I8_TYPE_F16 && step == I8_HALF ? call(I8_TYPE_F16, I8_HALF)                                                \
    : type == I8_TYPE_BF16 && step == I8_HALF ? call(I8_TYPE_BF16, I8_HALF)                                            \
                                              : call(type, step)
#define I8_IS_F32 (type == I8_TYPE_F32 && step == (ptrdiff_t)sizeof(float))

#define I8_CALL(type, step) i8_source_range_of(range, src, type, step, k)
I8_NOINLINE void i8_source_range_other(float *range, const char *src, int type, ptrdiff_t step, int64_t k)
{
    I8_OTHER_TYPE(I8_CALL);
}
static void i8_source_range(float *range, const char *src, int type, ptrdiff_t step, int64_t k)
{
    I8_IS_F32 ? I8_CALL(I8_TYPE_F32, (ptrdiff_t)sizeof(float)) : i8_source_range_other(range, src, type, step, k);
}
#undef I8_CALL

#define I8_CALL(type, step) i8_quantize_source_of(dst, src, type, step, k, reciprocal, zero)
I8_NOINLINE void i8_quantize_source_other(uint8_t *dst, const char *src, int type, ptrdiff_t step, int64_t k,
                                          float reciprocal, float zero)
{
    I8_OTHER_TYPE(I8_CALL);
}
static void i8_quantize_source(uint8_t *dst, const char *src, int type, ptrdiff_t step, int64_t k, float reciprocal,
                               float zero)
{
    I8_IS_F32 ? I8_CALL(I8_TYPE_F32, (ptrdiff_t)sizeof(float))
              : i8_quantize_source_other(dst, src, type, step, k, reciprocal, zero);
}
#undef I8_CALL

#define I8_CALL(type, step) i8_source_largest_of(src, type, step, k)
I8_NOINLINE float i8_source_largest_other(const char *src, int type, ptrdiff_t step, int64_t k)
{
    return I8_OTHER_TYPE(I8_CALL);
}
static float i8_source_largest(const char *src, int type, ptrdiff_t step, int64_t k)
{
    return I8_IS_F32 ? I8_CALL(I8_TYPE_F32, (ptrdiff_t)sizeof(float)) : i8_source_largest_other(src, type, step, k);
}
#undef I8_CALL

#define I8_CALL(type, step) i8_quantize_within_of(dst, src, type, step, k, reciprocal, flip)
I8_NOINLINE void i8_quantize_within_other(uint8_t *dst, const char *src, int type, ptrdiff_t step, int64_t k,
                                          float reciprocal, uint8_t flip)
{
    I8_OTHER_TYPE(I8_CALL);
}
static void i8_quantize_within(uint8_t *dst, const char *src, int type, ptrdiff_t step, int64_t k, float reciprocal,
                               uint8_t flip)
{
    I8_IS_F32 ? I8_CALL(I8_TYPE_F32, (ptrdiff_t)sizeof(float))
              : i8_quantize_within_other(dst, src, type, step, k, reciprocal, flip);
}
#undef I8_CALL
#undef I8_IS_F32
#undef I8_OTHER_TYPE
#undef I8_HALF
