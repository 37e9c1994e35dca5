"""Convolution and Deconvolution of a float source have the bits of two steps: quantize it by its range, then run the
layer."""

import pickle
from itertools import product

import ml_dtypes
import numpy as np
import pytest
import reference_convolution
import reference_quantized
from arrays import guarded, needs_mprotect
from convolutions import BROADCASTS, IMAGES, LAYOUTS, place_image
from layers import DST_DTYPES, assert_same_bits, name_of, random_bias

import int8blas
from int8blas import Attributes, Binary, Convolution, Deconvolution, Eltwise, ReLU, Sum

SRC_DTYPES = (np.float32, np.float16, ml_dtypes.bfloat16)
# Size, kernel, channels of source and destination, groups.
CASES = (
    ((6, 7), (3, 3), 3, 20, 1),
    ((6, 7), (3, 3), 64, 40, 1),
    ((5, 6), (1, 1), 33, 5, 1),
    ((6, 7), (3, 3), 37, 37, 37),
    ((6, 9), (3, 3), 32, 32, 8),
    ((30,), (5,), 3, 17, 1),
    ((3, 4, 5), (2, 3, 2), 6, 9, 3),
)
every_primitive = pytest.mark.parametrize("primitive", [Convolution, Deconvolution])
every_range = pytest.mark.parametrize("dynamic", ["per_image", "per_tensor"])
every_target = pytest.mark.parametrize("dynamic_dtype", [np.int8, np.uint8], ids=name_of)
every_source = pytest.mark.parametrize("src_dtype", SRC_DTYPES, ids=name_of)


def images(rng, size, ic, layout=None, dtype=np.float32, n=3):
    """Images of different ranges."""
    shape = (n, ic, *size) if layout and layout.startswith("nc") else (n, *size, ic)
    factors = (10.0 ** rng.integers(-2, 3, n)).reshape(n, *(1,) * (len(shape) - 1))
    return (rng.normal(0.3, 1, shape) * factors).astype(dtype)


def expected_of(x, weights, bias, dynamic, dynamic_dtype, scales, zero_points=None, operands=(), old=None, **options):
    """Quantize each image, or all of them together, and then compute the layer; NaN where a number is not finite."""
    results = []
    for part in np.split(x, len(x)) if dynamic == "per_image" else [x]:
        quantized, scale, zero = reference_quantized.quantize_dynamically(
            part.astype(np.float32).reshape(1, -1), dynamic_dtype, False
        )
        if not np.isfinite(part.astype(np.float32)).all():
            scale = np.float32(np.nan)
        at = slice(len(results), len(results) + 1) if dynamic == "per_image" else slice(None)
        results.append(
            reference_convolution.convolution(
                quantized.reshape(part.shape), weights, bias, scales=scales | {"src": scale},
                zero_points=(zero_points or {}) | {"src": zero},
                operands=[operand[at] for operand in operands],  # they have the shape of the destination
                old=None if old is None else old[at], **options,
            )
        )  # fmt: skip
    return np.concatenate(results)


