"""A network as plain data, after its ONNX file has been read. This module does not need the package onnx."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
# The name of absent inputs and outputs.
NONE = frozenset({""})


@dataclass(frozen=True)
class Value:
    """The name, dtype and shape of an input or output.

    Parameters
    ----------
    name : str
        The name in the file.
    dtype : numpy.dtype or None
        The dtype of the elements: object for strings, None for sequences and unknown types.
    shape : tuple of int, str or None
        The sizes. A size that may change from call to call is the name of the size, or None if it has no name. `shape`
        is None if the number of dimensions is unknown.
    """

    name: str
    dtype: np.dtype[Any] | None
    shape: tuple[int | str | None, ...] | None

    def __str__(self) -> str:
        """Return type, shape and name in ONNX's own text form, with ? for unknown parts."""
        kind = "?" if self.dtype is None else self.dtype.name
        shape = ["..."] if self.shape is None else ["?" if size is None else str(size) for size in self.shape]
        return f"{kind}{'[' + ', '.join(shape) + ']' if shape else ''} {self.name}"


@dataclass(eq=False)  # a node is equal to itself alone
class Node:
    """An operator, the names of its inputs and outputs ("" for absent ones), and its attributes.

    If a node replaces nodes of the file, `parts` has their names, and `origin` is the name of the node that identified
    the pattern, such as a product. If a node whose operator could be quantized stays float, `reason` says why.
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
    # The operator with its domain, as in the table of operators.
    kind: str = field(init=False)
    known_reads: frozenset[str] | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self.kind = f"{self.domain}.{self.operator}" if self.domain else self.operator

    @property
    def label(self) -> str:
        """The name of the node, or of its first output if the node has no name."""
        return self.name or next((output for output in self.outputs if output), "")

    def __str__(self) -> str:
        return f"node {self.label!r} ({self.kind})"

    def input(self, place: int) -> str:
        """Return the name of an input, "" if it is absent."""
        return self.inputs[place] if place < len(self.inputs) else ""

    def subgraphs(self) -> list[Graph]:
        """Return the graphs among the attributes: branches and bodies."""
        return [value for value in self.attributes.values() if isinstance(value, Graph)]

    @property
    def reads(self) -> frozenset[str]:
        """All tensors that the node needs: its inputs, and the tensors that its subgraphs capture."""
        if self.known_reads is None:  # functools.cached_property takes a lock in Python 3.11
            names = frozenset(self.inputs).union(*[graph.captured() for graph in self.subgraphs()])
            self.known_reads = names - NONE if "" in names else names
        return self.known_reads


@dataclass
class Graph:
    """Nodes, inputs, outputs and constants."""

    name: str
    nodes: list[Node]
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    constants: dict[str, Array]

    def captured(self) -> set[str]:
        """Return the tensors that a subgraph takes from the graph around it."""
        own = {*self.constants, *(value.name for value in self.inputs)}
        own.update(name for node in self.nodes for name in node.outputs)
        needed = {value.name for value in self.outputs}.union(*(node.reads for node in self.nodes))
        return needed - own

    def walk(self) -> Iterator[Node]:
        """Yield all nodes, including the nodes of subgraphs."""
        for node in self.nodes:
            yield node
            for graph in node.subgraphs():
                yield from graph.walk()


@dataclass
class Network:
    """A graph, and the version of each domain's operators."""

    graph: Graph
    opsets: Mapping[str, int]
    # Whether products of floats with stored int8 weights are computed in int8.
    dynamic: bool = False
    # The graph's constants that a caller may replace.
    overridable: tuple[Value, ...] = ()
    # The package that computes the float parts: "own" or "onnxruntime".
    floats: str = "own"
    # The maximum number of threads of a run; None for the default of all calls.
    threads: int | None = None

    def overridden(self, values: Sequence[Value]) -> Network:
        """Return the network with some constants as inputs, after its other inputs."""
        names = {value.name for value in values}
        constants = {name: array for name, array in self.graph.constants.items() if name not in names}
        return replace(self, graph=replace(self.graph, inputs=(*self.graph.inputs, *values), constants=constants))


def ordered(graph: Graph, around: frozenset[str] = frozenset()) -> list[Node]:
    """Sort the nodes so that each node follows the producers of its inputs. Keep the order of the file if it is sorted.
    A subgraph may take the tensors `around` from the graph around it. The error names the nodes if several nodes, or
    none, produce a tensor, or if a tensor depends on itself."""
    made: dict[str, Node | str] = {name: "is an input" for name in (value.name for value in graph.inputs)}
    for name in graph.constants:
        made.setdefault(name, "is a constant")
    for node in graph.nodes:
        for name in node.outputs:
            if name and name in made:
                how = made[name] if isinstance(made[name], str) else f"{made[name]} creates"
                raise ValueError(f"{node} must create new tensors, got {name!r}, which {how}")
            made[name] = node
    for node in graph.nodes:
        missing = node.reads.difference(made, around)  # the operator "-" would copy made.keys()
        if missing:
            raise ValueError(f"{node} must take existing tensors, got {min(missing)!r}")
    for value in graph.outputs:
        if value.name not in made and value.name not in around:
            raise ValueError(f"output {value.name!r} of graph {graph.name!r} must be created by a node, got none")
    return in_order(graph, around)


def in_order(graph: Graph, around: Iterable[str]) -> list[Node]:
    """Sort the nodes so that each node follows the nodes that it needs."""
    ready = {*graph.constants, *(value.name for value in graph.inputs), *around, ""}
    result: list[Node] = []
    waiting = graph.nodes
    while waiting:
        later = []
        for node in waiting:
            if node.reads <= ready:
                result.append(node)
                ready.update(node.outputs)
            else:
                later.append(node)
        if len(later) == len(waiting):
            raise ValueError(f"nodes must not need their own results, got a cycle among {', '.join(map(str, later))}")
        waiting = later
    return result


def needed(nodes: Iterable[Node], outputs: Iterable[Value]) -> list[Node]:
    """Return the nodes on which outputs depend."""
    names = {value.name for value in outputs}
    result = []
    for node in reversed(list(nodes)):
        if names.intersection(node.outputs) - {""}:
            result.append(node)
            names |= node.reads
    return result[::-1]
