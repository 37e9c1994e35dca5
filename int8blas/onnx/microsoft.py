"""onnxruntime's 8-bit integer operators, domain com.microsoft.

QLinearAdd, QLinearMul, QLinearConcat, QLinearLeakyRelu, QLinearSigmoid and means are correctly rounded (see
:mod:`exact`). An operator that int8blas puts in place of ONNX's DequantizeLinear, operator and QuantizeLinear has the
attribute `float_steps`, which no file has. Operators with `float_steps`, and all operators that are not correctly
rounded, round in float32 after each step::

    real = scale * f32(q - zero_point)                 y = sat(rne(real / y_scale) + y_zero_point)

Products with a quantized result have the form of QLinearMatMul. Products with a float32 result have the form ``f32(sum)
* (a_scale * b_scale) + bias``.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from int8blas.core.calls import ByLayout
from int8blas.elementwise.functions import PreparedConcat, PreparedTable, look_up
from int8blas.elementwise.pooling import avg_pool
from int8blas.gemm.matmul import matmul
from int8blas.layers.dynamic_lstm import DynamicLSTM
from int8blas.layers.inner_product import InnerProduct
from int8blas.onnx import elementwise, exact, fused, integer, normalization, recurrent
from int8blas.onnx.attention import masked, of_projection
from int8blas.onnx.graph import Array
from int8blas.onnx.integer import dequantize_linear as real
from int8blas.onnx.integer import multiplication, positive_finite, quantize_linear, zero_of
from int8blas.onnx.operands import as_operand, combined, of_columns, vector
from int8blas.onnx.reduction import add
from int8blas.onnx.shape import joined
from int8blas.onnx.table import (
    DOMAIN,
    MICROSOFT,
    SAME_TYPE,
    SHAPED,
    Call,
    Factors,
    Operator,
    Site,
    Traits,
    by_layout,
    passes_to,
)
from int8blas.onnx.types import BYTES, AutoPad, single
from int8blas.onnx.windows import TURNS, averaging, max_pool, pooled, windows

# The layer's names of ONNX's directions.
LAYER_DIRECTIONS: dict[str, Any] = {
    "forward": "left2right",
    "reverse": "right2left",
    "bidirectional": "bidirectional_concat",
}
# A sum of LARGEST_COUNT differences, byte minus zero point, fits int32.
LARGEST_COUNT = 1 << 22
# The axes of pixels, for each number of dimensions of an image.
AXES = [tuple(range(2, ndim)) for ndim in range(65)]
# The maximum number of elements of a constant whose distinct bytes are found.
MOST_VALUES = 1 << 12
# The ones that sums over pixels multiply by. Most averaged images have at most 1 << 12 pixels.
ONES = np.ones((1, 1 << 12), np.uint8)
Sizes = Sequence[int] | None


# Elements


def binary(name: str, function: Callable[[Array, Array], Array], site: Site, *, float_steps: int = 0) -> Call:
    """Return an element-wise operator on two tensors. If scales and zero points are constant, the kernel is chosen at
    load, unless a lookup table replaces the call."""
    found = [site.constants.get(i) for i in (1, 2, 4, 5, 6, 7)]
    numbers = [value for value in found if value is not None and value.size == 1]
    fixed, scales, zeros = len(numbers) == len(found), numbers[::2], numbers[1::2]
    types = tuple([zero.dtype for zero in zeros])
    sources = types[:2]
    if fixed and float_steps and all(map(positive_finite, scales)):
        firsts, shifts = [scale.reshape(-1)[0] for scale in scales], [int(zero.item()) for zero in zeros]
        kernel = exact.kernel_of(name, types, firsts, shifts)
        return lambda a, _a, _a_zero, b, *_: kernel(a, b)
    known = None
    if fixed and not float_steps and exact.takes(*numbers):
        tensors = [site.constants.get(i) for i in (0, 3)]
        values = tuple([bytes(set(x.tobytes())) if x is not None and x.size <= MOST_VALUES else b"" for x in tensors])
        known = of_pair(name, types[0], types[1], numbers, values)
        site.later.append(known.choose)

    def call(
        a: Array, a_scale: Array, a_zero: Array | None, b: Array, b_scale: Array, b_zero: Array | None, scale: Array,
        zero: Array | None = None,
    ) -> Array:  # fmt: skip
        if known is not None and (a.dtype, b.dtype) == sources:
            return known.run(a, b)
        given = a_scale, a_zero, b_scale, b_zero, scale, zero
        if float_steps or a.dtype not in BYTES or b.dtype not in BYTES or not exact.takes(*given):
            y = function(real(a, a_scale, a_zero), real(b, b_scale, b_zero))
            return quantize_linear(y, scale, zero_of(zero, a.dtype))
        pairs = of_pair(name, a.dtype, b.dtype, given)
        pairs.choose()
        return pairs.run(a, b)

    return call


def of_pair(
    name: str, a: Any, b: Any, numbers: Sequence[Array | None], known: tuple[bytes, ...] = (b"", b"")
) -> exact.Pairs:
    """Return the operator on two tensors of the given dtypes. `numbers` alternates scales and zero points of both
    tensors and the result. `known` has the distinct bytes of constant tensors."""
    values = tuple(map(exact.number, numbers))
    end = a if numbers[5] is None else numbers[5].dtype
    return exact.pairs_of(name, (a, b, end), values[::2], values[1::2], known)


def by_table(site: Site, in_steps: Callable[[Array], Array], table_of: Callable[..., Array] | None) -> Call:
    """Return an operator on one tensor, which looks up its 256 values. `table_of` computes the values exactly, once."""

    def values(dtype: Any, scale: Array, zero: Array | None, y_scale: Array, y_zero: Array | None) -> Array:
        end = zero_of(y_zero, dtype)
        if table_of is not None and exact.takes(scale, zero, y_scale, end):
            return table_of(dtype, *map(exact.number, (scale, zero, y_scale, end)), end.dtype)
        return quantize_linear(in_steps(real(exact.bytes_of(dtype), scale, zero)), y_scale, end)

    tables: dict[Any, PreparedTable] = {}
    fixed = all(i in site.constants or not name for i, name in enumerate(site.node.inputs) if i)

    def call(x: Array, scale: Array, zero: Array | None, y_scale: Array, y_zero: Array | None = None) -> Array:
        table = tables.get(x.dtype)
        if table is None:
            table = PreparedTable(values(x.dtype, scale, zero, y_scale, y_zero))
            if fixed:
                tables[x.dtype] = table
        return table(x)

    return call


def sigmoid_table(site: Site, *, float_steps: int = 0) -> Call:
    return by_table(site, elementwise.sigmoid, None if float_steps else exact.sigmoid_table)


def leaky_relu_table(site: Site, *, alpha: float = 0.01, float_steps: int = 0) -> Call:
    in_steps = functools.partial(elementwise.leaky_relu, alpha=alpha)
    table_of = functools.partial(exact.scaled_table, alpha=float(np.float32(alpha)))
    return by_table(site, in_steps, None if float_steps or not np.isfinite(alpha) else table_of)


def softmax(site: Site, *, axis: int = -1, opset: int) -> Call:
    function = normalization.softmax if opset >= 13 else normalization.softmax_of_rows
    to_real, to_bytes = integer.prepared_dequantize(site), integer.quantizer(site, 3, quantize_linear)

    def call(x: Array, scale: Array, zero: Array | None, y_scale: Array, y_zero: Array | None = None) -> Array:
        y: Array = to_bytes(function(to_real(x, scale, zero), axis=axis), y_scale, zero_of(y_zero, x.dtype))
        return y

    return call


def conversion(
    dtype: np.dtype[Any], scale: Array, zero: Array | None, y_scale: Array, end: Array, *, float_steps: int = 0
) -> Array | None:
    """Return the table that converts the bytes of a type to another quantization, or None if both are equal."""
    if integer.same_quantization(scale, zero_of(zero, dtype), y_scale, end):
        return None
    if float_steps or not exact.takes(scale, zero, y_scale, end):
        return quantize_linear(real(exact.bytes_of(dtype), scale, zero), y_scale, end)
    factor, offset, y_factor, y_zero = map(exact.number, (scale, zero, y_scale, end))
    return exact.scaled_table(dtype, factor, offset, y_factor, y_zero, end.dtype)


def concat(site: Site, *, axis: int, float_steps: int = 0) -> Call:
    """Concatenate parts. A table converts each part, except parts with the quantization of the result. If scales and
    zero points are constant, the tables are computed once."""

    fixed = all(i in site.constants or not name for i, name in enumerate(site.node.inputs) if i < 2 or i % 3 != 2)
    known: dict[tuple[np.dtype[Any], ...], tuple[PreparedConcat, list[Array | None]]] = {}
    last: list[PreparedConcat] = []

    def call(y_scale: Array, y_zero: Array | None, *triples: Array) -> Array:
        parts = triples[::3]
        y = last[0].again(parts) if last else None
        if y is not None:
            return y
        types = tuple([x.dtype for x in parts])
        found = known.get(types)
        if found is None:
            end = zero_of(y_zero, np.uint8)
            given = list(zip(triples[1::3], triples[2::3], strict=True))
            if not all(kind in BYTES for kind in types):
                reals = [real(x, *numbers) for x, numbers in zip(parts, given, strict=True)]
                return joined([quantize_linear(x, y_scale, end) for x in reals], axis)
            tables = [conversion(kind, *numbers, y_scale, end, float_steps=float_steps)
                      for kind, numbers in zip(types, given, strict=True)]  # fmt: skip
            found = PreparedConcat(tables, axis, end.dtype), tables
            if fixed:
                known[types] = found
        prepared, tables = found
        if fixed:
            last[:] = [prepared]
        y = prepared(parts)
        return joined(parts, axis, tables) if y is None else y

    return call


def average(
    site: Site, *, auto_pad: AutoPad = "NOTSET", ceil_mode: int = 0, channels_last: int = 0, count_include_pad: int = 0,
    kernel_shape: Sequence[int], pads: Sizes = None, strides: Sizes = None,
) -> Call:  # fmt: skip
    """Average quantized windows as f32(sum) / count."""
    to_bytes = integer.quantizer(site, 3, quantize_linear)

    def of_layout(image: Array) -> Call:
        at = windows(image.shape[2:], kernel_shape, strides, pads, None, auto_pad, ceil_mode)
        plain = image.dtype in BYTES and image.ndim in TURNS and 0 not in at.outputs
        exact_sums = plain and not count_include_pad and not ceil_mode
        sums = pooled(avg_pool, image, at, dst_dtype=np.float32) if exact_sums else None

        def call(x: Array, scale: Array, zero: Array | None, y_scale: Array, y_zero: Array | None = None) -> Array:
            if sums is None or scale.size != 1:
                numbers = real(x, scale, zero)
                mean = averaging(single(numbers), kernel_shape=kernel_shape, auto_pad=auto_pad, ceil_mode=ceil_mode,
                                 count_include_pad=count_include_pad, pads=pads, strides=strides)  # fmt: skip
                y = mean(single(numbers)).astype(numbers.dtype, copy=False)
            else:
                y = sums(x)
                y -= np.float32(0 if zero is None else zero.item())
                y *= scale.reshape(())
            result: Array = to_bytes(y, y_scale, zero_of(y_zero, x.dtype))
            return result

        return call

    return in_channels_last(ByLayout(of_layout, ())) if channels_last else ByLayout(of_layout, ())


def sum_of_bytes(x: Array, axes: tuple[int, ...], keep: bool, zero: int, dtype: Any) -> Array:
    """Sum the differences of bytes and a zero point. `matmul` computes sums over the last dimensions in memory as
    products with ones. Sums over pixels are products with ones if channels are last in memory."""
    count = math.prod([x.shape[axis] for axis in axes])
    last = x.flags.c_contiguous and axes == tuple(range(x.ndim - len(axes), x.ndim))
    if x.size and (last or (x.ndim in TURNS and axes == AXES[x.ndim] and x.strides[1] == 1)):
        lead = x.shape[: x.ndim - len(axes)]
        ones = ONES[:, :count] if count <= ONES.shape[1] else np.ones((1, count), np.uint8)
        if last:
            sums = matmul(x.reshape(-1, count), ones.T, ao=zero, dtype=dtype)
        else:
            shape = (count, lead[1]) if lead[0] == 1 else (lead[0], count, lead[1])
            sums = matmul(ones, x.transpose(TURNS[x.ndim][0]).reshape(shape), bo=zero, dtype=dtype)
        return np.asarray(sums.reshape((*lead, *[1] * len(axes)) if keep else lead))
    sums = np.asarray(add(x, axes, dtype, keepdims=keep))
    sums -= sums.dtype.type(zero * count)
    return sums


def mean_of_bytes(
    x: Array, scale: Array, zero: Array | None, y_scale: Array, y_zero: Array | None, axes: tuple[int, ...],
    keep: bool, float_steps: int = 0,
) -> Call:  # fmt: skip
    """Return the function that computes the mean of bytes from their exact integer sum. With `float_steps`, round
    f32(sum) * (scale / (count * y_scale))."""
    count, shift, end = math.prod([x.shape[axis] for axis in axes]), exact.number(zero), zero_of(y_zero, x.dtype)
    dtype, limits = np.int32 if count < LARGEST_COUNT else np.int64, np.iinfo(np.int32)
    if count and not float_steps and exact.takes(scale, zero, y_scale, end):
        numbers = scale.item(), count, y_scale.item(), end.item(), end.dtype
        return lambda x, *_: exact.means(sum_of_bytes(x, axes, keep, shift, dtype), *numbers)
    factor = np.asarray(scale.astype(np.float32) / (np.float32(count) * y_scale.astype(np.float32)))

    def call(x: Array, *_: Array) -> Array:
        sums = np.clip(sum_of_bytes(x, axes, keep, shift, dtype), limits.min, limits.max)
        return integer.requantized(sums.astype(np.int32), factor, end)

    return call


@by_layout(4, rounds=False)
def global_average(
    x: Array, scale: Array, zero: Array | None, y_scale: Array, y_zero: Array | None = None, *, channels_last: int = 0,
    float_steps: int = 0,
) -> Call:  # fmt: skip
    axes = tuple(range(1, x.ndim - 1)) if channels_last else tuple(range(2, x.ndim))
    return mean_of_bytes(x, scale, zero, y_scale, y_zero, axes, True, float_steps)


@by_layout(4, rounds=False)
def reduce_mean(
    x: Array, scale: Array, zero: Array | None, y_scale: Array, y_zero: Array | None = None, *, axes: Sizes = None,
    keepdims: int = 1,
) -> Call:  # fmt: skip
    over = tuple(axis % x.ndim for axis in axes) if axes else tuple(range(x.ndim))
    return mean_of_bytes(x, scale, zero, y_scale, y_zero, over, bool(keepdims))


# Products


def scaled(sums: Array, factor: Array, bias: Array | None) -> Array:
    """Return f32(sums) * factor + bias. Factor and bias may broadcast to a larger shape."""
    y = combined(np.multiply, sums.astype(np.float32), factor)
    return y if bias is None else combined(np.add, y, bias)


def qgemm(site: Site, *, alpha: float = 1.0, transA: int = 0, transB: int = 0) -> Call:  # noqa: N803
    names, bias = site.node.inputs, site.constants.get(6)
    if not transA and (bias is not None or len(names) < 7 or not names[6]):
        numbers = [site.constants.get(i) for i in (1, 2, 3, 4, 5, 7, 8)]
        layer = integer.rounding_product(site, numbers, bias, bool(transB), alpha)
        if layer is not None:
            return layer
    weights = site.constants.get(3)
    multiply = multiplication(site, weights.T if transB and weights is not None else weights)

    def call(
        a: Array, a_scale: Array, a_zero: Array, b: Array, b_scale: Array, b_zero: Array, c: Array | None = None,
        y_scale: Array | None = None, y_zero: Array | None = None,
    ) -> Array:  # fmt: skip
        sums = multiply(a.T if transA else a, b.T if transB else b, a_zero, b_zero)
        if c is not None:
            sums = sums + c
        factor = np.float32(alpha) * a_scale * b_scale
        if y_scale is None:
            return scaled(sums, factor, None)
        return integer.requantized(sums, np.asarray(factor / y_scale, np.float32), zero_of(y_zero, a.dtype))

    return call


def layer_to_float(site: Site) -> Callable[[np.dtype[Any]], InnerProduct] | None:
    """Return a function that creates the layer of a product with constant weights for the type of a source. The
    function returns None if no layer can compute the product."""
    b, scale, zero, bias = (site.constants.get(i) for i in (1, 3, 5, 6))
    given = {i for i, name in enumerate(site.node.inputs) if name and i != 4}
    if b is None or b.ndim != 2 or not b.size or scale is None or not given - {0, 2} <= site.constants.keys():
        return None
    columns = b.shape[1]
    values = as_operand(scale, 1, 0, columns), as_operand(zero_of(zero, b.dtype), 1, 0, columns)
    added = None if bias is None else vector(bias, 1, 0, columns)
    if values[0] is None or values[1] is None or not positive_finite(scale) or (bias is not None and added is None):
        return None
    zeros = {"weights": values[1]} if values[1].any() else {}

    @functools.cache
    def layer(dtype: np.dtype[Any]) -> InnerProduct:
        return InnerProduct(
            site.packed.matrix(b), added, src_dtype=dtype, dst_dtype=np.float32, attributes=integer.source_given(()),
            scales={"weights": values[0]}, zero_points=zeros,
        )  # fmt: skip

    return layer


def matmul_to_float(site: Site) -> Call:
    layer, multiply = layer_to_float(site), multiplication(site, site.constants.get(1))

    def call(
        a: Array, b: Array, a_scale: Array, b_scale: Array, a_zero: Array | None = None, b_zero: Array | None = None,
        bias: Array | None = None,
    ) -> Array:  # fmt: skip
        if layer is not None and a.ndim > 1 and not a_scale.ndim and (a_zero is None or not a_zero.ndim):
            scale = a_scale.item()
            if 0 < scale < math.inf:
                zero = 0 if a_zero is None else a_zero.item()
                return layer(a.dtype)(a, scales={"src": scale}, zero_points={"src": zero})
        return scaled(multiply(a, b, a_zero, b_zero), a_scale * of_columns(b_scale, a), bias)

    return call


def dynamic_matmul(site: Site) -> Call:
    multiply = multiplication(site, site.constants.get(1))

    def call(
        a: Array, b: Array, b_scale: Array, b_zero: Array | None = None, bias: Array | None = None
    ) -> Array:  # fmt: skip
        quantized, scale, zero = integer.dynamic_quantize_linear(a)
        return scaled(multiply(quantized, b, zero, b_zero), scale * of_columns(b_scale, a), bias)

    return call


def dynamic_lstm(
    site: Site, *, activation_alpha: Sequence[float] | None = None, activation_beta: Sequence[float] | None = None,
    activations: Sequence[str] | None = None, clip: float | None = None, direction: recurrent.Direction = "forward",
    hidden_size: int, input_forget: int = 0,
) -> Call:  # fmt: skip
    """Quantize the input as a whole and the state at each step. Use the layer that holds the weights if all weights are
    constant and the layer supports the node's attributes."""
    n = len(recurrent.directions_of(direction))
    outputs = len(site.node.outputs)
    usual = recurrent.is_usual(activations, ("Sigmoid", "Tanh", "Tanh"), n) and not clip and not input_forget
    given = {i for i, name in enumerate(site.node.inputs) if name}
    if usual and 7 not in given and given.intersection({1, 2, 3, 8, 9, 10, 11}) <= site.constants.keys():
        return packed_lstm(site, direction, hidden_size, outputs)
    f = recurrent.functions(activations, ("Sigmoid", "Tanh", "Tanh"), n, activation_alpha, activation_beta)
    constant = (site.constants.get(i) for i in (1, 2))
    of_inputs, of_states = ([multiplication(site, w if w is None else w[d]) for d in range(n)] for w in constant)

    def call(
        x: Array, w: Array, r: Array, b: Array | None, lengths: Array | None, h: Array | None, c: Array | None,
        p: Array | None, w_scale: Array, w_zero: Array, r_scale: Array, r_zero: Array,
    ) -> Any:  # fmt: skip
        size = hidden_size
        steps, products = [], []
        for d in range(n):
            bias = None if b is None else b[d, : 4 * size] + b[d, 4 * size :]
            state = dynamic_product(of_states[d], r[d], r_scale[d], r_zero[d])
            cell = recurrent.lstm_cell(state, bias, None if p is None else p[d], f[d], clip, input_forget)
            steps.append(recurrent.in_turn(cell))
            products.append(dynamic_product(of_inputs[d], w[d], w_scale[d], w_zero[d]))
        return recurrent.all_directions(x, products, steps, size, lengths, (h, c), direction, 0)[:outputs]

    return call


