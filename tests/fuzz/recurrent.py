"""RNN, LSTM and GRU with their variants: layers, directions, types, states, lengths, `out`."""

import numpy as np
from recurrent import DIRECTIONS, KINDS, random_problem

from .layer import canonical


def problem(draws):
    units, inputs = draws.size(5.5), draws.size(5.5)
    n, t = draws.size(3) - draws.once_in(20), draws.size(2) - draws.once_in(20)
    made = random_problem(
        draws.generator(), draws.among(KINDS), units, inputs, n, t, draws.among((1, 1, 1, 1, 2, 3)),
        draws.among((*DIRECTIONS[:2], *DIRECTIONS)), draws.among((np.uint8, np.float32, np.float16)),
        draws.among((np.uint8, np.float32)), bool(draws.below(2)), draws.among(("small", "full", "extreme")),
        data_scale=draws.among((127, 1, 0.01, 300.7, -100)), data_shift=draws.below(256),
    )  # fmt: skip
    if draws.once_in(6):
        made = made.but(lengths=np.array([draws.integer(0, t) for _ in range(n)], np.int64))
    channels = made.weights_iter[0].shape[1] * (2 if made.direction == "bidirectional_concat" else 1)
    return {"layer": made, "out": draws.output(made.dst_dtype, (t, n, channels)) if draws.below(2) else None}


def run(problem):
    layer = problem["layer"]
    if problem["out"] is None:
        return tuple(layer.run(layer.layer()))
    memory, out = problem["out"].fresh()
    _, *states = layer.run(layer.layer(), out)
    return canonical(memory, problem["out"]), *states


def oracle(problem):
    dst, *states = problem["layer"].expected()
    if problem["out"] is not None:
        dst = canonical(problem["out"].holding(dst), problem["out"])
    return dst, *states
