"""RNN, LSTM and GRU: the bits of the oracle for every kind, direction, shape and type, and close to real layers."""

import pickle
from itertools import product

import numpy as np
import pytest
import reference_functions
import scipy.special
from layers import assert_same_bits, name_of
from recurrent import BIASES, DIRECTIONS, GATES, KINDS, random_problem

from int8blas import GRU, LSTM, RNN, quantize

every_kind = pytest.mark.parametrize("kind", KINDS)
every_direction = pytest.mark.parametrize("direction", DIRECTIONS)
every_dst = pytest.mark.parametrize("dst_dtype", [np.uint8, np.float32], ids=name_of)

# Numbers of units at, below and above multiples of 16 (panels), of 4 (groups), and of the panels of a tile.
UNITS = (1, 3, 15, 16, 17, 20, 32, 47, 48, 49, 64, 70)


# --- shapes ----------------------------------------------------------------------------------------------------------


@every_kind
@pytest.mark.parametrize("units", UNITS)
def test_units_inputs_and_rows(isa, kind, units, rng):
    for n, inputs in zip(range(1, 10), (1, 70, 4, 5, 16, 33, 64, 7, 10), strict=True):
        for values in ("full", "small"):  # the kernels without VNNI have a separate path for small weights
            random_problem(rng, kind, units, inputs, n, t=3, values=values).check()


@every_kind
@every_direction
def test_time_steps_layers_and_directions(isa, kind, direction, rng):
    for t, layers, dst_dtype in product(range(7), (1, 2, 3), (np.uint8, np.float32)):
        random_problem(rng, kind, 18, t=t, layers=layers, direction=direction, dst_dtype=dst_dtype).check(layers=layers)


@every_kind
def test_sequences_whose_sums_are_computed_in_stretches(isa, kind, rng):
    for direction in DIRECTIONS:
        random_problem(rng, kind, 33, 5, n=40, t=60, direction=direction).check()


@every_kind
@every_direction
@every_dst
def test_nothing_to_do(isa, kind, direction, dst_dtype, rng):
    for t, n, states in product((0, 2), (0, 3), (False, True)):
        random_problem(
            rng, kind, 18, t=t, n=n, layers=2, direction=direction, dst_dtype=dst_dtype, states=states
        ).check()


# --- values ----------------------------------------------------------------------------------------------------------


@every_kind
@every_dst
@pytest.mark.parametrize("src_dtype", [np.uint8, np.float32, np.float16], ids=name_of)
def test_types(isa, kind, src_dtype, dst_dtype, rng):
    for direction in DIRECTIONS:
        problem = random_problem(rng, kind, 21, direction=direction, layers=2, src_dtype=src_dtype, dst_dtype=dst_dtype)
        problem.check()
        problem.but(h0=rng.normal(0, 1, problem.h0.shape).astype(np.float32)).check()
        problem.but(h0=None, c0=None).check()


@every_kind
def test_values_at_the_ends_of_float32(isa, kind, rng):
    problem = random_problem(rng, kind, 21, src_dtype=np.float32, dst_dtype=np.float32)
    special = np.float32([0.0, -0.0, 1e-45, 3.4e38, -3.4e38])
    for dst_dtype in (np.uint8, np.float32):
        changed = problem.but(
            src=rng.choice(special, problem.src.shape),
            h0=rng.choice(special, problem.h0.shape),
            c0=rng.choice(special, problem.c0.shape),
            dst_dtype=dst_dtype,
        )
        changed.check()


@every_kind
@pytest.mark.parametrize("data_shift", [0, 1, 128, 255])
def test_extremes(isa, kind, data_shift, rng):
    for data_scale, spread, values in product((1e-6, 0.3, 127, 1e6), (1e-6, 1, 100), ("full", "extreme")):
        problem = random_problem(
            rng, kind, 33, 20, data_scale=data_scale, data_shift=data_shift, spread=spread, values=values, t=3
        )
        problem.check(data_scale=data_scale, spread=spread)
        problem.but(dst_dtype=np.float32).check(data_scale=data_scale, spread=spread)


