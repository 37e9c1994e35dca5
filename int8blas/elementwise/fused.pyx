"""The driver of element-wise primitives. A primitive is a list of steps on a float32 number, which run fused.

The first step reads an array. Each further step is a post-op, which may read another array. The last step stores the
number. A block of elements goes through all steps before the next block, so intermediate numbers stay in the L1 cache.

The dimensions of the arrays, in the result's order in memory, are divided into an inner run, whose elements are evenly
spaced in each array, and outer dimensions. A block is a part of a run, or several short runs.
"""

cimport cython
from libc.math cimport fabs
from libc.stddef cimport ptrdiff_t
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcmp, memcpy, memset
cimport int8blas.core.cnumpy as cnp
import numpy as np

from int8blas.core.kernels cimport (
    I8_ADD, I8_ADD_BYTES, I8_CHUNK, I8_GE, I8_MAX, I8_MIN, I8_MUL, I8_MULTIPLY_BYTES, I8_NE, I8_RELU, I8_SUB,
    I8_TYPE_F32, I8_TYPE_S8, I8_TYPE_U8, current_kernels, i8_bytes_args, i8_bytes_fn, i8_elements_args, i8_kernels,
    i8_post_op)
from int8blas.core.results cimport LARGE_BYTES, empty, empty_laid_out, is_laid_out, lay_out
from int8blas.core.split cimport ceil_div, share
from int8blas.core.threads cimport KEEPS_GIL_BYTES, THREAD_BYTES, run_work
from int8blas.elementwise.elements cimport (
    Order, copy_strided, even_from, is_dense, lie_alike, memory_order, ordered_strides, repeat_bytes, share_memory)
from int8blas.stage.output_stage cimport element_type

cnp.import_array()

cdef enum:
    BUFFER = 4096                   # bytes of a block that is gathered or scattered
    FLOATS = BUFFER // 4            # elements of a block of f32
    UNBUFFERED = 4 * FLOATS         # elements of a block of f32 that needs no buffer; each block costs 17 ns (Zen 4)
    REPLAYED = 16                   # steps of a job that a Replay runs, and jobs of a run that need no memory
    COPIED = 1 << 14                # bytes of a block that a table maps in place
    MOVED = 1 << 17                 # bytes of a block that is only copied; shorter copies take more time for each byte
    # The minimum number of elements of a run with its own block; shorter runs share blocks.
    LONG_FLOATS = 128
    LONG_BYTES = 256
    LONG_LOOKUP = 64
# The minimum number of elements for which a table of all 256 results is faster than computing each result.
cdef int64_t LOOKED_UP = 1024
# The number of bytes, a part of the L2 cache, that all jobs together read and write in one round.
cdef int64_t PART_BYTES = 1 << 16


# An array: element e of the run with index `index` is at data + sum(index * strides) + e * step.
cdef struct Operand:
    char *data
    char *first                     # the run in the array's own memory, if `repeated`
    int type, size
    bint whole                      # whether the array is contiguous, in the order of the runs
    bint same                       # whether all runs read one run
    bint repeated                   # whether this run is repeated in memory for a block
    ptrdiff_t step
    ptrdiff_t strides[cnp.NPY_MAXDIMS]


# A step in the form that C code reads. The class Step is the Python object for the step.
cdef struct Link:
    bint reads
    bint plain                      # whether the operand is float32 with scale 1 and zero point 0
    Operand operand
    float scale, zero
    i8_post_op op


# Elements [start, start + n) of each of `runs` runs. The first run has the number `first`, and the indices `index`.
cdef struct Block:
    int64_t first, runs, start, n
    int64_t index[cnp.NPY_MAXDIMS]


cdef struct FusedJob

ctypedef void (*compute_fn)(const FusedJob *job, const Block *block) noexcept nogil


cdef struct FusedJob:
    int dims                        # outer dimensions
    int64_t shape[cnp.NPY_MAXDIMS]
    int64_t outer, n                # runs, elements of a run
    int64_t block, per_run          # elements of a block, blocks of a run
    int64_t together                # runs of a block if the runs are short; otherwise 0
    int64_t blocks                  # blocks of all runs
    const i8_kernels *kernels
    compute_fn compute
    Operand out
    float dst_scale, dst_zero
    bint onnx                       # scheme of integers: see `fuse`
    bint clamps                     # whether the table only limits values to a range (see `flip`)
    bint at_once                    # whether float results are computed in their final place
    bint apart                      # whether the target shares no memory with operands
    bint flat                       # whether a block is contiguous in all arrays, or repeated in memory
    int count
    Link *links
    i8_bytes_fn bytes_function
    i8_bytes_args bytes
    uint8_t table[256]
    # If the table is a clamp, bytes are XORed with flip[0] before the clamp and with flip[1] after the clamp.
    uint8_t flip[2]


# All numbers on which a table of at most one post-op depends. `kind` is 0 without a post-op.
cdef struct TableKey:
    const i8_kernels *kernels
    int kind
    int types[2]
    int onnx
    float numbers[7]


# The table of the last job. The GIL protects it.
cdef struct KnownTable:
    TableKey key
    bint clamps
    uint8_t flip[2]
    uint8_t table[256]


