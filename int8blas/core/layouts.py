"""Memory layouts as strings of dimension letters, and the logical order of these dimensions.

The letters of a layout have the order of the array's axes, outermost first: "nhwc" is an array of shape (N, H, W, C).
All layouts of a tensor share one logical order of dimensions: (n, c, d, h, w) for data, and (g, o, i, d, h, w) for
weights. A layout may lack some of these letters. Bit i of a mask selects dimension i of the logical order.
"""

import functools
import math
from typing import Any

import numpy.typing as npt

from int8blas.core.parameters import integer
from int8blas.core.words import shown

DATA = "ncdhw"
WEIGHTS = "goidhw"
# The allowed sets of letters. Spatial letters are in the order d, h, w. The letters c, g, i, n and o are in
# alphabetical order.
SPATIAL = ("", "w", "hw", "dhw")
OTHERS = ("cn", "io", "gio")

PACKED = "packed"


def check_layout(layout: Any, name: str) -> str:
    """Return a layout of data or weights, or raise an error."""
    if not isinstance(layout, str):
        raise TypeError(f"{name} must be a string, got {type(layout).__name__}")
    return checked_layout(layout, name)


def check_letters(layout: str, name: str) -> str:
    """Return a layout, or raise an error if it has wrong letters."""
    spatial = "".join(letter for letter in "dhw" if letter in layout)
    others = "".join(sorted(letter for letter in layout if letter not in spatial))
    if spatial not in SPATIAL or others not in OTHERS or len(layout) != len(spatial) + len(others):
        raise ValueError(
            f"{name} must be an order of the letters n, c (data) or o, i or g, o, i (weights) with w, h w or d h w or "
            f"none of them, each once, such as 'nhwc' or 'oihw', got {shown(layout)}"
        )
    return layout


checked_layout = functools.cache(check_letters)


def find_logical_order(layout: str) -> str:
    """Return the letters of a layout in the logical order."""
    return "".join(letter for letter in (DATA if "n" in layout else WEIGHTS) if letter in layout)


logical_order = functools.cache(find_logical_order)


def find_permutation(source: str, target: str) -> tuple[int, ...]:
    """Return the axes for ``transpose`` from layout `source` to layout `target`."""
    return tuple(source.index(letter) for letter in target)


permutation = functools.cache(find_permutation)


def mask_axes(mask: Any, ndim: int, name: str = "mask") -> tuple[int, ...]:
    """Return the dimensions that the bits of a mask select."""
    value = integer(mask, name)
    if not 0 <= value < 1 << ndim:
        raise ValueError(f"{name} must be between 0 and {(1 << ndim) - 1} for {ndim} dimensions, got {shown(value)}")
    return tuple(axis for axis in range(ndim) if value >> axis & 1)


def spread(values: npt.NDArray[Any], shape: tuple[int, ...], axes: tuple[int, ...], name: str) -> npt.NDArray[Any]:
    """Return values as an array: of shape () if there is one value, or of shape (count,) if each index of the selected
    dimensions has a value."""
    selected = tuple(shape[axis] for axis in axes)
    count = math.prod(selected)
    if values.ndim == 0:
        return values
    if values.shape not in ((count,), selected):
        sizes = f"dimensions {axes} of sizes {selected}" if axes else "no dimension"
        raise ValueError(f"{name} must be one number or {count} (the mask selects {sizes}), got shape {values.shape}")
    return values.reshape(count) if axes else values.reshape(())


def aligned(values: npt.NDArray[Any], shape: tuple[int, ...], axes: tuple[int, ...]) -> npt.NDArray[Any]:
    """Return the values of :func:`spread` in a shape that broadcasts to the whole array."""
    if values.ndim == 0:
        return values
    return values.reshape([size if axis in axes else 1 for axis, size in enumerate(shape)])


def is_weights(layout: str) -> bool:
    """Return whether a layout is a layout of weights."""
    return "o" in layout


def to_logical(
    array: npt.NDArray[Any], name: str, layout: Any, layout_name: str
) -> tuple[npt.NDArray[Any], str | None]:
    """Return a view with the axes in logical order, and the letters of the axes (None without a layout)."""
    if layout is None:
        return array, None
    layout = check_layout(layout, layout_name)
    if array.ndim != len(layout):
        raise ValueError(f"{name} must have {len(layout)} dimensions, as {layout_name} {layout!r} has, "
                         f"got shape {array.shape}")  # fmt: skip
    letters = logical_order(layout)
    return array.transpose(permutation(layout, letters)), letters
