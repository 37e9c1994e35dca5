"""LiteRT's fully connected layer, which XNNPACK computes.

Its output is 8-bit, so it writes a quarter of the bytes of other peers and never counts as the best one. It is shown
because many users need 8-bit results. A uint8 A becomes int8 by subtracting 128, with zero point -128.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
from int8blas._bench.peers.base import Peer, Prepared, import_peer
from int8blas._bench.shapes import Operands, Problem

# The options table of each operator, and its version. FULLY_CONNECTED has int8 from version 4 on, and scales per output
# for a float32 source from 9 on; the convolutions have int8 from version 3 on, and CONV_2D groups from 6 on.
OPERATORS = {
    "FULLY_CONNECTED": ("FullyConnectedOptions", 9),
    "CONV_2D": ("Conv2DOptions", 6),
    "DEPTHWISE_CONV_2D": ("DepthwiseConv2DOptions", 3),
}


@dataclass
class Tensor:
    """A tensor of a model: constant if it has data; quantized, per element of `axis`, if it has scales."""

    shape: tuple[int, ...]
    dtype: type
    scales: Sequence[float] = ()
    zero_point: int = 0
    data: np.ndarray | None = None
    axis: int = 0


class Runtime:
    """The packages of LiteRT, which create interpreters of one layer."""

    def __init__(self) -> None:
        self._litert, self.version = import_peer("ai_edge_litert.interpreter", "ai-edge-litert")
        self._schema, _ = import_peer("ai_edge_litert.schema_py_generated", "ai-edge-litert")
        self._flatbuffers, _ = import_peer("flatbuffers", "flatbuffers")

    def _tensor(self, tensor: Tensor, buffer: int) -> object:
        schema = self._schema
        types = {np.int8: "INT8", np.int32: "INT32", np.float32: "FLOAT32"}
        found = schema.TensorT()
        found.type, found.shape = getattr(schema.TensorType, types[tensor.dtype]), list(tensor.shape)
        found.buffer = buffer
        if len(tensor.scales):
            found.quantization = schema.QuantizationParametersT()
            found.quantization.scale = [float(scale) for scale in tensor.scales]
            found.quantization.zeroPoint = [tensor.zero_point] * len(tensor.scales)
            found.quantization.quantizedDimension = tensor.axis
        return found

    def _model(self, operator: str, options: Mapping[str, object], tensors: Sequence[Tensor | None]) -> bytes:
        schema = self._schema
        src, weights, bias, dst = tensors
        code = schema.OperatorCodeT()
        code.builtinCode = code.deprecatedBuiltinCode = getattr(schema.BuiltinOperator, operator)
        options_type, code.version = OPERATORS[operator]
        layer = schema.OperatorT()
        layer.opcodeIndex, layer.inputs, layer.outputs = 0, [0, 2, 3 if bias else -1], [1]
        layer.builtinOptionsType = getattr(schema.BuiltinOptions, options_type)
        layer.builtinOptions = getattr(schema, f"{options_type}T")()
        for name, value in options.items():
            setattr(layer.builtinOptions, name, value)

        graph, model = schema.SubGraphT(), schema.ModelT()
        graph.inputs, graph.outputs, graph.operators, graph.tensors = [0], [1], [layer], []
        model.version, model.operatorCodes, model.subgraphs, model.buffers = 3, [code], [graph], [schema.BufferT()]
        for tensor in (src, dst, weights, *([bias] if bias else [])):
            buffer = 0  # the empty buffer
            if tensor.data is not None:
                buffer = len(model.buffers)
                model.buffers.append(schema.BufferT())
                model.buffers[buffer].data = np.ascontiguousarray(tensor.data).view(np.uint8).reshape(-1)
            graph.tensors.append(self._tensor(tensor, buffer))
        builder = self._flatbuffers.Builder(weights.data.size + 4096)
        builder.Finish(model.Pack(builder), b"TFL3")
        return bytes(builder.Output())

    def bind(
        self,
        operator: str,
        src: np.ndarray,
        tensors: tuple[Tensor, Tensor, Tensor | None, Tensor],
        threads: int,
        *,
        relu: bool = False,
        **options: object,
    ) -> SimpleNamespace:
        """Return a layer of `tensors` (src, weights, bias, dst) whose source is set: invoke() computes, result() copies
        dst.

        `options`: fields of the operator's options table in LiteRT's schema.
        """
        if relu:
            options["fusedActivationFunction"] = self._schema.ActivationFunctionType.RELU
        model = self._model(operator, options, tensors)
        interpreter = self._litert.Interpreter(model_content=model, num_threads=threads)
        interpreter.allocate_tensors()
        interpreter.set_tensor(interpreter.get_input_details()[0]["index"], src)
        output = interpreter.get_output_details()[0]["index"]
        return SimpleNamespace(invoke=interpreter.invoke, result=lambda: interpreter.get_tensor(output))


def less_128(array: np.ndarray) -> np.ndarray:
    """Return uint8 values as int8, for a zero point that is also 128 smaller."""
    return (array ^ np.uint8(128)).view(np.int8)


class FullyConnected(Peer):
    """An interpreter of one layer. The scales of the operands are 1; the scale of the output fits the largest
    result."""

    name, kind, library, comparable = "LiteRT packed 8-bit C", "packed", "LiteRT", False

    def __init__(self) -> None:
        self._runtime = Runtime()
        self.version = self._runtime.version

    def supports(self, problem: Problem) -> bool:
        return problem.signs in ("u8s8", "s8s8")

    def prepare(self, operands: Operands, threads: int) -> Prepared:
        p = operands.problem
        unsigned = operands.a.dtype == np.uint8
        scale = float(np.float32(max(np.abs(operands.exact).max(), 1) / 127))
        src = Tensor((p.m, p.k), np.int8, [1], -128 if unsigned else 0)
        weights = Tensor((p.n, p.k), np.int8, [1], 0, operands.b.T)
        tensors = (src, weights, None, Tensor((p.m, p.n), np.int8, [scale]))
        layer = self._runtime.bind(
            "FULLY_CONNECTED", less_128(operands.a) if unsigned else operands.a, tensors, threads
        )

        def check() -> str:
            # The scaling differs between kernels: rounding may change a result by one step of the output.
            error = int(np.abs(layer.result().astype(np.int64) - np.rint(operands.exact / scale)).max())
            return "" if error <= 1 else f"an error of {error} steps of the output"

        return Prepared(layer.invoke, check)


def peers(reuse_c: bool) -> list[Peer]:
    return [FullyConnected()]
