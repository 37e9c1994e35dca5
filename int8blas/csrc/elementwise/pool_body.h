/* Pooling along runs of contiguous elements, which are channels, or pixels of one channel. For every byte j < n of
 * every run r, the window begins at src + r * src_step + j. The window has a.counts elements x, a.strides apart:
 *
 *   maximum   out[r, j] = max(x)
 *   average   out[r, j] = rne(f32(sum(x)) / divisor[r, j])       f32: the quotient; s32: the sum.
 *
 * The arguments (i8_pool_args) are described in elementwise.h. One vector of results, or I8_POOL_VECTORS vectors, stay
 * in registers over the whole window. These vectors are contiguous in one run, or begin at the same offset j in
 * successive runs r. */
#include <math.h>
#include <string.h>

/* I8_FOR_LINES loops over the lines of a window, which extend along w. I8_FOR_WINDOW loops over the elements. I8_LINE
 * and I8_ELEMENT return the address of a line and of an element. */
#define I8_FOR_LINES(a)                                                                                                \
    for (int64_t d = 0; d < (a)->counts[0]; ++d)                                                                       \
        for (int64_t h = 0; h < (a)->counts[1]; ++h)
#define I8_LINE(a, src) ((src) + d * (a)->strides[0] + h * (a)->strides[1])
#define I8_FOR_WINDOW(a)                                                                                               \
    I8_FOR_LINES(a)                                                                                                    \
    for (int64_t w = 0; w < (a)->counts[2]; ++w)
#define I8_ELEMENT(a, src) (I8_LINE(a, src) + w * (a)->strides[2])

#if I8_LANES > 1

#define I8_WIDTH (4 * I8_LANES) /* bytes of a vector */
#define I8_WORDS (2 * I8_LANES) /* 16-bit elements of a vector */
#define I8_POOL_VECTORS 4

/* Return the number of columns in I8_POOL_VECTORS windows of `width` elements along w, `stride` elements apart. The
 * kernel reads each column once. */
#define I8_COLUMNS(width, stride) ((I8_POOL_VECTORS - 1) * (stride) + (width))
#define I8_POOL_COLUMNS 9

/* Compute `vectors` vectors of the result: contiguous vectors, or one vector of each of `vectors` runs. */
#define I8_MAXIMUM(t, lowest)                                                                                          \
    I8_INLINE void i8_maximum_block_##t(const i8_pool_args *a, int64_t run, int64_t j, const int along_runs,           \
                                        const int vectors)                                                             \
    {                                                                                                                  \
        const ptrdiff_t delta = along_runs ? a->src_step : I8_WIDTH;                                                   \
        const ptrdiff_t out_delta = along_runs ? a->out_step : I8_WIDTH;                                               \
        const uint32_t start = lowest;                                                                                 \
        i8_vec largest[I8_POOL_VECTORS];                                                                               \
        const uint8_t *src = a->src + run * a->src_step + j;                                                           \
        I8_FOR(v, vectors) largest[v] = i8_broadcast(&start);                                                          \
        I8_FOR_WINDOW(a)                                                                                               \
        I8_FOR(v, vectors) largest[v] = i8_max_##t(largest[v], i8_load(I8_ELEMENT(a, src) + v * delta));               \
        I8_FOR(v, vectors) i8_store(a->out + run * a->out_step + j + v * out_delta, largest[v]);                       \
    }                                                                                                                  \
    I8_INLINE void i8_maximum_overlapping_##t(const i8_pool_args *a, int64_t run, int64_t j, const int width,          \
                                              const int stride)                                                        \
    {                                                                                                                  \
        const uint32_t start = lowest;                                                                                 \
        i8_vec largest[I8_POOL_COLUMNS];                                                                               \
        const uint8_t *src = a->src + run * a->src_step + j;                                                           \
        I8_FOR(i, I8_COLUMNS(width, stride)) largest[i] = i8_broadcast(&start);                                        \
        I8_FOR_LINES(a)                                                                                                \
        I8_FOR(i, I8_COLUMNS(width, stride))                                                                           \
        largest[i] = i8_max_##t(largest[i], i8_load(I8_LINE(a, src) + i * a->strides[2]));                             \
        I8_FOR(v, I8_POOL_VECTORS) {                                                                                   \
            i8_vec x = largest[v * stride];                                                                            \
            I8_FOR(i, width - 1) x = i8_max_##t(x, largest[v * stride + 1 + i]);                                       \
            i8_store(a->out + (run + v) * a->out_step + j, x);                                                         \
        }                                                                                                              \
    }
