/* Quantize a source of real numbers while it is packed (dynamic quantization): find the range of a row, then compute
 * the bytes of the row. Loops take chunks of 16 numbers. Rows are f32, f16 or bf16, with `step` bytes from one k to the
 * next. */
#include <float.h>
#include <math.h>

/* Load `count` numbers of a row as f32, at most one chunk, and zeros for the rest of the chunk. */
I8_INLINE i8_floats i8_source_chunk(const char *src, int type, ptrdiff_t step, int count)
{
    float x[I8_CHUNK];
    if (type == I8_TYPE_F32 && step == (ptrdiff_t)sizeof(float))
        return count == I8_CHUNK ? i8_floats_load((const float *)(const void *)src)
                                 : i8_floats_load_some((const float *)(const void *)src, count);
    if (count == I8_CHUNK && (type == I8_TYPE_F16 || type == I8_TYPE_BF16) && step == (ptrdiff_t)sizeof(uint16_t))
        return i8_chunk_of(src, type);
    i8_load_chunk(x, type, src, step, count);
    return i8_floats_load(x);
}

/* Set range[0] to the minimum of 0 and the values of a row, and range[1] to their maximum. Set both elements of range
 * to NaN if a value is not finite. If the row has NaN, the results of MINPS and MAXPS do not matter. */
I8_INLINE void i8_source_range_of(float *range, const char *src, const int type, ptrdiff_t step, int64_t k)
{
    i8_floats low = i8_floats_set(0), high = low, low2 = low, high2 = low;
    i8_floats largest = low, largest2 = low;
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
    if (!(i8_floats_top_magnitude(i8_floats_largest(largest, largest2)) <= FLT_MAX)) {
        range[0] = range[1] = NAN;
        return;
    }
    range[0] = 0.0f - i8_floats_top(i8_floats_sub(i8_floats_set(0), i8_floats_min(low, low2)));
    range[1] = i8_floats_top(i8_floats_max(high, high2));
}

/* Set largest[i] to the largest magnitude of row i, or to infinity or NaN if a value is not finite. */
I8_INLINE void i8_source_largest_of(float *largest, const char *src, ptrdiff_t row, int64_t rows, const int type,
                                    ptrdiff_t step, int64_t k)
{
    for (int64_t r = 0; r < rows; ++r, src += row) {
        i8_floats x = i8_floats_set(0), y = x;
        int64_t i = 0;
        for (; i + 2 * I8_CHUNK <= k; i += 2 * I8_CHUNK) {
            x = i8_floats_largest(x, i8_source_chunk(src + i * step, type, step, I8_CHUNK));
            y = i8_floats_largest(y, i8_source_chunk(src + (i + I8_CHUNK) * step, type, step, I8_CHUNK));
        }
        if (i + I8_CHUNK <= k) {
            x = i8_floats_largest(x, i8_source_chunk(src + i * step, type, step, I8_CHUNK));
            i += I8_CHUNK;
        }
        if (i < k)
            y = i8_floats_largest(y, i8_source_chunk(src + i * step, type, step, (int)(k - i)));
        largest[r] = i8_floats_top_magnitude(i8_floats_largest(x, y));
    }
}

/* Set dst = rne(src / scale) ^ flip for each row and its scale, in s8. The rounded values are in [-127, 127], so there
 * is no saturation. Rows whose scale is NaN become 0. */
I8_INLINE void i8_quantize_within_of(uint8_t *dst, ptrdiff_t dst_row, const char *src, ptrdiff_t row, int64_t rows,
                                     const int type, ptrdiff_t step, int64_t k, const float *scales, uint8_t flip)
{
    for (int64_t r = 0; r < rows; ++r, src += row, dst += dst_row) {
        const i8_floats factor = i8_floats_set(1 / scales[r]);
        int64_t i = 0;
        if (isnan(scales[r])) {
            memset(dst, 0, (size_t)k);
            continue;
        }
        for (; i + I8_CHUNK <= k; i += I8_CHUNK)
            i8_floats_store_rounded(
                dst + i, i8_floats_mul(i8_source_chunk(src + i * step, type, step, I8_CHUNK), factor), flip);
        if (i < k) {
            const int count = (int)(k - i);
            char bytes[4 * I8_CHUNK]; /* i8_copy_part may read all of `bytes` */
            i8_floats_store_rounded(
                (uint8_t *)bytes, i8_floats_mul(i8_source_chunk(src + i * step, type, step, count), factor), flip);
            i8_copy_part((char *)dst + i, bytes, count);
        }
    }
}

/* Set dst = sat(rne(src * reciprocal + zero)), in u8, or the zero point if src is NaN. */
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

/* Contiguous rows have a loop for each type. The loops for f32 are separate functions, which spill fewer registers. */
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

#define I8_CALL(type, step) i8_source_largest_of(largest, src, row, rows, type, step, k)
I8_NOINLINE void i8_source_largest_other(float *largest, const char *src, ptrdiff_t row, int64_t rows, int type,
                                         ptrdiff_t step, int64_t k)
{
    I8_OTHER_TYPE(I8_CALL);
}
static void i8_source_largest(float *largest, const char *src, ptrdiff_t row, int64_t rows, int type, ptrdiff_t step,
                              int64_t k)
{
    I8_IS_F32 ? I8_CALL(I8_TYPE_F32, (ptrdiff_t)sizeof(float))
              : i8_source_largest_other(largest, src, row, rows, type, step, k);
}
#undef I8_CALL

#define I8_CALL(type, step) i8_quantize_within_of(dst, dst_row, src, row, rows, type, step, k, scales, flip)
I8_NOINLINE void i8_quantize_within_other(uint8_t *dst, ptrdiff_t dst_row, const char *src, ptrdiff_t row, int64_t rows,
                                          int type, ptrdiff_t step, int64_t k, const float *scales, uint8_t flip)
{
    I8_OTHER_TYPE(I8_CALL);
}
static void i8_quantize_within(uint8_t *dst, ptrdiff_t dst_row, const char *src, ptrdiff_t row, int64_t rows, int type,
                               ptrdiff_t step, int64_t k, const float *scales, uint8_t flip)
{
    I8_IS_F32 ? I8_CALL(I8_TYPE_F32, (ptrdiff_t)sizeof(float))
              : i8_quantize_within_other(dst, dst_row, src, row, rows, type, step, k, scales, flip);
}
#undef I8_CALL
#undef I8_IS_F32
#undef I8_OTHER_TYPE
#undef I8_HALF
