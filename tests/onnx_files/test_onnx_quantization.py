"""The parameters of a quantization: types with equal numbers, and signs of scales."""

import numpy as np
import pytest
from onnx_models import loaded
from reference_onnx import dequantized, max_pool, quantized

F = np.float32
RNG = np.random.default_rng(12)
TYPES = (np.uint8, np.int8)


def number(value):
    """Return a number in onnx's text form."""
    return f"{{{float(value)!r}}}"


def every(dtype):
    return np.arange(256, dtype=np.uint8).view(dtype).reshape(1, 256)


# ------------------------------------------------------------------------------------------- types of parts ------


@pytest.mark.parametrize("first", TYPES)
@pytest.mark.parametrize("second", TYPES)
@pytest.mark.parametrize("result", TYPES)
@pytest.mark.parametrize("fixed", [True, False])
def test_parts_of_other_types_are_converted_though_their_numbers_are_the_same(first, second, result, fixed):
    """Scales and zero points are equal numbers; `fixed` makes them constant, so that a pattern matches."""
    a, b, y = (np.dtype(kind).name for kind in (first, second, result))
    numbers = f"float s{' = {0.5}' if fixed else ''}, {a} za = {{0}}, {b} zb = {{0}}, {y} zy = {{0}}"
    ports = "" if fixed else ", float s"
    numbers = numbers if fixed else numbers.replace("float s, ", "")
    model = loaded(f"""g ({a}[1,256] a, {b}[1,256] b{ports}) => ({y} y) <{numbers}> {{
        f = DequantizeLinear(a, s, za) h = DequantizeLinear(b, s, zb) c = Concat<axis = 1>(f, h)
        y = QuantizeLinear(c, s, zy) }}""")  # fmt: skip
    (got,) = model.run(None, {"a": every(first), "b": every(second), **({} if fixed else {"s": F(0.5)})})
    limits = np.iinfo(result)
    wanted = np.concatenate([every(kind).astype(int) for kind in (first, second)], 1).clip(limits.min, limits.max)
    assert got.dtype == result
    np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("operator", ["Reshape(f, n)", "MaxPool<kernel_shape = [1]>(f)"])
def test_what_moves_bytes_converts_them_to_another_type(operator):
    model = loaded(f"""g (uint8[1,1,256] x) => (int8 y) <float s = {{0.5}}, uint8 z = {{0}}, int8 w = {{0}},
        int64[1] n = {{256}}> {{ f = DequantizeLinear(x, s, z) m = {operator} y = QuantizeLinear(m, s, w) }}""")
    (y,) = model.run(None, {"x": every(np.uint8)[None]})
    assert y.dtype == np.int8
    np.testing.assert_array_equal(y.ravel(), np.arange(256).clip(0, 127))


@pytest.mark.parametrize("value", [0, 1])
def test_bytes_are_padded_with_a_quantized_zero(value):
    """Quantizers write the number of a Pad as a DequantizeLinear of a constant."""
    model = loaded(f"""g (uint8[1,256] x) => (uint8 y) <float s = {{0.5}}, uint8 z = {{7}}, float t = {{2.0}},
        int8 o = {{0}}, int8 q = {{{value}}}, int64[4] n = {{0, 1, 0, 2}}> {{
        f = DequantizeLinear(x, s, z) v = DequantizeLinear(q, t, o) m = Pad(f, n, v)
        y = QuantizeLinear(m, s, z) }}""")
    assert ("QuantizeLinear" in [call.operator for call in model.explain()]) == bool(value)
    (y,) = model.run(None, {"x": every(np.uint8)})
    np.testing.assert_array_equal(y, np.pad(every(np.uint8), [(0, 0), (1, 2)], constant_values=7 + 4 * value))


# ------------------------------------------------------------------------------------------- signs of scales ------


@pytest.mark.parametrize("x_scale", [1.0, -1.0])
@pytest.mark.parametrize("y_scale", [1.0, 0.5, -1.0])
@pytest.mark.parametrize("relu", [True, False])
@pytest.mark.parametrize("zero", [-128, 0])
def test_the_largest_is_chosen_before_a_scale_turns_the_order(x_scale, y_scale, relu, zero):
    x = RNG.integers(-60, 60, (1, 1, 40), np.int8)
    model = loaded(f"""g (int8[1,1,40] x) => (int8 y) <float s = {number(x_scale)}, float t = {number(y_scale)},
        int8 z = {{{zero}}}> {{ f = DequantizeLinear(x, s, z) m = MaxPool<kernel_shape = [4], strides = [2]>(f)
        {"r = Relu(m)" if relu else ""} y = QuantizeLinear({"r" if relu else "m"}, t, z) }}""")
    real = max_pool(dequantized(x, F(x_scale), np.int8(zero)), kernel_shape=[4], strides=[2])
    wanted = quantized(np.maximum(real, 0) if relu else real, F(y_scale), np.int8(zero))
    np.testing.assert_array_equal(model.run(None, {"x": x})[0], wanted)


