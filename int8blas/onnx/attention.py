"""Attention of floats as exporters write it, one node of int8blas::

    MatMul(q, k), Add of a mask, Softmax, MatMul(., v)

with a Mul by a number, or a Div by a power of two, of q, of k, and of the product, where there are any.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from int8blas.layers.real_attention import real_attention, takes
from int8blas.onnx.graph import Array, Node
from int8blas.onnx.linear import matmul
from int8blas.onnx.normalization import softmax
from int8blas.onnx.patterns import Pattern
from int8blas.onnx.table import DOMAIN, SAME_TYPE, Operator


def rewritten_attention(pattern: Pattern, node: Node) -> Node | None:
    """What takes the place of a Softmax and of the products around it."""
    last = pattern.only_taker(node, {"MatMul"})
    if last is None or node.attributes.get("axis") != -1:
        return None
    name, mask = node.inputs[0], ""
    plus = maker_alone(pattern, name, {"Add"})
    found = scores(pattern, name) if plus is None else None
    for i in range(0 if plus is None else 2):
        if plus is not None and found is None:
            found, mask = scores(pattern, plus.inputs[i]), plus.inputs[1 - i]
    if found is None:
        return None
    product, scale = found
    (q, q_scale), (k, k_scale) = (scaled(pattern, factor) for factor in product.inputs)
    scales = q_scale, k_scale, scale
    return Node("Attention", DOMAIN, (q, k, last.inputs[1], mask), last.outputs, {"scales": scales}, node.name)


def maker_alone(pattern: Pattern, name: str, kinds: set[str]) -> Node | None:
    """The node of these kinds that makes a tensor, if that has one taker and is no result of the graph."""
    maker = pattern.makers.get(name)
    alone = len(pattern.takers.get(name, [])) == 1 and name not in pattern.kept
    return maker if maker is not None and maker.kind in kinds and alone else None


def scores(pattern: Pattern, name: str) -> tuple[Node, float] | None:
    """The product that a tensor is, for one taker alone, and the number that it is multiplied by."""
    factor, scale = scaled(pattern, name) if maker_alone(pattern, name, {"Mul", "Div"}) is not None else (name, 1.0)
    product = maker_alone(pattern, factor, {"MatMul"})
    return None if product is None else (product, scale)


def scaled(pattern: Pattern, name: str) -> tuple[str, float]:
    """A tensor before it is multiplied by a number, and the number; itself and 1 where it is not."""
    maker = pattern.makers.get(name)
    if maker is None or maker.kind not in ("Mul", "Div") or len(maker.inputs) != 2:
        return name, 1.0
    for x, number in (maker.inputs, maker.inputs[::-1])[: 1 if maker.kind == "Div" else 2]:
        constant, value = pattern.constant(number), pattern.number(number)
        # A number of two dimensions makes a matrix of a vector.
        if constant is None or value is None or constant.ndim > 1 or not math.isfinite(value) or value == 0:
            continue
        if maker.kind == "Mul":
            return x, value
        if math.frexp(value)[0] == 0.5 and 2.0**-64 <= value <= 2.0**64:
            return x, 1 / value
    return name, 1.0


def attention(q: Array, k: Array, v: Array, mask: Array | None = None, *, scales: Sequence[float]) -> Array:
    """In one call where all is float32 and of as many matrices; else node by node."""
    if takes(q, k, v, mask):
        return real_attention(q, k, v, mask, scales=scales)
    q, k = (x if scale == 1 else x * x.dtype.type(scale) for x, scale in zip((q, k), scales, strict=False))
    y = matmul(q, k)
    y = y if scales[2] == 1 else y * y.dtype.type(scales[2])
    return matmul(softmax(y if mask is None else np.add(y, mask)), v)


OPERATORS = [Operator("Attention", attention, domain=DOMAIN, traits=SAME_TYPE)]
