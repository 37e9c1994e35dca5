/* Element-wise operators in f32, for epilogues and as primitives, in plain C without branches, which the compiler
 * vectorizes. The functions use only additions, multiplications, divisions and square roots. Each operation is rounded
 * once, in the order of the code, so every instruction set gives equal bits. NaN stays NaN.
 *
 * The largest errors for normal results, in units in the last place, are: exp 1, expm1 2, log 1, log1p 3, tanh 3,
 * logistic 3, erfc 8, pow 0.51. The docstring of Eltwise (attributes.py) has the errors of composed functions.
 * tests/elementwise/test_eltwise.py asserts these errors, and benchmarks/function_errors.py measures them. */
#ifndef I8_ELTWISE_BODY_H
#define I8_ELTWISE_BODY_H

#include <math.h>
#include <string.h>

/* Loop over a chunk. The compiler turns the loop into whole vectors. */
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

/* With x = n ln 2 + r and |r| <= ln 2 / 2, e**x = 2**n e**r. ln 2 is 0.693359375 - 2.12194440e-4, and n times the first
 * part is exact. Adding 1.5 * 2**23 to x / ln 2 rounds the quotient half to even, to the integer n in the low bits.
 * Adding another 127 makes the low bits the exponent of the f32 2**n. The error of the polynomial for e**r - 1 is at
 * most 3e-9. */
#define I8_EXP_MAGIC (12582912.0f + 127.0f)

#define I8_LOG2_E 1.44269504088896341f
I8_INLINE float i8_exp_shifted(float x) { return x * I8_LOG2_E + I8_EXP_MAGIC; }

/* Return e**r - 1 for |r| <= ln 2 / 2. NEXT is a step of Horner's rule. */
#define I8_EXP_FIRST 1.3821235625e-3f
#define I8_EXP_OTHERS(NEXT) NEXT(8.3686662838e-3f) NEXT(4.1668258607e-2f) NEXT(1.6666521132e-1f) NEXT(4.9999994040e-1f)
I8_INLINE float i8_exp_less_one(float r)
{
    float p = I8_EXP_FIRST;
#define I8_NEXT(c) p = p * r + c;
    I8_EXP_OTHERS(I8_NEXT)
#undef I8_NEXT
    return p * (r * r) + r;
}

/* Return r for n = i8_exp_shifted(x) - I8_EXP_MAGIC. */
#define I8_LN2_HIGH 0.693359375f
#define I8_LN2_LOW 2.12194440e-4f
I8_INLINE float i8_exp_rest(float x, float n) { return x - n * I8_LN2_HIGH + n * I8_LN2_LOW; }

/* Return e**r. */
I8_INLINE float i8_exp_remainder(float x, float n) { return i8_exp_less_one(i8_exp_rest(x, n)) + 1.0f; }

/* Return 2**n from i8_exp_shifted(x), if 2**n is a normal number. */
I8_INLINE float i8_power_of_two(float shifted) { return i8_float_of(i8_bits_of(shifted) << 23); }

/* The multiplication by 2**n takes two steps, because f32 may be able to represent the result but not 2**n. */
I8_INLINE float i8_exp(float x)
{
    x = x > 89.0f ? 89.0f : x;
    x = x < -105.0f ? -105.0f : x;
    const float shifted = i8_exp_shifted(x), p = i8_exp_remainder(x, shifted - I8_EXP_MAGIC);
    const uint32_t exponent = i8_bits_of(shifted) - i8_bits_of(I8_EXP_MAGIC) + 512; /* not negative */
    const uint32_t half = exponent >> 1;
    return p * i8_float_of((half - 256 + 127) << 23) * i8_float_of((exponent - half - 256 + 127) << 23);
}

/* Return e**x for x <= 0. Below I8_EXP_DOWN_END, e**x is not a normal number, and the result is 0. */
#define I8_EXP_DOWN_END -87.33654f
I8_INLINE float i8_exp_down(float x)
{
    const float shifted = i8_exp_shifted(x), p = i8_exp_remainder(x, shifted - I8_EXP_MAGIC);
    const float y = p * i8_power_of_two(shifted);
    return x < I8_EXP_DOWN_END ? 0.0f : y;
}

