/* Softmax and layer normalization of rows, in f32 in the order written. Arguments: i8_normalize_args in elementwise.h.
 *
 *   softmax      t = f32(src - max(src)) * scale         the difference of integers is exact
 *                e = exp(t), 0 for t < -87.3
 *                y = e * (1 / sum(e))                    or t - log(sum(e))
 *
 *   layer_norm   x = f32(src)
 *                d = x - sum(x) / n
 *                r = scale / sqrt(scale * scale * (sum(d * d) / n) + epsilon)
 *                y = d * r * gamma + beta
 *                where that would overflow, or lose what f32 has, as i8_is_ordinary says:
 *                x = f32(src) * 2**-k                  2**k from the largest |x|
 *                d = x - sum(x) / n; d = d - sum(d) / n
 *                r = f32(scale * 2**k / sqrt((scale * 2**k)**2 * (sum(d * d) / n) + epsilon))        in f64
 *                y = d * r * gamma + beta
 *
 *   dst = y * dst_scale                                  f32, rounded to f16, bf16
 *   dst = sat(rne(y * dst_scale + dst_zero))             u8 and s8; dst_zero where y is NaN
 *
 * A zero point of src would cancel in both. The sum over a row is of I8_PARTS partial sums: element j is added to
 * number j % I8_PARTS, in order; then the second half of them is added to the first, until one is left.
 *
 * Everything between src and dst is a row of f32 in the workspace. The last chunk of a row begins early enough to end
 * with it, and writes what the one before it wrote once more. */

/* The chunk behind the one at i, in a row of n elements that has at least one whole chunk. */
I8_INLINE int64_t i8_next_chunk(int64_t i, int64_t n)
{
    const int64_t next = i + I8_CHUNK, last = n - I8_CHUNK;
    return i < last && next > last ? last : next;
}
#define I8_FOR_CHUNKS(i, n) for (int64_t i = 0; i < (n); i = i8_next_chunk(i, n))

/* Elements that a row takes at least: fewer than a chunk are not told apart. */
I8_INLINE int64_t i8_whole(int64_t n) { return n < I8_CHUNK ? I8_CHUNK : n; }

/* -------------------------------------------------------------------------------------------------- a row of f32 -- */

#define I8_SUMS (I8_PARTS / I8_CHUNK)

/* The partial sums added up. */
I8_INLINE float i8_fold(const i8_floats *sums)
{
    return i8_floats_sum(i8_floats_add(i8_floats_add(sums[0], sums[2]), i8_floats_add(sums[1], sums[3])));
}

/* Elements behind a row, up to a multiple of I8_PARTS, and perhaps some more. */
I8_INLINE void i8_fill_rest(float *x, int64_t n, float value)
{
    for (int64_t i = n; i < (n + I8_PARTS - 1) / I8_PARTS * I8_PARTS; i += I8_CHUNK)
        i8_floats_store(x + i, i8_floats_set(value));
}

/* The sum of n numbers. */
I8_NOINLINE float i8_sum_row(float *x, int64_t n)
{
    const i8_floats zero = i8_floats_set(0);
    i8_floats sums[I8_SUMS] = {zero, zero, zero, zero};
    i8_fill_rest(x, n, 0);
    for (int64_t i = 0; i < n; i += I8_PARTS)
        I8_FOR(k, I8_SUMS) sums[k] = i8_floats_add(sums[k], i8_floats_load(x + i + k * I8_CHUNK));
    return i8_fold(sums);
}

/* x = x - mean; the sum of the squares of that. */
I8_NOINLINE float i8_center_row(float *x, int64_t n, float mean)
{
    const i8_floats zero = i8_floats_set(0), shift = i8_floats_set(-mean);
    i8_floats sums[I8_SUMS] = {zero, zero, zero, zero};
    i8_fill_rest(x, n, mean); /* whose squares are 0 */
    for (int64_t i = 0; i < n; i += I8_PARTS)
        I8_FOR(k, I8_SUMS) {
            const i8_floats d = i8_floats_add(i8_floats_load(x + i + k * I8_CHUNK), shift);
            i8_floats_store(x + i + k * I8_CHUNK, d);
            sums[k] = i8_floats_add(sums[k], i8_floats_mul(d, d));
        }
    return i8_fold(sums);
}

