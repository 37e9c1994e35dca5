"""Attributes and post-ops: checks at creation, immutability, and the examples of the documentation."""

import copy
import dataclasses
import pickle

import ml_dtypes
import numpy as np
import pytest
from layers import assert_same_bits

import int8blas
from int8blas import Attributes, Binary, Eltwise, InnerProduct, PReLU, ReLU, Sum

# --- checks ----------------------------------------------------------------------------------------------------------

WRONG_NUMBERS = [
    (np.nan, ValueError), (np.inf, ValueError), (-np.inf, ValueError), (1e39, ValueError), ("1", TypeError),
    (b"1", TypeError), ([], TypeError), (1j, TypeError), (np.complex64(1j), TypeError), (10**400, ValueError),
]  # fmt: skip


@pytest.mark.parametrize(("value", "error"), WRONG_NUMBERS, ids=repr)
@pytest.mark.parametrize("name", ["alpha", "beta", "scale"])
def test_numbers_of_eltwise(name, value, error):
    with pytest.raises(error, match=f"^{name} of Eltwise must be "):
        Eltwise("linear", **{name: value})


@pytest.mark.parametrize(("op", "alpha", "beta"), [
    ("relu", 0, 0), ("elu", 1, 0), ("swish", 1, 0), ("hardswish", np.float32(1 / 6), 0.5), ("linear", 1, 0),
    ("tanh", 0, 0),
])  # fmt: skip
def test_what_eltwise_has_where_nothing_is_given(op, alpha, beta):
    default = Eltwise(op)
    assert (default.alpha, default.beta, default.scale) == (alpha, beta, 1)
    assert default == Eltwise(op, alpha, beta) == Eltwise(op, beta=beta)


@pytest.mark.parametrize("limits", [{}, {"alpha": 0}, {"beta": 6}])
def test_clip_has_no_limits_of_its_own(limits):
    with pytest.raises(ValueError, match=r"^alpha and beta of Eltwise\('clip'\), the limits, must be given"):
        Eltwise("clip", **limits)


@pytest.mark.parametrize(("value", "error"), WRONG_NUMBERS, ids=repr)
def test_scale_of_sum(value, error):
    with pytest.raises(error, match=r"^scale of Sum must be "):
        Sum(value)


@pytest.mark.parametrize(("value", "error"), [
    (0.0, TypeError), ("0", TypeError), (None, TypeError), (True, TypeError), (2**31, ValueError),
    (-(2**31) - 1, ValueError), (10**30, ValueError),
], ids=repr)  # fmt: skip
def test_zero_point_of_sum(value, error):
    with pytest.raises(error, match=r"^zero_point of Sum must be .*, got "):
        Sum(1, value)


@pytest.mark.parametrize("dtype", [np.int32, np.float32, np.int16, bool])
def test_dtype_of_sum(dtype):
    with pytest.raises(TypeError, match=f"^dtype of Sum must be uint8 or int8, got {np.dtype(dtype)}"):
        Sum(dtype=dtype)


@pytest.mark.parametrize("algorithm", ["Relu", "", "expm1", None, 1, ["relu"], ["add"]])
def test_algorithms(algorithm):
    with pytest.raises(ValueError, match=r"^algorithm of Eltwise must be one of relu, tanh, .*, got "):
        Eltwise(algorithm)
    with pytest.raises(ValueError, match=r"^algorithm of Binary must be one of add, sub, .*, got "):
        Binary(algorithm=algorithm)


def test_limits_of_clip():
    assert Eltwise("clip", 2, 2).beta == 2
    with pytest.raises(ValueError, match=r"^alpha of Eltwise\('clip'\) must not be above beta, got 2.0 and 1.0"):
        Eltwise("clip", 2, 1)


@pytest.mark.parametrize("operand", ["1", [1j], [object()], [b"1"]], ids=["str", "complex", "object", "bytes"])
@pytest.mark.parametrize("kind", [Binary, PReLU])
def test_operands(kind, operand):
    with pytest.raises(TypeError, match=f"^operand of {kind.__name__} must be real numbers, got "):
        kind(operand)


