"""Windows whose padding depends on sizes: auto_pad, ceil_mode and count_include_pad in combination."""

from itertools import permutations, product

import numpy as np
import pytest
import reference_onnx
from arrays import assert_same
from onnx_models import loaded

from int8blas.onnx.graph import Node
from int8blas.onnx.table import Site
from int8blas.onnx.windows import conv

RNG = np.random.default_rng(11)
F = np.float32
SHAPES = {1: (2, 3, 7), 2: (1, 2, 7, 5), 3: (1, 2, 4, 5, 7)}
PADDINGS = {
    "SAME_UPPER": {"auto_pad": "SAME_UPPER"},
    "SAME_LOWER": {"auto_pad": "SAME_LOWER"},
    "VALID": {"auto_pad": "VALID"},
    "pads": {"pads": 1},
    "pads that VALID ignores": {"auto_pad": "VALID", "pads": 1},
}


def attributes_of(spatial, padding, **more):
    """Return a node's attributes, with one number for each dimension."""
    given = {"kernel_shape": [3, 2, 4][:spatial], "strides": [2, 1, 3][:spatial], **PADDINGS[padding], **more}
    if "pads" in given:
        given["pads"] = [1] * 2 * spatial
    return given


def written(attributes):
    """Return attributes in onnx's text form."""
    return ", ".join(f'{name} = "{v}"' if isinstance(v, str) else f"{name} = {v}" for name, v in attributes.items())


@pytest.mark.parametrize("opset", [10, 11, 19, 22])
@pytest.mark.parametrize("spatial", SHAPES)
@pytest.mark.parametrize("padding", PADDINGS)
@pytest.mark.parametrize("ceil_mode", [0, 1])
@pytest.mark.parametrize("include", [0, 1])
def test_averages_count_padding_that_follows_from_sizes(opset, spatial, padding, ceil_mode, include):
    given = attributes_of(spatial, padding, ceil_mode=ceil_mode, count_include_pad=include)
    if opset >= 19:
        given["dilations"] = [1, 2, 1][:spatial]
    x = RNG.integers(-99, 100, SHAPES[spatial]).astype(F)
    text = f"g (float[a,b{',c' * spatial}] x) => (float y) {{ y = AveragePool<{written(given)}>(x) }}"
    (y,) = loaded(text, opset=opset).run(None, {"x": x})
    np.testing.assert_array_equal(y, reference_onnx.average_pool(x, **given))


@pytest.mark.parametrize("pads", [[0, 0, 0, 0], [2, 1, 3, 0]])
@pytest.mark.parametrize("include", [0, 1])
def test_averages_of_windows_larger_than_images(pads, include):
    given = {"kernel_shape": [15, 11], "strides": [15, 11], "pads": pads, "ceil_mode": 1, "count_include_pad": include}
    x = RNG.integers(-99, 100, SHAPES[2]).astype(F)
    text = f"g (float[a,b,c,d] x) => (float y) {{ y = AveragePool<{written(given)}>(x) }}"
    (y,) = loaded(text, opset=19).run(None, {"x": x})
    assert y.shape == (1, 2, 1, 1)
    np.testing.assert_array_equal(y, reference_onnx.average_pool(x, **given))
    (y,) = loaded(text.replace("ceil_mode = 1", "ceil_mode = 0"), opset=19).run(None, {"x": x})
    assert y.shape == (1, 2, 0, 0)
    with pytest.raises(ValueError, match="room for a window"):
        loaded(text.replace("[15, 11], strides", "[99, 11], strides"), opset=19).run(None, {"x": x})


@pytest.mark.parametrize("padding", PADDINGS)
@pytest.mark.parametrize("include", [0, 1])
@pytest.mark.parametrize("form", ["QLinearAveragePool", "DequantizeLinear, AveragePool, QuantizeLinear"])
def test_averages_of_bytes_count_the_same_padding(padding, include, form):
    given = attributes_of(2, padding, count_include_pad=include)
    at = written(given)
    numbers = "<float s = {0.5}, uint8 z = {10}, float t = {0.25}, uint8 u = {7}>"
    body = f"y = com.microsoft.QLinearAveragePool<{at}>(x, s, z, t, u)"
    if "," in form:
        body = f"f = DequantizeLinear(x, s, z) a = AveragePool<{at}>(f) y = QuantizeLinear(a, t, u)"
    x = RNG.integers(0, 99, SHAPES[2], np.uint8)
    (y,) = loaded(f"g (uint8[a,b,c,d] x) => (uint8 y) {numbers} {{ {body} }}", microsoft=True).run(None, {"x": x})
    real = reference_onnx.dequantized(x, F(0.5), np.uint8(10))
    wanted = reference_onnx.quantized(reference_onnx.average_pool(real, **given), F(0.25), np.uint8(7))
    np.testing.assert_array_equal(y, wanted)


