"""Replace the modules of a model by int8 modules, and restore them."""

from __future__ import annotations

import warnings
from collections.abc import Callable, MutableMapping
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import nn
from torch.jit import ScriptModule
from torch.nn.utils.parametrize import is_parametrized

from int8blas.core.parameters import integer
from int8blas.stage.weights_scales import MAX_GROUP
from int8blas.torch.convolutions import TORCH_KINDS, Int8Conv
from int8blas.torch.modules import Int8Linear, Int8Module, Int8MultiheadAttention
from int8blas.torch.ops import FLOATS
from int8blas.torch.others import integers_of
from int8blas.torch.recurrent import CELLS, Int8Recurrent, Int8RecurrentCell
from int8blas.torch.tables import Int8Embedding, Int8EmbeddingBag

INT8_MODULES = (Int8Conv, Int8Embedding, Int8Linear, Int8MultiheadAttention, Int8Recurrent, Int8RecurrentCell)
# Attributes that turn off the fast path of a module of torch. The fast path would read the float weights of the
# module's children.
FAST_PATHS: dict[type[nn.Module], tuple[str, object]] = {
    nn.TransformerEncoderLayer: ("activation_relu_or_gelu", 0),
    nn.TransformerEncoder: ("use_nested_tensor", False),
}
# The beginning of a reason that quantize_ does not report, because the reason applies to nearly all modules.
NO_MODULE = "no int8 module for"
# The reasons why modules stayed float in quantize_.
FLOAT: MutableMapping[nn.Module, str] = WeakKeyDictionary()


@dataclass(frozen=True)
class Config:
    """The base class of configs, with the size of the groups of linear layers."""

    group: int | None = None

    def __post_init__(self) -> None:
        if self.group is not None:
            group = integer(self.group, "group")
            if group % 4 or not 4 <= group <= MAX_GROUP:
                raise ValueError(f"group must be a multiple of 4 from 4 to {MAX_GROUP}, got {group}")


@dataclass(frozen=True)
class Int8Dynamic(Config):
    """Use int8 weights, and quantize each row of a source in each call.

    Parameters
    ----------
    group : int, optional
        The number of inputs that share a scale in linear layers and attention: a multiple of 4, at most 16384. With
        `group`, each output channel has a scale for each group of inputs. A layer stays float if `group` does not
        divide its number of inputs. By default each output channel has one scale.

    Examples
    --------
    >>> import torch, int8blas.torch
    >>> int8blas.torch.quantize_(torch.nn.Linear(512, 256), int8blas.torch.Int8Dynamic(group=128))
    Int8Linear(in_features=512, out_features=256, bias=True, group=128)
    """


@dataclass(frozen=True)
class Int8WeightOnly(Config):
    """Use int8 weights, and do not quantize sources, so that only weights are rounded.

    :func:`quantize_` replaces linear layers, attention and embeddings. A linear layer becomes an
    :class:`int8blas.RealProduct`. For one row a RealProduct is faster than float32, because reading the weights takes
    most of the time. :class:`Int8Dynamic` is faster for all sizes, but less accurate.

    Parameters
    ----------
    group : int, optional
        As for :class:`Int8Dynamic`.

    Examples
    --------
    >>> import torch, int8blas.torch
    >>> int8blas.torch.quantize_(torch.nn.Linear(512, 256), int8blas.torch.Int8WeightOnly())
    Int8Linear(in_features=512, out_features=256, bias=True, weight_only=True)
    """


def is_falcon(module: nn.Module) -> bool:
    """Return whether a module is the linear layer of Falcon in transformers, a subclass that adds the bias later."""
    kind = type(module)
    return kind.__name__ == "FalconLinear" and kind.__module__ == "transformers.models.falcon.modeling_falcon"


def is_conv1d(module: nn.Module) -> bool:
    """Return whether a module is the linear layer of GPT-2 in transformers, whose weights are transposed."""
    kind = type(module)
    return kind.__name__ == "Conv1D" and kind.__module__ == "transformers.pytorch_utils"


def options_of(config: Config) -> dict[str, Any]:
    """Return the arguments of linear layers."""
    return {"group": config.group, "weight_only": isinstance(config, Int8WeightOnly)}


