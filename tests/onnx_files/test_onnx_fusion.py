"""Patterns of nodes that become one int8 operator keep that operator's bits; other nodes stay."""

import itertools
import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from onnx_models import loaded, model_of

import int8blas.onnx
from int8blas import InnerProduct
from int8blas.onnx.plan import make_plan
from int8blas.onnx.reader import read

RNG = np.random.default_rng(5)
F = np.float32


def kinds(model):
    return [step.node.kind for step in model._plan.steps]


def numbers(array):
    return "{" + ", ".join(map(str, np.asarray(array).ravel().tolist())) + "}"


def unfused(text, feeds, **options):
    """Return the results of the nodes, computed one by one."""
    network = read(model_of(text, **{"microsoft": True, **options}))
    with pytest.MonkeyPatch.context() as patch, np.errstate(all="ignore"):
        patch.setattr("int8blas.onnx.lookups.Tables.follow", lambda *arguments: None)
        return make_plan(network).run([feeds[value.name] for value in network.graph.inputs])


def assert_as_unfused(model, text, feeds):
    np.testing.assert_array_equal(model.run(None, feeds)[0], unfused(text, feeds)[0])


def constants(**values):
    return ", ".join(
        f"{'float' if v.dtype == F else v.dtype.name}{list(v.shape) if v.ndim else ''} {name} = {numbers(v)}"
        for name, v in values.items()
    )


def one(value, dtype=F):
    return np.array(value, dtype)


def rounded(y, zero, dtype=np.uint8):
    limits = np.iinfo(dtype)
    return np.clip(np.rint(y).astype(np.float64) + zero, limits.min, limits.max).astype(dtype)


W = RNG.integers(-127, 128, (6, 4, 3, 3), np.int8)
WS = RNG.uniform(0.001, 0.01, 6).astype(F)
XS, YS = F(0.03), F(0.2)
BIAS = RNG.integers(-3000, 3000, 6, np.int32)
IMAGE = RNG.integers(0, 256, (1, 4, 8, 9), np.uint8)


def conv_text(relu=False, zero=0, bias_scale=None):
    values = constants(w=W, ws=WS, wz=np.zeros(6, np.int8), xs=one(XS), xz=one(119, np.uint8), ys=one(YS),
                       yz=one(zero, np.uint8), b=BIAS, bs=XS * WS if bias_scale is None else bias_scale,
                       bz=np.zeros(6, np.int32))  # fmt: skip
    last = "q = Relu(y)" if relu else ""
    return f"""g (uint8[1,4,8,9] x) => (uint8 z) <{values}> {{ xf = DequantizeLinear(x, xs, xz)
        wf = DequantizeLinear<axis = 0>(w, ws, wz) bf = DequantizeLinear<axis = 0>(b, bs, bz)
        y = Conv<pads = [1, 1, 1, 1]>(xf, wf, bf) {last} z = QuantizeLinear({"q" if last else "y"}, ys, yz) }}"""


def conv_sums():
    return conv_sums_of_image() + BIAS.reshape(-1, 1, 1)


def conv_sums_of_image():
    x = np.pad(IMAGE.astype(np.int64) - 119, [(0, 0), (0, 0), (1, 1), (1, 1)])
    views = np.lib.stride_tricks.sliding_window_view(x, (3, 3), (2, 3))
    return np.einsum("nchwij,ocij->nohw", views, W.astype(np.int64))


@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("zero", [0, 131])
def test_a_quantized_convolution_is_one_node_with_exact_sums(relu, zero, isa):
    model = loaded(conv_text(relu, zero))
    (z,) = model.run(None, {"x": IMAGE})
    factor = (XS * WS / YS).reshape(-1, 1, 1)
    if relu and zero:
        assert kinds(model) == ["int8blas.QuantizedConv"]
        y = conv_sums_of_image().astype(F) * (XS * WS).reshape(-1, 1, 1) + (BIAS * (XS * WS)).reshape(-1, 1, 1)
        np.testing.assert_array_equal(z, rounded(np.maximum(y, 0) * (1 / YS), zero))
    else:
        assert kinds(model) == ["QLinearConv"]
        np.testing.assert_array_equal(z, rounded(conv_sums().astype(F) * factor, zero))
    (plain,) = unfused(conv_text(relu, zero), {"x": IMAGE})
    assert np.abs(z.astype(int) - plain).max() <= 1


def test_a_bias_of_another_scale_is_not_added_to_sums():
    scale = XS * WS * F(1.5)
    model = loaded(conv_text(bias_scale=scale))
    assert kinds(model) == ["int8blas.QuantizedConv"]
    y = conv_sums_of_image().astype(F) * (XS * WS).reshape(-1, 1, 1) + (BIAS * scale).astype(F).reshape(-1, 1, 1)
    np.testing.assert_array_equal(model.run(None, {"x": IMAGE})[0], rounded(y * (1 / YS), 0))


def test_what_is_needed_elsewhere_stays():
    text = conv_text().replace("(uint8 z)", "(uint8 z, float y)")
    model = loaded(text)
    assert kinds(model) == ["int8blas.QuantizedConv", "QuantizeLinear"]
    z, y = model.run(None, {"x": IMAGE})
    np.testing.assert_array_equal(z, rounded(y / YS, 0))


A = RNG.integers(0, 256, (5, 12), np.uint8)
B = RNG.integers(0, 256, (12, 6), np.uint8)


@pytest.mark.parametrize("channels", [False, True])
def test_a_quantized_product_is_one_node(channels, isa):
    scale, zero = (WS, RNG.integers(100, 180, 6, np.uint8)) if channels else (one(0.004), one(178, np.uint8))
    values = constants(b=B, bs=scale, bz=zero, xs=one(XS), xz=one(77, np.uint8), ys=one(YS), yz=one(9, np.uint8))
    text = f"""g (uint8[n,12] x) => (uint8 z) <{values}> {{ a = DequantizeLinear(x, xs, xz)
        bf = DequantizeLinear<axis = 1>(b, bs, bz) y = MatMul(a, bf) z = QuantizeLinear(y, ys, yz) }}"""
    model = loaded(text)
    assert kinds(model) == ["QLinearMatMul"]
    sums = (A.astype(np.int64) - 77) @ (B.astype(np.int64) - zero)
    (z,) = model.run(None, {"x": A})
    np.testing.assert_array_equal(z, rounded(sums.astype(F) * (XS * scale / YS), 9))
    assert np.abs(z.astype(int) - unfused(text, {"x": A})[0]).max() <= 1


@pytest.mark.parametrize("quantized", [False, True])
def test_a_product_of_two_quantized_tensors_is_one_node(quantized, isa):
    """Such a product is the product of queries and keys."""
    values = constants(xs=one(XS), xz=one(119, np.uint8), bs=one(0.01), bz=one(-3, np.int8), ys=one(YS),
                       yz=one(9, np.uint8))  # fmt: skip
    text = f"""g (uint8[2,5,12] a, int8[2,12,6] b) => (z) <{values}> {{
        af = DequantizeLinear(a, xs, xz) bf = DequantizeLinear(b, bs, bz) y = MatMul(af, bf)
        z = {"QuantizeLinear(y, ys, yz)" if quantized else "Identity(y)"} }}"""
    a, b = RNG.integers(0, 256, (2, 5, 12), np.uint8), RNG.integers(-128, 128, (2, 12, 6), np.int8)
    model = loaded(text)
    assert kinds(model)[0] == ("QLinearMatMul" if quantized else "com.microsoft.MatMulIntegerToFloat")
    sums = ((a.astype(np.int64) - 119) @ (b.astype(np.int64) + 3)).astype(F)
    wanted = rounded(sums * (XS * F(0.01) / YS), 9) if quantized else sums * (XS * F(0.01))
    np.testing.assert_array_equal(model.run(None, {"a": a, "b": b})[0], wanted)