/* The largest |x|, infinity and NaN being larger than all numbers. */
I8_NOINLINE float i8_largest_of_row(float *x, int64_t n)
{
    float lanes[I8_CHUNK], largest = 0;
    i8_floats y = i8_floats_set(0);
    i8_fill_rest(x, n, 0);
    for (int64_t i = 0; i < n; i += I8_CHUNK)
        y = i8_floats_largest(y, i8_floats_load(x + i));
    i8_floats_store(lanes, y);
    I8_EACH largest = largest >= lanes[v] ? largest : lanes[v];
    return largest;
}

I8_NOINLINE void i8_scale_row(float *x, int64_t n, float factor)
{
    for (int64_t i = 0; i < n; i += I8_CHUNK)
        i8_floats_store(x + i, i8_floats_mul(i8_floats_load(x + i), i8_floats_set(factor)));
}

/* --------------------------------------------------------------------------------------------------- the source --- */

/* The largest element of a row, if not one is NaN. */
I8_INLINE float i8_largest(const char *src, int64_t n, const int type)
{
    float lanes[I8_CHUNK];
    i8_floats x = i8_chunk_of(src, type);
    if (n > I8_CHUNK)
        I8_FOR_CHUNKS(i, n) x = i8_floats_max(x, i8_chunk_of(src + i * i8_size(type), type));
    i8_floats_store(lanes, x);
    float largest = lanes[0];
    for (int v = 1; v < n && v < I8_CHUNK; ++v)
        largest = lanes[v] > largest ? lanes[v] : largest;
    return largest;
}

I8_INLINE int32_t i8_largest_word(const char *src, int64_t n)
{
    const int32_t *x = (const int32_t *)(const void *)src;
    int32_t largest = x[0];
    for (int64_t i = 0; i < n; ++i)
        largest = x[i] > largest ? x[i] : largest;
    return largest;
}

#if I8_LANES == 8
/* y = exp(y), for y that are not positive, and of whole chunks. Where a chunk is several registers, as a run. */
I8_NOINLINE void i8_exp_down_row(float *y, int64_t n)
{
    for (; n > 0; n -= I8_ABREAST, y += I8_ABREAST) {
        const int count = n < I8_ABREAST ? (int)((n + I8_CHUNK - 1) / I8_CHUNK * I8_CHUNK) : I8_ABREAST;
        float x[I8_ABREAST];
        memcpy(x, y, (size_t)count * sizeof(*y));
        i8_exp_down_abreast(y, x, count);
    }
}
#endif

/* e = exp(t) of a row; d = what t is the scale times, if that is wanted. Differences of s32 are in the range of u32. */
I8_INLINE void i8_exponentials(float *restrict e, float *restrict d, const char *restrict src, int64_t n, float scale,
                               const int type)
{
    const int words = type == I8_TYPE_S32;
    const int32_t largest = words ? i8_largest_word(src, n) : 0;
    const i8_floats shift = i8_floats_set(words ? 0.0f : -i8_largest(src, n, type));
    const int64_t end = i8_whole(n);
    I8_FOR_CHUNKS(i, end) {
        const char *x = src + i * i8_size(type);
        float y[I8_CHUNK];
        if (words)
            i8_floats_store(y, i8_floats_minus((const int32_t *)(const void *)x, largest));
        else
            i8_floats_store(y, i8_floats_add(i8_chunk_of(x, type), shift));
        if (d)
            memcpy(d + i, y, sizeof(y));
#if I8_LANES == 8
        i8_floats_store(e + i, i8_floats_mul(i8_floats_load(y), i8_floats_set(scale)));
#else
        I8_EACH y[v] = i8_exp_down(y[v] * scale); /* in one loop with the product, or GCC 12 does not vectorize it */
        memcpy(e + i, y, sizeof(y));
#endif
    }
#if I8_LANES == 8
    i8_fill_rest(e, n, 0);
    i8_exp_down_row(e, n);
#endif
}

