"""Layers with int32 results and only integers in their formula: integer arithmetic, saturated once, on every path."""

from itertools import product

import numpy as np
import pytest
from arrays import WITH_MATRIX_UNIT, random_values
from convolutions import random_convolution
from layers import LAYER_SHAPES, SRC_DTYPES, Problem, assert_same_bits, name_of, random_problem, sign_pairs
from sharing import shared

import int8blas
from int8blas import Attributes, Convolution, InnerProduct, ReLU

INT32 = np.iinfo(np.int32)
EXACT = {"dst_dtype": np.int32, "scales": ()}
TENSORS = ("src", "weights", "dst")

# Path in the output of `explain` -> a convolution that takes it: size, kernel, channels, further arguments.
PATHS = {
    "blocks": ((9, 9), (1, 1), 70, 33, {}),
    "lines": ((9, 9), (3, 3), 40, 50, {"padding": 1}),
    "lines by groups": ((9, 9), (3, 3), 64, 64, {"padding": 1, "groups": 4}),
    "depthwise": ((9, 9), (3, 3), 70, 70, {"padding": 1, "groups": 70}),
    "depthwise with stride": ((9, 9), (3, 3), 64, 64, {"padding": 1, "groups": 64, "strides": 2}),
    "groups": ((9, 9), (3, 3), 64, 64, {"padding": 1, "groups": 16}),
}

every_path = pytest.mark.parametrize("name", PATHS)


def large(rng, kind, shape):
    """Offsets that float32 cannot represent."""
    return rng.integers(-(2**30), 2**30, shape, np.int32) | 1 if kind else None


@shared
def integers(problem):
    """The result in Python's integers, saturated."""
    src, weights = problem.src.astype(object), problem.weights.astype(object)
    zero_points = {tensor: np.asarray(value).astype(object) for tensor, value in problem.zero_points.items()}
    sums = (src - zero_points.get("src", np.array(0, object)).reshape(-1, 1)) @ (
        weights - zero_points.get("weights", np.array(0, object)).reshape(-1, 1)
    ).T
    total = sums + zero_points.get("dst", 0) + (0 if problem.bias is None else problem.bias.astype(object))
    return np.clip(total, INT32.min, INT32.max).astype(np.int32)


def test_a_sum_beyond_the_digits_of_float32(isa):
    src, weights = np.full((1, 4608), 255, np.uint8), np.full((1, 4608), 127, np.int8)
    weights[0, 0] = 126
    wanted = 149_229_825
    assert int(np.float32(wanted)) == wanted - 1
    assert InnerProduct(weights, src_dtype=np.uint8, dst_dtype=np.int32)(src) == wanted
    assert Convolution(weights[..., None, None], src_dtype=np.uint8, dst_dtype=np.int32)(src[:, None, None]) == wanted


@pytest.mark.parametrize("with_bias", [False, True])
@pytest.mark.parametrize("vectors", [(), TENSORS], ids=["values", "vectors"])
def test_inner_products_with_every_zero_point(isa, with_bias, vectors, rng):
    for (src_dtype, weights_dtype), (m, n, k) in product(sign_pairs(), (*LAYER_SHAPES, (20, 5, 1100), (300, 50, 70))):
        problem = random_problem(
            rng, m, n, k, src_dtype, weights_dtype, bias=None, zero_points=TENSORS, vectors=vectors, **EXACT
        ).but(bias=large(rng, with_bias, n))  # fmt: skip
        assert_same_bits(problem.expected(), integers(problem))
        problem.check(at_creation=True)
        problem.check(at_creation=False)


def test_zero_points_and_bias_beyond_int32_together(isa, rng):
    """Both are added to the sum before it saturates, even if their own sum for a column exceeds int32."""
    for (m, n, k), sign in product(((5, 33, 40), (1, 50, 7), (70, 20, 66_000)), (1, -1)):
        problem = random_problem(rng, m, n, k, bias=None, zero_points=("src",), **EXACT)
        for bias, zero in product((None, INT32.max - 5, large(rng, True, n)), (INT32.max, large(rng, True, n))):
            bias = None if bias is None else np.full(n, bias, np.int32) * sign
            zero_points = problem.zero_points | {"dst": zero * sign}
            one = problem.but(bias=bias, zero_points=zero_points)
            assert_same_bits(one.result(), integers(one) if k < 1000 else one.expected(), k=k)


def test_a_zero_point_of_nothing_leaves_the_bias(isa, rng):
    for (m, n, k), with_bias in product(((5, 33, 40), (1, 50, 7)), (False, True)):
        problem = random_problem(rng, m, n, k, bias=None, zero_points=("src",), **EXACT)
        problem = problem.but(bias=large(rng, with_bias, n))
        for zeros in (0, np.zeros(n, np.int64)):
            one = problem.but(zero_points=problem.zero_points | {"dst": zeros})
            assert_same_bits(one.expected(), integers(problem))
            one.check(at_creation=True)
            one.check(at_creation=False)


