/* Element-wise operators in f32, for epilogues and as primitives: plain C without branches, which the compiler
 * vectorizes. Only additions, multiplications, divisions and square roots, each rounded once and in the order written,
 * so that every instruction set gives the same bits. NaN stays NaN.
 *
 * Largest errors, in units in the last place of the result where that is a normal number: exp 1, expm1 2, log 1, tanh
 * 3, logistic 3, erfc 8. The docstring of Eltwise (attributes.py) has the errors of composed functions, which are
 * asserted in tests/elementwise/test_eltwise.py; benchmarks/function_errors.py measures them. */
#ifndef I8_ELTWISE_BODY_H
#define I8_ELTWISE_BODY_H

#include <math.h>
#include <string.h>

/* A loop over a chunk, which becomes whole vectors. */
#define I8_EACH for (int v = 0; v < I8_CHUNK; ++v)

I8_INLINE uint32_t i8_bits_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof(bits));
    return bits;
}

I8_INLINE float i8_float_of(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof(x));
    return x;
}

/* -|x| */
I8_INLINE float i8_negative(float x) { return i8_float_of(i8_bits_of(x) | 0x80000000u); }

/* x = n ln 2 + r, |r| <= ln 2 / 2: e**x = 2**n e**r. ln 2 is 0.693359375 - 2.12194440e-4, where the first part times n
 * is exact. Adding 1.5 * 2**23 rounds to an integer, half to even, and leaves it in the low bits; adding 127 more
 * leaves the exponent of 2**n there. The polynomial is fitted to 3e-9. */
#define I8_EXP_MAGIC (12582912.0f + 127.0f)

I8_INLINE float i8_exp_shifted(float x) { return x * 1.44269504088896341f + I8_EXP_MAGIC; }

/* e**r - 1, for |r| <= ln 2 / 2. */
I8_INLINE float i8_exp_less_one(float r)
{
    float p = 1.3821235625e-3f;
    p = p * r + 8.3686662838e-3f;
    p = p * r + 4.1668258607e-2f;
    p = p * r + 1.6666521132e-1f;
    p = p * r + 4.9999994040e-1f;
    return p * (r * r) + r;
}

/* r, for n = i8_exp_shifted(x) - I8_EXP_MAGIC. */
I8_INLINE float i8_exp_rest(float x, float n) { return x - n * 0.693359375f + n * 2.12194440e-4f; }

/* e**r */
I8_INLINE float i8_exp_remainder(float x, float n) { return i8_exp_less_one(i8_exp_rest(x, n)) + 1.0f; }

/* 2**n of i8_exp_shifted(x), where that is a normal number. */
I8_INLINE float i8_power_of_two(float shifted) { return i8_float_of(i8_bits_of(shifted) << 23); }

/* 2**n is multiplied in two steps, as it may be beyond the range of f32 where the result is not. */
I8_INLINE float i8_exp(float x)
{
    x = x > 89.0f ? 89.0f : x;
    x = x < -105.0f ? -105.0f : x;
    const float shifted = i8_exp_shifted(x), p = i8_exp_remainder(x, shifted - I8_EXP_MAGIC);
    const uint32_t exponent = i8_bits_of(shifted) - i8_bits_of(I8_EXP_MAGIC) + 512; /* not negative */
    const uint32_t half = exponent >> 1;
    return p * i8_float_of((half - 256 + 127) << 23) * i8_float_of((exponent - half - 256 + 127) << 23);
}

/* e**x for x that is not positive and a result that is a normal number; 0 for smaller x. */
#define I8_EXP_DOWN_END -87.33654f
I8_INLINE float i8_exp_down(float x)
{
    const float shifted = i8_exp_shifted(x), p = i8_exp_remainder(x, shifted - I8_EXP_MAGIC);
    const float y = p * i8_power_of_two(shifted);
    return x < I8_EXP_DOWN_END ? 0.0f : y;
}

