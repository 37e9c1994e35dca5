"""A convolution gives the same bits on any number of threads, to concurrent callers, after a fork, after pickling."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from arrays import random_values
from convolutions import LAYOUTS, random_convolution
from layers import assert_same_bits
from processes import assert_a_forked_child_sends, forks_on_purpose, needs_fork, send_result, through_pickle
from test_convolution import every_primitive, few

import int8blas
from int8blas import Binary, PReLU, ReLU, Sum

# (size, kernel, ic, oc, groups): large planes, many channels on few pixels, long sums, whose K may be divided, groups,
# depthwise, small groups, other dimensions.
THREADED = (
    ((40, 41), (3, 3), 16, 33, 1),
    ((30, 31), (1, 1), 64, 65, 1),
    ((4, 5), (3, 3), 130, 130, 1),
    ((2, 2), (2, 2), 700, 17, 1),
    ((1, 2), (3, 3), 5000, 13, 1),
    ((20, 21), (3, 3), 32, 48, 4),
    ((20, 21), (3, 3), 96, 96, 6),
    ((40, 41), (3, 3), 48, 48, 48),
    ((140, 141), (3, 3), 5, 5, 5),
    ((240, 241), (1, 1), 3, 2, 1),
    ((20, 21), (3, 3), 96, 96, 12),
    ((5, 6, 30), (3, 3, 3), 4, 20, 1),
    ((3000,), (5,), 3, 5, 1),
)


# --- threads ---------------------------------------------------------------------------------------------------------


@every_primitive
@pytest.mark.parametrize("case", THREADED, ids=str)
def test_any_number_of_threads_gives_the_same_bits(isa, case, transposed, rng):
    size, kernel, ic, oc, groups = case
    for which, ops in ((0, (ReLU(), Sum(0.5))), (1, ())):
        problem = random_convolution(
            rng, size, kernel, ic, oc, n=2, groups=groups, layout=LAYOUTS[len(size)][which], padding=kernel[0] // 2,
            src_dtype=np.int8, ops=ops, transposed=transposed,
        )  # fmt: skip
        layer, expected = problem.layer(), problem.expected()
        for threads in (1, 2, 3, 4):
            with int8blas.num_threads(threads):
                assert_same_bits(problem.run(layer), expected, threads=threads, **problem.geometry)


@pytest.mark.parametrize("size", [(900,), (2, 500), (3, 301), (1, 700)], ids=str)
def test_threads_divide_the_pixels_of_few_lines(isa, size, rng):
    kernel, padding = (1, 5)[2 - len(size) :], [0, 2][2 - len(size) :]
    for groups, channels, layout in ((1, 64, 0), (1, 3, 1), (2, 96, 0)):
        outputs = 2048 // channels * groups
        problem = random_convolution(
            rng, size, kernel, channels, outputs, groups=groups, layout=LAYOUTS[len(size)][layout], padding=padding,
            dst_dtype=np.int32, bias=None, scales=(), zero_points=(),
        )  # fmt: skip
        layer, expected = problem.layer(), problem.expected()
        for threads in (1, 2, 3, 8, 130):
            with int8blas.num_threads(threads):
                plan = int8blas.explain(problem.src, layer)
                assert plan.threads == threads or threads > 3, f"{plan}"
                assert_same_bits(problem.run(layer), expected, threads=threads)


@every_primitive
def test_more_threads_than_work(isa, transposed, rng):
    with int8blas.num_threads(64):
        for problem in few(rng, transposed=transposed):
            problem.check()


@every_primitive
@pytest.mark.parametrize("groups", [1, 20])
def test_concurrent_callers_share_a_layer(isa, groups, transposed, rng):
    problem = random_convolution(
        rng, (9, 10), (3, 3), 20, 40, n=32, groups=groups, padding=1, scales=("src", "weights", "dst"),
        ops=[ReLU(0.1), Binary()], transposed=transposed,
    )  # fmt: skip
    operand = rng.normal(0, 1, 40).astype(np.float32)
    expected = problem.but(operands=(operand,)).expected()
    layers = [problem.layer(at_creation=True), problem.layer(at_creation=False)]
    out = np.empty_like(expected)

    def execute(image):
        keywords = {"scales": problem.scales, "zero_points": problem.zero_points} if image % 2 else {}
        with int8blas.use_isa(isa), int8blas.num_threads(1 + image % 3):
            one = slice(image, image + 1)
            layers[image % 2](problem.src[one], operands=[operand], out=out[one], **keywords)

    for _ in range(3):
        out[:] = 0
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(execute, range(32)))
        assert_same_bits(out, expected)


# --- fork ------------------------------------------------------------------------------------------------------------


@needs_fork
@forks_on_purpose
@every_primitive
@pytest.mark.parametrize("groups", [1, 32])
def test_a_forked_child_executes_after_threads_ran_in_the_parent(isa, groups, transposed, rng):
    problem = random_convolution(rng, (30, 31), (3, 3), 32, 64, n=2, groups=groups, transposed=transposed)
    layer = problem.layer()
    with int8blas.num_threads(4):
        expected = layer(problem.src).tobytes()
    assert_a_forked_child_sends(expected, send_result, isa, layer, problem.src)


# --- pickling --------------------------------------------------------------------------------------------------------


@every_primitive
@pytest.mark.parametrize("at_creation", [True, False])
def test_a_pickled_layer_gives_the_same_bits(isa, at_creation, transposed, rng):
    for groups, grouped, layout, bias, numerics in (
        (1, False, "nchw", None, "exact"),
        (3, True, "nhwc", "f32", "exact"),
        (3, False, "nhwc", "s32", "saturating"),
        (6, True, "nchw", "f32", "exact"),
    ):
        problem = random_convolution(
            rng, (4, 5), (3, 2), 6, 12, groups=groups, grouped=grouped, layout=layout, bias=bias, src_dtype=np.int8,
            scales=("src", "weights", "dst"), vectors=("weights", "dst"), numerics=numerics, padding=[(1, 0), 2],
            strides=(1, 2), ops=[ReLU(0.1), Sum(0.5), Binary([2.0], "mul"), PReLU()], transposed=transposed,
        )  # fmt: skip
        problem = problem.but(operands=(rng.normal(0, 1, 1).astype(np.float32),))
        layer, expected = problem.layer(at_creation), problem.expected()
        for other in through_pickle(layer):
            assert_same_bits(problem.run(other, at_creation), expected)
            assert repr(other) == repr(layer)
            assert other.weights_shape == problem.weights.shape


@every_primitive
def test_layers_of_float_weights_and_output_scales_survive_pickling(isa, transposed, rng):
    primitive = int8blas.Deconvolution if transposed else int8blas.Convolution
    weights = rng.normal(0, 1, (6, 3, 3, 3)).astype(np.float32)
    src = random_values(rng, np.uint8, (2, 5, 6, 6))
    types = {"src_dtype": np.uint8, "dst_dtype": np.float32, "groups": 2}
    older = int8blas.Attributes(output_scales=(2, rng.normal(0, 1, 6)))
    for layer in (
        primitive(weights, scales={"weights": "per_channel"}, **types),
        primitive(weights, scales={"weights": "per_tensor", "src": 0.5}, zero_points={"src": 3}, **types),
        primitive((weights * 40).astype(np.int8), attributes=older, **types),
    ):
        expected = layer(src)
        for other in through_pickle(layer):
            assert_same_bits(other(src), expected)


# --- immutable -------------------------------------------------------------------------------------------------------


@every_primitive
@pytest.mark.parametrize("name", ["weights_shape", "src_dtype", "dst_dtype", "attributes", "other"])
def test_a_layer_has_no_attribute_that_can_be_assigned(name, transposed):
    primitive = int8blas.Deconvolution if transposed else int8blas.Convolution
    layer = primitive(np.ones((3, 2, 3, 3), np.int8), src_dtype=np.uint8, dst_dtype=np.int8)
    with pytest.raises(AttributeError):
        setattr(layer, name, None)
