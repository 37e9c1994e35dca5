"""Problems without products: the functions of int8blas.elementwise, and of int8blas.network if they compute arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

import int8blas
from int8blas._golden.cases import Result, golden
from int8blas._golden.draws import Draws
from int8blas._golden.layers import ELTWISE
from int8blas.stage.attributes import BINARY, Binary, Eltwise, PReLU

INT8 = ("uint8", "int8")
TYPES = (*INT8, "int32", "float32")
# The sizes, the kernel, the strides and the padding of each kind of windows.
WINDOWS = {
    "2x2": ((9, 11), (2, 2), 2, 0),
    "3x3": ((10, 9), (3, 3), 2, 1),
    "5x3": ((7, 7), (5, 3), 1, 2),
    "1D": ((30,), (4,), 3, 1),
    "3D": ((5, 6, 7), (2, 3, 2), 2, 1),
}


@golden(src=("float32", "float16"), dtype=(*INT8, "int32"), axis=(None, 0, 1))
def quantize(draws: Draws, src: Any, dtype: Any, axis: Any) -> Result:
    schemes: tuple[Any, ...] = ("float",) if dtype == "int32" else ("float", "onnx")
    x = draws.reals((33, 20), src)
    count = () if axis is None else x.shape[axis]
    scale, zero = draws.scales(count), draws.integers(count, "int32", 0, 100)
    return [int8blas.quantize(x, scale, zero, dtype, axis=axis, scheme=scheme) for scheme in schemes]


@golden(src=(*INT8, "int32"))
def dequantize(draws: Draws, src: Any) -> Result:
    return int8blas.dequantize(draws.integers((33, 20), src), draws.scales(20), draws.integer(0, 100), axis=1)


@golden(dtype=INT8, scheme=("float", "doubling", "single", "onnx"), axis=(None, 1))
def requantize(draws: Draws, dtype: Any, scheme: Any, axis: Any) -> Result:
    x = draws.integers((33, 20), "int32", -(1 << 20), 1 << 20)
    scale = draws.scales(() if axis is None else 20, -13)
    return int8blas.requantize(x, scale, draws.integer(0, 100), dtype, axis=axis, scheme=scheme)


@golden(dtype=(*INT8, "int32"), zero_point=(-(2**31), -1000, 300, 2**31 - 1))
def wide_zero_points(draws: Draws, dtype: Any, zero_point: Any) -> Result:
    x, sums = draws.reals((33, 20)), draws.integers((33, 20), "int32")
    scale = abs(zero_point) / 2000
    return [
        int8blas.quantize(np.float32(scale) * x, -scale / 300, zero_point, dtype),
        int8blas.dequantize(draws.integers((33, 20), dtype), scale, zero_point),
        int8blas.requantize(sums, 2.0**-20, zero_point, dtype),
        int8blas.gather(draws.integers((50, 33), "uint8"), draws.integers(9, "int64", 0, 49), -scale, zero_point),
    ]


@golden(exponent=(-20, -5, 0, 3))
def quantized_multiplier(draws: Draws, exponent: Any) -> Result:
    return np.array([int8blas.quantized_multiplier(float(x)) for x in draws.scales(9, exponent)], np.int64)


@golden(name=tuple(ELTWISE), src=TYPES, dst=("uint8", "float32"))
def eltwise(draws: Draws, name: Any, src: Any, dst: Any) -> Result:
    scales: dict[Any, Any] = {} if src == "float32" else {"src": draws.scale(-28 if src == "int32" else -5)}
    if dst == "uint8":
        scales["dst"] = draws.scale()
    return int8blas.eltwise(draws.values((9, 37), src), Eltwise(name, *ELTWISE[name]), scales=scales, dst_dtype=dst)


@golden(op=BINARY, src=TYPES)
def binary(draws: Draws, op: Any, src: Any) -> Result:
    """Run `binary` on equal shapes, and with a factor that is broadcast."""
    x, y = draws.values((3, 9, 37), src), draws.values((9, 1), src)
    scales = {} if src == "float32" else {"src0": draws.scale(-5), "src1": draws.scale(-5)}
    return [int8blas.binary(op, x, other, scales=scales, dst_dtype="float32") for other in (x[::-1], y)]


@golden(src=TYPES, count=(1, 3))
def sums(draws: Draws, src: Any, count: Any) -> Result:
    """Run `sum` and `concat`."""
    arrays = [draws.values((3, 6, 40), src) for _ in range(count)]
    scales, scale = draws.scales(count, -2), draws.scale(-1)
    return [
        int8blas.sum(arrays, scales=scales, dst_dtype="float32"),
        int8blas.concat(arrays, 1),
        int8blas.concat(arrays, 2, scales=scales, dst_scale=scale),
    ]


@golden(windows=tuple(WINDOWS), channels=(1, 17), dtype=INT8, order=("last", "first"))
def pooling(draws: Draws, windows: Any, channels: Any, dtype: Any, order: Any) -> Result:
    layout: Any
    sizes, kernel, strides, padding = WINDOWS[windows]
    layout, shape = f"n{'dhw'[-len(sizes) :] if len(sizes) > 1 else 'w'}c", (2, *sizes, channels)
    if order == "first":
        layout, shape = f"nc{layout[1:-1]}", (2, channels, *sizes)
    x: Any = draws.integers(shape, dtype)
    options: dict[str, Any] = {"strides": strides, "padding": padding, "layout": layout}
    return [
        int8blas.max_pool(x, kernel, **options),
        int8blas.avg_pool(x, kernel, **options),
        int8blas.avg_pool(x, kernel, include_padding=True, zero_point=3, **options),
        int8blas.global_max_pool(x, layout=layout),
        int8blas.global_avg_pool(x, layout=layout),
    ]


@golden(n=(1, 16, 33, 130), src=TYPES, dst=("int8", "float32"), log=(False, True))
def softmax(draws: Draws, n: Any, src: Any, dst: Any, log: Any) -> Result:
    scales: dict[Any, Any] = {} if src == "float32" else {"src": draws.scale(-28 if src == "int32" else -5)}
    if dst == "int8":
        scales["dst"] = 1 / 16 if log else 1 / 256
    return int8blas.softmax(draws.values((5, n), src), scales=scales, dst_dtype=dst, log=log)


@golden(n=(1, 16, 33, 130), src=(*INT8, "float32"), dst=("int8", "float32"))
def layer_norm(draws: Draws, n: Any, src: Any, dst: Any) -> Result:
    scales: dict[Any, Any] = {} if src == "float32" else {"src": draws.scale(-5)}
    if dst == "int8":
        scales["dst"] = 1 / 32
    gamma, beta = draws.reals((2, n))
    return int8blas.layer_norm(draws.values((5, n), src), gamma, beta, scales=scales, dst_dtype=dst)


def epilogue(draws: Draws, dst: str, columns: int) -> dict[str, Any]:
    """A chain of post-ops, and the destination's quantization."""
    ops: Any = [Binary(draws.reals((1, columns)), "mul"), Eltwise("swish", 1.25), PReLU(draws.reals((1, columns)))]
    scales, zeros = {"src": draws.scale(-5)}, {"src": draws.integer(-300, 300)}
    if dst != "float32":
        scales["dst"], zeros["dst"] = draws.scale(-4), draws.integer(-5 if dst == "int8" else 0, 100)
    return {"scales": scales, "zero_points": zeros, "post_ops": ops, "dst_dtype": dst}


