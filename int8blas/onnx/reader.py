"""Read an ONNX file to a :class:`~int8blas.onnx.graph.Network`. This is the only module that needs the package onnx."""

from __future__ import annotations

import contextlib
import math
import mmap
import os
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from int8blas.onnx.graph import Array, Graph, Network, Node, Value
from int8blas.onnx.limits import allowed
from int8blas.onnx.schemas import declared_attributes
from int8blas.onnx.table import DOMAIN


def read(source: Any) -> Network:
    """Read a model from a path, from bytes, or from an ``onnx.ModelProto``. If the content is no model, the error names
    the tensor or node."""
    try:
        onnx: Any = import_module("onnx")
    except ImportError as error:
        raise ImportError("reading an ONNX file needs the package onnx: pip install 'int8blas[onnx]'") from error
    path = None
    raw_by_index: dict[int, bytes] = {}
    if isinstance(source, (str, os.PathLike)):
        path = Path(source)
        with contents(path) as data:
            model, raw_by_index = parsed(onnx, data, str(path))
    elif isinstance(source, (bytes, bytearray, memoryview)):
        model, raw_by_index = parsed(onnx, bytes(source), f"{len(source)} bytes")
    elif isinstance(source, onnx.ModelProto):
        model = source
    else:
        raise TypeError(f"source must be a path, bytes or an onnx.ModelProto, got {type(source).__name__}")
    if model.functions:
        model = import_module("onnx.inliner").inline_local_functions(model)
    if not model.HasField("graph") or not model.opset_import:
        raise ValueError("source must be an ONNX model, got one without a graph or without versions of operators")
    opsets = {"" if each.domain == "ai.onnx" else each.domain: each.version for each in model.opset_import}
    if DOMAIN in opsets:
        raise NotImplementedError(
            "operators must be in the table of docs/howto/onnx.md, got a file that imports domain "
            f"{DOMAIN!r}, whose operators only a loaded model has"
        )
    reader = Reader(onnx, path, opsets)
    graph = reader.graph(model.graph, raw_by_index)
    # Before version 4 of the format every constant was also an input, not only constants that a feed may replace.
    ports = model.graph.input if model.ir_version >= 4 else ()
    defaults = {port.name: reader.value(port) for port in ports if port.name in graph.constants}
    return Network(graph, opsets, overridable=tuple(defaults.values()))


@contextlib.contextmanager
def contents(path: Path) -> Iterator[Any]:
    """Map a file. Read a file that cannot be mapped, such as an empty file or a pipe."""
    with path.open("rb") as file:
        try:
            data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except (OSError, ValueError):
            yield file.read()
            return
    with data:
        yield data


# The reader copies tensors of more than LARGE_BYTES bytes once, from file to constant. Protobuf would copy twice.
LARGE_BYTES = 1 << 14
# Tags of fields of ModelProto, GraphProto and TensorProto. The low 3 bits of a tag are the type of the value, and
# the other bits are the number of the field. After BYTES_FOLLOW come the size of the value and its bytes.
BYTES_FOLLOW = 2
GRAPH, FUNCTIONS, INITIALIZER, RAW_DATA = (number << 3 | BYTES_FOLLOW for number in (7, 25, 5, 9))


def parsed(onnx: Any, data: Any, name: str) -> tuple[Any, dict[int, bytes]]:
    """Return the parsed model without the raw bytes of large constants, and these bytes by the constants' indices."""
    model = onnx.ModelProto()
    raw_by_index: dict[int, bytes] = {}
    try:
        small, raw_by_index = without_weights(data)
    except (IndexError, ValueError):  # protobuf describes the damage
        small = data[:]
    try:
        model.ParseFromString(small)
    except import_module("google.protobuf.message").DecodeError as error:
        raise ValueError(f"source must be an ONNX model, got {name}, which cannot be decoded: {error}") from None
    return model, raw_by_index


