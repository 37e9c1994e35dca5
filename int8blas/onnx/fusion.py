"""Rewrite patterns of several nodes to one quantized operator, before the plan is made.

:mod:`int8blas.onnx.products` rewrites products and the operators after them. Static quantization also writes
DequantizeLinear, operator, QuantizeLinear::

    Sigmoid, LeakyRelu            QLinearSigmoid, QLinearLeakyRelu, which are lookup tables
    GlobalAveragePool             QLinearGlobalAveragePool
    Add, Mul, Concat              QLinearAdd, QLinearMul, QLinearConcat
    Reshape and so on             the same operator on int8, if both quantizations are equal
    MaxPool                       MaxPool of int8, if the scale of the result is positive

The rewrite drops a Relu before QuantizeLinear if the zero point is the lowest byte and the scale is positive, because
saturation then has the same effect. If a QuantizeLinear follows operators that move elements, the rewrite moves it
before these operators.

Exporters write some float functions as several nodes. The rewrite replaces these patterns::

    x * (1 + Erf(x / sqrt(2))) / 2    com.microsoft.Gelu, in one pass of int8blas
    MatMul(Softmax(MatMul(q, k)), v)  int8blas.Attention, with numbers and a mask: see :mod:`int8blas.onnx.attention`
    MatMulNBits(x), MatMulNBits(x)    one product: see :mod:`int8blas.onnx.blocked`
    LayerNormalization(Add(x, y))     int8blas.ResidualNormalization, without the sum in memory
    element-wise operators            chains: see :mod:`int8blas.onnx.chains`
    Reshape, Transpose and so on      views: see :mod:`int8blas.onnx.views`
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace

from int8blas.onnx.attention import rewritten_attention
from int8blas.onnx.blocked import merged_graph
from int8blas.onnx.chains import chained_graph
from int8blas.onnx.constants import folded_graph
from int8blas.onnx.graph import Graph, Network, Node, needed, ordered
from int8blas.onnx.integer import positive_finite, same_quantization
from int8blas.onnx.operators import TABLE
from int8blas.onnx.patterns import Pattern, chained, is_number, other, sole_producer
from int8blas.onnx.products import PRODUCTS
from int8blas.onnx.table import DOMAIN, MICROSOFT, attributes_of
from int8blas.onnx.views import moved_graph, viewed_graph

# Reasons why a node cannot become a quantized operator.
NO_QUANTIZER = "its result, for it alone, is not quantized by one constant scale and zero point"
INPUTS = "not all of its inputs are dequantized with constant scales that the operator of bytes takes"
# This attribute makes a quantized operator round in float32 after each step, as the nodes that it replaces do.
STEPS = {"float_steps": 1}
# The operators that have the attribute float_steps. An operator QLinearX replaces the float operator X.
FLOAT_STEPS = [
    name
    for (domain, name), rows in TABLE.rows.items()
    if domain == MICROSOFT and STEPS.keys() <= attributes_of(rows[0].function).keys()
]

# A function of a node and the QuantizeLinear after it. It returns the node or the ordered nodes that replace both, or
# None if there is no replacement.
Rewrite = Callable[[Pattern, Node, Node], Node | list[Node] | None]


def of_inputs(operator: str) -> Rewrite:
    """Return the rewrite to an operator that takes int8 tensors with one scale each."""

    def rewrite(pattern: Pattern, node: Node, last: Node) -> Node | None:
        parts = [pattern.dequantized(name) for name in node.inputs]
        found = [x for x in parts if x is not None and x.axis is None]
        if len(found) != len(parts):
            return None
        inputs = pattern.triples(found), pattern.quantization_of(last)
        names = (*inputs[1], *inputs[0]) if operator == "QLinearConcat" else (*inputs[0], *inputs[1])
        return Node(operator, MICROSOFT, names, last.outputs, {**node.attributes, **STEPS}, node.name)

    return rewrite


def moved_bytes(pattern: Pattern, node: Node, last: Node) -> Node | None:
    """Let an operator that moves elements move int8 elements, if its input and its result have equal quantizations. A
    MaxPool also needs a positive scale, because a negative scale would reverse the order of numbers."""
    x = pattern.dequantized(node.inputs[0])
    if x is None or len(node.outputs) != 1:
        return None
    names = x.scale, pattern.zero_name(x), *pattern.quantization_of(last)
    values = [value for name in names if (value := pattern.constant(name)) is not None]
    if len(values) < 4 or not same_quantization(*values) or (node.kind == "MaxPool" and not positive_finite(values[0])):
        return None
    return replace(node, inputs=(x.name, *node.inputs[1:]), outputs=last.outputs)


def quantized_before(pattern: Pattern, node: Node) -> list[Node] | None:
    """Move a QuantizeLinear with one positive scale from after an operator that only moves elements, or after a
    MaxPool, to before it. Such a scale keeps the order of numbers. A Relu between them keeps it too.
    """
    real = TABLE.traits_of(node).moves and pattern.dequantized(node.inputs[0]) is None
    last = pattern.end(node) if (real or node.kind == "MaxPool") and len(node.outputs) == 1 else None
    scale = None if last is None else pattern.constant(last.inputs[1])
    if last is None or scale is None or not positive_finite(scale) or moved_bytes(pattern, node, last) is not None:
        return None
    name = f"{node.outputs[0]} in bytes of int8blas"
    first = replace(last, inputs=(node.inputs[0], *last.inputs[1:]), outputs=(name,))
    return [first, replace(node, inputs=(name, *node.inputs[1:]), outputs=last.outputs)]


STATIC: dict[str, Rewrite] = {
    **{name.removeprefix("QLinear"): of_inputs(name) for name in FLOAT_STEPS},
    **{kind: moved_bytes for kind, traits in TABLE.traits.items() if traits.moves},
    "MaxPool": moved_bytes,
}


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


# The rewrite of each formula, found by the kind of one of the formula's nodes.
FORMULAS: dict[str, Callable[[Pattern, Node], Node | None]] = {
    "Erf": rewritten_gelu,
    "Softmax": rewritten_attention,
    "LayerNormalization": rewritten_residual,
}


def fused(network: Network) -> Network:
    """Rewrite the patterns of a network, and drop nodes whose results are no longer used."""
    opsets: Mapping[str, int] = {MICROSOFT: 1, **network.opsets, DOMAIN: 1}
    return replace(network, graph=fused_graph(network.graph, opsets, network.dynamic), opsets=opsets)


def fused_graph(graph: Graph, opsets: Mapping[str, int], dynamic: bool) -> Graph:
    """Rewrite a graph and each of its subgraphs. First rewrite constants, and formulas to single operators, because
    other patterns contain these operators. Then rewrite those patterns, moves of int8 elements, chains of element-wise
    operators, and views."""
    graph = replace(graph, nodes=[with_fused_subgraphs(node, opsets, dynamic) for node in graph.nodes])
    pattern = Pattern.of(folded_graph(graph, opsets), dynamic)
    if any(node.kind in FORMULAS for node in pattern.graph.nodes):
        pattern = rewritten_pattern(pattern, formula)
    while (moved_before := rewritten_pattern(pattern, quantized_before)) is not pattern:
        pattern = moved_before
    return viewed_graph(chained_graph(moved_graph(merged_graph(rewritten_pattern(pattern, rewritten).graph))))


def rewritten_pattern(pattern: Pattern, rewrite: Callable[[Pattern, Node], Node | list[Node] | None]) -> Pattern:
    """Replace nodes of a sorted graph. Drop nodes whose results are no longer used, and return the pattern of the
    sorted result. If no node is replaced, return the given pattern."""
    graph = pattern.graph
    replaced: dict[str, list[Node]] = {}
    rewritten_nodes: set[int] = set()
    for node in graph.nodes:
        new = None if id(node) in rewritten_nodes else rewrite(pattern, node)
        if new is not None:
            replaced[(new if isinstance(new, Node) else new[-1]).outputs[0]] = made = []
            for each in [new] if isinstance(new, Node) else new:
                old_nodes = pattern.nodes_between(each)
                rewritten_nodes.update(map(id, old_nodes))
                parts = tuple(part for old in old_nodes for part in old.parts or (old.label,))
                made.append(replace(each, parts=parts, origin=node.label))
    if not replaced and not pattern.reasons:
        return pattern
    nodes: list[Node] = []
    for node in graph.nodes:
        ends = [name for name in node.outputs if name in replaced]
        if ends:  # here all inputs of the new nodes exist
            nodes += replaced[ends[0]]
        elif graph.constants.keys().isdisjoint(node.outputs):
            reason = pattern.reasons.get(node.outputs[0], "") if node.outputs else ""
            nodes.append(replace(node, reason=reason) if reason else node)
    graph = replace(graph, nodes=nodes)
    nodes = needed(ordered(graph, frozenset(graph.captured())), graph.outputs)
    return Pattern.of(replace(graph, nodes=nodes), pattern.dynamic)


def formula(pattern: Pattern, node: Node) -> Node | None:
    """Return the node that replaces a formula around a node. Return None to keep the node."""
    return FORMULAS[node.kind](pattern, node) if node.kind in FORMULAS else None


def rewritten(pattern: Pattern, node: Node) -> Node | list[Node] | None:
    """Return the node, or nodes, that replace a pattern around a node. Return None to keep the node."""
    new: Node | list[Node] | None = None
    if node.kind in STATIC and len(node.outputs) == 1:
        last = pattern.end(node)
        new = None if last is None else STATIC[node.kind](pattern, node, last)
    for rewrite in PRODUCTS.get(node.kind, ()):
        new = new or rewrite(pattern, node)
    if new is None:
        explain_refusal(pattern, node)
    return new


def explain_refusal(pattern: Pattern, node: Node) -> None:
    """Note why a node stays in float, if it could be a quantized operator."""
    if node.kind in STATIC and len(node.outputs) == 1:
        producers = [pattern.producers.get(name) for name in node.inputs]
        if any(producer is not None and producer.operator == "DequantizeLinear" for producer in producers):
            pattern.refuse(node, NO_QUANTIZER if pattern.end(node) is None else INPUTS)


def with_fused_subgraphs(node: Node, opsets: Mapping[str, int], dynamic: bool) -> Node:
    """Rewrite the subgraphs of a node."""
    if not any(True for _ in node.subgraphs()):
        return node
    attributes = {
        name: fused_graph(value, opsets, dynamic) if isinstance(value, Graph) else value
        for name, value in node.attributes.items()
    }
    return replace(node, attributes=attributes)