cdef KnownTable last_table          # at first the key has no kernels, so it equals the key of no job


cdef struct Work:
    const FusedJob **jobs
    int count


# Blocks

cdef void find_block(const FusedJob *job, int64_t number, Block *block) noexcept nogil:
    cdef int64_t run
    cdef int d
    if job.together:
        block.first = number * job.together
        block.runs = min(job.together, job.outer - block.first)
        block.start, block.n = 0, job.n
    else:
        block.first = number if job.per_run == 1 else number // job.per_run
        block.runs = 1
        block.start = (number - block.first * job.per_run) * job.block
        block.n = min(job.block, job.n - block.start)
    run = block.first
    for d in range(job.dims - 1, 0, -1):
        block.index[d] = run % job.shape[d]
        run = run // job.shape[d]
    block.index[0] = run


cdef inline void advance(const FusedJob *job, Block *block, int64_t runs) noexcept nogil:
    """Advance by `runs` runs, which the caller keeps within the last outer dimension."""
    cdef int d = job.dims - 1
    block.first += runs
    block.index[d] += runs
    while d > 0 and block.index[d] == job.shape[d]:
        block.index[d] = 0
        d -= 1
        block.index[d] += 1


cdef inline char *address(const FusedJob *job, const Operand *operand, const Block *block) noexcept nogil:
    """Return the address of the first element of a block in the operand."""
    cdef char *data = operand.data + block.start * operand.step
    cdef int d
    if operand.whole:
        return data + block.first * job.n * operand.size
    for d in range(job.dims):
        data += block.index[d] * operand.strides[d]
    return data


cdef inline bint in_place(const Operand *operand, const Block *block) noexcept nogil:
    """Return whether the elements of a block are contiguous in the operand."""
    return operand.whole or operand.repeated or (block.runs == 1 and operand.step == operand.size)


cdef void copy_runs(const FusedJob *job, const Block *block, const Operand *out, char *results, const Operand *x,
                    const char *gathered) noexcept nogil:
    """Copy the runs of a block. The source is x, or the buffer `gathered` if x is NULL. The target is out, or `results`
    if out is NULL."""
    cdef Block walk
    cdef int size = x.size if x is not NULL else out.size
    cdef ptrdiff_t step = x.step if x is not NULL else size, out_step = out.step if out is not NULL else size
    cdef ptrdiff_t stride, out_stride
    cdef const char *source = gathered
    cdef char *to = results
    cdef int64_t left = block.runs, together, _run
    if left == 1:
        copy_strided(address(job, out, block) if out is not NULL else to, out_step,
                     address(job, x, block) if x is not NULL else source, step, size, block.n)
        return
    # A block of several runs has outer dimensions, and runs along the last outer dimension are evenly spaced.
    walk.first, walk.start = block.first, 0
    memcpy(walk.index, block.index, job.dims * sizeof(int64_t))
    stride = x.strides[job.dims - 1] if x is not NULL else block.n * size
    out_stride = out.strides[job.dims - 1] if out is not NULL else block.n * size
    while left:
        together = min(left, job.shape[job.dims - 1] - walk.index[job.dims - 1])
        if x is not NULL:
            source = address(job, x, &walk)
        if out is not NULL:
            to = address(job, out, &walk)
        for _run in range(together):
            copy_strided(to, out_step, source, step, size, block.n)
            source += stride
            to += out_stride
        advance(job, &walk, together)
        left -= together


cdef const char *gather(const FusedJob *job, const Operand *operand, const Block *block, char *buffer) noexcept nogil:
    """Return the address of a block's contiguous elements: in the array, or in a buffer to which they are copied."""
    if in_place(operand, block):
        return address(job, operand, block)
    copy_runs(job, block, NULL, buffer, operand, NULL)
    return buffer


cdef void scatter(const FusedJob *job, const Block *block, const char *buffer) noexcept nogil:
    """Copy contiguous results from a buffer to the destination."""
    copy_runs(job, block, &job.out, NULL, NULL, buffer)


cdef void compute_copy(const FusedJob *job, const Block *block) noexcept nogil:
    copy_runs(job, block, &job.out, NULL, &job.links[0].operand, NULL)


cdef inline void store(const FusedJob *job, void *out, const float *y, int64_t n) noexcept nogil:
    """Store results as integers or floats."""
    cdef i8_elements_args args
    cdef int32_t zero
    if not job.onnx:
        job.kernels.elementwise.store[job.out.type](out, y, n, job.dst_scale, job.dst_zero)
        return
    zero = <int32_t>job.dst_zero
    args.n, args.x, args.out, args.each, args.stream = n, y, out, 0, 0
    args.parameters[0], args.parameters[1], args.parameters[2] = &job.dst_scale, &zero, &zero
    # The numbers of the integer types start at 0, so the number of a type is its index in quantize_onnx.
    job.kernels.elementwise.quantize_onnx[job.out.type](&args)


