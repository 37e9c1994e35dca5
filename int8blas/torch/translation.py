"""Operators of torch.export's graphs as nodes of int8blas.onnx, so that both front ends share the fusion and plans of
int8blas.onnx.

A function of OPERATORS takes the translation and the operator's arguments, in which names of tensors replace the nodes.
The function returns the name of the result. If the function raises UnsupportedError, torch computes the operator.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import fx

from int8blas.onnx.graph import Array, Node

# The dtypes of operators that int8blas computes. torch converts other dtypes between operands, and ONNX does not.
DTYPES = {torch.float32, torch.uint8, torch.int8}
# The range of each dtype; quantizers of PT2E may use a part of it.
RANGES = {torch.uint8: (0, 255), torch.int8: (-128, 127)}
NUMPY = {torch.uint8: np.dtype(np.uint8), torch.int8: np.dtype(np.int8)}
OPSETS = {"": 21}


class UnsupportedError(Exception):
    """The error for an operator with arguments that no node of int8blas.onnx supports."""


class Name(str):
    """The name of a tensor, with the number of its dimensions."""

    rank: int

    def __new__(cls, name: str, rank: int = -1) -> Name:
        """Return a name. Sizes of tensors, which are integers in torch, have the rank -1."""
        made = super().__new__(cls, name)
        made.rank = rank
        return made


class Translation:
    """The translation of a part of a graph to nodes and constants of int8blas.onnx.

    Parameters
    ----------
    names : dict of fx.Node to Name
        The tensors that exist before the part. `translate` adds the results of nodes.
    """

    def __init__(self, names: dict[fx.Node, Name]) -> None:
        self.names = names
        self.nodes: list[Node] = []
        self.constants: dict[str, Array] = {}
        self.label = ""

    def constant(self, value: Any) -> str:
        """Add a constant."""
        array = np.ascontiguousarray(value) if np.ndim(value) else np.array(value)
        name = f"constant {len(self.constants)}"
        self.constants[name] = array
        return name

    def floats(self, value: Any) -> str:
        """Return the name of a float32 tensor. Add a number as a constant first."""
        return value if isinstance(value, Name) else self.constant(np.float32(value))

    def emit(self, kind: str, *inputs: str | None, name: str = "", **attributes: Any) -> str:
        """Add a node with one result, and return the result's name."""
        result = f"{self.label} {len(self.nodes)}"
        self.nodes.append(Node(kind, "", tuple(str(each or "") for each in inputs), (result,), attributes, name))
        return result

    def sizes(self, values: Sequence[Any]) -> str:
        """Return the name of a vector of sizes. A size may be the result of a node."""
        if not any(isinstance(each, Name) for each in values):
            return self.constant(np.array(values, np.int64))
        parts = [each if isinstance(each, Name) else self.constant(np.array([each], np.int64)) for each in values]
        return self.emit("Concat", *parts, axis=0)

    def translate(self, node: fx.Node) -> None:
        """Add the nodes of a call."""
        if node.target not in OPERATORS or not {*dtypes_of(node)} <= DTYPES:
            raise UnsupportedError
        self.label = node.name
        args, options = fx.node.map_arg((node.args, node.kwargs), self.names.__getitem__)
        try:
            result = OPERATORS[node.target](self, *args, **options)
        except TypeError as error:  # the function lacks an argument
            raise UnsupportedError from error
        self.names[node] = named(result, node)


def dtypes_of(node: fx.Node) -> Iterator[torch.dtype]:
    """Yield the dtypes of a node's results, and of all operands except constants of the model."""
    for each in (node, *(operand for operand in node.all_input_nodes if operand.op != "get_attr")):
        value = each.meta.get("val")
        for tensor in value if isinstance(value, (tuple, list)) else (value,):
            if isinstance(tensor, torch.Tensor):
                yield tensor.dtype


