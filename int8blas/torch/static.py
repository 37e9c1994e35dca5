"""Static networks: models whose tensors stay int8 from layer to layer, with scales that were calibrated on data.

torch.export gives the graph of a model. int8blas.onnx quantizes and fuses the parts of this graph that it can compute.
torch computes the rest of the graph in floats.
"""

from __future__ import annotations

import copy
import inspect
import io
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, fx, nn
from torch._ops import OpOverload
from torch.fx.experimental import _config
from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner
from torch.fx.passes.operator_support import OperatorSupportBase
from torch.utils import _pytree as pytree

from int8blas.core.file import load, save
from int8blas.onnx.graph import Graph, Network, Value
from int8blas.onnx.model import Model
from int8blas.onnx.quantizing import started
from int8blas.torch.modules import Int8Module
from int8blas.torch.ops import (
    Held,
    described,
    keep_layer,
    layer_of,
    refuse_gradient,
    refuse_vmap,
    runs_now,
    thread_limit,
    to_autocast_dtype,
)
from int8blas.torch.reports import batches, execute
from int8blas.torch.shapes import difference, operator_of, recorded, replayed
from int8blas.torch.translation import OPSETS, PRODUCTS, Name, Translation, UnsupportedError, add_pt2e, named

Filter = Callable[[str, nn.Module], bool]


@dataclass(frozen=True)
class Int8Static:
    """The configuration of static networks, for :func:`prepare` and :func:`calibrate`.

    Weights and activations are int8. Weights have a scale for each output channel. Each activation has one scale, with
    the least squared error on the data. Images have their channels last between the layers.
    """


experimental: Any = _config
aten: Any = torch.ops.aten
# The dtypes of models that compute in float32 between their int8 layers.
SHORT = (torch.bfloat16, torch.float16)


def run(model: Model, inputs: Sequence[Any]) -> list[Tensor]:
    """Compute all outputs of a network for tensors and sizes."""
    for value, each in zip(model.inputs, inputs, strict=True):
        if isinstance(each, Tensor) and str(each.dtype) != f"torch.{value.dtype}":
            raise TypeError(f"input {value.name!r} must be torch.{value.dtype}, as in the exported model, got "
                            f"{each.dtype}: convert it, or calibrate a model of this dtype")  # fmt: skip
    feeds = {
        value.name: each.detach().resolve_neg().contiguous().numpy()
        if isinstance(each, Tensor)
        else np.array([each], np.int64)
        for value, each in zip(model.inputs, inputs, strict=True)
    }
    with thread_limit():
        return [torch.from_numpy(np.ascontiguousarray(each)) for each in model.run(None, feeds)]


def single(results: Sequence[Any]) -> Any:
    """Return several results as a tuple, and a single result without a tuple."""
    return results[0] if len(results) == 1 else tuple(results)


class Observed(nn.Module):
    """A part of a model that computes in floats and observes the tensors that :func:`convert` will quantize.

    Parameters
    ----------
    network : Network
        The part, in floats.
    shapes : str
        As for :class:`Int8Network`.
    keep : list of str
        Products that stay float.
    places : dict of str to str
        Descriptions of the graph's tensors for errors, by the names of their nodes.
    """

    def __init__(self, network: Network, shapes: str, keep: list[str], places: dict[str, str]) -> None:
        super().__init__()
        self.places = places
        self.network, self.rewrite = started(network, keep)
        self.observers = self.rewrite.observers()
        self.batches, self.shapes = 0, shapes
        self.watched = Model(self.rewrite.watched(self.network, self.observers, network.graph.outputs))

    def forward(self, *inputs: Any) -> Any:
        """Compute in floats and observe."""
        tensors = run(self.watched, inputs)
        for name, tensor in zip(self.observers, tensors, strict=False):
            try:
                self.observers[name].observe(tensor.numpy())
            except ValueError as error:
                node = name.rpartition(" ")[0] or name  # the form of a name from Translation.emit
                error.add_note(f"in batch {self.batches} (from 0), in {self.places.get(node, name)}: remove the batch "
                               f"from the data")  # fmt: skip
                raise
        self.batches += 1
        return single(tensors[len(self.observers) :])

    def converted(self, label: str) -> Int8Network:
        """Return the quantized network. `label` is the name of the module in the model."""
        if not self.batches:
            raise ValueError("model must have been called on data after prepare, got none for a part")
        found = {name: observer.parameters() for name, observer in self.observers.items()}
        made = Int8Network(Network(self.rewrite.with_parameters(found), self.network.opsets), self.shapes)
        made.label = label
        return made


