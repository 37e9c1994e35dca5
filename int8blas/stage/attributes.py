"""Scales, zero points and post-ops of quantized primitives. For source, weights and destination::

    x_f32 = scale * (x_int8 - zero_point).

A mask selects the dimensions along which the values differ. Bit i of a mask selects the logical dimension i. The mask 0
means one value for the whole tensor. The logical dimensions are (n, c) or (n, c, h, w) for data, and (oc, ic, ...) for
weights. The model is from oneDNN's specification ("Int8"). `output_scales` is oneDNN's older model (chapter "Primitive
Attributes, Quantization").
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from int8blas.core.arrays import by_tensor, float32_from, items_of, widened
from int8blas.core.file import register
from int8blas.core.kernels import eltwise_formulas
from int8blas.core.parameters import int8_dtype, integer
from int8blas.core.words import dtype_name, either, is_option, shown

TENSORS = ("src", "weights", "dst")

# The names of the element-wise functions, and their formulas.
ELTWISE = eltwise_formulas()
# The default alpha and beta of functions with defaults.
ELTWISE_DEFAULTS = {
    "elu": (1.0, 0.0),
    "swish": (1.0, 0.0),
    "hardswish": (1 / 6, 0.5),
    "linear": (1.0, 0.0),
    "pow": (1.0, 0.0),
    "soft_relu": (1.0, 0.0),
    "hardsigmoid": (1 / 6, 0.5),
}
# The functions that limit their argument to [alpha, beta], and have no default of alpha and beta.
CLIPS = ("clip", "clip_v2")
# Schemes of arithmetic from sums to the destination, in the order of csrc/stage/stage.h.
SCHEMES = ("float", "doubling", "single", "onnx")
INTEGER_SCHEMES = ("doubling", "single")
# Algorithms of Binary, in the order of csrc/stage/stage.h.
BINARY = ("add", "sub", "mul", "div", "min", "max", "ge", "gt", "le", "lt", "eq", "ne")


class _PostOp:
    """Let files contain objects of a dataclass. The fields of the class restore an object."""

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), tuple(getattr(self, field.name) for field in fields(self))  # type: ignore[arg-type]


@dataclass(frozen=True)
class Sum(_PostOp):
    """Post-op: y = y + scale * (dst - zero_point), where dst is the old value of the destination (accumulation).

    Parameters
    ----------
    scale : float, optional
        The scale of the old values.
    zero_point : int, optional
        The zero point of the old values.
    dtype : dtype, optional
        The type of the old values: the destination's type (the default), or the other 8-bit type.

    Examples
    --------
    >>> import numpy as np, int8blas
    >>> layer = int8blas.InnerProduct(np.array([[1, 2]], np.int8), src_dtype=np.uint8, dst_dtype=np.float32,
    ...                               attributes=int8blas.Attributes(post_ops=[int8blas.Sum(0.5)]))
    >>> layer(np.array([[3, 4]], np.uint8), out=np.array([[100]], np.float32))
    array([[61.]], dtype=float32)
    """

    scale: float = 1.0
    zero_point: int = 0
    dtype: npt.DTypeLike | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", float32_from(self.scale, "scale of Sum"))
        zero_point = integer(self.zero_point, "zero_point of Sum")
        if not -(2**31) <= zero_point < 2**31:
            raise ValueError(f"zero_point of Sum must be in the range of int32, got {shown(zero_point)}")
        object.__setattr__(self, "zero_point", zero_point)
        if self.dtype is not None:
            object.__setattr__(self, "dtype", int8_dtype(self.dtype, "dtype of Sum"))


@dataclass(frozen=True, init=False)
class Eltwise(_PostOp):
    """Post-op: y = scale * f(y) for a function f of one number.

    Parameters
    ----------
    algorithm : str
        The name of a function in the table below.
    alpha, beta : float, optional
        Parameters of the function. alpha is the slope of relu below 0, by default 0. elu, swish, soft_relu and pow have
        an alpha, by default 1; the alpha of soft_relu must not be 0. linear, hardswish and hardsigmoid use alpha * x +
        beta, with the defaults 1 and 0 for linear, 1 / 6 and 1 / 2 for hardswish and hardsigmoid. The limits alpha and
        beta of clip and clip_v2, and the exponent beta of pow, have no defaults.
    scale : float, optional
        The factor of the result.

    Notes
    -----
    {formulas}

    The functions are evaluated in float32, with equal bits on every CPU. The table has the largest errors for a `scale`
    of 1, in units in the last place (ulp) of the exact value. An ulp of a subnormal number is 2**-149. Powers of 2 are
    absolute errors.

    ==================================  ===============================================================================
    relu, clip, clip_v2, abs, sqrt,     0.5 for each operation of the formula; if the formula has two operations, as
    square, round, linear, hardswish,   alpha * x + beta, the error of a result near 0 may be many ulps
    hardsigmoid
    exp                                 1, plus 2**-149
    log                                 1
    pow                                 0.51 for an alpha of 1, otherwise 1.51
    mish                                4, plus 2**-142
    soft_relu                           4, plus ``1.1 * |alpha * x|`` unless alpha is 1, plus ``2**-148 / |alpha|``
    tanh, logistic                      3
    elu                                 3, for results near 0 too
    gelu_erf                            9, plus 2**-140
    gelu_tanh                           3, plus ``4 * |2 * u|``, because the argument u of tanh is rounded
    swish                               3, plus ``1.1 * |alpha * x|`` unless alpha is 1, because that product is
                                        rounded; for ``|x|`` above 2**102 plus 2**-122
    ==================================  ===============================================================================

    The result for an infinity is the limit of the function. For -inf the result of gelu_erf, gelu_tanh, swish and
    hardswish is -0.0. NaN stays NaN. With an alpha of 0, linear, hardswish and hardsigmoid give NaN for an infinity.
    log gives NaN for negative numbers. pow gives NaN for negative numbers if the exponent is not an integer. Every
    number, and NaN, to the power 0 is 1. clip_v2 differs from clip in one case: if alpha is 0, clip_v2 gives alpha for
    0.0 and -0.0.

    Examples
    --------
    >>> import int8blas
    >>> int8blas.Eltwise("clip", 0, 6)
    Eltwise(algorithm='clip', alpha=0.0, beta=6.0, scale=1.0)
    """

    algorithm: str
    alpha: float | None = None
    beta: float | None = None
    scale: float = 1.0

    # Each call of `eltwise` may create a post-op, so the constructor must be fast. A generated constructor would take
    # twice the time, because a frozen class sets each field by a function call.
    def __init__(
        self, algorithm: str, alpha: float | None = None, beta: float | None = None, scale: float = 1.0
    ) -> None:
        if not isinstance(algorithm, str) or algorithm not in ELTWISE:
            raise ValueError(f"algorithm of Eltwise must be one of {', '.join(ELTWISE)}, got {shown(algorithm)}")
        if alpha is None or beta is None:
            if algorithm in CLIPS:
                raise ValueError(f"alpha and beta of Eltwise({algorithm!r}), the limits, must be given")
            if algorithm == "pow" and beta is None:
                raise ValueError("beta of Eltwise('pow'), the exponent, must be given")
            defaults = ELTWISE_DEFAULTS.get(algorithm, (0.0, 0.0))
            alpha, beta = defaults[0] if alpha is None else alpha, defaults[1] if beta is None else beta
        alpha, beta = float32_from(alpha, "alpha of Eltwise"), float32_from(beta, "beta of Eltwise")
        if algorithm in CLIPS and alpha > beta:
            raise ValueError(f"alpha of Eltwise({algorithm!r}) must not be above beta, got {alpha} and {beta}")
        if algorithm == "soft_relu" and alpha == 0:
            raise ValueError("alpha of Eltwise('soft_relu') must not be 0, as the result is divided by it")
        values = self.__dict__
        values["algorithm"], values["alpha"], values["beta"] = algorithm, alpha, beta
        values["scale"] = float32_from(scale, "scale of Eltwise")


if Eltwise.__doc__:  # Python without docstrings (-OO) has none
    _wide = max(map(len, ELTWISE))
    _rule = f"    {'=' * _wide}  {'=' * (max(map(len, ELTWISE.values())) + 4)}"
    _rows = "\n".join(f"    {name:{_wide}}  ``{formula}``" for name, formula in ELTWISE.items())
    Eltwise.__doc__ = Eltwise.__doc__.replace("    {formulas}", f"{_rule}\n{_rows}\n{_rule}")


# The default arguments of ReLU, and the post-op that ReLU returns for these arguments.
_SLOPE, _SCALE = 0.0, 1.0
_RELU = Eltwise("relu", _SLOPE, 0.0, _SCALE)


def ReLU(slope: float = _SLOPE, scale: float = _SCALE) -> Eltwise:  # noqa: N802  (it is used like the other classes)
    """Post-op: y = scale * (y if y >= 0 else slope * y). The function returns ``Eltwise("relu", slope, 0, scale)``.

    Parameters
    ----------
    slope : float, optional
        The slope below 0: 0 for ReLU, another value for leaky ReLU.
    scale : float, optional
        The factor of the result.

    Returns
    -------
    Eltwise

    Examples
    --------
    >>> import int8blas
    >>> int8blas.ReLU(0.1).alpha
    0.10000000149011612
    """
    return _RELU if slope is _SLOPE and scale is _SCALE else Eltwise("relu", slope, 0.0, scale)


@dataclass(frozen=True, eq=False)
class _WithOperand(_PostOp):
    """A post-op with an operand that is broadcast to the destination's shape. `operand` is None if each execution gives
    an operand."""

    operand: npt.ArrayLike | None = None

    def __post_init__(self) -> None:
        if self.operand is not None:
            object.__setattr__(self, "operand", as_operand(self.operand, f"operand of {type(self).__name__}"))


@dataclass(frozen=True, eq=False)
class Binary(_WithOperand):
    """Post-op: y = y + operand, or another operation instead of ``+``. A comparison gives 1 or 0.

    Parameters
    ----------
    operand : array_like, optional
        Real numbers, rounded to float32, of a shape that broadcasts to the destination's shape. Without `operand` each
        execution must give the operands of all post-ops that lack an operand, in order, as in
        ``primitive(src, operands=[...])``.
    algorithm : {'add', 'sub', 'mul', 'div', 'min', 'max', 'ge', 'gt', 'le', 'lt', 'eq', 'ne'}, optional
        The operation. Comparisons with NaN are false, except 'ne', which is true.

    Examples
    --------
    >>> import numpy as np, int8blas
    >>> clipped = int8blas.Attributes(post_ops=[int8blas.Binary([6, 4], "min")])
    >>> layer = int8blas.InnerProduct(np.eye(2, dtype=np.int8), src_dtype=np.uint8, dst_dtype=np.float32,
    ...                               attributes=clipped)
    >>> layer(np.array([[5, 5]], np.uint8))
    array([[5., 4.]], dtype=float32)
    """

    algorithm: str = "add"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not is_option(self.algorithm, BINARY):
            raise ValueError(f"algorithm of Binary must be one of {', '.join(BINARY)}, got {shown(self.algorithm)}")


@dataclass(frozen=True, eq=False)
class PReLU(_WithOperand):
    """Post-op: y = y if y >= 0 else operand * y. The operand is usually a slope for each channel.

    Parameters
    ----------
    operand : array_like, optional
        The slopes, in the form of an operand of :class:`Binary`.

    Examples
    --------
    >>> import numpy as np, int8blas
    >>> slopes = int8blas.Attributes(post_ops=[int8blas.PReLU([0.5, 0.25])])
    >>> layer = int8blas.InnerProduct(np.eye(2, dtype=np.int8), src_dtype=np.int8, dst_dtype=np.float32,
    ...                               attributes=slopes)
    >>> layer(np.array([[-8, -8]], np.int8))
    array([[-4., -2.]], dtype=float32)
    """


PostOp = Sum | Eltwise | Binary | PReLU


def as_operand(value: npt.ArrayLike, name: str) -> npt.NDArray[np.float32]:
    """Return a read-only float32 copy of an operand of a post-op."""
    array = widened(value, name)
    if array.dtype.kind not in "biuf":
        raise TypeError(f"{name} must be real numbers, got {dtype_name(array.dtype)}")
    with np.errstate(over="ignore", under="ignore"):
        array = np.array(array, np.float32)
    array.flags.writeable = False
    return array


def as_post_ops(ops: Any, name: str) -> tuple[PostOp, ...]:
    """Return a tuple of post-ops from one post-op or a sequence."""
    if type(ops) is Eltwise:  # the most frequent case
        return (ops,)
    items = [ops] if isinstance(ops, PostOp) else items_of(ops, name)
    for op in items:
        if not isinstance(op, PostOp):
            raise TypeError(f"{name} must be Sum, Eltwise, Binary or PReLU, got {type(op).__name__}")
    return tuple(items)


def _is_range(op: PostOp) -> bool:
    """Return whether a post-op only limits its argument to a range."""
    if not isinstance(op, Eltwise) or op.scale != 1:
        return False
    return op.algorithm == "clip" or (op.algorithm == "relu" and op.alpha == 0)


def _name_of(op: PostOp) -> str:
    return op.algorithm if isinstance(op, (Eltwise, Binary)) else type(op).__name__


def _masks(masks: Mapping[str, int] | None, name: str) -> Mapping[str, int]:
    checked = {}
    for tensor, mask in by_tensor(masks, name, TENSORS).items():
        mask = integer(mask, f"{name}[{tensor!r}]")
        if not 0 <= mask < 1 << 12:
            raise ValueError(f"{name}[{tensor!r}] must be a mask of at most 12 dimensions, got {shown(mask)}")
        checked[tensor] = mask
    return MappingProxyType(checked)


@dataclass(frozen=True, eq=False)
class Attributes:
    """Scales, zero points and post-ops of a quantized primitive.

    Parameters
    ----------
    scales, zero_points : mapping of str to int, optional
        The masks of the tensors ("src", "weights" and "dst") that have a scale or a zero point. Each execution, or once
        the primitive, gets the values.
    post_ops : post-op, or sequence of them, optional
        :class:`Sum`, :class:`Eltwise` (or :func:`ReLU`), :class:`Binary` and :class:`PReLU`, applied to the result in
        this order, in float32, before the destination's scale.
    output_scales : (int, array_like), optional
        The older model: a mask and values. Before the post-ops, the sum of accumulator and bias is multiplied by the
        values of `output_scales`. The mask selects dimensions of the destination: 0 selects one value, ``1 << 1`` a
        value for each output channel. For a mask that is neither 0 nor ``1 << 1``, the values are flat, or have the
        shape of the selected dimensions. `output_scales` excludes other scales and zero points.
    requantization : {'float', 'doubling', 'single', 'onnx'}, optional
        The arithmetic from the sums to the destination: float32 ('float'), integers by a scheme of
        :func:`int8blas.requantize` ('doubling', 'single'), or float32 with ONNX's rounding ('onnx'). See Notes.

    Raises
    ------
    TypeError, ValueError
        If an attribute is not as described above. The error names the attribute.

    Notes
    -----
    With 'doubling' and 'single' the destination is :func:`int8blas.requantize` of the exact sums, limited to the range
    of an activation::

        acc = sat_s32(sum + bias_s32)
        y = sat_s32(requantized(acc, scale_src * scale_weights / scale_dst) + zp_dst)
        dst = min(max(y, low), high)

    The factor is computed from the float32 scales in float64, once or for each output channel. The factor becomes a
    multiplier and a power of two (:func:`int8blas.quantized_multiplier`). `low` and `high` are the range of the
    destination's type, uint8, int8 or int32. One post-op is allowed, ReLU or ``Eltwise("clip", alpha, beta)``. The
    limits of the post-op narrow the range: each limit becomes ``zp_dst + round(limit / scale_dst)``. The quotient is in
    float32, and is rounded to nearest, ties away from zero. A bias is int32. The source has one scale, and is not
    quantized dynamically. TensorFlow Lite's reference kernels for int8 have the same arithmetic.

    ``requantization="onnx"`` differs from 'float' in one step: a destination of 8 bits is rounded before its zero point
    is added, ``dst = sat(rne(y * (1 / scale_dst)) + zp_dst)``. The zero point must be in the range of its dtype. With
    'onnx', an int32 destination has no zero point.

    Examples
    --------
    >>> import int8blas
    >>> attributes = int8blas.Attributes(scales={"src": 0, "weights": 1 << 0, "dst": 0}, post_ops=[int8blas.ReLU()])
    >>> attributes.post_ops
    (Eltwise(algorithm='relu', alpha=0.0, beta=0.0, scale=1.0),)
    """

    scales: Mapping[str, int] = field(default_factory=dict)
    zero_points: Mapping[str, int] = field(default_factory=dict)
    post_ops: PostOp | Iterable[PostOp] = ()
    output_scales: tuple[int, npt.ArrayLike] | None = None
    requantization: str = "float"

    def __post_init__(self) -> None:
        object.__setattr__(self, "scales", _masks(self.scales, "scales"))
        object.__setattr__(self, "zero_points", _masks(self.zero_points, "zero_points"))
        object.__setattr__(self, "post_ops", as_post_ops(self.post_ops, "post_ops"))
        self._check_requantization()
        if self.output_scales is None:
            return
        try:
            mask, values = self.output_scales
        except (TypeError, ValueError):
            raise TypeError(f"output_scales must be (mask, values), got {shown(self.output_scales)}") from None
        mask = integer(mask, "mask of output_scales")
        if not 0 <= mask < 1 << 12:
            raise ValueError(f"output_scales must have a mask of at most 12 dimensions, got {shown(mask)}")
        values = as_operand(values, "output_scales")
        values = values.reshape(1) if values.ndim == 0 else values
        one = mask == 0 and (values.ndim != 1 or values.size != 1)
        if one or (mask == 2 and values.ndim != 1) or not np.isfinite(values).all():
            raise ValueError("output_scales must be finite, one value for mask 0, or one for each output channel")
        object.__setattr__(self, "output_scales", (mask, values))
        for name in ("scales", "zero_points"):
            if getattr(self, name):
                raise ValueError(f"{name} must not be given together with output_scales, which replaces it")

    def _check_requantization(self) -> None:
        """Refuse attributes that integer arithmetic does not support."""
        scheme = self.requantization
        if not isinstance(scheme, str) or scheme not in SCHEMES:
            raise ValueError(f"requantization must be {either(list(map(repr, SCHEMES)))}, got {shown(scheme)}")
        if scheme not in INTEGER_SCHEMES:
            return
        if self.output_scales is not None:
            raise ValueError(f"output_scales must not be given with requantization={scheme!r}")
        ops = as_post_ops(self.post_ops, "post_ops")
        if len(ops) > 1 or not all(_is_range(op) for op in ops):
            raise ValueError(
                f"post_ops must be at most one, ReLU or Eltwise('clip') of scale 1, with requantization={scheme!r}, "
                f"got {', '.join(map(_name_of, ops))}"
            )

    def __reduce__(self) -> tuple[Any, ...]:
        values = (dict(self.scales), dict(self.zero_points), self.post_ops, self.output_scales)
        # Omit the default scheme, so that earlier versions can read all attributes that they support.
        return type(self), values if self.requantization == "float" else (*values, self.requantization)


for cls in (Attributes, Sum, Eltwise, Binary, PReLU):
    register(cls)