@pytest.mark.parametrize("shape", [(3, 1), (3, 6)])
def test_a_bias_for_rows_leaves_a_product_in_float(shape):
    values = constants(b=B, bs=one(0.004), bz=one(178, np.uint8), xs=one(XS), xz=one(77, np.uint8),
                       c=RNG.normal(0, 1, shape).astype(F))  # fmt: skip
    text = f"""g (uint8[3,12] x) => (y) <{values}> {{ a = DequantizeLinear(x, xs, xz)
        bf = DequantizeLinear(b, bs, bz) y = Gemm(a, bf, c) }}"""
    model = loaded(text)
    told = "its bias is constant, but is neither one number nor a vector for the columns"
    assert told in {call.reason for call in model.explain()}
    assert_as_unfused(model, text, {"x": A[:3]})


def test_a_variable_bias_leaves_a_product_in_float():
    values = constants(b=B, bs=one(0.004), bz=one(178, np.uint8), xs=one(XS), xz=one(77, np.uint8))
    text = f"""g (uint8[3,12] x, float[6] c) => (y) <{values}> {{ a = DequantizeLinear(x, xs, xz)
        bf = DequantizeLinear(b, bs, bz) y = Gemm(a, bf, c) }}"""
    model = loaded(text)
    assert "its bias is not constant" in {call.reason for call in model.explain()}
    assert_as_unfused(model, text, {"x": A[:3], "c": RNG.normal(0, 1, 6).astype(F)})


def test_weights_that_the_file_has_as_floats_are_quantized_at_load():
    weights = RNG.normal(0, 0.3, (12, 6)).astype(F)
    values = constants(b=weights, bs=one(0.01), bz=one(0, np.int8), xs=one(XS), xz=one(77, np.uint8), ys=one(YS),
                       yz=one(9, np.uint8))  # fmt: skip
    text = f"""g (uint8[n,12] x) => (uint8 z) <{values}> {{ a = DequantizeLinear(x, xs, xz)
        bq = QuantizeLinear(b, bs, bz) bf = DequantizeLinear(bq, bs, bz) y = MatMul(a, bf)
        z = QuantizeLinear(y, ys, yz) }}"""
    model = loaded(text)
    assert kinds(model) == ["QLinearMatMul"]
    (z,) = model.run(None, {"x": A})
    assert np.abs(z.astype(int) - unfused(text, {"x": A})[0]).max() <= 1


@pytest.mark.parametrize("transposed", [0, 1])
@pytest.mark.parametrize("alpha", [1.0, 0.5])
def test_a_quantized_gemm_is_one_node(transposed, alpha, isa):
    b = np.ascontiguousarray(B.T) if transposed else B
    zero = RNG.integers(100, 180, 6, np.uint8)
    values = constants(b=b, bs=WS, bz=zero, xs=one(XS), xz=one(77, np.uint8), ys=one(YS), yz=one(0, np.uint8), c=BIAS,
                       cs=F(alpha) * XS * WS)  # fmt: skip
    text = f"""g (uint8[n,12] x) => (uint8 z) <{values}> {{ a = DequantizeLinear(x, xs, xz)
        bf = DequantizeLinear<axis = {1 - transposed}>(b, bs, bz) cf = DequantizeLinear<axis = 0>(c, cs)
        y = Gemm<transB = {transposed}, alpha = {alpha}>(a, bf, cf) r = Relu(y) z = QuantizeLinear(r, ys, yz) }}"""
    model = loaded(text)
    assert kinds(model) == ["com.microsoft.QGemm"]
    sums = (A.astype(np.int64) - 77) @ (B.astype(np.int64) - zero) + BIAS
    (z,) = model.run(None, {"x": A})
    np.testing.assert_array_equal(z, rounded(sums.astype(F) * (F(alpha) * XS * WS / YS), 0))
    assert np.abs(z.astype(int) - unfused(text, {"x": A})[0]).max() <= 1


@pytest.mark.parametrize(
    ("operator", "kind"),
    [
        ("Sigmoid(f)", "int8blas.Table"),
        ("LeakyRelu<alpha = 0.2>(f)", "int8blas.Table"),
        ("GlobalAveragePool(f)", "com.microsoft.QLinearGlobalAveragePool"),
    ],
)
def test_functions_of_bytes_are_one_node(operator, kind):
    values = constants(xs=one(XS), xz=one(119, np.uint8), ys=one(0.01), yz=one(3, np.uint8))
    text = f"""g (uint8[1,4,8,9] x) => (uint8 z) <{values}> {{ f = DequantizeLinear(x, xs, xz) y = {operator}
        z = QuantizeLinear(y, ys, yz) }}"""
    model = loaded(text)
    assert kinds(model) == [kind]
    difference = model.run(None, {"x": IMAGE})[0].astype(int) - unfused(text, {"x": IMAGE})[0]
    assert np.abs(difference).max() <= (1 if "Pool" in kind else 0)


MOVES = {
    "MaxPool": "MaxPool<kernel_shape = [3, 3], pads = [1, 1, 1, 1], strides = [2, 2]>(f)",
    "Reshape": "Reshape(f, shape)",
    "Transpose": "Transpose<perm = [0, 2, 3, 1]>(f)",
    "Flatten": "Flatten(f)",
}


@pytest.mark.parametrize("name", MOVES)
@pytest.mark.parametrize("same", [True, False])
def test_moves_are_of_bytes_where_these_mean_the_same(name, same):
    values = constants(xs=one(XS), xz=one(119, np.uint8), yz=one(119 if same else 120, np.uint8),
                       shape=np.array([4, -1]))  # fmt: skip
    text = f"""g (uint8[1,4,8,9] x) => (uint8 z) <{values}> {{ f = DequantizeLinear(x, xs, xz) y = {MOVES[name]}
        z = QuantizeLinear(y, xs, yz) }}"""
    model = loaded(text)
    other = ["int8blas.Table", name] if name == "MaxPool" else [name, "int8blas.Table"]
    assert kinds(model) == ([name] if same else other)
    np.testing.assert_array_equal(model.run(None, {"x": IMAGE})[0], unfused(text, {"x": IMAGE})[0])


