"""Pack weights only once if several nodes of a network share them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, TypeVar

from int8blas.gemm.packing import PackedB, pack_b
from int8blas.onnx.graph import Array

Made = TypeVar("Made")


class Packed:
    """The packed weights of a network, by the constants from which they are packed."""

    def __init__(self) -> None:
        # Keep the constants with the result, so that no other array can reuse their address.
        self.known: dict[Hashable, tuple[Any, Sequence[Array]]] = {}

    def once(self, make: Callable[[], Made], constants: Sequence[Array], *others: Hashable) -> Made:
        """Return the result of `make`. If an earlier call had these constants and values, return its result."""
        key = (*(place(array) for array in constants), *others)
        if key not in self.known:
            self.known[key] = make(), constants
        made: Made = self.known[key][0]
        return made

    def matrix(self, weights: Array) -> PackedB:
        """Return a packed matrix (K, N)."""
        return self.once(lambda: pack_b(weights), [weights])

    def layer(self, make: Callable[[Any], Made], weights: Array, *others: Hashable) -> Made:
        """Return the layer that `make` creates from an array of weights, or from the packed weights of an earlier
        layer. Layers of equal weights and equal `others` have the same packed format."""
        made: list[Made] = []

        def first() -> Made:
            made.append(make(weights))
            return made[0]

        layer: Any = self.once(first, [weights], "layer", *others)
        # A layer is pickled as a constructor and its arguments. The first argument is the packed weights.
        return layer if made else make(layer.__reduce__()[1][0])


def place(array: Array) -> Hashable:
    """Return an array's address and layout."""
    return array.__array_interface__["data"][0], array.shape, array.strides, array.dtype.str