/* Return the logarithm of x * 2**shift, for positive normal numbers x. With x = 2**n (1 + f), 1 + f from sqrt(1/2) to
 * sqrt 2, log x is n ln 2 + log(1 + f). ln 2 is the sum of the two parts that i8_exp uses. The coefficients are from
 * logf of Cephes. */
I8_INLINE float i8_log_shifted(float x, float shift)
{
    const uint32_t bits = i8_bits_of(x);
    const int32_t exponent = (int32_t)(bits - 0x3f3504f3u) >> 23; /* sqrt(1/2) */
    const float n = (float)exponent + shift, f = i8_float_of(bits - ((uint32_t)exponent << 23)) - 1.0f, z = f * f;
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
I8_INLINE float i8_log(float x) { return i8_log_shifted(x, 0.0f); }

/* Return the logarithm of any number: -inf for zeros, NaN for negative numbers. */
I8_INLINE float i8_any_log(float x)
{
    const int subnormal = x < 1.17549435e-38f;
    const float y = i8_log_shifted(subnormal ? x * 16777216.0f : x, subnormal ? -24.0f : 0.0f);
    return x > 3.402823466e38f ? x : x == 0 ? -INFINITY : x < 0 ? NAN : y;
}

/* Return log(1 + e) for e from 0 to 1. The rounded sum u = 1 + e has lost digits of e. log(u) / (u - 1) varies slowly,
 * so e * log(u) / (u - 1) is accurate. */
I8_INLINE float i8_log1p(float e)
{
    const float u = 1.0f + e, y = i8_log(u) * (e / (u - 1.0f));
    return u == 1.0f ? e : y;
}

/* Return log(1 + e**(alpha * x)) / alpha, which equals x + log(1 + e**-(alpha * x)) / alpha. */
I8_INLINE float i8_soft_relu(float x, float alpha)
{
    const float v = alpha * x;
    return (v > 0 ? x : 0.0f) + i8_log1p(i8_exp(i8_negative(v))) / alpha;
}

/* Return x * tanh(log(1 + e**x)). With e = e**-|x|, the result is x * (1 + 2e) / (1 + 2e + 2e**2) for positive x, and x
 * * (e**2 + 2e) / (e**2 + 2e + 2) for negative x. Below -110 the result is 0. */
I8_INLINE float i8_mish(float x)
{
    const float e = i8_exp(i8_negative(x)), square = e * e;
    const float low = square + 2.0f * e, high = 1.0f + 2.0f * e;
    return (x < -110.0f ? -110.0f : x) * (x < 0 ? low / (low + 2.0f) : high / (high + 2.0f * square));
}

I8_INLINE uint64_t i8_bits_of_double(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof(bits));
    return bits;
}

I8_INLINE double i8_double_of(uint64_t bits)
{
    double x;
    memcpy(&x, &bits, sizeof(x));
    return x;
}

/* Return the logarithm to base 2 of a positive normal number, with a relative error of 1e-13 or an absolute error of
 * 3e-14. x is 2**n m, with m from sqrt(1/2) to sqrt 2. With s = (m - 1) / (m + 1), log m is 2 (s + s**3 / 3 + s**5 / 5
 * + ...). */
I8_INLINE double i8_log2_double(double x)
{
    const uint64_t bits = i8_bits_of_double(x), above = bits - 0x3fe6a09e667f3bcdu; /* sqrt(1/2) */
    /* Put n + 2048 into the low bits of 1.5 * 2**52, because AVX2 cannot convert 64-bit integers to f64. */
    const double n = i8_double_of((((above >> 52) + 2048u) & 4095u) + 0x4338000000000000u) - 6755399441057792.0;
    const double m = i8_double_of(bits - (above & 0xfff0000000000000u)), s = (m - 1.0) / (m + 1.0), z = s * s;
    double p = 1.0 / 15.0;
    p = p * z + 1.0 / 13.0;
    p = p * z + 1.0 / 11.0;
    p = p * z + 1.0 / 9.0;
    p = p * z + 1.0 / 7.0;
    p = p * z + 1.0 / 5.0;
    p = p * z + 1.0 / 3.0;
    p = p * z + 1.0;
    return n + p * s * 2.885390081777926815; /* 2 / ln 2 */
}

/* Return 2**y with a relative error of 3e-13, for y from -1000 to 1000, by the Taylor series of e**(r ln 2) for |r| <=
 * 1/2. */
