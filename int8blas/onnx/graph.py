"""A network as plain data: what is left of an ONNX file once it has been read. Nothing here needs the package onnx."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Value:
    """A tensor that goes in or comes out: its name, its dtype and its shape.

    Parameters
    ----------
    name : str
        As the file has it.
    dtype : numpy.dtype or None
        Of its elements; of dtype object for strings; None for sequences and where the file does not say.
    shape : tuple of int, str or None
        A size, the name of one that may change from call to call, or None for one without a name. None instead of the
        tuple where the file does not say how many dimensions there are.
    """

    name: str
    dtype: np.dtype[Any] | None
    shape: tuple[int | str | None, ...] | None

    def __str__(self) -> str:
        """Type, shape and name, in ONNX's own text form; ? where the file does not say."""
        kind = "?" if self.dtype is None else self.dtype.name
        shape = ["..."] if self.shape is None else ["?" if size is None else str(size) for size in self.shape]
        return f"{kind}{'[' + ', '.join(shape) + ']' if shape else ''} {self.name}"


@dataclass
class Node:
    """One node: an operator, the names of what it takes and gives ("" for what is left out), and its attributes.

    One that takes the place of nodes of the file has their names in `parts`, and in `origin` the name of the one that
    the pattern was found by, such as a product. One that is no part of a pattern of bytes, though its operator could
    be, says in `reason` why not.
    """

    operator: str
    domain: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: dict[str, Any] = field(default_factory=dict)
    name: str = ""
    parts: tuple[str, ...] = ()
    reason: str = ""
    origin: str = ""

    @property
    def label(self) -> str:
        """Its name, or that of its first result."""
        return self.name or next((output for output in self.outputs if output), "")

    @property
    def kind(self) -> str:
        """The operator with its domain, as the table of operators has it."""
        return f"{self.domain}.{self.operator}" if self.domain else self.operator

    def __str__(self) -> str:
        return f"node {self.label!r} ({self.kind})"

    def subgraphs(self) -> Iterator[Graph]:
        """The graphs among the attributes: branches and bodies."""
        for value in self.attributes.values():
            if isinstance(value, Graph):
                yield value

    def reads(self) -> set[str]:
        """All tensors that the node needs: its inputs, and what its subgraphs take from around them."""
        names = {*self.inputs} - {""}
        for graph in self.subgraphs():
            names |= graph.captured()
        return names


@dataclass
class Graph:
    """Nodes, the tensors that go in and come out, and those that are constant."""

    name: str
    nodes: list[Node]
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    constants: dict[str, Array]

    def captured(self) -> set[str]:
        """The tensors that a subgraph takes from around it."""
        own = {*self.constants, *(value.name for value in self.inputs)}
        own.update(name for node in self.nodes for name in node.outputs)
        needed = {value.name for value in self.outputs}.union(*(node.reads() for node in self.nodes))
        return needed - own

    def walk(self) -> Iterator[Node]:
        """All nodes, those of subgraphs too."""
        for node in self.nodes:
            yield node
            for graph in node.subgraphs():
                yield from graph.walk()


@dataclass
class Network:
    """A graph, and the version of the operators of each domain that its nodes are written in.

    Parameters
    ----------
    dynamic : bool, optional
        Whether products of real numbers with weights that are stored in 8 bits are computed in 8 bits.
    overridable : tuple of Value, optional
        The constants of the graph that a caller may replace.
    """

    graph: Graph
    opsets: Mapping[str, int]
    dynamic: bool = False
    overridable: tuple[Value, ...] = ()

    def overridden(self, values: Sequence[Value]) -> Network:
        """Return the network with inputs, behind the others, in place of these constants."""
        names = {value.name for value in values}
        constants = {name: array for name, array in self.graph.constants.items() if name not in names}
        return replace(self, graph=replace(self.graph, inputs=(*self.graph.inputs, *values), constants=constants))


def ordered(graph: Graph, around: frozenset[str] = frozenset()) -> list[Node]:
    """The nodes in an order in which they can be computed; the file's own where that is one.

    Parameters
    ----------
    graph : Graph
        The graph.
    around : frozenset of str, optional
        The tensors that a subgraph can take from around it.

    Raises
    ------
    ValueError
        If a tensor is made twice, or never, or from itself. The error names the nodes.
    """
    made = {name: "is an input" for name in (value.name for value in graph.inputs)}
    for name in graph.constants:
        made.setdefault(name, "is a constant")
    for node in graph.nodes:
        for name in node.outputs:
            if name and name in made:
                raise ValueError(f"{node} must make tensors that are new, got {name!r}, which {made[name]}")
            made[name] = f"{node} makes"
    for node in graph.nodes:
        for name in sorted(node.reads()):
            if name not in made and name not in around:
                raise ValueError(f"{node} must take tensors that there are, got {name!r}")
    for value in graph.outputs:
        if value.name not in made and value.name not in around:
            raise ValueError(f"output {value.name!r} of graph {graph.name!r} must be made by a node, got none")
    return _sorted(graph, around)


def _sorted(graph: Graph, around: frozenset[str]) -> list[Node]:
    """The nodes, each behind those that it needs."""
    ready = {*graph.constants, *(value.name for value in graph.inputs), *around, ""}
    result: list[Node] = []
    waiting = graph.nodes
    while waiting:
        later = []
        for node in waiting:
            if node.reads() <= ready:
                result.append(node)
                ready.update(node.outputs)
            else:
                later.append(node)
        if len(later) == len(waiting):
            raise ValueError(f"nodes must not need their own results, got a cycle among {', '.join(map(str, later))}")
        waiting = later
    return result


def needed(nodes: Iterable[Node], outputs: Iterable[Value]) -> list[Node]:
    """The nodes that outputs depend on."""
    names = {value.name for value in outputs}
    result = []
    for node in reversed(list(nodes)):
        if names.intersection(node.outputs) - {""}:
            result.append(node)
            names |= node.reads()
    return result[::-1]
