"""int8 modules in the place of torch's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from int8blas.elementwise.quantization import quantize
from int8blas.gemm.packing import PackedB
from int8blas.layers.inner_product import InnerProduct
from int8blas.stage.weights_scales import scales_of
from int8blas.torch.ops import (
    LAYERS,
    as_tensor,
    convolution,
    convolve,
    embedding,
    find_rows,
    linear,
    make_convolution,
    make_layer,
    multiply,
    runs_now,
    unpacked,
)


class Int8Module(nn.Module):
    """What int8 modules share: their buffers are the state of a layer of int8blas, in `_layer`."""

    def _restore(self) -> None:
        """Make the layer from the buffers."""
        raise NotImplementedError

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Refuse other devices; dtypes are those of the sources."""
        device = fn(torch.empty(0)).device.type
        if device != "cpu":
            raise RuntimeError(
                f"{self} computes on the CPU, got device {device!r}: call int8blas.torch.dequantize_(model) first"
            )
        return self

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, local_metadata: Any, strict: bool, missing_keys: list[str],
        unexpected_keys: list[str], error_msgs: list[str],
    ) -> None:  # fmt: skip
        own = {prefix + name: tensor for name, tensor in self._buffers.items() if tensor is not None}
        missing = [key for key in own if key not in state_dict]
        wrong = [
            f"{key} must be {tensor.dtype} of shape {tuple(tensor.shape)}, got {state_dict[key].dtype} of shape "
            f"{tuple(state_dict[key].shape)}"
            for key, tensor in own.items()
            if key not in missing
            and (state_dict[key].shape != tensor.shape or state_dict[key].dtype != tensor.dtype)
        ]  # fmt: skip
        if strict:
            missing_keys += missing
            unexpected_keys += [key for key in state_dict if key.startswith(prefix) and key not in own]
        error_msgs += wrong
        if missing or wrong:
            return
        for key in own:
            setattr(self, key.removeprefix(prefix), state_dict[key].detach().clone())
        self._restore()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_layer"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._restore()


class Int8Linear(Int8Module):
    """A linear layer with int8 weights; each row of a source is quantized as it comes.

    :func:`quantize_` makes it. The result has the dtype of the source: float32, bfloat16 or float16.

    Parameters
    ----------
    layer : InnerProduct
        A dynamic layer from float32 to float32.

    Attributes
    ----------
    in_features, out_features : int
        Sizes of source and result.
    packed : Tensor of int8
        The packed weights, in the memory of the layer's PackedB. Do not write to it; ``load_state_dict`` makes a new
        layer.
    scale : Tensor of float32
        One scale for each output channel, or (groups, out_features).
    bias : Tensor of float32 or None
        As given.

    Examples
    --------
    >>> import torch, int8blas.torch
    >>> int8blas.torch.quantize_(torch.nn.Linear(512, 256))
    Int8Linear(in_features=512, out_features=256, bias=True)
    """

    packed: Tensor
    scale: Tensor
    bias: Tensor | None

    def __init__(self, layer: InnerProduct) -> None:
        super().__init__()
        self.in_features, self.out_features = layer.weights.shape
        self.register_buffer("packed", None)
        self.register_buffer("scale", torch.from_numpy(np.array(layer.scales["weights"], np.float32)))
        bias = layer.bias
        self.register_buffer("bias", None if bias is None else torch.from_numpy(np.array(bias, np.float32)))
        self._take(layer.weights)

    @classmethod
    def from_float(cls, weight: Tensor, bias: Tensor | None = None, *, group: int | None = None) -> Int8Linear:
        """Quantize the weights of a linear layer.

        Parameters
        ----------
        weight : Tensor of float
            (out_features, in_features).
        bias : Tensor of float, optional
            (out_features,).
        group : int, optional
            A scale for each `group` of inputs and each output channel, as for :class:`int8blas.InnerProduct`.

        Returns
        -------
        Int8Linear
        """
        shift = None if bias is None else bias.detach().float().numpy()
        return cls(InnerProduct.dynamic(weight.detach().float().numpy(), shift, group=group))

    def forward(self, x: Tensor) -> Tensor:
        """Return ``x @ weight.T + bias`` for x of shape (..., in_features)."""
        if not torch.compiler.is_compiling() and runs_now(x):
            return multiply(self._layer, x)
        result: Tensor = linear(x, self.packed, self.scale, self.bias, self.in_features)
        return result

    @property
    def weight(self) -> Tensor:
        """The float32 weights that the int8 weights stand for, (out_features, in_features), made at each access."""
        group = self.in_features // len(self.scale) if self.scale.ndim == 2 else 1
        scale = self.scale.numpy() if group == 1 else np.repeat(self.scale.numpy(), group, axis=0)
        return torch.from_numpy(np.ascontiguousarray((self._layer.weights.unpack() * scale).T))

    def dequantized(self) -> nn.Linear:
        """Return an ``nn.Linear`` with the same weights in float32.

        Returns
        -------
        nn.Linear
        """
        module = nn.Linear(self.in_features, self.out_features, bias=self.bias is not None)
        with torch.no_grad():
            module.weight.copy_(self.weight)
            if self.bias is not None:
                module.bias.copy_(self.bias)
        return module

    def extra_repr(self) -> str:
        """Return what ``repr`` says between the parentheses."""
        group = f", group={self.in_features // len(self.scale)}" if self.scale.ndim == 2 else ""
        return f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}{group}"

    def _restore(self) -> None:
        self._take(unpacked(self.packed, self.scale, self.in_features))

    def _take(self, packed: PackedB) -> None:
        """Set the layer from packed weights and the module's scale and bias."""
        self.packed = as_tensor(packed.data)
        self._layer = LAYERS[self.packed] = make_layer(packed, self.scale, self.bias)


