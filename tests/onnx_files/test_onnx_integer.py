"""8-bit integer operators: bits for every pair of signs, zero points of weights, ties and channels."""

import itertools

import numpy as np
import pytest
from onnx_models import loaded

BYTES = (np.uint8, np.int8)
NAMES = {np.uint8: "uint8", np.int8: "int8"}


def random_bytes(rng, shape, dtype):
    limits = np.iinfo(dtype)
    return rng.integers(limits.min, limits.max, shape, dtype, endpoint=True)


def saturated(rounded, zero_point, dtype):
    """Return saturated sums in ONNX's order: round first, then add the zero point."""
    limits = np.iinfo(dtype)
    return np.clip(rounded.astype(np.float64) + zero_point, limits.min, limits.max).astype(dtype)


@pytest.fixture
def rng():
    return np.random.default_rng(7)


def test_an_image_is_quantized_as_it_lies_in_memory(rng):
    """Channels stay last in memory for any stride of a single image; broadcast images are copied."""
    model = loaded("g (float[n,c,h,w] x) => (uint8[n,c,h,w] y) <float s = {0.5}, uint8 z = {3}> "
                   "{ y = QuantizeLinear(x, s, z) }")  # fmt: skip
    image = rng.normal(0, 30, (6, 5, 3)).astype(np.float32).transpose(2, 0, 1)[None]
    assert image.strides[0] == 0
    for x in (image, np.broadcast_to(image[:, :1], image.shape), np.broadcast_to(image, (4, *image.shape[1:]))):
        (y,) = model.run(None, {"x": x})
        np.testing.assert_array_equal(y, saturated(np.rint(x / np.float32(0.5)), 3, np.uint8))
        assert x is not image or y.strides[1] == 1


@pytest.mark.parametrize("dtype", BYTES)
@pytest.mark.parametrize("zero", [0, 1, 3, 77, 126, 127, 128, 255])
@pytest.mark.parametrize("times", [1, 30])
def test_quantize_rounds_before_it_adds_the_zero_point(dtype, zero, times, isa):
    zero = np.array(zero).astype(dtype)
    model = loaded(
        f"g (float[n] x, float s, {NAMES[dtype]} z) => ({NAMES[dtype]}[n] y) {{ y = QuantizeLinear(x, s, z) }}"
    )
    near = np.nextafter(np.float32(0.5), np.float32(0))
    x = np.concatenate([np.arange(-300, 300, 0.25), [near, 1.4999999, 2.4999998, 1e30, -1e30, np.inf, -np.inf]])
    x = np.tile(x.astype(np.float32), times)
    (y,) = model.run(None, {"x": x, "s": np.float32(1), "z": zero})
    np.testing.assert_array_equal(y, saturated(np.rint(x), int(zero), dtype))
    (y,) = model.run(None, {"x": np.full(times * 999, np.nan, np.float32), "s": np.float32(1), "z": zero})
    np.testing.assert_array_equal(y, zero)


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
def test_quantize_and_dequantize_have_parameters_along_an_axis(axis, rng, isa):
    x = rng.normal(0, 20, (4, 5, 6)).astype(np.float32)
    count = x.shape[axis]
    s, z = rng.uniform(0.1, 1, count).astype(np.float32), random_bytes(rng, count, np.uint8)
    model = loaded(
        f"g (float[a,b,c] x, float[n] s, uint8[n] z) => (uint8[a,b,c] q, float[a,b,c] y) {{"
        f" q = QuantizeLinear<axis={axis}>(x, s, z) y = DequantizeLinear<axis={axis}>(q, s, z) }}"
    )
    q, y = model.run(None, {"x": x, "s": s, "z": z})
    shape = [-1 if i == axis % 3 else 1 for i in range(3)]
    factor, zero = s.reshape(shape), z.astype(np.int64).reshape(shape)
    wanted = saturated(np.rint(x / factor), zero, np.uint8)
    np.testing.assert_array_equal(q, wanted)
    np.testing.assert_array_equal(y, (wanted - zero).astype(np.float32) * factor)


@pytest.mark.parametrize("dtype", ["uint16", "int16"])
def test_types_of_sixteen_bits_are_quantized(dtype, rng):
    x = rng.normal(0, 2000, 100).astype(np.float32)
    zero = np.array(1001, dtype)
    model = loaded(
        f"g (float[n] x, float s, {dtype} z) => ({dtype}[n] q, float[n] y) {{"
        " q = QuantizeLinear(x, s, z) y = DequantizeLinear(q, s, z) }",
        opset=21,
    )
    q, y = model.run(None, {"x": x, "s": np.float32(0.07), "z": zero})
    wanted = saturated(np.rint(x / np.float32(0.07)), 1001, zero.dtype)
    np.testing.assert_array_equal(q, wanted)
    np.testing.assert_array_equal(y, (wanted.astype(np.int64) - 1001).astype(np.float32) * np.float32(0.07))