@pytest.mark.parametrize("bias", ["", "vector", "matrix"])
@pytest.mark.parametrize("turned", [False, True])
def test_a_dynamic_product_is_one_node_with_the_same_bits(bias, turned, isa):
    x = RNG.normal(0, 1, (3, 5, 12)).astype(F)
    value = RNG.normal(0, 1, (5, 6) if bias == "matrix" else 6).astype(F)
    values = constants(b=B, bz=one(178, np.uint8), bs=one(0.004), c=value)
    end = f"z = Add({'c, y' if turned else 'y, c'})" if bias else "z = Identity(y)"
    text = f"""g (float[a,b,12] x) => (float z) <{values}> {{ q, s, zp = DynamicQuantizeLinear(x)
        sums = MatMulInteger(q, b, zp, bz) real = Cast<to = 1>(sums) scale = Mul(s, bs)
        y = Mul({"scale, real" if turned else "real, scale"}) {end} }}"""
    model = loaded(text)
    assert ("Add" in kinds(model)) == (bias == "matrix")
    assert {"Cast", "MatMulInteger"}.isdisjoint(kinds(model))
    np.testing.assert_array_equal(model.run(None, {"x": x})[0], unfused(text, {"x": x})[0])


@pytest.mark.parametrize("bias", ["", "c", "add"])
@pytest.mark.parametrize("scale", [one(0.004), RNG.uniform(0.001, 0.01, 6).astype(F), one(-0.004)], ids=["", "6", "-"])
def test_a_dynamic_product_of_onnxruntime_is_one_node_with_the_same_bits(bias, scale, isa):
    x = RNG.normal(0, 1, (3, 5, 12)).astype(F)
    values = constants(b=B, bz=one(178, np.uint8), bs=scale, c=RNG.normal(0, 1, 6).astype(F))
    text = f"""g (float[a,b,12] x) => (float z) <{values}> {{
        y = com.microsoft.DynamicQuantizeMatMul(x, b, bs, bz{", c" if bias == "c" else ""})
        {"s = Add(y, c) z = Relu(s)" if bias == "add" else "z = Relu(y)"} }}"""
    model = loaded(text, microsoft=True)
    assert (kinds(model) == ["int8blas.DynamicMatMul"]) == bool(scale.min() > 0)
    np.testing.assert_array_equal(model.run(None, {"x": x})[0], unfused(text, {"x": x})[0])
    x[0, 0, :2] = 3e38, -3e38  # the range overflows
    assert np.isnan(model.run(None, {"x": x})[0]).all()


@pytest.mark.parametrize("shape", [(), (1,), (6,), (1, 6)])
@pytest.mark.parametrize("turned", [False, True])
def test_weights_that_are_stored_in_bytes_stay_so(shape, turned, isa):
    x, scale = RNG.normal(0, 1, (3, 5, 12)).astype(F), RNG.uniform(0.001, 0.01, shape).astype(F)
    values = constants(b=B.view(np.int8), s=scale)
    text = f"""g (float[a,b,12] x) => (float z) <{values}> {{ f = Cast<to = 1>(b)
        w = Mul({"s, f" if turned else "f, s"}) z = MatMul(x, w) }}"""
    model = loaded(text)
    assert kinds(model) == ["int8blas.StoredMatMul"]
    wanted = unfused(text, {"x": x})[0]
    np.testing.assert_allclose(model.run(None, {"x": x})[0], wanted, 1e-5, 1e-6)
    layer = InnerProduct.dynamic(B.view(np.int8).T, scales={"weights": scale.reshape(-1) if scale.size > 1 else scale})
    dynamic = int8blas.onnx.load(model_of(text), dynamic=True)
    for each in (dynamic, pickle.loads(pickle.dumps(dynamic))):
        np.testing.assert_array_equal(each.run(None, {"x": x})[0], layer(x))


@pytest.mark.parametrize("bias", ["columns", "one"])
def test_what_follows_stored_weights_is_theirs(bias, isa):
    x = RNG.normal(0, 1, (3, 5, 12)).astype(F)
    vector = RNG.normal(0, 1, 6 if bias == "columns" else 1).astype(F)
    values = constants(b=B.view(np.int8), s=one(0.01), v=vector, r=one(np.sqrt(2)), o=one(1), h=one(0.5))
    text = f"""g (float[a,b,12] x) => (float z) <{values}> {{ f = Cast<to = 1>(b) w = Mul(s, f) p = MatMul(x, w)
        q = Add(v, p) d = Div(q, r) e = Erf(d) i = Add(e, o) j = Mul(q, i) z = Mul(j, h) }}"""
    dynamic = int8blas.onnx.load(model_of(text), dynamic=True)
    assert kinds(loaded(text)) == kinds(dynamic) == ["int8blas.StoredMatMul"]
    np.testing.assert_allclose(loaded(text).run(None, {"x": x})[0], unfused(text, {"x": x})[0], 1e-5, 1e-6)
    y = InnerProduct.dynamic(B.view(np.int8).T, np.broadcast_to(vector, 6), scales={"weights": F(0.01)})(x)
    wanted = int8blas.eltwise(y, int8blas.Eltwise("gelu_erf"))
    np.testing.assert_array_equal(dynamic.run(None, {"x": x})[0], wanted)


@pytest.mark.parametrize("change", ["rows", "uint8", "not constant"])
def test_other_weights_become_real_ones_at_load(change):
    scale = np.full((12, 1) if change == "rows" else 6, 0.01, F)
    values = constants(b=B if change == "uint8" else B.view(np.int8), s=scale)
    text = f"""g (float[a,12] x, float q) => (float z) <{values}> {{ f = Cast<to = 1>(b) w = Mul(f, s)
        v = {"Mul(w, q)" if change == "not constant" else "Identity(w)"} z = MatMul(x, v) }}"""
    feeds = {"x": RNG.normal(0, 1, (3, 12)).astype(F), "q": one(2)}
    model = loaded(text)
    assert "int8blas.StoredMatMul" not in kinds(model)
    assert_as_unfused(model, text, feeds)


GELUS = {
    "half last": "d = Div(x, r) e = Erf(d) f = Add(e, o) g = Mul(x, f) y = Mul(g, h)",
    "half first": "i = Mul(h, x) d = Mul(q, x) e = Erf(d) f = Add(o, e) y = Mul(f, i)",
    "half between": "d = Div(x, r) e = Erf(d) f = Add(e, o) g = Mul(h, f) y = Mul(x, g)",
    "another factor": "d = Div(x, r) e = Erf(d) f = Add(e, o) g = Mul(x, f) y = Mul(g, r)",
    "another x": "d = Div(x, r) e = Erf(d) f = Add(e, o) g = Mul(d, f) y = Mul(g, h)",
    "twice one half": "d = Div(x, r) e = Erf(d) f = Add(e, o) g = Mul(h, f) y = Mul(g, h)",
    "another divisor": "d = Div(x, h) e = Erf(d) f = Add(e, o) g = Mul(x, f) y = Mul(g, h)",
    "half by division": "d = Div(x, r) e = Erf(d) f = Add(e, o) g = Mul(x, f) y = Div(g, two)",
    "half of a cube": "c = Pow(x, three) k = Mul(c, t) a = Add(x, k) d = Mul(s, a) e = Tanh(d) f = Add(o, e) "
                      "i = Mul(h, x) y = Mul(i, f)",
    "half of products": "q2 = Mul(x, x) k = Mul(t, q2) a = Add(o, k) b = Mul(x, s) d = Mul(a, b) e = Tanh(d) "
                        "f = Add(e, o) g = Mul(x, f) y = Mul(g, h)",
    "half of a transposed cube": "u = Transpose<perm = [1, 2, 0]>(x3) c = Pow(u, three) k = Mul(c, t) "
                                 "b = Transpose<perm = [2, 0, 1]>(k) a = Add(x3, b) d = Mul(s, a) e = Tanh(d) "
                                 "f = Add(o, e) i = Mul(h, x3) j = Mul(i, f) y = Reshape(j, all)",
    "another order": "u = Transpose<perm = [1, 2, 0]>(x3) c = Pow(u, three) k = Mul(c, t) "
                     "b = Transpose<perm = [1, 2, 0]>(k) a = Add(x3, b) d = Mul(s, a) e = Tanh(d) "
                     "f = Add(o, e) i = Mul(h, x3) j = Mul(i, f) y = Reshape(j, all)",
    "another power": "c = Pow(x, two) k = Mul(c, t) a = Add(x, k) d = Mul(s, a) e = Tanh(d) f = Add(o, e) "
                     "i = Mul(h, x) y = Mul(i, f)",
    "a sum as x": "u = Add(x, x) d = Div(u, r) e = Erf(d) f = Add(e, o) g = Mul(u, f) v = Mul(g, h) y = Neg(v)",
}  # fmt: skip


