"""Problems of convolution and layers: products with their epilogues, and recurrent layers."""

from __future__ import annotations

from typing import Any

import numpy as np

import int8blas
from int8blas._golden.cases import Result, golden
from int8blas._golden.draws import Draws
from int8blas.stage.attributes import ELTWISE as FORMULAS
from int8blas.stage.attributes import Attributes, Binary, Eltwise, PReLU, ReLU, Sum

SHAPES = ((1, 70, 130), (7, 48, 9), (33, 65, 49))
SRC = ("uint8", "int8")
DST = ("uint8", "int8", "int32", "float32", "float16")
# The parameters of post-ops, where they are not the defaults.
PARAMETERS: dict[str, tuple[float, ...]] = {
    "relu": (0.25,), "elu": (1.5,), "swish": (1.25,), "clip": (-0.75, 1.5), "linear": (0.5, -1.5), "pow": (1.25, 0.5),
    "soft_relu": (1.5,), "hardsigmoid": (0.2, 0.4), "clip_v2": (-0.75, 1.5),
}  # fmt: skip
ELTWISE = {name: PARAMETERS.get(name, ()) for name in FORMULAS}
# Sizes, kernel, channels in and out, and groups, for each strategy: gathered windows, lines, depthwise, small groups, 1
# x 1, 1-D and 3-D.
IMAGES = {
    "general": ((7, 8), (3, 3), 20, 17, 1),
    "lines": ((12, 11), (5, 5), 3, 16, 1),
    "depthwise": ((9, 10), (3, 3), 33, 33, 33),
    "groups": ((8, 7), (3, 3), 32, 32, 8),
    "pointwise": ((7, 6), (1, 1), 40, 33, 1),
    "1D": ((30,), (5,), 6, 10, 1),
    "3D": ((4, 5, 6), (2, 3, 3), 5, 7, 1),
}


def quantization(draws: Draws, src: str, dst: str, channels: int) -> dict[str, Any]:
    """Draw scales for each channel, and zero points."""
    scales: dict[str, Any] = {"src": draws.scale(), "weights": draws.scales(channels)}
    zeros: dict[str, Any] = {"src": draws.integer(0, 100)}
    if np.dtype(dst).kind != "f":
        scales["dst"] = draws.scale(-2)
        zeros["dst"] = draws.integer(-5 if dst == "int8" else 0, 100)
    return {"scales": scales, "zero_points": zeros}


@golden(shape=SHAPES, src=SRC, dst=DST)
def inner_product(draws: Draws, shape: Any, src: Any, dst: Any) -> Result:
    m, n, k = shape
    given = quantization(draws, src, dst, n)
    weights, bias = draws.integers((n, k), "int8"), draws.reals(n)
    layer = int8blas.InnerProduct(weights, bias, src_dtype=src, dst_dtype=dst, **given)
    return layer(draws.integers((m, k), src))


@golden(name=tuple(ELTWISE), dst=("int8", "float32"))
def inner_product_eltwise(draws: Draws, name: Any, dst: Any) -> Result:
    given = quantization(draws, "uint8", dst, 35)
    attributes = Attributes(post_ops=[Eltwise(name, *ELTWISE[name])])
    weights = draws.integers((35, 70), "int8", -20, 20)
    layer = int8blas.InnerProduct(weights, src_dtype="uint8", dst_dtype=dst, attributes=attributes, **given)
    return layer(draws.integers((9, 70), "uint8"))


@golden(dst=DST)
def inner_product_chain(draws: Draws, dst: Any) -> Result:
    """Run post-ops with operands, and a Sum with the old destination."""
    given = quantization(draws, "uint8", dst, 35)
    ops: Any = [
        Sum(0.5),
        Binary(draws.reals((1, 35)), "mul"),
        PReLU(draws.reals((1, 35))),
        Binary(draws.reals((9, 35))),
    ]
    weights, src = draws.integers((35, 70), "int8"), draws.integers((9, 70), "uint8")
    layer = int8blas.InnerProduct(
        weights, src_dtype="uint8", dst_dtype=dst, attributes=Attributes(post_ops=ops), **given
    )
    return layer(src, out=draws.values((9, 35), dst))


@golden(requantization=("doubling", "single", "onnx"), dst=("uint8", "int8"))
def inner_product_requantized(draws: Draws, requantization: Any, dst: Any) -> Result:
    given = quantization(draws, "uint8", dst, 35)
    attributes = Attributes(requantization=requantization, post_ops=[ReLU()])
    bias = draws.integers(35, "int32", -5000, 5000)
    weights, src = draws.integers((35, 70), "int8"), draws.integers((9, 70), "uint8")
    layer = int8blas.InnerProduct(weights, bias, src_dtype="uint8", dst_dtype=dst, attributes=attributes, **given)
    return layer(src)


