"""Rewrite float attention, as exporters write it, to one node of int8blas::

    MatMul(q, k), Add of a mask, Softmax, MatMul(., v)

Each of q, k and the product may be multiplied by a number (Mul) or divided by a power of two (Div).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from int8blas.layers.real_attention import real_attention, takes
from int8blas.onnx.graph import Array, Node
from int8blas.onnx.linear import matmul
from int8blas.onnx.normalization import softmax
from int8blas.onnx.patterns import Pattern, sole_producer
from int8blas.onnx.table import DOMAIN, SAME_TYPE, Operator


def rewritten_attention(pattern: Pattern, node: Node) -> Node | None:
    """Return the node that replaces a Softmax and the two products around it."""
    last = pattern.only_consumer(node, {"MatMul"})
    if last is None or node.attributes.get("axis") != -1:
        return None
    name, mask = node.inputs[0], ""
    plus = sole_producer(pattern, name, {"Add"})
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


def scores(pattern: Pattern, name: str) -> tuple[Node, float] | None:
    """Return the MatMul that computes a tensor for one consumer, and the number that scales its result."""
    factor, scale = scaled(pattern, name) if sole_producer(pattern, name, {"Mul", "Div"}) is not None else (name, 1.0)
    product = sole_producer(pattern, factor, {"MatMul"})
    return None if product is None else (product, scale)


def scaled(pattern: Pattern, name: str) -> tuple[str, float]:
    """Return a tensor before its multiplication by a number, and the number; without one, the tensor itself and 1."""
    producer = pattern.producers.get(name)
    if producer is None or producer.kind not in ("Mul", "Div") or len(producer.inputs) != 2:
        return name, 1.0
    for x, number in (producer.inputs, producer.inputs[::-1])[: 1 if producer.kind == "Div" else 2]:
        constant, value = pattern.constant(number), pattern.number(number)
        # A number of two dimensions would turn a vector into a matrix.
        if constant is None or value is None or constant.ndim > 1 or not math.isfinite(value) or value == 0:
            continue
        if producer.kind == "Mul":
            return x, value
        if math.frexp(value)[0] == 0.5 and 2.0**-64 <= value <= 2.0**64:
            return x, 1 / value
    return name, 1.0


def attention(q: Array, k: Array, v: Array, mask: Array | None = None, *, scales: Sequence[float]) -> Array:
    """Compute float32 operands with equal stacks of matrices in one call, all others node by node."""
    if takes(q, k, v, mask):
        return real_attention(q, k, v, mask, scales=scales)
    q, k = (x if scale == 1 else x * x.dtype.type(scale) for x, scale in zip((q, k), scales, strict=False))
    y = matmul(q, k)
    y = y if scales[2] == 1 else y * y.dtype.type(scales[2])
    return matmul(softmax(y if mask is None else np.add(y, mask)), v)


OPERATORS = [Operator("Attention", attention, domain=DOMAIN, traits=SAME_TYPE)]
