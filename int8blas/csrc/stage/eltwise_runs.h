/* Functions with exponentials of runs of whole chunks, with the same bits as in eltwise_body.h. Each function is a
 * chain of 30 to 50 dependent operations. A CPU's schedulers hold too few whole chains to keep it busy. So each part of
 * the chain, of some 10 operations, is computed for I8_ABREAST or I8_LONG_ABREAST numbers before the next part. */
#ifndef I8_ELTWISE_RUNS_H
#define I8_ELTWISE_RUNS_H

#include "stage/eltwise_body.h"

/* GCC unrolls loops over 8 chunks completely, but not over 32 chunks: they would be too much code for long chains. */
enum { I8_ABREAST = 8 * I8_CHUNK, I8_LONG_ABREAST = 32 * I8_CHUNK };

/* Loop over the next numbers of a run; the compiler turns each chunk into whole vectors. */
#define I8_EACH_ABREAST(count)                                                                                         \
    for (int chunk = 0; chunk < (count); chunk += I8_CHUNK)                                                            \
        for (int v = chunk; v < chunk + I8_CHUNK; ++v)

/* e**x of numbers that are not positive, like i8_exp_down. */
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

/* y = scale * exp(y), for results that are normal numbers. */
I8_INLINE void i8_exp_run(float *y, int64_t n, float scale)
{
    for (; n > 0; n -= I8_LONG_ABREAST, y += I8_LONG_ABREAST) {
        const int count = n < I8_LONG_ABREAST ? (int)n : I8_LONG_ABREAST;
        float power[I8_LONG_ABREAST], r[I8_LONG_ABREAST];
        I8_EACH_ABREAST(count)
        {
            const float shifted = i8_exp_shifted(y[v]);
            power[v] = i8_power_of_two(shifted);
            r[v] = i8_exp_rest(y[v], shifted - I8_EXP_MAGIC);
        }
        I8_EACH_ABREAST(count) y[v] = scale * i8_exp_of(power[v], r[v]);
    }
}

/* y = scale * (y * i8_normal_distribution(y)), where e**(-y * y / 2) is a normal number. */
I8_INLINE void i8_gelu_erf_run(float *y, int64_t n, float scale)
{
    for (; n > 0; n -= I8_LONG_ABREAST, y += I8_LONG_ABREAST) {
        const int count = n < I8_LONG_ABREAST ? (int)n : I8_LONG_ABREAST;
        float power[I8_LONG_ABREAST], r[I8_LONG_ABREAST], t[I8_LONG_ABREAST], p[I8_LONG_ABREAST];
        I8_EACH_ABREAST(count)
        {
            const float x = -0.5f * (y[v] * y[v]), shifted = i8_exp_shifted(x);
            power[v] = i8_power_of_two(shifted);
            r[v] = i8_exp_rest(x, shifted - I8_EXP_MAGIC);
        }
        I8_EACH_ABREAST(count)
        {
            t[v] = i8_erfc_variable(fabsf(y[v]));
            power[v] = i8_exp_of(power[v], r[v]);
        }
        I8_EACH_ABREAST(count) p[v] = i8_erfc_start(t[v]);
        I8_EACH_ABREAST(count) p[v] = i8_erfc_end(p[v], t[v]);
        I8_EACH_ABREAST(count)
        {
            const float x = y[v], e = i8_corrected_exp(power[v], i8_error_of_square(x, x * x));
            y[v] = scale * (x * i8_normal_of(x, p[v], e));
        }
    }
}

/* y = scale * logistic(y), or scale * (y * logistic(u)), where u is alpha * y, or i8_gelu_argument(y) for a gelu. */
enum { I8_LOGISTIC_ALONE, I8_LOGISTIC_OF_ALPHA, I8_LOGISTIC_OF_GELU };
I8_INLINE void i8_logistic_abreast(float *y, int64_t n, float alpha, float scale, const int kind)
{
    for (; n > 0; n -= I8_ABREAST, y += I8_ABREAST) {
        const int count = n < I8_ABREAST ? (int)n : I8_ABREAST;
        float u[I8_ABREAST], x[I8_ABREAST], e[I8_ABREAST];
        I8_EACH_ABREAST(count)
        {
            u[v] = kind == I8_LOGISTIC_ALONE      ? y[v]
                   : kind == I8_LOGISTIC_OF_ALPHA ? alpha * y[v]
                                                  : i8_gelu_argument(y[v]);
            x[v] = i8_negative(u[v]);
        }
        i8_exp_down_abreast(e, x, count);
        I8_EACH_ABREAST(count)
        {
            const float logistic = i8_logistic_of(u[v], e[v]);
            y[v] = scale * (kind == I8_LOGISTIC_ALONE ? logistic : y[v] * logistic);
        }
    }
}

I8_NOINLINE void i8_logistic_run(float *y, int64_t n, float scale)
{
    i8_logistic_abreast(y, n, 1.0f, scale, I8_LOGISTIC_ALONE);
}

/* y = scale * tanh(y) */
I8_NOINLINE void i8_tanh_run(float *y, int64_t n, float scale)
{
    for (; n > 0; n -= I8_ABREAST, y += I8_ABREAST) {
        const int count = n < I8_ABREAST ? (int)n : I8_ABREAST;
        float power[I8_ABREAST], d[I8_ABREAST];
        I8_EACH_ABREAST(count)
        {
            const float x = i8_expm1_argument(2.0f * i8_negative(y[v])), shifted = i8_exp_shifted(x);
            power[v] = i8_power_of_two(shifted);
            d[v] = i8_expm1_rest(x, shifted - I8_EXP_MAGIC);
        }
        I8_EACH_ABREAST(count) d[v] = power[v] * i8_exp_less_one(d[v]) + (power[v] - 1.0f);
        I8_EACH_ABREAST(count) y[v] = scale * i8_tanh_of(y[v], d[v]);
    }
}
#undef I8_EACH_ABREAST

#endif
