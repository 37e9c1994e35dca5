"""Quantize a float32 network when it is loaded: ``load(path, quantize=...)``.

The result has ONNX's nodes of quantization, like the files of quantizers, and is saved and rewritten like a quantized
file. Weights are int8, with a scale for each column or output channel. Biases stay real numbers.

- `"weights"` puts a DequantizeLinear after the weights of MatMul and Gemm.
- `"dynamic"` also puts a DequantizeLinear there, but MatMul and Gemm multiply in int8, with a scale for each row of the
  source. Conv becomes DynamicQuantizeLinear and ConvInteger.
- Calibration data put QuantizeLinear and DequantizeLinear before Conv, ConvTranspose, MatMul and Gemm, and before
  earlier operators that can compute bytes.

The source and the result of an operator that moves or chooses elements share a scale. The calibration finds the scales
with the least squared error. Rare large values saturate if saturation gives a smaller error than a larger scale.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from int8blas.core.parameters import QuantizationParameters
from int8blas.network.calibration import LeastSquaresObserver
from int8blas.network.graph import calibrate
from int8blas.network.observer import Observer
from int8blas.onnx.chains import float32_tensors
from int8blas.onnx.constants import folded_graph
from int8blas.onnx.graph import Graph, Network, Node, Value, ordered
from int8blas.onnx.operators import TABLE
from int8blas.onnx.patterns import Pattern
from int8blas.onnx.types import FLOAT32
from int8blas.onnx.views import keeps_bytes
from int8blas.onnx.widening import widened
from int8blas.stage.weights_scales import weights_scales

# For each product with constant weights, the axis of the weights that becomes the columns of the result.
COLUMNS = {"Conv": 0, "ConvTranspose": 1, "Gemm": 1, "MatMul": 1}
# The first version of ONNX's operators that has all nodes of quantization.
OPSET = 11
Feeds = Mapping[str, Any]
Run = Callable[[Network], Callable[[Feeds], Sequence[Any]]]


def quantized(network: Network, how: str | Feeds | Iterable[Feeds], keep: Sequence[str], run: Run) -> Network:
    """Return the quantized network. `how` is "weights", "dynamic", or feeds to calibrate on. The products of the nodes
    in `keep` stay in float32. `run` takes a network and returns a function that computes its outputs from feeds."""
    if isinstance(how, str) and how not in ("weights", "dynamic"):
        raise ValueError(f"quantize must be 'weights', 'dynamic' or calibration data, got {how!r}")
    network, rewrite = started(network, keep)
    if isinstance(how, str):
        return replace(network, graph=rewrite.weights_alone(how == "dynamic"), dynamic=how == "dynamic")
    return replace(network, graph=rewrite.calibrated(network, [how] if isinstance(how, Mapping) else how, run))


def started(network: Network, keep: Sequence[str]) -> tuple[Network, Quantizer]:
    """Return the network with folded constants, and the quantizer of its graph."""
    if network.opsets.get("", OPSET) < OPSET:
        raise ValueError(f"source must have operators of version {OPSET} or later to be quantized, "
                         f"got version {network.opsets['']}")  # fmt: skip
    network = widened(network)
    network = replace(network, graph=folded_graph(network.graph, network.opsets))
    labels = {node.label for node in network.graph.nodes}
    unknown = sorted(set(keep) - labels)
    if unknown:
        raise ValueError(f"keep must have names of nodes, got {', '.join(map(repr, unknown))}")
    rewrite = Quantizer(network.graph, keep)
    if not rewrite.products:
        raise ValueError("source must have products of float32 with constant weights to be quantized, got none")
    return network, rewrite


class Quantizer:
    """The quantizer of a graph, which adds nodes of quantization."""

    def __init__(self, graph: Graph, keep: Sequence[str]) -> None:
        self.graph = replace(graph, constants=dict(graph.constants))
        self.pattern = Pattern.of(self.graph)
        self.floats = float32_tensors(self.graph)
        self.products = [node for node in graph.nodes if node.label not in keep and self.is_product(node)]
        self.stored: set[str] = set()
        self.roots = self.find_roots()

    def is_product(self, node: Node) -> bool:
        """Return whether a node multiplies float32 by constant weights, and int8blas can multiply the bytes of both."""
        weights = self.pattern.floats(node.input(1)) if node.kind in COLUMNS else None
        if weights is None or not weights.size or node.inputs[0] not in self.floats:
            return False
        bias = not node.input(2) or self.pattern.floats(node.input(2)) is not None
        fits = weights.ndim == 2 if node.kind in ("Gemm", "MatMul") else 3 <= weights.ndim <= 5
        return fits and bias and node.attributes.get("alpha", 1) > 0

    def constant(self, name: str, value: Any) -> str:
        """Add a constant to the graph."""
        self.graph.constants[name] = value
        return name

    def int8(self, node: Node) -> tuple[str, str]:
        """Add the constants of a product's weights: int8, and a scale for each column. Return their names."""
        name, weights = node.inputs[1], self.pattern.floats(node.inputs[1])
        assert weights is not None
        axis = self.axis(node)
        # In a ConvTranspose with groups, columns do not lie along one axis, so all weights have one scale.
        one = node.kind == "ConvTranspose" and node.attributes.get("group", 1) != 1
        rows = np.moveaxis(weights, axis, 0).reshape(1 if one else weights.shape[axis], -1)
        scale = weights_scales(rows)
        shape = [-1 if i == axis else 1 for i in range(weights.ndim)]
        values = np.clip(np.rint(weights / (scale[0] if one else scale.reshape(shape))), -127, 127).astype(np.int8)
        names = f"{name} in int8 along {axis}", f"{name} scales along {axis}"
        return self.constant(names[0], values), self.constant(names[1], scale[0] if one else scale)

    def axis(self, node: Node) -> int:
        """Return the axis of the weights that becomes the columns of the result."""
        return 0 if node.attributes.get("transB") else COLUMNS[node.kind]

    def dequantized(self, node: Node) -> tuple[str, list[Node]]:
        """Return the name of a product's dequantized weights, and the nodes that compute them. The nodes exist already
        if an earlier product has the same weights."""
        axis = self.axis(node)
        name = f"{node.inputs[1]} of int8 along {axis}"
        if name in self.stored:
            return name, []
        self.stored.add(name)
        return name, [Node("DequantizeLinear", "", self.int8(node), (name,), {"axis": axis}, name)]

    def with_stored_weights(self, node: Node) -> list[Node]:
        """Return a product with dequantized weights, after the nodes that it needs."""
        name, before = self.dequantized(node)
        return [*before, replace(node, inputs=(node.inputs[0], name, *node.inputs[2:]))]

    # Weights, dynamic

    def weights_alone(self, dynamic: bool) -> Graph:
        """Return the graph with the weights of MatMul and Gemm in int8, and with dynamic convolutions."""
        nodes: list[Node] = []
        inside = set(map(id, self.products))
        for node in self.graph.nodes:
            plain = [node.attributes.get(name, usual) for name, usual in (("alpha", 1), ("beta", 1), ("transA", 0))]
            if id(node) in inside and node.kind in ("MatMul", "Gemm") and plain == [1, 1, 0]:
                nodes += self.with_stored_weights(node)
            elif id(node) in inside and node.kind == "Conv" and dynamic:
                nodes += self.dynamic_convolution(node)
            else:
                nodes.append(node)
        return replace(self.graph, nodes=nodes)

    def dynamic_convolution(self, node: Node) -> list[Node]:
        """Return the nodes that replace a convolution: they find the range of the source and quantize the source."""
        end, (matrix, scales) = node.outputs[0], self.int8(node)
        source, one, zero, sums, real, factor, scaled = (
            f"{end}: {what}" for what in ("bytes", "scale", "zero point", "sums", "floats", "factor", "scaled sums")
        )
        shape = (-1, *(1,) * (self.graph.constants[matrix].ndim - 2))
        last = end if not node.input(2) else scaled
        nodes = [
            Node("DynamicQuantizeLinear", "", (node.inputs[0],), (source, one, zero), {}, source),
            Node("ConvInteger", "", (source, matrix, zero), (sums,), node.attributes, node.name),
            Node("Cast", "", (sums,), (real,), {"to": FLOAT32}, real),
            Node("Mul", "", (one, self.constant(f"{scales}, by channel", self.graph.constants[scales].reshape(shape))),
                 (factor,), {}, factor),
            Node("Mul", "", (real, factor), (last,), {}, last),
        ]  # fmt: skip
        if node.input(2):
            bias = self.pattern.floats(node.inputs[2])
            assert bias is not None
            added = self.constant(f"{node.inputs[2]}, by channel", bias.reshape(shape))
            nodes.append(Node("Add", "", (last, added), (end,), {}, end))
        return nodes

    # Static

    def calibrated(self, network: Network, batches: Iterable[Feeds], run: Run) -> Graph:
        """Return the graph with quantized tensors, whose scales are calibrated on feeds."""
        observers = self.observers()
        watch = run(self.watched(network, observers))

        def compute(feeds: Feeds, report: Callable[[str, Any], Any]) -> None:
            for name, value in zip(observers, watch(feeds), strict=True):
                report(name, value)

        return self.with_parameters(calibrate(compute, batches, observers.__getitem__))

    def watched(self, network: Network, names: Iterable[str], outputs: tuple[Value, ...] = ()) -> Network:
        """Return the float network whose outputs are the named tensors, followed by `outputs`."""
        values = (*(Value(name, np.dtype(np.float32), None) for name in names), *outputs)
        return replace(network, graph=replace(network.graph, outputs=values))

    def with_parameters(self, found: Mapping[str, QuantizationParameters]) -> Graph:
        """Return the graph with quantized tensors."""
        names = {name: f"{name} of bytes" for name in found}
        made: dict[str, list[Node]] = {}
        for name, parameters in found.items():
            one = f"{parameters.scale!r} as scale", f"{parameters.zero_point} as zero point"
            self.constant(one[0], np.array(parameters.scale, np.float32))
            self.constant(one[1], np.array(parameters.zero_point, parameters.dtype))
            made[name] = [
                Node("QuantizeLinear", "", (name, *one), (f"{name} in bytes",), {}, f"{name} in bytes"),
                Node("DequantizeLinear", "", (f"{name} in bytes", *one), (names[name],), {}, names[name]),
            ]
        inside = set(map(id, self.products))
        nodes = [node for pair in made.values() for node in pair]
        for node in self.graph.nodes:
            *before, last = self.with_stored_weights(node) if id(node) in inside else [node]
            nodes += [*before, replace(last, inputs=tuple(names.get(name, name) for name in last.inputs))]
        graph = replace(self.graph, nodes=nodes)
        return replace(graph, nodes=ordered(graph))

    def observers(self) -> dict[str, Observer]:
        """Return an observer for each tensor to quantize. Tensors with a common scale have a common observer."""
        groups: dict[str, set[str]] = {}
        waiting = [node.inputs[0] for node in self.products]
        groups.update((name, {name}) for name in waiting)
        while waiting:
            name = waiting.pop()
            for source, same in self.before(name):
                if source not in groups:
                    groups[source] = {source}
                    waiting.append(source)
                if same and groups[source] is not groups[name]:
                    joined = groups[source] | groups[name]
                    groups.update(dict.fromkeys(joined, joined))
        made = {id(group): LeastSquaresObserver(dtype=np.uint8, symmetric=False) for group in groups.values()}
        return {name: made[id(group)] for name, group in groups.items()}

    def before(self, name: str) -> Iterator[tuple[str, bool]]:
        """Yield the tensors to quantize before a quantized tensor, and for each whether it shares the scale."""
        node, root = self.pattern.producers.get(name), self.roots.get(name, name)
        if node is None:
            return
        variable = self.variable(node)
        if root != name:  # a lookup table, or a Relu or Clip that limits int8 values of the node before
            limits = node.kind in ("Relu", "Clip") and node.inputs[0] == root and self.pattern.sole_consumer(root)
            yield from self.before(root) if limits and root in self.pattern.producers else [(root, False)]
        elif node.kind == "Concat" or TABLE.traits_of(node).moves or keeps_bytes(self.pattern, node):
            yield from ((each, True) for each in variable)
        elif node.kind == "GlobalAveragePool" or (node.kind in ("Add", "Mul") and len(variable) == 2):
            yield from ((each, False) for each in variable)
        elif node.kind == "BatchNormalization":
            producer = self.pattern.producers.get(node.inputs[0])
            if producer is None or producer.kind not in COLUMNS or not self.pattern.sole_consumer(node.inputs[0]):
                yield node.inputs[0], False

    def find_roots(self) -> dict[str, str]:
        """For each tensor that a table can compute from earlier tensors, return the earliest of these tensors."""
        roots: dict[str, str] = {}
        for node in ordered(self.graph):
            traits = TABLE.traits_of(node)
            if not traits.elementwise or len(node.outputs) != 1:
                continue
            earliest = {roots.get(name, name) for name in self.variable(node)}
            others = {*node.inputs} - {*self.variable(node), ""}
            numbers = [value for name in others if (value := self.pattern.constant(name)) is not None]
            if len(earliest) == 1 and len(numbers) == len(others) and all(value.size == 1 for value in numbers):
                roots[node.outputs[0]] = earliest.pop()
        return roots

    def variable(self, node: Node) -> list[str]:
        """Return the float32 inputs of a node that are no constants."""
        return [name for name in node.inputs if name in self.floats and self.pattern.constant(name) is None]