@golden(function=("softmax", "layer_norm"), dst=("uint8", "int8", "float32"))
def normalization_epilogues(draws: Draws, function: Any, dst: Any) -> Result:
    more = epilogue(draws, dst, 33)
    x = draws.integers((5, 33), "int8")
    if function == "softmax":
        return int8blas.softmax(x, **more)
    return int8blas.layer_norm(x, *draws.reals((2, 33)), **more)


@golden(function=("max_pool", "avg_pool", "global_max_pool", "global_avg_pool"), dst=("uint8", "int8", "float32"))
def pooling_epilogues(draws: Draws, function: Any, dst: Any) -> Result:
    more = epilogue(draws, dst, 17)
    more["post_ops"] = [Eltwise("swish", 1.25), Eltwise("linear", 0.75, -0.5)]
    kernel: Any = () if function.startswith("global") else ((3, 2),)
    return getattr(int8blas, function)(draws.integers((2, 7, 8, 17), "uint8"), *kernel, **more)


@golden(function=("sum", "concat"), dst=("uint8", "int8", "float32"))
def joined_epilogues(draws: Draws, function: Any, dst: Any) -> Result:
    arrays = [draws.integers((4, 33), "int8") for _ in range(3)]
    more: dict[str, Any] = {"scales": draws.scales(3, -4), "zero_points": [-300, 0, 300], "dst_dtype": dst}
    more["post_ops"] = [Eltwise("swish", 1.25), Binary(draws.reals((1, 33)), "mul")]
    if dst != "float32":
        more |= {"dst_scale": draws.scale(-4), "dst_zero_point": draws.integer(0, 100)}
    return int8blas.sum(arrays, **more) if function == "sum" else int8blas.concat(arrays, 0, **more)


@golden(dtype=INT8, axis=(None, 0, 1))
def gather(draws: Draws, dtype: Any, axis: Any) -> Result:
    table, indices = draws.integers((50, 33), dtype), draws.integers((3, 9), "int64", 0, 49)
    scale = draws.scales(() if axis is None else table.shape[axis])
    return int8blas.gather(table, indices, scale, 7, axis=axis)


@golden(layouts=("oihw-hwio", "hwio-ohwi", "oi-io", "nchw-nhwc"), dtype=(*INT8, "float32"))
def reorder(draws: Draws, layouts: Any, dtype: Any) -> Result:
    source, target = layouts.split("-")
    scales = None if dtype == "float32" else draws.scale()
    x = draws.reals((3, 4, 5, 6)[: len(source)])
    return int8blas.reorder(x, src_layout=source, dst_layout=target, dtype=dtype, scales=scales)


@golden(layout=("oi", "oihw"))
def weights(draws: Draws, layout: Any) -> Result:
    """Run the functions that prepare weights: scales, factors, folded normalization."""
    w = draws.reals((6, 5, 3, 3)[: len(layout)])
    gamma, beta, mean, variance = draws.scales((4, 6), 0)
    folded = int8blas.fold_batch_norm(w, beta, gamma, beta, mean, variance)
    factor = int8blas.weights_factor(w, axis=0)
    return [
        int8blas.weights_scales(w, layout=layout), *folded, int8blas.shifted_bias(beta, w.reshape(6, -1), 128),
        np.float32(int8blas.activation_factor(np.abs(w))), factor, int8blas.quantize_bias(beta, 3.0, gamma),
    ]  # fmt: skip
