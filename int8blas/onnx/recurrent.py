"""Float LSTM, GRU and RNN, and the parts that quantized LSTMs also use.

Constant weights are transposed once. Steps of a float32 LSTM, GRU or RNN with the usual activations run in
:mod:`int8blas.layers.real_steps`; all other steps run in NumPy.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from int8blas.layers.real_steps import gru_steps, lstm_steps, rnn_steps
from int8blas.onnx import elementwise, linear
from int8blas.onnx.graph import Array
from int8blas.onnx.shape import reverse_sequence
from int8blas.onnx.table import HEAVY, Call, Operator, Site
from int8blas.onnx.types import is_short, single, wide

Direction = Literal["forward", "reverse", "bidirectional"]
Function = Callable[[Array], Array]
Product = Callable[[Array], Array]
# A step of one direction: a function from the gates of the input and the states to new states.
Cell = Callable[[Array, "States"], "States"]
States = tuple[Array, ...]
# All steps of one direction. The function takes the gates of the input, the first states and the lengths of the rows.
# The function returns the outputs of all steps, and the last states. The output of a step is the first of its new
# states.
Steps = Callable[[Array, States, "Array | None"], "tuple[Array, States]"]

# Activations by name, with ONNX's defaults of alpha and beta. None stands for a parameter that the function lacks.
ACTIVATIONS: dict[str, tuple[Callable[..., Array], float | None, float | None]] = {
    "sigmoid": (elementwise.sigmoid, None, None),
    "tanh": (elementwise.tanh, None, None),
    "relu": (elementwise.relu, None, None),
    "softsign": (elementwise.softsign, None, None),
    "softplus": (elementwise.softplus, None, None),
    "leakyrelu": (lambda x, a: elementwise.leaky_relu(x, alpha=a), 0.01, None),
    "elu": (lambda x, a: elementwise.elu(x, alpha=a), 1.0, None),
    "thresholdedrelu": (lambda x, a: elementwise.thresholded_relu(x, alpha=a), 1.0, None),
    "hardsigmoid": (lambda x, a, b: elementwise.hard_sigmoid(x, alpha=a, beta=b), 0.2, 0.5),
    "scaledtanh": (lambda x, a, b: x.dtype.type(a) * elementwise.tanh(x.dtype.type(b) * x), 1.0, 1.0),
    "affine": (lambda x, a, b: x.dtype.type(a) * x + x.dtype.type(b), 1.0, 0.0),
}


def functions(
    names: Sequence[str] | None, default: Sequence[str], directions: int, alpha: Sequence[float] | None,
    beta: Sequence[float] | None,
) -> list[list[Function]]:  # fmt: skip
    """Return the activations of each direction. Only activations with parameters have values in alpha and beta."""
    alphas, betas = list(alpha or ()), list(beta or ())
    result = []
    for name in names or [*default] * directions:
        if name.lower() not in ACTIVATIONS:
            raise ValueError(f"activations must be among {', '.join(ACTIVATIONS)}, got {name!r}")
        function, a, b = ACTIVATIONS[name.lower()]
        values = [] if a is None else [alphas.pop(0) if alphas else a]
        values += [] if b is None else [betas.pop(0) if betas else b]
        result.append(with_values(function, values))
    count = len(default)
    return [result[count * d : count * (d + 1)] for d in range(directions)]


def with_values(function: Callable[..., Array], values: Sequence[float]) -> Function:
    return lambda x: function(x, *values)


def directions_of(direction: str) -> list[bool]:
    """Return whether each direction goes backward."""
    return {"forward": [False], "reverse": [True], "bidirectional": [False, True]}[direction]


def backwards(x: Array, lengths: Array | None) -> Array:
    """Reverse each sequence up to its length. The steps after the end of a sequence stay in place."""
    return x[::-1] if lengths is None else reverse_sequence(x, lengths)


def in_turn(cell: Cell) -> Steps:
    """Return the steps that a cell computes one after the other."""

    def steps(gates: Array, states: States, lengths: Array | None) -> tuple[Array, States]:
        outputs = np.zeros((gates.shape[0], *states[0].shape), states[0].dtype)
        for step, gate in enumerate(gates):
            new = cell(gate, states)
            if lengths is None:
                states, outputs[step] = new, new[0]
            else:
                going = (step < lengths)[:, None]
                states = tuple(np.where(going, after, before) for after, before in zip(new, states, strict=True))
                outputs[step] = np.where(going, new[0], 0)
        return outputs, states

    return steps


def clipped(clip: float | None) -> Function:
    """Return the function that limits sums before activations."""
    if not clip:
        return lambda x: x
    return lambda x: np.clip(x, x.dtype.type(-clip), x.dtype.type(clip))


def lstm_cell(
    product: Product, bias: Array | None, peepholes: Array | None, f: Sequence[Function], clip: float | None,
    input_forget: int,
) -> Cell:  # fmt: skip
    """Return an LSTM cell. The gates are in the order i, o, f, c, and the peepholes in the order i, o, f."""
    limited = clipped(clip)

    def cell(gates: Array, states: States) -> States:
        h, c = states
        sums = gates + product(h)
        if bias is not None:
            sums = sums + bias
        i, o, forget, new = np.split(sums, 4, 1)
        p = None if peepholes is None else np.split(peepholes, 3)
        i = f[0](limited(i if p is None else i + p[0] * c))
        forget = 1 - i if input_forget else f[0](limited(forget if p is None else forget + p[2] * c))
        c = forget * c + i * f[1](limited(new))
        o = f[0](limited(o if p is None else o + p[1] * c))
        return o * f[2](c), c

    return cell


def gru_cell(r: Array, bias: Array | None, f: Sequence[Function], clip: float | None, linear_before_reset: int) -> Cell:
    """Return a GRU cell. `r` has the transposed weights of the state. The gates are in the order z, r, h."""
    size, limited = len(r), clipped(clip)
    both_gates, last_gate = times(r[:, : 2 * size]), times(r[:, 2 * size :])
    wb = np.zeros(3 * size, r.dtype) if bias is None else bias[: 3 * size]
    rb = np.zeros(3 * size, r.dtype) if bias is None else bias[3 * size :]

    def cell(gates: Array, states: States) -> States:
        (h,) = states
        gates = gates + wb
        both = gates[:, : 2 * size] + both_gates(h) + rb[: 2 * size]
        z, reset = f[0](limited(both[:, :size])), f[0](limited(both[:, size:]))
        shift = rb[2 * size :]
        inner = reset * (last_gate(h) + shift) if linear_before_reset else last_gate(reset * h) + shift
        new = f[1](limited(gates[:, 2 * size :] + inner))
        return ((1 - z) * new + z * h,)

    return cell


def rnn_cell(r: Array, bias: Array | None, f: Sequence[Function], clip: float | None) -> Cell:
    """Return an RNN cell. `r` has the transposed weights of the state."""
    limited, product = clipped(clip), times(r)

    def cell(gates: Array, states: States) -> States:
        return (f[0](limited(gates + product(states[0]) + (0 if bias is None else bias))),)

    return cell


def all_directions(
    x: Array, products: Sequence[Product], steps: Sequence[Steps], hidden_size: int, lengths: Array | None,
    initial: Sequence[Array | None], direction: str, layout: int,
) -> tuple[Array, ...]:  # fmt: skip
    """Return Y and the last states in ONNX's shapes. `products` multiply inputs by their weights."""
    x = np.swapaxes(x, 0, 1) if layout else x
    outputs, last = [], []
    for d, backward in enumerate(directions_of(direction)):
        states = tuple([
            np.zeros((x.shape[1], hidden_size), x.dtype) if s is None else (s[:, d] if layout else s[d])
            for s in initial
        ])  # fmt: skip
        gates = products[d](x)
        y, end = steps[d](backwards(gates, lengths) if backward else gates, states, lengths)
        outputs.append(backwards(y, lengths) if backward else y)
        last.append(end)
    y = stacked(outputs, 1)
    ends = [stacked(states, 1 if layout else 0) for states in zip(*last, strict=True)]
    return (y.transpose(2, 0, 1, 3) if layout else y, *ends)


