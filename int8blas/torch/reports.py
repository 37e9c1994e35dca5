"""Errors, sizes and times of a model after :func:`quantize_`."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from int8blas.torch.quantize import FLOAT, INT8_MODULES, Int8Dynamic, dequantize_, objection, refuse_static

REPEATS = 5


def execute(model: Callable[..., Any], inputs: Any) -> Any:
    """Call a model with a tensor, a tuple of arguments or a mapping of keyword arguments."""
    if isinstance(inputs, Mapping):
        return model(**inputs)
    return model(*inputs) if type(inputs) in (tuple, list) else model(inputs)


def batches(loader: Any) -> Iterator[Any]:
    """Yield the batches of a loader."""
    if isinstance(loader, (Tensor, Mapping)) or not isinstance(loader, Iterable):
        raise TypeError(
            f"loader must be an iterable of batches, got {type(loader).__name__}: pass [batch] for one batch"
        )
    yield from loader


def tensors_of(output: Any) -> Iterator[Tensor]:
    """Yield the float tensors in an output."""
    if isinstance(output, PackedSequence):
        yield output.data
    elif isinstance(output, Tensor):
        if output.is_floating_point():
            yield output
    elif isinstance(output, (tuple, list, Mapping)):
        for each in output.values() if isinstance(output, Mapping) else output:
            yield from tensors_of(each)


def relative_error(found: Any, wanted: Any) -> float:
    """Return |found - wanted| / |wanted| over all tensors of two outputs, in the Euclidean norm."""
    difference = total = 0.0
    for x, y in zip(tensors_of(found), tensors_of(wanted), strict=True):
        difference += float((x.double() - y.double()).square().sum())
        total += float(y.double().square().sum())
    return float((difference / total) ** 0.5) if total else float(difference > 0)


def shortest_times(*functions: Callable[[], Any]) -> list[float]:
    """Return the shortest time of each function in seconds. The functions take turns."""
    times: list[list[float]] = [[] for _ in functions]
    for _ in range(REPEATS):
        for function, found in zip(functions, times, strict=True):
            start = time.perf_counter()
            function()
            found.append(time.perf_counter() - start)
    return [min(found) for found in times]


def size_of(module: nn.Module) -> int:
    """Return the bytes of a module's parameters and buffers."""
    return sum(each.nbytes for each in (*module.parameters(), *module.buffers()))


@dataclass(frozen=True)
class Row:
    """One module of a :class:`Report`, or the whole model.

    Parameters
    ----------
    name : str
        The name of the module in the model; "" for the model.
    module : str
        The class of the module.
    mode : str
        "int8" or "float".
    reason : str
        The reason why the module stays float.
    bytes_before, bytes_after : int
        The bytes of parameters and buffers of the float module, and of the module now.
    error : float or None
        |int8 - float| / |float| of the results, in the Euclidean norm; None if the module was not called.
    seconds_before, seconds_after : float or None
        The shortest times of the float module and of the int8 module.
    """

    name: str
    module: str
    mode: str
    reason: str
    bytes_before: int
    bytes_after: int
    error: float | None = None
    seconds_before: float | None = None
    seconds_after: float | None = None

    def cells(self) -> tuple[str, ...]:
        """Return the words of the row in the printed table."""
        error = "" if self.error is None else f"{self.error:.4f}"
        times = ("" if each is None else f"{1e3 * each:.3f}" for each in (self.seconds_before, self.seconds_after))
        sizes = (f"{each / 1e6:.3f}" for each in (self.bytes_before, self.bytes_after))
        return self.name or "all", self.module, self.mode, *sizes, error, *times, self.reason


@dataclass(frozen=True)
class Report:
    """The result of :func:`report`: a row for each module with large weights, and one row for the model.

    Parameters
    ----------
    rows : tuple of Row
        The modules, in the model's order.
    model : Row
        The whole model.
    """

    HEAD = ("name", "module", "mode", "MB before", "after", "error", "ms before", "after", "why float")

    rows: tuple[Row, ...]
    model: Row

    def to_dict(self) -> dict[str, Any]:
        """Return the rows as dictionaries.

        Returns
        -------
        dict
            The keys are "rows", with a list of rows, and "model", with one row.
        """
        return {"rows": [asdict(row) for row in self.rows], "model": asdict(self.model)}

    def __str__(self) -> str:
        lines = [self.HEAD, *(row.cells() for row in (*self.rows, self.model))]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        return "\n".join(
            "  ".join(
                cell.rjust(width) if 3 <= k < 8 else cell.ljust(width)
                for k, (cell, width) in enumerate(zip(line, widths, strict=True))
            ).rstrip()
            for line in lines
        )


