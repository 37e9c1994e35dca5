"""Results in memory that arguments share: a call gives the bits of a call whose arguments are copies."""

import numpy as np

import int8blas

F32, U8 = np.dtype(np.float32), np.dtype(np.uint8)
OPS = {"attributes": int8blas.Attributes(scales={"weights": 1}, post_ops=[int8blas.Binary(), int8blas.PReLU()])}


def filters(*shape):
    return np.random.default_rng(0).integers(-128, 128, shape, np.int8)


def layer_of(name, strides):
    """A layer of 2 channels and 3 filters of 3 x 2, static or dynamic."""
    kind = int8blas.Deconvolution if "deconvolution" in name else int8blas.Convolution
    if "dynamic" in name:
        return kind.dynamic(filters(3, 2, 3, 2), strides=strides, **OPS)
    return kind(filters(3, 2, 3, 2), strides=strides, src_dtype=U8, dst_dtype=F32, **OPS)


def execution(name, a, strides, out):
    layer = layer_of(name, strides)
    return layer(a["x"], scales={"weights": a["scale"]}, operands=[a["operand"], a["slope"]], out=out)


def recurrent(a, out):
    layer = int8blas.LSTM(filters(3, 4, 5), filters(5, 4, 5), weights_scale=63, data_scale=50, dst_dtype=F32)
    return layer(a["x"], c0=a["c0"], out=out)[0]


# The calls, as functions of arrays by name, the strides, and `out`.
CALLS = {
    "layer_norm": lambda a, _, out: int8blas.layer_norm(a["x"], a["gamma"], a["beta"], out=out),
    "softmax": lambda a, _, out: int8blas.softmax(a["x"], 0, out=out),
    "dequantize": lambda a, _, out: int8blas.dequantize(a["x"], a["scale"], axis=1, out=out),
    "binary": lambda a, _, out: int8blas.binary("mul", a["x"], a["scale"], post_ops=int8blas.ReLU(), out=out),
    "concat": lambda a, _, out: int8blas.concat([a["x"], a["y"]], 1, out=out),
    "LSTM": lambda a, _, out: recurrent(a, out),
    **{name: lambda a, strides, out, name=name: execution(name, a, strides, out) for name in (
        "convolution", "deconvolution", "dynamic convolution", "dynamic deconvolution")},
}  # fmt: skip


def shapes_of(draws, name, m, n, strides):
    """The types and shapes of the arguments, and the shape of the result, which is float32."""
    of_column, matrix = {"scale": (F32, (n,)), "gamma": (F32, (n,)), "beta": (F32, (n,))}, (m, n)
    if name == "concat":
        return {"x": (F32, matrix), "y": (F32, matrix)}, (m, 2 * n)
    if name == "LSTM":
        return {"x": (U8, (m, n, 3)), "c0": (F32, (n, 5))}, (m, n, 5)
    if "convolution" not in name:
        return of_column | {"x": (U8 if name == "dequantize" else F32, matrix)}, matrix
    small, large = (m, n), ((m - 1) * strides + 3, (n - 1) * strides + 2)
    images, (src, dst) = draws.integer(1, 2), (small, large) if "deconvolution" in name else (large, small)
    shape = (images, *dst, 3)
    source = (F32 if "dynamic" in name else U8, (images, *src, 2))
    return {"x": source, "operand": (F32, shape), "slope": (F32, (3,)), "scale": (F32, (3,))}, shape


def problem(draws):
    name, strides = draws.among(tuple(CALLS)), draws.integer(1, 3)
    m, n = (min(1 + size, 40) for size in draws.sizes(2, 9))
    arguments, shape = shapes_of(draws, name, m, n, strides)
    room = int(np.prod(shape)) + 64
    spans = {"out": (F32, shape)} | arguments
    places = {each: 4 * draws.below(room) if draws.below(3) else 0 for each in spans}
    size = max(place + int(np.prod(spans[each][1])) * 4 for each, place in places.items())
    memory = draws.generator().uniform(0.5, 2, -(-size // 4)).astype(np.float32)
    return {"call": name, "strides": strides, "spans": spans, "places": places, "memory": memory}


def views(problem):
    """All arrays of a problem, in a copy of its memory."""
    memory = problem["memory"].copy()
    return {each: np.ndarray(shape, dtype, memory, problem["places"][each])
            for each, (dtype, shape) in problem["spans"].items()}  # fmt: skip


def run(problem):
    arrays = views(problem)
    return (CALLS[problem["call"]](arrays, problem["strides"], arrays["out"]).copy(),)


def oracle(problem):
    copies = {each: array.copy() for each, array in views(problem).items()}
    return (CALLS[problem["call"]](copies, problem["strides"], copies["out"]),)
