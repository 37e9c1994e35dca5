"""Tensors that depend on the shapes of a graph's inputs alone, such as the shape for a Reshape. A plan computes tensors
that depend on shapes alone once for each combination of shapes.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from int8blas.onnx.graph import Node
from int8blas.onnx.operators import TABLE

# The maximum number of bytes that a plan keeps for one combination of shapes, and the maximum number of combinations.
MOST_BYTES = 1 << 20
COMBINATIONS = 8


def derived(
    calls: Sequence[tuple[Node, Sequence[str], bool]], inputs: Sequence[str], constants: Collection[str]
) -> set[str]:
    """Return the tensors that depend on shapes alone. Each of `calls` has its node, the names of its arguments, and
    whether equal arguments give equal results. The graph's inputs are arrays."""
    shaped, found = {*inputs, *constants, ""}, {*constants, ""}
    for node, names, pure in calls:
        traits = TABLE.traits_of(node)
        if pure and (found.issuperset(names) or (traits.of_shape and shaped.issuperset(names))):
            found.update(node.outputs)
        sizes = [names[i] for i in traits.sized_by or () if i < len(names)]
        if traits.sized_by is not None and shaped.issuperset(names) and found.issuperset(sizes):
            shaped.update(node.outputs)
    return found.difference(constants, ("",))


class Memory:
    """The remembered tensors of some combinations of shapes."""

    def __init__(self) -> None:
        self.known: dict[Any, list[tuple[int, Any]]] = {}

    def remember(self, key: Any, values: list[tuple[int, Any]]) -> None:
        """Remember read-only copies of the values of some slots, unless they are large. Several threads may call it."""
        arrays = [value for _, value in values if isinstance(value, np.ndarray)]
        if len(arrays) == len(values) and sum(array.nbytes for array in arrays) <= MOST_BYTES:
            copies = [array.copy() for array in arrays]
            for copy in copies:
                copy.flags.writeable = False
            latest = list(self.known.items())[1 - COMBINATIONS :]
            self.known = {**dict(latest), key: [(slot, copy) for (slot, _), copy in zip(values, copies, strict=True)]}
