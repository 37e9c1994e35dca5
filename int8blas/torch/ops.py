"""The operators ``int8blas::linear``, ``convolution`` and ``embedding``: int8 layers for compilers of torch.

An operator takes the tensors of a layer, and finds the layer of these tensors. If the layer does not exist, the
operator creates it: a program that torch.export wrote and another process loaded has only the tensors.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Iterable, MutableMapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, from_numpy, get_num_threads, is_grad_enabled

# Import the names, because looking them up in torch's modules would add a microsecond to a call, which takes a few
# microseconds for one row.
from torch._C import _get_tracing_state, _is_any_autocast_enabled, _len_torch_dispatch_stack
from torch._C._functorch import maybe_current_level
from torch.utils.weak import WeakTensorKeyDictionary

from int8blas.convolution.convolution import Convolution
from int8blas.convolution.deconvolution import Deconvolution
from int8blas.core.threads import num_threads
from int8blas.elementwise.gather import gather, sum_bags
from int8blas.gemm.four_bits import PackedB4
from int8blas.gemm.packing import PackedB, restore_packed
from int8blas.layers.inner_product import InnerProduct
from int8blas.layers.real_product import RealProduct

FLOAT32 = torch.float32
FLOATS = (FLOAT32, torch.bfloat16, torch.float16)

REMEDY = "call int8blas.torch.dequantize_(model) before training, or train the float model and quantize it again"


def described(kind: str, name: str) -> str:
    """Return the kind of a module, after the name of the module in its model, if it has a name."""
    return f"module {name!r}, {kind}," if name else kind


def to_autocast_dtype(y: Tensor) -> Tensor:
    """Return a result in the dtype of torch.autocast, if autocast is on for the CPU, like torch's own products."""
    if _is_any_autocast_enabled() and torch.is_autocast_enabled("cpu"):
        return y.to(torch.get_autocast_dtype("cpu"))
    return y


def version(tensor: Tensor | None) -> int | None:
    """Return the number of changes of a tensor in place. Return None for a tensor of ``torch.inference_mode``, because
    torch does not count the changes of such tensors."""
    return None if tensor is None or tensor.is_inference() else tensor._version


class Held:
    """The tensors from which a layer was created, and their versions at that time."""

    def __init__(self, tensors: Iterable[Tensor | None]) -> None:
        self.pairs = [(tensor, version(tensor)) for tensor in tensors]

    def holds(self, tensors: Collection[Tensor | None]) -> bool:
        """Return whether the given tensors are the stored tensors, and unchanged."""
        if len(tensors) != len(self.pairs):
            return False
        for tensor, (held, count) in zip(tensors, self.pairs):  # noqa: B905, strict= takes 0.1 us
            if tensor is not held or (count is not None and held._version != count):  # type: ignore[union-attr]
                return False
        return True


# The layers that were made for each tensor of weights. A key consists of the layer's parameters that are not tensors.
# An entry has the layer, the version of the weights, and the layer's other tensors.
LAYERS: MutableMapping[Any, dict[tuple[Any, ...], tuple[Any, int | None, Held]]] = WeakTensorKeyDictionary()


def keep_layer(weights: Tensor, key: tuple[Any, ...], layer: Any, others: Iterable[Tensor | None] = ()) -> None:
    """Store a layer, so that :func:`layer_of` can find it."""
    LAYERS.setdefault(weights, {})[key] = layer, version(weights), Held(others)


def layer_of(
    weights: Tensor, others: Collection[Tensor | None], key: tuple[Any, ...], make: Callable[..., Any], *arguments: Any
) -> Any:
    """Return the layer of a tensor of weights and of other tensors. Create the layer if none exists, or if a tensor has
    changed."""
    found = LAYERS.setdefault(weights, {}).get(key)
    if found is None or found[1] != version(weights) or not found[2].holds(others):
        keep_layer(weights, key, make(*arguments), others)
        found = LAYERS[weights][key]
    return found[0]


def make_layer(packed: PackedB, scale: Tensor, bias: Tensor | None, weight_only: bool) -> InnerProduct | RealProduct:
    """Return the layer of packed weights, their scales and a bias. The layer may quantize its source."""
    values, shift = scale.detach().numpy(), None if bias is None else bias.detach().numpy()
    if weight_only:
        return RealProduct(packed, values, shift)
    return InnerProduct.dynamic(packed, shift, scales={"weights": values})


