"""A stack of products that differ only in the addresses of their matrices.

A decision for one product holds for all products of the stack, so it is made once. The innermost dimension of a stack
is a run of evenly spaced matrices. One call of the kernel of stacks (csrc/gemm/stack_body.h) multiplies a run of
matrices of up to 32 rows and columns, a run of elements, or a run of vectors whose elements of equal index are
contiguous in memory. Longer matrices have slices of some rows, and a call multiplies one slice of each matrix. The
kernel of dot products multiplies contiguous vectors. The path `tiny` multiplies small problems, without a plan. The
driver plans products of other shapes one by one.
"""

from libc.stddef cimport ptrdiff_t
from libc.stdint cimport INT32_MAX, INT32_MIN, int32_t, int64_t
from libc.stdlib cimport llabs
cimport int8blas.core.cnumpy as cnp

from int8blas.core.kernels cimport i8_stack_args
from int8blas.core.split cimport ceil_div, share
from int8blas.core.threads cimport KEEPS_GIL_WORK, max_threads, run_work, threads_for
from int8blas.core.verbose cimport verbose
from int8blas.gemm.call cimport check_memory, run_problem
from int8blas.gemm.driver cimport gemm
from int8blas.gemm.operand cimport SHIFT
from int8blas.gemm.paths.long_k cimport Dot, dot
from int8blas.gemm.paths.register cimport multiply_registers, multiply_slices, rows_of_slice, set_stack_operands
from int8blas.gemm.paths.sizes cimport is_tiny
from int8blas.gemm.paths.tiny cimport run_tiny
from int8blas.gemm.plan cimport pays_to_transpose, skips_plan
from int8blas.gemm.problem cimport Problem, is_product, thread_work, transpose_problem

cnp.import_array()


# The way to compute the products of a run.
cdef enum Way:
    BY_REGISTER                 # the kernel of stacks
    BY_SLICES                   # the kernel of stacks, for some rows or columns of C at a time
    BY_DOT                      # the kernel of dot products
    BY_TILES                    # the path `tiny`
    BY_PLAN                     # the driver


cdef struct StackJob:
    Problem first
    const Stack *stack
    int64_t shared              # problems that threads divide: each thread computes whole problems
    Way way
    i8_stack_args kernel        # for BY_REGISTER; `step` of an operand belongs to the innermost dimension
    int64_t slice               # for BY_SLICES: rows of C in a slice, or columns if `transposed`
    bint transposed
    Dot dot                     # for BY_DOT


cdef tuple broadcast_batch(tuple a, tuple b):
    """Return the shape to which the leading dimensions of both operands are broadcast. numpy.broadcast_shapes takes
    longer than a stack of small products."""
    cdef list batch
    cdef int axis
    if not b or a == b:
        return a
    batch = [1] * (len(b) - len(a)) + list(a)
    for axis, size in enumerate(b, len(batch) - len(b)):
        if batch[axis] == 1:
            batch[axis] = size
        elif size != 1 and size != batch[axis]:
            raise ValueError(f"b must have leading dimensions that broadcast with a's {a}, got {b}")
    return tuple(batch)


cdef bint broadcast_to_stack(Stack *s, ptrdiff_t *steps, cnp.ndarray array, int own) noexcept:
    """Broadcast the first `own` dimensions of an array and the stack. Set the distances between the array's matrices.
    Return False if the shapes do not match."""
    cdef int axis
    cdef int64_t size
    for axis in range(s.dims):
        # The last dimensions of stack and array correspond, and missing first dimensions have size 1.
        steps[axis] = 0
        size = 1 if axis + own < s.dims else cnp.PyArray_DIM(array, axis + own - s.dims)
        if size != 1:
            steps[axis] = cnp.PyArray_STRIDE(array, axis + own - s.dims)
            if s.shape[axis] == 1:
                s.shape[axis] = size
            elif size != s.shape[axis]:
                return False
    return True


cdef int set_batch(Stack *s, cnp.ndarray a, int a_axes, cnp.ndarray b, int b_axes) except -1:
    """Set the shape to which the leading dimensions of both operands are broadcast, and the steps of both operands. The
    last `a_axes` dimensions of `a`, and the last `b_axes` of `b`, are one matrix. b is None if all products share
    B."""
    cdef int axis, a_dims = cnp.PyArray_NDIM(a) - a_axes, b_dims = 0 if b is None else cnp.PyArray_NDIM(b) - b_axes
    s.dims = max(a_dims, b_dims)
    for axis in range(s.dims):
        s.shape[axis], s.b[axis] = 1, 0
    broadcast_to_stack(s, s.a, a, a_dims)
    if b_dims and not broadcast_to_stack(s, s.b, b, b_dims):
        raise ValueError(f"b must have leading dimensions that broadcast with a's {(<object>a).shape[:a_dims]}, got "
                         f"{(<object>b).shape[:b_dims]}")
    return 0


