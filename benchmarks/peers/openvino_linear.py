"""OpenVINO's MatMul with constant int8 weights and their scales, compiled to one fully connected node.

Static: FakeQuantize nodes surround the layer, as OpenVINO's quantization tools write them; the compiler turns them into
a uint8 source and result. Dynamic: a float32 source that the node quantizes in groups; a group of K values is a row.
"""

from __future__ import annotations

from types import ModuleType

import numpy as np
from int8blas._bench.peers.base import Peer, Prepared

from linear import DST_ZERO_POINT, SRC_SCALE, SRC_ZERO_POINT, LinearOperands
from peers.base import LayerPeer
from peers.openvino_matmul import Runtime


class Linear(LayerPeer):
    """A compiled model of one layer; the input is shared memory and the output stays in the request."""

    name, library = "OpenVINO", "OpenVINO"

    def __init__(self, runtime: Runtime, kind: str) -> None:
        self._runtime, self.version, self.kind = runtime, runtime.version, kind

    def prepare(self, operands: LinearOperands, threads: int) -> Prepared:
        if self.kind == "dynamic":
            src, model = operands.src_f32, _dynamic_model(self._runtime.ops, operands)
            options, check = {"DYNAMIC_QUANTIZATION_GROUP_SIZE": operands.problem.k}, operands.check_dynamic
        else:
            src, model = operands.src_u8, _static_model(self._runtime.ops, operands)
            options, check = {}, operands.check_static
        run, request = self._runtime.bind(*model, src, threads, options)
        return Prepared(run, lambda: check(request.get_output_tensor().data), keep=operands)


def _layer(ops: ModuleType, src: object, operands: LinearOperands) -> object:
    scales = ops.constant(operands.weight_scales[:, None])
    weights = ops.multiply(ops.convert(ops.constant(operands.weights), "f32"), scales)
    return ops.add(ops.matmul(src, weights, False, True), ops.constant(operands.bias[None, :]))


def _dynamic_model(ops: ModuleType, operands: LinearOperands) -> tuple[object, object]:
    source = ops.parameter(list(operands.src_f32.shape), np.float32)
    return source, _layer(ops, source, operands)


def _static_model(ops: ModuleType, operands: LinearOperands) -> tuple[object, object]:
    def bounds(scale: float, zero_point: int) -> list[object]:
        """Return the real values of 0 and 255."""
        return [ops.constant(np.float32((value - zero_point) * scale)) for value in (0, 255)]

    source = ops.parameter(list(operands.src_u8.shape), np.uint8)
    centred = ops.subtract(ops.convert(source, "f32"), ops.constant(np.float32(SRC_ZERO_POINT)))
    src = ops.multiply(centred, ops.constant(SRC_SCALE))
    src_bounds = bounds(SRC_SCALE, SRC_ZERO_POINT)
    activated = ops.relu(_layer(ops, ops.fake_quantize(src, *src_bounds, *src_bounds, 256), operands))
    dst = ops.fake_quantize(activated, *bounds(operands.dst_scale, DST_ZERO_POINT), *bounds(1, 0), 256)
    return source, ops.convert(dst, "u8")


def peers() -> list[Peer]:
    runtime = Runtime()
    return [Linear(runtime, "static"), Linear(runtime, "dynamic")]