def linear_of(module: Any, config: Config) -> Int8Linear:
    """Return the int8 module of a linear layer."""
    integers = integers_of(module)
    if integers is not None:
        layer = Int8Linear.from_integers(*integers, weight_only=isinstance(config, Int8WeightOnly))
        dtype = getattr(module._parameters.get("weight"), "dtype", None)  # torchao's tensors have the floats' dtype
        layer.dtype = dtype if dtype in FLOATS else layer.dtype
        return layer
    weight = module.weight.t() if is_conv1d(module) else module.weight
    return Int8Linear.from_float(weight, module.bias, **options_of(config))


# The functions that create the int8 module of each kind of module.
KINDS: dict[Any, Callable[[Any, Config], nn.Module]] = {
    nn.Linear: linear_of,
    nn.MultiheadAttention: lambda module, config: Int8MultiheadAttention(module, **options_of(config)),
    nn.Embedding: lambda module, config: Int8Embedding(module),
    nn.EmbeddingBag: lambda module, config: Int8EmbeddingBag(module),
    **dict.fromkeys(TORCH_KINDS[0] + TORCH_KINDS[1], lambda module, config: Int8Conv(module)),
    **dict.fromkeys((nn.LSTM, nn.GRU, nn.RNN), lambda module, config: Int8Recurrent(module)),
    **dict.fromkeys(CELLS, lambda module, config: Int8RecurrentCell(module)),
}
# The kinds of modules for which Int8WeightOnly quantizes the weights and leaves sources as floats.
WEIGHT_ONLY = (nn.Linear, nn.MultiheadAttention, nn.Embedding, nn.EmbeddingBag)


def kind_of(module: nn.Module) -> Any:
    """Return the key of a module in KINDS, or its own type."""
    if is_conv1d(module) or is_falcon(module) or integers_of(module) is not None:
        return nn.Linear
    # torch.nn.utils.parametrize gives each parametrized module a subclass, whose attributes return the weights that
    # forward would use.
    return type(module).__mro__[1] if is_parametrized(module) else type(module)


def inputs_of(module: Any) -> tuple[int, ...]:
    """Return the sizes that `group` must divide."""
    if isinstance(module, nn.MultiheadAttention):
        return module.embed_dim, module.kdim, module.vdim
    if is_conv1d(module):
        return (module.weight.shape[0],)
    return (module.in_features,) if isinstance(module, nn.Linear) else ()


def objection(module: Any, config: Config) -> str:
    """Return the reason why a module stays float, or "" if an int8 module can replace it."""
    if isinstance(module, ScriptModule):
        return "it is a program of torch.jit; quantize_ the module first, then call torch.jit.trace"
    try:
        if integers_of(module) is not None:
            return ""
    except ValueError as error:
        return f"{error}"
    kind = kind_of(module)
    if kind not in KINDS:
        bases = [base.__name__ for base in KINDS if isinstance(module, base)]
        if not bases:
            return f"{NO_MODULE} {kind.__name__}"
        told = kind.__name__ if kind.__name__ != bases[0] else f"{kind.__module__}.{kind.__name__}"
        return f"{told} is a subclass of {bases[0]}, whose forward may differ; replace it by {bases[0]} if not"
    if "forward" in vars(module):
        return "its forward was replaced for this object; restore it first: del module.forward"
    if isinstance(config, Int8WeightOnly) and kind not in WEIGHT_ONLY:
        return f"Int8WeightOnly does not replace {kind.__name__}; Int8Dynamic does"
    parameters = list(module.parameters())
    for each in parameters:
        if each.device.type != "cpu":
            return f"it is on the device {each.device.type!r}; move it to the CPU first"
        if each.dtype not in FLOATS:
            return f"it has {each.dtype}; call module.float() first, as float32, bfloat16 and float16 are replaced"
        if not each.numel():
            return "it has a parameter without elements, and nothing to quantize"
    if module._forward_hooks or module._forward_pre_hooks or module._backward_hooks:
        return (
            "it has hooks; call torch.nn.utils.remove_weight_norm, remove_spectral_norm or prune.remove for theirs; "
            "register all other hooks after quantize_"
        )
    if kind is nn.MultiheadAttention and (module.bias_k is not None or module.add_zero_attn):
        return "it has add_bias_kv or add_zero_attn, which Int8MultiheadAttention lacks"
    if kind in (nn.Embedding, nn.EmbeddingBag) and module.max_norm is not None:
        return (
            "max_norm changes its rows when they are used; change them all first: module.weight.data.renorm_("
            "module.norm_type, 0, module.max_norm), then module.max_norm = None"
        )
    if config.group and any(size % config.group for size in inputs_of(module)):
        return f"group={config.group} does not divide its inputs, {inputs_of(module)}; choose a divisor or None"
    return ""


