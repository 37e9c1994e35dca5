"""Compute the float parts of a network in onnxruntime, for ``load(..., floats="onnxruntime")``.

An island is a set of nodes of the file. No path leaves an island and comes back, so one call of an onnxruntime session
can compute the island. Nodes that take or return 8-bit integers, or multiply in int8, belong to no island. An island
has a heavy operator or at least FEWEST operators, because the call of a session takes as long as several small
operators. A network without products of 8-bit integers is one island.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from int8blas.onnx.explain import is_int8
from int8blas.onnx.fusion import fused
from int8blas.onnx.graph import Graph, Network, Node, Value, in_order, needed, ordered
from int8blas.onnx.operators import TABLE
from int8blas.onnx.patterns import Pattern
from int8blas.onnx.sessions import Island
from int8blas.onnx.table import DOMAIN

# A call of a session takes 10 to 20 us, and an operator of a plan takes 1 to 2 us (Zen 4).
FEWEST = 10


def with_islands(network: Network) -> Network:
    """Replace the islands of a network by one node each."""
    graph = network.graph
    nodes = needed(ordered(graph), graph.outputs)
    graph = replace(graph, nodes=nodes)
    # Skip the rewrite of quantized parts if the file has none. Most float files have none.
    quantized = network.dynamic or any(map(is_int8, graph.walk()))
    calls = fused(replace(network, graph=graph)).graph.nodes if quantized else []
    inside = [call for call in calls if any(map(is_int8, walked(call)))]
    if not any(TABLE.traits_of(node).factors for call in inside for node in walked(call)):
        groups, derived = [nodes] if nodes else [], set()
    else:
        derived = derived_tensors(graph, network.opsets)
        int8_labels = {part for call in inside for part in (call.parts or (call.label,))}
        groups = [group for group in grouped(graph, int8_labels, derived) if is_worth_it(group, network.opsets)]
    if not groups:
        return network
    types = Pattern.of(graph)
    island_of = {id(node): i for i, group in enumerate(groups) for node in group}
    made = [island_node(graph, group, types, network.opsets, derived) for group in groups]
    kept = [node for node in nodes if id(node) not in island_of]
    graph = replace(graph, nodes=[*kept, *made])
    return replace(network, graph=replace(graph, nodes=in_order(graph, ())), opsets={**network.opsets, DOMAIN: 1})


def walked(node: Node) -> list[Node]:
    """Return a node and all nodes of its subgraphs."""
    return [node, *(inner for graph in node.subgraphs() for inner in graph.walk())]


def derived_tensors(graph: Graph, opsets: Mapping[str, int]) -> set[str]:
    """Return the tensors that depend on constants alone. An island computes the tensors of constants that it needs."""
    known = {*graph.constants, ""}
    for node in graph.nodes:
        operator = TABLE.find(node, opsets)
        if operator is not None and operator.pure and not operator.control and known.issuperset(node.inputs):
            known.update(node.outputs)
    return known - graph.constants.keys() - {""}


def grouped(graph: Graph, int8_labels: set[str], derived: set[str]) -> list[list[Node]]:
    """Return the connected sets of nodes whose labels are not in `int8_labels`. No path leaves a set and enters it
    again. Nodes that make tensors of `derived` belong to no set.

    Nodes are of two kinds: with a label in `int8_labels`, and with another label. The level of a node is the largest
    number of changes of kind along a path that leads to the node. A path that leaves the nodes of one level and kind
    never returns to these nodes."""
    bound = [node for node in graph.nodes if derived.isdisjoint(node.outputs)]
    producers = {name: node for node in bound for name in node.outputs if name}
    levels: dict[int, int] = {}
    groups: dict[int, list[Node]] = {}
    for node in bound:
        level, outside = 0, node.label in int8_labels
        before = [producers[name] for name in sorted(node.reads) if name in producers]
        for each in before:
            level = max(level, levels[id(each)] + ((each.label in int8_labels) != outside))
        levels[id(node)] = level
        if outside:
            continue
        joined = [groups[id(each)] for each in before if each.label not in int8_labels and levels[id(each)] == level]
        group = [node]
        for other in {id(each): each for each in joined}.values():
            group = [*other, *group] if len(other) < len(group) else other + group
        for each in group:
            groups[id(each)] = group
    return list({id(group): group for group in groups.values()}.values())


def is_worth_it(group: Sequence[Node], opsets: Mapping[str, int]) -> bool:
    """Return whether a set of nodes has a heavy operator, an operator that int8blas lacks, or enough operators."""
    heavy = any(TABLE.traits_of(node).heavy or TABLE.find(node, opsets) is None for node in group)
    return heavy or sum(node.operator != "Constant" and not TABLE.traits_of(node).view for node in group) >= FEWEST


def island_node(
    graph: Graph, group: Sequence[Node], types: Pattern, opsets: Mapping[str, int], derived: set[str]
) -> Node:
    """Return the node that replaces an island, and the nodes that compute tensors of `derived` for the island."""
    inside = {id(node) for node in group}
    wanted = set().union(*(node.reads for node in group))
    for node in reversed(graph.nodes):
        if not derived.isdisjoint(node.outputs) and not wanted.isdisjoint(node.outputs):
            inside.add(id(node))
            wanted |= node.reads
    nodes = [node for node in graph.nodes if id(node) in inside]
    made = {name for node in nodes for name in node.outputs if name}
    read = {name for node in nodes for name in node.reads} - made
    inputs = sorted(read - graph.constants.keys())
    grouped_here = {id(node) for node in group}
    used = {value.name for value in graph.outputs}
    used = used.union(*(node.reads for node in graph.nodes if id(node) not in grouped_here))
    outputs = sorted({name for node in group for name in node.outputs if name} & used)
    constants = {name: graph.constants[name] for name in sorted(read & graph.constants.keys())}
    ports = {value.name: value for value in graph.inputs}  # with shapes, onnxruntime finds a better order in memory
    before, after = (
        tuple(ports.get(name) or Value(name, types.type_of(name), None) for name in names)
        for names in (inputs, outputs)
    )
    island = Island(Graph("island", nodes, before, after, constants), opsets)
    parts = tuple(node.label for node in nodes if node.operator != "Constant")
    return Node("Onnxruntime", DOMAIN, tuple(inputs), tuple(outputs), {"island": island}, parts[0] if parts else "",
                parts)  # fmt: skip