cdef inline void load_constant(const FusedJob *job, const Link *link, const char *source, float *chunk) noexcept nogil:
    """Load one element, and fill a chunk with it."""
    cdef float value
    cdef int i
    if not link.plain:
        job.kernels.elementwise.load[link.operand.type](chunk, source, 1, link.scale, link.zero)
        source = <const char *>chunk
    memcpy(&value, source, sizeof(float))
    for i in range(I8_CHUNK):
        chunk[i] = value


cdef void compute_part(const FusedJob *job, const Block *block) noexcept nogil:
    cdef float numbers[FLOATS]
    cdef float loaded[FLOATS]
    cdef char buffer[BUFFER]
    cdef bint direct = in_place(&job.out, block)
    cdef int64_t n = block.runs * block.n
    cdef bint chunks = n % I8_CHUNK == 0
    cdef bint at_once = job.at_once and direct and chunks
    cdef float *y = <float *>address(job, &job.out, block) if at_once else numbers
    cdef const Link *link
    cdef const float *x = NULL
    cdef const float *z = NULL
    cdef const char *source
    cdef bint plain, constant = False
    cdef int i
    for i in range(job.count):
        link = &job.links[i]
        if link.reads:
            # If the first operand is plain, the second step reads it, so the first operand needs a buffer that no other
            # operand uses.
            plain = link.plain and chunks and job.count > 1
            constant = i > 0 and link.operand.step == 0 and (block.runs == 1 or link.operand.same)
            if constant:
                load_constant(job, link, address(job, &link.operand, block), loaded)
                plain, z = True, loaded
            else:
                source = gather(job, &link.operand, block, <char *>numbers if plain and i == 0 else buffer)
                z = <const float *>source
            if not plain:
                z = &loaded[0] if i else y
                job.kernels.elementwise.load[link.operand.type](<float *>z, source, n, link.scale, link.zero)
        if i == 0:
            x = z
        else:
            job.kernels.elementwise.apply(&link.op, y, x, z, 0 if constant else I8_CHUNK, n)
            x = y
    if not at_once:
        store(job, address(job, &job.out, block) if direct else &buffer[0], y, n)
    if not direct:
        scatter(job, block, buffer)


cdef void compute_floats(const FusedJob *job, const Block *block) noexcept nogil:
    """Compute the whole chunks of a block, which need no buffer, and then the remaining elements. If the target shares
    no memory with operands, the last chunk ends with the block, and computes some elements twice."""
    cdef Block part
    cdef int64_t n = block.runs * block.n, rest = n % I8_CHUNK
    if not job.at_once or rest in (0, n) or (block.runs > 1 and not job.flat):
        compute_part(job, block)
        return
    memcpy(part.index, block.index, job.dims * sizeof(int64_t))
    part.first, part.start, part.runs, part.n = block.first, block.start, 1, n - rest
    compute_part(job, &part)
    part.start, part.n = part.start + part.n, rest
    if job.apart:
        part.start, part.n = part.start + rest - I8_CHUNK, I8_CHUNK
    compute_part(job, &part)


cdef void compute_one_step(const FusedJob *job, const Block *block) noexcept nogil:
    """Compute a block of at least a chunk by one step in place (see `is_one_step`). `compute_one_step` takes
    30 ns less for each run than `compute_floats` (Zen 4)."""
    cdef float chunk[I8_CHUNK]
    cdef const Link *link = &job.links[1]
    cdef float *y = <float *>address(job, &job.out, block)
    cdef const float *x = <const float *>address(job, &job.links[0].operand, block)
    cdef const float *z = <const float *>address(job, &link.operand, block)
    cdef int64_t last = block.n - I8_CHUNK, step = I8_CHUNK
    if link.operand.step == 0:
        load_constant(job, link, <const char *>z, chunk)
        z, step = chunk, 0
    job.kernels.elementwise.apply(&link.op, y, x, z, step, block.n - block.n % I8_CHUNK)
    if block.n % I8_CHUNK:
        job.kernels.elementwise.apply(&link.op, y + last, x + last, z + last if step else z, step, I8_CHUNK)


cdef void compute_lookup(const FusedJob *job, const Block *block) noexcept nogil:
    cdef char gathered[BUFFER]
    cdef char results[BUFFER]
    cdef bint direct = in_place(&job.out, block)
    cdef uint8_t *out = <uint8_t *>(address(job, &job.out, block) if direct else &results[0])
    cdef const uint8_t *x = <const uint8_t *>gather(job, &job.links[0].operand, block, gathered)
    if job.clamps:
        job.kernels.elementwise.clamp(out, x, block.runs * block.n, job.flip, job.table[job.flip[0]] ^ job.flip[1],
                                      job.table[0xff ^ job.flip[0]] ^ job.flip[1])
    else:
        job.kernels.elementwise.lookup(out, x, block.runs * block.n, job.table)
    if not direct:
        scatter(job, block, results)


cdef void compute_bytes(const FusedJob *job, const Block *block) noexcept nogil:
    cdef char gathered[2][BUFFER]
    cdef char results[BUFFER]
    cdef bint direct = in_place(&job.out, block)
    cdef i8_bytes_args args = job.bytes
    cdef int i
    args.n = block.runs * block.n
    for i in range(2):
        args.x[i] = <const uint8_t *>gather(job, &job.links[i].operand, block, gathered[i])
    args.out = <uint8_t *>(address(job, &job.out, block) if direct else &results[0])
    job.bytes_function(&args)
    if not direct:
        scatter(job, block, results)