def stacked(arrays: Sequence[Array], axis: int) -> Array:
    """Stack arrays. numpy.stack would take longer than a short layer."""
    views = [array[(slice(None),) * axis + (None,)] for array in arrays]
    return np.concatenate(views, axis) if len(views) > 1 else views[0]


def times(w: Array) -> Product:
    """Return a function that multiplies by transposed weights."""
    return lambda x: linear.matmul(x, w)


class Weights(NamedTuple):
    """The transposed weights of the inputs and of the state, and a bias, for one direction."""

    w: Array
    r: Array
    bias: Array | None


def weights_of(w: Array, r: Array, b: Array | None, join: Callable[[Array], Array]) -> list[Weights]:
    """Transpose the weights of each direction. `join` computes one bias from both biases."""
    return [
        Weights(np.ascontiguousarray(single(w[d]).T), np.ascontiguousarray(single(r[d]).T),
                None if b is None else join(single(b[d])))
        for d in range(len(w))
    ]  # fmt: skip


def sum_of_halves(bias: Array) -> Array:
    """Return the sum of the biases of the inputs and of the state."""
    half = len(bias) // 2
    return np.asarray(bias[:half] + bias[half:])


def is_usual(names: Sequence[str] | None, default: Sequence[str], directions: int) -> bool:
    """Return whether the activations are the defaults."""
    return [name.lower() for name in names or ()] in ([], [name.lower() for name in default] * directions)