@pytest.mark.parametrize("kind", ["scales", "zero_points"])
@pytest.mark.parametrize(("masks", "error", "text"), [
    ({"source": 0}, ValueError, "{} must be for 'src', 'weights' or 'dst', got 'source'"),
    ({1: 0}, ValueError, "{} must be for 'src', 'weights' or 'dst', got 1"),
    ({"src": 0.0}, TypeError, "{}['src'] must be an integer, got float"),
    ({"src": None}, TypeError, "{}['src'] must be an integer, got NoneType"),
    ({"src": True}, TypeError, "{}['src'] must be an integer, got bool"),
    ({"dst": -1}, ValueError, "{}['dst'] must be a mask of at most 12 dimensions, got -1"),
    ({"dst": 1 << 12}, ValueError, "{}['dst'] must be a mask of at most 12 dimensions, got 4096"),
])  # fmt: skip
def test_masks(kind, masks, error, text):
    with pytest.raises(error) as raised:
        Attributes(**{kind: masks})
    assert str(raised.value) == text.format(kind)


def test_one_post_op_needs_no_sequence():
    assert Attributes(post_ops=ReLU()).post_ops == Attributes(post_ops=[ReLU()]).post_ops == (ReLU(),)


@pytest.mark.parametrize("post_ops", [5, None, "relu", {"relu": 1}, np.array(1.0)])
def test_post_ops_that_are_no_sequence(post_ops):
    with pytest.raises(TypeError, match=r"^post_ops must be a sequence, got "):
        Attributes(post_ops=post_ops)


@pytest.mark.parametrize("op", ["relu", None, ReLU, Sum, 1.0], ids=["str", "None", "function", "class", "float"])
def test_post_ops(op):
    with pytest.raises(TypeError, match=r"^post_ops must be Sum, Eltwise, Binary or PReLU, got "):
        Attributes(post_ops=[ReLU(), op])


@pytest.mark.parametrize(("value", "error", "text"), [
    (1.0, TypeError, r"must be \(mask, values\), got 1.0"), ((0, 1, 2), TypeError, r"must be \(mask, values\)"),
    ((-1, [1.0]), ValueError, "must have a mask of at most 12 dimensions, got -1"),
    ((1 << 12, [1.0]), ValueError, "must have a mask of at most 12 dimensions, got 4096"),
    ((0, [1.0, 2.0]), ValueError, "must be finite, one value for mask 0"),
    ((2, [[1.0], [2.0]]), ValueError, "must be finite, one value for mask 0, or one for each"),
    ((0, np.nan), ValueError, "must be finite"), ((2, [1, np.inf]), ValueError, "must be finite"),
])  # fmt: skip
def test_output_scales(value, error, text):
    with pytest.raises(error, match=f"^output_scales {text}"):
        Attributes(output_scales=value)


@pytest.mark.parametrize("kind", ["scales", "zero_points"])
def test_output_scales_are_a_model_of_their_own(kind):
    with pytest.raises(ValueError, match=f"^{kind} must not be given together with output_scales"):
        Attributes(**{kind: {"src": 0}}, output_scales=(0, 1.0))


# --- values ----------------------------------------------------------------------------------------------------------


def test_numbers_are_rounded_to_float32():
    op = Eltwise("linear", 0.1, np.float64(1) / 3, np.float16(0.1))
    assert (op.alpha, op.beta, op.scale) == (np.float32(0.1), np.float32(1 / 3), np.float16(0.1))
    assert Sum(0.1).scale == np.float32(0.1)


def test_relu_is_a_short_form():
    assert ReLU(0.1, 2) == Eltwise("relu", 0.1, 0, 2)
    assert ReLU() == Eltwise("relu")
    assert repr(ReLU()) == "Eltwise(algorithm='relu', alpha=0.0, beta=0.0, scale=1.0)"


def test_any_iterable_of_post_ops():
    ops = (ReLU(), Sum(0.5), ReLU())
    assert Attributes(post_ops=iter(ops)).post_ops == ops
    assert Attributes(post_ops=list(ops)).post_ops == ops
    assert Attributes().post_ops == ()


def test_equal_post_ops():
    assert Sum(0.5, 1) == Sum(0.5, 1)
    assert Sum(0.5, 1) != Sum(0.5, 2)
    assert Sum(dtype="u1") == Sum(dtype=np.uint8)
    assert len({ReLU(), ReLU(), ReLU(0.5), Sum(), Sum()}) == 3


