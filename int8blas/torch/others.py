"""Quantized modules of other libraries, and ``torch._int_mm``."""

from __future__ import annotations

import warnings
from types import TracebackType
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from torch import Tensor, nn

from int8blas.gemm.matmul import matmul
from int8blas.torch.ops import thread_limit


class Integers(NamedTuple):
    """The weights of a linear layer that another library has quantized."""

    weight: Tensor  # int8, (out_features, in_features)
    scale: Tensor  # float32, (out_features,) or (groups, out_features)
    bias: Tensor | None


# The remedies for layers whose integers int8blas cannot use. After a remedy, quantize_ quantizes the float weights.
TORCHAO = "restore its floats first: module.weight = torch.nn.Parameter(module.weight.dequantize())"
TORCH_AO = (
    "replace it by a torch.nn.Linear with the weight module.weight().dequantize() and the bias module.bias() first"
)


def integers_of(module: Any) -> Integers | None:
    """Return the integers of a linear layer of torchao, torch.ao, bitsandbytes or GPTQ in 8 bits, or None.

    If int8blas cannot use the integers of the layer, a ValueError says why.
    """
    weight = module._parameters.get("weight")
    if weight is not None and hasattr(weight, "qdata"):
        if not isinstance(module, nn.Linear):
            raise ValueError(f"its weight is torchao's, whose integers only linear layers keep; {TORCHAO}")
        return of_torchao(weight, module.bias)
    if type(module).__module__.startswith("torch.ao.nn.quantized") and type(module).__name__ == "Linear":
        if not type(module).__module__.startswith("torch.ao.nn.quantized.dynamic"):
            raise ValueError("it takes and returns quantized tensors, int8 modules take floats; quantize the float "
                             "model instead, with int8blas.torch.calibrate for a static network")  # fmt: skip
        return of_torch_ao(*module._weight_bias())
    if type(module).__name__ == "Linear8bitLt" and "SCB" in (state := module.state_dict()):  # of bitsandbytes
        return Integers(state["weight"], state["SCB"].float() / 127, module.bias)
    if {"qweight", "qzeros", "scales"} <= module._buffers.keys() | module._parameters.keys():
        return of_gptq(module)
    return None


def with_group(scale: Tensor, weight: Tensor) -> Tensor:
    """Return scales (out_features, groups) in the order of int8blas."""
    scale = scale.detach().float().expand(len(weight), -1)
    return (scale[:, 0] if scale.shape[1] == 1 else scale.t()).contiguous()


def of_torchao(weight: Any, bias: Tensor | None) -> Integers:
    """Return the integers of torchao's Int8Tensor, or of its IntxUnpackedToInt8Tensor of at most 8 bits."""
    if weight.qdata.dtype != torch.int8 or weight.qdata.dim() != 2:
        raise ValueError(
            f"its weight is {type(weight).__name__} of {weight.qdata.dtype}, not a matrix of int8; {TORCHAO}"
        )
    if weight.qdata.shape != weight.shape:  # Int4Tensor, which torchao cannot dequantize either
        raise ValueError(f"its weight is {type(weight).__name__} with packed values; quantize the float model instead")
    if weight.zero_point is not None and weight.zero_point.any():
        raise ValueError(f"its weight has zero points; {TORCHAO}")
    if getattr(weight, "act_pre_scale", None) is not None:
        raise ValueError("its source has factors (act_pre_scale); quantize the float model instead")
    scale = weight.scale if weight.scale.dim() == 2 else weight.scale.reshape(-1, 1)
    group = weight.qdata.shape[1] // scale.shape[1]
    if scale.shape[1] > 1 and group % 4:
        raise ValueError(f"its scales are of groups of {group}, not of a multiple of 4; {TORCHAO}")
    return Integers(weight.qdata, with_group(scale, weight.qdata), bias)


