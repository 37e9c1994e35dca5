"""Compute the sets of nodes that :mod:`islands` chooses in sessions of onnxruntime."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any

import numpy as np

from int8blas.core.threads import num_threads
from int8blas.onnx.graph import Array, Graph
from int8blas.onnx.table import DOMAIN, Operator, Site

# The session's model includes smaller constants, because onnxruntime may need their values. The session reads larger
# constants from the network's own memory.
SHARED_BYTES = 1 << 12


@dataclass(frozen=True)
class Island:
    """The nodes of an island as a graph, with the network's constants, and the versions of the operators."""

    graph: Graph
    opsets: Mapping[str, int]


def run_island(site: Site, *, island: Island) -> Callable[..., Any]:
    """Return the function that runs an island. Create its session now if all types are known, or in the first call."""
    names = [value.name for value in island.graph.inputs]
    outputs = [value.name for value in island.graph.outputs]
    sessions: dict[tuple[Any, ...], Any] = {}
    lock = threading.Lock()

    def session_of(types: tuple[Any, ...]) -> Any:
        with lock:
            if types not in sessions:
                sessions[types] = session(island, types)
            return sessions[types]

    known = tuple(value.dtype for value in island.graph.inputs)
    if None not in known:
        session_of(known)

    def call(*arrays: Array) -> Any:
        types = tuple([getattr(array, "dtype", None) for array in arrays])
        made = sessions.get(types) or session_of(types)
        feeds = {name: np.asarray(array, order="C") for name, array in zip(names, arrays, strict=True)}
        results = made.run(outputs, feeds)
        return results[0] if len(results) == 1 else tuple(results)

    return call


def session(island: Island, types: Sequence[Any]) -> Any:
    """Return the session of an island whose inputs have these types. onnxruntime may refuse the island, for example
    because it lacks one of the island's operators."""
    try:
        onnxruntime, onnx = import_module("onnxruntime"), import_module("onnx")
    except ImportError as error:
        raise ImportError("floats='onnxruntime' needs the packages onnxruntime and onnx: "
                          "pip install onnxruntime 'int8blas[onnx]'") from error  # fmt: skip
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = num_threads()
    # Keep QuantizeLinear and DequantizeLinear unchanged: otherwise onnxruntime quantizes the operators between them.
    options.add_session_config_entry("session.disable_quant_qdq", "1")
    # Between two islands, int8blas's threads need the CPUs.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    graph = island.graph
    ports = tuple(replace(value, dtype=dtype) for value, dtype in zip(graph.inputs, types, strict=True))
    shared = {name: np.asarray(array, order="C") for name, array in graph.constants.items()
              if array.nbytes >= SHARED_BYTES and array.dtype.kind in "fiu"}  # fmt: skip
    model = onnx.ModelProto(ir_version=10)
    for domain, version in island.opsets.items():
        if domain != DOMAIN:
            model.opset_import.add(domain=domain, version=version)
    write_graph(onnx, replace(graph, inputs=ports), shared, model.graph)
    values = [onnxruntime.OrtValue.ortvalue_from_numpy(array) for array in shared.values()]
    if shared:
        options.add_external_initializers([*shared], values)
    try:
        return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime's errors share no base class
        raise ValueError(f"onnxruntime must support the operators {sorted({node.kind for node in graph.nodes})}, "
                         f"got its error: {error}") from error  # fmt: skip


def write_graph(onnx: Any, graph: Graph, shared: Mapping[str, Array], proto: Any) -> None:
    """Write a graph to its protobuf. Shared constants are external tensors, which the session gets as arrays."""
    proto.name = graph.name or "graph"
    for name, array in graph.constants.items():
        if name in shared:
            number = onnx.helper.np_dtype_to_tensor_dtype(array.dtype)
            tensor = proto.initializer.add(name=name, dims=array.shape, data_type=number, data_location=1)
            tensor.external_data.add(key="location", value="of the network")
        else:
            proto.initializer.append(onnx.numpy_helper.from_array(np.asarray(array), name))
    for node in graph.nodes:
        made = proto.node.add(op_type=node.operator, input=node.inputs, output=node.outputs, name=node.name,
                              domain=node.domain)  # fmt: skip
        for name, value in node.attributes.items():
            if isinstance(value, Graph):
                attribute = made.attribute.add(name=name, type=onnx.AttributeProto.GRAPH)
                write_graph(onnx, value, {}, attribute.g)
                continue
            if isinstance(value, np.ndarray):
                value = onnx.numpy_helper.from_array(value)
            empty = onnx.AttributeProto.INTS if isinstance(value, list) and not value else None
            made.attribute.append(onnx.helper.make_attribute(name, value, attr_type=empty))
    for values, ports in ((graph.inputs, proto.input), (graph.outputs, proto.output)):
        for value in values:  # without unknown parts
            port = ports.add(name=value.name)
            if value.dtype is not None:
                number = onnx.helper.np_dtype_to_tensor_dtype(value.dtype)
                port.CopyFrom(onnx.helper.make_tensor_value_info(value.name, number, value.shape))


OPERATORS = [Operator("Onnxruntime", run_island, domain=DOMAIN, prepared=True, pure=False)]
