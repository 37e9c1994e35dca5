"""Rewrite patterns of several nodes to one quantized operator, before the plan is made.

Static quantization writes DequantizeLinear, operator, QuantizeLinear::

    Conv, MatMul, Gemm            QLinearConv, QLinearMatMul, QGemm: exact sums instead of float32 sums
    Sigmoid, LeakyRelu            QLinearSigmoid, QLinearLeakyRelu: a table
    GlobalAveragePool             QLinearGlobalAveragePool
    Add, Mul, Concat              QLinearAdd, QLinearMul, QLinearConcat
    Reshape and so on             the same operator on int8, if both quantizations are equal
    MaxPool                       MaxPool of int8, if the scale of the result is positive

The rewrite drops a Relu before QuantizeLinear if the zero point is the lowest byte and the scale is positive, because
saturation then has the same effect. Dynamic quantization writes::

    MatMulInteger, Cast, Mul, Add           MatMulIntegerToFloat
    ConvInteger, Cast, Mul, ...             ConvIntegerToFloat: with an Add of a bias, a BatchNormalization, and a chain
                                            of element-wise operators

Float patterns are functions that exporters spell out, and weights that the file stores in 8 bits::

    x * (1 + Erf(x / sqrt(2))) / 2    com.microsoft.Gelu, in one pass of int8blas
    MatMul(Softmax(MatMul(q, k)), v)  int8blas.Attention, with numbers and a mask: see :mod:`int8blas.onnx.attention`
    MatMul(a, Mul(Cast(int8), s))     int8blas.StoredMatMul, in float32, or in int8 for dynamic=True
    LayerNormalization(Add(x, y))     int8blas.ResidualNormalization, without the sum in memory
    Conv, BatchNormalization          Conv with scaled weights and bias
    element-wise operators            chains: see :mod:`int8blas.onnx.chains`
    Reshape, Transpose and so on      views: see :mod:`int8blas.onnx.views`
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from int8blas.onnx.attention import rewritten_attention
from int8blas.onnx.chains import chain_behind, chained_graph
from int8blas.onnx.graph import Array, Graph, Network, Node, needed, ordered
from int8blas.onnx.integer import regular, same_quantization
from int8blas.onnx.normalization import affine
from int8blas.onnx.operands import as_operand, vector
from int8blas.onnx.operators import TABLE
from int8blas.onnx.patterns import MICROSOFT, Pattern, Quantized, chained, is_number, other, sole_producer
from int8blas.onnx.table import DOMAIN, attributes_of
from int8blas.onnx.types import FLOAT32
from int8blas.onnx.views import moved_graph, viewed_graph
from int8blas.stage.attributes import Binary

# Reasons why a node cannot become a quantized operator.
BIAS = "its bias is not of the scale of its sums"
REAL = "none of its inputs is dequantized"
ENDING = "its result, for it alone, is not quantized by one constant scale and zero point"
INPUTS = "not all of its inputs are dequantized with constant scales that the operator of bytes takes"
SUMS = "its sums are not made float32 and multiplied by one scale, for that alone"
# This attribute makes a quantized operator round in float32 after each step, as the nodes that it replaces do.
STEPS = {"float_steps": 1}
# The operators with this attribute. Each one, QLinearX, replaces the float operator X.
FLOAT_STEPS = [
    name
    for (domain, name), rows in TABLE.rows.items()
    if domain == MICROSOFT and STEPS.keys() <= attributes_of(rows[0].function)
]

# Given a node and the QuantizeLinear behind it, return the node that replaces both, or several nodes in their order.
Rewrite = Callable[[Pattern, Node, Node], Node | list[Node] | None]


def operands(pattern: Pattern, node: Node, ndims: Sequence[int], axis: int) -> tuple[Quantized, Quantized] | None:
    """Return both factors of a product. The second is constant, has `ndims` dimensions, and one scale or several along
    `axis`; the first has one scale."""
    a, b = (pattern.dequantized(name) for name in node.inputs[:2])
    weights = None if b is None else pattern.constant(b.name)
    if a is None or b is None or weights is None or weights.ndim not in ndims or a.axis is not None:
        return None
    return (a, b) if b.along(axis, weights.ndim) else None


def rewritten_conv(pattern: Pattern, node: Node, last: Node) -> Node | None:
    found = operands(pattern, node, (3, 4, 5), 0)
    if found is None:
        return None
    bias = pattern.int32_bias(node.input(2), *found, 1)
    if bias is None:
        return pattern.refuse(node, BIAS)
    inputs = (*pattern.triples(found), *pattern.ending(last), *([bias] if bias else []))
    return Node("QLinearConv", "", inputs, last.outputs, node.attributes, node.name)


def rewritten_matmul(pattern: Pattern, node: Node, last: Node) -> Node | None:
    found = operands(pattern, node, (2,), 1)
    if found is None:
        return None
    inputs = (*pattern.triples(found), *pattern.ending(last))
    return Node("QLinearMatMul", "", inputs, last.outputs, {}, node.name)


def rewritten_gemm(pattern: Pattern, node: Node, last: Node) -> Node | None:
    attributes = dict(node.attributes)
    alpha, beta = attributes.get("alpha", 1.0), attributes.pop("beta", 1.0)
    found = operands(pattern, node, (2,), 0 if attributes.get("transB") else 1)
    if found is None or alpha <= 0:
        return None
    bias = pattern.int32_bias(node.input(2), *found, alpha)
    if bias is None or (bias and beta != 1):
        return pattern.refuse(node, BIAS)
    inputs = (*pattern.triples(found), bias, *pattern.ending(last))
    return Node("QGemm", MICROSOFT, inputs, last.outputs, attributes, node.name)


def of_inputs(operator: str) -> Rewrite:
    """Return the rewrite to an operator that takes int8 tensors with one scale each."""

    def rewrite(pattern: Pattern, node: Node, last: Node) -> Node | None:
        parts = [pattern.dequantized(name) for name in node.inputs]
        found = [x for x in parts if x is not None and x.axis is None]
        if len(found) != len(parts):
            return None
        inputs = pattern.triples(found), pattern.ending(last)
        names = (*inputs[1], *inputs[0]) if operator == "QLinearConcat" else (*inputs[0], *inputs[1])
        return Node(operator, MICROSOFT, names, last.outputs, {**node.attributes, **STEPS}, node.name)

    return rewrite


def moved(pattern: Pattern, node: Node, last: Node) -> Node | None:
    """Let an operator that moves elements move int8 elements, if its input and its result have equal quantizations."""
    x = pattern.dequantized(node.inputs[0])
    if x is None or len(node.outputs) != 1:
        return None
    names = x.scale, pattern.zero_name(x), *pattern.ending(last)
    values = [value for name in names if (value := pattern.constant(name)) is not None]
    if len(values) < 4 or not same_quantization(*values):
        return None
    return replace(node, inputs=(x.name, *node.inputs[1:]), outputs=last.outputs)


def pooled(pattern: Pattern, node: Node, last: Node) -> Node | list[Node] | None:
    """Quantize before a MaxPool instead of behind it. Quantization by a positive scale keeps the order of numbers, and
    so does a Relu between them.
    """
    scale = pattern.constant(last.inputs[1])
    if scale is None or not regular(scale):
        return None
    new = moved(pattern, node, last)
    if new is not None:
        return new
    name = f"{node.outputs[0]} in bytes of int8blas"
    first = replace(last, inputs=(node.inputs[0], *last.inputs[1:]), outputs=(name,))
    return [first, replace(node, inputs=(name, *node.inputs[1:]), outputs=last.outputs)]


PRODUCTS: dict[str, Rewrite] = {"Conv": rewritten_conv, "MatMul": rewritten_matmul, "Gemm": rewritten_gemm}
STATIC: dict[str, Rewrite] = {
    **PRODUCTS,
    **{name.removeprefix("QLinear"): of_inputs(name) for name in FLOAT_STEPS},
    **{kind: moved for kind, traits in TABLE.traits.items() if traits.moves},
    "MaxPool": pooled,
}


def scaled(pattern: Pattern, node: Node) -> tuple[Node, str] | None:
    """Return the Mul that scales a node's sums as float32, and the name of the scale."""
    cast = pattern.only_consumer(node, {"Cast"})
    return None if cast is None or cast.attributes.get("to") != FLOAT32 else chained(pattern, cast, "Mul")