def packed_lstm(site: Site, direction: str, size: int, outputs: int) -> Call:
    """Return a layer. The layer's order of gates is i, f, c, o; ONNX's order is i, o, f, c."""
    w, r, w_scale, w_zero, r_scale, r_zero = (site.constants[i] for i in (1, 2, 8, 9, 10, 11))
    n, order = w.shape[0], (0, 2, 3, 1)

    def by_gate(values: Array) -> Array:
        """Reshape values, one for each direction or one for each of its columns, to (directions, gates, units)."""
        return values.reshape(n, 4, size)[:, order] if values.size > n else values.reshape(n, 1, 1)

    b = site.constants.get(3)
    of_source, of_state = (weights.reshape(n, -1, 4, size)[:, :, order] for weights in (w, r))
    make = functools.partial(
        DynamicLSTM,
        of_source,
        of_state,
        None if b is None else by_gate(b[:, : 4 * size] + b[:, 4 * size :]),
        scales={"layer": by_gate(w_scale), "iter": by_gate(r_scale)},
        zero_points={"layer": by_gate(w_zero), "iter": by_gate(r_zero)},
        direction=LAYER_DIRECTIONS[direction],
    )
    layer = site.packed.once(make, [*site.constants.values()], "LSTM", *site.constants, direction, size)

    def call(x: Array, *others: Array | None) -> Any:
        lengths, h, c = (*others[3:6], None, None, None)[:3]
        y, h_t, c_t = layer(x, h, c, lengths=lengths)
        return (y.reshape(*y.shape[:2], n, size).transpose(0, 2, 1, 3), h_t, c_t)[:outputs]

    return call


