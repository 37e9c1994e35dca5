"""Conversion between types, scales and memory layouts, for example to quantize weights for the layout of a primitive.

:func:`reorder` first creates a view of the source with axes in logical order (``layouts.to_logical``). Then
``_convert`` converts the values, directly into memory of the destination layout, or ``packed_weights`` packs the
values.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, Literal, overload

import numpy as np
import numpy.typing as npt

from int8blas.core import layouts
from int8blas.core.arrays import dtype_argument, dtype_from, elements_output, in_float32
from int8blas.core.layouts import PACKED
from int8blas.core.parameters import scale_values, zero_point_values
from int8blas.core.traced import traced
from int8blas.core.words import dtype_error, either, is_option, shown
from int8blas.elementwise import packed_weights
from int8blas.elementwise.elements import in_c_order
from int8blas.elementwise.quantization import quantize
from int8blas.gemm.packing import PackedB
from int8blas.stage.weights_scales import AUTOMATIC, scales_of, weights_mask

Array = npt.NDArray[Any]

INT32 = np.dtype(np.int32)
DTYPES = ("float32", "int32", "int8", "uint8")
NATIVE = frozenset(map(np.dtype, DTYPES))  # a look-up takes a tenth of the time of a dtype's name


def _array(x: Any, name: str) -> Array:
    array = in_float32(x, name)
    if array.dtype in NATIVE:
        return array
    if array.dtype == np.bool_:
        array = array.view(np.uint8)
    if array.dtype.name not in DTYPES:
        raise dtype_error(array, name, DTYPES)
    return array.astype(array.dtype.newbyteorder("="), copy=False)


def _optional(values: Any, convert: Any, logical: Array, axes: tuple[int, ...], name: str, *more: Any) -> Array | None:
    """Check scales or zero points, and return one value for each selected index, or None."""
    if values is None:
        return None
    return layouts.spread(convert(values, name, *more), logical.shape, axes, name)


def _integer_zero_points(values: Any, name: str, dtype: np.dtype[Any]) -> Array:
    if dtype == np.float32:
        raise ValueError(f"{name} must be None for float32, which has no zero point")
    return zero_point_values(values, name, INT32)


def _convert(
    x: Array,
    src_axes: tuple[int, ...],
    axes: tuple[int, ...],
    src_scales: Array | None,
    src_zero_points: Array | None,
    scales: Array | None,
    zero_points: Array | None,
    out: Array,
) -> None:
    """Compute the formula of :func:`reorder`. All arguments are in logical order."""
    scaled = src_scales is not None or scales is not None
    shifted = src_zero_points is not None or zero_points is not None
    if x.dtype == out.dtype and not scaled and not shifted:
        out[...] = x
        return
    y = x
    if src_zero_points is not None:
        y = y.astype(np.int64) - layouts.aligned(src_zero_points, x.shape, src_axes)
    if x.dtype != np.float32:
        if not scaled and out.dtype != np.float32:
            info = np.iinfo(out.dtype)
            shift = np.int64(0) if zero_points is None else layouts.aligned(zero_points, x.shape, axes)
            out[...] = np.clip(y.astype(np.int64) + shift, info.min, info.max)
            return
        y = y.astype(np.float32)
    scales = np.ones((), np.float32) if scales is None else scales
    zero_points = np.zeros((), np.int32) if zero_points is None else zero_points
    with np.errstate(over="ignore", under="ignore"):
        if src_scales is not None:
            y = y * layouts.aligned(src_scales, x.shape, src_axes)
        if out.dtype == np.float32:
            out[...] = y / layouts.aligned(scales, x.shape, axes)
        else:
            selected = tuple(y.shape[axis] for axis in axes)
            scales, zero_points = (v.reshape(selected) if v.ndim else v for v in (scales, zero_points))
            quantize(y, scales, zero_points, out.dtype, axis=axes or None, out=out)


@overload
def reorder(
    x: Any,
    *,
    src_layout: str | None = ...,
    dst_layout: str | None = ...,
    dtype: npt.DTypeLike | None = ...,
    scales: Literal["per_channel", "per_tensor"],
    zero_points: npt.ArrayLike | None = ...,
    src_scales: npt.ArrayLike | None = ...,
    src_zero_points: npt.ArrayLike | None = ...,
    mask: int = ...,
    src_mask: int | None = ...,
    k_order: str | None = ...,
    shape: Sequence[int] | None = ...,
    out: Any = ...,
) -> tuple[Any, npt.NDArray[np.float32]]: ...
@overload
def reorder(
    x: Any,
    *,
    src_layout: str | None = ...,
    dst_layout: str | None = ...,
    dtype: npt.DTypeLike | None = ...,
    scales: npt.ArrayLike | None = ...,
    zero_points: npt.ArrayLike | None = ...,
    src_scales: npt.ArrayLike | None = ...,
    src_zero_points: npt.ArrayLike | None = ...,
    mask: int = ...,
    src_mask: int | None = ...,
    k_order: str | None = ...,
    shape: Sequence[int] | None = ...,
    out: Any = ...,
) -> Any: ...
@traced("x")
def reorder(
    x: Any,
    *,
    src_layout: str | None = None,
    dst_layout: str | None = None,
    dtype: npt.DTypeLike | None = None,
    scales: Any = None,
    zero_points: npt.ArrayLike | None = None,
    src_scales: npt.ArrayLike | None = None,
    src_zero_points: npt.ArrayLike | None = None,
    mask: int = 0,
    src_mask: int | None = None,
    k_order: str | None = None,
    shape: Sequence[int] | None = None,
    out: Any = None,
) -> Any:
    """Convert a tensor to another type, with scales and zero points, and to another memory layout.

    ``dst = sat(rne(src_scale * (x - src_zero_point) / scale + zero_point))``

    The formula is computed for each element, in float32 and in this order. The formula omits scales and zero points
    that are not given. `scales` and `zero_points` therefore quantize, `src_scales` and `src_zero_points` dequantize,
    and all four requantize. Rounding is half to even. NaN becomes the zero point. float32 results are neither rounded
    nor saturated. Without scales, integers are converted to integers in exact arithmetic.

    Parameters
    ----------
    x : array_like of float32, int32, int8 or uint8; PackedB or sequence of PackedB
        The tensor, with any strides. It is packed if `src_layout` is ``"packed"``.
    src_layout, dst_layout : str, optional
        The order of the dimensions in memory, outermost first, by their letters: n, c, d, h, w of data (``"nchw"``,
        ``"nhwc"``, ``"nc"``) or g, o, i, d, h, w of weights (``"oihw"``, ``"hwio"``, ``"goihw"``, ``"oi"``), in any
        order. By default the destination has the layout of the source. A source without a layout has its axes in the
        logical order, (n, c, d, h, w) or (g, o, i, d, h, w). ``"packed"`` stands for weights as :class:`PackedB`.
    dtype : dtype, optional
        The dtype of the result: float32, int32, int8 or uint8; by default the dtype of `x`.
    scales : array_like of float, or {'per_channel', 'per_tensor'}, optional
        The scales of the destination, finite and not 0: one number, or one for each index of the dimensions that `mask`
        selects, flat or in the shape of these dimensions. With a string, the function computes the scales of float32
        weights for int8 like :func:`weights_scales`, and returns them too.
    zero_points : array_like of int, optional
        The zero points of the destination, any int32, with the shape of the scales. float32 has none.
    src_scales, src_zero_points : array_like, optional
        Scales and zero points of the source. For a float32 source `src_scales` are factors, the reciprocals of scales,
        like "output scales" in oneDNN before version 3.
    mask : int, optional
        Bit i selects logical dimension i. Each index along a selected dimension has its own scale and zero point.
    src_mask : int, optional
        The mask of `src_scales` and `src_zero_points`; by default `mask`.
    k_order : str, optional
        With ``"packed"``, the order of the dimensions in K, outermost first. The default is the logical order,
        ``"ihw"``. The patches of an "nhwc" image have the order ``"hwi"``.
    shape : sequence of int, optional
        The logical sizes of weights whose `src_layout` is ``"packed"``. `shape` must be given if the weights have
        spatial dimensions.
    out : numpy.ndarray, optional
        The array for the result, with its dtype and shape, and with any strides. `out` must not be given for
        ``"packed"``.

    Returns
    -------
    numpy.ndarray, PackedB or tuple of PackedB
        An array is `out`, or a new array, C-contiguous in `dst_layout`. ``"packed"`` gives B of shape (K, N) = (ic * kh
        * kw, oc): ``B[k, n]`` is the weight of output channel n at the k-th index of (ic, kh, kw) in `k_order`. Grouped
        weights give a tuple with a PackedB for each group. If `scales` is a string, the function returns a pair: the
        result and the scales.

    Raises
    ------
    TypeError, ValueError
        If an argument is not as described above. Nothing is written then.

    Notes
    -----
    Masks and the division by the scale follow oneDNN's specification, chapters "Int8" and "Quantization".

    Examples
    --------
    Weights quantized for each group and output channel, hwigo in float32 to goihw in int8 (oneDNN's guide "Primitive
    Attributes: Quantization", example 1). The reorder of this guide multiplies by the inverse scales, like
    `src_scales`:

    >>> import numpy as np, int8blas
    >>> G, OC, IC, KH, KW = 2, 6, 4, 3, 3
    >>> rng = np.random.default_rng(0)
    >>> wei_user_f32 = rng.normal(size=(KH, KW, IC // G, G, OC // G)).astype(np.float32)
    >>> wei_scales = int8blas.weights_scales(wei_user_f32, layout="hwigo")
    >>> wei_scales.shape  # G * OC/G
    (6,)
    >>> mask = (1 << 0) | (1 << 1)  # scale per G dimension, which is dim #0, and per OC dimension, which is dim #1
    >>> wei_conv_s8 = int8blas.reorder(
    ...     wei_user_f32, src_layout="hwigo", dst_layout="goihw", dtype=np.int8, src_scales=1 / wei_scales, mask=mask
    ... )
    >>> wei_conv_s8.shape, wei_conv_s8.dtype
    ((2, 3, 2, 3, 3), dtype('int8'))

    The specification divides by the scales:

    >>> np.array_equal(
    ...     int8blas.reorder(
    ...         wei_user_f32, src_layout="hwigo", dst_layout="goihw", dtype=np.int8, scales=wei_scales, mask=mask
    ...     ),
    ...     np.rint(wei_user_f32.transpose(3, 4, 2, 0, 1) / wei_scales.reshape(G, OC // G, 1, 1, 1)),
    ... )
    True

    The convolution's output scales (example 2) are applied to the accumulator for each output channel, dim #1 of dst:

    >>> src_scale, dst_scale = np.float32(0.25), np.float32(0.125)
    >>> conv_output_scales = src_scale * wei_scales / dst_scale
    >>> acc_s32 = np.full((1, OC, 2, 2), 100, np.int32)
    >>> dst_s8 = int8blas.reorder(acc_s32, dtype=np.int8, src_scales=conv_output_scales, mask=1 << 1)
    >>> dst_s8[0, :, 0, 0] == np.rint(100 * conv_output_scales)
    array([ True,  True,  True,  True,  True,  True])

    Pack weights for a convolution on "nhwc" images, and unpack them:

    >>> packed, scales = int8blas.reorder(
    ...     wei_user_f32, src_layout="hwigo", dst_layout="packed", dtype=np.int8, scales="per_channel", k_order="hwi"
    ... )
    >>> packed
    (PackedB(shape=(18, 3), dtype=int8), PackedB(shape=(18, 3), dtype=int8))
    >>> again = int8blas.reorder(
    ...     packed, src_layout="packed", dst_layout="hwigo", dtype=np.float32, src_scales=scales, mask=mask,
    ...     k_order="hwi", shape=(2, 3, 2, 3, 3)
    ... )
    >>> bool(np.all(abs(again - wei_user_f32) <= 0.50001 * scales.reshape(G, OC // G)))
    True
    """
    moves = (
        type(mask) is int and mask == 0 and scales is None and zero_points is None and src_scales is None
        and src_zero_points is None and src_mask is None and out is None
    )  # fmt: skip
    if (
        moves and type(x) is np.ndarray and type(src_layout) is type(dst_layout) is str and dtype is None
        and k_order is None and shape is None and x.dtype in NATIVE
    ):  # fmt: skip
        known = _axes(src_layout, dst_layout, x.ndim)
        if known is not None:
            return in_c_order(x.transpose(known))
    to_packed, from_packed = is_option(dst_layout, (PACKED,)), is_option(src_layout, (PACKED,))
    if to_packed and (src_layout is None or from_packed):
        raise ValueError(f"src_layout must be a layout of weights for dst_layout 'packed', got {shown(src_layout)}")
    letters: str | None
    if from_packed:
        if dst_layout is None:
            raise ValueError("dst_layout must be a layout of weights for src_layout 'packed', got None")
        _weights_layout(dst_layout, "dst_layout")
        logical, letters = packed_weights.unpack(x, dst_layout, k_order, shape), layouts.logical_order(dst_layout)
    else:
        if isinstance(x, PackedB):
            raise TypeError(f"x must be an array for src_layout {src_layout!r}, got a PackedB")
        if shape is not None:
            raise ValueError(f"shape must be None unless src_layout is 'packed', got {shown(shape)}")
        if to_packed:
            _weights_layout(src_layout, "src_layout")
        elif k_order is not None:
            raise ValueError(f"k_order must be None unless a layout is 'packed', got {shown(k_order)}")
        logical, letters = _source(_array(x, "x"), src_layout, dst_layout)
    wanted = _result_dtype(logical.dtype if dtype is None else dtype)
    if to_packed and wanted.name not in ("int8", "uint8"):
        raise TypeError(f"dtype must be int8 or uint8 for dst_layout 'packed', got {wanted}")
    layout = (src_layout if dst_layout is None else dst_layout) or ""
    if moves and wanted == logical.dtype and not to_packed:
        axes = layouts.permutation(letters or "", layout)
        return in_c_order(logical.transpose(axes) if axes else logical)
    automatic = isinstance(scales, str)
    if automatic:
        scales, mask = _automatic_scales(scales, mask, logical, letters, wanted)
    axes = layouts.mask_axes(mask, logical.ndim)
    src_axes = axes if src_mask is None else layouts.mask_axes(src_mask, logical.ndim, "src_mask")
    parameters = (
        _optional(src_scales, scale_values, logical, src_axes, "src_scales"),
        _optional(src_zero_points, _integer_zero_points, logical, src_axes, "src_zero_points", logical.dtype),
        _optional(scales, scale_values, logical, axes, "scales"),
        _optional(zero_points, _integer_zero_points, logical, axes, "zero_points", wanted),
    )
    result: Any
    if to_packed:
        assert letters is not None
        order = packed_weights.check_k_order(k_order, letters)
        if out is not None:
            raise ValueError("out must be None for dst_layout 'packed'")
        converted = np.empty(logical.shape, wanted)
        _convert(logical, src_axes, axes, *parameters, converted)
        result = packed_weights.pack(converted, letters, order)
    else:
        order = letters or ""
        there = layouts.permutation(order, layout) or range(logical.ndim)
        back = layouts.permutation(layout, order) or range(logical.ndim)
        size = tuple(logical.shape[axis] for axis in there)
        target = None if out is None else elements_output(out, "out", wanted.num, size)
        result = np.empty(size, wanted) if target is None or np.may_share_memory(target, logical) else target
        _convert(logical, src_axes, axes, *parameters, result.transpose(back))
        if target is not None and result is not target:
            target[...] = result
        result = result if out is None else out
    return (result, scales) if automatic else result


def _find_axes(src_layout: str, dst_layout: str, ndim: int) -> tuple[int, ...] | None:
    """Return the axes for ``transpose`` from one layout to another, or None if `reorder` must check the layouts. A
    cache keeps the axes, because calls with a small array would spend half of their time in checks of layouts."""
    try:
        letters = [layouts.logical_order(layouts.check_letters(layout, "")) for layout in (src_layout, dst_layout)]
    except ValueError:
        return None
    return layouts.permutation(src_layout, dst_layout) if letters[0] == letters[1] and len(letters[0]) == ndim else None


_axes = functools.lru_cache(maxsize=64)(_find_axes)


def _weights_layout(layout: Any, name: str) -> None:
    if not layouts.is_weights(layouts.check_layout(layout, name)):
        raise ValueError(f"{name} must be a layout of weights where the other one is 'packed', got {shown(layout)}")


def _source(array: Array, src_layout: str | None, dst_layout: str | None) -> tuple[Array, str | None]:
    """Return the source in logical order, and the letters of its dimensions if a layout names them."""
    logical, letters = layouts.to_logical(array, "x", src_layout, "src_layout")
    if dst_layout is None or is_option(dst_layout, (PACKED,)):
        return logical, letters
    order = layouts.logical_order(layouts.check_layout(dst_layout, "dst_layout"))
    if letters not in (None, order):
        raise ValueError(f"dst_layout must have the letters of src_layout {src_layout!r}, got {shown(dst_layout)}")
    if letters is None and array.ndim != len(order):
        raise ValueError(f"x must have {len(order)} dimensions ({', '.join(order)}), got shape {array.shape}")
    return logical, order


def _automatic_scales(
    scales: str, mask: Any, logical: Array, letters: str | None, dtype: np.dtype[Any]
) -> tuple[npt.NDArray[np.float32], int]:
    """Return the (scales, mask) that 'per_channel' or 'per_tensor' stands for."""
    if scales not in AUTOMATIC:
        raise ValueError(f"scales must be numbers or 'per_channel' or 'per_tensor', got {shown(scales)}")
    if letters is not None and not layouts.is_weights(letters):
        raise ValueError(f"scales must be numbers for data, got {shown(scales)}")
    if logical.dtype != np.float32 or dtype != np.int8:
        raise ValueError(f"scales must be numbers unless float32 becomes int8, got {shown(scales)} for {logical.dtype} "
                         f"and {dtype}")  # fmt: skip
    if mask != 0:
        raise ValueError(f"mask must be 0 with scales {scales!r}, which select the dimensions, got {shown(mask)}")
    selected = weights_mask(scales, letters)
    return scales_of(logical, "x", selected), selected


def _result_dtype(dtype: Any) -> np.dtype[Any]:
    wanted = dtype_from(dtype)
    if wanted in NATIVE:
        return wanted
    if wanted is None or wanted.name not in DTYPES:
        raise TypeError(f"dtype must be {either(DTYPES)}, got {dtype_argument(dtype)}")
    return wanted.newbyteorder("=")
