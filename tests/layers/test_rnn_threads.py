"""Recurrent layers give the same bits on any number of threads, to concurrent callers, after a fork and pickling."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from layers import assert_same_bits
from others import assert_other_threads_run_during
from processes import assert_a_forked_child_sends, forks_on_purpose, needs_fork, through_pickle
from recurrent import DIRECTIONS, KINDS, random_problem

import int8blas

every_kind = pytest.mark.parametrize("kind", KINDS)


def assert_same_results(results, expected, **facts):
    for result, wanted in zip(results, expected, strict=True):
        assert_same_bits(result, wanted, **facts)


# --- threads ---------------------------------------------------------------------------------------------------------


@every_kind
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_any_number_of_threads_gives_the_same_bits(isa, kind, direction, rng):
    # Few rows, whose units are divided; whole tiles of rows for each thread; sources that are quantized.
    for n, units, src_dtype in ((1, 530, np.uint8), (5, 260, np.float32), (40, 150, np.uint8)):
        problem = random_problem(
            rng, kind, units, 70, n, 3, direction=direction, src_dtype=src_dtype, dst_dtype=np.float32
        )
        layer, expected = problem.layer(), problem.expected()
        for threads in (1, 2, 3, 4):
            with int8blas.num_threads(threads):
                results = problem.run(layer)
            for result, wanted in zip(results, expected, strict=True):
                assert_same_bits(result.reshape(wanted.shape), wanted, threads=threads, n=n, units=units)


@every_kind
def test_concurrent_callers_share_a_layer(isa, kind, rng):
    problem = random_problem(rng, kind, 100, 70, 16, 5)
    layer, expected = problem.layer(), problem.expected()

    def execute(threads):
        with int8blas.use_isa(isa), int8blas.num_threads(threads):
            return [result.copy() for result in problem.run(layer)]

    with ThreadPoolExecutor(8) as pool:
        for results in pool.map(execute, [1, 2] * 20):
            assert_same_results([x.reshape(y.shape) for x, y in zip(results, expected, strict=True)], expected)


def test_other_threads_run_during_a_call(rng):
    problem = random_problem(rng, "lstm", 100, 100, 4, 20)
    layer = problem.layer()
    assert_other_threads_run_during(lambda: problem.run(layer))


def send_result(isa, problem, connection):
    """Execute in a child process and send the bytes to the parent."""
    with int8blas.use_isa(isa), int8blas.num_threads(4):
        connection.send_bytes(problem.run(problem.layer())[0].tobytes())


@needs_fork
@forks_on_purpose
def test_a_forked_child_executes_after_threads_ran_in_the_parent(isa, rng):
    problem = random_problem(rng, "lstm", 530, 70, 1, 3)
    with int8blas.num_threads(4):
        expected = problem.run(problem.layer())[0].tobytes()
    assert_a_forked_child_sends(expected, send_result, isa, problem)


# --- pickling --------------------------------------------------------------------------------------------------------


@every_kind
def test_a_pickled_layer_gives_the_same_bits(isa, kind, rng):
    for direction in DIRECTIONS:
        problem = random_problem(
            rng, kind, 21, layers=2, direction=direction, src_dtype=np.float32, data_scale=100.5, data_shift=3
        )
        layer, expected = problem.layer(), problem.expected()
        for other in through_pickle(layer):
            assert_same_results(problem.run(other), expected)
            assert repr(other) == repr(layer)


def test_what_is_pickled_is_the_layer_and_not_what_became_of_its_arguments(isa, rng):
    problem = random_problem(rng, "lstm", 21)
    layer, expected = problem.layer(), problem.expected()
    for arrays in (problem.weights_layer, problem.weights_iter, problem.bias, problem.weights_scale):
        for array in arrays:
            array[...] = 1
    for other in (layer, *through_pickle(layer)):
        assert_same_results(problem.run(other), expected)


def test_what_a_layer_says_of_itself(rng):
    problem = random_problem(rng, "gru_linear", 21, 10, layers=2, direction="bidirectional_sum", dst_dtype=np.float32)
    layer = problem.layer()
    assert repr(layer) == (
        "GRU(10, 21, layers=2, direction='bidirectional_sum', linear_before_reset=True)[uint8 -> float32]"
    )
    assert (layer.layers, layer.directions, layer.input_size, layer.units) == (2, 2, 10, 21)
    assert (layer.data_scale, layer.data_shift, layer.linear_before_reset) == (127, 128, True)
    assert layer.direction == "bidirectional_sum"
    assert (layer.src_dtype, layer.dst_dtype) == (np.uint8, np.float32)
