"""Run a network: check the feeds and call the plan."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from int8blas.core.arrays import as_array
from int8blas.core.calls import are_separate, is_apart, is_same_memory, read_only_views
from int8blas.core.file import register, save
from int8blas.core.parameters import integer
from int8blas.core.results import RunContext
from int8blas.core.streams import Target
from int8blas.elementwise.elements import in_c_order
from int8blas.onnx.explain import ModelExplanation, explained
from int8blas.onnx.fusion import fused
from int8blas.onnx.graph import Network, Value
from int8blas.onnx.islands import with_islands
from int8blas.onnx.plan import WRONG, Plan, check_operators, make_plan, wrong
from int8blas.onnx.quantizing import quantized
from int8blas.onnx.reader import read
from int8blas.onnx.saturation import Saturations, saturations
from int8blas.onnx.stored import network_of, plain
from int8blas.onnx.table import Cache
from int8blas.onnx.widening import widened

# onnxruntime's type names.
TYPES = {
    "float16": "float16", "float32": "float", "float64": "double", "bfloat16": "bfloat16", "object": "string",
}  # fmt: skip

# The relative error of a product of two numbers in float16.
FLOAT16_TOLERANCE = 2.0**-10
# The maximum number of plans with replaced constants that a model keeps. Each plan has its own packed weights.
MOST_PLANS = 4


class Port(NamedTuple):
    """An input or output, as onnxruntime's ``NodeArg``: `name`, `shape` and `type`, such as "tensor(uint8)"."""

    name: str
    shape: list[int | str | None] | None
    type: str


def port(value: Value) -> Port:
    """Return the description of an input or output."""
    kind = "" if value.dtype is None else f"tensor({TYPES.get(value.dtype.name, value.dtype.name)})"
    return Port(value.name, None if value.shape is None else list(value.shape), kind)