def unpacked(packed: Tensor, scale: Tensor, in_features: int) -> PackedB:
    """Return a PackedB with a copy of the packed weights that a tensor contains."""
    return restore_packed(in_features, scale.shape[-1], "int8", packed.detach().contiguous().numpy())


def thread_limit() -> AbstractContextManager[Any]:
    """Return a context in which int8blas uses at most torch's number of threads."""
    threads = get_num_threads()
    return num_threads(threads) if threads < num_threads() else nullcontext()


def limited(function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """Call a function of int8blas, which then uses no more threads than torch does."""
    threads = get_num_threads()
    if threads >= num_threads():
        return function(*arguments, **options)
    with num_threads(threads):
        return function(*arguments, **options)


def array_of(x: Tensor) -> np.ndarray[Any, Any]:
    """Return a tensor of floats as an array of float32, which shares the memory of a float32 tensor."""
    if x.requires_grad:
        x = x.detach()
    x = x.resolve_neg()  # torch negates some views, such as z.conj().imag, only when it reads them
    return (x if x.dtype is FLOAT32 else x.float()).numpy()


def multiply(layer: Callable[..., Any], x: Tensor) -> Tensor:
    """Apply a layer. The result has the dtype of x. The layer uses at most torch's number of threads."""
    if x.dtype not in FLOATS:
        raise TypeError(
            f"input must be float32, bfloat16 or float16, got {x.dtype}: convert it, or keep the module float "
            f"(filter= of int8blas.torch.quantize_)"
        )
    y = from_numpy(limited(layer, array_of(x)))
    return y if x.dtype == torch.float32 else y.to(x.dtype)


def multiply_rows(layer: Any, x: Tensor, inputs: int, outputs: int) -> Tensor:
    """Apply a linear layer. Give contiguous float32 to an InnerProduct by its address: ``x.numpy()`` takes 1 us."""
    shape = x.shape
    if (
        x.dtype is FLOAT32 and shape and shape[-1] == inputs and x.is_cpu and x.is_contiguous()
        and not x.is_neg() and type(layer) is InnerProduct and get_num_threads() >= num_threads()
    ):  # fmt: skip
        if len(shape) == 2:
            return from_numpy(layer._at(x.data_ptr(), shape[0]))
        return from_numpy(layer._at(x.data_ptr(), x.numel() // inputs)).view(*shape[:-1], outputs)
    return multiply(layer, x)


@torch.library.custom_op("int8blas::linear", mutates_args=(), device_types="cpu")
def linear(
    x: Tensor, packed: Tensor, scale: Tensor, bias: Tensor | None, in_features: int, weight_only: bool, name: str = ""
) -> Tensor:
    """Return x @ weights.T + bias for packed int8 weights. Quantize the rows of x, unless `weight_only` is true. `name`
    is the name of the module, for errors."""
    layer = layer_of(
        packed,
        (scale, bias),
        (weight_only,),
        lambda: make_layer(unpacked(packed, scale, in_features), scale, bias, weight_only),
    )
    return multiply(layer, x)


@linear.register_fake
def _(
    x: Tensor, packed: Tensor, scale: Tensor, bias: Tensor | None, in_features: int, weight_only: bool, name: str = ""
) -> Tensor:
    return x.new_empty((*x.shape[:-1], scale.shape[-1]))


def unpacked_weight(packed: PackedB | PackedB4, scale: Tensor) -> Tensor:
    """Dequantize packed weights to float32, (out_features, in_features)."""
    factors = scale.detach()
    factors = (
        factors[:, None] if factors.dim() == 1 else factors.repeat_interleave(packed.shape[0] // len(factors), 0).t()
    )
    return as_tensor(packed.unpack()).t().contiguous() * factors


@torch.library.custom_op("int8blas::weight", mutates_args=(), device_types="cpu")
def weight(packed: Tensor, scale: Tensor, in_features: int) -> Tensor:
    """Dequantize a tensor of packed weights to float32, (out_features, in_features)."""
    return unpacked_weight(unpacked(packed, scale, in_features), scale)


@weight.register_fake
def _(packed: Tensor, scale: Tensor, in_features: int) -> Tensor:
    return scale.new_empty(scale.shape[-1], in_features)


@torch.library.custom_op("int8blas::refuse_gradient", mutates_args=(), device_types="cpu")
def refuse_gradient(gradient: Tensor, shape: Sequence[int], text: str) -> Tensor:
    """Raise the error of a backward pass."""
    raise RuntimeError(text)


@refuse_gradient.register_fake
def _(gradient: Tensor, shape: Sequence[int], text: str) -> Tensor:
    return gradient.new_empty(shape)


def refuse_vmap(kind: str, remedy: str) -> Callable[..., Any]:
    """Return a rule of torch.vmap that raises an error. The last argument of an operator is the name of its module;
    torch omits an empty name."""

    def rule(info: Any, in_dims: Any, *args: Any) -> Any:
        name = args[-1] if args and isinstance(args[-1], str) else ""
        raise NotImplementedError(f"{described(kind, name)} has no vmap: {remedy}")

    return rule


def set_shape(kind: str, ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    """Store the shape of x, the number of inputs, and the text of the error for the backward pass."""
    ctx.shape, ctx.inputs = inputs[0].shape, len(inputs)
    ctx.text = f"{described(f'{kind} of {inputs[2].shape[-1]} outputs', inputs[-1])} has no gradient: {REMEDY}"


def backward(ctx: Any, gradient: Tensor) -> tuple[Any, ...]:
    """Call an operator that raises an error, which a compiler can trace in a backward pass that never runs."""
    return refuse_gradient(gradient, ctx.shape, ctx.text), *(None,) * (ctx.inputs - 1)


linear.register_autograd(backward, setup_context=partial(set_shape, "Int8Linear"))


linear.register_vmap(refuse_vmap("Int8Linear", "give it the whole batch, x of shape (..., in_features)"))


def make_convolution(
    quantized: Tensor, scale: Tensor, bias: Tensor | None, strides: Any, pads: Any, dilation: Any, groups: int,
    output_padding: Any, channels_last: bool,
) -> Convolution | Deconvolution:  # fmt: skip
    """Return a dynamic convolution with int8 weights. With an output padding, return a transposed convolution."""
    layouts = ("nwc", "nhwc", "ndhwc") if channels_last else ("ncw", "nchw", "ncdhw")
    weights = quantized.detach().numpy()
    options: dict[str, Any] = {
        "strides": tuple(strides), "padding": tuple(pads), "dilation": tuple(dilation), "groups": groups,
        "layout": layouts[len(strides) - 1],
        "scales": {"weights": scale.detach().numpy()}, "bias": None if bias is None else bias.detach().numpy(),
    }  # fmt: skip
    if output_padding:
        return Deconvolution.dynamic(weights, output_padding=tuple(output_padding), **options)
    return Convolution.dynamic(weights, **options)


def geometry(
    strides: Any, pads: Any, dilation: Any, groups: int, output_padding: Any, channels_last: bool
) -> tuple[Any, ...]:
    """Return the parameters of a convolution that are not tensors, as a key of LAYERS."""
    return tuple(strides), tuple(map(tuple, pads)), tuple(dilation), groups, tuple(output_padding), channels_last


# The formats with channels last, for each number of axes.
FORMATS = {4: torch.channels_last, 5: torch.channels_last_3d}


def is_channels_last(x: Tensor) -> bool:
    """Return whether images have their channels last. Convolutions keep channels last."""
    last = FORMATS.get(x.dim())
    return last is not None and not x.is_contiguous() and x.is_contiguous(memory_format=last)


def result_format(x: Tensor) -> torch.memory_format:
    """Return the memory format of a convolution's result."""
    return FORMATS[x.dim()] if is_channels_last(x) else torch.contiguous_format


# The axes that move channels from axis 1 to the end, and the axes that move them back, for each number of axes.
MOVES = {dims: ((0, *range(2, dims), 1), (0, dims - 1, *range(1, dims - 1))) for dims in (4, 5)}


def convolve(layer: Convolution | Deconvolution, x: Tensor, channels_last: bool) -> Tensor:
    """Apply a convolution to images (n, channels, ...). The images and the layer may have channels last."""
    if not channels_last:
        return multiply(layer, x)
    # Let NumPy move the axes: torch would make the result a view, and refuses to change such a view in place.
    there, back = MOVES[x.dim()]
    y = multiply(lambda source: layer(source.transpose(there)).transpose(back), x)
    return y.contiguous(memory_format=FORMATS[x.dim()])


@torch.library.custom_op("int8blas::convolution", mutates_args=(), device_types="cpu")
def convolution(
    x: Tensor, quantized: Tensor, scale: Tensor, bias: Tensor | None, strides: Sequence[int], pads: Sequence[int],
    dilation: Sequence[int], groups: int, output_padding: Sequence[int], name: str = "",
) -> Tensor:  # fmt: skip
    """Return the convolution of x with int8 weights. With an output padding, the convolution is transposed. `pads` has
    two numbers for each dimension."""
    pairs = list(zip(pads[::2], pads[1::2], strict=True))
    last = is_channels_last(x)
    parameters = strides, pairs, dilation, groups, output_padding, last
    layer = layer_of(
        quantized, (scale, bias), geometry(*parameters), make_convolution, quantized, scale, bias, *parameters
    )
    return convolve(layer, x, last)


@convolution.register_fake
def _(
    x: Tensor, quantized: Tensor, scale: Tensor, bias: Tensor | None, strides: Sequence[int], pads: Sequence[int],
    dilation: Sequence[int], groups: int, output_padding: Sequence[int], name: str = "",
) -> Tensor:  # fmt: skip
    sizes = []
    for d, size in enumerate(x.shape[2:]):
        window, pad = dilation[d] * (quantized.shape[2 + d] - 1) + 1, pads[2 * d] + pads[2 * d + 1]
        whole = (size - 1) * strides[d] + window - pad + output_padding[d] if output_padding else 0
        sizes.append(whole if output_padding else (size + pad - window) // strides[d] + 1)
    return x.new_empty((x.shape[0], quantized.shape[0], *sizes)).contiguous(memory_format=result_format(x))


convolution.register_autograd(backward, setup_context=partial(set_shape, "Int8Conv"))


convolution.register_vmap(refuse_vmap("Int8Conv", "give it the whole batch, x of shape (n, channels, ...)"))


def find_rows(indices: Tensor, quantized: Tensor, scale: Tensor) -> Tensor:
    """Return rows of an int8 table in float32."""
    return from_numpy(limited(gather, quantized.numpy(), indices.numpy(), scale.numpy(), axis=0))


def find_bags(
    indices: Tensor, offsets: Tensor | None, quantized: Tensor, scale: Tensor, mean: bool, include_last_offset: bool
) -> Tensor | None:
    """Return the sums or the means of bags of rows of an int8 table, as ``embedding_bag`` does. Return None if the
    indices or the offsets are not as ``embedding_bag`` needs them."""
    if offsets is None and indices.dim() == 2:
        starts = np.arange(indices.shape[0] + 1) * indices.shape[1]
    elif offsets is not None and indices.dim() == 1 and offsets.dim() == 1:
        starts = offsets.numpy().astype(np.int64)
        if not include_last_offset:
            starts = np.append(starts, len(indices))
    else:
        return None
    bags = limited(sum_bags, quantized.numpy(), indices.numpy(), scale.numpy(), starts, mean)
    return None if bags is None else from_numpy(bags)


@torch.library.custom_op("int8blas::embedding", mutates_args=(), device_types="cpu")
def embedding(indices: Tensor, quantized: Tensor, scale: Tensor, name: str = "") -> Tensor:
    """Return rows of an int8 table in float32."""
    return find_rows(indices, quantized, scale)


@embedding.register_fake
def _(indices: Tensor, quantized: Tensor, scale: Tensor, name: str = "") -> Tensor:
    return scale.new_empty((*indices.shape, quantized.shape[1]))


embedding.register_vmap(refuse_vmap("Int8Embedding", "give it the indices of the whole batch"))


def traces() -> bool:
    """Return whether torch.jit is tracing. Sizes are tensors then."""
    return _get_tracing_state() is not None


def runs_now(x: Tensor) -> bool:
    """Return whether a module may compute without the dispatcher: x is a plain tensor, and nothing is tracing."""
    return (
        type(x) is Tensor
        and not (x.requires_grad and is_grad_enabled())
        and _get_tracing_state() is None
        and not _len_torch_dispatch_stack()
        and maybe_current_level() is None
    )


def as_tensor(array: np.ndarray[Any, Any]) -> Tensor:
    """Return a tensor that shares the memory of a read-only array. Suppress torch's warning that tensors are never
    read-only."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.from_numpy(array)