def dynamic_product(multiply: Callable[..., Array], w: Array, scale: Array, zero: Array) -> recurrent.Product:
    def product(x: Array) -> Array:
        quantized, x_scale, x_zero = integer.dynamic_quantize_linear(x)
        return scaled(multiply(quantized, w, x_zero, zero), x_scale * scale, None)

    return product


# Attention


def qattention(
    site: Site, *, num_heads: int, unidirectional: int = 0, scale: float | None = None,
    mask_filter_value: float = -10000.0,
) -> Call:  # fmt: skip
    """Compute self-attention: int8 projections, and all other steps in float32. One mask hides scores of both kinds."""
    multiply = multiplication(site, site.constants.get(1))
    outputs = len(site.node.outputs)

    def call(
        x: Array, w: Array, bias: Array, x_scale: Array, w_scale: Array, mask: Array | None = None,
        x_zero: Array | None = None, w_zero: Array | None = None, past: Array | None = None,
    ) -> Any:  # fmt: skip
        batch, length, _ = x.shape
        projected = scaled(multiply(x, w, x_zero, w_zero), x_scale * w_scale, bias)
        total = length if past is None else length + past.shape[3]
        hidden = masked(mask, batch, length, total, bool(unidirectional))
        added = None if hidden is None else np.where(hidden, np.float32(mask_filter_value), np.float32(0))
        return of_projection(projected, None, past, added, num_heads=num_heads, scale=scale, outputs=outputs)

    return call


