"""Patterns of several nodes that are one operator of bytes, rewritten before the plan is made.

What static quantization writes as DequantizeLinear, operator, QuantizeLinear::

    Conv, MatMul, Gemm            QLinearConv, QLinearMatMul, QGemm: exact sums instead of sums of float32
    Sigmoid, LeakyRelu            QLinearSigmoid, QLinearLeakyRelu: a table
    GlobalAveragePool             QLinearGlobalAveragePool
    Add, Mul, Concat              QLinearAdd, QLinearMul, QLinearConcat
    MaxPool, Reshape and so on    the same operator on bytes, if both quantizations are the same

A Relu before QuantizeLinear goes if the zero point is the lowest byte: saturation makes that of everything below 0. And
what dynamic quantization writes::

    MatMulInteger, Cast, Mul, Add           MatMulIntegerToFloat
    ConvInteger, Cast, Mul, Add, Relu       ConvIntegerToFloat

And those of floats: what exporters write as its formula, and weights that are stored in 8 bits::

    x * (1 + Erf(x / sqrt(2))) / 2    com.microsoft.Gelu, in one pass of int8blas
    MatMul(a, Mul(Cast(bytes), s))    int8blas.StoredMatMul, in float32, or in 8 bits if that is asked for
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from int8blas.onnx.graph import Array, Graph, Network, Node
from int8blas.onnx.integer import quantize_linear
from int8blas.onnx.shape import reshape
from int8blas.onnx.table import DOMAIN
from int8blas.onnx.types import BYTES, FLOAT32

MICROSOFT = "com.microsoft"
# Operators that give some of their input's elements.
MOVES = {"MaxPool", "Reshape", "Transpose", "Flatten", "Squeeze", "Unsqueeze", "Identity", "Slice", "Gather", "Tile"}
TABLES = {"Sigmoid": "QLinearSigmoid", "LeakyRelu": "QLinearLeakyRelu"}


@dataclass
class Quantized:
    """A tensor of bytes: the names of it, its scale and its zero point ("" if that is 0), and the axis they lie on."""

    name: str
    scale: str
    zero_point: str
    axis: int


@dataclass
class Pattern:
    """A graph whose nodes are looked up by what they make and who takes it."""

    graph: Graph
    makers: dict[str, Node] = field(default_factory=dict)
    takers: dict[str, list[Node]] = field(default_factory=dict)
    kept: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, graph: Graph) -> Pattern:
        pattern = cls(graph)
        for node in graph.nodes:
            pattern.makers.update((name, node) for name in node.outputs if name)
            for name in node.reads():
                pattern.takers.setdefault(name, []).append(node)
        pattern.kept = {value.name for value in graph.outputs}
        return pattern

    def constant(self, name: str) -> Array | None:
        """The value of a tensor that is constant, by itself or by a node Constant."""
        if name in self.graph.constants:
            return self.graph.constants[name]
        node = self.makers.get(name)
        value = node.attributes.get("value") if node is not None and node.kind == "Constant" else None
        return value if isinstance(value, np.ndarray) else None

    def is_one(self, name: str) -> bool:
        """Whether a tensor is a constant of one element."""
        value = self.constant(name)
        return value is not None and value.size == 1

    def quantize_constant(self, node: Node) -> None:
        """Make a constant of weights that a QuantizeLinear makes of a constant."""
        if node.kind != "QuantizeLinear" or node.outputs[0] in self.graph.constants:
            return
        values = [self.constant(name) for name in node.inputs if name]
        given = [value for value in values if value is not None]
        if len(given) == len(values):
            self.graph.constants[node.outputs[0]] = quantize_linear(*given, **node.attributes)

    def reshape_constant(self, node: Node) -> None:
        """Make a constant of what a Reshape makes of one, as quantizers write a bias."""
        if node.kind == "Reshape" and len(node.inputs) == 2 and node.outputs[0] not in self.graph.constants:
            value, shape = (self.constant(name) for name in node.inputs)
            if value is not None and shape is not None:
                self.graph.constants[node.outputs[0]] = reshape(value, shape, **node.attributes)

    def only_taker(self, node: Node, kinds: set[str]) -> Node | None:
        """The one node that takes a node's one result, if it is of these kinds and nobody else needs the result."""
        name = node.outputs[0]
        takers = self.takers.get(name, [])
        alone = len(node.outputs) == 1 and len(takers) == 1 and name not in self.kept
        return takers[0] if alone and takers[0].kind in kinds and takers[0].inputs[0] == name else None

    def dequantized(self, name: str, dtypes: tuple[np.dtype[Any], ...] = BYTES) -> Quantized | None:
        """What a tensor is dequantized from, with a constant scale and zero point. int32 needs no zero point."""
        node = self.makers.get(name)
        if node is None or node.operator != "DequantizeLinear" or node.attributes.get("block_size"):
            return None
        scale, zero = self.constant(node.inputs[1]), self.zero_of(node)
        if scale is None or scale.dtype != np.float32 or zero is None or zero.dtype not in dtypes or scale.ndim > 1:
            return None
        zero_point = node.inputs[2] if len(node.inputs) > 2 else ""
        return Quantized(node.inputs[0], node.inputs[1], zero_point, node.attributes.get("axis", 1))

    def zero_of(self, node: Node) -> Array | None:
        """The zero point of a node that quantizes or dequantizes; for one that is left out, the type of its bytes."""
        if len(node.inputs) > 2 and node.inputs[2]:
            return self.constant(node.inputs[2])
        value = self.constant(node.inputs[0]) if node.operator == "DequantizeLinear" else np.zeros((), np.uint8)
        return None if value is None or node.attributes.get("output_dtype") else np.zeros((), value.dtype)

    def end(self, node: Node) -> Node | None:
        """The QuantizeLinear behind a node, with one constant scale and zero point; a Relu may be between them."""
        relu = self.only_taker(node, {"Relu"})
        last = self.only_taker(relu or node, {"QuantizeLinear", f"{MICROSOFT}.QuantizeLinear"})
        if last is None:
            return None
        scale, zero = self.constant(last.inputs[1]), self.zero_of(last)
        if scale is None or zero is None or scale.dtype != np.float32 or scale.size != 1 or zero.dtype not in BYTES:
            return None
        return None if relu is not None and zero.item() != np.iinfo(zero.dtype).min else last

    def zero_name(self, quantized: Quantized, dtype: Any = np.uint8) -> str:
        """The name of a zero point; a constant 0 where there is none."""
        if quantized.zero_point:
            return quantized.zero_point
        value = self.constant(quantized.name)
        zero = np.zeros((), dtype if value is None else value.dtype)
        name = f"zero point {zero.dtype.name} of int8blas"
        self.graph.constants.setdefault(name, zero)
        return name

    def triple(self, quantized: Quantized) -> tuple[str, str, str]:
        return quantized.name, quantized.scale, self.zero_name(quantized)

    def ending(self, last: Node) -> tuple[str, str]:
        """Scale and zero point of a QuantizeLinear."""
        zero_point = last.inputs[2] if len(last.inputs) > 2 else ""
        return last.inputs[1], self.zero_name(Quantized("", last.inputs[1], zero_point, 1))

    def along(self, quantized: Quantized, axis: int, ndim: int) -> bool:
        """Whether scales are one, or lie on this axis."""
        scale = self.constant(quantized.scale)
        assert scale is not None
        return scale.size == 1 or quantized.axis % ndim == axis

    def int32_bias(self, name: str, a: Quantized, b: Quantized, alpha: float) -> str | None:
        """The int32 that a bias is dequantized from, if its scale is that of the sums."""
        bias = self.dequantized(name, (np.dtype(np.int32),))
        value = None if bias is None else self.constant(bias.name)
        if bias is None or value is None or value.ndim != 1:
            return None
        scales = [self.constant(each.scale) for each in (bias, a, b)]
        zero = self.constant(bias.zero_point) if bias.zero_point else None
        wanted = np.float64(alpha) * np.asarray(scales[1], np.float64) * np.asarray(scales[2], np.float64)
        fits = np.allclose(np.asarray(scales[0], np.float64), wanted.reshape(-1), 1e-6, 0)
        return bias.name if fits and (zero is None or not zero.any()) else None


