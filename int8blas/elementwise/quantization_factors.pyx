"""The quantization factors of oneDNN's guide "Int8 Inference", in float64.

Real values times their factor, rounded, are the quantized values. A factor is the reciprocal of the scale that
:func:`int8blas.quantize` takes.
"""

from libc.math cimport fabs, isfinite, rint
from libc.stdint cimport int32_t
cimport int8blas.core.cnumpy as cnp
import numpy as np

from int8blas.core.arrays cimport axes_from, finite_numbers, scale_numbers

cnp.import_array()


cdef object factor(double top, cnp.ndarray values, int kept, str name):
    """Return top / max(abs(values)), or 1 if all values are 0, for each index of the first `kept` dimensions of a
    C-contiguous float64 array."""
    cdef cnp.ndarray factors = cnp.PyArray_EMPTY(kept, cnp.PyArray_DIMS(values), cnp.NPY_FLOAT64, 0)
    cdef double *results = <double *>cnp.PyArray_DATA(factors)
    cdef const double *x = <const double *>cnp.PyArray_DATA(values)
    cdef cnp.npy_intp n = cnp.PyArray_SIZE(values) // cnp.PyArray_SIZE(factors), i, j
    cdef double largest
    for i in range(cnp.PyArray_SIZE(factors)):
        largest = 0
        for j in range(n):
            largest = max(largest, fabs(x[i * n + j]))
        results[i] = top / largest if largest > 0 else 1
        if not isfinite(results[i]):
            raise ValueError(f"{name} must have a maximum of at least 1e-305 where it is not all 0, got {largest}")
    return factors if kept else results[0]


def activation_factor(x):
    """Return the quantization factor of activations: ``255 / max(abs(x))``, in float64.

    Activations times the factor fill the range of uint8: ``quantize(x, 1 / activation_factor(x), dtype=np.uint8)``.

    Parameters
    ----------
    x : array_like
        The activations, finite and not negative.

    Returns
    -------
    float
        The factor, or 1 if all activations are 0, because any factor quantizes zeros to 0.

    Raises
    ------
    TypeError, ValueError
        If `x` is not as described above, or empty.

    Notes
    -----
    The factor is Q_a of oneDNN's guide "Int8 Inference".

    Examples
    --------
    >>> import numpy as np, int8blas
    >>> activations = np.array([15, 14, 15, 8, 11], np.float32)
    >>> int8blas.activation_factor(activations)
    17.0
    >>> int8blas.quantize(activations, 1 / 17, dtype=np.uint8)
    array([255, 238, 255, 136, 187], dtype=uint8)
    """
    cdef cnp.ndarray values = finite_numbers(x, "x")
    cdef double least = 0
    cdef cnp.npy_intp i
    for i in range(cnp.PyArray_SIZE(values)):
        least = min(least, (<const double *>cnp.PyArray_DATA(values))[i])
    if least < 0:
        raise ValueError(f"x must not be negative, got {least}")
    return factor(255, values, 0, "x")


def weights_factor(w, *, axis=None):
    """Return the quantization factor of weights, ``127 / max(abs(w))``, in float64.

    Weights times the factor are in [-127, 127]: ``quantize(w, 1 / weights_factor(w))``.

    Parameters
    ----------
    w : array_like
        The weights, finite.
    axis : int or tuple of int, optional
        The dimensions along which factors differ, such as the dimension of output channels. A factor's maximum is over
        all other dimensions.

    Returns
    -------
    float, or ndarray of float64
        The factor, or with `axis` an array with the shape of the selected dimensions, in their order. A factor is 1 if
        all its weights are 0, because any factor quantizes them to 0.

    Raises
    ------
    TypeError, ValueError
        If an argument is not as described above, or `w` is empty.

    Notes
    -----
    The factor is Q_w of oneDNN's guide "Int8 Inference". The guide's example prints [-66, 88, ..., -15, 127] for the
    weights below, because the guide truncates -15.55 to -15. The guide's own formula, with rounding to nearest even,
    makes -16 of -1.2 (12.959 * -1.2 = -15.55).

    Examples
    --------
    >>> import numpy as np, int8blas
    >>> weights = np.array([-5.1, 6.8, -1.2, 9.8], np.float32)
    >>> factor = int8blas.weights_factor(weights)
    >>> round(factor, 2)
    12.96
    >>> int8blas.quantize(weights, 1 / factor)
    array([-66,  88, -16, 127], dtype=int8)
    """
    cdef cnp.ndarray values = finite_numbers(w, "w")
    cdef tuple axes = axes_from(axis, "axis", values.ndim)
    if axes:
        others = [other for other in range(values.ndim) if other not in axes]
        values = np.ascontiguousarray(values.transpose((*axes, *others)))
    return factor(127, values, len(axes), "w")


def quantize_bias(bias, q_a, q_w):
    """Quantize a bias for sums of quantized products: ``sat_s32(rne(q_a * q_w * bias))``, in float64.

    Parameters
    ----------
    bias : array_like
        The bias, finite.
    q_a : float
        The factor of the activations, positive and finite.
    q_w : float, or array_like
        The factor of the weights, positive and finite: one value, or an array with the shape of `bias`.

    Returns
    -------
    ndarray of int32
        The integers, with the shape of `bias`; a scalar if `bias` has no dimensions.

    Raises
    ------
    TypeError, ValueError
        If an argument is not as described above, or `bias` is empty.

    Notes
    -----
    The result is b_s32 of oneDNN's guide "Int8 Inference". The guide's example prints [528, -1145, ..., -1762] for the
    bias below, because the guide truncates the first two values. The guide's own formula, with rounding to nearest
    even, gives 529 and -1146 (220.306 * 2.4 = 528.73, and 220.306 * -5.2 = -1145.59).

    Examples
    --------
    >>> import int8blas
    >>> int8blas.quantize_bias([2.4, -5.2, -8], 255 / 15, 127 / 9.8)
    array([  529, -1146, -1762], dtype=int32)
    """
    cdef cnp.ndarray values = finite_numbers(bias, "bias"), factors, result
    cdef double activations = scale_numbers(q_a, "q_a", cnp.NPY_FLOAT64, ()), product, scaled
    cdef const double *x = <const double *>cnp.PyArray_DATA(values)
    cdef const double *weights
    cdef bint each
    cdef cnp.npy_intp i
    factors = scale_numbers(q_w, "q_w", cnp.NPY_FLOAT64, (<object>values).shape)
    weights, each = <const double *>cnp.PyArray_DATA(factors), cnp.PyArray_NDIM(factors) > 0
    result = cnp.PyArray_EMPTY(cnp.PyArray_NDIM(values), cnp.PyArray_DIMS(values), cnp.NPY_INT32, 0)
    for i in range(cnp.PyArray_SIZE(values)):
        product = activations * weights[i if each else 0]  # may be infinite, but 0 stays 0
        scaled = rint(product * x[i]) if x[i] != 0 else 0
        (<int32_t *>cnp.PyArray_DATA(result))[i] = <int32_t>min(max(scaled, -2147483648.0), 2147483647.0)
    return result if cnp.PyArray_NDIM(result) else result[()]
