"""onnxruntime's 8-bit integer operators: bits of the formulas here, and onnxruntime's own results."""

import math
from fractions import Fraction
from importlib.util import find_spec

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import int8blas.onnx

F = np.float32
RNG = np.random.default_rng(3)


def run(operator, inputs, outputs=1, constants=(), **attributes):
    """Return the outputs of a model of one node. None among `inputs` is an absent input; `constants` are positions."""
    return int8blas.onnx.load(model_of(operator, inputs, outputs, constants, **attributes)).run(
        None, {f"i{k}": x for k, x in enumerate(inputs) if x is not None and k not in constants}
    )


def model_of(operator, inputs, outputs=1, constants=(), **attributes):
    names = ["" if x is None else f"i{k}" for k, x in enumerate(inputs)]
    made = [f"o{k}" for k in range(outputs)]
    node = helper.make_node(operator, names, made, domain="com.microsoft", **attributes)
    ports = [
        helper.make_tensor_value_info(f"i{k}", helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
        for k, x in enumerate(inputs)
        if x is not None and k not in constants
    ]
    graph = helper.make_graph(
        [node], "g", ports, [onnx.ValueInfoProto(name=name) for name in made],
        [numpy_helper.from_array(inputs[k], f"i{k}") for k in constants],
    )  # fmt: skip
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def octets(shape, dtype=np.uint8):
    limits = np.iinfo(dtype)
    return RNG.integers(limits.min, limits.max, shape, dtype, endpoint=True)


def floats(*shape):
    return RNG.normal(0, 1, shape).astype(F)


def scalar(value, dtype=F):
    return np.array(value, dtype)


def real(x, scale, zero):
    return (x.astype(np.int64) - np.asarray(zero).astype(np.int64)).astype(F) * scale


def saturated(y, scale, zero):
    return rounded(np.divide(y, scale, dtype=F), zero)


def rounded(y, zero):
    limits = np.iinfo(zero.dtype)
    return np.clip(np.rint(y).astype(np.float64) + zero, limits.min, limits.max).astype(zero.dtype)


def stored(value, zero):
    """Return a rational number as a byte: round to even, add the zero point, then apply the limits of the type."""
    limits = np.iinfo(zero.dtype)
    return min(max(round(value) + int(zero), limits.min), limits.max)


def exactly(operator, a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero):
    """Compute QLinearAdd or QLinearMul in integers: scales are integers times powers of 2."""
    (p, q, r), (i, j, k) = zip(*(mantissa(scale) for scale in (a_scale, b_scale, y_scale)), strict=True)
    a, b = a.astype(np.int64) - int(a_zero), b.astype(np.int64) - int(b_zero)
    if operator == "QLinearMul":
        large = (p * q).bit_length() > 44
        n, power = (a * b).astype(object if large else np.int64) * (p * q), i + j - k
    else:
        n, power = a * (p << i - min(i, j)) + b * (q << j - min(i, j)), min(i, j) - k
    n, divisor = (n << power, r) if power > 0 else (n, r << -power)
    assert n.dtype == object or np.abs(n).max() < 1 << 60 > divisor
    quotient, rest = (2 * n + divisor) // (2 * divisor), (2 * n + divisor) % (2 * divisor)
    quotient = np.where((rest == 0) & (quotient % 2 == 1), quotient - 1, quotient)  # a tie goes to even
    limits = np.iinfo(y_zero.dtype)
    return np.clip(quotient + int(y_zero), limits.min, limits.max).astype(y_zero.dtype)


def mantissa(scale):
    """Return an odd integer and a power of 2 whose product is the scale."""
    numerator, denominator = float(scale).as_integer_ratio()
    twos = (numerator & -numerator).bit_length() - 1
    return numerator >> twos, twos - denominator.bit_length() + 1


# ------------------------------------------------------------------------------------------------- bits ------


@pytest.mark.parametrize("constant", [False, True])
@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
@pytest.mark.parametrize("operator", ["QLinearAdd", "QLinearMul"])
def test_sums_and_products_are_correctly_rounded(operator, dtype, constant, isa):
    a, b = octets((4, 5, 6), dtype), octets((6,), dtype)
    zeros = [scalar(z, dtype) for z in (3, 120, 101)]
    inputs = [a, scalar(0.1), zeros[0], b, scalar(0.07), zeros[1], scalar(0.2), zeros[2]]
    (y,) = run(operator, inputs, constants=(1, 2, 4, 5, 6, 7) if constant else ())
    np.testing.assert_array_equal(y, exactly(operator, *inputs))


EVERY = np.arange(256, dtype=np.uint8)
# With these scales, many sums or products are ties.
RATIOS = [(1, 1, 2), (1, 2, 2), (3, 1, 4), (0.1, 0.1, 0.2), (0.1, 0.2, 0.3), (0.1, 0.1, 0.6), (1 / 3, 1 / 3, 2),
          (0.05, 0.1, 0.1), (0.02, 0.03, 0.05), (0.013, 0.013, 0.026), (0.5, 0.25, 0.125), (1, 1e-4, 1),
          (1e-3, 30, 16), (0.7, 1.1, 1.8)]  # fmt: skip


@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
@pytest.mark.parametrize("operator", ["QLinearAdd", "QLinearMul"])
def test_all_pairs_of_bytes_are_correctly_rounded_with_a_thousand_scales(operator, dtype):
    """Tensors, scales and zero points are all inputs."""
    rng = np.random.default_rng(0)
    a, b = EVERY.view(dtype)[:, None], EVERY.view(dtype)[None]
    model = int8blas.onnx.load(model_of(operator, [a, F(1), scalar(0, dtype), b, F(1), scalar(0, dtype), F(1),
                                                   scalar(0, dtype)]))  # fmt: skip
    for k in range(250):
        low, high = np.exp(rng.uniform(-6, 0, 2))
        last = (low + high) * rng.uniform(0.3, 1.2) if operator == "QLinearAdd" else low * high * rng.uniform(20, 200)
        scales = [scalar(s) for s in (RATIOS[k] if k < len(RATIOS) else (low, high, last))]
        scales[1] = F(np.ldexp(np.rint(np.ldexp(scales[1], 18)), -18))  # products have 64 bits at most
        zeros = octets(3, dtype)
        inputs = [a, scales[0], zeros[0], b, scales[1], zeros[1], scales[2], zeros[2]]
        feeds = {f"i{k}": np.asarray(x) for k, x in enumerate(inputs)}
        (y,) = model.run(None, feeds)
        np.testing.assert_array_equal(y, exactly(operator, *inputs), f"scales {scales}, zero points {zeros}")


@pytest.mark.parametrize("place", [0, 3])
@pytest.mark.parametrize("operator", ["QLinearAdd", "QLinearMul"])
def test_pairs_with_a_constant_tensor_are_correctly_rounded(operator, place):
    """A kernel, or a table, is right for the bytes of the constant."""
    for scales in [*RATIOS, (-0.1, 0.2, 0.3)]:
        p, q, r = (F(np.ldexp(np.rint(np.ldexp(scale, 18)), -18)) for scale in scales)
        inputs = [EVERY[:, None], p, octets(()), octets((1, 5)), q, octets(()), r, octets(())]
        inputs = [*inputs[3:6], *inputs[:3], *inputs[6:]] if place == 0 else inputs
        (y,) = run(operator, inputs, constants=(1, 2, 4, 5, 6, 7, place))
        np.testing.assert_array_equal(y, exactly(operator, *inputs), f"scales {scales}")


@pytest.mark.parametrize("zeros", [(0, 128, 0), (201, 177, 181)])
@pytest.mark.parametrize("scales", [
    (0.003921568859368563, 0.0078431386500597, 0.007843137718737125), (2**-8, 2**-7, 2**-7), (2**-8, 2**-7, -(2**-7)),
    (0.1, 1e-9, 0.1),
])  # fmt: skip
def test_sums_that_are_nearly_ties_are_correctly_rounded(scales, zeros):
    """Many pairs of bytes have a sum that is a tie, or that differs from a tie by less than float32 shows."""
    zeros = [scalar(zero, np.uint8) for zero in zeros]
    scales = [scalar(scale) for scale in scales]
    inputs = [EVERY[:, None], scales[0], zeros[0], EVERY[None], scales[1], zeros[1], scales[2], zeros[2]]
    (y,) = run("QLinearAdd", inputs, constants=(1, 2, 4, 5, 6, 7))
    a, b = ([Fraction(float(scale)) * (int(x) - int(zero)) for x in EVERY]
            for scale, zero in zip(scales[:2], zeros[:2], strict=True))  # fmt: skip
    last = Fraction(float(scales[2]))
    for i in range(0, 256, 5):
        np.testing.assert_array_equal(y[i], [stored((a[i] + each) / last, zeros[2]) for each in b])


@pytest.mark.parametrize("scales", [(-0.1, 0.2, 0.3), (0.1, -0.2, -0.3), (0, 0.2, 0.4), (1e-30, 1e9, 1e8)])
@pytest.mark.parametrize("operator", ["QLinearAdd", "QLinearMul"])
def test_scales_of_any_sign_and_size_are_numbers(operator, scales):
    a, b = octets((9, 1)), octets((1, 9))
    zeros = [scalar(z, np.uint8) for z in (100, 120, 101)]
    p, q, r = (Fraction(float(F(scale))) for scale in scales)
    (y,) = run(operator, [a, F(scales[0]), zeros[0], b, F(scales[1]), zeros[1], F(scales[2]), zeros[2]])
    for i, j in np.ndindex(9, 9):
        first, second = p * (int(a[i, 0]) - 100), q * (int(b[0, j]) - 120)
        value = first + second if operator == "QLinearAdd" else first * second
        assert y[i, j] == stored(value / r, zeros[2])


@pytest.mark.parametrize("constant", [False, True])
@pytest.mark.parametrize("count", [1, 2, 3, 49, 196, 3136, 300000])
def test_means_of_any_number_of_bytes_are_correctly_rounded(count, constant):
    """The sums lie at ties, and on both sides of each step of the result."""
    rng = np.random.default_rng(count)
    for scale, y_scale in [(0.1, 0.05), (0.1, 0.2), (1, 1), (0.3, 0.29), *rng.uniform(0.01, 0.02, (3, 2))]:
        zero, end = scalar(rng.integers(256), np.uint8), scalar(rng.integers(256), np.uint8)
        ratio = Fraction(float(F(scale))) / (count * Fraction(float(F(y_scale))))
        at = [(Fraction(2 * k + 1, 2) - int(end)) / ratio + count * int(zero) for k in range(255)]
        sums = sorted({total for n in at for total in (math.floor(n), math.ceil(n)) if 0 <= total <= 255 * count})
        sums = np.array(sums[:: 1 + len(sums) * count // 2_000_000])
        x = np.empty((1, len(sums), count, 1), np.uint8)  # bytes with this sum
        x[:] = (sums // count)[None, :, None, None]
        x[0, :, :, 0] += np.arange(count) < (sums % count)[:, None]
        inputs = [x, scalar(scale), zero, scalar(y_scale), end]
        wanted = [stored(int(total) * ratio, end) for total in sums - count * int(zero)]
        (y,) = run("QLinearGlobalAveragePool", inputs, constants=(1, 2, 3, 4) if constant else ())
        np.testing.assert_array_equal(y.ravel(), wanted)
        (y,) = run("QLinearReduceMean", inputs, axes=[2, 3], keepdims=0)
        np.testing.assert_array_equal(y.ravel(), wanted)


def test_a_sigmoid_is_correctly_rounded_at_its_tie():
    """sigmoid(0) = 1/2 is the only rational value; its neighbors are close to the tie."""
    x = np.array([6, 7, 8], np.uint8)
    for scale in (1e-6, 1e-20):
        (y,) = run("QLinearSigmoid", [x, scalar(scale), scalar(7, np.uint8), scalar(1), scalar(0, np.uint8)])
        np.testing.assert_array_equal(y, [0, 0, 1])


@pytest.mark.parametrize("order", ["C", "F", "other", "differs", "gaps"])
def test_large_tensors_are_added_part_by_part_in_any_order(order, isa):
    a, b = octets((3, 30, 40, 11)), octets((3, 30, 40, 11))
    if order == "F":
        a, b = np.asfortranarray(a), np.asfortranarray(b)
    elif order == "other":
        a, b = (np.moveaxis(np.ascontiguousarray(np.moveaxis(x, 1, -1)), -1, 1) for x in (a, b))
    elif order == "differs":
        b = np.asfortranarray(b)
    elif order == "gaps":
        a, b = a[..., ::2], b[..., ::2]
    zero = scalar(101, np.uint8)
    (y,) = run("QLinearAdd", [a, scalar(0.1), scalar(3, np.uint8), b, scalar(0.07), scalar(120, np.uint8),
                              scalar(0.2), zero])  # fmt: skip
    np.testing.assert_array_equal(y, exactly("QLinearAdd", a, F(0.1), 3, b, F(0.07), 120, F(0.2), zero))


@pytest.mark.parametrize("constant", [False, True])
@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
def test_functions_of_a_byte_are_looked_up(dtype, constant):
    x = np.arange(256, dtype=np.uint8).view(dtype).reshape(16, 16)
    inputs = [x, scalar(0.1), scalar(7, dtype), scalar(0.05), scalar(11, dtype)]
    (y,) = run("QLinearLeakyRelu", inputs, alpha=0.3, constants=(1, 2, 3, 4) if constant else ())
    values = [Fraction(float(F(0.1))) * (int(each) - 7) for each in x.ravel()]
    slopes = [value * Fraction(float(F(0.3))) if value < 0 else value for value in values]
    wanted = [stored(value / Fraction(float(F(0.05))), inputs[4]) for value in slopes]
    np.testing.assert_array_equal(y.ravel(), wanted)
    (y,) = run("QLinearSigmoid", [*inputs[:3], scalar(1 / 256), inputs[4]])
    exact = 1 / (1 + np.exp(-np.array(values, np.float64)))
    np.testing.assert_array_equal(y.ravel(), rounded(exact * 256, inputs[4]))


def test_parts_that_are_quantized_alike_are_joined_as_they_are():
    a, b = octets((2, 3)), octets((2, 4))
    like = [scalar(0.3), scalar(5, np.uint8)]
    (y,) = run("QLinearConcat", [*like, a, *like, b, scalar(0.15), scalar(9, np.uint8)], axis=1)
    ratio = Fraction(float(F(0.15))) / Fraction(float(F(0.3)))  # 1 / 2: every second byte is a tie
    wanted = np.array([stored(ratio * (int(each) - 9), like[1]) for each in b.ravel()]).reshape(b.shape)
    np.testing.assert_array_equal(y, np.concatenate([a, wanted], 1))


def test_an_empty_part_is_joined_with_converted_parts():
    a, b, end = octets((2, 3)), np.empty((2, 0), np.uint8), scalar(5, np.uint8)
    quantization = [scalar(0.15), scalar(9, np.uint8)]
    (y,) = run("QLinearConcat", [scalar(0.3), end, a, *quantization, b, *quantization], axis=1)
    (alone,) = run("QLinearConcat", [scalar(0.3), end, a, *quantization], axis=1)
    np.testing.assert_array_equal(y, alone)
    with pytest.raises(ValueError, match=r"equal shapes except in dimension 1, got \[\(2, 3\), \(3, 0\)\]"):
        run("QLinearConcat", [scalar(0.3), end, a, *quantization, b.reshape(3, 0), *quantization], axis=1)


@pytest.mark.parametrize("last", [0, 1])
def test_means_are_rounded_once(last, isa):
    x = octets((2, 5, 6, 3))
    inputs = [x, scalar(0.1), scalar(10, np.uint8), scalar(0.06), scalar(77, np.uint8)]
    axes = (1, 2) if last else (2, 3)
    count = x.shape[axes[0]] * x.shape[axes[1]]
    sums = (x.astype(np.int64) - 10).sum(axes, keepdims=True)
    ratio = Fraction(float(F(0.1))) / (count * Fraction(float(F(0.06))))
    wanted = np.array([stored(int(each) * ratio, inputs[4]) for each in sums.ravel()]).reshape(sums.shape)
    np.testing.assert_array_equal(run("QLinearGlobalAveragePool", inputs, channels_last=last)[0], wanted)
    (y,) = run("QLinearReduceMean", inputs, axes=list(axes), keepdims=0)
    np.testing.assert_array_equal(y, wanted.squeeze(axes))


def test_averages_count_the_padding_only_if_they_are_told_to():
    x = octets((1, 2, 5, 5))
    inputs = [x, scalar(0.1), scalar(10, np.uint8), scalar(0.1), scalar(10, np.uint8)]
    padded = np.pad(real(x, F(0.1), 10), [(0, 0), (0, 0), (1, 1), (1, 1)])
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3)).sum((-1, -2), dtype=np.float64)
    ones = np.pad(np.ones((5, 5)), 1)
    counts = np.lib.stride_tricks.sliding_window_view(ones, (3, 3)).sum((-1, -2))
    for include, divisor in ((0, counts), (1, 9)):
        (y,) = run("QLinearAveragePool", inputs, kernel_shape=[3, 3], pads=[1, 1, 1, 1], count_include_pad=include)
        assert np.abs(y - np.clip(windows / divisor / 0.1 + 10, 0, 255)).max() <= 0.501


@pytest.mark.parametrize("transposed", [0, 1])
@pytest.mark.parametrize("constant", [False, True])
@pytest.mark.parametrize("bias", [False, True])
def test_qgemm_ends_in_bytes_or_floats(transposed, constant, bias, isa):
    a, b = octets((7, 40)), octets((40, 9), np.int8)
    c = RNG.integers(-9000, 9000, 9, np.int32) if bias else None
    b_scale, b_zero = RNG.uniform(0.001, 0.01, 9).astype(F), octets(9, np.int8)
    inputs = [a, scalar(0.02), scalar(119, np.uint8), b.T.copy() if transposed else b, b_scale, b_zero, c]
    ends = [scalar(0.4), scalar(131, np.uint8)]
    options = {"transB": transposed, "constants": (3,) if constant else (), "alpha": 0.5}
    sums = (a.astype(np.int64) - 119) @ (b.astype(np.int64) - b_zero) + (0 if c is None else c)
    factor = F(0.5) * F(0.02) * b_scale
    np.testing.assert_array_equal(run("QGemm", inputs, **options)[0], sums.astype(F) * factor)
    (y,) = run("QGemm", inputs + ends, **options)
    np.testing.assert_array_equal(y, rounded(sums.astype(F) * (factor / F(0.4)), ends[1]))


@pytest.mark.parametrize("constant", [False, True])
@pytest.mark.parametrize("kind", [np.uint8, np.int8])
def test_products_to_floats_scale_and_add_a_bias(kind, constant, isa):
    a, b, bias = octets((2, 7, 40)), octets((40, 9), kind), floats(9)
    scale, zero = RNG.uniform(0.001, 0.01, 9).astype(F), octets(9, kind)
    constants = (1,) if constant else ()
    inputs = [a, b, scalar(0.02), scale, scalar(119, np.uint8), zero, bias]
    (y,) = run("MatMulIntegerToFloat", inputs, constants=constants)
    sums = (a.astype(np.int64) - 119) @ (b.astype(np.int64) - zero)
    np.testing.assert_array_equal(y, sums.astype(F) * (F(0.02) * scale) + bias)
    x = floats(2, 7, 40)
    (y,) = run("DynamicQuantizeMatMul", [x, b, scale, zero, bias], constants=constants)
    x_scale = (x.max() - x.min()) / F(255)
    x_zero = np.rint(-x.min() / x_scale).astype(np.uint8)
    sums = (saturated(x, x_scale, x_zero).astype(np.int64) - x_zero) @ (b.astype(np.int64) - zero)
    np.testing.assert_array_equal(y, sums.astype(F) * (x_scale * scale) + bias)


# ------------------------------------------------------------------------------------- against onnxruntime -----


def lstm_inputs(directions=1, channels=False):
    hidden, width = 6, 5
    w, r = octets((directions, width, 4 * hidden), np.int8), octets((directions, hidden, 4 * hidden), np.int8)
    count = (directions, 4 * hidden) if channels else (directions,)
    scale = RNG.uniform(0.001, 0.01, count).astype(F)
    zero = np.zeros(count, np.int8)
    return [floats(4, 3, width), w, r, floats(directions, 8 * hidden), None, floats(directions, 3, hidden),
            floats(directions, 3, hidden), floats(directions, 3 * hidden), scale, zero, scale, zero]  # fmt: skip


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("channels", [False, True])
@pytest.mark.parametrize("given", ["nothing", "states", "lengths", "zeros"])
def test_an_lstm_of_constants_has_the_bits_of_its_steps(isa, direction, channels, given):
    inputs = lstm_inputs(2 if direction == "bidirectional" else 1, channels)
    directions = inputs[1].shape[0]
    if given != "states":
        inputs[5] = inputs[6] = None
    if given == "lengths":
        inputs[4] = np.array([4, 0, 2], np.int32)
    if given == "zeros":
        inputs[1], inputs[2] = (x.view(np.uint8) for x in inputs[1:3])
        inputs[9], inputs[11] = (octets(inputs[8].shape) for _ in range(2))
    constants = (1, 2, 3, 8, 9, 10, 11)
    inputs[7] = np.zeros((directions, 18), F)  # peepholes make the node run step by step
    wanted = run("DynamicQuantizeLSTM", inputs, 3, constants, **LSTM, direction=direction)
    inputs[7] = None
    for actual, each in zip(run("DynamicQuantizeLSTM", inputs, 3, constants, **LSTM, direction=direction), wanted,
                            strict=True):  # fmt: skip
        np.testing.assert_array_equal(actual, each)


def attention_inputs(mask, kind=np.uint8):
    x, w = octets((2, 5, 8)), octets((8, 24), kind)
    zero = 128 if kind is np.uint8 else 0
    return [x, w, floats(24), scalar(0.02), scalar(0.01), mask, scalar(119, np.uint8), scalar(zero, kind)]


def embedding_inputs():
    tables = [octets((20, 8)), octets((10, 8)), octets((2, 8)), octets(8), octets(8)]
    scales, zeros = [scalar(s) for s in (0.02, 0.03, 0.01, 0.01, 0.02)], [scalar(z, np.uint8) for z in range(118, 123)]
    ids = RNG.integers(0, 20, (2, 6), np.int32)
    segments, mask = RNG.integers(0, 2, (2, 6), np.int32), np.array([[1] * 6, [1, 1, 1, 1, 0, 0]], np.int32)
    return [ids, segments, *tables, mask, *scales, *zeros]


BYTE = (scalar(0.1), scalar(7, np.uint8))
LSTM = {"hidden_size": 6}
CASES = {
    "add": ("QLinearAdd", [octets((4, 5)), *BYTE, octets((4, 5)), *BYTE, scalar(0.2), scalar(3, np.uint8)], {}),
    "mul": ("QLinearMul", [octets((4, 5)), *BYTE, octets((4, 5)), *BYTE, scalar(2.0), scalar(3, np.uint8)], {}),
    "sigmoid": ("QLinearSigmoid", [octets((9, 9)), *BYTE, scalar(1 / 256), scalar(0, np.uint8)], {}),
    "leaky": ("QLinearLeakyRelu", [octets((9, 9)), *BYTE, scalar(0.05), scalar(30, np.uint8)], {"alpha": 0.2}),
    "softmax": ("QLinearSoftmax", [octets((9, 9)), *BYTE, scalar(1 / 256), scalar(0, np.uint8)],
                {"axis": 1, "opset": 13}),
    "concat": ("QLinearConcat", [*BYTE, octets((2, 3)), *BYTE, octets((2, 4)), scalar(0.3), scalar(9, np.uint8)],
               {"axis": 1}),
    "average": ("QLinearAveragePool", [octets((2, 4, 7, 7)), *BYTE, scalar(0.08), scalar(5, np.uint8)],
                {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}),
    "global": ("QLinearGlobalAveragePool", [octets((2, 4, 7, 7)), *BYTE, scalar(0.08), scalar(5, np.uint8)], {}),
    "gemm": ("QGemm", [octets((4, 8)), *BYTE, octets((8, 6), np.int8), scalar(0.01), scalar(0, np.int8),
                       RNG.integers(-99, 99, 6, np.int32), scalar(0.1), scalar(100, np.uint8)], {}),
    "to float": ("MatMulIntegerToFloat", [octets((4, 8)), octets((8, 6)), scalar(0.02), scalar(0.01),
                                          scalar(119, np.uint8), scalar(130, np.uint8), floats(6)], {}),
    "dynamic": ("DynamicQuantizeMatMul", [floats(4, 8), octets((8, 6)), scalar(0.01), scalar(130, np.uint8),
                                          floats(6)], {}),
    "lstm": ("DynamicQuantizeLSTM", lstm_inputs(), LSTM),
    "lstm both ways": ("DynamicQuantizeLSTM", lstm_inputs(2, True), {**LSTM, "direction": "bidirectional"}),
    "attention": ("QAttention", attention_inputs(None), {"num_heads": 2}),
    "attention ends": ("QAttention", attention_inputs(np.array([5, 3], np.int32), np.int8), {"num_heads": 2}),
    "attention mask": ("QAttention", attention_inputs(np.array([[1] * 5, [1, 1, 0, 0, 0]], np.int32)),
                       {"num_heads": 4}),
    "causal": ("QAttention", attention_inputs(None), {"num_heads": 2, "unidirectional": 1}),
    "embedding": ("QEmbedLayerNormalization", embedding_inputs(), {"epsilon": 1e-5}),
}  # fmt: skip


@pytest.mark.skipif(not find_spec("onnxruntime"), reason="needs onnxruntime")
@pytest.mark.parametrize("name", CASES)
def test_onnxruntime_computes_the_same(name):
    import onnxruntime

    operator, inputs, attributes = CASES[name]
    outputs = 3 if "LSTM" in operator else 2 if "Embed" in operator else 1
    constants = tuple(k for k in (1, 2, 8, 9, 10, 11) if "LSTM" in operator)
    model = model_of(operator, inputs, outputs, constants, **attributes)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1  # its LSTMs quantize each thread's part separately
    options.add_session_config_entry("session.x64quantprecision", "1")
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    feeds = {f"i{k}": x for k, x in enumerate(inputs) if x is not None and k not in constants}
    for ours, theirs in zip(int8blas.onnx.load(model).run(None, feeds), session.run(None, feeds), strict=True):
        assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
        if ours.dtype.kind == "f":
            np.testing.assert_allclose(ours, theirs, 1e-4, 1e-5)
        else:  # a tie may round the other way
            assert np.abs(ours.astype(int) - theirs).max() <= (1 if ours.dtype.itemsize == 1 else 0)
