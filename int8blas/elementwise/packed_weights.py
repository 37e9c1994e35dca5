"""Weights as PackedB: each group is the matrix (ic * kh * kw, oc) by which patches of an image are multiplied."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from int8blas.core.layouts import logical_order, permutation
from int8blas.core.parameters import integer
from int8blas.core.words import shown
from int8blas.gemm.packing import PackedB, pack_b


def check_k_order(k_order: Any, layout: str) -> str:
    """Return the order of the dimensions that make up K, by default the logical order."""
    letters = "".join(letter for letter in logical_order(layout) if letter not in "go")
    if k_order is None:
        return letters
    if not isinstance(k_order, str):
        raise TypeError(f"k_order must be a string, got {type(k_order).__name__}")
    if sorted(k_order) != sorted(letters):
        raise ValueError(f"k_order must be an order of the letters {', '.join(letters)}, got {shown(k_order)}")
    return k_order


def pack(weights: npt.NDArray[Any], letters: str, k_order: str) -> PackedB | tuple[PackedB, ...]:
    """Pack weights, and return a tuple if they are grouped. `letters` names the axes in logical order."""
    outer = letters[: letters.index("i")]
    ordered = weights.transpose(permutation(letters, outer + k_order))
    groups = ordered if "g" in letters else ordered[np.newaxis]
    k = math.prod(groups.shape[2:])
    packed = tuple(pack_b(group.reshape(group.shape[0], k), trans_b=True) for group in groups)
    return packed if "g" in letters else packed[0]


def unpack(x: Any, layout: str, k_order: Any, shape: Any) -> npt.NDArray[Any]:
    """Return weights from the result of `pack`, with axes in logical order. `layout` has the letters of the axes."""
    letters = logical_order(layout)
    k_order = check_k_order(k_order, layout)
    groups = x if "g" in letters else (x,)
    if not isinstance(groups, Sequence) or not groups or not all(isinstance(packed, PackedB) for packed in groups):
        wanted = "a sequence of PackedB, one for each group," if "g" in letters else "a PackedB"
        raise TypeError(f"x must be {wanted} for src_layout 'packed' and dst_layout {layout!r}, got {type(x).__name__}")
    k, oc = groups[0].shape
    if any(packed.shape != (k, oc) or packed.dtype != groups[0].dtype for packed in groups):
        raise ValueError("x must have groups of one shape and dtype, got " + ", ".join(map(repr, groups)))
    outer = (len(groups), oc) if "g" in letters else (oc,)
    if shape is not None:
        sizes = _check_shape(shape, letters)
    elif k_order == "i":
        sizes = (*outer, k)
    else:
        raise ValueError(f"shape must be the sizes of {', '.join(letters)}, which a PackedB does not store, got None")
    if sizes[: len(outer)] != outer or math.prod(sizes[len(outer) :]) != k:
        raise ValueError(
            f"shape must begin with {outer}, and its other sizes must have the product {k}, as in x, got {sizes}"
        )
    order = letters[: len(outer)] + k_order
    matrices = np.stack([packed.unpack().T for packed in groups])
    ordered = matrices.reshape([sizes[letters.index(letter)] for letter in order])
    return ordered.transpose(permutation(order, letters))


def _check_shape(shape: Any, letters: str) -> tuple[int, ...]:
    """Return the sizes of the dimensions that `letters` name."""
    try:
        sizes = tuple(integer(size, "shape") for size in shape)
    except TypeError:
        raise TypeError(f"shape must be integers, got {shown(shape)}") from None
    if len(sizes) != len(letters) or min(sizes) < 0:
        raise ValueError(f"shape must be {len(letters)} sizes ({', '.join(letters)}), none negative, got {sizes}")
    return sizes
