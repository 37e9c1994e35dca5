/* Compute functions with exponentials for runs of whole chunks, from one array to another or in place, with the same
 * bits as eltwise_body.h. Each function is a chain of 30 to 50 dependent operations. The schedulers of a CPU hold too
 * few whole chains to keep the CPU busy, so the code computes a part of the chain, some 10 operations, for I8_ABREAST
 * or I8_LONG_ABREAST numbers before the next part. */
#ifndef I8_ELTWISE_RUNS_H
#define I8_ELTWISE_RUNS_H

#include "stage/eltwise_body.h"

/* GCC completely unrolls loops over 8 chunks, but not loops over 32 chunks. Long chains use 32 chunks, because an
 * unrolled long chain would be too much code. */
enum { I8_ABREAST = 8 * I8_CHUNK, I8_LONG_ABREAST = 32 * I8_CHUNK };

/* Loop over the next numbers of a run. The compiler uses whole vectors for each chunk. */
#define I8_EACH_ABREAST(count)                                                                                         \
    for (int chunk = 0; chunk < (count); chunk += I8_CHUNK)                                                            \
        for (int v = chunk; v < chunk + I8_CHUNK; ++v)

/* Set the next numbers of y to an expression of the index v and of x, the corresponding number of `from`. Local arrays
 * tell GCC that a chunk of y does not overlap `from`. */
#define I8_MAP_ABREAST(count, expression)                                                                              \
    for (int chunk = 0; chunk < (count); chunk += I8_CHUNK) {                                                          \
        float x_[I8_CHUNK], y_[I8_CHUNK];                                                                              \
        i8_floats_store(x_, i8_floats_load(from + chunk));                                                             \
        for (int j = 0; j < I8_CHUNK; ++j) {                                                                           \
            const float x = x_[j];                                                                                     \
            const int v = chunk + j;                                                                                   \
            y_[j] = (expression);                                                                                      \
        }                                                                                                              \
        i8_floats_store(y + chunk, i8_floats_load(y_));                                                                \
    }

/* Set y = e**x for x <= 0, like i8_exp_down. */
I8_INLINE void i8_exp_down_abreast(float *restrict y, const float *restrict x, const int count)
{
    float power[I8_ABREAST];
    I8_EACH_ABREAST(count)
    {
        const float shifted = i8_exp_shifted(x[v]);
        power[v] = i8_power_of_two(shifted);
        y[v] = i8_exp_rest(x[v], shifted - I8_EXP_MAGIC);
    }
    I8_EACH_ABREAST(count)
    {
        const float e = (i8_exp_less_one(y[v]) + 1.0f) * power[v];
        y[v] = x[v] < I8_EXP_DOWN_END ? 0.0f : e;
    }
}

I8_INLINE float i8_exp_of(float power, float r) { return (i8_exp_less_one(r) + 1.0f) * power; }

/* Set y = scale * exp(from), for results that are normal numbers. */
I8_INLINE void i8_exp_run(float *y, const float *from, int64_t n, float scale)
{
    for (; n > 0; n -= I8_LONG_ABREAST, y += I8_LONG_ABREAST, from += I8_LONG_ABREAST) {
        const int count = n < I8_LONG_ABREAST ? (int)n : I8_LONG_ABREAST;
        float power[I8_LONG_ABREAST], r[I8_LONG_ABREAST];
        I8_EACH_ABREAST(count)
        {
            const float shifted = i8_exp_shifted(from[v]);
            power[v] = i8_power_of_two(shifted);
            r[v] = i8_exp_rest(from[v], shifted - I8_EXP_MAGIC);
        }
        I8_EACH_ABREAST(count) y[v] = scale * i8_exp_of(power[v], r[v]);
    }
}

/* Set y = scale * (x * i8_normal_distribution(x)) for the numbers x of `from`. e**(-x * x / 2) must be a normal number.
 */
