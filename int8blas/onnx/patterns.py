"""Find patterns of nodes: producers, consumers, constants, quantization."""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from int8blas.onnx.graph import Array, Graph, Node
from int8blas.onnx.integer import dequantize_linear, positive_finite, quantize_linear
from int8blas.onnx.table import MICROSOFT
from int8blas.onnx.types import BYTES, FLOAT32

# The relative error of the constants of a formula in float32.
TOLERANCE = 1e-6


@dataclass
class Quantized:
    """The names of a quantized tensor, its scale and its zero point ("" for 0), and the axis of several scales."""

    name: str
    scale: str
    zero_point: str
    axis: int | None = None

    def along(self, axis: int, ndim: int) -> bool:
        """Return whether there is one scale, or the scales lie along this axis."""
        return self.axis is None or self.axis % ndim == axis


@dataclass
class Pattern:
    """A graph, with the producer and the consumers of each tensor."""

    graph: Graph
    producers: dict[str, Node] = field(default_factory=dict)
    consumers: dict[str, list[Node]] = field(default_factory=dict)
    kept: set[str] = field(default_factory=set)
    # Whether products with stored int8 weights are computed in int8.
    dynamic: bool = False
    # The relative error that the constants of a formula may have.
    tolerance: float = TOLERANCE
    # Positions of nodes in the graph, by id(node).
    places: dict[int, int] = field(default_factory=dict)
    # For the first output of a node, the reason why the node stays in float.
    reasons: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, graph: Graph, dynamic: bool = False, tolerance: float = TOLERANCE) -> Pattern:
        pattern = cls(graph, dynamic=dynamic, tolerance=tolerance)
        producers, consumers = pattern.producers, pattern.consumers
        for i, node in enumerate(graph.nodes):
            pattern.places[id(node)] = i
            for name in node.outputs:
                producers[name] = node
            for name in node.reads:
                if name in consumers:
                    consumers[name].append(node)
                else:
                    consumers[name] = [node]
        producers.pop("", None)
        pattern.kept = {value.name for value in graph.outputs}
        return pattern

    def of_nodes(self, nodes: list[Node]) -> Pattern:
        """Return the pattern of the graph with new nodes, or this pattern if the nodes are equal."""
        graph = self.graph
        return self if nodes == graph.nodes else Pattern.of(replace(graph, nodes=nodes), self.dynamic, self.tolerance)

    def refuse(self, node: Node, reason: str) -> Node | None:
        """Record the reason why a rewrite fails, and return None, the result of a failed rewrite. Keep a reason that
        the node already has."""
        self.reasons.setdefault(node.outputs[0], reason)
        return None

    def nodes_between(self, new: Node, inputs: Collection[str]) -> list[Node]:
        """Return the nodes that a new node replaces: all nodes between `inputs` and the outputs of the new node."""
        found: dict[int, Node] = {}
        waiting = [name for name in new.outputs if name]
        while waiting:
            name = waiting.pop()
            node = self.producers.get(name)
            if node is None or node.kind == "Constant" or name in inputs or name in self.graph.constants:
                continue
            if id(node) not in found:
                found[id(node)] = node
                waiting.extend(node.inputs)
        return sorted(found.values(), key=lambda node: self.places[id(node)])

    def constant(self, name: str) -> Array | None:
        """Return the value of a constant tensor, from the graph's constants or a Constant node, or None."""
        if name in self.graph.constants:
            return self.graph.constants[name]
        node = self.producers.get(name)
        value = node.attributes.get("value") if node is not None and node.kind == "Constant" else None
        return value if isinstance(value, np.ndarray) else None

    def constants(self, names: Iterable[str]) -> list[Array] | None:
        """Return the values of the named tensors, without the absent tensors (""). Return None if a tensor is not
        constant."""
        values = [self.constant(name) for name in names if name]
        known = [value for value in values if value is not None]
        return known if len(known) == len(values) else None

    def floats(self, name: str) -> Array | None:
        """Return a constant of finite float32 numbers, or None."""
        value = self.constant(name)
        return value if value is not None and value.dtype == np.float32 and np.isfinite(value).all() else None

    def number(self, name: str | None) -> float | None:
        """Return the value of a float32 constant of one element, or None."""
        value = self.constant(name) if name else None
        return float(value.item()) if value is not None and value.size == 1 and value.dtype == np.float32 else None

    def most_dimensions(self, name: str) -> float:
        """Return the dimensions of a constant, of DynamicQuantizeLinear's scale, or of a product of two constants or
        scales. Return infinity for any other tensor."""
        producer = self.producers.get(name)
        factors = producer.inputs if producer is not None and producer.kind == "Mul" else (name,)
        return max(map(self.dimensions, factors), default=0)

    def dimensions(self, name: str) -> float:
        """Return the dimensions of a constant or of DynamicQuantizeLinear's scale; infinity for other tensors."""
        value, producer = self.constant(name), self.producers.get(name)
        if value is not None:
            return value.ndim
        scalar = producer is not None and producer.kind == "DynamicQuantizeLinear" and producer.outputs[1:2] == (name,)
        return 0 if scalar else math.inf

    def only_consumer(self, node: Node, kinds: set[str]) -> Node | None:
        """Return the only consumer of a node's only output, if its kind is in `kinds` and it takes the output as first
        input."""
        name = node.outputs[0]
        consumers = self.consumers.get(name, [])
        alone = len(node.outputs) == 1 and len(consumers) == 1 and name not in self.kept
        return consumers[0] if alone and consumers[0].kind in kinds and consumers[0].inputs[0] == name else None

    def dequantized(self, name: str, dtypes: tuple[np.dtype[Any], ...] = BYTES) -> Quantized | None:
        """Return the quantized source of a DequantizeLinear with a constant scale and zero point, or None. int32 needs
        no zero point."""
        node = self.producers.get(name)
        if node is None or node.operator != "DequantizeLinear" or node.attributes.get("block_size"):
            return None
        if node.attributes.get("output_dtype", FLOAT32) not in (0, FLOAT32):
            return None
        scale, zero = self.constant(node.inputs[1]), self.zero_of(node)
        if scale is None or scale.dtype != np.float32 or zero is None or zero.dtype not in dtypes or scale.ndim > 1:
            return None
        axis = None if scale.size == 1 else node.attributes.get("axis", 1)
        return Quantized(node.inputs[0], node.inputs[1], node.input(2), axis)

    def zero_of(self, node: Node) -> Array | None:
        """Return the zero point of QuantizeLinear or DequantizeLinear, or a 0 of the quantized type if the zero point
        is absent. Return None if the value or the type is unknown."""
        if node.input(2):
            return self.constant(node.input(2))
        dtype = self.type_of(node.inputs[0]) if node.operator == "DequantizeLinear" else np.dtype(np.uint8)
        return None if dtype is None or node.attributes.get("output_dtype") else np.zeros((), dtype)

    def type_of(self, name: str) -> np.dtype[Any] | None:
        """Return the type of a constant, of an input, or of a result of QuantizeLinear, or None."""
        value, node = self.constant(name), self.producers.get(name)
        if value is not None:
            return value.dtype
        if node is None:
            return next((port.dtype for port in self.graph.inputs if port.name == name), None)
        zero = self.zero_of(node) if node.operator == "QuantizeLinear" else None
        return None if zero is None else zero.dtype

    def quantizer(self, node: Node) -> Node | None:
        """Return the QuantizeLinear after a node with one constant scale and zero point, or None."""
        last = self.only_consumer(node, {"QuantizeLinear", f"{MICROSOFT}.QuantizeLinear"})
        if last is None or last.attributes.get("precision", FLOAT32) not in (0, FLOAT32):
            return None
        scale, zero = self.constant(last.inputs[1]), self.zero_of(last)
        if scale is None or zero is None or scale.dtype != np.float32 or zero.dtype not in BYTES:
            return None
        return last if scale.size == zero.size == 1 else None

    def end(self, node: Node) -> Node | None:
        """Return the QuantizeLinear after a node, or None. A Relu or a Clip may lie between the two nodes, if
        saturation has the effect of the Relu or Clip."""
        limited = self.only_consumer(node, {"Relu", "Clip"})
        last = self.quantizer(limited or node)
        limits = (0.0, math.inf) if limited is None or limited.kind == "Relu" else self.limits_of(limited)
        saturated = limited is None or (last is not None and limits is not None and self.saturates(last, *limits))
        return last if saturated else None

    def limits_of(self, node: Node) -> tuple[float, float] | None:
        """Return both limits of a Clip, from its attributes or constants. Return None if a limit is missing or not
        finite."""
        found = [node.attributes.get("min"), node.attributes.get("max")]
        for i, name in enumerate(node.inputs[1:3]):
            found[i] = self.number(name)
        low, high = found
        usable = low is not None and high is not None and math.isfinite(low) and math.isfinite(high) and low <= high
        return (low, high) if usable else None  # type: ignore[return-value]

    def saturates(self, last: Node, low: float, high: float) -> bool:
        """Return whether a QuantizeLinear gives its least result for `low` and its largest result for `high`. If the
        function returns True, a Clip to [low, high] before the QuantizeLinear has no effect."""
        scale, zero = self.constant(last.inputs[1]), self.zero_of(last)
        if scale is None or zero is None or not positive_finite(scale):
            return False
        reached = quantize_linear(np.array([low, high], np.float32), scale, zero).tolist()
        return reached == [np.iinfo(zero.dtype).min, np.iinfo(zero.dtype).max]

    def zero_name(self, quantized: Quantized) -> str:
        """Return the name of a zero point. Add a constant 0 to the graph if there is none."""
        if quantized.zero_point:
            return quantized.zero_point
        zero = np.zeros((), self.type_of(quantized.name) or np.uint8)
        name = f"zero point {zero.dtype.name} of int8blas"
        self.graph.constants.setdefault(name, zero)
        return name

    def triples(self, tensors: Iterable[Quantized]) -> list[str]:
        """Return the inputs of a quantized operator: the names of the values, the scale and the zero point of each
        tensor."""
        return [name for x in tensors for name in (x.name, x.scale, self.zero_name(x))]

    def quantization_of(self, last: Node) -> tuple[str, str]:
        """Return the names of a QuantizeLinear's scale and zero point."""
        return last.inputs[1], self.zero_name(Quantized("", last.inputs[1], last.input(2)))

    def int32_bias(self, name: str, a: Quantized, b: Quantized, alpha: float = 1) -> str | None:
        """Return the name of the int32 bias before a DequantizeLinear. Return None if the bias does not have the scale
        of the sums. Without a bias, return ""."""
        if not name:
            return ""
        bias = self.dequantized(name, (np.dtype(np.int32),))
        value = None if bias is None else self.constant(bias.name)
        if bias is None or value is None or value.ndim != 1:
            return None
        scales = [self.constant(each.scale) for each in (bias, a, b)]
        zero = self.constant(bias.zero_point) if bias.zero_point else None
        wanted = alpha * (np.asarray(scales[1], np.float64) * np.asarray(scales[2], np.float64)).reshape(-1)
        fits = np.abs(np.asarray(scales[0], np.float64) - wanted) <= 1e-6 * np.abs(wanted)
        return bias.name if fits.all() and (zero is None or not zero.any()) else None

    def real_constant(self, name: str) -> Array | None:
        """Return a constant of finite float32 numbers, also if a DequantizeLinear makes it, or None."""
        node = self.producers.get(name)
        if node is None or node.operator != "DequantizeLinear":
            return self.floats(name)
        given = self.constants(node.inputs)
        if given is None or given[1].dtype != np.float32:
            return None
        result = dequantize_linear(*given, **node.attributes)
        return result if result.dtype == np.float32 and np.isfinite(result).all() else None


