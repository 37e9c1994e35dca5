"""The counter finds sums of two products that overflow 16 bits, in all nodes that multiply uint8 and int8, fused or
not."""

import itertools
from types import SimpleNamespace

import numpy as np
import pytest
from onnx import numpy_helper
from onnx_models import model_of

import int8blas.onnx
from int8blas.onnx import command, microsoft
from int8blas.onnx.operators import TABLE

F = np.float32
RNG = np.random.default_rng(13)


def octets(shape, dtype=np.uint8):
    """Return bytes that are mostly limits of the type, so that many sums overflow."""
    limits = np.iinfo(dtype)
    ends = np.array([limits.min, limits.max, limits.max], dtype)
    return np.where(RNG.integers(0, 4, shape) > 0, ends[RNG.integers(0, 3, shape)], 1).astype(dtype)


def count(a, b):
    """Count the overflowing sums of a product of matrices."""
    products = a.astype(int)[:, :, None] * b.astype(int)
    sums = np.add.reduceat(products, np.arange(0, products.shape[1], 2), axis=1)
    return int(((sums > 32767) | (sums < -32768)).sum())


def model_with(text, constants):
    model = model_of(text, microsoft=True)
    model.graph.initializer.extend(numpy_helper.from_array(np.asarray(v), name) for name, v in constants.items())
    return int8blas.onnx.load(model)


def kinds(model):
    return [call.operator for call in model.explain()]


A, B = octets((3, 7)), octets((7, 4), np.int8)
REAL = A.astype(F)
REAL[0, :2] = 0, 255  # bytes of a scale of 1 and a zero point of 0
NUMBERS = {
    "w": B,
    "wt": B.T.copy(),
    "s": F(0.01),
    "c": np.ones(4, F),
    "z8": np.int8(0),
    "zu": np.uint8(0),
    "ys": F(900),
}
DYNAMIC = "q, t, z = DynamicQuantizeLinear(x)"
SCALED = "f = Cast<to = 1>(i) u = Mul(t, s) p = Mul(f, u) y = Add(p, c)"
QUANTIZED = "xf = DequantizeLinear(x, s, zu) wf = DequantizeLinear(w, s, z8)"
# The graph, its input's type, the product's name, and the plan's operator.
PRODUCTS = {
    "alone": ("i = MatMulInteger(x, w) y = Identity(i)", "uint8", "i", "MatMulInteger"),
    "named": ("[name] i = MatMulInteger(x, w) y = Identity(i)", "uint8", "name", "MatMulInteger"),
    "dynamic": (f"{DYNAMIC} i = MatMulInteger(q, w, z) {SCALED}", "float", "i", "int8blas.DynamicMatMul"),
    "dynamic, named": (f"{DYNAMIC} [name] i = MatMulInteger(q, w, z) {SCALED}", "float", "name",
                       "int8blas.DynamicMatMul"),
    "to float": (f"{DYNAMIC} v = Identity(q) i = MatMulInteger(q, w, z) {SCALED}", "float", "i",
                 "com.microsoft.MatMulIntegerToFloat"),
    "rounded": ("i = QLinearMatMul(x, s, zu, w, s, z8, ys, zu) y = Identity(i)", "uint8", "i", "QLinearMatMul"),
    "quantized": (f"{QUANTIZED} i = MatMul(xf, wf) y = QuantizeLinear(i, s, zu)", "uint8", "i", "QLinearMatMul"),
    "quantized, with Relu": (f"{QUANTIZED} i = MatMul(xf, wf) r = Relu(i) y = QuantizeLinear(r, s, zu)", "uint8", "i",
                             "QLinearMatMul"),
    "Gemm": ("xf = DequantizeLinear(x, s, zu) wf = DequantizeLinear(wt, s, z8) i = Gemm<transB = 1>(xf, wf) "
             "y = QuantizeLinear(i, s, zu)", "uint8", "i", "com.microsoft.QGemm"),
    "real": (f"{QUANTIZED} i = MatMul(xf, wf) y = Add(i, c)", "uint8", "i", "int8blas.QuantizedMatMul"),
    "of Microsoft": ("i = com.microsoft.DynamicQuantizeMatMul(x, w, s) y = Identity(i)", "float", "i",
                     "int8blas.DynamicMatMul"),
    "of Microsoft, variable scale": (f"{DYNAMIC} i = com.microsoft.DynamicQuantizeMatMul(x, w, t) y = Identity(i)",
                                     "float", "i", "com.microsoft.DynamicQuantizeMatMul"),
}  # fmt: skip


@pytest.mark.parametrize("name", PRODUCTS)
def test_products_count_by_the_name_of_their_node(name):
    body, kind, node, operator = PRODUCTS[name]
    model = model_with(f"g ({kind}[3,7] x) => ({'y, v' if ' v = ' in body else 'y'}) {{ {body} }}", NUMBERS)
    assert operator in kinds(model)
    x = REAL if kind == "float" else A
    found = model.saturations({"x": x})
    assert found == {node: count(x.astype(np.uint8), B)}
    assert found[node] > 0
    assert not found.not_counted


