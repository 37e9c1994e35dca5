"""Convert a float network to an int8 network: observe activations, derive scales, and move strides.

A network is plain data: a mapping from the name of each layer to the names of its sources. Each layer follows the
layers that it needs::

    graph = {
        "stem": ("image",),
        "first": ("stem",),
        "second": ("first", "stem"),
    }

A layer reads its first source. Further sources join the layer's result: as the addend of a Sum post-op, as the second
operand of an addition, or as further parts of a concatenation. A name that is no layer, such as "image", is a source of
the network. A layer is computed in one call, and its result is quantized once. For example, a layer is a convolution
with its bias, a folded batch normalization, a sum, and a ReLU.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from int8blas.core.parameters import QuantizationParameters, integer, scale_of_range
from int8blas.network.calibration import MinMaxObserver
from int8blas.network.observer import Observer
from int8blas.stage.attributes import Sum

__all__ = ["LayerQuantization", "calibrate", "fuse_quantization", "move_strides"]

Report = Callable[[str, Any], Any]
Layers = Sequence[tuple[str, Callable[[Any], Any]]]
Graph = Mapping[str, Sequence[str]]


def calibrate(
    network: Layers | Callable[[Any, Report], Any],
    batches: Iterable[Any],
    observer: Callable[[str], Observer] | None = None,
) -> dict[str, QuantizationParameters]:
    """Observe the activations of a float network on some batches, and return their scales and zero points.

    Parameters
    ----------
    network : sequence of (str, callable), or callable
        Either a sequence of layers, or a function that computes the whole network. Each layer has the name of its
        result, and a callable that takes the result of the previous layer. A function is called as
        ``network(batch, report)``. The function passes each activation that is to be quantized to ``report(name,
        activation)``, which returns the activation.
    batches : iterable
        The inputs of the network, at least one. Activations must be float arrays, or convert to NumPy arrays.
    observer : callable, optional
        A function that creates the observer of an activation from its name. The default is ``lambda name:
        MinMaxObserver(dtype=np.uint8, symmetric=False)``, with which the zero point is 0 after a ReLU. Activations that
        share an observer get the same parameters.

    Returns
    -------
    dict of str to QuantizationParameters
        The parameters of each activation, in the order in which activations were first reported.
        `calibration.save_parameters` writes this dict to a file.

    Raises
    ------
    TypeError, ValueError
        If an argument is not as described above, or if an observer does not accept an activation. The error names the
        argument or activation.

    See Also
    --------
    int8blas.calibration : The observers.
    fuse_quantization : The quantization of each layer.

    Examples
    --------
    >>> import numpy as np, int8blas
    >>> w = np.array([[1, -1], [2, 0]], np.float32)
    >>> network = [("hidden", lambda x: np.maximum(x @ w, 0)), ("scores", lambda x: x.sum(axis=1))]
    >>> batches = np.array([[[1, 2]], [[30, -10]]], np.float32)
    >>> parameters = int8blas.calibrate(network, batches)
    >>> parameters["hidden"].scale * 255, parameters["scores"].zero_point
    (np.float32(10.0), 0)

    A network of any form reports its activations. It also reports the image if the image is to be quantized:

    >>> def network(x, report):
    ...     x = report("image", x)
    ...     y = report("hidden", np.maximum(x @ w, 0))
    ...     return report("sum", y + x)
    >>> list(int8blas.calibrate(network, batches, lambda name: int8blas.calibration.EntropyObserver()))
    ['image', 'hidden', 'sum']
    """
    observers: dict[str, Observer] = {}
    if observer is not None and not callable(observer):
        raise TypeError(f"observer must be callable or None, got {type(observer).__name__}")
    make = (lambda _: MinMaxObserver(dtype=np.uint8, symmetric=False)) if observer is None else observer
    try:
        each = iter(batches)
    except TypeError:
        raise TypeError(f"batches must be iterable, got {type(batches).__name__}") from None

    def report(name: str, activation: Any) -> Any:
        if not isinstance(name, str):
            raise TypeError(f"name of an activation must be a str, got {type(name).__name__}")
        if name not in observers:
            observers[name] = make(name)
            if not isinstance(observers[name], Observer):
                raise TypeError(f"observer must make an observer, got {type(observers[name]).__name__} for {name!r}")
        try:
            observers[name].observe(activation)
        except (TypeError, ValueError) as error:
            kind = TypeError if isinstance(error, TypeError) else ValueError
            raise kind(f"activation {name!r}: {error}") from None
        return activation

    run = network if callable(network) else _chain(network)
    count = 0
    for batch in each:
        run(batch, report)
        count += 1
    if not observers:
        missing = "network must report an activation" if count else "batches must have at least one"
        raise ValueError(f"{missing}, got none")
    return {name: observer.parameters() for name, observer in observers.items()}


def _chain(layers: Layers) -> Callable[[Any, Report], None]:
    """Return a network that runs the layers one after another and reports their results."""
    try:
        pairs = [(name, function) for name, function in layers]
    except (TypeError, ValueError):
        raise TypeError("network must be a callable or a sequence of (name, callable)") from None
    names = [name for name, _ in pairs]
    for name, function in pairs:
        if not callable(function):
            raise TypeError(f"network[{name!r}] must be callable, got {type(function).__name__}")
        if names.count(name) > 1:
            raise ValueError(f"network must have different names, got {name!r} {names.count(name)} times")

    def run(x: Any, report: Report) -> None:
        for name, function in pairs:
            x = report(name, function(x))

    return run


@dataclass(frozen=True)
class LayerQuantization:
    """The quantization of a layer's sources and result. :func:`fuse_quantization` creates it.

    Attributes
    ----------
    sources : tuple of QuantizationParameters
        The quantization of the source that the layer reads, and then of the sources that join its result.
    dst : QuantizationParameters or None
        The quantization of the result, which the next layers read, or None if the result stays float32.
    """

    sources: tuple[QuantizationParameters, ...]
    dst: QuantizationParameters | None

    def arguments(self, weights: Any = "per_channel") -> dict[str, Any]:
        """Return the arguments of a primitive: `src_dtype`, `dst_dtype`, `scales` and `zero_points`.

        Parameters
        ----------
        weights : str or array_like, optional
            ``scales["weights"]``.

        Returns
        -------
        dict
            For ``Convolution(weights, bias, **quantization.arguments())`` and other layers.
        """
        src = self.sources[0]
        given = {"src": src} if self.dst is None else {"src": src, "dst": self.dst}
        return {
            "src_dtype": src.dtype,
            "dst_dtype": np.dtype(np.float32) if self.dst is None else self.dst.dtype,
            "scales": {"weights": weights} | {tensor: parameters.scale for tensor, parameters in given.items()},
            "zero_points": {tensor: parameters.zero_point for tensor, parameters in given.items()},
        }

    def sum(self) -> Sum:
        """Return the post-op that adds the second source. `out` must contain the second source when the layer runs.

        Returns
        -------
        Sum
            A post-op with the scale and the zero point of the second source, which may differ from the result's scale
            and zero point.

        Raises
        ------
        ValueError
            If the layer does not have two sources, or the result is not quantized.
        """
        if len(self.sources) != 2:
            raise ValueError(f"a layer must have 2 sources to add one to its result, got {len(self.sources)}")
        if self.dst is None:
            raise ValueError("a layer must have a quantized result to add a source to, got one in float32")
        added = self.sources[1]
        return Sum(added.scale, added.zero_point, added.dtype)


def fuse_quantization(
    graph: Graph, parameters: Mapping[str, QuantizationParameters], same: Collection[str] = ()
) -> dict[str, LayerQuantization]:
    """Derive the scales and zero points with which each layer quantizes its result once.

    The epilogue of a layer stores the result with the quantization that the next layers read: the layer's ``dst`` is
    the ``src`` of the next layers. No layer stores float32 or int32 that must be quantized later.

    Parameters
    ----------
    graph : mapping of str to sequence of str
        The sources of each layer, in the form that :mod:`int8blas.network.graph` describes.
    parameters : mapping of str to QuantizationParameters
        The result of :func:`calibrate`, for the sources of the network and the results of its layers. Other entries are
        ignored. A result without an entry stays float32, and no layer may read it.
    same : collection of str, optional
        Layers whose results have only values of their sources: max pooling, a change of shape, concatenation. All
        sources and results that layers in `same` connect share one scale and zero point, for the union of their ranges,
        and the results need no entry in `parameters`.

    Returns
    -------
    dict of str to LayerQuantization
        The quantization of each layer, in the order of `graph`.

    Raises
    ------
    TypeError, ValueError
        If an argument is not as described above. The error names the argument.

    Notes
    -----
    At a skip connection, both sources keep their scales and zero points. The Sum post-op has the scale and the zero
    point of its addend (:meth:`LayerQuantization.sum`).

    If all zero points are equal, the union of ranges has this zero point and the largest scale. If zero points differ,
    the union goes from the smallest ``scale * (qmin - zero_point)`` to the largest ``scale * (qmax - zero_point)``. The
    table of :mod:`int8blas.calibration` gives the parameters of the union, in the row of ranges that are not symmetric.

    Examples
    --------
    >>> import numpy as np, int8blas
    >>> from int8blas.calibration import QuantizationParameters
    >>> graph = {"stem": ("image",), "left": ("stem",), "right": ("stem",),
    ...          "both": ("left", "right"), "head": ("both",)}
    >>> parameters = {name: QuantizationParameters(scale, 0, np.uint8)
    ...               for name, scale in [("image", 0.5), ("stem", 0.25), ("left", 2), ("right", 4)]}
    >>> layers = int8blas.fuse_quantization(graph, parameters, same={"both"})
    >>> layers["left"].dst.scale, layers["right"].dst.scale, layers["head"].sources[0].scale  # one for both
    (np.float32(4.0), np.float32(4.0), np.float32(4.0))
    >>> layers["stem"].arguments()["scales"]
    {'weights': 'per_channel', 'src': np.float32(0.5), 'dst': np.float32(0.25)}
    >>> layers["head"].arguments()["dst_dtype"]
    dtype('float32')
    """
    sources = _checked_graph(graph)
    _check_mapping(parameters, "parameters")
    for name, value in parameters.items():
        if not isinstance(value, QuantizationParameters):
            raise TypeError(f"parameters[{name!r}] must be QuantizationParameters, got {type(value).__name__}")
        if value.axis is not None and name in {*sources, *(source for all_ in sources.values() for source in all_)}:
            raise ValueError(f"parameters[{name!r}] must have one scale for the tensor, got {value.scale.size}")
    same = _names(same, "same", sources, "graph")

    found = dict(parameters)
    for group in _connected([{name, *sources[name]} for name in same]):
        known = [parameters[name] for name in sorted(group) if name in parameters]
        if not known:
            raise ValueError(f"parameters must be given for one of {', '.join(sorted(group))}, got none")
        found.update(dict.fromkeys(group, _union(known)))
    for name, read in sources.items():
        for source in read:
            if source not in found:
                raise ValueError(f"parameters[{source!r}] must be given, as {name!r} reads it")
    return {
        name: LayerQuantization(tuple(found[source] for source in read), found.get(name))
        for name, read in sources.items()
    }


def _checked_graph(graph: Graph) -> dict[str, tuple[str, ...]]:
    """Check the graph: each source is a source of the network or an earlier layer. Return the sources of each layer."""
    _check_mapping(graph, "graph")
    sources: dict[str, tuple[str, ...]] = {}
    for name, read in graph.items():
        if isinstance(read, str) or not isinstance(read, Sequence) or not all(isinstance(s, str) for s in read):
            raise TypeError(f"graph[{name!r}] must be a sequence of names, got {read!r}")
        if not read:
            raise ValueError(f"graph[{name!r}] must have a source, got none")
        for source in read:
            if source in graph and source not in sources:
                raise ValueError(f"graph[{name!r}] must come after its source {source!r}")
        sources[name] = tuple(read)
    return sources


def _check_mapping(x: Any, name: str) -> None:
    if not isinstance(x, Mapping):
        raise TypeError(f"{name} must be a mapping of names, got {type(x).__name__}")


def _names(names: Any, argument: str, known: Collection[str], where: str) -> dict[str, None]:
    """Return names of layers as the keys of a dict: an iterator can be read only once."""
    try:
        found = dict.fromkeys(names)
    except TypeError:
        raise TypeError(f"{argument} must be a collection of names, got {type(names).__name__}") from None
    for name in found:
        if name not in known:
            raise ValueError(f"{argument} must have names of layers in {where}, got {name!r}")
    return found


def _connected(groups: Iterable[set[str]]) -> list[set[str]]:
    """Merge groups that have a name in common."""
    merged: list[set[str]] = []
    for group in groups:
        apart = [other for other in merged if not other & group]
        merged = [*apart, group.union(*(other for other in merged if other & group))]
    return merged


def _union(parameters: Sequence[QuantizationParameters]) -> QuantizationParameters:
    """Return the parameters of the union of ranges, which must have one dtype."""
    dtypes = {value.dtype for value in parameters}
    if len(dtypes) > 1:
        raise ValueError(
            f"parameters must have one dtype where layers share them, got {' and '.join(map(str, dtypes))}"
        )
    (dtype,) = dtypes
    scales = np.array([value.scale for value in parameters], np.float64)
    zero_points = np.array([value.zero_point for value in parameters])
    if (zero_points == zero_points[0]).all():
        return QuantizationParameters(scales.max(), zero_points[0], dtype)
    info = np.iinfo(dtype)
    low = (scales * (info.min - zero_points)).min()
    high = (scales * (info.max - zero_points)).max()
    scale, zero_point = scale_of_range(np.array([low]), np.array([high]), dtype, symmetric=False)
    return QuantizationParameters(scale[0], zero_point[0], dtype)


def move_strides(
    graph: Graph, strides: Mapping[str, int], pointwise: Collection[str], outputs: Collection[str] = ()
) -> tuple[dict[str, tuple[str, ...]], dict[str, int]]:
    """Move strides to earlier layers, which then compute less. The results of the network stay the same.

    A window of one element with stride s reads only every s-th element in each spatial dimension. If all layers that
    read a result skip the same elements, these elements need not be computed. The stride is then moved from the layers
    that read the result to the layer that computes it.

    Parameters
    ----------
    graph : mapping of str to sequence of str
        The sources of each layer, in the form that :mod:`int8blas.network.graph` describes.
    strides : mapping of str to int
        The stride, in all spatial dimensions, of each layer that has windows: convolutions, pooling, and element-wise
        layers such as an addition, with stride 1. No other layer gains or loses a stride. Sources join the layers of
        `strides` element by element.
    pointwise : collection of str
        The layers of `strides` with windows of one element and no padding: 1 x 1 convolutions, element-wise layers.
    outputs : collection of str, optional
        Layers whose whole result is needed although other layers read it. A result that no layer reads is always
        needed.

    Returns
    -------
    graph : dict of str to tuple of str
        The network. If a layer gains a stride s, the sources that join it must also have only every s-th element. If a
        joining source cannot get the stride, a new layer ``"name[::s]"`` computes ``x[:, ::s, ::s]`` of the source.
    strides : dict of str to int
        The stride of each layer, including new layers. An element-wise layer that keeps a stride s reads ``x[:, ::s,
        ::s]`` of its first source.

    Raises
    ------
    TypeError, ValueError
        If an argument is not as described above. The error names the argument.

    Notes
    -----
    The method is described in "Model and Graph Optimizations" and Figure 6 of Intel's article "Accelerate Lower
    Numerical Precision Inference with Intel Deep Learning Boost". The greatest common divisor of the readers' strides
    moves. The results have the same bits, in int8 as in float32. Padding stays unchanged. `strides` must not have
    deconvolutions, whose strides are steps in the destination.

    Examples
    --------
    There are two residual blocks, as in ResNet-50, and the second block halves the image. The stride moves through the
    sum of the first block into its 3 x 3 convolution, whose work becomes a fourth:

    >>> import int8blas
    >>> graph = {
    ...     "1.a": ("x",), "1.b": ("1.a",), "1.c": ("1.b", "x"),
    ...     "2.a": ("1.c",), "2.b": ("2.a",), "2.shortcut": ("1.c",), "2.c": ("2.b", "2.shortcut"),
    ... }
    >>> strides = dict.fromkeys(graph, 1) | {"2.a": 2, "2.shortcut": 2}
    >>> graph, strides = int8blas.move_strides(graph, strides, {"1.a", "1.c", "2.a", "2.c", "2.shortcut"})
    >>> graph["1.c"]
    ('1.b', 'x[::2]')
    >>> [name for name, stride in strides.items() if stride != 1]
    ['1.b', 'x[::2]']
    """
    sources = _checked_graph(graph)
    moved = {}
    _check_mapping(strides, "strides")
    for name, stride in strides.items():
        moved[name] = integer(stride, f"strides[{name!r}]")
        if moved[name] < 1:
            raise ValueError(f"strides[{name!r}] must be at least 1, got {stride}")
    _names(strides, "strides", sources, "graph")
    pointwise = _names(pointwise, "pointwise", strides, "strides")
    outputs = _names(outputs, "outputs", sources, "graph")

    # The stride with which each layer reads each of its sources, and which may be moved to the source.
    taken = {name: [1] * len(read) for name, read in sources.items()}
    for name in pointwise:
        taken[name][0] = moved[name]
    for name in reversed(sources):
        # The loop has visited all readers of this layer before.
        readers = [(reader, i) for reader, read in sources.items() for i, source in enumerate(read) if source == name]
        common = math.gcd(*(taken[reader][i] for reader, i in readers))
        if name not in moved or name in outputs or common < 2:
            continue
        for reader, i in readers:
            taken[reader][i] //= common
            if i == 0:
                moved[reader] //= common
        moved[name] *= common
        taken[name] = [common * stride if i or name in pointwise else stride for i, stride in enumerate(taken[name])]

    result: dict[str, tuple[str, ...]] = {}
    for name, read in sources.items():
        new = [read[0]]
        for source, stride in zip(read[1:], taken[name][1:], strict=True):
            new.append(source if stride == 1 else f"{source}[::{stride}]")
            if stride != 1:
                if new[-1] in sources:
                    raise ValueError(f"graph must not have a layer {new[-1]!r}, which is the name of a new one")
                result[new[-1]], moved[new[-1]] = (source,), stride
        result[name] = tuple(new)
    return result, moved