def restored(state: Tensor) -> dict[str, Any]:
    """Return the network and the shapes that are in the bytes of an :class:`Int8Network`."""
    found = load(io.BytesIO(state.detach().numpy().tobytes()))
    if not isinstance(found, dict) or found.keys() != {"model", "shapes"}:
        raise ValueError(f"the bytes must have the network of an Int8Network, got {type(found).__name__}")
    return found


@torch.library.custom_op("int8blas::network", mutates_args=(), device_types="cpu")
def network(tensors: Sequence[Tensor], sizes: Sequence[int], state: Tensor, shapes: str, name: str) -> list[Tensor]:
    """Return the results for tensors and sizes of the network that the bytes `state` hold. `name` is the name of the
    module, for errors."""
    model = layer_of(state, (), (), lambda: restored(state)["model"])
    are_sizes = [value.dtype == np.int64 for value in model.inputs]
    wanted = are_sizes.count(False), are_sizes.count(True)
    if (len(tensors), len(sizes)) != wanted:
        raise ValueError(f"the network takes {wanted[0]} tensors and {wanted[1]} sizes, got {len(tensors)} and "
                         f"{len(sizes)}")  # fmt: skip
    tensor, size = iter(tensors), iter(sizes)
    return run(model, [next(size) if is_size else next(tensor) for is_size in are_sizes])


@network.register_fake
def _(tensors: Sequence[Tensor], sizes: Sequence[int], state: Tensor, shapes: str, name: str) -> list[Tensor]:
    return replayed(shapes, tensors, sizes)


def refuse(ctx: Any, gradients: list[Tensor]) -> tuple[Any, ...]:
    """Return a gradient for each input tensor, which raises an error when it is used."""
    text = f"{described('Int8Network', ctx.name)} has no gradient: {Int8Network.REMEDY}"
    return [refuse_gradient(gradients[0], shape, text) for shape in ctx.shapes], None, None, None, None


