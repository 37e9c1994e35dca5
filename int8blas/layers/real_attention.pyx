"""Attention in float32. Each step has the same bits on every CPU and with any number of threads::

    scores = ((q * scale_q) @ (k * scale_k)) * scale                products as in real_product.pyx
    scores = cap * tanh(scores / cap)                               only with a cap
    y = softmax(scores + mask) @ v                                  row by row, as in elementwise/normalization.pyx

With sinks the softmax of a row has one more score, the sink of the row, whose weight is not used.

Each unit of work computes all columns of some rows of scores. The scores of a unit are still in cache when the unit
multiplies them by v.
"""

from libc.math cimport INFINITY
from libc.stdint cimport int64_t
cimport int8blas.core.cnumpy as cnp
import numpy as np

from int8blas.core.arrays cimport float32s
from int8blas.core.kernels cimport (
    I8_CHUNK, I8_PANEL, I8_NORMALIZE_ROOM, I8_TYPE_F32, current_kernels, i8_kernels, i8_normalize_args)
from int8blas.core.memory cimport ALIGNMENT, acquire, carve, release
from int8blas.core.results cimport empty_of
from int8blas.core.split cimport ceil_div, round_up, share
from int8blas.core.threads cimport KEEPS_GIL_WORK, max_threads, paid_threads, run_work
from int8blas.layers.real_product cimport (
    BLOCK_ROWS, FEW_ROWS, THREAD_PRODUCTS, RealArea, RealJob, area_floats, find_area, multiply_area, set_a, set_b,
    set_y, stack_shape)
from int8blas.stage.attributes import Eltwise
from int8blas.stage.output_stage cimport set_post_op

cnp.import_array()

cdef object TANH = Eltwise("tanh")
cdef int64_t SCORES = 1 << 15   # scores of a unit of work, 128 KiB; a unit has at least one row


cdef struct Workspace:
    # One thread's memory.
    float *buffer
    float *q
    float *scores
    float *mask                             # copies of mask rows that are shorter than the kernel reads
    float *softmax


cdef size_t lay_out(const AttentionJob *j, Workspace *space, char *memory) noexcept nogil:
    """Set the pointers to a thread's memory, which starts at `memory`, and return its size in bytes."""
    cdef char *start = memory
    space.buffer = <float *>carve(&memory, 4 * max(area_floats(&j.scores), area_floats(&j.values)))
    space.q = <float *>carve(&memory, 4 * j.rows * j.q_width)
    space.scores = <float *>carve(&memory, 4 * j.rows * j.width)
    space.mask = <float *>carve(&memory, 4 * j.rows * I8_CHUNK if j.softmax.n < I8_CHUNK else 0)
    space.softmax = <float *>carve(&memory, 4 * I8_NORMALIZE_ROOM(j.softmax.n))
    return memory - start


cdef const char *mask_of(const AttentionJob *j, int64_t unit) noexcept nogil:
    """Return the mask of the first row of a unit."""
    cdef int64_t left = unit // j.scores.blocks
    cdef const char *mask = j.mask + share(j.scores.rows, unit % j.scores.blocks, j.scores.blocks) * j.mask_row
    cdef int d
    for d in range(j.scores.dims - 1, -1, -1):
        mask += left % j.scores.shape[d] * j.mask_steps[d]
        left = left // j.scores.shape[d]
    return mask


cdef void cap_scores(const AttentionJob *j, float *y) noexcept nogil:
    """Limit a row of scores to less than the cap."""
    cdef int64_t i
    for i in range(j.scores.columns):
        y[i] = y[i] / j.cap
    j.scores.kernels.elementwise.apply(&j.tanh, y, y, NULL, 0, j.scores.columns)
    j.scores.kernels.elementwise.load[I8_TYPE_F32](y, y, j.scores.columns, j.cap, 0)


cdef void hide_scores(const AttentionJob *j, float *y, int64_t row) noexcept nogil:
    """Set the scores of hidden columns to -inf, in row `row` of a product's scores."""
    cdef int64_t end = j.first + row % j.length + 1, i
    for i in range(end - j.window if 0 <= j.window <= end else 0):
        y[i] = -INFINITY
    for i in range(end, j.scores.columns):
        y[i] = -INFINITY


cdef void append_sink(const AttentionJob *j, float *y, const float *mask, int64_t unit, int64_t row) noexcept nogil:
    """Add the mask, if it is not NULL, to row number `row` of a product's scores, and append the sink."""
    cdef int64_t i, n = j.scores.columns, product = unit // j.scores.blocks
    for i in range(n if mask is not NULL else 0):
        y[i] += mask[i]
    y[n] = j.sinks[product * j.scores.rows + row if j.sink_by_row else product]