def named(name: str, node: fx.Node) -> Name:
    """Return the name of a node's result."""
    value = node.meta.get("val")
    return Name(name, value.dim() if isinstance(value, torch.Tensor) else -1)


def many(value: Any, dims: int) -> list[int]:
    """Return a list with a number for each dimension."""
    values = [value] if isinstance(value, int) else list(value)
    return values * dims if len(values) == 1 else values


def plain(kind: str, **attributes: Any) -> Callable[..., str]:
    """Return the translation of an operator of one tensor."""
    return lambda graph, x: graph.emit(kind, x, **attributes)


def binary(kind: str) -> Callable[..., str]:
    """Return the translation of an operator of two tensors, or of a tensor and a number."""

    def translated(graph: Translation, x: Any, y: Any) -> str:
        if isinstance(x, Name) and isinstance(y, Name) and (x.rank < 0 or y.rank < 0):
            raise UnsupportedError
        return graph.emit(kind, graph.floats(x), graph.floats(y))

    return translated


def convolution(
    graph: Translation, x: Name, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1,
    groups: int = 1,
) -> str:  # fmt: skip
    dims = x.rank - 2
    auto = {"auto_pad": "SAME_UPPER"} if padding == "same" else {}
    pads = {} if auto else {"pads": many(0 if padding == "valid" else padding, dims) * 2}
    return graph.emit("Conv", x, weight, bias, name=graph.label, strides=many(stride, dims),
                      dilations=many(dilation, dims), group=groups, **pads, **auto)  # fmt: skip


def transposed_convolution(
    graph: Translation, x: Name, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0,
    output_padding: Any = 0, groups: int = 1, dilation: Any = 1,
) -> str:  # fmt: skip
    dims = x.rank - 2
    return graph.emit("ConvTranspose", x, weight, bias, name=graph.label, strides=many(stride, dims),
                      pads=many(padding, dims) * 2, output_padding=many(output_padding, dims),
                      dilations=many(dilation, dims), group=groups)  # fmt: skip


def linear(graph: Translation, x: Name, weight: Any, bias: Any = None) -> str:
    if x.rank == 2:
        return graph.emit("Gemm", x, weight, bias, name=graph.label, transB=1)
    if weight in graph.constants:
        matrix = graph.constant(graph.constants[weight].T)
    else:  # integers of PT2E
        last = next((node for node in graph.nodes if weight in node.outputs), None)
        if last is None or last.kind != "DequantizeLinear" or last.attributes["axis"] != 0:
            raise UnsupportedError
        integers = graph.constant(graph.constants[last.inputs[0]].T)
        matrix = graph.emit("DequantizeLinear", integers, *last.inputs[1:], axis=1)
    product = graph.emit("MatMul", x, matrix, name=graph.label)
    return product if bias is None else graph.emit("Add", product, bias)


def batch_norm(graph: Translation, x: Name, weight: Any, bias: Any, mean: Any, variance: Any, *rest: Any) -> str:
    """Translate a batch normalization. torch has two operators, with `rest` (training, momentum, epsilon, cudnn) or
    (momentum, epsilon)."""
    if (len(rest) == 4 and rest[0]) or weight is None or bias is None:
        raise UnsupportedError
    return graph.emit("BatchNormalization", x, weight, bias, mean, variance, epsilon=rest[-2 if len(rest) == 4 else -1])


def max_pool(
    graph: Translation, x: Name, size: Any, stride: Any = (), padding: Any = 0, dilation: Any = 1, ceil: bool = False
) -> str:
    dims = x.rank - 2
    return graph.emit("MaxPool", x, kernel_shape=many(size, dims), strides=many(stride or size, dims),
                      pads=many(padding, dims) * 2, dilations=many(dilation, dims), ceil_mode=int(ceil))  # fmt: skip


