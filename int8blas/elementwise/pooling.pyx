"""Max and average pooling of quantized images, in one, two or three spatial dimensions."""

from libc.stdint cimport int64_t
cimport int8blas.core.cnumpy as cnp

import numpy as np

from int8blas.core.arrays cimport dtype_argument, dtype_from, elements_output, flag, int8_operand
from int8blas.core.results cimport Layout, check_layout, empty_in_order, empty_like, lay_out
from int8blas.elementwise.elements cimport share_memory
from int8blas.elementwise.epilogue cimport Epilogue, epilogue_of, finished, type_of
from int8blas.elementwise.pool cimport AVERAGE, AVERAGE_WITH_PADDING, MAXIMUM, Axis, extent, padding_only, pool
from int8blas.core.parameters import integer
from int8blas.core.spatial import (
    CHANNELS_LAST_AXES, output_size, padding_of, parse_layout, parse_padding, per_dimension)
from int8blas.core.traced import traced

cnp.import_array()

# The maximum number of elements of a window: the sum of 2**52 bytes fits 64 bits.
cdef double LARGEST_WINDOW = 2**52


cdef Epilogue attributes_of(cnp.ndarray src, object scales, object zero_points, object post_ops, object dst_dtype,
                            bint averages):
    """Return the epilogue. Without scales, zero points and post-ops the destination has the type of `src`, or is a
    float32 average."""
    cdef Epilogue e = epilogue_of(src, scales, zero_points, post_ops, type_of(dst_dtype, src))
    if not e.given and not averages and e.typenum != cnp.PyArray_TYPE(src):
        raise TypeError(f"dst_dtype must be {src.dtype}, as src is, without scales, zero_points and post_ops, got "
                        f"{dtype_argument(dst_dtype)}")
    if dst_dtype is not None and averages and not e.given:
        e.typenum = result_type(src, dst_dtype)
    return e


cdef object maximum(cnp.ndarray src, const Layout *checked, Axis *window, tuple axes, Epilogue e, object out,
                    bint ceil_mode=False):
    """Store the largest real numbers. If the scale is negative, the smallest elements stand for the largest numbers.
    `checked` is the layout of `src` at the beginning of the call."""
    cdef cnp.ndarray result
    check_layout(checked, src, "src")
    if not e.given:
        return run(src, window, axes, MAXIMUM, e.typenum, out, ceil_mode)
    if e.scale > 0:
        result = run(src, window, axes, MAXIMUM, cnp.PyArray_TYPE(src), None, ceil_mode)
    else:
        result = run(np.invert(src), window, axes, MAXIMUM, cnp.PyArray_TYPE(src), None, ceil_mode)
        np.invert(result, out=result)
    return finished(result, e, out)


cdef object average(cnp.ndarray src, const Layout *checked, Axis *window, tuple axes, int operation, Epilogue e,
                    object out, bint ceil_mode, object zero_point):
    """Store averages. If padding counts, it has the value `zero_point`. `checked` is as for `maximum`."""
    cdef cnp.ndarray result
    check_layout(checked, src, "src")
    if not e.given:
        return run(src, window, axes, operation, e.typenum, out, ceil_mode, zero_point)
    low = -128 if cnp.PyArray_TYPE(src) == cnp.NPY_INT8 else 0
    if operation == AVERAGE or low <= zero_point <= low + 255:
        result = run(src, window, axes, operation, cnp.NPY_FLOAT32, None, ceil_mode, zero_point)
    else:
        result = wide_averages(src, window, axes, ceil_mode, zero_point)
    return finished(result, e, out)


