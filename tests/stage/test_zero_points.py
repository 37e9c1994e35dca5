"""Zero points of source and weights beyond the ranges of their types, in exact sums of up to 62 bits."""

from itertools import product

import numpy as np
import pytest
from layers import DST_DTYPES, FEW_LAYERS, name_of, random_problem, sign_pairs

import int8blas
from int8blas import Attributes, ReLU

LEAST, MOST = -(2**31), 2**31 - 1
every_dst = pytest.mark.parametrize("dst_dtype", DST_DTYPES, ids=name_of)
PAIRS = [
    {"src": -200}, {"src": 256}, {"src": LEAST}, {"src": MOST}, {"weights": -1000}, {"weights": LEAST},
    {"weights": MOST}, {"src": -200, "weights": 300}, {"src": LEAST, "weights": -129}, {"src": MOST, "weights": 2**20},
]  # fmt: skip
every_pair = pytest.mark.parametrize("zeros", PAIRS, ids=str)


@every_pair
@every_dst
def test_numbers(isa, zeros, dst_dtype, rng):
    shapes = (*FEW_LAYERS, (1, 64, 64), (3, 200, 40), (40, 5, 3), (2, 9, 1), (130, 70, 1030))
    for (src_dtype, weights_dtype), shape in product(sign_pairs(), shapes):
        for ops, scales in (((ReLU(),), ("src", "weights", "dst")), ((), ())):
            problem = random_problem(
                rng, *shape, src_dtype, weights_dtype, dst_dtype, ops=ops, scales=scales, bias="s32"
            ).but(zero_points=zeros)
            problem.check(zeros=zeros)
            problem.check(False, zeros=zeros)


@every_dst
def test_vectors(isa, dst_dtype, rng):
    for (src_dtype, weights_dtype), (m, n, k) in product(sign_pairs(), (*FEW_LAYERS, (1, 64, 64), (70, 33, 200))):
        problem = random_problem(rng, m, n, k, src_dtype, weights_dtype, dst_dtype, vectors=("src", "weights"))
        rows, columns = (rng.integers(LEAST, MOST, size, endpoint=True) for size in (m, n))
        both = {"src": rows, "weights": columns >> 12}
        for zeros in ({"src": rows}, {"weights": columns}, both, {"src": rows, "weights": 5}):
            for at_creation in (True, False):
                problem.but(zero_points=zeros).check(at_creation, zeros=tuple(zeros))


def test_integer_requantization(isa, rng):
    src, weights = rng.integers(0, 256, (9, 40), np.uint8), rng.integers(-128, 128, (20, 40), np.int8)
    sums = np.clip((src.astype(np.int64) + 10**6) @ weights.T, LEAST, MOST).astype(np.int32)
    for scheme in ("doubling", "single"):
        layer = int8blas.InnerProduct(
            weights, src_dtype=np.uint8, dst_dtype=np.int8, attributes=Attributes(requantization=scheme),
            scales={"src": 2e-8}, zero_points={"src": -(10**6)},
        )  # fmt: skip
        assert np.array_equal(layer(src), int8blas.requantize(sums, np.float64(np.float32(2e-8)), scheme=scheme))


def test_sums_beyond_62_bits_are_refused():
    layer = int8blas.InnerProduct(
        np.ones((3, 8), np.int8), src_dtype=np.uint8, dst_dtype=np.float32,
        attributes=Attributes(zero_points={"src": 0, "weights": 0}),
    )  # fmt: skip
    out = np.full((1, 3), 7, np.float32)
    text = r"^zero_points\['src'\] and zero_points\['weights'\] must give sums of less than 2\*\*62, got 8 products"
    with pytest.raises(ValueError, match=text):
        layer(np.ones((1, 8), np.uint8), zero_points={"src": LEAST, "weights": LEAST}, out=out)
    assert (out == 7).all()


@pytest.mark.parametrize("value", [2**31, LEAST - 1, 0.5, None, [1, 2]])
@pytest.mark.parametrize("tensor", ["src", "weights"])
def test_wrong_zero_points(tensor, value):
    with pytest.raises((TypeError, ValueError), match=rf"^zero_points\['{tensor}'\] must "):
        int8blas.InnerProduct(
            np.ones((3, 8), np.int8), src_dtype=np.uint8, dst_dtype=np.float32, zero_points={tensor: value}
        )(np.ones((1, 8), np.uint8))


@pytest.mark.parametrize("zero", [256, -1])
def test_convolutions_have_zero_points_of_their_types(zero):
    text = rf"^zero_points\['src'\] must be between 0 and 255, the range of uint8, got {zero}"
    with pytest.raises(ValueError, match=text):
        int8blas.Convolution(
            np.ones((3, 8, 1, 1), np.int8), src_dtype=np.uint8, dst_dtype=np.float32, zero_points={"src": zero}
        )