def bias_behind(pattern: Pattern, node: Node) -> tuple[Node, str]:
    """Return the Add of a constant vector behind a node, and the vector's name; the node itself and "" without one."""
    plus = chained(pattern, node, "Add")
    value = None if plus is None else pattern.floats(plus[1])
    return (node, "") if plus is None or value is None or value.ndim != 1 else plus


def source_of(pattern: Pattern, node: Node, scale: str) -> tuple[str, str, Array] | None:
    """Return the float tensor that is quantized for a node alone, and the name and value of the weights' constant
    scale. `scale` names the product of both scales."""
    producer = sole_producer(pattern, node.inputs[0], {"DynamicQuantizeLinear"})
    product = pattern.producers.get(scale)
    if producer is None or product is None or product.kind != "Mul" or node.input(2) != producer.outputs[2]:
        return None
    weights_scale = other(product, producer.outputs[1])
    value = None if weights_scale is None else pattern.floats(weights_scale)
    if weights_scale is None or value is None or not regular(value):
        return None
    return producer.inputs[0], weights_scale, value


def of_columns(pattern: Pattern, matrix: str, scale: str, zero: str, bias: str) -> bool:
    """Return whether a matrix is constant and a layer takes its scale, zero point and bias. Scale and zero point are
    one number or one for each column; the bias has one for each column. The result may be a vector, which a scale or
    bias of more dimensions would enlarge."""
    weights = pattern.constant(matrix)
    if weights is None or weights.ndim != 2 or not weights.size:
        return False
    columns = weights.shape[1]
    factor, shift = pattern.constant(scale), pattern.constant(zero)
    scales_fit = factor is not None and as_operand(factor, 1, 0, columns) is not None
    zeros_fit = not zero or (shift is not None and as_operand(shift, 2, 1, columns) is not None)
    return scales_fit and zeros_fit and (not bias or vector(pattern.constant(bias), 1, 0, columns) is not None)


