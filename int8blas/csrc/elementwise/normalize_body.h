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
 *
 *                If these steps would overflow or lose precision of f32 (i8_is_ordinary):
 *                x = f32(src) * 2**-k                    2**k is the power of two of the largest |x|
 *                d = x - sum(x) / n
 *                d = d - sum(d) / n
 *                r = f32(scale * 2**k / sqrt((scale * 2**k)**2 * (sum(d * d) / n) + epsilon))    in f64
 *                y = d * r * gamma + beta
 *
 *   dst = y * dst_scale                                  for floats, rounded to f16 or bf16
 *   dst = sat(rne(y * dst_scale + dst_zero))             for u8 and s8; dst_zero if y is NaN
 *
 * If there is a summand `plus`, src stands for src + plus. src has no zero point, because a zero point would not change
 * the results.
 * A row has I8_PARTS partial sums: element j is added to partial sum j % I8_PARTS, in order. The second half of the
 * partial sums is then added to the first half, repeatedly, until one sum is left.
 *
 * The workspace has the rows as f32. The steps of a row (a sum, a division, another sum) depend on each other, so the
 * kernels compute each step for several rows before the next step. The last chunk of a row ends with the row, so it
 * overlaps the previous chunk, and some elements are stored twice. Sums take whole chunks, with neutral elements after
 * the last element. */

/* Return the start of the chunk that follows the chunk at i. The row has n elements, at least one whole chunk. */
I8_INLINE int64_t i8_next_chunk(int64_t i, int64_t n)
{
    const int64_t next = i + I8_CHUNK, last = n - I8_CHUNK;
    return i < last && next > last ? last : next;
}
#define I8_FOR_CHUNKS(i, n) for (int64_t i = 0; i < (n); i = i8_next_chunk(i, n))

/* i8_whole returns n, but at least one chunk. i8_chunks rounds n up to whole chunks. */
I8_INLINE int64_t i8_whole(int64_t n) { return n < I8_CHUNK ? I8_CHUNK : n; }
I8_INLINE int64_t i8_chunks(int64_t n) { return (n + I8_CHUNK - 1) / I8_CHUNK * I8_CHUNK; }

/* A row of f32 */

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

/* Return the sum of squares of x - mean. Elements after the row are set to the mean, so their squares are 0. */
I8_NOINLINE float i8_squares_of_row(const float *x, int64_t n, float mean)
{
    const i8_floats zero = i8_floats_set(0), shift = i8_floats_set(-mean);
    i8_floats sums[I8_SUMS] = {zero, zero, zero, zero}, d[I8_SUMS];
    for (; n > I8_PARTS - I8_CHUNK; n -= I8_PARTS, x += I8_PARTS) {
        I8_FOR(k, I8_SUMS) d[k] = i8_floats_add(i8_floats_load(x + k * I8_CHUNK), shift);
        I8_FOR(k, I8_SUMS) sums[k] = i8_floats_add(sums[k], i8_floats_mul(d[k], d[k]));
    }
    I8_FOR(k, I8_SUMS - 1)
        if (n > k * I8_CHUNK) {
            d[k] = i8_floats_add(i8_floats_load(x + k * I8_CHUNK), shift);
            sums[k] = i8_floats_add(sums[k], i8_floats_mul(d[k], d[k]));
        }
    return i8_fold(sums);
}

/* Return the largest |x| of a row and of the rest of its last chunk. Infinity and NaN exceed all numbers. */
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

/* Set x = x * factor + shift. */
I8_NOINLINE void i8_move_row(float *x, int64_t n, float factor, float shift)
{
    for (int64_t i = 0; i < n; i += I8_CHUNK)
        i8_floats_store(x + i, i8_floats_add(i8_floats_mul(i8_floats_load(x + i), i8_floats_set(factor)),
                                             i8_floats_set(shift)));
}

/* The source */

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