# --- immutable -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value", [Sum(), ReLU(), Binary([1]), PReLU([1]), Attributes()], ids=lambda v: type(v).__name__
)
def test_fields_cannot_be_assigned(value):
    for field in dataclasses.fields(value):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(value, field.name, None)


def test_arguments_are_copied():
    masks, operand, values, ops = {"src": 0}, np.ones(3, np.float32), np.ones(3, np.float32), [ReLU()]
    attributes = Attributes(scales=masks, zero_points=masks, post_ops=ops)
    older, binary = Attributes(output_scales=(2, values)), Binary(operand)
    masks["dst"] = 0
    ops.clear()
    operand[:] = values[:] = 7
    assert dict(attributes.scales) == dict(attributes.zero_points) == {"src": 0}
    assert attributes.post_ops == (ReLU(),)
    assert binary.operand.tolist() == older.output_scales[1].tolist() == [1, 1, 1]


def test_arrays_and_mappings_are_read_only():
    attributes = Attributes(scales={"src": 0})
    with pytest.raises(TypeError, match="does not support item assignment"):
        attributes.scales["src"] = 1
    for array in (Binary([1.0]).operand, PReLU(2).operand, Attributes(output_scales=(0, 3)).output_scales[1]):
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0


# --- copies ----------------------------------------------------------------------------------------------------------


def through_pickle(value):
    """The value after pickling, with and without out-of-band buffers."""
    buffers = []
    data = pickle.dumps(value, protocol=5, buffer_callback=buffers.append)
    yield pickle.loads(data, buffers=buffers)
    yield from (pickle.loads(pickle.dumps(value, protocol)) for protocol in range(2, 6))
    yield copy.copy(value)
    yield copy.deepcopy(value)


@pytest.mark.parametrize("value", [Sum(0.5, 3, "u1"), ReLU(0.5, 2), Eltwise("clip", -1, 6)], ids=str)
def test_post_ops_survive_pickling(value):
    for other in through_pickle(value):
        assert other == value


@pytest.mark.parametrize("kind", [Binary, PReLU])
def test_operands_survive_pickling(kind):
    for operand in (None, 2.5, [1, 2, 3], np.ones((2, 3))):
        value = kind(operand)
        for other in through_pickle(value):
            assert vars(other).keys() == vars(value).keys()
            if operand is not None:
                assert_same_bits(other.operand, value.operand)
            else:
                assert other.operand is None


def test_attributes_survive_pickling():
    for value in (
        Attributes({"src": 1, "weights": 1}, {"dst": 2}, [ReLU(), Sum(0.5)]),
        Attributes(output_scales=(2, [1.5, 2.5]), post_ops=[Eltwise("tanh")]),
    ):
        for other in through_pickle(value):
            assert dict(other.scales) == dict(value.scales)
            assert dict(other.zero_points) == dict(value.zero_points)
            assert other.post_ops == value.post_ops
            if value.output_scales is None:
                assert other.output_scales is None
            else:
                assert other.output_scales[0] == value.output_scales[0]
                assert_same_bits(other.output_scales[1], value.output_scales[1])


# --- examples of the documentation -----------------------------------------------------------------------------------


def test_tanh_then_sum_with_scales_of_the_post_ops(isa, rng):
    # dst = 1 / scale_dst * (tanh(scale_src * scale_weights * sum) + scale_old * old): the output scale is only for
    # source and weights; the scales of the post-ops contain the destination's.
    scale_src, scale_weights, scale_dst, scale_old = 0.01, rng.uniform(0.002, 0.01, 20), 1 / 127, 0.25 / 127
    src, weights = rng.integers(0, 256, (9, 30), np.uint8), rng.integers(-128, 128, (20, 30), np.int8)
    old = rng.integers(-128, 128, (9, 20), np.int8)
    layer = int8blas.InnerProduct(
        weights,
        src_dtype=np.uint8,
        dst_dtype=np.int8,
        attributes=Attributes(
            output_scales=(1 << 1, scale_src * scale_weights),
            post_ops=[Eltwise("tanh", scale=1 / scale_dst), Sum(scale_old / scale_dst)],
        ),
    )
    sums = src.astype(np.float64) @ weights.T.astype(np.float64)
    exact = (np.tanh(scale_src * scale_weights * sums) + scale_old * old) / scale_dst
    result = layer(src, out=old.copy())
    assert np.abs(result - np.clip(exact, -128, 127)).max() < 0.501


