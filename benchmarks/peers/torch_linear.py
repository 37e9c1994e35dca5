"""PyTorch's quantized linear layers, on each of its engines, and its float32 one.

The operators are called without the modules around them, torch.ao.nn.quantized.Linear and its dynamic form. They cannot
fill a given tensor: each call creates its result.
"""

from __future__ import annotations

import warnings
from functools import partial
from types import ModuleType

from int8blas._bench.peers.base import Peer, Prepared, import_peer

from linear import DST_ZERO_POINT, SRC_SCALE, SRC_ZERO_POINT, LinearOperands
from peers.base import LayerPeer

ENGINES = ("x86", "fbgemm", "onednn", "qnnpack")  # x86 chooses between the next two


class _Torch(LayerPeer):
    library = "torch"

    def __init__(self, torch: ModuleType, version: str) -> None:
        self._torch, self.version = torch, version

    def set_threads(self, threads: int) -> None:
        self._torch.set_num_threads(threads)


class Quantized(_Torch):
    """torch.ops.quantized.linear_relu, or linear_dynamic: the source is quantized per tensor, in each call."""

    def __init__(self, torch: ModuleType, version: str, engine: str, kind: str) -> None:
        super().__init__(torch, version)
        self.name, self.kind, self._engine = f"torch {engine}", kind, engine

    def prepare(self, operands: LinearOperands, threads: int) -> Prepared:
        torch, operators = self._torch, self._torch.ops.quantized
        torch.backends.quantized.engine = self._engine
        scales = torch.from_numpy(operands.weight_scales.astype("float64"))
        zeros = torch.zeros(operands.problem.n, dtype=torch.int64)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # quantized tensors are deprecated, but the operators take nothing else
            weights = torch._make_per_channel_quantized_tensor(torch.from_numpy(operands.weights), scales, zeros, 0)
            packed = operators.linear_prepack(weights, torch.from_numpy(operands.bias))
            src = torch.from_numpy(operands.src_u8)
            src = torch._make_per_tensor_quantized_tensor(src, float(SRC_SCALE), SRC_ZERO_POINT)
        if self.kind == "dynamic":
            # reduce_range: the default of the modules is True, for the saturating kernels of CPUs without VNNI.
            run = partial(operators.linear_dynamic, torch.from_numpy(operands.src_f32), packed, False)
            return Prepared(run, lambda: operands.check_dynamic(run().numpy()))
        run = partial(operators.linear_relu, src, packed, float(operands.dst_scale), DST_ZERO_POINT)
        return Prepared(run, lambda: operands.check_static(run().int_repr().numpy()))


class Float(_Torch):
    """torch.nn.functional.linear in float32, with the bias."""

    name, kind = "torch f32", "f32"

    def prepare(self, operands: LinearOperands, threads: int) -> Prepared:
        weights = operands.weights * operands.weight_scales[:, None]
        tensors = (self._torch.from_numpy(x) for x in (operands.src_f32, weights, operands.bias))
        run = partial(self._torch.nn.functional.linear, *tensors)
        return Prepared(run, lambda: operands.check_dynamic(run().numpy(), quantized=False))


def peers() -> list[Peer]:
    torch, version = import_peer("torch", "torch")
    engines = [engine for engine in ENGINES if engine in torch.backends.quantized.supported_engines]
    found: list[Peer] = [
        Quantized(torch, version, engine, kind) for kind in ("static", "dynamic") for engine in engines
    ]
    return [*found, Float(torch, version)]