I8_INLINE void i8_widen(float *restrict x, const char *restrict src, int64_t n, const int type)
{
    const int64_t end = i8_whole(n);
    I8_FOR_CHUNKS(i, end) i8_floats_store(x + i, i8_chunk_of(src + i * i8_size(type), type));
}

#define I8_SOURCES(t, type)                                                                                            \
    I8_NOINLINE void i8_exponentials_##t(float *e, float *d, const char *src, int64_t n, float scale)                  \
    {                                                                                                                  \
        i8_exponentials(e, d, src, n, scale, type);                                                                    \
    }                                                                                                                  \
    I8_NOINLINE void i8_widen_##t(float *x, const char *src, int64_t n) { i8_widen(x, src, n, type); }
I8_SOURCES(u8, I8_TYPE_U8)
I8_SOURCES(s8, I8_TYPE_S8)
I8_SOURCES(s32, I8_TYPE_S32)
I8_SOURCES(f32, I8_TYPE_F32)
I8_SOURCES(f16, I8_TYPE_F16)
I8_SOURCES(bf16, I8_TYPE_BF16)
#undef I8_SOURCES

/* function_u8(...) and so on, by the type of the source. */
#define I8_BY_SRC_TYPE(function, ...)                                                                                  \
    switch (a->src_type) {                                                                                             \
    case I8_TYPE_U8: function##_u8(__VA_ARGS__); break;                                                                \
    case I8_TYPE_S8: function##_s8(__VA_ARGS__); break;                                                                \
    case I8_TYPE_S32: function##_s32(__VA_ARGS__); break;                                                              \
    case I8_TYPE_F32: function##_f32(__VA_ARGS__); break;                                                              \
    case I8_TYPE_F16: function##_f16(__VA_ARGS__); break;                                                              \
    default: function##_bf16(__VA_ARGS__);                                                                             \
    }

/* ---------------------------------------------------------------------------------------------- the destination --- */

/* sat(rne(y * scale + zero)), or y * scale for floats. */
I8_INLINE void i8_store_normalized(char *dst, i8_floats y, i8_floats scale, i8_floats zero, const int type)
{
    y = i8_floats_mul(y, scale);
    if (type <= I8_TYPE_S8)
        y = i8_floats_add(i8_floats_ordered(y), zero);
    i8_store_chunk(y, type, dst, I8_CHUNK);
}

/* y = x * factor + offset. */
I8_INLINE void i8_store_softmax(const i8_normalize_args *a, char *restrict dst, const float *restrict x, float factor,
                                float offset, const int type)
{
    const int64_t end = i8_whole(a->n);
    const i8_floats f = i8_floats_set(factor), o = i8_floats_set(offset);
    const i8_floats scale = i8_floats_set(a->dst_scale), zero = i8_floats_set(a->dst_zero);
    I8_FOR_CHUNKS(i, end) {
        const i8_floats y = i8_floats_add(i8_floats_mul(i8_floats_load(x + i), f), o);
        i8_store_normalized(dst + i * i8_size(type), y, scale, zero, type);
    }
}

/* y = x * factor * gamma + beta. */
I8_INLINE void i8_store_layer_norm(const i8_normalize_args *a, char *restrict dst, const float *restrict x,
                                   float factor, const int type)
{
    const int64_t end = i8_whole(a->n);
    const float *gamma = a->gamma, *beta = a->beta;
    const i8_floats f = i8_floats_set(factor);
    const i8_floats scale = i8_floats_set(a->dst_scale), zero = i8_floats_set(a->dst_zero);
    I8_FOR_CHUNKS(i, end) {
        const i8_floats y = i8_floats_mul(i8_floats_mul(i8_floats_load(x + i), f), i8_floats_load(gamma + i));
        i8_store_normalized(dst + i * i8_size(type), i8_floats_add(y, i8_floats_load(beta + i)), scale, zero, type);
    }
}

