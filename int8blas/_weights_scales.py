"""Scales of weights from the weights themselves."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from int8blas._arrays import dtype_error, in_float32, shown
from int8blas._layouts import is_weights, mask_axes, to_logical
from int8blas._parameters import scale_of_range

AUTOMATIC = ("per_channel", "per_tensor")


def weights_scales(
    w: npt.ArrayLike, mask: int | str = "per_channel", *, layout: str | None = None
) -> npt.NDArray[np.float32]:
    """The scales that bring weights to the whole range from -127 to 127.

    ``scale = max(abs(w)) / 127``, the maximum over the dimensions that the mask does not select

    Parameters
    ----------
    w : array_like of float32, float16 or bfloat16
        The weights, finite.
    mask : int or {'per_channel', 'per_tensor'}, optional
        Bit i gives dimension i of the logical order (g, oc, ic, kd, kh, kw) scales of its own. 'per_channel' selects g
        and oc, 'per_tensor' is 0.
    layout : str, optional
        The memory layout of `w`, as in :func:`reorder`; by default the axes are the logical dimensions, the first of
        them oc.

    Returns
    -------
    numpy.ndarray
        float32 of shape (product of the selected dimensions,), in the order of the logical dimensions. Weights that
        are all 0 have the scale 1; no scale is below 2**-126.

    Raises
    ------
    TypeError, ValueError
        If an argument is not as above.

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
    """
    array = in_float32(w, "w")
    if array.dtype.name != "float32":
        raise dtype_error(array, "w", ("float32", "float16", "bfloat16"))
    logical, _ = to_logical(array, "w", layout, "layout")
    return scales_of(logical, "w", weights_mask(mask, layout))


def weights_mask(mask: Any, layout: str | None) -> Any:
    """The mask that 'per_channel' or 'per_tensor' means for weights of a layout."""
    if not isinstance(mask, str):
        return mask
    if mask not in AUTOMATIC:
        raise ValueError(f"mask must be an integer or 'per_channel' or 'per_tensor', got {shown(mask)}")
    if layout is not None and not is_weights(layout):
        raise ValueError(f"layout must be one of weights for {mask!r}, got {shown(layout)}")
    if mask == "per_tensor":
        return 0
    return 3 if layout is not None and "g" in layout else 1


def scales_of(logical: npt.NDArray[Any], name: str, mask: Any) -> npt.NDArray[np.float32]:
    """:func:`weights_scales` of weights with axes in logical order."""
    axes = mask_axes(mask, logical.ndim)
    others = tuple(axis for axis in range(logical.ndim) if axis not in axes)
    with np.errstate(invalid="ignore"):
        largest = np.max(np.abs(logical), axis=others, initial=0).reshape(-1)
    if not np.isfinite(largest).all():
        raise ValueError(f"{name} must be finite to have scales, got NaN or infinite values")
    return scale_of_range(-largest, largest, np.dtype(np.int8), True)[0]
