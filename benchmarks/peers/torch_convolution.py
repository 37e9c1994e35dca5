"""PyTorch's quantized convolutions, on each of its engines, and its float32 one, all on channels-last tensors.

They cannot fill a given tensor: each call creates its result.
"""

from __future__ import annotations

import warnings
from functools import partial
from types import ModuleType

import numpy as np
from int8blas._bench.peers.base import Peer, Prepared, import_peer

from convolutions import SRC_SCALE, ConvolutionOperands, ConvolutionProblem
from peers.torch_linear import ENGINES


class _Torch(Peer):
    library = "torch"

    def __init__(self, torch: ModuleType, version: str) -> None:
        self._torch, self.version = torch, version

    def set_threads(self, threads: int) -> None:
        self._torch.set_num_threads(threads)

    def supports(self, problem: ConvolutionProblem) -> bool:
        return True

    def _nchw(self, array: np.ndarray) -> object:
        """Return an NHWC array as a tensor of torch's dimension order, in channels-last memory."""
        return self._torch.from_numpy(array).permute(0, 3, 1, 2)


class Quantized(_Torch):
    """torch.ops.quantized.conv2d_relu."""

    kind = "convolution"

    def __init__(self, torch: ModuleType, version: str, engine: str) -> None:
        super().__init__(torch, version)
        self.name, self._engine = f"torch {engine}", engine

    def prepare(self, operands: ConvolutionOperands, threads: int) -> Prepared:
        torch, operators, p = self._torch, self._torch.ops.quantized, operands.problem
        torch.backends.quantized.engine = self._engine
        scales = torch.from_numpy(operands.weight_scales.astype("float64"))
        zeros = torch.zeros(p.oc, dtype=torch.int64)
        geometry = [p.stride] * 2, list(p.padding), [p.dilation] * 2, p.groups
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # quantized tensors are deprecated, but the operators take nothing else
            weights = torch._make_per_channel_quantized_tensor(torch.from_numpy(operands.weights), scales, zeros, 0)
            packed = operators.conv2d_prepack(weights, torch.from_numpy(operands.bias), *geometry)
            src = torch._make_per_tensor_quantized_tensor(self._nchw(operands.src), float(SRC_SCALE), 0)
        run = partial(operators.conv2d_relu.new, src, packed, float(operands.dst_scale), 0)
        return Prepared(run, lambda: operands.check(run().int_repr().permute(0, 2, 3, 1).numpy()))


class Float(_Torch):
    """torch.nn.functional.conv2d in float32, with the bias."""

    name, kind = "torch f32", "f32"

    def prepare(self, operands: ConvolutionOperands, threads: int) -> Prepared:
        torch, p = self._torch, operands.problem
        weights = torch.from_numpy(operands.weights_f32).to(memory_format=torch.channels_last)
        tensors = self._nchw(operands.src_f32), weights, torch.from_numpy(operands.bias)
        run = partial(torch.nn.functional.conv2d, *tensors, p.stride, p.padding, p.dilation, p.groups)
        return Prepared(run, lambda: operands.check_f32(run().clamp_min(0).permute(0, 2, 3, 1).numpy()))


def peers() -> list[Peer]:
    torch, version = import_peer("torch", "torch")
    engines = [engine for engine in ENGINES if engine in torch.backends.quantized.supported_engines]
    return [*(Quantized(torch, version, engine) for engine in engines), Float(torch, version)]