@dataclass(frozen=True)
class Rows:
    """A quantized table, whose rows are dequantized when they are read."""

    table: Array
    scale: Array
    zero: Array | None

    def __getitem__(self, index: Any) -> Any:
        return real(self.table[index], self.scale, self.zero)


def embed_layer_norm(
    ids: Array, segments: Array | None, word: Array, position: Array, segment: Array | None, gamma: Array,
    beta: Array, mask: Array | None, *numbers: Array, epsilon: float = 1e-12, outputs: int,
) -> Any:  # fmt: skip
    """Dequantize the tables of EmbedLayerNormalization. `numbers` has five scales, then five zero points."""
    every = zip((word, position, segment, gamma, beta), numbers[:5], numbers[5:], strict=True)
    tables: list[Any] = [None if table is None else Rows(table, scale, zero) for table, scale, zero in every]
    a, b, c, factors, summands = tables
    return fused.embed_layer_norm(
        ids, segments, a, b, c, factors[:], summands[:], mask, epsilon=epsilon, outputs=outputs
    )


def where(site: Site) -> Call:
    """Choose elements of two tensors, after tables have converted both tensors to the result's quantization."""

    def converting(x: Array, scale: Array, zero: Array | None, y_scale: Array, end: Array) -> Call:
        table = conversion(x.dtype, scale, zero, y_scale, end)
        return lambda x, *_: x if table is None else look_up(x, table)

    first, second = (ByLayout(converting, (False,) * 4) for _ in range(2))

    def call(
        condition: Array, x: Array, x_scale: Array, x_zero: Array | None, y: Array, y_scale: Array,
        y_zero: Array | None, z_scale: Array, z_zero: Array | None = None,
    ) -> Array:  # fmt: skip
        end = zero_of(z_zero, x.dtype)
        return np.where(condition, first(x, x_scale, x_zero, z_scale, end), second(y, y_scale, y_zero, z_scale, end))

    return call