def check(rng, primitive, x, case, dynamic="per_image", dynamic_dtype=np.int8, *, layout=None, dst_dtype=np.float32,
          bias="f32", ops=(), operands=(), weights_dtype=np.int8, numerics="exact", out=None, **geometry):  # fmt: skip
    size, kernel, ic, oc, groups = case
    weights = rng.integers(np.iinfo(weights_dtype).min, np.iinfo(weights_dtype).max, (oc, ic // groups, *kernel),
                           weights_dtype)  # fmt: skip
    scales = {"weights": rng.uniform(0.005, 0.02, oc).astype(np.float32)}
    if np.dtype(dst_dtype).kind != "f":
        scales["dst"] = np.float32(0.5)
    zero_points = {"weights": 77} if weights_dtype == np.uint8 else {}
    bias = random_bias(rng, bias, oc)
    geometry = {"strides": 1, "padding": 1 if min(kernel) > 1 else 0, "dilation": 1} | geometry
    if primitive is Deconvolution:
        geometry["output_padding"] = 0
    arguments = {"groups": groups, "layout": layout or LAYOUTS[len(size)][0], "numerics": numerics, **geometry}
    layer = primitive(
        weights, bias, src_dtype=x.dtype, dst_dtype=dst_dtype, dynamic=dynamic, dynamic_dtype=dynamic_dtype,
        scales=scales, zero_points=zero_points, attributes=Attributes(post_ops=ops), **arguments,
    )  # fmt: skip
    expected = expected_of(x, weights, bias, dynamic, dynamic_dtype, scales, zero_points, dst_dtype=dst_dtype, ops=ops,
                           operands=operands, old=out, **arguments)  # fmt: skip
    result = layer(x, operands=operands or None, out=None if out is None else out.copy())
    assert_same_bits(result, expected, src=x.shape, **arguments)
    return layer, expected


@every_primitive
@every_source
@every_range
@every_target
def test_every_path(isa, primitive, src_dtype, dynamic, dynamic_dtype, rng):
    for case in CASES:
        for layout, strides in product(LAYOUTS[len(case[0])], (1, 2)):
            x = images(rng, case[0], case[2], layout, src_dtype)
            check(rng, primitive, x, case, dynamic, dynamic_dtype, layout=layout, strides=strides)


@every_primitive
@every_range
@every_target
@pytest.mark.parametrize("dst_dtype", DST_DTYPES, ids=name_of)
def test_destinations_biases_and_post_ops(isa, primitive, dynamic, dynamic_dtype, dst_dtype, rng):
    for bias, ops in product((None, "f32", "s32"), ((), (ReLU(),), (Eltwise("linear", -0.5, 1), ReLU(0.1)))):
        for case in CASES[:4]:
            x = images(rng, case[0], case[2])
            check(rng, primitive, x, case, dynamic, dynamic_dtype, dst_dtype=dst_dtype, bias=bias, ops=ops)


@every_primitive
@every_range
def test_operands_of_pixels_and_old_values(isa, primitive, dynamic, rng):
    for case, strides in product(CASES[:5], (1, 2)):
        x = images(rng, case[0], case[2])
        _, expected = check(rng, primitive, x, case, dynamic, strides=strides)
        operand = rng.normal(0, 1, expected.shape).astype(np.float32)
        old = rng.normal(0, 1, expected.shape).astype(np.float32)
        ops = (Sum(0.5), Binary(algorithm="mul"))
        check(rng, primitive, x, case, dynamic, strides=strides, ops=ops, operands=(operand,), out=old)


@every_primitive
@every_range
@every_target
def test_uint8_weights_and_their_zero_points(isa, primitive, dynamic, dynamic_dtype, rng):
    for case in CASES:
        x = images(rng, case[0], case[2])
        check(rng, primitive, x, case, dynamic, dynamic_dtype, weights_dtype=np.uint8)


@every_range
@every_target
def test_saturating_numerics(isa, dynamic, dynamic_dtype, rng):
    for case in CASES[:4]:
        x = images(rng, case[0], case[2])
        check(rng, Convolution, x, case, dynamic, dynamic_dtype, numerics="saturating")


@every_primitive
@every_source
@every_range
@every_target
def test_images_of_every_kind(isa, primitive, src_dtype, dynamic, dynamic_dtype, rng):
    largest = float(ml_dtypes.finfo(src_dtype).max)
    values = {
        "zeros": 0, "negative zeros": -0.0, "denormal": 1e-40 if src_dtype == np.float32 else 1e-7, "huge": largest,
        "negative": -3.5, "positive": 5, "NaN": np.nan, "infinite": np.inf, "negative infinite": -np.inf,
    }  # fmt: skip
    case = CASES[0]
    for kind, value in values.items():
        x = images(rng, case[0], case[2], dtype=src_dtype)
        x[1] = value
        for dst_dtype in (np.float32, np.int8):
            check(rng, primitive, x, case, dynamic, dynamic_dtype, dst_dtype=dst_dtype)
        one = images(rng, case[0], case[2], dtype=src_dtype)
        one[2, 3, 4, 1] = value
        _, expected = check(rng, primitive, one, case, dynamic, dynamic_dtype)
        broken = np.isnan(expected).reshape(3, -1)
        if not np.isfinite(value):
            assert broken[2].all(), kind
            assert broken[:2].all() == (dynamic == "per_tensor")


@every_primitive
@every_source
def test_sources_of_any_strides(isa, primitive, src_dtype, rng):
    case = CASES[0]
    for name, dynamic in product([*IMAGES, *BROADCASTS], ("per_image", "per_tensor")):
        x = place_image(images(rng, case[0], case[2], dtype=src_dtype), name)
        check(rng, primitive, x, case, dynamic, np.uint8)


@needs_mprotect
@every_primitive
@every_source
@pytest.mark.parametrize("side", ["start", "end"])
def test_nothing_outside_the_source_is_read(isa, primitive, src_dtype, side, rng):
    for case, name in product((CASES[0], CASES[3]), ("contiguous", "cropped", "every other channel", "Fortran order")):
        x = place_image(images(rng, case[0], case[2], dtype=src_dtype), name, guarded(side))
        check(rng, primitive, x, case, "per_image", np.int8)
        check(rng, primitive, x, case, "per_tensor", np.uint8)


@every_range
@every_target
def test_any_number_of_threads_gives_the_same_bits(isa, dynamic, dynamic_dtype, rng):
    case = ((90, 100), (3, 3), 16, 20, 1)
    layer, expected = check(rng, Convolution, (x := images(rng, case[0], 16)), case, dynamic, dynamic_dtype)
    for threads in (1, 2, 3, 4):
        with int8blas.num_threads(threads):
            assert_same_bits(layer(x), expected, threads=threads)


@every_primitive
@every_range
def test_padding_is_zero(isa, primitive, dynamic, rng):
    """Images have only positive numbers; the range includes 0 nevertheless."""
    x = rng.uniform(5, 6, (2, 4, 4, 3)).astype(np.float32)
    for dynamic_dtype in (np.int8, np.uint8):
        check(rng, primitive, x, CASES[0], dynamic, dynamic_dtype)


@every_primitive
@every_range
def test_empty_sources(isa, primitive, dynamic, rng):
    for n, ic in ((0, 3), (2, 0)):
        layer = primitive(
            np.zeros((5, ic, 3, 3), np.int8), padding=1, src_dtype=np.float32, dst_dtype=np.float32, dynamic=dynamic
        )
        result = layer(np.zeros((n, 4, 4, ic), np.float32))
        assert result.shape == (n, 4, 4, 5)
        assert not result.any()


@every_primitive
def test_dynamic_makes_a_layer_of_floats(isa, primitive, rng):
    weights = rng.normal(0, 1, (6, 4, 3, 3)).astype(np.float32)
    bias, x = rng.normal(0, 1, 6).astype(np.float32), images(rng, (8, 9), 4)
    layer = primitive.dynamic(weights, bias, padding="same")
    assert (layer.src_dtype, layer.dst_dtype) == (np.float32, np.float32)
    assert layer.scales["weights"].shape == (6,)
    same = primitive(
        weights, bias, src_dtype=np.float32, dst_dtype=np.float32, scales={"weights": "per_channel"}, padding=1,
        dynamic="per_image",
    )  # fmt: skip
    assert_same_bits(layer(x), same(x))
    exact = reference_convolution.convolution(
        x.astype(np.float64), np.zeros((6, 4, 3, 3), np.int8), dst_dtype=np.float32, padding=1,
        output_padding=0 if primitive is Deconvolution else None,
    )  # fmt: skip
    assert exact.shape == layer(x).shape
    assert primitive.dynamic(weights, dynamic="per_tensor", scales={"weights": 0.5}).scales["weights"] == 0.5
    assert primitive.dynamic(np.ones((2, 2, 1, 1), np.uint8), zero_points={"weights": 1}).scales == {}


@every_primitive
def test_the_result_is_near_that_of_floats(isa, primitive, rng):
    weights, x = rng.normal(0, 1, (6, 4, 3, 3)).astype(np.float32), rng.normal(0, 1, (2, 9, 8, 4)).astype(np.float32)
    taps = np.zeros((2, 9, 8, 6))
    padded = np.pad(x.astype(np.float64), [(0, 0), (1, 1), (1, 1), (0, 0)])
    for h, w in np.ndindex(3, 3):
        tap = weights[..., h, w] if primitive is Convolution else weights[..., 2 - h, 2 - w]
        taps += padded[:, h : h + 9, w : w + 8] @ tap.T.astype(np.float64)
    for dynamic_dtype in (np.int8, np.uint8):
        result = primitive.dynamic(weights, padding=1, dynamic_dtype=dynamic_dtype)(x)
        assert np.linalg.norm(result - taps) < 0.02 * np.linalg.norm(taps)


@every_primitive
@every_range
def test_pickles_and_files(isa, primitive, dynamic, tmp_path, rng):
    weights, x = rng.normal(0, 1, (6, 4, 3, 3)).astype(np.float32), images(rng, (8, 9), 4)
    layer = primitive.dynamic(weights, dynamic=dynamic, dynamic_dtype=np.uint8)
    assert f"dynamic='{dynamic}'" in repr(layer)
    int8blas.save(tmp_path / "layer.i8", layer)
    for same in (pickle.loads(pickle.dumps(layer)), int8blas.load(tmp_path / "layer.i8")):
        assert_same_bits(same(x), layer(x))
        assert repr(same) == repr(layer)


def test_explain_says_that_the_source_is_quantized(isa, rng):
    for (size, kernel, ic, oc, groups), dynamic_dtype in product(CASES, (np.int8, np.uint8)):
        weights = rng.integers(-128, 128, (oc, ic // groups, *kernel), np.int8)
        x = images(rng, size, ic)
        layer = Convolution.dynamic(weights, groups=groups, layout=LAYOUTS[len(size)][0], dynamic_dtype=dynamic_dtype)
        plan = int8blas.explain(x, layer)
        assert plan.a_quantized
        assert "quantized to 8 bits" in str(plan)
        static = Convolution(
            weights, groups=groups, layout=LAYOUTS[len(size)][0], src_dtype=dynamic_dtype, dst_dtype=np.float32
        )
        same = int8blas.explain(np.ones(x.shape, dynamic_dtype), static)
        assert not same.a_quantized
        assert (plan.path, plan.shape, plan.a_shifted) == (same.path, same.shape, same.a_shifted)


F32 = {"src_dtype": np.float32, "dst_dtype": np.float32, "dynamic": "per_image"}
WRONG = (
    *(({"dynamic": value}, ValueError, "dynamic") for value in ("per_row", "", 1, True)),
    ({"dynamic_dtype": np.int16}, TypeError, "dynamic_dtype"),
    ({"src_dtype": np.uint8}, TypeError, "src_dtype"),
    ({"dynamic": None}, TypeError, "src_dtype"),
    ({"scales": {"src": 1}}, ValueError, r"scales\['src'\]"),
    ({"zero_points": {"src": 0}}, ValueError, r"zero_points\['src'\]"),
    ({"attributes": Attributes(scales={"src": 0})}, ValueError, r"scales\['src'\]"),
    ({"attributes": Attributes(zero_points={"src": 0})}, ValueError, r"zero_points\['src'\]"),
    ({"attributes": Attributes(output_scales=(0, 0.5))}, ValueError, "attributes"),
)


@every_primitive
@pytest.mark.parametrize(("changes", "error", "named"), WRONG)
def test_wrong_arguments_at_creation(primitive, changes, error, named):
    with pytest.raises(error, match=rf"^{named} must "):
        primitive(np.ones((2, 3, 1, 1), np.int8), **F32 | changes)


@every_primitive
def test_wrong_arguments_at_execution(primitive):
    layer = primitive(np.ones((2, 3, 1, 1), np.int8), **F32)
    x, out = np.ones((1, 4, 4, 3), np.float32), np.full((1, 4, 4, 2), 7, np.float32)
    for keywords in ({"scales": {"src": 1}}, {"zero_points": {"src": 0}}, {"scales": {"dst": 1}}, {"operands": [1]}):
        with pytest.raises(ValueError, match=r"^(scales|zero_points|operands)"):
            layer(x, out=out, **keywords)
    with pytest.raises(TypeError, match=r"^src must be float32, got uint8"):
        layer(x.astype(np.uint8), out=out)
    assert (out == 7).all()