@pytest.mark.parametrize(
    "x", [[0, 0], [1, 2, 3], [-5, -1], [-3, 7, 0.02], [1e-3, -1e-3], [6.4, 0.025, 0.0752]], ids=str
)
@pytest.mark.parametrize("times", [1, 2000])
def test_dynamic_quantization_has_a_range_that_contains_zero(x, times, isa):
    x = np.tile(np.array(x, np.float32), times)
    model = loaded("g (float[n] x) => (uint8[n] y, float s, uint8 z) { y, s, z = DynamicQuantizeLinear(x) }")
    y, s, z = model.run(None, {"x": x})
    low, high = min(x.min(), np.float32(0)), max(x.max(), np.float32(0))
    scale = (high - low) / np.float32(255) if high > low else np.float32(1)
    zero = np.clip(np.rint(-low / scale), 0, 255)
    assert (s, z) == (scale, zero)
    np.testing.assert_array_equal(y, saturated(np.rint(x / scale), zero, np.uint8))


PAIRS = list(itertools.product(BYTES, BYTES))


@pytest.mark.parametrize("constant", [False, True])
@pytest.mark.parametrize(("a_type", "b_type"), PAIRS)
@pytest.mark.parametrize("shape", [(7, 40), (3, 5, 40), (2, 3, 4, 40), (40,)], ids=str)
def test_products_of_integers_are_exact(a_type, b_type, shape, constant, rng, isa):
    a, b = random_bytes(rng, shape, a_type), random_bytes(rng, (40, 19), b_type)
    azp, bzp = random_bytes(rng, (), a_type), random_bytes(rng, 19, b_type)
    dims = ",".join("abcd"[: len(shape)])
    weights = ", ".join(map(str, b.ravel().tolist()))
    kind = NAMES[b_type]
    left = f"g ({NAMES[a_type]}[{dims}] x, {kind}[40,19] b, {NAMES[a_type]} azp, {kind}[19] bzp) => (int32 y)"
    if constant:
        left = f"g ({NAMES[a_type]}[{dims}] x, {NAMES[a_type]} azp, {kind}[19] bzp) => (int32 y) "
        left += f"<{kind}[40,19] b = {{{weights}}}>"
    model = loaded(left + " { y = MatMulInteger(x, b, azp, bzp) }")
    feeds = {"x": a, "azp": azp, "bzp": bzp} | ({} if constant else {"b": b})
    (y,) = model.run(None, feeds)
    assert y.dtype == np.int32
    np.testing.assert_array_equal(y, (a.astype(np.int64) - azp) @ (b.astype(np.int64) - bzp))


def test_matrices_of_a_stack_have_zero_points_of_their_own(rng, isa):
    a, b = random_bytes(rng, (2, 3, 4, 8), np.uint8), random_bytes(rng, (3, 8, 5), np.int8)
    azp, bzp = random_bytes(rng, (2, 3, 4, 1), np.uint8), random_bytes(rng, (3, 1, 5), np.int8)
    model = loaded(
        "g (uint8[a,b,c,k] x, int8[b,k,n] w, uint8[a,b,c,1] azp, int8[b,1,n] bzp) => (int32 y) {"
        " y = MatMulInteger(x, w, azp, bzp) }"
    )
    (y,) = model.run(None, {"x": a, "w": b, "azp": azp, "bzp": bzp})
    np.testing.assert_array_equal(y, (a.astype(np.int64) - azp) @ (b.astype(np.int64) - bzp))


