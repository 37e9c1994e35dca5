"""Rewrite products of int8 tensors, with the operators after them, to one node.

Quantizers write a static product as DequantizeLinear nodes and a Conv, ConvTranspose, MatMul or Gemm. A bias, a
BatchNormalization, element-wise operators and a QuantizeLinear may follow. Sums are exact. If the product is followed
by QuantizeLinear, or by a bias in units of the sums and QuantizeLinear, the new node is ONNX's QLinearConv or
QLinearMatMul, or QGemm. In all other cases the new node is a QuantizedConv, QuantizedConvTranspose or QuantizedMatMul
of int8blas::

    y = f32(sum) * (a_scale * b_scale) + bias, post-ops            in float32
    y = sat(rne(y * (1 / y_scale)) + y_zero)                       if a QuantizeLinear follows

The rewrite also replaces nodes of dynamic quantization and of stored weights. MatMulInteger, Cast, Mul and Add become
a MatMulIntegerToFloat or a DynamicMatMul. DynamicQuantizeMatMul and Add become a DynamicMatMul. ConvInteger, Cast, Mul
and the nodes after them become a ConvIntegerToFloat or a DynamicConv. A MatMul or Gemm of weights int8 * scale becomes
a StoredMatMul, in float32, or in int8 with dynamic=True. The module four_bits.py replaces a MatMul, Gemm or Gather of
weights int4 * scale by a MatMulNBits or GatherBlockQuantized.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from int8blas.core.parameters import INT32_TERMS
from int8blas.onnx.chains import ONE, Chain, Columns, extended
from int8blas.onnx.elementwise import post_op
from int8blas.onnx.four_bits import rewritten_four_bits, rewritten_lookup
from int8blas.onnx.graph import Array, Node
from int8blas.onnx.integer import broadcastable, positive_finite, same_quantization
from int8blas.onnx.normalization import affine
from int8blas.onnx.operands import as_operand, vector
from int8blas.onnx.patterns import Pattern, Quantized, Rewrite, Rewritten, other
from int8blas.onnx.table import DOMAIN, MICROSOFT
from int8blas.onnx.types import BYTES, FLOAT32, SHORTS
from int8blas.onnx.windows import SAME
from int8blas.stage.attributes import Binary, Eltwise, PReLU

# Reasons why a product cannot be computed in int8.
REAL = "none of its inputs is dequantized"
BIAS = "its bias is not constant"
ROWS = "its bias is constant, but is neither one number nor a vector for the columns"
FACTORS = "not all of its inputs are dequantized with constant scales that the operator of bytes takes"
SUMS = "its sums are not made float32 and multiplied by one scale, for that alone"
GEOMETRY = "its padding is not the same for every shape"
LONG = "its windows are too long for a source of 16 bits"


# Operators after a product


def quantizer_behind(pattern: Pattern, chain: Chain) -> Quantized | None:
    """Return the result of the QuantizeLinear after a chain, or None. Drop limits at the end of the chain if the
    saturation of the QuantizeLinear replaces them."""
    end = pattern.quantizer(chain.last)
    if end is None or not positive_finite(end.factor):
        return None
    while chain.ops and (limits := limits_of(chain.ops[-1])) is not None and end.saturates(*limits):
        chain.ops.pop()
    return end


def limits_of(op: Any) -> tuple[float, float] | None:
    """Return the limits of a post-op that only limits its values, or None for any other post-op."""
    if not isinstance(op, Eltwise) or op.scale != 1 or op.alpha is None or op.beta is None:
        return None
    if op.algorithm == "relu" and op.alpha == 0:
        return 0.0, math.inf
    return (op.alpha, op.beta) if op.algorithm == "clip" else None


def tail_behind(
    pattern: Pattern, node: Node, columns: Columns, bias: Array | None = None, normalized: bool = True
) -> Chain:
    """Return the chain after a node: an Add of a value for each column, a BatchNormalization (unless `normalized` is
    false), which changes factor and bias, and a chain of post-ops."""
    last, factor = node, None
    plus = pattern.chained(last, "Add")
    value = None if plus is None else vector(pattern.real_constant(plus[1]), columns.ndim, columns.axis, columns.size)
    if plus is not None and value is not None:
        last, bias = plus[0], value if bias is None else bias + value
    normalization = pattern.only_consumer(last, {"BatchNormalization"}) if normalized else None
    line = None if normalization is None else affine_of(pattern, normalization, columns.size)
    if normalization is not None and line is not None:
        last, (factor, shift) = normalization, line
        bias = shift if bias is None else bias * factor + shift
    chain = extended(pattern, Chain(last), columns)
    if factor is not None and bias is not None and not (factor > 0).all():
        # The layer takes only positive scales, so factors that are not positive become post-ops.
        chain.ops[:0] = [Binary(operand=factor, algorithm="mul"), Binary(operand=bias, algorithm="add")]
        factor = bias = None
    chain.factor, chain.bias = factor, bias
    return chain


# Static quantization


# The factors of a product, the constant value of the second factor, and the columns of the result.
Operands = tuple[Quantized, Quantized, Array, Columns]


def operands(pattern: Pattern, node: Node) -> Operands | None:
    """Return the operands of a product. The first factor has one scale, and may have 16 bits. The second factor has one
    scale, or one for each column."""
    a, b = pattern.dequantized(node.inputs[0], BYTES + SHORTS), pattern.dequantized(node.inputs[1])
    weights = None if b is None else pattern.constant(b.name)
    if a is None or b is None or weights is None or a.axis is not None or not weights.size:
        return None
    n, groups = weights.ndim, node.attributes.get("group", 1)
    if node.kind in ("MatMul", "Gemm"):
        axis = 0 if node.attributes.get("transB") else 1
        fits, columns = n == 2, Columns(weights.shape[-1 if axis else 0], 2 if node.kind == "Gemm" else 1,
                                        1 if node.kind == "Gemm" else 0)  # fmt: skip
    else:
        axis = 1 if node.kind == "ConvTranspose" else 0
        fits = 3 <= n <= 5 and (axis == 0 or groups == 1 or b.axis is None)
        columns = Columns(weights.shape[axis] * (groups if axis else 1), n, 1) if fits else ONE
    return (a, b, weights, columns) if fits and b.along(axis, n) else None


def rewritten_product(pattern: Pattern, node: Node) -> Rewritten:
    """Rewrite a product of dequantized factors, together with the operators that follow it."""
    if node.kind == "MatMul" and (both := rewritten_pair(pattern, node)) is not None:
        return both
    found = operands(pattern, node)
    if found is None:
        given = [pattern.dequantized(name) for name in node.inputs[:2]]
        return pattern.refuse(node, FACTORS if any(given) else REAL)
    a, _, weights, columns = found
    short = a.zero.dtype in SHORTS
    if short and weights.size // columns.size > INT32_TERMS:
        return pattern.refuse(node, LONG)
    last = pattern.end(node)
    exact = None
    if last is not None and not short:
        exact = rewritten_in_steps(pattern, node, found, last) or rewritten_exactly(pattern, node, found, last)
    return exact or rewritten_with_tail(pattern, node, found)


def rewritten_in_steps(pattern: Pattern, node: Node, found: Operands, last: Quantized) -> Node | None:
    """Rewrite a MatMul whose result is quantized, dequantized, added to a constant vector, and quantized again.
    Quantizers write the bias of a MatMul as an Add after it. The new node gives the bits of the replaced nodes."""
    a, b, _, columns = found
    last_node = pattern.producers[last.name]
    middle = pattern.only_consumer(last_node, {"DequantizeLinear"}) if node.kind == "MatMul" else None
    y = None if middle is None else pattern.dequantized(middle.outputs[0])
    if middle is None or y is None or not same_quantization(last.factor, last.zero, y.factor, y.zero):
        return None
    if not all(positive_finite(each.factor) for each in (a, b, last)):
        return None
    tail = tail_behind(pattern, middle, columns, None, False)
    end = quantizer_behind(pattern, tail)
    # If no operand has a value for each column, a lookup table can compute the tail.
    by_column = tail.bias is not None or any(
        isinstance(op, Binary) and op.operand is not None and np.size(op.operand) > 1 for op in tail.ops
    )
    factor = np.asarray(a.factor.reshape(-1) * b.factor.reshape(-1) / last.factor.reshape(-1), np.float32)
    if not by_column or end is None or not positive_finite(factor):
        return None
    limits, shift = np.iinfo(last.zero.dtype), int(last.zero.item())
    ops = [
        post_op("round"), post_op("clip", int(limits.min) - shift, int(limits.max) - shift),
        post_op("linear", float(last.factor.item())),
        *([] if tail.bias is None else [Binary(operand=tail.bias, algorithm="add")]), *tail.ops,
        Binary(operand=end.factor, algorithm="div"),
    ]  # fmt: skip
    one = pattern.constant_named(node, "one", np.ones((), np.float32))
    scale = pattern.constant_named(node, "scale", factor)
    inputs = (a.name, one, pattern.zero_name(a), b.name, scale, pattern.zero_name(b), one, pattern.zero_name(end))
    return Node("QuantizedMatMul", DOMAIN, inputs, (end.name,), {"ops": ops}, node.name)


def rewritten_exactly(pattern: Pattern, node: Node, found: Operands, last: Quantized) -> Node | None:
    """Return ONNX's operator for a product with a quantized result, and with a bias in the scale of the sums."""
    a, b = found[:2]
    attributes = dict(node.attributes)
    alpha, beta = attributes.get("alpha", 1.0), attributes.pop("beta", 1.0)
    bias = pattern.int32_bias(node.input(2), a, b, alpha)
    if bias is None or (bias and beta != 1) or alpha <= 0 or node.kind == "ConvTranspose":
        return None
    factors, quantization = pattern.triples((a, b)), pattern.quantization_of(last)
    if node.kind == "Gemm":
        return Node("QGemm", MICROSOFT, (*factors, bias, *quantization), (last.name,), attributes, node.name)
    inputs = (*factors, *quantization, *([bias] if bias else []))
    return Node(f"QLinear{node.kind}", "", inputs, (last.name,), attributes, node.name)


