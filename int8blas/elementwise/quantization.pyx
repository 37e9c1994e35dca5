"""Quantization element by element, in the model ``x_f32 = scale * (x_int - zero_point)`` of oneDNN's documents."""

from libc.stdint cimport INT32_MAX, INT32_MIN, int64_t, uint32_t
cimport cython
cimport int8blas.core.cnumpy as cnp
import numpy as np

from int8blas.core.arrays cimport (
    axes_from, choice, elements, integers_in_range, scale_numbers, quantized_type)
from int8blas.core.kernels cimport (
    I8_DOUBLING, I8_FLOAT, I8_S8, I8_S32, I8_SINGLE, I8_U8, current_kernels, i8_elements_fn)
from int8blas.core.results cimport LARGE_BYTES, Layout, check_layout, lay_out
from int8blas.elementwise.elements cimport apply, fits
from int8blas.stage.requantization cimport limited, multipliers
from int8blas.core.traced import traced
from int8blas.stage.attributes import SCHEMES

cnp.import_array()

cdef extern from "elementwise/reciprocal.h" nogil:
    float i8_reciprocal(float scale)

# Minimum number of elements for which quantize makes reciprocals of scales, if neighbours have their own scales. Making
# them takes 0.4 us; 512 x 64 numbers then take 6.3 us instead of 8.8. If neighbours share a scale, dividing is faster
# than repeating the reciprocals in memory: 16384 x 64 by rows take 490 and 600 us (Emerald Rapids, AVX-512).
cdef enum:
    RECIPROCALS = 4096

cdef object NDARRAY = np.ndarray
cdef tuple FLOATS = (cnp.NPY_FLOAT32, cnp.NPY_FLOAT16)
cdef tuple INTEGERS = (cnp.NPY_UINT8, cnp.NPY_INT8, cnp.NPY_INT32)


cdef struct IntegerType:
    int index          # in a kernel table
    int64_t low, high


cdef IntegerType integer_type(int typenum) noexcept:
    cdef IntegerType t
    if typenum == cnp.NPY_UINT8:
        t.index, t.low, t.high = I8_U8, 0, 255
    elif typenum == cnp.NPY_INT8:
        t.index, t.low, t.high = I8_S8, -128, 127
    else:
        t.index, t.low, t.high = I8_S32, -2147483648, 2147483647
    return t


cdef bint lie_between(cnp.ndarray zero_points, int64_t low, int64_t high) noexcept:
    """Return whether all zero points, contiguous int32, are from low to high. GCC vectorizes the loop, because a
    zero point takes one comparison."""
    cdef const uint32_t *values = <const uint32_t *>cnp.PyArray_DATA(zero_points)
    cdef uint32_t least = <uint32_t>low, size = <uint32_t>(high - low), outside = 0
    cdef cnp.npy_intp i
    for i in range(cnp.PyArray_SIZE(zero_points)):
        outside |= values[i] - least > size
    return outside == 0


cdef tuple shape_of(const Layout *x, tuple axes):
    """Return the shape of parameters for these axes."""
    return tuple([x.shape[axis] for axis in axes]) if axes else ()


cdef cnp.ndarray large_array(object x, int typenum, tuple shape):
    """Return a large array of exactly this type and shape, which kernels can read in place. Return None for any other
    argument."""
    if (shape and type(x) is NDARRAY and cnp.PyArray_NBYTES(x) >= LARGE_BYTES and cnp.PyArray_TYPE(x) == typenum
            and cnp.PyArray_ISCARRAY_RO(x) and x.shape == shape):
        return x
    return None


cdef cnp.ndarray scales_of(object scale, int typenum, tuple shape):
    """Check and return scales, like `scale_numbers`. A large array is not copied, and GCC vectorizes the loop that
    checks it: 1.5 million scales take 0.2 ms instead of 1.6 ms (Zen 4)."""
    cdef cnp.ndarray scales = large_array(scale, cnp.NPY_FLOAT32, shape) if typenum == cnp.NPY_FLOAT32 else None
    cdef const uint32_t *bits
    cdef uint32_t wrong = 0
    cdef cnp.npy_intp i
    if scales is not None:
        bits = <const uint32_t *>cnp.PyArray_DATA(scales)
        for i in range(cnp.PyArray_SIZE(scales)):
            wrong |= (bits[i] & 0x7fffffff) - 1 >= 0x7f7fffff  # 0, an infinity or NaN
        if not wrong:
            return scales
    return scale_numbers(scale, "scale", typenum, shape)