@pytest.mark.parametrize(("a_type", "b_type"), PAIRS)
@pytest.mark.parametrize("zero", [0, 5, 127])
@pytest.mark.parametrize("channels", [False, True])
def test_qlinear_matmul_multiplies_scales_first(a_type, b_type, zero, channels, rng, isa):
    a, b = random_bytes(rng, (6, 33), a_type), random_bytes(rng, (33, 9), b_type)
    azp, bzp = random_bytes(rng, (), a_type), random_bytes(rng, 9 if channels else (), b_type)
    a_scale, y_scale = np.float32(0.031), np.float32(0.9)
    b_scale = rng.uniform(0.001, 0.01, 9 if channels else ()).astype(np.float32)
    size = "[n]" if channels else ""
    kind = NAMES[a_type]
    model = loaded(
        f"g ({kind}[m,k] a, float a_s, {kind} a_z, {NAMES[b_type]}[k,n] b, float{size} b_s, {NAMES[b_type]}{size} b_z,"
        f" float y_s, {kind} y_z) => ({kind}[m,n] y) {{ y = QLinearMatMul(a, a_s, a_z, b, b_s, b_z, y_s, y_z) }}"
    )
    feeds = {"a": a, "a_s": a_scale, "a_z": azp, "b": b, "b_s": b_scale, "b_z": bzp, "y_s": y_scale,
             "y_z": a_type(zero)}  # fmt: skip
    (y,) = model.run(None, feeds)
    acc = (a.astype(np.int64) - azp) @ (b.astype(np.int64) - bzp)
    factor = a_scale * b_scale / y_scale
    np.testing.assert_array_equal(y, saturated(np.rint(acc.astype(np.float32) * factor), zero, a_type))


def windows_of(x, kernel, zero, pads, strides, dilations):
    """Return the window of a 2-D image at each output position, minus the zero point: (n, c, oh, ow, kh, kw)."""
    x = x.astype(np.int64) - zero
    x = np.pad(x, [(0, 0), (0, 0), (pads[0], pads[2]), (pads[1], pads[3])])
    spans = [d * (k - 1) + 1 for k, d in zip(kernel, dilations, strict=True)]
    views = np.lib.stride_tricks.sliding_window_view(x, spans, (2, 3))
    return views[:, :, :: strides[0], :: strides[1], :: dilations[0], :: dilations[1]]


def sums_of(x, w, xzp, wzp, group, pads=(0, 0, 0, 0), strides=(1, 1), dilations=(1, 1)):
    views = windows_of(x, w.shape[2:], int(xzp), pads, strides, dilations)
    w = w.astype(np.int64) - np.reshape(np.asarray(wzp, np.int64), (-1, 1, 1, 1))
    parts = zip(np.split(views, group, 1), np.split(w, group), strict=True)
    return np.concatenate([np.einsum("nchwij,ocij->nohw", v, f) for v, f in parts], 1)


CONVOLUTIONS = {
    "plain": {},
    "padded": {"pads": (1, 2, 0, 1)},
    "strided": {"strides": (2, 3), "pads": (1, 1, 1, 1)},
    "dilated": {"dilations": (2, 1)},
}


