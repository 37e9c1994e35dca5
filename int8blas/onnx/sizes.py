"""Tensors that follow from the shapes of a graph's inputs alone, such as the shape that a Reshape is given. They are
computed once for each combination of shapes, and remembered.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from int8blas.onnx import chains, lookups, views
from int8blas.onnx.graph import Node
from int8blas.onnx.table import DOMAIN

# Operators that tell a shape.
TELL = {"Shape", "Size"}
# Operators whose results' shapes follow from the shapes of their inputs, and from the values of those at these places.
BY_VALUE: dict[str, Sequence[int]] = {
    "Reshape": (1,), "Expand": (1,), "ConstantOfShape": (0,), "Tile": (1,), "Unsqueeze": (1,), "Squeeze": (1,),
    "Range": (0, 1, 2), "Slice": (1, 2, 3, 4), "Pad": (1, 3), "Split": (1,), "ReduceMean": (1,), "ReduceSum": (1,),
    "ReduceMax": (1,), "ReduceMin": (1,), "ReduceProd": (1,), "TopK": (1,),
    f"{DOMAIN}.View": range(1, views.MOST_INPUTS + 1),
}  # fmt: skip
# And those whose results' shapes follow from their inputs' shapes alone.
BY_SHAPE = {
    *lookups.ELEMENTS, *chains.SAME_TYPE, *chains.TYPED_BY, *TELL, "And", "ArgMax", "ArgMin", "Cast", "ConvInteger",
    "DynamicQuantizeLinear", "Equal", "GatherElements", "GatherND", "Greater", "GreaterOrEqual", "IsNaN", "Less",
    "LessOrEqual", "LogSoftmax", "MatMulInteger", "Mod", "Not", "Or", "QLinearConv", "QLinearMatMul", "Trilu", "Where",
    "com.microsoft.QGemm", "com.microsoft.QLinearAveragePool", "com.microsoft.QLinearConcat",
    "com.microsoft.QLinearGlobalAveragePool", "com.microsoft.QLinearSoftmax", f"{DOMAIN}.Chain",
    f"{DOMAIN}.ChainOfTwo", f"{DOMAIN}.Table",
} - BY_VALUE.keys()  # fmt: skip
# What is remembered, in all, of one combination of shapes, and of how many.
MOST_BYTES = 1 << 20
COMBINATIONS = 8


def derived(
    calls: Sequence[tuple[Node, Sequence[str], bool]], inputs: Sequence[str], constants: Collection[str]
) -> set[str]:
    """The tensors that follow from shapes alone.

    Parameters
    ----------
    calls : sequence of (Node, sequence of str, bool)
        Each call's node, the names of its arguments, and whether its results are the same for the same arguments.
    inputs : sequence of str
        The graph's inputs, which are arrays.
    constants : collection of str
        Tensors that are constant.
    """
    shaped, found = {*inputs, *constants, ""}, {*constants, ""}
    for node, names, pure in calls:
        if pure and (found.issuperset(names) or (node.kind in TELL and shaped.issuperset(names))):
            found.update(node.outputs)
        places = BY_VALUE.get(node.kind, () if node.kind in BY_SHAPE else None)
        if (
            places is not None
            and shaped.issuperset(names)
            and found.issuperset(names[i] for i in places if i < len(names))
        ):
            shaped.update(node.outputs)
    return found.difference(constants, ("",))


class Memory:
    """What has been computed of some combinations of shapes."""

    def __init__(self) -> None:
        self.known: dict[Any, list[tuple[int, Any]]] = {}

    def remember(self, key: Any, values: list[tuple[int, Any]]) -> None:
        """Keep the values of some slots, unless they are large. Several threads may do this at a time."""
        arrays = [value for _, value in values if isinstance(value, np.ndarray)]
        if len(arrays) == len(values) and sum(array.nbytes for array in arrays) <= MOST_BYTES:
            if len(self.known) >= COMBINATIONS:
                self.known = {}
            self.known[key] = values


def shapes_of(arguments: Sequence[Any]) -> Any:
    """The key of a combination of shapes; None if not all arguments are arrays."""
    try:
        return tuple([argument.shape for argument in arguments])
    except AttributeError:
        return None