cdef cnp.ndarray zero_points_of(object zero_point, IntegerType t, bint of_type, tuple shape):
    """Return zero points in the range of the type, or any int32. A large array is not copied."""
    cdef int64_t low = t.low if of_type else INT32_MIN, high = t.high if of_type else INT32_MAX
    cdef cnp.ndarray zeros = large_array(zero_point, cnp.NPY_INT32, shape)
    if zeros is not None and (not of_type or lie_between(zeros, low, high)):
        return zeros
    return integers_in_range(zero_point, "zero_point", low, high, shape)


@traced("x")
@cython.binding(True)  # inspect knows defaults of a built-in function if they are literals
def quantize(x, scale, zero_point=0, dtype=np.int8, *, axis=None, scheme="float", out=None):
    """Quantize an array: ``sat(rne(x / scale + zero_point))``.

    Division and addition are in float32, in this order. The sum is rounded half to even and saturated to `dtype`. NaN
    becomes the saturated zero point, and infinities saturate.

    Parameters
    ----------
    x : array_like of float32, float16 or bfloat16
        The values, of any shape and with any strides.
    scale : float, or array_like
        The scale, finite and not 0 when rounded to float32: one value, or, with `axis`, an array.
    zero_point : int, or array_like of int, optional
        The zero point, any int32. The zero point is rounded to float32 before it is added, which is exact up to 2**24.
        With ``scheme="onnx"`` the zero point must be in the range of `dtype`.
    dtype : dtype, optional
        uint8, int8 or int32.
    axis : int or tuple of int, optional
        The dimensions of `x` along which `scale` and `zero_point` differ. `scale` and `zero_point` each are one value,
        or an array with the shape of these dimensions, in this order. In oneDNN's documents a mask selects these
        dimensions.
    scheme : {'float', 'onnx'}, optional
        "onnx" rounds only the quotient, and the sum is exact: ``sat(rne(x / scale) + zero_point)``.
    out : ndarray of `dtype`, optional
        The array for the result. The array must have the shape of `x`, may have any strides and may overlap `x`.

    Returns
    -------
    ndarray of `dtype`
        ``out`` if it is given. The result is a scalar if `x` has no dimensions.

    Raises
    ------
    TypeError, ValueError
        If an argument is not as described above. Nothing is written then.

    See Also
    --------
    dequantize : the inverse function.
    weights_factor, activation_factor : compute 1 / scale from the values.

    Notes
    -----
    `quantize` computes the quantization of oneDNN's attributes, or with ``scheme="onnx"`` the QuantizeLinear of ONNX.
    Results of the two schemes differ by one if a quotient is halfway between two integers and the zero point is odd, or
    if adding the zero point in float32 gives a number halfway between two integers. The result has the same bits on
    every CPU and with any number of threads.

    Examples
    --------
    >>> import numpy as np, int8blas
    >>> x = np.array([[-1, 0.25, 0.75], [0, 64, np.inf]], np.float32)
    >>> int8blas.quantize(x, 0.5)
    array([[ -2,   0,   2],
           [  0, 127, 127]], dtype=int8)
    >>> int8blas.quantize(x, [0.5, 1], [10, 0], np.uint8, axis=0)
    array([[  8,  10,  12],
           [  0,  64, 255]], dtype=uint8)
    >>> int8blas.quantize(x[0], 0.5, 1), int8blas.quantize(x[0], 0.5, 1, scheme="onnx")
    (array([-1,  2,  2], dtype=int8), array([-1,  1,  3], dtype=int8))
    """
    cdef cnp.ndarray array = elements(x, "x", FLOATS), scales, zero_points
    cdef int typenum = quantized_type(dtype, "dtype")
    cdef IntegerType t = integer_type(typenum)
    cdef Layout layout
    lay_out(&layout, array)
    cdef tuple axes = axes_from(axis, "axis", layout.ndim), shape = shape_of(&layout, axes)
    cdef i8_elements_fn function
    cdef bint onnx = choice(scheme, "scheme", ("float", "onnx"))
    scales = scales_of(scale, cnp.NPY_FLOAT32, shape)
    zero_points = zero_points_of(zero_point, t, onnx, shape)
    check_layout(&layout, array, "x")
    function = current_kernels().elementwise.quantize_onnx[t.index] if onnx else (
        current_kernels().elementwise.quantize[t.index])
    cdef list parameters = [scales, zero_points]
    if (cnp.PyArray_SIZE(array) >= RECIPROCALS and len(axes) == 1 and fits(scales, array, axes)
            and cnp.PyArray_STRIDE(array, axes[0]) == cnp.PyArray_ITEMSIZE(array)):
        parameters.append(reciprocals_of(scales))
    return apply(function, array, out, typenum, axes, parameters)


