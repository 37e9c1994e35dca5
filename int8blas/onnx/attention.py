"""Float attention. One node of int8blas replaces the nodes that exporters write::

    MatMul(q, k), Add of a mask, Softmax, MatMul(., v)

Each of q, k and the product may be multiplied by a number (Mul) or divided by a power of two (Div). onnxruntime's
operators Attention and MultiHeadAttention call the same function.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from int8blas.layers.real_attention import real_attention, takes
from int8blas.onnx.graph import Array, Node
from int8blas.onnx.linear import matmul
from int8blas.onnx.normalization import softmax
from int8blas.onnx.patterns import Pattern
from int8blas.onnx.table import DOMAIN, HEAVY, MICROSOFT, Operator, passes_to
from int8blas.onnx.types import wide

# Each block of queries reads all keys and values, so copies of both pay off for more queries than this: 1.4x faster
# with copies for 1,024 queries, and 1.4x without copies for 128 queries (heads of 64, Emerald Rapids).
MOST_ROWS = 384


def rewritten_attention(pattern: Pattern, node: Node) -> Node | None:
    """Return the node that replaces a Softmax and the two products around it."""
    last = pattern.only_consumer(node, {"MatMul"})
    if last is None or node.attributes.get("axis") != -1:
        return None
    plus = pattern.sole_producer(node.inputs[0], {"Add"})
    sides = [(node.inputs[0], "")] if plus is None else [plus.inputs, plus.inputs[::-1]]
    found = [(*scored, mask) for name, mask in sides if (scored := scores(pattern, name)) is not None]
    if not found:
        return None
    product, scale, mask = found[0]
    (q, q_scale), (k, k_scale) = (scaled(pattern, factor) for factor in product.inputs)
    scales = q_scale, k_scale, scale
    return Node("Attention", DOMAIN, (q, k, last.inputs[1], mask), last.outputs, {"scales": scales}, node.name)


def scores(pattern: Pattern, name: str) -> tuple[Node, float] | None:
    """Return the MatMul that computes a tensor for one consumer, and the number that scales its result."""
    factor, scale = scaled(pattern, name) if pattern.sole_producer(name, {"Mul", "Div"}) is not None else (name, 1.0)
    product = pattern.sole_producer(factor, {"MatMul"})
    return None if product is None else (product, scale)


def scaled(pattern: Pattern, name: str) -> tuple[str, float]:
    """Return the source of a multiplication by a number, and the number. For another tensor, return itself and 1."""
    producer = pattern.producers.get(name)
    if producer is None or producer.kind not in ("Mul", "Div") or len(producer.inputs) != 2:
        return name, 1.0
    for x, number in (producer.inputs, producer.inputs[::-1])[: 1 if producer.kind == "Div" else 2]:
        constant, value = pattern.constant(number), pattern.number(number)
        # A number with two dimensions would change a vector to a matrix.
        if constant is None or value is None or constant.ndim > 1 or not math.isfinite(value) or value == 0:
            continue
        if producer.kind == "Mul":
            return x, value
        if math.frexp(value)[0] == 0.5 and 2.0**-64 <= value <= 2.0**64:
            return x, 1 / value
    return name, 1.0


def attention(q: Array, k: Array, v: Array, mask: Array | None = None, *, scales: Sequence[float]) -> Array:
    """Compute attention in one call if operands are float32 and have equal stacks of matrices, or else node by node."""
    if takes(q, k, v, mask):
        if v.strides[-1] != v.itemsize:  # read once for each block of rows: 1.5x faster (1,024 rows, Zen 5)
            v = np.ascontiguousarray(v)
        return real_attention(q, k, v, mask, scales=scales)
    q, k = (x if scale == 1 else x * x.dtype.type(scale) for x, scale in zip((q, k), scales, strict=False))
    y = matmul(q, k)
    y = y if scales[2] == 1 else y * y.dtype.type(scales[2])
    return matmul(softmax(y if mask is None else np.add(y, mask)), v)


def masked(mask: Array | None, batch: int, length: int, total: int, causal: bool) -> Array | None:
    """Return a mask of the hidden scores, in a shape that broadcasts to (batch, heads, length, total)."""
    hidden = None
    if mask is not None:
        at = np.arange(total)
        if mask.ndim == 1:
            ends = mask[:batch, None]
            starts = mask[batch : 2 * batch, None] if mask.size == 2 * batch else 0
            hidden = ((at >= ends) | (at < starts))[:, None, None]
        elif mask.ndim in (2, 3):
            hidden = (mask == 0)[:, None, None] if mask.ndim == 2 else (mask == 0)[:, None]
        else:
            hidden = (mask == 0)[:, :, total - length : total, :total]
    if causal:
        later = np.arange(total) > np.arange(total - length, total)[:, None]
        hidden = later if hidden is None else hidden | later
    return hidden


def biases(
    mask: Array | None, bias: Array | None, q: Array, total: int, causal: bool, filter_value: float
) -> Array | None:
    """Return the numbers to add to scores, in a shape that broadcasts to (batch, heads, length, total)."""
    batch, _, length, _ = q.shape
    zero = np.zeros((), q.dtype)
    result = bias
    if mask is not None:
        hidden = np.asarray(masked(mask, batch, length, total, False))
        numbers = np.asarray(np.where(hidden, q.dtype.type(filter_value), zero))
        result = numbers if result is None else np.asarray(result + numbers)
    if causal:
        later = np.asarray(masked(None, batch, length, total, True))
        result = np.asarray(np.where(later, np.finfo(q.dtype).min, zero if result is None else result))
    return result


def attended(
    q: Array, k: Array, v: Array, mask: Array | None, bias: Array | None, causal: int, scale: float | None,
    filter_value: float,
) -> Array:  # fmt: skip
    """Return the attention of heads (batch, heads, length, size), as (batch, length, heads * size)."""
    numbers = biases(mask, bias, q, k.shape[2], bool(causal), filter_value)
    keys = k.swapaxes(-1, -2)
    if q.shape[2] > MOST_ROWS:
        keys, v = np.ascontiguousarray(keys), np.ascontiguousarray(v)
    y = attention(q, keys, v, numbers, scales=(1.0, 1.0, scale or 1 / math.sqrt(q.shape[-1])))
    return y.transpose(0, 2, 1, 3).reshape(q.shape[0], q.shape[2], q.shape[1] * v.shape[3])


def heads_of(x: Array, heads: int) -> Array:
    """Split (batch, length, heads * size) to (batch, heads, length, size)."""
    return x.reshape(*x.shape[:2], heads, x.shape[2] // heads).transpose(0, 2, 1, 3)


def of_projection(
    projected: Array, mask: Array | None, past: Array | None, added: Array | None, *, num_heads: int,
    unidirectional: int = 0, scale: float | None = None, mask_filter_value: float = -10000.0,
    qkv_hidden_sizes: Sequence[int] | None = None, outputs: int,
) -> Any:  # fmt: skip
    """Compute the attention of q, k and v, which lie side by side. The second result has all keys and values."""
    sizes = qkv_hidden_sizes or [projected.shape[-1] // 3] * 3
    first, second = sizes[0], sizes[0] + sizes[1]
    parts = projected[..., :first], projected[..., first:second], projected[..., second:]
    q, k, v = (heads_of(part, num_heads) for part in parts)
    if past is not None:
        k, v = np.concatenate([past[0], k], 2), np.concatenate([past[1], v], 2)
    y = attended(q, k, v, mask, added, unidirectional, scale, mask_filter_value)
    return y if outputs == 1 else (y, np.stack([k, v]))


@passes_to(of_projection)
@wide
def self_attention(
    x: Array, weights: Array, bias: Array | None = None, mask: Array | None = None, past: Array | None = None,
    added: Array | None = None, **attributes: Any,
) -> Any:  # fmt: skip
    """Project a tensor to q, k and v, and compute their attention."""
    projected = matmul(x, weights)
    if bias is not None:
        projected += bias
    return of_projection(projected, mask, past, added, **attributes)


@wide
def multi_head_attention(
    query: Array, key: Array, value: Array, bias: Array | None = None,
    mask: Array | None = None, added: Array | None = None, past_key: Array | None = None,
    past_value: Array | None = None, *, num_heads: int, unidirectional: int = 0, scale: float | None = None,
    mask_filter_value: float = -10000.0, outputs: int,
) -> Any:  # fmt: skip
    """Compute the attention of queries to keys and values, which may already be divided into heads (batch, heads,
    length, size). The second and third results are all keys and all values."""
    parts = [query, key, value]
    if bias is not None:
        ends = np.cumsum([part.shape[-1] * (num_heads if part.ndim == 4 else 1) for part in parts])
        parts = [part if part.ndim == 4 else part + piece
                 for part, piece in zip(parts, np.split(bias, ends[:2]), strict=True)]  # fmt: skip
    q, k, v = (part if part.ndim == 4 else heads_of(part, num_heads) for part in parts)
    if past_key is not None and past_value is not None:
        k, v = np.concatenate([past_key, k], 2), np.concatenate([past_value, v], 2)
    y = attended(q, k, v, mask, added, unidirectional, scale, mask_filter_value)
    return y if outputs == 1 else (y, np.ascontiguousarray(k), np.ascontiguousarray(v))[:outputs]


OPERATORS = [
    Operator("Attention", attention, domain=DOMAIN, traits=HEAVY),
    Operator("Attention", self_attention, domain=MICROSOFT, traits=HEAVY),
    Operator("MultiHeadAttention", multi_head_attention, domain=MICROSOFT, traits=HEAVY),
]
