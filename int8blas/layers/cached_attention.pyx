"""Causal attention with a cache of keys and values: onnxruntime's GroupQueryAttention, in float32.

real_attention.pyx computes the products and the softmax. First, queries and keys are rotated by the angles of their
positions. Each operation of a rotation is rounded once::

    y[i] = x[i] * cos - x[j] * sin          for each pair i, j of a head's elements
    y[j] = x[i] * sin + x[j] * cos

New keys are stored directly in the cache. Each group of query heads shares a head of keys and values, which is read in
place. If there is one new position, the shared head is read once for the whole group. Each call converts a cache of
float16 or bfloat16 to float32, and rounds only the new keys and values that it stores.
"""

from libc.math cimport sqrt
from libc.stddef cimport ptrdiff_t
from libc.stdint cimport int64_t
from libc.string cimport memcpy, memset
cimport int8blas.core.cnumpy as cnp
import numpy as np

from int8blas.core.arrays cimport float32s
from int8blas.core.kernels cimport I8_CHUNK, I8_TYPE_BF16, I8_TYPE_F16, I8_TYPE_F32, current_kernels
from int8blas.core.results cimport empty_of
from int8blas.layers.real_attention cimport AttentionJob, run, set_cap
from int8blas.layers.real_product cimport RealJob
from int8blas.stage.output_stage cimport element_type

cnp.import_array()


cdef struct Rotation:
    # Tables of cosines and sines, with a row for each position and a column for each pair of elements.
    const float *cos
    const float *sin
    int64_t rows, pairs                     # without pairs, no element is rotated
    bint interleaved                        # whether the elements of a pair are neighbors (else `pairs` apart)


cdef void rotate(const Rotation *t, float *y, const float *x, int64_t size, int64_t row) noexcept nogil:
    """Rotate the pairs of a head by the angles of a row of the tables, and copy the head's other elements."""
    cdef const float *cos = t.cos + row * t.pairs
    cdef const float *sin = t.sin + row * t.pairs
    cdef int64_t i, n = t.pairs
    if t.interleaved:
        for i in range(n):
            y[2 * i] = x[2 * i] * cos[i] - x[2 * i + 1] * sin[i]
            y[2 * i + 1] = x[2 * i] * sin[i] + x[2 * i + 1] * cos[i]
    else:
        for i in range(n):
            y[i] = x[i] * cos[i] - x[n + i] * sin[i]
        for i in range(n):
            y[n + i] = x[i] * sin[i] + x[n + i] * cos[i]
    memcpy(y + 2 * n, x + 2 * n, 4 * (size - 2 * n))


cdef struct Cache:
    # The cache of keys or values (batch, heads, room, size), and the sources of its elements.
    float *data
    const char *past                        # (batch, heads, known, size); equal to `data` if the cache stays in place
    int past_type                           # I8_TYPE_F32, or a type of 16 bits
    const char *new                         # new positions, (batch, length, heads * size), with steps in bytes
    ptrdiff_t new_batch, new_row
    int64_t heads, known, room, size


cdef void take_heads(const Cache *c, const Rotation *t, float *y, ptrdiff_t head_step, int64_t sequence,
                     const int64_t *places, int64_t length) noexcept nogil:
    """Rotate the heads of a sequence's new positions, and store them from y on, `head_step` elements apart."""
    cdef const char *row = c.new + sequence * c.new_batch
    cdef int64_t i, h
    for i in range(length):
        for h in range(c.heads):
            rotate(t, y + h * head_step + i * c.size, <const float *>row + h * c.size, c.size, places[i])
        row += c.new_row


cdef void copy_past(const Cache *c, float *y, int64_t first, int64_t count) noexcept nogil:
    """Store some elements of the past as float32. y has room for a whole chunk after these elements."""
    if c.past_type == I8_TYPE_F32:
        memcpy(y, c.past + 4 * first, 4 * count)
    else:
        current_kernels().elementwise.load[c.past_type](y, c.past + 2 * first, count, 1, 0)


