"""Problems of int8blas.onnx: networks as they are after a file has been read, which do not need the package onnx."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from int8blas._golden.cases import Result, golden
from int8blas._golden.draws import Array, Draws
from int8blas.onnx.graph import Graph, Network, Node, Value
from int8blas.onnx.model import Model

OPSET = 18


def run(nodes: Sequence[tuple[Any, ...]], feeds: dict[str, Array], constants: dict[str, Array]) -> list[Array]:
    """Run nodes (operator, inputs, outputs, attributes). The last node computes the result."""
    made = [
        Node(kind, "", tuple(reads.split()), tuple(makes.split()), dict(*more)) for kind, reads, makes, *more in nodes
    ]
    inputs = tuple(Value(name, x.dtype, x.shape) for name, x in feeds.items())
    output = made[-1].outputs[0]
    graph = Graph("golden", made, inputs, (Value(output, None, None),), constants)
    return Model(Network(graph, {"": OPSET})).run(None, feeds)


def zeros(draws: Draws, *names: str) -> dict[str, Array]:
    return {name: draws.integers((), np.uint8, 100, 150) for name in names}


def scales(draws: Draws, *names: str) -> dict[str, Array]:
    return {name: draws.scales(()) for name in names}


@golden(form=("QLinear", "QDQ"))
def onnx_convolution(draws: Draws, form: str) -> Result:
    """Run two convolutions and pooling, as operators on 8-bit integers and as float operators between DequantizeLinear
    and QuantizeLinear."""
    constants = scales(draws, "xs", "ws", "ys", "vs") | zeros(draws, "xz", "yz", "vz")
    constants |= {"ys": constants["ys"] * np.float32(8), "wz": np.zeros((), np.int8)}
    constants |= {"w": draws.integers((12, 5, 3, 3), "int8"), "v": draws.integers((7, 12, 1, 1), "uint8")}
    pads = {"pads": [1, 1, 1, 1]}
    if form == "QLinear":
        nodes: list[tuple[Any, ...]] = [
            ("QLinearConv", "x xs xz w ws wz ys yz", "h", pads),
            ("MaxPool", "h", "p", {"kernel_shape": [2, 2], "strides": [2, 2]}),
            ("QLinearConv", "p ys yz v vs vz ys yz", "y"),
        ]
    else:
        nodes = [
            ("DequantizeLinear", "x xs xz", "xf"), ("DequantizeLinear", "w ws wz", "wf"), ("Conv", "xf wf", "hf", pads),
            ("Relu", "hf", "r"), ("QuantizeLinear", "r ys yz", "h"), ("DequantizeLinear", "h ys yz", "df"),
            ("MaxPool", "df", "pf", {"kernel_shape": [2, 2], "strides": [2, 2]}),
            ("DequantizeLinear", "v vs vz", "vf"), ("Conv", "pf vf", "yf"), ("QuantizeLinear", "yf ys yz", "y"),
        ]  # fmt: skip
    return run(nodes, {"x": draws.integers((2, 5, 8, 9), "uint8")}, constants)


@golden(weights=("uint8", "int8"))
def onnx_dynamic(draws: Draws, weights: str) -> Result:
    """Run a dynamic product, which is fused to a layer, and the operators after it."""
    nodes = [
        ("DynamicQuantizeLinear", "x", "q s z"), ("MatMulInteger", "q w z wz", "sums"),
        ("Cast", "sums", "real", {"to": 1}), ("Mul", "s ws", "scale"), ("Mul", "real scale", "product"),
        ("Add", "product bias", "h"), ("Tanh", "h", "t"), ("Softmax", "t", "y"),
    ]  # fmt: skip
    constants = scales(draws, "ws") | {"w": draws.integers((20, 33), weights), "bias": draws.reals(33)}
    constants["wz"] = draws.integers((), weights, 0, 100)
    return run(nodes, {"x": draws.reals((7, 20))}, constants)


@golden(op=("Add", "Mul", "Sub", "Div"))
def onnx_elementwise(draws: Draws, op: str) -> Result:
    """Run a chain in float32, and a chain that becomes a table of 8-bit integers."""
    x = draws.reals((5, 33))
    chain = [(op, "x c", "a"), ("Sigmoid", "a", "b"), ("Mul", "a b", "d"), ("Relu", "d", "y")]
    table = [("DequantizeLinear", "q s z", "f"), (op, "f c", "g"), ("Tanh", "g", "h"), ("QuantizeLinear", "h s z", "r")]
    constants = {"c": draws.reals((1,))} | scales(draws, "s") | zeros(draws, "z")
    return run(chain, {"x": x}, constants) + run(table, {"q": draws.integers((5, 33), "uint8")}, constants)


@golden(bias=(False, True))
def onnx_int8_weights(draws: Draws, bias: bool) -> Result:
    """Run a float32 product whose weights stay in int8."""
    nodes = [("Cast", "w", "wf", {"to": 1}), ("Mul", "wf s", "ws"), ("MatMul", "x ws", "p"), ("Add", "p b", "y")]
    constants = {"w": draws.integers((40, 33), "int8"), "s": draws.scales(33), "b": draws.reals(33)}
    return run(nodes if bias else nodes[:-1], {"x": draws.reals((9, 40))}, constants)
