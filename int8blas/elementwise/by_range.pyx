"""Quantization of a whole array to uint8 by its range: ONNX's DynamicQuantizeLinear (see stage/by_range.pyx)."""

from libc.stdint cimport uint8_t
cimport int8blas.core.cnumpy as cnp
import numpy as np

from int8blas.core.arrays cimport float32s
from int8blas.core.kernels cimport current_kernels
from int8blas.core.results cimport empty_of
from int8blas.core.threads cimport max_threads
from int8blas.stage.by_range cimport quantize_by_range

cnp.import_array()


def quantize_whole(x):
    """The bytes, the scale and the zero point of an array of real numbers.

    Parameters
    ----------
    x : array_like of float32, float16 or bfloat16
        Of any shape.

    Returns
    -------
    y : ndarray of uint8
        Of the same shape.
    scale : float
        A float32; NaN if not all of `x` is finite.
    zero_point : int
        From 0 to 255.
    """
    cdef cnp.ndarray source = np.ascontiguousarray(float32s(x, "x"))
    cdef cnp.ndarray y = empty_of((<object>source).shape, cnp.NPY_UINT8)
    cdef float scale
    cdef int zero
    with nogil:
        quantize_by_range(current_kernels(), <uint8_t *>cnp.PyArray_DATA(y), <const float *>cnp.PyArray_DATA(source),
                          cnp.PyArray_SIZE(source), &scale, &zero, max_threads())
    return y.reshape(np.shape(x)), scale, zero
