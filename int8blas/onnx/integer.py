"""ONNX's 8-bit integer operators, computed by int8blas: exact sums, and ONNX's rounding.

ONNX first rounds half to even, then adds the zero point, then saturates::

    y = sat(rne(x / scale) + zero_point)
    y = sat(rne(f32(sum) * ((a_scale * b_scale) / y_scale)) + zero_point)

QuantizeLinear uses the first formula, and products use the second formula. ONNX leaves the order of operations with
scales open. int8blas uses the order of the two formulas, in float32, on every CPU.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from int8blas.convolution.convolution import Convolution
from int8blas.elementwise.functions import eltwise
from int8blas.elementwise.quantization import dequantize as dequantize_bytes
from int8blas.elementwise.quantization import quantize, requantize
from int8blas.gemm.matmul import matmul
from int8blas.layers.inner_product import InnerProduct
from int8blas.onnx.graph import Array
from int8blas.onnx.operands import as_operand, of_rows
from int8blas.onnx.table import DOMAIN, SHAPED, Call, Factors, Operator, Site, Traits, passes_to
from int8blas.onnx.types import BYTES, FLOAT32, AutoPad, dtype_of, is_short
from int8blas.onnx.windows import CHANNELS_LAST, SAME, TURNS, Sizes, padding_of, windows
from int8blas.stage.attributes import Attributes
from int8blas.stage.by_range import quantize_whole

# The largest scale for which 255 * scale is finite in float32.
LARGEST_SCALE = float(np.finfo(np.float32).max) / 255


def along(values: Array, ndim: int, axis: int, name: str) -> int | None:
    """Return the axis along which `values` lie, 0 or more. Return None for a single value."""
    if values.size == 1:
        return None
    if values.ndim != 1:
        raise ValueError(f"{name} must be one value or a vector, got shape {values.shape}")
    return axis + ndim if axis < 0 else axis


def zero_of(zero_point: Array | None, dtype: Any) -> Array:
    return np.zeros((), dtype) if zero_point is None else zero_point


# Elements


def quantize_linear(
    x: Array, y_scale: Array, y_zero_point: Array | None = None, *, axis: int = 1, block_size: int = 0,
    output_dtype: int = 0, precision: int = 0, saturate: int = 1,
) -> Array:  # fmt: skip
    dtype = dtype_of(output_dtype) if y_zero_point is None and output_dtype else None
    zero_point = zero_of(y_zero_point, dtype or np.uint8)
    dtype = zero_point.dtype
    if dtype.kind not in "iu":
        raise ValueError(f"y_zero_point must be an integer of 8 to 32 bits, got {dtype.name}")
    kind = type_of_division(y_scale, precision)
    x, y_scale = x.astype(kind, copy=False), y_scale.astype(kind, copy=False)
    if kind != np.float32 or dtype not in BYTES or block_size or y_scale.ndim > 1 or not positive_finite(y_scale):
        return quantized(x, y_scale, zero_point, axis, block_size)
    over = along(y_scale, x.ndim, axis, "y_scale")
    factor = y_scale.reshape(-1) if over is not None else y_scale.reshape(())
    zero = zero_point.reshape(-1) if over is not None and zero_point.size != 1 else zero_point.reshape(-1)[0]
    return np.asarray(quantize(x, factor, zero, dtype, axis=over, scheme="onnx"))


def type_of_division(scale: Array, precision: int) -> np.dtype[Any]:
    """Return the type in which QuantizeLinear divides: `precision` if it is given, otherwise the type of the scale. For
    an integer scale, return float64."""
    kind = dtype_of(precision) if precision else scale.dtype if scale.dtype.kind not in "iu" else np.dtype(np.float64)
    if kind.kind not in "fV":
        raise ValueError(f"precision must be a type of floats, got {kind.name}")
    return kind


def prepared_quantize(
    site: Site, *, axis: int = 1, block_size: int = 0, output_dtype: int = 0, precision: int = 0, saturate: int = 1
) -> Call:
    general = functools.partial(
        quantize_linear, axis=axis, block_size=block_size, output_dtype=output_dtype, precision=precision
    )
    return general if block_size or precision not in (0, FLOAT32) else quantizer(site, 1, general, axis)


def quantizer(site: Site, place: int, general: Call, axis: int = 1) -> Call:
    """Return a function that quantizes. Input number `place` is the scale, and the next input is the zero point. If
    scale and zero point are constant, check them once, at load."""
    numbers = constant_parameters(site, place, axis)
    if numbers is None:
        return general
    factor, shift, dtype, over = numbers

    def call(x: Array, *constants: Array) -> Array:
        if x.dtype != np.float32:
            return general(x, *constants)
        # A broadcast tensor would have short runs in memory. A dimension of one element may have any stride.
        if 0 in x.strides and any(step == 0 and size > 1 for step, size in zip(x.strides, x.shape, strict=True)):
            x = np.ascontiguousarray(x)
        return np.asarray(quantize(x, factor, shift, dtype, axis=over, scheme="onnx"))

    return call


def constant_parameters(site: Site, place: int, axis: int) -> tuple[Any, Any, Any, int | None] | None:
    """Return a constant scale, its zero point, the type of the zero point, and the axis of both (None for single
    numbers). Return None if the scale and the zero point are not constants that the caller can use."""
    scale, zero = site.constants.get(place), site.constants.get(place + 1)
    if scale is None or zero is None or scale.dtype != np.float32 or zero.dtype not in BYTES:
        return None
    if scale.size != zero.size or not positive_finite(scale):
        return None
    if scale.size == 1:
        return scale.reshape(-1)[0], int(zero.reshape(-1)[0]), zero.dtype, None
    lie_along = scale.ndim == zero.ndim == 1
    return (scale, zero.astype(np.int32), zero.dtype, axis) if lie_along else None  # int32 is faster to check


def prepared_dequantize(site: Site, *, axis: int = 1, block_size: int = 0, output_dtype: int = 0) -> Call:
    """Check a constant scale and zero point once, at load."""
    general = functools.partial(dequantize_linear, axis=axis, block_size=block_size, output_dtype=output_dtype)
    numbers = constant_parameters(site, 1, axis)
    if numbers is None or block_size or output_dtype not in (0, FLOAT32):
        return general
    factor, shift, dtype, over = numbers

    def call(x: Array, *constants: Array) -> Array:
        return np.asarray(dequantize_bytes(x, factor, shift, axis=over)) if x.dtype == dtype else general(x, *constants)

    return call


def positive_finite(scale: Array) -> bool:
    """Return whether all scales are positive and finite. Quantization then keeps the order of numbers."""
    return 0 < scale.item() < math.inf if scale.size == 1 else bool((np.isfinite(scale) & (scale > 0)).all())


def same_quantization(scale: Array, zero: Array, other_scale: Array, other_zero: Array) -> bool:
    """Return whether two quantizations have equal scales, zero points and types, one value each. With equal
    quantizations, dequantizing a byte with the first and quantizing the result with the second returns the byte, unless
    the scale is 0, NaN or so large that numbers overflow."""
    pairs = (scale, other_scale), (zero, other_zero)
    equal = all(a.size == b.size == 1 and a.dtype == b.dtype and a.item() == b.item() for a, b in pairs)
    return equal and bool(0 < abs(scale.item()) <= LARGEST_SCALE)


def quantized(x: Array, scale: Array, zero_point: Array, axis: int, block_size: int) -> Array:
    """Compute QuantizeLinear in NumPy, for x and a scale of one type. NaN becomes the zero point, as in int8blas."""
    limits = np.iinfo(zero_point.dtype)
    factor, zero = broadcastable(scale, x, axis, block_size), broadcastable(zero_point, x, axis, block_size)
    rounded = np.nan_to_num(np.rint(x / factor).astype(np.float64)) + zero
    return np.clip(rounded, limits.min, limits.max).astype(zero_point.dtype)


def broadcastable(values: Array, x: Array, axis: int, block_size: int) -> Array:
    """Reshape parameters so that they broadcast against x: one value, one for each index of an axis, or one for each
    block."""
    if values.size == 1:
        return values.reshape(())
    axis = axis + x.ndim if axis < 0 else axis
    if block_size:
        return np.repeat(values, block_size, axis)[tuple(slice(size) for size in x.shape)]
    return values.reshape([-1 if i == axis else 1 for i in range(x.ndim)])


def dequantize_linear(
    x: Array, x_scale: Array, x_zero_point: Array | None = None, *, axis: int = 1, block_size: int = 0,
    output_dtype: int = 0,
) -> Array:  # fmt: skip
    plain = x.dtype in (*BYTES, np.dtype(np.int32)) and x_scale.dtype == np.float32 and not block_size
    zero_point = zero_of(x_zero_point, x.dtype)
    dtype = dtype_of(output_dtype) if output_dtype else x_scale.dtype
    if not plain or not positive_finite(x_scale) or x_scale.ndim > 1:
        difference = x.astype(np.int64) - broadcastable(zero_point, x, axis, block_size)
        # 16-bit floats cannot hold all differences (byte - zero point), so multiply in float32 and round the product.
        factor = broadcastable(x_scale.astype(np.float32) if is_short(x_scale) else x_scale, x, axis, block_size)
        return np.asarray(difference.astype(factor.dtype) * factor).astype(dtype)
    over = along(x_scale, x.ndim, axis, "x_scale")
    shape = (-1,) if over is not None else ()
    y = dequantize_bytes(x, x_scale.reshape(shape), zero_point.reshape(shape), axis=over)
    return np.asarray(y, dtype)


def dynamic_quantize_linear(x: Array) -> tuple[Array, Array, Array]:
    """Quantize to uint8 by the range of x, extended to contain 0."""
    # Keep channels last in memory.
    to, back = TURNS[x.ndim] if x.ndim in TURNS and not x.flags.c_contiguous else ((), ())
    y, scale, zero_point = quantize_whole(x.transpose(to) if to else x)
    return y.transpose(back) if back else y, np.array(scale, np.float32), np.array(zero_point, np.uint8)


# Matrices


ROUNDING = Attributes(requantization="onnx")


def rounding_product(
    site: Site, numbers: Sequence[Array | None], bias: Array | None, transposed: bool = False, alpha: float = 1.0
) -> Call | None:
    """Return the layer of a quantized product with a matrix. `transposed` says whether the matrix is transposed. Return
    None if one of the :class:`Numbers` is not constant, or if no layer takes the numbers."""
    known = [value for value in numbers if value is not None]
    if len(known) < len(numbers):
        return None
    a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero = known
    matrix = b if transposed else b.T
    one = a_scale.size == a_zero.size == y_scale.size == y_zero.size == 1 and y_zero.dtype in BYTES
    if not one or matrix.ndim != 2 or not matrix.size:
        return None
    scales, shifts = (as_operand(values, 2, 1, len(matrix)) for values in (b_scale, b_zero))
    if scales is None or shifts is None:
        return None
    factor = np.asarray(np.float32(alpha) * a_scale.reshape(()) * scales / y_scale.reshape(()), np.float32)
    if not positive_finite(factor) or (bias is not None and (bias.dtype != np.int32 or bias.size != len(matrix))):
        return None
    zeros: dict[str, Any] = {"src": int(a_zero.item()), "dst": int(y_zero.item())}
    if shifts.any():
        zeros["weights"] = shifts
    layer = InnerProduct(
        site.packed.matrix(matrix.T), None if bias is None else bias.reshape(-1), src_dtype=a_zero.dtype,
        dst_dtype=y_zero.dtype, scales={"weights": factor}, zero_points=zeros, attributes=ROUNDING,
    )  # fmt: skip
    return lambda a, *_: layer(a)


def matmul_integer(site: Site) -> Call:
    """Multiply matrices. Pack a constant matrix once."""
    return multiplication(site, site.constants.get(1))


def multiplication(site: Site, weights: Array | None) -> Callable[..., Array]:
    """Return a function for (a - a_zero_point) @ (b - b_zero_point) in int32. `weights` is b if b is constant."""
    packed = site.packed.matrix(weights) if weights is not None and weights.ndim == 2 and weights.size else None

    def multiply(a: Array, b: Array, a_zero_point: Array | None = None, b_zero_point: Array | None = None) -> Array:
        left = zero_vector(a_zero_point, a, -2)
        right = zero_vector(b_zero_point, b, -1)
        if left is None or right is None:
            return stacked(a, b, a_zero_point, b_zero_point)
        if packed is None:
            return np.asarray(matmul(a, b, ao=left, bo=right))
        if a.ndim > 2 and np.ndim(left) == 0:
            rows = a.reshape(math.prod(a.shape[:-1]), a.shape[-1])
            flat = np.asarray(matmul(rows, packed, ao=left, bo=right))
            return flat.reshape(*a.shape[:-1], flat.shape[1])
        return np.asarray(matmul(a, packed, ao=left, bo=right))

    return multiply


def zero_vector(zero_point: Array | None, x: Array, axis: int) -> Any:
    """Return a zero point in the form that matmul needs: one value, or one value for each row or column. Return None if
    the matrices of a stack have different zero points."""
    if zero_point is None:
        return 0
    if zero_point.size == 1:
        return int(zero_point.reshape(-1)[0])
    if zero_point.ndim == 1:
        return zero_point
    return None if x.ndim < 2 else as_operand(zero_point, x.ndim, axis + x.ndim, x.shape[axis])


def stacked(a: Array, b: Array, a_zero_point: Array | None, b_zero_point: Array | None) -> Array:
    """Multiply stacks whose matrices have different zero points."""
    lead = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    rows = np.broadcast_to(of_rows(zero_of(a_zero_point, a.dtype)), (*lead, a.shape[-2], 1)) if a.ndim > 1 else None
    columns = np.broadcast_to(zero_of(b_zero_point, b.dtype), (*lead, 1, b.shape[-1])) if b.ndim > 1 else None
    if rows is None or columns is None:
        raise ValueError(f"zero points must be one value for vectors, got {a_zero_point} and {b_zero_point}")
    x, y = np.broadcast_to(a, (*lead, *a.shape[-2:])), np.broadcast_to(b, (*lead, *b.shape[-2:]))
    result = np.empty((*lead, a.shape[-2], b.shape[-1]), np.int32)
    for i in np.ndindex(*lead):
        matmul(x[i], y[i], ao=rows[i].reshape(-1), bo=columns[i].reshape(-1), out=result[i])
    return result


def qlinear_matmul(site: Site) -> Call:
    layer = rounding_product(site, [site.constants.get(i) for i in range(1, 8)], None)
    if layer is not None:
        return layer
    multiply = multiplication(site, site.constants.get(3))
    known = [site.constants.get(i) for i in (1, 2, 4, 5, 6, 7)]
    numbers = [value.reshape(()) for value in known if value is not None and value.size == 1]
    if len(numbers) == len(known) and numbers[5].dtype in BYTES:
        factor = scale_of_sums(numbers[0], numbers[2], numbers[4])
        if positive_finite(factor):
            return of_two_tensors(multiply, factor, numbers[1], numbers[3], numbers[5])

    def call(
        a: Array, a_scale: Array, a_zero_point: Array, b: Array, b_scale: Array, b_zero_point: Array, y_scale: Array,
        y_zero_point: Array,
    ) -> Array:  # fmt: skip
        left, right = a[None] if a.ndim == 1 else a, b[:, None] if b.ndim == 1 else b
        acc = multiply(left, right, a_zero_point, b_zero_point)
        y = requantized(acc, scale_of_sums(of_rows(a_scale), b_scale, y_scale), y_zero_point)
        y = y[..., 0, :] if a.ndim == 1 else y
        return y[..., 0] if b.ndim == 1 else y

    return call


def scale_of_sums(a_scale: Array, b_scale: Array, y_scale: Array) -> Array:
    """Return the factor that quantizes sums."""
    return np.asarray(a_scale.astype(np.float32) * b_scale.astype(np.float32) / y_scale.astype(np.float32))


def of_two_tensors(multiply: Callable[..., Array], factor: Array, a_zero: Array, b_zero: Array, y_zero: Array) -> Call:
    """Return a product whose operands and result have one constant scale and zero point each, checked at load."""
    zero = int(y_zero)

    def call(a: Array, _a: Array, _a_zero: Array, b: Array, *_: Array) -> Array:
        return np.asarray(requantize(multiply(a, b, a_zero, b_zero), factor, zero, y_zero.dtype, scheme="onnx"))

    return call


def requantized(acc: Array, factor: Array, zero_point: Array, axis: int = -1) -> Array:
    """Return sat(rne(f32(acc) * factor) + zero_point)."""
    over = axis + acc.ndim if axis < 0 else axis
    values = factor.reshape(()) if factor.size == 1 else as_operand(factor, acc.ndim, over, acc.shape[over])
    if values is not None and zero_point.size == 1 and zero_point.dtype in BYTES and positive_finite(factor):
        zero, along_axis = zero_point.reshape(-1)[0], over if values.ndim else None
        return np.asarray(requantize(acc, values, zero, zero_point.dtype, axis=along_axis, scheme="onnx"))
    limits = np.iinfo(zero_point.dtype)
    rounded = np.nan_to_num(np.rint(acc.astype(np.float32) * factor).astype(np.float64)) + zero_point
    return np.clip(rounded, limits.min, limits.max).astype(zero_point.dtype)


# Convolutions


class ConvolutionSums:
    """The exact int32 sums of a convolution. The layer is created once if the inputs at `fixed` are constant."""

    def __init__(
        self, site: Site, fixed: Sizes, *, auto_pad: AutoPad = "NOTSET", dilations: Sizes | None = None, group: int = 1,
        kernel_shape: Sizes | None = None, pads: Sizes | None = None, strides: Sizes | None = None,
    ) -> None:  # fmt: skip
        self.auto_pad, self.group, self.pads = auto_pad, group, pads
        # Pass tuples, because layers check tuples faster than lists.
        self.strides, self.dilations = tuple(strides or ()), tuple(dilations or ())
        self.packed, names = site.packed, site.node.inputs
        weights, zero_point, *bias = (site.constants.get(i) for i in fixed)
        given = [i for i in fixed if i < len(names) and names[i]]
        # The type of the source is unknown at load, so the layer for a type is created at its first use.
        self.constants = (weights, zero_point, bias[0] if bias else None) if set(given) <= {*site.constants} else None
        self.layers: dict[np.dtype[Any], Convolution] = {}
        self.checked: Any = None

    def layer(
        self, w: Array, zero_point: Array | None, bias: Array | None, dtype: np.dtype[Any], **attributes: Any
    ) -> Convolution:
        """Return a layer with int32 results that takes the zero point of its source in each call, or a layer with the
        given attributes."""
        padding: Any = SAME.get(self.auto_pad)
        n = w.ndim - 2
        if padding is None:
            padding = padding_of((0,) * n, (1,) * n, (1,) * n, self.pads, self.auto_pad)
        zero: dict[str, Any] = {}
        if zero_point is not None and zero_point.any():
            zero["weights"] = zero_point.reshape(-1) if zero_point.size != 1 else zero_point.reshape(())
        given: dict[str, Any] = {"dst_dtype": np.int32, "attributes": Attributes(zero_points={"src": 0})}
        if attributes:
            zero |= attributes.pop("zero_points")
            given = attributes

        def make(weights: Any) -> Convolution:
            return Convolution(
                weights, bias, strides=self.strides or 1, padding=padding, dilation=self.dilations or 1,
                groups=self.group, layout=CHANNELS_LAST[n - 1], src_dtype=dtype, zero_points=zero, **given,
            )  # fmt: skip

        if self.constants is None:
            return make(w)
        # The key has all values that the packed weights depend on: with groups also the bias, as a large bias excludes
        # some kernels.
        zeros = zero_point.tobytes() if "weights" in zero and zero_point is not None else b""
        biases = bias.tobytes() if bias is not None and self.group > 1 else b""
        return self.packed.layer(make, w, self.strides, self.dilations, self.group, zeros, biases)

    def check(self, x: Array, w: Array) -> None:
        """Check that windows fit the image. Remember its shape, because most images have the last image's shape."""
        shapes = x.shape, w.shape
        if shapes == self.checked:
            return
        if not 3 <= x.ndim <= 5:
            raise ValueError(f"x must have 1 to 3 spatial dimensions, got shape {x.shape}")
        windows(x.shape[2:], w.shape[2:], self.strides, self.pads, self.dilations, self.auto_pad)
        self.checked = shapes

    def __call__(
        self, x: Array, w: Array, x_zero_point: Array | None, w_zero_point: Array | None, bias: Array | None
    ) -> Array:
        self.check(x, w)
        layer = self.layers.get(x.dtype) if self.constants else None
        if layer is None:
            layer = self.layer(w, w_zero_point, bias, x.dtype)
            if self.constants:
                self.layers[x.dtype] = layer
        zero_point = 0 if x_zero_point is None else int(x_zero_point.reshape(-1)[0])
        return channels_last(layer, x, zero_points={"src": zero_point})