def test_the_newer_model_divides_after_the_post_ops(isa, rng):
    # One layer in two forms: scales of source, weights and destination, and a Sum in real units.
    scale_src, scale_weights, scale_dst, scale_old = 0.01, rng.uniform(0.002, 0.01, 20), 1 / 128, 0.25 / 128
    src, weights = rng.integers(0, 256, (9, 30), np.uint8), rng.integers(-128, 128, (20, 30), np.int8)
    old = rng.integers(-128, 128, (9, 20), np.int8)
    arguments = {"src_dtype": np.uint8, "dst_dtype": np.int8}
    older = int8blas.InnerProduct(
        weights,
        **arguments,
        attributes=Attributes(
            output_scales=(2, np.float32(scale_src) * scale_weights.astype(np.float32)),
            post_ops=[Eltwise("tanh", scale=1 / scale_dst), Sum(scale_old / scale_dst)],
        ),
    )
    newer = int8blas.InnerProduct(
        weights,
        **arguments,
        attributes=Attributes(
            scales={"src": 0, "weights": 1 << 0, "dst": 0}, post_ops=[Eltwise("tanh"), Sum(scale_old)]
        ),
        scales={"src": scale_src, "weights": scale_weights, "dst": scale_dst},
    )
    # If the scale of the destination is a power of two, the result does not depend on the step in which it is
    # multiplied.
    assert_same_bits(newer(src, out=old.copy()), older(src, out=old.copy()))


def test_values_quantized_between_post_ops(isa, rng):
    # quantize and dequantize in the middle of a chain: linear, round, clip, linear. The scale is a power of two, so
    # that its reciprocal is exact.
    scale, zero_point = 1 / 8, 100
    quantizing = [Eltwise("linear", 1 / scale, zero_point), Eltwise("round"), Eltwise("clip", 0, 255)]
    dequantizing = [Eltwise("linear", scale, -scale * zero_point)]
    x = rng.normal(0, 12, (7, 20)).astype(np.float32)
    layer = int8blas.InnerProduct(
        np.zeros((20, 1), np.int8),
        src_dtype=np.uint8,
        dst_dtype=np.float32,
        attributes=Attributes(post_ops=[Binary(), *quantizing, *dequantizing, Binary(algorithm="mul")]),
    )
    y = rng.normal(0, 1, (7, 20)).astype(np.float32)
    quantized = int8blas.quantize(x, scale, zero_point, np.uint8)
    assert len(np.unique(quantized)) > 50
    expected = int8blas.dequantize(quantized, scale, zero_point) * y
    assert_same_bits(layer(np.zeros((7, 1), np.uint8), operands=[x, y]), expected)