@every_kind
def test_negative_scales(isa, kind, rng):
    for src_dtype, dst_dtype, data_scale in product((np.uint8, np.float32), (np.uint8, np.float32), (127, -100)):
        problem = random_problem(
            rng, kind, 33, 20, src_dtype=src_dtype, dst_dtype=dst_dtype, data_scale=data_scale, direction=DIRECTIONS[2]
        )
        problem.weights_scale *= rng.choice(np.float32([-1, 1]), problem.weights_scale.shape)
        if "projection_scale" in problem.arguments:
            problem.arguments["projection_scale"] *= np.float32(-1)
        problem.check(data_scale=data_scale)


def test_largest_sums(isa, rng):
    inputs, units = 70000, 33
    problem = random_problem(rng, "lstm", units, inputs, n=1, t=2, values="extreme", states=False)
    problem.src[...] = 255
    problem.weights_layer[0][...] = rng.choice(np.int8([-128, 127]), (1, 1, 4, units))
    problem.check()


# --- creation --------------------------------------------------------------------------------------------------------


@every_kind
def test_leading_dimensions(isa, kind, rng):
    problem = random_problem(rng, kind, 18, inputs=18)
    dst, h_t, *c_t = problem.expected()
    layer, iterated, bias, scale = (np.asarray(x) for x in (
        problem.weights_layer, problem.weights_iter, problem.bias, problem.weights_scale))  # fmt: skip
    for lead, of in (((), np.squeeze), ((1,), lambda x: x[0]), ((1, 1), np.asarray), ((1, 1), list)):
        weights = [of(x) if of is not np.squeeze else x[0, 0] for x in (layer, iterated, bias)]
        problem.weights_layer, problem.weights_iter, problem.bias = weights
        for h0, c0, weights_scale in (
            (problem.h0, problem.c0, scale), (problem.h0[0], problem.c0[0, 0], scale[0, 0]),
        ):  # fmt: skip
            results = problem.but(h0=h0, c0=c0, weights_scale=weights_scale)
            results = results.run(results.layer())
            assert_same_bits(results[0], dst)
            for state, wanted in zip(results[1:], (h_t, *c_t), strict=True):
                assert_same_bits(state, wanted.reshape(*lead, *wanted.shape[2:]))


@every_kind
def test_weights_scales_that_broadcast(isa, kind, rng):
    problem = random_problem(rng, kind, 18, layers=2, direction="bidirectional_concat")
    shape = problem.weights_scale.shape
    for part in (shape, shape[1:], shape[2:], (2, 2, 1, 1), (2, 1, 1), (1, 18), ()):
        scale = rng.uniform(200, 2000, part).astype(np.float32)
        expected = problem.but(weights_scale=np.broadcast_to(scale, shape)).expected()
        for result, wanted in zip(problem.but(weights_scale=scale).run(problem.but(weights_scale=scale).layer()),
                                  expected, strict=True):  # fmt: skip
            assert_same_bits(result, wanted)


@every_kind
@pytest.mark.parametrize("weights_scale", ["per_tensor", "per_channel", "values"])
def test_real_weights_are_quantized(isa, kind, weights_scale, rng):
    problem = random_problem(rng, kind, 18, layers=2, direction="bidirectional_concat")
    of_source = [rng.normal(0, 0.2, x.shape).astype(np.float32) for x in problem.weights_layer]
    of_state = [rng.normal(0, 0.2, x.shape).astype(np.float32) for x in problem.weights_iter]
    of_source[0][0, :, -1, 2] = of_state[0][0, :, -1, 2] = 0
    scales, quantized = np.empty_like(problem.weights_scale), ([[], []], [[], []])
    for layer, way in product(range(2), range(2)):
        pair = of_source[layer][way], of_state[layer][way]
        largest = np.abs(np.concatenate(pair)).max(axis=0 if weights_scale == "per_channel" else None)
        scale = np.float32(63) / np.maximum(largest, np.float32(2.0**-64))
        scales[layer, way] = np.float32(400) if weights_scale == "values" else scale
        for weights, cells in zip(pair, quantized, strict=True):
            cells[layer].append(np.clip(np.rint(weights * scales[layer, way]), -128, 127).astype(np.int8))
    weights_scale = scales if weights_scale == "values" else weights_scale
    expected = problem.but(weights_layer=quantized[0], weights_iter=quantized[1], weights_scale=scales)
    layer = problem.but(weights_layer=of_source, weights_iter=of_state, weights_scale=weights_scale).layer()
    expected.check(layer)
    if isinstance(weights_scale, str):
        assert max(np.abs(x).max() for layers in quantized for ways in layers for x in ways) == 63


