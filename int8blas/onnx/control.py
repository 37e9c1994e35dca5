"""If, Loop, Scan and SequenceMap. The function of an operator takes the number of the node's inputs, the inputs, and
then the tensors that the subgraphs capture. Each graph attribute is a plan. A plan takes its graph's inputs, then the
captured tensors.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from int8blas.onnx.graph import Array, Value
from int8blas.onnx.table import Operator, Traits


class Plan(Protocol):
    """The members of a subgraph's plan that If, Loop, Scan and SequenceMap use."""

    outputs: Sequence[Any]
    results: Sequence[Value]

    def run(self, arguments: Sequence[Any]) -> list[Any]: ...


def results(values: Sequence[Any]) -> Any:
    """Return a single value, or several values as a tuple."""
    return values[0] if len(values) == 1 else tuple(values)


def if_(inputs: int, condition: Array, *captured: Any, then_branch: Plan, else_branch: Plan) -> Any:
    return results((then_branch if condition.item() else else_branch).run(captured))


def loop(inputs: int, *arguments: Any, body: Plan) -> Any:
    """Run the body repeatedly. Its results are a condition, the carried values, and the elements to stack."""
    trips, condition, *carried = arguments[:inputs]
    captured = arguments[inputs:]
    count = len(carried)
    stacked: list[list[Any]] = [[] for _ in range(len(body.outputs) - 1 - count)]
    going = condition is None or bool(condition.item())
    for i in itertools.count() if trips is None else range(int(trips.item())):
        if not going:
            break
        goes_on, *values = body.run([np.array(i, np.int64), np.array(going), *carried, *captured])
        going, carried = bool(goes_on.item()), values[:count]
        for elements, value in zip(stacked, values[count:], strict=True):
            elements.append(value)
    ports = body.results[1 + count :]
    return results([*carried, *(stack(elements, port) for elements, port in zip(stacked, ports, strict=True))])


def stack(elements: Sequence[Array], port: Value) -> Array:
    """Stack elements along a new axis. Without elements, use the body's type and sizes, and 0 for unknown sizes."""
    if elements:
        return np.stack(elements)
    sizes = [size if isinstance(size, int) else 0 for size in port.shape or ()]
    return np.empty((0, *sizes), np.float32 if port.dtype is None else port.dtype)


def scan(
    inputs: int, *arguments: Any, body: Plan, num_scan_inputs: int, scan_input_axes: Sequence[int] | None = None,
    scan_input_directions: Sequence[int] | None = None, scan_output_axes: Sequence[int] | None = None,
    scan_output_directions: Sequence[int] | None = None,
) -> Any:  # fmt: skip
    """Run the body on a state and successive elements of the inputs along an axis."""
    states = inputs - num_scan_inputs
    outputs = len(body.outputs) - states
    in_axes, out_axes = scan_input_axes or [0] * num_scan_inputs, scan_output_axes or [0] * outputs
    backward_in = scan_input_directions or [0] * num_scan_inputs
    backward_out = scan_output_directions or [0] * outputs
    state, captured = list(arguments[:states]), arguments[inputs:]
    scanned = [np.moveaxis(x, axis, 0) for x, axis in zip(arguments[states:inputs], in_axes, strict=True)]
    scanned = [x[::-1] if back else x for x, back in zip(scanned, backward_in, strict=True)]
    turns: list[list[Any]] = []
    for elements in zip(*scanned, strict=True):
        values = body.run([*state, *elements, *captured])
        state = values[:states]
        turns.append(values[states:])
    if not all(map(len, scanned)):  # no elements: the body runs once on zeros, for the shapes of its results
        turn = body.run([*state, *(np.zeros(x.shape[1:], x.dtype) for x in scanned), *captured])
        pairs = zip(turn[states:], out_axes, strict=True)
        return results([*state, *(np.expand_dims(value, axis).take([], axis) for value, axis in pairs)])
    made_all = [
        np.stack(values[::-1] if back else values, axis)
        for values, axis, back in zip(zip(*turns, strict=True), out_axes, backward_out, strict=True)
    ]
    return results([*state, *made_all])


def scan_of_version_8(
    inputs: int, lengths: Array | None, *arguments: Any, body: Plan, num_scan_inputs: int,
    directions: Sequence[int] | None = None,
) -> Any:  # fmt: skip
    """Run a Scan for each sequence of a batch, up to its length. Pad the results of shorter sequences with zeros."""
    given, captured = arguments[: inputs - 1], arguments[inputs - 1 :]
    states = len(given) - num_scan_inputs
    steps = given[-1].shape[1]
    runs = []
    for i in range(len(given[0])):
        count = steps if lengths is None else int(lengths[i])
        parts = [x[i] if j < states else x[i, :count] for j, x in enumerate(given)]
        made = scan(inputs - 1, *parts, *captured, body=body, num_scan_inputs=num_scan_inputs,
                    scan_input_directions=directions)  # fmt: skip
        values = made if isinstance(made, tuple) else (made,)
        runs.append([value if j < states else np.concatenate([value, np.zeros_like(value, shape=(steps - count,
                     *value.shape[1:]))]) for j, value in enumerate(values)])  # fmt: skip
    return results([np.stack(values) for values in zip(*runs, strict=True)])


def sequence_map(inputs: int, first: Sequence[Any], *arguments: Any, body: Plan) -> Any:
    """Run the body for each element of a list. Each run also gets one element of each other list, and whole tensors."""
    given, captured = arguments[: inputs - 1], arguments[inputs - 1 :]
    runs = [body.run([each, *(x[i] if isinstance(x, list) else x for x in given), *captured])
            for i, each in enumerate(first)]  # fmt: skip
    return results([[run[j] for run in runs] for j in range(len(body.outputs))])


CONTROL = Traits(heavy=True)
OPERATORS = [
    Operator("If", if_, 1, control=True, traits=CONTROL),
    Operator("Loop", loop, 1, control=True, traits=CONTROL),
    Operator("Scan", scan_of_version_8, 8, 8, control=True, traits=CONTROL),
    Operator("Scan", scan, 9, control=True, traits=CONTROL),
    Operator("SequenceMap", sequence_map, 17, control=True, traits=CONTROL),
]