# What takes the place of a node and of the QuantizeLinear behind it: one node, or several in their order.
Rewrite = Callable[[Pattern, Node, Node], Node | list[Node] | None]


def rewritten_conv(pattern: Pattern, node: Node, last: Node) -> Node | None:
    x, w = (pattern.dequantized(name) for name in node.inputs[:2])
    weights = None if w is None else pattern.constant(w.name)
    if x is None or w is None or weights is None or not 3 <= weights.ndim <= 5 or not pattern.along(w, 0, weights.ndim):
        return None
    scale = pattern.constant(x.scale)
    if scale is None or scale.size != 1:
        return None
    inputs = [*pattern.triple(x), *pattern.triple(w), *pattern.ending(last)]
    if len(node.inputs) > 2 and node.inputs[2]:
        bias = pattern.int32_bias(node.inputs[2], x, w, 1)
        if bias is None:
            return None
        inputs.append(bias)
    return Node("QLinearConv", "", tuple(inputs), last.outputs, node.attributes, node.name)


def operands(pattern: Pattern, node: Node, columns: int) -> tuple[Quantized, Quantized] | None:
    """Both factors of a product with a constant matrix, whose scales are one or along an axis of it."""
    a, b = (pattern.dequantized(name) for name in node.inputs[:2])
    weights = None if b is None else pattern.constant(b.name)
    if a is None or b is None or weights is None or weights.ndim != 2 or not pattern.along(b, columns, 2):
        return None
    scale = pattern.constant(a.scale)
    return (a, b) if scale is not None and scale.size == 1 else None