def quantized_rows(weight: Tensor) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Return weights as int8, and the float32 scale of each of their rows: 1 for a row of zeros."""
    array = weight.detach().float().numpy()
    scale = scales_of(array, "weight", 1)
    return quantize(array, scale, axis=0), scale


class Int8Conv(Int8Module):
    """A convolution with int8 weights; each image of a source is quantized as it comes.

    :func:`quantize_` makes it of ``nn.Conv1d``, ``Conv2d`` and ``Conv3d``. Images with their channels last in memory
    (``torch.channels_last``) are fastest, and so is their result.

    Parameters
    ----------
    module : nn.Conv1d, nn.Conv2d or nn.Conv3d
        A convolution that pads with zeros.

    Attributes
    ----------
    quantized : Tensor of int8
        The weights, in the shape of the module's.
    scale : Tensor of float32
        One scale for each output channel.
    bias : Tensor of float32 or None
        As given.

    Examples
    --------
    >>> import torch, int8blas.torch
    >>> int8blas.torch.quantize_(torch.nn.Conv2d(16, 32, 3, padding=1))
    Int8Conv(16, 32, kernel_size=(3, 3), stride=(1, 1), padding=((1, 1), (1, 1)), dilation=(1, 1), groups=1, bias=True)
    """

    quantized: Tensor
    scale: Tensor
    bias: Tensor | None

    def __init__(self, module: Any) -> None:
        super().__init__()
        self.kernel_size, self.stride = tuple(module.kernel_size), tuple(module.stride)
        self.dilation, self.groups, self.padding = tuple(module.dilation), module.groups, module.padding
        self.in_channels, self.out_channels = module.in_channels, module.out_channels
        if module.padding == "same":
            totals = [d * (k - 1) for d, k in zip(self.dilation, self.kernel_size, strict=True)]
            self.pads = tuple((total // 2, total - total // 2) for total in totals)
        else:
            padding = (0,) * len(self.stride) if module.padding == "valid" else module.padding
            self.pads = tuple((p, p) for p in padding)
        integers, scale = quantized_rows(module.weight)
        self.register_buffer("quantized", torch.from_numpy(integers))
        self.register_buffer("scale", torch.from_numpy(scale))
        self.register_buffer("bias", None if module.bias is None else module.bias.detach().float().clone())
        self._restore()

    def forward(self, x: Tensor) -> Tensor:
        """Return the convolution of x, (n, channels, ...) or (channels, ...)."""
        if x.dim() == len(self.stride) + 1:
            return self.forward(x.unsqueeze(0)).squeeze(0)
        if not torch.compiler.is_compiling() and runs_now(x):
            return convolve(self._layer, x)
        pads = [p for pair in self.pads for p in pair]
        result: Tensor = convolution(
            x, self.quantized, self.scale, self.bias, list(self.stride), pads, list(self.dilation), self.groups
        )
        return result

    def dequantized(self) -> nn.Module:
        """Return a convolution of torch with the same weights in float32.

        Returns
        -------
        nn.Module
        """
        kind: Any = (nn.Conv1d, nn.Conv2d, nn.Conv3d)[len(self.stride) - 1]
        module: nn.Module = kind(
            self.in_channels, self.out_channels, self.kernel_size, self.stride, self.padding, self.dilation,
            self.groups, self.bias is not None,
        )  # fmt: skip
        state = {"weight": self.quantized * self.scale.reshape(-1, *(1,) * (self.quantized.dim() - 1))}
        if self.bias is not None:
            state["bias"] = self.bias
        module.load_state_dict(state)
        return module

    def extra_repr(self) -> str:
        """Return what ``repr`` says between the parentheses."""
        return (
            f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}, "
            f"padding={self.pads}, dilation={self.dilation}, groups={self.groups}, bias={self.bias is not None}"
        )

    def _restore(self) -> None:
        self._layer = LAYERS[self.quantized] = make_convolution(
            self.quantized, self.scale, self.bias, self.stride, self.pads, self.dilation, self.groups
        )


class Int8Embedding(Int8Module):
    """A table of int8 with a scale for each row, a quarter of the memory of float32.

    :func:`quantize_` makes it of ``nn.Embedding``. The result has the dtype that the table had.

    Parameters
    ----------
    module : nn.Embedding
        A module without `max_norm`.

    Attributes
    ----------
    num_embeddings, embedding_dim, padding_idx
        As of the module.
    quantized : Tensor of int8
        (num_embeddings, embedding_dim).
    scale : Tensor of float32
        One scale for each row.

    Examples
    --------
    >>> import torch, int8blas.torch
    >>> layer = int8blas.torch.quantize_(torch.nn.Embedding(1000, 64))
    >>> layer, layer(torch.tensor([[3, 1, 999]])).shape
    (Int8Embedding(1000, 64), torch.Size([1, 3, 64]))
    """

    quantized: Tensor
    scale: Tensor

    def __init__(self, module: nn.Embedding) -> None:
        super().__init__()
        self.num_embeddings, self.embedding_dim = module.num_embeddings, module.embedding_dim
        self.padding_idx, self.dtype = module.padding_idx, module.weight.dtype
        integers, scale = quantized_rows(module.weight)
        self.register_buffer("quantized", torch.from_numpy(integers))
        self.register_buffer("scale", torch.from_numpy(scale))

    def forward(self, indices: Tensor) -> Tensor:
        """Return the rows of the table at `indices`, integers of any shape from 0 to num_embeddings - 1."""
        if not torch.compiler.is_compiling() and runs_now(indices):
            return find_rows(indices, self.quantized, self.scale).to(self.dtype)
        result: Tensor = embedding(indices, self.quantized, self.scale)
        return result.to(self.dtype)

    @property
    def weight(self) -> Tensor:
        """The float table that the integers stand for, made at each access."""
        return (self.quantized * self.scale[:, None]).to(self.dtype)

    def dequantized(self) -> nn.Embedding:
        """Return an ``nn.Embedding`` with the same table in float32.

        Returns
        -------
        nn.Embedding
        """
        table = self.quantized * self.scale[:, None]
        return nn.Embedding.from_pretrained(table, freeze=False, padding_idx=self.padding_idx)

    def extra_repr(self) -> str:
        """Return what ``repr`` says between the parentheses."""
        padding = "" if self.padding_idx is None else f", padding_idx={self.padding_idx}"
        return f"{self.num_embeddings}, {self.embedding_dim}{padding}"

    def _restore(self) -> None:
        """The buffers are all that there is."""


def additive(mask: Tensor | None, dtype: torch.dtype) -> Tensor | None:
    """Return a mask to add to scores; True means that a place is left out."""
    if mask is None:
        return None
    if mask.dtype == torch.bool:
        return torch.zeros_like(mask, dtype=dtype).masked_fill(mask, float("-inf"))
    return mask.to(dtype)


class Int8MultiheadAttention(nn.Module):
    """``nn.MultiheadAttention`` with int8 weights in its four products; the attention itself is torch's, in floats.

    :func:`quantize_` makes it.

    Parameters
    ----------
    attention : nn.MultiheadAttention
        A module without `bias_k`, `bias_v` and `add_zero_attn`.
    group : int, optional
        As for :class:`Int8Linear`.

    Examples
    --------
    >>> import torch, int8blas.torch
    >>> attention = int8blas.torch.quantize_(torch.nn.MultiheadAttention(64, 4, batch_first=True))
    >>> x = torch.ones(2, 10, 64)
    >>> y, weights = attention(x, x, x)
    >>> y.shape, weights.shape
    (torch.Size([2, 10, 64]), torch.Size([2, 10, 10]))
    """

    # nn.TransformerEncoderLayer takes its fast path, which reads float weights, only if there is such a bias.
    in_proj_bias = None

    def __init__(self, attention: nn.MultiheadAttention, *, group: int | None = None) -> None:
        super().__init__()
        self.embed_dim, self.num_heads, self.head_dim = attention.embed_dim, attention.num_heads, attention.head_dim
        self.kdim, self.vdim, self._qkv_same_embed_dim = (
            attention.kdim, attention.vdim, attention._qkv_same_embed_dim
        )  # fmt: skip
        self.dropout, self.batch_first = attention.dropout, attention.batch_first
        weights = (
            attention.in_proj_weight.chunk(3)
            if attention._qkv_same_embed_dim
            else (attention.q_proj_weight, attention.k_proj_weight, attention.v_proj_weight)
        )
        biases = (None,) * 3 if attention.in_proj_bias is None else attention.in_proj_bias.chunk(3)
        self.q_proj, self.k_proj, self.v_proj = (
            Int8Linear.from_float(weight, bias, group=group) for weight, bias in zip(weights, biases, strict=True)
        )
        self.out_proj = Int8Linear.from_float(attention.out_proj.weight, attention.out_proj.bias, group=group)

    def forward(
        self, query: Tensor, key: Tensor, value: Tensor, key_padding_mask: Tensor | None = None,
        need_weights: bool = True, attn_mask: Tensor | None = None, average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:  # fmt: skip
        """Return the result and, if wanted, the weights of the attention, as ``nn.MultiheadAttention`` does."""
        if is_causal and attn_mask is None:
            raise RuntimeError("attn_mask must be given if is_causal is True, got None")
        batched = query.dim() == 3
        if not batched:
            query, key, value = (x.unsqueeze(0 if self.batch_first else 1) for x in (query, key, value))
            key_padding_mask = None if key_padding_mask is None else key_padding_mask.unsqueeze(0)
        if not self.batch_first:
            query, key, value = (x.transpose(0, 1) for x in (query, key, value))
        q, k, v = (
            project(x).unflatten(-1, (self.num_heads, self.head_dim)).transpose(1, 2)
            for project, x in ((self.q_proj, query), (self.k_proj, key), (self.v_proj, value))
        )
        mask = additive(attn_mask, q.dtype)
        if mask is not None and mask.dim() == 3:
            mask = mask.unflatten(0, (-1, self.num_heads))
        padding = additive(key_padding_mask, q.dtype)
        if padding is not None:
            padding = padding[:, None, None, :]
            mask = padding if mask is None else mask + padding
        dropout = self.dropout if self.training else 0.0
        weights = None
        if need_weights:
            scores = q @ k.transpose(-2, -1) * self.head_dim**-0.5
            weights = functional.softmax(scores if mask is None else scores + mask, dim=-1)
            weights = functional.dropout(weights, dropout)
            mixed = weights @ v
            weights = weights.mean(dim=1) if average_attn_weights else weights
        else:
            mixed = functional.scaled_dot_product_attention(q, k, v, mask, dropout)
        y = self.out_proj(mixed.transpose(1, 2).flatten(-2))
        if not batched:
            return y.squeeze(0), None if weights is None else weights.squeeze(0)
        return y if self.batch_first else y.transpose(0, 1), weights

    def dequantized(self) -> nn.MultiheadAttention:
        """Return an ``nn.MultiheadAttention`` with the same weights in float32.

        Returns
        -------
        nn.MultiheadAttention
        """
        projections = (self.q_proj, self.k_proj, self.v_proj)
        module = nn.MultiheadAttention(
            self.embed_dim, self.num_heads, self.dropout, bias=self.q_proj.bias is not None, kdim=self.kdim,
            vdim=self.vdim, batch_first=self.batch_first,
        )  # fmt: skip
        with torch.no_grad():
            if self._qkv_same_embed_dim:
                module.in_proj_weight.copy_(torch.cat([each.weight for each in projections]))
            else:
                for each, name in zip(projections, "qkv", strict=True):
                    getattr(module, f"{name}_proj_weight").copy_(each.weight)
            if self.q_proj.bias is not None:
                module.in_proj_bias.copy_(torch.cat([each.bias for each in projections if each.bias is not None]))
        module.out_proj.load_state_dict(self.out_proj.dequantized().state_dict())
        return module

    def extra_repr(self) -> str:
        """Return what ``repr`` says besides the four linear layers."""
        return f"embed_dim={self.embed_dim}, num_heads={self.num_heads}, batch_first={self.batch_first}"