def rewritten_with_tail(pattern: Pattern, node: Node, found: Operands) -> Rewritten:
    """Return int8blas's operator for a product with a real bias and post-ops, whose result is quantized or not."""
    a, b, weights, columns = found
    attributes = dict(node.attributes)
    alpha, beta, turned = attributes.pop("alpha", 1), attributes.pop("beta", 1), attributes.pop("transB", 0)
    if alpha <= 0 or not positive_finite(a.factor) or not positive_finite(b.factor):
        return pattern.refuse(node, FACTORS)
    if node.kind == "ConvTranspose" and (attributes.get("output_shape") or attributes.get("auto_pad") in SAME):
        return pattern.refuse(node, GEOMETRY)
    at = columns if node.kind == "Gemm" else Columns(columns.size)  # the bias of a convolution is a vector
    fits, bias = pattern.summand(node, at.ndim, at.axis, at.size)
    if not fits:
        return pattern.refuse(node, BIAS if pattern.real_constant(node.inputs[2]) is None else ROWS)
    bias = None if bias is None else bias * np.float32(beta)
    tail = tail_behind(pattern, node, columns, bias, node.kind != "MatMul")
    end = quantizer_behind(pattern, tail)
    factor = np.asarray(b.factor if alpha == 1 else b.factor * np.float32(alpha), np.float32).reshape(-1)
    factor = factor if tail.factor is None else factor * tail.factor
    with np.errstate(over="ignore"):
        if not positive_finite(factor) or not np.isfinite(factor * a.factor).all():
            return pattern.refuse(node, FACTORS)
    source, before = pattern.triples([a]), []
    if attributes.pop("transA", 0):
        name = f"{a.name} transposed for {node.outputs[0]} of int8blas"
        before = [Node("Transpose", "", (a.name,), (name,), {"perm": (1, 0)}, node.name)]
        source[0] = name
    matrix = pattern.constant_named(node, "weights", weights.T) if turned else b.name
    factors = *source, matrix, pattern.constant_named(node, "scale", factor), pattern.zero_name(b)
    quantization = ("", "") if end is None else pattern.quantization_of(end)
    inputs = (*factors, *quantization, pattern.constant_named(node, "bias", tail.bias))
    operator = f"Quantized{node.kind.replace('Gemm', 'MatMul')}"
    outputs = tail.last.outputs if end is None else (end.name,)
    return [*before, Node(operator, DOMAIN, inputs, outputs, {**attributes, "ops": tail.ops}, node.name)]


