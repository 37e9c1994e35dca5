"""Chains of element-wise float32 operators run as one pass over memory. A chain continues as long as each result has
one consumer. Each operator of a chain is a post-op of int8blas, so a chain can also end an int8 product or convolution.

If several nodes compute a function that int8blas has, they are replaced by this function::

    x * Clip(x + 3, 0, 6) / 6, x * HardSigmoid(x)       hardswish
    x * Sigmoid(x)                                      swish

A constant operand of Add, Sub, Mul, Div, Max and Min is one number, or one number for each channel after a
convolution. Numbers are float32, and a chain rounds each step as the node does.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from int8blas.onnx import elementwise
from int8blas.onnx.graph import Array, Graph, Node
from int8blas.onnx.operands import as_operand
from int8blas.onnx.operators import TABLE
from int8blas.onnx.patterns import Pattern
from int8blas.onnx.table import DOMAIN
from int8blas.onnx.types import FLOAT32
from int8blas.stage.attributes import BINARY, Binary, PReLU

SYMMETRIC = {"add", "mul", "max", "min"}
# The first operators of f in x * f(x).
GATES = {"Add", "HardSigmoid", "Sigmoid"}


class Columns(NamedTuple):
    """The channels of a product's result: the number of channels, the minimum number of dimensions of the result, and
    the axis of the channels. By default a constant must be one number for all elements."""

    size: int = 1
    ndim: int = 1
    axis: int = 0


ONE = Columns()


@dataclass
class Chain:
    """The post-ops of a chain in their order, and the last node that they replace. Between a product and these post-ops
    there may be a factor and a summand for each column."""

    last: Node
    ops: list[Any] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)
    factor: Array | None = None
    bias: Array | None = None

    def add(self, ops: list[Any], *nodes: Node) -> bool:
        """Add the post-ops of some nodes. The last node produces the result."""
        self.last = nodes[-1]
        self.nodes.extend(nodes)
        self.ops.extend(ops)
        return True


def extended(pattern: Pattern, chain: Chain, columns: Columns = ONE) -> Chain:
    """Add all nodes that can join the chain after a node's one float32 result. A product passes its columns, so that
    operands with one number for each column join the chain."""
    while step(pattern, chain, columns):
        pass
    return chain


def step(pattern: Pattern, chain: Chain, columns: Columns) -> bool:
    """Add the next node to a chain, if it can join."""
    name = chain.last.outputs[0]
    consumers = pattern.consumers.get(name, [])
    if name in pattern.kept:
        return False
    if len(consumers) == 2:
        return add_gated(pattern, chain, name, consumers) or add_gated(pattern, chain, name, consumers[::-1])
    if len(consumers) != 1:
        return False
    consumer = consumers[0]
    ops = function_of(pattern, consumer) if consumer.inputs[0] == name else None
    if ops is not None:
        return chain.add(ops, consumer)
    operand = constant_operand(pattern, consumer, name, columns)
    return operand is not None and chain.add([binary_op(consumer, operand)], consumer)


def function_of(pattern: Pattern, node: Node) -> list[Any] | None:
    """Return the post-ops of a node with one operand, or None."""
    if node.kind == "Clip":
        limits = pattern.limits_of(node)
        return None if limits is None else [elementwise.post_op("clip", *limits)]
    post_op = TABLE.traits_of(node).post_op
    return None if post_op is None or len(node.inputs) > 1 else post_op(**node.attributes)


def binary_op(node: Node, operand: Array) -> Binary | PReLU:
    """Return the post-op of a node with a constant operand."""
    algorithm = TABLE.traits_of(node).algorithm
    return PReLU(operand) if algorithm == "prelu" else Binary(operand, algorithm)


def constant_operand(pattern: Pattern, node: Node, name: str, columns: Columns = ONE) -> Array | None:
    """Return the constant operand of a binary node in the form that a post-op needs, or None."""
    algorithm = TABLE.traits_of(node).algorithm
    if not algorithm or len(node.inputs) != 2 or node.inputs[0] == node.inputs[1]:
        return None
    if node.inputs[0] != name and algorithm not in SYMMETRIC:
        return None
    value = pattern.real_constant(node.inputs[1] if node.inputs[0] == name else node.inputs[0])
    return None if value is None else as_operand(value, columns.ndim, columns.axis, columns.size)


def add_gated(pattern: Pattern, chain: Chain, name: str, consumers: list[Node]) -> bool:
    """Add x * f(x) to a chain if int8blas has this function. `consumers` are the first node of f and the product."""
    first, product = consumers
    if product.kind != "Mul" or first is product or len(first.outputs) != 1:
        return False
    gate, factor = first, 1.0
    alpha, beta = 1 / 6, 0.5
    if first.kind == "Add" and len(first.inputs) == 2:
        operand = constant_operand(pattern, first, name)
        following = pattern.only_consumer(first, {"Clip"})
        if operand is None or operand.item() != 3 or following is None or pattern.limits_of(following) != (0, 6):
            return False
        gate, factor = following, 6.0
    elif first.kind == "HardSigmoid":
        alpha, beta = first.attributes.get("alpha", 0.2), first.attributes.get("beta", 0.5)
    elif first.kind != "Sigmoid":
        return False
    end = pattern.consumers.get(gate.outputs[0], [])
    if gate.outputs[0] in pattern.kept or end != [product] or set(product.inputs) != {gate.outputs[0], name}:
        return False
    if factor == 1:
        swish = first.kind == "Sigmoid"
        op = elementwise.post_op("swish", 1.0) if swish else elementwise.post_op("hardswish", alpha, beta)
        return chain.add([op], first, product)
    divided = pattern.only_consumer(product, {"Div", "Mul"})
    divisor = None if divided is None else constant_operand(pattern, divided, product.outputs[0])
    if divided is None or divisor is None:
        return False
    if not math.isclose(divisor.item(), factor if divided.kind == "Div" else 1 / factor, rel_tol=1e-6):
        return False
    return chain.add([elementwise.post_op("hardswish")], first, gate, product, divided)


def float32_tensors(graph: Graph) -> set[str]:
    """Return the tensors that are known to be float32."""
    known = {value.name for value in graph.inputs if value.dtype == np.float32}
    known.update(name for name, value in graph.constants.items() if value.dtype == np.float32)
    for node in graph.nodes:
        if makes_float32(node, known):
            typed = node.outputs[: TABLE.traits_of(node).typed_results]
            known.update(node.outputs[1:2] if node.kind == "DynamicQuantizeLinear" else typed)
    return known


def makes_float32(node: Node, known: set[str]) -> bool:
    """Return whether a node's results of real numbers are float32, given the known float32 tensors."""
    if node.kind == "Cast":
        return bool(node.attributes.get("to") == FLOAT32)
    if node.kind == "Constant":
        return getattr(node.attributes.get("value"), "dtype", None) == np.float32
    if node.attributes.get("output_dtype", FLOAT32) not in (0, FLOAT32):
        return False
    at = TABLE.traits_of(node).typed_by
    return node.kind == "DynamicQuantizeLinear" or (
        at is not None and at < len(node.inputs) and node.inputs[at] in known
    )


