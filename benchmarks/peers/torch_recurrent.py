"""PyTorch's dynamically quantized LSTM and GRU, on each of its engines, and its float32 ones.

The operators are called without the modules around them, torch.ao.nn.quantized.dynamic.LSTM and GRU. They cannot fill a
given tensor: each call creates its result.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from functools import partial
from types import ModuleType

import numpy as np
from int8blas._bench.peers.base import Peer, Prepared, import_peer

from peers.base import LayerPeer
from peers.torch_linear import ENGINES
from recurrent import RecurrentOperands, RecurrentProblem

# The order of torch's gates, as indices into int8blas's order: a GRU of torch has r, u, o.
ORDER = {"lstm": [0, 1, 2, 3], "lbr_gru": [1, 0, 2]}


class _Torch(LayerPeer):
    library = "torch"

    def __init__(self, torch: ModuleType, version: str) -> None:
        self._torch, self.version = torch, version

    def set_threads(self, threads: int) -> None:
        self._torch.set_num_threads(threads)

    def supports(self, problem: RecurrentProblem) -> bool:
        return super().supports(problem) and problem.cell != "gru"

    def _states(self, problem: RecurrentProblem) -> list[object]:
        """h0, and c0 of an LSTM."""
        shape = problem.layers * problem.directions, problem.n, problem.units
        return [self._torch.zeros(shape)] * (1 + (problem.cell == "lstm"))


def _matrix(weights: np.ndarray, cell: str) -> np.ndarray:
    """(rows, gates, units) as (gates * units, rows)."""
    return np.ascontiguousarray(weights[:, ORDER[cell]].reshape(len(weights), -1).T)


def _biases(bias: np.ndarray, cell: str) -> list[np.ndarray]:
    """Return the bias for the products of the source, and the bias for the products of the state."""
    order = ORDER[cell]
    state = np.zeros_like(bias[order])
    if len(bias) > len(order):
        state[-1] = bias[-1]
    return [bias[order].ravel(), state.ravel()]


class Quantized(_Torch):
    """torch.quantized_lstm or quantized_gru: source and state are quantized per tensor, in each step."""

    kind = "dynamic"

    def __init__(self, torch: ModuleType, version: str, engine: str) -> None:
        super().__init__(torch, version)
        self.name, self._engine = f"torch {engine}", engine

    def _packed_weights(self, operands: RecurrentOperands) -> Iterator[object]:
        """Yield the packed weights of each layer and direction."""
        torch, operators, cell = self._torch, self._torch.ops.quantized, operands.problem.cell
        scales = torch.from_numpy(1 / operands.weights_scale[ORDER[cell]].astype(np.float64).ravel())
        zeros = torch.zeros(len(scales), dtype=torch.int64)
        for layer in zip(operands.weights_layer, operands.weights_iter, operands.bias, strict=True):
            for *matrices, bias in zip(*layer, strict=True):
                biases = [torch.from_numpy(array) for array in _biases(bias, cell)]
                packed = []
                for matrix, added in zip(matrices, biases, strict=True):
                    weights = torch.from_numpy(_matrix(matrix, cell))
                    weights = torch._make_per_channel_quantized_tensor(weights, scales, zeros, 0)
                    packed.append(operators.linear_prepack(weights, added))
                # reduce_range: see torch_linear.py
                yield operators.make_quantized_cell_params_dynamic(*packed, *biases, False)

    def prepare(self, operands: RecurrentOperands, threads: int) -> Prepared:
        torch, p = self._torch, operands.problem
        torch.backends.quantized.engine = self._engine
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # quantized tensors are deprecated, but the operators take nothing else
            weights = list(self._packed_weights(operands))
        src, states = torch.from_numpy(operands.src_f32), self._states(p)
        # has_biases, num_layers, dropout, train, bidirectional, batch_first
        options = True, p.layers, 0.0, False, p.directions == 2, False
        if p.cell == "lstm":
            run = partial(torch.quantized_lstm, src, states, weights, *options, dtype=torch.qint8, use_dynamic=True)
        else:
            run = partial(torch.quantized_gru, src, *states, weights, *options)
        return Prepared(run, lambda: operands.check_dynamic(run()[0].numpy()))


class Float(_Torch):
    """torch.nn.LSTM or GRU in float32."""

    name, kind = "torch f32", "f32"

    def prepare(self, operands: RecurrentOperands, threads: int) -> Prepared:
        torch, p = self._torch, operands.problem
        make = torch.nn.LSTM if p.cell == "lstm" else torch.nn.GRU
        module = make(p.input, p.units, p.layers, bidirectional=p.directions == 2).eval().requires_grad_(False)
        for index, layer in enumerate(operands.float_weights()):
            for direction, (*matrices, bias) in enumerate(zip(*layer, strict=True)):
                arrays = [*(_matrix(matrix, p.cell) for matrix in matrices), *_biases(bias, p.cell)]
                for name, array in zip(("weight_ih", "weight_hh", "bias_ih", "bias_hh"), arrays, strict=True):
                    parameter = getattr(module, f"{name}_l{index}{'_reverse' * direction}")
                    parameter.copy_(torch.from_numpy(array))
        src = torch.from_numpy(operands.src_f32)

        def run() -> object:
            with torch.inference_mode():
                return module(src)[0]

        return Prepared(run, lambda: operands.check_dynamic(run().numpy(), quantized=False))


def peers() -> list[Peer]:
    torch, version = import_peer("torch", "torch")
    engines = [engine for engine in ENGINES if engine in torch.backends.quantized.supported_engines]
    return [*(Quantized(torch, version, engine) for engine in engines), Float(torch, version)]