def set_shapes(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    """Keep the shapes of the tensors, and the name of the module, for the backward pass."""
    ctx.shapes, ctx.name = [each.shape for each in inputs[0]], inputs[-1]


network.register_autograd(refuse, setup_context=set_shapes)


network.register_vmap(refuse_vmap("Int8Network", "give it the whole batch"))


class Int8Network(Int8Module):
    """A part of a model that int8blas computes, as an :class:`int8blas.onnx.Model`. The inner tensors of the network
    are int8.

    :func:`convert` creates such networks.

    Parameters
    ----------
    network : Network
        A network with QuantizeLinear and DequantizeLinear.
    shapes : str
        The operators of torch that the network replaces, from which a compiler computes shapes.

    Attributes
    ----------
    network : Tensor of uint8
        The network and `shapes`, as bytes of :func:`int8blas.save`.
    """

    network: Tensor
    dtype = torch.float32
    REMEDY = "use the float model, and call int8blas.torch.calibrate for it again"

    def __init__(self, network: Network, shapes: str) -> None:
        super().__init__()
        self._layer, self.shapes = Model(network), shapes
        file = io.BytesIO()
        save(file, {"model": self._layer, "shapes": shapes})
        self.register_buffer("network", torch.frombuffer(bytearray(file.getvalue()), dtype=torch.uint8))
        keep_layer(self.network, (), self._layer)
        self._held = Held(self._buffers.values())

    def forward(self, *inputs: Any) -> Any:
        """Return the outputs of the network. `inputs` are tensors, and integers for sizes that vary."""
        if torch.is_autocast_enabled("cpu"):  # parts that torch computes return the dtype of torch.autocast
            inputs = tuple(as_float32(each) if isinstance(each, Tensor) else each for each in inputs)
        if torch.compiler.is_compiling():
            return self._operator(inputs)
        try:
            if all(runs_now(each) for each in inputs if isinstance(each, Tensor)):
                return single([*map(to_autocast_dtype, run(self._current(), inputs))])
            return self._operator(inputs)
        except (TypeError, ValueError) as error:
            error.add_note(f"in {self.told()}")
            raise

    def _operator(self, inputs: Sequence[Any]) -> Any:
        tensors = [each for each in inputs if isinstance(each, Tensor)]
        sizes = [each for each in inputs if not isinstance(each, Tensor)]
        return single([*map(to_autocast_dtype, network(tensors, sizes, self.network, self.shapes, self.label))])

    def explain(self) -> str:
        """Return the calls of the plan with their arithmetic, as in :meth:`int8blas.onnx.Model.explain`."""
        return str(self._layer.explain())

    def extra_repr(self) -> str:
        """Return the text of ``repr`` between the parentheses."""
        calls = self._layer.explain()
        return f"{sum(call.arithmetic == 'int8' for call in calls)} of {len(calls)} calls in int8"

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *rest: Any) -> None:
        state = state_dict.get(f"{prefix}network")
        if state is not None and state.dtype == torch.uint8 and state.dim() == 1:
            found = restored(state)["shapes"]
            if different := difference(found, self.shapes):
                *_, errors = rest  # torch raises the texts that modules add to this list
                errors.append(f"{prefix}network must be of a model of the same architecture, got one {different}: "
                              f"calibrate such a model, then load its state")  # fmt: skip
                return
            self.network = torch.empty_like(state)  # the number of bytes may differ, even for the same model
        super()._load_from_state_dict(state_dict, prefix, *rest)

    def _restore(self) -> None:
        found = restored(self.network)
        self._layer, self.shapes = found["model"], found["shapes"]
        keep_layer(self.network, (), self._layer)


# Graphs of torch


@dataclass(frozen=True)
class Place:
    """The number that stands for a node in a pickle."""

    number: int


class StaticModel(fx.GraphModule):
    """The result of :func:`convert`. A pickle contains the graph, because torch cannot trace all operators again."""

    def __reduce__(self) -> tuple[Any, ...]:
        state = {key: value for key, value in self.__dict__.items() if key != "_graph"}
        places = {node: Place(k) for k, node in enumerate(self.graph.nodes)}
        nodes = [
            (node.op, str(node.target) if isinstance(node.target, OpOverload) else node.target, node.name,
             *fx.node.map_arg((node.args, node.kwargs), places.__getitem__))
            for node in self.graph.nodes
        ]  # fmt: skip
        return restored_model, (state, nodes, self.graph._codegen)


def restored_model(state: dict[str, Any], nodes: list[Any], codegen: Any) -> StaticModel:
    """Return the model of a pickle."""
    graph = fx.Graph()
    made: list[fx.Node] = []
    for op, target, name, args, options in nodes:
        if op == "call_function" and isinstance(target, str):
            target = operator_of(target)
        args, options = fx.node.map_aggregate(
            (args, options), lambda value: made[value.number] if isinstance(value, Place) else value
        )
        made.append(graph.create_node(op, target, args, options, name))
    graph.set_codegen(codegen)
    body = nn.Module()
    body.__dict__ = state
    return StaticModel(body, graph)


class Chosen(OperatorSupportBase):
    """An object that tells torch's partitioner which nodes int8blas computes."""

    def __init__(self, nodes: set[fx.Node]) -> None:
        self.nodes = nodes

    def is_node_supported(self, submodules: Mapping[str, nn.Module], node: fx.Node) -> bool:
        """Return whether int8blas computes a node."""
        return node in self.nodes


