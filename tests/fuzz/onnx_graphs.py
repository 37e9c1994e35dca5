"""Small ONNX models of integer operators, computed by int8blas.onnx and by NumPy."""

from functools import cache

import numpy as np
from arrays import SIGN_PAIRS
from onnx_models import model_of, run_again

import int8blas.onnx

NAMES = {np.uint8: "uint8", np.int8: "int8"}
MODELS = {
    "MatMulInteger": "g ({a}[m,k] a, {b}[k,n] b, {a} az, {b} bz) => (int32[m,n] y) {{"
    " y = MatMulInteger(a, b, az, bz) }}",
    "sum": "g ({a}[m,k] a, {b}[k,n] b, {a} az, {b} bz, int32[n] c) => (int32[m,n] y) {{"
    " x = MatMulInteger(a, b, az, bz) y = Add(x, c) }}",
    "QLinearMatMul": "g ({a}[m,k] a, {b}[k,n] b, {a} az, {b} bz, float s, float t, float u, {a} uz) => ({a}[m,n] y) {{"
    " y = QLinearMatMul(a, s, az, b, t, bz, u, uz) }}",
    "DequantizeLinear": "g ({a}[m,k] a, {a} az, float s) => (float[m,k] y) {{ y = DequantizeLinear(a, s, az) }}",
    "transposed": "g ({a}[m,k] a, {b}[n,k] b, {a} az, {b} bz) => (int32[m,n] y) {{"
    " t = Transpose<perm = [1, 0]>(b) y = MatMulInteger(a, t, az, bz) }}",
}  # fmt: skip


def problem(draws):
    name, pair = draws.among(tuple(MODELS)), draws.among(SIGN_PAIRS)
    m, n, k = draws.sizes(3, 13)
    feeds = {
        "a": draws.array(pair.a_dtype, (m, k)),
        "b": draws.array(pair.b_dtype, (n, k) if name == "transposed" else (k, n)),
        "az": draws.array(pair.a_dtype, ()),
        "bz": draws.array(pair.b_dtype, ()),
        "c": draws.int32s(n) >> 4,
        "s": np.float32(draws.among((0.5, 0.031))),
        "t": np.float32(draws.among((0.25, 0.007))),
        "u": np.float32(draws.among((1, 0.9, 12.5))),
        "uz": draws.array(pair.a_dtype, ()),
    }
    text = MODELS[name].format(a=NAMES[pair.a_dtype], b=NAMES[pair.b_dtype])
    return {"name": name, "text": text, "feeds": feeds}


@cache
def content(text):
    """The file of a model."""
    return model_of(text).SerializeToString()


def run(problem):
    model = int8blas.onnx.load(content(problem["text"]))
    return run_again(model, {port.name: problem["feeds"][port.name] for port in model.get_inputs()})


def oracle(problem):
    name, feeds = problem["name"], problem["feeds"]
    a = feeds["a"].astype(np.int64) - feeds["az"]
    if name == "DequantizeLinear":
        return (a.astype(np.float32) * feeds["s"],)
    b = (feeds["b"].T if name == "transposed" else feeds["b"]).astype(np.int64) - feeds["bz"]
    y = a @ b
    if name == "sum":
        return ((y + feeds["c"]).astype(np.int32),)
    if name == "QLinearMatMul":
        factor = feeds["s"] * feeds["t"] / feeds["u"]
        info = np.iinfo(feeds["a"].dtype)
        rounded = np.rint(y.astype(np.float32) * factor).astype(np.float64)
        return (np.clip(rounded + int(feeds["uz"]), info.min, info.max).astype(info.dtype),)
    return (y.astype(np.int32),)