@pytest.mark.parametrize("name", GELUS)
def test_gelu_written_out_is_one_node(name):
    values = constants(r=one(np.sqrt(2)), q=one(np.sqrt(0.5)), o=one(1), h=one(0.5), two=one(2), three=one(3),
                       s=one(np.sqrt(2 / np.pi)), t=one(0.044715), cube=np.array([10] * 3),
                       all=np.array([-1]))  # fmt: skip
    text = f"g (float[n] x) => (float[n] y) <{values}> {{ x3 = Reshape(x, cube) {GELUS[name]} }}"
    model, x = loaded(text), RNG.normal(0, 2, 1000).astype(F)
    kind = "FastGelu" if "Tanh" in GELUS[name] else "Gelu"
    assert (f"com.microsoft.{kind}" in kinds(model)) == name.startswith(("half", "a sum"))
    assert len(kinds(model)) == (3 if "x3" in GELUS[name] else 1) or not name.startswith("half")
    np.testing.assert_allclose(model.run(None, {"x": x})[0], unfused(text, {"x": x})[0], 1e-5, 1e-6)


@pytest.mark.parametrize(
    ("equation", "becomes"),
    [
        ("bct,bcs->bts", True), ("bts,bcs->bct", True), ("btgi,gih->btgh", True), ("ij,jk->ki", True),
        (" i j , j k -> i k ", True), ("abi,bij->bja", True),
        ("ij,jk", False), ("ij,kj->j", False), ("ij,ij->i", False), ("ij,jkl->ikl", False), ("j,jk->k", False),
        ("ij,kl->ijkl", False), ("ii,ik->ik", False), ("...ij,jk->...ik", False),
    ],
)  # fmt: skip
def test_an_einsum_of_matrices_is_a_product(equation, becomes):
    sizes = dict(zip("abcdghijklst", itertools.count(2)))
    shapes = [[sizes[x] for x in part if x.isalpha()] for part in equation.partition("->")[0].split(",")]
    a, b = (RNG.normal(0, 1, shape).astype(F) for shape in shapes)
    ports = [f"float[{','.join(map(str, shape))}] {name}" for name, shape in zip("ab", shapes, strict=True)]
    model = loaded(f'g ({", ".join(ports)}) => (float y) {{ y = Einsum<equation = "{equation}">(a, b) }}')
    assert ("Einsum" not in kinds(model)) == becomes
    (y,) = model.run(None, {"a": a, "b": b})
    np.testing.assert_allclose(y, np.einsum(equation.replace(" ", ""), a, b), 1e-5, 1e-5, strict=True)


def test_several_nodes_replace_no_earlier_nodes():
    text = """g (float[4,4] x) => (float y) { r = Selu(x) s = Softplus(r)
        y = Einsum<equation = "ij,kj->ik">(s, s) }"""
    parts = [part for call in loaded(text).explain() if call.operator in ("MatMul", "Transpose") for part in call.nodes]
    assert {"r", "s"}.isdisjoint(parts)


def test_einsums_around_a_softmax_are_attention():
    text = """g (float[2,32,9] q, float[2,32,7] k, float[2,32,7] v) => (float y) {
        s = Einsum<equation = "bct,bcs->bts">(q, k)
        p = Softmax<axis = -1>(s) y = Einsum<equation = "bts,bcs->bct">(p, v) }"""
    feeds = {name: RNG.normal(0, 1, (2, 32, 9 if name == "q" else 7)).astype(F) for name in "qkv"}
    model = loaded(text)
    assert "int8blas.Attention" in kinds(model)
    np.testing.assert_allclose(model.run(None, feeds)[0], unfused(text, feeds)[0], 1e-5, 1e-5)


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
def test_cumulative_sums_add_in_order(axis):
    x = RNG.normal(0, 1, (5, 6, 7)).astype(F)
    (y,) = loaded("g (float[5,6,7] x, int64 a) => (float y) { y = CumSum(x, a) }").run(
        None, {"x": x, "a": np.array(axis)}
    )
    np.testing.assert_array_equal(y, np.add.accumulate(x, axis))


def test_a_bias_of_fast_gelu_is_no_part_of_a_chain():
    text = "g (float[n] x, float[n] b) => (float[n] y) { r = Relu(x) y = com.microsoft.FastGelu(r, b) }"
    feeds = {"x": RNG.normal(0, 2, 100).astype(F), "b": RNG.normal(0, 2, 100).astype(F)}
    (y,) = loaded(text, microsoft=True).run(None, feeds)
    wanted = int8blas.eltwise(np.maximum(feeds["x"], 0) + feeds["b"], int8blas.Eltwise("gelu_tanh"))
    np.testing.assert_array_equal(y, wanted)


@pytest.mark.parametrize("operator", ["ScatterElements(x, i, u)", "GatherElements(x, i)"])
@pytest.mark.parametrize("index", [-4, 3])
def test_indices_of_elements_must_be_inside(operator, index):
    model = loaded(f"g (float[3,2] x, int64[1,2] i, float[1,2] u) => (float y) {{ y = {operator} }}")
    feeds = {"x": np.zeros((3, 2), F), "i": np.array([[0, index]]), "u": np.ones((1, 2), F)}
    with pytest.raises(ValueError, match=f"must be from -3 to 2, got {index}"):
        model.run(None, feeds)


def test_patterns_in_branches_are_rewritten():
    values = constants(xs=one(XS), xz=one(119, np.uint8))
    model = loaded(f"""g (bool c, uint8[1,4,8,9] x) => (uint8 z) <{values}> {{ z = If(c) <
        then_branch = t () => (a) {{ f = DequantizeLinear(x, xs, xz) y = Flatten(f) a = QuantizeLinear(y, xs, xz) }},
        else_branch = e () => (b) {{ b = Flatten(x) }}> }}""")
    for condition in (True, False):
        (z,) = model.run(None, {"c": np.array(condition), "x": IMAGE})
        np.testing.assert_array_equal(z, IMAGE.reshape(1, -1))


def test_loading_leaves_the_callers_model_alone():
    proto = model_of(conv_text())
    before = proto.SerializeToString()
    int8blas.onnx.load(proto)
    assert proto.SerializeToString() == before