def rewritten_pair(pattern: Pattern, node: Node) -> Node | None:
    """Rewrite a MatMul of two tensors with one scale each, unless the second tensor is a constant matrix."""
    a, b = (pattern.dequantized(name) for name in node.inputs[:2])
    if a is None or b is None or a.axis is not None or b.axis is not None:
        return None
    weights = pattern.constant(b.name)
    if weights is not None and weights.ndim == 2:
        return None
    last, triples = pattern.end(node), pattern.triples((a, b))
    if last is not None:
        return Node("QLinearMatMul", "", (*triples, *pattern.quantization_of(last)), (last.name,), {}, node.name)
    names = [triples[i] for i in (0, 3, 1, 4, 2, 5)]
    return Node("MatMulIntegerToFloat", MICROSOFT, tuple(names), node.outputs, {}, node.name)


# Dynamic quantization


def scaled(pattern: Pattern, node: Node) -> tuple[Node, str] | None:
    """Return the Mul that scales a node's sums as float32, and the name of the scale."""
    cast = pattern.only_consumer(node, {"Cast"})
    return None if cast is None or cast.attributes.get("to") != FLOAT32 else pattern.chained(cast, "Mul")


def bias_behind(pattern: Pattern, node: Node) -> tuple[Node, str]:
    """Return the Add of a constant vector after a node, and the vector's name. Without one, return the node and ""."""
    plus = pattern.chained(node, "Add")
    value = None if plus is None else pattern.floats(plus[1])
    return (node, "") if plus is None or value is None or value.ndim != 1 else plus