def walk(module: nn.Module, name: str, change: Callable[[str, nn.Module], nn.Module | None],
         done: MutableMapping[nn.Module, nn.Module]) -> nn.Module:  # fmt: skip
    """Replace a module and its children, each module once. `done` has the replaced modules as weak keys, so that their
    weights are freed."""
    if module in done:
        return done[module]
    new = change(name, module)
    done[module] = module if new is None else new.train(module.training)
    # The functions of nn.MultiheadAttention read the weights of its child.
    if new is None and not isinstance(module, (nn.MultiheadAttention, ScriptModule, *INT8_MODULES)):
        for key, child in module._modules.items():
            if child is not None:
                module._modules[key] = walk(child, f"{name}.{key}" if name else key, change, done)
    return done[module]


def is_int8(module: nn.Module) -> bool:
    """Return whether a module has int8 modules."""
    return any(isinstance(each, Int8Linear) for each in module.modules())


def quantize_(
    model: nn.Module,
    config: Int8Dynamic | Int8WeightOnly | None = None,
    *,
    filter: Callable[[str, nn.Module], bool] | None = None,
) -> nn.Module:
    """Replace each module of a model that has large weights by an int8 module, in place.

    ``nn.Linear``, ``nn.Conv1d`` to ``Conv3d``, ``nn.ConvTranspose1d`` to ``ConvTranspose3d``, ``nn.LSTM``, ``nn.GRU``,
    ``nn.RNN`` and their cells, ``nn.MultiheadAttention`` (also in ``nn.TransformerEncoderLayer``), ``nn.Embedding``,
    ``nn.EmbeddingBag`` and ``Conv1D`` and ``FalconLinear`` of transformers are replaced, including modules with
    ``torch.nn.utils.parametrizations``. Linear layers that torchao, ``torch.ao``, bitsandbytes or GPTQ have quantized
    to 8 bits without zero points keep their integers, bit for bit. Modules of any other kind stay unchanged, such as
    subclasses, modules with hooks, and modules with dtypes other than float32, bfloat16 and float16 or on devices other
    than the CPU.

    Parameters
    ----------
    model : nn.Module
        The model.
    config : Int8Dynamic or Int8WeightOnly, optional
        The configuration. The default is Int8Dynamic.
    filter : callable, optional
        ``filter(name, module)`` says whether to replace a module; `name` is the name of the module in the model.

    Returns
    -------
    nn.Module
        The model, or the int8 module if the model itself is a layer that is replaced.

    Raises
    ------
    TypeError, ValueError
        If an argument is not as described above, or if a weight is not finite. A note names the module. Modules before
        it are int8 then.

    Warns
    -----
    UserWarning
        If a module of a kind that ``quantize_`` replaces stays float although `filter` chose it. The warning says why.

    See Also
    --------
    dequantize_ : restore the float modules.
    report : errors, sizes and times of all modules.

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
    if config is not None and not isinstance(config, (Int8Dynamic, Int8WeightOnly)):
        raise TypeError(f"config must be Int8Dynamic, Int8WeightOnly or None, got {type(config).__name__}")
    if filter is not None and not callable(filter):
        raise TypeError(f"filter must be callable or None, got {type(filter).__name__}")
    chosen = Int8Dynamic() if config is None else config

    left = []

    def change(name: str, module: nn.Module) -> nn.Module | None:
        if isinstance(module, INT8_MODULES):
            return None
        if filter is not None and not filter(name, module):
            FLOAT[module] = "filter did not choose it"
            return None
        reason = objection(module, chosen)
        if reason:
            FLOAT[module] = reason
            if not reason.startswith(NO_MODULE):
                left.append(f"{name or 'the model'}, {type(module).__name__}: {reason}")
            return None
        try:
            new = KINDS[kind_of(module)](module, chosen)
        except (TypeError, ValueError) as error:
            error.add_note(f"in module {name!r}, {module}; filter= can leave it float")
            raise
        for path, each in new.named_modules():
            if isinstance(each, Int8Module):
                each.label = f"{name}.{path}".strip(".")
        return new

    model = walk(model, "", change, WeakKeyDictionary())
    if not left and filter is None and not any(isinstance(each, Int8Module) for each in model.modules()):
        left.append(f"the model, {type(model).__name__}: it has no module that quantize_ replaces; "
                    f"int8blas.torch.calibrate finds products that are calls of functions")  # fmt: skip
    elif filter is None:
        left += float_matrices(model)
    if left:
        warnings.warn(f"int8blas.torch.quantize_ left {len(left)} float (filter= leaves modules float without a "
                      f"warning):\n" + "\n".join(left), stacklevel=2)  # fmt: skip
    for module in model.modules():
        for kind, (name, value) in FAST_PATHS.items():
            if isinstance(module, kind) and is_int8(module) and not hasattr(module, "_int8blas_fast_path"):
                module._int8blas_fast_path = getattr(module, name)  # type: ignore[assignment, unused-ignore]
                setattr(module, name, value)
    return model


def float_matrices(model: nn.Module) -> list[str]:
    """Return the modules that have matrices but no int8 module, such as the experts of a mixture, with reasons. Return
    an empty list if the float matrices have no more elements than all int8 modules."""
    found = {
        name: (module, sum(each.numel() for each in module.parameters(recurse=False) if each.dim() > 1))
        for name, module in model.named_modules()
        if FLOAT.get(module, "").startswith(NO_MODULE)
    }
    quantized = sum(each.numel() for each in model.buffers() if each.dtype == torch.int8)
    if sum(count for _, count in found.values()) <= quantized:
        return []
    return [
        f"{name or 'the model'}, {type(module).__name__}: {FLOAT[module]}, and its own parameters have {count:,} "
        f"elements; replace it by modules of torch"
        for name, (module, count) in found.items()
        if count
    ]


def refuse_static(model: nn.Module, remedy: str) -> None:
    """Raise an error for a static network, because no float modules can replace its modules."""
    for name, module in model.named_modules():
        if isinstance(module, Int8Module) and not isinstance(module, INT8_MODULES):
            raise TypeError(f"model must be a result of quantize_, got a static network with the module {name!r}, "
                            f"{type(module).__name__}: {remedy}")  # fmt: skip


def dequantize_(model: nn.Module) -> nn.Module:
    """Replace the int8 modules of a model by modules of torch with their weights, in place.

    Weights have the dtype that they had before :func:`quantize_`.

    Parameters
    ----------
    model : nn.Module
        A model after :func:`quantize_`.

    Returns
    -------
    nn.Module
        The model, or the float module if the model itself is an int8 module.

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

    if not isinstance(model, nn.Module):
        raise TypeError(f"model must be a torch.nn.Module, got {type(model).__name__}")
    refuse_static(model, "use the float model, which calibrate did not change")
    model = walk(model, "", change, WeakKeyDictionary())
    for module in model.modules():
        for kind, (name, _) in FAST_PATHS.items():
            if isinstance(module, kind) and hasattr(module, "_int8blas_fast_path"):
                setattr(module, name, module._int8blas_fast_path)
                del module._int8blas_fast_path
    return model


def torchao_config() -> Any:
    """Return the class Int8DynamicConfig, after registering it with torchao."""
    from torchao.core.config import AOBaseConfig
    from torchao.quantization.transform_module import register_quantize_module_handler

    @dataclass
    class Int8DynamicConfig(AOBaseConfig):
        """:class:`Int8Dynamic` for ``torchao.quantize_``. The class needs the package torchao.

        Parameters
        ----------
        group : int, optional
            As for :class:`Int8Dynamic`.
        """

        group: int | None = None

    Int8DynamicConfig.__module__, Int8DynamicConfig.__qualname__ = "int8blas.torch", "Int8DynamicConfig"

    @register_quantize_module_handler(Int8DynamicConfig)
    def transform(module: nn.Module, config: Int8DynamicConfig) -> nn.Module:
        return quantize_(module, Int8Dynamic(group=config.group))

    return Int8DynamicConfig
