"""DynamicLSTM: the bits of the oracle for every direction, shape and kind of weights, and its errors."""

import copy
import pickle
import re
from itertools import product

import numpy as np
import pytest
import scipy.special
from layers import assert_same_bits
from reference_dynamic_lstm import dynamic_lstm

import int8blas
from int8blas import DynamicLSTM, num_threads

DIRECTIONS = ("left2right", "right2left", "bidirectional_concat")
every_direction = pytest.mark.parametrize("direction", DIRECTIONS)


def octets(rng, shape, dtype, values):
    limits = np.iinfo(dtype)
    if values == "small":  # the kernels without VNNI have a separate path for small weights
        middle = 128 if dtype == np.uint8 else 0
        return rng.integers(middle - 30, middle + 30, shape).astype(dtype)
    if values == "extreme":
        return rng.choice([limits.min, limits.max], shape).astype(dtype)
    return rng.integers(limits.min, limits.max, shape, endpoint=True).astype(dtype)


class Problem:
    """A random layer and the arguments of its call."""

    def __init__(
        self, rng, units=18, inputs=7, n=3, t=4, *, direction="left2right", dtypes=(np.int8, np.int8), values="full",
        zeros=False, states=True, lengths=False,
    ):  # fmt: skip
        d = 2 if direction == "bidirectional_concat" else 1
        self.direction = direction
        shapes = (d, inputs, 4, units), (d, units, 4, units)
        self.weights = [octets(rng, shape, dtype, values) for shape, dtype in zip(shapes, dtypes, strict=True)]
        self.scales = [rng.uniform(0.001, 0.02, (d, 4, units)).astype(np.float32) for _ in range(2)]
        if zeros:
            self.zeros = [octets(rng, (d, 4, units), dtype, "full").astype(np.int32) for dtype in dtypes]
        else:
            self.zeros = [np.zeros((d, 4, units), np.int32) for _ in dtypes]
        self.bias = rng.normal(0, 1, (d, 4, units)).astype(np.float32)
        self.src = rng.normal(0.5, 2, (t, n, inputs)).astype(np.float32)
        self.h0, self.c0 = (rng.normal(0, 1, (d, n, units)).astype(np.float32) if states else None for _ in range(2))
        self.lengths = rng.integers(0, t, n, endpoint=True) if lengths else None

    def layer(self):
        return DynamicLSTM(
            *self.weights, self.bias, scales=dict(zip(("layer", "iter"), self.scales, strict=True)),
            zero_points=dict(zip(("layer", "iter"), self.zeros, strict=True)), direction=self.direction,
        )  # fmt: skip

    def run(self, layer, **more):
        return layer(self.src, self.h0, self.c0, lengths=self.lengths, **more)

    def expected(self):
        return dynamic_lstm(
            self.src, self.weights, self.bias, self.scales, self.zeros, self.direction, self.h0, self.c0, self.lengths
        )

    def check(self):
        for actual, wanted in zip(self.run(self.layer()), self.expected(), strict=True):
            assert_same_bits(actual, wanted)


@pytest.mark.parametrize("units", [1, 3, 15, 16, 17, 20, 32, 47, 48, 49, 64, 70])
def test_units_inputs_and_rows(isa, units, rng):
    for n, inputs in zip(range(1, 10), (1, 70, 4, 5, 16, 33, 64, 7, 10), strict=True):
        for values in ("full", "small"):
            Problem(rng, units, inputs, n, t=3, values=values).check()


@every_direction
@pytest.mark.parametrize("lengths", [False, True])
def test_directions_lengths_and_steps(isa, direction, lengths, rng):
    for t, states in product(range(7), (False, True)):
        Problem(rng, t=t, n=5, direction=direction, states=states, lengths=lengths).check()


@every_direction
def test_stretches(isa, direction, rng):
    for lengths in (False, True):
        Problem(rng, 33, 5, n=40, t=60, direction=direction, lengths=lengths).check()