class Model:
    """A network from an ONNX file; :func:`load` creates it.

    Parameters
    ----------
    network : Network
        The network, as read from a file.

    Notes
    -----
    A run does not change the model, so any number of threads can call :meth:`run` at the same time.
    """

    def __init__(self, network: Network) -> None:
        self._network = network
        self._inputs = network.graph.inputs
        self._outputs = network.graph.outputs
        self._ports = tuple([(value.name, value.dtype, value.shape) for value in self._inputs])
        self._plan = planned(network)
        # Plans that take constants as inputs, by the names of these constants.
        self._others: dict[tuple[str, ...], Plan] = {}

    def __repr__(self) -> str:
        inputs, outputs = (", ".join(map(str, values)) for values in (self._inputs, self._outputs))
        return f"<int8blas.onnx.Model ({inputs}) => ({outputs})>"

    @property
    def inputs(self) -> tuple[Value, ...]:
        """The inputs of :meth:`run`, with NumPy dtypes."""
        return self._inputs

    def get_inputs(self) -> list[Port]:
        """Return the inputs of :meth:`run`, as onnxruntime's ``get_inputs`` does.

        Returns
        -------
        list of Port
            Name, shape and type of each input, in the order of the file.
        """
        return [port(value) for value in self._inputs]

    def get_overridable_initializers(self) -> list[Port]:
        """Return the constants that a feed of :meth:`run` may replace, as onnxruntime's
        ``get_overridable_initializers`` does.

        Returns
        -------
        list of Port
            The constants that the file declares as inputs too, if its ``ir_version`` is 4 or more.
        """
        return [port(value) for value in self._network.overridable]

    def get_outputs(self) -> list[Port]:
        """Return the outputs of :meth:`run`, as onnxruntime's ``get_outputs`` does.

        Returns
        -------
        list of Port
            Name, shape and type of each output, in the order of the file.
        """
        return [port(value) for value in self._outputs]

    def run(self, output_names: Sequence[str] | None, feeds: Mapping[str, Any]) -> list[Any]:
        """Compute outputs, with the calling convention of onnxruntime's ``InferenceSession.run``.

        Parameters
        ----------
        output_names : sequence of str or None
            The outputs to return, in this order. With None, return all outputs in the order of the file.
        feeds : mapping of str to array_like
            A value for each input, of its dtype and shape. A size that is a name or None may have any value. A feed may
            also replace constants of :meth:`get_overridable_initializers`.

        Returns
        -------
        list of ndarray
            The outputs. Each output is writable and has its own memory.

        Raises
        ------
        TypeError, ValueError
            If a feed is missing or violates its declaration, before anything is computed; or if a node rejects its
            inputs, with a note that names the node.

        Notes
        -----
        The first run that replaces some constants creates another plan, which takes these constants as inputs. The new
        plan uses no tensor that was computed or packed from the old values of the constants. The model keeps the plan
        for later runs that replace the same constants.
        """
        if output_names is None:
            results = self._computed(*self._prepared(feeds))
            return results if are_separate(results) else separated(results, [])
        names = [value.name for value in self._outputs]
        wanted = checked_names(output_names, names)
        results = self._computed(*self._prepared(feeds))
        return separated([results[names.index(name)] for name in wanted], [])

    def run_into(self, outputs: Mapping[str, npt.NDArray[Any]], feeds: Mapping[str, Any]) -> None:
        """Compute outputs, and write them to arrays of the caller, such as arrays in shared memory.

        Parameters
        ----------
        outputs : mapping of str to ndarray
            An array for each wanted output, with the output's dtype and shape and with any strides.
        feeds : mapping of str to array_like
            Feeds as for :meth:`run`. A feed may be an array of `outputs`. If a GroupQueryAttention reads its past keys
            or values from an array of `outputs`, and returns all of them in this array, it adds only the new keys or
            values.

        Raises
        ------
        TypeError, ValueError
            As for :meth:`run`, or if an array does not fit its output. After an error, `outputs` are unchanged, except
            new keys and values in arrays that are also feeds.

        Examples
        --------
        >>> import numpy as np, int8blas.onnx, onnx.parser
        >>> model = int8blas.onnx.load(onnx.parser.parse_model('''
        ...     <ir_version: 8, opset_import: ["": 18]>
        ...     positive (float[n] x) => (float[n] y) { y = Relu(x) }'''))
        >>> y = np.empty(2, np.float32)
        >>> model.run_into({"y": y}, {"x": np.float32([-1, 2])})
        >>> y
        array([0., 2.], dtype=float32)
        """
        places = {value.name: i for i, value in enumerate(self._outputs)}
        check_mapping(outputs, "outputs")
        checked_names(outputs, places)
        for name, array in outputs.items():
            if not isinstance(array, np.ndarray) or not array.flags.writeable:
                what = "a read-only array" if isinstance(array, np.ndarray) else type(array).__name__
                raise TypeError(f"outputs[{name!r}] must be a writable ndarray, got {what}")
        plan, arguments = self._prepared(feeds)
        for at, source in plan.updates.items():
            cache = outputs.get(self._outputs[at].name)
            if cache is not None and is_same_memory(cache, arguments[source]) and is_apart(cache, arguments, source):
                arguments[source] = cache.view(Cache)
        values = self._computed(plan, arguments)
        pairs = [(name, array, values[places[name]]) for name, array in outputs.items()]
        pairs = [(name, array, value) for name, array, value in pairs
                 if not isinstance(value, np.ndarray) or not is_same_memory(array, value)]  # fmt: skip
        results = separated([value for _, _, value in pairs], [])
        for (name, array, _), result in zip(pairs, results, strict=True):
            if not isinstance(result, np.ndarray) or (result.dtype, result.shape) != (array.dtype, array.shape):
                wanted = f"{result.dtype} {result.shape}" if isinstance(result, np.ndarray) else "no array"
                raise ValueError(f"outputs[{name!r}] must be {wanted}, got {array.dtype} {array.shape}")
        for (_, array, _), result in zip(pairs, results, strict=True):
            array[...] = result

    def warm_up(self, *feeds: Mapping[str, Any]) -> None:
        """Run the model on feeds, so that later runs on inputs of the same types and shapes take the usual time.

        The first run creates layers for the types of its tensors, and sessions of onnxruntime if `floats` requires
        sessions. The first run with new shapes computes all values that depend on shapes alone. A model remembers
        values that depend on shapes for the last 8 combinations of shapes.

        Parameters
        ----------
        *feeds : mapping of str to array_like
            Feeds as for :meth:`run`: one for each combination of types and shapes.
        """
        for each in feeds:
            for _ in range(2):  # the second run finds the memory of the first
                self.run(None, each)

    def explain(self, feeds: Mapping[str, Any] | None = None) -> ModelExplanation:
        """Explain the plan: list its calls, and with feeds the times of the calls.

        Parameters
        ----------
        feeds : mapping of str to array_like, optional
            Feeds as for :meth:`run`. With feeds, the model runs once and reports each call's time.

        Returns
        -------
        ModelExplanation
            A tuple of calls; calls of a subgraph follow their If, Loop or Scan. Each call has `node`, `operator`,
            `arithmetic`, `seconds`, and the `nodes` of the file that it computes. A call whose operator could be
            quantized but is not also has the `reason`. As a string, the explanation is a table with a line for each
            operator, its number of calls, its arithmetic and its share of the time, and then a line for each reason.

        Examples
        --------
        >>> import int8blas.onnx, onnx.parser
        >>> model = int8blas.onnx.load(onnx.parser.parse_model('''
        ...     <ir_version: 8, opset_import: ["": 18]>
        ...     quantized (float[n] x, float s) => (uint8[n] y) { a = Neg(x) b = Neg(a) y = QuantizeLinear(b, s) }'''))
        >>> print(model.explain())
            2  Neg             other
            1  QuantizeLinear  int8
        """
        if feeds is None:
            return explained(self._plan, None)
        plan, arguments = self._prepared(feeds)
        with RunContext(self._network.threads):
            return explained(plan, arguments)

    def saturations(self, feeds: Mapping[str, Any]) -> Saturations:
        """Find the nodes in which kernels that add two products in 16 bits would saturate.

        onnxruntime uses such kernels on CPUs without VNNI. int8blas's kernels are exact on all CPUs.

        Parameters
        ----------
        feeds : mapping of str to array_like
            Feeds as for :meth:`run`. The model runs once.

        Returns
        -------
        Saturations
            A dict with an entry for each node of the file that multiplies uint8 and int8, fused nodes included. The key
            is the node's name, or the name of its first output. The value is the number of sums of two products that
            do not fit 16 bits, as :func:`int8blas.would_saturate` counts them. The windows of a convolution have
            channels last; an LSTM multiplies its source and its state at each step. The attribute `not_counted` is a
            dict with the reason for each product of other 8-bit integers, and for each depthwise convolution.

        Examples
        --------
        >>> import numpy as np, int8blas.onnx, onnx.parser
        >>> model = int8blas.onnx.load(onnx.parser.parse_model('''
        ...     <ir_version: 8, opset_import: ["": 18]>
        ...     product (uint8[n, 2] a) => (float[n, 1] y) <int8[2, 1] w = {127, 127}, float s = {0.01}> {
        ...         sums = MatMulInteger(a, w) real = Cast<to = 1>(sums) y = Mul(real, s)
        ...     }'''))
        >>> model.saturations({"a": np.array([[255, 255], [0, 0]], np.uint8)})
        {'sums': 1}
        """
        plan, arguments = self._prepared(feeds)
        with RunContext():
            return saturations(plan, arguments)

    def save(self, path: Target) -> None:
        """Write the model to a file that :func:`int8blas.load` maps, without the package onnx.

        Parameters
        ----------
        path : path-like or file object
            A target of :func:`int8blas.save`; ``int8blas.save(path, model)`` is equivalent.
        """
        save(path, self)

    def __reduce__(self) -> tuple[Any, ...]:
        return restored, (plain(self._network),)

    def _computed(self, plan: Plan, arguments: list[Any]) -> list[Any]:
        """Return all outputs, which may share memory."""
        with RunContext(self._network.threads):
            return plan.run(arguments)

    def _prepared(self, feeds: Mapping[str, Any]) -> tuple[Plan, list[Any]]:
        """Return the plan for these feeds, and the checked arguments in the order of the plan's inputs."""
        views = read_only_views(feeds, self._ports) if type(feeds) is dict else None
        if views is not None:
            return self._plan, views
        check_mapping(feeds, "feeds")
        replaced = tuple([value for value in self._network.overridable if value.name in feeds])
        values = self._inputs + replaced
        missing = [value.name for value in self._inputs if value.name not in feeds]
        if missing or len(feeds) > len(values):
            unknown = sorted(feeds.keys() - {value.name for value in values})
            told = " and ".join(f"{some} {what}" for some, what in ((missing, "missing"), (unknown, "unknown")) if some)
            wanted = [value.name for value in self._inputs]
            raise ValueError(f"feeds must have {wanted}, got {sorted(feeds)}: {told}")
        arguments = [read_only(checked(value, feeds[value.name])) for value in values]
        return self._plan_of(replaced) if replaced else self._plan, arguments

    def _plan_of(self, replaced: tuple[Value, ...]) -> Plan:
        """Return the plan that takes these constants as inputs. Several threads may call this method at once."""
        names = tuple(value.name for value in replaced)
        plan = self._others.get(names)
        if plan is None:
            plan = planned(self._network.overridden(replaced))
            if len(self._others) >= MOST_PLANS:
                self._others = {}
            self._others[names] = plan
        return plan


