/* Softmax and layer normalization of rows. Operations are f32, in the order of the formulas. elementwise.h has the
 * arguments (i8_normalize_args).
 *
 *   softmax      t = f32(src - max(src)) * scale         the difference of integers is exact
 *                e = exp(t), 0 for t < -87.3
 *                y = e * (1 / sum(e))                    or t - log(sum(e))
 *
 *   layer_norm   x = f32(src)
 *                d = x - sum(x) / n
 *                r = scale / sqrt(scale * scale * (sum(d * d) / n) + epsilon)
 *                y = d * r * gamma + beta
 *                If these steps would overflow or lose precision of f32 (i8_is_ordinary): x = f32(src) * 2**-k 2**k
 *                from the largest |x| d = x - sum(x) / n; d = d - sum(d) / n r = f32(scale * 2**k / sqrt((scale *
 *                2**k)**2 * (sum(d * d) / n) + epsilon)) in f64 y = d * r * gamma + beta
 *
 *   dst = y * dst_scale                                  for floats, rounded to f16 or bf16
 *   dst = sat(rne(y * dst_scale + dst_zero))             for u8 and s8; dst_zero if y is NaN
 *
 * If there is a summand `plus`, src stands for src + plus. src has no zero point, because a zero point would not change
 * the results.
 * A row has I8_PARTS partial sums: element j is added to partial sum j % I8_PARTS, in order. Then the second half of
 * the partial sums is added to the first half, until one sum is left.
 *
 * The workspace has the rows as f32. The steps of a row (a sum, a division, another sum) depend on each other. So the
 * kernels compute each step for several rows before the next step. The last chunk of a row ends with the row, so it
 * overlaps the previous chunk, and some elements are stored twice. Sums take whole chunks, with neutral elements after
 * the last element. */

/* Return the start of the chunk after the chunk at i, in a row of n elements with at least one whole chunk. */
I8_INLINE int64_t i8_next_chunk(int64_t i, int64_t n)
{
    const int64_t next = i + I8_CHUNK, last = n - I8_CHUNK;
    return i < last && next > last ? last : next;
}
#define I8_FOR_CHUNKS(i, n) for (int64_t i = 0; i < (n); i = i8_next_chunk(i, n))

/* i8_whole returns the elements of a row, at least one chunk; i8_chunks rounds them up to whole chunks. */
I8_INLINE int64_t i8_whole(int64_t n) { return n < I8_CHUNK ? I8_CHUNK : n; }
I8_INLINE int64_t i8_chunks(int64_t n) { return (n + I8_CHUNK - 1) / I8_CHUNK * I8_CHUNK; }

/* I8_SHORT_ROW is the maximum number of elements of a row that softmax computes together with other rows.
 * I8_PART_OF_ROW is the number of elements in a part of a longer row. */
#define I8_SHORT_ROW 128
#define I8_PART_OF_ROW (I8_LANES == 8 ? INT64_MAX / 2 : 512)

/* -------------------------------------------------------------------------------------------------- a row of f32 -- */

#define I8_SUMS (I8_PARTS / I8_CHUNK)

/* Add the partial sums. */
I8_INLINE float i8_fold(const i8_floats *sums)
{
    return i8_floats_sum(i8_floats_add(i8_floats_add(sums[0], sums[2]), i8_floats_add(sums[1], sums[3])));
}

/* If a row does not end with a whole chunk, set a chunk of elements after the row to `value`. */
I8_INLINE void i8_fill_rest(float *x, int64_t n, float value)
{
    if (n % I8_CHUNK)
        i8_floats_store(x + n, i8_floats_set(value));
}

/* Return the sum of n numbers and of the remaining elements of the last chunk. */
I8_NOINLINE float i8_sum_row(const float *x, int64_t n)
{
    const i8_floats zero = i8_floats_set(0);
    i8_floats sums[I8_SUMS] = {zero, zero, zero, zero};
    for (; n > I8_PARTS - I8_CHUNK; n -= I8_PARTS, x += I8_PARTS)
        I8_FOR(k, I8_SUMS) sums[k] = i8_floats_add(sums[k], i8_floats_load(x + k * I8_CHUNK));
    I8_FOR(k, I8_SUMS - 1)
        if (n > k * I8_CHUNK)
            sums[k] = i8_floats_add(sums[k], i8_floats_load(x + k * I8_CHUNK));
    return i8_fold(sums);
}

