"""A BERT of ONNX Runtime's fused operators, as its optimizer for transformers writes it, and its quantize_dynamic.

The graph has EmbedLayerNormalization, Attention, SkipLayerNormalization and BiasGelu of com.microsoft. Quantized it has
QAttention, and the session turns the products into DynamicQuantizeMatMul.
"""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from int8blas._bench.peers.base import import_peer
from int8blas._bench.peers.onnxruntime_matmul import MICROSOFT

from peers.base import Encoder

EPSILON = 1e-12


def _model(onnx: Any, tensors: Mapping[str, np.ndarray], layers: int, heads: int) -> Any:
    """The network, which takes tokens and their mask and gives embeddings."""
    helper, element = onnx.helper, onnx.TensorProto
    nodes, constants = [], {}

    def node(operator: str, inputs: list[str], result: str, **attributes: Any) -> str:
        nodes.append(helper.make_node(operator, inputs, [result], **attributes))
        return result

    def constant(name: str, array: np.ndarray) -> str:
        constants[name] = onnx.numpy_helper.from_array(np.ascontiguousarray(array), name)
        return name

    def tensor(name: str) -> str:
        return constant(name, tensors[name])

    def norm(name: str) -> list[str]:
        return [tensor(f"{name}.LayerNorm.{kind}") for kind in ("weight", "bias")]

    def product(x: str, name: str) -> str:
        return node("MatMul", [x, constant(f"{name}.weight", tensors[f"{name}.weight"].T)], f"{name}.product")

    def add_norm(x: str, product_name: str, skip: str, norm_name: str) -> str:
        inputs = [product(x, product_name), skip, *norm(norm_name), tensor(f"{product_name}.bias")]
        return node("SkipLayerNormalization", inputs, f"{norm_name}.result", domain=MICROSOFT, epsilon=EPSILON)

    positions = tensors["embeddings.position_embeddings.weight"] + tensors["embeddings.token_type_embeddings.weight"][0]
    tables = [tensor("embeddings.word_embeddings.weight"), constant("positions", positions), ""]
    inputs = ["tokens", "", *tables, *norm("embeddings"), "mask"]
    outputs = ["x", "lengths"]
    nodes.append(helper.make_node("EmbedLayerNormalization", inputs, outputs, domain=MICROSOFT, epsilon=EPSILON))
    x = "x"
    for index in range(layers):
        name = f"encoder.layer.{index}"
        parts = [f"{name}.attention.self.{part}" for part in ("query", "key", "value")]
        weights = constant(f"{name}.qkv.weight", np.concatenate([tensors[f"{p}.weight"] for p in parts]).T)
        bias = constant(f"{name}.qkv.bias", np.concatenate([tensors[f"{p}.bias"] for p in parts]))
        inputs = [x, weights, bias, "lengths"]
        context = node("Attention", inputs, f"{name}.context", domain=MICROSOFT, num_heads=heads)
        y = add_norm(context, f"{name}.attention.output.dense", x, f"{name}.attention.output")
        inputs = [product(y, f"{name}.intermediate.dense"), tensor(f"{name}.intermediate.dense.bias")]
        hidden = node("BiasGelu", inputs, f"{name}.hidden", domain=MICROSOFT)
        x = add_norm(hidden, f"{name}.output.dense", y, f"{name}.output")
    # The sum of the tokens that are not padding, divided by its Euclidean norm.
    row = node(
        "Unsqueeze", [node("Cast", ["mask"], "visible", to=element.FLOAT), constant("one", np.array([1]))], "row"
    )
    sums = node("MatMul", [row, x], "sums")
    node("Squeeze", [node("LpNormalization", [sums], "normalized", axis=-1, p=2), "one"], "embeddings")

    graph = helper.make_graph(
        nodes,
        "bert",
        [helper.make_tensor_value_info(name, element.INT32, ["n", "t"]) for name in ("tokens", "mask")],
        [helper.make_tensor_value_info("embeddings", element.FLOAT, ["n", "width"])],
        list(constants.values()),
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(MICROSOFT, 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def peers(tensors: Mapping[str, np.ndarray], layers: int, heads: int, threads: int) -> list[Encoder]:
    ort, version = import_peer("onnxruntime", "onnxruntime")
    onnx, _ = import_peer("onnx", "onnx")
    quantization, _ = import_peer("onnxruntime.quantization", "onnxruntime")
    logging.disable(logging.WARNING)  # it warns of missing pre-processing, but this graph needs none

    options = ort.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads, options.log_severity_level = threads, 1, 3

    def encoder(name: str, path: Path) -> Encoder:
        session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])

        def run(tokens: np.ndarray, mask: np.ndarray) -> np.ndarray:
            return session.run(None, {"tokens": tokens, "mask": mask})[0]

        return Encoder(name, "onnxruntime", version, run)

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "f32.onnx"
        onnx.save(_model(onnx, tensors, layers, heads), path)
        found = [encoder("ORT f32", path)]
        for name, per_channel in (("ORT int8, a scale a matrix", False), ("ORT int8, a scale an output", True)):
            quantized = Path(folder) / f"{per_channel}.onnx"
            quantization.quantize_dynamic(
                path,
                quantized,
                weight_type=quantization.QuantType.QInt8,
                per_channel=per_channel,
                extra_options={"DefaultTensorType": onnx.TensorProto.FLOAT},
            )
            found.append(encoder(name, quantized))
    logging.disable(logging.NOTSET)
    return found
