"""Quantization of f32, f16 or bf16 images to 8 bits, before their windows are read (csrc/stage/source_body.h).

Scale and zero point follow from the range of one image or of all images, as in gemm/dynamic_source.pyx. Images with an
infinity or NaN have no range, and their results are NaN.
"""

from libc.float cimport FLT_MAX
from libc.stddef cimport ptrdiff_t
from libc.stdint cimport int64_t, uint8_t
from libc.string cimport memset
cimport int8blas.core.cnumpy as cnp
import numpy as np

from int8blas.core.kernels cimport current_kernels, i8_kernels
from int8blas.core.results cimport axes_in_memory
from int8blas.core.split cimport share
from int8blas.core.threads cimport MAX_RANGES, THREAD_REALS, parallel_for, threads_for
from int8blas.core.turns cimport end_turn, take_turn
from int8blas.gemm.dynamic_source cimport parameters
from int8blas.gemm.problem cimport DynamicSource
from int8blas.stage.output_stage cimport element_type

cnp.import_array()


# The range of the finite values of a part, and the largest magnitude of all values of the part.
cdef struct Part:
    float range_[2]
    float largest


cdef struct ImagesJob:
    const i8_kernels *kernels
    const char *src
    uint8_t *dst
    int64_t count
    ptrdiff_t step              # bytes from one value to the next
    DynamicSource source
    Part *parts


cdef cnp.ndarray dense(cnp.ndarray x):
    """Return `x`, or a copy of `x`, as images without gaps in memory."""
    order = [axis for axis in axes_in_memory(x) if axis > 0]
    if (<object>x).transpose(0, *order).flags.c_contiguous:
        return x
    # The copy has the images' order of dimensions in memory.
    copy = np.ascontiguousarray((<object>x).transpose(0, *order))
    return copy.transpose(0, *[1 + order.index(axis) for axis in range(1, x.ndim)])


cdef int find_range(const void *job, int64_t part, int64_t parts) noexcept nogil:
    cdef const ImagesJob *j = <const ImagesJob *>job
    cdef Part *found = &j.parts[part]
    cdef int64_t first = share(j.count, part, parts), count = share(j.count, part + 1, parts) - first
    cdef const char *src = j.src + first * j.step
    found.range_[0] = found.range_[1] = 0
    j.kernels.stage.source_largest(&found.largest, src, 0, 1, j.source.type, j.step, count)
    if j.source.symmetric and found.largest <= FLT_MAX:
        found.range_[1] = found.largest
    else:
        j.kernels.stage.source_range(found.range_, src, j.source.type, j.step, count)
    return 0


cdef int quantize_part(const void *job, int64_t part, int64_t parts) noexcept nogil:
    cdef const ImagesJob *j = <const ImagesJob *>job
    cdef int64_t first = share(j.count, part, parts), count = share(j.count, part + 1, parts) - first
    cdef const char *src = j.src + first * j.step
    if j.source.symmetric:
        j.kernels.stage.quantize_within(j.dst + first, 0, src, 0, 1, j.source.type, j.step, count, &j.source.scale, 0)
    else:
        j.kernels.stage.quantize_source(j.dst + first, src, j.source.type, j.step, count, <float>1 / j.source.scale,
                                        <float>j.source.zero)
    return 0


cdef bint quantize(ImagesJob *j, int parts) noexcept nogil:
    """Quantize all values by their range. If a value is not finite, store 0 and return False."""
    cdef Part found[MAX_RANGES]
    cdef int part
    cdef bint finite = True
    j.parts = found
    parallel_for(find_range, j, parts, parts)
    for part in range(parts):
        finite = finite and found[part].largest <= FLT_MAX
        found[0].range_[0] = min(found[0].range_[0], found[part].range_[0])
        found[0].range_[1] = max(found[0].range_[1], found[part].range_[1])
    if not finite:
        j.source.scale, j.source.zero = 1, 0
        memset(j.dst, 0, j.count)
        return False
    parameters(&j.source, found[0].range_, &j.source.scale, &j.source.zero)
    parallel_for(quantize_part, j, parts, parts)
    return True


cdef ImageParameters quantize_images(cnp.ndarray x, cnp.ndarray out, int64_t first, int64_t count) except *:
    """Quantize `count` images from `first` on, by their common range, to `out`. `out` is an array of int8 (symmetric)
    or uint8 with the memory order of `x`, and has no gaps."""
    cdef ImageParameters result
    cdef ImagesJob j
    cdef int64_t images = cnp.PyArray_DIM(x, 0), size = cnp.PyArray_SIZE(x) // images if images else 0
    j.kernels = current_kernels()
    j.step = cnp.PyArray_ITEMSIZE(x)
    j.src = <const char *>cnp.PyArray_DATA(x) + first * size * j.step
    j.dst = <uint8_t *>cnp.PyArray_DATA(out) + first * size
    j.count = count * size
    j.source.type = element_type(cnp.PyArray_TYPE(x))
    j.source.symmetric = cnp.PyArray_TYPE(out) == cnp.NPY_INT8
    with nogil:
        end_turn()
        result.finite = quantize(&j, threads_for(<double>j.count, THREAD_REALS, MAX_RANGES))
        take_turn()
    result.scale, result.zero = j.source.scale, j.source.zero
    return result
