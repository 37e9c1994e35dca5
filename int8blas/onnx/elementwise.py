"""Element-wise operators. If int8blas has the function of a float32 operator, the operator uses this function, which
gives the same bits on every CPU."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from int8blas.elementwise import elements
from int8blas.elementwise.functions import PreparedBinary, PreparedEltwise, PreparedTable
from int8blas.onnx.graph import Array
from int8blas.onnx.table import DOMAIN, ELEMENTWISE, SAME_TYPE, Call, Operator, Site, Traits, by_layout, passes_to
from int8blas.onnx.types import BYTES, SINGLE, STRING, converted, dtype_of, is_short, wide
from int8blas.onnx.windows import order_of
from int8blas.stage.attributes import Eltwise, PReLU

CLIPPED = (SINGLE, *BYTES)


# Creating a post-op checks its numbers, which takes longer than computing a small array.
post_op = functools.lru_cache(1024)(Eltwise)
# A prepared function for each function and shape, because it can repeat its last call in a microsecond.
prepared_for = functools.lru_cache(256)(lambda op, _shape: PreparedEltwise(op))


def applied(x: Array, op: Eltwise | tuple[Eltwise, ...], function: Callable[[Array], Array]) -> Array:
    """Apply `op` to bytes and to floats of at most 32 bits, and `function` to other types."""
    small = x.dtype == SINGLE or x.dtype in BYTES or is_short(x)
    return np.asarray(prepared_for(op, x.shape)(x)) if small else function(x).astype(x.dtype)


def in_order(x: Array, *ops: Any) -> Call:
    """Return the function that applies post-ops to arrays in x's order of memory. An operand with one dimension has a
    number for each channel. The function may also take an array that it may reuse for the result."""
    to, back = order_of(x)
    prepared = PreparedEltwise([placed(op, to) for op in ops])
    if sorted(to) == [*to]:
        return prepared
    return lambda *arrays: prepared(*[each.transpose(to) for each in arrays]).transpose(back)


# Two operands


def div(a: Array, b: Array) -> Array:
    """Divide. Integer quotients are truncated towards 0."""
    if a.dtype.kind not in "iu":
        return np.asarray(np.divide(a, b))
    quotient = np.asarray(np.floor_divide(a, b))
    if a.dtype.kind == "i":
        quotient = quotient + ((quotient < 0) & (quotient * b != a))
    return quotient.astype(a.dtype, copy=False)


def mod(a: Array, b: Array, *, fmod: int = 0) -> Array:
    return np.asarray(np.fmod(a, b) if fmod else np.mod(a, b))


def power(x: Array, y: Array) -> Array:
    """Raise x to powers in the type of x. Squares and cubes use products, which are faster than powers."""
    if y.size == 1 and x.dtype.kind == "f" and y.ndim <= x.ndim:
        exponent = y.item()
        if exponent == 2:
            return np.asarray(x * x)
        if exponent == 3 and x.dtype.itemsize >= 4:
            return np.asarray(x * x * x)
        if exponent == 0.5:
            return np.asarray(np.sqrt(x))
    if x.dtype.kind in "iu" and y.dtype.kind == "i":
        return np.asarray(np.power(x.astype(object), y.astype(object)) if (y < 0).any() else np.power(x, y), x.dtype)
    return np.asarray(np.power(x, y)).astype(x.dtype, copy=False)


def placed(op: Any, order: tuple[int, ...]) -> Any:
    """Return a post-op with its operand's dimensions in another order."""
    values = getattr(op, "operand", None)
    if values is None or values.size == 1:
        return op
    values = values.reshape(-1, *(1,) * (len(order) - 2)) if values.ndim == 1 else values
    return replace(op, operand=values.reshape((1,) * (len(order) - values.ndim) + values.shape).transpose(order))


@by_layout(1, rounds=False)
def prelu(x: Array, slope: Array) -> Call:
    """Multiply negative numbers by a slope."""
    if slope.ndim == 1 and x.ndim > 2 and slope.shape[0] == x.shape[1] and slope.shape[0] != x.shape[-1]:
        slope = slope.reshape(-1, *[1] * (x.ndim - 2))  # old versions broadcast one value for each channel
    if x.dtype != SINGLE or not x.ndim >= slope.ndim != 1:
        return lambda x, _: np.asarray(np.where(x < 0, x * slope, x))
    prepared = in_order(x, PReLU(slope))
    return lambda x, _: prepared(x)


