"""Spatial arguments of convolution and pooling: layouts, kernels, strides, dilation and padding.

Values have the order of the spatial dimensions, outermost first: d, h, w. An argument is one number for all dimensions,
or one number for each dimension. The functions of this module return a tuple with one number for each dimension.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from int8blas.core.layouts import permutation
from int8blas.core.parameters import integer

# Names of layouts by the number of spatial dimensions, with channels last and with channels first.
LAYOUTS = {1: ("nwc", "ncw"), 2: ("nhwc", "nchw"), 3: ("ndhwc", "ncdhw")}

# The largest parameter. With parameters up to LARGEST, all sizes and positions that are computed from them fit 64 bits.
LARGEST = 2**31 - 1

# The axes for `transpose` to the order (n, d, h, w, c), without absent dimensions. The keys are the number of spatial
# dimensions, and whether the channels come last.
CHANNELS_LAST_AXES = {
    (spatial, layout == last): permutation(layout, last)
    for spatial, (last, first) in LAYOUTS.items()
    for layout in (last, first)
}

Pair = tuple[int, int]

# Names of padding, as in other libraries. The sizes of source, windows and strides determine the amount of padding.
PADDING_NAMES = {"valid": "valid", "same": "same", "same_upper": "same", "same_lower": "same_lower"}


def layout_name(layout: Any) -> str:
    """Return a layout in lower case, for comparison."""
    if isinstance(layout, str):
        return layout.lower()
    if type(layout).__module__.partition(".")[0] == "torch":
        # A memory format does not change the order of a tensor's dimensions, which is always channels first.
        raise TypeError(
            f"layout must be a string or None, got {layout}: a torch tensor is {LAYOUTS[2][1]!r}, whatever its memory "
            "format is"
        )
    raise TypeError(f"layout must be a string or None, got {type(layout).__name__}")


def parse_layout(layout: Any, ndim: int, name: str) -> tuple[int, bool]:
    """Return the number of spatial dimensions of the array `name` with `ndim` dimensions, and whether channels come
    last.

    A layout of None stands for channels last.
    """
    spatial = ndim - 2
    if spatial not in LAYOUTS:
        hint = f": give {name}[np.newaxis, ..., np.newaxis] for one image without channels" if ndim == 2 else ""
        raise ValueError(
            f"{name} must have 3, 4 or 5 dimensions, (n, w, c), (n, h, w, c) or (n, d, h, w, c) unless layout says "
            f"otherwise, got {ndim}{hint}"
        )
    if layout is None:
        return spatial, True
    known = layout_name(layout)
    last, first = LAYOUTS[spatial]
    if known not in (last, first):
        raise ValueError(f"layout must be {last!r} or {first!r} for {ndim} dimensions, got {layout!r}")
    return spatial, known == last


def spatial_dimensions(layout: Any) -> int | None:
    """Return the number of spatial dimensions of a layout, or None for None."""
    if layout is None:
        return None
    for spatial, names in LAYOUTS.items():
        if layout_name(layout) in names:
            return spatial
    known = ", ".join(repr(name) for names in LAYOUTS.values() for name in names)
    raise ValueError(f"layout must be one of {known}, got {layout!r}")


def _bounded(value: Any, name: str, minimum: int) -> int:
    number = integer(value, name)
    if not minimum <= number <= LARGEST:
        raise ValueError(f"{name} must be between {minimum} and {LARGEST}, got {number}")
    return number


def _plain(value: Any) -> Any:
    """Return an ndarray as a number or as lists, and any other value unchanged."""
    return value.tolist() if isinstance(value, np.ndarray) else value


def _each(value: Any, spatial: int, name: str, wanted: str) -> Sequence[Any]:
    """Return `value` if it is a sequence with an entry for each spatial dimension."""
    if isinstance(value, str) or not isinstance(value, (tuple, Sequence)):  # the test for Sequence alone takes 0.6 us
        raise TypeError(f"{name} must be {wanted}, got {type(value).__name__}")
    if len(value) != spatial:
        raise ValueError(f"{name} must be {wanted}, {spatial} here, got {value!r}")
    return value


def per_dimension(value: Any, spatial: int, name: str, minimum: int) -> tuple[int, ...]:
    """Return an integer of at least `minimum` for each spatial dimension, from one integer or a sequence."""
    if type(value) is int and minimum <= value <= LARGEST:
        return (value,) * spatial
    if type(value) is tuple and len(value) == spatial:
        for entry in value:
            if type(entry) is not int or not minimum <= entry <= LARGEST:
                break
        else:
            return value
    value = _plain(value)
    if hasattr(value, "__index__"):
        return (_bounded(value, name, minimum),) * spatial
    each = _each(value, spatial, name, "an integer, or one for each spatial dimension")
    return tuple(_bounded(entry, name, minimum) for entry in each)


def parse_padding(value: Any, spatial: int) -> tuple[Pair, ...] | str:
    """Return the padding (before, after) of each spatial dimension. The argument is one integer, or an integer or a
    pair for each dimension. Return "same" and "same_lower" unchanged, because :func:`padding_of` computes their numbers
    from the size of a source."""
    if type(value) is int and 0 <= value <= LARGEST:
        return ((value, value),) * spatial
    value = _plain(value)
    if hasattr(value, "__index__"):
        return ((_bounded(value, "padding", 0),) * 2,) * spatial
    each = "an integer or a pair (before, after) for each spatial dimension"
    wanted = f"an integer, or {each}, 'same', 'same_lower' or 'valid'"
    if isinstance(value, str):
        name = PADDING_NAMES.get(value.lower())
        if name is None:
            raise TypeError(f"padding must be {wanted}, got {value!r}")
        return ((0, 0),) * spatial if name == "valid" else name
    pairs = []
    for entry in map(_plain, _each(value, spatial, "padding", wanted)):
        if not hasattr(entry, "__index__"):
            if isinstance(entry, str) or not isinstance(entry, (tuple, Sequence)):
                raise TypeError(f"padding must be {wanted}, got {value!r}")
            if len(entry) != 2:
                raise ValueError(f"padding must be {wanted}, got {value!r}")
        before, after = per_dimension(entry, 2, "padding", 0)
        pairs.append((before, after))
    return tuple(pairs)


def halves(total: int, padding: str) -> Pair:
    """Split `total` padding over both sides. If `total` is odd, "same" has one more element after the data, and
    "same_lower" has one more before the data."""
    small, large = total // 2, total - total // 2
    return (large, small) if padding == "same_lower" else (small, large)


def padding_of(padding: tuple[Pair, ...] | str, sizes: Sequence[int], kernel: Sequence[int], strides: Sequence[int],
               dilation: Sequence[int]) -> tuple[Pair, ...]:  # fmt: skip
    """Return the padding (before, after) of each dimension of a source, from a result of `parse_padding`.

    "same" and "same_lower" give ceil(size / stride) positions::

        before + after = max((ceil(size / stride) - 1) * stride + dilation * (kernel - 1) + 1 - size, 0)
    """
    if not isinstance(padding, str):
        return padding
    return tuple(
        halves(max((-(-size // s) - 1) * s + d * (k - 1) + 1 - size, 0), padding)
        for size, k, s, d in zip(sizes, kernel, strides, dilation, strict=True)
    )


def output_size(
    size: int, kernel: int, stride: int, dilation: int, padding: Pair, name: str, ceil_mode: bool = False
) -> int:
    """Return the number of positions of a kernel in one spatial dimension of the array `name`.

    ::

        floor((size + before + after - dilation * (kernel - 1) - 1) / stride) + 1

    With `ceil_mode` the quotient is rounded up, except if the last window would begin after the source.
    """
    free = size + sum(padding) - dilation * (kernel - 1) - 1
    if ceil_mode:
        positions = -(-free // stride) + 1
        if (positions - 1) * stride >= size + padding[0]:
            positions -= 1
        if positions > 0:
            return positions
    if free < 0:
        raise ValueError(
            f"{name} must have, with padding, at least {dilation * (kernel - 1) + 1} elements in a spatial dimension "
            f"for kernel {kernel} and dilation {dilation}, got {size} + {sum(padding)}"
        )
    return free // stride + 1