def rewritten_dynamic(pattern: Pattern, node: Node) -> Node | None:
    """Rewrite f32(sums) * scale + bias to one node with the same bits. If the weights are constant and the source is
    quantized for them alone, the element-wise operators behind become post-ops."""
    found = scaled(pattern, node)
    if found is None:
        return None
    last, scale = found
    zeros = node.input(2), node.input(3)
    last, bias = bias_behind(pattern, last)
    source = source_of(pattern, node, scale)
    if source is not None and of_columns(pattern, node.inputs[1], source[1], zeros[1], bias):
        chain = chain_behind(pattern, last)
        inputs = (source[0], node.inputs[1], source[1], zeros[1], bias)
        return Node("DynamicMatMul", DOMAIN, inputs, chain.last.outputs, {"ops": chain.ops}, node.name)
    pattern.graph.constants.setdefault("one of int8blas", np.ones((), np.float32))
    names = [*node.inputs[:2], scale, "one of int8blas", *zeros, *([bias] if bias else [])]
    return Node("MatMulIntegerToFloat", MICROSOFT, tuple(names), last.outputs, {}, node.name)


def rewritten_convolution(pattern: Pattern, node: Node) -> Node | None:
    """Rewrite f32(sums) * scale + bias of a convolution, whose bias has a value for each channel. A BatchNormalization
    behind it changes scale and bias. The element-wise operators behind that become post-ops."""
    found = scaled(pattern, node)
    weights = pattern.constant(node.inputs[1])
    if found is None or weights is None or weights.ndim < 3:
        return None
    last, scale = found
    zeros = node.input(2), node.input(3)
    plus = chained(pattern, last, "Add")
    bias = None if plus is None else vector(pattern.floats(plus[1]), weights.ndim, 1, len(weights))
    if plus is not None and bias is not None:
        last = plus[0]
    factor = None
    normalization = pattern.only_consumer(last, {"BatchNormalization"})
    # A scale with more dimensions than the sums would move the axis of the channels.
    same_axis = pattern.most_dimensions(scale) <= weights.ndim
    line = None if normalization is None or not same_axis else affine_of(pattern, normalization, len(weights))
    if normalization is not None and line is not None:
        last = normalization
        factor, shift = line
        bias = shift if bias is None else bias * factor + shift
    chain = chain_behind(pattern, last, len(weights), weights.ndim)
    if factor is not None and bias is not None and not (factor > 0).all():
        # The layer takes positive scales only: apply these factors as post-ops.
        chain.ops[:0] = [Binary(operand=factor, algorithm="mul"), Binary(operand=bias, algorithm="add")]
        factor = bias = None
    name = constant_named(pattern, node, "bias", bias)
    attributes = {**node.attributes, "ops": chain.ops}
    known = not zeros[1] or pattern.constant(zeros[1]) is not None
    source = source_of(pattern, node, scale) if known else None
    own = None if source is None else as_operand(source[2], weights.ndim, 1, len(weights))
    if source is not None and own is not None:
        weights_scale = constant_named(pattern, node, "scale", own if factor is None else own * factor)
        return Node("DynamicConv", DOMAIN, (source[0], node.inputs[1], weights_scale, zeros[1], name),
                    chain.last.outputs, attributes, node.name)  # fmt: skip
    names = (*node.inputs[:2], scale, *zeros, name, constant_named(pattern, node, "factor", factor))
    return Node("ConvIntegerToFloat", DOMAIN, names, chain.last.outputs, attributes, node.name)