BODIES = {
    "Add": "m = Add(f, f)",
    "Mul": "m = Mul(f, one)",
    "Concat": "m = Concat<axis = 1>(f, f)",
    "Reshape": "m = Reshape(f, n)",
    "MatMul": "m = MatMul(f, i)",
    "Gemm": "m = Gemm(f, i)",
}


@pytest.mark.parametrize("scale", [1.0, -1.0, 0.25])
@pytest.mark.parametrize("zero", [-128, 0, 127])
@pytest.mark.parametrize("name", BODIES)
@pytest.mark.parametrize("limit", [np.inf, 64, 60])
def test_saturation_stands_for_limits_only_where_they_have_its_effect(name, scale, zero, limit):
    x = RNG.integers(-60, 60, (6, 8), np.int8)
    eye = " ".join(map(str, np.eye(8, dtype=int).ravel())).replace(" ", ", ")
    limits = "Relu(m)" if limit == np.inf else "Clip(m, l, h)"
    model = loaded(f"""g (int8[6,8] x) => (int8 y) <float s = {number(scale)}, float e = {{1}}, int8 zx = {{0}},
        float l = {{0}}, float h = {{{min(limit, 64)}}}, int8 z = {{{zero}}}, int8 p = {{1}}, int64[2] n = {{8, 6}},
        int8[8,8] w = {{{eye}}}> {{
        f = DequantizeLinear(x, e, zx) one = DequantizeLinear(p, e, zx) i = DequantizeLinear(w, e, zx)
        {BODIES[name]} r = {limits} y = QuantizeLinear(r, s, z) }}""")
    m = {"Add": x.astype(F) * 2, "Concat": np.concatenate([x, x], 1), "Reshape": x.reshape(8, 6)}.get(name, x)
    wanted = quantized(np.clip(m, 0, limit).astype(F), F(scale), np.int8(zero))
    np.testing.assert_array_equal(model.run(None, {"x": x})[0], wanted)


# ---------------------------------------------------------------------------- scales that are no positive number ------


SCALES = [0.0, -0.0, 3e38, -3e38, np.inf, np.nan]
UNUSUAL = {
    "Reshape(f, n)": lambda f: f.reshape(1, -1),
    "Concat<axis = 0>(f, f)": lambda f: np.concatenate([f, f]),
    "MaxPool<kernel_shape = [1]>(f)": lambda f: f,
}


@pytest.mark.parametrize("fixed", [True, False])
@pytest.mark.parametrize("scale", SCALES, ids=str)
@pytest.mark.parametrize("body", UNUSUAL)
def test_bytes_that_do_not_survive_their_scale_are_not_moved_as_they_are(body, scale, fixed):
    """Zero, infinity or NaN lies between two quantizations, or the scale makes some bytes infinite."""
    x, zero, scale = every(np.int8)[None], np.int8(5), np.array(scale, F)
    text = f"""g (int8[1,1,256] x{"" if fixed else ", float s"}) => (int8 y) <int8 z = {{5}}, int64[2] n = {{1, -1}}> {{
        f = DequantizeLinear(x, s, z) m = {body} y = QuantizeLinear(m, s, z) }}"""
    model = loaded(text, constants={"s": scale} if fixed else {})
    (y,) = model.run(None, {"x": x} if fixed else {"x": x, "s": scale})
    np.testing.assert_array_equal(y, quantized(UNUSUAL[body](dequantized(x, scale, zero)), scale, zero))


@pytest.mark.parametrize("fixed", [True, False])
@pytest.mark.parametrize("scale", [0.5, -0.5, *SCALES], ids=str)
@pytest.mark.parametrize("zero", TYPES)
def test_nan_becomes_the_zero_point_whatever_the_scale_is(zero, scale, fixed):
    x, scale, zero = np.array([np.nan, np.inf, -np.inf, 0, 3, -3], F), np.array(scale, F), np.array(9, zero)
    text = f"g (float[6] x{'' if fixed else ', float s'}) => ({zero.dtype} y) {{ y = QuantizeLinear(x, s, z) }}"
    model = loaded(text, constants={"s": scale, "z": zero} if fixed else {"z": zero})
    (y,) = model.run(None, {"x": x} if fixed else {"x": x, "s": scale})
    assert y[0] == 9
    np.testing.assert_array_equal(y, quantized(x, scale, zero))