I8_INLINE void i8_gelu_erf_run(float *y, const float *from, int64_t n, float scale)
{
    for (; n > 0; n -= I8_LONG_ABREAST, y += I8_LONG_ABREAST, from += I8_LONG_ABREAST) {
        const int count = n < I8_LONG_ABREAST ? (int)n : I8_LONG_ABREAST;
        float power[I8_LONG_ABREAST], r[I8_LONG_ABREAST], t[I8_LONG_ABREAST], p[I8_LONG_ABREAST];
        I8_EACH_ABREAST(count)
        {
            const float x = -0.5f * (from[v] * from[v]), shifted = i8_exp_shifted(x);
            power[v] = i8_power_of_two(shifted);
            r[v] = i8_exp_rest(x, shifted - I8_EXP_MAGIC);
        }
        I8_EACH_ABREAST(count)
        {
            t[v] = i8_erfc_variable(fabsf(from[v]));
            power[v] = i8_exp_of(power[v], r[v]);
        }
        I8_EACH_ABREAST(count) p[v] = i8_erfc_start(t[v]);
        I8_EACH_ABREAST(count) p[v] = i8_erfc_end(p[v], t[v]);
        I8_EACH_ABREAST(count) power[v] = i8_corrected_exp(power[v], i8_error_of_square(from[v], from[v] * from[v]));
        I8_MAP_ABREAST(count, scale * (x * i8_normal_of(x, p[v], power[v])));
    }
}

/* Set y = scale * logistic(x) for the numbers x of `from`, or y = scale * (x * logistic(u)). u is alpha * x, or
 * i8_gelu_argument(x) for a gelu. */
enum { I8_LOGISTIC_ALONE, I8_LOGISTIC_OF_ALPHA, I8_LOGISTIC_OF_GELU };
I8_INLINE void i8_logistic_abreast(float *y, const float *from, int64_t n, float alpha, float scale, const int kind)
{
    for (; n > 0; n -= I8_ABREAST, y += I8_ABREAST, from += I8_ABREAST) {
        const int count = n < I8_ABREAST ? (int)n : I8_ABREAST;
        float u[I8_ABREAST], t[I8_ABREAST], e[I8_ABREAST];
        I8_EACH_ABREAST(count)
        {
            u[v] = kind == I8_LOGISTIC_ALONE      ? from[v]
                   : kind == I8_LOGISTIC_OF_ALPHA ? alpha * from[v]
                                                  : i8_gelu_argument(from[v]);
            t[v] = i8_negative(u[v]);
        }
        i8_exp_down_abreast(e, t, count);
        I8_MAP_ABREAST(count, kind == I8_LOGISTIC_ALONE ? i8_logistic_of(x, e[v]) : x * i8_logistic_of(u[v], e[v]));
        if (scale != 1.0f)
            I8_EACH_ABREAST(count) y[v] = scale * y[v];
    }
}

I8_NOINLINE void i8_logistic_run(float *y, const float *from, int64_t n, float scale)
{
    i8_logistic_abreast(y, from, n, 1.0f, scale, I8_LOGISTIC_ALONE);
}

/* Set y = scale * tanh(from). */
I8_NOINLINE void i8_tanh_run(float *y, const float *from, int64_t n, float scale)
{
    for (; n > 0; n -= I8_ABREAST, y += I8_ABREAST, from += I8_ABREAST) {
        const int count = n < I8_ABREAST ? (int)n : I8_ABREAST;
        float power[I8_ABREAST], d[I8_ABREAST];
        I8_EACH_ABREAST(count)
        {
            const float x = i8_expm1_argument(2.0f * i8_negative(from[v])), shifted = i8_exp_shifted(x);
            power[v] = i8_power_of_two(shifted);
            d[v] = i8_expm1_rest(x, shifted - I8_EXP_MAGIC);
        }
        I8_EACH_ABREAST(count) d[v] = power[v] * i8_exp_less_one(d[v]) + (power[v] - 1.0f);
        I8_MAP_ABREAST(count, scale * i8_tanh_of(x, d[v]));
    }
}
#undef I8_EACH_ABREAST
#undef I8_MAP_ABREAST

#endif