def constant_named(pattern: Pattern, node: Node, what: str, value: Array | None) -> str:
    """Add a constant to the graph and return its name, or "" for None."""
    if value is None:
        return ""
    name = f"{what} of {node.outputs[0]} of int8blas"
    pattern.graph.constants[name] = value
    return name


def affine_of(pattern: Pattern, node: Node, channels: int) -> tuple[Array, Array] | None:
    """Return the factor and summand for each channel of a BatchNormalization with constant numbers, or None."""
    numbers = [pattern.constant(name) for name in node.inputs[1:5]]
    known = [value for value in numbers if value is not None and value.shape == (channels,)]
    trains = node.attributes.get("training_mode") or any(node.outputs[1:])
    if len(known) < 4 or trains or any(value.dtype != np.float32 for value in known):
        return None
    scale, bias, mean, variance = known
    factor, shift = affine(scale, bias, mean, variance, node.attributes.get("epsilon", 1e-5))
    return (factor, shift) if (np.isfinite(factor) & np.isfinite(shift)).all() else None


def rewritten_float_conv(pattern: Pattern, node: Node) -> Node | None:
    """Fold the BatchNormalization behind a Conv into its weights and its bias."""
    normalization = pattern.only_consumer(node, {"BatchNormalization"})
    given = [pattern.constant(name) for name in node.inputs[1:] if name]
    weights = given[0] if given else None
    if normalization is None or weights is None or any(each is None or each.dtype != np.float32 for each in given):
        return None
    found = affine_of(pattern, normalization, len(weights))
    if found is None:
        return None
    factor, shift = found
    bias = given[1] if len(given) > 1 else None
    names = [
        constant_named(pattern, node, "weights", weights * factor.reshape(-1, *(1,) * (weights.ndim - 1))),
        constant_named(pattern, node, "bias", shift if bias is None else bias * factor + shift),
    ]
    return replace(node, inputs=(node.inputs[0], *names), outputs=normalization.outputs)