def without_weights(data: Any) -> tuple[bytes, dict[int, bytes]]:
    """Return a serialized model without the raw bytes of large constants, and these bytes by the constants' indices."""
    tops = [*fields(data, 0, len(data))]
    graphs = [field for field in tops if field[0] == GRAPH]
    if len(graphs) != 1 or any(tag == FUNCTIONS for tag, *_ in tops):
        return data[:], {}
    _, start, begin, end = graphs[0]
    raw_by_index, pieces, done, index = {}, [], begin, -1
    for tag, first, inside, after in fields(data, begin, end):
        index += tag == INITIALIZER
        if tag == INITIALIZER and after - inside > LARGE_BYTES:
            raw = [field for field in fields(data, inside, after) if field[0] == RAW_DATA]
            if len(raw) == 1:
                _, before, raw_begin, raw_end = raw[0]
                raw_by_index[index] = data[raw_begin:raw_end]
                rest = data[inside:before] + data[raw_end:after]
                pieces += [data[done:first], header(INITIALIZER, len(rest)), rest]
                done = after
    graph = b"".join([*pieces, data[done:end]])
    return b"".join([data[:start], header(GRAPH, len(graph)), graph, data[end:]]), raw_by_index


def fields(data: Any, at: int, end: int) -> Iterator[tuple[int, int, int, int]]:
    """Yield the fields of a serialized message: tag, start of the field, begin and end of its value."""
    while at < end:
        start = at
        tag, at = varint(data, at)
        kind, size = tag & 7, 0
        if kind == BYTES_FOLLOW:
            size, at = varint(data, at)
        elif kind == 0:
            size = varint(data, at)[1] - at
        else:
            size = {1: 8, 5: 4}.get(kind, end)
        if at + size > end:
            raise ValueError
        yield tag, start, at, at + size
        at += size


def varint(data: Any, at: int) -> tuple[int, int]:
    """Return the number at a position, 7 bits in each byte, and the position after it."""
    byte = data[at]
    value, shift = byte & 127, 7
    while byte > 127:
        if shift > 63:
            raise ValueError
        at += 1
        byte = data[at]
        value |= (byte & 127) << shift
        shift += 7
    return value, at + 1


def header(tag: int, size: int) -> bytes:
    """Return the tag and the size that begin a field of `size` bytes."""
    result = [tag]
    while size > 127:
        result.append(size & 127 | 128)
        size >>= 7
    return bytes([*result, size])


# ONNX's types of attributes.
KINDS = {
    1: "a number", 2: "an integer", 3: "a string", 4: "a tensor", 5: "a graph", 6: "numbers", 7: "integers",
    8: "strings", 11: "a sparse tensor", 13: "a type",
}  # fmt: skip


# For each of ONNX's types of numbers, strings and lists, the function that returns the value of an attribute.
VALUES: dict[int, Callable[[Any], Any]] = {
    1: lambda proto: proto.f, 2: lambda proto: proto.i, 3: lambda proto: proto.s.decode(errors="replace"),
    6: lambda proto: list(proto.floats), 7: lambda proto: list(proto.ints),
    8: lambda proto: [text.decode(errors="replace") for text in proto.strings],
}  # fmt: skip


# For each type, the field that has the numbers of a tensor without raw bytes, and the type of the field.
FIELDS: dict[np.dtype[Any], tuple[str, Any]] = {
    np.dtype(np.float32): ("float_data", np.float32), np.dtype(np.int64): ("int64_data", np.int64),
    **{np.dtype(dtype): ("int32_data", np.int32) for dtype in (np.int32, np.int8, np.uint8)},
}  # fmt: skip


# The maximum number of elements for which a copy of float_data from protobuf's list is faster than packed_floats.
MANY = 100


