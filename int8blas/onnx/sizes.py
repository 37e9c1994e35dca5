"""Tensors that follow from the shapes of a graph's inputs alone, such as the shape that a Reshape is given. They are
computed once for each combination of shapes, and remembered.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from int8blas.onnx.graph import Node
from int8blas.onnx.operators import TABLE

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
        traits = TABLE.traits_of(node)
        if pure and (found.issuperset(names) or (traits.of_shape and shaped.issuperset(names))):
            found.update(node.outputs)
        places = traits.sized_by
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
