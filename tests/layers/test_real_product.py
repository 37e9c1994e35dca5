"""RealProduct: the bits of its formula for every shape, instruction set and number of threads."""

import copy
import pickle

import numpy as np
import pytest
from layers import assert_same_bits
from sharing import shared

import int8blas
from int8blas import num_threads
from int8blas.layers.real_product import RealProduct


@shared
def expected(x, weights, scale):
    """A fused multiply-add at a time: all numbers of :func:`problem` are multiples of 2**-26 below 2**26, so that
    float64 holds what a float32 is rounded from."""
    sums = np.zeros((x.shape[0], weights.shape[1]), np.float32)
    for k in range(x.shape[1]):
        sums = (sums.astype(np.float64) + np.outer(x[:, k].astype(np.float64), weights[k])).astype(np.float32)
    return sums * scale


def problem(rng, rows, k, columns):
    x = rng.uniform(1, 2, (rows, k)) * 2.0 ** rng.integers(-3, 4, (rows, k)) * rng.choice([-1, 1], (rows, k))
    weights = rng.integers(-128, 127, (k, columns), endpoint=True).astype(np.int8)
    return x.astype(np.float32), weights, rng.uniform(0.001, 0.1, columns).astype(np.float32)


@pytest.mark.parametrize("columns", [1, 15, 16, 17, 32, 47, 48, 49, 96, 100])
def test_shapes(isa, columns, rng):
    for rows, k in ((1, 1), (2, 3), (3, 4), (4, 5), (5, 70), (6, 16), (7, 8), (8, 9), (9, 513), (17, 33)):
        x, weights, scale = problem(rng, rows, k, columns)
        assert_same_bits(RealProduct(weights, scale)(x), expected(x, weights, scale))


def test_blocks_of_k(isa, rng):
    for k in (511, 512, 1024, 1100):
        x, weights, scale = problem(rng, 3, k, 50)
        assert_same_bits(RealProduct(weights, scale)(x), expected(x, weights, scale))


def test_stacks_scales_and_orders(isa, rng):
    x, weights, _ = problem(rng, 12, 10, 20)
    layer, wanted = RealProduct(weights, 0.5), expected(x, weights, np.full(20, 0.5, np.float32))
    assert_same_bits(layer(x.reshape(3, 4, 10)), wanted.reshape(3, 4, 20))
    assert_same_bits(layer(x[0]), wanted[0])
    assert_same_bits(layer(np.asfortranarray(x)), wanted)
    assert layer(x[:0]).shape == (0, 20)


def test_threads(isa, rng):
    x, weights, scale = problem(rng, 50, 200, 500)
    for threads in (1, 2, 3, 5):
        with num_threads(threads):
            assert_same_bits(RealProduct(weights, scale)(x), expected(x, weights, scale))


def test_what_is_not_finite_stays_in_its_row(isa, rng):
    x, weights, scale = problem(rng, 3, 10, 20)
    wanted = expected(x, weights, scale)
    x = x.copy()
    x[1, 4] = np.nan
    y = RealProduct(weights, scale)(x)
    assert np.isnan(y[1]).all()
    assert_same_bits(y[::2], wanted[::2])


def test_copies_and_files(tmp_path, rng):
    x, weights, scale = problem(rng, 3, 10, 20)
    layer = RealProduct(weights, scale)
    int8blas.save(tmp_path / "product", layer)
    for other in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer)), int8blas.load(tmp_path / "product")):
        assert_same_bits(other(x), layer(x))


def test_errors():
    with pytest.raises(ValueError, match="scale one value or 3"):
        RealProduct(np.ones((2, 3), np.int8), [1, 2])
    with pytest.raises(ValueError, match=r"x must have shape \(\.\.\., 2\), got \(4, 3\)"):
        RealProduct(np.ones((2, 3), np.int8), 1)(np.ones((4, 3), np.float32))
    with pytest.raises(TypeError, match="x must be float32"):
        RealProduct(np.ones((2, 3), np.int8), 1)(np.ones((4, 2), np.int8))