@pytest.mark.parametrize("shapes", [((7,), (7, 4)), ((2, 3, 7), (7, 4)), ((3, 7), (2, 7, 4)), ((2, 1, 3, 7), (5, 7, 4)),
                                    ((3, 7), (7,)), ((0, 7), (7, 4)), ((3, 0), (0, 4))], ids=str)  # fmt: skip
def test_stacks_of_products_count_together(shapes):
    a, b = octets(shapes[0]), octets(shapes[1], np.int8)
    model = model_with(f"g (uint8{[*a.shape]} a, int8{[*b.shape]} b) => (y) {{ y = MatMulInteger(a, b) }}", {})
    left, right = a[None] if a.ndim == 1 else a, b[:, None] if b.ndim == 1 else b
    lead = np.broadcast_shapes(left.shape[:-2], right.shape[:-2])
    left, right = (np.broadcast_to(x, (*lead, *x.shape[-2:])) for x in (left, right))
    wanted = sum(count(left[i], right[i]) for i in np.ndindex(lead)) if a.size and b.size else 0
    assert model.saturations({"a": a, "b": b}) == {"y": wanted}


IMAGE = octets((2, 4, 5, 6))
REAL_IMAGE = IMAGE.astype(F)
REAL_IMAGE.flat[:2] = 0, 255
FILTERS = octets((6, 2, 2, 3), np.int8)
LAYOUT = "<group = 2, pads = [1, 0, 0, 2], strides = [2, 1], dilations = [1, 2]>"
CONVOLUTIONS = {
    "alone": (f"i = ConvInteger{LAYOUT}(x, w, p7)", "uint8", 7, "ConvInteger"),
    "dynamic": (f"{DYNAMIC} i = ConvInteger{LAYOUT}(q, w, z) {SCALED}", "float", 0, "int8blas.DynamicConv"),
    "to float": (f"{DYNAMIC} v = Identity(q) i = ConvInteger{LAYOUT}(q, w, z) {SCALED}", "float", 0,
                 "int8blas.ConvIntegerToFloat"),
    "quantized": (f"xf = DequantizeLinear(x, s, p7) wf = DequantizeLinear(w, s, z8) i = Conv{LAYOUT}(xf, wf) "
                  "y = QuantizeLinear(i, s, zu)", "uint8", 7, "QLinearConv"),
    "real": (f"xf = DequantizeLinear(x, s, p7) wf = DequantizeLinear(w, s, z8) i = Conv{LAYOUT}(xf, wf) y = Tanh(i)",
             "uint8", 7, "int8blas.QuantizedConv"),
}  # fmt: skip


OUTPUTS = {"alone": "i", "to float": "y, v"}


def windows(image, value):
    """Return the windows of each group, with the channels of LAYOUT last."""
    padded = np.pad(image, [(0, 0), (0, 0), (1, 0), (0, 2)], constant_values=value)
    views = np.lib.stride_tricks.sliding_window_view(padded, (2, 5), (2, 3))[:, :, ::2, :, :, ::2]
    return [views[:, g : g + 2].transpose(0, 2, 3, 4, 5, 1).reshape(-1, 12) for g in (0, 2)]


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolutions_count_their_windows(name):
    body, kind, zero, operator = CONVOLUTIONS[name]
    constants = {**NUMBERS, "w": FILTERS, "p7": np.uint8(7), "c": F(1)}
    model = model_with(f"g ({kind}[2,4,5,6] x) => ({OUTPUTS.get(name, 'y')}) {{ {body} }}", constants)
    assert operator in kinds(model)
    x = REAL_IMAGE if kind == "float" else IMAGE
    filters = [FILTERS[g : g + 3].transpose(0, 2, 3, 1).reshape(3, 12).T for g in (0, 3)]
    wanted = sum(map(count, windows(x.astype(np.uint8), zero), filters))
    assert model.saturations({"x": x}) == {"i": wanted}
    assert wanted > 0


def test_the_projections_of_attention_count():
    x, w = octets((2, 5, 8)), octets((8, 24), np.int8)
    text = """g (uint8[2,5,8] x) => (y) { y = com.microsoft.QAttention<num_heads = 2>(x, w, c, s, s, , zu, z8) }"""
    model = model_with(text, {**NUMBERS, "w": w, "c": np.zeros(24, F)})
    assert model.saturations({"x": x}) == {"y": count(x.reshape(10, 8), w)}