@pytest.mark.parametrize("dtypes", list(product((np.int8, np.uint8), repeat=2)))
def test_types_and_zero_points_of_weights(isa, dtypes, rng):
    for values, zeros, direction in product(("full", "small", "extreme"), (False, True), DIRECTIONS):
        Problem(rng, dtypes=dtypes, values=values, zeros=zeros, direction=direction, lengths=True).check()


@every_direction
def test_threads(isa, direction, rng):
    problem = Problem(rng, 200, 30, n=3, t=5, direction=direction, lengths=True)
    layer, wanted = problem.layer(), problem.expected()
    for threads in (1, 2, 3, 4, 7):
        with num_threads(threads):
            for actual, expected in zip(problem.run(layer), wanted, strict=True):
                assert_same_bits(actual, expected)


def test_ranges(isa, rng):
    problem = Problem(rng, zeros=True)
    for src in (0 * problem.src, np.abs(problem.src), -np.abs(problem.src), 1e-42 * problem.src, 1e37 * problem.src):
        problem.src = src.astype(np.float32)
        problem.check()


@every_direction
def test_what_is_not_finite_has_no_range(isa, direction, rng):
    for bad, name in product((np.nan, np.inf, -np.inf), ("src", "h0", "c0")):
        problem = Problem(rng, direction=direction)
        getattr(problem, name)[0, 1, 2] = bad
        problem.check()


def test_nothing_to_do(isa, rng):
    for t, n in ((0, 2), (3, 0), (0, 0)):
        problem = Problem(rng, t=t, n=n)
        dst, h_t, c_t = problem.run(problem.layer())
        assert dst.shape == (t, n, 18)
        assert_same_bits(h_t, problem.h0)
        assert_same_bits(c_t, problem.c0)


def test_out_and_strided_sources(isa, rng):
    problem = Problem(rng, direction="bidirectional_concat")
    wanted = problem.expected()
    problem.src = np.asfortranarray(problem.src)
    memory = np.full((4, 3, 72), 7, np.float32)
    out = memory[:, ::-1, ::2]
    dst, *states = problem.run(problem.layer(), out=out)
    assert dst is out
    for actual, expected in zip((np.ascontiguousarray(out), *states), wanted, strict=True):
        assert_same_bits(actual, expected)
    assert (memory[:, :, 1::2] == 7).all()


def test_one_direction_needs_no_dimension_for_it(isa, rng):
    problem = Problem(rng, zeros=True)
    layer = DynamicLSTM(
        *(w[0] for w in problem.weights), problem.bias[0],
        scales={"layer": problem.scales[0][0], "iter": problem.scales[1][0]},
        zero_points={"layer": problem.zeros[0][0], "iter": problem.zeros[1][0]},
    )  # fmt: skip
    dst, h_t, c_t = layer(problem.src, problem.h0[0], problem.c0[0])
    for actual, wanted in zip((dst, h_t[np.newaxis], c_t[np.newaxis]), problem.expected(), strict=True):
        assert_same_bits(actual, wanted)


@pytest.mark.parametrize("scale", ["per_channel", "per_tensor"])
def test_near_the_layer_in_real_numbers(isa, scale, rng):
    w, r = rng.normal(0, 0.3, (1, 30, 4, 40)).astype(np.float32), rng.normal(0, 0.2, (1, 40, 4, 40)).astype(np.float32)
    x = rng.normal(0, 1, (6, 2, 30)).astype(np.float32)
    dst, _, _ = DynamicLSTM(w, r, scales={"layer": scale, "iter": scale})(x)
    h = c = np.zeros((2, 40))
    for step, source in enumerate(x):
        i, f, g, o = np.einsum("nk,kgu->gnu", source, w[0]) + np.einsum("nk,kgu->gnu", h, r[0])
        c = scipy.special.expit(f) * c + scipy.special.expit(i) * np.tanh(g)
        h = scipy.special.expit(o) * np.tanh(c)
        np.testing.assert_allclose(dst[step], h, atol=0.06)


