"""Replace successive operators that move no element in memory by one view of their source.

Reshape, Unsqueeze, Transpose, Squeeze and Gather of one index select q, k or v of a joint projection, by heads. Expand
and Reshape give all heads one mask.

NumPy finds the view once for each shape, and later calls create the view directly. The last operator may also copy. If
operators that move elements follow a DequantizeLinear, they are put before it and move its int8 source, which has fewer
bytes. A table then replaces the nodes if the result is quantized again.
"""

from __future__ import annotations

from dataclasses import replace

from int8blas.onnx.graph import Node, needed
from int8blas.onnx.integer import positive_finite
from int8blas.onnx.operators import TABLE
from int8blas.onnx.patterns import Pattern, Quantized
from int8blas.onnx.shape import MOST_INPUTS, VIEWS
from int8blas.onnx.table import DOMAIN, attributes_of

# The operators that change the shape, but not the order of elements.
UNMOVED = {kind for kind, traits in TABLE.traits.items() if traits.reshapes}


def moved_pattern(pattern: Pattern) -> Pattern:
    """Exchange a DequantizeLinear with one positive scale and the operator after it, if the operator only moves,
    chooses or pads elements. All consumers of the dequantized tensor must move, choose or pad elements, use only the
    shape, or be QuantizeLinear. The nodes must be sorted, each node after the nodes that it needs."""
    nodes: list[Node] = []
    for node in pattern.graph.nodes:
        traits = TABLE.traits_of(node)
        known = traits.of_shape or keeps_bytes(pattern, node)
        source = quantized_source(pattern, node.inputs[0]) if known else None
        if source is None:
            nodes.append(node)
            continue
        producer = pattern.producers[node.inputs[0]]
        if traits.of_shape:
            nodes.append(replace(node, inputs=(source.name,)))
            continue
        names = tuple(name and f"{name} in bytes of int8blas" for name in node.outputs)
        inputs = (source.name, *node.inputs[1:])
        at = traits.filled_by
        if at is not None and len(inputs) > 1:
            inputs = (*inputs[:at], pattern.zero_name(source), *inputs[at + 1 :])
        nodes.append(replace(node, inputs=inputs, outputs=names))
        for name, result in zip(names, node.outputs, strict=True):
            if name:
                behind = replace(producer, inputs=(name, *producer.inputs[1:]), outputs=(result,))
                pattern.producers |= {name: nodes[-1], result: behind}
                nodes.append(behind)
    return pattern.of_nodes(needed(nodes, pattern.graph.outputs))


def quantized_source(pattern: Pattern, name: str) -> Quantized | None:
    """Return the quantized source of a tensor with one positive scale, if no consumer computes with the numbers.

    A consumer may move or choose elements (a positive scale keeps the order of numbers), use the shape, or quantize."""
    found = pattern.dequantized(name)
    if found is None or not positive_finite(found.factor) or found.axis is not None or name in pattern.kept:
        return None
    alone = all(
        (consumer.operator == "QuantizeLinear" or TABLE.traits_of(consumer).of_shape or keeps_bytes(pattern, consumer))
        and consumer.inputs.index(name) == 0
        for consumer in pattern.consumers[name]
    )
    return found if alone else None


def keeps_bytes(pattern: Pattern, node: Node) -> bool:
    """Return whether a node's results consist of elements of its first input, or of zeros."""
    traits = TABLE.traits_of(node)
    if is_move(pattern, node):
        return True
    if traits.chooses is not None and len(node.outputs) <= traits.typed_results and traits.chooses(**node.attributes):
        return True
    if traits.filled_by is None or len(node.inputs) == 1:  # an old Pad has its number as an attribute
        return False
    name = node.input(traits.filled_by)
    number = next((x for x in (pattern.constant(name), pattern.real_constant(name)) if x is not None), None)
    return not name or (number is not None and not number.any())


def view_up_to(pattern: Pattern, node: Node) -> Node | None:
    """Return the node that replaces two or more successive operators that copy no element, up to the given node, or
    None. The outputs of the graph stay separate arrays."""
    if not is_move(pattern, node) or node.outputs[0] in pattern.kept:
        return None
    consumers = pattern.consumers.get(node.outputs[0], [])
    moved_on = all(is_move(pattern, consumer) and consumer.inputs[0] == node.outputs[0] for consumer in consumers)
    if moved_on and not is_shared_copy(pattern, node):
        return None
    moves, inputs = [node], [*node.inputs[1:]]
    producer = pattern.producers.get(node.inputs[0])
    while producer is not None and is_move(pattern, producer) and len(inputs) + len(producer.inputs) <= MOST_INPUTS:
        if is_shared_copy(pattern, producer):
            break
        moves.insert(0, producer)
        inputs = [*producer.inputs[1:], *inputs]
        producer = pattern.producers.get(producer.inputs[0])
    if len(moves) == 1:
        return None
    attributes = {"moves": moves, "reshapes": TABLE.traits_of(node).reshapes}
    return Node("View", DOMAIN, (moves[0].inputs[0], *inputs), node.outputs, attributes, node.name)


def is_shared_copy(pattern: Pattern, node: Node) -> bool:
    """Return whether several nodes take a result that may be a copy: the result of a Reshape or Flatten after an
    operator that changes the order of elements. A separate view for each node that takes the result would copy the
    elements again."""
    producer = pattern.producers.get(node.inputs[0])
    several = node.kind in ("Reshape", "Flatten") and len(pattern.consumers.get(node.outputs[0], [])) > 1
    return several and producer is not None and is_move(pattern, producer) and producer.kind not in UNMOVED


def is_move(pattern: Pattern, node: Node) -> bool:
    """Return whether a node copies no element."""
    if not TABLE.traits_of(node).view or len(node.outputs) != 1:
        return False
    if not node.attributes.keys() <= attributes_of(VIEWS[node.kind]).keys():
        return False
    if node.kind != "Gather":
        return True
    index = pattern.constant(node.inputs[1])
    return index is not None and index.ndim == 0
