"""int8 modules that replace torch's linear layers and attention."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor, nn
from torch.compiler import is_dynamo_compiling
from torch.fx import Proxy
from torch.nn import functional

from int8blas.elementwise.quantization import quantize
from int8blas.gemm.four_bits import PackedB4
from int8blas.gemm.packing import PackedB, pack_b
from int8blas.layers.inner_product import InnerProduct
from int8blas.layers.real_product import RealProduct
from int8blas.stage.weights_scales import scales_of
from int8blas.torch.ops import (
    Held,
    as_tensor,
    keep_layer,
    linear,
    make_layer,
    multiply_rows,
    runs_now,
    to_autocast_dtype,
    traces,
    unpacked,
    unpacked_weight,
    weight,
)
from int8blas.torch.weights import LazyWeight


def as_leaf(module: nn.Module, x: Any, *arguments: Any) -> Any:
    """Return the call of a module as one node of torch.fx. Without this function, torch.fx would trace the operators in
    the module, because the module is not from torch."""
    tracer = x.tracer
    return tracer.create_proxy("call_module", tracer.path_of_module(module), (x, *arguments), {})


class Int8Module(nn.Module):
    """The base class of int8 modules. The buffers are the state of a layer of int8blas, `_layer`. `dtype` is
    the dtype of the original weights, and `label` is the name of the module in its model."""

    dtype: torch.dtype
    label = ""
    REMEDY = "call int8blas.torch.dequantize_(model) first"

    def _restore(self) -> None:
        """Create the layer from the buffers."""
        raise NotImplementedError

    def _renew(self) -> None:
        """Create the layer from the buffers, and remember the buffers."""
        self._restore()
        self._held = Held(self._buffers.values())

    def _current(self) -> Any:
        """Return the layer. Create the layer again if a buffer was replaced or changed in place."""
        if not self._held.holds(self._buffers.values()):
            self._renew()
        return self._layer

    def told(self) -> str:
        """Return the name and the text of the module, for errors."""
        return f"module {self.label!r}, {self}" if self.label else f"{self}"

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Raise an error if `fn` moves the module to another device than the CPU. If `fn` changes the dtype, keep the
        integers, and store the new dtype for tables and for dequantize_."""
        converted = fn(torch.empty(0, dtype=self.dtype))
        if converted.device.type != "cpu":
            raise RuntimeError(
                f"{self.told()} computes on the CPU, got device {converted.device.type!r}: {self.REMEDY}"
            )
        self.dtype = converted.dtype
        return self

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, local_metadata: Any, strict: bool, missing_keys: list[str],
        unexpected_keys: list[str], error_msgs: list[str],
    ) -> None:  # fmt: skip
        own = {prefix + name: tensor for name, tensor in self._buffers.items() if tensor is not None}
        missing = [key for key in own if key not in state_dict]
        wrong = [
            f"{key} must be {tensor.dtype} of shape {tuple(tensor.shape)}, got {state_dict[key].dtype} of shape "
            f"{tuple(state_dict[key].shape)}: quantize_ this model as the saved one"
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
        self._renew()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name not in ("_layer", "_held")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._renew()


class WeightedModule(Int8Module):
    """The base class of int8 modules that replace a module with one weight."""

    def _shape(self) -> tuple[int, ...]:
        """Return the shape of the weights in torch's module."""
        raise NotImplementedError

    def _dequantize(self) -> Tensor:
        """Return the weights in the order of torch's module, and in their original dtype."""
        raise NotImplementedError

    @property
    def weight(self) -> Tensor:
        """The dequantized weights, in torch's order and in their original dtype.

        Each access returns another tensor. The tensor computes its values when a function of torch first reads them.
        `shape`, `dtype` and `device` need no values. For an ``nn.Parameter``, pass ``weight.clone()``.
        """
        return (
            self._dequantize()
            if torch.compiler.is_compiling()
            else LazyWeight(self._shape(), self.dtype, self._dequantize)
        )


class Int8Linear(WeightedModule):
    """A linear layer with int8 weights. A call quantizes each row of its source, unless only weights are int8.

    :func:`quantize_` creates this module. The result has the dtype of the source: float32, bfloat16 or float16.

    Parameters
    ----------
    layer : InnerProduct or RealProduct
        A dynamic layer from float32 to float32, or a layer that quantizes only weights.

    Attributes
    ----------
    weight_only : bool
        Whether sources stay floats.
    in_features, out_features : int
        Sizes of source and result.
    packed : Tensor of int8
        The packed weights, in the memory of the layer's PackedB. Callers may replace the tensor, not write to it.
    scale : Tensor of float32
        One scale for each output channel, or (groups, out_features).
    bias : Tensor of float32 or None
        As given to the constructor.

    Examples
    --------
    >>> import torch, int8blas.torch
    >>> int8blas.torch.quantize_(torch.nn.Linear(512, 256))
    Int8Linear(in_features=512, out_features=256, bias=True)
    """

    packed: Tensor
    scale: Tensor
    bias: Tensor | None

    def __init__(self, layer: InnerProduct | RealProduct) -> None:
        super().__init__()
        self.dtype = torch.float32
        self.weight_only = isinstance(layer, RealProduct)
        self.in_features, self.out_features = layer.weights.shape
        self.register_buffer("packed", None)
        scale = layer.scale if isinstance(layer, RealProduct) else layer.scales["weights"]
        self.register_buffer("scale", torch.from_numpy(np.array(scale, np.float32, ndmin=1)))
        bias = layer.bias
        self.register_buffer("bias", None if bias is None else torch.from_numpy(np.array(bias, np.float32)))
        weights = layer.weights
        if isinstance(weights, PackedB4):
            raise TypeError(f"layer must have weights of 8 bits, got {layer}")
        self._take(weights)
        self._held = Held(self._buffers.values())

    @classmethod
    def from_float(
        cls, weight: Tensor, bias: Tensor | None = None, *, group: int | None = None, weight_only: bool = False
    ) -> Int8Linear:
        """Quantize the weights of a linear layer.

        Parameters
        ----------
        weight : Tensor of float
            (out_features, in_features).
        bias : Tensor of float, optional
            (out_features,).
        group : int, optional
            The number of inputs of an output channel that share a scale, as for :class:`int8blas.InnerProduct`.
        weight_only : bool, optional
            Whether sources stay floats.

        Returns
        -------
        Int8Linear
        """
        if group is None:
            integers, scale = map(torch.from_numpy, quantized_rows(weight))
            module = cls.from_integers(integers, scale, bias, weight_only=weight_only)
        else:
            shift = None if bias is None else bias.detach().float().numpy()
            values = weight.detach().float().numpy()
            module = cls(
                RealProduct(values.T, bias=shift, group=group)
                if weight_only
                else InnerProduct.dynamic(values, shift, group=group)
            )
        module.dtype = weight.dtype
        return module

    @classmethod
    def from_integers(
        cls, quantized: Tensor, scale: Tensor, bias: Tensor | None = None, *, weight_only: bool = False
    ) -> Int8Linear:
        """Create the layer from the integers of a quantized linear layer.

        Parameters
        ----------
        quantized : Tensor of int8
            (out_features, in_features).
        scale : Tensor of float
            (out_features,), or (groups, out_features).
        bias : Tensor of float, optional
            (out_features,).
        weight_only : bool, optional
            Whether sources stay floats.

        Returns
        -------
        Int8Linear
        """
        shift = None if bias is None else bias.detach().float()
        return cls(make_layer(pack_b(quantized.detach().numpy().T), scale.detach().float(), shift, weight_only))

    def forward(self, input: Tensor) -> Tensor:
        """Return ``input @ weight.T + bias`` for an input of shape (..., in_features)."""
        if is_dynamo_compiling():  # other compilers give subclasses of Tensor
            return to_autocast_dtype(self._operator(input))
        try:
            if not runs_now(input):
                return to_autocast_dtype(self._operator(input))
            if not self._held.holds(self._buffers.values()):
                self._renew()
            return to_autocast_dtype(multiply_rows(self._layer, input, self.in_features, self.out_features))
        except (TypeError, ValueError) as error:
            error.add_note(f"in {self.told()}")
            raise

    def _operator(self, x: Tensor) -> Tensor:
        result: Tensor = linear(x, self.packed, self.scale, self.bias, self.in_features, self.weight_only, self.label)
        return result

    def _shape(self) -> tuple[int, ...]:
        return self.out_features, self.in_features

    def _dequantize(self) -> Tensor:
        if torch.compiler.is_compiling():
            made: Tensor = weight(self.packed, self.scale, self.in_features)
        else:
            made = unpacked_weight(self._current().weights, self.scale)
        return made.to(self.dtype)

    def dequantized(self) -> nn.Linear:
        """Return an ``nn.Linear`` with these weights, in their original dtype.

        Returns
        -------
        nn.Linear
        """
        module = nn.Linear(self.in_features, self.out_features, bias=self.bias is not None, dtype=self.dtype)
        with torch.no_grad():
            module.weight.copy_(self._dequantize())
            if self.bias is not None:
                module.bias.copy_(self.bias)
        return module

    def extra_repr(self) -> str:
        """Return the text of ``repr`` between the parentheses."""
        group = f", group={self.in_features // len(self.scale)}" if self.scale.ndim == 2 else ""
        only = ", weight_only=True" if self.weight_only else ""
        bias = self.bias is not None
        return f"in_features={self.in_features}, out_features={self.out_features}, bias={bias}{group}{only}"

    def _restore(self) -> None:
        self._take(unpacked(self.packed, self.scale, self.in_features))

    def _take(self, packed: PackedB) -> None:
        """Create the layer from packed weights and the module's scale and bias."""
        self.packed = as_tensor(packed.data)
        self._layer = make_layer(packed, self.scale, self.bias, self.weight_only)
        keep_layer(self.packed, (self.weight_only,), self._layer, (self.scale, self.bias))


# The number of elements that quantized_rows converts at a time: 1 MB of float32. A float32 copy of all weights would
# double the memory of quantization.
BLOCK = 1 << 18


def quantized_rows(weight: Tensor) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Return weights as int8, and the float32 scale of each of their rows. A row of zeros has scale 1."""
    rows = weight.detach()
    integers, scale = np.empty(rows.shape, np.int8), np.empty(len(rows), np.float32)
    step = max(1, BLOCK // max(1, rows[0].numel()))
    for k in range(0, len(rows), step):
        part = rows[k : k + step].float().numpy()
        scale[k : k + step] = scales_of(part, "weight", 1)
        integers[k : k + step] = quantize(part, scale[k : k + step], axis=0)
    return integers, scale


def additive(mask: Tensor | None, dtype: torch.dtype) -> Tensor | None:
    """Return a mask in the form that is added to scores. In a mask of bool, True hides a position."""
    if mask is None:
        return None
    if mask.dtype == torch.bool:
        return torch.zeros_like(mask, dtype=dtype).masked_fill(mask, float("-inf"))
    return mask.to(dtype)


class Int8MultiheadAttention(nn.Module):
    """``nn.MultiheadAttention`` with int8 weights in its four products. torch computes all other steps in floats.

    :func:`quantize_` creates this module.

    Parameters
    ----------
    attention : nn.MultiheadAttention
        A module without `bias_k`, `bias_v` and `add_zero_attn`.
    group : int, optional
        As for :meth:`Int8Linear.from_float`.
    weight_only : bool, optional
        Whether sources stay floats.

    Examples
    --------
    >>> import torch, int8blas.torch
    >>> attention = int8blas.torch.quantize_(torch.nn.MultiheadAttention(64, 4, batch_first=True))
    >>> x = torch.ones(2, 10, 64)
    >>> y, weights = attention(x, x, x)
    >>> y.shape, weights.shape
    (torch.Size([2, 10, 64]), torch.Size([2, 10, 10]))
    """

    # nn.TransformerEncoderLayer takes its fast path, which reads float weights, only if in_proj_bias exists.
    in_proj_bias = None

    def __init__(
        self, attention: nn.MultiheadAttention, *, group: int | None = None, weight_only: bool = False
    ) -> None:
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
            Int8Linear.from_float(weight, bias, group=group, weight_only=weight_only)
            for weight, bias in zip(weights, biases, strict=True)
        )
        self.out_proj = Int8Linear.from_float(
            attention.out_proj.weight, attention.out_proj.bias, group=group, weight_only=weight_only
        )

    def forward(
        self, query: Tensor, key: Tensor, value: Tensor, key_padding_mask: Tensor | None = None,
        need_weights: bool = True, attn_mask: Tensor | None = None, average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:  # fmt: skip
        """Return the result and, with `need_weights`, the attention's weights, as ``nn.MultiheadAttention`` does."""
        if isinstance(query, Proxy):
            return as_leaf(
                self, query, key, value, key_padding_mask, need_weights, attn_mask, average_attn_weights, is_causal
            )
        if is_causal and attn_mask is None:
            raise RuntimeError("attn_mask must be given if is_causal is True, got None: pass "
                               "torch.nn.Transformer.generate_square_subsequent_mask(steps)")  # fmt: skip
        batched = query.dim() == 3
        if not batched:
            query, key, value = (x.unsqueeze(0 if self.batch_first else 1) for x in (query, key, value))
            key_padding_mask = None if key_padding_mask is None else key_padding_mask.unsqueeze(0)
        if not self.batch_first:
            query, key, value = (x.transpose(0, 1) for x in (query, key, value))
        if not traces():
            self._check_masks(query, key, attn_mask, key_padding_mask)
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

    def _check_masks(self, query: Tensor, key: Tensor, mask: Tensor | None, padding: Tensor | None) -> None:
        """Raise an error for masks that torch's layer does not take, because int8blas would broadcast such masks."""
        (n, steps), keys = query.shape[:2], key.shape[1]
        plain, whole = (steps, keys), (n * self.num_heads, steps, keys)
        if mask is not None and tuple(mask.shape) not in (plain, whole):
            raise ValueError(f"attn_mask must have shape {plain} or {whole}, got {tuple(mask.shape)} in {self.told()}")
        if padding is not None and tuple(padding.shape) != (n, keys):
            raise ValueError(f"key_padding_mask must have shape {(n, keys)}, got {tuple(padding.shape)} in "
                             f"{self.told()}")  # fmt: skip

    def told(self) -> str:
        """Return the name and the class of the module, for errors."""
        return f"Int8MultiheadAttention, the parent of module {self.q_proj.label!r}"

    def dequantized(self) -> nn.MultiheadAttention:
        """Return an ``nn.MultiheadAttention`` with these weights, in their original dtype.

        Returns
        -------
        nn.MultiheadAttention
        """
        projections = (self.q_proj, self.k_proj, self.v_proj)
        module = nn.MultiheadAttention(
            self.embed_dim, self.num_heads, self.dropout, bias=self.q_proj.bias is not None, kdim=self.kdim,
            vdim=self.vdim, batch_first=self.batch_first, dtype=self.q_proj.dtype,
        )  # fmt: skip
        with torch.no_grad():
            if self._qkv_same_embed_dim:
                module.in_proj_weight.copy_(torch.cat([each._dequantize() for each in projections]))
            else:
                for each, name in zip(projections, "qkv", strict=True):
                    getattr(module, f"{name}_proj_weight").copy_(each._dequantize())
            if self.q_proj.bias is not None:
                module.in_proj_bias.copy_(torch.cat([each.bias for each in projections if each.bias is not None]))
        module.out_proj.load_state_dict(self.out_proj.dequantized().state_dict())
        return module

    def extra_repr(self) -> str:
        """Return the text of ``repr`` in addition to the four linear layers."""
        return f"embed_dim={self.embed_dim}, num_heads={self.num_heads}, batch_first={self.batch_first}"