# Jobs

@cython.freelist(8)
cdef class Step:
    """A step: a post-op with the operand scale * (array - zero), or a post-op alone, or an operand alone."""


cdef Step reading(cnp.ndarray array, float scale, float zero):
    cdef Step step = Step.__new__(Step)
    step.array, step.scale, step.zero = array, scale, zero
    return step


cdef class Fused:
    """A job, and the objects to which it points."""
    cdef FusedJob *job              # the job, and its links
    cdef int64_t size               # bytes read and written
    cdef list arrays
    cdef list repeated              # the memory of repeated operands
    # Only a ReplayParts uses this member: the offsets in bytes of this part in the source and in the whole target.
    cdef ptrdiff_t offsets[2]

    def __dealloc__(self):
        free(self.job)


cdef void set_operand(Operand *operand, cnp.ndarray array, const Order *order) noexcept:
    """Set the address of an array and its strides in the order `order`. If `order` is NULL, the array is one run."""
    operand.type = element_type(cnp.PyArray_TYPE(array))
    operand.size = operand.step = cnp.PyArray_ITEMSIZE(array)
    operand.data, operand.first, operand.whole, operand.repeated = cnp.PyArray_BYTES(array), NULL, True, False
    if order is not NULL:
        operand.data = ordered_strides(order, array, operand.strides)
        if order.dims:
            operand.step = operand.strides[order.dims - 1]
        operand.whole = operand.step == operand.size and even_from(order, array, 0) == 0


cdef bint one_run(list arrays):
    """Return whether all arrays are contiguous in the same order."""
    cdef cnp.ndarray first = arrays[0], array
    if not is_dense(first):
        return False
    for array in arrays:
        if not lie_alike(first, array):
            return False
    return True


cdef Fused laid_out(list steps, cnp.ndarray target):
    """Return the job of some steps. Check that all arrays have one shape and types that kernels know, because the
    conversion of a later argument may run Python code that sets the shape or the dtype of an array."""
    cdef Fused self = Fused.__new__(Fused)
    cdef FusedJob *job = <FusedJob *>malloc(sizeof(FusedJob) + len(steps) * sizeof(Link))
    cdef Step step
    cdef Link *link
    cdef cnp.ndarray array
    cdef Order order
    cdef const Order *ordering = NULL
    cdef int d
    cdef list arrays = [target]
    if job is NULL:
        raise MemoryError("no memory for the steps of an element-wise operator")
    self.job = job
    for step in steps:
        if step.array is not None:
            arrays.append(step.array)
    self.size = 0
    for array in arrays:
        if not cnp.PyArray_SAMESHAPE(array, target) or element_type(cnp.PyArray_TYPE(array)) < 0:
            raise ValueError(f"arrays must keep their layouts during the call, got an array that became {array.dtype} "
                             f"of shape {(<object>array).shape} for a result of shape {(<object>target).shape}")
        self.size += cnp.PyArray_NBYTES(array)
    job.outer, job.dims, job.n = 1, 0, cnp.PyArray_SIZE(target)
    if not one_run(arrays):
        memory_order(&order, target)
        ordering = &order
        for array in arrays:
            job.dims = even_from(&order, array, job.dims)
        for d in range(job.dims):
            job.shape[d] = order.shape[d]
            job.outer *= job.shape[d]
        job.n //= job.outer
    self.arrays = arrays
    job.links, job.count = <Link *>&job[1], len(steps)
    set_operand(&job.out, target, ordering)
    link, d = job.links, 0
    for step in steps:
        link.reads = step.array is not None
        link.scale, link.zero, link.op = step.scale, step.zero, step.op
        if link.reads:
            d += 1
            set_operand(&link.operand, arrays[d], ordering)
            link.plain = link.operand.type == I8_TYPE_F32 and link.scale == 1 and link.zero == 0
        link += 1
    job.kernels = current_kernels()
    return self


cdef void set_blocks(FusedJob *job, int64_t block, int64_t long_run):
    """Set blocks of `block` elements. Runs shorter than `long_run` share blocks."""
    job.block, job.together = block, 0
    if job.n < long_run and job.outer > 1:
        job.together = block // job.n
        job.blocks = ceil_div(job.outer, job.together)
    else:
        job.per_run = ceil_div(job.n, block)
        job.blocks = job.outer * job.per_run


cdef bint has_one_run(const FusedJob *job, const Operand *operand) noexcept:
    """Return whether all runs read one run of an operand, which is contiguous or one element."""
    cdef int d
    for d in range(job.dims):
        if operand.strides[d]:
            return False
    return operand.step == operand.size or operand.step == 0


