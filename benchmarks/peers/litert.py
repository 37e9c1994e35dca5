"""LiteRT's fully connected layer, which XNNPACK computes.

Its output is 8-bit, so it writes a quarter of what the others write and is never the best peer; it is shown because
8-bit results are what many need. A uint8 A is given as int8, less 128 and with zero point -128, which is the same.
"""

from __future__ import annotations

import numpy as np

from peers.base import Peer, Prepared, import_peer
from shapes import Operands, Problem


class FullyConnected(Peer):
    """An interpreter of one layer; the scales of the operands are 1, that of the output fits the largest result."""

    name, kind, library, comparable = "LiteRT packed 8-bit C", "packed", "LiteRT", False

    def __init__(self) -> None:
        self._litert, self.version = import_peer("ai_edge_litert.interpreter", "ai-edge-litert")
        self._schema, _ = import_peer("ai_edge_litert.schema_py_generated", "ai-edge-litert")
        self._flatbuffers, _ = import_peer("flatbuffers", "flatbuffers")

    def supports(self, problem: Problem) -> bool:
        return problem.signs in ("u8s8", "s8s8")

    def _tensor(self, shape: tuple[int, ...], scale: float, zero_point: int, buffer: int) -> object:
        tensor = self._schema.TensorT()
        tensor.type, tensor.shape, tensor.buffer = self._schema.TensorType.INT8, list(shape), buffer
        tensor.quantization = self._schema.QuantizationParametersT()
        tensor.quantization.scale, tensor.quantization.zeroPoint = [scale], [zero_point]
        return tensor

    def _model(self, operands: Operands, scale: float) -> bytes:
        schema, p = self._schema, operands.problem
        code = schema.OperatorCodeT()
        code.builtinCode = code.deprecatedBuiltinCode = schema.BuiltinOperator.FULLY_CONNECTED
        code.version = 4  # the first with int8
        operator = schema.OperatorT()
        operator.opcodeIndex, operator.inputs, operator.outputs = 0, [0, 1, -1], [2]
        operator.builtinOptionsType = schema.BuiltinOptions.FullyConnectedOptions
        operator.builtinOptions = schema.FullyConnectedOptionsT()

        graph = schema.SubGraphT()
        graph.tensors = [
            self._tensor((p.m, p.k), 1.0, -128 if p.signs == "u8s8" else 0, 0),
            self._tensor((p.n, p.k), 1.0, 0, 1),
            self._tensor((p.m, p.n), scale, 0, 0),
        ]
        graph.inputs, graph.outputs, graph.operators = [0], [2], [operator]

        model = schema.ModelT()
        model.version, model.operatorCodes, model.subgraphs = 3, [code], [graph]
        empty, constant = schema.BufferT(), schema.BufferT()
        constant.data = np.ascontiguousarray(operands.b.T).view(np.uint8).reshape(-1)  # (outputs, inputs)
        model.buffers = [empty, constant]
        builder = self._flatbuffers.Builder(operands.b.size + 4096)
        builder.Finish(model.Pack(builder), b"TFL3")
        return bytes(builder.Output())

    def prepare(self, operands: Operands, threads: int) -> Prepared:
        a = operands.a if operands.a.dtype == np.int8 else (operands.a.astype(np.int16) - 128).astype(np.int8)
        scale = float(np.float32(max(np.abs(operands.exact).max(), 1) / 127))
        interpreter = self._litert.Interpreter(model_content=self._model(operands, scale), num_threads=threads)
        interpreter.allocate_tensors()
        interpreter.set_tensor(interpreter.get_input_details()[0]["index"], a)
        output = interpreter.get_output_details()[0]["index"]

        def check() -> str:
            result = interpreter.get_tensor(output).astype(np.int64)
            # The scaling differs between kernels; one step of the output is the width of what rounding may change.
            error = int(np.abs(result - np.rint(operands.exact / scale)).max())
            return "" if error <= 1 else f"an error of {error} steps of the output"

        return Prepared(interpreter.invoke, check, keep=(operands, interpreter))


def peers(reuse_c: bool) -> list[Peer]:
    return [FullyConnected()]