/* Set y = e**x for x <= 0, like i8_exp_down, for `count` chunks, at most I8_TOGETHER. Each operation takes 3 cycles and
 * needs the previous result, so the operations of several chunks take turns. Without I8_FLOATS_PIN, GCC would compute
 * one chunk after the other. */
#if I8_LANES > 1
enum { I8_TOGETHER = I8_LANES == 16 ? 8 : 2 };
I8_INLINE void i8_exp_down_chunks(i8_floats *y, const i8_floats *x, const int count)
{
    const i8_floats magic = i8_floats_set(I8_EXP_MAGIC), end = i8_floats_set(I8_EXP_DOWN_END);
    i8_floats n[I8_TOGETHER], power[I8_TOGETHER], r[I8_TOGETHER], p[I8_TOGETHER];
#define I8_STEP(variable, value)                                                                                       \
    I8_FOR(k, count) {                                                                                                 \
        variable[k] = value;                                                                                           \
        I8_FLOATS_PIN(variable[k]);                                                                                    \
    }
#define I8_NEXT(c) I8_STEP(p, i8_floats_mul(p[k], r[k])) I8_STEP(p, i8_floats_add(p[k], i8_floats_set(c)))
    I8_STEP(n, i8_floats_add(i8_floats_mul(x[k], i8_floats_set(I8_LOG2_E)), magic))
    I8_FOR(k, count) power[k] = i8_floats_power_of_two(n[k]);
    I8_STEP(n, i8_floats_sub(n[k], magic))
    I8_STEP(r, i8_floats_less_product(x[k], n[k], i8_floats_set(I8_LN2_HIGH)))
    I8_STEP(r, i8_floats_add(r[k], i8_floats_mul(n[k], i8_floats_set(I8_LN2_LOW))))
    I8_FOR(k, count) p[k] = i8_floats_set(I8_EXP_FIRST);
    I8_EXP_OTHERS(I8_NEXT)
    I8_STEP(p, i8_floats_mul(p[k], i8_floats_mul(r[k], r[k])))
    I8_STEP(p, i8_floats_add(p[k], r[k]))
    I8_STEP(p, i8_floats_add(p[k], i8_floats_set(1)))
    I8_FOR(k, count) y[k] = i8_floats_unless_below(x[k], end, i8_floats_mul(p[k], power[k]));
#undef I8_NEXT
#undef I8_STEP
}
#else
enum { I8_TOGETHER = 1 };
I8_INLINE void i8_exp_down_chunks(i8_floats *y, const i8_floats *x, const int count)
{
    (void)count;
    I8_EACH y->lane[v] = i8_exp_down(x->lane[v]);
}
#endif

/* A row of softmax: t = (src + plus + shift) * scale, or f32(src - largest) * scale for s32. */
typedef struct {
    const char *src;
    const float *plus;
    int64_t n;
    int32_t largest;
    float shift, scale;
    ptrdiff_t next; /* bytes from src to the next row, which the pass of exponentials prefetches */
} i8_softmax_row;

/* Set `shift` or `largest` of a row that has no NaN. */
I8_INLINE void i8_find_largest(i8_softmax_row *r, const int type)
{
    const int64_t n = r->n, last = n - I8_CHUNK;
    if (type == I8_TYPE_S32) {
        const int32_t *x = (const int32_t *)(const void *)r->src;
        int32_t largest = x[0];
        for (int64_t i = 0; i < n; ++i)
            largest = x[i] > largest ? x[i] : largest;
        r->largest = largest;
        return;
    }
    i8_floats x[I8_SUMS];
    I8_FOR(k, I8_SUMS) x[k] = i8_source_chunk(r->src, r->plus, 0, type);
    if (last < 0) { /* ignore elements after the row */
        float lanes[I8_CHUNK];
        i8_floats_store(lanes, x[0]);
        float largest = lanes[0];
        for (int v = 1; v < n; ++v)
            largest = lanes[v] > largest ? lanes[v] : largest;
        r->shift = -largest;
        return;
    }
    int64_t i = 0;
    for (; i + I8_PARTS <= n; i += I8_PARTS)
        I8_FOR(k, I8_SUMS) x[k] = i8_floats_max(x[k], i8_source_chunk(r->src, r->plus, i + k * I8_CHUNK, type));
    for (; i < last; i += I8_CHUNK)
        x[0] = i8_floats_max(x[0], i8_source_chunk(r->src, r->plus, i, type));
    x[1] = i8_floats_max(x[1], i8_source_chunk(r->src, r->plus, last, type));
    r->shift = -i8_floats_top(i8_floats_max(i8_floats_max(x[0], x[1]), i8_floats_max(x[2], x[3])));
}

