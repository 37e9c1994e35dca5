"""Float LSTM, GRU and RNN, and the parts that quantized LSTMs share with them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from int8blas.onnx import elementwise, linear
from int8blas.onnx.graph import Array
from int8blas.onnx.shape import reverse_sequence
from int8blas.onnx.table import SAME_TYPE, Operator
from int8blas.onnx.types import wide

Function = Callable[[Array], Array]
Product = Callable[[Array], Array]
# A step of one direction: from the gates of the input and the states to new states.
Cell = Callable[[Array, "States"], "States"]
States = tuple[Array, ...]

# Activations by name, with ONNX's defaults of alpha and beta, or None for parameters they do not have.
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
    "scaledtanh": (lambda x, a, b: x.dtype.type(a) * np.tanh(x.dtype.type(b) * x), 1.0, 1.0),
    "affine": (lambda x, a, b: x.dtype.type(a) * x + x.dtype.type(b), 1.0, 0.0),
}


def functions(
    names: Sequence[str] | None, default: Sequence[str], directions: int, alpha: Sequence[float] | None,
    beta: Sequence[float] | None,
) -> list[list[Function]]:  # fmt: skip
    """Return the activations of each direction. The lists alpha and beta have values only for activations that take
    them."""
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
    kinds = {"forward": [False], "reverse": [True], "bidirectional": [False, True]}
    if direction not in kinds:
        raise ValueError(f"direction must be forward, reverse or bidirectional, got {direction!r}")
    return kinds[direction]


def backwards(x: Array, lengths: Array | None) -> Array:
    """Reverse each sequence up to its length; keep the rest in place."""
    return x[::-1] if lengths is None else reverse_sequence(x, lengths)


def run_cells(gates: Array, states: States, cell: Cell, lengths: Array | None, backward: bool) -> tuple[Array, States]:
    """Run one direction. Return all outputs, which are each step's first state, and the last states.

    Parameters
    ----------
    gates : Array
        All steps' inputs times their weights, of shape (steps, rows, gates).
    states : tuple of Array
        The initial states, of shape (rows, hidden size) each.
    """
    gates = backwards(gates, lengths) if backward else gates
    outputs = np.zeros((gates.shape[0], *states[0].shape), states[0].dtype)
    for step, gate in enumerate(gates):
        new = cell(gate, states)
        if lengths is None:
            states, outputs[step] = new, new[0]
        else:
            going = (step < lengths)[:, None]
            states = tuple(np.where(going, after, before) for after, before in zip(new, states, strict=True))
            outputs[step] = np.where(going, new[0], 0)
    return (backwards(outputs, lengths) if backward else outputs), states


def clipped(clip: float | None) -> Function:
    """Return the function that limits sums before activations."""
    if not clip:
        return lambda x: x
    return lambda x: np.clip(x, x.dtype.type(-clip), x.dtype.type(clip))


def lstm_cell(
    product: Product, bias: Array | None, peepholes: Array | None, f: Sequence[Function], clip: float | None,
    input_forget: int,
) -> Cell:  # fmt: skip
    """Return an LSTM cell. Its gates are in the order i, o, f, c, its peepholes in the order i, o, f."""
    limited = clipped(clip)

    def plain_cell(gates: Array, states: States) -> States:
        h, c = states
        sums = product(h)
        sums += gates
        if bias is not None:
            sums += bias
        size = c.shape[1]
        open_ = f[0](sums[:, : 3 * size])
        c = open_[:, 2 * size :] * c + open_[:, :size] * f[1](sums[:, 3 * size :])
        return open_[:, size : 2 * size] * f[2](c), c

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

    return cell if clip or input_forget or peepholes is not None else plain_cell


def gru_cell(r: Array, bias: Array | None, f: Sequence[Function], clip: float | None, linear_before_reset: int) -> Cell:
    """Return a GRU cell. Its gates are in the order z, r, h."""
    size, limited = r.shape[1], clipped(clip)
    both_gates, last_gate = times(r[: 2 * size]), times(r[2 * size :])
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
    size, limited = r.shape[1], clipped(clip)
    product = times(r)
    both = 0 if bias is None else bias[:size] + bias[size:]

    def cell(gates: Array, states: States) -> States:
        return (f[0](limited(gates + product(states[0]) + both)),)

    return cell


def all_directions(
    x: Array, products: Sequence[Product], cells: Sequence[Cell], hidden_size: int, lengths: Array | None,
    initial: Sequence[Array | None], direction: str, layout: int,
) -> tuple[Array, ...]:  # fmt: skip
    """Return Y and the last states in ONNX's shapes. `products` multiply inputs by their weights."""
    x = np.swapaxes(x, 0, 1) if layout else x
    outputs, last = [], []
    for d, backward in enumerate(directions_of(direction)):
        zero = np.zeros((x.shape[1], hidden_size), x.dtype)
        states = tuple(zero if s is None else (s[:, d] if layout else s[d]) for s in initial)
        y, end = run_cells(products[d](x), states, cells[d], lengths, backward)
        outputs.append(y)
        last.append(end)
    y = np.stack(outputs, 1)
    ends = [np.stack(states, 1 if layout else 0) for states in zip(*last, strict=True)]
    return (y.transpose(2, 0, 1, 3) if layout else y, *ends)


