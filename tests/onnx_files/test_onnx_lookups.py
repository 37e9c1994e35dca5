"""A table replaces nodes on one int8 tensor and keeps their bits; nodes on two tensors stay."""

import numpy as np
import pytest
from onnx_models import loaded
from test_onnx_fusion import IMAGE, constants, kinds, one, unfused

U, S = np.uint8, np.int8
TABLE = "int8blas.Table"
VALUES = constants(
    xs=one(0.05), xz=one(119, U), ys=one(0.07), yz=one(31, U), zs=one(0.09), zz=one(-5, S), three=one(3), six=one(6),
    low=one(0), wide=np.full((1, 1, 1, 1, 1), 1.5, np.float32), slopes=np.full((4, 1, 1), 0.5, np.float32),
    b=one(200, U), w=np.ones((2, 4, 1, 1), S), wz=one(0, S),
)  # fmt: skip
ENDS = "z = QuantizeLinear(y, ys, yz)"
FUNCTIONS = {
    "a HardSwish in floats": f"p = Add(f, three) c = Clip(p, low, six) m = Mul(c, f) y = Div(m, six) {ENDS}",
    "a HardSwish in bytes": f"""p = com.microsoft.QLinearAdd(x, xs, xz, b, ys, yz, zs, yz)
        m = com.microsoft.QLinearMul(x, xs, xz, p, zs, yz, ys, yz) n = DequantizeLinear(m, ys, yz) y = Div(n, six)
        {ENDS}""",
    "quantized twice": f"r = Sqrt(f) q = QuantizeLinear(r, zs, zz) y = DequantizeLinear(q, zs, zz) {ENDS}",
    "to int8": "y = Tanh(f) z = QuantizeLinear(y, zs, zz)",
    "a larger shape": f"y = Max(f, wide) {ENDS}",
    "of the number first": f"y = Sub(three, f) {ENDS}",
    "by a table of its own": "z = com.microsoft.QLinearSigmoid(x, xs, xz, ys, yz)",
}


def text_of(body, result="uint8 z", source="uint8[1,4,8,9]"):
    return f"g ({source} x) => ({result}) <{VALUES}> {{ f = DequantizeLinear(x, xs, xz) {body} }}"


def same(text, wanted, feed=IMAGE, **options):
    model = loaded(text, microsoft=True)
    assert kinds(model) == wanted
    results = model.run(None, {"x": feed})
    for ours, one_by_one in zip(results, unfused(text, {"x": feed}), strict=True):
        assert ours.dtype == one_by_one.dtype
        np.testing.assert_array_equal(ours, one_by_one)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_one_byte_are_looked_up(isa, name):
    every = np.arange(288, dtype=U).reshape(1, 4, 8, 9)
    text = text_of(FUNCTIONS[name], "int8 z" if name == "to int8" else "uint8 z")
    for feed in (every, np.ascontiguousarray(every.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)):
        same(text, [TABLE], feed)


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("size", ["", "[1]"])
def test_a_function_of_a_tensor_without_dimensions_has_those_of_its_nodes(name, size):
    """This holds for scales with one dimension too."""
    text = text_of(FUNCTIONS[name], "int8 z" if name == "to int8" else "uint8 z", "uint8")
    for each in ("xs", "xz", "ys", "yz", "zs", "zz"):
        text = text.replace(f" {each} =", f"{size} {each} =")
    same(text, [TABLE], np.array(7, U))


def test_a_byte_in_the_middle_that_others_need_is_looked_up_too():
    text = text_of(
        f"r = Sqrt(f) q = QuantizeLinear(r, zs, zz) y = DequantizeLinear(q, zs, zz) {ENDS}", "uint8 z, int8 q"
    )
    same(text, [TABLE, TABLE])


def test_floats_that_others_need_are_computed():
    text = text_of(f"y = Exp(f) {ENDS}", "uint8 z, float y")
    same(text, ["DequantizeLinear", "Exp", TABLE])


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        ("s = Mul(f, slopes) z = QuantizeLinear(s, ys, yz)", ["DequantizeLinear", "Mul", "QuantizeLinear"]),
        ("t = Transpose<perm = [0, 1, 3, 2]>(f) u = Neg(t) v = Neg(u) z = QuantizeLinear(v, ys, yz)",
         ["Transpose", TABLE]),
        ("t = MaxPool<kernel_shape = [1, 2]>(f) u = Neg(t) z = QuantizeLinear(u, ys, yz)", ["MaxPool", TABLE]),
        ("z = com.microsoft.QLinearAdd(x, xs, xz, x2, xs, xz, ys, yz)", ["com.microsoft.QLinearAdd"]),
    ],
)  # fmt: skip
def test_what_is_no_function_of_one_byte_is_left(body, wanted):
    text = text_of(body, source="uint8[1,4,8,9] x2, uint8[1,4,8,9]")
    model = loaded(text, microsoft=True)
    assert kinds(model) == wanted
    feeds = {"x": IMAGE, "x2": IMAGE[::-1]}
    np.testing.assert_array_equal(model.run(None, feeds)[0], unfused(text, feeds)[0])


def test_bytes_of_another_type_than_their_zero_point_are_an_error():
    text = text_of(f"y = Exp(f) {ENDS}", source="int8[1,4,8,9]")
    with pytest.raises(TypeError, match="bytes must be uint8, as their zero point is, got int8"):
        loaded(text).run(None, {"x": IMAGE.view(S)})


