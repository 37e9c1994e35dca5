"""A row's result does not depend on the batch: rows i:j of a result are the result of rows i:j, bit for bit.

A layer that finds one scale for a whole tensor depends on the whole tensor by its definition: dynamic="per_tensor",
each step of DynamicLSTM, and ONNX's DynamicQuantizeLinear.
"""

import numpy as np
import pytest
from calls import same_bits
from onnx_models import loaded

import int8blas
from int8blas import Attributes, Binary, Eltwise, PReLU, ReLU

ROWS = 67
# Parts at the edges of tiles, single rows, and parts of several sizes.
PARTS = [(0, 1), (66, 67), (3, 4), (0, 2), (1, 9), (5, 38), (0, 64), (16, 67)]
U8, S8, F32, F16 = np.uint8, np.int8, np.float32, np.float16


def draw(rng, shape, dtype):
    if np.dtype(dtype).kind == "f":
        return (rng.standard_normal(shape) * 10.0 ** rng.integers(-2, 2, shape)).astype(dtype)
    return rng.integers(np.iinfo(dtype).min, np.iinfo(dtype).max, shape, dtype, endpoint=True)


def inner_product(rng, src=U8, dst=F32, k=200, n=33, **more):
    scales = {"src": 0.02, "weights": rng.uniform(0.001, 0.01, n).astype(F32)}
    ops = [Eltwise("gelu_erf"), Binary(draw(rng, (1, n), F32), "mul"), PReLU(draw(rng, (1, n), F32)), ReLU(0.1)]
    if np.dtype(dst).kind != "f":
        scales["dst"] = 0.3
    return int8blas.InnerProduct(
        draw(rng, (n, k), S8), draw(rng, n, F32), src_dtype=src, dst_dtype=dst, scales=scales,
        zero_points={"src": 3}, attributes=Attributes(post_ops=ops), **more,
    )  # fmt: skip


def by_groups(rng):
    scales = {"src": 0.02, "weights": rng.uniform(0.001, 0.01, (5, 33)).astype(F32)}
    return int8blas.InnerProduct(draw(rng, (33, 200), S8), src_dtype=U8, dst_dtype=F32, scales=scales)


def dynamic(rng, n=33, **more):
    return int8blas.InnerProduct.dynamic(draw(rng, (n, 200), F32), draw(rng, n, F32), **more)