def parts_of(model: nn.Module, name: str = "") -> Iterator[tuple[str, nn.Module]]:
    """Return the modules that get rows of the table: int8 modules, and float modules that have matrices."""
    own = any(each.dim() > 1 for each in model.parameters(recurse=False))
    if isinstance(model, (*INT8_MODULES, nn.MultiheadAttention)) or own:
        yield name, model
    if not isinstance(model, (*INT8_MODULES, nn.MultiheadAttention)):
        for key, child in model.named_children():
            yield from parts_of(child, f"{name}.{key}" if name else key)


def as_floats_of(module: nn.Module, inputs: Any) -> Any:
    """Convert all float tensors among arguments to the dtype of a module's parameters."""
    dtype = next((each.dtype for each in module.parameters()), torch.float32)
    if isinstance(inputs, Tensor):
        return inputs.to(dtype) if inputs.is_floating_point() else inputs
    if isinstance(inputs, PackedSequence):
        return inputs.to(dtype)
    if isinstance(inputs, Mapping):
        return {key: as_floats_of(module, each) for key, each in inputs.items()}
    return tuple(as_floats_of(module, each) for each in inputs) if isinstance(inputs, (tuple, list)) else inputs


def measured(name: str, module: nn.Module, before: nn.Module, args: Any, kwargs: Any) -> Row:
    """Return the row of an int8 module for the arguments of a call."""
    other, options = as_floats_of(before, args), as_floats_of(before, kwargs)
    error = relative_error(module.forward(*args, **kwargs), before.forward(*other, **options))
    times = shortest_times(lambda: before.forward(*other, **options), lambda: module.forward(*args, **kwargs))
    return Row(name, type(module).__name__, "int8", "", size_of(before), size_of(module), error, *times)


def report(model: nn.Module, inputs: Any, *, reference: nn.Module | None = None) -> Report:
    """Compare the int8 modules of a model with float modules on the inputs that reach them.

    Parameters
    ----------
    model : nn.Module
        A model after :func:`quantize_`.
    inputs : Tensor, tuple or mapping
        The inputs of one call: a tensor, the arguments, or the keyword arguments.
    reference : nn.Module, optional
        The float model, with the structure of `model`. The default is `model` with dequantized weights. With the
        default, errors do not include the rounding of the weights.

    Returns
    -------
    Report
        A table for ``print``, and :meth:`Report.to_dict`.

    See Also
    --------
    compare : a metric of two models on data.

    Examples
    --------
    >>> import copy, torch, int8blas.torch
    >>> model = torch.nn.Sequential(torch.nn.Linear(512, 256), torch.nn.ReLU(), torch.nn.Linear(256, 10))
    >>> near = int8blas.torch.quantize_(copy.deepcopy(model), filter=lambda name, module: name != "2")
    >>> found = int8blas.torch.report(near, torch.randn(8, 512), reference=model)
    >>> [(row.name, row.mode, row.reason) for row in found.rows]
    [('0', 'int8', ''), ('2', 'float', 'filter did not choose it')]
    >>> found.rows[0].error < 0.02
    True
    """
    if not isinstance(model, nn.Module):
        raise TypeError(f"model must be a torch.nn.Module, got {type(model).__name__}")
    refuse_static(model, "compare it with its float model: int8blas.torch.compare(float_model, model, loader)")
    parts = dict(parts_of(model))
    for name in parts:
        try:
            (model if reference is None else reference).get_submodule(name)
        except AttributeError as missing:
            raise ValueError(f"reference must have the modules of model, got no {name!r}: pass the float model, "
                             f"such as a copy.deepcopy before quantize_, or None") from missing  # fmt: skip
    rows: dict[str, Row] = {}
    for name, module in parts.items():
        size = size_of(module)
        if isinstance(module, INT8_MODULES):
            before = reference.get_submodule(name) if reference is not None else module.dequantized()
            rows[name] = Row(name, type(module).__name__, "int8", "", size_of(before), size)
        else:
            reason = FLOAT.get(module) or objection(module, Int8Dynamic()) or "quantize_ did not see it"
            rows[name] = Row(name, type(module).__name__, "float", reason, size, size)

    def look(name: str) -> Callable[..., None]:
        def hook(module: Any, args: Any, kwargs: Any) -> None:
            if rows[name].error is None:
                before = reference.get_submodule(name) if reference is not None else module.dequantized()
                rows[name] = measured(name, module, before.train(module.training), args, kwargs)

        return hook

    with torch.no_grad():
        handles = [
            module.register_forward_pre_hook(look(name), with_kwargs=True)
            for name, module in parts.items()
            if isinstance(module, INT8_MODULES)
        ]
        try:
            found = execute(model, inputs)
        finally:
            for handle in handles:
                handle.remove()
        whole = dequantize_(copy.deepcopy(model)) if reference is None else reference
        given = as_floats_of(whole, inputs)
        error = relative_error(found, execute(whole, given))
        times = shortest_times(lambda: execute(whole, given), lambda: execute(model, inputs))
    mode = "int8" if any(row.mode == "int8" for row in rows.values()) else "float"
    total = Row("", type(model).__name__, mode, "", size_of(whole), size_of(model), error, *times)
    return Report(tuple(rows.values()), total)


