"""Sequences of different lengths in recurrent layers: each has the same bits as alone, and 0.0 after its end."""

from itertools import product

import numpy as np
import pytest
from arrays import Canary, guarded, needs_mprotect, with_strides
from layers import assert_same_bits, name_of
from recurrent import DIRECTIONS, KINDS, random_problem
from test_rnn_arrays import STRIDES, placed

import int8blas

every_kind = pytest.mark.parametrize("kind", KINDS)
every_direction = pytest.mark.parametrize("direction", DIRECTIONS)
every_dst = pytest.mark.parametrize("dst_dtype", [np.uint8, np.float32], ids=name_of)


def with_lengths(rng, *arguments, **more):
    """A problem with sequences of any lengths, 0 and the longest among them."""
    problem = random_problem(rng, *arguments, **more)
    t, n = problem.src.shape[:2]
    lengths = rng.integers(0, t + 1, n)
    lengths[: min(n, 2)] = [0, t][: min(n, 2)]
    return problem.but(lengths=rng.permutation(lengths))


@every_kind
@every_direction
@every_dst
def test_lengths_in_every_direction_and_layer(isa, kind, direction, dst_dtype, rng):
    shapes = ((1, 3, 1, True), (2, 2, 2, False), (5, 9, 1, True), (6, 7, 3, True), (7, 20, 2, False))
    for t, n, layers, states in shapes:
        more = {"direction": direction, "dst_dtype": dst_dtype, "layers": layers, "states": states}
        with_lengths(rng, kind, 18, n=n, t=t, **more).check(t=t, n=n, layers=layers)


@every_kind
@pytest.mark.parametrize("src_dtype", [np.uint8, np.float32, np.float16], ids=name_of)
def test_what_a_source_has_beyond_the_lengths_changes_nothing(isa, kind, src_dtype, rng):
    for direction in DIRECTIONS:
        problem = with_lengths(rng, kind, 21, n=7, t=5, direction=direction, src_dtype=src_dtype, layers=2)
        expected = problem.expected()
        src = problem.src.copy()
        src[np.arange(5)[:, None] >= problem.lengths] = 255 if src_dtype == np.uint8 else np.nan
        for result, wanted in zip(problem.but(src=src).run(problem.layer()), expected, strict=True):
            assert_same_bits(result, wanted, direction=direction)


@every_kind
@pytest.mark.parametrize("data_shift", [0, 128, 255])
def test_the_rest_is_0_in_the_terms_of_the_destination(isa, kind, data_shift, rng):
    for direction, (dst_dtype, zero) in product(DIRECTIONS, ((np.uint8, data_shift), (np.float32, 0))):
        problem = random_problem(rng, kind, 18, n=3, t=4, direction=direction, dst_dtype=dst_dtype)
        problem = problem.but(lengths=[1, 0, 3], data_shift=data_shift)
        problem.check()
        dst = problem.run(problem.layer())[0]
        assert (dst[1:, 0] == zero).all()
        assert (dst[:, 1] == zero).all()
        assert (dst[3:, 2] == zero).all()


@every_kind
def test_a_sequence_of_length_0_keeps_its_first_states(isa, kind, rng):
    for direction in DIRECTIONS:
        problem = random_problem(rng, kind, 18, n=3, t=4, layers=2, direction=direction).but(lengths=[0, 4, 0])
        _, h_t, *c_t = problem.run(problem.layer())
        for row in (0, 2):
            assert_same_bits(h_t[:, :, row], problem.h0[:, :, row])
            if c_t:
                assert_same_bits(c_t[0][:, :, row], problem.c0[:, :, row])


@every_kind
def test_lengths_of_all_steps_and_one_for_all(isa, kind, rng):
    problem = random_problem(rng, kind, 18, n=3, t=4, direction="bidirectional_concat")
    layer, expected = problem.layer(), problem.expected()
    for lengths in (None, 4, [4, 4, 4], np.uint8([4, 4, 4]), np.array(4)):
        for result, wanted in zip(problem.but(lengths=lengths).run(layer), expected, strict=True):
            assert_same_bits(result, wanted)
    expected = problem.but(lengths=[2, 2, 2]).expected()
    for lengths in (2, np.int32([2, 2, 2]), [2, 2, 2], np.array([2, 9, 2, 9, 2], np.uint64)[::2]):
        for result, wanted in zip(problem.but(lengths=lengths).run(layer), expected, strict=True):
            assert_same_bits(result, wanted)


@every_kind
@every_direction
def test_any_number_of_threads_and_stretches_of_time(isa, kind, direction, rng):
    # Few rows, whose units are divided; whole tiles of rows for each thread; sums that are computed for several steps
    # at once.
    for n, units, t, src_dtype in ((2, 530, 3, np.uint8), (40, 150, 5, np.float32), (40, 33, 60, np.uint8)):
        problem = with_lengths(rng, kind, units, 30, n, t, direction=direction, src_dtype=src_dtype)
        layer, expected = problem.layer(), problem.expected()
        for threads in (1, 2, 3, 4):
            with int8blas.num_threads(threads):
                for result, wanted in zip(problem.run(layer), expected, strict=True):
                    assert_same_bits(result, wanted, threads=threads, n=n)


@every_kind
@pytest.mark.parametrize("strides", STRIDES)
def test_any_strides_and_nothing_else_is_written(isa, kind, strides, rng):
    for direction in ("right2left", "bidirectional_concat", "bidirectional_sum"):
        problem = with_lengths(rng, kind, 21, 11, 5, 3, layers=2, direction=direction)
        expected, canary = problem.expected(), Canary()
        out = placed(np.zeros_like(expected[0]), strides, canary)
        assert problem.but(src=placed(problem.src, strides)).run(problem.layer(), out)[0] is out
        assert_same_bits(out.copy(order="C"), expected[0], strides=strides, direction=direction)
        canary.assert_only_elements_written(out)


@needs_mprotect
@every_kind
@pytest.mark.parametrize("side", ["start", "end"])
def test_nothing_outside_the_arrays_is_read_or_written(isa, kind, side, rng):
    allocate = guarded(side)
    for direction, src_dtype in product(("left2right", "bidirectional_sum"), (np.uint8, np.float32)):
        problem = with_lengths(rng, kind, 18, 11, 5, 3, direction=direction, src_dtype=src_dtype)
        states = [with_strides(x, [s // x.itemsize for s in x.strides], allocate) for x in (problem.h0, problem.c0)]
        lengths = with_strides(problem.lengths, (1,), allocate)
        problem = problem.but(src=placed(problem.src, "C", allocate), h0=states[0], c0=states[1], lengths=lengths)
        problem.check(out=placed(np.zeros_like(problem.expected()[0]), "C", allocate))


def test_lengths_are_not_written(rng):
    problem = with_lengths(rng, "lstm", 18, n=5)
    kept = problem.lengths.copy()
    problem.lengths.flags.writeable = False
    problem.check()
    assert_same_bits(problem.lengths, kept)


def test_no_sequences(rng):
    for lengths in ([], np.zeros(0, np.int64), 3):
        problem = random_problem(rng, "lstm", 18, n=0).but(lengths=lengths)
        problem.check()
