"""The driver of softmax and layer normalization. The driver applies a kernel of rows to arrays of any strides.

Rows that are contiguous, aligned and not too short are read and written in place. Rows that are side by side in memory
are read and written in place if the function has a kernel for them. The driver copies rows of any other layout to a
buffer, a block at a time.
"""

from libc.stddef cimport ptrdiff_t
from libc.stdint cimport int64_t
from libc.stdlib cimport llabs
cimport int8blas.core.cnumpy as cnp

from int8blas.core.kernels cimport (
    I8_ACROSS_ROOM, I8_CHUNK, I8_NORMALIZE_ROOM, i8_normalize_args, i8_normalize_fn)
from int8blas.core.memory cimport ALIGNMENT, acquire, carve, release
from int8blas.core.results cimport axes_in_memory
from int8blas.core.split cimport ceil_div, round_up, share
from int8blas.core.threads cimport KEEPS_GIL_NORMALIZED, THREAD_NORMALIZED, run_work, threads_for
from int8blas.elementwise.elements cimport copy_strided

cnp.import_array()

# Elements of a block of rows, the unit of work for threads.
cdef int64_t BLOCK = 1 << 13


# The places of the rows of the source or of the destination, and whether these rows are copied.
cdef struct Side:
    char *data
    ptrdiff_t row, step                 # bytes from one row to the next, and from one element to the next
    ptrdiff_t strides[cnp.NPY_MAXDIMS]  # strides of the outer dimensions
    int size                            # bytes of an element
    bint aligned, copied


cdef struct NormalizeJob:
    i8_normalize_fn function
    bint across                         # whether the function takes rows that are side by side
    i8_normalize_args args              # all members except the number and the addresses of rows
    Side src, dst
    int dims                            # outer dimensions, the innermost first
    int64_t shape[cnp.NPY_MAXDIMS]
    int64_t rows                        # consecutive rows that are evenly spaced on both sides
    int64_t block, blocks, units        # rows of the largest block; blocks of `rows`; blocks of all rows
    int64_t room                        # elements of a row in the buffer
    char *memory                        # the buffers of all parts, `part_size` bytes for each
    int64_t part_size


cdef void copy_block(const NormalizeJob *job, const Side *side, char *at, char *memory, int64_t rows,
                     bint back) noexcept nogil:
    """Copy rows of an array, from `at` on, to a buffer or back. The inner loop runs along the smaller stride of the
    array."""
    cdef ptrdiff_t outer = side.row, inner = side.step, memory_outer = job.room * side.size, memory_inner = side.size
    cdef int64_t i, outer_count = rows, inner_count = job.args.n
    if llabs(outer) < llabs(inner):
        outer, inner = inner, outer
        memory_outer, memory_inner = memory_inner, memory_outer
        outer_count, inner_count = inner_count, outer_count
    for i in range(outer_count):
        if back:
            copy_strided(at + i * outer, inner, memory + i * memory_outer, memory_inner, side.size, inner_count)
        else:
            copy_strided(memory + i * memory_outer, memory_inner, at + i * outer, inner, side.size, inner_count)


cdef inline int64_t workspace_size(const NormalizeJob *job) noexcept nogil:
    cdef int64_t room = I8_NORMALIZE_ROOM(job.args.n)
    if job.across:
        room = (2 if job.args.log else 1) * I8_ACROSS_ROOM(job.block, job.args.n)
    return room * <int64_t>sizeof(float)


cdef inline int64_t copy_size(const NormalizeJob *job, const Side *side) noexcept nogil:
    return round_up(job.block * job.room * side.size, ALIGNMENT) if side.copied else 0


cdef void do_unit(const NormalizeJob *job, int64_t unit, char *memory) noexcept nogil:
    """Compute one block of rows."""
    cdef i8_normalize_args a = job.args
    cdef int64_t number = unit % job.blocks, first = number * job.block, run = unit // job.blocks, index
    cdef int64_t end = min(first + job.block, job.rows)
    cdef char *src
    cdef char *dst
    cdef char *copy
    cdef int d
    if job.across:
        first, end = share(job.rows, number, job.blocks), share(job.rows, number + 1, job.blocks)
    src, dst = job.src.data + first * job.src.row, job.dst.data + first * job.dst.row
    for d in range(job.dims):
        index = run % job.shape[d]
        run = run // job.shape[d]
        src += index * job.src.strides[d]
        dst += index * job.dst.strides[d]
    a.rows = end - first
    a.workspace = <float *>carve(&memory, workspace_size(job))
    a.src, a.src_row, a.dst, a.dst_row = src, job.src.row, dst, job.dst.row
    if job.across:
        a.src_row, a.dst_row = job.src.step, job.dst.step
    if a.plus is not NULL:
        a.plus, a.plus_row = <const float *>(<const char *>a.plus + (src - job.src.data)), job.src.row
    if job.src.copied:
        copy = <char *>carve(&memory, copy_size(job, &job.src))
        copy_block(job, &job.src, src, copy, a.rows, False)
        a.src, a.src_row = copy, job.room * job.src.size
    if job.dst.copied:
        a.dst, a.dst_row = <char *>carve(&memory, copy_size(job, &job.dst)), job.room * job.dst.size
    job.function(&a)
    if job.dst.copied:
        copy_block(job, &job.dst, dst, a.dst, a.rows, True)