/* Set x = src + plus for a chunk, and add x to the sum. */
I8_INLINE i8_floats i8_add_chunk(float *x, const float *src, const float *plus, i8_floats sum)
{
    const i8_floats y = i8_floats_add(i8_floats_load(src), i8_floats_load(plus));
    i8_floats_store(x, y);
    return i8_floats_add(sum, y);
}

I8_NOINLINE float i8_add_row(float *x, const float *src, const float *plus, int64_t n)
{
    const i8_floats zero = i8_floats_set(0);
    i8_floats sums[I8_SUMS] = {zero, zero, zero, zero};
    int64_t i = 0;
    for (; n - i >= I8_PARTS; i += I8_PARTS)
        I8_FOR(k, I8_SUMS) {
            const int64_t j = i + k * I8_CHUNK;
            sums[k] = i8_add_chunk(x + j, src + j, plus + j, sums[k]);
        }
    I8_FOR(k, I8_SUMS - 1) {
        const int64_t j = i + k * I8_CHUNK;
        if (j < n)
            sums[k] = i8_add_chunk(x + j, src + j, plus + j, sums[k]);
    }
    return i8_fold(sums);
}

/* Set d = x - mean for a chunk, and add the squares of d to the sum. */
I8_INLINE i8_floats i8_center_chunk(float *d, const float *x, i8_floats shift, i8_floats sum)
{
    const i8_floats y = i8_floats_add(i8_floats_load(x), shift);
    i8_floats_store(d, y);
    return i8_floats_add(sum, i8_floats_mul(y, y));
}

/* Set d = x - mean, where d may be x, and return the sum of squares. Elements after the row are set to the mean, so
 * their squares are 0. */
I8_NOINLINE float i8_center_row(float *d, const float *x, int64_t n, float mean)
{
    const i8_floats zero = i8_floats_set(0), shift = i8_floats_set(-mean);
    i8_floats sums[I8_SUMS] = {zero, zero, zero, zero};
    for (; n > I8_PARTS - I8_CHUNK; n -= I8_PARTS, x += I8_PARTS, d += I8_PARTS)
        I8_FOR(k, I8_SUMS) sums[k] = i8_center_chunk(d + k * I8_CHUNK, x + k * I8_CHUNK, shift, sums[k]);
    I8_FOR(k, I8_SUMS - 1)
        if (n > k * I8_CHUNK)
            sums[k] = i8_center_chunk(d + k * I8_CHUNK, x + k * I8_CHUNK, shift, sums[k]);
    return i8_fold(sums);
}