def lookup_tensors(graph: Graph) -> set[str]:
    """Return the tensors that lookup tables compute with the nodes' bits: each element depends on one int8 element."""
    found: set[str] = set()
    for node in graph.nodes:
        traits = TABLE.traits_of(node)
        if traits.zero_points or (traits.elementwise and found.intersection(node.inputs)):
            found.update(node.outputs)
    return found


def chains_of(graph: Graph) -> Callable[[Pattern, Node], Node | None]:
    """Return the rewrite of chains of at least two element-wise nodes to one node, for a graph with sorted nodes."""
    known = float32_tensors(graph) - lookup_tensors(graph)
    return lambda pattern, node: chain_from(pattern, node, known)


def chain_from(pattern: Pattern, node: Node, known: set[str]) -> Node | None:
    """Return the node that replaces the chain that begins with a node. Return None if the chain has one node."""
    if len(node.outputs) != 1 or known.isdisjoint(node.inputs):
        return None
    source, gated = gated_chain(pattern, node, known)
    first: str | None = None
    if gated is not None:
        nodes, ops, last = gated.nodes, gated.ops, gated.last
    else:
        source, own = source_of_chain(pattern, node, known)
        first = None if own is not None else pair_of(pattern, node, known)
        behind = extended(pattern, Chain(node))
        if (own is None and first is None) or not behind.nodes:
            return None
        nodes, ops, last = [node, *behind.nodes], [*(own or []), *behind.ops], behind.last
    # A constant with more dimensions than the source adds leading dimensions of 1 to the result.
    values = [pattern.constant(name) for each in nodes for name in each.inputs]
    attributes = {"ops": ops, "ndim": max((value.ndim for value in values if value is not None), default=0)}
    if first is None:
        return Node("Chain", DOMAIN, (source,), last.outputs, attributes, node.name)
    return Node("ChainOfTwo", DOMAIN, node.inputs, last.outputs, attributes | {"first": first}, node.name)


def gated_chain(pattern: Pattern, node: Node, known: set[str]) -> tuple[str, Chain | None]:
    """Return the float32 tensor x and the chain that begins with x * f(x), if a node is the first node of f. Other
    nodes may read x too."""
    for name in node.inputs if node.kind in GATES else ():
        for product in pattern.consumers.get(name, []) if name in known else []:
            chain = Chain(node)
            if product.kind == "Mul" and add_gated(pattern, chain, name, [node, product]):
                return name, extended(pattern, chain)
    return "", None


def source_of_chain(pattern: Pattern, node: Node, known: set[str]) -> tuple[str, list[Any] | None]:
    """Return the float32 source of a node that can begin a chain, and the node's post-ops. The post-ops are None if the
    node cannot be a post-op of its source."""
    for name in node.inputs:
        if name not in known or pattern.constant(name) is not None:
            continue
        ops = function_of(pattern, node) if node.inputs[0] == name else None
        if ops is None:
            operand = constant_operand(pattern, node, name)
            ops = None if operand is None else [binary_op(node, operand)]
        return name, ops
    return "", None


def pair_of(pattern: Pattern, node: Node, known: set[str]) -> str | None:
    """Return the binary post-op of a node with two variable float32 operands, or None."""
    both = len(node.inputs) == 2 and node.inputs[0] != node.inputs[1] and known.issuperset(node.inputs)
    variable = both and not any(pattern.constant(name) is not None for name in node.inputs)
    algorithm = TABLE.traits_of(node).algorithm
    return algorithm if variable and algorithm in BINARY else None
