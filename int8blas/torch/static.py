"""Static networks: models whose tensors stay int8 from layer to layer, with scales that were calibrated on data.

torch.export gives the graph of a model. int8blas.onnx quantizes and fuses the parts of this graph that it can compute;
torch computes the other parts in floats.
"""

from __future__ import annotations

import inspect
import io
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, fx, nn
from torch.fx.experimental import _config
from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner
from torch.fx.passes.operator_support import OperatorSupportBase
from torch.utils import _pytree as pytree

from int8blas.core.file import load, save
from int8blas.onnx.graph import Graph, Network, Value
from int8blas.onnx.model import Model
from int8blas.onnx.quantizing import started
from int8blas.torch.modules import Int8Module
from int8blas.torch.ops import NO_GRADIENT, thread_limit
from int8blas.torch.reports import execute
from int8blas.torch.translation import OPSETS, PRODUCTS, Name, Translation, UnsupportedError, add_pt2e, named

Filter = Callable[[str, nn.Module], bool]


@dataclass(frozen=True)
class Int8Static:
    """int8 weights and activations; the scales of activations are calibrated on data.

    :func:`prepare` and :func:`calibrate` take it. Weights have a scale for each output channel, and tensors one scale,
    with the least squared error on the data. Images have their channels last between the layers.
    """


experimental: Any = _config


class NoGradient(torch.autograd.Function):
    """The result of a network, whose backward pass is refused."""

    @staticmethod
    def forward(ctx: Any, result: Tensor, *sources: Tensor) -> Tensor:
        """Return the result."""
        return result.view_as(result)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        """Refuse."""
        raise RuntimeError(NO_GRADIENT)


class Part(nn.Module):
    """A part of a model as a network: a function of tensors and sizes.

    Parameters
    ----------
    network : Network
        With its inputs in order.
    """

    def __init__(self, network: Network) -> None:
        super().__init__()
        self._take(Model(network))

    def _take(self, model: Model) -> None:
        self._model = model

    def _run(self, inputs: tuple[Any, ...]) -> list[Any]:
        """Compute all outputs of the model."""
        feeds = {
            value.name: each.detach().to(memory_format=torch.contiguous_format).numpy()
            if isinstance(each, Tensor)
            else np.array([each], np.int64)
            for value, each in zip(self._model.inputs, inputs, strict=True)
        }
        with thread_limit():
            return self._model.run(None, feeds)

    def _results(self, inputs: tuple[Any, ...], arrays: list[Any]) -> Any:
        """Return outputs as tensors of torch."""
        results = [torch.from_numpy(each) for each in arrays]
        sources = [each for each in inputs if isinstance(each, Tensor) and each.requires_grad]
        if sources and torch.is_grad_enabled():
            results = [
                NoGradient.apply(each, *sources)  # type: ignore[no-untyped-call, unused-ignore]
                if each.is_floating_point()
                else each
                for each in results
            ]
        return results[0] if len(results) == 1 else tuple(results)


class Observed(Part):
    """A part in floats, which observes the tensors that :func:`convert` quantizes.

    Parameters
    ----------
    network : Network
        In floats.
    keep : list of str
        Products that stay float.
    """

    def __init__(self, network: Network, keep: list[str]) -> None:
        self.network, self.rewrite = started(network, keep)
        self.observers = self.rewrite.observers()
        self.batches = 0
        super().__init__(self.rewrite.watched(self.network, self.observers, network.graph.outputs))

    def forward(self, *inputs: Any) -> Any:
        """Compute in floats and observe."""
        arrays = self._run(inputs)
        for name, array in zip(self.observers, arrays, strict=False):
            try:
                self.observers[name].observe(array)
            except ValueError as error:
                error.add_note(f"in the tensor {name!r}")
                raise
        self.batches += 1
        return self._results(inputs, arrays[len(self.observers) :])

    def converted(self) -> Int8Network:
        """Return the quantized network."""
        if not self.batches:
            raise ValueError("model must have been called on data after prepare, got none for a part")
        found = {name: observer.parameters() for name, observer in self.observers.items()}
        return Int8Network(Network(self.rewrite.with_parameters(found), self.network.opsets))