def source_of(pattern: Pattern, node: Node, scale: str) -> tuple[str, str, Array] | None:
    """Return the float tensor that DynamicQuantizeLinear quantizes for this node only, and the name and value of the
    weights' constant scale. `scale` is the name of the tensor that holds the product of both
    scales."""
    producer = pattern.sole_producer(node.inputs[0], {"DynamicQuantizeLinear"})
    product = pattern.producers.get(scale)
    if producer is None or product is None or product.kind != "Mul" or node.input(2) != producer.outputs[2]:
        return None
    weights_scale = other(product, producer.outputs[1])
    value = None if weights_scale is None else pattern.floats(weights_scale)
    if weights_scale is None or value is None or not positive_finite(value):
        return None
    return producer.inputs[0], weights_scale, value


def of_columns(pattern: Pattern, matrix: str, scale: str, zero: str, bias: str) -> bool:
    """Return whether a matrix is constant and a layer takes its scale, zero point and bias. Scale and zero point must
    have one number, or one number for each column. The bias must have one number for each column. No operand may add
    dimensions to a result that is a vector."""
    weights = pattern.constant(matrix)
    if weights is None or weights.ndim != 2 or not weights.size:
        return False
    columns = weights.shape[1]
    factor, shift = pattern.constant(scale), pattern.constant(zero)
    scales_fit = factor is not None and as_operand(factor, 1, 0, columns) is not None
    zeros_fit = not zero or (shift is not None and as_operand(shift, 2, 1, columns) is not None)
    return scales_fit and zeros_fit and (not bias or vector(pattern.constant(bias), 1, 0, columns) is not None)


