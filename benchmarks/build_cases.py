"""The cases of compare_builds.py: the shape sets of all other benchmarks, as calls that any build can make.

A family has cases. A case belongs to a class, whose ratios have a meaningful mean, and has a name in its class. Its
operands are created just before it is measured.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import product

import numpy as np
from int8blas._bench.shapes import CLASSES, Operands, Problem

import bench_elementwise
import bench_normalization
import bench_pooling
import bench_quantize
import bench_variants
import convolutions
import linear
import recurrent
from calls import Call, Empty, Name, Spread, TransposeOf, api
from peers.ours_convolution import convolution
from peers.ours_linear import inner_product
from peers.ours_recurrent import recurrent_layer


@dataclass(frozen=True)
class Case:
    """One call of a class of calls, and the public name that it needs, if early versions do not have it."""

    cls: str
    name: str
    make: Callable[[], Call]
    needs: str = "matmul"

    def __str__(self) -> str:
        return f"{self.cls}: {self.name}"


Cases = Iterator[Case]


def gemm_call(problem: Problem, packed: bool, new_c: bool) -> Call:
    operands = Operands(problem)
    b = api.pack_b(operands.b) if packed else operands.b
    function = Name(f"gemm_{problem.signs}s32")
    if new_c:
        return function(1.0, operands.a, b)
    return function(1.0, operands.a, b, c=Empty((problem.m, problem.n), np.int32), overwrite_c=True)


def gemm() -> Cases:
    """Yield products with a given C, and products of tiny matrices also with a new C."""
    for cls, shapes in CLASSES.items():
        for shape, signs, packed in product(shapes, ("u8s8", "s8s8"), (False, True)):
            problem = Problem(cls, *shape, signs)
            for new_c in (False, True) if cls == "tiny" else (False,):
                name = f"{problem} {signs}{' packed' * packed}"
                yield Case(f"gemm {cls}{', new C' * new_c}", name, partial(gemm_call, problem, packed, new_c))


def forms() -> Cases:
    """Yield products in other memory orders, with zero points, offsets, alpha and beta."""
    for shape in bench_variants.SHAPES:
        size = "small" if np.prod(shape) <= 64**3 else "large"
        for name in bench_variants.product_calls((1, 1, 1)):
            make = lambda shape=shape, name=name: bench_variants.product_calls(shape)[name]  # noqa: E731
            yield Case(f"gemm forms, {size}", f"{'x'.join(map(str, shape))} {name}", make)


def linear_call(problem: linear.LinearProblem) -> Call:
    operands = linear.LinearOperands(problem, "even")
    dynamic = problem.kind == "dynamic"
    dst = Empty((problem.m, problem.n), np.float32 if dynamic else np.uint8)
    return inner_product(api, operands)(operands.src_f32 if dynamic else operands.src_u8, out=dst)


def inner_products() -> Cases:
    for kind in linear.KINDS:
        for problem in linear.problems(kind, False, []):
            yield Case(f"inner_product {kind}", str(problem), partial(linear_call, problem))


def convolution_call(problem: convolutions.ConvolutionProblem) -> Call:
    operands = convolutions.ConvolutionOperands(problem, "even")
    return convolution(api, operands)(operands.src, out=Empty(operands.shape, np.uint8))


def all_convolutions() -> Cases:
    """Yield convolutions. Each strategy has at least one class: depthwise, grouped, lines (first), gathered."""
    for problem in convolutions.problems([], False, [], 1):
        yield Case(f"convolution {problem.cls}", str(problem), partial(convolution_call, problem))
    for sizes in bench_variants.CONVOLUTIONS:
        size, ic, oc, kernel, stride, groups = sizes
        for name in bench_variants.convolution_calls(*sizes):
            title = f"{size}x{size}x{ic} {kernel}x{kernel}/{stride} {oc} g{groups} {name}"
            make = lambda sizes=sizes, name=name: bench_variants.convolution_calls(*sizes)[name]  # noqa: E731
            yield Case("convolution layouts", title, make)


def deconvolution_call(shape: tuple[int, ...], ic: int, oc: int, kernel: int, stride: int, given: bool) -> Call:
    """Yield layers to uint8, with a given or a new destination."""
    rng = np.random.default_rng(0)
    layer = api.Deconvolution(
        rng.integers(-127, 128, (oc, ic, *(kernel for _ in shape)), np.int8), np.zeros(oc, np.float32), strides=stride,
        src_dtype=np.uint8, dst_dtype=np.uint8, scales={"src": 0.01, "weights": 0.001, "dst": 0.05},
    )  # fmt: skip
    src = rng.integers(0, 256, (1, *shape, ic), np.uint8)
    out = [(size - 1) * stride + kernel for size in shape]
    return layer(src, out=Empty((1, *out, oc), np.uint8)) if given else layer(src)


# (spatial sizes, channels of source and destination, kernel, stride): decoders and generators of images, a layer for
# sound, and a layer whose stride is larger than its kernel.
DECONVOLUTIONS = (
    ((5, 5), 3, 4, 2, 2), ((28, 28), 512, 256, 2, 2), ((8, 8), 512, 256, 4, 2), ((56, 56), 64, 32, 3, 1),
    ((64, 64), 32, 3, 9, 3), ((200,), 256, 128, 16, 8), ((28, 28), 64, 64, 1, 2),
)  # fmt: skip


def deconvolutions() -> Cases:
    for (shape, ic, oc, kernel, stride), given in product(DECONVOLUTIONS, (True, False)):
        name = f"{'x'.join(map(str, shape))}x{ic} {kernel}/{stride} {oc}{', new dst' * (not given)}"
        yield Case("deconvolution", name, partial(deconvolution_call, shape, ic, oc, kernel, stride, given))


def recurrent_call(problem: recurrent.RecurrentProblem) -> Call:
    p, operands = problem, recurrent.RecurrentOperands(problem)
    static = p.kind == "static"
    dst = Empty((p.t, p.n, p.directions * p.units), np.uint8 if static else np.float32)
    return recurrent_layer(api, operands)(operands.src_u8 if static else operands.src_f32, out=dst)


def recurrences() -> Cases:
    for kind in recurrent.KINDS:
        for problem in recurrent.problems(kind, False, []):
            yield Case(f"recurrent {kind}", str(problem), partial(recurrent_call, problem))


def elementwise_calls(shape: tuple[int, ...]) -> dict[str, Call]:
    x, y = bench_elementwise.random_images(shape, shape)
    scales = bench_elementwise.SCALES
    by_source, dst = dict(zip(("src0", "src1"), scales, strict=True)), Empty(shape, np.uint8)
    wide = Empty((*shape[:-1], 2 * shape[-1]), np.uint8)
    unary = {"src": scales[0], "dst": 1 / 256}
    return {
        "add": api.binary("add", x, y, scales=by_source, out=dst),
        "add and ReLU": api.binary("add", x, y, scales=by_source, post_ops=(api.ReLU(),), out=dst),
        "mul": api.binary("mul", x, y, scales=by_source, out=dst),
        "sum": api.sum([x, y], scales=scales, out=dst),
        "concat": api.concat([x, y], -1, out=wide),
        "concat, other scales": api.concat([x, y], -1, scales=scales, out=wide),
        **{name: api.eltwise(x, api.Eltwise(name), scales=unary, out=dst) for name in ("logistic", "gelu_erf")},
    }


def elementwise() -> Cases:
    for shape in bench_elementwise.SHAPES:
        for name in elementwise_calls((1, 1, 1, 1)):
            make = lambda shape=shape, name=name: elementwise_calls(shape)[name]  # noqa: E731
            yield Case("elementwise", f"{name} {'x'.join(map(str, shape))}", make)


def pooling_call(p: bench_pooling.Pooling, first: bool) -> Call:
    x = np.random.default_rng(0).integers(0, 256, (1, p.height, p.width, p.channels), np.uint8)
    x = np.ascontiguousarray(x.transpose(0, 3, 1, 2)) if first else x
    layout = {"layout": "nchw"} if first else {}
    operation = "max_pool" if p.operation == "max" else "avg_pool"
    if not p.kernel:
        return Name(f"global_{operation}")(x, **layout)
    return Name(operation)(x, p.window, strides=p.stride, padding=p.padding, **layout)


def pooling() -> Cases:
    for p, first in product(bench_pooling.POOLINGS, (False, True)):
        yield Case("pooling", f"{p}{', channels first' * first}", partial(pooling_call, p, first))


def quantize_calls(size: int) -> dict[str, Call]:
    rng = np.random.default_rng(0)
    scale, zero = bench_quantize.SCALE, bench_quantize.ZERO_POINT
    x = (rng.standard_normal(size) * 20).astype(np.float32)
    sums, q = rng.integers(-(10**6), 10**6, size, np.int32), bench_quantize.numpy_quantize(x)
    channels = rng.uniform(0.1, 1, bench_quantize.CHANNELS).astype(np.float32)
    rows, dst = x.reshape(-1, bench_quantize.CHANNELS), Empty((size,), np.int8)
    return {
        "quantize": api.quantize(x, scale, zero, out=dst),
        "quantize, channels": api.quantize(rows, channels, out=Empty(rows.shape, np.int8), axis=1),
        "dequantize": api.dequantize(q, scale, zero, out=Empty((size,), np.float32)),
        **{
            f"requantize, {scheme}": api.requantize(sums, 1e-4, zero, out=dst, scheme=scheme)
            for scheme in ("float", "doubling", "single")
        },
    }


def quantize() -> Cases:
    for size in bench_quantize.SIZES:
        for name in quantize_calls(bench_quantize.CHANNELS):
            make = lambda size=size, name=name: quantize_calls(size)[name]  # noqa: E731
            yield Case("quantize", f"{name} {size}", make)


def softmax_call(n: int, src: str, dst: str) -> Call:
    shape = bench_normalization.HEADS, n, n
    sums = np.random.default_rng(0).integers(-5000, 5000, shape, np.int32)
    x = sums if src == "s32" else (sums * bench_normalization.SCALE).astype(np.float32)
    scales = ({"src": bench_normalization.SCALE} if src == "s32" else {}) | (
        {"dst": bench_normalization.FACTOR} if dst == "u8" else {}
    )
    dtype = np.uint8 if dst == "u8" else np.float32
    return api.softmax(x, scales=scales, dst_dtype=dtype, out=Empty(shape, dtype))


def layer_norm_call(n: int, dst: str) -> Call:
    rng, shape = np.random.default_rng(0), (bench_normalization.ROWS, n)
    x = rng.standard_normal(shape).astype(np.float32)
    gamma, beta = rng.uniform(0.5, 1, (2, n)).astype(np.float32)
    scales = {"dst": bench_normalization.STEP} if dst == "s8" else {}
    dtype = np.int8 if dst == "s8" else np.float32
    return api.layer_norm(x, gamma, beta, scales=scales, dst_dtype=dtype, out=Empty(shape, dtype))


def gather_call(n: int, each: bool) -> Call:
    rng, words, tokens = np.random.default_rng(0), bench_normalization.WORDS, bench_normalization.TOKENS
    table, indices = rng.integers(-128, 128, (words, n), np.int8), rng.integers(0, words, tokens)
    dst = Empty((tokens, n), np.float32)
    if each:
        return api.gather(table, indices, rng.uniform(0.5, 1, words).astype(np.float32), axis=0, out=dst)
    return api.gather(table, indices, 0.5, out=dst)


def normalization() -> Cases:
    for n in bench_normalization.SOFTMAX_LENGTHS:
        for src, dst in (("s32", "u8"), ("f32", "u8"), ("f32", "f32")):
            yield Case("normalization", f"softmax {n} {src} to {dst}", partial(softmax_call, n, src, dst))
    for n in bench_normalization.LAYER_NORM_LENGTHS:
        for dst in ("s8", "f32"):
            yield Case("normalization", f"layer_norm {n} to {dst}", partial(layer_norm_call, n, dst))
    for n in bench_normalization.GATHER_LENGTHS:
        for each in (False, True):
            yield Case("gather", f"{n}{', scales of rows' * each}", partial(gather_call, n, each))


def dot_call(m: int, n: int, k: int, signs: str) -> Call:
    rng = np.random.default_rng(0)
    a, b = rng.integers(0, 128, (m, k), np.uint8), rng.integers(-127, 128, (n, k), np.int8)
    return api.matmul(a if signs == "u8s8" else a.view(np.int8), b.T, dtype=np.int64, out=Empty((m, n), np.int64))


def gram_call(n: int, k: int, columns: bool) -> Call:
    x = np.random.default_rng(0).integers(0, 256, (k, n) if columns else (n, k), np.uint8)
    left, right = (TransposeOf(1), x) if columns else (x, TransposeOf(0))
    return api.matmul(left, right, out=Empty((n, n), np.int32))


def syrk_call(n: int, k: int, columns: bool) -> Call:
    x = np.random.default_rng(0).integers(0, 256, (k, n) if columns else (n, k), np.uint8)
    return api.syrk_u8s32(1.0, x, 0.0, np.zeros((n, n), np.int32), columns, False, True)


def distances_call(m: int, n: int, k: int, packed: bool) -> Call:
    rng = np.random.default_rng(0)
    x, y = rng.integers(0, 256, (m, k), np.uint8), rng.integers(0, 256, (n, k), np.uint8)
    return api.sqeuclidean(x, api.pack_b(y, trans_b=True) if packed else y, out=Empty((m, n), np.int32))


def hamming_call(m: int, n: int, k: int) -> Call:
    rng = np.random.default_rng(0)
    x, y = rng.integers(0, 256, (m, k), np.uint8), rng.integers(0, 256, (n, k), np.uint8)
    return api.hamming(x, api.pack_b(y, trans_b=True), out=Empty((m, n), np.int32))


def nearest_call(queries: int, rows: int, metric: str, packed: bool, k: int = 10) -> Call:
    rng = np.random.default_rng(0)
    asked, base = rng.integers(-127, 128, (queries, 384), np.int8), rng.integers(-127, 128, (rows, 384), np.int8)
    return api.nearest(asked, api.pack_b(base, trans_b=True) if packed else base, k, metric=metric)


def everyday() -> Cases:
    """Yield products of long vectors, of a matrix with itself, distances, and searches."""
    for (m, n), k, signs in product(((1, 1), (2, 3), (16, 4)), (1024, 66_000, 1_000_000), ("u8s8", "s8s8")):
        yield Case("long K", f"{m}x{n}x{k} {signs}", partial(dot_call, m, n, k, signs))
    shapes = (16, 64), (64, 64), (64, 256), (128, 128), (160, 64), (256, 256), (512, 512), (1024, 256), (400, 20_000)
    for (n, k), columns in product(shapes, (False, True)):
        name = f"{n}x{n}x{k}{' x.T @ x' if columns else ' x @ x.T'}"
        yield Case("gram", name, partial(gram_call, n, k, columns))
        yield Case("syrk", name, partial(syrk_call, n, k, columns), "syrk_u8s32")
    for m, n, k in ((1, 1000, 384), (4, 1000, 384), (16, 1000, 384), (256, 256, 8), (1024, 1024, 32), (512, 512, 512)):
        for packed in (False, True):
            name, make = f"{m}x{n}x{k}{' packed' * packed}", partial(distances_call, m, n, k, packed)
            yield Case("sqeuclidean", name, make, "sqeuclidean")
    for queries, metric, packed in product((1, 16, 64), ("inner", "sqeuclidean", "cosine"), (False, True)):
        name = f"{queries} of 20,000 {metric}{' packed' * packed}"
        yield Case("nearest", name, partial(nearest_call, queries, 20_000, metric, packed), "nearest")
    for rows, queries, k in ((10_000, 64, 100), (10_000, 64, 1000), (10_000, 64, 10_000), (100_000, 16, 100)):
        make = partial(nearest_call, queries, rows, "inner", True, k)
        yield Case("nearest", f"{k} of {rows:,} for {queries}", make, "nearest")
    for queries, rows, size in ((1, 10_000, 32), (64, 10_000, 32), (256, 1000, 128)):
        yield Case("hamming", f"{queries}x{rows}x{size}", partial(hamming_call, queries, rows, size), "hamming")


def values(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).integers(-128, 128, shape, np.int8)


def matmul_call(a: tuple[int, ...], b: tuple[int, ...]) -> Call:
    return api.matmul(values(*a), values(*b))


# Stacks of small matrices, stacks of vectors, short vectors, and tall products with few columns.
STACKS = (
    ((10_000, 2, 2), (10_000, 2, 2)), ((10_000, 3, 3), (10_000, 3, 1)), ((10_000, 3, 3), (10_000, 3, 3)),
    ((10_000, 1, 64), (10_000, 64, 1)), ((1000, 5, 5), (1000, 5, 5)), ((1000, 8, 8), (1000, 8, 1)),
    ((1000, 16, 16), (1000, 16, 16)), ((1000, 17, 17), (1000, 17, 17)), ((2500, 3, 1), (2500, 1, 9)),
    ((1000, 20, 23), (1000, 23, 1)), ((4000, 4, 37), (4000, 37, 1)), ((20, 15, 4), (4, 1)),
)  # fmt: skip
VECTORS = (
    ((65_536, 32), (32,)), ((128, 128), (128,)), ((1000, 64), (64,)), ((1000, 256), (256,)), ((1, 212), (212, 16)),
    ((1, 265), (265, 16)), ((24_000, 13), (13,)), ((3000, 20), (20, 2)),
)  # fmt: skip
TALL = (
    ((1_000_000, 4), (4, 4)), ((100_000, 3), (3, 3)), ((1000, 128), (128, 9)), ((1000, 128), (128, 17)),
    ((1000, 32), (32, 8)), ((1000, 1), (1, 1000)), ((16, 1000), (1000, 16)), ((20_000, 20), (20, 17)),
)  # fmt: skip
# Contractions without summed axes, and dot products of rows and columns.
CONTRACTIONS = (
    ("ij,ij->ij", (1000, 1000), (1000, 1000)), ("ij,ij->ji", (300, 100), (300, 100)), ("ij,j->ij", (2000, 25), (25,)),
    ("ij,i->ij", (200, 300), (200,)), ("ij,ij->i", (1000, 64), (1000, 64)), ("ij,ij->j", (64, 1000), (64, 1000)),
)  # fmt: skip

# alpha, beta and sizes of products whose sums are scaled in f64.
SCALED = ((0.5, 0, 1000, 64, 27), (2, 1, 314, 90, 1), (0.5, 1, 628, 47, 3), (1, 0.5, 800, 3, 2))

# Sizes of dynamic layers of many short rows.
SHORT_ROWS = ((1000, 1, 32), (128, 4, 16), (600, 6, 7), (250, 2, 160))

# Length, channels of source and destination, kernel: images one pixel wide.
ONE_WIDE = ((3197, 6, 22, 3), (2000, 64, 64, 3), (2000, 3, 8, 5))


def scaled_call(alpha: float, beta: float, m: int, n: int, k: int) -> Call:
    c = Empty((m, n), np.int32) if beta == 0 else np.zeros((m, n), np.int32)
    return api.gemm_s8s8s32(alpha, values(m, k), values(k, n), beta, c=c, overwrite_c=beta == 0)


def one_wide_call(length: int, ic: int, oc: int, kernel: int) -> Call:
    layer = api.Convolution(
        values(oc, ic, kernel, 1), padding=((kernel // 2, kernel // 2), (0, 0)), src_dtype=np.uint8,
        dst_dtype=np.uint8, scales={"src": 0.1, "weights": 0.01, "dst": 0.1},
    )  # fmt: skip
    return layer(values(1, length, 1, ic).view(np.uint8), out=Empty((1, length, 1, oc), np.uint8))


def byte_calls(size: int) -> dict[str, Call]:
    x, dst = values(size), Empty((size,), np.int8)
    return {
        "relu": api.eltwise(x, api.ReLU(), out=dst),
        "clip": api.eltwise(x, api.Eltwise("clip", -50, 50), out=dst),
        "tanh": api.eltwise(x, api.Eltwise("tanh"), scales={"src": 0.05, "dst": 1 / 127}, out=dst),
    }


def byte_call(size: int, name: str) -> Call:
    return byte_calls(size)[name]


def short_rows_call(m: int, n: int, k: int) -> Call:
    layer = api.InnerProduct(
        values(n, k).astype(np.float32), np.zeros(n, np.float32), src_dtype=np.float32, dst_dtype=np.float32,
        dynamic="per_row", scales={"weights": "per_channel"},
    )  # fmt: skip
    return layer(values(m, k).astype(np.float32), out=Empty((m, n), np.float32))


def small_call(name: str) -> Call:
    return small_calls()[name]


def small_calls() -> dict[str, Call]:
    """Yield calls with so little work that the call itself takes most of the time."""
    x, y = values(4, 4), np.ones((4, 4), np.float32)
    return {
        "matrix by vector": api.matmul(x, x[0]),
        "vecdot": api.vecdot(x, x),
        "einsum of elements": api.einsum("ij,ij->ij", x, x),
        "concat": api.concat([x, x], -1),
        "concat, other order": api.concat([x.T, x], -1),
        "sum": api.sum([x, x]),
        "binary": api.binary("add", x, x),
        "relu": api.eltwise(x, api.ReLU()),
        "avg_pool": api.avg_pool(x.reshape(1, 4, 4, 1), 2, strides=2),
        "layer_norm": api.layer_norm(y, y[0], y[0]),
        "softmax": api.softmax(x, scales={"src": 0.1, "dst": 1 / 128}),
        "nearest": api.nearest(x, x, 2),
        "gather": api.gather(x, np.array([0, 2]), np.full(4, 0.5, np.float32), axis=0),
        "quantize": api.quantize(y, 0.5),
    }


# Size, channels of source and destination, kernel, groups: few channels, and depthwise with a part of a vector.
FEW_CHANNELS = (
    (256, 32, 1, 1, 1), (128, 64, 3, 3, 1), (320, 8, 8, 3, 1), (256, 1, 1, 5, 1), (112, 17, 17, 3, 17),
    (112, 24, 24, 3, 24), (112, 33, 33, 3, 33), (112, 40, 40, 3, 40), (112, 32, 64, 3, 32), (28, 256, 256, 3, 128),
    (205, 3, 2, 1, 1), (210, 2, 12, 1, 1), (177, 18, 1, 1, 1), (106, 1, 58, 1, 1), (187, 2, 2, 1, 2),
    (223, 5, 5, 3, 5), (97, 3, 3, 3, 3), (163, 9, 9, 3, 9), (194, 2, 2, 7, 2),
)  # fmt: skip


def few_channels_call(size: int, ic: int, oc: int, kernel: int, groups: int) -> Call:
    layer = api.Convolution(
        values(oc, ic // groups, kernel, kernel), padding=kernel // 2, groups=groups, src_dtype=np.uint8,
        dst_dtype=np.uint8, scales={"src": 0.1, "weights": 0.01, "dst": 0.1},
    )  # fmt: skip
    return layer(values(1, size, size, ic).view(np.uint8), out=Empty((1, size, size, oc), np.uint8))


def edges() -> Cases:
    """Yield shapes for which simple code may be faster: they have little work for each call, product, row or
    channel."""
    for cls, shapes in (("stacks", STACKS), ("vectors", VECTORS), ("tall", TALL)):
        for a, b in shapes:
            name = " @ ".join("x".join(map(str, shape)) for shape in (a, b))
            yield Case(f"edge {cls}", name, partial(matmul_call, a, b))
    for subscripts, a, b in CONTRACTIONS:
        name = f"{subscripts} {'x'.join(map(str, a))}"
        yield Case("edge contractions", name, partial(api.einsum, subscripts, values(*a), values(*b)))
    for rows, columns in ((1024, 1024), (128, 128)):
        matrix = values(rows, columns)
        name = f"{rows}x{columns}"
        yield Case("edge strided vectors", f"{name}, every other k", partial(api.matmul, Spread(matrix), matrix[0]))
        yield Case("edge strided vectors", f"{name}, columns", partial(api.matmul, matrix.T, matrix[0]))
        yield Case(
            "edge strided vectors", f"{name}, every other column", partial(api.matmul, matrix[0], Spread(matrix))
        )
    for count, name in product((1000, 1 << 16, 1 << 20), byte_calls(1)):
        yield Case("edge bytes", f"{name} {count}", partial(byte_call, count, name))
    for name in small_calls():
        yield Case("edge calls", name, partial(small_call, name))
    for sizes in FEW_CHANNELS:
        size, ic, oc, kernel, groups = sizes
        name = f"{size}x{size}x{ic} {kernel}x{kernel} {oc} g{groups}"
        yield Case("edge channels", name, partial(few_channels_call, *sizes))
    for alpha, beta, *sizes in SCALED:
        name = f"{alpha}, {beta}, {'x'.join(map(str, sizes))}"
        yield Case("edge scaled", name, partial(scaled_call, alpha, beta, *sizes))
    for m, n, k in SHORT_ROWS:
        yield Case("edge short rows", f"{m}x{n}x{k}", partial(short_rows_call, m, n, k))
    for length, ic, oc, kernel in ONE_WIDE:
        name = f"{length}x1x{ic} {kernel}x1 {oc}"
        yield Case("edge one wide", name, partial(one_wide_call, length, ic, oc, kernel))
    for columns in (1, 2, 4, 8, 16):
        name = f"columns of 2600x2 @ 2x{columns}"
        yield Case("edge strided vectors", name, partial(api.matmul, values(2, 2600).T, values(2, columns)))
    for rows, k in ((80, 1), (500, 1), (100, 17), (100, 50)):
        base = values(rows, 8)
        yield Case("edge nearest", f"200 of {rows}, k {k}", partial(api.nearest, values(200, 8), base, k), "nearest")
    for k in (10, 100, 1000):
        base = values(10_000, 128)
        yield Case("edge nearest", f"100 of 10,000, k {k}", partial(api.nearest, base[:100], base, k), "nearest")


FAMILIES = {
    "gemm": gemm,
    "forms": forms,
    "inner_product": inner_products,
    "convolution": all_convolutions,
    "deconvolution": deconvolutions,
    "recurrent": recurrences,
    "elementwise": elementwise,
    "pooling": pooling,
    "quantize": quantize,
    "normalization": normalization,
    "everyday": everyday,
    "edges": edges,
}
