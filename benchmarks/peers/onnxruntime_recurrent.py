"""ONNX Runtime's DynamicQuantizeLSTM, of the operator set com.microsoft, and its float32 LSTM and GRU."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from int8blas._bench.peers.base import Peer, Prepared
from int8blas._bench.peers.onnxruntime_matmul import MICROSOFT, Runtime

from peers.base import LayerPeer
from recurrent import RecurrentOperands, RecurrentProblem

# The order of ONNX Runtime's gates, as indices into int8blas's order: LSTM i, o, f, c~; GRU as here.
ORDER = {"lstm": [0, 3, 1, 2], "gru": [0, 1, 2], "lbr_gru": [0, 1, 2]}


class Recurrent(LayerPeer):
    """A session with a node for each layer; dynamic: source and state are quantized per tensor, in each step."""

    library = "onnxruntime"

    def __init__(self, runtime: Runtime, kind: str) -> None:
        self.name = "ORT f32" if kind == "f32" else "ORT"
        self._runtime, self.version, self.kind = runtime, runtime.version, kind

    def supports(self, problem: RecurrentProblem) -> bool:
        return super().supports(problem) and (self.kind == "f32" or problem.cell == "lstm")

    def prepare(self, operands: RecurrentOperands, threads: int) -> Prepared:
        p, src = operands.problem, operands.src_f32
        quantized = self.kind == "dynamic"
        make = _quantized_layers if quantized else _float_layers
        attributes: dict[str, object] = {
            "hidden_size": p.units,
            "direction": "bidirectional" if p.directions == 2 else "forward",
        }
        if p.cell == "lbr_gru":
            attributes["linear_before_reset"] = 1
        operator = "DynamicQuantizeLSTM" if quantized else "LSTM" if p.cell == "lstm" else "GRU"
        domain = MICROSOFT if quantized else ""
        constants = {"shape": np.array([0, 0, -1])}
        nodes, source = [], "src"
        for index, layer in enumerate(make(operands)):
            result = "output" if index == p.layers - 1 else f"result{index}"
            names = ["" if array is None else f"{name}{index}" for name, array in layer.items()]
            constants |= {name: array for name, array in zip(names, layer.values(), strict=True) if name}
            nodes.append(self._runtime.node(operator, [source, *names], [result], domain=domain, **attributes))
            # (t, directions, n, units) becomes (t, n, directions * units).
            source = f"src{index + 1}"
            if result != "output":
                nodes.append(self._runtime.node("Transpose", [result], [f"{source}t"], perm=[0, 2, 1, 3]))
                nodes.append(self._runtime.node("Reshape", [f"{source}t", "shape"], [source]))
        dst = np.empty((p.t, p.directions, p.n, p.units), np.float32)
        if p.layers == 1:
            del constants["shape"]
        run, keep = self._runtime.bind_nodes(nodes, {"src": src}, constants, dst, threads)

        def check() -> str:
            return operands.check_dynamic(dst.transpose(0, 2, 1, 3).reshape(p.t, p.n, -1), quantized)

        return Prepared(run, check, keep=keep)


def _rows(array: np.ndarray, cell: str) -> np.ndarray:
    """Reshape (..., gates, units) to (..., gates * units), in ONNX Runtime's order of gates."""
    return array[..., ORDER[cell], :].reshape(*array.shape[:-2], -1)


def _bias(bias: np.ndarray, cell: str) -> np.ndarray:
    """(directions, gates + ..., units) as (directions, 2 * gates * units): the source's products first."""
    gates = len(ORDER[cell])
    state = np.zeros_like(bias[:, :gates])
    if bias.shape[1] > gates:
        state[:, -1] = bias[:, -1]
    return np.concatenate([_rows(bias[:, :gates], cell), _rows(state, cell)], axis=1)


def _float_layers(operands: RecurrentOperands) -> Iterable[dict[str, np.ndarray]]:
    """The constant inputs of each layer's node."""
    cell = operands.problem.cell
    for layer, state, bias in operands.float_weights():
        matrices = [np.ascontiguousarray(_rows(w, cell).swapaxes(1, 2)) for w in (layer, state)]
        yield {"w": matrices[0], "r": matrices[1], "b": _bias(bias, cell)}


def _quantized_layers(operands: RecurrentOperands) -> Iterable[dict[str, np.ndarray | None]]:
    """The constant inputs of each layer's node; inputs that are None are omitted."""
    p = operands.problem
    scales = np.tile(_rows(1 / operands.weights_scale, p.cell), (p.directions, 1))
    zeros = np.zeros(scales.shape, np.int8)
    unused = dict.fromkeys(("sequence_lens", "initial_h", "initial_c", "peepholes"))
    for layer, state, bias in zip(operands.weights_layer, operands.weights_iter, operands.bias, strict=True):
        matrices = {"w": _rows(layer, p.cell), "r": _rows(state, p.cell), "b": _bias(bias, p.cell)}
        yield matrices | unused | {"ws": scales, "wz": zeros, "rs": scales, "rz": zeros}


def peers() -> list[Peer]:
    runtime = Runtime()
    return [Recurrent(runtime, "dynamic"), Recurrent(runtime, "f32")]