@golden(kind=("exact", "saturating", "output_scales"))
def inner_product_model(draws: Draws, kind: Any) -> Result:
    """Run a layer in integers only, in the saturating mode, and with the older model of scales."""
    weights, src = draws.integers((35, 70), "int8"), draws.integers((9, 70), "uint8")
    options: dict[str, Any] = {"dst_dtype": "int32"}
    if kind == "saturating":
        options["numerics"] = "saturating"
    elif kind == "output_scales":
        attributes = Attributes(output_scales=(2, draws.scales(35, -9)), post_ops=[Eltwise("tanh", scale=50)])
        options = {"dst_dtype": "int8", "attributes": attributes}
    return int8blas.InnerProduct(weights, draws.integers(35, "int32", -999, 999), src_dtype="uint8", **options)(src)


@golden(mask=(0, 1, 2, 3))
def inner_product_masks(draws: Draws, mask: Any) -> Result:
    """Run layers with output scales by rows, columns and elements, and with zero points beyond 8 bits."""
    m, n = 9, 35
    count = draws.scales({0: 1, 1: m, 2: n, 3: m * n}[mask], -9)
    weights, src = draws.integers((n, 70), "int8"), draws.integers((m, 70), "uint8")
    old = int8blas.InnerProduct(
        weights, src_dtype="uint8", dst_dtype="int8", attributes=Attributes(output_scales=(mask, count))
    )
    wide = int8blas.InnerProduct(
        weights, src_dtype="uint8", dst_dtype="float32", scales={"src": draws.scale(), "weights": draws.scale()},
        zero_points={"src": -200 - 70_000 * mask},
    )  # fmt: skip
    return [old(src), wide(src)]


@golden(shape=SHAPES, src=("float32", "float16"), dynamic=("per_row", "per_tensor"), dtype=SRC)
def inner_product_dynamic(draws: Draws, shape: Any, src: Any, dynamic: Any, dtype: Any) -> Result:
    m, n, k = shape
    weights, bias, x = draws.reals((n, k)), draws.reals(n), draws.reals((m, k), src)
    layer = int8blas.InnerProduct.dynamic(weights, bias, src_dtype=src, dynamic=dynamic, dynamic_dtype=dtype)
    return layer(x)