@pytest.mark.parametrize("bias", ["", "1,6,1,1", "6,1,1", "1,6,8,1"])
@pytest.mark.parametrize("relu", [True, False])
@pytest.mark.parametrize("turned", [True, False])
def test_a_dynamic_convolution_is_one_node_with_the_same_bits(bias, relu, turned, isa):
    x = RNG.normal(0, 1, (1, 4, 8, 9)).astype(F)
    shape = [int(size) for size in (bias or "1,6,1,1").split(",")]
    values = constants(w=(W.astype(np.int16) + 128).clip(0, 255).astype(np.uint8), wz=one(131, np.uint8),
                       ws=one(0.004), c=RNG.normal(0, 1, np.prod(shape)).astype(F), shape=np.array(shape))  # fmt: skip
    add = f"cr = Reshape(c, shape) m = Add({'cr, y' if turned else 'y, cr'})" if bias else "m = Identity(y)"
    end = "z = Relu(m)" if relu else "z = Neg(m)"
    text = f"""g (float[1,4,8,9] x) => (float z) <{values}> {{ q, s, zp = DynamicQuantizeLinear(x)
        sums = ConvInteger<pads = [1, 1, 1, 1]>(q, w, zp, wz) real = Cast<to = 1>(sums) scale = Mul(s, ws)
        y = Mul({"scale, real" if turned else "real, scale"}) {add} {end} }}"""
    model = loaded(text)
    found = kinds(model)
    assert "int8blas.DynamicConv" in found
    assert {"Cast", "ConvInteger", "DynamicQuantizeLinear"}.isdisjoint(found)
    assert ("Add" in found) == (bias == "1,6,8,1")
    assert ("Relu" in found) == (relu and bias == "1,6,8,1")
    for feed in (x, np.zeros_like(x), x.transpose(0, 1, 3, 2).copy().transpose(0, 1, 3, 2)):
        np.testing.assert_array_equal(model.run(None, {"x": feed})[0], unfused(text, {"x": feed})[0])


def test_a_dynamic_convolution_with_a_scale_for_each_channel():
    values = constants(w=W, ws=WS.reshape(1, 6, 1, 1), c=np.ones((1, 6, 1, 1), F))
    text = f"""g (float[1,4,8,9] x) => (float z) <{values}> {{ q, s, zp = DynamicQuantizeLinear(x)
        sums = ConvInteger(q, w, zp) real = Cast<to = 1>(sums) scale = Mul(s, ws) y = Mul(real, scale) m = Add(y, c)
        z = Relu(m) }}"""
    model = loaded(text)
    assert kinds(model) == ["int8blas.DynamicConv"]
    x = RNG.normal(0, 1, (1, 4, 8, 9)).astype(F)
    np.testing.assert_array_equal(model.run(None, {"x": x})[0], unfused(text, {"x": x})[0])


def test_a_source_that_others_need_is_quantized_once():
    values = constants(w=W, ws=one(0.004))
    text = f"""g (float[1,4,8,9] x) => (float y, uint8 q) <{values}> {{ q, s, zp = DynamicQuantizeLinear(x)
        sums = ConvInteger(q, w, zp) real = Cast<to = 1>(sums) scale = Mul(s, ws) y = Mul(real, scale) }}"""
    model = loaded(text)
    assert kinds(model) == ["DynamicQuantizeLinear", "Mul", "int8blas.ConvIntegerToFloat"]
    x = RNG.normal(0, 1, (1, 4, 8, 9)).astype(F)
    for result, wanted in zip(model.run(None, {"x": x}), unfused(text, {"x": x}), strict=True):
        np.testing.assert_array_equal(result, wanted)


@pytest.mark.parametrize("dynamic", [True, False])
def test_a_source_that_is_not_finite_gives_nan(dynamic):
    values = constants(w=W if dynamic else B.astype(np.int8), ws=one(0.004))
    kind, shape = ("ConvInteger", (1, 4, 8, 9)) if dynamic else ("MatMulInteger", (2, 12))
    text = f"""g (float[{",".join(map(str, shape))}] x) => (float z) <{values}> {{ q, s, zp = DynamicQuantizeLinear(x)
        sums = {kind}(q, w, zp) real = Cast<to = 1>(sums) scale = Mul(s, ws) y = Mul(real, scale) z = Relu(y) }}"""
    x = RNG.normal(0, 1, shape).astype(F)
    x.flat[3] = np.inf
    (z,) = loaded(text).run(None, {"x": x})
    assert np.isnan(z).all()


@pytest.mark.parametrize("negative", [True, False])
@pytest.mark.parametrize("bias", [True, False])
def test_a_normalization_is_part_of_the_convolution_before_it(negative, bias, isa):
    x = RNG.normal(0, 1, (2, 4, 8, 9)).astype(F)
    factors = RNG.uniform(-1 if negative else 0.5, 2, 6).astype(F)
    values = constants(w=W, ws=one(0.004), c=RNG.normal(0, 1, (1, 6, 1, 1)).astype(F), g=factors,
                       h=RNG.normal(0, 1, 6).astype(F), m=RNG.normal(0, 1, 6).astype(F),
                       v=RNG.uniform(0.1, 2, 6).astype(F))  # fmt: skip
    add = "b = Add(y, c)" if bias else "b = Neg(y)"
    text = f"""g (float[2,4,8,9] x) => (float z) <{values}> {{
        q, s, zp = DynamicQuantizeLinear(x) sums = ConvInteger(q, w, zp) real = Cast<to = 1>(sums) scale = Mul(s, ws)
        y = Mul(real, scale) {add} n = BatchNormalization(b, g, h, m, v) z = Relu(n) }}"""
    model = loaded(text)
    assert kinds(model) == ["int8blas.DynamicConv", *([] if bias else ["Neg", "BatchNormalization", "Relu"])]
    np.testing.assert_allclose(model.run(None, {"x": x})[0], unfused(text, {"x": x})[0], 2e-6, 2e-5)


@pytest.mark.parametrize("bias", [True, False])
def test_a_normalization_is_part_of_a_convolution_of_floats(bias):
    x = RNG.normal(0, 1, (2, 4, 8, 9)).astype(F)
    values = constants(w=W.astype(F), c=RNG.normal(0, 1, 6).astype(F), g=RNG.uniform(-1, 2, 6).astype(F),
                       h=RNG.normal(0, 1, 6).astype(F), m=RNG.normal(0, 1, 6).astype(F),
                       v=RNG.uniform(0.1, 2, 6).astype(F))  # fmt: skip
    text = f"""g (float[2,4,8,9] x) => (float z) <{values}> {{ y = Conv(x, w{", c" if bias else ""})
        z = BatchNormalization(y, g, h, m, v) }}"""
    model = loaded(text)
    assert kinds(model) == ["Conv"]
    np.testing.assert_allclose(model.run(None, {"x": x})[0], unfused(text, {"x": x})[0], 1e-5, 1e-3)


