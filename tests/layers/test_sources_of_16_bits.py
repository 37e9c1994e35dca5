"""InnerProduct, Convolution and Deconvolution with a source of 16 bits have the bits of the documented formula."""

from itertools import product

import numpy as np
import pytest
from arrays import random_values
from convolutions import random_convolution
from errors import refused
from layers import DST_DTYPES, FEW_LAYERS, LAYER_SHAPES, WEIGHTS_DTYPES, assert_same_bits, name_of, random_problem

import int8blas
from int8blas import Binary, ReLU, Sum

TENSORS = ("src", "weights", "dst")

every_src = pytest.mark.parametrize("src_dtype", [np.int16, np.uint16], ids=name_of)


@every_src
@pytest.mark.parametrize("dst_dtype", DST_DTYPES, ids=name_of)
def test_inner_product(isa, src_dtype, dst_dtype, rng):
    for (m, n, k), weights_dtype in product(LAYER_SHAPES[::3], WEIGHTS_DTYPES):
        random_problem(rng, m, n, k, src_dtype, weights_dtype, dst_dtype).check()
        for vectors in ((), ("src", "weights", "dst")):
            problem = random_problem(rng, m, n, k, src_dtype, weights_dtype, dst_dtype, scales=TENSORS,
                                     zero_points=TENSORS, vectors=vectors, kind="extreme")  # fmt: skip
            problem.check()
            problem.check(at_creation=False)


@every_src
def test_post_ops_bias_and_large_zero_points(isa, src_dtype, rng):
    for shape in FEW_LAYERS:
        for bias, ops in ((None, ()), ("s32", (ReLU(),)), ("f32", (Sum(0.5, 3), Binary(np.float32(2), "mul")))):
            problem = random_problem(rng, *shape, src_dtype, bias=bias, ops=ops)
            problem.check()
            problem.but(zero_points={"src": -(2**20), "weights": 2**20}).check()
        problem = random_problem(rng, *shape, src_dtype, dst_dtype=np.int32, bias="s32", scales=(), zero_points=TENSORS)
        problem.check()


@every_src
def test_inner_product_arrays(isa, src_dtype, rng):
    problem = random_problem(rng, 12, 20, 30, src_dtype)
    layer, expected = problem.layer(), problem.expected()
    wide = np.zeros((12, 60), src_dtype)
    wide[:, ::2] = problem.src
    out = np.zeros((12, 40), np.int8)
    assert layer(wide[:, ::2], out=out[:, ::2]).base is out
    assert_same_bits(np.ascontiguousarray(out[:, ::2]), expected)
    assert not out[:, 1::2].any()
    assert_same_bits(layer(np.asfortranarray(problem.src).reshape(3, 4, 30)), expected.reshape(3, 4, 20))
    assert layer(problem.src[:0]).shape == (0, 20)
    restore, arguments = layer.__reduce__()
    assert_same_bits(restore(*arguments)(problem.src), expected)
    assert repr(layer) == f"InnerProduct(20, 30)[{np.dtype(src_dtype)} -> int8]"
    # A product in the memory of its source.
    memory = problem.src.copy()
    target = memory.view(np.int8)[:, :20]
    layer(memory, out=target)
    assert_same_bits(np.ascontiguousarray(target), expected)


@every_src
def test_weights_of_4_bits(isa, src_dtype, rng):
    weights = rng.integers(-8, 8, (20, 64), np.int8)
    src = random_values(rng, src_dtype, (9, 64))
    options = {"src_dtype": src_dtype, "dst_dtype": np.float32, "scales": {"src": 0.01, "weights": 0.5},
               "zero_points": {"src": 77}}  # fmt: skip
    expected = int8blas.InnerProduct(weights, **options)(src)
    assert_same_bits(int8blas.InnerProduct(weights, bits=4, **options)(src), expected)


