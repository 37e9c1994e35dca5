"""Find patterns of nodes: producers, consumers, constants, quantization."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from int8blas.onnx.graph import Array, Graph, Node
from int8blas.onnx.integer import dequantize_linear, positive_finite, quantize_linear
from int8blas.onnx.operands import as_operand
from int8blas.onnx.table import MICROSOFT
from int8blas.onnx.types import BYTES, FLOAT32

# The relative error of the constants of a formula in float32.
TOLERANCE = 1e-6


@dataclass
class Quantized:
    """The names of a quantized tensor, its scale and its zero point ("" for 0), the constant values of scale and zero
    point, and the axis of several scales."""

    name: str
    scale: str
    zero_point: str
    factor: Array
    zero: Array
    axis: int | None = None

    def along(self, axis: int, ndim: int) -> bool:
        """Return whether there is one scale, or the scales lie along this axis."""
        return self.axis is None or self.axis % ndim == axis

    def saturates(self, low: float, high: float) -> bool:
        """Return whether QuantizeLinear gives its least result for `low` and its largest result for `high`. A Clip to
        these limits before such a QuantizeLinear has no effect."""
        if not positive_finite(self.factor):
            return False
        reached = quantize_linear(np.array([low, high], np.float32), self.factor, self.zero).tolist()
        return reached == [np.iinfo(self.zero.dtype).min, np.iinfo(self.zero.dtype).max]


# The coefficients of products of some tensors, by the exponents of these tensors.
Polynomial = dict[tuple[int, ...], float]
POLYNOMIALS = {"Add", "Mul", "Div", "Pow", "Transpose"}
# The node, or the sorted nodes, that replace a pattern around a node. None keeps the node.
Rewritten = Node | list[Node] | None
Rewrite = Callable[["Pattern", Node], Rewritten]


@dataclass
class Pattern:
    """A graph, with the producer and the consumers of each tensor."""

    graph: Graph
    producers: dict[str, Node] = field(default_factory=dict)
    consumers: dict[str, list[Node]] = field(default_factory=lambda: defaultdict(list))
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
                consumers[name].append(node)
        producers.pop("", None)
        pattern.kept = {value.name for value in graph.outputs}
        return pattern

    def of_nodes(self, nodes: list[Node]) -> Pattern:
        """Return the pattern of the graph with new nodes, or `self` if the nodes are equal."""
        graph = self.graph
        return self if nodes == graph.nodes else Pattern.of(replace(graph, nodes=nodes), self.dynamic, self.tolerance)

    def refuse(self, node: Node, reason: str) -> Node | None:
        """Record why a rewrite fails, unless the node has a reason. Return None, the result of a failed rewrite."""
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
        """Return the values of all named tensors except absent ones (""). Return None if a tensor is not constant."""
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

    def sole_consumer(self, name: str) -> Node | None:
        """Return the only consumer of a tensor that the graph does not return, or None."""
        consumers = self.consumers.get(name, [])
        return consumers[0] if len(consumers) == 1 and name not in self.kept else None

    def only_consumer(self, node: Node, kinds: set[str]) -> Node | None:
        """Return the only consumer of a node's only output, if the consumer's kind is in `kinds` and its first input is
        the output."""
        name = node.outputs[0]
        consumer = self.sole_consumer(name) if len(node.outputs) == 1 else None
        fits = consumer is not None and consumer.kind in kinds and consumer.inputs[0] == name
        return consumer if fits else None

    def chained(self, node: Node, kind: str) -> tuple[Node, str] | None:
        """Return the only consumer of a node's output, if it is of this kind, and the consumer's other input."""
        consumer = self.sole_consumer(node.outputs[0])
        if consumer is None or consumer.kind != kind:
            return None
        second = other(consumer, node.outputs[0])
        return None if second is None else (consumer, second)

    def sole_producer(self, name: str, kinds: set[str]) -> Node | None:
        """Return the producer of a tensor if its kind is in `kinds` and the tensor has a sole consumer."""
        producer = self.producers.get(name)
        fits = producer is not None and producer.kind in kinds and self.sole_consumer(name) is not None
        return producer if fits else None

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
        return Quantized(node.inputs[0], node.inputs[1], node.input(2), scale, zero, axis)

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

    def quantizer(self, node: Node) -> Quantized | None:
        """Return the result of the QuantizeLinear after a node, with one constant scale and zero point, or None."""
        last = self.only_consumer(node, {"QuantizeLinear", f"{MICROSOFT}.QuantizeLinear"})
        if last is None or last.attributes.get("precision", FLOAT32) not in (0, FLOAT32):
            return None
        scale, zero = self.constant(last.inputs[1]), self.zero_of(last)
        if scale is None or zero is None or scale.dtype != np.float32 or zero.dtype not in BYTES:
            return None
        one = scale.size == zero.size == 1
        return Quantized(last.outputs[0], last.inputs[1], last.input(2), scale, zero) if one else None

    def end(self, node: Node) -> Quantized | None:
        """Return the result of the QuantizeLinear after a node, or None. A Relu or a Clip may lie between the two
        nodes, if saturation has the effect of the Relu or Clip."""
        limited = self.only_consumer(node, {"Relu", "Clip"})
        last = self.quantizer(limited or node)
        limits = (0.0, math.inf) if limited is None or limited.kind == "Relu" else self.limits_of(limited)
        saturated = limited is None or (last is not None and limits is not None and last.saturates(*limits))
        return last if saturated else None

    def limits_of(self, node: Node) -> tuple[float, float] | None:
        """Return both limits of a Clip, from its attributes or constants. Return None if not both are finite."""
        found = [node.attributes.get("min"), node.attributes.get("max")]
        for i, name in enumerate(node.inputs[1:3]):
            found[i] = self.number(name)
        low, high = found
        usable = low is not None and high is not None and math.isfinite(low) and math.isfinite(high) and low <= high
        return (low, high) if usable else None  # type: ignore[return-value]

    def zero_name(self, quantized: Quantized) -> str:
        """Return the name of a zero point. Add a constant 0 to the graph if there is none."""
        if quantized.zero_point:
            return quantized.zero_point
        name = f"zero point {quantized.zero.dtype.name} of int8blas"
        self.graph.constants.setdefault(name, quantized.zero)
        return name

    def triples(self, tensors: Iterable[Quantized]) -> list[str]:
        """Return the names of each tensor, its scale and its zero point, in the order of a quantized operator."""
        return [name for x in tensors for name in (x.name, *self.quantization_of(x))]

    def quantization_of(self, quantized: Quantized) -> tuple[str, str]:
        """Return the names of a tensor's scale and zero point."""
        return quantized.scale, self.zero_name(quantized)

    def int32_bias(self, name: str, a: Quantized, b: Quantized, alpha: float = 1) -> str | None:
        """Return the name of the int32 bias before a DequantizeLinear. Return None if the bias does not have the scale
        of the sums. Without a bias, return ""."""
        if not name:
            return ""
        bias = self.dequantized(name, (np.dtype(np.int32),))
        value = None if bias is None else self.constant(bias.name)
        if bias is None or value is None or value.ndim != 1:
            return None
        own, first, second = (each.factor.astype(np.float64) for each in (bias, a, b))
        wanted = alpha * (first * second).reshape(-1)
        fits = np.abs(own - wanted) <= 1e-6 * np.abs(wanted)
        return bias.name if fits.all() and not bias.zero.any() else None

    def constant_named(self, node: Node, what: str, value: Array | None) -> str:
        """Add a constant to the graph and return its name, or "" for None."""
        if value is None:
            return ""
        name = f"{what} of {node.outputs[0]} of int8blas"
        self.graph.constants[name] = value
        return name

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

    def summand(self, node: Node, ndim: int, axis: int, size: int) -> tuple[bool, Array | None]:
        """Return whether a layer takes the third input of a product: an absent input, or a constant with one number, or
        one for each index of an axis. Also return the constant as a vector, or None."""
        value = self.real_constant(node.input(2)) if node.input(2) else None
        own = None if value is None else as_operand(value, ndim, axis, size)
        return own is not None or not node.input(2), None if own is None else np.broadcast_to(own, size)

    def polynomial(
        self, name: str, variables: tuple[str, ...], order: tuple[int, ...] = (), depth: int = 8
    ) -> Polynomial | None:
        """Return a float32 tensor, with its dimensions in an order, as polynomial of other tensors, or None."""
        if name in variables and list(order) == sorted(order):
            return {tuple([int(name == each) for each in variables]): 1.0}
        number, node = self.number(name), self.producers.get(name)
        if number is not None:
            return {(0,) * len(variables): number}
        if node is None or node.kind not in POLYNOMIALS or not depth:
            return None
        if node.kind == "Transpose":
            axes = node.attributes.get("perm")
            order = tuple([axes[i] for i in order or range(len(axes))]) if axes else ()
            return self.polynomial(node.inputs[0], variables, order, depth - 1) if axes else None
        if len(node.inputs) != 2:
            return None
        first, second = (self.polynomial(each, variables, order, depth - 1) for each in node.inputs)
        if first is None or second is None:
            return None
        if node.kind == "Mul":
            return multiplied(first, second)
        if node.kind == "Add":
            return {key: first.get(key, 0) + second.get(key, 0) for key in {**first, **second}}
        value = self.number(node.inputs[1])
        if node.kind == "Div":
            return {key: each / value for key, each in first.items()} if value else None
        square = multiplied(first, first)
        return square if value == 2 else multiplied(square, first) if value == 3 else None

    def is_close(self, a: Polynomial | None, b: Polynomial) -> bool:
        """Return whether two polynomials are equal, up to the errors of the file's numbers."""
        if a is None or a.keys() != b.keys():
            return False
        return all(math.isclose(a[key], b[key], rel_tol=self.tolerance) for key in b)


def other(node: Node, name: str) -> str | None:
    """Return the other input of a node with two different inputs, or None."""
    if len(node.inputs) != 2 or name not in node.inputs or node.inputs[0] == node.inputs[1]:
        return None
    return node.inputs[1] if node.inputs[0] == name else node.inputs[0]


def multiplied(a: Polynomial, b: Polynomial) -> Polynomial:
    """Return the product of two polynomials."""
    result: Polynomial = {}
    for (first, x), (second, y) in itertools.product(a.items(), b.items()):
        powers = tuple([i + j for i, j in zip(first, second, strict=True)])
        result[powers] = result.get(powers, 0) + x * y
    return result