def times(w: Array) -> Product:
    """Return a function that multiplies by transposed weights. Transpose them once for all steps."""
    transposed = np.ascontiguousarray(w.T)
    return lambda x: linear.matmul(x, transposed)


@wide
def lstm(
    x: Array, w: Array, r: Array, b: Array | None = None, lengths: Array | None = None, h: Array | None = None,
    c: Array | None = None, p: Array | None = None, *, activation_alpha: Sequence[float] | None = None,
    activation_beta: Sequence[float] | None = None, activations: Sequence[str] | None = None,
    clip: float | None = None, direction: str = "forward", hidden_size: int | None = None, input_forget: int = 0,
    layout: int = 0, outputs: int,
) -> Any:  # fmt: skip
    n, size = w.shape[0], r.shape[2]
    f = functions(activations, ("Sigmoid", "Tanh", "Tanh"), n, activation_alpha, activation_beta)
    biases = [None if b is None else b[d, : 4 * size] + b[d, 4 * size :] for d in range(n)]
    cells = [lstm_cell(times(r[d]), biases[d], None if p is None else p[d], f[d], clip, input_forget) for d in range(n)]
    found = all_directions(x, [times(each) for each in w], cells, size, lengths, (h, c), direction, layout)
    return found[:outputs]


@wide
def gru(
    x: Array, w: Array, r: Array, b: Array | None = None, lengths: Array | None = None, h: Array | None = None, *,
    activation_alpha: Sequence[float] | None = None, activation_beta: Sequence[float] | None = None,
    activations: Sequence[str] | None = None, clip: float | None = None, direction: str = "forward",
    hidden_size: int | None = None, layout: int = 0, linear_before_reset: int = 0, outputs: int,
) -> Any:  # fmt: skip
    n = w.shape[0]
    f = functions(activations, ("Sigmoid", "Tanh"), n, activation_alpha, activation_beta)
    cells = [gru_cell(r[d], None if b is None else b[d], f[d], clip, linear_before_reset) for d in range(n)]
    found = all_directions(x, [times(each) for each in w], cells, r.shape[2], lengths, (h,), direction, layout)
    return found[:outputs]


@wide
def rnn(
    x: Array, w: Array, r: Array, b: Array | None = None, lengths: Array | None = None, h: Array | None = None, *,
    activation_alpha: Sequence[float] | None = None, activation_beta: Sequence[float] | None = None,
    activations: Sequence[str] | None = None, clip: float | None = None, direction: str = "forward",
    hidden_size: int | None = None, layout: int = 0, outputs: int,
) -> Any:  # fmt: skip
    n = w.shape[0]
    f = functions(activations, ("Tanh",), n, activation_alpha, activation_beta)
    cells = [rnn_cell(r[d], None if b is None else b[d], f[d], clip) for d in range(n)]
    found = all_directions(x, [times(each) for each in w], cells, r.shape[2], lengths, (h,), direction, layout)
    return found[:outputs]


OPERATORS = [
    Operator("LSTM", lstm, 7, traits=SAME_TYPE),
    Operator("GRU", gru, 7, traits=SAME_TYPE),
    Operator("RNN", rnn, 7, traits=SAME_TYPE),
]
