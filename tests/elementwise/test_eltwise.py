"""Element-wise functions made of exp: close to the exact value, and the same bits on every instruction set."""

from typing import NamedTuple

import numpy as np
import pytest
import reference_quantized
import scipy.special
from layers import assert_same_bits

import int8blas
from int8blas import Attributes, Binary, Eltwise

EPSILON = 2.0**-24


def tanh(x, alpha):
    return np.tanh(x)


def logistic(x, alpha):
    return scipy.special.expit(x)


def elu(x, alpha):
    return np.where(x > 0, x, alpha * np.expm1(x))


def gelu_erf(x, alpha):
    return x * scipy.special.ndtr(x)


def tanh_argument(x):
    return np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)


def gelu_tanh(x, alpha):
    # (1 + tanh(u)) / 2 is 1 / (1 + exp(-2 u)), without cancellation
    return x * scipy.special.expit(2 * tanh_argument(x))


def swish(x, alpha):
    return x * scipy.special.expit(alpha * x)


def exp(x, alpha):
    return np.exp(x)


def log(x, alpha):
    return np.log(x)


def softplus(v):
    return np.maximum(v, 0) + np.log1p(np.exp(-np.abs(v)))


def mish(x, alpha):
    return x * np.tanh(softplus(x))


def soft_relu(x, alpha):
    return softplus(alpha * x) / alpha


def pow(x, beta):
    return np.power(x, beta)


class Function(NamedTuple):
    """A function in float64, and the allowed error of float32: |error| <= ulps * ulp(exact) + absolute(x, alpha)."""

    exact: object
    ulps: float
    absolute: object = lambda x, alpha: 0
    alphas: tuple = (0.0,)

    @property
    def name(self):
        return self.exact.__name__

    def op(self, alpha, scale=1):
        """The post-op; for pow, alpha is the exponent; for soft_relu, it must not be 0."""
        if self.name == "pow":
            return Eltwise("pow", 1, alpha, scale)
        return Eltwise(self.name, alpha if alpha or self.name != "soft_relu" else 0.25, scale=scale)


# A relative error of an argument y of e**y multiplies the result by |y|: alpha * x is rounded once, the argument of
# gelu_tanh is rounded a few times. For subnormal results the error is half of 2**-149, which gelu_erf multiplies by up
# to 14. swish is 0 for alpha * x below -174, which matters for x above 2**102.
SLOPES = (1.0, 1.702, -1.0, 0.0, 1e-30, -1e-37, 1e30)
SUBNORMAL = 2.0**-149
FUNCTIONS = (
    Function(tanh, 3),
    Function(logistic, 3, lambda x, alpha: SUBNORMAL),
    Function(elu, 3, lambda x, alpha: SUBNORMAL, (1.0, 0.3, -2.0, 0.0)),
    Function(gelu_erf, 9, lambda x, alpha: 2.0**-140),
    Function(gelu_tanh, 3, lambda x, alpha: np.abs(gelu_tanh(x, alpha) * tanh_argument(x)) * 8 * EPSILON + SUBNORMAL),
    Function(swish, 3, lambda x, alpha: np.abs(swish(x, alpha)) * np.minimum(np.abs(alpha * x), 1e4) * 1.1 * EPSILON
             + np.where(np.abs(x) > 2.0**102, 2.0**-122, 2 * SUBNORMAL), SLOPES),
    Function(exp, 1, lambda x, alpha: SUBNORMAL),
    Function(log, 1),
    Function(mish, 4, lambda x, alpha: 2.0**-142),
    Function(soft_relu, 4, lambda x, alpha: np.abs(soft_relu(x, alpha) * alpha * x) * (alpha != 1) * 1.1 * EPSILON
             + 2 * SUBNORMAL / np.abs(alpha), (1.0, 2.0, -1.0, 0.3, -5.0, 1e-3, 1e10)),
    Function(pow, 0.51, alphas=(0.5, 2.0, -1.0, -0.5, 3.0, -3.0, 1 / 3, 10.0, -7.5, 100.0, 1e-5, 0.0)),
)  # fmt: skip

every_function = pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.name)


def evaluate(op, values):
    """f(x) of float32 values, in one row, by the post-op of a layer whose sums are 0."""
    ops = [Eltwise("linear", -1, -0.0), Binary(), op]  # -0.0 keeps the sign of a zero that is added to it
    layer = int8blas.InnerProduct(
        np.zeros((values.size, 1), np.int8),
        src_dtype=np.uint8,
        dst_dtype=np.float32,
        attributes=Attributes(post_ops=ops),
    )
    return layer(np.zeros((1, 1), np.uint8), operands=[values])[0]