@passes_to(ConvolutionSums.__init__)
def conv_integer(site: Site, **geometry: Any) -> Call:
    sums = ConvolutionSums(site, (1, 3), **geometry)
    return lambda x, w, x_zero_point=None, w_zero_point=None: sums(x, w, x_zero_point, w_zero_point, None)


@passes_to(ConvolutionSums.__init__)
def qlinear_conv(site: Site, **geometry: Any) -> Call:
    sums = ConvolutionSums(site, (3, 5, 8), **geometry)
    if sums.constants is not None and {1, 2, 3, 4, 5, 6, 7} <= {*site.constants}:
        layer = rounding_convolution(sums, site)
        if layer is not None:
            return layer

    def call(
        x: Array, x_scale: Array, x_zero_point: Array, w: Array, w_scale: Array, w_zero_point: Array, y_scale: Array,
        y_zero_point: Array, bias: Array | None = None,
    ) -> Array:  # fmt: skip
        acc = sums(x, w, x_zero_point, w_zero_point, bias)
        factor = (x_scale * w_scale / y_scale).astype(np.float32)
        if factor.size != 1:
            factor = factor.reshape(-1, *[1] * (x.ndim - 2))
        return requantized(acc, factor, y_zero_point, 1)

    return call


def source_given(ops: Any) -> Attributes:
    """Return an epilogue with the given post-ops. Each call passes the source's scale and zero point."""
    return Attributes(scales={"src": 0}, zero_points={"src": 0}, post_ops=[*ops])


