"""Products of many rows, few columns and a small K: all of B, and several rows of A, fit a register.

The kernel of stacks (csrc/gemm/stack_body.h) multiplies a few rows of A by B in one step. In this path all steps share
B; in a stack of products (gemm/stack.pyx) each step has its own B.
"""

from libc.stddef cimport ptrdiff_t
from libc.stdint cimport int32_t, int64_t, uint8_t

from int8blas.core.kernels cimport (
    I8_STACK_DEPTH, I8_STACK_DOTS, I8_STACK_LINES, I8_STACK_RUN_DEPTH, I8_STACK_RUNS, I8_STACK_SIDE, I8_STACK_UNIT,
    I8_STACK_UNITS, i8_stack_args, i8_stack_operand)
from int8blas.core.split cimport part_count, share, split
from int8blas.core.threads cimport parallel_for
from int8blas.gemm.operand cimport SHIFT, SIGN_BIT, Operand
from int8blas.gemm.path cimport Description, Path, Plan, Planned, as_capsule
from int8blas.gemm.paths.sizes cimport fits_register, is_register, is_short_dot, is_stack_of_dots, rows_in_register
from int8blas.gemm.problem cimport busy_threads, thread_work

cdef enum:
    STACK_SPAN = 1 << 28        # two elements of one matrix in a stack are less than this many bytes apart
    # The maximum number of multiply-adds of a product. For 20 x 20 x 20 on Zen 4, the kernel of stacks takes 176 ns
    # (AVX512-VNNI) and 327 ns (AVX2), and tiles take 162 ns and 666 ns. For 32 x 32 x 32, the kernel takes 463 ns
    # (AVX512-VNNI) and 1244 ns (AVX2), and tiles take 381 ns and 910 ns.
    STACK_WORK = 1 << 13
    # The minimum K for which a C of one element always has the form I8_STACK_DOTS. With a K below SINGLE_K, operands
    # that fit a unit have the form I8_STACK_UNITS, which takes two shuffles for every two k.
    SINGLE_K = 9
    # The minimum number of products in a run with k > 1: the lanes of an AVX2 vector. The elements of equal index of
    # these products are contiguous, or one element that all products share.
    LEAST_RUN = 8


cdef bint set_operand(i8_stack_operand *x, const Operand *from_, int64_t rows, int64_t columns, ptrdiff_t step,
                      uint8_t flip, int64_t zero) noexcept nogil:
    """Set an operand, except its address. Return whether the strides of the operand fit the arguments."""
    cdef ptrdiff_t row = from_.row if rows > 1 else 0, column = from_.column if columns > 1 else 0
    cdef ptrdiff_t down = (rows - 1) * row, right = (columns - 1) * column
    if not -STACK_SPAN < down < STACK_SPAN or not -STACK_SPAN < right < STACK_SPAN:
        return False
    x.first = <int>(-min(<ptrdiff_t>0, down) - min(<ptrdiff_t>0, right))
    x.span = <int>(max(down, -down) + max(right, -right) + 1)
    x.row, x.column, x.step, x.flip, x.zero = <int>row, <int>column, step, flip, <int32_t>zero
    return True


cdef bint set_stack_operands(i8_stack_args *t, const Problem *g, ptrdiff_t a_step, ptrdiff_t b_step,
                             int64_t count) noexcept nogil:
    """Set the sizes and operands in the arguments of the kernel of stacks, except addresses and the step of C. Return
    whether the kernel takes a run of `count` products of this size."""
    cdef bint is_single = g.m == 1 and g.n == 1 and g.k >= SINGLE_K
    cdef bint is_run = g.m == 1 and g.n == 1 and (
        g.k == 1 or (count >= LEAST_RUN and g.k <= I8_STACK_RUN_DEPTH and 0 <= a_step <= 1 and 0 <= b_step <= 1))
    if not is_run and (max(g.m, g.n, g.k) > I8_STACK_DEPTH or g.m * g.n * g.k > STACK_WORK):
        return False
    t.m, t.n, t.k = <int>g.m, <int>g.n, <int>g.k
    if not (
        set_operand(&t.a, &g.a, g.m, g.k, a_step, g.a.sign_flip, g.a.zero_point)
        and set_operand(&t.b, &g.b, g.k, g.n, b_step, g.b.sign_flip ^ SIGN_BIT, g.b.zero_point + SHIFT)
    ):
        return False
    if is_run:
        t.form = I8_STACK_RUNS
        return True
    if is_single:
        t.form = I8_STACK_DOTS
    elif max(g.m * g.n, g.k, <int64_t>t.a.span, <int64_t>t.b.span) <= I8_STACK_UNIT:
        t.form = I8_STACK_UNITS
    elif g.m == 1 and g.n == 1:
        t.form = I8_STACK_RUNS
    else:
        t.form = I8_STACK_DOTS if is_stack_of_dots(g) else I8_STACK_LINES
    return t.form != I8_STACK_LINES or max(g.m, g.n, g.k) <= I8_STACK_SIDE