class Int8Network(Part):
    """A part of a model, whose tensors are int8 between its layers, as an :class:`int8blas.onnx.Model`.

    :func:`convert` makes it. ``torch.compile`` does not look into it.

    Parameters
    ----------
    network : Network
        With nodes of quantization.
    """

    _apply = Int8Module._apply
    dtype = torch.float32

    @torch.compiler.disable  # type: ignore[untyped-decorator, unused-ignore]
    def forward(self, *inputs: Any) -> Any:
        """Return the outputs for tensors and sizes."""
        return self._results(inputs, self._run(inputs))

    def explain(self) -> str:
        """Return the calls of the plan by their arithmetic, as :meth:`int8blas.onnx.Model.explain`."""
        return str(self._model.explain())

    def get_extra_state(self) -> Tensor:
        """Return the network as bytes, for ``state_dict``."""
        file = io.BytesIO()
        save(file, self._model)
        return torch.frombuffer(bytearray(file.getvalue()), dtype=torch.uint8)

    def set_extra_state(self, state: Tensor) -> None:
        """Take the network of a ``state_dict``."""
        self._take(load(io.BytesIO(state.numpy().tobytes())))

    def extra_repr(self) -> str:
        """Return what ``repr`` says between the parentheses."""
        calls = self._model.explain()
        return f"{sum(call.arithmetic == 'int8' for call in calls)} of {len(calls)} calls in int8"


# ------------------------------------------------------------------------------------------- graphs of torch ------


class Chosen(OperatorSupportBase):
    """Tells torch's partitioner which nodes int8blas computes."""

    def __init__(self, nodes: set[fx.Node]) -> None:
        self.nodes = nodes

    def is_node_supported(self, submodules: Mapping[str, nn.Module], node: fx.Node) -> bool:
        """Return whether int8blas computes a node."""
        return node in self.nodes


def exported(model: nn.Module, args: tuple[Any, ...], options: dict[str, Any]) -> fx.GraphModule:
    """Return the graph of a model, for tensors of any sizes as far as the model allows."""
    if any(each.training for each in model.modules()) and not isinstance(model, fx.GraphModule):
        raise ValueError("model must be in evaluation mode, got a module in training mode: call model.eval() first")

    def sizes(value: Any) -> Any:
        return dict.fromkeys(range(value.dim()), torch.export.Dim.AUTO) if isinstance(value, Tensor) else None

    shapes = pytree.tree_map(sizes, dict(inspect.signature(model.forward).bind(*args, **options).arguments))

    def program(general: bool) -> fx.GraphModule:
        # If `general`, a size of 1 in the first batch does not become the size of all batches.
        with warnings.catch_warnings(), experimental.patch(backed_size_oblivious=general):
            warnings.simplefilter("ignore")  # of torch about its own functions
            found = torch.export.export(model, args, options, dynamic_shapes=shapes, strict=False)
            return found.run_decompositions({}).module()

    try:
        return program(True)
    except Exception:  # tensors that are broadcast, for one
        try:
            return program(False)
        except Exception as error:
            error.add_note("torch.export refuses the model: int8blas.torch.quantize_ replaces its modules one by one")
            raise


def module_of(model: nn.Module, node: fx.Node) -> tuple[str, nn.Module]:
    """Return the name of the module that a node comes from, and the module."""
    stack = list((node.meta.get("nn_module_stack") or {}).values())
    name = stack[-1][0] if stack else ""
    try:
        return name, model.get_submodule(name)
    except AttributeError:
        return name, model


def is_constant(node: fx.Node) -> bool:
    """Return whether a node depends on no input."""
    return node.op == "get_attr" or (node.op == "call_function" and bool(node.all_input_nodes)
                                     and all(map(is_constant, node.all_input_nodes)))  # fmt: skip


def take_constant(graph: Translation, node: fx.Node, root: nn.Module) -> None:
    """Add a parameter or buffer, or the nodes that make a constant of such."""
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
    found = set()
    for node in root.graph.nodes:
        if node.op != "call_function" or is_constant(node):
            continue
        graph = Translation({each: named(each.name, each) for each in node.all_input_nodes if not is_constant(each)})
        try:
            for each in node.all_input_nodes:
                take_constant(graph, each, root)
            graph.translate(node)
        except UnsupportedError:
            continue
        found.add(node)
    return found


def network_of(part: fx.GraphModule, given: dict[fx.Node, fx.Node], root: nn.Module) -> Network:
    """Return a part of a graph as a network.

    Parameters
    ----------
    part : fx.GraphModule
        The part.
    given : dict of fx.Node to fx.Node
        For each placeholder, the node of the outer graph that supplies its value.
    root : nn.Module
        Which has the parameters.
    """
    graph, inputs = Translation({}), []
    for node in part.graph.nodes:
        if node.op == "placeholder":
            if is_constant(given[node]):
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
        # An output has a name of its own, as two of them may be one tensor.
        graph.label = f"result {k}"
        outputs.append(Value(graph.emit("Identity", graph.names[node]), None, None))
    made = Graph("part", graph.nodes, tuple(inputs), tuple(outputs), graph.constants)
    return Network(made, OPSETS)