/* Return the largest |x| of a row and of the elements after it. Infinity and NaN count as larger than all numbers. */
I8_NOINLINE float i8_largest_of_row(const float *x, int64_t n)
{
    float lanes[I8_CHUNK], largest = 0;
    i8_floats y = i8_floats_set(0);
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

/* Load a chunk of src, or of src + plus if plus is given. */
I8_INLINE i8_floats i8_source_chunk(const char *src, const float *plus, int64_t i, const int type)
{
    const i8_floats x = i8_chunk_of(src + i * i8_size(type), type);
    return type == I8_TYPE_F32 && plus ? i8_floats_add(x, i8_floats_load(plus + i)) : x;
}

/* Return the summand of a row, or NULL. */
I8_INLINE const float *i8_plus_of(const i8_normalize_args *a, int64_t row)
{
    return a->plus ? (const float *)(const void *)((const char *)a->plus + row * a->plus_row) : NULL;
}

/* Return the largest element of a row that has no NaN. */
I8_INLINE float i8_largest(const char *src, const float *plus, int64_t n, const int type)
{
    i8_floats x = i8_source_chunk(src, plus, 0, type);
    if (n < I8_CHUNK) { /* the chunk has elements after the row, which do not count */
        float lanes[I8_CHUNK];
        i8_floats_store(lanes, x);
        float largest = lanes[0];
        for (int v = 1; v < n; ++v)
            largest = lanes[v] > largest ? lanes[v] : largest;
        return largest;
    }
    I8_FOR_CHUNKS(i, n) x = i8_floats_max(x, i8_source_chunk(src, plus, i, type));
    return i8_floats_top(x);
}

I8_INLINE int32_t i8_largest_word(const char *src, int64_t n)
{
    const int32_t *x = (const int32_t *)(const void *)src;
    int32_t largest = x[0];
    for (int64_t i = 0; i < n; ++i)
        largest = x[i] > largest ? x[i] : largest;
    return largest;
}

/* Set y = exp(y), for y <= 0, in whole chunks. If a chunk takes several registers, compute I8_ABREAST numbers at a
 * time. */
I8_NOINLINE void i8_exp_down_rows(float *y, int64_t n)
{
#if I8_LANES == 8
    for (; n > 0; n -= I8_ABREAST, y += I8_ABREAST) {
        const int count = n < I8_ABREAST ? (int)n : I8_ABREAST;
        float x[I8_ABREAST];
        memcpy(x, y, (size_t)count * sizeof(*y));
        i8_exp_down_abreast(y, x, count);
    }
#else
    for (; n > 0; n -= I8_CHUNK, y += I8_CHUNK)
        I8_EACH y[v] = i8_exp_down(y[v]);
#endif
}

/* Set t for n elements, and set elements after them to -infinity. If d is not NULL, set d = src - max(src). Differences
 * of s32 are in the range of u32. */
I8_INLINE void i8_exponents(float *restrict t, float *restrict d, const char *restrict src, const float *plus,
                            int64_t n, int32_t largest, i8_floats shift, float scale, const int type)
{
    const int64_t end = i8_whole(n);
    const i8_floats factor = i8_floats_set(scale);
    I8_FOR_CHUNKS(i, end) {
        const i8_floats y = type == I8_TYPE_S32 ? i8_floats_minus((const int32_t *)(const void *)src + i, largest)
                                                : i8_floats_add(i8_source_chunk(src, plus, i, type), shift);
        if (d)
            i8_floats_store(d + i, y);
        i8_floats_store(t + i, i8_floats_mul(y, factor));
    }
    i8_fill_rest(t, n, -INFINITY);
}

/* Return the number of elements of a row to compute part by part. In parts, loads from memory overlap with
 * exponentials. The exponentials of the remaining elements are computed for several rows together. */
I8_INLINE int64_t i8_in_parts(int64_t n)
{
    return n < 2 * I8_PART_OF_ROW ? 0 : (n / I8_PART_OF_ROW - 1) * I8_PART_OF_ROW;
}

/* Store in `e` the exponentials of the whole parts of a row, and the exponents of the remaining elements. Store all
 * exponents in `d` if it is given. */
I8_INLINE void i8_exponentials(float *restrict e, float *restrict d, const char *restrict src, const float *plus,
                               int64_t n, float scale, const int type)
{
    const int words = type == I8_TYPE_S32;
    const int32_t largest = words ? i8_largest_word(src, n) : 0;
    const i8_floats shift = i8_floats_set(words ? 0.0f : -i8_largest(src, plus, n, type));
    const int64_t end = i8_in_parts(n);
    for (int64_t i = 0; i < end; i += I8_PART_OF_ROW) {
        i8_exponents(e + i, d ? d + i : d, src + i * i8_size(type), plus ? plus + i : plus, I8_PART_OF_ROW, largest,
                     shift, scale, type);
        i8_exp_down_rows(e + i, I8_PART_OF_ROW);
    }
    i8_exponents(e + end, d ? d + end : d, src + end * i8_size(type), plus ? plus + end : plus, n - end, largest, shift,
                 scale, type);
}

/* Set x = src, or x = src + plus if plus is given, and zeros after the end of the row. */
I8_INLINE void i8_widen(float *restrict x, const char *restrict src, const float *plus, int64_t n, const int type)
{
    const int64_t end = i8_whole(n);
    I8_FOR_CHUNKS(i, end) i8_floats_store(x + i, i8_source_chunk(src, plus, i, type));
    i8_fill_rest(x, n, 0);
}

#define I8_SOURCES(t, type)                                                                                            \
    I8_NOINLINE void i8_exponentials_##t(float *e, float *d, const char *src, const float *plus, int64_t n,            \
                                         float scale)                                                                  \
    {                                                                                                                  \
        i8_exponentials(e, d, src, plus, n, scale, type);                                                              \
    }                                                                                                                  \
    I8_NOINLINE void i8_widen_##t(float *x, const char *src, const float *plus, int64_t n)                             \
    {                                                                                                                  \
        i8_widen(x, src, plus, n, type);                                                                               \
    }