/* Return t / scale of the chunk at i. */
I8_INLINE i8_floats i8_differences(const i8_softmax_row *r, int64_t i, const int type)
{
    if (type == I8_TYPE_S32)
        return i8_floats_minus((const int32_t *)(const void *)r->src + i, r->largest);
    return i8_floats_add(i8_source_chunk(r->src, r->plus, i, type), i8_floats_set(r->shift));
}

/* Return t of the chunk at i. */
I8_INLINE i8_floats i8_exponents(const i8_softmax_row *r, int64_t i, const int type)
{
    return i8_floats_mul(i8_differences(r, i, type), i8_floats_set(r->scale));
}

/* Store t of the last chunk of a row, or of all chunks, and -infinity after the row. */
I8_INLINE void i8_store_exponents(const i8_softmax_row *r, float *e, int all, const int type)
{
    const int64_t end = i8_whole(r->n), first = all ? 0 : end - I8_CHUNK;
    for (int64_t i = first; i < end; i = i8_next_chunk(i, end))
        i8_floats_store(e + i, i8_exponents(r, i, type));
    i8_fill_rest(e, r->n, -INFINITY);
}

/* Store exp(t) of `count` chunks in e, or t itself if `log`, and add exp(t) to the sums. */
I8_INLINE void i8_exponential_chunks(float *e, i8_floats *sums, i8_floats *t, const int log, const int count)
{
    i8_floats y[I8_TOGETHER];
    i8_exp_down_chunks(y, t, count);
    I8_FOR(k, count) {
        i8_floats_store(e + k * I8_CHUNK, log ? t[k] : y[k]);
        sums[k % I8_SUMS] = i8_floats_add(sums[k % I8_SUMS], y[k]);
    }
}

/* Compute `chunks` chunks of a row of f32, from element i on, `count` chunks at a time. The search for the largest
 * element of a row waits for memory, and this pass waits for arithmetic. The pass therefore prefetches the next row, so
 * that 1000 rows of 1000 numbers take 360 us instead of 450 us (Emerald Rapids). */
I8_INLINE void i8_exponentials_at(const i8_softmax_row *r, int64_t i, float *e, i8_floats *sums, int log,
                                  const int chunks, const int count)
{
    i8_floats t[I8_TOGETHER];
    I8_FOR(g, chunks / count) {
        const int64_t at = i + g * count * I8_CHUNK;
        I8_FOR(k, count) {
            t[k] = i8_differences(r, at + k * I8_CHUNK, I8_TYPE_F32);
            I8_PREFETCH(r->src + r->next + 4 * (at + k * I8_CHUNK));
        }
        if (r->scale != 1.0f)
            I8_FOR(k, count) t[k] = i8_floats_mul(t[k], i8_floats_set(r->scale));
        i8_exponential_chunks(e + at, sums + g * count % I8_SUMS, t, log, count);
    }
}

/* Store exp(t) of a row of f32 in e, or t itself if `log`, and return the sum of exp(t). If the last chunk is partial,
 * its t is in `last` (see i8_store_exponents). */
