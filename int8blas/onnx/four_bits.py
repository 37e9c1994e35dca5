"""Let products and lookups read 4-bit weights as they are stored, without a DequantizeLinear.

A MatMul or Gemm of a and DequantizeLinear(int4) becomes a MatMulNBits. Gather(DequantizeLinear(int4), indices) becomes
a GatherBlockQuantized.

Weights may also be uint4. The weights have one scale, one scale for each column (each row of a Gather), or one scale
for each block of the other axis. The weights are never stored as float32.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from int8blas.onnx.blocked import INT8
from int8blas.onnx.graph import Array, Node
from int8blas.onnx.integer import positive_finite
from int8blas.onnx.patterns import Pattern
from int8blas.onnx.table import MICROSOFT
from int8blas.onnx.types import FLOAT32, FOUR_BITS
from int8blas.stage.weights_scales import MAX_GROUP

# Block sizes of MatMulNBits are powers of 2 from LEAST_BLOCK on. A single block of all k is a multiple of LEAST_BLOCK.
LEAST_BLOCK = 16


class Blocks(NamedTuple):
    """Rows of values from 0 to 15, and their scales and zero points (rows, blocks) by blocks of a row."""

    values: Array
    scales: Array
    zeros: Array
    size: int


def blocks_of(pattern: Pattern, node: Node | None, rows: int) -> Blocks | None:
    """Return the constant 4-bit matrix of a DequantizeLinear, with the axis `rows` as its rows, or None."""
    if node is None or node.operator != "DequantizeLinear":
        return None
    given = pattern.constants(node.inputs)
    if given is None or given[0].dtype.name not in FOUR_BITS or given[0].ndim != 2 or not given[0].size:
        return None
    values, scales, *zeros = given
    real = scales.dtype == np.float32 and node.attributes.get("output_dtype", FLOAT32) in (0, FLOAT32)
    if not real or not positive_finite(scales):
        return None
    axis, size = node.attributes.get("axis", 1) % 2, node.attributes.get("block_size", 0)
    blocked = scales.ndim == 2 and size > 0 and axis != rows
    if not blocked and scales.size != 1 and (scales.ndim != 1 or axis != rows):
        return None
    matrix = values if rows == 0 else values.T
    zero = zeros[0].astype(np.int8) if zeros else np.zeros(scales.shape, np.int8)
    if not blocked:
        size = matrix.shape[1]
        scales, zero = (np.broadcast_to(each.reshape(-1, 1), (len(matrix), 1)) for each in (scales, zero))
    elif rows == 1:
        scales, zero = scales.T, zero.T
    shift = np.int8(8 if values.dtype.name == "int4" else 0)
    return Blocks((matrix.astype(np.int8) + shift).view(np.uint8), scales, (zero + shift).view(np.uint8), size)


def in_bytes(x: Array, width: int) -> Array:
    """Return 4-bit values as bytes, the low half first, with zeros up to `width` in each row."""
    wide = np.zeros((len(x), width), np.uint8)
    wide[:, : x.shape[1]] = x
    packed: Array = wide[:, 0::2] | wide[:, 1::2] << 4
    return packed


def rewritten_four_bits(pattern: Pattern, node: Node) -> Node | None:
    """Rewrite a product with a 4-bit matrix as a MatMulNBits."""
    producer, turned = pattern.producers.get(node.inputs[1]), bool(node.attributes.get("transB"))
    factors = (node.attributes.get("alpha", 1), node.attributes.get("beta", 1), node.attributes.get("transA", 0))
    found = blocks_of(pattern, producer, 0 if turned else 1) if factors == (1, 1, 0) else None
    if found is None:
        return None
    n, k = found.values.shape
    if found.size >= k:
        block = min(MAX_GROUP, -(-k // LEAST_BLOCK) * LEAST_BLOCK)
        repeats = -(-k // block)
    else:
        block = min(MAX_GROUP, found.size & -found.size)
        repeats = found.size // block
    if block < LEAST_BLOCK:
        return None
    count = -(-k // block)
    fits, bias = pattern.summand(node, 2, 1, n)
    if not fits:
        return None
    scales, zeros = (np.repeat(array, repeats, 1)[:, :count] for array in (found.scales, found.zeros))
    constants = (
        ("weights", in_bytes(found.values, count * block).reshape(n, count, block // 2)),
        ("scales", np.ascontiguousarray(scales)), ("zero points", in_bytes(zeros, count + count % 2)),
        ("order", None), ("bias", bias),
    )  # fmt: skip
    inputs = [node.inputs[0], *(pattern.constant_named(node, what, value) for what, value in constants)]
    attributes = {"K": k, "N": n, "bits": 4, "block_size": block, "accuracy_level": INT8 if pattern.dynamic else 0}
    return Node("MatMulNBits", MICROSOFT, tuple(inputs), node.outputs, attributes, node.name)


def rewritten_lookup(pattern: Pattern, node: Node) -> Node | None:
    """Rewrite a lookup of rows of a 4-bit matrix as a GatherBlockQuantized."""
    found = blocks_of(pattern, pattern.producers.get(node.inputs[0]), 0)
    if found is None or node.attributes.get("axis", 0) % 2 or found.values.shape[1] % 2:
        return None
    constants = (
        ("weights", in_bytes(found.values, found.values.shape[1])), ("scales", np.ascontiguousarray(found.scales)),
        ("zero points", in_bytes(found.zeros, found.zeros.shape[1] + found.zeros.shape[1] % 2)),
    )  # fmt: skip
    table, scales, zeros = (pattern.constant_named(node, what, value) for what, value in constants)
    attributes = {"gather_axis": 0, "quantize_axis": 1, "block_size": found.size, "bits": 4}
    inputs = (table, node.inputs[1], scales, zeros)
    return Node("GatherBlockQuantized", MICROSOFT, inputs, node.outputs, attributes, node.name)