CONVOLUTIONS = (
    {"size": (9,), "kernel": (3,), "ic": 4, "oc": 5},
    {"size": (7, 8), "kernel": (3, 3), "ic": 8, "oc": 20, "padding": 1},
    {"size": (9, 8), "kernel": (3, 3), "ic": 6, "oc": 6, "groups": 6, "padding": (1, 2)},
    {"size": (7, 8), "kernel": (3, 2), "ic": 8, "oc": 12, "groups": 4, "strides": 2, "padding": ((1, 0), (0, 1))},
    {"size": (5, 4, 6), "kernel": (2, 2, 2), "ic": 3, "oc": 17, "n": 2, "dilation": 2},
    {"size": (6, 6), "kernel": (1, 1), "ic": 30, "oc": 33, "n": 3, "layout": "nchw"},
)


@every_src
@pytest.mark.parametrize("case", range(len(CONVOLUTIONS)))
def test_convolution(isa, src_dtype, case, rng):
    geometry = CONVOLUTIONS[case]
    for dst_dtype, weights_dtype in product((np.int8, np.int32, np.float32), WEIGHTS_DTYPES):
        problem = random_convolution(rng, **geometry, src_dtype=src_dtype, weights_dtype=weights_dtype,
                                     dst_dtype=dst_dtype, scales=TENSORS, zero_points=TENSORS)  # fmt: skip
        problem.check()
        problem.but(zero_points={"src": 2**17, "weights": -300}).check()
        random_convolution(rng, **geometry, src_dtype=src_dtype, weights_dtype=weights_dtype, dst_dtype=dst_dtype,
                           kind="extreme", bias="s32", scales=(), zero_points=("src",)).check()  # fmt: skip
    problem = random_convolution(rng, **geometry, src_dtype=src_dtype, ops=(Sum(), ReLU(0.1)))
    problem.check()
    restore, arguments = problem.layer().__reduce__()
    assert_same_bits(restore(*arguments)(problem.src, out=problem.old.copy()), problem.expected())


@every_src
def test_deconvolution(isa, src_dtype, rng):
    for geometry in ({"strides": 2, "output_padding": 1}, {"padding": 1}, {"groups": 2}):
        random_convolution(rng, (5, 6), (3, 3), 4, 6, src_dtype=src_dtype, transposed=True, **geometry,
                           zero_points=("src", "dst")).check()  # fmt: skip


def test_threads_give_the_same_bits(rng):
    for src_dtype in (np.int16, np.uint16):
        problems = (random_problem(rng, 70, 90, 130, src_dtype),
                    random_convolution(rng, (12, 12), (3, 3), 16, 32, src_dtype=src_dtype))  # fmt: skip
        for problem in problems:
            expected = problem.expected()
            for threads in (1, 2, 3):
                with int8blas.num_threads(threads):
                    assert_same_bits(problem.result(), expected)


def test_refused():
    weights, types = np.ones((3, 64), np.int8), {"src_dtype": np.int16, "dst_dtype": np.float32}
    with refused(ValueError, "numerics must be 'exact' with src_dtype int16, got 'saturating'"):
        int8blas.InnerProduct(weights, numerics="saturating", **types)
    with refused(ValueError, "scales['weights'] must not be by groups of k with src_dtype int16"):
        int8blas.InnerProduct(weights, scales={"weights": np.ones((2, 3), np.float32)}, **types)
    layer = int8blas.InnerProduct(weights, **types)
    with refused(TypeError, "src must be int16, got int8: create the layer with src_dtype='int8'"):
        layer(np.ones((1, 64), np.int8))
    with refused(TypeError, "src must be int16, got float32"):
        layer(np.ones((1, 64), np.float32))
    with refused(ValueError, "weights must have windows of at most 33025 elements with src_dtype int16, got windows of "
                             "36000"):  # fmt: skip
        int8blas.Convolution(np.ones((1, 4000, 3, 3), np.int8), **types)
    images = int8blas.Convolution(np.ones((1, 4, 3, 3), np.int8), **types)
    with refused(ValueError, "b must be a layer with a source of 8 bits, got Convolution"):
        int8blas.explain(np.ones((1, 5, 5, 4), np.int16), images)