def exported(model: nn.Module, args: tuple[Any, ...], options: dict[str, Any]) -> fx.GraphModule:
    """Return the graph of a model. The graph takes tensors of all sizes that the model allows."""
    trained = [f"{name!r}, {type(each).__name__}" for name, each in model.named_modules() if each.training]
    if trained and not isinstance(model, fx.GraphModule):
        raise ValueError(f"model must be in evaluation mode, got module {trained[0]} in training mode: call "
                         f"model.eval() first")  # fmt: skip

    def sizes(value: Any) -> Any:
        return dict.fromkeys(range(value.dim()), torch.export.Dim.AUTO) if isinstance(value, Tensor) else None

    shapes = pytree.tree_map(sizes, dict(inspect.signature(model.forward).bind(*args, **options).arguments))

    def program(general: bool) -> fx.GraphModule:
        # With `general`, a size of 1 in the first batch does not become the size of all batches.
        with warnings.catch_warnings(), experimental.patch(backed_size_oblivious=general):
            warnings.simplefilter("ignore")  # torch warns about functions of torch
            found = torch.export.export(model, args, options, dynamic_shapes=shapes, strict=False)
            return found.run_decompositions({}).module()

    try:
        return program(True)
    except Exception:  # torch raises many kinds, for example for broadcast tensors
        try:
            return program(False)
        except Exception as error:
            error.add_note(f"torch.export refuses {type(model).__name__}: int8blas.torch.quantize_ replaces its "
                           f"modules one by one")  # fmt: skip
            raise


def in_float32(model: nn.Module, args: tuple[Any, ...], options: dict[str, Any]) -> fx.GraphModule:
    """Return the graph of a model of 16-bit floats. The graph computes in float32, and its results have the model's
    dtypes."""
    dtypes = [each.dtype if isinstance(each, Tensor) else None for each in pytree.tree_leaves(model(*args, **options))]
    copied = copy.deepcopy(model).float()
    root = exported(copied, *pytree.tree_map_only(Tensor, as_float32, (args, options)))
    (last,) = root.graph.find_nodes(op="output")
    sources = root.graph.find_nodes(op="placeholder")
    with root.graph.inserting_after(sources[-1] if sources else root.graph._root):
        for node in sources:
            value = node.meta.get("val")
            if isinstance(value, Tensor) and value.dtype == torch.float32:
                cast = root.graph.call_function(aten.to.dtype, (node, torch.float32))
                cast.meta["val"] = value
                node.replace_all_uses_with(cast, lambda user, cast=cast: user is not cast)
    with root.graph.inserting_before(last):
        results = [
            root.graph.call_function(aten.to.dtype, (node, dtype)) if dtype in SHORT else node
            for node, dtype in zip(last.args[0], dtypes, strict=True)
        ]
    last.args = (tuple(results),)
    root.recompile()
    return root


def as_float32(x: Tensor) -> Tensor:
    """Return a tensor of 16-bit floats in float32, and any other tensor unchanged."""
    return x.float() if x.dtype in SHORT else x


def module_of(model: nn.Module, node: fx.Node) -> tuple[str, nn.Module]:
    """Return the name of the module from which a node comes, and the module."""
    stack = list((node.meta.get("nn_module_stack") or {}).values())
    name = stack[-1][0] if stack else ""
    try:
        return name, model.get_submodule(name)
    except AttributeError:
        return name, model


def place_of(model: nn.Module, node: fx.Node) -> str:
    """Describe a node's result by the module that computes the result. Describe an input of the graph by the module
    that takes it."""
    name, module = module_of(model, next(iter(node.users), node) if node.op == "placeholder" else node)
    told = f"module {name!r}, {type(module).__name__}" if name else "the model"
    return f"the source of {told}" if node.op == "placeholder" else f"the result of {told}"


def constants_of(graph: fx.Graph) -> set[fx.Node]:
    """Return the nodes that do not depend on inputs."""
    found: set[fx.Node] = set()
    for node in graph.nodes:
        sources = node.all_input_nodes
        if node.op == "get_attr" or (node.op == "call_function" and sources and found.issuperset(sources)):
            found.add(node)
    return found