def rewritten_gelu(pattern: Pattern, node: Node) -> Node | None:
    """Rewrite x * (1 + Erf(x / sqrt(2))) / 2, whose factors x and 1 / 2 may have any order."""
    before = pattern.producers.get(node.inputs[0])
    if before is None or before.kind not in ("Div", "Mul") or len(before.inputs) != 2:
        return None
    x, divisor = before.inputs
    if before.kind == "Mul" and pattern.constant(x) is not None:
        x, divisor = divisor, x
    if not is_number(pattern, divisor, math.sqrt(2) if before.kind == "Div" else math.sqrt(0.5)):
        return None
    plus = chained(pattern, node, "Add")
    product = None if plus is None or not is_number(pattern, plus[1], 1) else chained(pattern, plus[0], "Mul")
    if product is None:
        return None
    last, factor = product
    if factor == x or is_number(pattern, factor, 0.5):
        rest = chained(pattern, last, "Mul")
        if rest is None or not (is_number(pattern, rest[1], 0.5) if factor == x else rest[1] == x):
            return None
        last = rest[0]
    else:
        producer = pattern.producers.get(factor)
        if producer is None or producer.kind != "Mul" or not is_number(pattern, other(producer, x), 0.5):
            return None
    return Node("Gelu", MICROSOFT, (x,), last.outputs, {}, node.name)


def rewritten_residual(pattern: Pattern, node: Node) -> Node | None:
    """Rewrite an Add of two variable tensors before a LayerNormalization over the last axis."""
    plus = sole_producer(pattern, node.inputs[0], {"Add"})
    others = len([name for name in node.outputs if name]) > 1 or node.attributes.get("axis", -1) != -1
    if plus is None or others or any(pattern.constant(name) is not None for name in plus.inputs):
        return None
    attributes = {name: value for name, value in node.attributes.items() if name == "epsilon"}
    inputs = (*plus.inputs, *node.inputs[1:])
    return Node("ResidualNormalization", DOMAIN, inputs, node.outputs[:1], attributes, node.name)


def rewritten_stored(pattern: Pattern, node: Node) -> Node | None:
    """Rewrite a product with f32(int8) * scale, both constant, with one scale or one for each column, and the
    element-wise operators behind it."""
    product = pattern.producers.get(node.inputs[1])
    if product is None or product.kind != "Mul":
        return None
    for name in product.inputs:
        cast, scale_name = pattern.producers.get(name), other(product, name)
        if cast is None or cast.kind != "Cast" or cast.attributes.get("to") != FLOAT32 or scale_name is None:
            continue
        weights, scale = pattern.constant(cast.inputs[0]), pattern.floats(scale_name)
        if weights is None or scale is None or weights.ndim != 2 or weights.dtype != np.int8 or not weights.size:
            continue
        if not regular(scale) or as_operand(scale, 2, 1, weights.shape[1]) is None:
            continue
        last, bias = bias_behind(pattern, node)
        if bias and vector(pattern.constant(bias), 1, 0, weights.shape[1]) is None:
            last, bias = node, ""
        chain = chain_behind(pattern, last)
        inputs = (node.inputs[0], cast.inputs[0], scale_name, bias)
        attributes = {"dynamic": int(pattern.dynamic), "ops": chain.ops}
        return Node("StoredMatMul", DOMAIN, inputs, chain.last.outputs, attributes, node.name)
    return None


# The rewrites of nodes without a QuantizeLinear behind them.
OTHERS: dict[str, Callable[[Pattern, Node], Node | None]] = {
    "MatMulInteger": rewritten_dynamic,
    "ConvInteger": rewritten_convolution,
    "MatMul": rewritten_stored,
    "Conv": rewritten_float_conv,
}
# Each formula's rewrite, by one of the nodes of the formula.
FORMULAS: dict[str, Callable[[Pattern, Node], Node | None]] = {
    "Erf": rewritten_gelu,
    "Softmax": rewritten_attention,
    "LayerNormalization": rewritten_residual,
}


