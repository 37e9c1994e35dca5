"""The problems of the benchmark of recurrent layers: shapes, and the operands of one call with the expected results.

static:  uint8 source and result; weights, states and all scales as in oneDNN
dynamic: float32 source and result; other libraries quantize source and states in each step, by their range

A shape is written "lstm 50x16x512x512": cell, steps, batch, inputs and units; "l2" after it means layers, "bi" both
directions, whose results are concatenated. The cell "lbr_gru" is the GRU with linear before reset, torch's only one.
Initial states are zero.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import numpy as np

KINDS = ("static", "dynamic")
GATES = {"lstm": 4, "gru": 3, "lbr_gru": 3}  # LSTM: i, f, c~, o; GRU: u, r, o

ONE_LAYER = [f"{{}} 50x{n}x{units}x{units}" for n in (1, 16) for units in (256, 512, 1024)]
MORE = [f"{{}} 50x{n}x512x512 {more}" for more in ("l2", "bi") for n in (1, 16)]
SHAPES = [shape.format(cell) for shapes in (ONE_LAYER, MORE) for cell in GATES for shape in shapes]
QUICK = [shape.format(cell) for cell in GATES for shape in ("{} 50x1x512x512", "{} 50x16x512x512")]

DATA_SCALE, DATA_SHIFT = 127, 128  # of source and states: uint8 = float32 * scale + shift

# Limits of the error, relative to the norm of the result. As in linear.py, a smaller error shows that a library does
# not compute in 8 bits; 7-bit states or weights exceed the upper limit.
DYNAMIC_ERRORS = (1e-4, 0.02)


@dataclass(frozen=True)
class RecurrentProblem:
    """`layers` recurrent layers in one or both directions; classes are sets of shapes with the same cell and batch."""

    sizes: ClassVar[str] = "cell TxNxIxU"
    formula: ClassVar[str] = "2 T N gates U (I + U)"  # the operations of one layer and direction

    kind: str
    cls: str
    cell: str
    t: int
    n: int
    input: int
    units: int
    layers: int
    directions: int

    def __str__(self) -> str:
        layers = f" l{self.layers}" if self.layers > 1 else ""
        return f"{self.cell} {self.t}x{self.n}x{self.input}x{self.units}{layers}{' bi' * (self.directions == 2)}"

    @property
    def gates(self) -> int:
        return GATES[self.cell]

    @property
    def inputs(self) -> list[int]:
        """The width of each layer's source."""
        return [self.input] + [self.directions * self.units] * (self.layers - 1)

    @property
    def operations(self) -> int:
        """Multiplications and additions of the products, counted as two."""
        width = sum(inputs + self.units for inputs in self.inputs)
        return 2 * self.t * self.n * self.directions * self.gates * self.units * width


NOTATION = "'CELL TxNxIxU [lLAYERS] [bi]'"
SHAPE = re.compile(r"(\w+) (\d+)x(\d+)x(\d+)x(\d+)(?: l(\d+))?( bi)?")


def parse(shape: str) -> RecurrentProblem:
    """The problem of a shape such as "lstm 50x16x512x512"."""
    match = SHAPE.fullmatch(shape)
    if not match or match[1] not in GATES:
        raise ValueError(f"a shape is {NOTATION}, with a cell of {', '.join(GATES)}, got {shape!r}")
    t, n, inputs, units, layers = sizes = [int(digits or 1) for digits in match.groups()[1:6]]
    if min(sizes) < 1:
        raise ValueError(f"sizes are at least 1, got {shape!r}")
    return RecurrentProblem("static", f"{match[1]} n={n}", match[1], t, n, inputs, units, layers, 1 + bool(match[7]))


def problems(kind: str, quick: bool, given: list[RecurrentProblem]) -> list[RecurrentProblem]:
    """The given problems, or the default ones for this kind of layer."""
    without = "lbr_gru" if kind == "static" else "gru"
    chosen = given or [p for p in map(parse, QUICK if quick else SHAPES) if p.cell != without]
    return [replace(problem, kind=kind) for problem in chosen]


