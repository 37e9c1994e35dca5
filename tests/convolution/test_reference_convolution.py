"""Tests of the convolution oracles against their definitions, element by element, in Python integers."""

from itertools import product

import numpy as np
import pytest
import reference
import reference_convolution
from scipy import signal

# (source without n and c, kernel, strides, padding, dilation, output_padding)
GEOMETRIES = (
    ((7,), (3,), 1, 0, 1, 0),
    ((7,), (3,), 2, [(2, 1)], 2, 1),
    ((5, 4), (2, 3), (2, 1), [(0, 3), (2, 0)], (1, 2), (1, 0)),
    ((4, 5), (1, 2), 3, 1, 3, 2),
    ((3, 2, 4), (2, 1, 3), (1, 2, 3), [(1, 0), 2, (0, 1)], (2, 1, 1), (0, 1, 2)),
)
# (groups, ic / g, oc / g)
CHANNELS = ((1, 1, 1), (1, 3, 2), (2, 2, 3), (3, 1, 2))

every_geometry = pytest.mark.parametrize("geometry", GEOMETRIES, ids=str)
every_channels = pytest.mark.parametrize("channels", CHANNELS, ids=str)


def values(rng, size, channels, kernel):
    """A source, with its channels last, and weights."""
    groups, ic, oc = channels
    src = rng.integers(0, 256, (2, *size, groups * ic), np.uint8)
    return src, rng.integers(-128, 128, (groups, oc, ic, *kernel), np.int8)


def terms(shape, kernel, strides, padding, dilation):
    """Every (o, k, i) with i = o stride + k dilation - before in all dimensions; `shape` has the number of o in each
    dimension."""
    spatial = len(kernel)
    strides, dilation = (reference_convolution.per_dimension(value, spatial) for value in (strides, dilation))
    before = [one for one, _ in reference_convolution.before_and_after(padding, spatial)]
    for o, k in product(np.ndindex(*shape), np.ndindex(*kernel)):
        i = tuple(p * s + t * d - b for p, s, t, d, b in zip(o, strides, k, dilation, before, strict=True))
        yield o, k, i


def product_of(src, weights, n, group, oc, i, k, zero_point):
    """The sum over the channels of a group at one pixel of the source."""
    ic = weights.shape[2]
    pixel = src[n, *i, group * ic : (group + 1) * ic].tolist()
    return sum((x - zero_point) * w for x, w in zip(pixel, weights[group, oc, :, *k].tolist(), strict=True))


@every_geometry
@every_channels
def test_convolution_is_its_definition(geometry, channels, rng):
    size, kernel, strides, padding, dilation, _ = geometry
    src, weights = values(rng, size, channels, kernel)
    result = reference_convolution.convolution(
        src, weights, dst_dtype=np.int32, strides=strides, padding=padding, dilation=dilation, groups=channels[0],
        zero_points={"src": 7},
    )  # fmt: skip
    expected = np.zeros(result.shape, np.int32)
    for (o, k, i), n, (group, oc) in product(
        terms(result.shape[1:-1], kernel, strides, padding, dilation), range(2), np.ndindex(*weights.shape[:2])
    ):
        if all(0 <= at < limit for at, limit in zip(i, size, strict=True)):
            expected[n, *o, group * weights.shape[1] + oc] += product_of(src, weights, n, group, oc, i, k, 7)
    np.testing.assert_array_equal(result, expected)


@every_geometry
@every_channels
def test_deconvolution_is_its_definition(geometry, channels, rng):
    size, kernel, strides, padding, dilation, output_padding = geometry
    src, weights = values(rng, size, channels, kernel)
    result = reference_convolution.convolution(
        src, weights, dst_dtype=np.int32, strides=strides, padding=padding, dilation=dilation, groups=channels[0],
        zero_points={"src": 7}, output_padding=output_padding,
    )  # fmt: skip
    expected = np.zeros(result.shape, np.int32)
    # The roles of source and destination are exchanged.
    for (i, k, o), n, (group, oc) in product(
        terms(size, kernel, strides, padding, dilation), range(2), np.ndindex(*weights.shape[:2])
    ):
        if all(0 <= at < limit for at, limit in zip(o, result.shape[1:-1], strict=True)):
            expected[n, *o, group * weights.shape[1] + oc] += product_of(src, weights, n, group, oc, i, k, 7)
    np.testing.assert_array_equal(result, expected)