I8_SOURCES(u8, I8_TYPE_U8)
I8_SOURCES(s8, I8_TYPE_S8)
I8_SOURCES(s32, I8_TYPE_S32)
I8_SOURCES(f32, I8_TYPE_F32)
I8_SOURCES(f16, I8_TYPE_F16)
I8_SOURCES(bf16, I8_TYPE_BF16)
#undef I8_SOURCES

/* Call function_u8(...) and so on, by the type of the source. */
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

/* Store sat(rne(y * scale + zero)), or y * scale for floats. */
I8_INLINE void i8_store_normalized(char *dst, i8_floats y, i8_floats scale, i8_floats zero, const int type)
{
    y = i8_floats_mul(y, scale);
    if (type <= I8_TYPE_S8)
        y = i8_floats_add(i8_floats_ordered(y), zero);
    i8_store_chunk(y, type, dst, I8_CHUNK);
}

/* Store y = x * factor + offset. */
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

/* Store y = x * factor * gamma + beta. */
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

/* One loop for each type of the destination. */
#define I8_BY_DST_TYPE(function, ...)                                                                                  \
    switch (a->dst_type) {                                                                                             \
    case I8_TYPE_U8: function(__VA_ARGS__, I8_TYPE_U8); break;                                                         \
    case I8_TYPE_S8: function(__VA_ARGS__, I8_TYPE_S8); break;                                                         \
    case I8_TYPE_F32: function(__VA_ARGS__, I8_TYPE_F32); break;                                                       \
    case I8_TYPE_F16: function(__VA_ARGS__, I8_TYPE_F16); break;                                                       \
    default: function(__VA_ARGS__, I8_TYPE_BF16);                                                                      \
    }

I8_NOINLINE void i8_store_affine(const i8_normalize_args *a, char *restrict dst, const float *restrict x, float factor)
{
    I8_BY_DST_TYPE(i8_store_layer_norm, a, dst, x, factor)
}

/* -------------------------------------------------------------------------------------------------- the kernels --- */

/* Return the number of rows, from `row` on, to compute together. */
I8_INLINE int i8_rows_from(const i8_normalize_args *a, int64_t row, int64_t most)
{
    return (int)(a->rows - row < most ? a->rows - row : most);
}

static void i8_softmax(const i8_normalize_args *a)
{
    const int64_t n = a->n, chunks = i8_chunks(n), most = n <= I8_SHORT_ROW ? I8_MOST_ROWS : 1;
    const int64_t in_parts = i8_in_parts(n);
    float *e = a->workspace, *d = a->log ? e + I8_NORMALIZE_ROOM(n) : NULL;
    for (int64_t row = 0; row < a->rows; row += most) {
        const char *src = a->src + row * a->src_row;
        char *dst = a->dst + row * a->dst_row;
        const int rows = i8_rows_from(a, row, most);
        float sums[I8_MOST_ROWS];
        for (int r = 0; r < rows; ++r)
            I8_BY_SRC_TYPE(i8_exponentials, e + r * chunks, d ? d + r * chunks : d, src + r * a->src_row,
                           i8_plus_of(a, row + r), n, a->scale)
        i8_exp_down_rows(e + in_parts, rows * chunks - in_parts);
        for (int r = 0; r < rows; ++r)
            sums[r] = i8_sum_row(e + r * chunks, n);
        for (int r = 0; r < rows; ++r) {
            /* Adding -0.0 leaves every number unchanged. */
            const float factor = d ? a->scale : 1.0f / sums[r], offset = d ? -i8_log(sums[r]) : -0.0f;
            I8_BY_DST_TYPE(i8_store_softmax, a, dst + r * a->dst_row, (d ? d : e) + r * chunks, factor, offset)
        }
    }
}