def conv_to_float(site: Site, *, ops: Any = (), **geometry: Any) -> Call:
    """Compute f32(sums) * (scale * factor) + bias, then post-ops, in one layer for each source type."""
    sums = ConvolutionSums(site, (1, 4, 5), **geometry)
    attributes = source_given(ops)
    factor = site.constants.get(6)
    scales = {} if factor is None else {"weights": factor}

    @functools.cache
    def layer_of(dtype: np.dtype[Any]) -> Convolution:
        w, w_zero, bias = sums.constants or (None, None, None)
        assert w is not None
        return sums.layer(
            w, w_zero, bias, dtype, dst_dtype=np.float32, attributes=attributes, zero_points={}, scales=scales
        )  # fmt: skip

    def call(
        x: Array, w: Array, scale: Array, x_zero: Array | None = None, w_zero: Array | None = None,
        bias: Array | None = None, *_: Array,
    ) -> Array:  # fmt: skip
        one = scale.size == 1 and scale.ndim <= x.ndim
        if sums.constants is None or not one or scale.dtype != np.float32 or not positive_finite(scale):
            acc = sums(x, w, x_zero, w_zero, None).astype(np.float32)
            shape = (-1, *(1,) * (x.ndim - 2))
            y = acc * (scale if factor is None else scale * factor.reshape(shape))
            y = y if bias is None else y + bias.reshape(shape)
            return np.moveaxis(eltwise(np.moveaxis(y, 1 - x.ndim, -1), ops), -1, 1 - x.ndim) if len(ops) else y
        layer = layer_of(x.dtype)
        sums.check(x, w)
        zero = 0 if x_zero is None else int(x_zero.reshape(-1)[0])
        return channels_last(layer, x, scales={"src": scale.reshape(-1)[0]}, zero_points={"src": zero})

    return call