@every_geometry
@pytest.mark.parametrize("groups", [1, 2, 4])
def test_im2col_is_its_definition(geometry, groups, rng):
    size, kernel, strides, padding, dilation, _ = geometry
    src = rng.integers(0, 256, (2, *size, 4), np.uint8)
    arguments = {"strides": strides, "padding": padding, "dilation": dilation, "groups": groups}
    rows = reference_convolution.im2col(src, kernel, **arguments, padding_value=9)
    seen = reference_convolution.windows(src, kernel, strides, padding, dilation, 9)
    out = seen.shape[1:-2]
    expected = np.full((groups, 2, *out, *kernel, 4 // groups), 9, np.uint8)
    for (o, k, i), group in product(terms(out, kernel, strides, padding, dilation), range(groups)):
        if all(0 <= at < limit for at, limit in zip(i, size, strict=True)):
            expected[group, :, *o, *k] = src[:, *i, group * (4 // groups) : (group + 1) * (4 // groups)]
    expected = expected.reshape(groups, 2 * int(np.prod(out)), int(np.prod(kernel)) * (4 // groups))
    np.testing.assert_array_equal(rows, expected if groups > 1 else expected[0])
    layout = "nc" + "dhw"[3 - len(size) :]
    first = reference_convolution.im2col(np.moveaxis(src, -1, 1), kernel, **arguments, layout=layout, padding_value=9)
    np.testing.assert_array_equal(first, rows)


@pytest.mark.parametrize("size", [(9,), (6, 7), (4, 5, 6)], ids=str)
def test_sums_are_those_of_scipy(size, rng):
    src, weights = values(rng, size, (1, 3, 2), (3, 2, 3)[: len(size)])
    differences = np.moveaxis(src.astype(float) - 5, -1, 1)
    for name, function, extra in (("convolution", signal.correlate, None), ("deconvolution", signal.convolve, 0)):
        result = reference_convolution.convolution(
            src, weights, dst_dtype=np.float32, zero_points={"src": 5}, output_padding=extra
        )
        mode = "valid" if extra is None else "full"
        expected = [
            [sum(function(image[c], w[c].astype(float), mode) for c in range(3)) for w in weights[0]]
            for image in differences
        ]
        np.testing.assert_array_equal(result, np.moveaxis(np.array(expected), 1, -1), err_msg=name)


@pytest.mark.parametrize(("src", "weights", "expected"), [
    ([127, 127, 0, 0], [127, 127, 0, 0], 2 * (2 * 127 * 64)),
    ([-128, -128, 0, 0], [-128, -128, 1, 3], 2 * (2 * 128 * 64)),
    ([1, 1, 1, 1], [1, 3, 5, 7], 2 * (0 + 2 + 2 + 4)),
    ([0, 1, 0, 1], [-1, -3, -5, -7], 2 * (-2 - 4)),
])  # fmt: skip
def test_saturating_numerics_halve_the_weights_of_a_signed_source(src, weights, expected):
    src, weights = np.array([[src]], np.int8), np.array(weights, np.int8)[np.newaxis, :, np.newaxis]
    result = reference_convolution.convolution(src, weights, dst_dtype=np.int32, numerics="saturating")
    assert result.item() == expected


def test_saturating_numerics_saturate_pairs_of_an_unsigned_source():
    """k runs over the kernel, and over the channels at each tap."""
    src = np.array([[[255, 0, 255], [255, 0, 255]]], np.uint8)
    weights = np.full((1, 3, 2), 127, np.int8)
    result = reference_convolution.convolution(src, weights, dst_dtype=np.int32, numerics="saturating")
    assert result.item() == 255 * 127 + 32767 + 255 * 127
    groups = reference_convolution.convolution(
        src, weights.reshape(3, 1, 2), dst_dtype=np.int32, numerics="saturating", groups=3
    )
    assert groups.ravel().tolist() == [32767, 0, 32767]


@pytest.mark.parametrize("src_dtype", [np.uint8, np.int8])
def test_halved_weights_do_not_saturate(src_dtype, rng):
    rows = rng.choice(np.array([np.iinfo(src_dtype).min, np.iinfo(src_dtype).max], src_dtype), (50, 8))
    weights = reference_convolution.halved(rng.choice(np.array([-128, 127]), (9, 8))).astype(np.int8)
    assert len(reference.saturated_pairs(rows, weights.T)) == 0
    exact = reference.exact_product(rows, weights, 3, trans_b=True)
    np.testing.assert_array_equal(reference.saturating_product(rows, weights, 3, trans_b=True), exact)


def test_channels_first_is_the_transpose(rng):
    src, weights = values(rng, (5, 6), (2, 3, 2), (3, 2))
    last = reference_convolution.convolution(src, weights, dst_dtype=np.int32, groups=2, padding=1, layout="nhwc")
    for shaped in (weights, weights.reshape(4, 3, 3, 2)):
        first = reference_convolution.convolution(
            np.moveaxis(src, -1, 1), shaped, dst_dtype=np.int32, groups=2, padding=1, layout="nchw"
        )
        np.testing.assert_array_equal(np.moveaxis(first, 1, -1), last)
