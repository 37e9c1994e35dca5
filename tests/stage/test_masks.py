"""Every mask over the destination's dimensions, for output scales, scales and zero points; and a scale for each
image."""

import math
from itertools import product

import numpy as np
import pytest
import reference_quantized
from convolutions import random_convolution
from layers import DST_DTYPES, assert_same_bits, name_of, random_problem

import int8blas
from int8blas import Attributes, Binary, Eltwise, ReLU, Sum

ONE = np.float32(1)
every_dst = pytest.mark.parametrize("dst_dtype", DST_DTYPES, ids=name_of)


def problems(rng, ops=()):
    """An inner product, and convolutions for every path and both layouts, whose results are the sums and a bias."""
    plain = {"dst_dtype": np.float32, "scales": (), "zero_points": ("src",), "ops": ops}
    yield random_problem(rng, 7, 33, 20, **plain)
    for layout, groups in product(("nhwc", "nchw"), (1, 2, 16)):
        yield random_convolution(rng, (5, 6), (3, 3), 16, 32, n=2, groups=groups, layout=layout, padding=1, **plain)
    yield random_convolution(rng, (5, 4), (3, 3), 8, 12, n=2, layout="nhwc", strides=2, transposed=True, **plain)


def logical(problem):
    """The sizes of the destination's dimensions as masks count them."""
    shape = problem.dst_shape()
    return (shape[0], shape[-1], *shape[1:-1]) if problem.geometry.get("layout", "").endswith("c") else shape


def values_of(mask, problem, draw):
    """Values of a mask, and the same values in the order of the destination's memory."""
    shape = logical(problem)
    selected = [size for axis, size in enumerate(shape) if mask >> axis & 1]
    values = draw(selected)
    spread = values.reshape([size if mask >> axis & 1 else 1 for axis, size in enumerate(shape)])
    return values, np.moveaxis(spread, 1, -1) if problem.geometry.get("layout", "").endswith("c") else spread


def stored(y, dtype, scale=None, zero=None, rounds_first=False):
    """Results, quantized with a scale and a zero point for each."""
    with np.errstate(all="ignore"):
        y = y if scale is None else y * (ONE / scale)
        if np.dtype(dtype).kind == "f":
            return y.astype(dtype)
        y = np.where(np.isnan(y), np.float32(0), y)
        if rounds_first:
            return reference_quantized.to_integer((np.rint(y) + zero).astype(np.float32), dtype)
        return reference_quantized.to_integer(y if zero is None else y + zero.astype(np.float32), dtype)


def real(problem, **changes):
    """The float32 result of a layer."""
    return problem.but(dst_dtype=np.dtype(np.float32), **changes).expected()


def layer_of(problem, dst_dtype, attributes, at_creation=None, **keywords):
    values = {} if at_creation is None else at_creation
    weights = (problem.weights, problem.bias)
    return getattr(int8blas, problem.primitive)(
        *weights, src_dtype=problem.src.dtype, dst_dtype=dst_dtype, attributes=attributes, **problem.geometry, **values,
        **keywords,
    )  # fmt: skip


def masks(problem):
    return range(1 << len(logical(problem)))


@every_dst
@pytest.mark.parametrize("ops", [(), (ReLU(), Eltwise("linear", 2, 1))], ids=["plain", "post-ops"])
def test_output_scales(isa, dst_dtype, ops, rng):
    for problem in problems(rng):
        sums = real(problem, zero_points={})
        for mask in masks(problem):
            values, spread = values_of(mask, problem, lambda shape: rng.uniform(-0.02, 0.02, shape).astype(np.float32))
            expected = stored(reference_quantized.post_ops(sums * spread, ops), dst_dtype)
            for given in (values, values.ravel()):
                if given.ndim != 1 and mask == 2:
                    continue
                attributes = Attributes(output_scales=(mask, given), post_ops=ops)
                result = layer_of(problem, dst_dtype, attributes)(problem.src)
                assert_same_bits(result, expected, mask=mask, geometry=problem.geometry)