cdef void set_results(Stack *s, cnp.ndarray c) noexcept:
    """Set the steps of the results; the first dimensions of `c` are the stack. Sort the dimensions by the steps of the
    results, the smallest last. Neighbouring dimensions become one if the steps of all three arrays allow it."""
    cdef int axis, at, kept = 0, last = 0
    cdef int64_t size
    cdef ptrdiff_t a, b, step
    s.count = 1
    for axis in range(s.dims):
        size, a, b, step, at = s.shape[axis], s.a[axis], s.b[axis], cnp.PyArray_STRIDE(c, axis), kept
        s.count *= size
        if size == 1:
            continue
        while at > 0 and llabs(s.c[at - 1]) < llabs(step):
            move_axis(s, at, at - 1)
            at -= 1
        s.shape[at], s.a[at], s.b[at], s.c[at] = size, a, b, step
        kept += 1
    if kept == 0:
        s.shape[0], s.a[0], s.b[0], s.c[0] = 1, 0, 0, 0
    for axis in range(1, kept):
        size = s.shape[axis]
        if s.a[last] == s.a[axis] * size and s.b[last] == s.b[axis] * size and s.c[last] == s.c[axis] * size:
            s.shape[axis] *= s.shape[last]
        else:
            last += 1
        move_axis(s, last, axis)
    s.dims = last + 1


cdef inline void move_axis(Stack *s, int to, int axis) noexcept:
    s.shape[to], s.a[to], s.b[to], s.c[to] = s.shape[axis], s.a[axis], s.b[axis], s.c[axis]


cdef inline void step_matrices(Problem *g, const Stack *s, int axis, int64_t steps) noexcept nogil:
    """Advance the matrices A, B and C of `g` along an axis of the stack."""
    g.a.data += steps * s.a[axis]
    g.c.data += steps * s.c[axis]
    if g.b.data is not NULL:
        g.b.data += steps * s.b[axis]


cdef void set_matrices(Problem *g, const Stack *s, int64_t index, int64_t *position) noexcept nogil:
    """Advance the matrices of `g`, the first product of the stack, to product `index`, and set `position`."""
    cdef int axis
    for axis in reversed(range(s.dims)):
        position[axis] = index % s.shape[axis]
        index = index // s.shape[axis]
        step_matrices(g, s, axis, position[axis])


cdef void next_run(Problem *g, const Stack *s, int64_t *position) noexcept nogil:
    """Advance the matrices of `g` to the first product of the next run."""
    cdef int axis = s.dims - 1
    step_matrices(g, s, axis, -position[axis])
    position[axis] = 0
    while axis > 0:
        axis -= 1
        position[axis] += 1
        step_matrices(g, s, axis, 1)
        if position[axis] < s.shape[axis]:
            return
        step_matrices(g, s, axis, -position[axis])
        position[axis] = 0


cdef bint set_slices(StackJob *job, const Problem *g, int64_t count) noexcept nogil:
    """Set the slices of long matrices. Return whether the kernel of stacks computes slices faster than other paths
    compute whole matrices: a run of `count` matrices takes at most `count` kernel calls."""
    cdef Problem t = g[0]
    job.transposed = g.m == 1
    if job.transposed:
        transpose_problem(&t, g)
    job.slice = rows_of_slice(&t)
    if job.slice == 0 or ceil_div(t.m, job.slice) > count:
        return False
    t.m = min(t.m, job.slice)
    return set_stack_operands(&job.kernel, &t, 0, 0, 1)


