"""oneDNN's LSTM and GRU primitives in int8."""

from __future__ import annotations

import ctypes
from functools import partial

import numpy as np
from int8blas._bench.peers.base import Peer, Prepared

from peers.base import LayerPeer
from peers.onednn import Plan, RecurrentStruct, load_shim
from recurrent import DATA_SCALE, DATA_SHIFT, RecurrentOperands, RecurrentProblem


class Recurrent(LayerPeer):
    """One primitive for all layers and directions, with the weights in the layout that it asks for."""

    name, kind, library = "oneDNN", "static", "oneDNN"

    def __init__(self, shim: ctypes.CDLL, version: str) -> None:
        self._shim, self.version = shim, version

    def supports(self, problem: RecurrentProblem) -> bool:
        """Return whether oneDNN supports a problem: it has no lbr_gru in int8, and one array for the weights of all
        layers."""
        return super().supports(problem) and problem.cell != "lbr_gru" and len(set(problem.inputs)) == 1

    def prepare(self, operands: RecurrentOperands, threads: int) -> Prepared:
        p = operands.problem
        dst = np.empty((p.t, p.n, p.directions * p.units), np.uint8)
        sizes = {name: getattr(p, name) for name in ("t", "n", "input", "units", "layers", "directions")}
        arrays = {
            "src": operands.src_u8,
            "weights_layer": np.stack(operands.weights_layer),
            "weights_iter": np.stack(operands.weights_iter),
            "dst": dst,
            "bias": np.stack(operands.bias),
            "weights_scale": operands.weights_scale,
            "data_scale": np.array([DATA_SCALE], np.float32),
            "data_shift": np.array([DATA_SHIFT], np.float32),
        }
        plan = Plan(self._shim, RecurrentStruct, {**sizes, "gru": p.cell == "gru"}, arrays)
        return Prepared(partial(self._shim.onednn_run, plan.pointer), lambda: operands.check_static(dst), keep=plan)


def peers() -> list[Peer]:
    shim, version = load_shim()
    return [Recurrent(shim, version)]