def logistic(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def requantized(x: np.ndarray) -> np.ndarray:
    """`x` rounded to uint8, as float32 values."""
    return (np.clip(np.rint(x * DATA_SCALE + DATA_SHIFT), 0, 255) - DATA_SHIFT) / DATA_SCALE


def unchanged(x: np.ndarray) -> np.ndarray:
    return x


class RecurrentOperands:
    """src (t, n, input); for each layer weights (directions, inputs or units, gates, units) and bias, C-ordered.

    The bias has shape (directions, gates, units). The bias of an lbr_gru has one more row, which is added to the
    recurrent product of the last gate. There is a scale for each gate and unit: int8 = float32 * scale, as in oneDNN.
    """

    def __init__(self, problem: RecurrentProblem) -> None:
        self.problem = p = problem
        rng = np.random.default_rng(zlib.crc32(repr(p).encode()))
        self.src_u8 = rng.integers(1, 255, (p.t, p.n, p.input), np.uint8, endpoint=True)  # from -1.0 to 1.0

        def weights(rows: int) -> np.ndarray:
            return rng.integers(-127, 127, (p.directions, rows, p.gates, p.units), np.int8, endpoint=True)

        self.weights_layer = [weights(inputs) for inputs in p.inputs]
        self.weights_iter = [weights(p.units) for _ in p.inputs]
        # The largest weights are 1 to 2 times torch's initial weights.
        self.weights_scale = (np.sqrt(p.units) * rng.uniform(127 / 2, 127, (p.gates, p.units))).astype(np.float32)
        rows = p.gates + (p.cell == "lbr_gru")
        self.bias = [rng.uniform(-0.5, 0.5, (p.directions, rows, p.units)).astype(np.float32) for _ in p.inputs]

    @property
    def src_f32(self) -> np.ndarray:
        return (self.src_u8 - np.float32(DATA_SHIFT)) / np.float32(DATA_SCALE)

    def float_weights(self) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """weights_layer, weights_iter and bias of each layer in float32."""
        for layer, state, bias in zip(self.weights_layer, self.weights_iter, self.bias, strict=True):
            yield layer / self.weights_scale, state / self.weights_scale, bias

    def _results(self, state: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        """The result (t, n, directions * units), in float64; `state` is applied to h before h is used again."""
        p, src = self.problem, self.src_f32.astype(np.float64)
        for layer_weights in self.float_weights():
            dst = np.empty((p.t, p.n, p.directions, p.units))
            for direction, (layer, recurrent, bias) in enumerate(zip(*layer_weights, strict=True)):
                step = _STEPS[p.cell]
                sums = np.tensordot(src, layer.astype(np.float64), 1) + bias[: p.gates]
                matrix = recurrent.astype(np.float64).reshape(p.units, -1)
                h, c = np.zeros((2, p.n, p.units))
                for t in range(p.t)[:: -1 if direction else 1]:
                    h, c = step(sums[t], matrix, h, c, bias[-1], state)
                    dst[t, :, direction] = h
                    h = state(h)
            src = state(dst.reshape(p.t, p.n, -1))
        return src

    @cached_property
    def expected_u8(self) -> np.ndarray:
        """The result with states of 8 bits."""
        return np.rint(self._results(requantized) * DATA_SCALE + DATA_SHIFT).astype(np.uint8)

    @cached_property
    def expected_f32(self) -> np.ndarray:
        """The result without the error of quantizing source and states."""
        return self._results(unchanged)

    def check_static(self, result: np.ndarray) -> str:
        """Describe the error of a uint8 result, or return "". With a different tanh, a state may be rounded to an
        adjacent value."""
        error = int(np.abs(result.astype(np.int16) - self.expected_u8).max())
        return "" if error <= 1 else f"an error of {error} steps of the output"

    def check_dynamic(self, result: np.ndarray, quantized: bool = True) -> str:
        """Describe the error of a float32 result of quantized or of float32 products, or return ""."""
        error = float(np.linalg.norm(result - self.expected_f32) / np.linalg.norm(self.expected_f32))
        least, most = DYNAMIC_ERRORS if quantized else (0, DYNAMIC_ERRORS[0])
        if error < least:
            return f"computed in floating point: an error of {error:.1e} is too small for 8 bits"
        return "" if error <= most else f"a relative error of {error:.1e}"


State = Callable[[np.ndarray], np.ndarray]


def _lstm(
    sums: np.ndarray, weights: np.ndarray, h: np.ndarray, c: np.ndarray, bias: np.ndarray, state: State
) -> tuple[np.ndarray, np.ndarray]:
    gates = sums + (h @ weights).reshape(sums.shape)
    i, f, candidate, o = gates.swapaxes(0, 1)
    c = logistic(f) * c + logistic(i) * np.tanh(candidate)
    return logistic(o) * np.tanh(c), c


def _gru(
    sums: np.ndarray, weights: np.ndarray, h: np.ndarray, c: np.ndarray, bias: np.ndarray, state: State
) -> tuple[np.ndarray, np.ndarray]:
    units = h.shape[1]
    u, r = logistic(sums[:, :2] + (h @ weights[:, : 2 * units]).reshape(-1, 2, units)).swapaxes(0, 1)
    o = np.tanh(sums[:, 2] + state(r * h) @ weights[:, 2 * units :])
    return u * h + (1 - u) * o, c


def _lbr_gru(
    sums: np.ndarray, weights: np.ndarray, h: np.ndarray, c: np.ndarray, bias: np.ndarray, state: State
) -> tuple[np.ndarray, np.ndarray]:
    products = (h @ weights).reshape(sums.shape)
    u, r = logistic(sums[:, :2] + products[:, :2]).swapaxes(0, 1)
    o = np.tanh(sums[:, 2] + r * (products[:, 2] + bias))
    return u * h + (1 - u) * o, c


_STEPS = {"lstm": _lstm, "gru": _gru, "lbr_gru": _lbr_gru}