/* Replace a chunk of columns by (x - max(x)) * scale of each column. */
I8_INLINE void i8_exponents_across(float *x, int64_t n, int64_t room, float scale)
{
    i8_floats most = i8_floats_load(x);
    for (int64_t j = 1; j < n; ++j)
        most = i8_floats_max(most, i8_floats_load(x + j * room));
    for (int64_t j = 0; j < n; ++j)
        i8_floats_store(x + j * room, i8_floats_mul(i8_floats_sub(i8_floats_load(x + j * room), most),
                                                    i8_floats_set(scale)));
}

/* Return the sums of a chunk of columns, in the order of i8_sum_row. A column of less than I8_PARTS elements has fewer
 * partial sums; i8_sum_row adds zeros instead. */
I8_INLINE i8_floats i8_sum_across(const float *x, int64_t n, int64_t room)
{
    float sums[I8_PARTS * I8_CHUNK];
    for (int64_t j = 0; j < n; ++j) {
        const i8_floats y = i8_floats_load(x + j * room);
        float *sum = sums + j % I8_PARTS * I8_CHUNK;
        i8_floats_store(sum, j < I8_PARTS ? y : i8_floats_add(i8_floats_load(sum), y));
    }
    for (int parts = I8_PARTS / 2; parts; parts /= 2)
        for (int k = 0; k < parts && k + parts < n; ++k)
            i8_floats_store(sums + k * I8_CHUNK, i8_floats_add(i8_floats_load(sums + k * I8_CHUNK),
                                                               i8_floats_load(sums + (k + parts) * I8_CHUNK)));
    return i8_floats_load(sums);
}

static void i8_softmax_across(const i8_normalize_args *a)
{
    const int64_t n = a->n, room = i8_chunks(a->rows);
    float *factors = a->workspace, *offsets = factors + room, *x = offsets + room;
    float *e = a->log ? a->workspace + I8_ACROSS_ROOM(a->rows, n) : x;
    i8_normalize_args across = *a;
    for (int64_t j = 0; j < n; ++j)
        I8_BY_SRC_TYPE(i8_widen, x + j * room, a->src + j * a->src_row, NULL, a->rows)
    for (int64_t i = 0; i < room; i += I8_CHUNK)
        i8_exponents_across(x + i, n, room, a->scale);
    if (a->log)
        memcpy(e, x, (size_t)(n * room) * sizeof(*e));
    i8_exp_down_rows(e, n * room);
    for (int64_t i = 0; i < room; i += I8_CHUNK) {
        float sums[I8_CHUNK];
        i8_floats_store(sums, i8_sum_across(e + i, n, room));
        I8_EACH
        {
            factors[i + v] = a->log ? 1.0f : 1.0f / sums[v];
            offsets[i + v] = a->log ? -i8_log(sums[v]) : -0.0f;
        }
    }
    across.n = a->rows;
    across.gamma = factors;
    across.beta = offsets;
    for (int64_t j = 0; j < n; ++j)
        i8_store_affine(&across, a->dst + j * a->dst_row, x + j * room, 1.0f);
}

/* Return whether scale / sqrt(scale * scale * variance + epsilon) is as exact as f32 allows. The quotient is less exact
 * if a term overflows, if a term is a subnormal number, which has fewer bits, or if the rounding error of the mean
 * matters. */
I8_INLINE int i8_is_ordinary(float mean, float variance, float scale, float epsilon)
{
    const float squares = scale * scale * variance;
    if (!(squares + epsilon <= 3.402823466e38f) || scale < 0x1p-50f || scale > 0x1p30f)
        return 0;
    if (epsilon < 0x1p-60f && (variance < 0x1p-100f || squares < 0x1p-100f))
        return 0;
    return variance == 0 || mean * mean * 0x1p-12f <= variance;
}