def take_constant(graph: Translation, node: fx.Node, root: nn.Module) -> None:
    """Add a parameter or a buffer, or the nodes that compute a constant from parameters and buffers."""
    if node in graph.names:
        return
    if node.op == "get_attr":
        *path, last = str(node.target).split(".")
        tensor = getattr(root.get_submodule(".".join(path)), last)
        if not isinstance(tensor, Tensor) or tensor.dtype not in (torch.float32, torch.uint8, torch.int8, torch.int64):
            raise UnsupportedError
        graph.names[node] = Name(graph.constant(tensor.detach().numpy()), tensor.dim())
        return
    for each in node.all_input_nodes:
        take_constant(graph, each, root)
    graph.translate(node)


def supported(root: fx.GraphModule) -> set[fx.Node]:
    """Return the nodes of a graph that int8blas can compute."""
    found, constants = set(), constants_of(root.graph)
    for node in root.graph.nodes:
        if node.op != "call_function" or node in constants:
            continue
        graph = Translation({each: named(each.name, each) for each in node.all_input_nodes if each not in constants})
        try:
            for each in node.all_input_nodes:
                take_constant(graph, each, root)
            graph.translate(node)
        except UnsupportedError:
            continue
        found.add(node)
    return found


def network_of(
    part: fx.GraphModule, given: dict[fx.Node, fx.Node], constants: set[fx.Node], root: nn.Module
) -> tuple[Network, str]:
    """Return a part of a graph as a network, and its recorded shapes.

    Parameters
    ----------
    part : fx.GraphModule
        The part.
    given : dict of fx.Node to fx.Node
        For each placeholder, the node of the outer graph that supplies its value.
    constants : set of fx.Node
        The nodes of the outer graph that depend on no input.
    root : nn.Module
        The module that has the parameters.
    """
    graph, inputs = Translation({}), []
    for node in part.graph.nodes:
        if node.op == "placeholder":
            if given[node] in constants:
                take_constant(graph, given[node], root)
                graph.names[node] = graph.names[given[node]]
            else:
                graph.names[node] = named(node.name, node)
                value = node.meta["val"]
                dtype = np.dtype(str(value.dtype).removeprefix("torch.")) if isinstance(value, Tensor) else np.int64
                shape = (None,) * value.dim() if isinstance(value, Tensor) else (1,)
                inputs.append(Value(node.name, np.dtype(dtype), shape))
        elif node.op == "call_function":
            graph.translate(node)
    (last,) = part.graph.find_nodes(op="output")
    results = last.args[0] if isinstance(last.args[0], (tuple, list)) else (last.args[0],)
    outputs = []
    for k, node in enumerate(results):
        # Each output has a separate name, because two outputs may be the same tensor.
        graph.label = f"result {k}"
        outputs.append(Value(graph.emit("Identity", graph.names[node]), None, None))
    made = Graph("part", graph.nodes, tuple(inputs), tuple(outputs), graph.constants)
    return Network(made, OPSETS), recorded(part, lambda node: given[node] in constants)


