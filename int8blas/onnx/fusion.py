"""Rewrite patterns of several nodes to one quantized operator, before the plan is made.

:mod:`int8blas.onnx.products` rewrites products and the operators after them. The rewrite also replaces
DequantizeLinear, operator and QuantizeLinear of static quantization::

    Sigmoid, LeakyRelu            QLinearSigmoid, QLinearLeakyRelu, which are lookup tables
    GlobalAveragePool             QLinearGlobalAveragePool
    Add, Mul, Concat              QLinearAdd, QLinearMul, QLinearConcat
    Sub, Div                      int8blas.QLinearSub, int8blas.QLinearDiv
    Reshape and so on             the same operator on int8, if both quantizations are equal
    MaxPool                       MaxPool of int8, if the scale of the result is positive

The rewrite drops a Relu before QuantizeLinear if the zero point is the lowest byte and the scale is positive, because
saturation has the effect of the Relu. If a QuantizeLinear follows operators that move elements, the rewrite moves the
QuantizeLinear before these operators.

The rewrite also replaces float functions that exporters write as several nodes::

    x * (1 + Erf(x / sqrt(2))) / 2    com.microsoft.Gelu, in one pass of int8blas; FastGelu with Tanh
    MatMul(Softmax(MatMul(q, k)), v)  int8blas.Attention, with numbers and a mask: see :mod:`int8blas.onnx.attention`
    MatMulNBits(x), MatMulNBits(x)    one product: see :mod:`int8blas.onnx.blocked`
    Div(Sub(x, ReduceMean(x)), Sqrt)  LayerNormalization, with epsilon, scale and bias
    LayerNormalization(Add(x, y))     int8blas.ResidualNormalization, without the sum in memory
    element-wise operators            chains: see :mod:`int8blas.onnx.chains`
    Reshape, Transpose and so on      views: see :mod:`int8blas.onnx.views`
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from int8blas.onnx.attention import rewritten_attention
from int8blas.onnx.blocked import merged_nodes
from int8blas.onnx.chains import chains_of
from int8blas.onnx.constants import folded_graph
from int8blas.onnx.graph import Graph, Network, Node, in_order, needed
from int8blas.onnx.integer import positive_finite, same_quantization
from int8blas.onnx.operators import TABLE
from int8blas.onnx.patterns import POLYNOMIALS, TOLERANCE, Pattern, Polynomial, Quantized, Rewrite, Rewritten
from int8blas.onnx.products import PRODUCTS
from int8blas.onnx.shape import ints
from int8blas.onnx.table import DOMAIN, MICROSOFT, attributes_of
from int8blas.onnx.views import moved_pattern, view_up_to

EQUATION = re.compile(r"[A-Za-z ]+,[A-Za-z ]+->[A-Za-z ]+")
# Reasons why a node cannot become a quantized operator.
NO_QUANTIZER = "its result, for it alone, is not quantized by one constant scale and zero point"
INPUTS = "not all of its inputs are dequantized with constant scales that the operator of bytes takes"
# With float_steps, a quantized operator rounds in float32 after each step, like the nodes that it replaces.
STEPS = {"float_steps": 1}

# A rewrite of a node and of the QuantizeLinear after the node. The arguments are the pattern, the node and the
# quantized result. The function returns the node that replaces both nodes, or None if there is no replacement.
StaticRewrite = Callable[[Pattern, Node, Quantized], Node | None]


def of_inputs(domain: str, operator: str) -> StaticRewrite:
    """Return the rewrite to an operator that takes int8 tensors with one scale each."""

    def rewrite(pattern: Pattern, node: Node, last: Quantized) -> Node | None:
        parts = [pattern.dequantized(name) for name in node.inputs]
        found = [x for x in parts if x is not None and x.axis is None]
        if len(found) != len(parts):
            return None
        inputs = pattern.triples(found), pattern.quantization_of(last)
        names = (*inputs[1], *inputs[0]) if operator == "QLinearConcat" else (*inputs[0], *inputs[1])
        return Node(operator, domain, names, (last.name,), {**node.attributes, **STEPS}, node.name)

    return rewrite


def moved_bytes(pattern: Pattern, node: Node, last: Quantized) -> Node | None:
    """Let an operator move int8 elements instead of floats, if its input and its result have equal quantizations. A
    MaxPool also needs a positive scale, because a negative scale would reverse the order of numbers."""
    x = pattern.dequantized(node.inputs[0])
    if x is None or len(node.outputs) != 1:
        return None
    same = same_quantization(x.factor, x.zero, last.factor, last.zero)
    if not same or (node.kind == "MaxPool" and not positive_finite(x.factor)):
        return None
    return replace(node, inputs=(x.name, *node.inputs[1:]), outputs=(last.name,))


def quantized_before(pattern: Pattern, node: Node) -> list[Node] | None:
    """Move a QuantizeLinear with one positive scale before an operator that only moves elements, or before a MaxPool. A
    positive scale keeps the order of numbers. A Relu between the two nodes does not change the order."""
    real = TABLE.traits_of(node).moves and pattern.dequantized(node.inputs[0]) is None
    last = pattern.end(node) if (real or node.kind == "MaxPool") and len(node.outputs) == 1 else None
    if last is None or not positive_finite(last.factor) or moved_bytes(pattern, node, last) is not None:
        return None
    name, quantizer = f"{node.outputs[0]} in bytes of int8blas", pattern.producers[last.name]
    first = replace(quantizer, inputs=(node.inputs[0], *quantizer.inputs[1:]), outputs=(name,))
    return [first, replace(node, inputs=(name, *node.inputs[1:]), outputs=quantizer.outputs)]


STATIC: dict[str, StaticRewrite] = {
    # An operator QLinearX with the attribute float_steps replaces the float operator X.
    **{name.removeprefix("QLinear"): of_inputs(domain, name) for (domain, name), rows in TABLE.rows.items()
       if domain in (MICROSOFT, DOMAIN) and STEPS.keys() <= attributes_of(rows[0].function).keys()},
    **{kind: moved_bytes for kind, traits in TABLE.traits.items() if traits.moves},
    "MaxPool": moved_bytes,
}  # fmt: skip


def rewritten_static(pattern: Pattern, node: Node) -> Node | None:
    """Rewrite a node before a QuantizeLinear. Note why the node stays in float if one of its inputs is dequantized."""
    if node.kind not in STATIC or len(node.outputs) != 1:
        return None
    last = pattern.end(node)
    new = None if last is None else STATIC[node.kind](pattern, node, last)
    if new is None and any(pattern.producers[name].operator == "DequantizeLinear"
                           for name in node.inputs if name in pattern.producers):  # fmt: skip
        return pattern.refuse(node, NO_QUANTIZER if last is None else INPUTS)
    return new


# GELUS: the operator, and the argument of Erf or Tanh as a polynomial of x. GELU: the result, x * (1 + function) / 2.
GELUS: dict[str, tuple[str, Polynomial]] = {
    "Erf": ("Gelu", {(1,): math.sqrt(0.5)}),
    "Tanh": ("FastGelu", {(1,): math.sqrt(2 / math.pi), (3,): math.sqrt(2 / math.pi) * 0.044715}),
}
GELU: Polynomial = {(1, 0): 0.5, (1, 1): 0.5}
MOST_NAMES = 16


def rewritten_gelu(pattern: Pattern, node: Node) -> Node | None:
    """Rewrite x * (1 + f) / 2, where f is the Erf or Tanh of a polynomial of x. The factors may have any order."""
    operator, argument = GELUS[node.kind]
    names = [node.inputs[0]]
    for name in names:  # the list grows
        before = pattern.producers.get(name)
        if before is not None and before.kind in POLYNOMIALS and len(names) < MOST_NAMES:
            names += [each for each in before.inputs if each not in names and pattern.constant(each) is None]
    x = next((name for name in names if pattern.is_close(pattern.polynomial(node.inputs[0], (name,)), argument)), "")
    last: Node | None = node if x else None
    while last is not None and not pattern.is_close(pattern.polynomial(last.outputs[0], (x, *node.outputs)), GELU):
        consumer = pattern.sole_consumer(last.outputs[0])
        last = consumer if consumer is not None and consumer.kind in POLYNOMIALS else None
    return None if last is None else Node(operator, MICROSOFT, (x,), last.outputs, {}, node.name)


def rewritten_einsum(pattern: Pattern, node: Node) -> list[Node] | None:
    """Rewrite an Einsum that is a product of stacks of matrices to Transpose and MatMul."""
    if len(node.inputs) != 2 or not EQUATION.fullmatch(equation := node.attributes["equation"]):
        return None
    a, b, result = equation.replace("->", ",").replace(" ", "").split(",")
    rows, columns = [label for label in a if label not in b], [label for label in b if label not in a]
    stacks, inner = ([x for x in a if x in b and (x in result) == wanted] for wanted in (True, False))
    repeated = any(len({*labels}) < len(labels) for labels in (a, b, result))
    if repeated or not rows or len(columns) != 1 or len(inner) != 1 or {*result} != {*rows, *stacks, *columns}:
        return None
    outer = [*rows[:-1], *stacks, rows[-1]]
    nodes, names = [], []
    for name, labels, wanted in zip(node.inputs, (a, b), ([*outer, *inner], [*stacks, *inner, *columns]), strict=True):
        names.append(name if [*labels] == wanted else f"{node.outputs[0]} of {labels} of int8blas")
        if names[-1] != name:
            nodes.append(transpose(name, names[-1], labels, wanted))
    product = [*outer, *columns]
    name = node.outputs[0] if product == [*result] else f"{node.outputs[0]} of {''.join(product)} of int8blas"
    nodes.append(Node("MatMul", "", tuple(names), (name,), {}, node.name))
    return nodes if name == node.outputs[0] else [*nodes, transpose(name, node.outputs[0], product, result)]


def transpose(name: str, result: str, labels: Sequence[str], wanted: Sequence[str]) -> Node:
    """Return the node that brings the labelled dimensions of a tensor to another order."""
    return Node("Transpose", "", (name,), (result,), {"perm": [[*labels].index(label) for label in wanted]})


def mean_of(pattern: Pattern, name: str) -> str:
    """Return the source of a mean over the last axis, or ""."""
    node = pattern.producers.get(name)
    if node is None or node.kind != "ReduceMean" or node.attributes.get("keepdims", 1) != 1:
        return ""
    axes = node.attributes.get("axes", pattern.constant(node.input(1)))
    return node.inputs[0] if ints(axes) == (-1,) else ""


def centered_of(pattern: Pattern, name: str) -> str:
    """Return the name of x if a tensor is x - mean(x), otherwise ""."""
    minus = pattern.producers.get(name)
    centered = minus is not None and minus.kind == "Sub" and minus.inputs[0] == mean_of(pattern, minus.inputs[1])
    return minus.inputs[0] if minus is not None and centered else ""


def rewritten_normalization(pattern: Pattern, node: Node) -> Node | None:
    """Rewrite (x - mean(x)) / Sqrt(mean((x - mean(x))**2) + epsilon) * scale + bias over the last axis."""
    x, root = centered_of(pattern, node.inputs[0]), pattern.sole_producer(node.inputs[1], {"Sqrt"})
    plus = pattern.sole_producer(root.inputs[0], {"Add"}) if x and root else None
    scaled = pattern.chained(node, "Mul") if plus else None
    shifted = pattern.chained(scaled[0], "Add") if scaled else None
    found = [each for each in (scaled, shifted)
             if each and (value := pattern.floats(each[1])) is not None and value.ndim == 1]  # fmt: skip
    if plus is None or not found or found[0] is not scaled:
        return None
    for variance, number in (plus.inputs, plus.inputs[::-1]):
        epsilon, square = pattern.number(number), pattern.producers.get(mean_of(pattern, variance))
        if square is None or epsilon is None or not 0 <= epsilon < math.inf:
            continue
        source = square.inputs[0]
        squared = pattern.polynomial(square.outputs[0], (source,))
        if centered_of(pattern, source) == x and pattern.is_close(squared, {(2,): 1.0}):
            inputs, last = (x, *(name for _, name in found)), found[-1][0]
            return Node("LayerNormalization", "", inputs, last.outputs, {"epsilon": epsilon}, node.name)
    return None


def rewritten_residual(pattern: Pattern, node: Node) -> Node | None:
    """Rewrite an Add of two variable tensors before a LayerNormalization over the last axis."""
    plus = pattern.sole_producer(node.inputs[0], {"Add"})
    others = len([name for name in node.outputs if name]) > 1 or node.attributes.get("axis", -1) != -1
    if plus is None or others or any(pattern.constant(name) is not None for name in plus.inputs):
        return None
    attributes = {name: value for name, value in node.attributes.items() if name == "epsilon"}
    inputs = (*plus.inputs, *node.inputs[1:])
    return Node("ResidualNormalization", DOMAIN, inputs, node.outputs[:1], attributes, node.name)


Rewrites = Mapping[str, Sequence[Rewrite]]
# The rewrite of each formula, found by the kind of one of the formula's nodes, in two passes: formulas of the second
# pass contain results of the first pass.
FORMULAS: Sequence[Rewrites] = (
    {"Einsum": [rewritten_einsum], "Div": [rewritten_normalization]},
    {
        "Erf": [rewritten_gelu],
        "Tanh": [rewritten_gelu],
        "Softmax": [rewritten_attention],
        "LayerNormalization": [rewritten_residual],
    },
)
QUANTIZED: Rewrites = {kind: [rewritten_static, *PRODUCTS.get(kind, ())] for kind in STATIC.keys() | PRODUCTS.keys()}


def fused(network: Network, tolerance: float = TOLERANCE) -> Network:
    """Rewrite the patterns of a network, and drop nodes whose results are no longer used. The numbers of a formula may
    have the relative error `tolerance`."""
    opsets: Mapping[str, int] = {MICROSOFT: 1, **network.opsets, DOMAIN: 1}
    graph = fused_graph(network.graph, opsets, partial(Pattern.of, dynamic=network.dynamic, tolerance=tolerance))
    return replace(network, graph=graph, opsets=opsets)


def fused_graph(
    graph: Graph, opsets: Mapping[str, int], pattern_of: Callable[[Graph], Pattern],
    around: frozenset[str] = frozenset(),
) -> Graph:  # fmt: skip
    """Rewrite a graph and each of its subgraphs. First rewrite constants, and formulas to single operators, because
    other patterns contain these operators. Then rewrite those patterns, moves of int8 elements, chains of element-wise
    operators, and views."""
    pattern = pattern_of(folded_graph(graph, opsets, around))
    fuse = partial(with_fused_subgraphs, pattern, opsets, pattern_of)
    pattern = pattern.of_nodes([*map(fuse, pattern.graph.nodes)])
    for rewrites in FORMULAS:
        pattern = rewritten_pattern(pattern, partial(rewritten, rewrites))
    while (moved_before := rewritten_pattern(pattern, quantized_before)) is not pattern:
        pattern = moved_before
    pattern = rewritten_pattern(pattern, partial(rewritten, QUANTIZED))
    pattern = moved_pattern(pattern.of_nodes(merged_nodes(pattern.graph)))
    return rewritten_pattern(rewritten_pattern(pattern, chains_of(pattern.graph)), view_up_to).graph


def rewritten_pattern(pattern: Pattern, rewrite: Rewrite) -> Pattern:
    """Replace nodes of a sorted graph. Drop nodes whose results are no longer used, and return the pattern of the
    sorted result. If no node is replaced, return the given pattern."""
    graph = pattern.graph
    replaced: dict[str, list[Node]] = {}
    rewritten_nodes: set[int] = set()
    for node in graph.nodes:
        new = None if id(node) in rewritten_nodes else rewrite(pattern, node)
        if new is not None:
            several = [new] if isinstance(new, Node) else new
            replaced[several[-1].outputs[0]] = made = []
            inputs = {name for each in several for name in each.inputs}
            for each in several:
                old_nodes = pattern.nodes_between(each, inputs)
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
    return pattern.of_nodes(needed(in_order(graph, graph.captured()), graph.outputs))


def rewritten(rewrites: Rewrites, pattern: Pattern, node: Node) -> Rewritten:
    """Return the result of the first rewrite that finds a pattern around a node."""
    for rewrite in rewrites.get(node.kind, ()):
        new = rewrite(pattern, node)
        if new is not None:
            return new
    return None


def with_fused_subgraphs(
    pattern: Pattern, opsets: Mapping[str, int], pattern_of: Callable[[Graph], Pattern], node: Node
) -> Node:
    """Rewrite the subgraphs of a node. A subgraph gets the constants that it takes from the graph around it."""
    if not node.subgraphs():
        return node
    attributes = dict(node.attributes)
    for name, graph in node.attributes.items():
        if isinstance(graph, Graph):
            around = graph.captured()
            known = {each: value for each in around if (value := pattern.constant(each)) is not None}
            inner = replace(graph, constants={**known, **graph.constants})
            attributes[name] = fused_graph(inner, opsets, pattern_of, frozenset(around))
    return replace(node, attributes=attributes)
