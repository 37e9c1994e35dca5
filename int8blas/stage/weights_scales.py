"""Scales of weights, computed from the weights."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from int8blas.core.arrays import in_float32
from int8blas.core.layouts import is_weights, mask_axes, to_logical
from int8blas.core.parameters import integer, scale_of_largest
from int8blas.core.words import dtype_error, is_option, shown

AUTOMATIC = ("per_channel", "per_tensor")
# The largest magnitude of a quantized weight, by the number of its bits.
LARGEST = {8: 127, 4: 7}
# The largest number of k in a group. Each k adds at most 3 * 255 * 128, zero points included, so sums fit int32.
MAX_GROUP = 1 << 14
# The factors by which a search multiplies the scale of the largest magnitude. With 4 bits and groups of 32, the search
# reduces the error of a sentence encoder's weights from 0.102 to 0.091 (docs/concepts/four_bits.md).
FACTORS = (0.95, 0.9, 0.85, 0.8, 0.75, 0.7, 0.65, 0.6)


def weights_scales(
    w: npt.ArrayLike,
    mask: int | str = "per_channel",
    *,
    layout: str | None = None,
    group: int | None = None,
    bits: int = 8,
    search: bool = False,
) -> npt.NDArray[np.float32]:
    """Return the scales with which quantized weights fill the range from -127 to 127, or from -7 to 7 with ``bits=4``.

    A scale is ``max(abs(w)) / 127``, where the maximum is over the dimensions that the mask does not select.

    Parameters
    ----------
    w : array_like of float32, float16 or bfloat16
        The weights, finite.
    mask : int or {'per_channel', 'per_tensor'}, optional
        Bit i selects dimension i of the logical order (g, oc, ic, kd, kh, kw). Each index along the selected dimensions
        has a separate scale. 'per_channel' selects g and oc, 'per_tensor' selects no dimension.
    layout : str, optional
        The memory layout of `w`, as in :func:`reorder`; by default the axes are the logical dimensions from oc on.
    group : int, optional
        The number of consecutive ic with one scale. With `group`, each output channel has a scale for each group, for
        :class:`InnerProduct`. The number is a multiple of 4 that divides ic. With ``bits=4`` the number is a multiple
        of 8, and need not divide ic. `mask` must be 'per_channel', and `layout` None.
    bits : {8, 4}, optional
        The bits of the quantized weights. With 4, ``scale = max(abs(w)) / 7``.
    search : bool, optional
        Also try smaller scales, 0.6 to 0.95 times the usual scale, which saturate the largest weights. Return the scale
        with the smallest sum of squared errors.

    Returns
    -------
    numpy.ndarray
        float32 of shape (product of the selected dimensions,), in the order of the logical dimensions. With `group` the
        shape is (ceil(ic / group), oc). Weights that are all 0 get the scale 1. No scale is below 2**-126.

    Raises
    ------
    TypeError, ValueError
        If an argument is not as described above.

    Notes
    -----
    The scale is the reciprocal of Q_w = 127 / R_w in oneDNN's guide "Int8 inference".

    Examples
    --------
    >>> import numpy as np, int8blas
    >>> w = np.float32([[127, -1, 3], [0.5, -63.5, 2]])
    >>> int8blas.weights_scales(w)
    array([1. , 0.5], dtype=float32)
    >>> int8blas.weights_scales(w, "per_tensor")
    array([1.], dtype=float32)
    >>> int8blas.weights_scales(w, bits=4).round(3)
    array([18.143,  9.071], dtype=float32)
    >>> int8blas.weights_scales(np.float32([[8, 1, 2, 3, 4, 5, 6, 7]]), bits=4, search=True).round(3)
    array([1.029], dtype=float32)
    >>> int8blas.weights_scales(np.float32([[1, 2, 3, 127, 0, 254, 1, 1], [0, 0, 0, 0, 127, 1, 1, 1]]), group=4)
    array([[1., 1.],
           [2., 1.]], dtype=float32)
    """
    if not is_option(bits, (8, 4)):
        raise ValueError(f"bits must be 8 or 4, got {shown(bits)}")
    array = in_float32(w, "w")
    if array.dtype != np.float32:
        raise dtype_error(array, "w", ("float32", "float16", "bfloat16"))
    logical, _ = to_logical(array, "w", layout, "layout")
    if group is not None:
        if mask != "per_channel":
            raise ValueError(f"mask must be 'per_channel' with group, got {shown(mask)}")
        if layout is not None or array.ndim < 2:
            came = f"layout {layout!r}" if layout is not None else f"shape {array.shape}"
            raise ValueError(f"w must have shape (oc, ic, ...), without a layout, with group, got {came}")
        flat = array.reshape(array.shape[0], np.prod(array.shape[1:], dtype=np.intp))
        return scales_of_groups(flat, "w", check_group(group, flat.shape[1], bits), bits, search)
    return scales_of(logical, "w", weights_mask(mask, layout), bits, search)


def weights_mask(mask: Any, layout: str | None) -> Any:
    """Return the mask of 'per_channel' or 'per_tensor' for weights of a layout."""
    if not isinstance(mask, str):
        return mask
    if mask not in AUTOMATIC:
        raise ValueError(f"mask must be an integer or 'per_channel' or 'per_tensor', got {shown(mask)}")
    if layout is not None and not is_weights(layout):
        raise ValueError(f"layout must be one of weights for {mask!r}, got {shown(layout)}")
    if mask == "per_tensor":
        return 0
    return 3 if layout is not None and "g" in layout else 1


def check_group(group: Any, ic: int, bits: int = 8) -> int:
    """Check a group, the number of k that share a scale, and return it."""
    size = integer(group, "group")
    if bits == 4:
        if size < 8 or size > MAX_GROUP or size % 8:
            raise ValueError(f"group must be a multiple of 8 and at most {MAX_GROUP} with bits=4, got {shown(size)}")
        return size
    if size < 4 or size > MAX_GROUP or size % 4 or ic % size or ic == 0:
        raise ValueError(
            f"group must be a multiple of 4 that divides ic, {ic}, and at most {MAX_GROUP}, got {shown(size)}"
        )
    return size


def least_error(parts: npt.NDArray[Any], scales: npt.NDArray[np.float32], bits: int) -> npt.NDArray[np.float32]:
    """Return the scales, or smaller scales if these have smaller squared errors. The elements along the last axis of
    `parts` share a scale."""
    low, high = (-127, 127) if bits == 8 else (-8, 7)
    best, least = scales, np.full(scales.shape, np.inf)
    for factor in (1, *FACTORS):
        tried = np.maximum(scales * np.float32(factor), np.finfo(np.float32).smallest_normal)
        with np.errstate(over="ignore"):
            rounded = np.clip(np.rint(parts / tried[..., None]), low, high)
        error = np.square(rounded * tried[..., None].astype(np.float64) - parts).sum(-1)
        best, least = np.where(error < least, tried, best), np.minimum(error, least)
    return best


def scales_of_groups(
    flat: npt.NDArray[Any], name: str, group: int, bits: int = 8, search: bool = False
) -> npt.NDArray[np.float32]:
    """Return the result of :func:`weights_scales`, of shape (ceil(ic / group), oc), for a matrix (oc, ic) with
    groups."""
    oc, ic = flat.shape
    if ic % group:
        flat = np.pad(flat, ((0, 0), (0, -ic % group)))
    parts = flat.reshape(oc, -(-ic // group), group).transpose(1, 0, 2)
    with np.errstate(invalid="ignore"):
        largest = np.max(np.abs(parts), axis=2, initial=0)
    if not np.isfinite(largest).all():
        raise ValueError(f"{name} must be finite to have scales, got NaN or infinite values")
    scales = scale_of_largest(largest, LARGEST[bits])
    return least_error(parts, scales, bits) if search else scales


def scales_of(
    logical: npt.NDArray[Any], name: str, mask: Any, bits: int = 8, search: bool = False
) -> npt.NDArray[np.float32]:
    """Return the result of :func:`weights_scales` for weights with axes in logical order."""
    axes = mask_axes(mask, logical.ndim)
    others = tuple(axis for axis in range(logical.ndim) if axis not in axes)
    with np.errstate(invalid="ignore"):
        largest = np.abs(logical).max(axis=others, initial=0).reshape(-1)
    if not np.isfinite(largest).all():
        raise ValueError(f"{name} must be finite to have scales, got NaN or infinite values")
    scales = scale_of_largest(largest, LARGEST[bits])
    if not search or not logical.size:
        return scales
    return least_error(logical.transpose(*axes, *others).reshape(len(scales), -1), scales, bits)