cdef void set_side(Side *side, cnp.ndarray array, int64_t n) noexcept:
    cdef int last = cnp.PyArray_NDIM(array) - 1
    side.data, side.size = cnp.PyArray_BYTES(array), cnp.PyArray_ITEMSIZE(array)
    side.step = cnp.PyArray_STRIDE(array, last)
    side.row = side.step * n  # a single row has no distance to a next row
    side.aligned = cnp.PyArray_ISALIGNED(array)
    side.copied = n < I8_CHUNK or side.step != side.size or not side.aligned


cdef bint beside(Side *side) noexcept:
    """Return whether rows are side by side in memory, and aligned."""
    return side.row == side.size and side.aligned


cdef int lay_out(NormalizeJob *job, i8_normalize_fn across, cnp.ndarray src, cnp.ndarray dst) except -1:
    """Set the places of the rows. Merge dimensions along which rows are evenly spaced into one run of rows."""
    cdef int axis
    cdef int64_t size
    cdef ptrdiff_t src_stride, dst_stride
    cdef int last = src.ndim - 1
    cdef list order = list(range(last))
    if not cnp.PyArray_IS_C_CONTIGUOUS(dst):
        order = [axis for axis in axes_in_memory(dst) if axis < last]
    set_side(&job.src, src, job.args.n)
    set_side(&job.dst, dst, job.args.n)
    job.rows, job.dims = 1, 0
    for axis in reversed(order):
        size, src_stride, dst_stride = src.shape[axis], src.strides[axis], dst.strides[axis]
        if size == 1:
            continue
        if job.rows == 1:
            job.rows, job.src.row, job.dst.row = size, src_stride, dst_stride
        elif job.dims == 0 and src_stride == job.rows * job.src.row and dst_stride == job.rows * job.dst.row:
            job.rows *= size
        else:
            job.shape[job.dims], job.src.strides[job.dims], job.dst.strides[job.dims] = size, src_stride, dst_stride
            job.dims += 1
    job.room = max(job.args.n, <int64_t>I8_CHUNK)
    job.across = across is not NULL and job.rows >= I8_CHUNK and beside(&job.src) and beside(&job.dst)
    if job.across:
        job.function, job.src.copied, job.dst.copied = across, False, False
        job.blocks = max(<int64_t>1, job.rows // max(<int64_t>I8_CHUNK, BLOCK // job.args.n))
        job.block = ceil_div(job.rows, job.blocks)
    else:
        job.block = min(job.rows, max(<int64_t>1, BLOCK // job.room))
        job.blocks = ceil_div(job.rows, job.block)
    job.units = cnp.PyArray_SIZE(src) // (job.args.n * job.rows) * job.blocks
    return 0


cdef int do_part(const void *shared, int64_t part, int64_t parts) noexcept nogil:
    cdef const NormalizeJob *job = <const NormalizeJob *>shared
    cdef int64_t unit
    for unit in range(share(job.units, part, parts), share(job.units, part + 1, parts)):
        do_unit(job, unit, job.memory + part * job.part_size)
    return 0


cdef int normalize(i8_normalize_fn function, i8_normalize_fn across, i8_normalize_args *args, cnp.ndarray src,
                   cnp.ndarray dst) except -1:
    """Apply a kernel to the rows of an array, along its last dimension. `across` is the kernel for rows that are side
    by side, or NULL.

    `src` and `dst` have equal shapes and are not empty. `src` and `dst` share no memory, or have the same address,
    equal strides, and types of equal size. In `args` all members except addresses must be set. If `args` has `plus`,
    `plus` has the strides of `src`, and rows of `src` can be read in place.
    """
    cdef NormalizeJob job
    cdef double elements = <double>cnp.PyArray_SIZE(src)
    cdef int parts
    job.function, job.args = function, args[0]
    lay_out(&job, across, src, dst)
    parts = threads_for(elements, THREAD_NORMALIZED, <double>job.units)
    job.part_size = workspace_size(&job) + copy_size(&job, &job.src) + copy_size(&job, &job.dst)
    job.memory = <char *>acquire(parts * job.part_size)
    if job.memory == NULL:
        raise MemoryError("src: no memory for the workspace")
    run_work(do_part, &job, parts, elements, THREAD_NORMALIZED, KEEPS_GIL_NORMALIZED)
    release(job.memory)
    return 0