@golden(group=(16, 40), kind=("static", "dynamic"))
def inner_product_groups(draws: Draws, group: Any, kind: Any) -> Result:
    weights, bias = draws.reals((35, 80)), draws.reals(35)
    if kind == "dynamic":
        return int8blas.InnerProduct.dynamic(weights, bias, group=group)(draws.reals((9, 80)))
    layer = int8blas.InnerProduct(
        draws.integers((35, 80), "int8"), bias, src_dtype="uint8", dst_dtype="float32",
        scales={"src": draws.scale(), "weights": draws.scales((80 // group, 35))}, zero_points={"src": 131},
    )  # fmt: skip
    return layer(draws.integers((9, 80), "uint8"))


@golden(group=(16, 40), src=SRC, weights=SRC)
def zero_points_by_groups(draws: Draws, group: Any, src: Any, weights: Any) -> Result:
    scales, zeros = draws.scales((80 // group, 35)), draws.integers((80 // group, 35), weights)
    layer = int8blas.InnerProduct(
        draws.integers((35, 80), weights), src_dtype=src, dst_dtype="float32",
        scales={"src": draws.scale(), "weights": scales}, zero_points={"src": draws.integer(0, 100), "weights": zeros},
    )  # fmt: skip
    return layer(draws.integers((9, 80), src))


@golden(group=(16, 40), src=SRC, far=(False, True))
def source_by_groups(draws: Draws, group: Any, src: Any, far: Any) -> Result:
    """Run layers with scales and zero points of rows and groups, and with zero points of the weights within and beyond
    their type."""
    groups = 80 // group
    zeros = draws.integers((9, groups), "int32", -100_000, 100_000) if far else draws.integers((9, groups), src)
    of_weights = draws.integers((groups, 35), "int32", -300, 300) if far else 0
    layer = int8blas.InnerProduct(
        draws.integers((35, 80), "int8"), src_dtype=src, dst_dtype="float32",
        scales={"src": draws.scales((9, groups)), "weights": draws.scales((groups, 35))},
        zero_points={"src": zeros, "weights": of_weights},
    )  # fmt: skip
    return layer(draws.integers((9, 80), src))


@golden(image=tuple(IMAGES), layer=("Convolution", "Deconvolution"), src=SRC)
def far_zero_points(draws: Draws, image: Any, layer: Any, src: Any) -> Result:
    """Run convolutions with zero points beyond 8 bits, of the source and of both operands."""
    sizes, kernel, ic, oc, groups = IMAGES[image]
    weights, x = draws.integers((oc, ic // groups, *kernel), "int8"), draws.integers((2, *sizes, ic), src)
    src_zero: dict[str, Any] = {"src": draws.integer(-70_000, -300)}
    weights_zeros: dict[str, Any] = {"weights": draws.integers(oc, "int32", -1000, 1000)}
    return [
        getattr(int8blas, layer)(
            weights, draws.reals(oc), padding=0 if max(kernel) == 1 else 1, groups=groups, src_dtype=src,
            dst_dtype="float32", scales={"src": draws.scale(), "weights": draws.scales(oc)}, zero_points=given,
        )(x)
        for given in (src_zero, weights_zeros, src_zero | weights_zeros)
    ]  # fmt: skip


@golden(image=tuple(IMAGES), src=SRC, dst=("uint8", "int32", "float32"), channels=("last", "first"))
def convolution(draws: Draws, image: Any, src: Any, dst: Any, channels: Any) -> Result:
    sizes, kernel, ic, oc, groups = IMAGES[image]
    given = quantization(draws, src, dst, oc)
    layout: Any
    x, layout = draws.integers((2, *sizes, ic), src), f"n{'dhw'[-len(sizes) :] if len(sizes) > 1 else 'w'}c"
    if channels == "first":
        x, layout = np.ascontiguousarray(np.moveaxis(x, -1, 1)), f"nc{layout[1:-1]}"
    weights, bias = draws.integers((oc, ic // groups, *kernel), "int8"), draws.reals(oc)
    layer = int8blas.Convolution(
        weights, bias, padding="same", groups=groups, layout=layout, src_dtype=src, dst_dtype=dst,
        attributes=Attributes(post_ops=[ReLU(0.125)]), **given,
    )  # fmt: skip
    return layer(x)


@golden(shape=((1, 50, 300), (4, 33, 100), (20, 49, 256)), src=("uint8", "float32"), group=(32, 128))
def inner_product_four_bits(draws: Draws, shape: Any, src: Any, group: Any) -> Result:
    """Run layers with 4-bit weights, and with scales and zero points of groups. The last group may be shorter."""
    m, n, k = shape
    groups = -(-k // group)
    weights, zeros = (draws.integers(sizes, "uint8", 0, 15) for sizes in ((n, k), (groups, n)))
    layer = int8blas.InnerProduct(
        weights, draws.reals(n), src_dtype=src, dst_dtype="float32", dynamic="per_row" if src == "float32" else None,
        scales={"weights": draws.scales((groups, n))}, zero_points={"weights": zeros}, group=group, bits=4,
    )  # fmt: skip
    return layer(draws.values((m, k), src))


@golden(image=tuple(IMAGES), strides=(2, 3), dilation=(1, 2))
def strided_convolution(draws: Draws, image: Any, strides: Any, dilation: Any) -> Result:
    sizes, kernel, ic, oc, groups = IMAGES[image]
    weights, x = draws.integers((oc, ic // groups, *kernel), "int8"), draws.integers((2, *sizes, ic), "uint8")
    layer = int8blas.Convolution(
        weights, strides=strides, dilation=dilation, padding=2, groups=groups, src_dtype="uint8", dst_dtype="int32"
    )
    return layer(x)


@golden(image=tuple(IMAGES), dynamic=("per_image", "per_tensor"))
def dynamic_convolution(draws: Draws, image: Any, dynamic: Any) -> Result:
    sizes, kernel, ic, oc, groups = IMAGES[image]
    weights, x = draws.reals((oc, ic // groups, *kernel)), draws.reals((2, *sizes, ic))
    return int8blas.Convolution.dynamic(weights, padding=1, groups=groups, dynamic=dynamic)(x)


@golden(image=tuple(IMAGES), strides=(1, 2), dst=("uint8", "float32"))
def deconvolution(draws: Draws, image: Any, strides: Any, dst: Any) -> Result:
    sizes, kernel, ic, oc, groups = IMAGES[image]
    given = quantization(draws, "uint8", dst, oc)
    weights, x = draws.integers((oc, ic // groups, *kernel), "int8"), draws.integers((2, *sizes, ic), "uint8")
    layer = int8blas.Deconvolution(
        weights, draws.reals(oc), strides=strides, groups=groups, src_dtype="uint8", dst_dtype=dst, **given
    )
    return layer(x)


@golden(image=tuple(IMAGES), dtype=SRC)
def im2col(draws: Draws, image: Any, dtype: Any) -> Result:
    sizes, kernel, ic, _, groups = IMAGES[image]
    return int8blas.im2col(draws.integers((2, *sizes, ic), dtype), kernel, padding=1, groups=groups, padding_value=3)


@golden(
    cell=("LSTM", "GRU", "lbr_GRU"),
    direction=("left2right", "right2left", "bidirectional_concat", "bidirectional_sum"),
    src=("uint8", "float32"),
    dst=("uint8", "float32"),
)
def recurrent(draws: Draws, cell: Any, direction: Any, src: Any, dst: Any) -> Result:
    steps, n, inputs, units = 4, 3, 20, 17
    gates, both = (4 if cell == "LSTM" else 3), 1 + direction.startswith("bi")
    weights = [draws.integers((both, size, gates, units), "int8") for size in (inputs, units)]
    bias = draws.reals((both, gates + (cell == "lbr_GRU"), units))
    options: dict[str, Any] = {"direction": direction, "src_dtype": src, "dst_dtype": dst}
    options["weights_scale"] = draws.scales((gates, units), 9)
    layer: Any = int8blas.LSTM if cell == "LSTM" else int8blas.GRU
    if cell != "LSTM":
        options["linear_before_reset"] = cell == "lbr_GRU"
    layer = layer(*weights, bias, **options)
    return list(layer(draws.values((steps, n, inputs), src), lengths=[4, 1, 3]))


@golden(
    cell=("tanh", "relu", "logistic", "AUGRU", "lbr_AUGRU", "peephole", "projection", "peephole_projection"),
    direction=("left2right", "right2left", "bidirectional_concat", "bidirectional_sum"),
    src=("uint8", "float32"),
    dst=("uint8", "float32"),
)
def recurrent_variants(draws: Draws, cell: Any, direction: Any, src: Any, dst: Any) -> Result:
    steps, n, inputs, units = 4, 3, 20, 17
    kind: Any = {"AUGRU": int8blas.GRU, "lbr_AUGRU": int8blas.GRU}.get(cell, int8blas.LSTM)
    options: dict[str, Any] = {"direction": direction, "src_dtype": src, "dst_dtype": dst}
    both, gates, outputs = 1 + direction.startswith("bi"), 4, 11 if "projection" in cell else units
    call: dict[str, Any] = {"lengths": [4, 1, 3]}
    if kind is int8blas.GRU:
        gates, options["linear_before_reset"] = 3, cell == "lbr_AUGRU"
        call["attention"] = draws.integers((steps, n), "uint8")
    elif cell in ("tanh", "relu", "logistic"):
        kind, gates, options["activation"] = int8blas.RNN, 1, cell
        options["alpha"] = 0.25 if cell == "relu" else 0.0
    if "peephole" in cell:
        options["weights_peephole"] = draws.reals((both, 3, units))
    if "projection" in cell:
        options["weights_projection"] = draws.integers((both, units, outputs), "int8")
        options["projection_scale"] = draws.scales(outputs, 7)
    weights = [draws.integers((both, size, gates, units), "int8") for size in (inputs, outputs)]
    bias = draws.reals((both, gates + (cell == "lbr_AUGRU"), units))
    layer = kind(*weights, bias, weights_scale=draws.scales((gates, units), 9), **options)
    return list(layer(draws.values((steps, n, inputs), src), **call))


@golden(cell=("LSTM", "GRU"), src=("uint8", "float32"))
def negative_scales(draws: Draws, cell: Any, src: Any) -> Result:
    """Run layers with negative scales of the data and of the weights. The float32 result shows the scales' signs."""
    gates = 4 if cell == "LSTM" else 3
    weights = [draws.integers((size, gates, 17), "int8") for size in (20, 17)]
    layer = getattr(int8blas, cell)(
        *weights, draws.reals((gates, 17)), weights_scale=draws.scales((gates, 17), 9) * np.float32(-1),
        data_scale=-100, src_dtype=src, dst_dtype="float32",
    )  # fmt: skip
    return list(layer(draws.values((4, 3, 20), src)))


@golden(direction=("left2right", "right2left", "bidirectional_concat"))
def dynamic_lstm(draws: Draws, direction: Any) -> Result:
    both = 1 + direction.startswith("bi")
    weights = [draws.reals((both, size, 4, 17), exponents=(-13, -10)) for size in (20, 17)]
    layer = int8blas.DynamicLSTM(weights[0], weights[1], draws.reals((both, 4, 17)), direction=direction)
    return list(layer(draws.reals((4, 3, 20))))
