"""A layer gives the same bits on any number of threads, to concurrent callers, after a fork and after pickling."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from arrays import random_values
from layers import DST_DTYPES, assert_same_bits, name_of, random_problem, sign_pairs
from processes import assert_a_forked_child_sends, forks_on_purpose, needs_fork, send_result, through_pickle

import int8blas
from int8blas import Attributes, Binary, Eltwise, InnerProduct, PReLU, ReLU, Sum

TENSORS = ("src", "weights", "dst")

# So few tiles and so large a K that threads divide K.
LONG = ((6, 16, 42000), (5, 13, 42001))
# Tiles in both dimensions, few rows with a large B, few columns, a long K.
THREADED = ((257, 272, 130), (1, 2050, 530), (2, 1500, 700), (3000, 5, 300), (16, 16, 20000), (3, 5, 20001))


# --- threads ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", THREADED, ids=str)
def test_any_number_of_threads_gives_the_same_bits(isa, shape, rng):
    for vectors, ops in (((), ()), (("weights",), (ReLU(), Sum(0.5))), (TENSORS, (Eltwise("linear", 0.5, 1),))):
        problem = random_problem(
            rng, *shape, np.int8, dst_dtype=np.int8, scales=TENSORS, zero_points=TENSORS, vectors=vectors, ops=ops
        )
        layer, expected = problem.layer(), problem.expected()
        for threads in (1, 2, 3, 4):
            with int8blas.num_threads(threads):
                assert_same_bits(problem.run(layer), expected, threads=threads, vectors=vectors)


def check_parts_of_k(problem):
    """A layer whose K is divided among threads has the bits of the oracle."""
    layer, expected = problem.layer(), problem.expected()
    for threads in (3, 4):
        with int8blas.num_threads(threads):
            assert_same_bits(problem.run(layer), expected, threads=threads, shape=(*problem.src.shape, expected.shape))


@pytest.mark.parametrize("dst_dtype", DST_DTYPES, ids=name_of)
def test_parts_of_a_long_k(isa, dst_dtype, rng):
    for (src_dtype, weights_dtype), bias in zip(sign_pairs(), (None, "f32", "s32", "s32"), strict=True):
        for (m, n, k), vectors in zip(LONG, (("weights",), TENSORS), strict=True):
            problem = random_problem(
                rng, m, n, k, src_dtype, weights_dtype, dst_dtype, bias, TENSORS, TENSORS, vectors, ops=[ReLU(0.5)]
            )
            check_parts_of_k(problem)


def test_parts_of_a_long_k_with_saturating_numerics(isa, rng):
    for src_dtype, weights_dtype in ((np.uint8, np.int8), (np.int8, np.uint8)):
        check_parts_of_k(random_problem(rng, *LONG[0], src_dtype, weights_dtype, numerics="saturating"))


def test_these_are_parts_of_k(isa):
    for m, n, k in LONG:
        with int8blas.num_threads(4):
            plan = int8blas.explain(np.zeros((m, k), np.uint8), int8blas.pack_b(np.zeros((k, n), np.int8)))
        assert plan.k_parts > 1


def test_concurrent_callers_share_a_layer(isa, rng):
    problem = random_problem(rng, 64, 100, 257, scales=TENSORS, ops=[ReLU(0.1), Binary()], vectors=("weights",))
    operand = rng.normal(0, 1, 100).astype(np.float32)
    expected = problem.but(operands=(operand,)).expected()
    layers = [problem.layer(at_creation=True), problem.layer(at_creation=False)]
    out = np.empty((64, 100), np.int8)

    def execute(row):
        keywords = {"scales": problem.scales, "zero_points": problem.zero_points} if row % 2 else {}
        with int8blas.use_isa(isa):
            layers[row % 2](problem.src[row : row + 1], operands=[operand], out=out[row : row + 1], **keywords)

    for _ in range(5):
        out[:] = 0
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(execute, range(64)))
        assert_same_bits(out, expected)


def test_concurrent_callers_with_ranges_of_their_own(isa, rng):
    weights = random_values(rng, np.int8, (100, 257))
    sources = [rng.normal(0, 10.0**i, (40, 257)).astype(np.float32) for i in range(-8, 8)]
    for dynamic in ("per_row", "per_tensor"):
        layer = InnerProduct(
            weights, src_dtype=np.float32, dst_dtype=np.float32, dynamic=dynamic, dynamic_dtype=np.uint8
        )
        expected = [layer(x) for x in sources]

        def execute(x, layer=layer):
            with int8blas.use_isa(isa), int8blas.num_threads(2):
                return layer(x)

        with ThreadPoolExecutor(8) as pool:
            for result, wanted in zip(pool.map(execute, sources * 3), expected * 3, strict=True):
                assert_same_bits(result, wanted)


# --- fork ------------------------------------------------------------------------------------------------------------


@needs_fork
@forks_on_purpose
@pytest.mark.parametrize("dynamic", [None, "per_row", "per_tensor"])
def test_a_forked_child_executes_after_threads_ran_in_the_parent(isa, dynamic, rng):
    src_dtype = np.uint8 if dynamic is None else np.float32
    src = random_values(rng, np.uint8, (300, 500)).astype(src_dtype)
    layer = InnerProduct(
        random_values(rng, np.int8, (272, 500)), src_dtype=src_dtype, dst_dtype=np.int32, dynamic=dynamic
    )
    with int8blas.num_threads(4):
        expected = layer(src).tobytes()
    assert_a_forked_child_sends(expected, send_result, isa, layer, src)


# --- pickling --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bias", [None, "f32", "s32"])
@pytest.mark.parametrize("at_creation", [True, False])
def test_a_pickled_layer_gives_the_same_bits(isa, at_creation, bias, rng):
    for (src_dtype, weights_dtype), vectors in zip(sign_pairs(), ((), ("weights",), ("dst",), TENSORS), strict=True):
        problem = random_problem(
            rng, 9, 33, 20, src_dtype, weights_dtype, bias=bias, scales=TENSORS, zero_points=TENSORS, vectors=vectors,
            ops=[ReLU(0.1), Sum(0.5), Binary([2.0], "mul"), PReLU()],
        )  # fmt: skip
        problem = problem.but(operands=(rng.normal(0, 1, 33).astype(np.float32),))
        layer = problem.but(weights=problem.weights.reshape(33, 5, 2, 2)).layer(at_creation)
        for other in through_pickle(layer):
            assert_same_bits(problem.run(other, at_creation), problem.expected())
            assert repr(other) == repr(layer)
            assert other.weights_shape == (33, 5, 2, 2)
            assert_same_bits(other.weights.unpack(), layer.weights.unpack())


def test_other_layers_survive_pickling(isa, rng):
    weights = rng.normal(0, 1, (33, 20)).astype(np.float32)
    src = rng.integers(0, 256, (9, 20), np.uint8)
    dynamic = {"src_dtype": np.float32, "dst_dtype": np.float16, "dynamic": "per_row", "dynamic_dtype": np.uint8}
    plain = {"src_dtype": np.uint8, "dst_dtype": np.float32}
    older = Attributes(output_scales=(2, rng.normal(0, 1, 33)))
    for layer, x in (
        (InnerProduct(weights, scales={"weights": "per_channel"}, **dynamic), src.astype(np.float32)),
        (InnerProduct(weights, scales={"weights": "per_tensor"}, **dynamic), src.astype(np.float32)),
        (InnerProduct(weights, scales={"weights": 0.01, "src": 0.5}, numerics="saturating", **plain), src),
        (InnerProduct((weights * 40).astype(np.int8), attributes=older, **plain), src),
    ):
        for other in through_pickle(layer):
            assert_same_bits(other(x), layer(x))
            assert repr(other) == repr(layer)


def test_what_is_pickled_is_the_layer_and_not_what_became_of_its_arguments(isa, rng):
    problem = random_problem(rng, 9, 33, 20, scales=TENSORS, zero_points=TENSORS, vectors=("weights", "dst"))
    expected = problem.expected()
    layer = problem.layer()
    for array in (problem.bias, problem.weights, problem.scales["weights"], problem.zero_points["dst"]):
        array[...] = 1
    problem.scales.clear()
    problem.zero_points.clear()
    for other in (layer, *through_pickle(layer)):
        assert_same_bits(other(problem.src), expected)


# --- immutable -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["weights", "weights_shape", "src_dtype", "dst_dtype", "attributes", "other"])
def test_a_layer_has_no_attribute_that_can_be_assigned(name):
    layer = InnerProduct(np.ones((3, 2), np.int8), src_dtype=np.uint8, dst_dtype=np.int8)
    with pytest.raises(AttributeError):
        setattr(layer, name, None)


def test_what_a_layer_says_of_itself():
    layer = InnerProduct(np.ones((3, 2), np.uint8), src_dtype="i1", dst_dtype=np.float16)
    assert repr(layer) == "InnerProduct(3, 2)[int8 -> float16]"
    assert layer.src_dtype == np.dtype(np.int8)
    assert layer.dst_dtype == np.dtype(np.float16)
    assert layer.weights.shape == (2, 3)
    layer = InnerProduct(np.ones((3, 2), np.int8), src_dtype=np.float32, dst_dtype=np.int8, dynamic="per_row")
    assert repr(layer) == "InnerProduct(3, 2)[float32 -> int8, dynamic='per_row']"