def constant_named(pattern: Pattern, node: Node, what: str, value: Array | None) -> str:
    """Add a constant to the graph and return its name, or "" for None."""
    if value is None:
        return ""
    name = f"{what} of {node.outputs[0]} of int8blas"
    pattern.graph.constants[name] = value
    return name


def other(node: Node, name: str) -> str | None:
    """Return the other input of a node with two different inputs, or None."""
    if len(node.inputs) != 2 or name not in node.inputs or node.inputs[0] == node.inputs[1]:
        return None
    return node.inputs[1] if node.inputs[0] == name else node.inputs[0]


# The coefficients of products of some tensors, by the exponents of these tensors.
Polynomial = dict[tuple[int, ...], float]
POLYNOMIALS = {"Add", "Mul", "Div", "Pow", "Transpose"}


def polynomial(
    pattern: Pattern, name: str, variables: tuple[str, ...], order: tuple[int, ...] = (), depth: int = 8
) -> Polynomial | None:
    """Return a float32 tensor, permuted by `order`, as a polynomial of the tensors `variables`, or None."""
    if name in variables and list(order) == sorted(order):
        return {tuple([int(name == each) for each in variables]): 1.0}
    number, node = pattern.number(name), pattern.producers.get(name)
    if number is not None:
        return {(0,) * len(variables): number}
    if node is None or node.kind not in POLYNOMIALS or not depth:
        return None
    if node.kind == "Transpose":
        axes = node.attributes.get("perm")
        order = tuple([axes[i] for i in order or range(len(axes))]) if axes else ()
        return polynomial(pattern, node.inputs[0], variables, order, depth - 1) if axes else None
    if len(node.inputs) != 2:
        return None
    first, second = (polynomial(pattern, each, variables, order, depth - 1) for each in node.inputs)
    if first is None or second is None:
        return None
    if node.kind == "Mul":
        return multiplied(first, second)
    if node.kind == "Add":
        return {key: first.get(key, 0) + second.get(key, 0) for key in {**first, **second}}
    value = pattern.number(node.inputs[1])
    if node.kind == "Div":
        return {key: each / value for key, each in first.items()} if value else None
    square = multiplied(first, first)
    return square if value == 2 else multiplied(square, first) if value == 3 else None