@pytest.mark.parametrize("kind", ["float", "uint8", "int8"])
@pytest.mark.parametrize("spatial", SHAPES)
@pytest.mark.parametrize("padding", PADDINGS)
@pytest.mark.parametrize("ceil_mode", [0, 1])
def test_maxima_are_of_windows_that_auto_pad_lays_out(kind, spatial, padding, ceil_mode):
    given = attributes_of(spatial, padding, ceil_mode=ceil_mode, dilations=[1, 2, 1][:spatial])
    dtype = np.dtype(F if kind == "float" else kind)
    x = RNG.integers(0 if kind == "uint8" else -99, 100, SHAPES[spatial]).astype(dtype)
    model = loaded(f"g ({kind}[a,b{',c' * spatial}] x) => ({kind} y) {{ y = MaxPool<{written(given)}>(x) }}")
    np.testing.assert_array_equal(model.run(None, {"x": x})[0], reference_onnx.max_pool(x, **given))


@pytest.mark.parametrize(("operator", "dtype", "wanted"), [
    ("AveragePool", F, 0), ("MaxPool", F, -np.inf), ("MaxPool", np.uint8, 0), ("MaxPool", np.int8, -128),
])  # fmt: skip
def test_a_window_without_elements_has_the_mean_0_and_the_lowest_maximum(operator, dtype, wanted):
    """The window's elements lie on both sides of the only pixel."""
    kind = "float" if dtype is F else np.dtype(dtype).name
    text = f"""g ({kind}[1,1,1] x) => ({kind} y) {{
        y = {operator}<kernel_shape = [4], dilations = [2], auto_pad = "SAME_UPPER">(x) }}"""
    (y,) = loaded(text, opset=19).run(None, {"x": np.ones((1, 1, 1), dtype)})
    np.testing.assert_array_equal(y, np.full((1, 1, 1), wanted, dtype))


