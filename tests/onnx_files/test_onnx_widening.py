"""float16 networks compute in float32: their weights are converted once, inputs and outputs in each run."""

import numpy as np
import pytest
from onnx_models import loaded, model_of

import int8blas.onnx

RNG = np.random.default_rng(5)
TEXT = """g (float16[n, 64] x) => (float16[n, 64] y, float[n, 64] z) {
    a = MatMul(x, w) h = Relu(a) s = Add(h, x) y = MatMul(s, v) z = Cast<to = 1>(s) }"""


def weights(seed):
    return (np.random.default_rng(seed).normal(0, 0.1, (64, 64))).astype(np.float16)


def test_results_are_rounded_once():
    w, v, x = weights(0), weights(1), RNG.normal(0, 1, (5, 64)).astype(np.float16)
    y, z = int8blas.onnx.load(model_of(TEXT, constants={"w": w, "v": v})).run(None, {"x": x})
    wide = [array.astype(np.float32) for array in (x, w, v)]
    text = TEXT.replace("float16[", "float[")
    y32, z32 = int8blas.onnx.load(model_of(text, constants={"w": wide[1], "v": wide[2]})).run(None, {"x": wide[0]})
    assert (y.dtype, z.dtype) == (np.float16, np.float32)
    np.testing.assert_array_equal(y, y32.astype(np.float16))
    np.testing.assert_array_equal(z, z32)


def test_intermediate_results_do_not_overflow():
    text = "g (float16[1, 2] x) => (float16[1, 2] y) { a = MatMul(x, w) y = Mul(a, k) }"
    w, k = np.full((2, 2), 300, np.float16), np.float16(0.001)
    (y,) = int8blas.onnx.load(model_of(text, constants={"w": w, "k": k})).run(None, {"x": np.full((1, 2), 200, "e")})
    np.testing.assert_allclose(y, 120, 2e-3)


@pytest.mark.parametrize("condition", [True, False])
def test_subgraphs_and_casts_are_widened(condition):
    text = """g (float16[1, 2] x, bool b) => (float16[1, 2] y) { f = Cast<to = 1>(x) c = Cast<to = 10>(f) y = If(b) <
        then_branch = t () => (float16[1, 2] p) { p = MatMul(c, w) },
        else_branch = e () => (float16[1, 2] q) { q = Add(c, x) }> }"""
    w, x = np.array([[2, 0], [1, 3]], np.float16), np.array([[0.1, 2]], np.float16)
    model = int8blas.onnx.load(model_of(text, constants={"w": w}))
    (y,) = model.run(None, {"x": x, "b": np.array(condition)})
    wide = x.astype(np.float32)
    wanted = wide @ w.astype(np.float32) if condition else wide + wide
    assert y.dtype == np.float16
    np.testing.assert_array_equal(y, wanted.astype(np.float16))


def test_ports_keep_their_types_and_inputs_may_be_outputs():
    text = "g (float16[1, 2] x) => (float16[1, 2] y, float16[1, 2] x) { y = MatMul(x, w) }"
    model = int8blas.onnx.load(model_of(text, constants={"w": np.eye(2, dtype=np.float16)}))
    assert [port.type for port in (*model.get_inputs(), *model.get_outputs())] == ["tensor(float16)"] * 3
    x = np.array([[0.5, 7]], np.float16)
    y, same = model.run(None, {"x": x})
    np.testing.assert_array_equal(y, x)
    np.testing.assert_array_equal(same, x)
    assert same.dtype == np.float16


def test_files_without_float16_weights_stay_as_they_are():
    model = loaded("g (float16[2, 3] x) => (float16[2, 3] y) { y = Relu(x) }")
    assert [call.operator for call in model.explain()] == ["Relu"]


def test_a_gelu_with_numbers_in_float16_is_one_node():
    numbers = {"r": np.sqrt(2), "o": 1, "h": 0.5, "w": np.ones((8, 8))}
    values = {name: np.asarray(value, np.float16) for name, value in numbers.items()}
    text = """g (float16[n,8] x) => (float16[n,8] y) { p = MatMul(x, w) d = Div(p, r) e = Erf(d) f = Add(e, o)
        g = Mul(p, f) y = Mul(g, h) }"""
    model = loaded(text, constants=values)
    assert "com.microsoft.Gelu" in [call.operator for call in model.explain()]
