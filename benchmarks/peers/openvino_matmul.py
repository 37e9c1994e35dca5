"""OpenVINO's MatMul with constant int8 weights.

The activations pass a FakeQuantize that changes nothing: with it the compiler treats the product as quantized and
computes it in int8; without it, it converts activations to float32. The result is the int32 sum as float32.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from types import ModuleType

import numpy as np
from int8blas._bench.peers.base import Peer, Prepared, compare, import_peer
from int8blas._bench.shapes import Operands, Problem


class Runtime:
    """The packages, and compiled models of one input."""

    def __init__(self) -> None:
        self._openvino, self.version = import_peer("openvino", "openvino")
        self.ops, _ = import_peer("openvino.opset13", "openvino")
        self._core = self._openvino.Core()

    def bind(
        self, source: object, result: object, array: np.ndarray, threads: int, options: Mapping[str, object]
    ) -> tuple[Callable[[], object], object]:
        """Return a call that computes `result` from `array`, which is bound to the parameter `source`, and the
        inference request that holds the result."""
        fixed = {"INFERENCE_NUM_THREADS": threads, "NUM_STREAMS": 1, "INFERENCE_PRECISION_HINT": "f32"}
        model = self._openvino.Model([result], [source], "product")
        request = self._core.compile_model(model, "CPU", {**fixed, **options}).create_infer_request()
        request.set_input_tensor(self._openvino.Tensor(array, shared_memory=True))
        # The C++ object's own method (inputs, share_outputs, decode_strings): the Python class only adds overhead.
        return partial(super(type(request), request).infer, {}, True, False), request


class MatMul(Peer):
    """A compiled model of one product; the input is shared memory and the output stays in the request."""

    name, kind, library = "OpenVINO packed", "packed", "OpenVINO"

    def __init__(self) -> None:
        self._runtime = Runtime()
        self.version = self._runtime.version

    def supports(self, problem: Problem) -> bool:
        return problem.signs in ("u8s8", "s8s8")

    def prepare(self, operands: Operands, threads: int) -> Prepared:
        source, result = _model(self._runtime.ops, operands)
        run, request = self._runtime.bind(source, result, operands.a, threads, {})
        return Prepared(run, lambda: compare(operands, request.get_output_tensor().data), keep=operands)


def _model(ops: ModuleType, operands: Operands) -> tuple[object, object]:
    def scalar(value: int) -> object:
        return ops.constant(np.float32(value))

    info = np.iinfo(operands.a.dtype)
    activations = ops.parameter(list(operands.a.shape), operands.a.dtype)
    bounds = [scalar(info.min), scalar(info.max)]
    a = ops.fake_quantize(ops.convert(activations, "f32"), *bounds, *bounds, 256)
    b = ops.multiply(ops.convert(ops.constant(operands.b), "f32"), scalar(1))
    return activations, ops.matmul(a, b, False, False)


def peers(reuse_c: bool) -> list[Peer]:
    return [MatMul()]