/* The logarithm of positive normal numbers. x = 2**n (1 + f), 1 + f from sqrt(1/2) to sqrt 2: log x = n ln 2 + log(1 +
 * f), ln 2 in the two parts of i8_exp. Coefficients: Cephes, logf. */
I8_INLINE float i8_log(float x)
{
    const uint32_t bits = i8_bits_of(x);
    const int32_t exponent = (int32_t)(bits - 0x3f3504f3u) >> 23; /* sqrt(1/2) */
    const float n = (float)exponent, f = i8_float_of(bits - ((uint32_t)exponent << 23)) - 1.0f, z = f * f;
    float p = 7.0376836292e-2f;
    p = p * f - 1.1514610310e-1f;
    p = p * f + 1.1676998740e-1f;
    p = p * f - 1.2420140846e-1f;
    p = p * f + 1.4249322787e-1f;
    p = p * f - 1.6668057665e-1f;
    p = p * f + 2.0000714765e-1f;
    p = p * f - 2.4999993993e-1f;
    p = p * f + 3.3333331174e-1f;
    p = p * f * z - n * 2.12194440e-4f - 0.5f * z;
    return f + p + n * 0.693359375f + (x - x); /* NaN for NaN */
}

/* e**y - 1 = 2**n (e**r - 1) + (2**n - 1) for y that is not positive, without cancellation for small y. Where n is
 * large enough for an error of n ln 2 to count, the result is -1 in f32. */
I8_INLINE float i8_expm1_argument(float y) { return y < -40.0f ? -40.0f : y; }
I8_INLINE float i8_expm1_rest(float y, float n) { return y - n * 0.69314718056f; }
I8_INLINE float i8_expm1_down(float y)
{
    y = i8_expm1_argument(y);
    const float shifted = i8_exp_shifted(y), power = i8_power_of_two(shifted);
    return power * i8_exp_less_one(i8_expm1_rest(y, shifted - I8_EXP_MAGIC)) + (power - 1.0f);
}

/* -d / (2 + d), d = e**-2|x| - 1. */
I8_INLINE float i8_tanh_of(float x, float d) { return copysignf(d / (-2.0f - d), x); }
I8_INLINE float i8_tanh(float x) { return i8_tanh_of(x, i8_expm1_down(2.0f * i8_negative(x))); }

/* 1 / (1 + e**-x), without cancellation for negative x; 0 where that is no normal number. e is e**-|x|. */
I8_INLINE float i8_logistic_of(float x, float e) { return (x < 0 ? e : 1.0f) / (1.0f + e); }
I8_INLINE float i8_logistic(float x) { return i8_logistic_of(x, i8_exp_down(i8_negative(x))); }

/* x / (1 + e**-y), and for y below I8_FAR x * e**y = x * p * 2**n, which need not be 0 where e**y is: 2**n is
 * multiplied in two steps, x before p, which would make it larger. Below -174 it is 0, which leaves out results
 * below 2**-122 of x above 2**102. An infinite x times 0 would be NaN, not the limit 0. */
#define I8_FAR -87.0f
I8_INLINE float i8_times_logistic(float x, float y)
{
    const float far = i8_negative(y), z = far < -174.0f ? -174.0f : far;
    const float shifted = i8_exp_shifted(z), p = i8_exp_remainder(z, shifted - I8_EXP_MAGIC);
    const uint32_t exponent = i8_bits_of(shifted) - i8_bits_of(I8_EXP_MAGIC) + 512; /* not negative */
    const uint32_t half = exponent >> 1;
    const float first = i8_float_of((half - 256 + 127) << 23);
    const float rest = far < -174.0f ? 0.0f : i8_float_of((exponent - half - 256 + 127) << 23);
    float finite = x > 3.402823466e38f ? 3.402823466e38f : x;
    finite = finite < -3.402823466e38f ? -3.402823466e38f : finite;
    const float tail = finite * first * p * rest;
    return y < I8_FAR ? tail : x * i8_logistic(y);
}

