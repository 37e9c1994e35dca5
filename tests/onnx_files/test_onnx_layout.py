"""Tensors of images keep their channels last in memory, so that the next convolution copies nothing."""

import math

import numpy as np
import pytest
from onnx import parser

import int8blas.onnx
from int8blas.onnx.graph import Node
from int8blas.onnx.operators import TABLE
from int8blas.onnx.table import Site, bind

RNG = np.random.default_rng(3)
F = np.float32


def image(*shape, dtype=np.uint8):
    """Return an image with its channels, the second dimension, last in memory."""
    n, c, *spatial = shape
    return np.moveaxis(RNG.integers(0, 256, (n, *spatial, c)).astype(dtype), -1, 1)


def call(operator, *inputs, constants=(), domain="", **attributes):
    """Run one operator, with constant inputs at some positions."""
    node = Node(operator, domain, tuple(f"i{i}" for i in range(len(inputs))), ("y",), attributes)
    (row,) = [row for row in TABLE.rows[domain, operator] if row.until > 17]
    return bind(row, Site(node, {i: inputs[i] for i in constants}))(*inputs)


def scaled(x, scale, zero, y_scale, y_zero):
    values = np.rint((x.astype(np.int64) - zero) * np.float64(scale) / np.float64(y_scale)) + y_zero
    return values.clip(0, 255).astype(np.uint8)


@pytest.mark.parametrize("fixed", [True, False])
@pytest.mark.parametrize("second", [(0.5, 7), (0.25, 9)], ids=["same", "other"])
@pytest.mark.parametrize("axis", [0, 1, 2, -1])
def test_quantized_parts(axis, second, fixed):
    a, b = image(2, 5, 4, 4), image(2, 5, 4, 4)
    numbers = [F(0.5), np.uint8(7), F(second[0]), np.uint8(second[1])]
    s, z, t, u = map(np.asarray, numbers)
    places = (0, 1, 3, 4, 6, 7) if fixed else ()
    y = call("QLinearConcat", s, z, a, s, z, b, t, u, constants=places, domain="com.microsoft", axis=axis)
    wanted = np.concatenate([a, scaled(b, t, u, s, z)], axis)
    np.testing.assert_array_equal(y, wanted)
    assert y.transpose(0, 2, 3, 1).flags.c_contiguous


def test_parts_and_padding():
    a, b = image(2, 5, 4, 4), image(2, 3, 4, 4)
    y = call("Concat", a, b, axis=1)
    np.testing.assert_array_equal(y, np.concatenate([a, b], 1))
    assert y.transpose(0, 2, 3, 1).flags.c_contiguous
    y = call("Pad", a, np.array([0, 0, 1, 2, 0, 0, 3, 0]), np.array(9, np.uint8))
    np.testing.assert_array_equal(y, np.pad(a, [(0, 0), (0, 0), (1, 3), (2, 0)], constant_values=9))
    assert y.transpose(0, 2, 3, 1).flags.c_contiguous


def test_parts_of_different_shapes_are_refused():
    with pytest.raises(ValueError, match="equal shapes except in dimension 1"):
        call("Concat", image(2, 5, 4, 4), image(2, 5, 4, 5), axis=1)


def test_a_view_of_one_element_of_a_vector():
    """NumPy's index gives a number, which is no array."""
    model = int8blas.onnx.load(parser.parse_model("""
        <ir_version: 8, opset_import: ["": 18]>
        network (int64[n] x) => (int64[1, 1] y) <int64 second = {1}, int64[1] axes = {0}> {
            number = Gather(x, second)
            vector = Unsqueeze(number, axes)
            y = Unsqueeze(vector, axes)
        }"""))  # fmt: skip
    for size in (3, 4):
        (y,) = model.run(None, {"x": np.arange(size) + 7})
        np.testing.assert_array_equal(y, [[8]])


def test_erf_errs_by_two_units_in_the_last_place_in_any_layout():
    rng = np.random.default_rng(0)
    x = (rng.normal(0, 2, (2, 30, 16, 24)) * 10.0 ** rng.integers(-20, 1, (2, 30, 16, 24))).astype(np.float32)
    x.flat[:6] = [0, -0.0, np.inf, -np.inf, np.nan, 4]
    wanted = np.vectorize(math.erf)(x.astype(np.float64))
    for each in (x, np.ascontiguousarray(x.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)):
        with np.errstate(all="ignore"):
            y = call("Erf", each)
        assert y.strides == each.strides
        np.testing.assert_array_equal(np.isnan(y), np.isnan(x))
        np.testing.assert_array_equal(np.signbit(y), np.signbit(x))
        error = np.abs(y - wanted) / np.spacing(np.abs(wanted.astype(np.float32)))
        assert np.nanmax(error) < 2.5