def numbers(rng):
    """Numbers of every magnitude, dense where functions are curved."""
    dense = [np.linspace(-limit, limit, 4001) for limit in (0.7, 2, 10, 16, 110)]
    sizes = rng.choice([-1, 1], 8000) * 2.0 ** rng.uniform(-149, 128, 8000)
    # Points where formulas change: ln 2 and half of it, and where results become 0 or 1.
    ends = (0.34657359, 0.69314718, 14, 14.5, 87.33654, 103.972, 174)
    around = np.concatenate([end * (1 + EPSILON * np.arange(-20, 21)) for end in ends])
    return np.concatenate([*dense, sizes, around, -around]).astype(np.float32)


def any_bits(rng):
    """Numbers of every exponent, with NaN and infinities."""
    bits = rng.integers(0, 2**32, 20000, np.uint32)
    special = np.array([0, -0.0, np.inf, -np.inf, np.nan, 1e-45, -1e-45, 3.4e38, -3.4e38, 88.7, -103.9], np.float32)
    return np.concatenate([bits.view(np.float32), special])


# --- accuracy --------------------------------------------------------------------------------------------------------


@every_function
def test_errors_are_within_the_bound(isa, function, rng):
    x = numbers(rng)
    for alpha in function.alphas:
        alpha = float(np.float32(alpha))
        result = evaluate(function.op(alpha), x).astype(np.float64)
        wide = x.astype(np.float64)
        with np.errstate(all="ignore"):
            exact = function.exact(wide, alpha)
            bound = function.ulps * np.spacing(np.abs(exact).astype(np.float32)) + function.absolute(wide, alpha)
            bound = np.where(np.isnan(bound), 0, bound)
        finite = np.abs(exact) < np.finfo(np.float32).max
        assert np.isfinite(result[finite]).all()
        excess = np.abs(result[finite] - exact[finite]) / bound[finite]
        worst = excess.argmax()
        assert excess[worst] <= 1, (
            f"{alpha=}: {result[finite][worst]!r}, not {exact[finite][worst]!r}, at {x[finite][worst]}"
        )


def test_tanh_is_odd_and_within_1(isa, rng):
    x = np.abs(numbers(rng))
    x = x[x > 0]
    positive, negative = evaluate(Eltwise("tanh"), x), evaluate(Eltwise("tanh"), -x)
    assert_same_bits(negative, -positive)
    assert (positive <= 1).all()


def test_small_arguments_keep_their_relative_error(isa):
    x = np.float32(2.0) ** np.arange(-149, -23)
    for name, factor in (("tanh", 1), ("elu", 1), ("gelu_erf", 0.5), ("gelu_tanh", 0.5), ("swish", 0.5)):
        for sign in (1, -1):
            expected = (sign * x.astype(np.float64) * factor).astype(np.float32)
            result = evaluate(Eltwise(name), np.float32(sign) * x)
            assert (np.abs(result - expected) <= 2 * np.spacing(np.abs(expected))).all(), name


def test_logistic_is_within_0_and_1(isa, rng):
    result = evaluate(Eltwise("logistic"), numbers(rng))
    assert ((result >= 0) & (result <= 1)).all()


@every_function
def test_the_result_is_multiplied_by_the_scale(isa, function, rng):
    x = numbers(rng)
    plain = evaluate(function.op(1), x)
    for scale in (0.5, -3, 0.1):
        with np.errstate(over="ignore"):
            expected = np.float32(scale) * plain
        assert_same_bits(evaluate(function.op(1, scale), x), expected)