cdef void extend(const Cache *c, const Rotation *t, int64_t sequence, int64_t start, const int64_t *places,
                 int64_t length) noexcept nogil:
    """Store the first `start` positions of the past, the new positions, and zeros."""
    cdef float *y = c.data + sequence * c.heads * c.room * c.size
    cdef int64_t h, end = start + length
    for h in range(c.heads if c.past is not <const char *>c.data else 0):
        if start:
            copy_past(c, y + h * c.room * c.size, (sequence * c.heads + h) * c.known * c.size, start * c.size)
        memset(y + (h * c.room + end) * c.size, 0, 4 * (c.room - end) * c.size)
    take_heads(c, t, y + start * c.size, c.room * c.size, sequence, places, length)


cdef cnp.ndarray contiguous(object x, str name):
    """Return float32 values as an aligned C-contiguous array."""
    cdef cnp.ndarray array = float32s(x, name)
    return array if cnp.PyArray_ISCARRAY_RO(array) else np.ascontiguousarray(array)


cdef cnp.ndarray rows_of(object x, str name, int64_t batch, int64_t length, int64_t heads):
    """Return float32 rows of heads, contiguous along the last axis."""
    cdef cnp.ndarray array = float32s(x, name)
    if (array.ndim != 3 or (batch >= 0 and (array.shape[0] != batch or array.shape[1] != length))
            or array.shape[2] % heads):
        wanted = "batch, length" if batch < 0 else f"{batch}, {length}"
        raise ValueError(f"{name} must have shape ({wanted}, {heads} * size), got {(<object>array).shape}")
    if not cnp.PyArray_ISALIGNED(array) or (array.shape[2] > 1 and array.strides[2] != 4):
        array = np.ascontiguousarray(array)
    return array


cdef bint is_short(object x):
    """Return whether x is an array of 16-bit floats that kernels can read without a copy."""
    return cnp.PyArray_CheckExact(x) and cnp.PyArray_ISCARRAY_RO(<cnp.ndarray>x) and element_type(
        cnp.PyArray_TYPE(<cnp.ndarray>x)) in (I8_TYPE_F16, I8_TYPE_BF16)


cdef cnp.ndarray cache_of(object x, str name, int64_t batch, int64_t heads, int64_t size):
    """Return a cache (batch, heads, known, size) as a C-contiguous array of float32 or 16-bit floats, or None."""
    if x is None:
        return None
    cdef cnp.ndarray array = x if is_short(x) else contiguous(x, name)
    if array.ndim != 4 or array.shape[0] != batch or array.shape[1] != heads or array.shape[3] != size:
        raise ValueError(f"{name} must have shape ({batch}, {heads}, known, {size}), got {(<object>array).shape}")
    return array


cdef list set_rotation(Rotation *rotation, object cos, object sin, bint interleaved, int64_t size):
    """Set the tables of a rotation, and return the arrays that hold them."""
    cdef cnp.ndarray cosines, sines
    rotation.rows, rotation.pairs, rotation.interleaved = 1, 0, interleaved
    rotation.cos = rotation.sin = NULL
    if cos is None or sin is None:
        return []
    cosines, sines = contiguous(cos, "cos"), contiguous(sin, "sin")
    if (cosines.ndim != 2 or sines.ndim != 2 or cosines.shape[0] != sines.shape[0] or not cosines.shape[0]
            or cosines.shape[1] != sines.shape[1] or 2 * cosines.shape[1] > size):
        raise ValueError(f"cos and sin must have one shape (positions, up to {size // 2}), got "
                         f"{(<object>cosines).shape} and {(<object>sines).shape}")
    rotation.cos, rotation.sin = <const float *>cnp.PyArray_DATA(cosines), <const float *>cnp.PyArray_DATA(sines)
    rotation.rows, rotation.pairs = cosines.shape[0], cosines.shape[1]
    return [cosines, sines]