def multiplied(a: Polynomial, b: Polynomial) -> Polynomial:
    """Return the product of two polynomials."""
    result: Polynomial = {}
    for (first, x), (second, y) in itertools.product(a.items(), b.items()):
        powers = tuple([i + j for i, j in zip(first, second, strict=True)])
        result[powers] = result.get(powers, 0) + x * y
    return result


def is_close(pattern: Pattern, a: Polynomial | None, b: Polynomial) -> bool:
    """Return whether two polynomials are equal, up to rounding errors of the constants in the file."""
    if a is None or a.keys() != b.keys():
        return False
    return all(math.isclose(a[key], b[key], rel_tol=pattern.tolerance) for key in b)


def chained(pattern: Pattern, node: Node, kind: str) -> tuple[Node, str] | None:
    """Return the only consumer of a node's output, if it is of the given kind, and the consumer's other input."""
    name = node.outputs[0]
    consumers = pattern.consumers.get(name, [])
    if len(consumers) != 1 or consumers[0].kind != kind or name in pattern.kept:
        return None
    second = other(consumers[0], name)
    return None if second is None else (consumers[0], second)


def sole_producer(pattern: Pattern, name: str, kinds: set[str]) -> Node | None:
    """Return the producer of a tensor if its kind is in `kinds`, the tensor has one consumer, and the graph does not
    return the tensor.
    """
    producer = pattern.producers.get(name)
    alone = len(pattern.consumers.get(name, [])) == 1 and name not in pattern.kept
    return producer if producer is not None and producer.kind in kinds and alone else None