def test_real_weights_have_the_scales_that_are_given(isa, rng):
    w, r = rng.normal(0, 1, (1, 5, 4, 3)).astype(np.float32), rng.normal(0, 1, (1, 3, 4, 3)).astype(np.float32)
    scales = {"layer": 0.02, "iter": np.full((4, 3), 0.03)}
    quantized = [np.clip(np.rint(x / np.float32(s)), -127, 127).astype(np.int8) for x, s in ((w, 0.02), (r, 0.03))]
    x = rng.normal(0, 1, (4, 2, 5)).astype(np.float32)
    for actual, wanted in zip(
        DynamicLSTM(w, r, scales=scales)(x), DynamicLSTM(*quantized, scales=scales)(x), strict=True
    ):
        assert_same_bits(actual, wanted)


def test_copies_and_files(tmp_path, rng):
    for direction, zeros in product(DIRECTIONS, (False, True)):
        problem = Problem(rng, direction=direction, zeros=zeros)
        layer = problem.layer()
        int8blas.save(tmp_path / "lstm", layer)
        for other in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer)), int8blas.load(tmp_path / "lstm")):
            assert repr(other) == repr(layer)
            for actual, wanted in zip(problem.run(other), problem.expected(), strict=True):
                assert_same_bits(actual, wanted)


def test_what_a_layer_says_of_itself(rng):
    for direction in DIRECTIONS:
        layer = Problem(rng, direction=direction).layer()
        assert (layer.direction, layer.directions) == (direction, 2 if "bidirectional" in direction else 1)
        assert (layer.input_size, layer.units) == (7, 18)


W, R = np.ones((5, 4, 3), np.int8), np.ones((3, 4, 3), np.int8)
SCALES = {"layer": 1, "iter": 1}
ERRORS = [
    ((W[:, :3], R), {"scales": SCALES}, "weights_layer must have shape (k, 4, units) or (1, k, 4, units)"),
    ((W, R[:2]), {"scales": SCALES}, "weights_iter must have shape (3, 4, 3) in each direction, got (2, 4, 3)"),
    ((W, R), {"scales": SCALES, "direction": "bidirectional_concat"}, "weights_layer must have shape (2, k, 4, units)"),
    ((W.astype(np.int16), R), {"scales": SCALES}, "weights_layer must be int8, uint8 or float32, got int16"),
    ((W, R), {}, "scales['layer'] must be values for weights_layer of int8, got None"),
    ((W, R), {"scales": {"layer": 1, "iter": 0}}, "scales['iter'] must be finite and not 0"),
    ((W, R), {"scales": {"layer": np.ones(5), "iter": 1}}, "scales['layer'] must have a shape that broadcasts"),
    ((W, R), {"scales": SCALES, "zero_points": {"iter": 128}}, "zero_points['iter'] must be between -128 and 127"),
    ((W * 1.0, R), {"scales": SCALES, "zero_points": {"layer": 1}}, "zero_points['layer'] must not be given"),
    ((W * np.inf, R), {"scales": SCALES}, "weights_layer must be finite"),
    ((W, R, np.ones(3, np.float32)), {"scales": SCALES}, "bias must have shape (4, 3), got (3,)"),
    ((W, R), {"scales": SCALES, "direction": "up"}, "direction must be"),
    ((np.ones((33026, 4, 3), np.int8), R), {"scales": SCALES}, "weights must have at most 33025 inputs and units"),
]


@pytest.mark.parametrize(("arguments", "more", "message"), ERRORS, ids=range(len(ERRORS)))
def test_creation(arguments, more, message):
    with pytest.raises((TypeError, ValueError), match=re.escape(message)):
        DynamicLSTM(*arguments, **more)