@pytest.mark.parametrize("layout", ["nchw", "nhwc"])
def test_a_convolution_with_groups_and_quantized_weights(isa, layout, rng):
    # Weights hwigo in float32 are quantized with a scale for each group and output channel; the convolution has an
    # output scale for each of its channels.
    g, oc, ic, size = 2, 6, 8, 5
    wei_f32 = rng.normal(0, 1, (3, 3, ic // g, g, oc // g)).astype(np.float32)
    wei_scales = int8blas.weights_scales(wei_f32, (1 << 0) | (1 << 1), layout="hwigo")
    wei_s8 = int8blas.reorder(
        wei_f32, src_layout="hwigo", dst_layout="goihw", dtype=np.int8, src_scales=1 / wei_scales, mask=3
    )
    src_scale, dst_scale = np.float32(0.01), np.float32(0.1)
    conv_output_scales = src_scale * wei_scales / dst_scale
    conv = int8blas.Convolution(
        wei_s8,
        groups=g,
        layout=layout,
        src_dtype=np.int8,
        dst_dtype=np.int8,
        attributes=Attributes(output_scales=(1 << 1, conv_output_scales)),
    )
    src = rng.integers(-128, 128, (2, ic, size, size), np.int8)
    windows = np.lib.stride_tricks.sliding_window_view(src.astype(np.int32), (3, 3), (2, 3))
    windows = windows.reshape(2, g, ic // g, size - 2, size - 2, 3, 3)
    sums = np.einsum("ngihwyx,goiyx->ngohw", windows, wei_s8.astype(np.int32)).reshape(2, oc, size - 2, size - 2)
    expected = np.clip(np.rint(sums.astype(np.float32) * conv_output_scales.reshape(-1, 1, 1)), -128, 127)
    assert len(np.unique(expected)) > 50
    result = conv(int8blas.reorder(src, src_layout="nchw", dst_layout=layout))
    assert_same_bits(int8blas.reorder(result, src_layout=layout, dst_layout="nchw"), expected.astype(np.int8))


# --- values given at execution ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", [float, np.float32, np.float64, np.float16, np.longdouble, np.array, lambda x: [x]])
def test_numbers_given_at_execution_are_as_those_given_before(form, rng):
    """Numbers may have any numeric type; they are rounded to float32 once."""
    weights = rng.normal(size=(20, 9)).astype(np.float32)
    x = rng.integers(0, 256, (3, 9), np.uint8)
    scales, zero_points = {"src": 0.0625, "dst": 0.5}, {"src": 7, "dst": -3}
    types = {"src_dtype": np.uint8, "dst_dtype": np.int8}
    before = InnerProduct(
        weights, scales=scales | {"weights": "per_channel"}, zero_points=zero_points, **types
    )  # fmt: skip
    attributes = Attributes(scales={"src": 0, "dst": 0}, zero_points={"src": 0, "dst": 0})
    later = InnerProduct(weights, scales={"weights": "per_channel"}, attributes=attributes, **types)
    given = later(
        x,
        scales={tensor: form(value) for tensor, value in scales.items()},
        zero_points={tensor: np.int64(value) for tensor, value in zero_points.items()},
    )
    np.testing.assert_array_equal(given, before(x))


@pytest.mark.parametrize("value", [0, -np.inf, np.inf, np.nan, 1e39, np.float64(1e-50), True, "1", np.array(-0.0)])
def test_numbers_that_are_no_scales_are_refused_at_execution(value):
    layer = InnerProduct(
        np.ones((2, 3), np.int8), src_dtype=np.uint8, dst_dtype=np.float32, attributes=Attributes(scales={"src": 0})
    )
    with pytest.raises((TypeError, ValueError), match=r"scales\['src'\] must be"):
        layer(np.ones((1, 3), np.uint8), scales={"src": value})


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16], ids=["float16", "bfloat16"])
def test_scales_of_half_precision(isa, dtype, rng):
    weights, src = rng.integers(-128, 128, (5, 8), np.int8), rng.integers(0, 256, (3, 8), np.uint8)
    values = {"src": dtype(0.3), "weights": rng.uniform(0.01, 0.1, 5).astype(dtype), "dst": np.array(0.7, dtype)}
    wide = {tensor: np.asarray(value).astype(np.float32) for tensor, value in values.items()}
    arguments = {"src_dtype": np.uint8, "dst_dtype": np.int8}
    attributes = Attributes(scales={"src": 0, "weights": 1, "dst": 0})
    expected = int8blas.InnerProduct(weights, scales=wide, **arguments)(src)
    assert_same_bits(int8blas.InnerProduct(weights, scales=values, **arguments)(src), expected)
    assert_same_bits(int8blas.InnerProduct(weights, attributes=attributes, **arguments)(src, scales=values), expected)
    output_scales = Attributes(output_scales=(2, values["weights"]))
    older = int8blas.InnerProduct(weights, attributes=output_scales, **arguments)(src)
    assert_same_bits(older, int8blas.InnerProduct(weights, scales={"weights": wide["weights"]}, **arguments)(src))


@pytest.mark.parametrize("value", [2**31, -(2**31) - 1, 2**70, 1.0, np.int64(-(2**40)), np.array([2**31]), "0"])
def test_numbers_that_are_no_zero_points_are_refused_at_execution(value):
    layer = InnerProduct(
        np.ones((2, 3), np.int8),
        src_dtype=np.uint8,
        dst_dtype=np.float32,
        attributes=Attributes(zero_points={"src": 0}),
    )
    with pytest.raises((TypeError, ValueError), match=r"zero_points\['src'\] must be"):
        layer(np.ones((1, 3), np.uint8), zero_points={"src": value})