@pytest.mark.parametrize("k", [65_793, 66_100, 140_000])
def test_sums_beyond_int32_saturate_once(isa, k, rng):
    src = np.full((3, k), 255, np.uint8)
    src[1], src[2] = 0, random_values(rng, np.uint8, k)
    weights = np.full((4, k), -128, np.int8)
    weights[1], weights[2] = 127, random_values(rng, np.int8, k)
    for bias, zero_points in product((None, np.full(4, 10**8, np.int32)), ({}, {"dst": -(10**9)}, {"src": 255})):
        problem = Problem(src, weights, bias, np.int32, zero_points=zero_points)
        problem.check(k=k)


def test_a_layer_with_anything_real_stays_in_float32(isa, rng):
    problem = random_problem(rng, 3, 20, 5000, kind="full", bias=None, zero_points=(), **EXACT)
    problem = problem.but(src=problem.src | 1, weights=problem.weights | 1, bias=large(rng, True, 20))
    exact = problem.result()
    rounded = problem.expected().astype(np.float32).astype(np.float64).clip(INT32.min, INT32.max).astype(np.int32)
    assert (exact != rounded).any()
    for change in ({"scales": {"src": np.float32(1)}}, {"scales": {"weights": np.float32(1)}},
                   {"scales": {"dst": np.float32(1)}}, {"output_scales": np.float32(1)}):  # fmt: skip
        assert_same_bits(problem.but(**change).result(), rounded, change=change)
    assert_same_bits(problem.but(ops=(ReLU(),)).result(), np.maximum(rounded, 0))
    declared = InnerProduct(
        problem.weights, problem.bias, src_dtype=np.uint8, dst_dtype=np.int32, attributes=Attributes(scales={"src": 0})
    )
    assert_same_bits(declared(problem.src, scales={"src": 1}), rounded)


@every_path
@pytest.mark.parametrize("src_dtype", SRC_DTYPES, ids=name_of)
def test_convolutions_on_every_path(isa, src_dtype, name, rng):
    size, kernel, ic, oc, geometry = PATHS[name]
    for layout, zero_points, bias in product(("nhwc", "nchw"), ((), ("src", "dst")), (None, 100, large(rng, True, oc))):
        problem = random_convolution(
            rng, size, kernel, ic, oc, n=2, src_dtype=src_dtype, bias=None, zero_points=zero_points, vectors=("dst",),
            layout=layout, **EXACT, **geometry,
        )  # fmt: skip
        problem = problem.but(bias=None if bias is None else np.zeros(oc, np.int32) + np.int32(bias))
        if "dst" in zero_points:
            problem.zero_points["dst"] = large(rng, True, oc)
        if layout == "nhwc" and bias is None and isa != "ref" and not (isa in WITH_MATRIX_UNIT and name == "lines"):
            assert int8blas.explain(problem.src, problem.layer()).path == name.split()[0]
        problem.check(bias=bias)
        if "dst" in zero_points and bias is not None:
            for sign in (1, -1):
                problem.zero_points["dst"] = np.int32(sign * INT32.max)
                problem.but(bias=np.full(oc, sign * (INT32.max - 3), np.int32)).check(sign=sign)


@every_path
def test_convolutions_of_every_number_of_dimensions_and_saturating(isa, name, rng):
    _, _, ic, oc, geometry = PATHS[name]
    for size in ((9,), (9, 9), (3, 9, 9)):
        for numerics, src_dtype in product(("exact", "saturating"), SRC_DTYPES):
            problem = random_convolution(
                rng, size, (3,) * len(size), ic, oc, src_dtype=src_dtype, bias="s32", numerics=numerics, **EXACT,
                **geometry,
            )  # fmt: skip
            problem.check(size=size)


@pytest.mark.parametrize("strides", [1, 2])
@pytest.mark.parametrize("groups", [1, 4, 64])
def test_deconvolutions(isa, groups, strides, rng):
    for layout, src_dtype in product(("nhwc", "nchw"), SRC_DTYPES):
        problem = random_convolution(
            rng, (6, 7), (3, 3), 64, 64, n=2, transposed=True, groups=groups, strides=strides, src_dtype=src_dtype,
            layout=layout, bias=None, **EXACT,
        )  # fmt: skip
        problem.check()
        problem.but(bias=large(rng, True, 64)).check()
        problem.zero_points["dst"] = np.int32(INT32.max)
        problem.but(bias=np.full(64, INT32.max - 7, np.int32)).check()


def test_convolutions_of_long_windows_saturate_once(isa, rng):
    src, weights = np.full((1, 2, 2, 66_000), 255, np.uint8), np.full((3, 66_000, 1, 1), -128, np.int8)
    weights[1], weights[2] = 127, random_values(rng, np.int8, (66_000, 1, 1))
    for bias in (None, np.full(3, 10**8, np.int32)):
        layer = Convolution(weights, bias, src_dtype=np.uint8, dst_dtype=np.int32)
        sums = src.reshape(4, -1).astype(np.int64) @ weights[..., 0, 0].T.astype(np.int64)
        expected = np.clip(sums + (0 if bias is None else bias), INT32.min, INT32.max)
        assert (layer(src).reshape(4, 3) == expected).all()


def test_any_number_of_threads(isa, rng):
    problems = [random_problem(rng, m, n, k, bias="s32", zero_points=TENSORS, **EXACT)
                for m, n, k in ((300, 200, 500), (2, 3, 90_000))]  # fmt: skip
    for threads, problem in product((1, 2, 4), problems):
        with int8blas.num_threads(threads):
            problem.check(threads=threads)
