"""lstm_steps and gru_steps: the bits of single steps by NumPy and real_matmul."""

import numpy as np
import pytest
from layers import assert_same_bits

import int8blas
from int8blas.layers.real_product import real_matmul
from int8blas.layers.real_steps import gru_steps, lstm_steps

SIZES = [(1, 1, 1), (3, 1, 16), (5, 2, 7), (2, 3, 33), (4, 9, 20), (0, 2, 3), (2, 0, 3)]


def logistic(x):
    return int8blas.eltwise(x, int8blas.Eltwise("logistic"))


def tanh(x):
    return int8blas.eltwise(x, int8blas.Eltwise("tanh"))


def stepwise(gates, states, lengths, cell):
    """Run a cell, and keep the states of sequences that have ended."""
    outputs = np.zeros((*gates.shape[:2], states[0].shape[1]), np.float32)
    for step, gate in enumerate(gates):
        going = np.full(gates.shape[1], True) if lengths is None else step < lengths
        new = cell(gate, states)
        states = tuple(np.where(going[:, None], after, before) for after, before in zip(new, states, strict=True))
        outputs[step] = np.where(going[:, None], new[0], 0)
    return outputs, states


def lstm_cell(weights, bias):
    def cell(gate, states):
        h, c = states
        sums = real_matmul(h, weights) + gate
        i, o, f, n = np.split(sums if bias is None else sums + bias, 4, 1)
        c = logistic(f) * c + logistic(i) * tanh(n)
        return logistic(o) * tanh(c), c

    return cell


def gru_cell(weights, bias, reset_after):
    units = len(weights)
    b, d = np.zeros((2, 3 * units), np.float32) if bias is None else np.split(bias, 2)

    def cell(gate, states):
        (h,) = states
        gate = gate + b
        both = logistic(gate[:, : 2 * units] + real_matmul(h, weights[:, : 2 * units]) + d[: 2 * units])
        z, r = both[:, :units], both[:, units:]
        last = weights[:, 2 * units :]
        inner = (
            r * (real_matmul(h, last) + d[2 * units :]) if reset_after else real_matmul(r * h, last) + d[2 * units :]
        )
        n = tanh(gate[:, 2 * units :] + inner)
        return ((1 - z) * n + z * h,)

    return cell


def draw(rng, gates, steps, rows, units):
    def values(*shape):
        return rng.normal(0, 1, shape).astype(np.float32)

    lengths = rng.integers(0, steps + 1, rows)
    return values(steps, rows, gates * units), values(units, gates * units), values, lengths


@pytest.mark.parametrize(("steps", "rows", "units"), SIZES)
@pytest.mark.parametrize("with_lengths", [False, True])
@pytest.mark.parametrize("with_bias", [False, True])
def test_the_steps_of_an_lstm_have_the_bits_of_one_step_after_the_other(
    isa, steps, rows, units, with_lengths, with_bias
):
    gates, weights, values, lengths = draw(np.random.default_rng(units), 4, steps, rows, units)
    bias, states = values(4 * units) if with_bias else None, (values(rows, units), values(rows, units))
    ends = lengths if with_lengths else None
    before = [state.copy() for state in states]
    y, last = lstm_steps(gates, weights, bias, *states, ends)
    expected, expected_last = stepwise(gates, states, ends, lstm_cell(weights, bias))
    for got, wanted in zip((y, *last, *states), (expected, *expected_last, *before), strict=True):
        assert_same_bits(got, wanted)


@pytest.mark.parametrize(("steps", "rows", "units"), SIZES)
@pytest.mark.parametrize("with_lengths", [False, True])
@pytest.mark.parametrize("with_bias", [False, True])
@pytest.mark.parametrize("reset_after", [False, True])
def test_the_steps_of_a_gru_have_the_bits_of_one_step_after_the_other(
    isa, steps, rows, units, with_lengths, with_bias, reset_after
):
    gates, weights, values, lengths = draw(np.random.default_rng(units), 3, steps, rows, units)
    bias, h = values(6 * units) if with_bias else None, values(rows, units)
    ends = lengths if with_lengths else None
    y, last = gru_steps(gates, weights, bias, h, ends, reset_after=reset_after)
    expected, expected_last = stepwise(gates, (h,), ends, gru_cell(weights, bias, reset_after))
    assert_same_bits(y, expected)
    assert_same_bits(last[0], expected_last[0])


def test_the_number_of_threads_does_not_change_the_bits():
    gates, weights, values, _ = draw(np.random.default_rng(0), 4, 2, 3, 700)
    states = values(3, 700), values(3, 700)
    with int8blas.num_threads(1):
        one = lstm_steps(gates, weights, None, *states)[0]
    with int8blas.num_threads(2):
        assert_same_bits(lstm_steps(gates, weights, None, *states)[0], one)


def test_wrong_shapes_are_named():
    gates, weights, h = np.zeros((2, 1, 8), np.float32), np.zeros((2, 8), np.float32), np.zeros((1, 2), np.float32)
    with pytest.raises(ValueError, match=r"gates must have shape \(steps, rows, 3 units\), got \(2, 1, 8\)"):
        gru_steps(gates, weights, None, h)
    with pytest.raises(ValueError, match=r"weights must have shape \(2, 8\), got \(2, 7\)"):
        lstm_steps(gates, weights[:, :7], None, h, h)
    with pytest.raises(ValueError, match=r"bias must have shape \(8,\), got \(7,\)"):
        lstm_steps(gates, weights, np.zeros(7, np.float32), h, h)
    with pytest.raises(ValueError, match=r"lengths must have shape \(1,\), got \(2,\)"):
        lstm_steps(gates, weights, None, h, h, np.zeros(2, np.int64))