def average_pool(
    graph: Translation, x: Name, size: Any, stride: Any = (), padding: Any = 0, ceil: bool = False,
    whole: bool = True,
) -> str:  # fmt: skip
    dims = x.rank - 2
    return graph.emit("AveragePool", x, kernel_shape=many(size, dims), strides=many(stride or size, dims),
                      pads=many(padding, dims) * 2, ceil_mode=int(ceil), count_include_pad=int(whole))  # fmt: skip


def adaptive_pool(graph: Translation, x: Name, size: Any) -> str:
    if any(each != 1 for each in size):
        raise UnsupportedError
    return graph.emit("GlobalAveragePool", x)


def mean(graph: Translation, x: Name, axes: Any, keep: bool = False) -> str:
    if axes is None:
        raise UnsupportedError
    if keep and x.rank > 2 and sorted(axis % x.rank for axis in axes) == list(range(2, x.rank)):
        return graph.emit("GlobalAveragePool", x)
    return graph.emit("ReduceMean", x, graph.constant(np.array(axes, np.int64)), keepdims=int(keep))


def clip(graph: Translation, x: Name, low: Any = None, high: Any = None) -> str:
    return graph.emit("Clip", x, *(None if each is None else graph.floats(each) for each in (low, high)))


def silu(graph: Translation, x: Name) -> str:
    return graph.emit("Mul", x, graph.emit("Sigmoid", x))


def permuted(graph: Translation, x: Name, axes: Sequence[int]) -> str:
    return graph.emit("Transpose", x, perm=[axis % x.rank for axis in axes])


def transposed(graph: Translation, x: Name, first: int, second: int) -> str:
    axes = list(range(x.rank))
    axes[first], axes[second] = axes[second], axes[first]
    return permuted(graph, x, axes)


def reshaped(graph: Translation, x: Name, shape: Sequence[Any]) -> str:
    return graph.emit("Reshape", x, graph.sizes(shape))


def unsqueezed(graph: Translation, x: Name, axis: int) -> str:
    return graph.emit("Unsqueeze", x, graph.constant(np.array([axis % (x.rank + 1)], np.int64)))


def joined(graph: Translation, tensors: Sequence[Name], axis: int = 0) -> str:
    return graph.emit("Concat", *tensors, axis=axis)


def layer_norm(
    graph: Translation, x: Name, shape: Sequence[int], weight: Any = None, bias: Any = None, epsilon: float = 1e-5,
    cudnn: bool = True,
) -> str:  # fmt: skip
    if weight is None:
        raise UnsupportedError
    return graph.emit("LayerNormalization", x, weight, bias, axis=-len(shape), epsilon=epsilon)


def gelu(graph: Translation, x: Name, *, approximate: str = "none") -> str:
    return graph.emit("Gelu", x, approximate=approximate)


def quantization(
    kind: str, graph: Translation, x: Name, scale: Any, zero: Any, low: int, high: int, dtype: torch.dtype,
    axis: int | None = None,
) -> str:  # fmt: skip
    """Translate a quantize or dequantize operator of PT2E. A quantize operator must use the whole range of its
    dtype."""
    if RANGES.get(dtype) != (low, high) and not (kind == "DequantizeLinear" and dtype in RANGES):
        raise UnsupportedError
    if isinstance(scale, Name):
        scale, zero = graph.constants[scale], graph.constants[zero]
    names = graph.constant(np.float32(scale)), graph.constant(np.asarray(zero).astype(NUMPY[dtype]))
    attributes: dict[str, Any] = {} if axis is None else {"axis": axis}
    return graph.emit(kind, x, *names, **attributes)


def by_channel(
    kind: str, graph: Translation, x: Name, scale: Any, zero: Any, axis: int, low: int, high: int, dtype: torch.dtype
) -> str:
    """Translate an operator with a scale for each channel."""
    return quantization(kind, graph, x, scale, zero, low, high, dtype, axis)


def item(graph: Translation, x: Any, index: int) -> str:
    """Return the first result of a batch normalization, which is the only operator with several results."""
    if index:
        raise UnsupportedError
    return str(x)


