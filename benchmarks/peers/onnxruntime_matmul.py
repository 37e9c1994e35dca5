"""ONNX Runtime's MatMulInteger, with B as an input and as a constant that the session may pack."""

from __future__ import annotations

from functools import partial

import numpy as np

from peers.base import Peer, Prepared, compare, import_peer
from shapes import DTYPES, Operands, Problem


class MatMulInteger(Peer):
    """A session of one node; inputs and output are bound to memory beforehand."""

    library = "onnxruntime"

    def __init__(self, kind: str) -> None:
        self.name = "ORT packed" if kind == "packed" else "ORT"
        self.kind = kind
        self._ort, self.version = import_peer("onnxruntime", "onnxruntime")
        self._onnx, _ = import_peer("onnx", "onnx")

    def supports(self, problem: Problem) -> bool:
        return True

    def _model(self, operands: Operands) -> bytes:
        helper, types, p = self._onnx.helper, self._onnx.TensorProto, operands.problem
        element = {"u8": types.UINT8, "s8": types.INT8}
        inputs = [helper.make_tensor_value_info("a", element[p.signs[:2]], [p.m, p.k])]
        constants = []
        if self.kind == "packed":
            constants.append(self._onnx.numpy_helper.from_array(operands.b, "b"))
        else:
            inputs.append(helper.make_tensor_value_info("b", element[p.signs[2:]], [p.k, p.n]))
        output = helper.make_tensor_value_info("c", types.INT32, [p.m, p.n])
        node = helper.make_node("MatMulInteger", ["a", "b"], ["c"])
        graph = helper.make_graph([node], "gemm", inputs, [output], constants)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 10)], ir_version=8)
        return model.SerializeToString()

    def prepare(self, operands: Operands, threads: int) -> Prepared:
        p = operands.problem
        options = self._ort.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        session = self._ort.InferenceSession(self._model(operands), options, providers=["CPUExecutionProvider"])
        c = np.empty((p.m, p.n), np.int32)
        binding = session.io_binding()
        inputs = {"a": operands.a} if self.kind == "packed" else {"a": operands.a, "b": operands.b}
        for name, array in inputs.items():
            element = DTYPES["u8" if array.dtype == np.uint8 else "s8"]
            binding.bind_input(name, "cpu", 0, element, array.shape, array.ctypes.data)
        binding.bind_output("c", "cpu", 0, np.int32, c.shape, c.ctypes.data)
        # The session's own method: run_with_iobinding() of the Python class only adds overhead.
        run = partial(session._sess.run_with_iobinding, binding._iobinding, None)
        return Prepared(run, lambda: compare(operands, c), keep=(operands, session, binding))


def peers(reuse_c: bool) -> list[Peer]:
    return [MatMulInteger("plain"), MatMulInteger("packed")]