cdef cnp.ndarray wide_averages(cnp.ndarray src, Axis *window, tuple axes, bint ceil_mode, object zero_point):
    """Return averages, from int64 sums, of windows whose padding value is out of the range of the source's type."""
    cdef int d, axis
    # Pool with padding that does not count, to check the arguments and to get the shape.
    shape = run(src, window, axes, AVERAGE, cnp.NPY_FLOAT32, None, ceil_mode).shape
    spatial = tuple(axes[1:-1])
    inside, behind = [(0, 0)] * src.ndim, [(0, 0)] * src.ndim
    for d, axis in enumerate(spatial):
        reach = (shape[axis] - 1) * window[d].stride + window[d].kernel
        inside[axis] = (window[d].before, window[d].after)
        behind[axis] = (0, max(reach - src.shape[axis] - window[d].before - window[d].after, 0))
    steps = tuple([slice(None, None, window[spatial.index(axis)].stride) if axis in spatial else slice(None)
                   for axis in range(src.ndim)])
    kernel = [window[d].kernel for d in range(len(spatial))]
    totals = []
    for values, padding in ((src.astype(np.int64), zero_point), (np.ones((<object>src).shape, np.int64), 1)):
        values = np.pad(np.pad(values, inside, constant_values=padding), behind)
        windows = np.lib.stride_tricks.sliding_window_view(values, kernel, spatial)[steps]
        totals.append(windows.sum(axis=tuple(range(src.ndim, 2 * src.ndim - 2))).astype(np.float32))
    return np.divide(*totals)


cdef int result_type(cnp.ndarray src, object dst_dtype) except -1:
    """Return the type number of an average: the type of `src`, or float32."""
    if dst_dtype is None:
        return cnp.PyArray_TYPE(src)
    found = dtype_from(dst_dtype)
    if found is None or (found != src.dtype and found != np.float32):
        raise TypeError(f"dst_dtype must be {src.dtype}, as src is, or float32, got {dtype_argument(dst_dtype)}")
    return found.num


cdef cnp.ndarray padded(cnp.ndarray src, Axis *window, tuple axes, int64_t value):
    """Return a copy of the source with its padding, and set the padding of the windows to 0."""
    cdef cnp.npy_intp shape[5]
    cdef cnp.ndarray array
    cdef int d, axis, ndim = cnp.PyArray_NDIM(src)
    inside = [slice(None)] * ndim
    for axis in range(ndim):
        shape[axis] = cnp.PyArray_DIM(src, axis)
    for d in range(ndim - 2):
        axis = axes[d + 1]
        inside[axis] = slice(window[d].before, window[d].before + shape[axis])
        shape[axis] += window[d].before + window[d].after
        window[d].before = window[d].after = 0
    array = empty_in_order(shape, src, cnp.PyArray_TYPE(src))
    array[...] = value
    array[tuple(inside)] = src
    return array


cdef object run(cnp.ndarray src, Axis *window, tuple axes, int operation, int typenum, object out,
                bint ceil_mode=False, int64_t zero_point=0):
    """Pool after the last checks. `axes` lists the axes of `src` in the order n, d, h, w, c; `window` has the spatial
    dimensions."""
    cdef cnp.ndarray array, target
    cdef Layout checked
    cdef cnp.npy_intp shape[5]
    cdef int d, axis, ndim = cnp.PyArray_NDIM(src)
    cdef int64_t size, room
    cdef bint pads = False, hangs_over = False
    for axis in range(ndim):
        shape[axis] = cnp.PyArray_DIM(src, axis)
    for d in range(ndim - 2):
        axis = axes[d + 1]
        size = shape[axis]
        if size == 0:
            raise ValueError("src must have at least one element in each spatial dimension, "
                             f"got shape {(<object>src).shape}")
        if max(window[d].before, window[d].after) >= extent(&window[d]):
            raise ValueError(f"padding must be less than the extent of a window, {extent(&window[d])}, "
                             f"got {max(window[d].before, window[d].after)}")
        room = size + window[d].before + window[d].after - extent(&window[d])
        if room < 0 or ceil_mode:
            shape[axis] = output_size(size, window[d].kernel, window[d].stride, window[d].dilation,
                                      (window[d].before, window[d].after), "src", ceil_mode)
        else:
            shape[axis] = room // window[d].stride + 1
        pads = pads or window[d].before > 0 or window[d].after > 0
        hangs_over = hangs_over or (shape[axis] - 1) * window[d].stride > room
        if window[d].dilation > 1 and padding_only(&window[d], size, shape[axis]):
            raise ValueError(f"padding must leave an element of src in every window, got "
                             f"({window[d].before}, {window[d].after}) for {size} elements and dilation "
                             f"{window[d].dilation}")
    if out is None:
        array = target = empty_in_order(shape, src, typenum)
    else:
        lay_out(&checked, src)
        array = elements_output(out, "out", typenum, tuple([shape[axis] for axis in range(ndim)]))
        check_layout(&checked, src, "src")
        target = empty_like(array, typenum) if share_memory(src, array) else array
    if operation == AVERAGE_WITH_PADDING and (hangs_over or (pads and zero_point != 0)):
        # Averages count the padding in the copy, but not the elements after the padding.
        src, operation = padded(src, window, axes, zero_point), AVERAGE
    if cnp.PyArray_SIZE(array):
        pool(src, target, axes, operation, window)
    if target is not array:
        array[...] = target
    return array if out is None else out


