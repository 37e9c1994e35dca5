"""Products of int8 tensors stay in int8, whatever an exporter writes around them.

Each problem draws a product, the form of its weights, a bias, the functions after it, and the end of the graph. The
oracle computes them in float64 from the dequantized tensors.
"""

import math

import numpy as np
import pytest
from onnx_models import loaded, model_of
from reference_onnx import dequantized, quantized

import int8blas.onnx

F = np.float32
FLOATS = {"Conv", "ConvTranspose", "MatMul", "Gemm", "QuantizeLinear", "DequantizeLinear"}


class Problem:
    """A graph: constants, nodes, and the float64 value of its last tensor."""

    def __init__(self, seed, dtypes=(np.uint8, np.int8)):
        self.rng, self.dtypes = np.random.default_rng(seed), dtypes
        self.constants, self.nodes, self.inputs, self.feeds = {}, [], [], {}
        self.name, self.value, self.axis = "", None, -1

    def constant(self, value):
        name = f"c{len(self.constants)}"
        self.constants[name] = np.asarray(value)
        return name

    def input(self, value, kind):
        name = f"i{len(self.inputs)}"
        self.inputs.append(f"{kind}{list(value.shape)} {name}")
        self.feeds[name] = value
        return name

    def node(self, text, *names, **attributes):
        """Add a node, and return its result."""
        given = ", ".join(f"{name} = {value}" for name, value in attributes.items())
        result = f"t{len(self.nodes)}"
        self.nodes.append(f"{result} = {text}{f'<{given}>' if given else ''}({', '.join(names)})")
        return result

    def one_of(self, *choices):
        return choices[self.rng.integers(len(choices))]

    def columns(self, values):
        """Return values of columns in a shape that broadcasts to the result."""
        if self.axis == -1:
            return values
        return values.reshape(-1, *(1,) * (self.value.ndim - 2))


def quantized_input(p, shape):
    """Add a dequantized input; return its name and value."""
    dtype = p.one_of(*p.dtypes)
    limits = np.iinfo(dtype)
    x = p.rng.integers(limits.min, limits.max + 1, shape).astype(dtype)
    zero = np.array(p.rng.integers(limits.min, limits.max + 1), dtype) if p.rng.random() < 0.8 else None
    scale = np.array(p.rng.uniform(0.01, 0.03) / 256 ** (np.dtype(dtype).itemsize - 1), F)
    names = [p.input(x, x.dtype.name), p.constant(scale), *([] if zero is None else [p.constant(zero)])]
    return p.node("DequantizeLinear", *names), dequantized(x, scale, dtype(0) if zero is None else zero), scale


def weights(p, shape, axis, one_scale=False):
    """Add dequantized weights in a form of the exporters; return their name, value and scale."""
    scale = np.array(p.rng.uniform(0.005, 0.02, () if one_scale or p.rng.random() < 0.4 else shape[axis]), F)
    unsigned = p.rng.random() < 0.3
    dtype, zero = (np.uint8, 128) if unsigned else (np.int8, 0)
    w = p.rng.integers(-127, 128, shape)
    stored = (w + zero).astype(dtype)
    zeros = np.full(scale.shape, zero, dtype)
    parts = [p.constant(scale), p.constant(zeros)]
    along = {} if scale.ndim == 0 else {"axis": axis}
    form = p.one_of("stored", "at load", "clipped", "transposed", "moved", "reshaped")
    if form == "at load" or (form == "clipped" and unsigned):
        real = p.constant(dequantized(stored, scale, zeros, axis))
        name = p.node("QuantizeLinear", real, *parts, **along)
    elif form == "clipped":
        real = p.constant(dequantized(stored, scale, zeros, axis))
        limits = p.constant(np.int8(-127)), p.constant(np.int8(127))
        name = p.node("Clip", p.node("QuantizeLinear", real, *parts, **along), *limits)
    elif form == "transposed":
        name = p.node("Transpose", p.constant(np.ascontiguousarray(stored.T)))
    elif form == "reshaped":
        name = p.node("Reshape", p.constant(stored.reshape(-1)), p.constant(np.array(shape)))
    elif form == "moved":  # after the dequantization
        name = p.constant(np.ascontiguousarray(stored.T))
        along = {} if scale.ndim == 0 else {"axis": stored.ndim - 1 - axis}
    else:
        name = p.constant(stored)
    name = p.node("DequantizeLinear", name, *parts, **along)
    name = p.node("Transpose", name) if form == "moved" else name
    return name, dequantized(stored, scale, zeros, axis).astype(np.float64), scale