class Reader:
    """The conversion of protobufs to plain data. `path` is the model's file; its folder may hold external tensors.
    `opsets` has the versions of the operators."""

    def __init__(self, onnx: Any, path: Path | None, opsets: Mapping[str, int]) -> None:
        self.onnx = onnx
        self.path = path
        self.opsets = opsets
        self.dtypes: dict[int, np.dtype[Any]] = {}

    def graph(self, proto: Any, raw_by_index: Mapping[int, bytes]) -> Graph:
        """Convert a graph with its constants and nodes. `raw_by_index` maps indices of constants to raw bytes that
        `proto` lacks."""
        constants = {each.values.name: self.sparse(each) for each in proto.sparse_initializer}
        for i, tensor in enumerate(proto.initializer):
            if tensor.name in constants:
                raise ValueError(f"constants must have distinct names, got {tensor.name!r} twice")
            constants[tensor.name] = self.tensor(tensor, f"constant {tensor.name!r}", raw_by_index.get(i))
        nodes = [self.node(node) for node in proto.node]
        inputs = tuple(self.value(value) for value in proto.input if value.name not in constants)
        outputs = tuple(self.value(value) for value in proto.output)
        for values, kind in ((inputs, "inputs"), (outputs, "outputs")):
            names = [value.name for value in values]
            if len(set(names)) < len(names):
                raise ValueError(f"{kind} of graph {proto.name!r} must have distinct names, got {names}")
        return Graph(proto.name, nodes, inputs, outputs, constants)

    def value(self, proto: Any) -> Value:
        """Convert an input or output."""
        if not proto.type.HasField("tensor_type"):
            return Value(proto.name, None, None)
        tensor = proto.type.tensor_type
        dtype = self.dtype(tensor.elem_type, f"tensor {proto.name!r}") if tensor.elem_type else None
        if not tensor.HasField("shape"):
            return Value(proto.name, dtype, None)
        sizes = (size.dim_value if size.HasField("dim_value") else size.dim_param or None for size in tensor.shape.dim)
        # Some writers use -1 for a variable size.
        shape = tuple(None if isinstance(size, int) and size < 0 else size for size in sizes)
        return Value(proto.name, dtype, shape)

    def dtype(self, number: int, what: str) -> np.dtype[Any]:
        """Return the NumPy dtype of an ONNX type number."""
        try:
            if number not in self.dtypes:
                self.dtypes[number] = np.dtype(self.onnx.helper.tensor_dtype_to_np_dtype(number))
            return self.dtypes[number]
        except (KeyError, ValueError, TypeError):
            raise ValueError(f"{what} must have a type that onnx knows, got number {number}") from None

    def node(self, proto: Any) -> Node:
        """Convert a node and its attributes, as ONNX's schema of the operator declares them."""
        domain = "" if proto.domain == "ai.onnx" else proto.domain
        node = Node(proto.op_type, domain, tuple(proto.input), tuple(proto.output), {}, proto.name)
        declared = None if domain else declared_attributes(proto.op_type, self.opsets.get(domain, 0))
        for attribute in proto.attribute:
            kind = attribute.type if declared is None else declared.get(attribute.name, (None,))[0]
            if kind is None:
                had = ", ".join(sorted(declared or ())) or "none"
                names = ", ".join(each.name for each in proto.attribute if each.name not in (declared or ()))
                raise ValueError(f"{node} must have attributes that {node.kind} has in version "
                                 f"{self.opsets[domain]}, {had}, got {names}")  # fmt: skip
            if attribute.type != kind:
                came = KINDS.get(attribute.type, f"type {attribute.type}")
                raise ValueError(f"attribute {attribute.name!r} of {node} must be {KINDS[kind]}, got {came}")
            node.attributes[attribute.name] = self.attribute(attribute, node)
        missing = [name for name, (_, required) in (declared or {}).items() if required and name not in node.attributes]
        if missing:
            raise ValueError(f"{node} must have attribute {missing[0]!r}, got none")
        return node

    def attribute(self, proto: Any, node: Node) -> Any:
        """Convert an attribute to a Python value, an array or a graph."""
        if proto.type in VALUES:
            return VALUES[proto.type](proto)
        what = f"attribute {proto.name!r} of {node}"
        if proto.type == self.onnx.AttributeProto.GRAPH:
            return self.graph(proto.g, {})
        if proto.type == self.onnx.AttributeProto.TENSOR:
            return self.tensor(proto.t, what)
        raise ValueError(f"{what} must be a number, a string, a tensor, a graph or a list, got type {proto.type}")

    def tensor(self, proto: Any, what: str, raw: bytes | None = None) -> Array:
        """Convert a tensor, and check the number of values. `raw` has the tensor's raw bytes if `proto` lacks them."""
        shape = tuple(proto.dims)
        if min(shape, default=0) < 0:
            raise ValueError(f"{what} must have sizes of at least 0, got shape {shape}")
        dtype = self.dtype(proto.data_type, what)
        if proto.data_location:
            return self.external(proto, shape, dtype, what)
        has_bytes = raw is not None or proto.HasField("raw_data")
        if dtype in FIELDS and not has_bytes:  # several times faster than onnx
            name, stored = FIELDS[dtype]
            numbers = getattr(proto, name)
            many = name == "float_data" and len(numbers) > MANY
            values = packed_floats(proto, len(numbers)) if many else np.array(numbers[:], stored)
            if values.size == math.prod(shape):
                return values.astype(dtype, copy=False).reshape(shape)
        elif has_bytes:
            kind = dtype.name if dtype.kind == "V" else ""  # NumPy formats a name in a microsecond
            bits = 4 if "int4" in kind else 2 if "int2" in kind else 8 * dtype.itemsize
            raw = proto.raw_data if raw is None else raw
            wanted, came = (math.prod(shape) * bits + 7) // 8, len(raw)
            if wanted != came:
                raise ValueError(f"{what} must have {wanted} bytes, as its shape is {shape}, got {came}")
            if dtype.kind in "iuf" and came:
                return np.ndarray(shape, dtype.newbyteorder("<").str, raw).astype(dtype, copy=False)
            proto.raw_data = raw
        try:
            array: Array = np.asarray(self.onnx.numpy_helper.to_array(proto))
        except (ValueError, TypeError, MemoryError) as error:
            raise ValueError(f"{what} must have the values of shape {shape}, got others: {error}") from None
        if array.shape != shape:
            raise ValueError(f"{what} must have the values of shape {shape}, got {array.shape}")
        return array

    def sparse(self, proto: Any) -> Array:
        """Convert a sparse tensor to a dense tensor."""
        what = f"constant {proto.values.name!r}"
        values, indices = self.tensor(proto.values, what), self.tensor(proto.indices, what)
        array = np.zeros(allowed(proto.dims, values.dtype), values.dtype)
        at = tuple(indices.T) if indices.ndim == 2 else np.unravel_index(indices, array.shape)
        if indices.ndim == 2 and (len(at) != array.ndim or (indices < 0).any()):
            raise ValueError(f"{what} must have indices from 0 on of {array.ndim} dimensions, got {indices.shape}")
        array[at] = values
        return array

    def external(self, proto: Any, shape: tuple[int, ...], dtype: np.dtype[Any], what: str) -> Array:
        """Map an external tensor."""
        entries = {entry.key: entry.value for entry in proto.external_data}
        location = entries.get("location", "")
        if self.path is None:
            raise ValueError(f"{what} must be in the model, as that was not read from a path, got file {location!r}")
        path = file_beside(self.path, location)
        if path is None:
            raise ValueError(f"{what} must be in a file in the folder of the model, got {location!r}")
        try:
            offset, length = int(entries.get("offset", 0)), int(entries.get("length", -1))
        except ValueError:
            raise ValueError(f"{what} must have offset and length that are numbers, got {entries}") from None
        if dtype.hasobject or "int4" in dtype.name or "int2" in dtype.name:
            raise ValueError(f"{what} must be in the model itself, as it is {dtype.name}, got file {location!r}")
        wanted, size = math.prod(shape) * dtype.itemsize, path.stat().st_size
        if offset < 0 or length not in (-1, wanted) or offset + wanted > size:
            raise ValueError(
                f"{what} must have {wanted} bytes, as its shape is {shape}, got offset {offset} and length {length} "
                f"in a file of {size}"
            )
        if not wanted:
            return np.empty(shape, dtype)
        return np.memmap(path, dtype.newbyteorder("<").str, "r", offset, shape)


def packed_floats(proto: Any, count: int) -> Array:
    """Return the numbers in a tensor's float_data. Protobuf stores float_data like raw bytes, at the end of a message
    without other fields. Reading protobuf's list of the numbers takes 40 times as long."""
    alone = type(proto)()
    alone.MergeFrom(proto)
    for field, _ in proto.ListFields():
        if field.name != "float_data":
            alone.ClearField(field.name)
    data = alone.SerializeToString()
    return np.frombuffer(data, "<f4", count, len(data) - 4 * count).astype(np.float32)


def file_beside(model: Path, location: str) -> Path | None:
    """Return the path of a file that a model names, or None if the model may not read it.

    The name is relative, has no "..", and is resolved in the folder of the model's path. With all links resolved, the
    file is in the folder of the model's path or below it. If the model's path is a link, as in the cache of a hub, the
    file may also be in or below the folder of the link's target."""
    if not location or "\0" in location or os.path.isabs(location) or ".." in Path(location).parts:
        return None
    path = Path(os.path.realpath(model.parent / location))
    folders = os.path.realpath(model.parent), os.path.dirname(os.path.realpath(model))
    return path if os.path.isfile(path) and any(path.is_relative_to(folder) for folder in folders) else None
