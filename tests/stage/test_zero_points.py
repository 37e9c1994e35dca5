"""Zero points of source and weights beyond the ranges of their types, in exact sums of up to 62 bits."""

import io
import pickle
from itertools import product

import numpy as np
import pytest
from convolutions import LAYOUTS, random_convolution
from layers import DST_DTYPES, FEW_LAYERS, assert_same_bits, name_of, random_problem, sign_pairs

import int8blas
from int8blas import Attributes, ReLU, Sum

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


# Size, kernel, channels of source and destination, groups, geometry: general, lines, depthwise, groups, 1 x 1, 1-D.
IMAGES = (
    ((5, 6), (3, 3), 20, 12, 2, {"padding": 1}),
    ((6, 7), (3, 3), 3, 20, 1, {"padding": ((2, 0), (1, 3)), "strides": 2}),
    ((6, 7), (3, 2), 18, 18, 18, {"padding": 1, "dilation": 2}), ((6, 9), (3, 3), 32, 32, 8, {"padding": 2}),
    ((4, 5), (1, 1), 33, 70, 1, {}), ((30,), (5,), 3, 17, 1, {"padding": 2, "strides": 3}),
)  # fmt: skip


def far_zeros(rng, oc):
    """Zero points beyond bytes: of the source, of the weights, of both."""
    columns = rng.integers(-(2**20), 2**20, oc)
    return ({"src": -200}, {"src": MOST}, {"weights": LEAST}, {"weights": columns}, {"src": -1000, "weights": columns},
            {"src": LEAST, "weights": 3}, {"src": 7, "weights": 300})  # fmt: skip


@pytest.mark.parametrize("transposed", [False, True], ids=["convolution", "deconvolution"])
@pytest.mark.parametrize(("src_dtype", "weights_dtype"), list(sign_pairs()), ids=name_of)
def test_images(isa, src_dtype, weights_dtype, transposed, rng):
    for size, kernel, ic, oc, groups, geometry in IMAGES:
        for zeros, layout in product(far_zeros(rng, oc), LAYOUTS[len(size)]):
            chains = ((np.int8, "f32", ()), (np.float32, "s32", (ReLU(), Sum(0.5))), (np.int32, "s32", ()))
            for dst_dtype, bias, ops in chains:
                scales = () if dst_dtype == np.int32 else ("src", "weights", "dst")
                problem = random_convolution(
                    rng, size, kernel, ic, oc, n=2, groups=groups, layout=layout, transposed=transposed, ops=ops,
                    src_dtype=src_dtype, weights_dtype=weights_dtype, dst_dtype=dst_dtype, bias=bias, scales=scales,
                    **geometry,
                ).but(zero_points=zeros)  # fmt: skip
                problem.check(zeros=zeros)


def test_images_with_a_zero_point_in_each_call(rng):
    problem = random_convolution(rng, (6, 7), (3, 3), 3, 20, n=2, padding=1, zero_points=("src",), dst_dtype=np.float32)
    layer = problem.layer(False)
    for zero in (3, -5, 256, 2**20, 255):
        changed = problem.but(zero_points={"src": zero})
        assert_same_bits(changed.run(layer, False), changed.expected(), zero=zero)


def test_copies_of_layers_with_zero_points_of_weights(rng):
    problem = random_convolution(rng, (6, 7), (3, 3), 18, 36, groups=18, padding=1, n=2, transposed=True, strides=2)
    problem = problem.but(zero_points={"src": -3, "weights": rng.integers(-(2**20), 2**20, 36)})
    layer, file = problem.layer(), io.BytesIO()
    int8blas.save(file, layer)
    file.seek(0)
    for other in (pickle.loads(pickle.dumps(layer)), int8blas.load(file)):
        assert_same_bits(problem.run(other), problem.expected())


def test_dynamic_images(isa, rng):
    weights, x = rng.integers(-128, 128, (12, 5, 3, 3), np.int8), rng.normal(0, 1, (2, 6, 7, 5)).astype(np.float32)
    for dynamic_dtype, zero in product((np.uint8, np.int8), (-129, 1000)):
        layer = int8blas.Convolution.dynamic(
            weights, scales={"weights": 0.01}, zero_points={"weights": zero}, padding=1, dynamic_dtype=dynamic_dtype
        )
        wide = int8blas.Convolution.dynamic(weights, scales={"weights": 0.01}, padding=1, dynamic_dtype=dynamic_dtype)
        ones = int8blas.Convolution.dynamic(
            np.ones_like(weights), scales={"weights": 0.01}, padding=1, dynamic_dtype=dynamic_dtype
        )
        np.testing.assert_allclose(layer(x), wide(x) - zero * ones(x), rtol=1e-4, atol=abs(zero) * 1e-4)


def test_images_that_are_refused():
    weights = np.ones((3, 8, 1, 1), np.int8)
    options = {"src_dtype": np.uint8, "dst_dtype": np.float32}
    layer = int8blas.Convolution(
        weights, numerics="saturating", attributes=Attributes(zero_points={"src": 0}), **options
    )
    out = np.full((1, 2, 2, 3), 7, np.float32)
    with pytest.raises(ValueError, match=r"^zero_points must be in the ranges of their types with numerics"):
        layer(np.ones((1, 2, 2, 8), np.uint8), zero_points={"src": 256}, out=out)
    assert (out == 7).all()
    with pytest.raises(ValueError, match=r"^zero_points must .* windows of more than 33025 elements, got .* 33026$"):
        int8blas.Convolution(np.ones((1, 33026, 1, 1), np.int8), zero_points={"src": 256}, **options)