def replaced(
    root: fx.GraphModule,
    is_product: Callable[[fx.Node], bool],
    make: Callable[[Network, str, list[fx.Node]], nn.Module],
) -> fx.GraphModule:
    """Replace the parts of a graph that have a chosen product by networks."""
    partitioner = CapabilityBasedPartitioner(root, Chosen(supported(root)), allows_single_node_partition=True)
    partitions = [each for each in partitioner.propose_partitions() if any(map(is_product, each.nodes))]
    if not partitions:
        raise ValueError("model must have products of float32, bfloat16 or float16 with constant weights to be "
                         "quantized, got none: call model.float() first if it has another dtype, choose more products "
                         "by filter=, or use int8blas.torch.quantize_ for recurrent layers and embeddings")  # fmt: skip
    for node in root.graph.find_nodes(op="call_module", target="_guards_fn"):
        root.graph.erase_node(node)
    root = partitioner.fuse_partitions(partitions, prefix="int8_")
    constants = constants_of(root.graph)
    for node in root.graph.find_nodes(op="call_module"):
        name = str(node.target)
        part = root.get_submodule(name)
        if not name.startswith("int8_") or not isinstance(part, fx.GraphModule):
            continue
        given = dict(zip(part.graph.find_nodes(op="placeholder"), node.args, strict=True))
        network, shapes = network_of(part, given, constants, root)
        node.args = tuple(each for each in node.args if each not in constants)
        made = make(network, shapes, list(part.graph.nodes))
        setattr(root, name, made)
        if isinstance(made, Int8Network):
            made.label = name
    # The results of a network are contiguous, but in the float graph their strides may differ. A view that is possible
    # in the float graph may therefore be impossible in the graph with networks.
    for node in root.graph.find_nodes(op="call_function", target=aten.view.default):
        node.target = aten.reshape.default
    root.graph.eliminate_dead_code()
    root.delete_all_unused_submodules()
    return StaticModel(root, root.graph).requires_grad_(False)


class Prepared(nn.Module):
    """A model that :func:`prepare` returns, which observes its tensors for :func:`convert`."""

    def __init__(self, model: nn.Module, filter: Filter | None) -> None:
        super().__init__()
        self.model, self.filter = model, filter
        self.graph: fx.GraphModule | None = None

    def forward(self, *args: Any, **options: Any) -> Any:
        """Compute in floats, and pass the tensors to the observers."""
        with torch.no_grad():
            if self.graph is None:
                self.graph = self._traced(args, options)
            return self.graph(*args, **options)

    def _traced(self, args: tuple[Any, ...], options: dict[str, Any]) -> fx.GraphModule:
        """Return the model's graph with observed parts."""

        def is_chosen(node: fx.Node) -> bool:
            return node.target in PRODUCTS and (self.filter is None or self.filter(*module_of(self.model, node)))

        def make(network: Network, shapes: str, nodes: list[fx.Node]) -> nn.Module:
            places = {node.name: place_of(self.model, node) for node in nodes}
            keep = [node.name for node in nodes if node.target in PRODUCTS and not is_chosen(node)]
            return Observed(network, shapes, keep, places)

        short = any(each.dtype in SHORT for each in self.model.parameters())
        return replaced((in_float32 if short else exported)(self.model, args, options), is_chosen, make)


def prepare(model: nn.Module, config: Int8Static | None = None, *, filter: Filter | None = None) -> Prepared:
    """Return a model that computes in floats and observes the tensors that :func:`convert` will quantize.

    Call the model on typical data, then pass it to :func:`convert`. The first call exports the model with torch.export.

    Parameters
    ----------
    model : nn.Module
        A model of float32, bfloat16 or float16 on the CPU, in evaluation mode. `prepare` does not change the model. The
        static network has the dtypes of the model. Operators that are not int8 compute in float32.
    config : Int8Static, optional
        The configuration.
    filter : callable, optional
        ``filter(name, module)`` says whether to quantize the product of a module, which has this name in the model.

    Returns
    -------
    Prepared
        A module with the arguments and results of the model.

    See Also
    --------
    calibrate : prepare, call and convert.

    Examples
    --------
    >>> import torch, int8blas.torch
    >>> model = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.ReLU()).eval()
    >>> prepared = int8blas.torch.prepare(model)
    >>> _ = prepared(torch.randn(4, 3, 20, 20))
    >>> int8blas.torch.convert(prepared)(torch.randn(1, 3, 20, 20)).shape
    torch.Size([1, 8, 18, 18])
    """
    if not isinstance(model, nn.Module):
        raise TypeError(f"model must be a torch.nn.Module, got {type(model).__name__}")
    if config is not None and not isinstance(config, Int8Static):
        raise TypeError(f"config must be Int8Static or None, got {type(config).__name__}")
    if filter is not None and not callable(filter):
        raise TypeError(f"filter must be callable or None, got {type(filter).__name__}")
    for name, each in (*model.named_parameters(), *model.named_buffers()):
        if each.device.type != "cpu":
            raise ValueError(f"model must be on the CPU, got {name!r} on {each.device.type!r}: call model.cpu() first")
    return Prepared(model, filter)