@every_kind
def test_without_a_bias_it_is_zero(isa, kind, rng):
    problem = random_problem(rng, kind, 18, layers=2, dst_dtype=np.float32)
    zeros = problem.but(bias=[np.zeros_like(x) for x in problem.bias])
    zeros.check(problem.but(bias=None).layer())


# --- sequences -------------------------------------------------------------------------------------------------------


@every_kind
@every_dst
def test_a_sequence_in_parts_is_the_same_as_in_one_call(isa, kind, dst_dtype, rng):
    problem = random_problem(rng, kind, 35, layers=2, t=7, dst_dtype=dst_dtype)
    layer, expected = problem.layer(), problem.expected()
    parts, states = [], {"h0": problem.h0, "c0": problem.c0}
    for part in (slice(0, 3), slice(3, 3), slice(3, 4), slice(4, 7)):
        attention = None if problem.attention is None else problem.attention[part]
        dst, h_t, *c_t = problem.but(src=problem.src[part], attention=attention, **states).run(layer)
        parts.append(dst)
        states = {"h0": h_t, "c0": c_t[0] if c_t else None}
    assert_same_bits(np.concatenate(parts), expected[0])
    assert_same_bits(h_t, expected[1])
    if c_t:
        assert_same_bits(c_t[0], expected[2])


@every_kind
def test_rows_do_not_depend_on_one_another(isa, kind, rng):
    problem = random_problem(rng, kind, 35, n=9)
    layer, (dst, *_) = problem.layer(), problem.expected()
    for row in range(9):
        rows = slice(row, row + 1)
        one = problem.but(
            src=problem.src[:, rows],
            h0=problem.h0[:, :, rows],
            c0=problem.c0[:, :, rows],
            attention=None if problem.attention is None else problem.attention[:, rows],
        )
        assert_same_bits(one.run(layer)[0], dst[:, rows])


# --- the real layer --------------------------------------------------------------------------------------------------


def real_layer(kind, src, weights, recurrent, bias):
    """The states h of all steps in float64, from states of zeros."""
    units = recurrent.shape[0]
    h, c, states = np.zeros((src.shape[1], units)), np.zeros((src.shape[1], units)), []
    logistic = scipy.special.expit
    for x in src:
        of_x, of_h = np.tensordot(x, weights, 1), np.tensordot(h, recurrent, 1)
        if kind == "lstm":
            i, f, g, o = np.moveaxis(of_x + of_h + bias, 1, 0)
            c = logistic(f) * c + logistic(i) * np.tanh(g)
            h = logistic(o) * np.tanh(c)
        elif kind == "rnn":
            h = np.tanh(of_x + of_h + bias)[:, 0]
        else:
            u, r = (logistic(of_x[:, gate] + of_h[:, gate] + bias[gate]) for gate in (0, 1))
            if kind == "gru":
                o = np.tanh(of_x[:, 2] + (r * h) @ recurrent[:, 2] + bias[2])
            else:
                o = np.tanh(of_x[:, 2] + bias[2] + r * (of_h[:, 2] + bias[3]))
            h = u * h + (1 - u) * o
        states.append(h)
    return np.array(states)


@pytest.mark.parametrize("kind", ["lstm", "gru", "gru_linear", "rnn"])
@pytest.mark.parametrize("weights_scale", ["per_tensor", "per_channel"])
def test_near_the_layer_in_real_numbers(isa, kind, weights_scale, rng):
    inputs, units, t, n = 48, 64, 30, 4
    limit = units**-0.5  # as PyTorch initializes weights
    weights = rng.uniform(-limit, limit, (inputs, GATES[kind], units)).astype(np.float32)
    recurrent = rng.uniform(-limit, limit, (units, GATES[kind], units)).astype(np.float32)
    bias = rng.uniform(-limit, limit, (BIASES[kind], units)).astype(np.float32)
    src = np.tanh(rng.normal(0, 1, (t, n, inputs))).astype(np.float32)
    more = {"linear_before_reset": kind == "gru_linear"} if kind.startswith("gru") else {}
    layer = {"lstm": LSTM, "rnn": RNN}.get(kind, GRU)(
        weights, recurrent, bias, weights_scale=weights_scale, src_dtype=np.float32, dst_dtype=np.float32, **more
    )
    exact = real_layer(kind, src, weights, recurrent, bias)
    error = np.abs(layer(src)[0] - exact)
    # A state has an error up to 1 / 254, a weight up to limit / 126; in sums, hundreds of such errors nearly cancel.
    assert error.max() < 0.03
    assert error.mean() < 0.005
    quantized = quantize(src, 1 / 127, 128, np.uint8)
    assert np.abs(quantized - (src * np.float32(127) + 128)).max() <= 0.5 + 1e-4