def dynamic_layer(pattern: Pattern, node: Node, last: Node, source: str, *given: str) -> Node | None:
    """Return the layer of a product and the element-wise operators after the node `last`, or None. `given` names the
    weights, their scale and zero point, and the bias."""
    if not of_columns(pattern, *given):
        return None
    chain = extended(pattern, Chain(last))
    return Node("DynamicMatMul", DOMAIN, (source, *given), chain.last.outputs, {"ops": chain.ops}, node.name)


def rewritten_range(pattern: Pattern, node: Node) -> Node | None:
    """Rewrite a DynamicQuantizeMatMul with constant weights."""
    last, bias = (node, node.input(4)) if node.input(4) else bias_behind(pattern, node)
    scale = pattern.floats(node.inputs[2])
    if scale is None or not positive_finite(scale):
        return None
    return dynamic_layer(pattern, node, last, *node.inputs[:3], node.input(3), bias)


def rewritten_dynamic(pattern: Pattern, node: Node) -> Node | None:
    """Rewrite f32(sums) * scale + bias to one node with equal bits. If the weights are constant and no other product
    uses the quantized source, the element-wise operators after the product become post-ops."""
    found = scaled(pattern, node)
    if found is None:
        return pattern.refuse(node, SUMS)
    last, scale = found
    zeros = node.input(2), node.input(3)
    last, bias = bias_behind(pattern, last)
    source = source_of(pattern, node, scale)
    if source is not None:
        layer = dynamic_layer(pattern, node, last, source[0], node.inputs[1], source[1], zeros[1], bias)
        if layer is not None:
            return layer
    pattern.graph.constants.setdefault("one of int8blas", np.ones((), np.float32))
    product = pattern.producers.get(scale)
    factors = () if product is None or product.kind != "Mul" else product.inputs
    constant = next((name for name in factors if (value := pattern.floats(name)) is not None and value.ndim < 2), "")
    variable = other(product, constant) if product is not None and constant else None
    scales = (variable, constant) if variable else (scale, "one of int8blas")
    names = [*node.inputs[:2], *scales, *zeros, *([bias] if bias else [])]
    return Node("MatMulIntegerToFloat", MICROSOFT, tuple(names), last.outputs, {}, node.name)


def rewritten_convolution(pattern: Pattern, node: Node) -> Node | None:
    """Rewrite f32(sums) * scale + bias of a convolution, and its tail."""
    found = scaled(pattern, node)
    weights = pattern.constant(node.inputs[1])
    if found is None or weights is None or weights.ndim < 3:
        return pattern.refuse(node, SUMS)
    last, scale = found
    zeros = node.input(2), node.input(3)
    # With a scale of more dimensions than the sums, the channels of the result would have another axis.
    same_axis = pattern.most_dimensions(scale) <= weights.ndim
    tail = tail_behind(pattern, last, Columns(len(weights), weights.ndim, 1), None, same_axis)
    name = pattern.constant_named(node, "bias", tail.bias)
    attributes = {**node.attributes, "ops": tail.ops}
    known = not zeros[1] or pattern.constant(zeros[1]) is not None
    source = source_of(pattern, node, scale) if known else None
    own = None if source is None else as_operand(source[2], weights.ndim, 1, len(weights))
    if source is not None and own is not None:
        weights_scale = pattern.constant_named(node, "scale", own if tail.factor is None else own * tail.factor)
        return Node("DynamicConv", DOMAIN, (source[0], node.inputs[1], weights_scale, zeros[1], name),
                    tail.last.outputs, attributes, node.name)  # fmt: skip
    names = (*node.inputs[:2], scale, *zeros, name, pattern.constant_named(node, "factor", tail.factor))
    return Node("ConvIntegerToFloat", DOMAIN, names, tail.last.outputs, attributes, node.name)


