"""Convolutions of floats have the bits of a float32 product and a sum; depthwise convolutions have the bits of NumPy's
operations, rounded one at a time."""

import itertools

import numpy as np
import pytest
from arrays import between_guards, needs_mprotect
from layers import assert_same_bits

from int8blas import num_threads
from int8blas.layers.real_convolution import real_convolution
from int8blas.layers.real_product import real_matmul
from int8blas.onnx.graph import Node
from int8blas.onnx.table import Site
from int8blas.onnx.windows import all_windows, conv, padded, windows

# Four elements of a channel, two apart.
WAY = {"strides": [1], "dilations": [2], "before": [0]}


def floats(rng, *shape):
    return rng.normal(0, 1, shape).astype(np.float32)


def filtered(image, weights, count, **given):
    return real_convolution(image, weights[:, None], **(WAY | given), outputs=[count], groups=len(weights))


def expected(image, weights, count):
    y = np.zeros((*image.shape[:-1], count), np.float32)
    for t in range(4):
        y += weights[:, t : t + 1] * image[..., 2 * t : 2 * t + count]
    return y


@pytest.mark.parametrize("count", [*range(20), 31, 33, 63, 64, 65, 100, 130])
def test_counts(isa, count, rng):
    image, weights = floats(rng, 2, 3, count + 6), floats(rng, 3, 4)
    assert_same_bits(filtered(image, weights, count), expected(image, weights, count))


@needs_mprotect
@pytest.mark.parametrize("count", [5, 16, 21, 64, 75])
@pytest.mark.parametrize("side", ["start", "end"])
@pytest.mark.parametrize("alone", [True, False])
def test_channels_beside_protected_memory(isa, side, count, alone, rng):
    """Windows reach beyond the image, whose elements alone are read."""
    image, weights = floats(rng, 2, 3, count + 6), floats(rng, 3, 4)
    copy = between_guards(side, image)
    if alone:
        y = filtered(copy, weights, count + 5, before=[2])
        assert_same_bits(y, expected(np.pad(image, [(0, 0), (0, 0), (2, 3)]), weights, count + 5))
    else:
        filters = weights[:, None] * np.float32([1, 2, 3])[:, None]
        y = real_convolution(copy, filters, **WAY | {"before": [2]}, outputs=[count + 5])
        whole = np.pad(image, [(0, 0), (0, 0), (2, 3)])
        assert_same_bits(y, real_convolution(whole, filters, **WAY, outputs=[count + 5]))


def test_threads_divide_the_channels(rng):
    image, weights = floats(rng, 3, 50, 5000), floats(rng, 50, 4)
    with num_threads(4):
        y = filtered(image, weights, 4990)
    assert_same_bits(y, expected(image, weights, 4990))


def test_wrong_arguments_are_errors(rng):
    image, weights = floats(rng, 1, 3, 10), floats(rng, 3, 4)
    with pytest.raises(ValueError, match=r"weights must fit an image of shape \(1, 3, 10\) in 2 groups, got"):
        filtered(image, weights[:2], 3)
    for name, values, message in (
        ("strides", [1, 1], "must have 1 numbers each"), ("strides", [0], "strides and dilations must be at least 1"),
        ("dilations", [-1], "strides and dilations must be at least 1"), ("before", [], "must have 1 numbers each"),
        ("bias", floats(rng, 2), r"bias must have shape \(3,\), got \(2,\)"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=message):
            filtered(image, weights, 3, **{name: values})
    with pytest.raises(ValueError, match="outputs at least 0"):
        filtered(image, weights, -1)


@pytest.mark.parametrize("seed", range(40))
def test_windows_are_multiplied_in_their_order(isa, seed):
    """The bits equal the bits of a product with the matrix of windows, plus the bias."""
    rng = np.random.default_rng(seed)
    dims, groups, channels = int(rng.integers(1, 4)), int(rng.integers(1, 4)), int(rng.integers(2, 4))
    kernel, strides, dilations = (rng.integers(1, high, dims).tolist() for high in (5, 4, 3))
    pads = rng.integers(0, 3, 2 * dims).tolist()
    spatial = [int(d * (k - 1) + rng.integers(1, 14)) for k, d in zip(kernel, dilations, strict=True)]
    x, w = floats(rng, 2, groups * channels, *spatial), floats(rng, groups * 2, channels, *kernel)
    if seed % 3 == 0:  # channels last in memory
        x = np.moveaxis(np.ascontiguousarray(np.moveaxis(x, 1, -1)), -1, 1)
    bias = floats(rng, groups * 2)
    at = windows(spatial, kernel, strides, pads, dilations, "NOTSET")
    matrix = all_windows(padded(x, at.padding), at).reshape(2, groups, w[0].size, -1)
    wanted = real_matmul(w.reshape(groups, 2, -1), matrix).reshape(2, groups * 2, *at.outputs)
    y = real_convolution(x, w, bias, strides=strides, dilations=dilations, before=pads[:dims], outputs=at.outputs,
                         groups=groups)  # fmt: skip
    assert_same_bits(y, wanted + bias.reshape(-1, *[1] * dims))


@pytest.mark.parametrize("seed", range(30))
def test_depthwise_convolutions(isa, seed):
    rng = np.random.default_rng(seed)
    dims, channels = int(rng.integers(1, 4)), int(rng.integers(1, 6))
    kernel, strides, dilations = (rng.integers(1, high, dims).tolist() for high in (5, 4, 3))
    pads = rng.integers(0, 3, 2 * dims).tolist()
    spatial = [int(d * (k - 1) + rng.integers(1, 14)) for k, d in zip(kernel, dilations, strict=True)]
    x, w = floats(rng, 2, channels, *spatial), floats(rng, channels, 1, *kernel)
    at = windows(spatial, kernel, strides, pads, dilations, "NOTSET")
    image = padded(x, at.padding)
    wanted = np.zeros((2, channels, *at.outputs), np.float32)
    for tap in itertools.product(*map(range, kernel)):
        index = [slice(t * d, t * d + (n - 1) * s + 1, s)
                 for t, d, n, s in zip(tap, dilations, at.outputs, strides, strict=True)]  # fmt: skip
        wanted += w[(slice(None), 0, *tap)].reshape(-1, *[1] * dims) * image[(..., *index)]
    site = Site(Node("Conv", "", ("x", "w"), ("y",)))
    y = conv(site, strides=strides, dilations=dilations, pads=pads, group=channels)(x, w)
    assert_same_bits(y, wanted)


def test_windows_of_many_channels_are_multiplied_in_blocks(isa, rng):
    """With 60 channels of 9 taps, k has two blocks, and 20 filters have several tiles of rows."""
    x, w = floats(rng, 1, 60, 9, 11), floats(rng, 20, 60, 3, 3)
    at = windows([9, 11], [3, 3], [1, 1], [1, 1, 1, 1], [1, 1], "NOTSET")
    wanted = real_matmul(w.reshape(20, -1), all_windows(padded(x, at.padding), at).reshape(540, -1))
    y = real_convolution(x, w, strides=[1, 1], dilations=[1, 1], before=[1, 1], outputs=[9, 11])
    np.testing.assert_array_equal(y, wanted.reshape(1, 20, 9, 11))