aten: Any = torch.ops.aten
OPERATORS: dict[Any, Callable[..., str]] = {
    **dict.fromkeys((aten.conv1d.default, aten.conv2d.default, aten.conv3d.default), convolution),
    **dict.fromkeys((aten.conv1d.padding, aten.conv2d.padding, aten.conv3d.padding), convolution),
    **dict.fromkeys((aten.conv_transpose1d.default, aten.conv_transpose2d.input, aten.conv_transpose3d.input),
                    transposed_convolution),
    aten.linear.default: linear,
    aten.batch_norm.default: batch_norm,
    aten._native_batch_norm_legit_no_training.default: batch_norm,
    operator.getitem: item,
    **dict.fromkeys((aten.max_pool1d.default, aten.max_pool2d.default, aten.max_pool3d.default), max_pool),
    **dict.fromkeys((aten.avg_pool1d.default, aten.avg_pool2d.default, aten.avg_pool3d.default), average_pool),
    **dict.fromkeys((aten.adaptive_avg_pool1d.default, aten.adaptive_avg_pool2d.default,
                     aten.adaptive_avg_pool3d.default), adaptive_pool),
    aten.mean.dim: mean,
    aten.relu.default: plain("Relu"), aten.sigmoid.default: plain("Sigmoid"), aten.tanh.default: plain("Tanh"),
    aten.hardswish.default: plain("HardSwish"),
    aten.hardsigmoid.default: plain("HardSigmoid", alpha=1 / 6, beta=0.5),
    aten.silu.default: silu, aten.gelu.default: gelu,
    aten.leaky_relu.default: lambda graph, x, alpha=0.01: graph.emit("LeakyRelu", x, alpha=alpha),
    aten.elu.default: lambda graph, x, alpha=1.0: graph.emit("Elu", x, alpha=alpha),
    aten.hardtanh.default: lambda graph, x, low=-1.0, high=1.0: clip(graph, x, low, high),
    aten.relu6.default: lambda graph, x: clip(graph, x, 0.0, 6.0), aten.clamp.default: clip,
    aten.add.Tensor: binary("Add"), aten.sub.Tensor: binary("Sub"),
    aten.mul.Tensor: binary("Mul"), aten.div.Tensor: binary("Div"),
    aten.cat.default: joined,
    aten.view.default: reshaped, aten.reshape.default: reshaped, aten.unsqueeze.default: unsqueezed,
    aten.permute.default: permuted, aten.transpose.int: transposed,
    aten.flatten.using_ints: lambda graph, x, first=0, last=-1: (
        graph.emit("Flatten", x, axis=1) if (first, last) == (1, -1) else refused()),
    aten.dropout.default: lambda graph, x, p, training: graph.emit("Identity", x) if not training else refused(),
    aten.clone.default: lambda graph, x, memory_format=None: graph.emit("Identity", x),
    aten.softmax.int: lambda graph, x, axis: graph.emit("Softmax", x, axis=axis),
    aten.layer_norm.default: layer_norm,
}  # fmt: skip
# The operators of products. int8blas computes a part of the graph only if the part has a product.
PRODUCTS = {
    target for target, function in OPERATORS.items() if function in (convolution, transposed_convolution, linear)
}


def refused() -> str:
    """Raise UnsupportedError from within an expression."""
    raise UnsupportedError


def add_pt2e() -> None:
    """Add torch's operators of quantization, which torch defines when one of its quantizers is imported."""
    import torch.ao.quantization.fx._decomposed

    for kind, name in (("QuantizeLinear", "quantize"), ("DequantizeLinear", "dequantize")):
        for overload in ("default", "tensor"):
            each = getattr(getattr(torch.ops.quantized_decomposed, f"{name}_per_tensor"), overload)
            OPERATORS[each] = partial(quantization, kind)
        OPERATORS[getattr(torch.ops.quantized_decomposed, f"{name}_per_channel").default] = partial(by_channel, kind)