FUNCTIONS = {
    "Relu": "b = Relu(a)", "LeakyRelu": "b = LeakyRelu<alpha = 0.2>(a)", "Sigmoid": "b = Sigmoid(a)",
    "Tanh": "b = Tanh(a)", "Elu": "b = Elu<alpha = 0.5>(a)", "HardSwish": "b = HardSwish(a)", "Abs": "b = Abs(a)",
    "HardSigmoid": "b = HardSigmoid<alpha = 0.3>(a)", "Clip": "b = Clip(a, low, high)", "Add": "b = Add(low, a)",
    "Sub": "b = Sub(a, high)", "Mul": "b = Mul(a, high)", "Div": "b = Div(a, high)", "Max": "b = Max(low, a)",
    "Min": "b = Min(a, high)", "Identity": "b = Identity(a)",
}  # fmt: skip
GATES = {
    "Add, Clip, Div": "p = Add(a, three) c = Clip(p, zero, six) m = Mul(a, c) b = Div(m, six)",
    "Add, Clip, Mul": "p = Add(three, a) c = Clip(p, zero, six) m = Mul(c, a) b = Mul(m, sixth)",
    "HardSigmoid": "s = HardSigmoid<alpha = 0.1666666716337204>(a) b = Mul(s, a)",
    "Sigmoid": "s = Sigmoid(a) b = Mul(a, s)",
}
NUMBERS = {"low": one(-0.4), "high": one(0.7), "zero": one(0), "three": one(3), "six": one(6), "sixth": one(F(1 / 6))}


@pytest.mark.parametrize("name", [*FUNCTIONS, *GATES])
@pytest.mark.parametrize("last", [True, False])
def test_functions_of_floats_are_one_chain(name, last, isa):
    """A chain keeps the bits of its nodes, except where several nodes spell out one function."""
    x = np.concatenate([RNG.normal(0, 3, 500), [0, -3, 3, 6]]).astype(F).reshape(2, 12, 21)
    body = FUNCTIONS.get(name) or GATES[name]
    body = body if last else body.replace("b =", "c1 =") + " b = Max(c1, low)"
    text = f"g (float[2,12,21] x) => (float b) <{constants(**NUMBERS)}> {{ a = Add(x, high) {body} }}"
    model = loaded(text)
    assert kinds(model) == ["int8blas.Chain"]
    (result,), (wanted,) = model.run(None, {"x": x}), unfused(text, {"x": x})
    if name in GATES or name == "HardSwish":
        np.testing.assert_allclose(result, wanted, 1e-6, 1e-6)
    else:
        np.testing.assert_array_equal(result, wanted)


@pytest.mark.parametrize("name", GATES)
def test_a_gate_begins_a_chain_behind_any_node(name, isa):
    x = RNG.normal(0, 3, (12, 12)).astype(F)
    body = f"a = MatMul(x, x) {GATES[name]} y = Abs(b) z = Neg(a)"
    text = f"g (float[12,12] x) => (float y, float z) <{constants(**NUMBERS)}> {{ {body} }}"
    model = loaded(text)
    assert sorted(kinds(model)) == ["MatMul", "Neg", "int8blas.Chain"]
    for result, wanted in zip(model.run(None, {"x": x}), unfused(text, {"x": x}), strict=True):
        np.testing.assert_allclose(result, wanted, 1e-6, 1e-6)


def test_a_function_of_two_tensors_begins_a_chain(isa):
    x, y = (RNG.normal(0, 1, shape).astype(F) for shape in ((2, 1, 4, 5), (3, 1, 5)))
    text = "g (float[2,1,4,5] x, float[3,1,5] y) => (float b) { a = Add(x, y) b = Tanh(a) }"
    model = loaded(text)
    assert kinds(model) == ["int8blas.ChainOfTwo"]
    np.testing.assert_array_equal(model.run(None, {"x": x, "y": y})[0], unfused(text, {"x": x, "y": y})[0])


@pytest.mark.parametrize("text", [
    "g (float[4] x) => (float b, float a) { a = Abs(x) b = Tanh(a) }",
    "g (float[4] x) => (float b, float c) { a = Abs(x) b = Tanh(a) c = Neg(a) }",
    "g (double[4] x) => (double b) { a = Abs(x) b = Relu(a) }",
    "g (float[4] x) => (float b) <float[4] c = {1, 2, 3, 4}> { a = Add(x, c) b = Neg(a) }",
    "g (float[4] x) => (float b) <float c = {3}, float d = {0}, float e = {5}> "
    "{ a = Neg(x) p = Add(a, c) q = Clip(p, d, e) b = Mul(a, q) }",
])  # fmt: skip
def test_what_is_no_chain_stays(text):
    model = loaded(text)
    assert not any(kind.startswith("int8blas.ChainOf") for kind in kinds(model))
    dtype = np.float64 if "double" in text else F
    x = np.array([-2, -0.5, 0.5, 7], dtype)
    for result, wanted in zip(model.run(None, {"x": x}), unfused(text, {"x": x}), strict=True):
        np.testing.assert_array_equal(result, wanted)


def test_what_lies_between_bytes_is_no_chain_but_a_table():
    x = np.arange(256, dtype=np.uint8)
    text = """g (uint8[256] x) => (uint8 y) <float s = {0.05}, uint8 z = {100}, float h = {0.7}> {
        r = DequantizeLinear(x, s, z) a = Add(r, h) b = Tanh(a) y = QuantizeLinear(b, s, z) }"""
    model = loaded(text)
    assert kinds(model) == ["int8blas.Table"]
    np.testing.assert_array_equal(model.run(None, {"x": x})[0], unfused(text, {"x": x})[0])


VIEWS = {
    "heads": "a = Reshape(x, five) b = Transpose<perm = [2, 0, 3, 1, 4]>(a) c = Gather(b, two) "
             "d = Squeeze(c, last) e = Transpose<perm = [0, 2, 1]>(d)",
    "backwards": "a = Slice(x, end, before, last, back) e = Unsqueeze(a, zero)",
    "broadcast": "a = Unsqueeze(x, zero) b = Expand(a, wide) e = Flatten<axis = 2>(b)",
    "a copy": "a = Transpose(x) e = Reshape(a, flat)",
    "gaps": "a = Gather<axis = 1>(x, two) e = Unsqueeze(a, zero)",
    "no elements": "a = Slice(x, end, end) e = Unsqueeze(a, zero)",
}  # fmt: skip
I8 = np.int64
PLACES = {
    "five": np.array([1, 4, 3, 1, 6], I8), "two": np.array(2, I8), "last": np.array([1], I8), "end": np.array([9], I8),
    "before": np.array([-99], I8), "back": np.array([-2], I8), "zero": np.array([0], I8), "flat": np.array([-1], I8),
    "wide": np.array([3, 4, 18], I8),
}  # fmt: skip
VIEW_TYPES = ("float", F), ("uint8", np.uint8), ("bool", np.bool_)


@pytest.mark.parametrize("kind", VIEW_TYPES, ids=lambda kind: kind[0])
@pytest.mark.parametrize("name", VIEWS)
def test_what_moves_no_element_is_one_view(name, kind):
    """The view is right in each run, for an array with gaps, and for other elements."""
    text = f"g ({kind[0]}[4,18] x) => ({kind[0]}[k] y) <{constants(**PLACES)}> {{ {VIEWS[name]} y = Tile(e, ones) }}"
    rank = {"a copy": 1, "broadcast": 2, "gaps": 2}.get(name, 3)
    text = text.replace("<int64[5]", f"<int64[{rank}] ones = {numbers(np.ones(rank, I8))}, int64[5]")
    model = loaded(text)
    assert kinds(model) == ["int8blas.View", "Tile"]
    for x in (RNG.integers(0, 2, (4, 18)).astype(kind[1]), RNG.integers(0, 2, (4, 36)).astype(kind[1])[:, ::2]):
        for _ in range(3):
            np.testing.assert_array_equal(model.run(None, {"x": x})[0], unfused(text, {"x": x})[0])


