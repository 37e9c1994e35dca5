"""Record the bits of some thousand results of a build of int8blas, or compare them with another build's.

    old/bin/python benchmarks/record_bits.py old.json
    new/bin/python benchmarks/record_bits.py --check old.json

A result comes from a public function or layer on small random operands, with all kinds, shapes, types and attributes,
or is the bytes of a file or the text of an error. Each is computed on every instruction set of this CPU, with one
thread and with two, and must be the same every time; the JSON file stores its SHA-256. The exit status is 1 if results
differ. The script uses only public names, so that it can record builds of other versions. After a change to the script,
record both builds again.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import sys
import warnings
import zlib
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import int8blas
import numpy as np
from int8blas import Attributes, Binary, Eltwise, PReLU, ReLU, Sum, calibration

Case = tuple[str, Callable[[], Any]]
Cases = Iterator[Case]
Rng = np.random.Generator

INT8, UINT8, INT32, F16, F32 = np.int8, np.uint8, np.int32, np.float16, np.float32
ALGORITHMS = ("relu", "tanh", "logistic", "elu", "gelu_erf", "gelu_tanh", "swish", "hardswish", "clip", "abs", "square",
              "sqrt", "linear", "round")  # fmt: skip
BINARY = ("add", "sub", "mul", "div", "min", "max", "ge", "gt", "le", "lt", "eq", "ne")
SCHEMES = ("float", "doubling", "single")


def integers(rng: Rng, shape: Any, dtype: Any, narrow: bool = False) -> np.ndarray:
    """Integers from the whole range of a type, or, if `narrow`, a quarter of it, where sums of two products fit 16
    bits."""
    info = np.iinfo(dtype)
    shift = 2 if narrow else 0
    return rng.integers(info.min >> shift, info.max >> shift, shape, dtype, endpoint=True)


def reals(rng: Rng, shape: Any, dtype: Any = F32) -> np.ndarray:
    """Floats of several magnitudes."""
    return (rng.standard_normal(shape) * 10.0 ** rng.integers(-2, 2, shape)).astype(dtype)


def in_type(rng: Rng, shape: Any, dtype: Any) -> np.ndarray:
    return reals(rng, shape, dtype) if np.dtype(dtype).kind == "f" else integers(rng, shape, dtype)


def pick(rng: Rng, choices: Any) -> Any:
    return choices[rng.integers(len(choices))]


# --- products --------------------------------------------------------------------------------------------------------

SHAPES = (
    (0, 3, 2), (3, 2, 0), (1, 1, 1), (1, 5, 3), (4, 4, 4), (8, 8, 8), (7, 16, 5), (13, 17, 9), (16, 16, 16),
    (15, 48, 31), (29, 49, 33), (32, 32, 32), (64, 64, 64), (1, 130, 300), (2, 65, 700), (4, 1030, 130), (6, 33, 513),
    (16, 300, 260), (130, 1, 300), (700, 3, 64), (300, 8, 130), (257, 15, 65), (300, 70, 3), (513, 129, 8),
    (90, 257, 16), (70, 70, 70), (97, 101, 103), (130, 150, 290), (257, 272, 515), (33, 65, 4100),
)  # fmt: skip


DISTANCES = ((1, 90, 384), (4, 50, 65), (16, 33, 130), (130, 300, 9), (70, 70, 515), (1, 9, 40_000))


def gemm_call(rng: Rng, shape: tuple[int, int, int], signs: str, form: int) -> Callable[[], Any]:
    m, n, k = shape
    types = {"u": UINT8, "s": INT8}
    narrow = bool(rng.integers(3) == 0)
    a, b = integers(rng, (m, k), types[signs[0]]), integers(rng, (k, n), types[signs[2]], narrow)
    keywords: dict[str, Any] = {}
    c, alpha, beta, packed = None, 1.0, 0.0, form in (1, 4)
    if form in (2, 3, 4):
        low_a, low_b = np.iinfo(a.dtype).min, np.iinfo(b.dtype).min
        vectors = form == 3
        keywords["ao"] = rng.integers(low_a, low_a + 255, m if vectors else None)
        keywords["bo"] = rng.integers(low_b, low_b + 255, n if vectors else None)
    if form in (3, 4, 5):
        keywords["offsetc"] = offsetc = pick(rng, "FCR")
        keywords["co"] = integers(rng, {"F": 1, "C": m, "R": n}[offsetc], INT32) >> 8
        alpha, beta = pick(rng, ((1.0, 1.0), (0.37, 0.0), (-1.5, 2.0)))
        c = integers(rng, (m, n), INT32) >> 9
        c = np.asfortranarray(c) if rng.integers(2) else c
    if form == 6 and signs[2] == "s":
        keywords["numerics"] = "saturating"
    if form in (2, 5, 6):
        keywords["trans_a"], a = True, np.ascontiguousarray(a.T)
    if form in (3, 6):
        keywords["trans_b"], b = True, np.ascontiguousarray(b.T)
    if form == 0 and k > 1:
        a, b = np.repeat(a, 2, axis=1)[:, ::2], np.asfortranarray(b)
    function = getattr(int8blas, f"gemm_{signs}s32")
    return lambda: function(alpha, a, int8blas.pack_b(b) if packed else b, beta, c, **keywords)


def gemm(rng: Rng) -> Cases:
    for shape, signs, form in product(SHAPES, ("u8s8", "s8s8", "s8u8", "u8u8"), range(7)):
        yield f"{signs} {shape} form {form}", gemm_call(rng, shape, signs, form)


def matmul(rng: Rng) -> Cases:
    stacks = (((5,), (5,)), ((3, 5), (5,)), ((5,), (5, 4)), ((2, 3, 5), (5, 4)), ((7, 1, 3, 5), (2, 5, 4)),
              ((40, 9, 33), (40, 33, 17)), ((3, 64, 130), (130, 70)), ((2, 1, 300), (300, 65)))  # fmt: skip
    for shapes, dtypes, dtype in product(stacks, product((UINT8, INT8), repeat=2), (INT32, np.int64)):
        a, b = (integers(rng, shape, kind) for shape, kind in zip(shapes, dtypes, strict=True))
        keywords = {} if rng.integers(2) else {"ao": int(pick(rng, (0, 3, 100))), "bo": int(pick(rng, (0, 7, 90)))}
        yield (
            f"{shapes} {a.dtype} {b.dtype} {np.dtype(dtype)} {keywords}",
            partial(int8blas.matmul, a, b, dtype=dtype, **keywords),
        )


def everyday(rng: Rng) -> Cases:
    """Functions that version 0.2.0 added; an older build has no results of them."""
    if not hasattr(int8blas, "nearest"):
        return
    for n, k, dtype, columns in product((1, 16, 50, 97, 300), (3, 64, 515, 2100), (UINT8, INT8), (False, True)):
        x = integers(rng, (k, n) if columns else (n, k), dtype)
        syrk = int8blas.syrk_u8s32 if dtype == UINT8 else int8blas.syrk_s8s32
        name = f"{n} x {k} {np.dtype(dtype)} columns {columns}"
        alpha, beta, ao = pick(rng, ((1, 0, 0), (0.3, 0, 5), (-2, 1.5, 0)))
        c, lower = integers(rng, (n, n), INT32) >> 8, bool(rng.integers(2))
        yield f"syrk {name} {alpha} {beta} {ao}", partial(syrk, alpha, x, beta, c, columns, lower, ao=ao)
        left, right = (x.T, x) if columns else (x, x.T)
        yield f"gram {name}", partial(int8blas.matmul, left, right, dtype=np.int64)
    for m, n, k in ((1, 1, 70_000), (2, 7, 66_000), (16, 16, 40_000), (3, 5, 1_000_003)):
        for a_type, b_type in product((UINT8, INT8), repeat=2):
            a, b = integers(rng, (m, k), a_type), integers(rng, (n, k), b_type)
            yield f"dot {m} x {n} x {k} {a.dtype} {b.dtype}", partial(int8blas.matmul, a, b.T, dtype=np.int64)
    for (m, n, k), x_type, y_type in product(DISTANCES, (UINT8, INT8), (UINT8, INT8)):
        x, y = integers(rng, (m, k), x_type), integers(rng, (n, k), y_type)
        name, packed = f"{m} x {n} x {k} {x.dtype} {y.dtype}", int8blas.pack_b(y, trans_b=True)
        yield f"sqeuclidean {name}", partial(int8blas.sqeuclidean, x, y)
        yield f"sqeuclidean packed {name}", partial(int8blas.sqeuclidean, x, packed)
        for metric in ("inner", "sqeuclidean", "cosine"):
            yield f"nearest {metric} {name}", partial(int8blas.nearest, x, [packed, y], 7, metric=metric)
        if (x.dtype, y.dtype) == (UINT8, UINT8):
            yield f"hamming {name}", partial(int8blas.hamming, x, packed)


def packed(rng: Rng) -> Cases:
    for k, n in ((0, 3), (1, 1), (3, 17), (4, 16), (33, 48), (65, 49), (130, 70), (515, 33)):
        for dtype, narrow in product((UINT8, INT8), (False, True)):
            b = integers(rng, (k, n), dtype, narrow)
            made = f"{b.dtype} {k} x {n} narrow {narrow}"
            yield f"file {made}", partial(saved_packed, b)
            yield f"unpack {made}", partial(unpacked, b)
            a = integers(rng, (5, k), UINT8)
            if dtype == INT8:
                yield f"would_saturate {made}", partial(saturated, a, b)


def saved_packed(b: np.ndarray) -> bytes:
    return saved(int8blas.pack_b(b))


def unpacked(b: np.ndarray) -> list[np.ndarray]:
    packed = int8blas.pack_b(b.T, trans_b=True)
    return [packed.unpack(), packed.column_sums]


def saturated(a: np.ndarray, b: np.ndarray) -> list[np.ndarray]:
    found = int8blas.would_saturate(a, b)
    return [np.asarray(found.count), found.where]


def saved(value: Any) -> bytes:
    """The bytes of the file that save writes."""
    file = io.BytesIO()
    int8blas.save(file, value)
    return file.getvalue()


# --- layers ----------------------------------------------------------------------------------------------------------


def random_ops(rng: Rng, columns: int, axis: int, ndim: int) -> list[Any]:
    """Up to three post-ops, with operands by channel."""
    shape = [columns if i == axis else 1 for i in range(ndim)]
    ops: list[Any] = []
    for _ in range(rng.integers(4)):
        kind = rng.integers(5)
        if kind == 0 and not any(isinstance(op, Sum) for op in ops):
            ops.append(Sum(0.5))
        elif kind == 1:
            ops.append(Binary(reals(rng, shape), pick(rng, BINARY[:6])))
        elif kind == 2:
            ops.append(PReLU(reals(rng, shape)))
        elif kind == 3:
            ops.append(ReLU(pick(rng, (0, 0.25))))
        else:
            ops.append(eltwise_op(pick(rng, ALGORITHMS)))
    return ops


def eltwise_op(algorithm: str) -> Eltwise:
    return Eltwise(algorithm, -0.75, 1.5) if algorithm in ("clip", "linear") else Eltwise(algorithm)


def quantization(rng: Rng, src: Any, dst: Any, channels: int, depth: int) -> dict[str, Any]:
    """Scales and zero points."""
    vector = channels if rng.integers(2) else None
    scales = {"weights": np.asarray(rng.uniform(0.005, 0.02, vector), F32)}
    zeros: dict[str, Any] = {}
    scales["src"] = F32(rng.uniform(0.01, 0.04))
    if rng.integers(2):
        zeros["src"] = int(integers(rng, None, src))
    if np.dtype(dst).kind != "f":
        scales["dst"] = F32(0.02 * np.sqrt(depth + 1))
        if rng.integers(2):
            zeros["dst"] = int(rng.integers(np.iinfo(dst).min, np.iinfo(dst).max)) if dst != INT32 else 77
    return {"scales": scales, "zero_points": zeros}


def masks(given: dict[str, Any]) -> dict[str, dict[str, int]]:
    """The masks of scales and zero points: 1 for values of channels."""
    names = ("scales", "zero_points")
    return {name: {tensor: int(np.ndim(value) > 0) for tensor, value in given[name].items()} for name in names}


def bias_of(rng: Rng, channels: int) -> np.ndarray | None:
    return pick(rng, (None, reals(rng, channels), integers(rng, channels, INT32) >> 16))


def executed(make: Callable[[], Any], src: np.ndarray, old: np.ndarray | None = None, **keywords: Any) -> Any:
    """The result of a new layer, in a copy of an old destination if there is one."""
    return make()(src, out=None if old is None else old.copy(), **keywords)


def saved_result(make: Callable[[], Any]) -> bytes:
    return saved(make())


def inner_product(rng: Rng) -> Cases:
    shapes = ((1, 1, 1), (1, 130, 130), (2, 49, 17), (7, 48, 9), (8, 15, 65), (17, 65, 49), (48, 1, 64), (31, 33, 300),
              (130, 8, 48), (64, 257, 96))  # fmt: skip
    for (m, n, k), src, dst, more in product(shapes, (UINT8, INT8), (UINT8, INT8, INT32, F32, F16), range(3)):
        scheme = pick(rng, SCHEMES[1:]) if more == 2 and np.dtype(dst).kind != "f" else "float"
        given = quantization(rng, src, dst, n, k)
        if scheme == "float":
            ops = random_ops(rng, n, 1, 2)
            bias = bias_of(rng, n)
        else:
            ops, bias = pick(rng, ([], [ReLU()], [Eltwise("clip", 0, 6)])), integers(rng, n, INT32) >> 18
            given["scales"] |= {"dst": F32(0.1)}
        if more == 1 and src == UINT8:
            given["numerics"] = "saturating"
        attributes = Attributes(**masks(given), post_ops=ops, requantization=scheme)
        weights, x = integers(rng, (n, k), INT8), integers(rng, (m, k), src)
        old = in_type(rng, (m, n), dst) if any(isinstance(op, Sum) for op in ops) else None
        keywords = dict(src_dtype=src, dst_dtype=dst, attributes=attributes, **given)
        make = partial(int8blas.InnerProduct, weights, bias, **keywords)
        yield (
            f"{m}x{n}x{k} {np.dtype(src)} {np.dtype(dst)} {more} {scheme} {len(ops)} ops",
            partial(executed, make, x, old),
        )
        if more == 0 and m < 9:
            yield f"file {m}x{n}x{k} {np.dtype(src)} {np.dtype(dst)}", partial(saved_result, make)
    for (m, n, k), src, dynamic_dtype in product(shapes, (F32, F16), ("int8", "uint8")):
        w, x = reals(rng, (n, k)), reals(rng, (m, k), src)
        keywords = dict(
            src_dtype=src, dst_dtype=pick(rng, (F32, F16)), dynamic=pick(rng, ("per_row", "per_tensor")),
            dynamic_dtype=dynamic_dtype, scales={"weights": pick(rng, ("per_channel", "per_tensor"))},
        )  # fmt: skip
        make = partial(int8blas.InnerProduct, w, **keywords)
        yield f"dynamic {m}x{n}x{k} {np.dtype(src)} {dynamic_dtype}", partial(executed, make, x)


# Source sizes, kernel, channels in and out, groups: gathered windows, lines, depthwise, small groups, 1 x 1, 1 and 3
# dimensions.
IMAGES = (
    ((9, 11), (3, 3), 8, 20, 1),
    ((14, 14), (3, 3), 64, 32, 1),
    ((7, 9), (1, 1), 40, 33, 1),
    ((28, 28), (7, 7), 3, 17, 1),
    ((33, 31), (3, 3), 3, 16, 1),
    ((12, 10), (5, 5), 4, 9, 1),
    ((13, 12), (3, 3), 32, 32, 32),
    ((11, 9), (5, 5), 17, 17, 17),
    ((20, 30), (3, 3), 48, 48, 48),
    ((10, 12), (3, 3), 32, 32, 8),
    ((9, 9), (3, 3), 64, 64, 16),
    ((8, 8), (3, 3), 12, 24, 3),
    ((40,), (5,), 6, 10, 1),
    ((25,), (3,), 16, 16, 16),
    ((5, 6, 7), (3, 3, 3), 5, 7, 1),
    ((4, 8, 8), (1, 3, 3), 16, 16, 16),
)
LAYOUTS = {1: ("nwc", "ncw"), 2: ("nhwc", "nchw"), 3: ("ndhwc", "ncdhw")}


def image(rng: Rng, sizes: tuple[int, ...], channels: int, first: bool, dtype: Any) -> np.ndarray:
    n = int(rng.integers(1, 3))
    return in_type(rng, (n, channels, *sizes) if first else (n, *sizes, channels), dtype)


def convolution(rng: Rng) -> Cases:
    for (sizes, kernel, ic, oc, groups), src, dst, more in product(
        IMAGES, (UINT8, INT8), (UINT8, INT8, INT32, F32), range(4)
    ):
        spatial, first = len(sizes), bool(more & 1)
        strides = int(pick(rng, (1, 1, 2)))
        dilation = int(pick(rng, (1, 1, 2))) if min(sizes) > 2 * max(kernel) else 1
        padding = pick(rng, (0, 1, "same", [(k // 2, k // 2) for k in kernel]))
        depth = ic // groups * int(np.prod(kernel))
        given = quantization(rng, src, dst, oc, depth)
        weights_dtype = UINT8 if more == 3 else INT8
        if more == 3:
            given["zero_points"]["weights"] = integers(rng, oc, UINT8)
        ops = [op for op in random_ops(rng, oc, 1 if first else spatial + 1, spatial + 2) if not isinstance(op, Sum)]
        keywords = dict(
            strides=strides, padding=padding, dilation=dilation, groups=groups, layout=LAYOUTS[spatial][first],
            src_dtype=src, dst_dtype=dst, attributes=Attributes(**masks(given), post_ops=ops), **given,
        )  # fmt: skip
        if more == 2 and src == UINT8:
            keywords["numerics"] = "saturating"
        w, b = integers(rng, (oc, ic // groups, *kernel), weights_dtype), bias_of(rng, oc)
        make = partial(int8blas.Convolution, w, b, **keywords)
        name = f"{sizes} {kernel} {ic} {oc} g{groups} {np.dtype(src)} {np.dtype(dst)} {more}"
        yield name, partial(executed, make, image(rng, sizes, ic, first, src))
        if dst == UINT8 and more == 0:
            yield f"file {name}", partial(saved_result, make)
    for (sizes, kernel, ic, oc, groups), dynamic_dtype in product(IMAGES, ("int8", "uint8")):
        w, x = integers(rng, (oc, ic // groups, *kernel), INT8), image(rng, sizes, ic, False, F32)
        keywords = dict(
            padding=1, groups=groups, layout=LAYOUTS[len(sizes)][0], src_dtype=F32, dst_dtype=F32, dynamic="per_tensor",
            dynamic_dtype=dynamic_dtype, scales={"weights": F32(0.01)},
        )  # fmt: skip
        make = partial(int8blas.Convolution, w, **keywords)
        yield f"dynamic {sizes} {kernel} {ic} {oc} g{groups} {dynamic_dtype}", partial(executed, make, x)


def deconvolution(rng: Rng) -> Cases:
    for (sizes, kernel, ic, oc, groups), dst, strides in product(IMAGES, (UINT8, F32), (1, 2)):
        if np.prod(sizes) > 400:
            continue
        given = quantization(rng, UINT8, dst, oc, ic // groups * int(np.prod(kernel)))
        w, b = integers(rng, (oc, ic // groups, *kernel), INT8), bias_of(rng, oc)
        layout = LAYOUTS[len(sizes)][0]
        keywords = dict(strides=strides, groups=groups, layout=layout, src_dtype=UINT8, dst_dtype=dst, **given)
        make = partial(int8blas.Deconvolution, w, b, **keywords)
        name = f"{sizes} {kernel} {ic} {oc} g{groups} {np.dtype(dst)} {strides}"
        yield name, partial(executed, make, image(rng, sizes, ic, False, UINT8))


def recurrent(rng: Rng) -> Cases:
    directions = ("left2right", "right2left", "bidirectional_concat", "bidirectional_sum")
    sizes = ((3, 2, 5, 6, 1), (4, 3, 20, 17, 2), (5, 16, 40, 48, 1))
    for (t, n, inputs, units, layers), cell, direction, src, dst in product(
        sizes, ("lstm", "gru", "lbr_gru"), directions, (UINT8, F32), (UINT8, F32)
    ):
        gates, both = (4 if cell == "lstm" else 3), 1 + direction.startswith("bi")
        width = units * (2 if direction == "bidirectional_concat" else 1)
        weights_layer = [integers(rng, (both, i, gates, units), INT8) for i in [inputs] + [width] * (layers - 1)]
        weights_iter = [integers(rng, (both, units, gates, units), INT8) for _ in range(layers)]
        bias = [reals(rng, (both, gates + (cell == "lbr_gru"), units)) for _ in range(layers)]
        scale = rng.uniform(300, 900, (gates, units)).astype(F32)
        keywords: dict[str, Any] = dict(direction=direction, src_dtype=src, dst_dtype=dst, weights_scale=scale)
        if cell != "lstm":
            keywords["linear_before_reset"] = cell == "lbr_gru"
        function = int8blas.LSTM if cell == "lstm" else int8blas.GRU
        make = partial(function, weights_layer, weights_iter, bias, **keywords)
        x = integers(rng, (t, n, inputs), UINT8) if src == UINT8 else rng.uniform(-1, 1, (t, n, inputs)).astype(F32)
        lengths = rng.integers(1, t + 1, n) if rng.integers(2) else None
        name = f"{cell} {t}x{n}x{inputs}x{units} l{layers} {direction} {np.dtype(src)} {np.dtype(dst)} {lengths}"
        yield name, partial(executed, make, x, lengths=lengths)
        if t == 3 and src == dst == UINT8:
            yield f"file {name}", partial(saved_result, make)


# --- functions of arrays ---------------------------------------------------------------------------------------------


def quantize(rng: Rng) -> Cases:
    for shape, axis, dtype in product(((1,), (7, 5), (33, 64), (3, 4, 70)), (None, 0, -1), (INT8, UINT8, INT32)):
        count = None if axis is None else shape[axis]
        scale, zero = np.asarray(rng.uniform(0.1, 2, count), F32), rng.integers(0, 100, count)
        x, q, sums = reals(rng, shape) * 30, integers(rng, shape, dtype), integers(rng, shape, INT32)
        name = f"{shape} {axis} {np.dtype(dtype)}"
        half, small = x.astype(F16), scale * F32(1e-7)
        yield f"quantize {name}", partial(int8blas.quantize, x, scale, zero, dtype, axis=axis)
        yield f"quantize f16 {name}", partial(int8blas.quantize, half, scale, zero, dtype, axis=axis)
        yield f"dequantize {name}", partial(int8blas.dequantize, q, scale, zero, axis=axis)
        for scheme in SCHEMES:
            call = partial(int8blas.requantize, sums, small, zero, dtype, axis=axis, scheme=scheme)
            yield f"requantize {scheme} {name}", call
    for i, value in enumerate(rng.uniform(1e-6, 4, 20)):
        yield f"quantized_multiplier {i}", partial(int8blas.quantized_multiplier, float(value))


def elementwise(rng: Rng) -> Cases:
    types = (UINT8, INT8, INT32, F32)
    for algorithm, src, dst in product(ALGORITHMS, types, (UINT8, INT8, F32)):
        x = in_type(rng, (3, 5, 37), src)
        scales = {name: 0.05 for name, dtype in (("src", src), ("dst", dst)) if dtype != F32}
        call = partial(int8blas.eltwise, x, eltwise_op(algorithm), scales=scales, dst_dtype=dst)
        yield f"{algorithm} {np.dtype(src)} {np.dtype(dst)}", call
    for algorithm, src, dst, broadcast in product(BINARY, types, (UINT8, F32), (False, True)):
        x, y = in_type(rng, (4, 65, 33), src), in_type(rng, (65, 1) if broadcast else (4, 65, 33), src)
        scales = {} if src == F32 else {"src0": 0.5, "src1": 0.25}
        ops = pick(rng, ((), (ReLU(),)))
        call = partial(int8blas.binary, algorithm, x, y, scales=scales, dst_dtype=dst, post_ops=ops)
        yield f"{algorithm} {np.dtype(src)} {np.dtype(dst)} {broadcast}", call
    for src, count, axis in product(types, (1, 2, 3), (0, 1, 2)):
        arrays = [in_type(rng, (3, 6, 40), src) for _ in range(count)]
        scales = rng.uniform(0.3, 1, count)
        name = f"{np.dtype(src)} {count} {axis}"
        yield f"sum {name}", partial(int8blas.sum, arrays, scales=scales)
        yield f"concat {name}", partial(int8blas.concat, arrays, axis)
        yield f"concat with scales {name}", partial(int8blas.concat, arrays, axis, scales=scales, dst_scale=0.6)


def pooling(rng: Rng) -> Cases:
    windows = (((9, 11), (2, 2), 2, 0), ((14, 13), (3, 3), 2, 1), ((12, 10), (3, 3), 1, 1), ((7, 7), (5, 3), 1, 2),
               ((30,), (4,), 3, 1), ((5, 6, 7), (2, 3, 2), 2, 1), ((28, 28), (7, 7), 7, 0))  # fmt: skip
    for (sizes, kernel, strides, padding), channels, dtype, first in product(
        windows, (1, 17, 64), (UINT8, INT8), (False, True)
    ):
        x = image(rng, sizes, channels, first, dtype)
        keywords = dict(strides=strides, padding=padding, layout=LAYOUTS[len(sizes)][first])
        name = f"{sizes} {kernel} {channels} {np.dtype(dtype)} {first}"
        yield f"max {name}", partial(int8blas.max_pool, x, kernel, **keywords)
        for include in (False, True):
            call = partial(int8blas.avg_pool, x, kernel, include_padding=include, **keywords)
            yield f"average {include} {name}", call
        yield f"global max {name}", partial(int8blas.global_max_pool, x, layout=keywords["layout"])
        yield f"global average {name}", partial(int8blas.global_avg_pool, x, layout=keywords["layout"])


def normalization(rng: Rng) -> Cases:
    for n, src, dst, log in product((1, 16, 33, 130, 700), (UINT8, INT8, INT32, F32), (UINT8, F32), (False, True)):
        x = in_type(rng, (5, n), src) // (2**20 if src == INT32 else 1)
        scales = ({} if src == F32 else {"src": 0.05}) | ({"dst": 1 / 255} if dst == UINT8 else {})
        call = partial(int8blas.softmax, x, scales=scales, dst_dtype=dst, log=log)
        yield f"softmax {n} {np.dtype(src)} {np.dtype(dst)} {log}", call
    for n, src, dst in product((1, 16, 33, 130, 700), (UINT8, INT8, F32), (INT8, F32)):
        x, (gamma, beta) = in_type(rng, (5, n), src), reals(rng, (2, n))
        scales = ({} if src == F32 else {"src": 0.05}) | ({"dst": 1 / 32} if dst == INT8 else {})
        call = partial(int8blas.layer_norm, x, gamma, beta, scales=scales, dst_dtype=dst)
        yield f"layer_norm {n} {np.dtype(src)} {np.dtype(dst)}", call


def others(rng: Rng) -> Cases:
    for n, dtype, axis in product((1, 7, 64, 100), (UINT8, INT8), (None, 0, 1)):
        table, indices = integers(rng, (50, n), dtype), rng.integers(0, 50, (3, 9))
        scale = np.asarray(rng.uniform(0.5, 1, {None: None, 0: 50, 1: n}[axis]), F32)
        yield f"gather {n} {np.dtype(dtype)} {axis}", partial(int8blas.gather, table, indices, scale, axis=axis)
    for sizes, kernel, ic, _, groups in IMAGES:
        for strides, dtype in product((1, 2), (UINT8, INT8)):
            x = image(rng, sizes, ic, False, dtype)
            call = partial(int8blas.im2col, x, kernel, strides=strides, padding=1, groups=groups, padding_value=3)
            yield f"im2col {sizes} {kernel} {ic} g{groups} {strides} {np.dtype(dtype)}", call
    for source, target in (("oihw", "hwio"), ("hwio", "ohwi"), ("goihw", "hwgio"), ("oi", "io"), ("nchw", "nhwc")):
        x = reals(rng, (3, 4, 2, 5, 6)[: len(source)])
        for dtype, scales in ((INT8, 0.5), (UINT8, 0.5), (F32, None)):
            call = partial(int8blas.reorder, x, src_layout=source, dst_layout=target, dtype=dtype, scales=scales)
            yield f"reorder {source} {target} {np.dtype(dtype)}", call
        if "o" in source:
            q = integers(rng, x.shape, INT8)
            pack = partial(int8blas.reorder, q, src_layout=source, dst_layout="packed")
            yield f"reorder {source} packed", partial(saved_result, pack)
            yield f"weights_scales {source}", partial(int8blas.weights_scales, x, layout=source)
    weights, values = reals(rng, (6, 5, 3, 3)), rng.uniform(0.5, 2, (4, 6)).astype(F32)
    yield "fold_batch_norm", partial(int8blas.fold_batch_norm, weights, values[0], *values)
    yield "shifted_bias", partial(int8blas.shifted_bias, values[0], weights.reshape(6, -1), 128)
    yield "activation_factor", partial(int8blas.activation_factor, np.abs(weights))
    yield "weights_factor", partial(int8blas.weights_factor, weights, axis=0)
    yield "quantize_bias", partial(int8blas.quantize_bias, values[0], 3.0, values[1])
    batches = [reals(rng, (40, 6)) for _ in range(3)]
    for name, symmetric, axis in product(calibration.__all__, (True, False), (None, 1)):
        if name.endswith("Observer"):
            make = partial(getattr(calibration, name), symmetric=symmetric, axis=axis)
            yield f"{name} {symmetric} {axis}", partial(observed, make, batches)


def observed(make: Callable[[], Any], batches: list[np.ndarray]) -> list[np.ndarray]:
    observer = make()
    for batch in batches:
        observer.observe(batch)
    parameters = observer.parameters()
    return [np.asarray(parameters.scale), np.asarray(parameters.zero_point)]


def errors(rng: Rng) -> Cases:
    """Texts of errors: arguments of wrong types, shapes, values."""
    u8, s8, f32 = np.zeros((3, 4), UINT8), np.zeros((4, 5), INT8), np.zeros((3, 4), F32)
    layer = dict(src_dtype=UINT8, dst_dtype=INT32)
    wrong: dict[str, Callable[[], Any]] = {
        "float a": lambda: int8blas.gemm_u8s8s32(1, f32, s8),
        "int8 a": lambda: int8blas.gemm_u8s8s32(1, s8, s8),
        "shapes": lambda: int8blas.gemm_u8s8s32(1, u8, s8[:3]),
        "dimensions": lambda: int8blas.gemm_u8s8s32(1, u8[0], s8),
        "zero point": lambda: int8blas.gemm_u8s8s32(1, u8, s8, ao=300),
        "offset": lambda: int8blas.gemm_u8s8s32(1, u8, s8, co=[1, 2], offsetc="R"),
        "offsetc": lambda: int8blas.gemm_u8s8s32(1, u8, s8, offsetc="X"),
        "numerics": lambda: int8blas.gemm_u8s8s32(1, u8, s8, numerics="fast"),
        "c": lambda: int8blas.gemm_u8s8s32(1, u8, s8, 1, f32),
        "matmul": lambda: int8blas.matmul(u8, s8[:2]),
        "pack_b": lambda: int8blas.pack_b(u8[0]),
        "weights": lambda: int8blas.InnerProduct(f32, **layer),
        "dst_dtype": lambda: int8blas.InnerProduct(s8, src_dtype=UINT8, dst_dtype=np.int64),
        "src": lambda: int8blas.InnerProduct(s8, **layer)(f32),
        "kernel": lambda: int8blas.Convolution(np.zeros((2, 3, 3, 3), INT8), **layer)(np.zeros((1, 2, 2, 3), UINT8)),
        "groups": lambda: int8blas.Convolution(np.zeros((2, 3, 3, 3), INT8), groups=5, **layer),
        "strides": lambda: int8blas.Convolution(np.zeros((2, 3, 3, 3), INT8), strides=0, **layer),
        "padding": lambda: int8blas.Convolution(np.zeros((2, 3, 3, 3), INT8), padding="full", **layer),
        "cells": lambda: int8blas.LSTM(f32, f32),
        "algorithm": lambda: Eltwise("softsign"),
        "mask": lambda: Attributes(scales={"src": -1}),
        "tensor": lambda: Attributes(scales={"source": 0}),
        "scheme": lambda: int8blas.requantize(np.zeros(3, INT32), 1.0, scheme="both"),
        "scale": lambda: int8blas.quantize(f32, -1.0),
        "axis": lambda: int8blas.quantize(f32, [1.0, 2.0], axis=5),
        "binary": lambda: int8blas.binary("pow", u8, u8),
        "broadcast": lambda: int8blas.binary("add", u8, s8),
        "concat": lambda: int8blas.concat([u8, s8], 0),
        "pool": lambda: int8blas.max_pool(u8, 2),
        "softmax": lambda: int8blas.softmax(u8, 3),
        "layer_norm": lambda: int8blas.layer_norm(f32, epsilon=-1),
        "index": lambda: int8blas.gather(u8, [7]),
        "layout": lambda: int8blas.reorder(f32, src_layout="oihw", dst_layout="io"),
        "isa": lambda: int8blas.use_isa("avx3"),
        "threads": lambda: int8blas.num_threads(0),
        "file": lambda: int8blas.load(io.BytesIO(b"int8blas, but not a file of it")),
        "value": lambda: int8blas.save(io.BytesIO(), {"a": object()}),
        "observer": lambda: calibration.MinMaxObserver().parameters(),
        "bins": lambda: calibration.EntropyObserver(bins=3),
    }
    yield from wrong.items()


FAMILIES = (gemm, matmul, everyday, packed, inner_product, convolution, deconvolution, recurrent, quantize,
            elementwise, pooling, normalization, others, errors)  # fmt: skip


# --- digests ---------------------------------------------------------------------------------------------------------


def digest(result: Any) -> str:
    """The digest of bytes, or of one or several arrays with their types and shapes; all NaN are equal."""
    found = hashlib.sha256()
    for value in result if isinstance(result, (list, tuple)) else [result]:
        if isinstance(value, bytes):
            found.update(value)
            continue
        array = np.asarray(value)
        if array.dtype.kind == "f":
            array = np.where(np.isnan(array), array.dtype.type(np.nan), array)
        found.update(f"{array.dtype} {array.shape} ".encode())
        found.update(np.ascontiguousarray(array).tobytes())
    return found.hexdigest()


def computed(call: Callable[[], Any]) -> str:
    """The digest of a result, or the text of an error."""
    try:
        result = call()
    except (TypeError, ValueError, IndexError, OverflowError) as error:
        return f"{type(error).__name__}: {error}"
    return digest(result)


def record(families: Sequence[Callable[[Rng], Cases]]) -> tuple[dict[str, str], list[str]]:
    """The digests by name, and the names of results that depend on the instruction set or the number of threads."""
    cases: dict[str, Callable[[], Any]] = {}
    for family in families:
        for name, call in family(np.random.default_rng(zlib.crc32(family.__name__.encode()))):
            title = f"{family.__name__}: {name}"
            if title in cases:
                raise ValueError(f"there are two {title}")
            cases[title] = call
    found: dict[str, str] = {}
    unequal = []
    for isa, threads in product(int8blas.available_isas(), (1, 2)):
        with int8blas.use_isa(isa), int8blas.num_threads(threads):
            for name, call in cases.items():
                bits = computed(call)
                if found.setdefault(name, bits) != bits:
                    unequal.append(f"{name}, with {isa} and {threads} threads")
    return found, unequal


def main() -> None:
    names = {family.__name__: family for family in FAMILIES}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path, help="JSON of names and digests")
    parser.add_argument("--check", action="store_true", help="compare with the file, rather than write it")
    parser.add_argument("--families", default="", help=f"of {','.join(names)} (default: all)")
    options = parser.parse_args()
    families = [names[word] for word in options.families.split(",") if word in names] or FAMILIES
    warnings.simplefilter("ignore")  # warnings of saturated results, which some cases have on purpose
    np.seterr(all="ignore")
    found, unequal = record(families)
    failed = sum(": " in bits for bits in found.values())
    print(f"{len(found)} results, {failed} of them errors, on {', '.join(int8blas.available_isas())}")
    for name in unequal:
        print(f"not the same everywhere: {name}")
    if options.check:
        prefixes = tuple(f"{family.__name__}: " for family in families)
        everything = json.loads(options.file.read_text())
        old = {name: bits for name, bits in everything.items() if name.startswith(prefixes)}
        recorded = tuple({f"{name.split(': ')[0]}: " for name in everything})
        for prefix in set(prefixes) - set(recorded):
            print(f"not in the file, and not compared: {prefix[:-2]}")
        found = {name: bits for name, bits in found.items() if name.startswith(recorded)}
        different = [name for name in {**old, **found} if old.get(name) != found.get(name)]
        for name in different:
            print(f"differs: {name}: {old.get(name, 'not there')}, now {found.get(name, 'not there')}")
        print(f"{len(different)} of {len(old)} results differ")
        unequal += different
    else:
        options.file.write_text(json.dumps(found, indent=0) + "\n")
    sys.exit(1 if unequal else 0)


if __name__ == "__main__":
    main()