cdef cnp.ndarray reciprocals_of(cnp.ndarray scales):
    """Return the reciprocals by which kernels multiply instead of dividing by scales."""
    cdef cnp.ndarray reciprocals = cnp.PyArray_NewCopy(scales, cnp.NPY_CORDER)
    cdef float *values = <float *>cnp.PyArray_DATA(reciprocals)
    cdef cnp.npy_intp i
    for i in range(cnp.PyArray_SIZE(reciprocals)):
        values[i] = i8_reciprocal(values[i])
    return reciprocals


@traced("x")
def dequantize(x, scale, zero_point=0, *, axis=None, out=None):
    """Dequantize an array: ``scale * float32(x - zero_point)``.

    The exact difference is rounded to float32, which can change only differences from 2**24 on. The product is float32.

    Parameters
    ----------
    x : array_like of uint8, int8 or int32
        The values, of any shape and with any strides.
    scale : float, or array_like
        The scale, finite and not 0 when rounded to float32: one value, or, with `axis`, an array.
    zero_point : int, or array_like of int, optional
        The zero point, any int32.
    axis : int or tuple of int, optional
        The dimensions of `x` along which `scale` and `zero_point` differ, as in :func:`quantize`.
    out : ndarray of float32, optional
        The array for the result. The array must have the shape of `x`, may have any strides and may overlap `x`.

    Returns
    -------
    ndarray of float32
        ``out`` if it is given. The result is a scalar if `x` has no dimensions.

    Raises
    ------
    TypeError, ValueError
        If an argument is not as described above. Nothing is written then.

    See Also
    --------
    quantize : the inverse function.

    Notes
    -----
    This is the quantization model of oneDNN's "Primitive Attributes: Quantization". The result has the same bits on
    every CPU and with any number of threads.

    Examples
    --------
    >>> import numpy as np, int8blas
    >>> int8blas.dequantize(np.array([0, 128, 255], np.uint8), 0.5, 128)
    array([-64. ,   0. ,  63.5], dtype=float32)
    """
    cdef cnp.ndarray array = elements(x, "x", INTEGERS), zero_points
    cdef IntegerType t = integer_type(cnp.PyArray_TYPE(array))
    cdef Layout layout
    lay_out(&layout, array)
    cdef tuple axes = axes_from(axis, "axis", layout.ndim), shape = shape_of(&layout, axes)
    scales = scales_of(scale, cnp.NPY_FLOAT32, shape)
    zero_points = zero_points_of(zero_point, t, False, shape)
    check_layout(&layout, array, "x")
    if t.index != I8_S32 and not lie_between(zero_points, LEAST_ZERO, MOST_ZERO):
        array, t = array.astype(np.int32), integer_type(cnp.NPY_INT32)
    return apply(current_kernels().elementwise.dequantize[t.index], array, out, cnp.NPY_FLOAT32, axes,
                 [scales, zero_points])