def of_torch_ao(weight: Any, bias: Tensor | None) -> Integers:
    """Return the integers of a quantized tensor of torch."""
    if weight.dtype != torch.qint8:
        raise ValueError(f"its weight is {weight.dtype}, not torch.qint8; {TORCH_AO}")
    integers = weight.int_repr()
    if weight.qscheme() in (torch.per_channel_affine, torch.per_channel_symmetric):
        scale, zero = weight.q_per_channel_scales(), weight.q_per_channel_zero_points()
    else:
        scale, zero = torch.tensor([weight.q_scale()]), torch.tensor(weight.q_zero_point())
    if zero.any():
        raise ValueError(f"its weight has zero points; {TORCH_AO}")
    return Integers(integers, with_group(scale[:, None], integers), bias)


def of_gptq(module: Any) -> Integers:
    """Return the integers of a GPTQ layer: four bytes in each int32 of `qweight`, (in / 4, out), zero point 128."""
    packed, scales = module.qweight.detach().numpy(), module.scales.detach().float()
    if getattr(module, "bits", 8) != 8:
        raise ValueError(f"it has {module.bits} bits, not 8; quantize the float model instead")
    # Files of GPTQ's first format version store each zero point minus 1: 127 for 128.
    if not np.isin(np.unique(module.qzeros.detach().numpy().view(np.uint8)), (127, 128)).all():
        raise ValueError("its zero points are not 128; GPTQ with sym=True makes such layers")
    rows = 4 * packed.shape[0]
    order = getattr(module, "g_idx", None)
    if order is not None and not torch.equal(order.long(), torch.arange(rows) // (rows // len(scales))):
        raise ValueError("its groups are not in order; GPTQ with desc_act=False makes such layers")
    bytes_ = np.ascontiguousarray(packed).view(np.uint8).reshape(*packed.shape, 4)
    integers = (bytes_.transpose(1, 0, 2).reshape(packed.shape[1], rows) ^ 128).view(np.int8)
    scale = scales[0] if len(scales) == 1 else scales
    return Integers(torch.from_numpy(integers), scale.contiguous(), getattr(module, "bias", None))


class int_mm:  # noqa: N801, a function to its users
    """Replace ``torch._int_mm`` on the CPU, which torchao and other quantizers call, by :func:`int8blas.matmul`.

    All callers of ``torch._int_mm`` then get exact results, including code of ``torch.compile``. Use a ``with`` block,
    or :meth:`start` and :meth:`stop`.

    Examples
    --------
    >>> import torch, int8blas.torch
    >>> a, b = torch.ones(48, 96, dtype=torch.int8), torch.ones(96, 40, dtype=torch.int8)
    >>> with int8blas.torch.int_mm():
    ...     torch._int_mm(a, b)[0, 0]
    tensor(96, dtype=torch.int32)
    """

    def __init__(self) -> None:
        self._library: Any = None

    def start(self) -> Self:
        """Replace the operator until :meth:`stop`.

        Returns
        -------
        int_mm
        """
        if self._library is None:
            self._library = torch.library.Library("aten", "IMPL")
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # torch says that an operator is overridden
                self._library.impl("_int_mm", multiply, "CPU")
                self._library.impl("_int_mm.out", multiply_out, "CPU")
            STARTED.add(self)
        return self

    def stop(self) -> None:
        """Restore torch's own operator."""
        if self._library is not None:
            self._library._destroy()
            self._library = None
            STARTED.discard(self)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


# The started replacements. torch restores its own operator when the last reference to the library is gone.
STARTED: set[int_mm] = set()


def multiply(a: Tensor, b: Tensor) -> Tensor:
    """Return a @ b in int32."""
    with thread_limit():
        return torch.from_numpy(matmul(a.numpy(), b.numpy()))


def multiply_out(a: Tensor, b: Tensor, *, out: Tensor) -> Tensor:
    """Store a @ b in `out`, whose shape may change."""
    with thread_limit():
        matmul(a.numpy(), b.numpy(), out=out.resize_(len(a), b.shape[1]).numpy())
    return out
