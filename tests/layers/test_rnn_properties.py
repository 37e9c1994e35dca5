"""Properties of random recurrent layers: cases that the other tests do not list."""

import numpy as np
from arrays import Canary
from hypothesis import given
from hypothesis import strategies as st
from layers import assert_same_bits
from properties import on_every_isa, seeds
from recurrent import DIRECTIONS, KINDS, random_problem
from test_rnn_arrays import BROADCASTS, STRIDES, placed

import int8blas

widths = st.integers(1, 70) | st.sampled_from((1, 3, 4, 15, 16, 17, 64, 128, 130))


@st.composite
def problems(draw):
    """A recurrent layer with its operands."""
    problem = random_problem(
        np.random.default_rng(draw(seeds)),
        draw(st.sampled_from(KINDS)),
        draw(widths),
        draw(widths),
        draw(st.integers(0, 20)),
        draw(st.integers(0, 6)),
        draw(st.integers(1, 3)),
        draw(st.sampled_from(DIRECTIONS)),
        draw(st.sampled_from((np.uint8, np.float32, np.float16))),
        draw(st.sampled_from((np.uint8, np.float32))),
        draw(st.booleans()),
        draw(st.sampled_from(("full", "extreme", "small"))),
        data_scale=draw(st.sampled_from((127, 1, 0.01, 300.7))),
        data_shift=draw(st.integers(0, 255)),
    )
    t, n = problem.src.shape[:2]
    lengths = draw(st.none() | st.lists(st.integers(0, t), min_size=n, max_size=n).map(lambda x: np.array(x, np.int64)))
    return problem.but(src=placed(problem.src, draw(st.sampled_from((*STRIDES, *BROADCASTS)))), lengths=lengths)


@given(problem=problems(), strides=st.sampled_from(tuple(STRIDES)), threads=st.integers(1, 4))
def test_every_layer_has_the_bits_of_the_oracle(problem, strides, threads):
    expected = problem.expected()
    for _ in on_every_isa():
        canary = Canary()
        out = placed(np.zeros_like(expected[0]), strides, canary)
        with int8blas.num_threads(threads):
            results = problem.run(problem.layer(), out)
        for result, wanted in zip(results, expected, strict=True):
            assert_same_bits(result.reshape(wanted.shape).copy(order="C"), wanted)
        canary.assert_only_elements_written(out)