def convert(model: nn.Module, example_inputs: Any = None) -> fx.GraphModule:
    """Return the static int8 network of a PT2E model, or of a result of :func:`prepare` that was called on data.

    A convolution or a linear layer, with its batch normalization and activation, is one call from int8 to int8.
    torch computes operators that int8blas lacks, in floats, between the int8 calls.

    Parameters
    ----------
    model : nn.Module
        A result of :func:`prepare`, or of ``convert_pt2e`` of torchao or ``torch.ao`` with 8-bit scales for tensors.
    example_inputs : Tensor, tuple or mapping, optional
        For a model of PT2E, the inputs of one call: a tensor, the arguments, or the keyword arguments.

    Returns
    -------
    fx.GraphModule
        A module with the arguments and results of the model, for tensors of any sizes that the model allows. The int8
        parts of the result are modules of class Int8Network.

    Examples
    --------
    >>> import torch, int8blas.torch
    >>> prepared = int8blas.torch.prepare(torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.ReLU()).eval())
    >>> x = torch.randn(8, 64)
    >>> y = prepared(x)
    >>> near = int8blas.torch.convert(prepared)
    >>> bool((near(x) - y).norm() / y.norm() < 0.02)
    True
    """
    if isinstance(model, Prepared):
        if example_inputs is not None:
            raise ValueError("example_inputs must be None for a result of prepare, which was called already, got "
                             f"{type(example_inputs).__name__}")  # fmt: skip
        if model.graph is None:
            raise ValueError("model must have been called on data after prepare, got no call: call model(batch) for "
                             "typical batches, or give calibrate a loader with batches")  # fmt: skip
        made = StaticModel(model.graph, model.graph.graph)
        for name, part in model.graph.named_children():
            if isinstance(part, Observed):
                setattr(made, name, part.converted(name))
        return made
    if not isinstance(model, fx.GraphModule):
        raise TypeError(f"model must be a result of int8blas.torch.prepare or of convert_pt2e, got "
                        f"{type(model).__name__}: call int8blas.torch.calibrate(model, loader) instead")  # fmt: skip
    if example_inputs is None:
        raise ValueError("example_inputs must be the inputs of a call for a model of PT2E, got None")
    add_pt2e()
    args, options = ((), dict(example_inputs)) if isinstance(example_inputs, Mapping) else (
        tuple(example_inputs) if isinstance(example_inputs, (tuple, list)) else (example_inputs,), {}
    )  # fmt: skip

    def make(network: Network, shapes: str, nodes: list[fx.Node]) -> nn.Module:
        return Int8Network(network, shapes)

    return replaced(exported(model, args, options), lambda node: node.target in PRODUCTS, make)


def calibrate(
    model: nn.Module, loader: Iterable[Any], config: Int8Static | None = None, *, filter: Filter | None = None
) -> fx.GraphModule:
    """Return the static int8 network of a float model, with scales that are calibrated on data.

    Parameters
    ----------
    model, config, filter
        As for :func:`prepare`.
    loader : iterable
        Batches, as for :func:`compare`.

    Returns
    -------
    fx.GraphModule
        The model that :func:`convert` returns.

    Examples
    --------
    >>> import torch, int8blas.torch
    >>> model = torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 5)).eval()
    >>> near = int8blas.torch.calibrate(model, [torch.randn(8, 64) for _ in range(4)])
    >>> near(torch.randn(3, 64)).shape
    torch.Size([3, 5])
    """
    prepared = prepare(model, config, filter=filter)
    for batch in batches(loader):
        execute(prepared, batch[0] if isinstance(batch, (tuple, list)) else batch)
    return convert(prepared)
