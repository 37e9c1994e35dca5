"""Quantize an A in f32, f16 or bf16 while it is packed, a few rows at a time (csrc/stage/source_body.h).

The scale and the zero point follow from the range of a row, or of all of A. The range is first extended to contain 0::

    symmetric, to s8    scale = max(|low|, |high|) / 127            zero = 0
    else, to u8         scale = high / 255 - low / 255              zero = min(rne(-low * (1 / scale)), 255)

All operations are in f32. A scale is at least the smallest normal f32, so that its reciprocal is finite. An element x
becomes sat(rne(x * (1 / scale) + zero)). If a range contains infinities or NaN, its scale is NaN, its zero point is 0,
and all of its values become 0 in A'. The results are then NaN.
"""

from libc.float cimport FLT_MAX, FLT_MIN
from libc.math cimport NAN, isnan, rintf
from libc.stddef cimport ptrdiff_t
from libc.stdint cimport int64_t, uint8_t
from libc.string cimport memset

from int8blas.core.kernels cimport I8_GROUP
from int8blas.core.split cimport round_up, share
from int8blas.core.threads cimport MAX_RANGES, THREAD_REALS, paid_threads, parallel_for


# A range that all rows share.
cdef struct RangeJob:
    const Problem *g
    int type                    # as in DynamicSource
    int64_t rows
    float *ranges               # low and high of each part


cdef void parameters(const DynamicSource *s, const float *range_, float *scale, int64_t *zero) noexcept nogil:
    """Compute scale and zero point of a range (low, high) that contains 0."""
    cdef float rounded
    if isnan(range_[0]):
        scale[0], zero[0] = NAN, 0
        return
    if s.symmetric:
        scale[0] = max(max(-range_[0], range_[1]) / <float>127, FLT_MIN)
        zero[0] = 0
        return
    scale[0] = max(range_[1] / <float>255 - range_[0] / <float>255, FLT_MIN)
    rounded = rintf(-range_[0] * (<float>1 / scale[0]))
    zero[0] = <int64_t>min(rounded, <float>255)


cdef void source_parameters(const Problem *g, int64_t row, int64_t rows, float *scales, int64_t *zeros) noexcept nogil:
    """Compute scale and zero point of each of `rows` rows of A, from row `row` on."""
    cdef const DynamicSource *s = g.source.dynamic
    cdef float range_[2]
    cdef const char *src = <const char *>g.a.data + row * g.a.row
    cdef int64_t i
    if not s.per_row:
        for i in range(rows):
            scales[i], zeros[i] = s.scale, s.zero
    elif s.symmetric:
        g.kernels.stage.source_largest(scales, src, g.a.row, rows, s.type, g.a.column, g.k)
        for i in range(rows):
            scales[i] = max(scales[i] / <float>127, FLT_MIN) if scales[i] <= FLT_MAX else NAN
        memset(zeros, 0, rows * sizeof(int64_t))
    else:
        for i in range(rows):
            g.kernels.stage.source_range(range_, src + i * g.a.row, s.type, g.a.column, g.k)
            parameters(s, range_, scales + i, zeros + i)


cdef void quantize_rows(const Problem *g, uint8_t *dst, ptrdiff_t dst_row, int64_t row, int64_t rows, int64_t k0,
                        int64_t k, const float *scales, const int64_t *zeros) noexcept nogil:
    """Quantize `rows` rows of A from row `row` on, in `k` columns from column `k0` on. Write the bytes to rows of A'
    that are `dst_row` bytes apart. Pad each row with zeros to a multiple of 4 bytes."""
    cdef const DynamicSource *s = g.source.dynamic
    cdef const char *src = <const char *>g.a.data + row * g.a.row + k0 * g.a.column
    cdef int64_t i, j
    if s.symmetric:
        g.kernels.stage.quantize_within(dst, dst_row, src, g.a.row, rows, s.type, g.a.column, k, scales, g.a.sign_flip)
    for i in range(rows):
        if not s.symmetric and isnan(scales[i]):
            memset(dst, 0, k)
        elif not s.symmetric:
            g.kernels.stage.quantize_source(dst, src + i * g.a.row, s.type, g.a.column, k, <float>1 / scales[i],
                                            <float>zeros[i])
        for j in range(k, round_up(k, I8_GROUP)):
            dst[j] = 0
        dst += dst_row


cdef void set_tensor_parameters(const Problem *g, DynamicSource *s, int threads) noexcept nogil:
    """Set scale and zero point of a source with one range for all of A."""
    cdef float ranges[2 * MAX_RANGES]
    cdef RangeJob job
    # If the source or the result is empty, read no rows, because M may be huge.
    cdef int64_t rows = g.m if g.n and g.k else 0, part
    cdef int64_t most = min(min(<int64_t>threads, MAX_RANGES), rows)
    cdef int parts = paid_threads(<double>rows * g.k, THREAD_REALS, <double>most)
    job.g, job.type, job.rows, job.ranges = g, s.type, rows, ranges
    parallel_for(range_of_rows, &job, parts, parts)
    for part in range(1, parts):
        extend(ranges, ranges + 2 * part)
    parameters(s, ranges, &s.scale, &s.zero)


cdef int range_of_rows(const void *job, int64_t part, int64_t parts) noexcept nogil:
    """Find the range of one part of the rows."""
    cdef const RangeJob *j = <const RangeJob *>job
    cdef const Problem *g = j.g
    cdef int64_t row = share(j.rows, part, parts), end = share(j.rows, part + 1, parts)
    cdef float *range_ = j.ranges + 2 * part
    cdef float one[2]
    range_[0] = range_[1] = 0
    while row < end:
        g.kernels.stage.source_range(one, <const char *>g.a.data + row * g.a.row, j.type, g.a.column, g.k)
        extend(range_, one)
        row += 1
    return 0


cdef inline void extend(float *range_, const float *other) noexcept nogil:
    """Extend a range to contain another range. A NaN in either bound stays."""
    if isnan(other[0]):
        range_[0] = range_[1] = NAN
    elif not isnan(range_[0]):
        range_[0], range_[1] = min(range_[0], other[0]), max(range_[1], other[1])