def affine_of(pattern: Pattern, node: Node, channels: int) -> tuple[Array, Array] | None:
    """Return the factor and the summand of each channel of a BatchNormalization with constant parameters, or None."""
    numbers = [pattern.real_constant(name) for name in node.inputs[1:5]]
    known = [value for value in numbers if value is not None and value.shape == (channels,)]
    trains = node.attributes.get("training_mode") or any(node.outputs[1:])
    if len(known) < 4 or trains or any(value.dtype != np.float32 for value in known):
        return None
    scale, bias, mean, variance = known
    factor, shift = affine(scale, bias, mean, variance, node.attributes.get("epsilon", 1e-5))
    return (factor, shift) if (np.isfinite(factor) & np.isfinite(shift)).all() else None


def rewritten_chain(pattern: Pattern, node: Node) -> Node | None:
    """Rewrite a BatchNormalization of dequantized numbers, or a PRelu with several slopes. The new node also computes
    the element-wise operators and the QuantizeLinear that follow, with the bits of the replaced nodes."""
    x, values = pattern.dequantized(node.inputs[0]), pattern.real_constant(node.inputs[1])
    if x is None or values is None or x.axis is not None or not positive_finite(x.factor):
        return None
    if node.kind == "PRelu":
        first: list[Any] = [PReLU(values)] if values.size > 1 and values.ndim > 1 else []
    else:
        line = affine_of(pattern, node, values.size)
        first = [] if line is None else [Binary(line[0], "mul"), Binary(line[1], "add")]
    if not first:
        return None
    chain = extended(pattern, Chain(node, first))
    end = quantizer_behind(pattern, chain)
    inputs = (*pattern.triples([x]), *(() if end is None else pattern.quantization_of(end)))
    outputs = chain.last.outputs if end is None else (end.name,)
    return Node("QuantizedChain", DOMAIN, inputs, outputs, {"ops": chain.ops}, node.name)


def rewritten_float_conv(pattern: Pattern, node: Node) -> Node | None:
    """Fold the BatchNormalization after a Conv into its weights and its bias."""
    normalization = pattern.only_consumer(node, {"BatchNormalization"})
    given = pattern.constants(node.inputs[1:])
    if normalization is None or not given or any(each.dtype != np.float32 for each in given):
        return None
    weights = given[0]
    found = affine_of(pattern, normalization, len(weights))
    if found is None:
        return None
    factor, shift = found
    bias = given[1] if len(given) > 1 else None
    names = [
        pattern.constant_named(node, "weights", weights * factor.reshape(-1, *(1,) * (weights.ndim - 1))),
        pattern.constant_named(node, "bias", shift if bias is None else bias * factor + shift),
    ]
    return replace(node, inputs=(node.inputs[0], *names), outputs=normalization.outputs)


# Stored weights


class Stored(NamedTuple):
    """Constant int8 weights (K, N), and their positive scales: one scale, one scale for each column, or a matrix with
    one scale for each `block` of K and each column."""

    weights: Array
    scale: Array
    block: int = 0


def multiplied(pattern: Pattern, node: Node, turned: bool) -> Stored | None:
    """Return the weights of Mul(Cast(weights), scale), or None. With `turned` the product transposes the weights."""
    for name in node.inputs:
        cast, scale_name = pattern.producers.get(name), other(node, name)
        if cast is None or cast.kind != "Cast" or cast.attributes.get("to") != FLOAT32 or scale_name is None:
            continue
        weights, scale = pattern.constant(cast.inputs[0]), pattern.floats(scale_name)
        if weights is None or scale is None or weights.ndim != 2 or weights.dtype != np.int8:
            continue
        columns = as_operand(scale, 2, 1, weights.shape[1])
        if columns is None or (turned and columns.size > 1):
            return None
        return Stored(np.ascontiguousarray(weights.T) if turned else weights, columns)
    return None


