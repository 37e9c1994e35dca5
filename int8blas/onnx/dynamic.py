"""Products in layers whose epilogue computes in float32::

    y = f32(sum) * (x_scale * scale) + bias, post-ops

Only the source of a product is variable. The layers of dynamic quantization quantize the source by its range, like
DynamicQuantizeLinear. The inputs of dynamic layers are the source, the weights, the scale and zero point of the
weights, and a bias. The layers of static quantization take an 8-bit source. The inputs of static layers are the inputs
of QLinearConv, but with a float bias. The result is y if the scale of the result is absent, or else ``sat(rne(y * (1 /
y_scale)) + y_zero)``.
"""

from __future__ import annotations

import functools
import math
from dataclasses import replace
from typing import Any

import numpy as np

from int8blas.convolution.deconvolution import Deconvolution
from int8blas.elementwise.functions import eltwise
from int8blas.layers.inner_product import InnerProduct
from int8blas.onnx.elementwise import placed
from int8blas.onnx.graph import Array
from int8blas.onnx.integer import ConvolutionSums, channels_last, source_given
from int8blas.onnx.operands import as_operand
from int8blas.onnx.table import DOMAIN, SAME_TYPE, SHAPED, Call, Factors, Operator, Site
from int8blas.onnx.types import AutoPad
from int8blas.onnx.windows import CHANNELS_LAST, TURNS, Sizes, order_of, padding_of
from int8blas.stage.attributes import Attributes
from int8blas.stage.by_range import quantize_whole

UINT8 = np.dtype(np.uint8)


def of_range(layer: Call, x: Array) -> Array:
    """Apply a layer. All results are NaN if the source has a number that is not finite, or a range that overflows,
    because such a source has no finite scale."""
    quantized, scale, zero = quantize_whole(x)
    finite = math.isfinite(scale)
    y: Array = layer(quantized, scales={"src": scale if finite else 1.0}, zero_points={"src": zero})
    if not finite:
        y.fill(np.nan)
    return y


def dynamic_conv(site: Site, *, ops: Any = (), **geometry: Any) -> Call:
    sums = ConvolutionSums(site, (1, 3, 4), **geometry)
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


def epilogue(site: Site, ops: Any) -> dict[str, Any]:
    """Return the arguments of a layer that its epilogue needs."""
    x_scale, x_zero, w_scale = (site.constants[i] for i in (1, 2, 4))
    y_scale, y_zero = site.constants.get(6), site.constants.get(7)
    scales: dict[str, Any] = {"src": x_scale.item(), "weights": w_scale if w_scale.size > 1 else w_scale.item()}
    zeros: dict[str, Any] = {"src": x_zero.item()}
    dtype = np.dtype(np.float32)
    if y_scale is not None and y_zero is not None:
        scales["dst"], zeros["dst"], dtype = y_scale.item(), y_zero.item(), y_zero.dtype
    attributes = Attributes(post_ops=[*ops], requantization="onnx")
    return {"dst_dtype": dtype, "scales": scales, "zero_points": zeros, "attributes": attributes}


def quantized_product(site: Site, *, ops: Any = ()) -> Call:
    given, weights, zero = epilogue(site, ops), site.constants[3], site.constants[5]
    if zero.any():
        given["zero_points"]["weights"] = as_operand(zero, 2, 1, weights.shape[1])
    layer = InnerProduct(
        site.packed.matrix(weights), site.constants.get(8), src_dtype=site.constants[2].dtype, **given
    )  # fmt: skip
    return lambda a, *_: layer(a)


def quantized_conv(site: Site, *, ops: Any = (), **geometry: Any) -> Call:
    sums = ConvolutionSums(site, (3, 5, 8), **geometry)
    weights = site.constants[3]
    layer = sums.layer(
        weights, site.constants[5], site.constants.get(8), site.constants[2].dtype, **epilogue(site, ops)
    )  # fmt: skip

    def call(x: Array, *_: Array) -> Array:
        sums.check(x, weights)
        return channels_last(layer, x)

    return call


def quantized_deconvolution(
    site: Site, *, auto_pad: AutoPad = "NOTSET", dilations: Sizes | None = None, group: int = 1,
    kernel_shape: Sizes | None = None, ops: Any = (), output_padding: Sizes | None = None, pads: Sizes | None = None,
    strides: Sizes | None = None,
) -> Call:  # fmt: skip
    """Multiply the weights (ic, oc / groups, ...) of a ConvTranspose."""
    weights, zero, given = site.constants[3], site.constants[5], epilogue(site, ops)
    n = weights.ndim - 2
    filters = weights.reshape(group, weights.shape[0] // group, *weights.shape[1:]).swapaxes(1, 2)
    if zero.any():
        given["zero_points"]["weights"] = zero.reshape(-1) if zero.size > 1 else zero.item()
    layer = Deconvolution(
        filters if group > 1 else filters[0], site.constants.get(8), strides=strides or 1,
        padding=padding_of((0,) * n, (1,) * n, (1,) * n, pads, auto_pad), output_padding=output_padding or 0,
        dilation=dilations or 1, groups=group, layout=CHANNELS_LAST[n - 1], src_dtype=site.constants[2].dtype, **given,
    )  # fmt: skip
    return lambda x, *_: channels_last(layer, x)


def quantized_chain(site: Site, *, ops: Any) -> Call:
    """Compute post_ops(scale * (x - zero)) of bytes in one pass. Quantize the result if its scale is given."""
    scale, zero = (site.constants[i] for i in (1, 2))
    y_scale, y_zero = (site.constants.get(i) for i in (3, 4))
    scales, zeros = {"src": scale.reshape(-1)[0]}, {"src": int(zero.item())}
    more: dict[str, Any] = {"dst_dtype": np.float32}
    if y_scale is not None and y_zero is not None:
        scales["dst"], zeros["dst"] = y_scale.reshape(-1)[0], int(y_zero.item())
        more = {"dst_dtype": y_zero.dtype, "scheme": "onnx"}
    steps = functools.cache(lambda order: [placed(op, order) for op in ops])

    def call(x: Array, *_: Array) -> Array:
        if x.dtype != zero.dtype:
            raise TypeError(f"bytes must be {zero.dtype.name}, as their zero point is, got {x.dtype.name}")
        to, back = order_of(x)
        y = eltwise(x.transpose(to), steps(to), scales=scales, zero_points=zeros, **more)
        return np.asarray(y.transpose(back))

    return call


OF_BYTES = Factors(0, 3, "windows", 2)
OPERATORS = [
    Operator("QuantizedMatMul", quantized_product, domain=DOMAIN, prepared=True,
             traits=replace(SHAPED, factors=Factors(0, 3))),
    Operator("QuantizedConv", quantized_conv, domain=DOMAIN, prepared=True, traits=replace(SHAPED, factors=OF_BYTES)),
    Operator("QuantizedChain", quantized_chain, domain=DOMAIN, prepared=True, traits=SHAPED),
    Operator("QuantizedConvTranspose", quantized_deconvolution, domain=DOMAIN, prepared=True, traits=SHAPED),
    Operator("DynamicConv", dynamic_conv, domain=DOMAIN, prepared=True,
             traits=replace(SAME_TYPE, factors=Factors(0, 1, "windows", dynamic=True))),
    Operator("DynamicMatMul", dynamic_product, domain=DOMAIN, prepared=True,
             traits=replace(SAME_TYPE, factors=Factors(0, 1, dynamic=True))),
]  # fmt: skip
