"""Operators that move no element of memory: however many follow one another, they are one view of what comes before
them::

    Reshape, Unsqueeze, Transpose, Squeeze, Gather of one index     a third of q, k and v side by side, by its heads
    Expand, Reshape                                                 a mask, the same for all heads

NumPy finds the view once for a shape; from then on it is made at once. Where the last of them has to copy, it does.
Behind DequantizeLinear they move its bytes instead: there are fewer of these, and what is quantized again is a table.
"""

from __future__ import annotations

from dataclasses import replace

from int8blas.onnx.graph import Graph, Node, needed
from int8blas.onnx.operators import TABLE
from int8blas.onnx.patterns import Pattern
from int8blas.onnx.shape import MOST_INPUTS, VIEWS
from int8blas.onnx.table import DOMAIN, attributes_of


def moved_graph(graph: Graph) -> Graph:
    """A graph, whose nodes are in order, with operators that move no element before a DequantizeLinear by one scale,
    if all that takes its result are such operators, or need its shape alone, or are QuantizeLinear."""
    pattern = Pattern.of(graph)
    nodes: list[Node] = []
    for node in graph.nodes:
        known = TABLE.traits_of(node).of_shape or is_move(pattern, node)
        maker = pattern.makers.get(node.inputs[0]) if known else None
        if maker is None or not moves_alone(pattern, maker):
            nodes.append(node)
            continue
        if TABLE.traits_of(node).of_shape:
            nodes.append(replace(node, inputs=(maker.inputs[0],)))
            continue
        name = f"{node.outputs[0]} in bytes of int8blas"
        before = replace(node, inputs=(maker.inputs[0], *node.inputs[1:]), outputs=(name,))
        behind = replace(maker, inputs=(name, *maker.inputs[1:]), outputs=node.outputs)
        pattern.makers |= {name: before, node.outputs[0]: behind}
        nodes += before, behind
    return replace(graph, nodes=needed(nodes, graph.outputs))


def moves_alone(pattern: Pattern, node: Node) -> bool:
    """Whether a node dequantizes by one scale, for operators alone that move its result or quantize it again."""
    name = node.outputs[0]
    found = pattern.dequantized(name)
    scale = None if found is None else pattern.constant(found.scale)
    if scale is None or scale.size != 1 or name in pattern.kept:
        return False
    return all(
        (taker.operator == "QuantizeLinear" or TABLE.traits_of(taker).of_shape or is_move(pattern, taker))
        and taker.inputs.index(name) == 0
        for taker in pattern.takers[name]
    )


def viewed_graph(graph: Graph) -> Graph:
    """A graph, whose nodes are in order, with one node in place of at least two that move no element."""
    pattern = Pattern.of(graph)
    nodes = [view_up_to(pattern, node) or node for node in graph.nodes]
    return replace(graph, nodes=needed(nodes, graph.outputs))


def view_up_to(pattern: Pattern, node: Node) -> Node | None:
    """The view that a node ends; None if it ends none. The graph's own results stay what they are."""
    if not is_move(pattern, node) or node.outputs[0] in pattern.kept:
        return None
    takers = pattern.takers.get(node.outputs[0], [])
    if all(is_move(pattern, taker) and taker.inputs[0] == node.outputs[0] for taker in takers):
        return None
    moves, inputs = [node], [*node.inputs[1:]]
    maker = pattern.makers.get(node.inputs[0])
    while maker is not None and is_move(pattern, maker) and len(inputs) + len(maker.inputs) <= MOST_INPUTS:
        moves.insert(0, maker)
        inputs = [*maker.inputs[1:], *inputs]
        maker = pattern.makers.get(maker.inputs[0])
    if len(moves) == 1:
        return None
    parts = tuple(part for move in moves for part in move.parts or (move.label,))
    return Node("View", DOMAIN, (moves[0].inputs[0], *inputs), node.outputs, {"moves": moves}, node.name, parts)


def is_move(pattern: Pattern, node: Node) -> bool:
    """Whether a node moves no element of memory."""
    if not TABLE.traits_of(node).view or len(node.outputs) != 1:
        return False
    if not node.attributes.keys() <= attributes_of(VIEWS[node.kind]):
        return False
    if node.kind != "Gather":
        return True
    index = pattern.constant(node.inputs[1])
    return index is not None and index.ndim == 0