class Kind(NamedTuple):
    """A kind of recurrent layer: its usual activations, its number of states, the function that joins the two biases,
    and the function that returns the steps of a direction."""

    activations: tuple[str, ...]
    states: int
    join: Callable[[Array], Array]
    steps: Callable[..., Steps]


def lstm_steps_of(
    weights: Weights, f: Sequence[Function], p: Array | None, clip: float | None, usual: bool, *, input_forget: int = 0
) -> Steps:
    if usual and not input_forget and p is None:
        return lambda gates, states, lengths: lstm_steps(gates, weights.r, weights.bias, states[0], states[1], lengths)
    return in_turn(lstm_cell(times(weights.r), weights.bias, p, f, clip, input_forget))


def gru_steps_of(
    weights: Weights, f: Sequence[Function], _: Array | None, clip: float | None, usual: bool, *,
    linear_before_reset: int = 0,
) -> Steps:  # fmt: skip
    if not usual:
        return in_turn(gru_cell(weights.r, weights.bias, f, clip, linear_before_reset))
    after = bool(linear_before_reset)
    return lambda gates, states, lengths: gru_steps(
        gates, weights.r, weights.bias, states[0], lengths, reset_after=after
    )


def rnn_steps_of(
    weights: Weights, f: Sequence[Function], _: Array | None, clip: float | None, usual: bool
) -> Steps:  # fmt: skip
    if not usual:
        return in_turn(rnn_cell(weights.r, weights.bias, f, clip))
    return lambda gates, states, lengths: rnn_steps(gates, weights.r, states[0], lengths, bias=weights.bias)


def recurrent(
    kind: Kind, site: Site, *, activation_alpha: Sequence[float] | None = None,
    activation_beta: Sequence[float] | None = None, activations: Sequence[str] | None = None,
    clip: float | None = None, direction: Direction = "forward", hidden_size: int | None = None, layout: int = 0,
    **attributes: Any,
) -> Call:  # fmt: skip
    n, outputs = len(directions_of(direction)), len(site.node.outputs)
    f = functions(activations, kind.activations, n, activation_alpha, activation_beta)
    usual = is_usual(activations, kind.activations, n) and not clip

    def layers(w: Array, r: Array, b: Array | None, p: Array | None) -> tuple[list[Product], list[Steps]]:
        weights, plain = weights_of(w, r, b, kind.join), usual and single(r).dtype == np.float32
        steps = [kind.steps(each, f[d], None if p is None else single(p[d]), clip, plain, **attributes)
                 for d, each in enumerate(weights)]  # fmt: skip
        return [times(each.w) for each in weights], steps

    given: list[Any] = [site.constants.get(i) for i in (1, 2, 3, 7)]
    is_constant = all(i in site.constants or not site.node.input(i) for i in (1, 2, 3, 7))
    known = layers(*given) if is_constant else None

    def compute(x: Array, *states: Array | None, made: Any, size: int, lengths: Array | None) -> Any:
        products, steps = made
        return all_directions(x, products, steps, size, lengths, states, direction, layout)[:outputs]

    def call(
        x: Array, w: Array, r: Array, b: Array | None = None, lengths: Array | None = None, h: Array | None = None,
        c: Array | None = None, p: Array | None = None,
    ) -> Any:  # fmt: skip
        made = known or layers(w, r, b, p)
        function = wide(compute) if is_short(x) else compute
        return function(x, *(h, c)[: kind.states], made=made, size=r.shape[2], lengths=lengths)

    return call


KINDS = {
    "LSTM": Kind(("Sigmoid", "Tanh", "Tanh"), 2, sum_of_halves, lstm_steps_of),
    "GRU": Kind(("Sigmoid", "Tanh"), 1, np.asarray, gru_steps_of),
    "RNN": Kind(("Tanh",), 1, sum_of_halves, rnn_steps_of),
}
OPERATORS = [
    Operator(name, functools.partial(recurrent, kind), 7, prepared=True, traits=HEAVY) for name, kind in KINDS.items()
]
