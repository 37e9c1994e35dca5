"""Integer requantization in an epilogue: scales become multipliers and powers of two, and post-ops become limits.

The arithmetic is as in :func:`int8blas.requantize`, with the factor ``scale_src * scale_weights / scale_dst`` in
float64.
"""

from libc.math cimport frexp, round
from libc.stdint cimport int32_t, int64_t
cimport int8blas.core.cnumpy as cnp
import numpy as np

from int8blas.core.kernels cimport I8_CHUNK, I8_DOUBLING, I8_FLOAT, i8_requantization
from int8blas.stage.attributes import INTEGER_SCHEMES, SCHEMES

cnp.import_array()


cdef tuple multipliers(cnp.ndarray scales):
    """Return int32 multipliers and exponents for scales in C-ordered float64."""
    cdef cnp.ndarray whole = np.empty_like(scales, dtype=np.int32), exponents = np.empty_like(whole)
    cdef const double *scale = <const double *>cnp.PyArray_DATA(scales)
    cdef int32_t *m = <int32_t *>cnp.PyArray_DATA(whole)
    cdef int32_t *e = <int32_t *>cnp.PyArray_DATA(exponents)
    cdef int64_t i, rounded
    cdef int exponent
    for i in range(cnp.PyArray_SIZE(scales)):
        rounded = <int64_t>round(frexp(scale[i], &exponent) * 2147483648.0)
        if rounded == 2147483648:
            rounded = 1073741824
            exponent += 1
        # A factor below 2**-32 maps every int32 to 0.
        m[i] = <int32_t>rounded if exponent >= -31 else 0
        e[i] = exponent if exponent >= -31 else 0
    return whole, exponents


cdef cnp.ndarray limited(cnp.ndarray exponents, int scheme):
    """Return exponents limited to the range of the kernels. Larger left shifts would give equal results."""
    return np.minimum(exponents, 31 if scheme == I8_DOUBLING else 32, out=exponents)


cdef object check_requantization(object attributes, str kind, object dst_dtype, object bias, dict masks):
    """Refuse attributes that integer arithmetic does not support."""
    scheme = attributes.requantization
    if scheme not in INTEGER_SCHEMES:
        return
    if kind == "dynamic":
        raise ValueError("requantization must be 'float' or 'onnx' for a source that is quantized dynamically, got "
                         f"{scheme!r}")
    if np.dtype(dst_dtype).kind not in "iu":
        raise TypeError(f"dst_dtype must be uint8, int8 or int32 with requantization={scheme!r}, got {dst_dtype}")
    if bias is not None and bias.dtype != np.int32:
        raise TypeError(f"bias must be int32 with requantization={scheme!r}, got {bias.dtype}")
    if masks.get("src", 0):
        raise ValueError(f"scales['src'] must have the mask 0 with requantization={scheme!r}, got {masks['src']}")


cdef object limits(object op, object scale, object zero_point, object dst_dtype):
    """Return the smallest and the largest value of the destination: the limits of its type, narrowed by the
    activation."""
    info = np.iinfo(dst_dtype)
    ends = [info.min, info.max]
    if op is None:
        return ends
    bounds = (0.0, None) if op.algorithm == "relu" else (op.alpha, op.beta)
    for i, bound in enumerate(bounds):
        if bound is None:
            continue
        with np.errstate(over="ignore"):
            steps = (np.float32(bound) / scale).astype(np.float64)
        # Round to nearest, ties away from zero. Limit the magnitudes to 2**40, which is out of the range of every type.
        steps = np.clip(np.copysign(np.floor(np.abs(steps) + 0.5), steps), -(2.0**40), 2.0**40).astype(np.int64)
        ends[i] = np.clip(steps + zero_point, info.min, info.max)
    return ends


cdef const int32_t *for_columns(object values, int64_t columns, list arrays) except NULL:
    """Return int32 values, one for each column, and pad them by a whole chunk. `arrays` owns the memory."""
    array = np.zeros(columns // I8_CHUNK * I8_CHUNK + 2 * I8_CHUNK, np.int32)
    array[:columns] = values
    arrays.append(array)
    return <const int32_t *>cnp.PyArray_DATA(array)


cdef object set_requantization(i8_requantization *q, object attributes, dict scales, object zero_point,
                               object dst_dtype, int64_t columns, list arrays):
    """Set the epilogue in integers. Each scale is one value or a vector. `arrays` owns the memory."""
    one = np.float32(1)
    q.scheme = SCHEMES.index(attributes.requantization)
    src, weights, dst = [np.asarray(scales.get(tensor, one), np.float64) for tensor in ("src", "weights", "dst")]
    whole, exponents = multipliers(np.ascontiguousarray(src * weights / dst))
    op = attributes.post_ops[0] if attributes.post_ops else None
    low, high = limits(op, np.asarray(scales.get("dst", one), np.float32), zero_point, dst_dtype)
    q.multiplier = for_columns(whole, columns, arrays)
    q.exponent = for_columns(limited(exponents, q.scheme), columns, arrays)
    q.zero_point = for_columns(zero_point, columns, arrays)
    q.low, q.high = for_columns(low, columns, arrays), for_columns(high, columns, arrays)


cdef void skip_columns(i8_requantization *q, int64_t count) noexcept nogil:
    """Advance to a later column."""
    if q.scheme == I8_FLOAT:
        return
    q.multiplier += count
    q.exponent += count
    q.zero_point += count
    q.low += count
    q.high += count