I8_MAXIMUM(u8, 0)
I8_MAXIMUM(s8, 0x80808080)
#undef I8_MAXIMUM

I8_INLINE i8_vec i8_load_words(const uint8_t *x, const int is_signed)
{
    return is_signed ? i8_words_s8(x) : i8_words_u8(x);
}

/* Widen a vector of words, and add it to `sums` in order. If `first` is 1, overwrite `sums`. */
I8_INLINE void i8_add_words(int32_t *sums, i8_vec words, const int is_signed, int first)
{
    I8_FOR(half, 2) {
        const i8_vec x = is_signed ? i8_widen_s16(words, half) : i8_widen_u16(words, half);
        int32_t *at = sums + half * I8_LANES;
        i8_store(at, first ? x : i8_add(i8_load(at), x));
    }
}

/* Apply the epilogue to I8_LANES sums. */
I8_INLINE void i8_store_average(const i8_pool_args *a, char *out, i8_vec sum, const float *divisor)
{
    const i8_f32 d = i8_load_f32(divisor), x = i8_to_f32(sum);
    if (a->type == I8_TYPE_S32)
        i8_store(out, sum);
    else if (a->type == I8_TYPE_F32)
        i8_store_f32(out, i8_div_f32(x, d));
    else if (a->type == I8_TYPE_U8)
        i8_store_u8(out, i8_round(i8_div_f32(x, d), 0.0f, 255.0f));
    else
        i8_store_s8(out, i8_round(i8_div_f32(x, d), -128.0f, 127.0f));
}

/* Apply the epilogue to the sums of a vector of words. */
I8_INLINE void i8_store_averages(const i8_pool_args *a, int64_t run, int64_t j, const int32_t *sums)
{
    const int64_t size = a->type == I8_TYPE_U8 || a->type == I8_TYPE_S8 ? 1 : 4;
    I8_FOR(half, 2) {
        const int64_t i = j + half * I8_LANES;
        i8_store_average(a, a->out + run * a->out_step + i * size, i8_load(sums + half * I8_LANES),
                         a->divisors + (a->each ? run * a->divisor_step + i : 0));
    }
}

/* Apply the epilogue in 16 bits, as i8_pool_args describes, to a vector of sums. */
I8_INLINE void i8_store_quotients(const i8_pool_args *a, char *out, i8_vec sums, const int is_signed)
{
    const i8_vec odd = i8_and(i8_shift_right_16(sums, a->parity_shift), i8_set_16(1));
    const i8_vec x = i8_add_16(i8_add_16(sums, i8_set_16(a->bias)), odd);
    const i8_vec q = i8_shift_right_16(i8_mul_high_16(x, i8_set_16(a->multiplier)), a->shift);
    i8_store_low_bytes(out, is_signed ? i8_xor(q, i8_set_16(0x80)) : q);
}

/* Compute `vectors` vectors of words of the result: contiguous vectors, or one vector of each of `vectors` runs. */
I8_INLINE void i8_average_block(const i8_pool_args *a, int64_t run, int64_t j, const int along_runs, const int vectors,
                                const int is_signed)
{
    const ptrdiff_t delta = along_runs ? a->src_step : I8_WORDS;
    const uint8_t *src = a->src + run * a->src_step + j;
    int32_t sums[I8_POOL_VECTORS][I8_WORDS];
    i8_vec words[I8_POOL_VECTORS];
    int64_t room = I8_POOL_PART;
    int first = 1;
    I8_FOR(v, vectors) words[v] = i8_zero();
    I8_FOR_LINES(a)
    for (int64_t w = 0; w < a->counts[2];) {
        const int64_t end = a->counts[2] - w < room ? a->counts[2] : w + room;
        room -= end - w;
        for (; w < end; ++w)
            I8_FOR(v, vectors) words[v] = i8_add_16(words[v], i8_load_words(I8_ELEMENT(a, src) + v * delta, is_signed));
        if (room == 0) {
            I8_FOR(v, vectors) i8_add_words(sums[v], words[v], is_signed, first);
            I8_FOR(v, vectors) words[v] = i8_zero();
            room = I8_POOL_PART;
            first = 0;
        }
    }
    I8_FOR(v, vectors) {
        const int64_t r = run + (along_runs ? v : 0), i = j + (along_runs ? 0 : v * I8_WORDS);
        if (a->multiplier) {
            i8_store_quotients(a, a->out + r * a->out_step + i, words[v], is_signed);
        } else {
            i8_add_words(sums[v], words[v], is_signed, first);
            i8_store_averages(a, r, i, sums[v]);
        }
    }
}