def convolution(rng, kind="Convolution", ic=8, oc=17, groups=1, **more):
    return getattr(int8blas, kind)(
        draw(rng, (oc, ic // groups, 3, 3), S8), draw(rng, oc, F32), padding=1, groups=groups, src_dtype=U8,
        dst_dtype=S8, scales={"src": 0.02, "weights": rng.uniform(0.001, 0.01, oc).astype(F32), "dst": 0.3}, **more,
    )  # fmt: skip


def recurrent(kind, gates, **more):
    """A recurrent layer, as a function whose first dimension is the sequences."""

    def make(rng):
        weights = [draw(rng, (1, size, gates, 17), S8) for size in (9, 17)]
        layer = getattr(int8blas, kind)(*weights, weights_scale=rng.uniform(300, 900, (gates, 17)), **more)
        return lambda x: np.moveaxis(layer(np.moveaxis(x, 1, 0))[0], 0, 1)

    return make


def projected(rng):
    more = {
        "weights_peephole": rng.normal(0, 1, (1, 3, 17)).astype(F32),
        "weights_projection": draw(rng, (1, 17, 11), S8),
        "projection_scale": 300.0,
    }
    weights = draw(rng, (1, 9, 4, 17), S8), draw(rng, (1, 11, 4, 17), S8)
    layer = int8blas.LSTM(*weights, weights_scale=rng.uniform(300, 900, (4, 17)), dst_dtype=F32, **more)
    return lambda x: np.moveaxis(layer(np.moveaxis(x, 1, 0))[0], 0, 1)


def with_attention(rng):
    """The last column of a row is its attention."""
    weights = [draw(rng, (1, size, 3, 17), S8) for size in (9, 17)]
    layer = int8blas.GRU(*weights, weights_scale=rng.uniform(300, 900, (3, 17)), src_dtype=F32, dst_dtype=F32)

    def run(x):
        x = np.moveaxis(x, 1, 0)
        return np.moveaxis(layer(x[..., :9], attention=x[..., 9])[0], 0, 1)

    return run


def gemm(signs, packed=False):
    def make(rng):
        b = draw(rng, (200, 33), U8 if signs[2] == "u" else S8)
        b = int8blas.pack_b(b) if packed else b
        return lambda x: getattr(int8blas, f"gemm_{signs}s32")(0.3, x, b, bo=3)

    return make


def nearest(metric):
    def make(rng):
        y = draw(rng, (300, 200), S8)
        return lambda x: int8blas.nearest(x, y, 7, metric=metric)

    return make


def with_operand(function, shape, dtype):
    """A function of x and a random array."""

    def make(rng):
        y = draw(rng, shape, dtype)
        return lambda x: function(x, y)

    return make


def of_columns(function):
    """A function of x and a random y with the same number of columns."""
    return with_operand(function, (90, 200), S8)


def model(text, dtype):
    """An ONNX model of a product with weights of this type."""

    def make(rng):
        constants = {"w": draw(rng, (200, 33), dtype), "s": np.float32(0.01), "z": np.zeros((), dtype)}
        made = loaded(text, constants=constants)
        return lambda x: made.run(None, {"x": x})

    return make


# Name -> (a function that creates a function of a batch, the shape of a row, the type of the batch).
LAYERS = {
    **{f"gemm_{signs}s32": (gemm(signs), (200,), U8 if signs[0] == "u" else S8) for signs in ("u8s8", "s8s8", "u8u8")},
    "gemm, packed": (gemm("s8u8", packed=True), (200,), S8),
    "matmul of a stack": (of_columns(lambda x, y: int8blas.matmul(x, y.T)), (3, 200), U8),
    "matmul, int64": (of_columns(lambda x, y: int8blas.matmul(x, y.T, dtype=np.int64)), (200,), U8),
    "sqeuclidean": (of_columns(int8blas.sqeuclidean), (200,), S8),
    **{f"nearest, {metric}": (nearest(metric), (200,), S8) for metric in ("inner", "sqeuclidean", "cosine")},
    "hamming": (with_operand(int8blas.hamming, (90, 200), U8), (200,), U8),
    **{f"InnerProduct to {np.dtype(dst)}": (lambda rng, dst=dst: inner_product(rng, dst=dst), (200,), U8)
       for dst in (U8, S8, np.int32, F32, F16)},
    "InnerProduct of int8": (lambda rng: inner_product(rng, S8), (200,), S8),
    "InnerProduct, saturating": (lambda rng: inner_product(rng, numerics="saturating"), (200,), U8),
    "InnerProduct of matrices": (lambda rng: int8blas.InnerProduct(
        draw(rng, (33, 200), S8), src_dtype=U8, dst_dtype=np.int32), (4, 50), U8),
    "InnerProduct by groups": (by_groups, (200,), U8),
    "InnerProduct.dynamic": (dynamic, (200,), F32),
    "InnerProduct.dynamic to uint8": (lambda rng: dynamic(rng, dynamic_dtype=U8), (200,), F32),
    "InnerProduct.dynamic of float16": (lambda rng: dynamic(rng, src_dtype=F16, dst_dtype=F16), (200,), F16),
    "InnerProduct.dynamic by groups": (lambda rng: dynamic(rng, group=40), (200,), F32),
    "RealProduct": (with_operand(lambda x, y: int8blas.RealProduct(y, 0.1)(x), (200, 33), S8), (200,), F32),
    "RealProduct by groups": (with_operand(
        lambda x, y: int8blas.RealProduct(y, group=40)(x), (200, 33), F32), (200,), F32),
    "Convolution": (convolution, (7, 6, 8), U8),
    "Convolution of lines": (lambda rng: convolution(rng, ic=3), (12, 12, 3), U8),
    "Convolution, depthwise": (lambda rng: convolution(rng, ic=17, groups=17), (7, 6, 17), U8),
    "Convolution of groups": (lambda rng: convolution(rng, ic=16, oc=16, groups=4), (7, 6, 16), U8),
    "Convolution, channels first": (lambda rng: convolution(rng, layout="nchw"), (8, 7, 6), U8),
    "Convolution.dynamic": (lambda rng: int8blas.Convolution.dynamic(
        draw(rng, (9, 8, 3, 3), F32), dynamic="per_image"), (7, 6, 8), F32),
    "Deconvolution": (lambda rng: convolution(rng, "Deconvolution", strides=2), (4, 5, 8), U8),
    "im2col": (lambda rng: lambda x: int8blas.im2col(x, 3).reshape(len(x), -1), (5, 6, 3), U8),
    "LSTM": (recurrent("LSTM", 4), (5, 9), U8),
    "LSTM of float32": (recurrent("LSTM", 4, src_dtype=F32, dst_dtype=F32), (5, 9), F32),
    "GRU": (recurrent("GRU", 3), (5, 9), U8),
    "GRU, linear before reset": (recurrent("GRU", 3, linear_before_reset=True), (5, 9), U8),
    "RNN": (recurrent("RNN", 1), (5, 9), U8),
    "RNN of relu": (recurrent("RNN", 1, activation="relu", dst_dtype=F32), (5, 9), U8),
    "LSTM, peephole and projection": (projected, (5, 9), U8),
    "GRU, attention": (with_attention, (5, 10), F32),
    "quantize": (lambda rng: lambda x: int8blas.quantize(x, 0.3, 7), (70,), F32),
    "dequantize": (lambda rng: lambda x: int8blas.dequantize(x, 0.3, 7), (70,), U8),
    "requantize": (lambda rng: lambda x: int8blas.requantize(x, 1e-7), (70,), np.int32),
    "eltwise": (lambda rng: lambda x: int8blas.eltwise(x, Eltwise("gelu_tanh")), (70,), F32),
    "binary": (with_operand(lambda x, y: int8blas.binary("mul", x, y), 70, F32), (70,), F32),
    "sum": (lambda rng: lambda x: int8blas.sum([x, x], scales=[0.3, 0.4]), (70,), U8),
    "concat": (lambda rng: lambda x: int8blas.concat([x, x], 1), (70,), U8),
    "max_pool": (lambda rng: lambda x: int8blas.max_pool(x, 2), (6, 5, 17), U8),
    "avg_pool": (lambda rng: lambda x: int8blas.avg_pool(x, 2), (6, 5, 17), S8),
    "global_avg_pool": (lambda rng: lambda x: int8blas.global_avg_pool(x), (6, 5, 17), U8),
    "global_max_pool": (lambda rng: lambda x: int8blas.global_max_pool(x), (6, 5, 17), U8),
    "softmax": (lambda rng: lambda x: int8blas.softmax(x), (70,), F32),
    "softmax of uint8": (lambda rng: lambda x: int8blas.softmax(x, scales={"src": 0.1}), (70,), U8),
    "layer_norm": (lambda rng: lambda x: int8blas.layer_norm(x), (70,), F32),
    "gather": (with_operand(lambda x, y: int8blas.gather(y, x, 0.3), (256, 20), S8), (3,), U8),
    "reorder": (lambda rng: lambda x: int8blas.reorder(x, src_layout="nchw", dst_layout="nhwc"), (3, 4, 5), F32),
    "ONNX, integers": (model(
        "g (uint8[n, 200] x) => (int32[n, 33] y) { y = MatMulInteger(x, w) }", S8), (200,), U8),
    "ONNX, int8 weights": (model(
        "g (float[n, 200] x) => (float[n, 33] y) { v = DequantizeLinear(w, s, z) p = MatMul(x, v) y = Gelu(p) }"
        .replace("Gelu", "Tanh"), S8), (200,), F32),
    "ONNX, float32": (model(
        "g (float[n, 200] x) => (float[n, 33] y) { p = MatMul(x, w) y = Softmax(p) }", F32),
        (200,), F32),
}  # fmt: skip


@pytest.mark.parametrize("name", LAYERS)
def test_rows_of_a_batch_are_the_result_of_these_rows(isa, rng, name):
    make, shape, dtype = LAYERS[name]
    batch, function = draw(rng, (ROWS, *shape), dtype), make(rng)
    whole = function(batch)
    for first, end in PARTS:
        part = function(batch[first:end])
        for rows, all_rows in zip(part, whole, strict=True) if isinstance(whole, (list, tuple)) else [(part, whole)]:
            same_bits(rows, all_rows[first:end])


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_the_number_of_threads_makes_no_difference_for_a_part(rng, threads):
    batch, layer = draw(rng, (ROWS, 200), F32), dynamic(rng, 300)
    whole = layer(batch)
    with int8blas.num_threads(threads):
        same_bits(layer(batch[5:38]), whole[5:38])


def test_every_layer_is_here():
    classes = {name: value for name, value in vars(int8blas).items() if isinstance(value, type)}
    layers = {name for name, value in classes.items() if "__call__" in dir(value)}
    assert layers - {name.split()[0].strip(",") for name in LAYERS} == {"DynamicLSTM"}


def test_one_scale_for_a_tensor_depends_on_the_tensor(rng):
    batch, layer = draw(rng, (ROWS, 200), F32), dynamic(rng, dynamic="per_tensor")
    batch[-1] *= 1000
    assert not np.array_equal(layer(batch)[:1], layer(batch[:1]))