/* A loop for each type of the destination. */
#define I8_BY_DST_TYPE(function, ...)                                                                                  \
    switch (a->dst_type) {                                                                                             \
    case I8_TYPE_U8: function(__VA_ARGS__, I8_TYPE_U8); break;                                                         \
    case I8_TYPE_S8: function(__VA_ARGS__, I8_TYPE_S8); break;                                                         \
    case I8_TYPE_F32: function(__VA_ARGS__, I8_TYPE_F32); break;                                                       \
    case I8_TYPE_F16: function(__VA_ARGS__, I8_TYPE_F16); break;                                                       \
    default: function(__VA_ARGS__, I8_TYPE_BF16);                                                                      \
    }

/* -------------------------------------------------------------------------------------------------- the kernels --- */

static void i8_softmax(const i8_normalize_args *a)
{
    float *e = a->workspace, *d = a->log ? e + I8_ROW_ROOM(a->n) : NULL;
    for (int64_t row = 0; row < a->rows; ++row) {
        const char *src = a->src + row * a->src_row;
        char *dst = a->dst + row * a->dst_row;
        I8_BY_SRC_TYPE(i8_exponentials, e, d, src, a->n, a->scale)
        const float sum = i8_sum_row(e, a->n);
        /* -0.0 is what leaves every number as it is when it is added. */
        const float factor = d ? a->scale : 1.0f / sum, offset = d ? -i8_log(sum) : -0.0f;
        I8_BY_DST_TYPE(i8_store_softmax, a, dst, d ? d : e, factor, offset)
    }
}

/* Whether scale / sqrt(scale * scale * variance + epsilon) is as exact as f32 allows. Not where something overflows;
 * where subnormal numbers count, which have fewer bits; where the rounding error of the mean counts in the variance. */
I8_INLINE int i8_is_ordinary(float mean, float variance, float scale, float epsilon)
{
    const float squares = scale * scale * variance;
    if (!(squares + epsilon <= 3.402823466e38f) || scale < 0x1p-50f || scale > 0x1p30f)
        return 0;
    if (epsilon < 0x1p-60f && (variance < 0x1p-100f || squares < 0x1p-100f))
        return 0;
    return variance == 0 || mean * mean * 0x1p-12f <= variance;
}

/* The factor of a row that is not ordinary, whose differences from the mean are left in x. */
I8_NOINLINE float i8_center_scaled(const i8_normalize_args *a, float *x)
{
    const float n = (float)a->n;
    int32_t k = (int32_t)(i8_bits_of(i8_largest_of_row(x, a->n)) >> 23) - 127;
    k = k < -126 ? -126 : k > 126 ? 126 : k;
    i8_scale_row(x, a->n, i8_float_of((uint32_t)(127 - k) << 23));
    i8_center_row(x, a->n, i8_sum_row(x, a->n) / n);
    const float variance = i8_center_row(x, a->n, i8_sum_row(x, a->n) / n) / n;
    const double scale = (double)a->scale * (double)i8_float_of((uint32_t)(127 + k) << 23);
    const double factor = scale / sqrt(scale * scale * (double)variance + (double)a->epsilon);
    /* Beyond f32 only where all differences are 0, which an infinite factor would make NaN. */
    return (float)(factor > 0x1p127 && a->epsilon > 0 ? 0x1p127 : factor);
}

static void i8_layer_norm(const i8_normalize_args *a)
{
    float *x = a->workspace;
    const float n = (float)a->n, scale = a->scale;
    for (int64_t row = 0; row < a->rows; ++row) {
        const char *src = a->src + row * a->src_row;
        char *dst = a->dst + row * a->dst_row;
        I8_BY_SRC_TYPE(i8_widen, x, src, a->n)
        const float mean = i8_sum_row(x, a->n) / n;
        const float variance = i8_center_row(x, a->n, mean) / n;
        float factor = scale / sqrtf(scale * scale * variance + a->epsilon);
        if (!i8_is_ordinary(mean, variance, scale, a->epsilon)) {
            I8_BY_SRC_TYPE(i8_widen, x, src, a->n)
            factor = i8_center_scaled(a, x);
        }
        I8_BY_DST_TYPE(i8_store_layer_norm, a, dst, x, factor)
    }
}
#undef I8_BY_SRC_TYPE
#undef I8_BY_DST_TYPE
#undef I8_FOR_CHUNKS
#undef I8_SUMS
