"""gemm_u8s8s32 and its variants: every argument, B plain and packed, C new, given, and in place."""

import numpy as np
import reference
from arrays import SIGN_PAIRS

import int8blas

SCALARS = (1.0, 1.0, 1.0, 1.0, 0.0, -1.0, 0.5, -0.37, 3.0, 1e-6, 1e6, 12345.678)
BETAS = (0.0, 0.0, 1.0, 1.0, 2.5, -1.0, 0.001)
SATURATING_WORK = 1 << 16  # smaller, because this oracle is slow


def zero_point(draws, dtype, count):
    """None, one value, or one for each row or column."""
    kind = draws.below(8)
    if kind < 4:
        return 0
    low, high = (-128, 127) if dtype == np.int8 else (0, 255)
    if kind < 6:
        return draws.integer(low, high)
    return draws.array(dtype, (count,)).astype(np.int64)


def sizes(draws):
    """M, N and K: mostly small, sometimes large."""
    return draws.sizes(3, 23 if draws.once_in(512) else 17)


def problem(draws):
    pair = draws.among(SIGN_PAIRS)
    m, n, k = sizes(draws)
    trans_a, trans_b = draws.below(2), draws.below(2)
    offsetc = draws.among("FCR")
    arguments = {
        "alpha": draws.among(SCALARS),
        "a": draws.array(pair.a_dtype, (k, m) if trans_a else (m, k)),
        "b": draws.array(pair.b_dtype, (n, k) if trans_b else (k, n)),
        "beta": draws.among(BETAS),
        "trans_a": trans_a,
        "trans_b": trans_b,
        "ao": zero_point(draws, pair.a_dtype, m),
        "bo": zero_point(draws, pair.b_dtype, n),
    }
    if draws.once_in(3):
        count = {"F": 1, "C": m, "R": n}[offsetc]
        arguments["offsetc"] = offsetc
        arguments["co"] = draws.int32s(count) if offsetc != "F" else int(draws.int32s(1)[0])
    if draws.once_in(8) and m * n * k < SATURATING_WORK:
        arguments["numerics"] = "saturating"
    c = draws.below(3)
    return {
        "function": f"gemm_{pair.name}s32",
        "arguments": arguments,
        "c": draws.output(np.int32, (m, n)) if c else None,
        "in_place": c == 2,
        "packed": bool(draws.below(2)),
    }


def run(problem):
    arguments = problem["arguments"]
    if problem["packed"]:
        packed = int8blas.pack_b(arguments["b"], trans_b=arguments["trans_b"])
        arguments = arguments | {"b": packed, "trans_b": False}
    function = getattr(int8blas, problem["function"])
    if problem["c"] is None:
        return (function(**arguments),)
    memory, c = problem["c"].fresh()
    result = function(**arguments, c=c, overwrite_c=problem["in_place"])
    return (memory, memory if result is c else result)


def real(x, trans, zero_point, shape):
    """op(X) minus its zero points, in float64."""
    x = (x.T if trans else x).astype(np.float64)
    if type(zero_point) is int:
        return x - zero_point if zero_point else x
    return x - zero_point.reshape(shape)


# sat(rne(alpha * acc + beta * C + co)): exact, in integers below 2**53, for alpha = 1, beta 0 or 1
def formula(alpha, a, b, beta, trans_a, trans_b, ao, bo, offsetc="F", co=0, c=None):
    """Compute reference.gemm's result, but all in float64: three times as fast for small matrices."""
    y = real(a, trans_a, ao, (-1, 1)) @ real(b, trans_b, bo, (1, -1))
    if alpha != 1:
        y *= alpha
    if beta and c is not None:
        y += beta * c.astype(np.float64)
    if type(co) is int:
        y += co
    else:
        y += co.reshape((-1, 1) if offsetc == "C" else (1, -1))
    np.rint(y, out=y)
    np.maximum(y, reference.INT32_MIN, out=y)
    np.minimum(y, reference.INT32_MAX, out=y)
    return y.astype(np.int32)


def oracle(problem):
    arguments = problem["arguments"]
    product = reference.gemm if "numerics" in arguments else formula
    if problem["c"] is None:
        return (product(**arguments),)
    memory, c = problem["c"].fresh()
    expected = product(**arguments, c=c)
    return (problem["c"].holding(expected),) * 2 if problem["in_place"] else (memory, expected)
