"""ONNX Runtime's MatMulInteger, with B as an input and as a constant that the session may pack."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from int8blas._bench.peers.base import Peer, Prepared, compare, import_peer
from int8blas._bench.shapes import Operands

MICROSOFT = "com.microsoft"  # the domain of ONNX Runtime's own operators


class Runtime:
    """The packages that a peer needs, and sessions of few nodes."""

    def __init__(self) -> None:
        self._ort, self.version = import_peer("onnxruntime", "onnxruntime")
        self._onnx, _ = import_peer("onnx", "onnx")

    def _value(self, name: str, array: np.ndarray) -> object:
        element = self._onnx.helper.np_dtype_to_tensor_dtype(array.dtype)
        return self._onnx.helper.make_tensor_value_info(name, element, array.shape)

    def bind(
        self,
        operator: str,
        arguments: list[str],
        inputs: Mapping[str, np.ndarray],
        constants: Mapping[str, np.ndarray],
        output: np.ndarray,
        threads: int,
        domain: str = "",
        **attributes: object,
    ) -> tuple[Callable[[], object], object]:
        """Return a call of the operator on `arguments`, the names of inputs and constants. Also return objects that
        must stay alive with the call.

        The operator belongs to `domain`, by default to the ONNX standard. `bind_nodes` has the remaining arguments.
        """
        node = self.node(operator, arguments, ["output"], domain=domain, **attributes)
        return self.bind_nodes([node], inputs, constants, output, threads)

    def node(self, operator: str, arguments: list[str], results: list[str], **attributes: object) -> object:
        return self._onnx.helper.make_node(operator, arguments, results, **attributes)

    def bind_nodes(
        self,
        nodes: list[object],
        inputs: Mapping[str, np.ndarray],
        constants: Mapping[str, np.ndarray],
        output: np.ndarray,
        threads: int,
    ) -> tuple[Callable[[], object], object]:
        """Return a call of the graph of these nodes, whose result is "output". Also return the objects that must stay
        alive with the call.

        Inputs and output are bound to the memory of their arrays beforehand.
        """
        helper = self._onnx.helper
        graph = helper.make_graph(
            nodes,
            "graph",
            [self._value(name, array) for name, array in inputs.items()],
            [self._value("output", output)],
            [self._onnx.numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()],
        )
        opsets = [helper.make_opsetid("", 10), helper.make_opsetid(MICROSOFT, 1)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()

        options = self._ort.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        session = self._ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        binding = session.io_binding()
        for name, array in inputs.items():
            binding.bind_input(name, "cpu", 0, array.dtype.type, array.shape, array.ctypes.data)
        binding.bind_output("output", "cpu", 0, output.dtype.type, output.shape, output.ctypes.data)
        # Call the C++ session, because run_with_iobinding() of the Python class only adds overhead.
        run = partial(session._sess.run_with_iobinding, binding._iobinding, None)
        return run, (session, binding, inputs, output)


class MatMulInteger(Peer):
    """A session of one node."""

    library = "onnxruntime"

    def __init__(self, runtime: Runtime, kind: str) -> None:
        self.name = "ORT packed" if kind == "packed" else "ORT"
        self.kind, self._runtime, self.version = kind, runtime, runtime.version

    def supports(self, problem: Any) -> bool:
        return True

    def prepare(self, operands: Operands, threads: int) -> Prepared:
        c = np.empty((operands.problem.m, operands.problem.n), np.int32)
        inputs, constants = {"a": operands.a}, {"b": operands.b}
        if self.kind == "plain":
            inputs, constants = {**inputs, **constants}, {}
        run, keep = self._runtime.bind("MatMulInteger", ["a", "b"], inputs, constants, c, threads)
        return Prepared(run, lambda: compare(operands, c), keep=keep)


def peers(reuse_c: bool) -> list[Peer]:
    runtime = Runtime()
    return [MatMulInteger(runtime, "plain"), MatMulInteger(runtime, "packed")]