@every_dst
@pytest.mark.parametrize("requantization", ["float", "onnx"])
@pytest.mark.parametrize("ops", [(), (ReLU(),), (Eltwise("abs"), Binary(0.25, "mul"))], ids=["plain", "relu", "two"])
def test_destination(isa, dst_dtype, requantization, ops, rng):
    rounds_first = requantization == "onnx"
    if rounds_first and np.dtype(dst_dtype).itemsize > 1:
        return
    for problem in problems(rng):
        y = reference_quantized.post_ops(real(problem), ops)
        integral = np.dtype(dst_dtype).kind != "f"
        for mask, other in zip(masks(problem), reversed(masks(problem)), strict=True):
            scale, spread = values_of(mask, problem, lambda shape: rng.uniform(-60, 60, shape).astype(np.float32))
            zero, spread_zero = values_of(other, problem, lambda shape: rng.integers(0, 100, shape))
            zeros = {"src": problem.zero_points["src"]} | ({"dst": zero} if integral else {})
            attributes = Attributes(
                scales={"dst": mask}, zero_points={"src": 0} | ({"dst": other} if integral else {}), post_ops=ops,
                requantization=requantization,
            )  # fmt: skip
            expected = stored(y, dst_dtype, spread, spread_zero if integral else None, rounds_first)
            values = {"scales": {"dst": scale}, "zero_points": zeros}
            results = (
                layer_of(problem, dst_dtype, attributes, values)(problem.src),
                layer_of(problem, dst_dtype, attributes)(problem.src, **values),
            )
            for result in results:
                assert_same_bits(result, expected, mask=mask, other=other, geometry=problem.geometry)


def test_a_scale_for_each_image(isa, rng):
    for problem in list(problems(rng))[1:]:
        sums = real(problem, bias=None)
        scale = rng.uniform(-0.1, 0.1, len(problem.src)).astype(np.float32)
        of_channel = rng.uniform(0.01, 0.1, logical(problem)[1]).astype(np.float32)
        images = scale.reshape(-1, *[1] * (problem.src.ndim - 1))
        last = problem.geometry["layout"].endswith("c")
        channels, bias = (x if last else x.reshape(-1, 1, 1) for x in (of_channel, problem.bias))
        expected = sums * (images * channels) + bias
        attributes = Attributes(scales={"src": 1 << 0, "weights": 1 << 0}, zero_points={"src": 0})
        layer = layer_of(problem, np.float32, attributes)
        values = {"scales": {"src": scale, "weights": of_channel}, "zero_points": problem.zero_points}
        assert_same_bits(layer(problem.src, **values), expected, geometry=problem.geometry)


def test_with_a_sum_into_any_strides(isa, rng):
    for problem in problems(rng):
        y = real(problem)
        scale, spread = values_of(1, problem, lambda shape: rng.uniform(-60, 60, shape).astype(np.float32))
        out = np.asfortranarray(rng.integers(0, 256, y.shape, np.uint8))
        expected = stored(reference_quantized.post_ops(y, [Sum(2, 3)], old=out), np.uint8, spread)
        attributes = Attributes(scales={"dst": 1}, zero_points={"src": 0}, post_ops=[Sum(2, 3)])
        values = {"scales": {"dst": scale}, "zero_points": problem.zero_points}
        assert layer_of(problem, np.uint8, attributes, values)(problem.src, out=out) is out
        assert_same_bits(out.copy(order="C"), expected, geometry=problem.geometry)


def test_rows_of_a_source_with_more_dimensions(isa, rng):
    src, weights = rng.integers(0, 256, (2, 3, 20), np.uint8), rng.integers(-128, 128, (5, 20), np.int8)
    scale = rng.uniform(20, 60, 6).astype(np.float32)
    layer = int8blas.InnerProduct(
        weights, src_dtype=np.uint8, dst_dtype=np.int8, attributes=Attributes(scales={"dst": 1}), scales={"dst": scale}
    )
    sums = (src.astype(np.int64) @ weights.T).astype(np.float32)
    assert_same_bits(layer(src), stored(sums, np.int8, scale.reshape(2, 3, 1)))


