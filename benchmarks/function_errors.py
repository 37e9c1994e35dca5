"""Measure the largest errors of the element-wise functions and of normalization, in units in the last place (ulp) of
float32.

mpmath (pip install mpmath) computes the exact values with 120 bits. Arguments have all magnitudes, and are denser where
functions bend and next to their branch points. Arguments whose result is not finite are skipped. An ulp belongs to the
exact value; it is 2**-149 if the value is subnormal.

    python benchmarks/function_errors.py [points]
"""

import sys

import int8blas
import mpmath
import numpy as np
from int8blas import Eltwise

mp = mpmath.mp
mp.prec = 120


def logistic(x):
    return 1 / (1 + mpmath.exp(-x))


# Name -> f(x, alpha, beta) of numbers of mpmath.
EXACT = {
    "relu": lambda x, alpha, beta: x if x >= 0 else alpha * x,
    "tanh": lambda x, alpha, beta: mpmath.tanh(x),
    "logistic": lambda x, alpha, beta: logistic(x),
    "elu": lambda x, alpha, beta: x if x > 0 else alpha * mpmath.expm1(x),
    "gelu_erf": lambda x, alpha, beta: x * mpmath.ncdf(x),
    "gelu_tanh": lambda x, alpha, beta: x * logistic(2 * mpmath.sqrt(2 / mpmath.pi) * (x + x**3 * 44715 / 1000000)),
    "swish": lambda x, alpha, beta: x * logistic(alpha * x),
    "hardswish": lambda x, alpha, beta: x * min(max(alpha * x + beta, 0), 1),
    "clip": lambda x, alpha, beta: min(max(x, alpha), beta),
    "abs": lambda x, alpha, beta: abs(x),
    "square": lambda x, alpha, beta: x * x,
    "sqrt": lambda x, alpha, beta: mpmath.sqrt(x),
    "linear": lambda x, alpha, beta: alpha * x + beta,
    "round": lambda x, alpha, beta: mpmath.nint(x),
    "exp": lambda x, alpha, beta: mpmath.exp(x),
    "log": lambda x, alpha, beta: mpmath.log(x) if x > 0 else mpmath.inf,
    "pow": lambda x, alpha, beta: alpha * x**beta if x > 0 or beta == mpmath.nint(beta) else mpmath.inf,
    "mish": lambda x, alpha, beta: x * mpmath.tanh(mpmath.log1p(mpmath.exp(x))),
    "soft_relu": lambda x, alpha, beta: mpmath.log1p(mpmath.exp(alpha * x)) / alpha,
    "hardsigmoid": lambda x, alpha, beta: min(max(alpha * x + beta, 0), 1),
    "clip_v2": lambda x, alpha, beta: min(max(x, alpha), beta),
}
OPS = (
    Eltwise("relu", 0.1), Eltwise("tanh"), Eltwise("logistic"), Eltwise("elu"), Eltwise("elu", 0.3),
    Eltwise("gelu_erf"), Eltwise("gelu_tanh"), Eltwise("swish"), Eltwise("swish", 1.702), Eltwise("swish", 1e-30),
    Eltwise("hardswish"), Eltwise("clip", -1, 6), Eltwise("abs"), Eltwise("square"), Eltwise("sqrt"),
    Eltwise("linear", 1.5, 0.25), Eltwise("round"), Eltwise("exp"), Eltwise("log"), Eltwise("pow", 1, 1 / 3),
    Eltwise("pow", 1, -3), Eltwise("mish"), Eltwise("soft_relu"), Eltwise("soft_relu", 0.3), Eltwise("hardsigmoid"),
    Eltwise("clip_v2", -1, 6),
)  # fmt: skip
# Ranges of arguments that are reported separately.
STRETCHES = ((-np.inf, -87), (-87, -5), (-5, -0.1), (-0.1, 0.1), (0.1, 5), (5, np.inf))