@traced("x")
@cython.binding(True)  # inspect knows defaults of a built-in function if they are literals
def requantize(x, scale, zero_point=0, dtype=np.int8, *, axis=None, scheme="float", out=None):
    """Quantize sums, for example of a GEMM, to another scale: ``sat(x * scale + zero_point)``, rounded as in `scheme`.

    Parameters
    ----------
    x : array_like of int32
        The values, of any shape and with any strides.
    scale : float, or array_like
        The factor: the scale of `x` divided by the scale of the result. After rounding to float32, factors must be
        finite and not 0, and positive with the schemes "doubling" and "single". The factor is one value or, with
        `axis`, an array.
    zero_point : int, or array_like of int, optional
        The zero point: any int32 if `scheme` is "float", otherwise in the range of `dtype`.
    dtype : dtype, optional
        uint8, int8 or int32.
    axis : int or tuple of int, optional
        The dimensions of `x` along which `scale` and `zero_point` differ, as in :func:`quantize`.
    scheme : {'float', 'doubling', 'single', 'onnx'}, optional
        The arithmetic (see Notes).
    out : ndarray of `dtype`, optional
        The array for the result. The array must have the shape of `x`, may have any strides and may overlap `x`.

    Returns
    -------
    ndarray of `dtype`
        ``out`` if it is given. The result is a scalar if `x` has no dimensions.

    Raises
    ------
    TypeError, ValueError
        If an argument is not as described above. Nothing is written then.

    See Also
    --------
    quantized_multiplier : the multiplier of the integer schemes.

    Notes
    -----
    ``"float"`` is oneDNN's scheme, ``sat(rne(float32(x) * scale + zero_point))``, each step in float32. ``"onnx"``
    rounds before it adds the zero point, ``sat(rne(float32(x) * scale) + zero_point)``.

    "doubling" and "single" compute in integers, with ``m, e = quantized_multiplier(scale)``, so that ``scale`` is
    nearly ``m * 2**(e - 31)``. The integer schemes compute an int32 ``y``, and the result is ``sat(y + zero_point)``.

    ``"doubling"`` is gemmlowp's scheme, bit for bit: the saturating rounding doubling high multiplication, then a
    rounding division by a power of two. This scheme rounds twice::

        v = sat_s32(x * 2**max(e, 0))
        h = floor(v * m / 2**31 + 1/2)
        y = h / 2**max(-e, 0)               to nearest, ties away from zero

    For scales of at least 1, ``x * 2**e`` saturates to int32 *before* it is multiplied by ``m / 2**31``, a number from
    1/2 to 1. An int32 result may therefore be as small as 2**30 although the exact product exceeds int32. 8-bit results
    saturate correctly.

    ``"single"`` rounds the exact product once, ties upwards, and then saturates it::

        y = sat_s32(floor(x * m * 2**(e - 31) + 1/2))

    Results have the same bits on every CPU and with any number of threads.

    Examples
    --------
    >>> import numpy as np, int8blas
    >>> x = np.array([-1000, -6, -2, 2, 6, 1000], np.int32)
    >>> int8blas.requantize(x, 0.25)
    array([-128,   -2,    0,    0,    2,  127], dtype=int8)
    >>> int8blas.requantize(x, 0.25, scheme="doubling")
    array([-128,   -2,   -1,    1,    2,  127], dtype=int8)
    >>> int8blas.requantize(x, 0.25, scheme="single")
    array([-128,   -1,    0,    1,    2,  127], dtype=int8)
    """
    cdef cnp.ndarray array = elements(x, "x", (cnp.NPY_INT32,)), scales, exponents, zero_points
    cdef int typenum = quantized_type(dtype, "dtype"), kind = choice(scheme, "scheme", SCHEMES)
    cdef bint integral
    cdef IntegerType t = integer_type(typenum)
    cdef Layout layout
    lay_out(&layout, array)
    cdef tuple axes = axes_from(axis, "axis", layout.ndim), shape = shape_of(&layout, axes)
    integral = kind == I8_DOUBLING or kind == I8_SINGLE
    scales = scales_of(scale, cnp.NPY_FLOAT64 if integral else cnp.NPY_FLOAT32, shape)
    zero_points = zero_points_of(zero_point, t, kind != I8_FLOAT, shape)
    check_layout(&layout, array, "x")
    parameters = [scales, zero_points]
    if integral:
        scales, exponents = multipliers(scales)
        parameters = [scales, zero_points, limited(exponents, kind)]
    return apply(current_kernels().elementwise.requantize[kind][t.index], array, out, typenum, axes, parameters)


def quantized_multiplier(scale):
    """Return a scale as an integer multiplier and a power of two: ``scale ~ multiplier * 2**(exponent - 31)``.

    Parameters
    ----------
    scale : float
        The scale, positive and finite.

    Returns
    -------
    multiplier : int
        The scale's 31 leading bits, rounded half up: at least 2**30 and below 2**31. The multiplier is 0 for scales
        that round to less than 2**-32, because they map every int32 to 0.
    exponent : int
        The number with ``2**(exponent - 1) <= scale < 2**exponent``. The exponent is one more if the multiplier was
        rounded up to 2**31, and 0 if the multiplier is 0.

    Raises
    ------
    TypeError, ValueError
        If `scale` is not as described above.

    Notes
    -----
    This is the ``QuantizeMultiplier`` of gemmlowp's and TensorFlow Lite's integer arithmetic, without an upper limit
    of the exponent.

    Examples
    --------
    >>> import int8blas
    >>> int8blas.quantized_multiplier(0.75) == (3 * 2**29, 0)
    True
    >>> int8blas.quantized_multiplier(1)
    (1073741824, 1)
    """
    multiplier, exponent = multipliers(scale_numbers(scale, "scale", cnp.NPY_FLOAT64, ()))
    return int(multiplier), int(exponent)