def bit_shift(x: Array, y: Array, *, direction: Literal["LEFT", "RIGHT"]) -> Array:
    return np.asarray(np.left_shift(x, y) if direction == "LEFT" else np.right_shift(x, y))


def folded(function: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    """Return an operator that folds any number of tensors with a binary function."""

    def of_all(*arrays: Array) -> Array:
        return np.asarray(functools.reduce(function, arrays), arrays[0].dtype)

    return wide(of_all)


@wide
def mean(*arrays: Array) -> Array:
    return np.asarray(functools.reduce(np.add, arrays) / arrays[0].dtype.type(len(arrays)), arrays[0].dtype)


# One operand


def in_one_pass(function: Callable[..., Array], post_ops: Callable[..., list[Eltwise]]) -> Callable[..., Call]:
    """Return a prepared operator that applies post-ops to floats of at most 32 bits, and `function` to other types."""

    @passes_to(post_ops)
    def operator(_: Site, **attributes: Any) -> Call:
        prepared, other = PreparedEltwise(post_ops(**attributes)), functools.partial(function, **attributes)
        return lambda x: prepared(x) if x.dtype == SINGLE or is_short(x) else other(x)

    return operator


@dataclass(frozen=True)
class Fused:
    """An operator that has post-ops for bytes and for floats of at most 32 bits, and a function for other types. Both
    take the attributes."""

    post_ops: Callable[..., list[Eltwise]]
    other: Callable[..., Any]

    def __call__(self, x: Array, **attributes: Any) -> Array:
        return applied(x, tuple(self.post_ops(**attributes)), functools.partial(self.other, **attributes))


def simple(algorithm: str, function: Callable[[Array], Array]) -> Fused:
    """Return an operator without attributes."""
    return Fused(lambda: [post_op(algorithm)], function)


def post_ops_of_gelu(approximate: Literal["none", "tanh"] = "none") -> list[Eltwise]:
    return [post_op("gelu_tanh" if approximate == "tanh" else "gelu_erf")]


# ONNX's defaults of Selu.
ALPHA, GAMMA, ROOT = 1.67326319217681884765625, 1.05070102214813232421875, math.sqrt(2 / math.pi)
relu = simple("relu", lambda x: np.maximum(x, 0))
exp, log, tanh = (simple(function.__name__, function) for function in (np.exp, np.log, np.tanh))
sigmoid = simple("logistic", lambda x: 1 / (1 + np.exp(-x)))
hard_swish = simple("hardswish", lambda x: x * np.clip(x / 6 + 0.5, 0, 1))
softplus = simple("soft_relu", lambda x: np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x))))
mish = simple("mish", lambda x: x * np.tanh(softplus(x)))
leaky_relu = Fused(lambda alpha=0.01: [post_op("relu", alpha)], lambda x, alpha=0.01: np.where(x >= 0, x, x * alpha))
elu = Fused(lambda alpha=1.0: [post_op("elu", alpha)], lambda x, alpha=1.0: np.where(x > 0, x, alpha * np.expm1(x)))
selu = Fused(lambda alpha=ALPHA, gamma=GAMMA: [post_op("elu", alpha, 0.0, gamma)],
             lambda x, alpha=ALPHA, gamma=GAMMA: gamma * np.where(x > 0, x, alpha * np.expm1(x)))  # fmt: skip
swish = Fused(lambda alpha=1.0: [post_op("swish", alpha)], lambda x, alpha=1.0: x / (1 + np.exp(-alpha * x)))
hard_sigmoid = Fused(lambda alpha=0.2, beta=0.5: [post_op("linear", alpha, beta), post_op("clip", 0.0, 1.0)],
                     lambda x, alpha=0.2, beta=0.5: np.clip(x * alpha + beta, 0, 1))  # fmt: skip
gelu = Fused(post_ops_of_gelu, lambda x, approximate="none": x * (
    1 + (np.tanh(ROOT * (x + 0.044715 * x**3)) if approximate == "tanh" else erf(x / math.sqrt(2)))) / 2)  # fmt: skip


def clip(x: Array, min: Array | float | None = None, max: Array | float | None = None) -> Array:
    """Limit x, first from below and then from above. Old versions pass the limits as attributes."""
    if min is not None and max is not None and x.dtype in CLIPPED and np.ndim(min) == np.ndim(max) == 0:
        low, high = float(min), float(max)
        if -math.inf < low <= high < math.inf:
            return applied(x, post_op("clip", low, high), np.asarray)
    if min is not None:
        x = np.asarray(np.maximum(x, np.asarray(min, x.dtype)))
    if max is not None:
        x = np.asarray(np.minimum(x, np.asarray(max, x.dtype)))
    return x