@dataclass(frozen=True)
class Comparison:
    """The result of :func:`compare`.

    Parameters
    ----------
    batches : int
        The number of batches.
    metric_before, metric_after : float or None
        The mean of the metric over all batches, for the float model and the int8 model.
    error : float
        The mean over all batches of |int8 - float| / |float| of the outputs, in the Euclidean norm.
    seconds_before, seconds_after : float
        The time of all batches.
    bytes_before, bytes_after : int
        Sizes of parameters and buffers.
    """

    batches: int
    metric_before: float | None
    metric_after: float | None
    error: float
    seconds_before: float
    seconds_after: float
    bytes_before: int
    bytes_after: int

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers as a dictionary.

        Returns
        -------
        dict
        """
        return asdict(self)

    def __str__(self) -> str:
        lines = [f"error   {self.error:.4f}, {self.batches} batches"]
        if self.metric_before is not None:
            lines.append(f"metric  {self.metric_before:.4f} float, {self.metric_after:.4f} int8")
        lines.append(f"time    {self.seconds_before:.3f} s float, {self.seconds_after:.3f} s int8")
        lines.append(f"size    {self.bytes_before / 1e6:.2f} MB float, {self.bytes_after / 1e6:.2f} MB int8")
        return "\n".join(lines)


def compare(
    model: nn.Module, quantized: nn.Module, loader: Iterable[Any], metric: Callable[[Any, Any], float] | None = None
) -> Comparison:
    """Compare a float model and an int8 model on data.

    Parameters
    ----------
    model, quantized : nn.Module
        The two models.
    loader : iterable
        Batches. The models are called with the batch if it is a tensor, with keyword arguments if it is a mapping, and
        with its first element if it is a tuple or a list.
    metric : callable, optional
        ``metric(output, batch)`` returns a number for the output of a batch.

    Returns
    -------
    Comparison

    Examples
    --------
    >>> import copy, torch, int8blas.torch
    >>> model = torch.nn.Linear(64, 10)
    >>> near = int8blas.torch.quantize_(copy.deepcopy(model))
    >>> batches = [(torch.randn(32, 64), torch.randint(0, 10, (32,))) for _ in range(3)]
    >>> def accuracy(output, batch):
    ...     return (output.argmax(1) == batch[1]).float().mean().item()
    >>> found = int8blas.torch.compare(model, near, batches, accuracy)
    >>> abs(found.metric_after - found.metric_before) < 0.1, found.error < 0.02
    (True, True)
    """
    for name, value in (("model", model), ("quantized", quantized)):
        if not isinstance(value, nn.Module):
            raise TypeError(f"{name} must be a torch.nn.Module, got {type(value).__name__}")
    if metric is not None and not callable(metric):
        raise TypeError(f"metric must be callable or None, got {type(metric).__name__}")
    metrics: list[tuple[float, float]] = []
    errors: list[float] = []
    seconds = [0.0, 0.0]
    with torch.no_grad():
        for batch in batches(loader):
            inputs = batch[0] if isinstance(batch, (tuple, list)) else batch
            outputs = []
            for k, each in enumerate((model, quantized)):
                start = time.perf_counter()
                outputs.append(execute(each, inputs))
                seconds[k] += time.perf_counter() - start
            errors.append(relative_error(outputs[1], outputs[0]))
            if metric is not None:
                metrics.append((float(metric(outputs[0], batch)), float(metric(outputs[1], batch))))
    if not errors:
        raise ValueError("loader must have at least one batch, got none: an iterator that was used is empty, a list "
                         "is not")  # fmt: skip
    before, after = (sum(values) / len(values) for values in zip(*metrics, strict=True)) if metrics else (None, None)
    sizes = size_of(model), size_of(quantized)
    return Comparison(len(errors), before, after, sum(errors) / len(errors), seconds[0], seconds[1], *sizes)
