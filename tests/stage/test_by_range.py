"""quantize_whole: the bytes, scales and zero points of its formulas, for every size, range and number of threads."""

import numpy as np
import pytest
from layers import assert_same_bits
from reference_dynamic_lstm import parameters, quantized

from int8blas import num_threads
from int8blas.stage.by_range import quantize_whole


def check(x):
    y, scale, zero = quantize_whole(x)
    wanted = parameters(x.astype(np.float32))
    assert y.shape == x.shape
    assert_same_bits(np.float32(scale), wanted[0])
    assert zero == wanted[1]
    assert_same_bits(y, quantized(x.astype(np.float32), *wanted).astype(np.uint8))


@pytest.mark.parametrize("shape", [(), (0,), (1,), (15,), (16,), (17,), (31,), (3, 37), (2, 0, 3), (300, 400)])
def test_shapes_and_ranges(isa, shape, rng):
    for scale, shift in ((1, 0), (1, 2), (1, -2), (0, 0), (0, 3), (1e-42, 0), (1e37, 1e37)):
        check(rng.normal(shift, scale, shape).astype(np.float32))


def test_ties(isa):
    check(np.arange(-255, 256, dtype=np.float32) / 2)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_has_no_scale(isa, bad, rng):
    for place in (0, 40, 100):
        x = rng.normal(0, 1, 101).astype(np.float32)
        x[place] = bad
        y, scale, zero = quantize_whole(x)
        assert np.isnan(scale)
        assert zero == 0
        assert not y.any()


def test_types_and_orders(isa, rng):
    x = rng.normal(0, 1, (30, 40)).astype(np.float32)
    for other in (x.T, x[::-1, ::2], x.astype(np.float16)):
        check(other)
    with pytest.raises(TypeError, match="x must be float32"):
        quantize_whole(np.ones(3, np.int8))


def test_threads(isa, rng):
    x = rng.normal(0, 1, 3_000_001).astype(np.float32)
    x[-1] = 7
    for threads in (1, 2, 3):
        with num_threads(threads):
            check(x)