@wide
def celu(x: Array, *, alpha: float = 1.0) -> Array:
    return np.asarray(np.maximum(x, 0) + np.minimum(0, alpha * elu(np.asarray(x / alpha))), x.dtype)


@wide
def softsign(x: Array) -> Array:
    return np.asarray(x / (1 + np.abs(x)))


@wide
def shrink(x: Array, *, bias: float = 0.0, lambd: float = 0.5) -> Array:
    return np.asarray(np.where(x < -lambd, x + bias, np.where(x > lambd, x - bias, 0)), x.dtype)


@wide
def thresholded_relu(x: Array, *, alpha: float = 1.0) -> Array:
    kept = np.negative(np.greater(x, alpha).view(np.int8))  # -1 or 0; numpy.where takes longer
    return np.bitwise_and(x.view(f"i{x.itemsize}"), kept).view(x.dtype)


def is_inf(x: Array, *, detect_negative: int = 1, detect_positive: int = 1) -> Array:
    if detect_negative and detect_positive:
        return np.asarray(np.isinf(x))
    return np.asarray(x == (np.inf if detect_positive else -np.inf if detect_negative else np.nan))


# erf and its derivative at the points i / 128 up to 4. The nearest point is at most 1 / 256 away from an x in the
# table's range. Within 1 / 256 of a point, a Taylor series of third order has an error below 1e-10.
POINTS = [i / 128 for i in range(513)]
ERF = np.array([(math.erf(x), 2 / math.sqrt(math.pi) * math.exp(-x * x)) for x in POINTS], np.float32)


def erf(x: Array) -> Array:
    """Compute erf: for float64 with the C library, and for other types with a table, whose error is up to 2.5 units in
    the last place of float32."""
    if x.dtype == np.float64:
        return np.asarray(np.vectorize(math.erf, otypes=[np.float64])(x))
    to, back = order_of(x)
    y: Array = elements.erf(np.asarray(x.transpose(to), np.float32, order="C"), ERF)
    return y.transpose(back).astype(x.dtype, copy=False)


# Types


def cast(x: Array, *, to: int, saturate: int = 1, round_mode: Literal["up", "down", "nearest"] = "up") -> Array:
    dtype = dtype_of(to)
    if to == STRING:
        return np.array([str(value) for value in x.ravel()], object).reshape(x.shape)
    if x.dtype.hasobject and dtype.kind in "iu":
        return np.array([int(float(value)) for value in x.ravel()], dtype).reshape(x.shape)
    return converted(x, dtype)


def cast_like(
    x: Array, target: Array, *, saturate: int = 1, round_mode: Literal["up", "down", "nearest"] = "up"
) -> Array:
    if target.dtype.hasobject:
        return cast(x, to=STRING)
    return x.astype(target.dtype)


def bit_cast(x: Array, *, to: int) -> Array:
    return x.copy().view(dtype_of(to))


def where(condition: Array, x: Array, y: Array) -> Array:
    return np.asarray(np.where(condition, x, y))


# Chains


def chain(site: Site, *, ops: Any, ndim: int) -> Call:
    prepared = PreparedEltwise(ops)
    return lambda x: at_least(np.asarray(prepared(x)), ndim)


def chain_of_two(site: Site, *, first: Any, ops: Any, ndim: int) -> Call:
    prepared = PreparedBinary(first, (SINGLE, SINGLE), post_ops=ops)
    return lambda a, b: at_least(np.asarray(prepared(a, b)), ndim)


def table(site: Site, *, values: Array, dtype: Any, ndim: int) -> Call:
    """Look up bytes in a table."""
    look_up = PreparedTable(values)

    def call(x: Array) -> Array:
        if x.dtype != dtype:
            raise TypeError(f"bytes must be {dtype.name}, as their zero point is, got {x.dtype.name}")
        return at_least(look_up(x), ndim)

    return call


def at_least(y: Array, ndim: int) -> Array:
    """Return a result with leading dimensions added, up to at least `ndim`."""
    return y if y.ndim >= ndim else y.reshape((1,) * (ndim - y.ndim) + y.shape)


# Operators

OTHER_TYPE = Traits(elementwise=True, sized_by=())
OF_CONDITION = Traits(elementwise=True, typed_by=1, sized_by=())

