"""Apply an element-wise kernel to arrays of any strides. Parameters are constant, or differ along some dimensions.

The dimensions of `x` and `out`, in the order of `out` in memory, are divided into an inner run, whose elements are
evenly spaced in both arrays, and outer dimensions. The parameters are constant in a run. If runs with constant
parameters would be short, a run is longer and has several values of each parameter. The driver then writes the
parameters of one stretch of the run to memory, one parameter for each element, and all stretches of the run use these
parameters. If a stretch would be long, the driver writes the parameters of one block of elements at a time.
"""

from libc.math cimport copysignf, fabsf
from libc.stddef cimport ptrdiff_t
from libc.stdint cimport INT32_MAX, int32_t, int64_t, uintptr_t
from libc.stdlib cimport llabs
from libc.string cimport memcpy, memset
cimport int8blas.core.cnumpy as cnp
import numpy as np

from int8blas.core.arrays cimport bounds, elements_output_like
from int8blas.core.kernels cimport (
    I8_CHUNK, I8_MAX_REPEATS, current_kernels, i8_elements_args, i8_elements_fn, i8_kernels)
from int8blas.core.memory cimport ALIGNMENT, STREAM_BYTES, aligned
from int8blas.core.results cimport Layout, check_layout, empty, empty_like, lay_out
from int8blas.core.split cimport ceil_div, share
from int8blas.core.threads cimport KEEPS_GIL_BYTES, THREAD_BYTES, run_work
from int8blas.stage.output_stage cimport element_type

cnp.import_array()

# A run of more than I8_MAX_REPEATS elements with constant parameters (of at least SHORT_RUN elements if the arrays have
# gaps) gets its own kernel call. For shorter runs, the parameters are repeated in memory for about STRETCH elements.
cdef int64_t SHORT_RUN = 32, STRETCH = 1024
# The maximum number of elements of a stretch whose parameters are all in memory. There are up to three parameters, and
# three arrays of more than 16 KiB would not fit the L1 cache.
cdef int64_t LONGEST_STRETCH = 4096
# PIECE is the number of elements of a piece, the unit of work of threads. GATHERED is the number of elements of a block
# that is copied to a buffer first.
cdef int64_t PIECE = 1 << 14
cdef enum:
    GATHERED = 1024
    TRANSPOSED_ROWS = 64    # minimum rows of a piece of a transposed matrix: a cache line of bytes in the copy
    ERF_BLOCK = 256         # numbers of erf at a time, in 4 KiB
cdef float ROUND = 12582912  # 1.5 * 2**23: a sum with this number is rounded to an integer


ctypedef void (*widen_fn)(float *y, const void *x, int64_t n, float scale, float zero) noexcept nogil
ctypedef void (*spread_fn)(int32_t *out, const int32_t *values, int64_t count, int64_t repeats, int64_t start,
                           int64_t n) noexcept nogil


cdef struct ElementsJob:
    i8_elements_fn function
    widen_fn widen                              # converts `x` to float32 for the function, or NULL
    int dims                                    # outer dimensions
    int64_t shape[cnp.NPY_MAXDIMS]
    ptrdiff_t x_strides[cnp.NPY_MAXDIMS]        # in bytes
    ptrdiff_t out_strides[cnp.NPY_MAXDIMS]
    ptrdiff_t parameter_strides[cnp.NPY_MAXDIMS]    # in elements
    int64_t outer                               # runs
    int64_t n                                   # elements of a run
    int64_t piece, pieces                       # elements of a piece, pieces of a run
    int64_t period                              # elements after which the parameters of a run repeat, if `each`
    # If `spread` is not 0, there is one run. A parameter that varies has `values` contiguous values. Each value applies
    # to `spread` consecutive elements, so element e has the value at index e // spread % values.
    int64_t spread, values
    bint varies[PARAMETERS]
    spread_fn spread_values
    bint each, stream
    int used                                    # parameters that the function uses; all parameters must be readable
    int x_size, out_size
    ptrdiff_t x_step, out_step                  # in bytes
    const char *x
    char *out
    const char *parameters[PARAMETERS]