def channels_last(layer: Call, x: Array, **values: Any) -> Array:
    """Apply a layer for images with channels last, the fast layout. Return a view with channels second.

    Tensors keep their memory layout between convolutions, because element-wise operators keep their input's layout.
    This function therefore copies only two kinds of tensors: the first image, and results of operators that change the
    layout."""
    to, back = TURNS[x.ndim]
    y: Array = layer(np.ascontiguousarray(x.transpose(to)), **values)
    return y.transpose(back)


def rounding_convolution(sums: ConvolutionSums, site: Site) -> Call | None:
    """Return a QLinearConv with constant scales and zero points, which the layer computes completely. Return None if
    the layer does not support these values."""
    x_scale, x_zero, w_scale, y_scale, y_zero = (site.constants[i] for i in (1, 2, 4, 6, 7))
    factor = (x_scale * w_scale / y_scale).astype(np.float32)
    if not positive_finite(factor) or y_zero.dtype not in BYTES or y_zero.size != 1 or sums.constants is None:
        return None
    w, zero_point, bias = sums.constants
    assert w is not None

    @functools.cache
    def layer_of(dtype: np.dtype[Any]) -> Convolution:
        return sums.layer(
            w, zero_point, bias, dtype, dst_dtype=y_zero.dtype, attributes=ROUNDING,
            scales={"weights": factor.reshape(-1) if factor.size != 1 else factor.reshape(())},
            zero_points={"src": int(x_zero.reshape(-1)[0]), "dst": int(y_zero.reshape(-1)[0])},
        )  # fmt: skip

    expected = np.dtype(x_zero.dtype)
    usual = layer_of(expected) if expected in BYTES else None

    def call(x: Array, *constants: Any) -> Array:
        # Small convolutions take as long as a call of `channels_last`, so this code moves channels itself.
        layer = usual if usual is not None and x.dtype is expected else layer_of(x.dtype)
        to, back = TURNS[x.ndim]
        y: Array = layer(np.ascontiguousarray(x.transpose(to)))
        return y.transpose(back)

    return call


