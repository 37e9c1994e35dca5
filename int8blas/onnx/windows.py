"""Float convolution and pooling, and the geometry of windows, which `integer` also uses."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from int8blas.core.spatial import padding_of as core_padding_of
from int8blas.elementwise import pooling
from int8blas.elementwise.pool import add_windows, reduce_windows
from int8blas.layers.real_convolution import real_convolution
from int8blas.onnx.graph import Array
from int8blas.onnx.linear import matmul
from int8blas.onnx.reduction import average, lowest
from int8blas.onnx.table import HEAVY, SAME_TYPE, Call, Operator, by_layout, passes_to
from int8blas.onnx.types import AutoPad, wide

Sizes = Sequence[int]
# Names of layouts with 1, 2 and 3 spatial dimensions.
LAYOUTS: tuple[Any, ...] = ("ncw", "nchw", "ncdhw")
CHANNELS_LAST: tuple[Any, ...] = ("nwc", "nhwc", "ndhwc")
# For each number of dimensions, the permutations that move channels from the second axis to the last, and back.
TURNS = {n: ((0, *range(2, n), 1), (0, n - 1, *range(1, n - 1))) for n in range(3, 6)}
# Paddings that depend on the sizes, and their names in core.spatial.
SAME = {"SAME_UPPER": "same", "SAME_LOWER": "same_lower"}
# The maximum number of windows for which products have a row for each window. With more than FEW_WINDOWS windows,
# products have a column for each window.
FEW_WINDOWS = 8
# With fewer weights, the copies for a product with rows of windows, and for padding, take longer than the product: 64
# filters of 128 x 3 with padding take 16 us with rows and 11 us with columns. 256 filters of 256 x 3 take 31 us with
# rows and 42 us with columns (AVX-512, Zen 5).
FEW_WEIGHTS, FEW_PADDED = 1 << 15, 1 << 16


class Windows(NamedTuple):
    """The geometry of windows on an image. Each member has one element for each spatial dimension."""

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    padding: tuple[tuple[int, int], ...]
    outputs: tuple[int, ...]
    # The padding that the attributes declare: `padding` without the pixels that ceil_mode adds at the end.
    declared: tuple[tuple[int, int], ...] = ()

    def is_whole(self, spatial: Sizes) -> bool:
        """Return whether all windows that fit the padded image exist (ceil_mode may omit the last window), and each
        window contains an element of the image."""
        all_of = zip(spatial, self.padding, self.kernel, self.dilations, self.strides, self.outputs, strict=True)
        full = all((n + b + a - d * (k - 1) - 1) // s + 1 == count for n, (b, a), k, d, s, count in all_of)
        return full and all(self.counted(d, n, (0, 0)).all() for d, n in enumerate(spatial))

    def counted(self, d: int, size: int, padding: tuple[int, int]) -> Array:
        """Return how many elements of each window along a dimension lie in the image, or in the given padding."""
        places = np.arange(self.outputs[d])[:, None] * self.strides[d] - self.padding[d][0]
        places = places + np.arange(self.kernel[d]) * self.dilations[d]
        return np.asarray(((places >= -padding[0]) & (places < size + padding[1])).sum(1))


def windows(
    spatial: Sizes, kernel: Sizes, strides: Sizes | None, pads: Sizes | None, dilations: Sizes | None, auto_pad: str,
    ceil_mode: int = 0,
) -> Windows:  # fmt: skip
    """Return the windows that a node's attributes describe."""
    n = len(spatial)
    kernel, strides, dilations = (tuple(each or (1,) * n) for each in (kernel, strides, dilations))
    if min(*kernel, *strides, *dilations) < 1 or {len(kernel), len(strides), len(dilations)} != {n}:
        raise ValueError(f"kernel_shape, strides and dilations must be {n} numbers of at least 1 each, "
                         f"got {kernel}, {strides} and {dilations}")  # fmt: skip
    spans = [d * (k - 1) + 1 for k, d in zip(kernel, dilations, strict=True)]
    padding = declared = padding_of(spatial, spans, strides, pads, auto_pad)
    ceil_mode = ceil_mode and auto_pad == "NOTSET"  # auto_pad has its own formulas, which ignore ceil_mode
    outputs = []
    for i, (before, after) in enumerate(padding):
        room = spatial[i] + before + after - spans[i]
        count = (-(-room // strides[i]) if ceil_mode else room // strides[i]) + 1
        if ceil_mode and (count - 1) * strides[i] >= spatial[i] + before:
            count -= 1  # a window begins in the image or before it
        if count < 0:
            raise ValueError(f"an image must have room for a window of {spans}, got {tuple(spatial)} with {padding}")
        outputs.append(count)
    if ceil_mode:
        ends = [(n - 1) * s + span for n, s, span in zip(outputs, strides, spans, strict=True)]
        padding = tuple(
            (before, max(after, end - size - before))
            for (before, after), end, size in zip(padding, ends, spatial, strict=True)
        )
    return Windows(kernel, strides, dilations, padding, tuple(outputs), declared)


def padding_of(
    spatial: Sizes, spans: Sizes, strides: Sizes, pads: Sizes | None, auto_pad: str
) -> tuple[tuple[int, int], ...]:
    """Return the padding before and after each spatial dimension."""
    n = len(spatial)
    if auto_pad in SAME:
        return core_padding_of(SAME[auto_pad], spatial, spans, strides, (1,) * n)
    if auto_pad not in ("NOTSET", "VALID"):
        raise ValueError(f"auto_pad must be NOTSET, VALID, SAME_UPPER or SAME_LOWER, got {auto_pad!r}")
    if not pads or auto_pad == "VALID":
        return ((0, 0),) * n
    if len(pads) != 2 * n:
        raise ValueError(f"pads must be {2 * n} numbers, got {tuple(pads)}")
    return tuple(zip(pads[:n], pads[n:], strict=True))


def padded(x: Array, padding: Sequence[tuple[int, int]], value: Any = 0) -> Array:
    """Return the padded image. Keep channels last in memory."""
    if not any(map(any, padding)):
        return x
    spatial = [before + size + after for size, (before, after) in zip(x.shape[2:], padding, strict=True)]
    inside: list[Any] = [slice(before, before + n) for n, (before, _) in zip(x.shape[2:], padding, strict=True)]
    to, back = order_of(x)
    shape = *x.shape[:2], *spatial
    image = np.full([shape[axis] for axis in to], value, x.dtype).transpose(back)
    image[(..., *inside)] = x
    return image


def has_channels_last(x: Array) -> bool:
    """Return whether channels, the second dimension, are last in memory."""
    return x.ndim in TURNS and x.strides[1] == x.itemsize and x.shape[1] > 1


def order_of(x: Array) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the order of an array's dimensions in memory if channels are last in memory, or else the order of its
    shape. Also return the inverse order."""
    return TURNS[x.ndim] if has_channels_last(x) else (tuple(range(x.ndim)),) * 2


@by_layout(1)
def conv(
    x: Array, w: Array, *, auto_pad: AutoPad = "NOTSET", dilations: Sizes | None = None,
    group: int = 1, kernel_shape: Sizes | None = None, pads: Sizes | None = None, strides: Sizes | None = None,
) -> Call:  # fmt: skip
    """Multiply weights by the matrix of windows for each image."""
    if w.ndim != x.ndim or x.shape[1] != w.shape[1] * group or w.shape[0] % group:
        raise ValueError(f"weights must fit an image of shape {x.shape} in {group} groups, got shape {w.shape}")
    at = windows(x.shape[2:], w.shape[2:], strides, pads, dilations, auto_pad)
    n, oc, count, depth = x.shape[0], w.shape[0], math.prod(at.outputs), w.shape[1] * math.prod(at.kernel)
    # If there are few windows, the product in `multiply` has a row for each window. real_convolution takes images with
    # many windows, and convolutions of single channels.
    many = w.size >= (FEW_PADDED if any(map(any, at.padding)) else FEW_WEIGHTS)
    few = group == 1 and count <= FEW_WINDOWS and max(w.shape[:2]) > 1 and (many or x.dtype != np.float32)
    if x.dtype == np.float32 == w.dtype and x.ndim in TURNS and not few:
        before = [first for first, _ in at.padding]
        return functools.partial(
            real_convolution, strides=at.strides, dilations=at.dilations, before=before, outputs=at.outputs,
            groups=group
        )  # fmt: skip
    dims, matrix = len(at.outputs), np.ascontiguousarray(w.reshape(oc, depth).T) if few else w

    def multiply(x: Array, w: Array, b: Array | None = None) -> Array:
        every = all_windows(padded(x, at.padding), at)
        if few:
            rows = every.transpose(0, *range(2 + dims, 2 + 2 * dims), *range(1, 2 + dims)).reshape(n * count, depth)
            y = matmul(rows, matrix).reshape(n, *at.outputs, oc).transpose(0, -1, *range(1, 1 + dims))
        else:
            y = matmul(w.reshape(group, oc // group, depth), every.reshape(n, group, depth, count))
            y = y.reshape(n, oc, *at.outputs)
        if b is not None:
            y += b.reshape(-1, *[1] * dims)
        return y

    return multiply


def all_windows(image: Array, at: Windows) -> Array:
    """Return a view of all windows of a padded image, of shape (n, channels, *kernel, *outputs)."""
    steps = image.strides[2:]
    strides = (
        *image.strides[:2], *(step * d for step, d in zip(steps, at.dilations, strict=True)),
        *(step * s for step, s in zip(steps, at.strides, strict=True)),
    )  # fmt: skip
    return np.lib.stride_tricks.as_strided(image, (*image.shape[:2], *at.kernel, *at.outputs), strides, writeable=False)


@by_layout(1)
def conv_transpose(
    x: Array, w: Array, *, auto_pad: AutoPad = "NOTSET", dilations: Sizes | None = None,
    group: int = 1, kernel_shape: Sizes | None = None, output_padding: Sizes | None = None,
    output_shape: Sizes | None = None, pads: Sizes | None = None, strides: Sizes | None = None,
) -> Call:  # fmt: skip
    """Let each element of the image add a window of weights to the result."""
    spatial, kernel = x.shape[2:], w.shape[2:]
    n = len(spatial)
    steps, dilation, extra = strides or (1,) * n, dilations or (1,) * n, output_padding or (0,) * n
    full = [
        (size - 1) * s + d * (k - 1) + 1 + e
        for size, s, d, k, e in zip(spatial, steps, dilation, kernel, extra, strict=True)
    ]
    cut = transposed_padding(spatial, full, steps, pads, auto_pad, output_shape)
    sizes = tuple(max(size - first - last, 0) for (first, last), size in zip(cut, full, strict=True))
    places = tuple(zip(kernel, steps, dilation, (first for first, _ in cut), strict=True))
    columns = x.shape[0], group, x.shape[1] // group, math.prod(spatial)
    parts = x.shape[0], w.shape[1] * group, *kernel, *spatial
    rows = w.reshape(group, w.shape[0] // group, math.prod(w.shape[1:])).transpose(0, 2, 1)

    def multiply(x: Array, w: Array, b: Array | None = None) -> Array:
        y = add_windows(matmul(rows, x.reshape(columns)).reshape(parts), places, sizes)
        if b is not None:
            y += b.reshape(-1, *[1] * n)
        return y

    return multiply


def transposed_padding(
    spatial: Sizes, full: Sizes, strides: Sizes, pads: Sizes | None, auto_pad: str, output_shape: Sizes | None
) -> list[tuple[int, int]]:
    """Return the number of elements to cut from each side of the full result. A negative number appends zeros."""
    n = len(spatial)
    if output_shape is None and auto_pad in ("NOTSET", "VALID"):
        return list(padding_of(spatial, full, strides, pads, auto_pad))
    wanted = output_shape or [size * stride for size, stride in zip(spatial, strides, strict=True)]
    result = []
    for size, target in zip(full, wanted[-n:], strict=True):
        total = size - target
        less = max(total, 0) // 2
        result.append((total - less, less) if auto_pad != "SAME_UPPER" and total > 0 else (less, total - less))
    return result


@by_layout()
def max_pool(
    x: Array, *, kernel_shape: Sizes, auto_pad: AutoPad = "NOTSET", ceil_mode: int = 0, dilations: Sizes | None = None,
    pads: Sizes | None = None, storage_order: int = 0, strides: Sizes | None = None, outputs: int,
) -> Call:  # fmt: skip
    at = windows(x.shape[2:], kernel_shape, strides, pads, dilations, auto_pad, ceil_mode)
    some = 0 not in (x.size, *at.outputs)
    if outputs == 1 and x.dtype in (np.uint8, np.int8) and x.ndim <= 5 and at.is_whole(x.shape[2:]) and some:
        return pooled(pooling.max_pool, x, at, dilation=one_or_all(at.dilations))
    largest = reduced(x, at, True)
    return largest if outputs == 1 else lambda x: (y := largest(x), indices_of(x, y, at, storage_order))


def has_elements(
    *, kernel_shape: Sizes, auto_pad: AutoPad = "NOTSET", dilations: Sizes | None = None, pads: Sizes | None = None,
    **_: Any
) -> bool:  # fmt: skip
    """Return whether each window of a MaxPool has an element of the image, for every size of the image. A dilated
    window has no element of the image if the whole image fits between the window's elements. The maximum of a window
    without elements is the lowest float."""
    if auto_pad == "VALID" or (auto_pad == "NOTSET" and not any(pads or ())):
        return True
    few = auto_pad != "NOTSET" or all(pad < size for pad, size in zip(pads or (), (*kernel_shape,) * 2, strict=True))
    return few and all(dilation == 1 for dilation in dilations or ())


def reduced(x: Array, at: Windows, maximum: bool) -> Call:
    """Return the function that reduces all windows to sums or maxima: one spatial dimension after the other."""
    if x.dtype.kind == "f":
        to, back = order_of(x)
        places = enumerate(zip(at.kernel, at.strides, at.dilations, (before for before, _ in at.padding), strict=True))
        steps = [(back[2 + d], window, at.outputs[d], maximum) for d, window in places]

        def reduce(x: Array) -> Array:
            y = np.ascontiguousarray(x.transpose(to))
            for step in steps:
                y = reduce_windows(y, *step)
            return y.transpose(back)

        return reduce
    function, value = (np.maximum, lowest(x.dtype)) if maximum else (np.add, 0)
    axes = tuple(range(2, x.ndim))
    return lambda x: np.asarray(function.reduce(all_windows(padded(x, at.padding, value), at), axes))


def pooled(function: Callable[..., Any], x: Array, at: Windows, **more: Any) -> Call:
    """Return a pooling of int8blas in the image's memory layout."""
    pool = functools.partial(
        function, kernel=one_or_all(at.kernel), strides=one_or_all(at.strides), padding=one_or_all(at.padding), **more
    )
    if x.strides[1] != x.itemsize:
        return functools.partial(pool, layout=LAYOUTS[x.ndim - 3])
    to, back = TURNS[x.ndim]
    return lambda x: pool(x.transpose(to)).transpose(back)


def one_or_all(values: tuple[Any, ...]) -> Any:
    """Return one number if all values are equal, else the values, because int8blas checks a single number faster."""
    first = values[0]
    if isinstance(first, tuple):
        return first[0] if values == ((first[0],) * 2,) * len(values) else values
    return first if values == (first,) * len(values) else values


def indices_of(x: Array, y: Array, at: Windows, storage_order: int) -> Array:
    """Return the position of each maximum in the flat image, or the first position of several equal maxima."""
    spatial = x.shape[2:]
    order = np.arange(math.prod(spatial)).reshape(spatial, order="F" if storage_order else "C")
    plane = np.arange(x.shape[0] * x.shape[1]).reshape(*x.shape[:2], *[1] * len(spatial)) * math.prod(spatial)
    image, places = padded(x, at.padding, lowest(x.dtype)), np.pad(order, at.padding, constant_values=-1)
    found = np.full(y.shape, -1, np.int64)
    for tap in reversed(list(np.ndindex(*at.kernel))):  # the first of several positions is chosen last
        begins = [t * d for t, d in zip(tap, at.dilations, strict=True)]
        index: Any = [slice(b, b + n * s, s) for b, n, s in zip(begins, at.outputs, at.strides, strict=True)]
        place = places[*index]
        found = np.where((image[..., *index] == y) & (place >= 0), place, found)
    return found + plane


def averaging(
    x: Array, *, kernel_shape: Sizes, auto_pad: AutoPad = "NOTSET", ceil_mode: int = 0, count_include_pad: int = 0,
    dilations: Sizes | None = None, pads: Sizes | None = None, strides: Sizes | None = None,
) -> Call:  # fmt: skip
    at = windows(x.shape[2:], kernel_shape, strides, pads, dilations, auto_pad, ceil_mode)
    total = sum_of_image if at.kernel == x.shape[2:] and not any(map(any, at.padding)) else reduced(x, at, False)
    divisors = counts(x.shape[2:], at, bool(count_include_pad), x.dtype)
    return lambda x: np.asarray(total(x) / divisors)


def sum_of_image(x: Array) -> Array:
    """Return the sum of all pixels."""
    if x.dtype == np.float32 and has_channels_last(x) and x.size:
        pixels = np.ascontiguousarray(x.transpose(TURNS[x.ndim][0])).reshape(len(x), -1, x.shape[1])
        sums = reduce_windows(pixels, 1, (pixels.shape[1], 1, 1, 0), 1, False)
        return sums.reshape(*x.shape[:2], *(1,) * (x.ndim - 2))
    return np.asarray(np.add.reduce(x, tuple(range(2, x.ndim)), keepdims=True, dtype=x.dtype))


def counts(spatial: tuple[int, ...], at: Windows, with_padding: bool, dtype: np.dtype[Any]) -> Array:
    """Return the number of elements that count in each window: elements of the image, and of the declared padding if
    `with_padding`. The count of an empty window is 1, so that its mean is 0."""
    total: Array = np.ones(())
    for d, size in enumerate(spatial):
        total = total[..., None] * at.counted(d, size, at.declared[d] if with_padding else (0, 0))
    return np.maximum(total, 1).astype(dtype)


@wide
def global_mean(x: Array) -> Array:
    """Return the mean over all pixels. If channels are last in memory, sum all channels at once."""
    if x.dtype == np.float32 and has_channels_last(x) and x.size:
        return sum_of_image(x) / np.float32(math.prod(x.shape[2:]))
    return np.asarray(average(x, tuple(range(2, x.ndim))), x.dtype)


@passes_to(averaging)
def lp_pool(x: Array, *, kernel_shape: Sizes, p: float = 2, **attributes: Any) -> Call:
    """Return the norm of each window, from the mean of the powers."""
    mean = averaging(np.abs(x), kernel_shape=kernel_shape, count_include_pad=1, **attributes)
    power, root, count = x.dtype.type(p), x.dtype.type(1 / p), math.prod(kernel_shape)
    return lambda x: np.asarray((mean(np.abs(x) ** power) * count) ** root)


@wide
def global_lp(x: Array, *, p: float = 2) -> Array:
    powers = np.sum(np.abs(x) ** x.dtype.type(p), tuple(range(2, x.ndim)), keepdims=True)
    return np.asarray(powers ** x.dtype.type(1 / p), x.dtype)


def global_max(x: Array) -> Array:
    return np.asarray(np.max(x, axis=tuple(range(2, x.ndim)), keepdims=True), x.dtype)


OPERATORS = [
    Operator("Conv", conv, 1, prepared=True, traits=HEAVY),
    Operator("ConvTranspose", conv_transpose, 1, prepared=True, traits=HEAVY),
    Operator("MaxPool", max_pool, 1, prepared=True,
             traits=replace(SAME_TYPE, typed_results=1, chooses=has_elements)),
    Operator("AveragePool", by_layout()(averaging), 1, prepared=True, traits=SAME_TYPE),
    Operator("LpPool", by_layout()(lp_pool), 2, prepared=True, traits=SAME_TYPE),
    Operator("GlobalLpPool", global_lp, 2, traits=SAME_TYPE),
    Operator("GlobalAveragePool", global_mean, 1, traits=SAME_TYPE),
    Operator("GlobalMaxPool", global_max, 1, traits=replace(SAME_TYPE, chooses=lambda **_: True)),
]  # fmt: skip
