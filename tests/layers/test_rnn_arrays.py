"""Sources and destinations of recurrent layers of any strides, with nothing read or written outside them."""

import numpy as np
import pytest
from arrays import Canary, guarded, heap, needs_mprotect, with_strides
from layers import assert_same_bits, name_of
from recurrent import CELLS, KINDS, random_problem

every_kind = pytest.mark.parametrize("kind", KINDS)

# Name -> strides of an array of shape (t, n, c), in elements.
STRIDES = {
    "C": lambda t, n, c: (n * c, c, 1),
    "padded rows": lambda t, n, c: (n * (c + 3) + 5, c + 3, 1),
    "n first": lambda t, n, c: (c, t * c, 1),
    "F": lambda t, n, c: (1, t, t * n),
    "every other": lambda t, n, c: (4 * n * c, 2 * c, 2),
    "reversed": lambda t, n, c: (-n * c, -c, -1),
    "time reversed": lambda t, n, c: (-n * c, c, 1),
}
BROADCASTS = {"one time step": lambda t, n, c: (0, c, 1), "one row": lambda t, n, c: (c, 0, 1),
              "one value": lambda t, n, c: (0, 0, 0)}  # fmt: skip


def placed(values, strides, allocate=heap, misalign=0):
    return with_strides(values, {**STRIDES, **BROADCASTS}[strides](*values.shape), allocate, misalign)


@every_kind
@pytest.mark.parametrize("strides", [*STRIDES, *BROADCASTS])
@pytest.mark.parametrize("src_dtype", [np.uint8, np.float32, np.float16], ids=name_of)
def test_sources_of_any_strides(isa, kind, strides, src_dtype, rng):
    for n, t, direction in ((1, 4, "left2right"), (3, 1, "right2left"), (9, 3, "bidirectional_concat")):
        problem = random_problem(rng, kind, 18, 11, n, t, direction=direction, src_dtype=src_dtype)
        src = placed(problem.src, strides)
        src.flags.writeable = False
        problem.but(src=src).check(strides=strides)


@every_kind
@pytest.mark.parametrize("strides", STRIDES)
@pytest.mark.parametrize("dst_dtype", [np.uint8, np.float32], ids=name_of)
@pytest.mark.parametrize("misalign", [0, 1])
def test_only_the_elements_of_out_are_written(isa, kind, strides, dst_dtype, misalign, rng):
    for direction in ("right2left", "bidirectional_concat", "bidirectional_sum"):
        problem = random_problem(rng, kind, 21, 11, 5, 3, layers=2, direction=direction, dst_dtype=dst_dtype)
        expected, canary = problem.expected(), Canary()
        out = placed(np.zeros_like(expected[0]), strides, canary, misalign)
        assert problem.run(problem.layer(), out)[0] is out
        assert_same_bits(out.copy(order="C"), expected[0], strides=strides, direction=direction)
        canary.assert_only_elements_written(out)


@needs_mprotect
@every_kind
@pytest.mark.parametrize("side", ["start", "end"])
@pytest.mark.parametrize("strides", STRIDES)
def test_nothing_outside_the_arrays_is_read_or_written(isa, kind, side, strides, rng):
    allocate = guarded(side)
    for units, inputs in ((1, 1), (16, 16), (18, 11), (33, 70)):
        for src_dtype, dst_dtype in ((np.uint8, np.uint8), (np.float32, np.float32), (np.float16, np.uint8)):
            problem = random_problem(rng, kind, units, inputs, 5, 3, src_dtype=src_dtype, dst_dtype=dst_dtype)
            flat = [with_strides(x, [s // x.itemsize for s in x.strides], allocate) for x in (problem.h0, problem.c0)]
            problem = problem.but(src=placed(problem.src, strides, allocate), h0=flat[0], c0=flat[1])
            expected = problem.expected()
            out = placed(np.zeros_like(expected[0]), strides, allocate)
            problem.check(out=out)


def units_of(kind, outputs):
    """The units of a layer with this number of outputs: a projection of `random_problem` has two thirds of them."""
    return outputs * 3 // 2 if "projection" in CELLS[kind][1] else outputs


@every_kind
def test_out_may_overlap_src(isa, kind, rng):
    for offset, layers in ((0, 1), (3, 1), (0, 2), (18, 2)):
        memory = rng.integers(0, 256, 5 * 3 * 18 + offset, np.uint8)
        src, out = (memory[at : at + 5 * 3 * 18].reshape(5, 3, 18) for at in (0, offset))
        problem = random_problem(rng, kind, units_of(kind, 18), 18, t=5, layers=layers).but(src=src.copy())
        expected = problem.expected()[0]
        assert problem.but(src=src).run(problem.layer(), out)[0] is out
        assert_same_bits(out, expected, offset=offset)


@every_kind
def test_out_may_overlap_the_states(isa, kind, rng):
    units = units_of(kind, 18)
    problem = random_problem(rng, kind, units, n=3, t=4, dst_dtype=np.float32)
    out = np.zeros((4, 3, 18), np.float32)
    c0 = out.reshape(-1)[3 * 18 :][: 3 * units].reshape(3, units)
    c0[...] = problem.c0[0, 0]
    expected = problem.expected()
    for result, wanted in zip(problem.but(c0=c0).run(problem.layer(), out), expected, strict=True):
        assert_same_bits(result.reshape(wanted.shape), wanted)


@every_kind
def test_states_of_any_strides_are_not_written(isa, kind, rng):
    problem = random_problem(rng, kind, 18, layers=2, direction="bidirectional_sum")
    states = [np.repeat(x, 2, axis=-1)[..., ::2] for x in (problem.h0, problem.c0)]
    for state in states:
        state.flags.writeable = False
    problem.but(h0=states[0], c0=states[1]).check()


@every_kind
def test_results_are_new_memory(isa, kind, rng):
    problem = random_problem(rng, kind, 18, states=False)
    layer = problem.layer()
    first = problem.run(layer)
    kept = [x.copy() for x in first]
    second = problem.but(src=255 - problem.src).run(layer)
    for x, y, before in zip(first, second, kept, strict=True):
        assert not np.shares_memory(x, y)
        assert_same_bits(x, before)
