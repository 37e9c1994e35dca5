"""A network as plain values, for files of :func:`int8blas.save` and for pickles."""

from __future__ import annotations

from typing import Any

import numpy as np

from int8blas.core.arrays import bfloat16_dtype
from int8blas.onnx.graph import Graph, Network, Node, Value


def plain(network: Network) -> dict[str, Any]:
    """Return the network as dicts, lists, arrays, numbers and strings."""
    overridable = [plain_port(value) for value in network.overridable]
    return {
        "opsets": dict(network.opsets), "graph": plain_graph(network.graph), "dynamic": network.dynamic,
        "overridable": overridable, "floats": network.floats, "threads": network.threads or 0,
    }  # fmt: skip


def plain_graph(graph: Graph) -> dict[str, Any]:
    return {
        "name": graph.name,
        "nodes": [plain_node(node) for node in graph.nodes],
        "inputs": [plain_port(value) for value in graph.inputs],
        "outputs": [plain_port(value) for value in graph.outputs],
        "constants": {name: np.asarray(value) for name, value in graph.constants.items()},
    }


def plain_node(node: Node) -> list[Any]:
    attributes = {
        name: plain_graph(value) if isinstance(value, Graph) else value for name, value in node.attributes.items()
    }
    return [node.operator, node.domain, list(node.inputs), list(node.outputs), attributes, node.name]


def plain_port(value: Value) -> list[Any]:
    dtype = None if value.dtype is None else value.dtype.name
    return [value.name, dtype, None if value.shape is None else list(value.shape)]


def network_of(values: Any) -> Network:
    """Return the network of plain values, after a check that they are a network."""
    try:
        opsets = {str(domain): int(version) for domain, version in values["opsets"].items()}
        # Older files lack "overridable", "floats" and "threads".
        overridable = tuple(port_of(*each) for each in values.get("overridable", ()))
        return Network(graph_of(values["graph"]), opsets, bool(values.get("dynamic", False)), overridable,
                       str(values.get("floats", "own")), int(values.get("threads", 0)) or None)  # fmt: skip
    except (AttributeError, KeyError, IndexError, TypeError) as error:
        raise ValueError(f"network must be the stored values of a network, got others: {error}") from None


def restored(value: Any) -> Any:
    """Return a value of a graph. The dtypes of unpickled and mapped arrays are not NumPy's own dtype objects. Fast
    paths recognize only NumPy's objects, so return a view with NumPy's dtype."""
    if isinstance(value, dict):
        return graph_of(value)
    usual = np.dtype(value.dtype.type) if isinstance(value, np.ndarray) else None
    return np.asarray(value).view(usual) if usual is not None and value.dtype == usual else value


def graph_of(values: Any) -> Graph:
    constants = {str(name): restored(np.asarray(value)) for name, value in values["constants"].items()}
    nodes = [node_of(*each) for each in values["nodes"]]
    inputs, outputs = (tuple(port_of(*each) for each in values[name]) for name in ("inputs", "outputs"))
    return Graph(str(values["name"]), nodes, inputs, outputs, constants)


def node_of(operator: str, domain: str, inputs: Any, outputs: Any, attributes: Any, name: str) -> Node:
    held = {str(key): restored(value) for key, value in attributes.items()}
    return Node(str(operator), str(domain), tuple(map(str, inputs)), tuple(map(str, outputs)), held, str(name))


def port_of(name: str, dtype: str | None, shape: Any) -> Value:
    kind = None if dtype is None else np.dtype(bfloat16_dtype() if dtype == "bfloat16" else dtype)
    return Value(str(name), kind, None if shape is None else tuple(shape))