def test_nan_is_the_zero_point_of_its_element(isa, rng):
    zero = rng.integers(-100, 100, (4, 5))
    attributes = Attributes(
        scales={"dst": 3}, zero_points={"dst": 3}, post_ops=[Eltwise("linear", -1, -1), Eltwise("sqrt")]
    )
    layer = int8blas.InnerProduct(
        np.ones((5, 3), np.int8), src_dtype=np.uint8, dst_dtype=np.int8, attributes=attributes
    )
    values = {"scales": {"dst": np.ones((4, 5))}, "zero_points": {"dst": zero}}
    assert_same_bits(layer(np.ones((4, 3), np.uint8), **values), zero.astype(np.int8))


# --- errors ----------------------------------------------------------------------------------------------------------

W, IMAGES = np.ones((5, 3), np.int8), np.ones((5, 3, 1, 1), np.int8)


def call(attributes, values, out):
    layer = int8blas.InnerProduct(W, src_dtype=np.uint8, dst_dtype=np.int8, attributes=Attributes(**attributes))
    return layer(np.ones((4, 3), np.uint8), out=out, **values)


@pytest.mark.parametrize(("attributes", "values", "error", "text"), [
    ({"scales": {"dst": 4}}, {}, ValueError, "scales['dst'] must have the mask of dimensions of the destination"),
    ({"output_scales": (4, [1.0])}, {}, ValueError, "output_scales must have a mask of 2 dimensions, got 4"),
    ({"scales": {"dst": 1}}, {"scales": {"dst": [1.0, 2.0]}}, ValueError, "scales['dst'] must be one number or 4"),
    ({"scales": {"dst": 3}}, {"scales": {"dst": np.ones((5, 4))}}, ValueError, "scales['dst'] must be one number or 2"),
    ({"scales": {"dst": 3}}, {"scales": {"dst": np.zeros((4, 5))}}, ValueError, "scales['dst'] must be finite and not"),
    ({"scales": {"dst": 0}}, {"scales": {"dst": np.ones((4, 5))}}, ValueError, "scales['dst'] must be one value"),
    ({"output_scales": (1, [1.0, 2.0])}, {}, ValueError, "output_scales must be one number or 4"),
    ({"zero_points": {"dst": 1}, "scales": {"dst": 0}}, {"zero_points": {"dst": [1] * 5}, "scales": {"dst": 1}},
     ValueError, "zero_points['dst'] must be one number or 4"),
    ({"scales": {"dst": 1}, "requantization": "doubling"}, {}, ValueError,
     "scales['dst'] and zero_points['dst'] must have the mask 0 or 1 << 1 with requantization='doubling'"),
])  # fmt: skip
def test_wrong_values(attributes, values, error, text):
    out = np.full((4, 5), 77, np.int8)
    with pytest.raises(error) as raised:
        call(attributes, values, out)
    assert str(raised.value).startswith(text)
    assert (out == 77).all()


def test_exact_sums_have_a_zero_point_of_columns():
    attributes = Attributes(zero_points={"dst": 1})
    with pytest.raises(ValueError, match=r"^zero_points\['dst'\] must have the mask 0 or 1 << 1 for int32 sums"):
        int8blas.InnerProduct(W, src_dtype=np.uint8, dst_dtype=np.int32, attributes=attributes)


def test_masks_of_images():
    layer = int8blas.Convolution(
        IMAGES, src_dtype=np.uint8, dst_dtype=np.int8, attributes=Attributes(scales={"dst": 12, "src": 1})
    )
    src = np.ones((2, 4, 6, 3), np.uint8)
    for scale in (np.ones((4, 6)), np.ones(math.prod((4, 6)))):
        assert layer(src, scales={"dst": scale, "src": [1, 2]})[:, 0, 0, 0].tolist() == [3, 6]
    with pytest.raises(ValueError, match=r"^scales\['src'\] must be one number or 2"):
        layer(src, scales={"dst": np.ones((4, 6)), "src": [1, 2, 3]})
    with pytest.raises(ValueError, match=r"^scales\['dst'\] must have the mask of dimensions of the dest"):
        int8blas.Convolution(IMAGES, src_dtype=np.uint8, dst_dtype=np.int8, attributes=Attributes(scales={"dst": 16}))
