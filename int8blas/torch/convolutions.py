"""int8 modules that replace torch's convolutions and transposed convolutions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.fx import Proxy
from torch.nn import functional

from int8blas.torch.modules import WeightedModule, as_leaf, quantized_rows
from int8blas.torch.ops import (
    convolution,
    convolve,
    geometry,
    is_channels_last,
    layer_of,
    make_convolution,
    runs_now,
    to_autocast_dtype,
    traces,
)

TORCH_KINDS: tuple[tuple[Any, ...], ...] = (
    (nn.Conv1d, nn.Conv2d, nn.Conv3d),
    (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d),
)


def by_outputs(weight: Tensor, groups: int) -> Tensor:
    """Exchange inputs and outputs within each group: weights (in, out / groups, ...) become (out, in / groups, ...)."""
    return weight.unflatten(0, (groups, -1)).transpose(1, 2).flatten(0, 1)


class Int8Conv(WeightedModule):
    """A convolution, or a transposed convolution, with int8 weights. A call quantizes each image of its source.

    :func:`quantize_` creates this module from ``nn.Conv1d``, ``Conv2d``, ``Conv3d``, ``nn.ConvTranspose1d``,
    ``ConvTranspose2d`` and ``ConvTranspose3d``. Images with channels last in memory (``torch.channels_last``) are
    fastest, and give results with channels last.

    Parameters
    ----------
    module : nn.Module
        A convolution of torch.

    Attributes
    ----------
    quantized : Tensor of int8
        The weights, (out_channels, in_channels / groups, ...).
    scale : Tensor of float32
        One scale for each output channel.
    bias : Tensor of float32 or None
        As given to the constructor.

    Examples
    --------
    >>> import torch, int8blas.torch
    >>> int8blas.torch.quantize_(torch.nn.Conv2d(16, 32, 3, padding=1))
    Int8Conv(16, 32, kernel_size=(3, 3), stride=(1, 1), padding=(1, 1))
    >>> int8blas.torch.quantize_(torch.nn.ConvTranspose1d(16, 32, 4, stride=2, bias=False))
    Int8Conv(16, 32, kernel_size=(4,), stride=(2,), bias=False, transposed=True)
    """

    quantized: Tensor
    scale: Tensor
    bias: Tensor | None

    # The usual values of arguments of torch's modules. `repr` omits an argument whose elements all have the usual
    # value.
    USUAL: ClassVar[dict[str, Any]] = {
        "padding": 0, "output_padding": 0, "dilation": 1, "groups": 1, "bias": True, "padding_mode": "zeros",
        "transposed": False,
    }  # fmt: skip

    def __init__(self, module: Any) -> None:
        super().__init__()
        self.dtype = module.weight.dtype
        self.kernel_size, self.stride = tuple(module.kernel_size), tuple(module.stride)
        self.dilation, self.groups, self.padding = tuple(module.dilation), module.groups, module.padding
        self.in_channels, self.out_channels = module.in_channels, module.out_channels
        self.transposed, self.padding_mode = module.transposed, module.padding_mode
        self.output_padding = tuple(module.output_padding)
        if module.padding == "same":
            totals = [d * (k - 1) for d, k in zip(self.dilation, self.kernel_size, strict=True)]
            self.pads = tuple((total // 2, total - total // 2) for total in totals)
        else:
            padding = (0,) * len(self.stride) if module.padding == "valid" else module.padding
            self.pads = tuple((p, p) for p in padding)
        weight = by_outputs(module.weight, self.groups) if self.transposed else module.weight
        integers, scale = quantized_rows(weight)
        self.register_buffer("quantized", torch.from_numpy(integers))
        self.register_buffer("scale", torch.from_numpy(scale))
        self.register_buffer("bias", None if module.bias is None else module.bias.detach().float().clone())
        self._renew()

    def forward(self, input: Tensor, output_size: Sequence[int] | None = None) -> Tensor:
        """Return the convolution of images, (n, channels, ...) or (channels, ...).

        Parameters
        ----------
        input : Tensor
            Images.
        output_size : sequence of int, optional
            The size of a transposed convolution's result, as for torch's modules.

        Returns
        -------
        Tensor
        """
        if isinstance(input, Proxy):
            return as_leaf(self, input, output_size)
        if torch.compiler.is_compiling():
            return self._forward(input, output_size)
        try:
            return self._forward(input, output_size)
        except (TypeError, ValueError) as error:
            error.add_note(f"in {self.told()}")
            raise

    def _forward(self, x: Tensor, output_size: Sequence[int] | None) -> Tensor:
        dims = len(self.stride)
        if x.dim() == dims + 1:
            return self._forward(x.unsqueeze(0), output_size).squeeze(0)
        if x.dim() != dims + 2 or (not traces() and x.shape[1] != self.in_channels):
            raise ValueError(f"input must have {dims + 1} or {dims + 2} dimensions, and {self.in_channels} channels "
                             f"before the last {dims}, got shape {tuple(x.shape)}")  # fmt: skip
        pads, output_padding = self.pads, self.output_padding
        if output_size is not None:
            output_padding = self.padding_for(x, output_size)
        if self.padding_mode != "zeros":
            x = functional.pad(x, [p for pair in reversed(pads) for p in pair], mode=self.padding_mode)
            pads = ((0, 0),) * len(pads)
        if not torch.compiler.is_compiling() and runs_now(x):
            layers, last = self._current(), is_channels_last(x)
            if output_size is not None:
                layer = self._layer_for(output_padding, last)
            elif last in layers:
                layer = layers[last]
            else:
                layer = layers[last] = self._layer_for(output_padding, last)
            return to_autocast_dtype(convolve(layer, x, last))
        result: Tensor = convolution(
            x, self.quantized, self.scale, self.bias, list(self.stride), [p for pair in pads for p in pair],
            list(self.dilation), self.groups, list(output_padding) if self.transposed else [], self.label,
        )  # fmt: skip
        return to_autocast_dtype(result)

    def padding_for(self, x: Tensor, output_size: Sequence[int]) -> tuple[int, ...]:
        """Return the output padding with which a transposed convolution of x has the given size.

        Parameters
        ----------
        x : Tensor
            Images (n, channels, ...).
        output_size : sequence of int
            The size of the result, with or without the first two dimensions.

        Returns
        -------
        tuple of int
        """
        if not self.transposed:
            raise TypeError(f"output_size must be None, as the convolution is not transposed, got {output_size}")
        dims = len(self.stride)
        wanted = tuple(output_size)[-dims:]
        least = tuple(
            (size - 1) * s - before - after + d * (k - 1) + 1
            for size, s, (before, after), d, k in zip(
                x.shape[2:], self.stride, self.pads, self.dilation, self.kernel_size, strict=True
            )
        )
        most = tuple(low + s - 1 for low, s in zip(least, self.stride, strict=True))
        if len(output_size) not in (dims, dims + 1, dims + 2) or not all(
            low <= size <= high for low, size, high in zip(least, wanted, most, strict=True)
        ):
            raise ValueError(f"output_size must be from {least} to {most} for x of shape {tuple(x.shape)}, got "
                             f"{tuple(output_size)}")  # fmt: skip
        return tuple(size - low for low, size in zip(least, wanted, strict=True))

    def _shape(self) -> tuple[int, ...]:
        outputs, inputs = self.out_channels, self.in_channels
        first = (inputs, outputs // self.groups) if self.transposed else (outputs, inputs // self.groups)
        return *first, *self.kernel_size

    def _dequantize(self) -> Tensor:
        weight = (self.quantized * self.scale.reshape(-1, *(1,) * (self.quantized.dim() - 1))).to(self.dtype)
        return by_outputs(weight, self.groups) if self.transposed else weight

    def dequantized(self) -> nn.Module:
        """Return a convolution of torch with these weights, in their original dtype.

        Returns
        -------
        nn.Module
        """
        kind = TORCH_KINDS[self.transposed][len(self.stride) - 1]
        options = {"output_padding": self.output_padding} if self.transposed else {"padding_mode": self.padding_mode}
        module: nn.Module = kind(
            self.in_channels, self.out_channels, self.kernel_size, self.stride, self.padding, dilation=self.dilation,
            groups=self.groups, bias=self.bias is not None, dtype=self.dtype, **options,
        )  # fmt: skip
        state = {"weight": self._dequantize()}
        if self.bias is not None:
            state["bias"] = self.bias
        module.load_state_dict(state)
        return module

    def extra_repr(self) -> str:
        """Return the text of ``repr`` between the parentheses."""
        told = {name: getattr(self, name) for name in self.USUAL} | {"bias": self.bias is not None}
        words = [f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}"]
        words += [
            f"{name}={value!r}"
            for name, value in told.items()
            if value != self.USUAL[name] and value != (self.USUAL[name],) * len(self.stride)
        ]
        return ", ".join(words)

    def _restore(self) -> None:
        self._layer: dict[bool, Any] = {}  # the layers of both layouts, which calls create when they need them

    def _layer_for(self, output_padding: tuple[int, ...], channels_last: bool) -> Any:
        """Return the layer with an output padding and a layout. Create the layer if it does not exist."""
        pads = self.pads if self.padding_mode == "zeros" else ((0, 0),) * len(self.pads)
        parameters = (
            self.stride, pads, self.dilation, self.groups, output_padding if self.transposed else (), channels_last
        )  # fmt: skip
        return layer_of(
            self.quantized, (self.scale, self.bias), geometry(*parameters), make_convolution,
            self.quantized, self.scale, self.bias, *parameters,
        )  # fmt: skip