/* Set x = x - mean, and return the variance. */
I8_INLINE float i8_center_once(float *x, int64_t n)
{
    const float mean = i8_sum_row(x, n) / (float)n;
    i8_fill_rest(x, n, mean);
    return i8_center_row(x, x, n, mean) / (float)n;
}

/* Return the factor of a row that is not ordinary, and leave its differences from the mean in x. */
I8_NOINLINE float i8_center_scaled(const i8_normalize_args *a, float *x)
{
    int32_t k = (int32_t)(i8_bits_of(i8_largest_of_row(x, a->n)) >> 23) - 127;
    k = k < -126 ? -126 : k > 126 ? 126 : k;
    i8_scale_row(x, a->n, i8_float_of((uint32_t)(127 - k) << 23));
    i8_center_once(x, a->n);
    const float variance = i8_center_once(x, a->n);
    const double scale = (double)a->scale * (double)i8_float_of((uint32_t)(127 + k) << 23);
    const double factor = scale / sqrt(scale * scale * (double)variance + (double)a->epsilon);
    /* The factor exceeds f32 only if all differences are 0. An infinite factor would turn these differences into NaN.
     * */
    return (float)(factor > 0x1p127 && a->epsilon > 0 ? 0x1p127 : factor);
}

/* Return the factor of a row. x has the differences from the mean, and `squares` is the sum of their squares. */
I8_INLINE float i8_row_factor(const i8_normalize_args *a, float *x, int64_t row, float mean, float squares)
{
    const float variance = squares / (float)a->n, scale = a->scale;
    if (i8_is_ordinary(mean, variance, scale, a->epsilon))
        return scale / sqrtf(scale * scale * variance + a->epsilon);
    I8_BY_SRC_TYPE(i8_widen, x, a->src + row * a->src_row, i8_plus_of(a, row), a->n)
    return i8_center_scaled(a, x);
}

static void i8_layer_norm(const i8_normalize_args *a)
{
    const int64_t n = a->n, room = I8_ROW_ROOM(n), most = I8_ROWS_ABREAST(n);
    /* If src is f32 and a row has whole chunks, the sum reads src itself, without a conversion. */
    const int whole = a->src_type == I8_TYPE_F32 && n % I8_CHUNK == 0;
    float *x = a->workspace;
    for (int64_t row = 0; row < a->rows; row += most) {
        char *dst = a->dst + row * a->dst_row;
        const int rows = i8_rows_from(a, row, most);
        const float *from[I8_MOST_ROWS];
        float means[I8_MOST_ROWS], squares[I8_MOST_ROWS], factors[I8_MOST_ROWS];
        for (int r = 0; r < rows; ++r) {
            const char *src = a->src + (row + r) * a->src_row;
            from[r] = whole ? (const float *)(const void *)src : x + r * room;
            if (!whole)
                I8_BY_SRC_TYPE(i8_widen, x + r * room, src, i8_plus_of(a, row + r), n)
        }
        for (int r = 0; r < rows; ++r) {
            if (whole && a->plus) {
                means[r] = i8_add_row(x + r * room, from[r], i8_plus_of(a, row + r), n) / (float)n;
                from[r] = x + r * room;
            } else {
                means[r] = i8_sum_row(from[r], n) / (float)n;
                i8_fill_rest(x + r * room, n, means[r]);
            }
        }
        for (int r = 0; r < rows; ++r)
            squares[r] = i8_center_row(x + r * room, from[r], n, means[r]);
        for (int r = 0; r < rows; ++r)
            factors[r] = i8_row_factor(a, x + r * room, row + r, means[r], squares[r]);
        for (int r = 0; r < rows; ++r)
            i8_store_affine(a, dst + r * a->dst_row, x + r * room, factors[r]);
    }
}
#undef I8_BY_SRC_TYPE
#undef I8_BY_DST_TYPE
#undef I8_FOR_CHUNKS
#undef I8_SUMS
