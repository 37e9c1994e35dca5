"""Quantization of real numbers to uint8 by the range of the whole array, as in ONNX's DynamicQuantizeLinear::

    scale = f32((high - low) / 255), or 1 if both are 0;    zero_point = sat(rne(-low / scale))
    sat(rne(x / scale) + zero_point)

The range from low to high contains all numbers, and 0.
"""

from libc.math cimport NAN, rintf
from libc.stdint cimport int64_t, uint8_t
cimport int8blas.core.cnumpy as cnp
import numpy as np

from int8blas.core.arrays cimport float32s
from int8blas.core.kernels cimport I8_TYPE_F32, I8_U8, current_kernels, i8_elements_args, i8_kernels
from int8blas.core.results cimport empty_of
from int8blas.core.split cimport share
from int8blas.core.threads cimport KEEPS_GIL_BYTES, MAX_RANGES, THREAD_REALS, max_threads, paid_threads, parallel_for
from int8blas.core.turns cimport end_turn, keeps_gil, take_turn

cnp.import_array()


cdef struct Job:
    const i8_kernels *kernels
    const float *src
    uint8_t *dst
    int64_t size
    float *ends         # the range of each part
    float scale
    int zero


cdef void range_parameters(const float *ends, float *scale, int *zero) noexcept nogil:
    """Set the scale and the zero point of a range. If the range is NaN, the scale is NaN."""
    cdef float at
    scale[0], zero[0] = 1, 0
    if ends[1] != ends[1]:
        scale[0] = NAN
    elif ends[1] > ends[0]:
        scale[0] = (ends[1] - ends[0]) / <float>255
        at = rintf(-ends[0] / scale[0])
        zero[0] = 255 if at > 255 else (<int>at if at > 0 else 0)


cdef void quantize_some(const i8_kernels *kernels, uint8_t *dst, const float *src, int64_t size, float scale,
                        int zero) noexcept nogil:
    """Quantize contiguous numbers. If the scale is NaN, all bytes are 0, like the zero point."""
    cdef i8_elements_args e
    e.n, e.x, e.out, e.each, e.stream = size, src, dst, False, False
    e.parameters[0], e.parameters[1], e.parameters[2] = &scale, &zero, &zero
    kernels.elementwise.quantize_onnx[I8_U8](&e)


cdef int part_range(const void *job, int64_t part, int64_t parts) noexcept nogil:
    cdef const Job *j = <const Job *>job
    cdef int64_t first = share(j.size, part, parts)
    j.kernels.stage.source_range(j.ends + 2 * part, <const char *>(j.src + first), I8_TYPE_F32, sizeof(float),
                                 share(j.size, part + 1, parts) - first)
    return 0


cdef int quantize_part(const void *job, int64_t part, int64_t parts) noexcept nogil:
    cdef const Job *j = <const Job *>job
    cdef int64_t first = share(j.size, part, parts)
    quantize_some(j.kernels, j.dst + first, j.src + first, share(j.size, part + 1, parts) - first, j.scale, j.zero)
    return 0


cdef void quantize_by_range(const i8_kernels *kernels, uint8_t *dst, const float *src, int64_t size, float *scale,
                            int *zero, int threads) noexcept nogil:
    """Quantize contiguous numbers by their range. If a number is not finite, the scale is NaN."""
    cdef float ends[2 * MAX_RANGES]
    cdef float whole[2]
    cdef int i, parts = paid_threads(<double>size, THREAD_REALS, <double>min(threads, MAX_RANGES))
    cdef Job job = Job(kernels, src, dst, size, NULL, 1, 0)
    job.ends = &ends[0]
    parallel_for(part_range, &job, parts, parts)
    whole[0] = whole[1] = 0
    for i in range(parts):
        widen_range(whole, ends + 2 * i)
    range_parameters(whole, scale, zero)
    job.scale, job.zero = scale[0], zero[0]
    parallel_for(quantize_part, &job, parts, parts)


def quantize_whole(x):
    """Return the bytes, the scale and the zero point of an array of real numbers.

    Parameters
    ----------
    x : array_like of float32, float16 or bfloat16
        The numbers, of any shape.

    Returns
    -------
    y : ndarray of uint8
        The quantized numbers, of the same shape.
    scale : float
        The scale, a float32, or NaN if an element of `x` is not finite.
    zero_point : int
        The zero point, from 0 to 255.
    """
    cdef cnp.ndarray source = float32s(x, "x"), y
    cdef const float *src
    cdef uint8_t *dst
    cdef int64_t size
    cdef float scale
    cdef int zero
    if not cnp.PyArray_IS_C_CONTIGUOUS(source):
        source = np.ascontiguousarray(source)
    y = empty_of((<object>source).shape, cnp.NPY_UINT8)
    size, dst, src = cnp.PyArray_SIZE(source), <uint8_t *>cnp.PyArray_DATA(y), <const float *>cnp.PyArray_DATA(source)
    if keeps_gil(<double>(5 * size), KEEPS_GIL_BYTES):
        quantize_by_range(current_kernels(), dst, src, size, &scale, &zero, 1)
    else:
        with nogil:
            end_turn()
            quantize_by_range(current_kernels(), dst, src, size, &scale, &zero, max_threads())
            take_turn()
    return y, scale, zero
