"""Compute nodes of constants before the search for patterns, but leave int8 weights in int8.

A DequantizeLinear or a Cast of constant bytes is not folded, because products read the bytes. An operator that moves
the elements of dequantized weights becomes an operator that moves their bytes, and the axis of their scales moves too.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from int8blas.onnx.graph import Array, Graph, Node, needed, ordered
from int8blas.onnx.operators import TABLE
from int8blas.onnx.patterns import Pattern
from int8blas.onnx.plan import fold
from int8blas.onnx.table import Call, Operator, Site, bind
from int8blas.onnx.types import BYTES, FOUR_BITS


def folded_graph(graph: Graph, opsets: Mapping[str, int], around: frozenset[str] = frozenset()) -> Graph:
    """Return a graph with sorted nodes. Constants replace the nodes that depend only on constants, except nodes that
    widen bytes. `around` has the tensors that a subgraph may take from the graph around it."""
    graph = replace(graph, constants=dict(graph.constants))
    pattern = Pattern.of(graph)
    nodes = []
    for node in needed(ordered(graph, around), graph.outputs):
        if node.kind == "Constant" and isinstance(node.attributes.get("value"), np.ndarray):
            nodes.append(node)
            continue
        new = moved_weights(pattern, node, opsets)
        if new is not None:
            pattern.producers[new.outputs[0]] = new
            nodes.append(new)
        else:  # nodes of a subgraph raise errors only when they run, because a subgraph may never run
            with contextlib.suppress(Exception) if around else contextlib.nullcontext():
                if is_computed(pattern, node, opsets):
                    continue
            nodes.append(node)
    return replace(graph, nodes=nodes)


def is_computed(pattern: Pattern, node: Node, opsets: Mapping[str, int]) -> bool:
    """Compute a node if its inputs are constant. Return whether its results are constants now."""
    values: dict[str, Array] = {}
    for name in node.inputs:
        value = pattern.constant(name) if name else None
        if value is not None:
            values[name] = value
        elif name:
            return False
    operator = TABLE.find(node, opsets)
    if operator is None or operator.control:
        return False
    source = values.get(node.inputs[0]) if node.inputs else None
    # Products take int8 weights, and a bias of int32, as integers.
    if node.operator == "DequantizeLinear" or (node.kind == "Cast" and source is not None and source.dtype in BYTES):
        return False
    results = fold(operator, call_of(operator, node, values, opsets), node, node.inputs, values)
    if results is None or not all(isinstance(result, np.ndarray) for result in results):
        return False
    pattern.graph.constants.update((name, value) for name, value in zip(node.outputs, results, strict=False) if name)
    return True


def call_of(operator: Operator, node: Node, values: Mapping[str, Array], opsets: Mapping[str, int]) -> Call:
    """Return the function of a node with constant inputs."""
    known = {i: values[name] for i, name in enumerate(node.inputs) if name in values}
    try:
        return bind(operator, Site(node, known, opsets.get(node.domain, 1)))
    except Exception as error:
        error.add_note(f"in {node}")
        raise


def moved_weights(pattern: Pattern, node: Node, opsets: Mapping[str, int]) -> Node | None:
    """Return a node that replaces `node`, an operator that moves dequantized bytes: a DequantizeLinear of the moved
    bytes. Return None if `node` does not move dequantized bytes, or moves the scales to several axes."""
    producer = pattern.producers.get(node.inputs[0]) if TABLE.traits_of(node).moves else None
    if producer is None or producer.operator != "DequantizeLinear":
        return None
    operator = TABLE.find(node, opsets)
    given = pattern.constants(producer.inputs)
    values = {name: value for name in node.inputs[1:] if name and (value := pattern.constant(name)) is not None}
    if operator is None or given is None or len(values) < len({*node.inputs[1:]} - {""}):
        return None
    if given[0].dtype not in BYTES and given[0].dtype.name not in FOUR_BITS:
        return None
    weights, scale, *_ = given
    call, others = call_of(operator, node, values, opsets), [values.get(name) for name in node.inputs[1:]]
    moved = call(weights, *others)
    axis: int | None = 0
    names = [*producer.inputs]
    if scale.size > 1:
        along = producer.attributes.get("axis", 1) % weights.ndim
        index = np.arange(weights.shape[along]).reshape([-1 if i == along else 1 for i in range(weights.ndim)])
        axis = axis_of(call(np.array(np.broadcast_to(index, weights.shape)), *others), weights.shape[along])
        if producer.attributes.get("block_size") and node.kind == "Transpose":
            names[1:] = [
                pattern.constant_named(node, what, np.ascontiguousarray(call(value)))
                for what, value in zip(("scales", "zero points"), given[1:], strict=False)
            ]
        elif producer.attributes.get("block_size") and node.kind != "Identity":
            return None
    if axis is None or moved.size > weights.size:
        return None
    attributes = {**producer.attributes, "axis": axis}
    names[0] = pattern.constant_named(node, "bytes", np.ascontiguousarray(moved))
    return replace(producer, inputs=tuple(names), outputs=node.outputs, attributes=attributes)


def axis_of(places: Array, count: int) -> int | None:
    """Return the only axis along which the numbers change, if they count from 0 to `count` - 1 along it, or None."""
    for axis, size in enumerate(places.shape):
        index = np.arange(count).reshape([-1 if i == axis else 1 for i in range(places.ndim)])
        if size == count and (places == index).all():
            return axis
    return None