cdef void do_spread(const ElementsJob *job, int64_t first, int64_t end) noexcept nogil:
    """Compute elements whose parameters are repeated in memory, GATHERED elements at a time. If each element has its
    own parameter, the kernel reads the parameter in place."""
    cdef int32_t memory[PARAMETERS][GATHERED + 2 * I8_CHUNK]
    cdef int32_t *words[PARAMETERS]
    cdef i8_elements_args e
    cdef int64_t at
    cdef int p
    e.each, e.stream = True, job.stream
    for p in range(job.used):
        words[p] = <int32_t *>aligned(<char *>memory[p])
        if not job.varies[p]:
            fill(words[p], GATHERED // FILLED, job.parameters[p])
    while first < end:
        at = first % (job.spread * job.values)
        e.n = min(<int64_t>GATHERED, end - first, job.spread * job.values - at)
        for p in range(job.used):
            e.parameters[p] = words[p]
            if job.varies[p] and job.spread == 1:
                e.parameters[p] = job.parameters[p] + at * <int64_t>sizeof(int32_t)
            elif job.varies[p]:
                job.spread_values(words[p], <const int32_t *>job.parameters[p], job.values, job.spread, at, e.n)
        for p in range(job.used, PARAMETERS):
            e.parameters[p] = e.parameters[0]
        e.x, e.out = job.x + first * job.x_size, job.out + first * job.out_size
        if job.widen is NULL:
            job.function(&e)
        else:
            do_some(job, &e, e.n)
        first += e.n


cdef int do_piece(const void *work, int64_t unit, int64_t _units) noexcept nogil:
    """Compute one piece of one run."""
    cdef const ElementsJob *job = <const ElementsJob *>work
    cdef i8_elements_args e
    cdef int64_t run = unit // job.pieces, start = unit % job.pieces * job.piece, index
    cdef int64_t n = min(job.piece, job.n - start)
    cdef const char *x = job.x + start * job.x_step
    cdef char *out = job.out + start * job.out_step
    cdef ptrdiff_t parameter = start % job.period if job.each else 0
    cdef int d
    if job.spread:
        do_spread(job, start, start + n)
        return 0
    for d in range(job.dims - 1, -1, -1):
        index = run % job.shape[d]
        run = run // job.shape[d]
        x += index * job.x_strides[d]
        out += index * job.out_strides[d]
        parameter += index * job.parameter_strides[d]
    for d in range(PARAMETERS):
        e.parameters[d] = job.parameters[d] + 4 * parameter
    e.n, e.each, e.stream = n, job.each, job.stream
    e.x, e.out = x, out
    if job.widen is NULL and job.x_step == job.x_size and job.out_step == job.out_size:
        job.function(&e)
    else:
        do_some(job, &e, n)
    return 0


cdef void repeat_bytes(char *to, const char *source, int64_t size, int64_t n) noexcept nogil:
    """Write n copies of `size` bytes, at least one."""
    cdef int64_t written = size
    if size == 1:
        memset(to, source[0], n)
        return
    memcpy(to, source, size)
    while written < n * size:
        memcpy(to + written, to, min(written, n * size - written))
        written *= 2


cdef void copy_strided(char *to, ptrdiff_t to_step, const char *source, ptrdiff_t step, int size,
                       int64_t n) noexcept nogil:
    """Copy n elements of 1, 2 or 4 bytes that are evenly spaced in the source and in the target."""
    cdef int64_t i
    if to_step == size and step == size:
        copy_bytes(to, source, n * size)
    elif to_step == size and step == 0:
        repeat_bytes(to, source, size, n)
    elif size == 1:
        for i in range(n):
            to[i * to_step] = source[i * step]
    elif size == 2:
        for i in range(n):
            memcpy(to + i * to_step, source + i * step, 2)
    else:
        for i in range(n):
            memcpy(to + i * to_step, source + i * step, 4)


cdef void do_some(const ElementsJob *job, i8_elements_args *e, int64_t n) noexcept nogil:
    """Compute a piece that must be widened first, or is not contiguous in an array, GATHERED elements at a time."""
    cdef char gathered[4 * GATHERED]
    cdef float widened[GATHERED]
    cdef char results[4 * GATHERED]
    cdef const char *x = <const char *>e.x
    cdef char *out = <char *>e.out
    cdef bint plain_x = job.x_step == job.x_size, plain_out = job.out_step == job.out_size
    cdef int64_t block, i
    cdef int p
    e.stream = False
    for block in range(ceil_div(n, GATHERED)):
        i = block * GATHERED
        e.n = min(<int64_t>GATHERED, n - i)
        e.x = x + i * job.x_step
        e.out = out + i * job.out_step if plain_out else results
        if not plain_x:
            copy_strided(gathered, job.x_size, x + i * job.x_step, job.x_step, job.x_size, e.n)
            e.x = gathered
        if job.widen is not NULL:
            job.widen(widened, e.x, e.n, 1, 0)
            e.x = widened
        job.function(e)
        if not plain_out:
            copy_strided(out + i * job.out_step, job.out_step, results, job.out_size, job.out_size, e.n)
        if job.each:
            for p in range(PARAMETERS):
                e.parameters[p] = <const char *>e.parameters[p] + 4 * e.n


cdef void do_all(ElementsJob *job) noexcept:
    """Compute every piece."""
    if not job.each:
        job.piece = PIECE
    elif job.period >= job.n:
        job.piece, job.period = PIECE, job.n
    else:
        job.piece = job.period
    job.pieces = ceil_div(job.n, job.piece)
    job.stream = job.outer * job.n * job.out_size >= STREAM_BYTES and job.n * job.out_size >= PIECE
    run_work(do_piece, job, job.outer * job.pieces, <double>(job.outer * job.n * (job.x_size + job.out_size)),
             THREAD_BYTES, KEEPS_GIL_BYTES)


cdef void memory_order(Order *order, cnp.ndarray out) noexcept:
    """Set the dimensions in the order of `out` in memory, outermost first."""
    cdef int d, at
    cdef ptrdiff_t step
    order.dims = 0
    for d in range(cnp.PyArray_NDIM(out)):
        if cnp.PyArray_DIM(out, d) == 1:
            continue
        step, at = llabs(cnp.PyArray_STRIDE(out, d)), order.dims
        while at > 0 and llabs(cnp.PyArray_STRIDE(out, order.axes[at - 1])) < step:
            order.axes[at] = order.axes[at - 1]
            at -= 1
        order.axes[at] = d
        order.dims += 1
    for d in range(order.dims):
        order.shape[d] = cnp.PyArray_DIM(out, order.axes[d])
        order.backwards[d] = cnp.PyArray_STRIDE(out, order.axes[d]) < 0


cdef char *ordered_strides(const Order *order, cnp.ndarray array, ptrdiff_t *strides) noexcept:
    """Set the strides of an array in the order `order`, and return the address of its first element."""
    cdef char *data = cnp.PyArray_BYTES(array)
    cdef int d
    for d in range(order.dims):
        strides[d] = cnp.PyArray_STRIDE(array, order.axes[d])
        if order.backwards[d]:
            data += (order.shape[d] - 1) * strides[d]
            strides[d] = -strides[d]
    return data


cdef int even_from(const Order *order, cnp.ndarray array, int first) noexcept:
    """Return the smallest d >= `first` for which the elements along the dimensions from d on are evenly spaced in
    memory."""
    cdef ptrdiff_t strides[cnp.NPY_MAXDIMS]
    cdef int d = max(order.dims - 1, 0)
    ordered_strides(order, array, strides)
    while d > first and strides[d - 1] == order.shape[d] * strides[d]:
        d -= 1
    return d


cdef cnp.ndarray ordered(const Order *order, cnp.ndarray array):
    """Return a view of `array` with its dimensions in the order `order`."""
    cdef int d
    cdef list index = [0] * array.ndim, axes = [order.axes[d] for d in range(order.dims)]
    for d in range(order.dims):
        index[order.axes[d]] = slice(None, None, -1 if order.backwards[d] else 1)
    kept = sorted(axes)
    return array[(..., *index)].transpose([kept.index(axis) for axis in axes])


cdef bint is_dense(cnp.ndarray array) noexcept:
    """Return whether an array is contiguous, with positive strides, for some order of its dimensions."""
    cdef int ndim = cnp.PyArray_NDIM(array), left = 0, d, found
    cdef int64_t step = cnp.PyArray_ITEMSIZE(array)
    cdef bint used[cnp.NPY_MAXDIMS]
    if cnp.PyArray_IS_C_CONTIGUOUS(array):
        return True
    for d in range(ndim):
        used[d] = cnp.PyArray_DIM(array, d) == 1
        left += not used[d]
    while left:
        found = -1
        for d in range(ndim):
            if not used[d] and cnp.PyArray_STRIDE(array, d) == step:
                found = d
                break
        if found < 0:
            return False
        used[found] = True
        step *= cnp.PyArray_DIM(array, found)
        left -= 1
    return True


cdef bint lie_alike(cnp.ndarray x, cnp.ndarray y) noexcept:
    """Return whether two arrays of one shape have the same strides, counted in elements."""
    cdef int d
    for d in range(cnp.PyArray_NDIM(x)):
        if cnp.PyArray_DIM(x, d) != 1 and (cnp.PyArray_STRIDE(x, d) * cnp.PyArray_ITEMSIZE(y)
                                           != cnp.PyArray_STRIDE(y, d) * cnp.PyArray_ITEMSIZE(x)):
            return False
    return True


cdef void set_order(ElementsJob *job, Order *order, cnp.ndarray x, cnp.ndarray out) noexcept:
    """Set the order of the dimensions, the addresses and strides of both arrays, and the minimum number of outer
    dimensions. Along all inner dimensions the elements are evenly spaced."""
    memory_order(order, out)
    job.x, job.out = ordered_strides(order, x, job.x_strides), ordered_strides(order, out, job.out_strides)
    job.dims = even_from(order, x, even_from(order, out, 0))
    memcpy(job.shape, order.shape, order.dims * sizeof(int64_t))
    job.x_step, job.out_step = job.x_size, job.out_size
    if order.dims:
        job.x_step, job.out_step = job.x_strides[order.dims - 1], job.out_strides[order.dims - 1]


cdef list lay_out_runs(ElementsJob *job, cnp.ndarray x, cnp.ndarray out, tuple axes, list parameters):
    """Set the runs and the outer dimensions. Return the arrays that own the job's parameters."""
    cdef Order order
    cdef int d, p, first, inner
    ndim = x.ndim
    selected = tuple([slice(None) if axis in axes else None for axis in range(ndim)])
    by_axis = [axes.index(axis) for axis in sorted(axes)]
    shaped = [array if array.ndim else np.broadcast_to(array, [x.shape[axis] for axis in axes]) for array in parameters]
    shaped = [np.broadcast_to(np.array(array.transpose(by_axis), order="C")[selected], (<object>x).shape)
              for array in shaped]
    set_order(job, &order, x, out)
    shaped = [ordered(&order, array) for array in shaped]
    inner, first, shape, steps = order.dims - 1, job.dims, shaped[0].shape, shaped[0].strides
    # The parameters are constant over the dimensions from `d` on.
    d, job.n = inner + 1, 1
    while d > first and steps[d - 1] == 0:
        d -= 1
        job.n *= shape[d]
    job.each = d > first and job.n < SHORT_RUN
    if job.each:
        # Store the parameters of the dimensions from `d` on. A run also extends over the dimensions before `d` along
        # which the parameters are constant, and repeats the stored parameters there.
        outermost = [axis for axis in range(first, inner + 1) if steps[axis]][0]
        d, job.n = inner, shape[inner]
        while d > outermost and job.n < STRETCH:
            d -= 1
            job.n *= shape[d]
        kept = tuple([slice(None) if steps[p] else slice(0, 1) for p in range(d)])
        lead = [shape[p] if steps[p] else 1 for p in range(d)]
        job.period = job.n
        repeats = max(1, STRETCH // job.n)
        while d > first and steps[d - 1] == 0:
            d -= 1
            job.n *= shape[d]
        repeats = min(repeats, job.n // job.period)
        shaped = [np.tile(np.ascontiguousarray(array[kept]).reshape(*lead, job.period), repeats) for array in shaped]
        job.period *= repeats
    steps = [step // 4 if size > 1 else 0 for step, size in zip(shaped[0].strides, shaped[0].shape)]
    job.dims, job.outer = d, 1
    for p in range(d):
        job.parameter_strides[p] = steps[p]
        job.outer *= shape[p]
    for p in range(job.used):
        job.parameters[p] = cnp.PyArray_BYTES(shaped[p])
    return shaped


cdef void lay_out_uniform(ElementsJob *job, cnp.ndarray x, cnp.ndarray out, list parameters) noexcept:
    """Set the runs for parameters that are the same for all elements."""
    cdef Order order
    cdef int d, p
    job.each, job.outer, job.n = False, 1, 1
    if is_dense(x) and lie_alike(x, out):
        job.dims, job.n = 0, cnp.PyArray_SIZE(x)
        job.x_step, job.out_step = job.x_size, job.out_size
        job.x, job.out = cnp.PyArray_BYTES(x), cnp.PyArray_BYTES(out)
    else:
        set_order(job, &order, x, out)
        for d in range(order.dims):
            job.parameter_strides[d] = 0
            if d < job.dims:
                job.outer *= order.shape[d]
            else:
                job.n *= order.shape[d]
    for p in range(job.used):
        job.parameters[p] = cnp.PyArray_BYTES(<cnp.ndarray>parameters[p])


cdef cnp.ndarray written_out(cnp.ndarray parameter, int64_t size, int64_t inner, int64_t repeats, const char **start):
    """Repeat each of `size` values (or one value for all) `inner` times, then repeat the whole sequence `repeats`
    times.

    Return the array that owns the values. Copied values start on a cache line, because the kernel loads a vector of
    values for every vector of elements.
    """
    cdef cnp.npy_intp count = size * inner * repeats
    cdef cnp.npy_intp room = count + ALIGNMENT // <int64_t>sizeof(int32_t) + I8_CHUNK
    cdef ptrdiff_t step = 0 if cnp.PyArray_NDIM(parameter) == 0 else cnp.PyArray_STRIDE(parameter, 0)
    cdef const char *value = cnp.PyArray_BYTES(parameter)
    cdef cnp.ndarray result
    cdef int32_t *dst
    cdef int64_t i, j
    if step == sizeof(int32_t) and count == size:
        start[0] = value
        return parameter
    result = cnp.PyArray_EMPTY(1, &room, cnp.PyArray_TYPE(parameter), 0)
    start[0] = aligned(cnp.PyArray_BYTES(result))
    dst = <int32_t *>start[0]
    if step == sizeof(int32_t):
        if inner == 1:
            memcpy(dst, value, size * sizeof(int32_t))
        else:
            current_kernels().elementwise.spread(dst, <const int32_t *>value, size, inner, 0, size * inner)
    else:
        for i in range(size):
            for j in range(inner):
                dst[i * inner + j] = (<const int32_t *>(value + i * step))[0]
    i = size * inner
    while i < count:
        memcpy(dst + i, dst, min(i, count - i) * sizeof(int32_t))
        i *= 2
    return result


cdef bint are_one(tuple axes, cnp.ndarray x) noexcept:
    """Return whether these axes are like one dimension of `x`: one axis, or successive axes of a C-ordered array."""
    cdef int i
    if len(axes) == 1:
        return True
    for i in range(1, len(axes)):
        if <int>axes[i] != <int>axes[i - 1] + 1:
            return False
    return cnp.PyArray_IS_C_CONTIGUOUS(x)


cdef list lay_out_contiguous(ElementsJob *job, cnp.ndarray x, cnp.ndarray out, tuple axes, list parameters):
    """Set the runs if `x` and `out` have no gaps and one order, and the axes are like one dimension."""
    cdef int64_t size = 1, repeats = 1, inner = 1, outer
    cdef int p, axis, last = axes[len(axes) - 1]
    cdef bint single = False
    for axis in axes:
        size *= cnp.PyArray_DIM(x, axis)
    if len(axes) == 1:
        inner = cnp.PyArray_STRIDE(x, last) // job.x_size if size > 1 else cnp.PyArray_SIZE(x)
    else:
        for axis in range(last + 1, cnp.PyArray_NDIM(x)):
            inner *= cnp.PyArray_DIM(x, axis)
    outer = cnp.PyArray_SIZE(x) // (size * inner)
    if len(axes) > 1:
        parameters = [array.reshape(-1) if array.ndim else array for array in parameters]
    for p in range(job.used):
        single |= cnp.PyArray_NDIM(<cnp.ndarray>parameters[p]) == 0
    job.x_step, job.out_step = job.x_size, job.out_size
    job.each = inner <= I8_MAX_REPEATS
    if job.each:
        if (inner > 1 or single) and size * inner > LONGEST_STRETCH:
            job.dims, job.outer, job.n = 0, 1, outer * size * inner
            job.period, job.spread, job.values = job.n, inner, size
            job.x, job.out = cnp.PyArray_BYTES(x), cnp.PyArray_BYTES(out)
            job.spread_values = current_kernels().elementwise.spread
            parameters = [np.ascontiguousarray(array) if array.ndim else array for array in parameters]
            for p in range(job.used):
                job.parameters[p] = cnp.PyArray_BYTES(<cnp.ndarray>parameters[p])
                job.varies[p] = cnp.PyArray_NDIM(<cnp.ndarray>parameters[p]) > 0
            return parameters
        repeats = max(<int64_t>1, min(outer, STRETCH // (size * inner)))
        job.dims, job.outer, job.n, job.period = 0, 1, outer * size * inner, size * inner * repeats
    else:
        job.dims, job.outer, job.n = 2, outer * size, inner
        job.shape[0], job.shape[1] = outer, size
        job.x_strides[0], job.x_strides[1] = size * inner * job.x_size, inner * job.x_size
        job.out_strides[0], job.out_strides[1] = size * inner * job.out_size, inner * job.out_size
        job.parameter_strides[0], job.parameter_strides[1] = 0, 1
        inner = 1
    job.x, job.out = cnp.PyArray_BYTES(x), cnp.PyArray_BYTES(out)
    return [written_out(parameters[p], size, inner, repeats, &job.parameters[p]) for p in range(job.used)]


cdef bint share_memory(cnp.ndarray x, cnp.ndarray out):
    """Return whether the address ranges of two arrays overlap."""
    cdef uintptr_t low, high, from_, to
    bounds(out, &low, &high)
    bounds(x, &from_, &to)
    return low < to and from_ < high


cdef bint clash(cnp.ndarray x, cnp.ndarray out):
    """Return whether writing `out` may change elements of `x` before they are read. `x` and `out` have equal shapes."""
    return share_memory(x, out) and (
        cnp.PyArray_DATA(x) != cnp.PyArray_DATA(out) or cnp.PyArray_ITEMSIZE(x) != cnp.PyArray_ITEMSIZE(out)
        or (<object>x).strides != (<object>out).strides
    )


cdef bint fits(cnp.ndarray parameter, cnp.ndarray x, tuple axes) noexcept:
    """Return whether a parameter is one value, or has the dimensions of `x` that `axes` selects."""
    cdef int d
    for d in range(cnp.PyArray_NDIM(parameter)):
        if d >= len(axes) or cnp.PyArray_DIM(parameter, d) != cnp.PyArray_DIM(x, axes[d]):
            return False
    return cnp.PyArray_NDIM(parameter) in (0, len(axes))


cdef object apply(i8_elements_fn function, cnp.ndarray x, object out, int typenum, tuple axes, list parameters):
    """Apply a kernel after the last check. Store to `out`, or to a new array in the order of `x`. The kernel reads
    float16 and bfloat16 as float32.

    `parameters` are scales or multipliers, zero points and, for some kernels, exponents: arrays of 4-byte elements
    without dimensions, or with the dimensions of `x` that `axes` selects.
    """
    cdef ElementsJob job
    cdef Layout layout
    cdef cnp.ndarray array, target
    cdef int p
    cdef bint uniform = True, shared
    job.used = len(parameters)
    for p in range(job.used):
        if cnp.PyArray_NDIM(<cnp.ndarray>parameters[p]):
            uniform = False
    if out is not None:
        lay_out(&layout, x)
        array = elements_output_like(out, "out", typenum, x)
        check_layout(&layout, x, "x")
        shared = clash(x, array)
        for p in range(0 if uniform else job.used):
            shared |= share_memory(<cnp.ndarray>parameters[p], array)
        target = empty_like(array, typenum) if shared else array
    else:
        array = target = empty_like(x, typenum)
    for p in range(0 if uniform else job.used):
        # A large parameter is the caller's array, whose shape the conversion of a later argument may have set.
        if not fits(parameters[p], x, axes):
            raise ValueError(f"scale and zero_point must keep their shapes during the call, got {parameters[p].shape}")
    if cnp.PyArray_SIZE(x):
        if len(axes) == 1 and cnp.PyArray_SIZE(x) <= PIECE and not is_dense(x):
            x = cnp.PyArray_NewCopy(x, cnp.NPY_CORDER)  # laying out an array with gaps takes 10 us
        job.function, job.widen, job.spread = function, NULL, 0
        if cnp.PyArray_ITEMSIZE(x) == 2:
            job.widen = current_kernels().elementwise.load[element_type(cnp.PyArray_TYPE(x))]
        job.x_size, job.out_size = cnp.PyArray_ITEMSIZE(x), cnp.PyArray_ITEMSIZE(target)
        if uniform:
            lay_out_uniform(&job, x, target, parameters)
        elif is_dense(x) and lie_alike(x, target) and are_one(axes, x):
            parameters = lay_out_contiguous(&job, x, target, axes, parameters)
        else:
            parameters = lay_out_runs(&job, x, target, axes, parameters)
        for p in range(job.used, PARAMETERS):
            job.parameters[p] = job.parameters[0]
        do_all(&job)
    if target is not array:
        array[...] = target
    if out is not None:
        return out
    return target if cnp.PyArray_NDIM(target) else target[()]


# Matrices that are copied and transposed. The elements of a row are contiguous in the source, and the elements of a
# column are contiguous in the copy. There may be any number of outer dimensions.
cdef struct TransposeJob:
    const i8_kernels *kernels
    const char *src
    char *dst
    int size                                    # bytes of an element
    int64_t rows, columns                       # of a matrix of the source
    ptrdiff_t src_row, dst_column               # in bytes
    int dims                                    # outer dimensions
    int64_t shape[cnp.NPY_MAXDIMS]
    ptrdiff_t src_strides[cnp.NPY_MAXDIMS]
    ptrdiff_t dst_strides[cnp.NPY_MAXDIMS]
    int64_t matrices, pieces                    # pieces of the rows of a matrix


cdef int transpose_piece(const void *shared, int64_t unit, int64_t _units) noexcept nogil:
    cdef const TransposeJob *job = <const TransposeJob *>shared
    cdef int64_t piece = unit % job.pieces, matrix = unit // job.pieces, index
    cdef int64_t first = share(job.rows, piece, job.pieces), end = share(job.rows, piece + 1, job.pieces)
    cdef const char *src = job.src + first * job.src_row
    cdef char *dst = job.dst + first * job.size
    cdef int d
    for d in range(job.dims - 1, -1, -1):
        index = matrix % job.shape[d]
        matrix = matrix // job.shape[d]
        src += index * job.src_strides[d]
        dst += index * job.dst_strides[d]
    job.kernels.stage.transpose_store(dst, job.size, job.dst_column, src, job.src_row, <int>(end - first),
                                      <int>job.columns, job.size)
    return 0


cdef bint set_transposition(TransposeJob *job, cnp.ndarray x, cnp.ndarray copy) noexcept:
    """Set the job that copies `x` to `copy`, which is in C order. Return False if the matrices are smaller than a block
    of the kernel, 4 x 4 elements of 4 bytes or 4 x 16 bytes, because the kernel is then no faster than NumPy."""
    cdef Order order
    cdef ptrdiff_t strides[2][cnp.NPY_MAXDIMS]
    cdef int d, dims = 0, columns = -1
    cdef int64_t shape[cnp.NPY_MAXDIMS]
    memory_order(&order, copy)
    job.src, job.dst = ordered_strides(&order, x, job.src_strides), ordered_strides(&order, copy, job.dst_strides)
    for d in range(order.dims):
        # A dimension that continues the previous dimension in both arrays is merged with it.
        if dims and strides[0][dims - 1] == order.shape[d] * job.src_strides[d]:
            dims -= 1
            shape[dims] *= order.shape[d]
        else:
            shape[dims] = order.shape[d]
        strides[0][dims], strides[1][dims] = job.src_strides[d], job.dst_strides[d]
        dims += 1
    job.size, job.dims, job.matrices = cnp.PyArray_ITEMSIZE(x), 0, 1
    for d in range(dims - 1):
        if columns < 0 and strides[0][d] == job.size:
            columns = d
            continue
        job.shape[job.dims] = shape[d]
        job.src_strides[job.dims], job.dst_strides[job.dims] = strides[0][d], strides[1][d]
        job.matrices *= shape[d]
        job.dims += 1
    if columns < 0 or job.size not in (1, 4):
        return False
    job.rows, job.columns = shape[dims - 1], shape[columns]
    job.src_row, job.dst_column = strides[0][dims - 1], strides[1][columns]
    job.pieces = max(<int64_t>1, min(job.rows // TRANSPOSED_ROWS, job.rows * job.columns * job.size // PIECE))
    return job.rows >= 4 and 16 // job.size <= job.columns <= INT32_MAX and job.rows // job.pieces < INT32_MAX


def in_c_order(cnp.ndarray x):
    """Return a copy of an array of numbers in C order."""
    cdef TransposeJob job
    cdef cnp.ndarray copy = empty(cnp.PyArray_NDIM(x), cnp.PyArray_DIMS(x), cnp.PyArray_TYPE(x))
    if cnp.PyArray_SIZE(x) and set_transposition(&job, x, copy):
        job.kernels = current_kernels()
        run_work(transpose_piece, &job, job.matrices * job.pieces, 2 * <double>cnp.PyArray_NBYTES(x), THREAD_BYTES,
                 KEEPS_GIL_BYTES)
    else:
        copy[...] = x
    return copy


def erf(cnp.ndarray x, cnp.ndarray table):
    """Return erf of float32 numbers in the order of memory. Each step is rounded to float32.

    Parameters
    ----------
    x : ndarray of float32
        The numbers, without gaps in memory.
    table : ndarray of float32
        (count, 2): erf and its derivative at the points i / 128.
    """
    cdef cnp.ndarray result = empty_like(x, cnp.NPY_FLOAT32)
    cdef const float *source = <const float *>cnp.PyArray_DATA(x)
    cdef float *y = <float *>cnp.PyArray_DATA(result)
    cdef const float *points = <const float *>cnp.PyArray_DATA(table)
    cdef int32_t last = <int32_t>cnp.PyArray_DIM(table, 0) - 1
    cdef float pairs[2 * ERF_BLOCK]
    cdef float sums[ERF_BLOCK]
    cdef float nearest[ERF_BLOCK]
    cdef int32_t index[ERF_BLOCK]
    cdef float end = last / <float>128, a, d, at
    cdef int64_t i, first = 0, count, size = cnp.PyArray_SIZE(x)
    with nogil:
        while first < size:
            count = min(size - first, <int64_t>ERF_BLOCK)
            for i in range(count):
                a = fabsf(source[i])
                sums[i] = (end if a > end else a) * <float>128 + ROUND  # the sum's low bits are the nearest integer
                nearest[i] = (sums[i] - ROUND) * <float>0.0078125
            memcpy(index, sums, sizeof(index))
            for i in range(count):
                index[i] = min(index[i] & 0xffff, last)  # any number for a NaN
            for i in range(count):
                memcpy(pairs + 2 * i, points + 2 * index[i], 8)
            for i in range(count):
                a, at = fabsf(source[i]), nearest[i]
                d = (end if a > end else a) - at
                a = <float>1 - d * (at - d * (at * at * <float>0.6666667 - <float>0.33333334))
                a = d * a * pairs[2 * i + 1] + pairs[2 * i]
                y[i] = copysignf(a, source[i])
            source, y, first = source + count, y + count, first + count
    return result