def convolution(p):
    """A Conv of 1 or 2 spatial dimensions, with groups or without."""
    n, group = p.one_of(1, 2), p.one_of(1, 1, 2, 4)
    each, oc = p.one_of(1, 3), 4 * p.one_of(1, 2)
    x, real, scale = quantized_input(p, (2, each * group, 7, 8)[: n + 2])
    w, filters, w_scale = weights(p, (oc, each, 3, 2)[: n + 2], 0)
    p.axis, p.value = 1, convolution_of(real, filters, group)
    return "Conv", [x, w], {"group": group, "pads": [1] * 2 * n}, scale * w_scale


def convolution_of(x, w, group):
    """Convolve in float64, with a padding of 1."""
    views = np.pad(x.astype(np.float64), [(0, 0), (0, 0)] + [(1, 1)] * (x.ndim - 2))
    views = np.lib.stride_tricks.sliding_window_view(views, w.shape[2:], tuple(range(2, x.ndim)))
    parts = []
    for g in range(group):
        image = views[:, g * w.shape[1] : (g + 1) * w.shape[1]]
        filters = w[g * (len(w) // group) : (g + 1) * (len(w) // group)]
        axes = [1, *range(x.ndim, 2 * x.ndim - 2)], [1, *range(2, x.ndim)]
        parts.append(np.moveaxis(np.tensordot(image, filters, axes), -1, 1))
    return np.concatenate(parts, 1)


def deconvolution(p):
    """A ConvTranspose with strides of 2."""
    group = p.one_of(1, 1, 2)
    x, real, scale = quantized_input(p, (2, 2 * group, 4, 5))
    w, filters, w_scale = weights(p, (2 * group, 3, 3, 2), 1, group > 1)
    y = np.zeros((2, 3 * group, 9, 10))
    for g in range(group):
        for i, j, k, m in np.ndindex(4, 5, 3, 2):
            part = real[:, 2 * g : 2 * g + 2, i, j].astype(np.float64) @ filters[2 * g : 2 * g + 2, :, k, m]
            y[:, 3 * g : 3 * g + 3, 2 * i + k, 2 * j + m] += part
    p.axis, p.value = 1, y[:, :, 1:, :]
    attributes = {"group": group, "strides": [2, 2], "pads": [1, 0, 0, 0]}
    return "ConvTranspose", [x, w], attributes, scale * w_scale


def matrix(p):
    """A MatMul of a matrix or a stack."""
    x, real, scale = quantized_input(p, p.one_of((5, 12), (2, 3, 12), (12,)))
    w, right, w_scale = weights(p, (12, 6), 1)
    p.axis, p.value = -1, real.astype(np.float64) @ right
    return "MatMul", [x, w], {}, scale * w_scale


def general_matrix(p):
    """A Gemm, transposed or not."""
    turned, upright = p.one_of(0, 1), p.one_of(0, 0, 1)
    x, real, scale = quantized_input(p, (12, 5) if upright else (5, 12))
    w, right, w_scale = weights(p, (6, 12) if turned else (12, 6), 0 if turned else 1)
    alpha = p.one_of(1.0, 0.5)
    p.axis = -1
    p.value = alpha * (real.T if upright else real).astype(np.float64) @ (right.T if turned else right)
    return "Gemm", [x, w], {"transB": turned, "transA": upright, "alpha": alpha}, F(alpha) * scale * w_scale


def add_product(p):
    """Add a product and its bias."""
    operator, names, attributes, scale = p.one_of(convolution, deconvolution, matrix, general_matrix)(p)
    columns = p.value.shape[p.axis]
    bias = p.rng.normal(0, 1, columns).astype(F)
    form = p.one_of("none", "real", "added", "int32", "int32 of another scale")
    if operator == "MatMul" and form not in ("none", "added"):
        form = "added"
    if form == "real":
        names.append(p.constant(bias))
    elif form.startswith("int32"):
        unit = np.broadcast_to(scale * F(1 if form == "int32" else 3), columns).astype(F)
        integers = np.rint(bias / unit).astype(np.int32)
        name = p.constant(integers), p.constant(unit), p.constant(np.zeros(columns, np.int32))
        names.append(p.node("DequantizeLinear", *name, axis=0))
        bias = integers * unit.astype(np.float64)
    p.name = p.node(operator, *names, **attributes)
    if form == "added":
        p.name = p.node("Add", *p.rng.permutation([p.name, p.constant(p.columns(bias))]))
    if form != "none":
        p.value = p.value + p.columns(bias)
    if (operator == "Gemm" or p.axis == 1) and p.rng.random() < 0.3:
        add_normalization(p, columns)


def add_normalization(p, columns):
    scale, bias, mean = (p.rng.normal(0, 1, columns).astype(F) for _ in range(3))
    scale = np.abs(scale) + F(0.1) if p.rng.random() < 0.7 else scale
    variance = p.rng.uniform(0.5, 2, columns).astype(F)
    p.name = p.node("BatchNormalization", p.name, *map(p.constant, (scale, bias, mean, variance)))
    shape = p.columns
    p.value = (p.value - shape(mean)) / np.sqrt(shape(variance) + 1e-5) * shape(scale) + shape(bias)


def erf(x):
    return np.vectorize(math.erf)(x)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def add_function(p):
    """Add one element-wise function."""
    x, name = p.value, p.name
    kind = p.one_of("Relu", "Clip", "LeakyRelu", "HardSwish", "HardSigmoid", "Sigmoid", "swish", "gate", "Gelu",
                    "Gelu written out", "numbers", "PRelu")  # fmt: skip
    if kind == "Clip":
        p.value = x.clip(0, 6)
        p.name = p.node("Clip", name, p.constant(F(0)), p.constant(F(6)))
    elif kind == "swish":
        p.name, p.value = p.node("Mul", name, p.node("Sigmoid", name)), x * sigmoid(x)
    elif kind == "gate":
        gate = p.node("HardSigmoid", name, alpha=0.25)
        p.name, p.value = p.node("Mul", gate, name), x * (x * 0.25 + 0.5).clip(0, 1)
    elif kind == "Gelu written out":
        inner = p.node("Erf", p.node("Div", name, p.constant(F(np.sqrt(2)))))
        p.name = p.node("Mul", name, p.node("Add", inner, p.constant(F(1))))
        p.name, p.value = p.node("Mul", p.name, p.constant(F(0.5))), x * (1 + erf(x / np.sqrt(2))) / 2
    elif kind == "numbers":
        factor = p.rng.uniform(0.5, 2, x.shape[p.axis]).astype(F)
        p.name, p.value = p.node("Mul", name, p.constant(p.columns(factor))), x * p.columns(factor)
    elif kind == "PRelu":
        slope = p.columns(p.rng.uniform(-0.5, 0.5, x.shape[p.axis]).astype(F))
        p.name, p.value = p.node("PRelu", name, p.constant(slope)), np.where(x < 0, x * slope, x)
    else:
        functions = {
            "Relu": lambda x: np.maximum(x, 0), "LeakyRelu": lambda x: np.where(x < 0, x * F(0.01), x),
            "HardSwish": lambda x: x * (x / 6 + 0.5).clip(0, 1), "HardSigmoid": lambda x: (x * 0.2 + 0.5).clip(0, 1),
            "Sigmoid": sigmoid, "Gelu": lambda x: x * (1 + erf(x / np.sqrt(2))) / 2,
        }  # fmt: skip
        p.name, p.value = p.node(kind, name), functions[kind](x)


def add_end(p):
    """Quantize the result, or not; multiply it by a variable gate before that, or not. Return the result's type."""
    if p.rng.random() < 0.2:
        gate = p.rng.uniform(0, 1, p.value.shape[: 1 if p.value.ndim == 1 else 2]).astype(F)
        gate = gate.reshape(*gate.shape, *(1,) * (p.value.ndim - gate.ndim))
        p.name, p.value = p.node("Mul", p.name, p.input(gate, "float")), p.value * gate
    if p.rng.random() < 0.35:
        return "float", None, None
    dtype = p.one_of(np.uint8, np.int8)
    zero = p.one_of(np.iinfo(dtype).min, int(p.rng.integers(np.iinfo(dtype).min, 128)))
    scale = np.array(np.abs(p.value).max() / 127 + 1e-6, F)
    p.name = p.node("QuantizeLinear", p.name, p.constant(scale), p.constant(dtype(zero)))
    return np.dtype(dtype).name, scale, dtype(zero)


@pytest.mark.parametrize("seed", range(300))
def test_a_product_of_bytes_is_one_node_of_int8(seed):
    check_product(Problem(seed))


@pytest.mark.parametrize("seed", range(100))
def test_a_product_of_16_bits_by_bytes_is_one_node(seed):
    check_product(Problem(seed, (np.uint16, np.int16)), 21)


def check_product(p, opset=20):
    add_product(p)
    for _ in range(p.rng.integers(0, 3)):
        add_function(p)
    kind, scale, zero = add_end(p)
    text = f"g ({', '.join(p.inputs)}) => ({kind} {p.name}) {{ {' '.join(p.nodes)} }}"
    model = loaded(text, opset=opset, constants=p.constants)
    calls = [call.operator for call in model.explain()]
    # After a variable gate, a separate QuantizeLinear quantizes the result.
    assert FLOATS.isdisjoint(calls[:-1] if calls[-1] == "QuantizeLinear" and len(p.inputs) > 1 else calls), calls
    (y,) = model.run(None, p.feeds)
    assert (y.dtype.name, y.shape) == ("float32" if kind == "float" else kind, p.value.shape)
    largest = np.abs(p.value).max()
    if kind == "float":
        np.testing.assert_allclose(y, p.value, 1e-5, 1e-5 * largest)
    else:
        wanted = quantized(p.value.astype(F), scale, zero).astype(int)
        assert np.abs(y.astype(int) - wanted).max() <= 1
        ties = np.abs(p.value / scale - np.floor(p.value / scale) - 0.5) < 1e-3
        np.testing.assert_array_equal(y[~ties], wanted[~ties])


@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("shape", [(5, 12), (2, 3, 12), (12,)])
def test_a_bias_behind_a_quantized_product_keeps_the_bits_of_all_steps(shape, relu, isa):
    rng = np.random.default_rng(8)
    x, w = rng.integers(0, 256, shape).astype(np.uint8), rng.integers(-127, 128, (12, 40)).astype(np.int8)
    constants = {
        "xs": F(0.02), "xz": np.uint8(120), "w": w, "ws": rng.uniform(0.003, 0.01, 40).astype(F),
        "wz": np.zeros(40, np.int8), "b": rng.integers(-128, 128, 40).astype(np.int8), "bs": F(0.02), "bz": np.int8(3),
        "ms": F(0.031), "mz": np.uint8(117), "ys": F(0.027), "yz": np.uint8(90),
    }  # fmt: skip
    text = f"""g (uint8{[*shape]} x) => (uint8 y) {{ xf = DequantizeLinear(x, xs, xz)
        wf = DequantizeLinear<axis = 1>(w, ws, wz) p = MatMul(xf, wf) m = QuantizeLinear(p, ms, mz)
        mf = DequantizeLinear(m, ms, mz) bf = DequantizeLinear(b, bs, bz) s = Add(bf, mf)
        {"r = Relu(s)" if relu else ""} y = QuantizeLinear({"r" if relu else "s"}, ys, yz) }}"""
    model = loaded(text, constants={name: np.asarray(value) for name, value in constants.items()})
    assert [call.operator for call in model.explain()] == ["int8blas.QuantizedMatMul"]
    c = constants
    sums = (x.astype(int) - 120) @ w.astype(int)
    m = np.clip(np.rint(sums.astype(F) * (c["xs"] * c["ws"] / c["ms"])) + 117, 0, 255).astype(np.uint8)
    s = dequantized(m, c["ms"], c["mz"]) + dequantized(c["b"], c["bs"], c["bz"])
    wanted = quantized(np.maximum(s, 0) if relu else s, c["ys"], c["yz"])
    np.testing.assert_array_equal(model.run(None, {"x": x})[0], wanted)


@pytest.mark.parametrize("negative", [False, True])
@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("form", ["QDQ", "QLinearConv"])
def test_a_normalization_behind_a_quantized_convolution_keeps_the_bits_of_all_steps(form, biased, negative, isa):
    rng = np.random.default_rng(9)
    x, w = rng.integers(0, 256, (2, 3, 7, 8)).astype(np.uint8), rng.integers(-127, 128, (20, 3, 3, 3)).astype(np.int8)
    ws = rng.uniform(0.003, 0.01, 20).astype(F)
    bias = rng.integers(-2000, 2000, 20).astype(np.int32)
    scale, shift, mean = (rng.normal(0, 1, 20).astype(F) for _ in range(3))
    scale = scale if negative else np.abs(scale) + F(0.1)
    variance = rng.uniform(0.5, 2, 20).astype(F)
    constants = {
        "xs": F(0.02), "xz": np.uint8(120), "w": w, "ws": ws, "wz": np.zeros(20, np.int8), "b": bias,
        "bs": F(0.02) * ws, "bz": np.zeros(20, np.int32), "ms": F(0.05), "mz": np.uint8(117), "ys": F(0.04),
        "yz": np.uint8(90), "g": scale, "h": shift, "m": mean, "v": variance,
    }  # fmt: skip
    given = "bf = DequantizeLinear<axis = 0>(b, bs, bz)" if biased else ""
    product = f"""xf = DequantizeLinear(x, xs, xz) wf = DequantizeLinear<axis = 0>(w, ws, wz) {given}
        p = Conv<pads = [1, 1, 1, 1]>({"xf, wf, bf" if biased else "xf, wf"}) q = QuantizeLinear(p, ms, mz)"""
    if form == "QLinearConv":
        factors = "x, xs, xz, w, ws, wz, ms, mz" + (", b" if biased else "")
        product = f"q = QLinearConv<pads = [1, 1, 1, 1]>({factors})"
    text = f"""g (uint8[2,3,7,8] x) => (uint8 y) {{ {product} f = DequantizeLinear(q, ms, mz)
        n = BatchNormalization(f, g, h, m, v) r = Relu(n) y = QuantizeLinear(r, ys, yz) }}"""
    model = loaded(text, constants={name: np.asarray(value) for name, value in constants.items()})
    assert [call.operator for call in model.explain()] == ["QLinearConv", "int8blas.QuantizedChain"]
    sums = np.rint(convolution_of(x.astype(np.float64) - 120, w.astype(np.float64), 1)).astype(np.int64)
    of = (1, 20, 1, 1)
    sums = sums + bias.reshape(of) if biased else sums
    q = np.clip(np.rint(sums.astype(F) * (F(0.02) * ws / F(0.05)).reshape(of)) + 117, 0, 255).astype(np.uint8)
    factor = scale / np.sqrt(variance + F(1e-5))
    n = dequantized(q, F(0.05), np.uint8(117)) * factor.reshape(of) + (shift - mean * factor).reshape(of)
    wanted = quantized(np.maximum(n, 0), F(0.04), np.uint8(90))
    np.testing.assert_array_equal(model.run(None, {"x": x})[0], wanted)


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("end", ["", "uint8", "int8"])
def test_a_function_with_slopes_of_channels_keeps_the_bits_of_all_steps(end, last, isa):
    rng = np.random.default_rng(10)
    x = rng.integers(0, 256, (2, 7, 8, 20)).astype(np.uint8)
    x = x.transpose(0, 3, 1, 2) if last else np.ascontiguousarray(x.transpose(0, 3, 1, 2))
    slope = rng.normal(0, 0.5, (20, 1, 1)).astype(F)
    zero = np.array(90, end or np.uint8)
    constants = {"xs": F(0.02), "xz": np.uint8(120), "slope": slope, "ys": F(0.013), "yz": zero}
    quantizer = "y = QuantizeLinear(p, ys, yz)" if end else ""
    text = f"""g (uint8[n,20,h,w] x) => ({end or "float"} {"y" if end else "p"}) {{
        f = DequantizeLinear(x, xs, xz) p = PRelu(f, slope) {quantizer} }}"""
    model = loaded(text, constants={name: np.asarray(value) for name, value in constants.items()})
    assert [call.operator for call in model.explain()] == ["int8blas.QuantizedChain"]
    f = dequantized(x, F(0.02), np.uint8(120))
    wanted = np.where(f < 0, f * slope, f)
    np.testing.assert_array_equal(model.run(None, {"x": x})[0], quantized(wanted, F(0.013), zero) if end else wanted)


@pytest.mark.parametrize(("shape", "other"), [
    ((2, 3, 4, 5), (3, 1, 1)), ((2, 3, 4, 5), (5,)), ((2, 3, 4, 5), (3,)), ((4, 5), (5,)), ((6,), (1,)),
    ((2, 3, 4, 5), (2, 1, 4, 1)), ((2, 3), ()),
])  # fmt: skip
def test_slopes_may_have_any_shape_that_broadcasts(shape, other):
    rng = np.random.default_rng(11)
    x, slope = rng.normal(0, 1, shape).astype(F), rng.normal(0, 1, other).astype(F)
    model = loaded(f"g (float{[*shape]} x) => (float y) {{ y = PRelu(x, s) }}", constants={"s": slope})
    by_channel = slope.reshape(3, 1, 1) if other == (3,) else slope  # as old versions do
    np.testing.assert_array_equal(model.run(None, {"x": x})[0], np.where(x < 0, x * by_channel, x))


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("operator", ["MatMul", "Gemm"])
@pytest.mark.parametrize("form", ["one scale", "columns", "blocks", "zero points", "uint8", "transposed"])
def test_weights_alone_in_int8_stay_there(form, operator, dynamic, isa):
    rng = np.random.default_rng(5)
    w, x = rng.integers(-127, 128, (64, 24)).astype(np.int8), rng.normal(0, 1, (5, 64)).astype(F)
    scale = rng.uniform(0.01, 0.02, {"one scale": (), "blocks": (4, 24)}.get(form, 24)).astype(F)
    zero = np.zeros(scale.shape, np.int8)
    if form == "zero points":
        w, zero = (w // 2).astype(np.int8), rng.integers(-60, 60, 24).astype(np.int8)
    elif form == "uint8":
        w, zero = w.view(np.uint8) ^ np.uint8(128), np.full(24, 128, np.uint8)
    attributes = {"axis": 0, "block_size": 16} if form == "blocks" else {"axis": 1}
    repeated = np.repeat(scale, 16, 0) if form == "blocks" else scale
    real = ((w.astype(int) - (zero if form != "blocks" else 0)) * repeated.astype(np.float64)).astype(F)
    turned = form == "transposed"
    given = np.ascontiguousarray(w.T) if turned else w
    attributes = {"axis": 0} if turned else attributes
    text = ", ".join(f"{name} = {value}" for name, value in attributes.items())
    product = "Gemm<transB = 1>(x, f)" if turned and operator == "Gemm" else f"{operator}(x, f)"
    transposed = "f = Transpose(d)" if turned and operator != "Gemm" else "f = Identity(d)"
    bias = rng.normal(0, 1, 24).astype(F)
    model = int8blas.onnx.load(
        model_text(f"d = DequantizeLinear<{text}>(w, s, z) {transposed} p = {product} b = Add(p, c) y = Relu(b)",
                   {"w": given, "s": scale, "z": zero, "c": bias}), dynamic=dynamic)  # fmt: skip
    assert [call.operator for call in model.explain()] == ["int8blas.StoredMatMul"]
    (y,) = model.run(None, {"x": x})
    wanted = np.maximum(x.astype(np.float64) @ real + bias, 0)
    step = np.abs(x).max() / 127 * np.abs(real).sum(0).max() / 4 if dynamic else 1e-5
    assert np.abs(y - wanted).max() < step


def model_text(body, constants):
    return model_of(f"g (float[m,64] x) => (float[m,24] y) {{ {body} }}", opset=21, constants=constants)