cdef Way choose_way(const Problem *g, const Stack *s, StackJob *job) noexcept nogil:
    """Choose one way to compute all products of the stack, and set up its job."""
    cdef i8_stack_args *t = &job.kernel
    cdef Dot *d = &job.dot
    cdef int last = s.dims - 1
    cdef bint is_plain = (
        g.kernels.gemm.stack is not NULL and is_product(g) and not g.saturating and g.panels.data is NULL
        and g.four_bits.data is NULL
        and g.c.column == sizeof(int32_t) and g.c.row == g.n * <int64_t>sizeof(int32_t) and g.k > 0
    )
    if is_plain and set_stack_operands(t, g, s.a[last], s.b[last], s.shape[last]):
        t.c_step = s.c[last] // <ptrdiff_t>sizeof(int32_t)
        return BY_REGISTER
    if is_plain and set_slices(job, g, s.shape[last]):
        return BY_SLICES
    if is_plain and g.m == 1 and g.n == 1 and g.a.column == 1 and g.b.row == 1 and (
        g.a.zero_point == (SHIFT if g.a.sign_flip else 0) and g.b.zero_point == (-SHIFT if g.b.sign_flip else 0)
    ):
        d.kernels, d.k, d.x_signed, d.y_signed = g.kernels, g.k, g.a.sign_flip != 0, g.b.sign_flip == 0
        return BY_DOT
    return BY_TILES if skips_plan(g) and not pays_to_transpose(g) else BY_PLAN


cdef void run_dot(const StackJob *j, const Problem *g) noexcept nogil:
    """Compute one product of vectors."""
    cdef Dot d = j.dot
    cdef int64_t sum, kept
    d.x, d.y = g.a.data, g.b.data
    dot(&d, 1, &sum)
    kept = max(<int64_t>INT32_MIN, min(<int64_t>INT32_MAX, sum))
    (<int32_t *>g.c.data)[0] = <int32_t>kept
    if kept != sum:
        g.epilogue.saturated[0] = 1


cdef void run_slices(const StackJob *j, const Problem *g, int64_t count) noexcept nogil:
    """Compute a run of products, slice by slice; `g` is the first product."""
    cdef const Stack *s = j.stack
    cdef int last = s.dims - 1
    cdef ptrdiff_t c_step = s.c[last] // <ptrdiff_t>sizeof(int32_t)
    cdef Problem t
    if j.transposed:
        transpose_problem(&t, g)
        multiply_slices(&t, j.slice, s.b[last], s.a[last], c_step, count)
    else:
        multiply_slices(g, j.slice, s.a[last], s.b[last], c_step, count)


cdef int run_some(const void *job, int64_t part, int64_t parts) noexcept nogil:
    """Compute one thread's problems of a stack, run by run. Return 0, or -1 if there is no memory."""
    cdef const StackJob *j = <const StackJob *>job
    cdef const Stack *s = j.stack
    cdef Problem g = j.first
    cdef int last = s.dims - 1
    cdef int64_t index = share(j.shared, part, parts), end = share(j.shared, part + 1, parts), count, _i
    cdef int64_t position[cnp.NPY_MAXDIMS]
    if index == end:
        return 0
    g.threads = 1
    set_matrices(&g, s, index, position)
    while index < end:
        count = min(end - index, s.shape[last] - position[last])
        index += count
        if j.way == BY_REGISTER:
            multiply_registers(&j.kernel, &g, count)
        elif j.way == BY_SLICES:
            run_slices(j, &g, count)
        else:
            for _i in range(count):
                if j.way == BY_DOT:
                    run_dot(j, &g)
                elif j.way == BY_TILES:
                    run_tiny(&g, NULL)
                elif gemm(&g):
                    return -1
                step_matrices(&g, s, last, 1)
            position[last] += count
        next_run(&g, s, position)
    return 0


cdef int run_stack(Problem *g, const Stack *s, str name) except -1:
    """Compute a stack of problems. The first problem is `g`. Each thread gets an equal number of whole problems. All
    threads together compute the remaining problems one by one.

    Return whether an element saturated.
    """
    cdef StackJob job
    cdef double work = <double>g.m * g.n * (g.k + 1)
    cdef int saturated = 0, threads = max_threads()
    cdef int64_t i
    cdef int64_t position[cnp.NPY_MAXDIMS]
    if g.m == 0 or g.n == 0:
        return 0  # all results are empty, and their number may be huge
    g.threads, g.epilogue.saturated = threads, &saturated
    job.first, job.stack = g[0], s
    job.shared = 0 if verbose else s.count if is_tiny(g) else s.count - s.count % threads
    job.way = choose_way(g, s, &job)
    work *= job.shared
    threads = threads_for(work, thread_work(g), <double>job.shared)
    check_memory(run_work(run_some, &job, threads, work, thread_work(g), KEEPS_GIL_WORK), name)
    for i in range(job.shared, s.count):
        g[0] = job.first
        set_matrices(g, s, i, position)
        saturated |= run_problem(g, name)
    return saturated
