"""Operators that move no element in memory: any number of them in a row becomes one view of their source::

    Reshape, Unsqueeze, Transpose, Squeeze, Gather of one index     q, k or v of a joint projection, by heads
    Expand, Reshape                                                 one mask for all heads

NumPy finds the view once for each shape; later calls create it directly. If the last operator must copy, it copies.
Such operators behind a DequantizeLinear move its int8 source instead: it has fewer bytes, and a table replaces the
nodes if the result is quantized again.
"""

from __future__ import annotations

from dataclasses import replace

from int8blas.onnx.graph import Graph, Node, needed
from int8blas.onnx.operators import TABLE
from int8blas.onnx.patterns import Pattern
from int8blas.onnx.shape import MOST_INPUTS, VIEWS
from int8blas.onnx.table import DOMAIN, attributes_of


def moved_graph(graph: Graph) -> Graph:
    """Move operators that copy no element from behind a DequantizeLinear with one scale to before it, if all consumers
    of its result are such operators, use its shape alone, or are QuantizeLinear. The nodes of the graph are in order.
    """
    pattern = Pattern.of(graph)
    nodes: list[Node] = []
    for node in graph.nodes:
        known = TABLE.traits_of(node).of_shape or is_move(pattern, node)
        producer = pattern.producers.get(node.inputs[0]) if known else None
        if producer is None or not moves_alone(pattern, producer):
            nodes.append(node)
            continue
        if TABLE.traits_of(node).of_shape:
            nodes.append(replace(node, inputs=(producer.inputs[0],)))
            continue
        name = f"{node.outputs[0]} in bytes of int8blas"
        before = replace(node, inputs=(producer.inputs[0], *node.inputs[1:]), outputs=(name,))
        behind = replace(producer, inputs=(name, *producer.inputs[1:]), outputs=node.outputs)
        pattern.producers |= {name: before, node.outputs[0]: behind}
        nodes += before, behind
    return replace(graph, nodes=needed(nodes, graph.outputs))


def moves_alone(pattern: Pattern, node: Node) -> bool:
    """Return whether a node dequantizes by one scale, only for operators that move its result, use its shape, or
    quantize it."""
    name = node.outputs[0]
    found = pattern.dequantized(name)
    if found is None or found.axis is not None or name in pattern.kept:
        return False
    return all(
        (consumer.operator == "QuantizeLinear" or TABLE.traits_of(consumer).of_shape or is_move(pattern, consumer))
        and consumer.inputs.index(name) == 0
        for consumer in pattern.consumers[name]
    )


def viewed_graph(graph: Graph) -> Graph:
    """Replace two or more operators in a row that copy no element by one node. The nodes of the graph are in
    order."""
    pattern = Pattern.of(graph)
    nodes = [view_up_to(pattern, node) or node for node in graph.nodes]
    return replace(graph, nodes=needed(nodes, graph.outputs))


def view_up_to(pattern: Pattern, node: Node) -> Node | None:
    """Return the view that a node ends, or None. The graph's own outputs stay separate arrays."""
    if not is_move(pattern, node) or node.outputs[0] in pattern.kept:
        return None
    consumers = pattern.consumers.get(node.outputs[0], [])
    if all(is_move(pattern, consumer) and consumer.inputs[0] == node.outputs[0] for consumer in consumers):
        return None
    moves, inputs = [node], [*node.inputs[1:]]
    producer = pattern.producers.get(node.inputs[0])
    while producer is not None and is_move(pattern, producer) and len(inputs) + len(producer.inputs) <= MOST_INPUTS:
        moves.insert(0, producer)
        inputs = [*producer.inputs[1:], *inputs]
        producer = pattern.producers.get(producer.inputs[0])
    if len(moves) == 1:
        return None
    parts = tuple(part for move in moves for part in move.parts or (move.label,))
    return Node("View", DOMAIN, (moves[0].inputs[0], *inputs), node.outputs, {"moves": moves}, node.name, parts)


def is_move(pattern: Pattern, node: Node) -> bool:
    """Return whether a node copies no element."""
    if not TABLE.traits_of(node).view or len(node.outputs) != 1:
        return False
    if not node.attributes.keys() <= attributes_of(VIEWS[node.kind]):
        return False
    if node.kind != "Gather":
        return True
    index = pattern.constant(node.inputs[1])
    return index is not None and index.ndim == 0
