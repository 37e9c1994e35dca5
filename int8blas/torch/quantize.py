"""Replace the modules of a model, and bring them back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import nn

from int8blas.core.parameters import integer
from int8blas.stage.weights_scales import MAX_GROUP
from int8blas.torch.modules import Int8Conv, Int8Embedding, Int8Linear, Int8MultiheadAttention
from int8blas.torch.ops import FLOATS

INT8_MODULES = (Int8Conv, Int8Embedding, Int8Linear, Int8MultiheadAttention)
# Attributes that keep a module of torch from its fast path, which would read the float weights of its children.
FAST_PATHS: dict[type[nn.Module], tuple[str, object]] = {
    nn.TransformerEncoderLayer: ("activation_relu_or_gelu", 0),
    nn.TransformerEncoder: ("use_nested_tensor", False),
}


@dataclass(frozen=True)
class Int8Dynamic:
    """int8 weights; each row of a source is quantized as it comes.

    Parameters
    ----------
    group : int, optional
        A scale for each `group` of inputs and each output channel: a multiple of 4, at most 16384. Layers whose inputs
        it does not divide stay float. The default is a scale for each output channel.

    Examples
    --------
    >>> import torch, int8blas.torch
    >>> int8blas.torch.quantize_(torch.nn.Linear(512, 256), int8blas.torch.Int8Dynamic(group=128))
    Int8Linear(in_features=512, out_features=256, bias=True, group=128)
    """

    group: int | None = None

    def __post_init__(self) -> None:
        if self.group is not None:
            group = integer(self.group, "group")
            if group % 4 or not 4 <= group <= MAX_GROUP:
                raise ValueError(f"group must be a multiple of 4 from 4 to {MAX_GROUP}, got {group}")


def is_conv1d(module: nn.Module) -> bool:
    """Return whether a module is the linear layer of GPT-2 in transformers, whose weights are transposed."""
    kind = type(module)
    return kind.__name__ == "Conv1D" and kind.__module__ == "transformers.pytorch_utils"


def replacement(module: nn.Module, config: Int8Dynamic) -> nn.Module | None:
    """Return the int8 module that computes what a float module does, or None."""
    parameters = list(module.parameters())
    fits = all(each.device.type == "cpu" and each.dtype in FLOATS and each.numel() for each in parameters)
    hooks = any((module._forward_hooks, module._forward_pre_hooks, module._backward_hooks))
    if not fits or hooks:
        return None
    group = config.group
    if type(module) is nn.MultiheadAttention:
        sizes = (module.embed_dim, module.kdim, module.vdim)
        if module.bias_k is not None or module.add_zero_attn or any(group and size % group for size in sizes):
            return None
        return Int8MultiheadAttention(module, group=group)
    if type(module) is nn.Embedding:
        return Int8Embedding(module) if module.max_norm is None else None
    if type(module) in (nn.Conv1d, nn.Conv2d, nn.Conv3d):
        return Int8Conv(module) if module.padding_mode == "zeros" else None
    if type(module) is not nn.Linear and not is_conv1d(module):
        return None
    layer: Any = module
    weight = layer.weight if type(module) is nn.Linear else layer.weight.t()
    return None if group and weight.shape[1] % group else Int8Linear.from_float(weight, layer.bias, group=group)


def walk(module: nn.Module, name: str, change: Callable[[str, nn.Module], nn.Module | None],
         done: dict[nn.Module, nn.Module]) -> nn.Module:  # fmt: skip
    """Replace a module and its children, each once."""
    if module in done:
        return done[module]
    new = change(name, module)
    done[module] = module if new is None else new.train(module.training)
    # The functions of nn.MultiheadAttention read the weights of its child.
    if new is None and not isinstance(module, nn.MultiheadAttention):
        for key, child in module._modules.items():
            if child is not None:
                module._modules[key] = walk(child, f"{name}.{key}" if name else key, change, done)
    return done[module]


def is_int8(module: nn.Module) -> bool:
    """Return whether a module has int8 modules."""
    return any(isinstance(each, Int8Linear) for each in module.modules())


def quantize_(
    model: nn.Module, config: Int8Dynamic | None = None, *, filter: Callable[[str, nn.Module], bool] | None = None
) -> nn.Module:
    """Replace linear layers, convolutions, attention and embeddings of a model by int8 modules, in place.

    ``nn.Linear``, ``nn.Conv1d``, ``Conv2d`` and ``Conv3d`` that pad with zeros, ``nn.MultiheadAttention`` (also in
    ``nn.TransformerEncoderLayer``), ``nn.Embedding`` and transformers' ``Conv1D`` are replaced. All other modules stay
    as they are: subclasses, modules with hooks, dtypes other than float32, bfloat16 and float16, devices other than the
    CPU.

    Parameters
    ----------
    model : nn.Module
        The model.
    config : Int8Dynamic, optional
        How to quantize.
    filter : callable, optional
        ``filter(name, module)`` says whether to replace a module; `name` is its name in the model.

    Returns
    -------
    nn.Module
        The model; if it is itself a layer that is replaced, the int8 module.

    Raises
    ------
    TypeError, ValueError
        If an argument is not as above, or a weight is not finite; a note names the module.

    See Also
    --------
    dequantize_ : bring the floats back.

    Examples
    --------
    >>> import torch, int8blas.torch
    >>> model = torch.nn.Sequential(torch.nn.Linear(512, 256), torch.nn.ReLU(), torch.nn.Linear(256, 10))
    >>> int8blas.torch.quantize_(model, filter=lambda name, module: name != "2")
    Sequential(
      (0): Int8Linear(in_features=512, out_features=256, bias=True)
      (1): ReLU()
      (2): Linear(in_features=256, out_features=10, bias=True)
    )
    """
    if not isinstance(model, nn.Module):
        raise TypeError(f"model must be a torch.nn.Module, got {type(model).__name__}")
    if config is not None and not isinstance(config, Int8Dynamic):
        raise TypeError(f"config must be an Int8Dynamic or None, got {type(config).__name__}")
    if filter is not None and not callable(filter):
        raise TypeError(f"filter must be callable or None, got {type(filter).__name__}")
    chosen = Int8Dynamic() if config is None else config

    def change(name: str, module: nn.Module) -> nn.Module | None:
        try:
            new = replacement(module, chosen) if filter is None or filter(name, module) else None
        except (TypeError, ValueError) as error:
            error.add_note(f"in module {name!r}, {module}")
            raise
        return new

    model = walk(model, "", change, {})
    for module in model.modules():
        for kind, (name, value) in FAST_PATHS.items():
            if isinstance(module, kind) and is_int8(module) and not hasattr(module, "_int8blas_fast_path"):
                module._int8blas_fast_path = getattr(module, name)  # type: ignore[assignment, unused-ignore]
                setattr(module, name, value)
    return model


def dequantize_(model: nn.Module) -> nn.Module:
    """Replace the int8 modules of a model by float32 modules with the same weights, in place.

    Parameters
    ----------
    model : nn.Module
        A model after :func:`quantize_`.

    Returns
    -------
    nn.Module
        The model; if it is itself an int8 module, the float module.

    Examples
    --------
    >>> import torch, int8blas.torch
    >>> model = int8blas.torch.quantize_(torch.nn.Sequential(torch.nn.Linear(512, 256)))
    >>> int8blas.torch.dequantize_(model)
    Sequential(
      (0): Linear(in_features=512, out_features=256, bias=True)
    )
    """

    def change(name: str, module: nn.Module) -> nn.Module | None:
        return module.dequantized() if isinstance(module, INT8_MODULES) else None

    model = walk(model, "", change, {})
    for module in model.modules():
        for kind, (name, _) in FAST_PATHS.items():
            if isinstance(module, kind) and hasattr(module, "_int8blas_fast_path"):
                setattr(module, name, module._int8blas_fast_path)
                del module._int8blas_fast_path
    return model
