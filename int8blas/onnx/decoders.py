"""The operators RotaryEmbedding and GroupQueryAttention of onnxruntime's language models: attention with a cache."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from int8blas.layers.cached_attention import cached_attention
from int8blas.onnx.attention import heads_of
from int8blas.onnx.graph import Array
from int8blas.onnx.table import MICROSOFT, SAME_TYPE, Cache, Operator
from int8blas.onnx.types import rounded, wide


def rotated(x: Array, cos: Array, sin: Array, interleaved: int) -> Array:
    """Rotate the first elements of each head in pairs, by the angles of the head's position. x has the shape (...,
    length, size), and cos and sin have the shape (..., length, pairs). Elements after the pairs do not change."""
    pairs = cos.shape[-1]
    y = np.array(x)
    part, into = x[..., : 2 * pairs], y[..., : 2 * pairs]
    if interleaved:
        first, second, one, two = part[..., 0::2], part[..., 1::2], into[..., 0::2], into[..., 1::2]
    else:
        first, second, one, two = part[..., :pairs], part[..., pairs:], into[..., :pairs], into[..., pairs:]
    one[...] = first * cos - second * sin
    two[...] = first * sin + second * cos
    return y


@wide
def rotary_embedding(
    x: Array, positions: Array, cos: Array, sin: Array, *, interleaved: int = 0, is_packed_batching: int = 0,
    num_heads: int = 0, rotary_embedding_dim: int = 0, scale: float = 1.0,
) -> Array:  # fmt: skip
    """Rotate heads by their positions. The size of the tables is the number of elements to rotate. `scale` has no
    effect, as in onnxruntime."""
    if is_packed_batching:
        raise ValueError(f"is_packed_batching must be 0, got {is_packed_batching}")
    size = x.shape[2] // num_heads if num_heads else 2 * cos.shape[1]
    heads = x if x.ndim == 4 else heads_of(x, x.shape[2] // size)
    at = positions + np.arange(heads.shape[2]) if positions.size == 1 else positions
    places = np.broadcast_to(at, (heads.shape[0], heads.shape[2]))
    y = rotated(heads, cos[places][:, None], sin[places][:, None], interleaved)
    return y if x.ndim == 4 else np.ascontiguousarray(y.transpose(0, 2, 1, 3)).reshape(x.shape)


def group_query_attention(
    query: Array, key: Array | None, value: Array | None, past_key: Array | None, past_value: Array | None,
    last: Array, total_length: Array, cos: Array | None = None, sin: Array | None = None,
    positions: Array | None = None, added: Array | None = None, sinks: Array | None = None, *, num_heads: int,
    kv_num_heads: int, do_rotary: int = 0, rotary_interleaved: int = 0, local_window_size: int = -1,
    scale: float = 0.0, softcap: float = 0.0, smooth_softmax: int = 0, outputs: int,
) -> Any:  # fmt: skip
    """Compute causal attention. Groups of heads share keys and values. The cache has the keys and values of earlier
    calls. The second and third results are all keys and all values. The softmax of a head may include one more score,
    the sink of the head. With smooth_softmax, sinks are 0 by default."""
    if sinks is None and smooth_softmax > 0:
        sinks = np.zeros(num_heads, np.float32)
    if key is None or value is None:
        size = query.shape[-1] // (num_heads + 2 * kv_num_heads)
        first, second = num_heads * size, (num_heads + kv_num_heads) * size
        query, key, value = query[..., :first], query[..., first:second], query[..., second:]
    tables = (cos, sin, positions) if do_rotary else (None, None, None)
    in_place = type(past_key) is Cache and type(past_value) is Cache
    if in_place:
        past_key, past_value = np.asarray(past_key), np.asarray(past_value)
    results = cached_attention(
        query, key, value, past_key, past_value, last, int(total_length.reshape(-1)[0]), heads=num_heads,
        shared_heads=kv_num_heads, cos=tables[0], sin=tables[1], positions=tables[2], mask=added,
        sinks=sinks, interleaved=bool(rotary_interleaved), window=local_window_size, scale=scale, softcap=softcap,
        in_place=in_place,
    )  # fmt: skip
    y, *caches = results[:outputs]
    caches = [rounded(x, query.dtype if past is None else past.dtype)
              for x, past in zip(caches, (past_key, past_value), strict=False)]  # fmt: skip
    return (rounded(y, query.dtype), *caches) if caches else rounded(y, query.dtype)


OPERATORS = [
    Operator("RotaryEmbedding", rotary_embedding, domain=MICROSOFT, traits=SAME_TYPE),
    Operator(
        "GroupQueryAttention",
        group_query_attention,
        domain=MICROSOFT,
        traits=replace(SAME_TYPE, updates={1: 3, 2: 4}),
    ),
]