/* 2u, for the gelu x * (1 + tanh u) / 2, which is x / (1 + e**-2u), without cancellation for negative u. */
I8_INLINE float i8_gelu_argument(float x) { return 1.5957691216057308f * (x + 0.044715f * (x * x * x)); }

/* The normal distribution function, erfc(-x / sqrt 2) / 2. With z = |x| / sqrt 2 and t = 1 / (1 + z / 2), erfc(z) is
 * e**(-z * z) times a polynomial in t, fitted to 7e-8 for z up to 10. z * z is x * x / 2, whose rounding error, which
 * e**-s would multiply by s, is computed from halves of x and corrected. */
I8_INLINE float i8_normal_distribution(float x)
{
    float a = fabsf(x);
    a = a > 14.5f ? 14.5f : a; /* where e**-(a * a / 2) is 0 in f32 */
    const float t = 1.0f / (1.0f + a * 0.353553391f);
    const float square = a * a;
    const float high = i8_float_of(i8_bits_of(a) & 0xfffff000u), low = a - high;
    const float error = ((high * high - square) + 2.0f * high * low) + low * low;
    float p = -5.538206920027733e-2f;
    p = p * t + 2.656265199184418e-1f;
    p = p * t - 4.453447461128235e-1f;
    p = p * t + 2.260817140340805e-1f;
    p = p * t + 1.3247264549136162e-2f;
    p = p * t + 1.8317055702209473e-1f;
    p = p * t + 2.4917875230312347e-1f;
    p = p * t + 2.812192142009735e-1f;
    p = p * t + 2.822081744670868e-1f;
    p = p * t - 5.401902399171377e-6f;
    const float e = i8_exp(-0.5f * square);
    const float tail = 0.5f * (p * (e - e * (0.5f * error)));
    return x < 0 ? tail : 1.0f - tail;
}

/* f32 to f16, half to even: normal numbers by integer rounding of the low 13 bits, subnormal numbers by adding 0.5,
 * whose last place is the smallest f16. */
I8_INLINE uint16_t i8_to_half(float x)
{
    const uint32_t bits = i8_bits_of(x), sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;
    const uint32_t normal = (magnitude + 0xc8000fffu + (magnitude >> 13 & 1)) >> 13;
    const uint32_t subnormal = i8_bits_of(i8_float_of(magnitude) + 0.5f) - 0x3f000000u;
    const uint32_t finite = magnitude < 0x38800000u ? subnormal : normal;
    const uint32_t special = magnitude > 0x7f800000u ? 0x7e00 : 0x7c00;
    return (uint16_t)(sign | (magnitude >= 0x477ff000u ? special : finite));
}

/* f16 to f32, exact: the shifted bits are a number 2**112 times too small, for subnormal numbers too. */
I8_INLINE float i8_from_half(uint16_t half)
{
    const uint32_t sign = (uint32_t)(half & 0x8000) << 16, magnitude = (uint32_t)(half & 0x7fff) << 13;
    const uint32_t finite = i8_bits_of(i8_float_of(magnitude) * 5.192296858534828e33f);
    return i8_float_of(sign | (magnitude >= 0x0f800000u ? magnitude | 0x7f800000u : finite));
}

/* f32 to bf16, half to even; a carry out of the fraction goes on into the exponent. NaN would round to infinity. */
I8_INLINE uint16_t i8_to_bfloat(float x)
{
    const uint32_t bits = i8_bits_of(x), rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
    return (uint16_t)((bits & 0x7fffffff) > 0x7f800000u ? (bits >> 16 & 0x8000) | 0x7fc0 : rounded);
}

/* bf16 to f32, exact: the upper half of its bits. */
I8_INLINE float i8_from_bfloat(uint16_t bfloat) { return i8_float_of((uint32_t)bfloat << 16); }

#endif