cdef tuple set_window(Axis *window, cnp.ndarray src, object kernel, object strides, object padding, object dilation,
                      object layout):
    """Set the window along each spatial dimension. Return the axes of `src` in the order N, spatial, C."""
    cdef int d
    cdef double elements = 1
    spatial, channels_last = parse_layout(layout, cnp.PyArray_NDIM(src), "src")
    kernel = per_dimension(kernel, spatial, "kernel", 1)
    strides = kernel if strides is None else per_dimension(strides, spatial, "strides", 1)
    dilation = per_dimension(dilation, spatial, "dilation", 1)
    axes = CHANNELS_LAST_AXES[spatial, channels_last]
    padding = parse_padding(padding, spatial)
    if isinstance(padding, str):
        sizes = [cnp.PyArray_DIM(src, axis) for axis in axes[1:-1]]
        padding = padding_of(padding, sizes, kernel, strides, dilation)
    for d in range(spatial):
        elements *= <int64_t>kernel[d]
        window[d].kernel, window[d].stride, window[d].dilation = kernel[d], strides[d], dilation[d]
        window[d].before, window[d].after = padding[d]
    if elements > LARGEST_WINDOW:
        raise ValueError(f"kernel must have at most {LARGEST_WINDOW} elements, got {kernel}")
    return axes


cdef tuple set_global_window(Axis *window, cnp.ndarray src, object layout):
    """Set a window of the whole image. Return the axes of `src` in the order N, spatial, C."""
    cdef int d
    spatial, channels_last = parse_layout(layout, cnp.PyArray_NDIM(src), "src")
    axes = CHANNELS_LAST_AXES[spatial, channels_last]
    for d in range(spatial):
        window[d].kernel = cnp.PyArray_DIM(src, axes[d + 1])
        window[d].stride = window[d].dilation = 1
        window[d].before = window[d].after = 0
    return axes