cdef void make_weights(const AttentionJob *j, const Workspace *space, int64_t unit, int64_t rows) noexcept nogil:
    """Scale and cap the scores, hide columns, add the mask, append a sink, and apply softmax."""
    cdef const i8_kernels *kernels = j.scores.kernels
    cdef i8_normalize_args softmax = j.softmax
    cdef float *y
    cdef const char *mask = mask_of(j, unit) if j.mask is not NULL else NULL
    cdef int64_t row, n = j.scores.columns, before = share(j.scores.rows, unit % j.scores.blocks, j.scores.blocks)
    for row in range(rows):
        y = space.scores + row * j.width
        if j.scale != 1:
            kernels.elementwise.load[I8_TYPE_F32](y, y, n, j.scale, 0)
        if j.cap:
            cap_scores(j, y)
        if j.length:
            hide_scores(j, y, before + row)
        if j.sinks is not NULL:
            append_sink(j, y, <const float *>(mask + row * j.mask_row) if mask is not NULL else NULL, unit,
                        before + row)
    if mask is not NULL and j.sinks is NULL:
        softmax.plus, softmax.plus_row = <const float *>mask, j.mask_row
        for row in range(rows if softmax.n < I8_CHUNK else 0):
            softmax.plus, softmax.plus_row = space.mask, 4 * I8_CHUNK
            kernels.elementwise.load[I8_TYPE_F32](
                space.mask + row * I8_CHUNK, mask + row * j.mask_row, softmax.n, 1, 0)
    softmax.rows, softmax.workspace = rows, space.softmax
    softmax.src, softmax.dst = <char *>space.scores, <char *>space.scores
    kernels.elementwise.softmax(&softmax)


cdef void attend(const AttentionJob *j, const Workspace *space, int64_t unit) noexcept nogil:
    """Compute one unit of work: some rows of one result."""
    cdef RealArea area
    cdef int64_t group, row
    for group in range(j.scores.groups):
        find_area(&j.scores, unit * j.scores.groups + group, &area)
        for row in range(area.rows if group == 0 else 0):
            j.scores.kernels.elementwise.load[I8_TYPE_F32](
                space.q + row * j.q_width, area.a + row * area.a_row, j.scores.k, j.q_scale, 0)
        area.a, area.a_row, area.y, area.y_row = space.q, j.q_width, space.scores, j.width
        multiply_area(&j.scores, &area, space.buffer)
    make_weights(j, space, unit, area.rows)
    for group in range(j.values.groups):
        find_area(&j.values, unit * j.values.groups + group, &area)
        area.a, area.a_row = space.scores, j.width
        multiply_area(&j.values, &area, space.buffer)


cdef int attend_part(const void *job, int64_t part, int64_t parts) noexcept nogil:
    """Compute one thread's share of the units."""
    cdef const AttentionJob *j = <const AttentionJob *>job
    cdef Workspace space
    cdef int64_t units = j.scores.count * j.scores.blocks, unit
    cdef char *memory = <char *>acquire(lay_out(j, &space, <char *>ALIGNMENT))
    if memory is NULL:
        return -1
    lay_out(j, &space, memory)
    for unit in range(share(units, part, parts), share(units, part + 1, parts)):
        attend(j, &space, unit)
    release(memory)
    return 0


cdef void divide(RealJob *job, int64_t blocks) noexcept:
    """Divide each product into blocks of rows, one for each unit of work."""
    job.kernels, job.blocks = current_kernels(), blocks
    job.panels = ceil_div(job.columns, I8_PANEL)
    job.groups = ceil_div(job.panels, job.kernels.stage.real_panels)
    job.per = <int>ceil_div(job.panels, job.groups)  # groups of nearly equal size, because a single panel is slow
    job.groups = ceil_div(job.panels, job.per)


cdef int set_cap(AttentionJob *job, float cap) except -1:
    """Set the cap of the scores. 0 means no cap."""
    job.cap = cap
    set_post_op(&job.tanh, TANH, cnp.NPY_FLOAT32)
    return 0