I8_NOINLINE float i8_exponentials(const i8_softmax_row *r, float *e, float *last, int log)
{
    enum { MOST = I8_TOGETHER < I8_SUMS ? I8_SUMS : I8_TOGETHER, FEW = I8_TOGETHER < I8_SUMS ? I8_TOGETHER : I8_SUMS };
    const i8_softmax_row row = *r;
    const i8_floats zero = i8_floats_set(0);
    i8_floats sums[I8_SUMS] = {zero, zero, zero, zero}, rest[I8_SUMS], t;
    int64_t i = 0;
    for (; i + MOST * I8_CHUNK <= row.n; i += MOST * I8_CHUNK)
        i8_exponentials_at(&row, i, e, sums, log, MOST, I8_TOGETHER);
    if (MOST > I8_SUMS && i + I8_PARTS <= row.n) {
        i8_exponentials_at(&row, i, e, sums, log, I8_SUMS, FEW);
        i += I8_PARTS;
    }
    I8_FOR(k, I8_SUMS) rest[k] = sums[k];
    for (int k = 0; i < row.n; i += I8_CHUNK, ++k) { /* fewer than I8_PARTS elements */
        const int whole = i + I8_CHUNK <= row.n;
        t = whole ? i8_exponents(&row, i, I8_TYPE_F32) : i8_floats_load(last);
        i8_exponential_chunks(whole ? e + i : last, rest + k, &t, log, 1);
    }
    if (row.n % I8_CHUNK)
        i8_store_chunk(i8_floats_load(last), I8_TYPE_F32, (char *)(e + row.n / I8_CHUNK * I8_CHUNK),
                       (int)(row.n % I8_CHUNK));
    return i8_fold(rest);
}

/* Set x = exp(x) for n contiguous elements of short rows. n is a multiple of I8_CHUNK. */
I8_NOINLINE void i8_exponentials_of_rows(float *x, int64_t n)
{
    i8_floats y[I8_TOGETHER];
    for (; n >= I8_TOGETHER * I8_CHUNK; n -= I8_TOGETHER * I8_CHUNK, x += I8_TOGETHER * I8_CHUNK) {
        I8_FOR(k, I8_TOGETHER) y[k] = i8_floats_load(x + k * I8_CHUNK);
        i8_exp_down_chunks(y, y, I8_TOGETHER);
        I8_FOR(k, I8_TOGETHER) i8_floats_store(x + k * I8_CHUNK, y[k]);
    }
    for (; n > 0; n -= I8_CHUNK, x += I8_CHUNK) {
        y[0] = i8_floats_load(x);
        i8_exp_down_chunks(y, y, 1);
        i8_floats_store(x, y[0]);
    }
}

/* Set x = src, or x = src + plus if plus is given, and zeros after the end of the row. */
I8_INLINE void i8_widen(float *restrict x, const char *restrict src, const float *plus, int64_t n, const int type)
{
    const int64_t end = i8_whole(n);
    I8_FOR_CHUNKS(i, end) i8_floats_store(x + i, i8_source_chunk(src, plus, i, type));
    i8_fill_rest(x, n, 0);
}