@pytest.mark.parametrize("alone", [True, False])
def test_bytes_are_moved_before_they_are_dequantized(alone):
    """This holds if nodes only move the dequantized tensor, quantize it again, or ask for its shape."""
    values = constants(**PLACES, xs=one(XS), xz=one(119, np.uint8), ys=one(0.02), yz=one(3, np.uint8))
    taker = "w = QuantizeLinear(f, ys, yz)" if alone else "w = Neg(f)"
    text = f"""g (uint8[4,18] x) => (float y, uint8 z, {"uint8" if alone else "float"} w, int64[5] n) <{values}> {{
        f = DequantizeLinear(x, xs, xz) a = Reshape(f, five) b = Transpose<perm = [2, 0, 3, 1, 4]>(a)
        c = Gather(b, two) y = Neg(c) z = QuantizeLinear(b, ys, yz) {taker} n = Shape(b) }}"""
    model = loaded(text)
    moved = ["int8blas.View", "DequantizeLinear", "Neg", "int8blas.View", "int8blas.Table", "int8blas.Table", "Shape"]
    stays = ["DequantizeLinear", "int8blas.View", "int8blas.View", "Neg", "QuantizeLinear", "Neg", "Shape"]
    assert sorted(kinds(model)) == sorted(moved if alone else stays)
    x = RNG.integers(0, 256, (4, 18), np.uint8)
    for got, wanted in zip(model.run(None, {"x": x}), unfused(text, {"x": x}), strict=True):
        np.testing.assert_array_equal(got, wanted)


def test_views_of_shapes_and_threads_that_take_turns():
    text = "g (float[n, m] x, int64[k] s) => (float y) { a = Transpose(x) b = Reshape(a, s) y = Neg(b) }"
    model = loaded(text)
    assert kinds(model) == ["int8blas.View", "Neg"]
    feeds = [{"x": RNG.normal(0, 1, (n, m)).astype(F), "s": np.array(s, I8)}
             for n, m, s in ((1, 12, (3, 4)), (1, 12, (4, 3)), (2, 6, (3, 4)), (1, 6, (2, 3)))]  # fmt: skip
    wanted = [unfused(text, each)[0] for each in feeds]
    with ThreadPoolExecutor(4) as pool:
        for i, (y,) in enumerate(pool.map(lambda i: model.run(None, feeds[i % 4]), range(200))):
            np.testing.assert_array_equal(y, wanted[i % 4])


def test_views_share_a_copy():
    """A Reshape that must copy runs once, if several views take its result."""
    views = " ".join(f"i{k} = Constant<value_int = {k}>() v{k} = Gather(b, i{k}) y{k} = Neg(v{k})" for k in range(3))
    ports = "(float[4,6,5] x, int64[2] s) => (float y0, float y1, float y2)"
    text = f"g {ports} {{ a = Transpose(x) b = Reshape(a, s) {views} }}"
    model = loaded(text)
    assert kinds(model) == ["int8blas.View", *("Gather", "Neg") * 3]
    feeds = {"x": RNG.normal(size=(4, 6, 5)).astype(F), "s": np.array([3, 40], I8)}
    for result, wanted in zip(model.run(None, feeds), unfused(text, feeds), strict=True):
        np.testing.assert_array_equal(result, wanted)


@pytest.mark.parametrize("text", [
    "g (float[4,6] x) => (float[n] a, float[m] y) { a = Transpose(x) y = Transpose(a) }",
    "g (float[4,6] x, int64 i) => (float y) { a = Transpose(x) b = Gather(a, i) y = Neg(b) }",
    "g (float[4,6] x) => (float y) { a = Transpose(x) y = Neg(a) }",
])  # fmt: skip
def test_what_is_no_view_stays(text):
    model = loaded(text)
    assert "int8blas.View" not in kinds(model)
    feeds = {"x": np.arange(24, dtype=F).reshape(4, 6), "i": np.array(3, I8)}
    feeds = {value.name: feeds[value.name] for value in model.inputs}
    for result, wanted in zip(model.run(None, feeds), unfused(text, feeds), strict=True):
        np.testing.assert_array_equal(result, wanted)


SCORES = {
    "products": "s = MatMul(q, k)",
    "a mask": "p = MatMul(q, k) s = Add(p, mask)",
    "a mask before": "p = MatMul(q, k) s = Add(mask, p)",
    "numbers": "a = Mul(q, half) b = Mul(half, k) p = MatMul(a, b) s = Add(p, mask)",
    "a number behind": "p = MatMul(q, k) m = Div(p, eight) s = Add(m, mask)",
}
ATTENTION = constants(half=np.array([0.6], F), eight=one(8), three=one(3))


RESIDUAL = constants(
    scale=RNG.normal(0, 1, 20).astype(F), bias=RNG.normal(0, 1, 20).astype(F), row=RNG.normal(0, 1, 20).astype(F)
)


MEAN = "<axes = [-1]>"
# A normalization written out: the mean, the squared distances from it, and the result.
WRITTEN = {
    "Pow": f"m = ReduceMean{MEAN}(x) c = Sub(x, m) q = Pow(c, two) v = ReduceMean{MEAN}(q)",
    "Mul": f"m = ReduceMean{MEAN}(x) c = Sub(x, m) q = Mul(c, c) v = ReduceMean{MEAN}(q)",
    "twice": f"m = ReduceMean{MEAN}(x) c = Sub(x, m) d = Sub(x, m) q = Pow(d, two) v = ReduceMean{MEAN}(q)",
}
ROOT = "e = Add(v, small) r = Sqrt(e) n = Div(c, r)"


@pytest.mark.parametrize("last", ["s = Mul(n, scale) y = Add(bias, s)", "s = Mul(scale, n) y = Add(s, x)"])
@pytest.mark.parametrize("name", WRITTEN)
def test_a_normalization_written_out_is_one_node(name, last, isa):
    numbers_of = f"{RESIDUAL}, {constants(two=one(2), small=one(1e-5))}"
    text = f"g (float[3,4,20] x) => (float y) <{numbers_of}> {{ {WRITTEN[name]} {ROOT} {last} }}"
    model = loaded(text, opset=17)
    assert kinds(model) == ["LayerNormalization", "Add"][: 1 + ("x)" in last)]
    feeds = {"x": RNG.normal(0, 1, (3, 4, 20)).astype(F)}
    np.testing.assert_allclose(model.run(None, feeds)[0], unfused(text, feeds, opset=17)[0], 1e-5, 1e-5)


@pytest.mark.parametrize("axes", [np.array(-1), np.array([-1])], ids=str)
def test_a_normalization_may_have_its_axis_as_input(axes):
    body = WRITTEN["Pow"].replace(MEAN, "").replace("(x)", "(x, axes)").replace("(q)", "(q, axes)")
    values = f"{RESIDUAL}, {constants(two=one(2), small=one(1e-5), axes=axes)}"
    model = loaded(f"g (float[3,4,20] x) => (float y) <{values}> {{ {body} {ROOT} y = Mul(n, scale) }}")
    assert kinds(model) == ["LayerNormalization"]


