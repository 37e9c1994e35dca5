"""Calls of the public functions that take arrays, on small operands, for tests of the objects that count as arrays."""

import numpy as np

import int8blas
from int8blas import InnerProduct

U8 = np.arange(40, dtype=np.uint8).reshape(5, 8) * 6
S8 = (np.arange(24, dtype=np.int16).reshape(8, 3) * 11 - 128).astype(np.int8)
F32 = np.linspace(-3, 5, 40, dtype=np.float32).reshape(5, 8)
IMAGE = np.arange(2 * 4 * 4 * 3, dtype=np.uint8).reshape(2, 4, 4, 3)
FILTERS = (np.arange(5 * 3 * 9, dtype=np.int16).reshape(5, 3, 3, 3) - 60).astype(np.int8)
RNN_WEIGHTS = np.linspace(-1, 1, 8 * 4 * 8, dtype=np.float32).reshape(8, 4, 8)


def dynamic_layer(weights=S8.T, bias=None, src_dtype=np.float32, dst_dtype=np.float32, **more):
    return InnerProduct(
        weights, bias, src_dtype=src_dtype, dst_dtype=dst_dtype, dynamic="per_row", scales={"weights": 0.01}, **more
    )


def static_layer():
    return InnerProduct(S8.T, src_dtype=np.uint8, dst_dtype=np.float32, scales={"src": 0.5, "weights": 0.25})


def convolution(weights=FILTERS, bias=None, scale=0.01):
    scales = {"src": 0.5, "weights": scale}
    return int8blas.Convolution(weights, bias, src_dtype=np.uint8, dst_dtype=np.float32, scales=scales)


def lstm(weights=RNN_WEIGHTS, bias=None, src_dtype=np.float32, **more):
    return int8blas.LSTM(
        weights, weights, bias, data_scale=50, data_shift=128, weights_scale="per_tensor", src_dtype=src_dtype, **more
    )


# Name -> (function of arrays and perhaps `out`, the arrays).
CALLS = {
    "gemm": (lambda a, b: int8blas.gemm_u8s8s32(1, a, b), U8, S8),
    "gemm with c": (lambda a, b, c: int8blas.gemm_u8s8s32(1, a, b, 2, c), U8, S8, np.ones((5, 3), np.int32)),
    "gemm with offsets": (
        lambda ao, bo, co: int8blas.gemm_u8s8s32(1, U8, S8, ao=ao, bo=bo, co=co, offsetc="R"),
        np.arange(5),
        np.arange(3),
        np.arange(3),
    ),
    "matmul": (lambda a, b, **k: int8blas.matmul(a, b, **k), U8, S8),
    "sqeuclidean": (lambda x, y, **k: int8blas.sqeuclidean(x, y, **k), U8, S8.T),
    "hamming": (lambda x, y, **k: int8blas.hamming(x, y, **k), U8, U8[:2]),
    "nearest": (lambda x, y, e: int8blas.nearest(x, y, 2, exclude=e)[1], U8, S8.T, np.array([False, True, False])),
    "syrk": (lambda a, c: int8blas.syrk_u8s32(1, a, 2, c), U8, np.ones((5, 5), np.int32)),
    "pack_b": (lambda b: int8blas.pack_b(b).unpack(), S8),
    "would_saturate": (lambda a, b: int8blas.would_saturate(a, b).where, U8, S8),
    "im2col": (lambda x, **k: int8blas.im2col(x, 2, **k), IMAGE),
    "InnerProduct": (lambda x, **k: static_layer()(x, **k), U8),
    "InnerProduct's weights": (lambda w, b: dynamic_layer(w, b)(F32), F32[:3], np.float32([1, 2, 3])),
    "dynamic InnerProduct": (lambda x, **k: dynamic_layer()(x, **k), F32),
    "Convolution": (lambda x, **k: convolution()(x, **k), IMAGE),
    "Convolution's weights": (lambda w, b: convolution(w, b)(IMAGE), FILTERS, np.arange(5, dtype=np.int32)),
    "LSTM": (lambda x, **k: lstm()(x, **k)[0], F32[np.newaxis]),
    "LSTM's weights": (lambda w: lstm(w)(F32[np.newaxis])[0], RNN_WEIGHTS),
    "quantize": (lambda x, s, z, **k: int8blas.quantize(x, s, z, axis=1, **k), F32, np.full(8, 0.5), np.arange(8)),
    "dequantize": (lambda x, **k: int8blas.dequantize(x, 0.5, **k), U8),
    "requantize": (lambda x, **k: int8blas.requantize(x, 0.5, **k), np.arange(-9, 9, dtype=np.int32).reshape(2, 9)),
    "quantize_bias": (lambda x: int8blas.quantize_bias(x, 0.5, 2), F32),
    "weights_factor": (lambda x: int8blas.weights_factor(x), F32),
    "reorder": (lambda x, **k: int8blas.reorder(x, scales=0.5, dtype=np.int8, **k), F32),
    "weights_scales": (lambda x: int8blas.weights_scales(x), F32),
    "eltwise": (lambda x, **k: int8blas.eltwise(x, int8blas.Eltwise("tanh"), **k), F32),
    "binary": (lambda x, y, **k: int8blas.binary("mul", x, y, **k), F32, F32[::-1]),
    "sum": (lambda x, y, **k: int8blas.sum([x, y], **k), U8, U8),
    "concat": (lambda x, y, **k: int8blas.concat([x, y], 0, **k), F32, F32),
    "PReLU": (lambda x: int8blas.eltwise(F32, int8blas.PReLU(x)), F32[0]),
    "softmax": (lambda x, **k: int8blas.softmax(x, **k), F32),
    "layer_norm": (lambda x, g, b, **k: int8blas.layer_norm(x, g, b, **k), F32, F32[0], F32[1]),
    "max_pool": (lambda x, **k: int8blas.max_pool(x, 2, **k), IMAGE),
    "avg_pool": (lambda x, **k: int8blas.avg_pool(x, 2, **k), IMAGE),
    "gather": (lambda x, i, **k: int8blas.gather(x, i, 0.5, **k), U8, np.array([[3, 0]])),
    "fold_batch_norm": (lambda w, v: int8blas.fold_batch_norm(w, None, v, v, v, v)[0], F32, np.arange(1.0, 6.0)),
    "shifted_bias": (lambda w: int8blas.shifted_bias(None, w, 128), F32),
    "MinMaxObserver": (lambda x: int8blas.calibration.MinMaxObserver().observe(x).parameters().scale, F32),
}
# The calls that take `out`.
OUTPUTS = {
    name: call
    for name, call in CALLS.items()
    if call[0].__code__.co_flags & 8  # CO_VARKEYWORDS
}
# The calls whose arrays may be float32.
FLOATS = {name: call for name, call in CALLS.items() if any(x.dtype == np.float32 for x in call[1:])}


def same_bits(actual, expected):
    actual, expected = np.asarray(actual), np.asarray(expected)
    assert actual.dtype == expected.dtype
    assert actual.shape == expected.shape
    assert actual.tobytes() == expected.tobytes()