I8_INLINE double i8_exp2_double(double y)
{
    const double shifted = y + 6755399441055744.0, r = (y - (shifted - 6755399441055744.0)) * 0.693147180559945309;
    double p = 1.0 / 3628800.0;
    p = p * r + 1.0 / 362880.0;
    p = p * r + 1.0 / 40320.0;
    p = p * r + 1.0 / 5040.0;
    p = p * r + 1.0 / 720.0;
    p = p * r + 1.0 / 120.0;
    p = p * r + 1.0 / 24.0;
    p = p * r + 1.0 / 6.0;
    p = p * r + 0.5;
    p = p * r + 1.0;
    p = p * r + 1.0;
    return p * i8_double_of((i8_bits_of_double(shifted) << 52) + 0x3ff0000000000000u);
}

/* Return x**beta for a beta that is not 0. The power multiplies the relative error of the logarithm by beta * log(x),
 * so the computation is in f64. `whole` is 1 if beta is an integer, and `odd` is 1 if beta is odd. */
I8_INLINE float i8_pow(float x, float beta, const int whole, const int odd)
{
    const float a = fabsf(x), zero = beta < 0 ? INFINITY : 0.0f, infinite = beta < 0 ? 0.0f : INFINITY;
    double y = (double)beta * i8_log2_double((double)a);
    y = y > 1000.0 ? 1000.0 : y;
    y = y < -1000.0 ? -1000.0 : y;
    float power = (float)i8_exp2_double(y);
    power = a == 0 ? zero : a > 3.402823466e38f ? infinite : power;
    power = x != x ? x : !whole && x < 0 && a <= 3.402823466e38f ? NAN : power;
    return odd ? copysignf(power, x) : power;
}

/* For y <= 0, e**y - 1 is 2**n (e**r - 1) + (2**n - 1), without cancellation for small y. For y < -40 the result is
 * -1 in f32. The code replaces y < -40 by -40, because n ln 2 would be inaccurate for y < -40. */
I8_INLINE float i8_expm1_argument(float y) { return y < -40.0f ? -40.0f : y; }
I8_INLINE float i8_expm1_rest(float y, float n) { return y - n * 0.69314718056f; }
I8_INLINE float i8_expm1_down(float y)
{
    y = i8_expm1_argument(y);
    const float shifted = i8_exp_shifted(y), power = i8_power_of_two(shifted);
    return power * i8_exp_less_one(i8_expm1_rest(y, shifted - I8_EXP_MAGIC)) + (power - 1.0f);
}

/* Return tanh(x) for d = e**-2|x| - 1: |tanh(x)| is -d / (2 + d). */
I8_INLINE float i8_tanh_of(float x, float d) { return copysignf(d / (-2.0f - d), x); }
I8_INLINE float i8_tanh(float x) { return i8_tanh_of(x, i8_expm1_down(2.0f * i8_negative(x))); }

/* Return 1 / (1 + e**-x), without cancellation for negative x, or 0 if the result is not a normal number. e is
 * e**-|x|. */
I8_INLINE float i8_logistic_of(float x, float e) { return (x < 0 ? e : 1.0f) / (1.0f + e); }
I8_INLINE float i8_logistic(float x) { return i8_logistic_of(x, i8_exp_down(i8_negative(x))); }

/* Return x / (1 + e**-y). For y below I8_FAR the result is x * e**y = x * p * 2**n. The result may differ from 0 even
 * if e**y is 0 in f32, so the code multiplies x by 2**n in two steps, and then by p. For y below -174 the result is
 * 0, which loses only results below 2**-122, for x above 2**102. For an infinite x the result is the limit 0, not
 * NaN. */
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

/* Return 2u for the gelu x * (1 + tanh u) / 2. The gelu equals x / (1 + e**-2u), which has no cancellation for negative
 * u. */
I8_INLINE float i8_gelu_argument(float x) { return 1.5957691216057308f * (x + 0.044715f * (x * x * x)); }

/* The normal distribution function is erfc(-x / sqrt 2) / 2. With z = |x| / sqrt 2 and t = 1 / (1 + z / 2), erfc(z) is
 * e**(-z * z) times a polynomial in t, with an error of at most 7e-8 for z up to 10. z * z is x * x / 2. The
 * exponential would multiply the relative rounding error of x * x by x * x / 2, so the code computes and corrects this
 * error. */