def planned(network: Network) -> Plan:
    """Return the plan of a network, with the float parts in onnxruntime if the network asks for it."""
    wide = with_islands(network) if network.floats == "onnxruntime" else widened(network)
    check_operators(wide)
    narrow = network.floats == "own" and wide is not network
    with RunContext():
        return make_plan(fused(wide, FLOAT16_TOLERANCE) if narrow else fused(wide))


@contextlib.contextmanager
def uncollected() -> Iterator[None]:
    """Disable the garbage collector. It would search all objects of the process for each 1e4 new nodes and tuples."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def checked_names(given: Iterable[str], names: Collection[str]) -> list[str]:
    """Return names of outputs as a list, because an iterator can be read only once."""
    if not hasattr(given, "__iter__"):
        raise TypeError(f"output_names must be a sequence of names, got {type(given).__name__}")
    wanted = list(given)
    unknown = [name for name in wanted if name not in names]
    if unknown:
        raise ValueError(f"output_names must be among {list(names)}, got {unknown}")
    return wanted


def check_mapping(given: Any, name: str) -> None:
    if not hasattr(given, "keys"):
        raise TypeError(f"{name} must be a mapping of names to arrays, got {type(given).__name__}")


def restored(values: Any) -> Model:
    """Return the model of the values from a file or pickle."""
    try:
        return Model(network_of(values))
    except NotImplementedError as error:
        raise ValueError(str(error)) from None


register(Model, restored)


def checked(value: Value, feed: Any) -> Any:
    """Return a feed as an array, and check it against the input's declaration. Named sizes may have any value, as in
    onnxruntime: some files use one name for several sizes."""
    name = f"feeds[{value.name!r}]"
    if value.dtype is None:  # a sequence or an optional value
        return feed
    if value.dtype.hasobject:
        array = np.asarray(feed, object)
    else:
        array = as_array(feed, name)
        if array.dtype != value.dtype:
            raise TypeError(f"{name} must be {value.dtype.name}, got {array.dtype.name}")
        array = array.view(value.dtype)  # the dtype of an unpickled array is another object
    if value.shape is None or array.shape == value.shape:
        return array
    pairs = zip(array.shape, value.shape, strict=False)
    if array.ndim != len(value.shape) or any(isinstance(wanted, int) and wanted != size for size, wanted in pairs):
        raise ValueError(f"{name} must have shape {value.shape}, got {array.shape}")
    return array


def read_only(feed: Any) -> Any:
    """Return a read-only view of an array, so that :func:`separated` finds the results that share its memory."""
    if not isinstance(feed, np.ndarray):
        return [read_only(element) for element in feed] if isinstance(feed, list) else feed
    feed = feed.view()
    feed.flags.writeable = False
    return feed


def separated(results: list[Any], kept: list[Any]) -> list[Any]:
    """Copy each array that shares memory: read-only arrays, which belong to a feed or to the model, and arrays that
    share memory with earlier results. `kept` has the earlier results."""
    for i, result in enumerate(results):
        if isinstance(result, list):
            results[i] = separated(list(result), kept)
        elif isinstance(result, np.ndarray):
            if not are_separate([*kept, result]):
                results[i] = result = in_c_order(result) if result.dtype.kind in "biuf" else result.copy()
            kept.append(result)
    return results


def load(
    source: Any,
    *,
    dynamic: bool = False,
    floats: Literal["own", "onnxruntime"] = "own",
    quantize: Literal["weights", "dynamic"] | Mapping[str, Any] | Iterable[Mapping[str, Any]] | None = None,
    keep: Sequence[str] = (),
    num_threads: int | None = None,
) -> Model:
    """Load an ONNX file.

    Parameters
    ----------
    source : path-like, bytes or onnx.ModelProto
        The file, its bytes or its protobuf. A model with external tensors needs a path. The files of external tensors
        must lie in the folder of the path or below.
    dynamic : bool, optional
        Compute products of float32 with stored 8-bit weights in int8. A product with stored weights is a MatMul or Gemm
        after a DequantizeLinear, or after Cast and Mul. The float32 factor is quantized with a scale for each row, as
        in :meth:`int8blas.InnerProduct.dynamic`, which changes the results. By default such products use float32, as
        the file says.
    floats : {"own", "onnxruntime"}, optional
        The package that computes the float parts of the file (see docs/howto/onnx.md).
    quantize : {"weights", "dynamic"}, mapping, or iterable of mapping, optional
        Quantize the products of a float32 file: Conv, ConvTranspose, MatMul and Gemm with constant weights. "weights"
        stores the weights of MatMul and Gemm in int8, and multiplies in float32. "dynamic" multiplies in int8. Each run
        quantizes the factor that is not constant: each row (MatMul, Gemm) or each image by its own range. If feeds as
        for :meth:`Model.run` are given, they calibrate a static quantization, and tensors between the products are int8
        too.
    keep : sequence of str, optional
        The names of nodes whose products `quantize` leaves in float32, such as the first and the last one.
    num_threads : int, optional
        The maximum number of threads of a run of this model, as :func:`int8blas.num_threads` sets it for calls. Saved
        models and pickles keep the number.

    Returns
    -------
    Model
        The model, with packed weights of its integer products, and with all tensors that depend only on constants.

    Raises
    ------
    ImportError
        If the package onnx, which reads the file, is not installed (``pip install 'int8blas[onnx]'``), or if `floats`
        names onnxruntime, which is not installed.
    NotImplementedError
        If int8blas lacks operators of the file. The error names all missing operators, with their nodes.
    TypeError, ValueError
        If the file is damaged or its graph is wrong. The error or its note names the node or tensor.

    Examples
    --------
    >>> import numpy as np, int8blas.onnx, onnx.parser
    >>> file = onnx.parser.parse_model('''
    ...     <ir_version: 8, opset_import: ["": 18]>
    ...     product (uint8[n, 3] a, uint8[3, 2] b) => (int32[n, 2] y) {
    ...         zero_point = Constant <value: tensor = uint8 {128}> ()
    ...         y = MatMulInteger(a, b, zero_point)
    ...     }''').SerializeToString()
    >>> model = int8blas.onnx.load(file)
    >>> [(port.name, port.shape, port.type) for port in model.get_inputs()]
    [('a', ['n', 3], 'tensor(uint8)'), ('b', [3, 2], 'tensor(uint8)')]
    >>> feeds = {"a": np.array([[127, 128, 130]], np.uint8), "b": np.array([[1, 2], [3, 4], [5, 6]], np.uint8)}
    >>> model.run(None, feeds)
    [array([[ 9, 10]], dtype=int32)]
    """
    if not isinstance(dynamic, (bool, np.bool_)):
        raise TypeError(f"dynamic must be a bool, got {type(dynamic).__name__}")
    if floats not in ("own", "onnxruntime"):
        raise ValueError(f"floats must be 'own' or 'onnxruntime', got {floats!r}")
    if isinstance(keep, str) or not isinstance(keep, Collection) or not all(isinstance(name, str) for name in keep):
        raise TypeError(f"keep must be a sequence of names, got {keep!r}")
    if num_threads is not None and integer(num_threads, "num_threads") < 1:
        raise ValueError(f"num_threads must be at least 1, got {num_threads}")
    if keep and quantize is None:
        raise ValueError("keep must be given with quantize only")
    try:
        with uncollected():
            network = replace(read(source), dynamic=bool(dynamic), floats=floats, threads=num_threads)
            if quantize is not None:
                network = quantized(network, quantize, keep, lambda each: partial(Model(each).run, None))
            return Model(network)
    except WRONG as error:
        raise wrong(error, "while the model was made") from error


__all__ = ["Model", "Port", "load"]
