"""Compute the products of dynamic quantization in layers. A layer quantizes a float32 source by its range, as
DynamicQuantizeLinear does, and multiplies it. The layer's epilogue computes::

    f32(sums) * (x_scale * scale) + bias, and post-ops

The inputs are the source, the weights, their scale and zero point, and a bias. Only the source is variable.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from int8blas.layers.inner_product import InnerProduct
from int8blas.onnx.graph import Array
from int8blas.onnx.integer import ConvolutionSums, Sizes, source_given
from int8blas.onnx.operands import as_operand
from int8blas.onnx.table import DOMAIN, SAME_TYPE, Call, Factors, Operator, Site
from int8blas.onnx.windows import TURNS
from int8blas.stage.by_range import quantize_whole

UINT8 = np.dtype(np.uint8)


def of_range(layer: Call, x: Array) -> Array:
    """Apply a layer. If the source has a number that is not finite, it has no scale, and all results are NaN."""
    quantized, scale, zero = quantize_whole(x)
    finite = scale == scale
    y: Array = layer(quantized, scales={"src": scale if finite else 1.0}, zero_points={"src": zero})
    if not finite:
        y.fill(np.nan)
    return y


def dynamic_conv(
    site: Site, *, auto_pad: str = "NOTSET", dilations: Sizes | None = None, group: int = 1,
    kernel_shape: Sizes | None = None, ops: Any = (), pads: Sizes | None = None, strides: Sizes | None = None,
) -> Call:  # fmt: skip
    sums = ConvolutionSums(site, (1, 3, 4), auto_pad, dilations, group, pads, strides)
    weights, scale = site.constants[1], site.constants[2]
    layer = sums.layer(
        weights, site.constants.get(3), site.constants.get(4), UINT8, dst_dtype=np.float32, zero_points={},
        scales={"weights": scale}, attributes=source_given(ops),
    )  # fmt: skip

    def call(x: Array, *_: Array) -> Array:
        sums.check(x, weights)
        to, back = TURNS[x.ndim]
        return of_range(layer, x.transpose(to)).transpose(back)

    return call


def dynamic_product(site: Site, *, ops: Any = ()) -> Call:
    weights, zero, columns = site.constants[1], site.constants.get(3), site.constants[1].shape[1]
    layer = InnerProduct(
        site.packed.matrix(weights), site.constants.get(4), src_dtype=UINT8, dst_dtype=np.float32,
        attributes=source_given(ops),
        scales={"weights": as_operand(site.constants[2], 1, 0, columns)},
        zero_points={"weights": as_operand(zero, 2, 1, columns)} if zero is not None and zero.any() else {},
    )  # fmt: skip
    return lambda a, *_: of_range(layer, a)


OPERATORS = [
    Operator("DynamicConv", dynamic_conv, domain=DOMAIN, prepared=True,
             traits=replace(SAME_TYPE, factors=Factors(0, 1, "windows", dynamic=True))),
    Operator("DynamicMatMul", dynamic_product, domain=DOMAIN, prepared=True,
             traits=replace(SAME_TYPE, factors=Factors(0, 1, dynamic=True))),
]  # fmt: skip