def dequantized_weights(pattern: Pattern, node: Node, turned: bool) -> Stored | None:
    """Return the weights of a DequantizeLinear minus their zero points, or None if the differences do not fit int8.
    `turned` says whether the product transposes the weights."""
    values = pattern.constants(node.inputs)
    if values is None or values[0].dtype not in BYTES or values[0].ndim != 2:
        return None
    weights, scale, axis = values[0], values[1], node.attributes.get("axis", 1) % 2
    block, inner = node.attributes.get("block_size", 0), 1 if turned else 0
    if scale.dtype != np.float32 or node.attributes.get("output_dtype", FLOAT32) not in (0, FLOAT32):
        return None
    if len(values) > 2 and values[2].any():
        centered = weights.astype(np.int16) - broadcastable(values[2].astype(np.int16), weights, axis, block)
        weights = centered.astype(np.int8)
        if (weights != centered).any():
            return None
    if weights.dtype != np.int8 and weights.size and weights.max() > np.iinfo(np.int8).max:
        return None
    weights = weights.astype(np.int8, copy=False)
    if scale.size == 1:
        scale, block = scale.reshape(()), 0
    elif block:
        # A dynamic layer needs scales whose blocks are a multiple of 4 k long.
        if axis != inner or block % 4 or weights.shape[axis] != block * scale.shape[axis]:
            return None
        scale = scale.T if turned else scale
    elif scale.ndim != 1 or axis == inner:
        return None
    return Stored(np.ascontiguousarray(weights.T) if turned else weights, scale, block)


def rewritten_stored(pattern: Pattern, node: Node) -> Node | None:
    """Rewrite a product of floats with weights that the file stores in 8 bits, and its tail."""
    producer, turned = pattern.producers.get(node.inputs[1]), bool(node.attributes.get("transB"))
    factors = (node.attributes.get("alpha", 1), node.attributes.get("beta", 1), node.attributes.get("transA", 0))
    if producer is None or factors != (1, 1, 0) or producer.operator not in ("Mul", "DequantizeLinear"):
        return None
    found = (multiplied if producer.operator == "Mul" else dequantized_weights)(pattern, producer, turned)
    if found is None or not found.weights.size or not positive_finite(found.scale):
        return None
    count = found.weights.shape[1]
    columns = Columns(count, 2, 1) if node.kind == "Gemm" else Columns(count, 1, 0)
    fits, bias = pattern.summand(node, columns.ndim, columns.axis, columns.size)
    if not fits:
        return None
    tail = tail_behind(pattern, node, columns, bias, False)
    stored = pattern.constant_named(node, "weights", found.weights)
    scale = pattern.constant_named(node, "scale", found.scale)
    inputs = (node.inputs[0], stored, scale, pattern.constant_named(node, "bias", tail.bias))
    attributes = {"dynamic": int(pattern.dynamic), "block": found.block, "ops": tail.ops}
    return Node("StoredMatMul", DOMAIN, inputs, tail.last.outputs, attributes, node.name)


PRODUCTS: dict[str, Sequence[Rewrite]] = {
    "Conv": (rewritten_product, rewritten_float_conv),
    "ConvTranspose": (rewritten_product,),
    "MatMul": (rewritten_product, rewritten_stored, rewritten_four_bits),
    "Gemm": (rewritten_product, rewritten_stored, rewritten_four_bits),
    "Gather": (rewritten_lookup,),
    "BatchNormalization": (rewritten_chain,),
    "PRelu": (rewritten_chain,),
    "MatMulInteger": (rewritten_dynamic,),
    "ConvInteger": (rewritten_convolution,),
    f"{MICROSOFT}.DynamicQuantizeMatMul": (rewritten_range,),
}
