"""Find where kernels that add two products in 16 bits would saturate: reconstruct the matrices that each node of a plan
multiplies, also inside fused nodes, and count the sums of two products that overflow.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from int8blas.convolution.im2col import im2col
from int8blas.gemm.saturation import would_saturate
from int8blas.onnx.graph import Array, Node
from int8blas.onnx.integer import dynamic_quantize_linear
from int8blas.onnx.operators import TABLE
from int8blas.onnx.plan import Plan, Step
from int8blas.onnx.recurrent import backwards, directions_of
from int8blas.onnx.table import Factors
from int8blas.onnx.windows import LAYOUTS, padding_of

Pairs = Iterator[tuple[Array, Array]]


class Saturations(dict[str, int]):
    """The number of overflowing sums of two products, by the name of the node that multiplies.

    Attributes
    ----------
    not_counted : dict of str to str
        The reasons why 8-bit products are not counted, by the names of their nodes.
    """

    def __init__(self) -> None:
        super().__init__()
        self.not_counted: dict[str, str] = {}


def matrices(a: Array, b: Array) -> Pairs:
    """Yield the pairs of matrices that numpy.matmul multiplies."""
    a, b = a[None] if a.ndim == 1 else a, b[:, None] if b.ndim == 1 else b
    if b.ndim == 2:
        yield a.reshape(math.prod(a.shape[:-1]), a.shape[-1]), b
        return
    lead = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    a, b = np.broadcast_to(a, (*lead, *a.shape[-2:])), np.broadcast_to(b, (*lead, *b.shape[-2:]))
    for i in np.ndindex(*lead):
        yield a[i], b[i]


def of_matrices(factors: Factors, node: Node, inputs: Sequence[Any], _: Array) -> Pairs:
    """Yield the matrices of a product, transposed as the node's attributes say."""
    a, b = inputs[factors.a], inputs[factors.b]
    a = dynamic_quantize_linear(a)[0] if factors.dynamic else a
    return matrices(a.T if node.attributes.get("transA") else a, b.T if node.attributes.get("transB") else b)


def of_windows(factors: Factors, node: Node, inputs: Sequence[Any], _: Array) -> Pairs:
    """Yield the windows of each image and the weights, channels last, for each group of channels."""
    x, w = inputs[factors.a], inputs[factors.b]
    x = np.moveaxis(x, -1, 1) if node.attributes.get("channels_last") else x
    zero: Any = inputs[factors.zero] if factors.zero is not None and factors.zero < len(inputs) else None
    if factors.dynamic:
        x, _scale, zero = dynamic_quantize_linear(x)
    n, groups = w.ndim - 2, node.attributes.get("group", 1)
    strides, dilations = (node.attributes.get(name) or (1,) * n for name in ("strides", "dilations"))
    spans = [d * (k - 1) + 1 for k, d in zip(w.shape[2:], dilations, strict=True)]
    auto_pad = node.attributes.get("auto_pad", "NOTSET")
    padding = padding_of(x.shape[2:], spans, strides, node.attributes.get("pads"), auto_pad)
    filters = np.moveaxis(w.reshape(groups, -1, *w.shape[1:]), 2, -1).reshape(groups, w.shape[0] // groups, -1)
    for image in x:
        rows = im2col(
            image[None], w.shape[2:], strides=strides, padding=padding, dilation=dilations, groups=groups,
            layout=LAYOUTS[n - 1], padding_value=0 if zero is None else int(zero.reshape(-1)[0]),
        )  # fmt: skip
        yield from matrices(rows.reshape(groups, -1, filters.shape[2]), filters.swapaxes(1, 2))


def of_steps(factors: Factors, node: Node, inputs: Sequence[Any], y: Array) -> Pairs:
    """Yield the source, then the state before each step: the result of the previous step."""
    x, w, r = inputs[:3]
    lengths, h = (*inputs[4:6], None, None)[:2]
    source = dynamic_quantize_linear(x)[0]
    for d, backward in enumerate(directions_of(node.attributes.get("direction", "forward"))):
        yield from matrices(source, w[d])
        results = backwards(y[:, d], lengths) if backward else y[:, d]
        state = np.zeros_like(results[0]) if h is None else h[d]
        for step, result in enumerate(results):
            yield dynamic_quantize_linear(state)[0], r[d]
            state = result if lengths is None else np.where((step < lengths)[:, None], result, state)


PAIRS: dict[str, Callable[[Factors, Node, Sequence[Any], Array], Pairs]] = {
    "matrices": of_matrices, "windows": of_windows, "steps": of_steps,
}  # fmt: skip


def reason_against(factors: Factors, node: Node, inputs: Sequence[Any]) -> str:
    """Return the reason why the sums of a node are not counted, or "" for counted sums."""
    a, b = (inputs[place].dtype for place in (factors.a, factors.b))
    if a in (np.int8, np.int16, np.uint16) or b != np.int8:
        kind = a.name if a.kind in "iu" else "uint8"
        return f"its factors are {kind} and {b.name}, whose products are not added in 16 bits"
    weights, group = inputs[factors.b], node.attributes.get("group", 1)
    alone = factors.pairs == "windows" and weights.shape[1] == 1 and weights.shape[0] == group
    return "it is depthwise: channels are convolved alone, by no product of matrices" if alone else ""


def saturations(plan: Plan, arguments: Sequence[Any]) -> Saturations:
    """Count the sums of two products that overflow 16 bits in one run, with every iteration of loops."""
    counts = Saturations()

    def around(step: Step) -> Any:
        factors = TABLE.traits_of(step.node).factors
        if factors is None:
            return step.call
        name = step.node.origin or step.node.label

        def call(*inputs: Any) -> Any:
            results = step.call(*inputs)
            reason = reason_against(factors, step.node, inputs)
            if reason:
                counts.not_counted[name] = reason
                return results
            first = results[0] if isinstance(results, tuple) else results
            pairs = PAIRS[factors.pairs](factors, step.node, inputs, first)
            counts[name] = counts.get(name, 0) + sum(would_saturate(*pair, limit=0).count for pair in pairs)
            return results

        return call

    plan.watched(around).run(arguments)
    return counts