I8_INLINE float i8_erfc_variable(float a) { return 1.0f / (1.0f + a * 0.353553391f); }

/* Return a * a - square. The result is exact if it is a normal number. Without a fused instruction, the result is
 * computed from the halves of a. */
I8_INLINE float i8_error_of_square(float a, float square)
{
#if defined(__FMA__) || defined(__AVX512F__) || defined(__ARM_FEATURE_FMA)
    return fmaf(a, a, -square);
#else
    const float high = i8_float_of(i8_bits_of(a) & 0xfffff000u), low = a - high;
    return ((high * high - square) + 2.0f * high * low) + low * low;
#endif
}

/* Evaluate the polynomial in two parts: the first coefficients, and the last coefficients. */
I8_INLINE float i8_erfc_start(float t)
{
    float p = -5.538206920027733e-2f;
    p = p * t + 2.656265199184418e-1f;
    p = p * t - 4.453447461128235e-1f;
    p = p * t + 2.260817140340805e-1f;
    return p * t + 1.3247264549136162e-2f;
}
I8_INLINE float i8_erfc_end(float p, float t)
{
    p = p * t + 1.8317055702209473e-1f;
    p = p * t + 2.4917875230312347e-1f;
    p = p * t + 2.812192142009735e-1f;
    p = p * t + 2.822081744670868e-1f;
    return p * t - 5.401902399171377e-6f;
}

/* Return e**(-x * x / 2). `e` is the exponential for the rounded square, and `error` is the square minus the rounded
 * square. */
I8_INLINE float i8_corrected_exp(float e, float error) { return e - e * (0.5f * error); }

I8_INLINE float i8_normal_of(float x, float p, float e)
{
    const float tail = 0.5f * (p * e);
    return x < 0 ? tail : 1.0f - tail;
}

I8_INLINE float i8_normal_distribution(float x)
{
    float a = fabsf(x);
    a = a > 14.5f ? 14.5f : a; /* e**-(a * a / 2) is 0 in f32 from 14.5 on */
    const float t = i8_erfc_variable(a), square = a * a, error = i8_error_of_square(a, square);
    return i8_normal_of(x, i8_erfc_end(i8_erfc_start(t), t), i8_corrected_exp(i8_exp(-0.5f * square), error));
}

/* Convert f32 to f16, rounded half to even. Integer arithmetic on the low 13 bits rounds normal numbers. Adding 0.5
 * rounds subnormal numbers, because the last place of 0.5 is the smallest f16. */
I8_INLINE uint16_t i8_to_half(float x)
{
    const uint32_t bits = i8_bits_of(x), sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;
    const uint32_t normal = (magnitude + 0xc8000fffu + (magnitude >> 13 & 1)) >> 13;
    const uint32_t subnormal = i8_bits_of(i8_float_of(magnitude) + 0.5f) - 0x3f000000u;
    const uint32_t finite = magnitude < 0x38800000u ? subnormal : normal;
    const uint32_t special = magnitude > 0x7f800000u ? 0x7e00 : 0x7c00;
    return (uint16_t)(sign | (magnitude >= 0x477ff000u ? special : finite));
}

/* Convert f16 to f32, exactly. The shifted bits are a number that is too small by the factor 2**112, also for subnormal
 * numbers. */
I8_INLINE float i8_from_half(uint16_t half)
{
    const uint32_t sign = (uint32_t)(half & 0x8000) << 16, magnitude = (uint32_t)(half & 0x7fff) << 13;
    const uint32_t finite = i8_bits_of(i8_float_of(magnitude) * 5.192296858534828e33f);
    return i8_float_of(sign | (magnitude >= 0x0f800000u ? magnitude | 0x7f800000u : finite));
}

/* Convert f32 to bf16, rounded half to even. A carry out of the fraction correctly increments the exponent. NaN takes
 * another branch, because rounding could turn NaN into infinity. */
I8_INLINE uint16_t i8_to_bfloat(float x)
{
    const uint32_t bits = i8_bits_of(x), rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
    return (uint16_t)((bits & 0x7fffffff) > 0x7f800000u ? (bits >> 16 & 0x8000) | 0x7fc0 : rounded);
}

/* Convert bf16, which is the upper half of an f32, to f32, exactly. */
I8_INLINE float i8_from_bfloat(uint16_t bfloat) { return i8_float_of((uint32_t)bfloat << 16); }

#endif
