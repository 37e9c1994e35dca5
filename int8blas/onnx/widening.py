"""Compute float16 networks in float32. Weights are converted once at load, and inputs and outputs in each run.

In float16 each operator would convert its inputs and round its result, and sums in float16 would lose digits. Networks
without float16 weights do not change. Networks with quantized operators do not change either, because the rounding of
quantized operators depends on float16.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from int8blas.onnx.explain import is_int8
from int8blas.onnx.graph import Graph, Network, Node, Value
from int8blas.onnx.operators import TABLE
from int8blas.onnx.types import FLOAT32, HALF, SINGLE

FLOAT16 = 10
# Attributes that are numbers of types.
TYPES = ("to", "dtype", "stash_type", "softmax_precision")


def widened(network: Network) -> Network:
    """Return the network with its float16 operators computed in float32."""
    graph = network.graph
    known = all(value.dtype is not None for value in (*graph.inputs, *graph.outputs))
    if not has_weights(graph) or not known or any(map(is_int8, graph.walk())):
        return network
    caches = cache_names(graph)
    inputs, outputs = (
        {value.name: f"{value.name} in float32" for value in values if value.dtype == HALF and value.name not in caches}
        for values in (graph.inputs, graph.outputs)
    )
    names = {**inputs, **outputs}
    inner = widened_graph(graph, names)
    casts = [Node("Cast", "", (name,), (wide,), {"to": FLOAT32}) for name, wide in inputs.items()]
    ends = [Node("Cast", "", (wide,), (name,), {"to": FLOAT16}) for name, wide in outputs.items() if name not in inputs]
    constants = {names.get(name, name): array for name, array in inner.constants.items()}
    nodes = [*casts, *inner.nodes, *ends]
    return replace(network, graph=replace(graph, nodes=nodes, constants=constants))


def cache_names(graph: Graph) -> set[str]:
    """Return the inputs and outputs that keep their types, because they are a cache that one node reads and updates."""
    inputs, outputs = ({value.name for value in values} for values in (graph.inputs, graph.outputs))
    names = [name for node in graph.nodes for name in node.inputs]
    found: set[str] = set()
    for node in [] if any(node.subgraphs() for node in graph.nodes) else graph.nodes:
        for at, source in TABLE.traits_of(node).updates.items():
            pair = {node.input(source), *node.outputs[at : at + 1]}
            if len(pair) == 2 and pair & inputs and pair & outputs and all(names.count(name) <= 1 for name in pair):
                found |= pair
    return found


def has_weights(graph: Graph) -> bool:
    """Return whether a graph has float16 constants of at least two dimensions, or constants that a Cast converts to
    float16, in nodes or subgraphs too."""
    constants = [*graph.constants.values()]
    constants += [value for node in graph.nodes for value in node.attributes.values() if isinstance(value, np.ndarray)]
    inner = (has_weights(each) for node in graph.nodes for each in node.subgraphs())
    casts = [node.input(0) for node in graph.nodes if node.kind == "Cast" and node.attributes.get("to") == FLOAT16]
    is_cast = any(np.ndim(graph.constants.get(name, 0)) > 1 for name in casts)
    return is_cast or any(array.dtype == HALF and array.ndim > 1 for array in constants) or any(inner)


def widened_graph(graph: Graph, names: dict[str, str]) -> Graph:
    """Return a graph in float32, with new names of some tensors."""
    constants = {name: wide_value(array) for name, array in graph.constants.items()}
    inputs, outputs = (tuple(port(value, names) for value in values) for values in (graph.inputs, graph.outputs))
    return replace(graph, nodes=[widened_node(node, names) for node in graph.nodes], constants=constants,
                   inputs=inputs, outputs=outputs)  # fmt: skip


def port(value: Value, names: dict[str, str]) -> Value:
    return replace(value, name=names.get(value.name, value.name), dtype=SINGLE if value.dtype == HALF else value.dtype)


def widened_node(node: Node, names: dict[str, str]) -> Node:
    attributes = {
        name: FLOAT32 if name in TYPES and type(value) is int and value == FLOAT16 else wide_value(value, names)
        for name, value in node.attributes.items()
    }
    inputs, outputs = (tuple(names.get(name, name) for name in each) for each in (node.inputs, node.outputs))
    return replace(node, inputs=inputs, outputs=outputs, attributes=attributes, name=node.label)


def wide_value(value: Any, names: dict[str, str] | None = None) -> Any:
    """Convert a float16 array or a graph to float32, and return any other value unchanged."""
    if isinstance(value, Graph):
        return widened_graph(value, names or {})
    return value.astype(np.float32) if isinstance(value, np.ndarray) and value.dtype == HALF else value