cdef void multiply_registers(const i8_stack_args *operands, const Problem *g, int64_t count) noexcept nogil:
    """Multiply `count` pairs of matrices; `g` is the product of the first pair."""
    cdef i8_stack_args t = operands[0]
    t.count = count
    t.a.data, t.b.data = g.a.data - t.a.first, g.b.data - t.b.first
    t.c = <int32_t *>g.c.data
    g.kernels.gemm.stack(&t)


cdef int64_t rows_of_slice(const Problem *g) noexcept nogil:
    """Return the number of rows of A that one call of the kernel of stacks takes from each long matrix of a stack, or
    0 if other paths are faster."""
    cdef i8_stack_operand a
    if not set_operand(&a, &g.a, g.m, g.k, 0, 0, 0):
        return 0
    return I8_STACK_DEPTH if is_short_dot(g) else rows_in_register(g) if fits_register(g) else 0


cdef void multiply_slices(const Problem *g, int64_t rows, ptrdiff_t a_step, ptrdiff_t b_step, ptrdiff_t c_step,
                          int64_t count) noexcept nogil:
    """Multiply `count` pairs of matrices, `rows` rows of all matrices A at a time. `g` is the product of the first
    pair; `c_step` is in elements."""
    cdef Problem own = g[0]
    cdef i8_stack_args t
    cdef i8_stack_operand a
    cdef int64_t first = 0
    set_operand(&a, &g.a, g.m, g.k, a_step, 0, 0)
    while first < g.m:
        own.m = min(rows, g.m - first)
        own.a.data = g.a.data + first * g.a.row
        own.c.data = g.c.data + first * g.c.row
        set_stack_operands(&t, &own, a_step, b_step, count)
        if t.form != I8_STACK_UNITS:
            # The span of a whole matrix lets the kernel read rows beyond the slice, so the kernel copies no rows.
            t.a.first, t.a.span = <int>(a.first + first * g.a.row), a.span
        t.c_step = c_step
        multiply_registers(&t, &own, count)
        first += rows


cdef bint takes_register(const Problem *g, const Plan *p) noexcept nogil:
    """Return whether several rows fit a register, and C is contiguous and needs no epilogue."""
    return is_register(g)


cdef void plan_register(const Problem *g, Plan *plan) noexcept nogil:
    """Choose the number of threads. Each thread gets whole registers of rows."""
    split(g.m // rows_in_register(g), 1, busy_threads(g, thread_work(g), g.m), False, &plan.grid)


cdef int multiply_rows(const void *job, int64_t part, int64_t parts) noexcept nogil:
    """Multiply one thread's rows; the last thread also computes the rows that do not fill a register. Return 0."""
    cdef const Problem *g = (<const Planned *>job).g
    cdef int64_t rows = rows_in_register(g), count = g.m // rows, rest = g.m % rows
    cdef int64_t first = share(count, part, parts), end = share(count, part + 1, parts)
    cdef Problem own = g[0]
    cdef i8_stack_args t
    own.m = rows
    own.a.data += first * rows * g.a.row
    own.c.data += first * rows * g.c.row
    t.c_step = rows * g.n
    set_stack_operands(&t, &own, rows * g.a.row, 0, end - first)
    multiply_registers(&t, &own, end - first)
    if rest and part == parts - 1:
        own.m = rest
        own.a.data = g.a.data + count * rows * g.a.row
        own.c.data = g.c.data + count * rows * g.c.row
        set_stack_operands(&t, &own, 0, 0, 1)
        multiply_registers(&t, &own, 1)
    return 0


cdef int run_register(const Problem *g, const Plan *plan) noexcept nogil:
    """Compute a planned problem. Return 0."""
    cdef Planned job = Planned(g, plan)
    if g.c.dry_run:
        return 0
    return parallel_for(multiply_rows, &job, part_count(&plan.grid), part_count(&plan.grid))


cdef void describe_register(const Problem *g, const Plan *plan, Description *d) noexcept nogil:
    """Describe the plan: a tile has the rows of A that share a register, and all columns. Threads divide tiles."""
    d.tile[0], d.tile[1] = rows_in_register(g), g.n
    d.unit[0] = rows_in_register(g)


cdef Path path = Path(
    name=b"register", summary=b"few columns and a few k, so that several rows of A, and B, fit a register",
    by_size=True, names_kernel=True, sums_any_k=False,
    takes=takes_register, specialize=NULL, plan=plan_register, run=run_register, describe=describe_register)
PATH = as_capsule(&path, sizeof(Plan))