@traced("src")
def max_pool(src, kernel, *, strides=None, padding=0, dilation=1, ceil_mode=False, layout=None, scales=None,
             zero_points=None, post_ops=(), dst_dtype=None, out=None):
    """Compute max pooling: the largest element in each window of an image.

    ::

        dst[n, oh, ow, c] = max over kh, kw of src[n, oh * sh - ph + kh * dh, ow * sw - pw + kw * dw, c]

    s are the strides, p is the padding before the image, and d the dilation. The formula is similar with one or three
    spatial dimensions. Padding elements are ignored. With `scales`, `zero_points` or `post_ops` ::

        y = max of scales["src"] * (f32(src) - f32(zero_points["src"]))         in the window
        y = post_ops(y)
        dst = sat(rne(y * (1 / scales["dst"]) + zero_points["dst"]))            integers
        dst = y * (1 / scales["dst"]), rounded to the type                      float32, float16, bfloat16

    The operations are in float32, and each is rounded once.

    Parameters
    ----------
    src : array_like of uint8 or int8
        The image, with 1, 2 or 3 spatial dimensions, in the order that `layout` gives. The image may have any strides.
    kernel : int or sequence of int
        The number of elements of a window, at least 1: one number for all spatial dimensions, or one for each.
    strides : int or sequence of int, optional
        The step from one window to the next, at least 1. The default is `kernel`.
    padding : int, sequence of int or of pairs of int, or str, optional
        The number of elements that are added on both sides: one number for all spatial dimensions, or for each
        dimension a number or a pair (before, after). Each number must be less than the extent of a window, ``dilation *
        (kernel
        - 1) + 1``. "valid" adds no elements. "same" and "same_lower" pad to ``ceil(size / stride)`` windows. If the
        number of padding elements is odd, "same" puts one more after the data, and "same_lower" before it.
    dilation : int or sequence of int, optional
        The step from one element of a window to the next, at least 1.
    ceil_mode : bool, optional
        Whether to round the number of windows up, as torch does. With `ceil_mode` the last window may reach beyond the
        padding, but must begin in the source or in the padding before it. Elements beyond the padding do not count.
    layout : str, optional
        ``"nwc"``, ``"nhwc"`` or ``"ndhwc"`` (the default, and fast), or ``"ncw"``, ``"nchw"`` or ``"ncdhw"``.
        Names in upper case are accepted.
    scales : mapping of str to float, optional
        The scales of "src" and "dst", by default 1. The scales are finite and not 0 in float32, and the scale of "dst"
        is more than 2**-128 in magnitude.
    zero_points : mapping of str to int, optional
        The zero points of "src" and "dst", any int32; 0 by default. Float tensors have no zero point.
    post_ops : post-op, or sequence of them, optional
        Post-ops that are applied to y before it is stored, as in :func:`eltwise`. Operands broadcast to the shape of
        the result.
    dst_dtype : dtype, optional
        The dtype of the result, by default the dtype of `src`. With scales, zero points or post-ops it may be uint8,
        int8, int32, float32, float16 or bfloat16.
    out : ndarray of `dst_dtype`, optional
        The array for the result. The array may have any strides and may overlap `src`. A Sum post-op adds to the old
        content of the array.

    Returns
    -------
    ndarray of `dst_dtype`
        ``out`` if it is given. The result has the dimensions of `src`. The size of a spatial dimension is ``floor((size
        + before + after - dilation * (kernel - 1) - 1) / stride) + 1``. With `ceil_mode` the size has ``ceil`` in place
        of ``floor``, and is one less if the last window would begin after the source.

    Raises
    ------
    TypeError, ValueError
        If an argument is not as described above, or if a window has only padding. Nothing is written then.

    See Also
    --------
    global_max_pool : the maximum of the whole image.

    Notes
    -----
    Without scales, zero points and post-ops the result has the scale and the zero point of `src`, if the scale is
    positive. This is oneDNN's primitive "pooling", algorithm max. Results have the same bits on every CPU and with any
    number of threads.

    Examples
    --------
    >>> import numpy as np, int8blas
    >>> x = np.arange(16, dtype=np.uint8).reshape(1, 4, 4, 1)
    >>> int8blas.max_pool(x, 2)[0, :, :, 0]
    array([[ 5,  7],
           [13, 15]], dtype=uint8)
    >>> int8blas.max_pool(x, 3, strides=2, padding=1)[0, :, :, 0]
    array([[ 5,  7],
           [13, 15]], dtype=uint8)
    >>> int8blas.max_pool(x, 3, ceil_mode=True)[0, :, :, 0]
    array([[10, 11],
           [14, 15]], dtype=uint8)
    >>> int8blas.max_pool(x, 2, scales={"src": -0.5}, zero_points={"src": 8}, dst_dtype=np.float32)[0, :, :, 0]
    array([[ 4.,  3.],
           [-0., -1.]], dtype=float32)
    """
    cdef Layout checked
    cdef cnp.ndarray array = int8_operand(src, "src")
    lay_out(&checked, array)
    cdef bint rounds_up = flag(ceil_mode, "ceil_mode")
    cdef Axis window[3]
    axes = set_window(window, array, kernel, strides, padding, dilation, layout)
    e = attributes_of(array, scales, zero_points, post_ops, dst_dtype, False)
    return maximum(array, &checked, window, axes, e, out, rounds_up)