I8_INLINE void i8_average_overlapping(const i8_pool_args *a, int64_t run, int64_t j, const int width, const int stride,
                                      const int is_signed)
{
    const uint8_t *src = a->src + run * a->src_step + j;
    i8_vec words[I8_POOL_COLUMNS];
    I8_FOR(i, I8_COLUMNS(width, stride)) words[i] = i8_zero();
    I8_FOR_LINES(a)
    I8_FOR(i, I8_COLUMNS(width, stride))
    words[i] = i8_add_16(words[i], i8_load_words(I8_LINE(a, src) + i * a->strides[2], is_signed));
    I8_FOR(v, I8_POOL_VECTORS) {
        int32_t sums[I8_WORDS];
        i8_vec x = words[v * stride];
        I8_FOR(i, width - 1) x = i8_add_16(x, words[v * stride + 1 + i]);
        if (a->multiplier) {
            i8_store_quotients(a, a->out + (run + v) * a->out_step + j, x, is_signed);
        } else {
            i8_add_words(sums, x, is_signed, 1);
            i8_store_averages(a, run + v, j, sums);
        }
    }
}

#define I8_AVERAGE(t, is_signed)                                                                                       \
    I8_INLINE void i8_average_block_##t(const i8_pool_args *a, int64_t run, int64_t j, const int along_runs,           \
                                        const int vectors)                                                             \
    {                                                                                                                  \
        i8_average_block(a, run, j, along_runs, vectors, is_signed);                                                   \
    }                                                                                                                  \
    I8_INLINE void i8_average_overlapping_##t(const i8_pool_args *a, int64_t run, int64_t j, const int width,          \
                                              const int stride)                                                        \
    {                                                                                                                  \
        i8_average_overlapping(a, run, j, width, stride, is_signed);                                                   \
    }
I8_AVERAGE(u8, 0)
I8_AVERAGE(s8, 1)
#undef I8_AVERAGE

/* Compute all vectors of all runs. The last vector of a run ends with the run, and may overlap the previous vector. The
 * last group of runs ends with the last run. If `stride` is not 0, the windows of successive runs share columns. If
 * `stride` is 0, I8_POOL_VECTORS contiguous vectors of a run are computed together. The last vectors of a run are
 * computed with the last vectors of other runs. */
#define I8_POOL_KERNEL(operation, t, vector)                                                                           \
    I8_INLINE void i8_##operation##_runs_##t(const i8_pool_args *a, const int width, const int stride)                 \
    {                                                                                                                  \
        const int64_t side_by_side = stride ? 0 : a->n - a->n % (I8_POOL_VECTORS * (vector));                          \
        for (int64_t run = 0; run < a->runs; ++run)                                                                    \
            for (int64_t j = 0; j < side_by_side; j += I8_POOL_VECTORS * (vector))                                     \
                i8_##operation##_block_##t(a, run, j, 0, I8_POOL_VECTORS);                                             \
        for (int64_t start = side_by_side; start < a->n; start += (vector)) {                                          \
            const int64_t j = start < a->n - (vector) ? start : a->n - (vector);                                       \
            for (int64_t next = 0; next < a->runs && a->runs >= I8_POOL_VECTORS; next += I8_POOL_VECTORS) {            \
                const int64_t run = next < a->runs - I8_POOL_VECTORS ? next : a->runs - I8_POOL_VECTORS;               \
                if (stride)                                                                                            \
                    i8_##operation##_overlapping_##t(a, run, j, width, stride);                                        \
                else                                                                                                   \
                    i8_##operation##_block_##t(a, run, j, 1, I8_POOL_VECTORS);                                         \
            }                                                                                                          \
            for (int64_t run = 0; run < a->runs && a->runs < I8_POOL_VECTORS; ++run)                                   \
                i8_##operation##_block_##t(a, run, j, 0, 1);                                                           \
        }                                                                                                              \
    }                                                                                                                  \
    static void i8_##operation##_##t(const i8_pool_args *args)                                                         \
    {                                                                                                                  \
        const i8_pool_args own = *args, *const a = &own; /* stores to `out` cannot change a copy */                    \
        const int few = a->counts[0] * a->counts[1] * a->counts[2] <= I8_POOL_PART;                                    \
        if (few && a->counts[2] == 3 && a->src_step == a->strides[2])                                                  \
            i8_##operation##_runs_##t(a, 3, 1);                                                                        \
        else if (few && a->counts[2] == 3 && a->src_step == 2 * a->strides[2])                                         \
            i8_##operation##_runs_##t(a, 3, 2);                                                                        \
        else if (few && a->counts[2] == 5 && a->src_step == a->strides[2])                                             \
            i8_##operation##_runs_##t(a, 5, 1);                                                                        \
        else                                                                                                           \
            i8_##operation##_runs_##t(a, 1, 0);                                                                        \
    }
