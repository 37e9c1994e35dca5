"""Oracles of exp, log, tanh and the logistic function in float32, one operation at a time, in the same order as
csrc/stage/eltwise_body.h."""

import numpy as np
from reference_quantized import quiet

f32 = np.float32
SMALLEST = f32(-87.33654)  # e**x is subnormal for smaller x


def polynomial(x, *coefficients):
    """Horner's rule; the first coefficient belongs to the highest power."""
    p = np.full_like(x, coefficients[0])
    for coefficient in coefficients[1:]:
        p = p * x + f32(coefficient)
    return p


# e**r - 1 for a small r
def exp_less_one(r):
    p = polynomial(r, 1.3821235625e-3, 8.3686662838e-3, 4.1668258607e-2, 1.6666521132e-1, 4.9999994040e-1)
    return p * (r * r) + r


# rne(x / ln 2), and 2 to the power of it
def exponent(x):
    magic = f32(12582912 + 127)
    n = (x * f32(1.44269504088896341) + magic) - magic
    return n, np.ldexp(f32(1), np.where(np.isnan(n), 0, n).astype(np.int32))


# x = n ln 2 + r, e**x = 2**n e**r; 0 where e**x is subnormal
@quiet
def exp(x):
    """e**x for float32 x <= 0."""
    n, power = exponent(np.maximum(x, f32(-100)))
    r = x - n * f32(0.693359375) + n * f32(2.12194440e-4)
    return np.where(x < SMALLEST, f32(0), (exp_less_one(r) + f32(1)) * power)


# x = 2**n (1 + f), log(x) = n ln 2 + log(1 + f), 1 + f from sqrt(1/2) to sqrt(2)
def log(x):
    """The natural logarithm of a positive normal float32."""
    fraction, n = np.frexp(x)
    low = fraction < f32(0.70710677)
    fraction, n = np.where(low, 2 * fraction, fraction), (n - low).astype(np.float32)
    f = fraction - f32(1)
    z = f * f
    p = polynomial(f, 7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1,
                   -1.6668057665e-1, 2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1)  # fmt: skip
    p = p * f * z - n * f32(2.12194440e-4) - f32(0.5) * z
    return f + p + n * f32(0.693359375)


# d = e**-2|x| - 1, tanh|x| = -d / (2 + d)
@quiet
def tanh(x):
    """The hyperbolic tangent of float32."""
    y = np.maximum(f32(-2) * np.abs(x), f32(-40))
    n, power = exponent(y)
    d = power * exp_less_one(y - n * f32(0.69314718056)) + (power - f32(1))
    return np.copysign(d / (f32(-2) - d), x)


# 1 / (1 + e**-x)
@quiet
def logistic(x):
    """The logistic function of float32."""
    e = exp(-np.abs(x))
    return np.where(x < 0, e, f32(1)) / (f32(1) + e)
