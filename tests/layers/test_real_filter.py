"""real_filter, and depthwise convolutions of floats: the bits of NumPy's products and sums, each rounded separately."""

import itertools

import numpy as np
import pytest
from arrays import between_guards, needs_mprotect
from layers import assert_same_bits

from int8blas import num_threads
from int8blas.layers.real_filter import real_filter
from int8blas.onnx.windows import conv, padded, windows

OFFSETS = [0, 3, 1, 7]


def floats(rng, *shape):
    return rng.normal(0, 1, shape).astype(np.float32)


def expected(image, weights, offsets, count):
    y = np.zeros((*image.shape[:-1], count), np.float32)
    for t, offset in enumerate(offsets):
        y += weights[:, t : t + 1] * image[..., offset : offset + count]
    return y


@pytest.mark.parametrize("count", [*range(20), 31, 33, 63, 64, 65, 100, 130])
def test_counts(isa, count, rng):
    image, weights = floats(rng, 2, 3, count + 7), floats(rng, 3, 4)
    assert_same_bits(real_filter(image, weights, OFFSETS, count), expected(image, weights, OFFSETS, count))


@needs_mprotect
@pytest.mark.parametrize("count", [5, 16, 21, 64, 75])
@pytest.mark.parametrize("side", ["start", "end"])
def test_channels_beside_protected_memory(isa, side, count, rng):
    image, weights = floats(rng, 2, 3, count + 7), floats(rng, 3, 4)
    y = real_filter(between_guards(side, image), weights, OFFSETS, count)
    assert_same_bits(y, expected(image, weights, OFFSETS, count))


def test_threads_divide_the_channels(rng):
    image, weights = floats(rng, 3, 50, 5000), floats(rng, 50, 4)
    with num_threads(4):
        y = real_filter(image, weights, OFFSETS, 4990)
    assert_same_bits(y, expected(image, weights, OFFSETS, 4990))


def test_wrong_arguments_are_errors(rng):
    image, weights = floats(rng, 3, 10), floats(rng, 3, 4)
    with pytest.raises(ValueError, match=r"weights must have shape \(3, taps\), got \(2, 4\)"):
        real_filter(image, weights[:2], OFFSETS, 3)
    for offsets, count in (([0, 1, 2], 3), ([0, 1, 2, -1], 3), ([0, 1, 2, 8], 3), (OFFSETS, -1)):
        with pytest.raises(ValueError, match="offsets must be 4 numbers from 0 to"):
            real_filter(image, weights, offsets, count)


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
    y = conv(x, w, strides=strides, dilations=dilations, pads=pads, group=channels)
    assert_same_bits(y, wanted)