I8_POOL_KERNEL(maximum, u8, I8_WIDTH)
I8_POOL_KERNEL(maximum, s8, I8_WIDTH)
I8_POOL_KERNEL(average, u8, I8_WORDS)
I8_POOL_KERNEL(average, s8, I8_WORDS)
#undef I8_POOL_KERNEL

#else

#define I8_WIDTH I8_CHUNK

I8_INLINE void i8_store_average(const i8_pool_args *a, char *out, int32_t sum, float divisor)
{
    const float y = (float)sum / divisor;
    if (a->type == I8_TYPE_S32)
        memcpy(out, &sum, sizeof sum);
    else if (a->type == I8_TYPE_F32)
        memcpy(out, &y, sizeof y);
    else
        *out = (char)(a->type == I8_TYPE_U8 ? i8_round_between(y, 0.0f, 255.0f) : i8_round_between(y, -128.0f, 127.0f));
}

/* Compute one chunk at a time. The last chunk of a run ends with the run, and may overlap the previous chunk. */
#define I8_POOL_KERNELS(t, element, lowest)                                                                            \
    static void i8_maximum_##t(const i8_pool_args *a)                                                                  \
    {                                                                                                                  \
        for (int64_t run = 0; run < a->runs; ++run)                                                                    \
            for (int64_t start = 0; start < a->n; start += I8_WIDTH) {                                                 \
                const int64_t j = start < a->n - I8_WIDTH ? start : a->n - I8_WIDTH;                                   \
                const uint8_t *src = a->src + run * a->src_step + j;                                                   \
                element largest[I8_WIDTH];                                                                             \
                memset(largest, lowest, sizeof largest);                                                               \
                I8_FOR_WINDOW(a)                                                                                       \
                for (int i = 0; i < I8_WIDTH; ++i) {                                                                   \
                    const element x = (element)I8_ELEMENT(a, src)[i];                                                  \
                    largest[i] = x > largest[i] ? x : largest[i];                                                      \
                }                                                                                                      \
                memcpy(a->out + run * a->out_step + j, largest, sizeof largest);                                       \
            }                                                                                                          \
    }                                                                                                                  \
    static void i8_average_##t(const i8_pool_args *a)                                                                  \
    {                                                                                                                  \
        const int64_t size = a->type == I8_TYPE_U8 || a->type == I8_TYPE_S8 ? 1 : 4;                                   \
        for (int64_t run = 0; run < a->runs; ++run)                                                                    \
            for (int64_t start = 0; start < a->n; start += I8_WIDTH) {                                                 \
                const int64_t j = start < a->n - I8_WIDTH ? start : a->n - I8_WIDTH;                                   \
                const uint8_t *src = a->src + run * a->src_step + j;                                                   \
                int32_t sums[I8_WIDTH] = {0};                                                                          \
                I8_FOR_WINDOW(a)                                                                                       \
                for (int i = 0; i < I8_WIDTH; ++i)                                                                     \
                    sums[i] += (element)I8_ELEMENT(a, src)[i];                                                         \
                for (int i = 0; i < I8_WIDTH; ++i)                                                                     \
                    i8_store_average(a, a->out + run * a->out_step + (j + i) * size, sums[i],                          \
                                     a->divisors[a->each ? run * a->divisor_step + j + i : 0]);                        \
            }                                                                                                          \
    }
I8_POOL_KERNELS(u8, uint8_t, 0)
I8_POOL_KERNELS(s8, int8_t, -128)
#undef I8_POOL_KERNELS

#endif
#undef I8_FOR_LINES
#undef I8_LINE
#undef I8_FOR_WINDOW
#undef I8_ELEMENT