# --- special values --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "alpha", "values"), [
    ("tanh", 0, [(0.0, 0.0), (np.inf, 1), (-np.inf, -1), (20, 1), (-20, -1)]),
    ("logistic", 0, [(0.0, 0.5), (-0.0, 0.5), (np.inf, 1), (-np.inf, 0), (100, 1), (-120, 0)]),
    ("logistic", 0, [(-103.9, 1e-45), (-104, 0)]),
    ("elu", 1.5, [(0.0, 0.0), (-0.0, -0.0), (np.inf, np.inf), (-np.inf, -1.5), (7, 7), (-100, -1.5)]),
    ("elu", 1, [(-1e-8, -1e-8), (-1e-6, -9.999995e-07), (-1e-40, -1e-40), (-1e-45, -1e-45), (1e-45, 1e-45)]),
    ("gelu_erf", 0, [(0.0, 0.0), (-0.0, -0.0), (np.inf, np.inf), (20, 20), (1e30, 1e30)]),
    ("gelu_erf", 0, [(-np.inf, -0.0), (-20, -0.0), (-14.6, -0.0), (1e-40, 5e-41)]),
    ("gelu_tanh", 0, [(-1e30, -0.0), (-20, -0.0), (1e-40, 5e-41)]),
    ("gelu_tanh", 0, [(0.0, 0.0), (-0.0, -0.0), (np.inf, np.inf), (-np.inf, -0.0), (20, 20), (1e30, 1e30)]),
    ("swish", 1, [(0.0, 0.0), (-0.0, -0.0), (np.inf, np.inf), (100, 100), (1e30, 1e30)]),
    ("swish", 1, [(-np.inf, -0.0), (-1e30, -0.0), (1e-40, 5e-41)]),
    ("swish", -1, [(np.inf, 0.0), (-np.inf, -np.inf), (1e30, 0.0)]),
    ("swish", 1e-36, [(-np.inf, -0.0), (np.inf, np.inf)]),
    ("swish", 0, [(0.0, 0.0), (-0.0, -0.0), (8, 4), (-3, -1.5), (np.inf, np.inf), (-np.inf, -np.inf)]),
    ("hardswish", 0.25, [(-np.inf, -0.0), (np.inf, np.inf), (-4, -0.0), (-0.0, -0.0), (4, 4)]),
    ("hardswish", -0.25, [(-np.inf, -np.inf), (np.inf, 0.0), (4, 0.0)]),
    ("exp", 0, [(0.0, 1), (-0.0, 1), (np.inf, np.inf), (-np.inf, 0.0), (89, np.inf), (-103.9, 1e-45), (-104, 0)]),
    ("log", 0, [(0.0, -np.inf), (-0.0, -np.inf), (np.inf, np.inf), (1, 0.0), (1e-45, -103.27893)]),
    ("mish", 0, [(0.0, 0.0), (-0.0, -0.0), (np.inf, np.inf), (-np.inf, -0.0), (-1e30, -0.0), (1e30, 1e30)]),
    ("soft_relu", 1, [(np.inf, np.inf), (-np.inf, 0.0), (1e30, 1e30), (-104, 0.0)]),
    ("soft_relu", -2, [(np.inf, 0.0), (-np.inf, -np.inf), (-1e30, -1e30)]),
    ("soft_relu", 1e30, [(1e30, 1e30), (-1e30, 0.0)]),
    ("hardsigmoid", 0.25, [(np.inf, 1), (-np.inf, 0), (0.0, 0.5), (-0.0, 0.5), (10, 1), (-3, 0), (1, 0.75)]),
])  # fmt: skip
def test_limits_and_zeros(isa, name, alpha, values):
    x, expected = np.array(values, np.float32).T
    assert_same_bits(evaluate(Eltwise(name, alpha), x), expected)


@pytest.mark.parametrize("beta", [0, 0.5, -0.5, 1, 2, 3, -1, -2, -3, 2.0**24, -(2.0**30), 1e-40, -3e38])
def test_pow_of_special_numbers(isa, beta):
    x = np.array([0, -0.0, 1, -1, 2, -2, 0.5, -0.5, 1e-45, -1e-45, np.inf, -np.inf, np.nan], np.float32)
    with np.errstate(all="ignore"):
        expected = np.power(x.astype(np.float64), np.full(x.shape, np.float32(beta), np.float64)).astype(np.float32)
    assert_same_bits(evaluate(Eltwise("pow", 1, beta), x), expected)
    assert_same_bits(evaluate(Eltwise("pow", -3, beta), x), np.float32(-3) * expected)


def test_negative_numbers_have_no_logarithm(isa):
    assert np.isnan(evaluate(Eltwise("log"), np.float32([-1e-45, -1, -3e38, -np.inf]))).all()


def test_results_far_below_one_are_not_0(isa):
    cases = (
        ("logistic", -88, 6.0546e-39), ("swish", -88, -5.32805e-37), ("swish", -91, -2.743105e-38),
        ("gelu_tanh", -10, -1.20409e-37), ("gelu_tanh", -6, -8.43965e-11), ("mish", -88, -5.32805e-37),
        ("soft_relu", -88, 6.0546e-39),
    )  # fmt: skip
    for name, x, expected in cases:
        result = evaluate(Eltwise(name), np.float32([x]))[0]
        assert abs(result / expected - 1) < 1e-3, name


@every_function
def test_nan_stays_nan(isa, function):
    x = np.full(37, np.nan, np.float32)
    for alpha in (1, -0.5):
        assert np.isnan(evaluate(function.op(alpha), x)).all()


# --- the same bits everywhere ----------------------------------------------------------------------------------------


@every_function
def test_every_instruction_set_gives_the_same_bits(isa, function, rng):
    for x in (numbers(rng), any_bits(rng)):
        for alpha in (0, 1, -0.7, 1.702):
            op = function.op(alpha, 0.9)
            with int8blas.use_isa("ref"):
                expected = evaluate(op, x)
            assert_same_bits(evaluate(op, x), expected, alpha=alpha)