def rewritten_matmul(pattern: Pattern, node: Node, last: Node) -> Node | None:
    found = operands(pattern, node, 1)
    if found is None:
        return None
    inputs = (*pattern.triple(found[0]), *pattern.triple(found[1]), *pattern.ending(last))
    return Node("QLinearMatMul", "", inputs, last.outputs, {}, node.name)


def rewritten_gemm(pattern: Pattern, node: Node, last: Node) -> Node | None:
    attributes = dict(node.attributes)
    alpha, beta = attributes.get("alpha", 1.0), attributes.pop("beta", 1.0)
    found = operands(pattern, node, 0 if attributes.get("transB") else 1)
    if found is None or alpha <= 0:
        return None
    bias: str | None = ""
    if len(node.inputs) > 2 and node.inputs[2]:
        bias = pattern.int32_bias(node.inputs[2], *found, alpha) if beta == 1 else None
    if bias is None:
        return None
    inputs = (*pattern.triple(found[0]), *pattern.triple(found[1]), bias, *pattern.ending(last))
    return Node("QGemm", MICROSOFT, inputs, last.outputs, attributes, node.name)


def of_one_input(operator: str) -> Rewrite:
    """A rewriting of an operator of one input of bytes."""

    def rewrite(pattern: Pattern, node: Node, last: Node) -> Node | None:
        x = pattern.dequantized(node.inputs[0])
        scale = None if x is None else pattern.constant(x.scale)
        if x is None or scale is None or scale.size != 1:
            return None
        inputs = (*pattern.triple(x), *pattern.ending(last))
        return Node(operator, MICROSOFT, inputs, last.outputs, node.attributes, node.name)

    return rewrite


def moved(pattern: Pattern, node: Node, last: Node) -> Node | None:
    """An operator that moves elements works on bytes, if these mean the same before and behind it."""
    x = pattern.dequantized(node.inputs[0])
    if x is None or len(node.outputs) != 1:
        return None
    pairs = zip((x.scale, pattern.zero_name(x)), pattern.ending(last), strict=True)
    values = [(pattern.constant(a), pattern.constant(b)) for a, b in pairs]
    same = all(
        a is not None and b is not None and a.size == 1 and a.dtype == b.dtype and a.item() == b.item()
        for a, b in values
    )
    return replace(node, inputs=(x.name, *node.inputs[1:]), outputs=last.outputs) if same else None


def of_two_inputs(operator: str) -> Rewrite:
    """A rewriting of an operator of two inputs of bytes."""

    def rewrite(pattern: Pattern, node: Node, last: Node) -> Node | None:
        pair = [pattern.dequantized(name) for name in node.inputs]
        found = [x for x in pair if x is not None and pattern.is_one(x.scale)]
        if len(found) != 2:
            return None
        inputs = (*pattern.triple(found[0]), *pattern.triple(found[1]), *pattern.ending(last))
        return Node(operator, MICROSOFT, inputs, last.outputs, node.attributes, node.name)

    return rewrite