def fused(network: Network) -> Network:
    """Rewrite the patterns of a network, and drop the nodes that nobody needs any more."""
    opsets: Mapping[str, int] = {MICROSOFT: 1, **network.opsets, DOMAIN: 1}
    return Network(fused_graph(network.graph, network.dynamic), opsets, network.dynamic)


def fused_graph(graph: Graph, dynamic: bool) -> Graph:
    """Rewrite a graph, and each of its subgraphs: first formulas, which other patterns know as operators, then those
    patterns, moves of int8 elements, chains of element-wise operators, and views."""
    graph = replace(graph, nodes=[inside(node, dynamic) for node in graph.nodes], constants=dict(graph.constants))
    if any(node.kind in FORMULAS for node in graph.nodes):
        graph = rewritten_graph(graph, formula)
    graph = rewritten_graph(graph, rewritten, dynamic)
    return viewed_graph(chained_graph(moved_graph(graph)))


def rewritten_graph(
    graph: Graph, rewrite: Callable[[Pattern, Node], Node | list[Node] | None], dynamic: bool = False
) -> Graph:
    """Replace nodes of a graph. Return a graph in order, without the nodes that nobody needs any more."""
    pattern = Pattern.of(graph, dynamic)
    for node in graph.nodes:
        pattern.quantize_constant(node)
        pattern.reshape_constant(node)
    replaced: dict[str, list[Node]] = {}
    for node in graph.nodes:
        new = rewrite(pattern, node)
        if new is not None:
            made = [new] if isinstance(new, Node) else new
            replaced[made[-1].outputs[0]] = [
                replace(each, parts=pattern.parts_of(each), origin=node.label) for each in made
            ]
    nodes: list[Node] = []
    for node in graph.nodes:
        taken = [name for name in node.outputs if name in replaced]
        if taken:  # here all inputs of the new nodes exist
            nodes += replaced[taken[0]]
        elif graph.constants.keys().isdisjoint(node.outputs):
            reason = pattern.reasons.get(node.outputs[0], "") if node.outputs else ""
            nodes.append(replace(node, reason=reason) if reason else node)
    graph = replace(graph, nodes=nodes)
    around = frozenset(graph.captured())
    return replace(graph, nodes=needed(ordered(graph, around), graph.outputs))


def formula(pattern: Pattern, node: Node) -> Node | None:
    """Return the node that replaces a formula around a node; None to keep it."""
    return FORMULAS[node.kind](pattern, node) if node.kind in FORMULAS else None


def rewritten(pattern: Pattern, node: Node) -> Node | list[Node] | None:
    """Return the node, or nodes, that replace a pattern around a node; None to keep it."""
    new: Node | list[Node] | None = None
    if node.kind in STATIC and len(node.outputs) == 1:
        last = pattern.end(node)
        new = None if last is None else STATIC[node.kind](pattern, node, last)
    if new is None and node.kind in OTHERS:
        new = OTHERS[node.kind](pattern, node)
    if new is None:
        explain_refusal(pattern, node)
    return new


def explain_refusal(pattern: Pattern, node: Node) -> None:
    """Note why a node stays in float, if it could be a quantized operator."""
    if node.kind in OTHERS.keys() - PRODUCTS.keys():
        pattern.refuse(node, SUMS)
    elif node.kind in STATIC and len(node.outputs) == 1:
        producers = [pattern.producers.get(name) for name in node.inputs]
        if any(producer is not None and producer.operator == "DequantizeLinear" for producer in producers):
            pattern.refuse(node, ENDING if pattern.end(node) is None else INPUTS)
        elif node.kind in PRODUCTS:
            pattern.refuse(node, REAL)


def inside(node: Node, dynamic: bool) -> Node:
    """Rewrite the subgraphs of a node."""
    if not any(True for _ in node.subgraphs()):
        return node
    attributes = {
        name: fused_graph(value, dynamic) if isinstance(value, Graph) else value
        for name, value in node.attributes.items()
    }
    return replace(node, attributes=attributes)