@traced("src")
def avg_pool(src, kernel, *, strides=None, padding=0, include_padding=False, zero_point=0, ceil_mode=False, layout=None,
             scales=None, zero_points=None, post_ops=(), dst_dtype=None, out=None):
    """Compute average pooling: the mean of the elements in each window of an image.

    ::

        sum = sum over kh, kw of src[n, oh * sh - ph + kh, ow * sw - pw + kw, c]
        dst[n, oh, ow, c] = rne(f32(sum) / f32(count))

    s are the strides, and p is the padding before the image. The formula is similar with one or three spatial
    dimensions. The exact sum is rounded to float32, which can change only sums from 2**24 on. The quotient is float32,
    and is rounded half to even for a result of `src`'s dtype. With `scales`, `zero_points` or `post_ops` ::

        y = scales["src"] * (f32(sum) / f32(count) - f32(zero_points["src"]))
        y = post_ops(y)
        dst = sat(rne(y * (1 / scales["dst"]) + zero_points["dst"]))            integers
        dst = y * (1 / scales["dst"]), rounded to the type                      float32, float16, bfloat16

    The operations are in float32, and each is rounded once.

    Parameters
    ----------
    src : array_like of uint8 or int8
        The image, with 1, 2 or 3 spatial dimensions, in the order that `layout` gives. The image may have any strides.
    kernel : int or sequence of int
        The number of elements of a window, at least 1: one number for all spatial dimensions, or one for each.
    strides : int or sequence of int, optional
        The step from one window to the next, at least 1. The default is `kernel`.
    padding : int, sequence of int or of pairs of int, or str, optional
        As for :func:`max_pool`, and less than `kernel`.
    include_padding : bool, optional
        Whether padding counts. If padding counts, `count` is the size of the window. If padding does not count, `count`
        is the number of elements of the window that are not padding.
    zero_point : int, optional
        The zero point of `src`, in the range of its dtype, by default 0. The zero point is the value of padding that
        counts, and has no effect without `include_padding`. `zero_point` and ``zero_points["src"]`` must not both be
        given.
    ceil_mode : bool, optional
        As for :func:`max_pool`. Elements beyond the padding are neither in the sum nor in `count`.
    layout : str, optional
        ``"nwc"``, ``"nhwc"`` or ``"ndhwc"`` (the default, and fast), or ``"ncw"``, ``"nchw"`` or ``"ncdhw"``.
        Names in upper case are accepted.
    scales : mapping of str to float, optional
        The scales of "src" and "dst", by default 1. The scales are finite and not 0 in float32, and the scale of "dst"
        is more than 2**-128 in magnitude.
    zero_points : mapping of str to int, optional
        The zero points of "src" and "dst", any int32; 0 by default. Padding that counts has the zero point of "src".
        Float tensors have no zero point.
    post_ops : post-op, or sequence of them, optional
        Post-ops that are applied to y before it is stored, as in :func:`eltwise`. Operands broadcast to the shape of
        the result.
    dst_dtype : dtype, optional
        The dtype of the result: by default the dtype of `src`, or float32 for the quotient without the last rounding.
        With scales, zero points or post-ops it may also be uint8, int8, int32, float16 or bfloat16.
    out : ndarray of `dst_dtype`, optional
        The array for the result. The array may have any strides and may overlap `src`. A Sum post-op adds to the old
        content of the array.

    Returns
    -------
    ndarray of `dst_dtype`
        ``out`` if it is given. The result has the dimensions of `src`. The size of a spatial dimension is ``floor((size
        + before + after - kernel) / stride) + 1``, or with `ceil_mode` the size that :func:`max_pool` describes.

    Raises
    ------
    TypeError, ValueError
        If an argument is not as described above. Nothing is written then.

    See Also
    --------
    global_avg_pool : the mean of the whole image.

    Notes
    -----
    This is oneDNN's int8 average pooling, which sums in integers, divides and rounds ("Nuances of int8 Computations").
    Without scales, zero points and post-ops the result has the scale and the zero point of `src`. With
    ``include_padding=True`` the result has the scale and zero point of `src` only if `zero_point` is given. The source
    is copied with its padding if padding counts and is not 0, or if padding counts and the last window reaches beyond
    the padding. Results have the same bits on every CPU and with any number of threads.

    Examples
    --------
    >>> import numpy as np, int8blas
    >>> x = np.arange(16, dtype=np.uint8).reshape(1, 4, 4, 1)
    >>> int8blas.avg_pool(x, 2)[0, :, :, 0]
    array([[ 2,  4],
           [10, 12]], dtype=uint8)
    >>> int8blas.avg_pool(x, 2, dst_dtype=np.float32)[0, :, :, 0]
    array([[ 2.5,  4.5],
           [10.5, 12.5]], dtype=float32)
    >>> int8blas.avg_pool(np.full_like(x, 100), 2, padding=1, include_padding=True, zero_point=100)[0, :, 0, 0]
    array([100, 100, 100], dtype=uint8)
    """
    cdef Layout checked
    cdef cnp.ndarray array = int8_operand(src, "src")
    lay_out(&checked, array)
    cdef Epilogue e = attributes_of(array, scales, zero_points, post_ops, dst_dtype, True)
    cdef int operation = AVERAGE_WITH_PADDING if flag(include_padding, "include_padding") else AVERAGE
    cdef int low = -128 if cnp.PyArray_TYPE(array) == cnp.NPY_INT8 else 0
    zero_point = integer(zero_point, "zero_point")
    if not low <= zero_point <= low + 255:
        raise ValueError(f"zero_point must be between {low} and {low + 255}, got {zero_point}")
    if e.given and zero_points and "src" in zero_points:
        if zero_point:
            raise ValueError(f"zero_point must not be given together with zero_points['src'], got {zero_point}")
        zero_point = int(zero_points["src"])
    elif e.given:
        e.zero = zero_point
    cdef bint rounds_up = flag(ceil_mode, "ceil_mode")
    cdef Axis window[3]
    axes = set_window(window, array, kernel, strides, padding, 1, layout)
    return average(array, &checked, window, axes, operation, e, out, rounds_up, zero_point)