def rewritten_concat(pattern: Pattern, node: Node, last: Node) -> Node | None:
    parts = [pattern.dequantized(name) for name in node.inputs]
    found = [x for x in parts if x is not None and pattern.is_one(x.scale)]
    if len(found) != len(parts):
        return None
    inputs = (*pattern.ending(last), *(name for x in found for name in pattern.triple(x)))
    return Node("QLinearConcat", MICROSOFT, inputs, last.outputs, node.attributes, node.name)


def pooled(pattern: Pattern, node: Node, last: Node) -> Node | list[Node] | None:
    """The largest of some bytes is that of the largest number: quantization changes no order. So quantization comes
    first, where there is a Relu in between too, which changes none either.
    """
    new = moved(pattern, node, last)
    if new is not None or len(node.outputs) != 1:
        return new
    name = f"{node.outputs[0]} in bytes of int8blas"
    first = replace(last, inputs=(node.inputs[0], *last.inputs[1:]), outputs=(name,))
    return [first, replace(node, inputs=(name, *node.inputs[1:]), outputs=last.outputs)]


STATIC: dict[str, Rewrite] = {
    "Add": of_two_inputs("QLinearAdd"),
    "Mul": of_two_inputs("QLinearMul"),
    "Concat": rewritten_concat,
    "Conv": rewritten_conv,
    "MatMul": rewritten_matmul,
    "Gemm": rewritten_gemm,
    "GlobalAveragePool": of_one_input("QLinearGlobalAveragePool"),
    **{name: of_one_input(operator) for name, operator in TABLES.items()},
    **dict.fromkeys(MOVES, moved),
    "MaxPool": pooled,
}


def scaled(pattern: Pattern, node: Node) -> tuple[Node, str] | None:
    """For sums, the node that multiplies them as floats, and by what."""
    cast = pattern.only_taker(node, {"Cast"})
    return None if cast is None or cast.attributes.get("to") != FLOAT32 else chained(pattern, cast, "Mul")


def rewritten_dynamic(pattern: Pattern, node: Node) -> Node | None:
    """f32(sums) * scale, and a bias that is a vector: bit for bit what the nodes compute."""
    found = scaled(pattern, node)
    if found is None:
        return None
    last, scale = found
    pattern.graph.constants.setdefault("one of int8blas", np.ones((), np.float32))
    zeros = [node.inputs[i] if len(node.inputs) > i else "" for i in (2, 3)]
    inputs = [*node.inputs[:2], scale, "one of int8blas", *zeros]
    takers = pattern.takers.get(last.outputs[0], [])
    if len(takers) == 1 and takers[0].kind == "Add" and last.outputs[0] not in pattern.kept:
        bias = next((name for name in takers[0].inputs if name != last.outputs[0]), None)
        value = None if bias is None else pattern.constant(bias)
        if bias is not None and value is not None and value.ndim == 1 and value.dtype == np.float32:
            last = takers[0]
            inputs.append(bias)
    return Node("MatMulIntegerToFloat", MICROSOFT, tuple(inputs), last.outputs, {}, node.name)


def rewritten_convolution(pattern: Pattern, node: Node) -> Node | None:
    """The same of a convolution, whose bias has a value for each channel; and a Relu behind it."""
    found = scaled(pattern, node)
    weights = pattern.constant(node.inputs[1])
    if found is None or weights is None:
        return None
    last, scale = found
    zeros = [node.inputs[i] if len(node.inputs) > i else "" for i in (2, 3)]
    inputs = [*node.inputs[:2], scale, *zeros]
    plus = chained(pattern, last, "Add")
    value = None if plus is None else pattern.constant(plus[1])
    channels = (len(weights), *(1,) * (weights.ndim - 2))
    if (
        plus is not None
        and value is not None
        and value.dtype == np.float32
        and value.shape in (channels, (1, *channels))
    ):
        last = plus[0]
        name = f"{plus[1]} as a vector of int8blas"
        pattern.graph.constants.setdefault(name, value.reshape(-1))
        inputs.append(name)
    relu = pattern.only_taker(last, {"Relu"})
    attributes = {**node.attributes, "relu": int(relu is not None)}
    return Node("ConvIntegerToFloat", DOMAIN, tuple(inputs), (relu or last).outputs, attributes, node.name)


def other(node: Node, name: str) -> str | None:
    """The other input of a node with two, of which one has this name."""
    if len(node.inputs) != 2 or name not in node.inputs or node.inputs[0] == node.inputs[1]:
        return None
    return node.inputs[1] if node.inputs[0] == name else node.inputs[0]