QUANTIZING = Traits(elementwise=True, sized_by=())
DEQUANTIZING = Traits(elementwise=True, zero_points={0: 2}, typed_by=1, sized_by=())
# The traits of products that are multiplied by a scale: the result has the type of the scale.
SCALED = Traits(typed_by=2, sized_by=())
OPERATORS = [
    Operator("QuantizeLinear", prepared_quantize, 10, prepared=True, traits=QUANTIZING),
    Operator("DequantizeLinear", prepared_dequantize, 10, prepared=True, traits=DEQUANTIZING),
    Operator("DynamicQuantizeLinear", dynamic_quantize_linear, 11, traits=SHAPED),
    Operator("MatMulInteger", matmul_integer, 10, prepared=True, traits=replace(SHAPED, factors=Factors(0, 1))),
    Operator("QLinearMatMul", qlinear_matmul, 10, prepared=True, traits=replace(SHAPED, factors=Factors(0, 3))),
    Operator("ConvInteger", conv_integer, 10, prepared=True,
             traits=replace(SHAPED, factors=Factors(0, 1, "windows", 2))),
    Operator("QLinearConv", qlinear_conv, 10, prepared=True,
             traits=replace(SHAPED, factors=Factors(0, 3, "windows", 2))),
    Operator("ConvIntegerToFloat", conv_to_float, domain=DOMAIN, prepared=True,
             traits=replace(SCALED, factors=Factors(0, 1, "windows", 3))),
]  # fmt: skip