@traced("src")
def global_max_pool(src, *, layout=None, scales=None, zero_points=None, post_ops=(), dst_dtype=None, out=None):
    """Compute max pooling of the whole image: the largest element of each channel.

    Parameters
    ----------
    src : array_like of uint8 or int8
        The image, as in :func:`max_pool`.
    layout : str, optional
        As in :func:`max_pool`.
    scales, zero_points, post_ops, dst_dtype : optional
        As in :func:`max_pool`.
    out : ndarray of `dst_dtype`, optional
        The array for the result. The array may have any strides and may overlap `src`.

    Returns
    -------
    ndarray of `dst_dtype`
        ``out`` if it is given. The result has the dimensions of `src`; spatial dimensions have size 1.

    Raises
    ------
    TypeError, ValueError
        If an argument is not as described above. Nothing is written then.

    Examples
    --------
    >>> import numpy as np, int8blas
    >>> x = np.arange(-6, 6, dtype=np.int8).reshape(1, 2, 3, 2)
    >>> int8blas.global_max_pool(x)
    array([[[[4, 5]]]], dtype=int8)
    """
    cdef Layout checked
    cdef cnp.ndarray array = int8_operand(src, "src")
    lay_out(&checked, array)
    cdef Axis window[3]
    axes = set_global_window(window, array, layout)
    e = attributes_of(array, scales, zero_points, post_ops, dst_dtype, False)
    return maximum(array, &checked, window, axes, e, out)


@traced("src")
def global_avg_pool(src, *, layout=None, scales=None, zero_points=None, post_ops=(), dst_dtype=None, out=None):
    """Compute average pooling of the whole image: the mean of each channel, ``rne(f32(sum) / f32(count))``.

    Parameters
    ----------
    src : array_like of uint8 or int8
        The image, as in :func:`avg_pool`.
    layout : str, optional
        As in :func:`avg_pool`.
    scales, zero_points, post_ops, dst_dtype : optional
        As in :func:`avg_pool`.
    out : ndarray of `dst_dtype`, optional
        The array for the result. The array may have any strides and may overlap `src`.

    Returns
    -------
    ndarray of `dst_dtype`
        ``out`` if it is given. The result has the dimensions of `src`; spatial dimensions have size 1.

    Raises
    ------
    TypeError, ValueError
        If an argument is not as described above. Nothing is written then.

    Examples
    --------
    >>> import numpy as np, int8blas
    >>> x = np.arange(-6, 6, dtype=np.int8).reshape(1, 2, 3, 2)
    >>> int8blas.global_avg_pool(x)
    array([[[[-1,  0]]]], dtype=int8)
    >>> int8blas.global_avg_pool(x, layout="nchw", dst_dtype=np.float32).ravel()
    array([-3.5,  2.5], dtype=float32)
    """
    cdef Layout checked
    cdef cnp.ndarray array = int8_operand(src, "src")
    lay_out(&checked, array)
    cdef Axis window[3]
    axes = set_global_window(window, array, layout)
    e = attributes_of(array, scales, zero_points, post_ops, dst_dtype, True)
    return average(array, &checked, window, axes, AVERAGE, e, out, False, 0)