def replaced(
    root: fx.GraphModule,
    is_product: Callable[[fx.Node], bool],
    make: Callable[[Network, list[fx.Node]], Part],
) -> fx.GraphModule:
    """Put networks in the place of the parts of a graph that have a chosen product."""
    partitioner = CapabilityBasedPartitioner(root, Chosen(supported(root)), allows_single_node_partition=True)
    partitions = [each for each in partitioner.propose_partitions() if any(map(is_product, each.nodes))]
    if not partitions:
        raise ValueError("model must have products of float32 with constant weights to be quantized, got none: "
                         "call model.float() first if it has another dtype")  # fmt: skip
    for node in root.graph.find_nodes(op="call_module", target="_guards_fn"):
        root.graph.erase_node(node)
    root = partitioner.fuse_partitions(partitions, prefix="int8_")
    for node in root.graph.find_nodes(op="call_module"):
        part = root.get_submodule(str(node.target))
        if not str(node.target).startswith("int8_") or not isinstance(part, fx.GraphModule):
            continue
        given = dict(zip(part.graph.find_nodes(op="placeholder"), node.args, strict=True))
        network = network_of(part, given, root)
        node.args = tuple(each for each in node.args if not is_constant(each))
        setattr(root, str(node.target), make(network, list(part.graph.nodes)))
    root.graph.eliminate_dead_code()
    root.delete_all_unused_submodules()
    root.recompile()
    return root.requires_grad_(False)


class Prepared(nn.Module):
    """A model that observes its tensors, for :func:`convert`; :func:`prepare` makes it."""

    def __init__(self, model: nn.Module, filter: Filter | None) -> None:
        super().__init__()
        self.model, self.filter = model, filter
        self.graph: fx.GraphModule | None = None

    def forward(self, *args: Any, **options: Any) -> Any:
        """Compute in floats, and let the observers see the tensors."""
        with torch.no_grad():
            if self.graph is None:
                self.graph = self._traced(args, options)
            return self.graph(*args, **options)

    def _traced(self, args: tuple[Any, ...], options: dict[str, Any]) -> fx.GraphModule:
        """Return the model's graph with observed parts."""

        def is_chosen(node: fx.Node) -> bool:
            return node.target in PRODUCTS and (self.filter is None or self.filter(*module_of(self.model, node)))

        def make(network: Network, nodes: list[fx.Node]) -> Part:
            return Observed(network, [n.name for n in nodes if n.target in PRODUCTS and not is_chosen(n)])

        return replaced(exported(self.model, args, options), is_chosen, make)


def prepare(model: nn.Module, config: Int8Static | None = None, *, filter: Filter | None = None) -> Prepared:
    """Return a model that computes in floats and observes the tensors which :func:`convert` quantizes.

    Call the model on typical data, then pass it to :func:`convert`. The first call exports the model with torch.export.

    Parameters
    ----------
    model : nn.Module
        A float32 model on the CPU, in evaluation mode. It does not change.
    config : Int8Static, optional
        How to quantize.
    filter : callable, optional
        ``filter(name, module)`` says whether to quantize the product of a module; `name` is its name in the model.

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
    return Prepared(model, filter)


def convert(model: nn.Module, example_inputs: Any = None) -> fx.GraphModule:
    """Return the static int8 network of a model that :func:`prepare` made and data were shown to, or PT2E quantized.

    A convolution or a linear layer, with its batch normalization and activation, is one call from int8 to int8.
    Operators that int8blas lacks are computed by torch, in floats, between such parts.

    Parameters
    ----------
    model : nn.Module
        A result of :func:`prepare`, or of ``convert_pt2e`` of torchao or ``torch.ao`` with 8-bit scales for tensors.
    example_inputs : Tensor, tuple or mapping, optional
        For a model of PT2E, the inputs of one call: a tensor, the arguments, or the keyword arguments.

    Returns
    -------
    fx.GraphModule
        With the arguments and results of the model, for tensors of any sizes that the model allows. Its parts are
        modules of class Int8Network.

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
            raise ValueError("example_inputs must be given for a model of PT2E only, got them with a result of prepare")
        if model.graph is None:
            raise ValueError("model must have been called on data after prepare, got no call")
        made = fx.GraphModule(model.graph, model.graph.graph)
        for name, part in model.graph.named_children():
            if isinstance(part, Observed):
                setattr(made, name, part.converted())
        return made
    if not isinstance(model, fx.GraphModule):
        raise TypeError(f"model must be a result of int8blas.torch.prepare or of convert_pt2e, got "
                        f"{type(model).__name__}")  # fmt: skip
    if example_inputs is None:
        raise ValueError("example_inputs must be given for a model of PT2E, got None")
    add_pt2e()
    args, options = ((), dict(example_inputs)) if isinstance(example_inputs, Mapping) else (
        tuple(example_inputs) if isinstance(example_inputs, (tuple, list)) else (example_inputs,), {}
    )  # fmt: skip

    def make(network: Network, nodes: list[fx.Node]) -> Part:
        return Int8Network(network)

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
    for batch in loader:
        execute(prepared, batch[0] if isinstance(batch, (tuple, list)) else batch)
    return convert(prepared)