cdef cnp.ndarray starts_of(object last, int64_t batch, int64_t length, int64_t total, int64_t known, int64_t *most):
    """Return the first new position of each sequence, and set the largest of these positions. In a first call, shorter
    sequences are padded at their end. In later calls every sequence has `length` new positions."""
    cdef cnp.ndarray starts = np.array(last, np.int64)
    cdef int64_t *start = <int64_t *>cnp.PyArray_DATA(starts)
    cdef int64_t i
    if cnp.PyArray_SIZE(starts) != batch:
        raise ValueError(f"seqlens_k must have {batch} elements, got {starts.size}")
    most[0] = 0
    for i in range(batch):
        start[i] = 0 if length == total else start[i] + 1 - length
        if not 0 <= start[i] <= known:
            raise ValueError(f"seqlens_k must be from {length - 1} to {length - 1 + known} for {length} new positions "
                             f"and a past of {known}, got {np.min(last)} to {np.max(last)}")
        most[0] = max(most[0], start[i])
    return starts


cdef cnp.ndarray places_of(object positions, cnp.ndarray starts, int64_t length, int64_t rows):
    """Return the row of the tables for each new position, (batch, length)."""
    cdef int64_t batch = cnp.PyArray_SIZE(starts), i
    cdef const int64_t *start = <const int64_t *>cnp.PyArray_DATA(starts)
    cdef cnp.ndarray places
    cdef int64_t *place
    places = empty_of((batch, length), cnp.NPY_INT64) if positions is None else np.array(positions, np.int64)
    if cnp.PyArray_SIZE(places) != batch * length:
        raise ValueError(f"position_ids must have {batch * length} elements, got {places.size}")
    place = <int64_t *>cnp.PyArray_DATA(places)
    for i in range(batch * length):
        if positions is None:
            place[i] = min(start[i // length] + i % length, rows - 1)
        elif not 0 <= place[i] < rows:
            raise ValueError(f"position_ids must be from 0 to {rows - 1}, got {place[i]}")
    return places


cdef cnp.ndarray mask_of(object mask, int64_t batch, int64_t heads, int64_t length, int64_t end):
    """Return the numbers to add to scores as an array, contiguous along the last axis, or None."""
    if mask is None:
        return None
    cdef cnp.ndarray array = float32s(mask, "attention_bias")
    if (array.ndim != 4 or array.shape[0] not in (1, batch) or array.shape[1] not in (1, heads)
            or array.shape[2] < length or array.shape[3] < end):
        raise ValueError(f"attention_bias must have shape ({batch} or 1, {heads} or 1, {length}, {end}), got "
                         f"{(<object>array).shape}")
    return array if array.strides[3] == 4 and cnp.PyArray_ISALIGNED(array) else np.ascontiguousarray(array)


cdef cnp.ndarray sinks_of(object sinks, int64_t heads):
    """Return the sinks, one number for each head, as a contiguous array, or None."""
    if sinks is None:
        return None
    cdef cnp.ndarray array = contiguous(sinks, "head_sink")
    if array.ndim != 1 or array.shape[0] != heads:
        raise ValueError(f"head_sink must have shape ({heads},), got {(<object>array).shape}")
    return array


cdef cnp.ndarray room_for(cnp.ndarray past, bint in_place, int64_t batch, int64_t heads, int64_t room, int64_t end,
                          int64_t size):
    """Return the float32 array of all keys or values: the past itself, or a new array. If the past has 16-bit floats
    and stays in place, the new array has `end` positions, and room for a whole chunk that a kernel may store after
    them."""
    cdef bint is_float32 = past is None or cnp.PyArray_TYPE(past) == cnp.NPY_FLOAT32
    if in_place and is_float32:
        return past
    room = end if in_place else room
    if is_float32:
        return empty_of((batch, heads, room, size), cnp.NPY_FLOAT32)
    flat = empty_of((batch * heads * room * size + I8_CHUNK,), cnp.NPY_FLOAT32)
    return flat[:-I8_CHUNK].reshape(batch, heads, room, size)


cdef void set_cache(Cache *c, cnp.ndarray data, cnp.ndarray past, cnp.ndarray new) noexcept:
    c.data, c.past, c.known, c.past_type = <float *>cnp.PyArray_DATA(data), NULL, 0, I8_TYPE_F32
    c.heads, c.room, c.size = data.shape[1], data.shape[2], data.shape[3]
    if past is not None:
        c.past, c.known, c.past_type = cnp.PyArray_BYTES(past), past.shape[2], element_type(cnp.PyArray_TYPE(past))
    c.new, c.new_batch, c.new_row = cnp.PyArray_BYTES(new), new.strides[0], new.strides[1]


cdef void set_product(RealJob *job, const float *a, int64_t rows, int64_t k, const Cache *b, int64_t columns, char *y,
                      int64_t group, bint together) noexcept:
    """Set the products of one sequence, `group` of them for each head of keys or values. The rows of a product are the
    heads of a group if `together`, else the positions of one head."""
    job.dims, job.shape[0], job.shape[1], job.count = 2, b.heads, group, b.heads * group
    job.rows, job.k, job.columns, job.room = rows, k, columns, columns
    job.a, job.a_row, job.a_steps[0], job.a_steps[1] = <const char *>a, k, 4 * group * rows * k, 4 * rows * k
    job.b_steps[0], job.b_steps[1], job.b_factor, job.windows = 4 * b.room * b.size, 0, 1, NULL
    job.weights, job.scale, job.block_scales = NULL, NULL, NULL
    job.y, job.y_row = y, b.size if together else b.heads * group * b.size
    job.y_steps[0], job.y_steps[1] = 4 * b.size * (rows if together else group), 4 * b.size


cdef int attend_to(const Cache *keys, const Cache *values, const float *q, char *y, int64_t sequence, int64_t group,
                   int64_t start, int64_t length, AttentionJob *job) except -1:
    """Compute the attention of a sequence's queries, (heads, length, size)."""
    cdef bint together = length == 1    # all queries of a group are rows of one product
    cdef int64_t rows = group if together else length, products = 1 if together else group, end = start + length
    set_product(&job.scores, q, rows, keys.size, keys, end, y, products, together)
    job.scores.b = <const char *>(keys.data + sequence * keys.heads * keys.room * keys.size)
    job.scores.b_row, job.scores.b_column = 1, keys.size
    set_product(&job.values, q, rows, end, values, values.size, y, products, together)
    job.values.b = <const char *>(values.data + sequence * values.heads * values.room * values.size)
    job.values.b_row, job.values.b_column = values.size, 1
    job.first, job.length = start, length
    return run(job)


cdef void set_mask(AttentionJob *job, cnp.ndarray mask, int64_t sequence, int64_t group, int64_t length) noexcept:
    """Set the steps of a mask (batch or 1, heads or 1, length, end)."""
    cdef ptrdiff_t head
    job.mask, job.mask_row = NULL, 0
    if mask is None:
        return
    head = mask.strides[1] if mask.shape[1] > 1 else 0
    job.mask = cnp.PyArray_BYTES(mask) + (sequence * mask.strides[0] if mask.shape[0] > 1 else 0)
    job.mask_row = head if length == 1 else mask.strides[2]
    job.mask_steps[0], job.mask_steps[1] = group * head, head


def cached_attention(query, key, value, past_key, past_value, last, int64_t total, *, int64_t heads,
                     int64_t shared_heads, cos=None, sin=None, positions=None, mask=None, sinks=None,
                     bint interleaved=False, int64_t window=-1, float scale=0, float softcap=0, bint in_place=False):
    """Return the attention of new positions, all keys, and all values.

    query is (batch, length, heads * size), key and value (batch, length, shared_heads * size). The past has `known`
    positions: (batch, shared_heads, known, size). `last` has the last position of each sequence, and `total` is the
    number of positions of the longest sequence. The returned arrays of keys and values have max(total, known)
    positions. With `in_place`, the arrays of keys and values are the past itself if it has room, or else new float32
    arrays. `sinks` has a score for each head, which only the sums of softmax include.
    """
    if min(heads, shared_heads) < 1 or heads % shared_heads:
        raise ValueError(f"num_heads must be a multiple of kv_num_heads, got {heads} and {shared_heads}")
    cdef cnp.ndarray q = rows_of(query, "query", -1, 0, heads), k, v, past_k, past_v, rotated, y
    cdef int64_t batch = q.shape[0], length = q.shape[1], size = q.shape[2] // heads, width, room, end, i
    cdef int64_t known = 0, group = heads // shared_heads
    cdef Rotation rotation, none
    cdef Cache queries, keys, values
    cdef AttentionJob job
    cdef const int64_t *first
    cdef const int64_t *place
    k, v = rows_of(key, "key", batch, length, shared_heads), rows_of(value, "value", batch, length, shared_heads)
    if k.shape[2] != shared_heads * size:
        raise ValueError(f"key must have {shared_heads} heads of {size} for a query of {heads}, got shape "
                         f"{(<object>k).shape}")
    width = v.shape[2] // shared_heads
    past_k = cache_of(past_key, "past_key", batch, shared_heads, size)
    past_v = cache_of(past_value, "past_value", batch, shared_heads, width)
    if (past_k is None) != (past_v is None) or (past_k is not None and past_k.shape[2] != past_v.shape[2]):
        known, width = [0 if past is None else past.shape[2] for past in (past_k, past_v)]
        raise ValueError(f"past_value must have {known} positions as past_key has, got {width}")
    known = 0 if past_k is None else past_k.shape[2]
    starts = starts_of(last, batch, length, total, known, &end)
    end += length
    _tables = set_rotation(&rotation, cos, sin, interleaved, size)
    set_rotation(&none, None, None, False, size)
    places = places_of(positions if rotation.pairs else None, starts, length, rotation.rows)
    mask, sinks = mask_of(mask, batch, heads, length, end), sinks_of(sinks, heads)
    room = max(total, known, end)
    in_place = in_place and room == known and past_k is past_key and past_v is past_value
    all_k = room_for(past_k, in_place, batch, shared_heads, room, end, size)
    all_v = room_for(past_v, in_place, batch, shared_heads, room, end, width)
    rotated = empty_of((batch, heads, length, size), cnp.NPY_FLOAT32)
    y = empty_of((batch, length, heads * width), cnp.NPY_FLOAT32)
    if size == 0:
        y.fill(0)
    set_cache(&keys, all_k, past_k, k)
    set_cache(&values, all_v, past_v, v)
    set_cache(&queries, rotated, None, q)
    first, place = <const int64_t *>cnp.PyArray_DATA(starts), <const int64_t *>cnp.PyArray_DATA(places)
    set_cap(&job, softcap)
    job.sinks = NULL if sinks is None else <const float *>cnp.PyArray_DATA(sinks)
    job.sink_by_row = length == 1
    job.q_scale, job.scale, job.window = 1, scale or 1 / sqrt(size), window
    for i in range(batch):
        extend(&keys, &rotation, i, first[i], place + i * length, length)
        extend(&values, &none, i, first[i], place + i * length, length)
        take_heads(&queries, &rotation, queries.data + i * heads * length * size, length * size, i, place + i * length,
                   length)
        set_mask(&job, mask, i, group, length)
        if rotated.size and y.size:
            attend_to(&keys, &values, queries.data + i * heads * length * size, cnp.PyArray_BYTES(y)
                      + i * y.strides[0], i, group, first[i], length, &job)
    if not in_place:
        return y, all_k, all_v
    for past, new in ((past_k, all_k), (past_v, all_v)):
        for i in range(batch if new is not past else 0):
            past[i, :, first[i]:first[i] + length] = new[i, :, first[i]:first[i] + length]
    return y, past_k, past_v