@every_function
def test_a_value_gives_the_same_bits_in_every_column(isa, function, rng):
    values = rng.normal(0, 3, 5).astype(np.float32)
    op = function.op(1)
    expected = np.concatenate([evaluate(op, values[i : i + 1]) for i in range(5)])
    for count in (7, 16, 17, 40, 64, 99):
        assert_same_bits(evaluate(op, np.resize(values, count)), np.resize(expected, count), count=count)


@every_function
def test_numbers_far_from_0_change_no_other_result(isa, function, rng):
    """A run with a result that is not a normal number takes a longer function."""
    x = rng.normal(0, 3, 700).astype(np.float32)
    op = function.op(1, 0.9)
    expected = evaluate(op, x)
    for far in (-13.5, -95, 95, -np.inf, np.inf, np.nan):
        values = np.append(x, np.float32(far))
        assert_same_bits(evaluate(op, values)[:-1], expected, far=far)


@pytest.mark.parametrize("size", [1024, 4095, 4096, 4111, 4112, 8200, 12289])
def test_long_arrays_give_the_bits_of_short_ones(isa, size, rng):
    """Float32 arrays are computed in blocks without a buffer, and their last elements in a buffer."""
    x, y = rng.normal(0, 3, (2, size)).astype(np.float32)
    x[::997] = np.nan
    for op in (int8blas.ReLU(), int8blas.ReLU(0.1), Eltwise("logistic"), Eltwise("clip", -1, 2), Eltwise("hardswish")):
        expected = np.concatenate([evaluate(op, part) for part in np.array_split(x, size // 900)])
        own = x.copy()
        assert_same_bits(int8blas.eltwise(x, op), expected)
        assert_same_bits(int8blas.eltwise(own, op, out=own), expected)
    for out in (0, 1):
        sources = [x.copy(), y.copy()]
        assert_same_bits(int8blas.binary("add", *sources, out=sources[out]), x + y)


@every_function
@pytest.mark.parametrize("dst_dtype", [np.uint8, np.int8, np.int32, np.float16])
def test_other_destinations_round_the_float32(isa, function, dst_dtype, rng):
    weights = rng.integers(-128, 128, (133, 20), np.int8)
    src = rng.integers(0, 256, (9, 20), np.uint8)
    ops = [function.op(1, 1.25)]
    arguments = {"src_dtype": np.uint8, "attributes": Attributes(post_ops=ops)}
    real = int8blas.InnerProduct(weights, dst_dtype=np.float32, scales={"src": 5e-5}, **arguments)(src)
    zero_points = {} if dst_dtype == np.float16 else {"dst": 50}
    layer = int8blas.InnerProduct(
        weights, dst_dtype=dst_dtype, scales={"src": 5e-5, "dst": 0.02}, zero_points=zero_points, **arguments
    )
    expected = reference_quantized.destination(real, dst_dtype, 0.02, zero_points.get("dst"))
    assert np.unique(expected).size > 50
    assert_same_bits(layer(src), expected)


@pytest.mark.parametrize("src", [np.uint8, np.int8])
@pytest.mark.parametrize("dst", [np.uint8, np.int8])
def test_many_bytes_are_those_of_few(isa, src, dst, rng):
    """Functions that limit bytes to a range have their own kernel; other functions of bytes use a table. For few
    elements neither is used."""
    values = np.arange(256).astype(np.uint8).view(src)
    functions = [
        (int8blas.ReLU(), {}), (int8blas.Eltwise("clip", -20, 30), {}), (int8blas.Eltwise("clip", 40, 90), {}),
        ((), {}), (int8blas.ReLU(0.5), {}), (int8blas.Eltwise("abs"), {}), (int8blas.Eltwise("linear", -1, 0), {}),
        (int8blas.ReLU(), {"scales": {"src": 0.5, "dst": 0.5}, "zero_points": {"src": 7, "dst": 7}}),
        (int8blas.ReLU(), {"zero_points": {"src": 7, "dst": 9}}), (int8blas.ReLU(), {"scales": {"dst": 0.5}}),
    ]  # fmt: skip
    for ops, keywords in functions:
        table = int8blas.eltwise(values, ops, dst_dtype=dst, **keywords)
        for count in (1024, 5003, 70_001):
            x = rng.integers(0, 256, 2 * count, np.uint8).view(src)
            for some in (x[:count], x[::2], x[count:][::-1], x.reshape(2, count).T):
                expected = table[some.astype(np.uint8)]
                np.testing.assert_array_equal(int8blas.eltwise(some, ops, dst_dtype=dst, **keywords), expected)
