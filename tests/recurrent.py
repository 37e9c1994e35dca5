"""Random recurrent layers for the tests: their arguments, their results, and the results of the oracle."""

from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
import reference_rnn
from arrays import random_values
from layers import assert_same_bits

from int8blas import GRU, LSTM

KINDS = ("lstm", "gru", "gru_linear")
DIRECTIONS = ("left2right", "right2left", "bidirectional_concat", "bidirectional_sum")
GATES = {"lstm": 4, "gru": 3, "gru_linear": 3}
BIASES = {"lstm": 4, "gru": 3, "gru_linear": 4}


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
    arguments: dict = field(default_factory=dict)

    def but(self, **changes):
        """The same problem with some other values."""
        return replace(self, **changes)

    def layer(self):
        """The layer."""
        more = {"linear_before_reset": self.kind == "gru_linear"} if self.kind != "lstm" else {}
        return (LSTM if self.kind == "lstm" else GRU)(
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
        states = (self.h0, self.c0) if self.kind == "lstm" else (self.h0,)
        return layer(self.src, *states, lengths=self.lengths, out=out)

    def expected(self):
        """The expected results."""
        whole = self.lengths is None or self.src.shape[1] == 0
        oracle = reference_rnn.rnn if whole else partial(reference_rnn.rnn_of_lengths, lengths=self.lengths)
        results = oracle(
            self.kind,
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
        )
        return results if self.kind == "lstm" else results[:2]

    def check(self, layer=None, out=None, **facts):
        """Check that all results are the expected ones, bit for bit."""
        facts = {"kind": self.kind, "src": self.src.shape, "units": self.weights_iter[0][0].shape[0]} | facts
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
    channels = units * (2 if direction == "bidirectional_concat" else 1)
    gates, lead = GATES[kind], (layers, directions)
    widths = [inputs, *[channels] * (layers - 1)]
    largest = np.sqrt(inputs + units) * 64 * (73 if values != "extreme" else 200) / spread
    problem = Problem(
        kind,
        random_values(rng, np.uint8, (t, n, inputs), values),
        [random_values(rng, np.int8, (directions, width, gates, units), values) for width in widths],
        list(random_values(rng, np.int8, (*lead, units, gates, units), values)),
        list(rng.normal(0, 0.5, (*lead, BIASES[kind], units)).astype(np.float32)),
        (rng.uniform(0.5, 2, (*lead, gates, units)) * largest / 127).astype(np.float32),
        direction,
        dst_dtype,
        **more,
    )
    if src_dtype != np.uint8:
        problem.src = rng.normal(0, 0.7, (t, n, inputs)).astype(src_dtype)
    if states:
        problem.h0 = random_values(rng, np.uint8, (*lead, n, units))
        problem.c0 = rng.normal(0, 1, (*lead, n, units)).astype(np.float32)
    return problem