@pytest.mark.parametrize("name", ["Add", "Mul", "Sub", "Div"])
@pytest.mark.parametrize("shape", ["1,4,8,9", "1,4,1,1", "1"])
@pytest.mark.parametrize("last", [True, False])
def test_functions_of_two_tensors_of_bytes_are_one_node(isa, name, shape, last):
    relu = "r = Relu(y) z = QuantizeLinear(r, ys, zero)" if last else ENDS
    text = f"""g (uint8[1,4,8,9] x, int8[{shape}] x2) => (uint8 z) <{VALUES}, {constants(zero=one(0, U))}> {{
        f = DequantizeLinear(x, xs, xz) h = DequantizeLinear(x2, zs, zz) y = {name}(f, h) {relu} }}"""
    rng = np.random.default_rng(3)
    second = rng.integers(-128, 128, [int(size) for size in shape.split(",")], S)
    model = loaded(text)
    assert kinds(model) == [f"{'com.microsoft' if name in ('Add', 'Mul') else 'int8blas'}.QLinear{name}"]
    for feed in (IMAGE, np.ascontiguousarray(IMAGE.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)):
        feeds = {"x": feed, "x2": second}
        np.testing.assert_array_equal(model.run(None, feeds)[0], unfused(text, feeds)[0])


def test_concatenated_bytes_are_one_node():
    text = f"""g (uint8[1,4,8,9] x, int8[1,2,8,9] x2) => (uint8 z) <{VALUES}> {{ f = DequantizeLinear(x, xs, xz)
        h = DequantizeLinear(x2, zs, zz) y = Concat<axis = 1>(f, h) {ENDS} }}"""
    model = loaded(text)
    assert kinds(model) == ["com.microsoft.QLinearConcat"]
    feeds = {"x": IMAGE, "x2": IMAGE[:, :2].view(S)}
    np.testing.assert_array_equal(model.run(None, feeds)[0], unfused(text, feeds)[0])


def test_a_maximum_is_of_bytes_though_it_is_written_in_floats(isa):
    text = text_of(f"e = Exp(f) p = MaxPool<kernel_shape = [2, 3], strides = [2, 2]>(e) y = Relu(p) {ENDS}").replace(
        "yz = {31}", "yz = {0}")  # fmt: skip
    same(text, [TABLE, "MaxPool"])


@pytest.mark.parametrize("order", ["channels first", "channels last"])
def test_means_over_pixels(isa, order):
    turned = np.ascontiguousarray(IMAGE.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)
    feed = IMAGE if order == "channels first" else turned
    text = f"""g (uint8[1,4,8,9] x) => (uint8 z, uint8 a, float m) <{VALUES}> {{
        z = com.microsoft.QLinearGlobalAveragePool(x, xs, xz, ys, yz) f = DequantizeLinear(x, xs, xz)
        m = GlobalAveragePool(f)
        a = com.microsoft.QLinearAveragePool<kernel_shape = [2, 3], pads = [1, 1, 0, 0]>(x, xs, xz, ys, yz) }}"""
    z, a, m = loaded(text, microsoft=True).run(None, {"x": feed})
    real = (IMAGE.astype(np.float64) - 119) * np.float32(0.05)
    wanted = real.mean((2, 3), keepdims=True)
    np.testing.assert_allclose(m, wanted, 1e-5, 1e-6)
    assert np.abs(z - np.clip(np.rint(wanted / np.float32(0.07)) + 31, 0, 255)).max() <= 1
    padded = np.pad(real, ((0, 0), (0, 0), (1, 0), (1, 0)), constant_values=np.nan)
    windows = np.lib.stride_tricks.sliding_window_view(padded, (2, 3), (2, 3))
    means = np.clip(np.rint(np.nanmean(windows, (-1, -2)) / np.float32(0.07)) + 31, 0, 255)
    assert a.shape == means.shape
    assert np.abs(a - means).max() <= 1


@pytest.mark.parametrize("order", ["channels first", "channels last"])
@pytest.mark.parametrize(
    "attributes",
    ["kernel_shape = [1, 1]", "kernel_shape = [3, 2], strides = [2, 3]", "kernel_shape = [2, 3], dilations = [2, 1]",
     "kernel_shape = [3, 3], pads = [1, 0, 1, 2], strides = [1, 2]",
     "kernel_shape = [3, 2], strides = [2, 2], ceil_mode = 1"],
)  # fmt: skip
def test_maxima_of_floats_are_those_of_their_ranks(attributes, order):
    """A monotone table keeps the positions of maxima; NaN exceeds all numbers."""
    ranks = np.random.default_rng(5).permutation(240).astype(np.uint8).reshape(1, 3, 8, 10)
    values = np.sort(np.random.default_rng(6).normal(0, 9, 240)).astype(np.float32)
    values[-1] = np.nan
    x = values[ranks]
    if order == "channels last":
        x = np.ascontiguousarray(x.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)
    before = x.copy()
    text = f"g (float[1,3,8,10] x, uint8[1,3,8,10] r) => (float y, uint8 z) {{ y = MaxPool<{attributes}>(x) " \
           f"z = MaxPool<{attributes}>(r) }}"  # fmt: skip
    y, z = loaded(text).run(None, {"x": x, "r": ranks})
    np.testing.assert_array_equal(y, values[z])
    assert not np.shares_memory(y, x)
    np.testing.assert_array_equal(x, before)