@pytest.mark.parametrize("body", [
    f"{WRITTEN['Pow'].replace('[-1]', '[1]')} {ROOT} y = Mul(n, scale)",
    f"{WRITTEN['Pow'].replace('two', 'small')} {ROOT} y = Mul(n, scale)",
    f"{WRITTEN['Pow'].replace('Sub(x, m)', 'Sub(m, x)')} {ROOT} y = Mul(n, scale)",
    f"{WRITTEN['Pow']} {ROOT} y = Mul(n, x)",
])  # fmt: skip
def test_what_is_no_normalization_stays(body):
    numbers_of = f"{RESIDUAL}, {constants(two=one(2), small=one(1e-5))}"
    text = f"g (float[3,4,20] x) => (float y) <{numbers_of}> {{ {body} }}"
    assert "LayerNormalization" not in kinds(loaded(text, opset=17))


@pytest.mark.parametrize("epsilon", [-0.1, np.inf, np.nan])
def test_a_normalization_needs_an_epsilon(epsilon):
    text = f"g (float[3,4,20] x) => (float y) <{RESIDUAL}, {constants(two=one(2))}>"
    model = loaded(
        f"{text} {{ {WRITTEN['Pow']} {ROOT} y = Mul(n, scale) }}", opset=17, constants={"small": one(epsilon)}
    )
    assert "LayerNormalization" not in kinds(model)


@pytest.mark.parametrize(("kind", "dtype"), [("float", F), ("double", np.float64), ("float16", np.float16)])
@pytest.mark.parametrize("shape", [(3, 4, 20), (4, 20), (3, 4, 1)])
@pytest.mark.parametrize("inputs", ["scale, bias", "scale"])
def test_a_sum_and_its_normalization_are_one_node(kind, dtype, shape, inputs, isa):
    shapes = {"x": (3, 4, 20), "r": shape, "scale": (20,), "bias": (20,)}
    given = ", ".join(f"{kind}{list(size)} {name}" for name, size in shapes.items())
    text = f"""g ({given}) => ({kind} y) {{
        s = Add(x, r) y = LayerNormalization<epsilon = 0.001>(s, {inputs}) }}"""
    model = loaded(text)
    assert kinds(model) == ["int8blas.ResidualNormalization"]
    feeds = {name: RNG.normal(0, 1, size).astype(dtype) for name, size in shapes.items()}
    assert_as_unfused(model, text, feeds)


@pytest.mark.parametrize("body", [
    "s = Add(x, r) n = LayerNormalization(s, scale, bias) y = Mul(n, s)",
    "s = Add(x, row) y = LayerNormalization(s, scale, bias)",
    "s = Add(x, r) y = LayerNormalization<axis = 2>(s, scale, bias)",
    "s = Add(x, r) n, m = LayerNormalization(s, scale, bias) y = Mul(n, m)",
    "s = Mul(x, r) y = LayerNormalization(s, scale, bias)",
])  # fmt: skip
def test_what_is_no_normalization_of_a_sum_stays(body):
    text = f"g (float[3,4,20] x, float[3,4,20] r) => (float y) <{RESIDUAL}> {{ {body} }}"
    model = loaded(text)
    assert "int8blas.ResidualNormalization" not in kinds(model)
    feeds = {name: RNG.normal(0, 1, (3, 4, 20)).astype(F) for name in "xr"}
    assert_as_unfused(model, text, feeds)


def attention_text(body, kind="float", shape="2,3"):
    return f"""g ({kind}[{shape},5,4] q, {kind}[{shape},4,20] k, {kind}[{shape},20,6] v, {kind}[2,1,1,20] mask)
        => ({kind} y) <{ATTENTION}> {{ {body} w = Softmax<axis = -1>(s) y = MatMul(w, v) }}"""


def attention_feeds(dtype=F, stack=(2, 3)):
    shapes = {"q": (*stack, 5, 4), "k": (*stack, 4, 20), "v": (*stack, 20, 6), "mask": (2, 1, 1, 20)}
    return {name: RNG.normal(0, 1, shape).astype(dtype) for name, shape in shapes.items()}


@pytest.mark.parametrize("name", SCORES)
def test_attention_is_one_node_with_the_same_bits(name, isa):
    text, feeds = attention_text(SCORES[name]), attention_feeds()
    model = loaded(text)
    assert kinds(model) == ["int8blas.Attention"]
    assert_as_unfused(model, text, feeds)
    feeds["mask"][1, ..., 3] = -np.inf
    assert_as_unfused(model, text, feeds)


@pytest.mark.parametrize(("kind", "shape", "stack"), [
    ("double", "2,3", (2, 3)), ("float16", "2,3", (2, 3)), ("float", "1,3", (1, 3)), ("float", "3", (3,)),
])  # fmt: skip
def test_attention_of_other_types_and_shapes_is_computed_step_by_step(kind, shape, stack):
    text = attention_text(SCORES["a mask"], kind, shape)
    feeds = attention_feeds({"double": np.float64, "float16": np.float16, "float": F}[kind], stack)
    model = loaded(text)
    assert kinds(model) == ["int8blas.Attention"]
    assert_as_unfused(model, text, feeds)


@pytest.mark.parametrize("body", [
    "p = MatMul(q, k) s = Sub(p, mask)",
    "p = MatMul(q, k) m = Div(p, three) s = Add(m, mask)",
    "p = MatMul(q, k) t = Tanh(p) s = Add(t, p)",
    "s = Add(mask, mask)",
])  # fmt: skip
def test_what_is_no_attention_stays(body):
    text, feeds = attention_text(body), attention_feeds()
    model = loaded(text)
    assert "int8blas.Attention" not in kinds(model)
    assert_as_unfused(model, text, feeds)


def test_a_subgraph_uses_the_constants_around_it():
    """A constant node in a branch that never runs may be invalid."""
    text = """g (int64 n, bool c, float[1,2] x) => (y, z) <float h = {0.5}, float l = {1}, float[2,2] w = {1, 2, 3, 4},
        int64[1] wrong = {7}> { y = Loop(n, , x) <body = b (int64 i, bool d, float[1,2] s) => (d, p) {
            t = Transpose(w) m = MatMul(s, t) a = Mul(m, h) f = Add(a, h) p = Min(f, l) }>
        z = If(c) <then_branch = t () => (u) { u = Squeeze(l, wrong) }, else_branch = e () => (v) { v = Neg(h) }> }"""
    model, x = loaded(text), np.array([[0.25, -1]], F)
    found = [call.operator for call in model.explain()]
    assert [each for each in found if each != "Identity"] == ["Loop", "MatMul", "int8blas.Chain", "If", "Squeeze"]
    y, z = model.run(None, {"n": np.array(2), "c": np.array(False), "x": x})
    for _ in range(2):
        x = np.minimum(x @ F([[1, 3], [2, 4]]) * F(0.5) + F(0.5), 1)
    np.testing.assert_array_equal(y, x)
    assert z == F(-0.5)
    with pytest.raises(ValueError, match="axis 7 is out of bounds"):
        model.run(None, {"n": np.array(0), "c": np.array(True), "x": x})