@pytest.mark.parametrize("how", CONVOLUTIONS)
@pytest.mark.parametrize(("x_type", "w_type"), PAIRS)
@pytest.mark.parametrize("group", [1, 4])
def test_convolutions_of_integers_are_exact(how, x_type, w_type, group, rng, isa):
    options = CONVOLUTIONS[how]
    x, w = random_bytes(rng, (2, 4, 9, 10), x_type), random_bytes(rng, (8, 4 // group, 3, 3), w_type)
    xzp, wzp = random_bytes(rng, (), x_type), random_bytes(rng, 8, w_type)
    attributes = "".join(f", {name}=[{', '.join(map(str, values))}]" for name, values in options.items())
    model = loaded(
        f"g ({NAMES[x_type]}[n,c,h,w] x, {NAMES[w_type]}[o,i,k,l] w, {NAMES[x_type]} xzp, {NAMES[w_type]}[o] wzp)"
        f" => (int32 y) {{ y = ConvInteger<group={group}{attributes}>(x, w, xzp, wzp) }}"
    )
    (y,) = model.run(None, {"x": x, "w": w, "xzp": xzp, "wzp": wzp})
    assert y.dtype == np.int32
    np.testing.assert_array_equal(y, sums_of(x, w, xzp, wzp, group, **options))


@pytest.mark.parametrize(("x_type", "w_type"), PAIRS)
@pytest.mark.parametrize("bias", [False, True])
def test_sums_that_float32_cannot_hold_are_exact(x_type, w_type, bias, rng, isa):
    """The values are near the largest ones, so that sums exceed 2**24."""
    x = np.full((1, 96, 5, 5), np.iinfo(x_type).max, x_type) - random_bytes(rng, (1, 96, 5, 5), np.uint8) % x_type(3)
    w = np.full((3, 96, 3, 3), np.iinfo(w_type).max, w_type) - random_bytes(rng, (3, 96, 3, 3), np.uint8) % w_type(3)
    xzp, wzp = np.array(np.iinfo(x_type).min + 1, x_type), np.array(np.iinfo(w_type).min + 1, w_type)
    x, w = x.astype(x_type), w.astype(w_type)
    acc = sums_of(x, w, xzp, wzp, 1)
    assert np.abs(acc).max() > 1 << 25
    model = loaded(
        f"g ({NAMES[x_type]}[n,c,h,w] x, {NAMES[w_type]}[o,i,k,l] w, {NAMES[x_type]} xzp, {NAMES[w_type]} wzp)"
        " => (int32 y) { y = ConvInteger(x, w, xzp, wzp) }"
    )
    (y,) = model.run(None, {"x": x, "w": w, "xzp": xzp, "wzp": wzp})
    np.testing.assert_array_equal(y, acc)
    b = rng.integers(-(1 << 25), 1 << 25, 3, np.int32)
    held = {"xs": np.float32(0.001), "xz": xzp, "w": w, "ws": np.float32(0.001), "wz": wzp, "ys": np.float32(0.5),
            "yz": x_type(3)} | ({"b": b} if bias else {})  # fmt: skip
    values = ", ".join(constant(name, value) for name, value in held.items())
    kind = NAMES[x_type]
    (y,) = loaded(
        f"g ({kind}[n,c,h,w] x) => ({kind} y) <{values}> {{ y = QLinearConv({', '.join(['x', *held])}) }}"
    ).run(None, {"x": x})
    acc = acc + (b.reshape(-1, 1, 1) if bias else 0)
    factor = np.float32(0.001) * np.float32(0.001) / np.float32(0.5)
    np.testing.assert_array_equal(y, saturated(np.rint(acc.astype(np.float32) * factor), 3, x_type))


def constant(name, value):
    """Return a constant in onnx's text form."""
    array = np.asarray(value)
    kind = "float" if array.dtype == np.float32 else array.dtype.name
    return f"{kind}{list(array.shape) if array.ndim else ''} {name} = {{{', '.join(map(str, array.ravel().tolist()))}}}"


@pytest.mark.parametrize("fixed", [False, True])
@pytest.mark.parametrize("zero", [0, 128, 131])
@pytest.mark.parametrize("bias", [False, True])
def test_qlinear_conv_has_a_scale_for_each_channel(zero, bias, fixed, rng, isa):
    x, w = random_bytes(rng, (1, 6, 7, 8), np.uint8), random_bytes(rng, (5, 6, 3, 3), np.int8)
    w_scale = rng.uniform(0.001, 0.01, 5).astype(np.float32)
    b = rng.integers(-5000, 5000, 5, np.int32)
    x_scale, y_scale, xzp = np.float32(0.02), np.float32(0.4), np.uint8(119)
    feeds = {"xs": x_scale, "xz": xzp, "w": w, "ws": w_scale, "wz": np.zeros(5, np.int8), "ys": y_scale,
             "yz": np.uint8(zero)} | ({"b": b} if bias else {})  # fmt: skip
    node = f"{{ y = QLinearConv<pads=[1,1,1,1]>({', '.join(['x', *feeds])}) }}"
    if fixed:
        held = ", ".join(constant(name, value) for name, value in feeds.items())
        model = loaded(f"g (uint8[n,c,h,w] x) => (uint8 y) <{held}> {node}")
        (y,) = model.run(None, {"x": x})
    else:
        model = loaded(
            "g (uint8[n,c,h,w] x, float xs, uint8 xz, int8[o,i,k,l] w, float[o] ws, int8[o] wz, float ys, uint8 yz"
            f"{', int32[o] b' if bias else ''}) => (uint8 y) {node}"
        )
        (y,) = model.run(None, {"x": x, **feeds})
    acc = sums_of(x, w, xzp, 0, 1, (1, 1, 1, 1)) + (b.reshape(-1, 1, 1) if bias else 0)
    factor = (x_scale * w_scale / y_scale).reshape(-1, 1, 1)
    np.testing.assert_array_equal(y, saturated(np.rint(acc.astype(np.float32) * factor), zero, np.uint8))


def test_weights_with_zero_points_are_packed_once(rng):
    weights = ", ".join(map(str, random_bytes(rng, 2 * 3 * 3 * 3, np.uint8).tolist()))
    model = loaded(
        f"g (uint8[n,3,h,w] x, uint8 z) => (int32 y) <uint8[2,3,3,3] w = {{{weights}}}, uint8 wz = {{178}}>"
        " { y = ConvInteger(x, w, z, wz) }"
    )
    x = random_bytes(rng, (1, 3, 5, 6), np.uint8)
    results = [model.run(None, {"x": x, "z": np.uint8(z)})[0] for z in (3, 200)]
    filters = np.array([int(value) for value in weights.split(", ")]).reshape(2, 3, 3, 3)
    for result, zero in zip(results, (3, 200), strict=True):
        np.testing.assert_array_equal(result, sums_of(x, filters, zero, 178, 1))