def arguments(rng, points):
    """Return float32 arguments of all magnitudes, and dense ones."""
    dense = [rng.uniform(-limit, limit, points // 6) for limit in (0.35, 2, 10, 20, 110)]
    sizes = rng.choice([-1, 1], points // 6) * 2.0 ** rng.uniform(-149, 128, points // 6)
    around = [at * (1 + 2.0**-24 * np.arange(-8, 9)) for at in (0.34657359, 1, 3, 14, 14.5, 87.33654, 103.97, 174)]
    around = np.concatenate(around)
    return np.unique(np.concatenate([*dense, sizes, around, -around]).astype(np.float32))


def errors(results, exact):
    """Return |result - exact| in ulps of the exact values, NaN where these are not finite in float32."""
    found = []
    for result, value in zip(results, exact, strict=True):
        size = abs(value)
        if size >= mpmath.mpf(2) ** 128 * (1 - mpmath.mpf(2) ** -25):
            found.append(np.nan)
            continue
        exponent = int(mpmath.floor(mpmath.log(size, 2))) if size else -149
        ulp = mpmath.mpf(2) ** max(exponent - 23, -149)
        found.append(float(abs(mpmath.mpf(float(result)) - value) / ulp))
    return np.array(found)


def eltwise_errors(op, x):
    """Return the errors of a function at each x."""
    exact = [EXACT[op.algorithm](mpmath.mpf(float(v)), mpmath.mpf(op.alpha), mpmath.mpf(op.beta)) for v in x]
    return errors(int8blas.eltwise(x, op), exact)


def layer_norm_errors(x, epsilon):
    """Return the errors of layer_norm for the rows of x, in ulps of the largest result of a row."""
    found = []
    for row, result in zip(x, int8blas.layer_norm(x, epsilon=epsilon), strict=True):
        wide = [mpmath.mpf(float(v)) for v in row]
        mean = mpmath.fsum(wide) / len(wide)
        d = [v - mean for v in wide]
        root = mpmath.sqrt(mpmath.fsum(v * v for v in d) / len(d) + mpmath.mpf(float(np.float32(epsilon))))
        exact = np.array([float(v / root) for v in d])
        found.append(np.abs(result - exact).max() / np.spacing(np.float32(np.abs(exact).max())))
    return np.array(found)


def softmax_errors(x):
    """Return the errors of softmax, in ulps, for exact results of at least 2**-126."""
    found = []
    for row, result in zip(x, int8blas.softmax(x), strict=True):
        e = [mpmath.exp(mpmath.mpf(float(v)) - mpmath.mpf(float(row.max()))) for v in row]
        exact = np.array([float(v / mpmath.fsum(e)) for v in e])
        ulps = np.abs(result - exact) / np.spacing(exact.astype(np.float32))
        found.append(ulps[exact >= 2.0**-126].max())
    return np.array(found)


def main(points):
    rng = np.random.default_rng(0)
    x = arguments(rng, points)
    print("largest errors in ulp for x in  " + "  ".join(f"{low:>5g} {high:<5g}" for low, high in STRETCHES))
    for op in OPS:
        of_op = x[x >= 0] if op.algorithm == "sqrt" else x
        found = eltwise_errors(op, of_op)
        parts = [found[(of_op >= low) & (of_op < high)] for low, high in STRETCHES]
        largest = ["-" if not part.size or np.isnan(part).all() else f"{np.nanmax(part):.2f}" for part in parts]
        name = op.algorithm + (f" {op.alpha:g}" if op.algorithm in ("relu", "elu", "swish") else "")
        print(f"{name:30s}  " + "  ".join(f"{value:>11s}" for value in largest))
    for size in (1e-40, 1e-30, 1e-15, 1, 1e15, 1e30, 1e38):
        rows = (rng.standard_normal((20, 100)) * size).clip(-3e38, 3e38).astype(np.float32)
        mean = min(1000 * size, 2e38)
        shifted = (rows.astype(np.float64) + mean).clip(-3e38, 3e38).astype(np.float32)
        found = (layer_norm_errors(rows, 0).max(), layer_norm_errors(shifted, 0).max())
        print(f"layer_norm of {size:g}: {found[0]:.2f}, with a mean of {mean:g}: {found[1]:.2f}")
    for size in (1, 10, 80):
        rows = (rng.standard_normal((20, 100)) * size).astype(np.float32)
        print(f"softmax of {size:g}: {softmax_errors(rows).max():.2f}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 6000)