def test_the_oracle_is_near_the_exact_functions():
    x = np.linspace(-100, 100, 100001).astype(np.float32)
    for function, exact in ((reference_functions.tanh, np.tanh), (reference_functions.logistic, scipy.special.expit)):
        wanted = exact(x.astype(np.float64))
        assert (np.abs(function(x) - wanted) <= 4 * np.spacing(np.abs(wanted).astype(np.float32)) + 2.0**-126).all()


# --- variants --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["augru", "augru_linear"])
def test_attention_of_zeros_is_a_gru(isa, kind, rng):
    problem = random_problem(rng, kind, 35, src_dtype=np.float32, dst_dtype=np.float32)
    with_zeros = problem.but(attention=np.zeros_like(problem.attention)).run(problem.layer())
    for result, expected in zip(with_zeros, problem.but(attention=None).run(problem.layer()), strict=True):
        assert_same_bits(result, expected)
    ones = problem.but(attention=np.ones((*problem.attention.shape, 1), np.float16)).run(problem.layer())
    same = problem.but(attention=np.ones_like(problem.attention)).expected()
    for result, expected in zip(ones, same, strict=True):
        assert_same_bits(result, expected)


@pytest.mark.parametrize("kind", ["augru", "augru_linear"])
def test_attention_that_is_not_finite_loses_its_sequence(isa, kind, rng):
    problem = random_problem(rng, kind, 18, src_dtype=np.float32, dst_dtype=np.float32)
    attention = problem.attention.copy()
    attention[2, 1] = np.inf
    dst, h_t = problem.but(attention=attention).run(problem.layer())
    expected = problem.expected()[0]
    assert np.isnan(dst[2:, 1]).all()
    assert np.isnan(h_t[0, 0, 1]).all()
    assert_same_bits(dst[:, [0, 2]], expected[:, [0, 2]])
    assert_same_bits(dst[:2], expected[:2])


def test_peepholes_of_zeros_are_an_lstm(isa, rng):
    problem = random_problem(rng, "lstm_peephole", 35, dst_dtype=np.float32)
    zeros = {"peephole": np.zeros_like(problem.arguments["peephole"])}
    for result, expected in zip(
        problem.run(problem.but(arguments=zeros).layer()), problem.run(problem.but(arguments={}).layer()), strict=True
    ):
        assert_same_bits(result, expected)


@pytest.mark.parametrize("projection_scale", ["per_tensor", "per_channel"])
def test_real_projections_are_quantized(isa, projection_scale, rng):
    problem = random_problem(rng, "lstm_both", 21, layers=2, direction="bidirectional_concat")
    real = rng.normal(0, 0.2, problem.arguments["projection"].shape).astype(np.float32)
    largest = np.abs(real).max(axis=2 if projection_scale == "per_channel" else (2, 3), keepdims=True)
    scale = np.float32(63) / largest
    exact = np.clip(np.rint(real * scale), -128, 127).astype(np.int8)
    scales = np.broadcast_to(scale[:, :, 0], problem.arguments["projection_scale"].shape)
    expected = problem.but(arguments=problem.arguments | {"projection": exact, "projection_scale": scales})
    given = problem.but(arguments=problem.arguments | {"projection": real, "projection_scale": projection_scale})
    expected.check(given.layer())


@every_kind
def test_layers_go_through_pickle(kind, rng):
    problem = random_problem(rng, kind, 21, layers=2, direction="bidirectional_sum")
    layer = pickle.loads(pickle.dumps(problem.layer()))
    assert repr(layer) == repr(problem.layer())
    problem.check(layer)
