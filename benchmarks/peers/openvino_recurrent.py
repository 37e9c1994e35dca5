"""OpenVINO's LSTMSequence and GRUSequence in float32."""

from __future__ import annotations

import numpy as np
from int8blas._bench.peers.base import Peer, Prepared

from peers.base import LayerPeer
from peers.openvino_matmul import Runtime
from recurrent import RecurrentOperands

# The order of OpenVINO's gates, as indices into int8blas's order: LSTM f, i, c~, o; GRU as here, and the row of the
# recurrent bias.
ORDER = {"lstm": [1, 0, 2, 3], "gru": [0, 1, 2], "lbr_gru": [0, 1, 2, 3]}


class Recurrent(LayerPeer):
    """A compiled model of all layers, on sequences of the batch (n, t, input); the output stays in the request."""

    name, kind, library = "OpenVINO f32", "f32", "OpenVINO"

    def __init__(self, runtime: Runtime) -> None:
        self._runtime, self.version = runtime, runtime.version

    def prepare(self, operands: RecurrentOperands, threads: int) -> Prepared:
        ops, p = self._runtime.ops, operands.problem
        src = np.ascontiguousarray(operands.src_f32.transpose(1, 0, 2))
        direction = "bidirectional" if p.directions == 2 else "forward"
        zeros = ops.constant(np.zeros((p.n, p.directions, p.units), np.float32))
        lengths = ops.constant(np.full(p.n, p.t, np.int32))
        order = ORDER[p.cell]
        source = result = ops.parameter(list(src.shape), np.float32)
        for layer, state, bias in operands.float_weights():
            matrices = [w[:, :, order[: p.gates]].reshape(*w.shape[:2], -1).swapaxes(1, 2) for w in (layer, state)]
            arrays = [*matrices, bias[:, order].reshape(p.directions, -1)]
            constants = [ops.constant(np.ascontiguousarray(array)) for array in arrays]
            if p.cell == "lstm":
                sequence = ops.lstm_sequence(result, zeros, zeros, lengths, *constants, p.units, direction)
            else:
                sequence = ops.gru_sequence(
                    result, zeros, lengths, *constants, p.units, direction, linear_before_reset=p.cell == "lbr_gru"
                )
            # (n, directions, t, units) becomes (n, t, directions * units).
            order_back, shape = ops.constant(np.array([0, 2, 1, 3])), ops.constant(np.array([0, 0, -1]))
            result = ops.reshape(ops.transpose(sequence.output(0), order_back), shape, True)
        run, request = self._runtime.bind(source, result, src, threads, {})

        def check() -> str:
            return operands.check_dynamic(request.get_output_tensor().data.transpose(1, 0, 2), quantized=False)

        return Prepared(run, check, keep=src)


def peers() -> list[Peer]:
    return [Recurrent(Runtime())]