@pytest.mark.parametrize(
    ("arguments", "more", "message"),
    [
        ((np.ones((2, 3), np.float32),), {}, "src must have shape (t, n, 5), got (2, 3)"),
        ((np.ones((2, 3, 5), np.int8),), {}, "src must be float32"),
        ((np.ones((2, 3, 5), np.float32), np.ones((3, 4), np.float32)), {}, "h0 must have shape (3, 3), got (3, 4)"),
        ((np.ones((2, 3, 5), np.float32), None, np.ones(3, np.float32)), {}, "c0 must have shape (3, 3), got (3,)"),
        ((np.ones((2, 3, 5), np.float32),), {"lengths": [1, 2, 3]}, "lengths must be between 0 and 2"),
        ((np.ones((2, 3, 5), np.float32),), {"out": np.ones((2, 3, 3))}, "out must be float32"),
    ],
)
def test_execution(arguments, more, message):
    with pytest.raises((TypeError, ValueError), match=re.escape(message)):
        DynamicLSTM(W, R, scales=SCALES)(*arguments, **more)


# --- forged pickles --------------------------------------------------------------------------------------------------


def pickled(**more):
    """The function that restores a layer, the layer's cells, and the arguments after them."""
    restore, (cells, *rest) = DynamicLSTM(W, R, scales=SCALES, **more).__reduce__()
    return restore, cells, rest


def test_restored_cells():
    restore, cells, rest = pickled()
    others = DynamicLSTM(np.ones((5, 4, 20), np.int8), np.ones((20, 4, 20), np.int8), scales=SCALES)
    x = np.ones((2, 1, 5), np.float32)
    assert_same_bits(restore(cells, *rest)(x)[0], DynamicLSTM(W, R, scales=SCALES)(x)[0])
    for wrong in (tuple(cells), cells * 2, [], [None], None):
        with pytest.raises(ValueError, match=r"^cells must be a list of 1, got "):
            restore(wrong, *rest)
    with pytest.raises(ValueError, match=r"^cells must have been packed for 5 inputs and 3 units, got "):
        restore(others.__reduce__()[1][0], *rest)


@pytest.mark.parametrize("lead", [None, 1, "yes"])
def test_restored_dimension_of_directions(lead):
    restore, cells, (units, _, direction) = pickled()
    with pytest.raises(ValueError, match=rf"^lead must be a bool, True for two directions, got {lead!r}$"):
        restore(cells, units, lead, direction)


def test_two_restored_directions_have_a_dimension():
    w, r = np.stack([W, W]), np.stack([R, R])
    restore, (cells, units, lead, direction) = DynamicLSTM(
        w, r, scales=SCALES, direction="bidirectional_concat"
    ).__reduce__()
    assert lead is True
    with pytest.raises(ValueError, match=r"^lead must be a bool, True for two directions, got False$"):
        restore(cells, units, False, direction)


def test_restored_vectors_and_matrices():
    cell = pickled()[1][0]
    make, values = cell.__reduce__()
    names = ("of_source", "of_state", "source_scale", "state_scale", "bias", "source_zero", "state_zero")
    right = dict(zip(names, values, strict=True))
    make(*right.values())
    scale = right["source_scale"]
    for name, dtype in (("source_scale", "float32"), ("state_scale", "float32"), ("bias", "float32"),
                        ("source_zero", "int32"), ("state_zero", "int32")):  # fmt: skip
        of_type = scale.astype(dtype)
        make(*(right | {name: of_type}).values())
        for wrong in (of_type[:-1], of_type.astype(np.int64), np.repeat(of_type, 2)[::2], 1):
            text = rf"^{name} must be a contiguous vector of {len(scale)} {dtype}, got "
            with pytest.raises(TypeError, match=text):
                make(*(right | {name: wrong}).values())
    other = int8blas.pack_b(np.ones((5, 80), np.int8)), int8blas.pack_b(np.ones((5, len(scale)), np.uint8))
    for wrong in other:
        with pytest.raises(TypeError, match=r"^weights must be int8 with equal numbers of columns, got "):
            make(*(right | {"of_source": wrong}).values())