@passes_to(integer.qlinear_conv)
def conv(site: Site, *, channels_last: int = 0, **attributes: Any) -> Call:
    """Convolve images with channels first or last. Weights have channels first."""
    call = integer.qlinear_conv(site, **attributes)
    return in_channels_last(call) if channels_last else call


def in_channels_last(function: Callable[..., Array]) -> Call:
    """Return a function of images with channels last that calls a function of images with channels first."""
    return lambda x, *others: np.moveaxis(function(np.moveaxis(x, -1, 1), *others), 1, -1)


@passes_to(max_pool)
def nhwc_max_pool(site: Site, **attributes: Any) -> Call:
    return in_channels_last(max_pool(site, **attributes))


# The traits of operators on one int8 tensor with a zero point, and on two int8 tensors with zero points.
BY_TABLE = Traits(elementwise=True, zero_points={0: 2}, sized_by=())
OF_TWO = Traits(elementwise=True, zero_points={0: 2, 3: 5}, sized_by=())

OPERATORS = [
    *(
        Operator(name, function, domain=MICROSOFT, prepared=True, traits=traits)
        for name, function, traits in (
            ("QuantizeLinear", integer.prepared_quantize, integer.QUANTIZING),
            ("DequantizeLinear", integer.prepared_dequantize, integer.DEQUANTIZING),
            ("QLinearSigmoid", sigmoid_table, BY_TABLE),
            ("QLinearLeakyRelu", leaky_relu_table, BY_TABLE),
            ("QLinearAdd", functools.partial(binary, "add", np.add), OF_TWO),
            ("QLinearMul", functools.partial(binary, "mul", np.multiply), OF_TWO),
            ("QLinearConcat", concat, SHAPED),
            ("QLinearWhere", where, SHAPED),
            ("QLinearAveragePool", average, SHAPED),
            ("QLinearGlobalAveragePool", global_average, SHAPED),
            ("QLinearReduceMean", reduce_mean, SHAPED),
            ("QLinearSoftmax", softmax, SHAPED),
            ("QLinearConv", conv, replace(SHAPED, factors=Factors(0, 3, "windows", 2))),
            ("NhwcMaxPool", nhwc_max_pool, SAME_TYPE),
            ("QGemm", qgemm, replace(SHAPED, factors=Factors(0, 3))),
            ("QAttention", qattention, replace(SHAPED, factors=Factors(0, 1))),
            ("MatMulIntegerToFloat", matmul_to_float, replace(integer.SCALED, factors=Factors(0, 1))),
            ("DynamicQuantizeMatMul", dynamic_matmul, replace(SAME_TYPE, factors=Factors(0, 1, dynamic=True))),
            ("DynamicQuantizeLSTM", dynamic_lstm, replace(SAME_TYPE, factors=Factors(0, 1, "steps", dynamic=True))),
        )
    ),
    *(Operator(name, functools.partial(binary, name[7:].lower(), function), domain=DOMAIN, prepared=True, traits=OF_TWO)
      for name, function in (("QLinearSub", np.subtract), ("QLinearDiv", np.divide))),
    Operator("QEmbedLayerNormalization", embed_layer_norm, domain=MICROSOFT, traits=SHAPED),
]  # fmt: skip
