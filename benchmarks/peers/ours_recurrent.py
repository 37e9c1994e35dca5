"""int8blas's recurrent layers, called as a user calls them, and the bare products."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from int8blas._bench.peers.base import Peer, Prepared
from int8blas._bench.peers.ours import LIBRARY, int8blas

from peers.base import LayerPeer
from peers.ours_linear import BARE, FUSED
from recurrent import DATA_SCALE, DATA_SHIFT, RecurrentOperands, RecurrentProblem


def recurrent_layer(api: Any, operands: RecurrentOperands) -> Any:
    """Return the layer of a problem's kind; `api` is int8blas, or stands for it (see calls.py)."""
    p = operands.problem
    dtype = np.uint8 if p.kind == "static" else np.float32
    return (api.LSTM if p.cell == "lstm" else api.GRU)(
        operands.weights_layer,
        operands.weights_iter,
        operands.bias,
        data_scale=DATA_SCALE,
        data_shift=DATA_SHIFT,
        weights_scale=operands.weights_scale,
        direction="bidirectional_concat" if p.directions == 2 else "left2right",
        src_dtype=dtype,
        dst_dtype=dtype,
        **({"linear_before_reset": True} if p.cell == "lbr_gru" else {}),
    )


class Recurrent(LayerPeer):
    """An LSTM or GRU, created once, with its weights packed; each call fills a given dst."""

    name, library, version = FUSED, LIBRARY, int8blas.__version__

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def prepare(self, operands: RecurrentOperands, threads: int) -> Prepared:
        p, layer = operands.problem, recurrent_layer(int8blas, operands)
        dst = np.empty((p.t, p.n, p.directions * p.units), np.uint8 if self.kind == "static" else np.float32)
        if self.kind == "static":
            return Prepared(partial(layer, operands.src_u8, out=dst), lambda: operands.check_static(dst))
        return Prepared(partial(layer, operands.src_f32, out=dst), lambda: operands.check_dynamic(dst))


class BareGemms(Peer):
    """The integer products of all layers with packed weights: first the sources of all steps, then one state after
    another.

    The matrices hold arbitrary bytes, as only the time matters; bench_gemm.py checks the products.
    """

    name, kind, library, version, comparable = BARE, "s32", LIBRARY, int8blas.__version__, False

    def supports(self, problem: RecurrentProblem) -> bool:
        return True

    def prepare(self, operands: RecurrentOperands, threads: int) -> Prepared:
        p = operands.problem
        src = [np.resize(operands.src_u8, (p.t * p.n, inputs)) for inputs in p.inputs]
        state = np.resize(operands.src_u8, (p.n, p.units))
        sums, more = (np.empty((rows, p.gates * p.units), np.int32) for rows in (p.t * p.n, p.n))
        products = []
        for source, *layer in zip(src, operands.weights_layer, operands.weights_iter, strict=True):
            for matrices in zip(*layer, strict=True):
                packed = [int8blas.pack_b(matrix.reshape(len(matrix), -1)) for matrix in matrices]
                products.append(partial(int8blas.gemm_u8s8s32, 1, source, packed[0], 0, sums, overwrite_c=True))
                step = partial(int8blas.gemm_u8s8s32, 1, state, packed[1], 0, more, overwrite_c=True)
                products += [step] * p.t

        def run() -> None:
            for product in products:
                product()

        return Prepared(run, lambda: "")


def contestants() -> list[Peer]:
    return [Recurrent("static"), Recurrent("dynamic"), BareGemms()]