def test_every_product_of_the_table_is_counted_here():
    counted = {operator for *_, operator in (*PRODUCTS.values(), *CONVOLUTIONS.values())}
    others = {"com.microsoft.QAttention", "com.microsoft.DynamicQuantizeLSTM", "com.microsoft.QLinearConv"}
    assert {kind for kind, traits in TABLE.traits.items() if traits.factors} == counted | others


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("lengths", [None, [4, 0, 2]])
@pytest.mark.parametrize("states", [True, False])
def test_an_lstm_counts_source_and_states(direction, lengths, states, monkeypatch):
    """The count equals the sum over the LSTM's steps, each computed as a product."""
    directions = 2 if direction == "bidirectional" else 1
    values = {
        "w": octets((directions, 5, 24), np.int8),
        "r": octets((directions, 6, 24), np.int8),
        "s": np.full(directions, 1e-3, F),
        "z": np.zeros(directions, np.int8),
        "p": np.zeros((directions, 18), F),
    }
    given = {"x": RNG.normal(0, 1, (4, 3, 5)).astype(F)}
    given |= {} if lengths is None else {"n": np.array(lengths, np.int32)}
    given |= {name: RNG.normal(0, 1, (directions, 3, 6)).astype(F) for name in "hc" if states}
    names = {np.dtype(F): "float", np.dtype(np.int32): "int32"}
    ports = ", ".join(f"{names[value.dtype]}{[*value.shape]} {name}" for name, value in given.items())
    made = []

    def multiplication(weights, constant):
        multiply = original(weights, constant)

        def recorded(a, b, *zeros):
            made.append(count(a.reshape(-1, a.shape[-1]), b))
            return multiply(a, b, *zeros)

        return recorded

    original = microsoft.multiplication
    counts = []
    for peepholes in ("p", ""):
        inputs = ["x", "w", "r", "", *(name if name in given else "" for name in "nhc"), peepholes, *"szsz"]
        text = f"""g ({ports}) => (y) {{
            y = com.microsoft.DynamicQuantizeLSTM<hidden_size = 6, direction = "{direction}">({", ".join(inputs)}) }}"""
        with monkeypatch.context() as patch:
            patch.setattr(microsoft, "multiplication", multiplication)
            model = model_with(text, values)
        counts.append(model.saturations(given))
    assert counts[0] == counts[1] == {"y": sum(made)}
    assert sum(made) > 0


@pytest.mark.parametrize("kinds", [*itertools.product((np.uint8, np.int8), repeat=2)], ids=str)
def test_products_that_are_not_counted_are_named(kinds):
    a, b = octets((3, 7), kinds[0]), octets((7, 4), kinds[1])
    model = model_with(f"g ({a.dtype}[3,7] x) => (y) {{ i = MatMulInteger(x, w) y = Neg(i) }}", {"w": b})
    found = model.saturations({"x": a})
    if kinds == (np.uint8, np.int8):
        assert found == {"i": count(a, b)}
    else:
        reason = f"its factors are {a.dtype} and {b.dtype}, whose products are not added in 16 bits"
        assert (found, found.not_counted) == ({}, {"i": reason})


def test_depthwise_convolutions_are_not_counted():
    model = model_with("g (uint8[1,4,5,6] x) => (y) { y = ConvInteger<group = 4>(x, w) }",
                       {"w": octets((4, 1, 2, 2), np.int8)})  # fmt: skip
    found = model.saturations({"x": IMAGE[:1]})
    assert (dict(found), [*found.not_counted]) == ({}, ["y"])
    assert "depthwise" in found.not_counted["y"]


def test_each_turn_of_a_subgraph_counts():
    text = """g (uint8[3,7] x, int64 n) => (last, all) { last, all = Loop(n, , start) <
        body = b (int64 k, bool going, int32[3,4] before) => (bool on, int32[3,4] after, int32[3,4] out) {
            on = Identity(going) i = MatMulInteger(x, w) after = Add(before, i) out = Identity(i) }> }"""
    model = model_with(text, {"w": B, "start": np.zeros((3, 4), np.int32)})
    assert model.saturations({"x": A, "n": np.array(3)}) == {"i": 3 * count(A, B)}


def test_the_command_says_what_saturates_and_what_is_not_counted(tmp_path, capsys, monkeypatch):
    text = f"""g (float[3,7] x) => (y, n) {{ {DYNAMIC} i = MatMulInteger(q, w, z) {SCALED} m = Transpose(y)
        k, l, o = DynamicQuantizeLinear(m) n = MatMulInteger(k, v, o) }}"""
    model = model_of(text)
    constants = {**NUMBERS, "v": octets((3, 2))}
    model.graph.initializer.extend(numpy_helper.from_array(np.asarray(v), name) for name, v in constants.items())
    (tmp_path / "model.onnx").write_bytes(model.SerializeToString())
    np.savez(tmp_path / "feeds.npz", x=REAL)
    monkeypatch.setattr(command, "onnxruntime_sessions", lambda path: {})
    files = {"file": str(tmp_path / "model.onnx"), "inputs": str(tmp_path / "feeds.npz")}
    assert command.main(SimpleNamespace(**files, size=[], bench=None, quantize=None, compare=True)) == 0
    said = capsys.readouterr().out
    assert said.endswith(
        "1 of 1 products of uint8 and int8 saturate sums of two products in 16 bits, as onnxruntime's do on CPUs "
        f"without VNNI:\n    i: {count(REAL.astype(np.uint8), B)} sums\nnot counted:\n    n: its factors are uint8 and "
        "uint8, whose products are not added in 16 bits\n"
    )