@pytest.mark.parametrize("constant", [False, True])
@pytest.mark.parametrize(("size", "kernel"), [((3, 4), (2, 2)), ((1, 1), (1, 1)), ((9,), (5,)), ((2, 3, 2), (2, 1, 1))])
def test_few_windows_have_the_bits_of_many(size, kernel, constant):
    """Products of few windows have a row for each window; products of many windows have a column for each window."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(2, 5, *size[:-1], size[-1] + 64)).astype(np.float32)
    w, b = rng.normal(size=(19, 5, *kernel)).astype(np.float32), rng.normal(size=19).astype(np.float32)
    site = Site(Node("Conv", "", ("x", "w", "b"), ("y",)), {1: w, 2: b} if constant else {})
    call = conv(site)
    few, many = call(np.ascontiguousarray(x[..., : size[-1]]), w, b), call(x, w, b)
    np.testing.assert_array_equal(few, many[..., : few.shape[-1]])


@pytest.mark.parametrize("scale", [1, -1])
@pytest.mark.parametrize("end", ["y = Identity(m)", "y = QuantizeLinear(m, t, u)"])
def test_the_maximum_of_padding_alone_is_the_lowest_float(scale, end):
    constants = {"s": np.float32(0.5), "z": np.int8(1), "t": np.float32(scale), "u": np.int8(1)}
    for attributes in ('auto_pad = "SAME_UPPER", dilations = [2]', "pads = [1, 1], dilations = [2]"):
        kind = "float" if "Identity" in end else "int8"
        model = loaded(
            f"g (int8[1, 1, 1] x) => ({kind}[1, 1, 1] y) {{ f = DequantizeLinear(x, s, z) "
            f"m = MaxPool<kernel_shape = [2], {attributes}>(f) {end} }}",
            opset=12, constants=constants,
        )  # fmt: skip
        (y,) = model.run(None, {"x": np.ones((1, 1, 1), np.int8)})
        lowest = np.finfo(np.float32).min if kind == "float" else -128 * scale if scale > 0 else 127
        assert y == lowest or np.isneginf(y)


@pytest.mark.parametrize("n", range(1, 5))
def test_transposed_convolution_has_any_number_of_dimensions(n, rng):
    x = rng.integers(-5, 6, (2, 2, *range(2, n + 2))).astype(F)
    w = rng.integers(-5, 6, (2, 3, *range(n, 0, -1))).astype(F)
    strides, dims = [2, 1, 3, 1][:n], ",".join(f"d{i}" for i in range(n + 2))
    sizes = [(d - 1) * s + k for d, s, k in zip(x.shape[2:], strides, w.shape[2:], strict=True)]
    expected = np.zeros((2, 3, *sizes), F)
    for place, tap in product(np.ndindex(x.shape[2:]), np.ndindex(w.shape[2:])):
        at = tuple(p * s + t for p, s, t in zip(place, strides, tap, strict=True))
        expected[(..., *at)] += x[(..., *place)] @ w[(..., *tap)]
    model = loaded(
        f"g (float[{dims}] x, float[{dims.upper()}] w) => (float y) {{ y = ConvTranspose<strides = {strides}>(x, w) }}"
    )
    assert_same(model.run(None, {"x": x, "w": w})[0], expected)


@pytest.mark.parametrize("operator", ["GlobalAveragePool", "AveragePool<kernel_shape = [3, 2]>"])
def test_means_of_images_whose_dimensions_have_any_order(operator, rng):
    model = loaded(f"g (float[n,c,h,w] x) => (float y) {{ y = {operator}(x) }}")
    x = rng.integers(-9, 10, (2, 4, 3, 2)).astype(F)
    expected = x.sum((2, 3), keepdims=True) / F(6)
    for order in permutations(range(4)):
        given = np.ascontiguousarray(x.transpose(order)).transpose(np.argsort(order))
        assert_same(model.run(None, {"x": given})[0], expected, order=order)


@pytest.mark.parametrize("kind", ["float", "int8"])
def test_maxima_of_no_windows(kind):
    model = loaded(
        f"g ({kind}[n,c,w] x) => ({kind} y) {{ y = MaxPool<kernel_shape = [3], dilations = [2], strides = [2]>(x) }}"
    )
    assert model.run(None, {"x": np.zeros((1, 1, 4), F if kind == "float" else np.int8)})[0].shape == (1, 1, 0)


LAYOUT_NODES = {
    "Conv": "y = Conv<pads = [1, 1, 1, 1]>(x, w)",
    "ConvTranspose": "y = ConvTranspose<strides = [2, 1]>(x, w)",
    "MaxPool": "y = MaxPool<kernel_shape = [2, 2]>(x)",
    "AveragePool": "y = AveragePool<kernel_shape = [3, 2], pads = [1, 1, 1, 1]>(x)",
    "LpPool": "y = LpPool<kernel_shape = [2, 2]>(x)",
    "PRelu": "y = PRelu(x, c)",
    "BatchNormalization": "y = BatchNormalization(x, s, s, s, s)",
    "Resize": 'y = Resize<mode = "linear">(x, , f)',
    "Pad": "y = Pad(x, p)",
    "Split": "y, z = Split<axis = 2>(x, v)",
}


@pytest.mark.parametrize("constant", [False, True])
@pytest.mark.parametrize("operator", LAYOUT_NODES)
def test_a_model_computes_each_layout_like_a_new_model(operator, constant):
    """Sizes and the order in memory change, and change back. In each run, variable small inputs change in place."""
    rng = np.random.default_rng(3)
    small = {"w": rng.normal(size=(4, 4, 2, 3)), "c": rng.normal(size=(4, 1, 1)), "s": rng.uniform(1, 2, 4),
             "f": np.array([1, 1, 2, 1.5])}  # fmt: skip
    small = {name: value.astype(F) for name, value in small.items()}
    small |= {"p": np.array([0, 0, 1, 0, 0, 0, 0, 2]), "v": np.array([2, 4])}
    ports = ", float[a, b, c, d] w, float[4, 1, 1] c, float[4] s, float[4] f, int64[8] p, int64[2] v"
    text = f"""g (float[n, 4, h, w] x{"" if constant else ports}) => (float[o1, o2, o3, o4] y)
               {{ {LAYOUT_NODES[operator]} }}"""
    given = {"constants": small} if constant else {}
    model = loaded(text, **given)
    for turn in range(24):
        x = rng.normal(size=(1 + turn // 2 % 2, 4, 6, 5 + turn // 4 % 2)).astype(F)
        if turn // 8 % 2:
            x = np.ascontiguousarray(x.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)
        if not constant:
            for name in ("w", "c", "s"):
                small[name] += F(0.25)
            small["p"][2], small["v"][:], small["f"][2] = turn % 3, (turn % 5, 6 - turn % 5), 1 + turn % 2
        feeds = {"x": x} if constant else {"x": x, **small}
        np.testing.assert_array_equal(model.run(None, feeds)[0], loaded(text, **given).run(None, feeds)[0])


@pytest.mark.parametrize("node", ["ConvTranspose (x, w)", "PRelu (x, w)"])
def test_an_array_of_an_earlier_run_may_change(node):
    """A run with equal values in other memory has the same results."""
    rng = np.random.default_rng(3)
    model = loaded(f"g (double[1, 2, 4, 5] x, double[a, b, c, d] w) => (double[o1, o2, o3, o4] y) {{ y = {node} }}")
    x, w = rng.normal(size=(1, 2, 4, 5)), rng.normal(size=(2, 1, 2, 2) if "Conv" in node else (1, 2, 1, 1))
    changed = w.copy()
    (expected,) = model.run(None, {"x": x, "w": changed})
    changed[...] = 0
    np.testing.assert_array_equal(model.run(None, {"x": x, "w": w})[0], expected)
