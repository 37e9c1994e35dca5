"""Float operators that onnxruntime's optimizer writes in place of several nodes, except attention."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal

import numpy as np

from int8blas.onnx import elementwise, linear, windows
from int8blas.onnx.graph import Array
from int8blas.onnx.normalization import FIRST, inverse_root, layer_normalization, rms_normalization
from int8blas.onnx.table import ELEMENTWISE, HEAVY, MICROSOFT, SAME_TYPE, SHAPED, Call, Operator, Site, passes_to
from int8blas.onnx.types import wide

Activation = Literal["", "Relu", "Tanh", "Sigmoid", "LeakyRelu", "HardSigmoid", "HardSwish", "Clip"]
# The activations of fused products, with the names of the parameters that a node lists.
ACTIVATIONS: dict[str, tuple[Callable[..., Array], tuple[str, ...]]] = {
    "Relu": (elementwise.relu, ()),
    "Tanh": (elementwise.tanh, ()),
    "Sigmoid": (elementwise.sigmoid, ()),
    "LeakyRelu": (elementwise.leaky_relu, ("alpha",)),
    "HardSigmoid": (elementwise.hard_sigmoid, ("alpha", "beta")),
    "HardSwish": (elementwise.hard_swish, ()),
    "Clip": (elementwise.clip, ("min", "max")),
}


def activated(y: Array, activation: str, values: Sequence[float]) -> Array:
    """Apply the activation of a fused node; "" means no activation."""
    if not activation:
        return y
    function, names = ACTIVATIONS[activation]
    return np.asarray(function(y, **dict(zip(names, values, strict=False))))


@passes_to(windows.conv)
def fused_conv(
    site: Site, *, activation: Activation = "", activation_params: Sequence[float] = (), **attributes: Any
) -> Call:
    """Convolve, add `z` if it is given, and apply an activation."""
    convolve = windows.conv(site, **attributes)

    def call(x: Array, w: Array, b: Array | None = None, z: Array | None = None) -> Array:
        y = convolve(x, w, b)
        return activated(y if z is None else y + z, activation, activation_params)

    return call


@passes_to(linear.gemm)
def fused_gemm(
    site: Site, *, activation: Activation = "", activation_alpha: float | None = None,
    activation_beta: float | None = None, activation_gamma: float | None = None, **attributes: Any,
) -> Call:  # fmt: skip
    multiply = linear.prepared_gemm(site, **attributes)
    values = [value for value in (activation_alpha, activation_beta, activation_gamma) if value is not None]
    return lambda *arrays: activated(multiply(*arrays), activation, values)


def fused_matmul(
    a: Array, b: Array, *, alpha: float = 1.0, transA: int = 0, transB: int = 0,  # noqa: N803
    transBatchA: int = 0, transBatchB: int = 0,  # noqa: N803
) -> Array:  # fmt: skip
    """Multiply matrices, transposed as the attributes say. A vector is not transposed."""
    y = linear.matmul(arranged(a, transA, transBatchA), arranged(b, transB, transBatchB))
    return y if alpha == 1 else np.asarray(y * y.dtype.type(alpha))


def arranged(x: Array, transposed: int, batch: int) -> Array:
    """Return the stack of matrices of an operand. With `batch`, move the first dimension before the last dimension."""
    x = np.moveaxis(x, 0, -2) if batch and x.ndim > 2 else x
    return x.swapaxes(-1, -2) if transposed and x.ndim > 1 else x


def skip_layer_norm(
    x: Array, skip: Array, gamma: Array, beta: Array | None = None, bias: Array | None = None, *,
    epsilon: float = 1e-12, outputs: int,
) -> Any:  # fmt: skip
    """Normalize a sum. The fourth result is the sum."""
    total = np.asarray(x + skip if bias is None else x + skip + bias)
    results = layer_normalization(total, gamma, beta, epsilon=epsilon, outputs=min(outputs, 3))
    return (*results, total) if outputs == 4 else results


def skip_simplified_layer_norm(
    x: Array, skip: Array, gamma: Array, bias: Array | None = None, *, epsilon: float = 1e-12, outputs: int
) -> Any:
    """Apply SimplifiedLayerNormalization to a sum. The second result is not computed. The fourth result is the sum."""
    total = np.asarray(x + skip if bias is None else x + skip + bias)
    y = rms_normalization(total, gamma, epsilon=epsilon)
    return (y, None, inverse_root(total, -1, epsilon), total)[:outputs] if outputs > 1 else y


def embed_layer_norm(
    ids: Array, segments: Array | None, word: Array, position: Array, segment: Array | None, gamma: Array, beta: Array,
    mask: Array | None = None, places: Array | None = None, *, epsilon: float = 1e-12, mask_index_type: int = 1,
    outputs: int,
) -> Any:  # fmt: skip
    """Add rows of two or three tables, and normalize them. The second result counts each sequence's visible tokens."""
    if mask_index_type not in (0, 1):
        raise ValueError(f"mask_index_type must be 0 or 1, got {mask_index_type}")
    total = word[ids] + (position[: ids.shape[1]] if places is None else position[places])
    if segments is not None and segment is not None:
        total = total + segment[segments]
    y = layer_normalization(total, gamma, beta, epsilon=epsilon, outputs=1)
    if outputs == 1:
        return y
    count = np.zeros(ids.shape[:1], np.int32) if mask is None else np.count_nonzero(mask, 1).astype(np.int32)
    return (y, count, total)[:outputs]


@wide
def fast_gelu(x: Array, bias: Array | None = None) -> Array:
    return elementwise.gelu(x if bias is None else x + bias, approximate="tanh")


@wide
def bias_gelu(x: Array, bias: Array) -> Array:
    return elementwise.gelu(x + bias)


def gelu(x: Array) -> Array:
    return elementwise.gelu(x)


def quick_gelu(x: Array, *, alpha: float = 1.702) -> Array:
    return elementwise.swish(x, alpha=alpha)


def expand_dims(x: Array, axis: Array) -> Array:
    return np.expand_dims(x, int(axis.item()))


OPERATORS = [
    Operator(name, function, domain=MICROSOFT, prepared=function in (fused_conv, fused_gemm), traits=traits)
    for name, function, traits in (
        ("Gelu", gelu, replace(ELEMENTWISE, post_op=elementwise.gelu.post_ops)),
        ("QuickGelu", quick_gelu, replace(ELEMENTWISE, post_op=partial(elementwise.swish.post_ops, alpha=1.702))),
        ("BiasGelu", bias_gelu, SAME_TYPE),
        ("FastGelu", fast_gelu, replace(ELEMENTWISE, post_op=partial(elementwise.gelu.post_ops, approximate="tanh"))),
        ("FusedConv", fused_conv, HEAVY),
        ("FusedGemm", fused_gemm, HEAVY),
        ("FusedMatMul", fused_matmul, HEAVY),
        ("TransposeMatMul", fused_matmul, HEAVY),
        ("ExpandDims", expand_dims, SHAPED),
        ("SkipLayerNormalization", wide(skip_layer_norm), FIRST),
        ("SkipSimplifiedLayerNormalization", wide(skip_simplified_layer_norm), FIRST),
        ("EmbedLayerNormalization", embed_layer_norm, SHAPED),
    )
]
