"""onnxruntime's operators MatMulNBits and GatherBlockQuantized, whose weights have a scale for each block of k::

    w[n, k] = scales[n, k // block] * (q[n, k] - zero_points[n, k // block])

With `accuracy_level` 4 a MatMulNBits quantizes its source to int8, each row by its range. With other levels, the source
stays real. 4-bit weights stay packed in memory at every level. Several products of one source, such as the queries,
keys and values of attention, become one product, because each separate product would quantize the source again.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from int8blas.layers.inner_product import InnerProduct
from int8blas.layers.real_product import RealProduct
from int8blas.onnx import linear
from int8blas.onnx.graph import Array, Graph, Node
from int8blas.onnx.table import DOMAIN, MICROSOFT, SAME_TYPE, SHAPED, Call, Operator, Site
from int8blas.onnx.types import SINGLE
from int8blas.stage.formats import GroupedWeights, from_matmul_nbits

# The accuracy level of MatMulNBits with which the source is quantized to int8.
INT8 = 4
NBITS_DEFAULTS = {"bits": 4, "accuracy_level": 0}


def real_layer(weights: GroupedWeights) -> Call:
    """Return the product of real numbers and weights without a permutation of k. The weights are packed as 4 bits or
    int8 if their values fit."""
    given = weights.arguments()
    values, zeros, scale = given["weights"], given["zero_points"].get("weights"), given["scales"]["weights"]
    missing = -values.shape[1] % weights.group
    values = np.pad(values, ((0, 0), (0, missing)))
    if weights.bits == 4:
        layer = RealProduct(values.T, scale, bits=4, zero_points=zeros)
    elif zeros is not None or values.dtype != np.int8:
        matrix = np.ascontiguousarray(weights.dequantized().T)
        return lambda x: linear.matmul(x, matrix)
    else:
        layer = RealProduct(np.ascontiguousarray(values.T), scale)
    if not missing:
        return layer
    return lambda x: layer(np.concatenate([x, np.zeros((*x.shape[:-1], missing), x.dtype)], -1))


def layer_of(weights: GroupedWeights, accuracy_level: int) -> Call:
    """Return the product with weights without a permutation of k. To multiply in int8 by 8-bit weights, groups must
    divide K."""
    if accuracy_level != INT8 or (weights.bits == 8 and weights.weights.shape[1] % weights.group):
        return real_layer(weights)
    given = weights.arguments()
    return InnerProduct.dynamic(given.pop("weights"), **given)


def matmul_nbits(
    site: Site, *, K: int, N: int, block_size: int, bits: int = 4, accuracy_level: int = 0,  # noqa: N803
    weight_prepacked: int = 0,
) -> Call:  # fmt: skip
    """Multiply by weights in blocks, which are packed once if they are constant."""
    if bits not in (4, 8):
        raise ValueError(f"{site.node} must have bits 4 or 8, got {bits}")
    if weight_prepacked:
        raise ValueError(f"{site.node} must have weight_prepacked 0, got {weight_prepacked}")
    outputs = dict.fromkeys(range(1, 5))

    def made(b: Array, scales: Array, zeros: Array | None, g_idx: Array | None) -> tuple[Call, Array | None]:
        """Return a product, and the order of its k."""
        real_zeros = zeros is not None and zeros.dtype != np.uint8
        weights = from_matmul_nbits(b, scales, None if real_zeros else zeros, g_idx, n=N, k=K, bits=bits,
                                    block_size=block_size)  # fmt: skip
        order, weights = weights.order, replace(weights, order=None)
        if real_zeros and zeros is not None:
            shape = weights.scales.shape[::-1]
            weights = replace(weights, zero_points=zeros.astype(np.float32).reshape(shape).T)
            matrix = np.ascontiguousarray(weights.dequantized().T)
            return lambda x: linear.matmul(x, matrix), order
        return layer_of(weights, accuracy_level), order

    constant = [site.constants.get(i) for i in outputs]
    fixed = all(value is not None or not site.node.input(i) for i, value in zip(outputs, constant, strict=True))
    known: Any = None
    if fixed and constant[0] is not None and constant[1] is not None:
        arrays = [value for value in constant if value is not None]
        key = ("MatMulNBits", *(value is None for value in constant), K, N, block_size, bits, accuracy_level == INT8)
        known = site.packed.once(lambda: made(*constant), arrays, *key)  # type: ignore[arg-type]

    def call(
        x: Array, b: Array, scales: Array, zeros: Array | None = None, g_idx: Array | None = None,
        bias: Array | None = None,
    ) -> Array:  # fmt: skip
        layer, order = known or made(b, scales, zeros, g_idx)
        source = x if x.dtype == SINGLE else x.astype(SINGLE)
        y = layer(source if order is None else np.ascontiguousarray(source[..., order]))
        if bias is not None:
            y = y + bias
        return np.asarray(y, x.dtype)

    return call


def parallel_matmul_nbits(
    site: Site, *, K: int, widths: Sequence[int], block_size: int, bits: int, accuracy_level: int,  # noqa: N803
) -> Call:  # fmt: skip
    """Multiply one source by the constant weights of several MatMulNBits. The results are columns of one array."""
    names = site.node.inputs[1:]
    constants = [site.constants[i] if name else None for i, name in enumerate(names, 1)]
    arrays = [value for value in constants if value is not None]

    def made() -> Call:
        parts = []
        for i, n in enumerate(widths):
            b, scales, points = constants[3 * i : 3 * i + 3]
            assert b is not None  # merge_key
            assert scales is not None
            parts.append(from_matmul_nbits(b, scales, points, n=n, k=K, bits=bits, block_size=block_size))
        zeros = [part.zero_points for part in parts if part.zero_points is not None]
        weights = replace(
            parts[0],
            weights=np.concatenate([part.weights for part in parts]),
            scales=np.concatenate([part.scales for part in parts], 1),
            zero_points=np.concatenate(zeros, 1) if zeros else None,
        )
        return layer_of(weights, accuracy_level)

    layer = site.packed.once(made, arrays, "ParallelMatMulNBits", K, *widths, block_size, bits, accuracy_level == INT8)
    ends = np.cumsum(widths).tolist()
    spans = [slice(end - width, end) for end, width in zip(ends, widths, strict=True)]

    def call(x: Array, *_: Array | None) -> tuple[Array, ...]:
        y = layer(x) if x.dtype == SINGLE else layer(x.astype(SINGLE)).astype(x.dtype)
        return tuple([y[..., span] for span in spans])

    return call


def merge_key(node: Node, constants: Mapping[str, Array]) -> Hashable:
    """Return the key of a node, or None if it cannot be merged. Nodes with equal keys become one product."""
    if node.kind != "com.microsoft.MatMulNBits":
        return None
    b, scales, zeros = (constants.get(node.input(i)) for i in (1, 2, 3))
    own = node.input(3) and (zeros is None or zeros.dtype != np.uint8)
    if any(node.inputs[4:]) or b is None or scales is None or own:
        return None
    given = {**NBITS_DEFAULTS, **node.attributes}
    return node.inputs[0], zeros is None, *(given[name] for name in ("K", "block_size", "bits", "accuracy_level"))


def merged_nodes(graph: Graph) -> list[Node]:
    """Return the nodes of a graph, with one product in place of the MatMulNBits nodes that have equal keys."""
    groups: dict[Hashable, list[Node]] = {}
    for node in graph.nodes:
        key = merge_key(node, graph.constants)
        if key is not None:
            groups.setdefault(key, []).append(node)
    new: dict[int, list[Node]] = {}
    for nodes in groups.values():
        first = nodes[0]
        if len(nodes) > 1:
            new.update((id(each), []) for each in nodes)
            names = (each.input(i) for each in nodes for i in (1, 2, 3))
            outputs = tuple(each.outputs[0] for each in nodes)
            attributes = {name: first.attributes[name] for name in ("K", "block_size")}
            attributes |= {name: first.attributes.get(name, default) for name, default in NBITS_DEFAULTS.items()}
            attributes["widths"] = [each.attributes["N"] for each in nodes]
            parts = tuple(part for each in nodes for part in each.parts or (each.label,))
            new[id(first)] = [Node("ParallelMatMulNBits", DOMAIN, (first.inputs[0], *names), outputs, attributes,
                                   first.name, parts, origin=first.label)]  # fmt: skip
    return [each for node in graph.nodes for each in new.get(id(node), [node])]


def halves(x: Array) -> Array:
    """Return the two values of each byte along the last axis, the low half first."""
    return np.stack([x & 15, x >> 4], -1).reshape(*x.shape[:-1], 2 * x.shape[-1])


def gather_block_quantized(
    data: Array, indices: Array, scales: Array, zeros: Array | None = None, *, gather_axis: int = 0,
    quantize_axis: int = 1, block_size: int = 128, bits: int = 4,
) -> Array:  # fmt: skip
    """Gather slices of quantized weights, and dequantize only these. A byte of 4-bit uint8 data has two values."""
    packs = data.dtype == np.uint8 and bits == 4
    gather, axis = gather_axis % data.ndim, quantize_axis % data.ndim
    if gather == axis:
        raise ValueError(f"gather_axis must differ from quantize_axis, got {gather_axis} and {quantize_axis}")
    if packs and axis != data.ndim - 1:
        raise ValueError(f"quantize_axis must be the last one for uint8 data of 4 bits, got {quantize_axis}")
    default = 0 if data.dtype != np.uint8 else 1 << (bits - 1)
    at = axis if axis < gather else axis + indices.ndim - 1
    values, factors = np.take(data, indices, gather), np.take(scales, indices, gather)
    points = None if zeros is None else np.take(zeros, indices, gather)
    if packs:
        values = halves(values)
        points = None if points is None else halves(points)[..., : factors.shape[-1]]
    count = values.shape[at]
    zero = np.float32(default) if points is None else blocks(points.astype(np.float32), at, block_size, count)
    y = (values.astype(np.float32) - zero) * blocks(factors.astype(np.float32), at, block_size, count)
    return np.asarray(y, scales.dtype)


def blocks(x: Array, axis: int, size: int, count: int) -> Array:
    """Repeat the values of blocks for their `count` elements along an axis."""
    return np.take(x, np.arange(count) // size, axis)


OPERATORS = [
    Operator("MatMulNBits", matmul_nbits, domain=MICROSOFT, prepared=True, traits=SAME_TYPE),
    Operator("ParallelMatMulNBits", parallel_matmul_nbits, domain=DOMAIN, prepared=True, traits=SAME_TYPE),
    Operator("GatherBlockQuantized", gather_block_quantized, domain=MICROSOFT, traits=SHAPED),
]