#define I8_SOURCES(t, type)                                                                                            \
    I8_NOINLINE void i8_start_softmax_##t(i8_softmax_row *r, float *e, int all)                                        \
    {                                                                                                                  \
        i8_find_largest(r, type);                                                                                      \
        i8_store_exponents(r, e, all, type);                                                                           \
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

/* Call the function for the type of the source: function_u8(...), function_s8(...) and so on. */
#define I8_BY_SRC_TYPE(function, ...)                                                                                  \
    switch (a->src_type) {                                                                                             \
    case I8_TYPE_U8: function##_u8(__VA_ARGS__); break;                                                                \
    case I8_TYPE_S8: function##_s8(__VA_ARGS__); break;                                                                \
    case I8_TYPE_S32: function##_s32(__VA_ARGS__); break;                                                              \
    case I8_TYPE_F32: function##_f32(__VA_ARGS__); break;                                                              \
    case I8_TYPE_F16: function##_f16(__VA_ARGS__); break;                                                              \
    default: function##_bf16(__VA_ARGS__);                                                                             \
    }

/* The destination */

/* Store sat(rne(y * scale + zero)), or y * scale for floats. */
I8_INLINE void i8_store_normalized(char *dst, i8_floats y, i8_floats scale, i8_floats zero, const int type)
{
    y = i8_floats_mul(y, scale);
    if (type <= I8_TYPE_S8)
        y = i8_floats_add(i8_floats_ordered(y), zero);
    i8_store_chunk(y, type, dst, I8_CHUNK);
}

/* Store y = x * factor + offset. dst may be x. Floats without an offset (-0.0) and a scale need one multiplication. */
I8_INLINE void i8_store_softmax(const i8_normalize_args *a, char *dst, const float *x, float factor, float offset,
                                const int type)
{
    const int64_t last = i8_whole(a->n) - I8_CHUNK;
    const i8_floats f = i8_floats_set(factor), o = i8_floats_set(offset), end = i8_floats_load(x + last);
    if (type == I8_TYPE_F32 && !a->log && a->dst_scale == 1.0f) {
        float *y = (float *)(void *)dst;
        for (int64_t i = 0; i < last; i += I8_CHUNK)
            i8_floats_store(y + i, i8_floats_mul(i8_floats_load(x + i), f));
        i8_floats_store(y + last, i8_floats_mul(end, f));
        return;
    }
    const i8_floats scale = i8_floats_set(a->dst_scale), zero = i8_floats_set(a->dst_zero);
    for (int64_t i = 0; i < last; i += I8_CHUNK) {
        const i8_floats y = i8_floats_add(i8_floats_mul(i8_floats_load(x + i), f), o);
        i8_store_normalized(dst + i * i8_size(type), y, scale, zero, type);
    }
    i8_store_normalized(dst + last * i8_size(type), i8_floats_add(i8_floats_mul(end, f), o), scale, zero, type);
}

/* Store y = (x + shift) * factor * gamma + beta. dst may be x if n is a multiple of I8_CHUNK. */
I8_INLINE void i8_store_layer_norm(const i8_normalize_args *a, char *dst, const float *x, float shift, float factor,
                                   const int type)
{
    const int64_t end = i8_whole(a->n);
    const float *gamma = a->gamma, *beta = a->beta;
    const i8_floats f = i8_floats_set(factor), s = i8_floats_set(shift);
    const i8_floats scale = i8_floats_set(a->dst_scale), zero = i8_floats_set(a->dst_zero);
    I8_FOR_CHUNKS(i, end) {
        const i8_floats d = i8_floats_add(i8_floats_load(x + i), s);
        const i8_floats y = i8_floats_mul(i8_floats_mul(d, f), i8_floats_load(gamma + i));
        i8_store_normalized(dst + i * i8_size(type), i8_floats_add(y, i8_floats_load(beta + i)), scale, zero, type);
    }
}

/* Define one loop for each type of the destination. */
#define I8_BY_DST_TYPE(function, ...)                                                                                  \
    switch (a->dst_type) {                                                                                             \
    case I8_TYPE_U8: function(__VA_ARGS__, I8_TYPE_U8); break;                                                         \
    case I8_TYPE_S8: function(__VA_ARGS__, I8_TYPE_S8); break;                                                         \
    case I8_TYPE_F32: function(__VA_ARGS__, I8_TYPE_F32); break;                                                       \
    case I8_TYPE_F16: function(__VA_ARGS__, I8_TYPE_F16); break;                                                       \
    default: function(__VA_ARGS__, I8_TYPE_BF16);                                                                      \
    }

I8_NOINLINE void i8_store_affine(const i8_normalize_args *a, char *dst, const float *x, float shift, float factor)
{
    I8_BY_DST_TYPE(i8_store_layer_norm, a, dst, x, shift, factor)
}

/* The kernels */

/* Return the number of rows, from `row` on, to compute together. */
I8_INLINE int i8_rows_from(const i8_normalize_args *a, int64_t row, int64_t most)
{
    return (int)(a->rows - row < most ? a->rows - row : most);
}

/* Begin a row: find its largest element. Store t of the last chunk, or of all chunks, in the workspace. The pass of
 * exponentials reads f32. If src has another type, the pass reads t from the workspace, with shift -0.0 and scale 1.0,
 * which leave every number unchanged. */
I8_INLINE void i8_start_row(const i8_normalize_args *a, i8_softmax_row *r, float *t, int64_t row, int all)
{
    *r = (i8_softmax_row){a->src + row * a->src_row, i8_plus_of(a, row), a->n, 0, 0, a->scale, a->src_row};
    I8_BY_SRC_TYPE(i8_start_softmax, r, t, all)
    if (a->src_type != I8_TYPE_F32)
        *r = (i8_softmax_row){(const char *)t, NULL, a->n, 0, -0.0f, 1.0f, 0};
}

/* Finish a row from its exponentials and their sum. Adding -0.0 leaves every number unchanged. */
I8_NOINLINE void i8_finish_row(const i8_normalize_args *a, const float *e, int64_t row, float sum)
{
    const float factor = a->log ? 1.0f : 1.0f / sum, offset = a->log ? -i8_log(sum) : -0.0f;
    I8_BY_DST_TYPE(i8_store_softmax, a, a->dst + row * a->dst_row, e, factor, offset)
}

/* One pass computes the exponentials of several rows, because one short row would not fill the pipelines. */
I8_NOINLINE void i8_softmax_short(const i8_normalize_args *a)
{
    const int64_t n = a->n, chunks = i8_chunks(n), most = I8_ROWS_ABREAST(n);
    float *e = a->workspace, sums[I8_MOST_ROWS];
    for (int64_t row = 0; row < a->rows; row += most) {
        const int rows = i8_rows_from(a, row, most);
        i8_softmax_row r;
        for (int i = 0; i < rows; ++i)
            i8_start_row(a, &r, e + i * chunks, row + i, 1);
        i8_exponentials_of_rows(e, rows * chunks);
        for (int i = 0; i < rows; ++i)
            sums[i] = i8_sum_row(e + i * chunks, n);
        for (int i = 0; i < rows; ++i)
            i8_finish_row(a, e + i * chunks, row + i, sums[i]);
    }
}

/* A longer row begins before the previous row is finished, so that the CPU always has independent steps. If dst is f32,
 * a row's exponentials are stored in dst, where the last step scales them. */
static void i8_softmax(const i8_normalize_args *a)
{
    const int64_t n = a->n, room = I8_ROW_ROOM(n);
    const int converts = a->src_type != I8_TYPE_F32, in_place = a->dst_type == I8_TYPE_F32 && n >= I8_CHUNK;
    if (n < 4 * I8_PARTS && !a->log) {
        i8_softmax_short(a);
        return;
    }
    i8_softmax_row r[2];
    i8_start_row(a, r, a->workspace, 0, converts);
    for (int64_t row = 0; row < a->rows; ++row) {
        const int64_t next = row + 1;
        float *t = a->workspace + row % 2 * room, *e = in_place ? (float *)(void *)(a->dst + row * a->dst_row) : t;
        const float sum = i8_exponentials(r + row % 2, e, t + n / I8_CHUNK * I8_CHUNK, a->log);
        if (next < a->rows)
            i8_start_row(a, r + next % 2, a->workspace + next % 2 * room, next, converts);
        i8_finish_row(a, e, row, sum);
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

/* Return the sums of a chunk of columns, in the order of i8_sum_row. If a column has fewer than I8_PARTS elements, it
 * has fewer partial sums than a row, to whose sums i8_sum_row adds zeros. */
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
    i8_exponentials_of_rows(e, n * room);
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
        i8_store_affine(&across, a->dst + j * a->dst_row, x + j * room, -0.0f, 1.0f);
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
    i8_move_row(x, n, 1.0f, -(i8_sum_row(x, n) / (float)n));
    i8_fill_rest(x, n, 0);
    return i8_squares_of_row(x, n, 0) / (float)n;
}

/* Return the factor of a row that is not ordinary, and leave its differences from the mean in x. */
I8_NOINLINE float i8_center_scaled(const i8_normalize_args *a, float *x)
{
    int32_t k = (int32_t)(i8_bits_of(i8_largest_of_row(x, a->n)) >> 23) - 127;
    k = k < -126 ? -126 : k > 126 ? 126 : k;
    i8_move_row(x, a->n, i8_float_of((uint32_t)(127 - k) << 23), -0.0f);
    i8_center_once(x, a->n);
    const float variance = i8_center_once(x, a->n);
    const double scale = (double)a->scale * (double)i8_float_of((uint32_t)(127 + k) << 23);
    const double factor = scale / sqrt(scale * scale * (double)variance + (double)a->epsilon);
    /* The factor exceeds f32 only if all differences are 0. An infinite factor would turn 0 into NaN. */
    return (float)(factor > 0x1p127 && a->epsilon > 0 ? 0x1p127 : factor);
}

/* A row of layer normalization: d = x + shift. */
typedef struct {
    const float *x;
    float shift, factor;
} i8_layer_norm_row;

/* Set the factor of a row. If the row is not ordinary, center and scale the row in the workspace x. r->x then
 * points to this workspace. */
I8_INLINE void i8_find_factor(const i8_normalize_args *a, i8_layer_norm_row *r, float *x, int64_t row)
{
    const float variance = i8_squares_of_row(r->x, a->n, -r->shift) / (float)a->n, scale = a->scale;
    r->factor = scale / sqrtf(scale * scale * variance + a->epsilon);
    if (a->root || i8_is_ordinary(-r->shift, variance, scale, a->epsilon))
        return;
    I8_BY_SRC_TYPE(i8_widen, x, a->src + row * a->src_row, i8_plus_of(a, row), a->n)
    *r = (i8_layer_norm_row){x, -0.0f, i8_center_scaled(a, x)};
}

static void i8_layer_norm(const i8_normalize_args *a)
{
    const int64_t n = a->n, room = I8_ROW_ROOM(n), most = I8_ROWS_ABREAST(n);
    /* If src is f32 and a row has whole chunks, the row is read from src itself, without a conversion. */
    const int whole = a->src_type == I8_TYPE_F32 && n % I8_CHUNK == 0;
    float *x = a->workspace;
    for (int64_t row = 0; row < a->rows; row += most) {
        const int rows = i8_rows_from(a, row, most);
        i8_layer_norm_row r[I8_MOST_ROWS];
        for (int i = 0; i < rows; ++i) {
            const char *src = a->src + (row + i) * a->src_row;
            r[i].x = whole ? (const float *)(const void *)src : x + i * room;
            if (!whole)
                I8_BY_SRC_TYPE(i8_widen, x + i * room, src, i8_plus_of(a, row + i), n)
        }
        for (int i = 0; i < rows; ++i) {
            float sum = 0;
            if (whole && a->plus) {
                sum = i8_add_row(x + i * room, r[i].x, i8_plus_of(a, row + i), n);
                r[i].x = x + i * room;
            } else if (!a->root)
                sum = i8_sum_row(r[i].x, n);
            r[i].shift = -(sum / (float)n);
            i8_fill_rest(x + i * room, n, sum / (float)n);
        }
        for (int i = 0; i < rows; ++i)
            i8_find_factor(a, r + i, x + i * room, row + i);
        for (int i = 0; i < rows; ++i)
            i8_store_affine(a, a->dst + (row + i) * a->dst_row, r[i].x, r[i].shift, r[i].factor);
    }
}
#undef I8_BY_SRC_TYPE
#undef I8_BY_DST_TYPE
#undef I8_FOR_CHUNKS
#undef I8_SUMS
