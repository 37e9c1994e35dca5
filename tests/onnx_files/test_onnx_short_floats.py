"""Sums of float16 and bfloat16: they are exact in float32 here, and rounded once to the type of the result."""

import numpy as np
import pytest
from onnx_models import loaded

from int8blas.core.arrays import bfloat16_dtype

TYPES = {"float16": np.dtype(np.float16), "bfloat16": np.dtype(bfloat16_dtype())}
POOL = "<kernel_shape = [32, 64]>"
# Operators of x of shape (2048, 8) or (1, 8, 32, 64): their attributes and other inputs, and the result in float64.
SUMS = {
    "ReduceSum": ("", ", rows", lambda x: x.sum(0, keepdims=True)),
    "ReduceSum of a row": ("", ", columns", lambda x: x.sum(1, keepdims=True)),
    "ReduceMean": ("", ", rows", lambda x: x.mean(0, keepdims=True)),
    "ReduceL1": ("", ", rows", lambda x: np.abs(x).sum(0, keepdims=True)),
    "ReduceL2": ("", ", rows", lambda x: np.sqrt((x * x).sum(0, keepdims=True))),
    "ReduceSumSquare": ("", ", rows", lambda x: (x * x).sum(0, keepdims=True)),
    "ReduceLogSum": ("", ", rows", lambda x: np.log(np.abs(x.sum(0, keepdims=True)))),
    "ReduceLogSumExp": ("", ", rows", lambda x: np.log(np.exp(x).sum(0, keepdims=True))),
    "CumSum": ("", ", first", lambda x: x.cumsum(0)),
    "CumSum backward": ("<reverse = 1, exclusive = 1>", ", first", lambda x: x[::-1].cumsum(0)[::-1] - x),
    "Einsum": ("<equation = \"ij->j\">", "", lambda x: x.sum(0)),
    "Einsum of a square": ("<equation = \"ij,ik->jk\">", ", x", lambda x: x.T @ x),
    "Gemm": ("<transA = 1>", ", x", lambda x: x.T @ x),
    "LpNormalization": ("<axis = 0, p = 1>", "", lambda x: x / np.abs(x).sum(0, keepdims=True)),
    "Sum": ("", ", y, x, y", lambda x: 2 * x + 2 * x[::-1]),
    "Mean": ("", ", y, x", lambda x: (2 * x + x[::-1]) / 3),
    "AveragePool": (POOL, "", lambda x: x.mean((2, 3), keepdims=True)),
    "AveragePool of parts": ("<kernel_shape = [32, 2], strides = [1, 2]>", "",
                             lambda x: x.reshape(1, 8, 32, 32, 2).mean((2, 4))[:, :, None]),
    "GlobalAveragePool": ("", "", lambda x: x.mean((2, 3), keepdims=True)),
    "Conv": ("<group = 8>", ", ones", lambda x: x.sum((2, 3), keepdims=True)),
    "Conv of all channels": ("", ", every", lambda x: x.sum((1, 2, 3), keepdims=True)),
}  # fmt: skip


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("name", SUMS)
def test_sums_of_16_bit_floats_are_rounded_once(name, kind):
    attributes, others, function = SUMS[name]
    image = "Pool" in name or "Conv" in name
    rng, short = np.random.default_rng(0), TYPES[kind]
    # Multiples of 1 / 64 below 2, or of 1 / 8 where products are summed.
    x = (rng.integers(0, 128, (2048, 8)) / 64).astype(np.float64)
    x = (x.T.reshape(1, 8, 32, 64) if image else x).astype(short)
    feeds = {"x": x, "y": x[::-1], "rows": np.array([0]), "columns": np.array([1]), "first": np.array(0),
             "ones": np.ones((8, 1, 32, 64), short), "every": np.ones((1, 8, 32, 64), short)}  # fmt: skip
    used = {feed: value for feed, value in feeds.items() if feed in ["x", *others.split(", ")]}
    inputs = ", ".join(f"{kind if value.dtype == short else 'int64'}[{', '.join(map(str, value.shape))}] {feed}"
                       if value.ndim else f"int64 {feed}" for feed, value in used.items())  # fmt: skip
    model = loaded(f"g ({inputs}) => ({kind} r) {{ r = {name.split()[0]}{attributes}(x{others}) }}")
    (r,) = model.run(None, used)
    assert r.dtype == short
    wanted = function(x.astype(np.float64))
    np.testing.assert_array_equal(r.astype(np.float64), wanted.astype(short).astype(np.float64))


@pytest.mark.parametrize("kind", TYPES)
def test_updates_of_one_element_are_added_in_float32(kind):
    model = loaded(f"""g ({kind}[1] x, int64[n] i, {kind}[n] u, int64[n, 1] j) => ({kind}[1] y, {kind}[1] z) {{
        y = ScatterElements<reduction = "add">(x, i, u) z = ScatterND<reduction = "add">(x, j, u) }}""")
    feeds = {"x": np.zeros(1, TYPES[kind]), "i": np.zeros(5000, int), "u": np.ones(5000, TYPES[kind])}
    for result in model.run(None, {**feeds, "j": np.zeros((5000, 1), int)}):
        assert result == np.float32(5000).astype(TYPES[kind])


def test_a_sum_of_squares_beyond_float16_does_not_overflow():
    x = np.full((64, 8), 1000, np.float16)
    y, z = loaded("""g (float16[n, 8] x) => (float16[1, 8] y, float16[1, 8] z) <int64[1] a = {0}> {
        y = ReduceL2(x, a) z = LpNormalization<axis = 0>(x) }""").run(None, {"x": x})
    np.testing.assert_array_equal(y, 8000)
    np.testing.assert_array_equal(z, 0.125)
