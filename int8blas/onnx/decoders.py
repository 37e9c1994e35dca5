"""Attention with a cache, of the language models that onnxruntime runs: RotaryEmbedding and GroupQueryAttention."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from int8blas.onnx.attention import attention, heads_of
from int8blas.onnx.graph import Array
from int8blas.onnx.table import MICROSOFT, SAME_TYPE, Operator
from int8blas.onnx.types import wide


def rotated(x: Array, cos: Array, sin: Array, interleaved: int) -> Array:
    """Rotate pairs of the first elements of heads (..., length, size) by the angles of their positions, (..., length,
    pairs); the elements behind them stay."""
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
    """Rotate heads by their positions; the sizes of the tables say how many elements. `scale` has no effect in
    onnxruntime either."""
    if is_packed_batching:
        raise ValueError(f"is_packed_batching must be 0, got {is_packed_batching}")
    if x.ndim == 4:
        heads = x
    else:
        size = x.shape[2] // num_heads if num_heads else 2 * cos.shape[1]
        heads = heads_of(x, x.shape[2] // size)
    at = positions + np.arange(heads.shape[2]) if positions.size == 1 else positions
    places = np.broadcast_to(at, (heads.shape[0], heads.shape[2]))
    y = rotated(heads, cos[places][:, None], sin[places][:, None], interleaved)
    return y if x.ndim == 4 else np.ascontiguousarray(y.transpose(0, 2, 1, 3)).reshape(x.shape)


def hidden_scores(length: int, total: int, window: int) -> Array:
    """Return which of the last `length` of `total` positions do not see which positions: later ones, and ones that are
    `window` or more before them, if that is not negative."""
    rows, columns = np.arange(total - length, total)[:, None], np.arange(total)
    hidden = columns > rows
    return hidden | (columns <= rows - window) if window >= 0 else hidden


@wide
def group_query_attention(
    query: Array, key: Array | None, value: Array | None, past_key: Array | None, past_value: Array | None,
    last: Array, total_length: Array, cos: Array | None = None, sin: Array | None = None,
    positions: Array | None = None, added: Array | None = None, *, num_heads: int, kv_num_heads: int,
    do_rotary: int = 0, rotary_interleaved: int = 0, local_window_size: int = -1, scale: float = 0.0,
    softcap: float = 0.0, smooth_softmax: int = 0, outputs: int,
) -> Any:  # fmt: skip
    """Let heads attend causally to keys and values that groups of them share, and to those of earlier calls. The
    further results are all keys and all values."""
    if softcap or smooth_softmax > 0:
        raise ValueError(f"softcap and smooth_softmax must be 0, got {softcap} and {smooth_softmax}")
    if key is None or value is None:
        size = query.shape[2] // (num_heads + 2 * kv_num_heads)
        ends = [num_heads * size, (num_heads + kv_num_heads) * size]
        query, key, value = np.split(query, ends, -1)
    q, k, v = heads_of(query, num_heads), heads_of(key, kv_num_heads), heads_of(value, kv_num_heads)
    batch, _, length, size = q.shape
    totals, longest = last.reshape(-1).astype(np.int64) + 1, int(total_length.reshape(-1)[0])
    # The first call has right padding, all others as many new positions in each sequence.
    starts = np.zeros(batch, np.int64) if length == longest else totals - length
    if do_rotary and cos is not None and sin is not None:
        at = np.clip(starts[:, None] + np.arange(length), 0, len(cos) - 1) if positions is None else positions
        places = at.reshape(batch, length)
        q, k = (rotated(x, cos[places][:, None], sin[places][:, None], rotary_interleaved) for x in (q, k))
    known = 0 if past_key is None else past_key.shape[2]
    if batch and (starts.min() < 0 or starts.max() > known):
        raise ValueError(
            f"seqlens_k must be from {length - 1} to {length - 1 + known} for {length} new positions and a past of "
            f"{known}, got {last.min()} to {last.max()}"
        )
    room = max(longest, known, int((starts + length).max(initial=0)))
    keys, values = (np.zeros((batch, kv_num_heads, room, x.shape[3]), x.dtype) for x in (k, v))
    y = np.zeros((batch, num_heads, length, v.shape[3]), q.dtype)
    factor = scale or 1 / math.sqrt(size)
    for i, start in enumerate(starts):
        if past_key is not None and past_value is not None:
            keys[i, :, :start], values[i, :, :start] = past_key[i, :, :start], past_value[i, :, :start]
        end = start + length
        keys[i, :, start:end], values[i, :, start:end] = k[i], v[i]
        mask = np.where(hidden_scores(length, end, local_window_size), np.float32(-np.inf), np.float32(0))
        if added is not None:
            mask = mask + added[i if len(added) > 1 else 0, ..., :length, :end]
        y[i] = attended(q[i], keys[i, :, :end], values[i, :, :end], mask, factor)
    result = np.ascontiguousarray(y.transpose(0, 2, 1, 3)).reshape(batch, length, num_heads * v.shape[3])
    return result if outputs == 1 else (result, keys, values)[:outputs]


def attended(q: Array, k: Array, v: Array, mask: Array, factor: float) -> Array:
    """Return the attention of heads (heads, length, size) to keys and values that groups of them share."""
    shared = len(q) // len(k)
    grouped = np.ascontiguousarray(q.reshape(len(k), shared, *q.shape[1:]))
    turned, values = (np.ascontiguousarray(x[:, None].repeat(shared, 1)) for x in (k.swapaxes(-1, -2), v))
    numbers = mask.reshape(len(k), shared, *mask.shape[1:]) if mask.ndim == 3 and len(mask) > 1 else mask
    y = attention(grouped, turned, values, np.asarray(numbers, np.float32), scales=(1.0, 1.0, factor))
    return y.reshape(len(q), *y.shape[2:])


OPERATORS = [
    Operator("RotaryEmbedding", rotary_embedding, domain=MICROSOFT, traits=SAME_TYPE),
    Operator("GroupQueryAttention", group_query_attention, domain=MICROSOFT, traits=SAME_TYPE),
]