cdef int run(AttentionJob *job) except -1:
    """Compute all rows. No operand may be empty."""
    cdef int64_t count = job.scores.count, rows = job.scores.rows, n = job.scores.columns, most, blocks
    cdef double work = <double>count * rows * n * (job.scores.k + job.values.columns)
    cdef int64_t threads = paid_threads(work, THREAD_PRODUCTS, max_threads())
    job.softmax.n = n + 1 if job.sinks is not NULL else n
    job.width, job.q_width = round_up(job.softmax.n, I8_PANEL), round_up(job.scores.k, I8_PANEL)
    most = max(<int64_t>FEW_ROWS, min(<int64_t>BLOCK_ROWS, SCORES // job.width))
    blocks = max(ceil_div(rows, most), min(ceil_div(threads, count), ceil_div(rows, FEW_ROWS)))
    job.rows, job.scores.room = ceil_div(rows, blocks), job.width
    divide(&job.scores, blocks)
    divide(&job.values, blocks)
    job.softmax.src_row = job.softmax.dst_row = 4 * job.width
    job.softmax.src_type, job.softmax.dst_type, job.softmax.log = I8_TYPE_F32, I8_TYPE_F32, False
    job.softmax.scale, job.softmax.dst_scale, job.softmax.dst_zero, job.softmax.plus = 1, 1, -0.0, NULL
    if run_work(attend_part, job, min(threads, count * blocks), work, THREAD_PRODUCTS, KEEPS_GIL_WORK):
        raise MemoryError("attention: no memory for the workspace")
    return 0


cdef cnp.ndarray set_mask(AttentionJob *job, cnp.ndarray mask, int ndim):
    """Set the pointer and the steps of a mask that broadcasts to scores of `ndim` dimensions. Return the array of the
    mask."""
    cdef int d, axis
    if mask.ndim == 0 or mask.shape[mask.ndim - 1] != job.scores.columns or mask.strides[mask.ndim - 1] != 4:
        lead = (<object>mask).shape[:-1]
        mask = np.ascontiguousarray(np.broadcast_to(mask, (*lead, job.scores.columns)))
    job.mask = cnp.PyArray_BYTES(mask)
    for d in range(ndim - 1):
        axis = d - ndim + mask.ndim
        step = mask.strides[axis] if axis >= 0 and mask.shape[axis] != 1 else 0
        if d < ndim - 2:
            job.mask_steps[d] = step
        else:
            job.mask_row = step
    return mask


cdef bint fit(cnp.ndarray q, cnp.ndarray k, cnp.ndarray v):
    """Return whether the shapes match and no array is empty."""
    cdef int ndim = q.ndim, d
    if ndim < 2 or k.ndim != ndim or v.ndim != ndim or not (q.size and k.size and v.size):
        return False
    for d in range(ndim - 2):
        if not q.shape[d] == k.shape[d] == v.shape[d]:
            return False
    return q.shape[ndim - 1] == k.shape[ndim - 2] and k.shape[ndim - 1] == v.shape[ndim - 2]


cdef bint mask_fits(cnp.ndarray mask, cnp.ndarray q, cnp.ndarray k):
    """Return whether a mask broadcasts to the scores."""
    cdef int lead = q.ndim - mask.ndim, d
    for d in range(mask.ndim if lead >= 0 else 0):
        if mask.shape[d] != 1 and mask.shape[d] != (k.shape[lead + d] if lead + d == q.ndim - 1 else q.shape[lead + d]):
            return False
    return lead >= 0


def takes(cnp.ndarray q, cnp.ndarray k, cnp.ndarray v, cnp.ndarray mask=None):
    """Return whether :func:`real_attention` accepts these arrays without a conversion to float32."""
    cdef cnp.ndarray array
    for array in (q, k, v, mask):
        if array is not None and cnp.PyArray_TYPE(array) != cnp.NPY_FLOAT32:
            return False
    return fit(q, k, v) and (mask is None or mask_fits(mask, q, k))


cdef int check(cnp.ndarray q, cnp.ndarray k, cnp.ndarray v, cnp.ndarray mask) except -1:
    """Raise an error unless the shapes match and no array is empty."""
    if not fit(q, k, v):
        raise ValueError("q, k and v must have shapes (..., m, d), (..., d, n) and (..., n, e), without zeros, got "
                         f"{(<object>q).shape}, {(<object>k).shape} and {(<object>v).shape}")
    if mask is not None and not mask_fits(mask, q, k):
        wanted = (*(<object>q).shape[:-1], (<object>k).shape[-1])
        raise ValueError(f"mask must broadcast to shape {wanted}, got {(<object>mask).shape}")
    return 0


def real_attention(q, k, v, mask=None, *, scales=(1, 1, 1)):
    """Compute ``softmax((q * scales[0]) @ (k * scales[1]) * scales[2] + mask) @ v`` in float32.

    q is (..., m, d), k (..., d, n), v (..., n, e), and the mask broadcasts to (..., m, n). The result is (..., m, e).
    A result with heads, (..., heads, m, e), has the memory order (..., m, heads, e).
    """
    cdef cnp.ndarray queries = float32s(q, "q"), keys = float32s(k, "k"), values = float32s(v, "v"), rows, y
    cdef AttentionJob job
    if mask is not None:
        mask = float32s(mask, "mask")
    check(queries, keys, values, mask)
    queries, keys, values = set_a(&job.scores, queries), set_b(&job.scores, keys), set_b(&job.values, values)
    job.values.a, job.values.a_row, job.values.rows = job.scores.a, 0, job.scores.rows
    job.values.k = job.scores.columns
    stack_shape(&job.scores, queries, keys)
    shape = stack_shape(&job.values, queries, values)
    job.q_scale, job.scores.b_factor, job.scale = scales
    job.length, job.cap, job.sinks = 0, 0, NULL
    job.mask, job.mask_row = NULL, 0
    if mask is not None:
        mask = set_mask(&job, mask, queries.ndim)
    set_y(&job.scores, queries)  # this sets only the steps, because scores stay in the workspace
    if shape:
        rows = empty_of((*shape[:-1], job.scores.rows, shape[-1], job.values.columns), cnp.NPY_FLOAT32)
        y = rows.swapaxes(-2, -3)
    else:
        y = empty_of((job.scores.rows, job.values.columns), cnp.NPY_FLOAT32)
    set_y(&job.values, y)
    run(&job)
    return y
