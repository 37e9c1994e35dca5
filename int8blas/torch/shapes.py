"""The shapes of a static network's results, which compilers of torch need before the network runs.

A text lists the operators of torch that a network replaces. int8blas executes these operators on the compiler's
tensors, which have no data, to find the shapes. A text can name only operators in torch.ops.
"""

from __future__ import annotations

import functools
import importlib
import json
import operator
from collections.abc import Callable, Sequence
from itertools import zip_longest
from typing import Any

import torch
from torch import Tensor, fx
from torch._ops import OpOverload


def recorded(part: fx.GraphModule, is_constant: Callable[[fx.Node], bool]) -> str:
    """Return the text of a part of a graph.

    Parameters
    ----------
    part : fx.GraphModule
        The part.
    is_constant : callable
        A function that returns whether a placeholder is a constant of the network, and not an input.
    """
    places: dict[fx.Node, int] = {}

    def word(value: Any) -> Any:
        if isinstance(value, fx.Node):
            return {"node": places[value]}
        if isinstance(value, (torch.dtype, torch.memory_format)):
            return {"torch": str(value).removeprefix("torch.")}
        return [word(each) for each in value] if isinstance(value, (list, tuple)) else value

    lines: list[Any] = []
    for node in part.graph.nodes:
        if node.op == "placeholder" and is_constant(node):
            lines.append(["constant", list(node.meta["val"].shape), word(node.meta["val"].dtype)])
        elif node.op == "placeholder":
            lines.append(["tensor" if isinstance(node.meta["val"], Tensor) else "size"])
        else:
            name = {operator.getitem: "getitem", "output": "output"}.get(node.target, str(node.target))
            lines.append([name, word(node.args), {key: word(value) for key, value in node.kwargs.items()}])
        places[node] = len(places)
    return json.dumps(lines, separators=(",", ":"))


def difference(found: str, wanted: str) -> str:
    """Describe the first operator that differs between two texts. Return "" for equal texts. Ignore the scales and zero
    points of quantizers, because they come from the data.
    """
    given, own = ([described(line) for line in json.loads(text)] for text in (found, wanted))
    for k, (mine, yours) in enumerate(zip_longest(own, given)):
        if mine != yours:
            return f"whose line {k} is {yours or 'missing'} instead of {mine or 'missing'}"
    return ""


def described(line: list[Any]) -> str:
    """Return a line of a text without the numbers that come from data."""
    name, *rest = line
    if name.startswith("quantized_decomposed"):
        rest = [[word for word in rest[0] if isinstance(word, dict)]]
    return " ".join([name, *map(json.dumps, filter(None, rest))])


def operator_of(name: str) -> Callable[..., Any]:
    """Return the operator of torch with a name such as "aten.relu.default"."""
    if name.startswith("quantized_decomposed"):
        importlib.import_module("torch.ao.quantization.fx._decomposed")  # it defines them
    found: Any = functools.reduce(getattr, name.split("."), torch.ops)
    if not isinstance(found, OpOverload):
        raise ValueError(f"name must be of an operator of torch, got {name!r}")
    return found


def replayed(text: str, tensors: Sequence[Tensor], sizes: Sequence[int]) -> list[Tensor]:
    """Return tensors without data that have the shapes and dtypes of the results."""
    given, numbers = iter(tensors), iter(sizes)
    values: list[Any] = []

    def value(word: Any) -> Any:
        if isinstance(word, dict):
            return values[word["node"]] if "node" in word else getattr(torch, word["torch"])
        return [value(each) for each in word] if isinstance(word, list) else word

    for name, *rest in json.loads(text):
        if name == "constant":
            values.append(tensors[0].new_empty(rest[0], dtype=value(rest[1])))
        elif name in ("tensor", "size"):
            values.append(next(given if name == "tensor" else numbers))
        elif name != "output":
            # Strides may differ from the float graph, so a view of the float graph may be impossible.
            name = "aten.reshape.default" if name == "aten.view.default" else name
            function = operator.getitem if name == "getitem" else operator_of(name)
            values.append(function(*value(rest[0]), **{key: value(word) for key, word in rest[1].items()}))
        else:
            (results,) = value(rest[0])
            made = results if isinstance(results, list) else [results]
            return [each.new_empty(each.shape) for each in made]
    raise ValueError("shapes must end with the results")