# The post-op of a binary operator has the operator's name, in lower case.
BINARY: Sequence[tuple[str, Callable[..., Any], int]] = [
    ("Add", np.add, 7), ("Sub", np.subtract, 7), ("Mul", np.multiply, 7), ("Div", div, 7),
    ("Max", folded(np.maximum), 6), ("Min", folded(np.minimum), 6), ("PRelu", prelu, 7),
]  # fmt: skip
# Operators with a post-op that gives the bits of the operator's function.
FUSED: Sequence[tuple[str, Callable[..., Any], int, Callable[..., list[Eltwise]]]] = [
    *((name, function, since, function.post_ops) for name, function, since in (
        ("Relu", relu, 6), ("LeakyRelu", leaky_relu, 6), ("Sigmoid", sigmoid, 6), ("Tanh", tanh, 6), ("Elu", elu, 6),
        ("Gelu", gelu, 20), ("Swish", swish, 24), ("HardSwish", hard_swish, 14), ("HardSigmoid", hard_sigmoid, 6),
        ("Exp", exp, 6), ("Log", log, 6), ("Selu", selu, 6), ("Softplus", softplus, 1), ("Mish", mish, 18),
    )),
    ("Abs", np.abs, 6, lambda: [post_op("abs")]),
    ("Sqrt", np.sqrt, 6, lambda: [post_op("sqrt")]),
]  # fmt: skip
ROWS: Sequence[tuple[Traits, Sequence[tuple[str, Callable[..., Any], int]]]] = [
    (ELEMENTWISE, (
        ("Mod", mod, 10), ("Pow", power, 7), ("BitShift", bit_shift, 11),
        ("BitwiseAnd", np.bitwise_and, 18), ("BitwiseOr", np.bitwise_or, 18), ("BitwiseXor", np.bitwise_xor, 18),
        ("BitwiseNot", np.bitwise_not, 18), ("Sum", folded(np.add), 6), ("Mean", mean, 6), ("Neg", np.negative, 6),
        ("Ceil", np.ceil, 6), ("Floor", np.floor, 6), ("Round", np.rint, 11), ("Sign", np.sign, 9),
        ("Reciprocal", np.reciprocal, 6), ("Erf", wide(erf), 9), ("Sin", np.sin, 7),
        ("Cos", np.cos, 7), ("Tan", np.tan, 7), ("Sinh", np.sinh, 9), ("Cosh", np.cosh, 9), ("Asin", np.arcsin, 7),
        ("Acos", np.arccos, 7), ("Atan", np.arctan, 7), ("Asinh", np.arcsinh, 9), ("Acosh", np.arccosh, 9),
        ("Atanh", np.arctanh, 9), ("Clip", clip, 6), ("Celu", celu, 12),
        ("Softsign", softsign, 1), ("Shrink", shrink, 9), ("ThresholdedRelu", thresholded_relu, 10),
    )),
    (OTHER_TYPE, (
        ("And", np.logical_and, 7), ("Or", np.logical_or, 7), ("Xor", np.logical_xor, 7), ("Not", np.logical_not, 1),
        ("Equal", np.equal, 7), ("Less", np.less, 7), ("Greater", np.greater, 7), ("LessOrEqual", np.less_equal, 12),
        ("GreaterOrEqual", np.greater_equal, 12), ("IsNaN", np.isnan, 9), ("IsInf", is_inf, 10), ("Cast", cast, 6),
        ("CastLike", cast_like, 15), ("BitCast", bit_cast, 26),
    )),
    (OF_CONDITION, [("Where", where, 9)]),
]  # fmt: skip
OPERATORS = [
    *(Operator(name, function, since, prepared=name == "PRelu", traits=replace(ELEMENTWISE, algorithm=name.lower()))
      for name, function, since in BINARY),
    *(Operator(name, in_one_pass(function, post_ops), since, prepared=True,
               traits=replace(ELEMENTWISE, post_op=post_ops))
      for name, function, since, post_ops in FUSED),
    *(Operator(name, function, since, traits=traits) for traits, rows in ROWS for name, function, since in rows),
    Operator("Chain", chain, domain=DOMAIN, prepared=True, traits=SAME_TYPE),
    Operator("Table", table, domain=DOMAIN, prepared=True, traits=Traits(sized_by=())),
    Operator("ChainOfTwo", chain_of_two, domain=DOMAIN, prepared=True, traits=SAME_TYPE),
]  # fmt: skip
