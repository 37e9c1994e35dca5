"""Weights that several nodes of a network share are packed once."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, TypeVar

from int8blas.gemm.packing import PackedB, pack_b
from int8blas.onnx.graph import Array

Made = TypeVar("Made")


class Packed:
    """The results of packing, by the constants that they are made of."""

    def __init__(self) -> None:
        # The constants are kept with the result, so that no other array comes to lie in their place.
        self.known: dict[Hashable, tuple[Any, Sequence[Array]]] = {}

    def once(self, make: Callable[[], Made], constants: Sequence[Array], *others: Hashable) -> Made:
        """Return the result of `make`, called once for the same constants and the same other values."""
        key = (*(place(array) for array in constants), *others)
        if key not in self.known:
            self.known[key] = make(), constants
        made: Made = self.known[key][0]
        return made

    def matrix(self, weights: Array) -> PackedB:
        """Return a matrix (K, N), packed."""
        return self.once(lambda: pack_b(weights), [weights])

    def layer(self, make: Callable[[Any], Made], weights: Array, *others: Hashable) -> Made:
        """Return a layer that `make` makes of weights: as an array, or as an earlier layer has packed them. Layers with
        the same other values pack in the same way."""
        made: list[Made] = []

        def first() -> Any:
            made.append(make(weights))
            # A layer is pickled as a constructor and its arguments, of which packed weights are the first.
            return made[0].__reduce__()[1][0]

        packed = self.once(first, [weights], "layer", *others)
        return made[0] if made else make(packed)


def place(array: Array) -> Hashable:
    """Return where an array's elements are in memory, and how they are read."""
    return array.__array_interface__["data"][0], array.shape, array.strides, array.dtype.str