cdef int repeat_runs(Fused self, int64_t block) except -1:
    """Let blocks of `block` elements have several runs, if each operand is contiguous or has one run that all runs of
    the job read. Repeat in memory an operand's only run, or its only element if the kernel needs the element for each
    result. Without sharing, each run takes some 100 ns for a separate block."""
    cdef FusedJob *job = self.job
    cdef int64_t together = min(block // job.n, job.outer)
    cdef Operand *operand
    cdef int i
    job.flat = job.out.whole
    for i in range(job.count):
        operand = &job.links[i].operand
        operand.same = job.links[i].reads and not operand.whole and has_one_run(job, operand)
        if job.links[i].reads and not operand.whole and not operand.same:
            job.flat = False
    if job.flat and together > 1:
        job.together, job.blocks = together, ceil_div(job.outer, together)
    self.repeated = []
    for i in range(job.count):
        operand = &job.links[i].operand
        if operand.same and (job.together if operand.step else i == 0 or job.compute != compute_floats):
            written = bytearray(block_of(job) * operand.size)
            self.repeated.append(written)
            operand.first, operand.repeated = operand.data, True
            repeat(job, operand, written)
    return 0


cdef inline int64_t block_of(const FusedJob *job) noexcept:
    """Return the largest number of elements of a block."""
    return job.together * job.n if job.together else min(job.block, job.n)


cdef void repeat(const FusedJob *job, Operand *operand, char *memory) noexcept:
    """Repeat the only run or element of an operand in memory for a block, and let the operand read the copies."""
    cdef int64_t n = job.n if operand.step else 1
    repeat_bytes(memory, operand.first, n * operand.size, block_of(job) // n)
    operand.data = memory


cdef inline bint is_byte(const Operand *operand) noexcept:
    return operand.type == I8_TYPE_U8 or operand.type == I8_TYPE_S8


cdef bint is_function_of_a_byte(const FusedJob *job) noexcept:
    cdef int i
    for i in range(1, job.count):
        if job.links[i].reads:
            return False
    return is_byte(&job.links[0].operand) and is_byte(&job.out)


cdef void make_table(FusedJob *job) noexcept:
    """Set the table of all results, and whether the table is a clamp."""
    cdef float y[256]
    cdef uint8_t bytes[256]
    cdef int i
    for i in range(256):
        bytes[i] = i
    job.kernels.elementwise.load[job.links[0].operand.type](y, bytes, 256, job.links[0].scale, job.links[0].zero)
    for i in range(1, job.count):
        job.kernels.elementwise.apply(&job.links[i].op, y, y, y, 0, 256)
    store(job, job.table, y, 256)
    job.clamps = is_clamp(job)


cdef void find_table(FusedJob *job) noexcept:
    """Set the table like `make_table`, or copy the last table if a job of the same function made it."""
    global last_table
    cdef TableKey key
    cdef const i8_post_op *op = &job.links[1].op
    if job.count > 2:
        make_table(job)
        return
    memset(&key, 0, sizeof(key))  # so that memcmp compares no undefined byte
    key.kernels, key.onnx = job.kernels, job.onnx
    key.types[0], key.types[1] = job.links[0].operand.type, job.out.type
    key.numbers[0], key.numbers[1] = job.links[0].scale, job.links[0].zero
    key.numbers[2], key.numbers[3] = job.dst_scale, job.dst_zero
    if job.count == 2:
        key.kind, key.numbers[4], key.numbers[5], key.numbers[6] = op.kind + 1, op.alpha, op.beta, op.scale
    if memcmp(&key, &last_table.key, sizeof(key)) == 0:
        memcpy(job.table, last_table.table, 256)
        memcpy(job.flip, last_table.flip, 2)
        job.clamps = last_table.clamps
        return
    make_table(job)
    last_table.key, last_table.clamps = key, job.clamps
    memcpy(last_table.table, job.table, 256)
    memcpy(last_table.flip, job.flip, 2)


cdef bint is_clamp(FusedJob *job) noexcept:
    """Return whether the table only limits bytes to a range, and set how signs are flipped. ReLU and clip are limits if
    scales and zero points do not change."""
    cdef int i, y, low, high
    job.flip[0] = 0x80 if job.links[0].operand.type == I8_TYPE_S8 else 0
    job.flip[1] = 0x80 if job.out.type == I8_TYPE_S8 else 0
    low, high = job.table[job.flip[0]] ^ job.flip[1], job.table[0xff ^ job.flip[0]] ^ job.flip[1]
    for i in range(256):
        y = job.table[i ^ job.flip[0]] ^ job.flip[1]
        if y != max(low, min(high, i)):
            return False
    return True


cdef bint set_direct(FusedJob *job) noexcept:
    """Choose the kernel that computes with bytes alone, if the only step is a binary operation on two tensors of one
    type, and scales and zero points do not change the bytes of results.

    The float steps compute s * (x0 - z0) op s * (x1 - z1), and multiply by 1 / s, or divide by s. The differences are
    exact and at most 510. The relative errors of six further steps are at most 2**-24 each, so a number differs from an
    integer by less than 2**-10 before it is rounded. With the zero point z of the result, a sum is rounded to x0 + x1 -
    z0 - z1 + z, which is x0 + x1 if z = z0 + z1. With s > 0, s * (x - z0) increases with x."""
    cdef const Link *x = &job.links[0]
    cdef const Link *y = &job.links[1]
    cdef int kind
    if job.count != 2 or not y.reads or not is_byte(&x.operand) or y.operand.type != x.operand.type:
        return False
    kind = y.op.kind
    if (
        not I8_ADD <= kind <= I8_NE or not is_byte(&job.out) or y.scale != x.scale
        # Products with scales from 2**-30 to 2**30 neither overflow nor underflow.
        or not <float>(1.0 / (1 << 30)) <= x.scale <= 1 << 30 or fabs(x.zero) > 255 or fabs(y.zero) > 255
    ):
        return False
    if kind >= I8_GE:
        if y.zero != x.zero or job.dst_scale != 1 or job.dst_zero != 0:
            return False
    elif job.out.type != x.operand.type or job.dst_scale != (x.scale if job.onnx else <float>1 / x.scale):
        return False
    elif kind == I8_MIN or kind == I8_MAX:
        if y.zero != x.zero or job.dst_zero != x.zero:
            return False
    elif job.dst_zero != (x.zero - y.zero if kind == I8_SUB else x.zero + y.zero):
        return False
    job.bytes_function = job.kernels.elementwise.direct[kind - I8_ADD][x.operand.type == I8_TYPE_S8]
    return job.bytes_function is not NULL


cdef bint set_bytes(FusedJob *job) noexcept:
    """Choose the kernel of int8 sums or products, if the steps are a sum or a product of int8 tensors, and if no
    intermediate number can leave its range."""
    cdef const Link *link
    cdef double largest[2]
    cdef double y, quotient
    cdef bint relu = job.count == 3
    cdef int i, kind
    if job.count not in (2, 3) or not is_byte(&job.out) or not job.links[1].reads:
        return False
    kind = job.links[1].op.kind
    if kind not in (I8_ADD, I8_SUB, I8_MUL):
        return False
    if relu:
        link = &job.links[2]
        if link.reads or link.op.kind != I8_RELU or link.op.alpha != 0 or link.op.scale != 1:
            return False
    for i in range(2):
        link = &job.links[i]
        if not is_byte(&link.operand):
            return False
        job.bytes.flip[i] = 0x80 if link.operand.type == I8_TYPE_S8 else 0
        job.bytes.zero[i] = link.zero + job.bytes.flip[i]
        if not 0 <= job.bytes.zero[i] <= 255:
            return False
        job.bytes.scale[i] = -link.scale if i == 1 and kind == I8_SUB else link.scale
        largest[i] = fabs(<double>link.scale) * max(job.bytes.zero[i], 255 - job.bytes.zero[i])
    y = largest[0] * largest[1] if kind == I8_MUL else largest[0] + largest[1]
    # The bound 1e38 keeps y and the operands finite. The bound 1 << 30, half of 2**31, leaves room for rounding.
    quotient = y / job.dst_scale if job.onnx else y * job.dst_scale
    if not (max(y, max(largest[0], largest[1])) < 1e38 and fabs(quotient) + fabs(<double>job.dst_zero) < 1 << 30):
        return False
    job.bytes.dst_scale, job.bytes.dst_zero, job.bytes.onnx = job.dst_scale, job.dst_zero, job.onnx
    job.bytes_function = job.kernels.elementwise.bytes[I8_MULTIPLY_BYTES if kind == I8_MUL else I8_ADD_BYTES][relu][
        job.out.type == I8_TYPE_S8]
    return job.bytes_function is not NULL


cdef bint all_whole(const FusedJob *job) noexcept:
    """Return whether the result and all arrays are one run each, which allows larger blocks without a buffer."""
    cdef int i
    for i in range(job.count):
        if job.links[i].reads and not job.links[i].operand.whole:
            return False
    return job.outer == 1 and job.out.whole


cdef bint needs_no_buffer(const FusedJob *job) noexcept:
    """Return whether one step computes the results in place from float32 arrays with long contiguous runs. The second
    array may have one element for a run."""
    cdef int i
    for i in range(job.count):
        if job.links[i].reads and not (job.links[i].plain and (
                job.links[i].operand.step == sizeof(float) or (i > 0 and job.links[i].operand.step == 0))):
            return False
    return job.at_once and job.count == 2 and (job.outer == 1 or job.n >= FLOATS) and job.out.step == sizeof(float)


cdef bint is_one_step(const FusedJob *job) noexcept:
    """Return whether one step computes blocks of one run in place, and each block has at least a chunk."""
    cdef int i
    cdef int64_t last = (job.n - 1) % job.block + 1
    for i in range(job.count):
        if not job.links[i].plain or job.links[i].operand.repeated or not (
                job.links[i].operand.step == sizeof(float) or (i > 0 and job.links[i].operand.step == 0)):
            return False
    return (job.at_once and job.apart and job.count == 2 and job.links[1].reads and not job.together
            and job.out.step == sizeof(float) and last >= I8_CHUNK)


cdef bint reads_behind(list steps, Py_ssize_t first, cnp.ndarray target):
    """Return whether a step from number `first` on reads the memory of the target."""
    cdef Step step
    cdef Py_ssize_t i
    for i in range(first, len(steps)):
        step = steps[i]
        if step.array is not None and share_memory(step.array, target):
            return True
    return False


cdef object fuse(list steps, cnp.ndarray target, float dst_scale, float dst_zero, bint onnx=False):
    """Return the job of these steps. The job stores sat(rne(y * dst_scale + dst_zero)) for integers, and y * dst_scale
    for floats. With `onnx`, which is for integers only, the job stores sat(rne(y / dst_scale) + dst_zero).

    No step may read an element of `target` after an earlier block has written it.
    """
    cdef Fused self = laid_out(steps, target)
    cdef FusedJob *job = self.job
    job.dst_scale, job.dst_zero, job.onnx = dst_scale, dst_zero, onnx
    if job.outer * job.n >= LOOKED_UP and is_function_of_a_byte(job):
        find_table(job)
        job.compute = compute_lookup
        set_blocks(job, COPIED if all_whole(job) else BUFFER, LONG_LOOKUP)
    elif set_direct(job) or set_bytes(job):
        job.compute = compute_bytes
        set_blocks(job, COPIED if all_whole(job) else BUFFER, LONG_BYTES)
        repeat_runs(self, BUFFER)
    else:
        job.compute = compute_floats
        job.at_once = job.out.type == I8_TYPE_F32 and dst_scale == 1 and not reads_behind(steps, 1, target)
        job.apart = job.at_once and not reads_behind(steps, 0, target)
        if needs_no_buffer(job):
            set_blocks(job, UNBUFFERED, LONG_FLOATS)
        else:
            set_blocks(job, FLOATS, LONG_FLOATS)
            repeat_runs(self, FLOATS)
        if is_one_step(job):
            job.compute = compute_one_step
    return self


cdef object copying(cnp.ndarray array, cnp.ndarray target):
    """Return the job that copies an array of the same type."""
    cdef Fused self = laid_out([reading(array, 1, 0)], target)
    cdef int64_t block = MOVED // self.job.out.size
    self.job.compute = compute_copy
    set_blocks(self.job, block, block)
    return self


cdef object looking_up(cnp.ndarray array, cnp.ndarray table, cnp.ndarray target):
    """Return the job that maps the elements of `array` by a table of 256 bytes."""
    cdef Fused self = laid_out([reading(array, 1, 0)], target)
    memcpy(self.job.table, cnp.PyArray_DATA(table), 256)
    self.job.compute, self.job.clamps = compute_lookup, False
    set_blocks(self.job, BUFFER, LONG_LOOKUP)
    return self


cdef int do_part(const void *shared, int64_t part, int64_t parts) noexcept nogil:
    """Run a part of every job."""
    cdef const Work *work = <const Work *>shared
    cdef const FusedJob *job
    cdef Block block
    cdef int64_t number
    cdef int i
    for i in range(work.count):
        job = work.jobs[i]
        for number in range(share(job.blocks, part, parts), share(job.blocks, part + 1, parts)):
            find_block(job, number, &block)
            job.compute(job, &block)
    return 0


cdef int run(list fused) except -1:
    """Run jobs whose targets are not empty and do not overlap. Run the jobs in rounds, because their targets may be
    interleaved in memory."""
    cdef Work work
    cdef Fused one = fused[0]
    cdef const FusedJob *first = one.job
    cdef const FusedJob *few[REPLAYED]
    cdef int64_t size = 0, parts
    cdef int i
    work.jobs, work.count = few, len(fused)
    if work.count > REPLAYED:
        memory = np.empty(work.count, np.uintp)
        work.jobs = <const FusedJob **>cnp.PyArray_DATA(memory)
    for i, one in enumerate(fused):
        work.jobs[i] = one.job
        size += one.size
    parts = first.blocks if work.count == 1 else ceil_div(size, PART_BYTES)
    run_work(do_part, &work, parts, <double>size, THREAD_BYTES, KEEPS_GIL_BYTES)
    return 0


@cython.final
cdef class Replay:
    """A job of one or two sources, which can run again on other sources of equal layouts. A Replay changes only the
    sources of its job.

    Several threads may call a Replay at the same time.
    """

    cdef cnp.ndarray run(self, cnp.ndarray first, cnp.ndarray second, cnp.ndarray spare=None):
        """Return the result for other arrays, or None if they have other layouts. `second` may be None. `spare` may be
        `first`. The result is in `spare` if `spare` has the result's type and layout, and the type is float32."""
        cdef Fused fused = self.fused
        cdef FusedJob job
        cdef Link links[REPLAYED]
        cdef char repeated[2][BUFFER]
        cdef cnp.ndarray target
        cdef Operand *operand
        cdef Work work
        cdef const FusedJob *shared = &job
        cdef int i
        if (not is_laid_out(&self.sources[0], first) or not cnp.PyArray_ISBEHAVED_RO(first)
                or fused.job.kernels is not current_kernels()):
            return None
        if self.count > 1 and not (is_laid_out(&self.sources[1], second) and cnp.PyArray_ISBEHAVED_RO(second)):
            return None
        job = fused.job[0]
        if spare is not None and job.at_once and is_laid_out(&self.target, spare):
            target, job.apart = spare, False
            job.compute = compute_floats if job.compute is compute_one_step else job.compute
        else:
            target = new_target(&self.target, self.in_order)
        memcpy(links, job.links, job.count * sizeof(Link))
        job.links = links
        job.out.data = cnp.PyArray_BYTES(target) + self.offsets[2]
        for i in range(self.count):
            operand = &links[i].operand
            operand.data = (cnp.PyArray_BYTES(first) if i == 0 else cnp.PyArray_BYTES(second)) + self.offsets[i]
            if operand.repeated:
                operand.first = operand.data
                repeat(&job, operand, repeated[i])
        work.jobs, work.count = &shared, 1
        run_work(do_part, &work, job.blocks, <double>fused.size, THREAD_BYTES, KEEPS_GIL_BYTES)
        return target


cdef Replay replay(object fused, list arrays):
    """Return the replay of a job that has run with these arrays. The last array is a new target, and the first steps of
    the job read the other arrays. Return None if the job has too many steps, or if `may_replay` is false."""
    cdef Replay self
    cdef Fused job = fused
    cdef Operand *operand
    cdef cnp.ndarray array = arrays[len(arrays) - 1]
    cdef int i
    if job.job.count > REPLAYED or not may_replay(array):
        return None
    self = Replay.__new__(Replay)
    self.fused, self.count, self.in_order = job, len(arrays) - 1, cnp.PyArray_IS_C_CONTIGUOUS(array)
    lay_out(&self.target, array)
    self.offsets[2] = job.job.out.data - cnp.PyArray_BYTES(array)
    for i in range(self.count):
        array, operand = arrays[i], &job.job.links[i].operand
        lay_out(&self.sources[i], array)
        self.offsets[i] = (operand.first if operand.repeated else operand.data) - cnp.PyArray_BYTES(array)
    job.arrays = job.arrays[len(arrays):]  # the operands
    return self


# The job of a part, and the only step that reads the part.
cdef struct Piece:
    FusedJob job
    Link link


@cython.final
cdef class ReplayParts:
    """Jobs that can run again on other sources with the same layouts. Each job writes a part of one target from an
    array of bytes. Several threads may call a ReplayParts at the same time."""

    cdef cnp.ndarray run(self, tuple parts):
        """Return the result for other arrays, or None if they have other layouts."""
        cdef Py_ssize_t count = len(self.fused), i
        cdef const i8_kernels *kernels = current_kernels()
        cdef Piece *pieces
        cdef const FusedJob **jobs
        cdef Fused fused
        cdef cnp.ndarray part, target
        cdef Work work
        if len(parts) != count:
            return None
        for i in range(count):
            fused, part = self.fused[i], parts[i]
            if not is_laid_out(&self.sources[i], part) or fused.job.kernels is not kernels:
                return None
        target = new_target(&self.target, self.in_order)
        pieces = <Piece *>malloc(count * (sizeof(Piece) + sizeof(FusedJob *)))
        if pieces is NULL:
            raise MemoryError("no memory for the parts of a result")
        jobs = <const FusedJob **>&pieces[count]
        for i in range(count):
            fused, part = self.fused[i], parts[i]
            pieces[i].job, pieces[i].link = fused.job[0], fused.job.links[0]
            pieces[i].job.links = &pieces[i].link
            pieces[i].link.operand.data = cnp.PyArray_BYTES(part) + fused.offsets[0]
            pieces[i].job.out.data = cnp.PyArray_BYTES(target) + fused.offsets[1]
            jobs[i] = &pieces[i].job
        work.jobs, work.count = jobs, <int>count
        run_work(do_part, &work, ceil_div(<int64_t>self.size, PART_BYTES), self.size, THREAD_BYTES, KEEPS_GIL_BYTES)
        free(pieces)
        return target


cdef inline cnp.ndarray new_target(Layout *layout, bint in_order):
    return empty(layout.ndim, layout.shape, layout.typenum) if in_order else empty_laid_out(layout)


cdef inline bint may_replay(cnp.ndarray target) noexcept:
    """Return whether `new_target` creates arrays of this type and layout."""
    return cnp.PyArray_NDIM(target) and (
        cnp.PyArray_IS_C_CONTIGUOUS(target) or cnp.PyArray_NBYTES(target) < LARGE_BYTES)


cdef ReplayParts replay_parts(list fused, tuple parts, cnp.ndarray target):
    """Return the replay of jobs that have written these parts of a new target, or None if `may_replay` is false."""
    cdef ReplayParts self
    cdef Fused job
    cdef cnp.ndarray part
    cdef Py_ssize_t i
    if not may_replay(target):
        return None
    self = ReplayParts.__new__(ReplayParts)
    self.fused, self.memory = tuple(fused), bytearray(len(parts) * sizeof(Layout))
    self.sources = <Layout *><char *>self.memory
    self.in_order = cnp.PyArray_IS_C_CONTIGUOUS(target)
    self.size = 0
    lay_out(&self.target, target)
    for i in range(len(parts)):
        part, job = parts[i], fused[i]
        lay_out(&self.sources[i], part)
        job.offsets[0] = job.job.links[0].operand.data - cnp.PyArray_BYTES(part)
        job.offsets[1] = job.job.out.data - cnp.PyArray_BYTES(target)
        job.arrays = None
        self.size += job.size
    return self
