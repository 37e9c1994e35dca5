"""Random recurrent layers for the tests: their arguments, their results, and the results of the oracle."""

from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
import reference_rnn
from arrays import random_values
from layers import assert_same_bits

from int8blas import GRU, LSTM, RNN

# The cell of each kind, and the additional parts of the kind.
CELLS = {
    "lstm": ("lstm", ()),
    "gru": ("gru", ()),
    "gru_linear": ("gru_linear", ()),
    "rnn": ("rnn", ("tanh",)),
    "rnn_relu": ("rnn", ("relu",)),
    "rnn_logistic": ("rnn", ("logistic",)),
    "augru": ("gru", ("attention",)),
    "augru_linear": ("gru_linear", ("attention",)),
    "lstm_peephole": ("lstm", ("peephole",)),
    "lstm_projection": ("lstm", ("projection",)),
    "lstm_both": ("lstm", ("peephole", "projection")),
}
KINDS = tuple(CELLS)
DIRECTIONS = ("left2right", "right2left", "bidirectional_concat", "bidirectional_sum")
GATES = {kind: {"lstm": 4, "gru": 3, "gru_linear": 3, "rnn": 1}[cell] for kind, (cell, _) in CELLS.items()}
BIASES = {kind: {"lstm": 4, "gru": 3, "gru_linear": 4, "rnn": 1}[cell] for kind, (cell, _) in CELLS.items()}


@dataclass
class Problem:
    """A recurrent layer with all its arguments; weights are int8, by layer and direction."""

    kind: str
    src: np.ndarray
    weights_layer: list
    weights_iter: list
    bias: list
    weights_scale: np.ndarray
    direction: str = "left2right"
    dst_dtype: type = np.uint8
    data_scale: float = 127
    data_shift: int = 128
    h0: np.ndarray | None = None
    c0: np.ndarray | None = None
    lengths: np.ndarray | None = None
    attention: np.ndarray | None = None
    arguments: dict = field(default_factory=dict)  # peephole, projection, projection_scale, activation, alpha

    def but(self, **changes):
        """Return the problem with some other values."""
        return replace(self, **changes)

    def layer(self):
        """The layer."""
        cell, _ = CELLS[self.kind]
        names = {"peephole": "weights_peephole", "projection": "weights_projection"}
        more = {names.get(name, name): value for name, value in self.arguments.items()}
        if cell.startswith("gru"):
            more["linear_before_reset"] = cell == "gru_linear"
        return {"lstm": LSTM, "rnn": RNN}.get(cell, GRU)(
            self.weights_layer,
            self.weights_iter,
            self.bias,
            data_scale=self.data_scale,
            data_shift=self.data_shift,
            weights_scale=self.weights_scale,
            direction=self.direction,
            src_dtype=self.src.dtype,
            dst_dtype=self.dst_dtype,
            **more,
        )

    def run(self, layer, out=None):
        """The results of `layer`: dst, h_t and, for an LSTM, c_t."""
        states = (self.h0, self.c0) if self.has_c else (self.h0,)
        more = {} if self.attention is None else {"attention": self.attention}
        return layer(self.src, *states, lengths=self.lengths, out=out, **more)

    @property
    def has_c(self):
        """Whether the layer is an LSTM."""
        return CELLS[self.kind][0] == "lstm"

    def expected(self):
        """The expected results."""
        whole = self.lengths is None or self.src.shape[1] == 0
        oracle = reference_rnn.rnn if whole else partial(reference_rnn.rnn_of_lengths, lengths=self.lengths)
        results = oracle(
            CELLS[self.kind][0],
            self.src,
            self.weights_layer,
            self.weights_iter,
            self.bias,
            self.weights_scale,
            data_scale=self.data_scale,
            data_shift=self.data_shift,
            direction=self.direction,
            dst_dtype=self.dst_dtype,
            h0=self.h0,
            c0=self.c0,
            attention=self.attention,
            **self.arguments,
        )
        return results if self.has_c else results[:2]

    def check(self, layer=None, out=None, **facts):
        """Check that all results are the expected ones, bit for bit."""
        facts = {"kind": self.kind, "src": self.src.shape, "units": self.weights_iter[0][0].shape[2]} | facts
        facts["direction"] = self.direction
        results = self.run(layer or self.layer(), out)
        for name, result, expected in zip(("dst", "h_t", "c_t"), results, self.expected(), strict=False):
            assert_same_bits(result, expected, of=name, **facts)


def random_problem(
    rng, kind="lstm", units=20, inputs=10, n=3, t=4, layers=1, direction="left2right", src_dtype=np.uint8,
    dst_dtype=np.uint8, states=True, values="full", spread=1.0, **more,
):  # fmt: skip
    """A layer whose gates are neither all linear nor all saturated; `spread` is the size of its sums' real values."""
    directions = 2 if direction.startswith("bidirectional") else 1
    cell, extras = CELLS[kind]
    outputs = max(1, units * 2 // 3) if "projection" in extras else units
    channels = outputs * (2 if direction == "bidirectional_concat" else 1)
    gates, lead = GATES[kind], (layers, directions)
    widths = [inputs, *[channels] * (layers - 1)]
    largest = np.sqrt(inputs + units) * 64 * (73 if values != "extreme" else 200) / spread
    problem = Problem(
        kind,
        random_values(rng, np.uint8, (t, n, inputs), values),
        [random_values(rng, np.int8, (directions, width, gates, units), values) for width in widths],
        list(random_values(rng, np.int8, (*lead, outputs, gates, units), values)),
        list(rng.normal(0, 0.5, (*lead, BIASES[kind], units)).astype(np.float32)),
        (rng.uniform(0.5, 2, (*lead, gates, units)) * largest / 127).astype(np.float32),
        direction,
        dst_dtype,
        **more,
    )
    if src_dtype != np.uint8:
        problem.src = rng.normal(0, 0.7, (t, n, inputs)).astype(src_dtype)
    if cell == "rnn":
        problem.arguments = {"activation": extras[0], "alpha": 0.25 if extras[0] == "relu" else 0.0}
    if "attention" in extras:
        real = src_dtype != np.uint8
        problem.attention = rng.random((t, n)).astype(np.float32) if real else random_values(rng, np.uint8, (t, n))
    if "peephole" in extras:
        problem.arguments["peephole"] = rng.normal(0, 1, (*lead, 3, units)).astype(np.float32)
    if "projection" in extras:
        problem.arguments["projection"] = random_values(rng, np.int8, (*lead, units, outputs), values)
        scale = rng.uniform(0.5, 2, (*lead, outputs)) * largest / 127
        problem.arguments["projection_scale"] = scale.astype(np.float32)
    if states:
        problem.h0 = random_values(rng, np.uint8, (*lead, n, outputs))
        problem.c0 = rng.normal(0, 1, (*lead, n, units)).astype(np.float32)
    return problem
