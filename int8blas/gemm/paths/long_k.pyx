"""The path for few rows and columns of C and a long K. The path reads both operands once, and in place if they are
contiguous along k.

Reading takes most of the time, so the path packs as little as possible. K has no limit, because the kernels
(csrc/gemm/long_k_body.h) add their sums in s64. Threads divide K. Each thread multiplies its part of K block by block::

    multiply_k_range   adds the products of one part of K to totals of all of C
      for each block of K, which stays in the cache:
        copy_vectors   copies an operand that is not contiguous along k
        for a few vectors x and y at a time:  the kernel

The vectors x belong to the operand with more vectors (rows of A or columns of B); the vectors y belong to the other
operand. The kernels take both signs without a shift. If there are zero points, the path also sums the elements of each
vector.
"""

from libc.stddef cimport ptrdiff_t
from libc.stdint cimport int64_t, uint8_t
from libc.string cimport memset

from int8blas.core.kernels cimport I8_LONG_K_SEGMENT, i8_kernels, i8_long_k_args, i8_output_args
from int8blas.core.memory cimport LINE, acquire, release
from int8blas.core.split cimport ceil_div, round_down, round_up, share
from int8blas.core.threads cimport paid_threads, run_parts, threads_for_bytes
from int8blas.gemm.copies cimport i8_copy_vectors
from int8blas.gemm.operand cimport SHIFT, SIGN_BIT, Operand, zero_of
from int8blas.gemm.output cimport set_target
from int8blas.gemm.path cimport MIN_PART_K, Description, Path, Plan, as_capsule
from int8blas.gemm.paths.sizes cimport LONG_K_SIDE, is_long_k
from int8blas.gemm.problem cimport Problem, is_generated, is_quantized, matrix_of, thread_work

cdef enum:
    # The minimum bytes of vectors for which waking one more thread saves time. The limit is higher than the limits
    # of other paths, because one thread reads 1 MiB from its L2 cache in 5 us.
    LONG_THREAD_BYTES = 1 << 20
    # The size of a block. If the path reads all vectors in place, a block has IN_PLACE_K k, because long streams are
    # fastest: 8 x 8 x 65536 takes 17.2 us with 1024 k, 15.1 us with 4096 k and 15.5 us with 16384 k (AVX512-VNNI, Zen
    # 5). If the path copies some vectors, a block has COPIED_BYTES bytes of vectors, which is half of an L1 cache,
    # because the source of the copies needs the other half. With a copied B, 8 x 8 x 65536 takes 33.6 us with 4 KiB,
    # 24.2 us with 16 KiB and 23.9 us with 64 KiB.
    IN_PLACE_K = 4096
    COPIED_BYTES = 1 << 14
    # TOTALS is the maximum number of elements of C. SUMS also counts a sum for each vector of A and B.
    TOTALS = LONG_K_SIDE * LONG_K_SIDE
    SUMS = TOTALS + 2 * LONG_K_SIDE


cdef struct LongKPlan:
    Plan common
    int64_t kc                  # k of a block


# The vectors of an operand: rows of A, or columns of B.
cdef struct Side:
    const uint8_t *data
    ptrdiff_t vector, step      # bytes from one vector to the next; bytes from one k of a vector to the next
    const uint8_t *end          # the end of the vectors' memory
    int count
    bint is_signed
    int64_t *sums               # the sum of each vector before the shift by 128, or NULL


cdef struct LongK:
    const Problem *g
    const LongKPlan *p
    Side x, y
    bint x_is_a
    int64_t *sums               # for each part: totals of C, sums of vectors of A, sums of vectors of B


cdef bint takes_long_k(const Problem *g, const Plan *p) noexcept nogil:
    """Return whether C has few rows and columns, K is long, and both operands are plain."""
    return (
        is_long_k(g) and not is_quantized(g) and not g.saturating and not is_generated(g)
        and (matrix_of(g) is NULL or g.n <= matrix_of(g).dots_columns)
    )