def is_number(pattern: Pattern, name: str | None, number: float) -> bool:
    """Whether a tensor is this number, to float32's last digits."""
    value = None if name is None else pattern.constant(name)
    if value is None or value.size != 1 or value.dtype != np.float32:
        return False
    return bool(np.isclose(value.item(), number, 1e-6))


def chained(pattern: Pattern, node: Node, kind: str) -> tuple[Node, str] | None:
    """The one node of a kind that takes a node's result, and its other input."""
    name = node.outputs[0]
    takers = pattern.takers.get(name, [])
    if len(takers) != 1 or takers[0].kind != kind or name in pattern.kept:
        return None
    second = other(takers[0], name)
    return None if second is None else (takers[0], second)


def rewritten_gelu(pattern: Pattern, node: Node) -> Node | None:
    """With x and 1 / 2 as factors in any order."""
    before = pattern.makers.get(node.inputs[0])
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
        maker = pattern.makers.get(factor)
        if maker is None or maker.kind != "Mul" or not is_number(pattern, other(maker, x), 0.5):
            return None
    return Node("Gelu", MICROSOFT, (x,), last.outputs, {}, node.name)


def rewritten_stored(pattern: Pattern, node: Node, dynamic: bool) -> Node | None:
    """A product with f32(bytes) * scale, constant, with scales of columns."""
    product = pattern.makers.get(node.inputs[1])
    if product is None or product.kind != "Mul":
        return None
    for name in product.inputs:
        cast, scale_name = pattern.makers.get(name), other(product, name)
        if cast is None or cast.kind != "Cast" or cast.attributes.get("to") != FLOAT32 or scale_name is None:
            continue
        weights, scale = pattern.constant(cast.inputs[0]), pattern.constant(scale_name)
        if weights is None or scale is None or weights.ndim != 2 or weights.dtype != np.int8 or not weights.size:
            continue
        shapes = ((), (1,), (1, 1), weights.shape[1:], (1, weights.shape[1]))
        if scale.dtype == np.float32 and scale.shape in shapes and (np.isfinite(scale) & (scale > 0)).all():
            inputs = (node.inputs[0], cast.inputs[0], scale_name)
            return Node("StoredMatMul", DOMAIN, inputs, node.outputs, {"dynamic": int(dynamic)}, node.name)
    return None


def fused(network: Network) -> Network:
    """A network with its patterns rewritten; what nobody needs any more is left to the plan to leave out."""
    opsets: Mapping[str, int] = {MICROSOFT: 1, **network.opsets, DOMAIN: 1}
    return Network(fused_graph(network.graph, network.dynamic), opsets, network.dynamic)


def fused_graph(graph: Graph, dynamic: bool) -> Graph:
    """The graph and its subgraphs, each by itself."""
    graph = replace(graph, nodes=[inside(node, dynamic) for node in graph.nodes], constants=dict(graph.constants))
    pattern = Pattern.of(graph)
    for node in graph.nodes:
        pattern.quantize_constant(node)
        pattern.reshape_constant(node)
    replaced: dict[str, Node] = {}
    for node in graph.nodes:
        new: Node | list[Node] | None = None
        if node.kind in STATIC and len(node.outputs) == 1:
            last = pattern.end(node)
            new = None if last is None else STATIC[node.kind](pattern, node, last)
        elif node.kind == "MatMulInteger":
            new = rewritten_dynamic(pattern, node)
        elif node.kind == "ConvInteger":
            new = rewritten_convolution(pattern, node)
        elif node.kind == "Erf":
            new = rewritten_gelu(pattern, node)
        if new is None and node.kind == "MatMul":
            new = rewritten_stored(pattern, node, dynamic)
        for each in [new] if isinstance(new, Node) else new or ():
            replaced[each.outputs[0]] = each
    gone = {*replaced, *graph.constants}
    nodes = [node for node in graph.nodes if not gone.intersection(node.outputs)]
    return replace(graph, nodes=[*nodes, *replaced.values()])


def inside(node: Node, dynamic: bool) -> Node:
    """A node whose subgraphs are rewritten."""
    attributes = {
        name: fused_graph(value, dynamic) if isinstance(value, Graph) else value
        for name, value in node.attributes.items()
    }
    return replace(node, attributes=attributes)
