"""float16 and bfloat16: sums are exact in float32 and rounded once, and any two types can be quantized."""

import numpy as np
import pytest
from onnx import numpy_helper
from onnx_models import loaded, model_of

import int8blas.onnx
from int8blas.core.arrays import bfloat16_dtype

TYPES = {"float16": np.dtype(np.float16), "bfloat16": np.dtype(bfloat16_dtype())}
POOL = "<kernel_shape = [32, 64]>"
# Operators on x of shape (2048, 8) or (1, 8, 32, 64): attributes, further inputs, and the expected result in float64.
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
    # Multiples of 1 / 64 below 2, or of 1 / 8 for sums of products.
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


def test_networks_whose_weights_become_float16_in_a_cast_are_computed_in_float32():
    """In float16 the sum 2049 would be rounded to 2048."""
    model = loaded("""g (float16[1, 2] x) => (float16[1, 1] y) <float[2, 1] w = {1, 1}, float[1] b = {-2048}> {
        h = Cast<to = 10>(w) c = Cast<to = 10>(b) s = MatMul(x, h) y = Add(s, c) }""")
    assert model.run(None, {"x": np.array([[2048, 1]], np.float16)})[0] == 1


# ------------------------------------------------------------------------------------------------- quantization ------

ALL = {"float": np.dtype(np.float32), **TYPES}
NUMBERS = {"float": 1, "float16": 10, "bfloat16": 16}


@pytest.mark.parametrize("constant", [False, True])
@pytest.mark.parametrize("precision", [None, *ALL])
@pytest.mark.parametrize("scale_kind", ALL)
@pytest.mark.parametrize("kind", ALL)
def test_a_quantization_divides_in_the_type_of_its_scale_or_precision(kind, scale_kind, precision, constant):
    scale = np.array(0.37, ALL[scale_kind])
    x = np.concatenate([np.random.default_rng(0).normal(0, 30, 2000), np.arange(-60, 60) * (float(scale) / 2)])
    x = x.astype(ALL[kind])
    division = ALL[precision or scale_kind]
    inputs = f"{kind}[n] x" if constant else f"{kind}[n] x, {scale_kind} s"
    proto = model_of(
        f"""g ({inputs}) => (int8[n] y) {{ z = Constant<value = int8 {{3}}>()
        y = QuantizeLinear<precision = {NUMBERS.get(precision, 0)}>(x, s, z) }}""",
        opset=23,
    )
    if constant:
        proto.graph.initializer.append(numpy_helper.from_array(scale, "s"))
    (y,) = int8blas.onnx.load(proto).run(None, {"x": x} if constant else {"x": x, "s": scale})
    quotient = (x.astype(division) / scale.astype(division)).astype(np.float64)
    np.testing.assert_array_equal(y, np.clip(np.rint(quotient) + 3, -128, 127))


@pytest.mark.parametrize("output", [None, *ALL])
@pytest.mark.parametrize("scale_kind", ALL)
@pytest.mark.parametrize("dtype", ["int8", "uint16", "int32"])
def test_a_dequantization_rounds_its_product_once(dtype, scale_kind, output):
    limits = np.iinfo(dtype)
    x = np.linspace(max(limits.min, -(10**7)), min(limits.max, 10**7), 999).astype(dtype)
    scale = np.array(0.0037, ALL[scale_kind])
    zero = np.array(0 if dtype == "int32" else 17, dtype)
    model = loaded(f"""g ({dtype}[n] x, {scale_kind} s, {dtype} z) => ({output or scale_kind}[n] y) {{
        y = DequantizeLinear<output_dtype = {NUMBERS.get(output, 0)}>(x, s, z) }}""", opset=23)  # fmt: skip
    (y,) = model.run(None, {"x": x, "s": scale, "z": zero})
    assert y.dtype == ALL[output or scale_kind]
    product = (x.astype(np.int64) - zero).astype(np.float32) * scale.astype(np.float32)
    np.testing.assert_array_equal(y, product.astype(ALL[output or scale_kind]))


def test_a_precision_of_integers_is_refused():
    model = loaded("g (float[n] x, float s) => (uint8[n] y) { y = QuantizeLinear<precision = 6>(x, s) }", opset=23)
    with pytest.raises(ValueError, match="precision must be a type of floats, got int32"):
        model.run(None, {"x": np.ones(2, np.float32), "s": np.float32(1)})


@pytest.mark.parametrize("attributes", [("", "<precision = 10>"), ("<output_dtype = 10>", "")])
def test_quantizations_of_other_types_stay_as_they_are_written(attributes):
    """An operator between two such nodes computes in the other type, unlike an int8 operator."""
    first, last = attributes
    kind = "float16" if first else "float"
    model = loaded(f"""g (uint8[n] a, uint8[n] b) => (uint8[n] y) <float s = {{0.37}}, uint8 z = {{3}}> {{
        p = DequantizeLinear{first}(a, s, z) q = DequantizeLinear{first}(b, s, z) r = Add(p, q)
        y = QuantizeLinear{last}(r, s, z) }}""", opset=23)  # fmt: skip
    assert "com.microsoft.QLinearAdd" not in [call.operator for call in model.explain()]
    a, b = np.random.default_rng(0).integers(0, 256, (2, 5000), np.uint8)
    p, q = ((x.astype(np.float32) - 3) * np.float32(0.37) for x in (a, b))
    r = (p.astype(ALL[kind]).astype(np.float32) + q.astype(ALL[kind]).astype(np.float32)).astype(ALL[kind])
    division = np.float16 if last else np.float32
    wanted = np.rint((r.astype(division) / division(0.37)).astype(np.float64)) + 3
    np.testing.assert_array_equal(model.run(None, {"a": a, "b": b})[0], np.clip(wanted, 0, 255))


def test_casts_between_float16_and_float32_have_the_bits_of_numpy(isa, rng):
    halves = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    halves = halves[~np.isnan(halves)]
    floats = halves.astype(np.float32)
    with np.errstate(all="ignore"):
        floats = np.concatenate(
            [floats, np.nextafter(floats, np.inf), (floats + np.roll(floats, 1)) / 2, [65520, 1e30]]
        )
    floats = floats[~np.isnan(floats)].astype(np.float32)
    for x, name, number in ((floats, "float", 10), (halves, "float16", 1)):
        dtype = np.float16 if number == 10 else np.float32
        for each in (x, x[:24].reshape(2, 3, 4).transpose(2, 0, 1)[::-1], x[7:8].reshape(()), x[:0]):
            with np.errstate(all="ignore"):
                wanted = each.astype(dtype)
            sizes = ", ".join("nmk"[: each.ndim])
            model = loaded(f"g ({name}{f'[{sizes}]' if sizes else ''} x) => (y) {{ y = Cast<to = {number}>(x) }}")
            (y,) = model.run(None, {"x": each})
            assert y.dtype == dtype
            assert y.shape == each.shape
            np.testing.assert_array_equal(y.view(f"u{dtype().itemsize}"), wanted.view(f"u{dtype().itemsize}"))