cdef void plan_long_k(const Problem *g, Plan *plan) noexcept nogil:
    """Choose the size of blocks and the number of threads. Each thread takes a part of K. The kernels add in s64, so
    there are no segments."""
    cdef LongKPlan *p = <LongKPlan *>plan
    cdef double bytes_ = <double>(g.m + g.n) * g.k
    cdef int64_t threads = paid_threads(
        max(<double>g.m * g.n * g.k / thread_work(g), bytes_ / LONG_THREAD_BYTES), 1, <double>g.threads
    )
    plan.k_parts = max(<int64_t>1, min(threads, g.k // MIN_PART_K))
    plan.segments = plan.k_parts if not plan.wide else round_up(ceil_div(g.k, I8_LONG_K_SEGMENT), plan.k_parts)
    p.kc = g.k
    if g.a.column != 1 or g.b.row != 1:
        p.kc = round_down(min(<int64_t>IN_PLACE_K, COPIED_BYTES // (g.m + g.n)), LINE)
    elif g.m > g.kernels.gemm.long_k.rows or g.n > g.kernels.gemm.long_k.columns:
        p.kc = IN_PLACE_K


cdef void multiply_block(const i8_kernels *kernels, const Side *x, const Side *y, int64_t k, int64_t *totals,
                         ptrdiff_t x_total, ptrdiff_t y_total) noexcept nogil:
    """Add the products of all vectors x and y over a block of K to the totals. The vectors are contiguous in the
    block."""
    cdef i8_long_k_args t
    cdef int i = 0, j, rows, columns
    t.k = k
    t.x_row, t.y_row = x.vector, y.vector
    t.dst_row, t.dst_column = x_total, y_total
    while i < x.count:
        rows = vectors_of_kernel(x.count - i, kernels.gemm.long_k.rows)
        t.x = x.data + i * x.vector
        j = 0
        while j < y.count:
            columns = vectors_of_kernel(y.count - j, kernels.gemm.long_k.columns)
            t.y = y.data + j * y.vector
            t.dst = totals + i * x_total + j * y_total
            kernels.gemm.long_k.of[x.is_signed][y.is_signed][rows // 2][columns // 2](&t)
            j += columns
        i += rows


cdef void add_sums(const i8_kernels *kernels, const Side *x, int64_t k) noexcept nogil:
    """Add the sums of vectors over a block of K to the earlier sums. The vectors are contiguous in the block."""
    cdef int64_t sums[LONG_K_SIDE]
    cdef int i
    kernels.packing.row_sums(sums, x.count, k, x.data, x.vector, 1, SIGN_BIT if x.is_signed else 0)
    for i in range(x.count):
        x.sums[i] += sums[i] - (SHIFT * k if x.is_signed else 0)


cdef void copy_vectors(const i8_kernels *kernels, Side *x, int64_t k, uint8_t *memory) noexcept nogil:
    """Copy a block of vectors that are not contiguous along k to contiguous vectors in `memory`."""
    cdef int i
    cdef ptrdiff_t vector = round_up(k, LINE)
    if x.vector == 1 and x.count > 1:
        i8_copy_vectors(memory, vector, x.count, k, x.data, x.step, x.end)
    for i in range(0 if x.vector == 1 and x.count > 1 else x.count):
        kernels.packing.pack_panel(memory + i * vector, 1, 1, k, x.data + i * x.vector, x.vector, x.step, 0)
    x.data, x.vector, x.step = memory, vector, 1


cdef const uint8_t *end_of(const Side *x, int64_t k) noexcept nogil:
    """Return the end of vectors of `k` elements: the address after their last byte."""
    return x.data + max(<ptrdiff_t>0, (k - 1) * x.step) + max(<ptrdiff_t>0, (x.count - 1) * x.vector) + 1


cdef int multiply_k_range(const void *job, int64_t part, int64_t parts) noexcept nogil:
    """Compute all of C over one part of K. Return 0, or -1 if there is no memory."""
    cdef const LongK *j = <const LongK *>job
    cdef const i8_kernels *kernels = j.g.kernels
    cdef int64_t lines = ceil_div(j.g.k, LINE)
    cdef int64_t k = share(lines, part, parts) * LINE, end = min(share(lines, part + 1, parts) * LINE, j.g.k), size
    cdef int64_t *totals = j.sums + part * SUMS
    cdef ptrdiff_t x_total = j.g.n if j.x_is_a else 1, y_total = 1 if j.x_is_a else j.g.n
    cdef bint copies = j.x.step != 1 or j.y.step != 1
    cdef uint8_t *memory = NULL
    cdef Side x, y
    if copies:
        memory = <uint8_t *>acquire(2 * LONG_K_SIDE * round_up(j.p.kc, LINE))
        if memory is NULL:
            return -1
    memset(totals, 0, SUMS * sizeof(int64_t))
    while k < end:
        size = min(j.p.kc, end - k)
        x, y = j.x, j.y
        x.data += k * x.step
        y.data += k * y.step
        if x.sums is not NULL:
            x.sums += part * SUMS
        if y.sums is not NULL:
            y.sums += part * SUMS
        if x.step != 1:
            copy_vectors(kernels, &x, size, memory)
        if y.step != 1:
            copy_vectors(kernels, &y, size, memory + LONG_K_SIDE * round_up(j.p.kc, LINE))
        multiply_block(kernels, &x, &y, size, totals, x_total, y_total)
        if x.sums is not NULL:
            add_sums(kernels, &x, size)
        if y.sums is not NULL:
            add_sums(kernels, &y, size)
        k += size
    if copies:
        release(memory)
    return 0


cdef void store_c(const Problem *g, int64_t *sums) noexcept nogil:
    """Subtract the terms of zero points from the totals and store them to C."""
    cdef const int64_t *a_sums = sums + TOTALS
    cdef const int64_t *b_sums = a_sums + LONG_K_SIDE
    cdef int64_t a_shift = SHIFT if g.a.sign_flip else 0, b_shift = -SHIFT if g.b.sign_flip else 0, a_zero, b_zero, i, j
    cdef i8_output_args o
    for i in range(g.m):
        a_zero = zero_of(&g.a, i) - a_shift
        for j in range(g.n):
            b_zero = zero_of(&g.b, j) - b_shift
            sums[i * g.n + j] += g.k * a_zero * b_zero - a_zero * b_sums[j] - b_zero * a_sums[i]
    memset(&o, 0, sizeof(o))
    set_target(g, &o)
    o.rows, o.cols = <int>g.m, <int>g.n
    o.acc64, o.acc_row = sums, g.n
    o.c = g.c.data
    g.kernels.stage.output(&o)


# The sum of one part of two vectors, on a separate cache line.
cdef struct DotParts:
    const Dot *d
    int64_t *sums


cdef int64_t dot_of(const Dot *d, int64_t first, int64_t end) noexcept nogil:
    """Return the product of two vectors from k = `first` to `end`."""
    cdef i8_long_k_args t
    cdef int64_t sum = 0
    t.k = end - first
    t.x, t.y = d.x + first, d.y + first
    t.x_row = t.y_row = 0
    t.dst = &sum
    t.dst_row = t.dst_column = 0
    d.kernels.gemm.long_k.of[d.x_signed][d.y_signed][0][0](&t)
    return sum


cdef int dot_part(const void *job, int64_t part, int64_t parts) noexcept nogil:
    """Compute one thread's part of K. Return 0."""
    cdef const DotParts *j = <const DotParts *>job
    cdef int64_t lines = ceil_div(j.d.k, LINE)
    j.sums[part * (LINE // <int>sizeof(int64_t))] = dot_of(
        j.d, share(lines, part, parts) * LINE, min(share(lines, part + 1, parts) * LINE, j.d.k)
    )
    return 0


cdef int dot_threads(const Dot *d, int threads) noexcept nogil:
    """Return the number of threads for which the product of two vectors has enough work, at most `threads`."""
    cdef double work = <double>d.k
    threads = threads_for_bytes(work, d.kernels.tuning.thread_work, 2 * work, LONG_THREAD_BYTES, threads)
    return <int>max(<int64_t>1, min(<int64_t>threads, d.k // MIN_PART_K))


cdef int dot(const Dot *d, int threads, int64_t *sum) noexcept nogil:
    """Compute the product of two vectors with at most `threads` threads. Return 0, or -1 if there is no memory."""
    cdef DotParts job
    cdef int i
    threads = dot_threads(d, threads)
    if threads == 1:
        sum[0] = dot_of(d, 0, d.k)
        return 0
    job.d, job.sums = d, <int64_t *>acquire(threads * LINE)
    if job.sums is NULL:
        return -1
    run_parts(dot_part, &job, threads, threads)
    sum[0] = 0
    for i in range(threads):
        sum[0] += job.sums[i * (LINE // <int>sizeof(int64_t))]
    release(job.sums)
    return 0


cdef inline bint has_own_zero(const Operand *x, int64_t shift) noexcept nogil:
    """Return whether an operand had a zero point before the shift."""
    return x.zero_points is not NULL or x.zero_point != (shift if x.sign_flip else 0)


cdef int run_long_k(const Problem *g, const Plan *plan) noexcept nogil:
    """Compute a planned problem. Return 0, or -1 if there is no memory."""
    cdef int64_t own[SUMS]
    cdef LongK job
    cdef Side a, b
    cdef int64_t part, i
    cdef int status
    job.g, job.p, job.sums, job.x_is_a = g, <const LongKPlan *>plan, own, g.m >= g.n
    if plan.k_parts > 1:
        job.sums = <int64_t *>acquire(plan.k_parts * SUMS * sizeof(int64_t))
        if job.sums is NULL:
            return -1
    a.data, a.vector, a.step, a.count = g.a.data, g.a.row, g.a.column, <int>g.m
    b.data, b.vector, b.step, b.count = g.b.data, g.b.column, g.b.row, <int>g.n
    a.end, b.end = end_of(&a, g.k), end_of(&b, g.k)
    a.is_signed, b.is_signed = g.a.sign_flip != 0, g.b.sign_flip == 0
    # Each zero point is multiplied by sums of the other operand.
    a.sums = job.sums + TOTALS if has_own_zero(&g.b, -SHIFT) else NULL
    b.sums = job.sums + TOTALS + LONG_K_SIDE if has_own_zero(&g.a, SHIFT) else NULL
    job.x, job.y = a, b
    if not job.x_is_a:
        job.x, job.y = b, a
    status = run_parts(multiply_k_range, &job, plan.k_parts, <int>plan.k_parts)
    if status == 0:
        for part in range(1, plan.k_parts):
            for i in range(SUMS):
                job.sums[i] += job.sums[part * SUMS + i]
        store_c(g, job.sums)
    if plan.k_parts > 1:
        release(job.sums)
    return status


cdef void describe_long_k(const Problem *g, const Plan *plan, Description *d) noexcept nogil:
    """Describe the plan: the size of the largest kernel."""
    d.tile[0], d.tile[1] = g.kernels.gemm.long_k.rows, g.kernels.gemm.long_k.columns


cdef Path path = Path(
    name=b"long_k",
    summary=b"few rows and columns and a long K, so both operands are read once, and sums are kept in int64",
    by_size=False, names_kernel=True, sums_any_k=True,
    takes=takes_long_k, specialize=NULL, plan=plan_long_k, run=run_long_k, describe=describe_long_k)
PATH = as_capsule(&path, sizeof(LongKPlan))
