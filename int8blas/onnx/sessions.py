"""Compute the sets of nodes that :mod:`islands` chooses in sessions of onnxruntime."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any

import numpy as np

from int8blas.core.threads import num_threads
from int8blas.onnx.graph import Array, Graph
from int8blas.onnx.table import DOMAIN, Operator, Site

# The model of a session includes constants of less than SHARED_BYTES bytes, because onnxruntime may need their values.
# The session reads larger constants from the memory of the network.
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
    session_of = functools.cache(functools.partial(session, island))
    known = tuple(value.dtype for value in island.graph.inputs)
    only = None if None in known else session_of(known)

    def call(*arrays: Array) -> Any:
        made = only or session_of(tuple([getattr(array, "dtype", None) for array in arrays]))
        results = made.run(outputs, dict(zip(names, arrays, strict=True)))
        return results[0] if len(results) == 1 else tuple(results)

    return call


def session(island: Island, types: Sequence[Any]) -> Any:
    """Return the session of an island for the given types of its inputs.

    Raises
    ------
    ImportError
        If onnxruntime or onnx is not installed.
    ValueError
        If onnxruntime refuses the island, for example because it lacks one of the island's operators.
    """
    try:
        onnxruntime, onnx = import_module("onnxruntime"), import_module("onnx")
    except ImportError as error:
        raise ImportError("floats='onnxruntime' needs the packages onnxruntime and onnx: "
                          "pip install onnxruntime 'int8blas[onnx]'") from error  # fmt: skip
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = num_threads()
    # Without disable_quant_qdq, onnxruntime quantizes operators between DequantizeLinear and QuantizeLinear.
    options.add_session_config_entry("session.disable_quant_qdq", "1")
    # Do not let onnxruntime's threads spin between two islands, because int8blas's threads need the CPUs.
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
